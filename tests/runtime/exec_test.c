/* SPDX-License-Identifier: Apache-2.0 */
/* Executables: setting, running, reading, and everything that is refused on the way. */
#include "plans.h"

static const float mlp_x[4] = {1, 2, 3, 4};
static const float mlp_y[4] = {5, 0, 11, 0};

static void a_matmul_and_a_relu_run(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    float y[4];
    uint64_t count = 0;
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        memset(y, 0, sizeof y);
        assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
        assert_ok(rlx_exec_run(exec, 0));
        assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, &count));
        assert_int_equal(count, 4);
        assert_memory_equal(y, mlp_y, sizeof y);
    }
    assert_ok(rlx_exec_read(exec, 0, "y", y, sizeof y, &count));
    assert_int_equal(count, sizeof y);
    rlx_exec_destroy(exec);
}

static void inputs_that_do_not_survive_must_be_set_again(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    (void)state;
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_run(exec, 0));
    assert_error_has("input 'x' of entry 'main' is not set");
    assert_ok(rlx_exec_set_input(exec, 0, 0, mlp_x, sizeof mlp_x));
    assert_ok(rlx_exec_run(exec, 0));
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_run(exec, 0));
    assert_error_has("does not survive");
    rlx_exec_destroy(exec);
}

static void inputs_that_survive_stay_set(void **state) {
    rlx_exec *exec = exec_of(plan_gather(), NULL);
    const int64_t picks[2] = {3, -4};
    float y[2];
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_set(exec, 0, "i", picks, sizeof picks));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 2, NULL));
    assert_true(y[0] == 4 && y[1] == 1);
    rlx_exec_destroy(exec);
}

static void asking_for_an_inputs_address_counts_as_setting(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    void *x = NULL;
    const void *y = NULL;
    (void)state;
    assert_ok(rlx_exec_input_address(exec, 0, 0, &x));
    memcpy(x, mlp_x, sizeof mlp_x);
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_output_address(exec, 0, 0, &y));
    assert_memory_equal(y, mlp_y, sizeof mlp_y);
    assert_status(RLX_NOT_FOUND, rlx_exec_input_address(exec, 0, 1, &x));
    rlx_exec_destroy(exec);
}

static void wrong_sizes_and_names_are_refused(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    float y[4];
    (void)state;
    assert_status(RLX_LENGTH_MISMATCH, rlx_exec_set_f32(exec, 0, "x", mlp_x, 3));
    assert_error_has("input 'x' has 4 elements, got 3");
    assert_status(RLX_LENGTH_MISMATCH, rlx_exec_set(exec, 0, "x", mlp_x, 17));
    assert_int_equal(rlx_last_error_detail()->expected, 16);
    assert_status(RLX_NOT_FOUND, rlx_exec_set_f32(exec, 0, "z", mlp_x, 4));
    assert_error_has("no input 'z'; it has: x");
    assert_status(RLX_NOT_FOUND, rlx_exec_set_f32(exec, 1, "x", mlp_x, 4));
    assert_error_has("no entry 1");
    assert_status(RLX_NOT_FOUND, rlx_exec_run(exec, 7));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_run(exec, 0));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_exec_read_f32(exec, 0, "y", y, 3, NULL));
    assert_error_has("output 'y' has 4 elements, room for 3");
    assert_status(RLX_NOT_FOUND, rlx_exec_read_f32(exec, 0, "x", y, 4, NULL));
    rlx_exec_destroy(exec);
}

/* x and y of the mlp share memory. */
static void an_output_is_gone_when_an_input_takes_its_place(void **state) {
    rlx_exec *exec = exec_of(plan_mlp(), NULL);
    float y[4];
    (void)state;
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_error_has("was not the last to run");
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_error_has("output 'y' is gone");
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    rlx_exec_destroy(exec);
}

static void outputs_report_their_true_size(void **state) {
    rlx_exec *exec = exec_of(plan_nonzero(), NULL);
    const float x[6] = {0, 1, 0, 2, 0, 3};
    int64_t places[12] = {0};
    rlx_output_info info;
    uint64_t bytes = 0;
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 6));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_output(exec, 0, 0, &info));
    assert_string_equal(info.name, "places");
    assert_int_equal(info.shape.dims[0], 2);
    assert_int_equal(info.shape.dims[1], 3);
    assert_int_equal(info.bytes, 48);
    assert_ok(rlx_exec_read_output(exec, 0, 0, places, sizeof places, &bytes));
    assert_int_equal(bytes, 48);
    assert_memory_equal(places, ((int64_t[]){0, 1, 1, 1, 0, 2}), 48);
    rlx_exec_destroy(exec);
}

static void an_extent_cuts_the_work(void **state) {
    rlx_exec *exec = exec_of(plan_extent(), NULL);
    const float x[8] = {-1, 2, -3, 4, 5, 6, 7, 8};
    float y[8];
    uint64_t count = 0;
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 8));
    for (int64_t n = 0; n <= 8; n++) {
        assert_ok(rlx_arena_fill(
            exec->arena, RLX_SEGMENT_SCRATCH,
            rlx_plan_slot_offset(exec->program->plan, &exec->program->plan->slots.items[2]), 32,
            0xFF));
        assert_ok(rlx_exec_set(exec, 0, "n", &n, sizeof n));
        assert_ok(rlx_exec_run(exec, 0));
        assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 8, &count));
        assert_int_equal(count, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(y[i] == (x[i] < 0 ? 0 : x[i]));
        if (n < 8) { /* what lies past the extent was not touched */
            const uint32_t *raw = rlx_arena_address(exec->arena, 2);
            assert_int_equal(raw[n], UINT32_MAX);
        }
    }
    rlx_exec_destroy(exec);
}

