/* SPDX-License-Identifier: Apache-2.0 */
/* A run allocates nothing: allocations of every kind, on every thread, are counted during 1,000
 * runs of plans made by hand. */
#include "plans.h"
#include "support/counted_memory.h"

#include <stdlib.h>

static void the_counter_counts(void **state) {
    uint64_t before = counted_calls();
    void *volatile memory = malloc(10);
    (void)state;
    free(memory);
    assert_int_equal(counted_calls() - before, 2);
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    rlx_exec_destroy(exec);
    assert_true(counted_calls() - before > 10);
}

/* Sets, runs and reads 1,000 times; returns how many allocations that made. */
static uint64_t count_runs(rlx_exec *exec, const char *input, const void *x, uint64_t bytes,
                           const char *output, uint32_t *out_failures) {
    static float y[160 * 160];
    uint64_t before = counted_calls();
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t got;
        *out_failures += rlx_exec_set(exec, 0, input, x, bytes) != RLX_OK;
        *out_failures += rlx_exec_run(exec, 0) != RLX_OK;
        *out_failures += rlx_exec_read_f32(exec, 0, output, y, 160 * 160, &got) != RLX_OK;
    }
    return counted_calls() - before;
}

static void a_thousand_runs_allocate_nothing(void **state) {
    static float x[160 * 160];
    const rlx_exec_options modes[] = {{.size = sizeof(rlx_exec_options)},
                                      {.size = sizeof(rlx_exec_options), .profile = true},
                                      {.size = sizeof(rlx_exec_options), .poison = true}};
    rlx_test_random random = rlx_test_seed(3);
    (void)state;
    rlx_test_fill_f32(&random, x, 160 * 160, -1, 1);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t failures = 0;
        rlx_exec *small = exec_of(plan_mlp(), &modes[i]);
        rlx_exec *sized = exec_of(plan_nonzero(), &modes[i]);
        assert_int_equal(count_runs(small, "x", x, 16, "y", &failures), 0);
        assert_int_equal(count_runs(sized, "x", x, 24, "places", &failures), 0);
        assert_int_equal(failures, 0);
        rlx_exec_destroy(sized);
        rlx_exec_destroy(small);
    }
}

/* The large plan's steps go to the pool, so its threads are counted too. */
static void shared_steps_allocate_nothing_on_any_thread(void **state) {
    static float x[160 * 160];
    rlx_device *device = cpu_of(3);
    rlx_program *program = program_of(device, plan_large());
    rlx_exec *exec = NULL;
    uint32_t failures = 0;
    (void)state;
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_int_equal(count_runs(exec, "x", x, sizeof x, "y", &failures), 0);
    assert_int_equal(failures, 0);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(a_thousand_runs_allocate_nothing),
        cmocka_unit_test(shared_steps_allocate_nothing_on_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
