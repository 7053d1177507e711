/* SPDX-License-Identifier: Apache-2.0 */
/* What helps to find mistakes: single steps, poison, profile and trace. */
#include "plans.h"

static const float mlp_x[4] = {1, 2, 3, 4};

typedef struct record {
    uint32_t count;
    char names[16][16];
    float values[16]; /* first element of the step's first output */
    uint32_t stop_at;
} record;

static bool note_step(void *user, rlx_exec *exec, const rlx_step_info *step) {
    record *r = user;
    strncpy(r->names[r->count], step->name, 15);
    if (rlx_arena_read_f32(rlx_exec_arena(exec), step->outputs[0], 0, &r->values[r->count], 1, 0,
                           NULL) != RLX_OK) {
        return false;
    }
    r->count++;
    return r->count != r->stop_at;
}

static void single_steps_show_every_output(void **state) {
    rlx_exec_options options = {.size = sizeof options, .single_step = true};
    rlx_exec *exec = exec_of(plan_mlp(), &options);
    record r = {0};
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_run_steps(exec, 0, note_step, &r));
    assert_int_equal(r.count, 2);
    assert_string_equal(r.names[0], "h");
    assert_string_equal(r.names[1], "y");
    assert_true(r.values[0] == 5 && r.values[1] == 5);
    r = (record){.stop_at = 1};
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_status(RLX_CANCELLED, rlx_exec_run_steps(exec, 0, note_step, &r));
    rlx_exec_destroy(exec);
    exec = exec_of(plan_mlp(), NULL);
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_run_steps(exec, 0, note_step, &r));
    assert_error_has("single_step");
    rlx_exec_destroy(exec);
}

static void poison_fills_what_is_dead_and_keeps_the_rest(void **state) {
    rlx_exec_options options = {.size = sizeof options, .poison = true};
    rlx_exec *exec = exec_of(plan_mlp(), &options);
    record r = {0};
    uint32_t raw[4];
    float y[4];
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_run_steps(exec, 0, note_step, &r));
    assert_true(r.values[0] == 5); /* seen before it died */
    assert_ok(rlx_arena_read_bytes(exec->arena, slot_of(exec, "h"), 0, raw, sizeof raw, 0, NULL));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(raw[i], UINT32_MAX);
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_memory_equal(y, ((float[]){5, 0, 11, 0}), sizeof y);
    rlx_exec_destroy(exec);
}

static void poison_keeps_surviving_inputs_and_extents(void **state) {
    rlx_exec_options options = {.size = sizeof options, .poison = true};
    rlx_exec *exec = exec_of(plan_nonzero(), &options);
    rlx_output_info info;
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", (float[]){0, 1, 0, 0, 0, 1}, 6));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_output(exec, 0, 0, &info));
    assert_int_equal(info.shape.dims[1], 2);
    rlx_exec_destroy(exec);
    exec = exec_of(plan_gather(), &options);
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_set(exec, 0, "i", (int64_t[]){2, 3}, 16));
    for (uint32_t i = 0; i < 3; i++) {
        float y[2];
        assert_ok(rlx_exec_run(exec, 0));
        assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 2, NULL));
        assert_true(y[0] == 3 && y[1] == 4);
    }
    rlx_exec_destroy(exec);
}

static void the_profile_counts_runs_and_time(void **state) {
    rlx_exec_options options = {.size = sizeof options, .profile = true};
    rlx_exec *exec = exec_of(plan_loop(), &options);
    uint32_t count = 0;
    const int64_t n = 3;
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_set(exec, 0, "n", &n, sizeof n));
    assert_ok(rlx_exec_run(exec, 0));
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    assert_int_equal(count, 10);
    assert_string_equal(rows[6].name, "double");
    assert_int_equal(rows[6].op, RLX_OP_ADD);
    assert_int_equal(rows[6].runs, 3);
    assert_int_equal(rows[2].runs, 4);
    assert_true(rows[6].least_ns <= rows[6].total_ns);
    assert_int_equal(rows[3].runs, 0); /* jumps take no time of their own */
    rlx_exec_reset_profile(exec);
    assert_int_equal(rows[6].runs, 0);
    rlx_exec_destroy(exec);
    exec = exec_of(plan_mlp(), NULL);
    assert_null(rlx_exec_profile(exec, &count));
    assert_int_equal(count, 0);
    rlx_exec_destroy(exec);
}

static void the_trace_is_json_with_one_event_per_step(void **state) {
    rlx_exec_options options = {.size = sizeof options, .profile = true, .trace_events = 3};
    rlx_exec *exec = exec_of(plan_mlp(), &options);
    char *text = NULL;
    (void)state;
    exec->program->plan->steps.items[2].name = "a \"quoted\\name\"\n";
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
        assert_ok(rlx_exec_run(exec, 0));
    }
    assert_ok(rlx_exec_trace(exec, &text));
    assert_text_has(text, "\"traceEvents\":[\n{\"name\":\"h\",\"cat\":\"matmul\",\"ph\":\"X\"");
    assert_text_has(text, "\"a \\\"quoted\\\\name\\\"\\u000a\"");
    assert_text_has(text, "\"dropped\":1");
    rlx_string_free(NULL, text);
    rlx_exec_destroy(exec);
    exec = exec_of(plan_mlp(), NULL);
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_trace(exec, &text));
    rlx_exec_destroy(exec);
}

static void steps_can_be_looked_at(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    rlx_step_info info;
    (void)state;
    assert_int_equal(rlx_plan_step_count(rlx_program_plan(rlx_exec_program(exec))), 3);
    assert_ok(rlx_plan_step_at(rlx_program_plan(rlx_exec_program(exec)), 1, &info));
    assert_string_equal(info.name, "h");
    assert_int_equal(info.op, RLX_OP_MATMUL);
    assert_int_equal(info.inputs[0], slot_of(exec, "x"));
    assert_int_equal(info.outputs[0], slot_of(exec, "h"));
    assert_status(RLX_NOT_FOUND,
                  rlx_plan_step_at(rlx_program_plan(rlx_exec_program(exec)), 3, &info));
    rlx_exec_destroy(exec);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_steps_show_every_output),
        cmocka_unit_test(poison_fills_what_is_dead_and_keeps_the_rest),
        cmocka_unit_test(poison_keeps_surviving_inputs_and_extents),
        cmocka_unit_test(the_profile_counts_runs_and_time),
        cmocka_unit_test(the_trace_is_json_with_one_event_per_step),
        cmocka_unit_test(steps_can_be_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
