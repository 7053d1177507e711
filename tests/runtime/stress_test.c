/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads make, run, clone, cancel and destroy executables on a few shared devices at once;
 * every finished run has the bits that one thread alone gives. Some rounds as it stands;
 * `test_runtime_stress SECONDS` goes on for that long. Threads count, the test thread checks. */
#include "base/thread.h"
#include "plans.h"

#include <stdlib.h>

enum { N = 160, SEEDS = 4, DEVICES = 4, WORKERS = 8, ROUNDS = 6 };

static uint64_t seconds; /* 0: ROUNDS */

typedef struct stress_world {
    float inputs[SEEDS][N * N];
    float expected[SEEDS][N];
    rlx_program *programs[DEVICES]; /* on devices of 1, 2, 3 and 8 threads */
    uint64_t end_ns;
} stress_world;

typedef struct stress_worker {
    stress_world *world;
    rlx_test_random random;
    uint64_t runs, cancelled, failures, differences;
} stress_worker;

static rlx_status run_once(rlx_exec *exec, const stress_world *world, uint32_t seed, float *y) {
    RLX_TRY(rlx_exec_set_f32(exec, 0, "x", world->inputs[seed], N * N));
    RLX_TRY(rlx_exec_run(exec, 0));
    return rlx_exec_read_f32(exec, 0, "y", y, N, NULL);
}

/* One run, now and then cancelled before it begins. */
static void run_some(stress_worker *self, rlx_exec *exec) {
    uint32_t seed = (uint32_t)rlx_test_below(&self->random, SEEDS);
    bool is_cancelled = rlx_test_below(&self->random, 8) == 0;
    float y[N];
    if (is_cancelled) rlx_exec_cancel(exec);
    rlx_status status = run_once(exec, self->world, seed, y);
    self->runs++;
    if (is_cancelled && status == RLX_CANCELLED) {
        self->cancelled++;
    } else if (status != RLX_OK || is_cancelled) {
        self->failures++;
    } else if (memcmp(y, self->world->expected[seed], sizeof y) != 0) {
        self->differences++;
    }
}

static void live_and_die(stress_worker *self) {
    rlx_program *program = self->world->programs[rlx_test_below(&self->random, DEVICES)];
    rlx_exec_options options = {.size = sizeof options,
                                .poison = rlx_test_below(&self->random, 4) == 0,
                                .profile = rlx_test_below(&self->random, 4) == 0};
    rlx_exec *exec = NULL, *twin = NULL;
    if (rlx_exec_create(program, &options, &exec) != RLX_OK) {
        self->failures++;
        return;
    }
    for (uint64_t i = rlx_test_below(&self->random, 4); i > 0; i--)
        run_some(self, exec);
    uint32_t flags = rlx_test_below(&self->random, 2) == 0 ? RLX_CLONE_OWN_ALL : 0;
    if (rlx_exec_clone(exec, flags, &twin) != RLX_OK) self->failures++;
    rlx_exec_destroy(exec);
    if (twin != NULL) run_some(self, twin);
    rlx_exec_destroy(twin);
}

static void *work(void *argument) {
    stress_worker *self = argument;
    for (uint32_t i = 0; seconds != 0 ? rlx_now_ns() < self->world->end_ns : i < ROUNDS; i++)
        live_and_die(self);
    return NULL;
}

static stress_world *make_world(void) {
    static const uint32_t threads[DEVICES] = {1, 2, 3, 8};
    stress_world *world = calloc(1, sizeof *world);
    rlx_exec *exec = NULL;
    assert_non_null(world);
    for (uint32_t i = 0; i < DEVICES; i++) {
        rlx_device *device = cpu_of(threads[i]);
        world->programs[i] = program_of(device, plan_large());
        rlx_device_release(device);
    }
    assert_ok(rlx_exec_create(world->programs[0], NULL, &exec));
    for (uint32_t s = 0; s < SEEDS; s++) {
        rlx_test_random random = rlx_test_seed(s);
        rlx_test_fill_f32(&random, world->inputs[s], (size_t)N * N, -1, 1);
        assert_ok(run_once(exec, world, s, world->expected[s]));
    }
    rlx_exec_destroy(exec);
    world->end_ns = rlx_now_ns() + seconds * UINT64_C(1000000000);
    return world;
}

static void many_executables_in_many_threads_keep_their_bits(void **state) {
    static stress_worker workers[WORKERS];
    pthread_t threads[WORKERS];
    uint64_t runs = 0, cancelled = 0;
    stress_world *world = make_world();
    (void)state;
    for (uint32_t i = 0; i < WORKERS; i++) {
        workers[i] = (stress_worker){.world = world, .random = rlx_test_seed(100 + i)};
        assert_ok(rlx_thread_start(&threads[i], work, &workers[i]));
    }
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(workers[i].failures, 0);
        assert_int_equal(workers[i].differences, 0);
        runs += workers[i].runs;
        cancelled += workers[i].cancelled;
    }
    assert_true(runs >= WORKERS * ROUNDS);
    print_message("%" PRIu64 " runs, %" PRIu64 " of them cancelled\n", runs, cancelled);
    for (uint32_t i = 0; i < DEVICES; i++)
        rlx_program_release(world->programs[i]);
    free(world);
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_executables_in_many_threads_keep_their_bits),
    };
    if (count > 1) seconds = strtoull(arguments[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