static void an_extent_past_its_bound_is_a_fault(void **state) {
    rlx_exec *exec = exec_of(plan_extent(), NULL);
    const float x[8] = {0};
    const int64_t wrong[3] = {9, -1, INT64_MIN};
    float y[8];
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 8));
    for (uint32_t i = 0; i < 3; i++) {
        assert_ok(rlx_exec_set(exec, 0, "n", &wrong[i], sizeof wrong[i]));
        assert_status(RLX_FAULT, rlx_exec_run(exec, 0));
        assert_error_has("node 'y' (relu): size or count past its bound: ");
        assert_status(RLX_INVALID_ARGUMENT, rlx_exec_read_f32(exec, 0, "y", y, 8, NULL));
    }
    rlx_exec_destroy(exec);
}

static void a_fault_names_the_node_and_the_value(void **state) {
    rlx_exec *exec = exec_of(plan_gather(), NULL);
    int64_t picks[2] = {1, 17};
    float y[2];
    (void)state;
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_set(exec, 0, "i", picks, sizeof picks));
    assert_status(RLX_FAULT, rlx_exec_run(exec, 0));
    assert_error_has("node 'pick' (gather): index out of range: 17");
    assert_int_equal(rlx_last_error_detail()->got, 17);
    picks[1] = 0; /* the next run starts clean */
    assert_ok(rlx_exec_set(exec, 0, "i", picks, sizeof picks));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 2, NULL));
    assert_true(y[0] == 2 && y[1] == 1);
    rlx_exec_destroy(exec);
}

static void memory_of_the_caller_is_used(void **state) {
    _Alignas(64) static uint8_t memory[4096];
    rlx_program *program = program_of(NULL, plan_mlp());
    rlx_exec_options options = {.size = sizeof options, .scratch_memory = memory};
    rlx_exec *exec = NULL;
    float y[4];
    (void)state;
    options.scratch_bytes = 8;
    assert_status(RLX_DOES_NOT_FIT, rlx_exec_create(program, &options, &exec));
    assert_error_has("scratch memory: 8 bytes given, 192 needed");
    options.scratch_bytes = sizeof memory;
    assert_ok(rlx_exec_create(program, &options, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", mlp_x, 4));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_memory_equal(y, mlp_y, sizeof y);
    assert_memory_equal(memory + 64, mlp_y, sizeof mlp_y);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void options_without_a_size_are_refused(void **state) {
    rlx_program *program = program_of(NULL, plan_mlp()), *second = NULL;
    rlx_exec *exec = NULL;
    rlx_device *device = NULL;
    rlx_plan *plan = plan_mlp();
    size_t old = offsetof(rlx_exec_options, poison);
    rlx_exec_options options = {.size = old, .poison = true}; /* poison is past the old struct */
    (void)state;
    assert_ok(rlx_exec_create(program, &options, &exec));
    assert_false(exec->options.poison);
    rlx_exec_destroy(exec);
    options.size = 0;
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_create(program, &options, &exec));
    assert_error_has("options have size 0");
    options.size = sizeof options + 8;
    assert_status(RLX_INVALID_ARGUMENT, rlx_exec_create(program, &options, &exec));
    assert_status(RLX_INVALID_ARGUMENT,
                  rlx_program_create(program->device, plan, &(rlx_program_options){0}, &second));
    assert_status(RLX_INVALID_ARGUMENT, rlx_device_open(NULL, &(rlx_device_options){0}, &device));
    rlx_plan_destroy(plan);
    rlx_program_release(program);
}

static rlx_status create_all(const rlx_allocator *allocator, void *argument) {
    rlx_device_options device_options = {
        .size = sizeof device_options, .allocator = allocator, .threads = 2};
    rlx_program_options program_options = {.size = sizeof program_options, .allocator = allocator};
    rlx_exec_options exec_options = {.size = sizeof exec_options,
                                     .allocator = allocator,
                                     .poison = true,
                                     .profile = true,
                                     .trace_events = 8};
    rlx_plan *(*make)(void) = *(rlx_plan * (**)(void)) argument;
    rlx_plan *plan = make();
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL, *twin = NULL;
    rlx_status status = rlx_device_open("cpu", &device_options, &device);
    if (status == RLX_OK) status = rlx_program_create(device, plan, &program_options, &program);
    if (status != RLX_OK) rlx_plan_destroy(plan); /* consumed only on success */
    if (status == RLX_OK) status = rlx_exec_create(program, &exec_options, &exec);
    if (status == RLX_OK) status = rlx_exec_clone(exec, RLX_CLONE_OWN_ALL, &twin);
    rlx_exec_destroy(twin);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    return status;
}

static void creation_survives_every_failed_allocation(void **state) {
    rlx_plan *(*makers[])(void) = {plan_mlp, plan_loop, plan_state, plan_large};
    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        assert_true(rlx_test_every_allocation_fails(create_all, &makers[i]) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matmul_and_a_relu_run),
        cmocka_unit_test(inputs_that_do_not_survive_must_be_set_again),
        cmocka_unit_test(inputs_that_survive_stay_set),
        cmocka_unit_test(asking_for_an_inputs_address_counts_as_setting),
        cmocka_unit_test(wrong_sizes_and_names_are_refused),
        cmocka_unit_test(an_output_is_gone_when_an_input_takes_its_place),
        cmocka_unit_test(outputs_report_their_true_size),
        cmocka_unit_test(an_extent_cuts_the_work),
        cmocka_unit_test(an_extent_past_its_bound_is_a_fault),
        cmocka_unit_test(a_fault_names_the_node_and_the_value),
        cmocka_unit_test(memory_of_the_caller_is_used),
        cmocka_unit_test(options_without_a_size_are_refused),
        cmocka_unit_test(creation_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
