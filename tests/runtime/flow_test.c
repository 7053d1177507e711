/* SPDX-License-Identifier: Apache-2.0 */
/* Jumps, loops, their faults, progress and cancelling. */
#include "plans.h"

static const float ones[4] = {1, 2, 3, 4};

static rlx_status run_loop(rlx_exec *exec, int64_t n, float *y) {
    RLX_TRY(rlx_exec_set_f32(exec, 0, "x", ones, 4));
    RLX_TRY(rlx_exec_set(exec, 0, "n", &n, sizeof n));
    RLX_TRY(rlx_exec_run(exec, 0));
    return rlx_exec_read_f32(exec, 0, "y", y, 4, NULL);
}

static void a_loop_runs_as_often_as_it_is_told(void **state) {
    const rlx_exec_options modes[] = {{.size = sizeof(rlx_exec_options)},
                                      {.size = sizeof(rlx_exec_options), .single_step = true},
                                      {.size = sizeof(rlx_exec_options), .poison = true},
                                      {.size = sizeof(rlx_exec_options), .profile = true}};
    (void)state;
    for (uint32_t mode = 0; mode < 4; mode++) {
        rlx_exec *exec = exec_of(plan_loop(), &modes[mode]);
        for (int64_t n = -1; n <= 10; n++) {
            float y[4], factor = n <= 0 ? 1 : (float)(1 << n);
            assert_ok(run_loop(exec, n, y));
            for (uint32_t i = 0; i < 4; i++)
                assert_true(y[i] == ones[i] * factor);
        }
        rlx_exec_destroy(exec);
    }
}

static void a_loop_past_its_bound_is_a_fault(void **state) {
    rlx_exec *exec = exec_of(plan_loop(), NULL);
    float y[4];
    (void)state;
    assert_status(RLX_FAULT, run_loop(exec, 11, y));
    assert_error_has("node 'guard' (loop): size or count past its bound: 10");
    assert_ok(run_loop(exec, 3, y));
    assert_true(y[3] == 32);
    rlx_exec_destroy(exec);
}

typedef struct watcher {
    uint32_t calls, stop_at, last_step;
    rlx_exec *exec;
    rlx_status seen;
} watcher;

static bool watch(void *user, const rlx_progress *progress) {
    watcher *w = user;
    w->last_step = progress->step;
    w->calls++;
    if (w->exec != NULL) w->seen = rlx_exec_run(w->exec, 0);
    return w->calls != w->stop_at;
}

static void progress_fires_between_stretches_and_cancels(void **state) {
    watcher w = {0};
    rlx_exec_options options = {.size = sizeof options, .progress = watch, .user = &w};
    rlx_exec *exec = exec_of(plan_loop(), &options);
    float y[4];
    (void)state;
    assert_ok(run_loop(exec, 2, y));
    assert_int_equal(w.calls, 9); /* 0-1, then 2 4 6-7 twice, 2, 9 */
    assert_int_equal(w.last_step, 9);
    w = (watcher){.stop_at = 4};
    assert_status(RLX_CANCELLED, run_loop(exec, 2, y));
    assert_error_has("cancelled before step 6 of 10");
    w = (watcher){0};
    assert_ok(run_loop(exec, 2, y));
    rlx_exec_destroy(exec);
}

static void cancel_ends_the_next_run(void **state) {
    rlx_exec *exec = exec_of(plan_loop(), NULL);
    float y[4];
    (void)state;
    rlx_exec_cancel(exec);
    assert_status(RLX_CANCELLED, run_loop(exec, 2, y));
    assert_ok(run_loop(exec, 2, y));
    rlx_exec_destroy(exec);
}

static void a_second_user_is_told_that_it_is_busy(void **state) {
    watcher w = {0};
    rlx_exec_options options = {.size = sizeof options, .progress = watch, .user = &w};
    rlx_exec *exec = exec_of(plan_loop(), &options);
    float y[4];
    (void)state;
    w.exec = exec; /* the callback uses the executable that is running */
    assert_ok(run_loop(exec, 1, y));
    assert_int_equal(w.seen, RLX_BUSY);
    rlx_exec_destroy(exec);
}

/* 0 jump over the first branch unless c; 1 y = x + x; 2 jump to the end; 3 y = relu(x); 4 z = y. */
static rlx_plan *plan_branch(void) {
    hand_plan hand;
    hand_begin(&hand, 1);
    hand_end_prepare(&hand);
    uint32_t x =
        hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_INPUT, "x", RLX_DTYPE_F32, HAND_DIMS(4));
    uint32_t c =
        hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_INPUT, "c", RLX_DTYPE_BOOL, HAND_SCALAR);
    uint32_t y = hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_TEMPORARY, "y", RLX_DTYPE_F32,
                           HAND_DIMS(4));
    uint32_t z = hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_TEMPORARY, "z", RLX_DTYPE_F32,
                           HAND_DIMS(4));
    hand_jump(&hand, 3, c, 0);
    hand_op(&hand, RLX_OP_ADD, "then", HAND_SLOTS(x, x), HAND_SLOTS(y));
    hand_jump(&hand, 4, RLX_NONE, 0);
    hand_op(&hand, RLX_OP_NEG, "else", HAND_SLOTS(x), HAND_SLOTS(y));
    hand_step(&hand, RLX_STEP_COPY, RLX_OP_NONE, NULL, "z", HAND_SLOTS(y), HAND_SLOTS(z));
    hand_end_entry(&hand, "main", HAND_PORTS(x, c), (const bool[]){true, true}, HAND_PORTS(z));
    return hand_finish(&hand);
}

static void a_condition_chooses_the_branch(void **state) {
    rlx_exec *exec = exec_of(plan_branch(), NULL);
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", ones, 4));
    for (uint8_t c = 0; c < 2; c++) {
        float z[4];
        assert_ok(rlx_exec_set(exec, 0, "c", &c, 1));
        assert_ok(rlx_exec_run(exec, 0));
        assert_ok(rlx_exec_read_f32(exec, 0, "z", z, 4, NULL));
        assert_true(z[1] == (c != 0 ? 4 : -2));
    }
    rlx_exec_destroy(exec);
}

static void an_entry_without_steps_runs(void **state) {
    hand_plan hand;
    (void)state;
    hand_begin(&hand, 1);
    hand_end_prepare(&hand);
    uint32_t x =
        hand_slot(&hand, RLX_SEGMENT_SCRATCH, RLX_VALUE_INPUT, "x", RLX_DTYPE_F32, HAND_DIMS(4));
    hand_end_entry(&hand, "main", HAND_PORTS(x), (const bool[]){true}, HAND_PORTS(x));
    rlx_exec *exec = exec_of(hand_finish(&hand), NULL);
    float y[4];
    assert_ok(rlx_exec_set_f32(exec, 0, "x", ones, 4));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "x", y, 4, NULL));
    assert_memory_equal(y, ones, sizeof y);
    rlx_exec_destroy(exec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_runs_as_often_as_it_is_told),
        cmocka_unit_test(a_loop_past_its_bound_is_a_fault),
        cmocka_unit_test(progress_fires_between_stretches_and_cancels),
        cmocka_unit_test(cancel_ends_the_next_run),
        cmocka_unit_test(a_second_user_is_told_that_it_is_busy),
        cmocka_unit_test(a_condition_chooses_the_branch),
        cmocka_unit_test(an_entry_without_steps_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
