/* SPDX-License-Identifier: Apache-2.0 */
/* The same bits for any number of threads and any floating-point mode of the caller; executables
 * side by side. Threads return what they saw; the test thread checks. */
#include "base/thread.h"
#include "plans.h"

#include <fenv.h>

enum { N = 160, RUNS = 20 };

static void fill_input(float *x, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    rlx_test_fill_f32(&random, x, N * N, -1, 1);
}

/* Output y of the large plan for the input of a seed. */
static rlx_status run_large(rlx_exec *exec, uint64_t seed, float *y) {
    static _Thread_local float x[N * N];
    fill_input(x, seed);
    RLX_TRY(rlx_exec_set_f32(exec, 0, "x", x, N * N));
    RLX_TRY(rlx_exec_run(exec, 0));
    return rlx_exec_read_f32(exec, 0, "y", y, N, NULL);
}

static rlx_exec *large_on(uint32_t threads) {
    rlx_device *device = cpu_of(threads);
    rlx_program *program = program_of(device, plan_large());
    rlx_exec *exec = NULL;
    assert_ok(rlx_exec_create(program, NULL, &exec));
    rlx_program_release(program);
    rlx_device_release(device);
    return exec;
}

static void any_number_of_threads_gives_the_same_bits(void **state) {
    const uint32_t counts[] = {1, 2, 3, 8};
    float expected[N], y[N];
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        rlx_exec *exec = large_on(counts[i]);
        for (uint32_t k = 0; k < 3; k++) {
            assert_ok(run_large(exec, 5, i == 0 && k == 0 ? expected : y));
            if (i != 0 || k != 0) assert_memory_equal(y, expected, sizeof y);
        }
        rlx_exec_destroy(exec);
    }
}

static void the_callers_floating_point_mode_does_not_matter(void **state) {
    rlx_exec *exec = large_on(2);
    float expected[N], y[N];
    const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    (void)state;
    assert_ok(run_large(exec, 5, expected));
    for (uint32_t i = 0; i < 3; i++) {
        fesetround(modes[i]);
        rlx_status status = rlx_exec_run(exec, 0); /* x survives */
        int after = fegetround();
        volatile float one = 1, tiny = 0x1p-26f;
        bool is_up = one + tiny != one;
        fesetround(FE_TONEAREST);
        assert_ok(status);
        assert_int_equal(after, modes[i]); /* restored */
        assert_int_equal(is_up, modes[i] == FE_UPWARD);
        assert_ok(rlx_exec_read_f32(exec, 0, "y", y, N, NULL));
        assert_memory_equal(y, expected, sizeof y);
    }
    rlx_exec_destroy(exec);
}

typedef struct runner {
    rlx_exec *exec;
    uint64_t seed;
    float expected[N];
    uint32_t failures, differences;
} runner;

static void *run_often(void *argument) {
    runner *r = argument;
    for (uint32_t i = 0; i < RUNS; i++) {
        float y[N];
        if (run_large(r->exec, r->seed, y) != RLX_OK) r->failures++;
        if (memcmp(y, r->expected, sizeof y) != 0) r->differences++;
    }
    return NULL;
}

static void executables_run_side_by_side(void **state) {
    enum { RUNNERS = 3 };
    rlx_device *device = cpu_of(2);
    rlx_program *program = program_of(device, plan_large());
    static runner runners[RUNNERS];
    pthread_t threads[RUNNERS];
    (void)state;
    for (uint32_t i = 0; i < RUNNERS; i++) {
        runners[i] = (runner){.seed = i};
        assert_ok(rlx_exec_create(program, NULL, &runners[i].exec));
        assert_ok(run_large(runners[i].exec, i, runners[i].expected));
    }
    for (uint32_t i = 0; i < RUNNERS; i++)
        assert_ok(rlx_thread_start(&threads[i], run_often, &runners[i]));
    for (uint32_t i = 0; i < RUNNERS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < RUNNERS; i++) {
        assert_int_equal(runners[i].failures, 0);
        assert_int_equal(runners[i].differences, 0);
        rlx_exec_destroy(runners[i].exec);
    }
    rlx_program_release(program);
    rlx_device_release(device);
}

typedef struct maker {
    rlx_program *program;
    uint32_t failures;
} maker;

static void *make_often(void *argument) {
    maker *m = argument;
    for (uint32_t i = 0; i < RUNS; i++) {
        rlx_exec *exec = NULL;
        float y[N];
        if (rlx_exec_create(m->program, NULL, &exec) != RLX_OK || run_large(exec, i, y) != RLX_OK) {
            m->failures++;
        }
        rlx_exec_destroy(exec);
    }
    return NULL;
}

static void threads_make_executables_of_one_program(void **state) {
    rlx_device *device = cpu_of(2);
    maker m[2] = {{program_of(device, plan_large()), 0}, {0}};
    pthread_t threads[2];
    (void)state;
    m[1].program = m[0].program;
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(rlx_thread_start(&threads[i], make_often, &m[i]));
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(m[0].failures + m[1].failures, 0);
    rlx_program_release(m[0].program);
    rlx_device_release(device);
}

/* Two threads, one executable: each call either runs whole or says busy. */
static void *run_rudely(void *argument) {
    runner *r = argument;
    for (uint32_t i = 0; i < RUNS; i++) {
        rlx_status status = rlx_exec_run(r->exec, 0);
        if (status != RLX_OK && status != RLX_BUSY) r->failures++;
    }
    return NULL;
}

static void one_executable_in_two_threads_is_busy_not_broken(void **state) {
    static runner runners[2];
    pthread_t threads[2];
    float expected[N], y[N];
    rlx_exec *exec = large_on(2);
    (void)state;
    assert_ok(run_large(exec, 1, expected));
    for (uint32_t i = 0; i < 2; i++) {
        runners[i] = (runner){.exec = exec};
        assert_ok(rlx_thread_start(&threads[i], run_rudely, &runners[i]));
    }
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(runners[0].failures + runners[1].failures, 0);
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, N, NULL));
    assert_memory_equal(y, expected, sizeof y);
    rlx_exec_destroy(exec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(the_callers_floating_point_mode_does_not_matter),
        cmocka_unit_test(executables_run_side_by_side),
        cmocka_unit_test(threads_make_executables_of_one_program),
        cmocka_unit_test(one_executable_in_two_threads_is_busy_not_broken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
