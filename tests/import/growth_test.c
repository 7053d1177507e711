/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs that a model gives back with more rows, as states (rlx_entry_spec.growing). */
#include "base/status.h"
#include "import/onnx/write.h"
#include "support/support.h"

#include <rlx/rlx.h>

#include <stdio.h>

static rlx_test_folder folder;
static message graph, model;
static const rlx_binding most = {"N", 3};
static const rlx_entry_spec entry = {.growing = &most, .growing_count = 1};
static const rlx_compile_options options = {
    .size = sizeof options, .entries = &entry, .entry_count = 1};

static int make_folder(void **state) {
    (void)state;
    rlx_test_folder_create(&folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    rlx_test_folder_remove(&folder);
    return 0;
}

static int start(void **state) {
    (void)state;
    graph.size = model.size = 0;
    return 0;
}

static const char *write_model(void) {
    static char path[300];
    make_model(&model, &graph, 13);
    snprintf(path, sizeof path, "%s", rlx_test_path(&folder, "m.onnx"));
    rlx_test_write_file(path, model.data, model.size);
    return path;
}

/* present = past with x behind it; y = the sum of its rows. */
static void make_sums(bool gives_back) {
    static message attr, attrs;
    const int64_t rows[] = {-1, 2}, row[] = {1, 2}, one[] = {1}, zero = 0;
    attr.size = attrs.size = 0;
    put_text(&attr, 1, "axis");
    put_number(&attr, 3, 0);
    put_number(&attr, 20, 2);
    put_message(&attrs, 5, &attr);
    put_port(&graph, 11, "past", rows, 2);
    put_port(&graph, 11, "x", row, 2);
    put_initializer(&graph, "axes", 7, one, 1, &zero, sizeof zero);
    put_node(&graph, "Concat", gives_back ? "past x" : "x past", "present", &attrs);
    put_node(&graph, "ReduceSum", gives_back ? "present axes" : "past axes", "y", NULL);
    put_port(&graph, 12, "y", row, 2);
    if (gives_back) put_port(&graph, 12, "present", rows, 2);
}

static void assert_sum(rlx_exec *exec, float first, float second) {
    const float x[] = {1, 10};
    float y[2] = {0};
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 2));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 2, NULL));
    assert_true(y[0] == first && y[1] == second);
}

static void each_run_appends_until_it_is_full(void **state) {
    (void)state;
    const float x[] = {1, 10};
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    uint32_t index;
    make_sums(true);
    assert_ok(rlx_session_open(NULL, write_model(), &session));
    assert_ok(rlx_device_open("cpu", NULL, &device));
    assert_ok(rlx_session_compile(session, device, &options, NULL, &program));
    assert_status(RLX_NOT_FOUND, rlx_program_find_input(program, 0, "past", &index));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    for (uint32_t turn = 0; turn < 2; turn++) {
        assert_sum(exec, 1, 10);
        assert_sum(exec, 2, 20);
        assert_sum(exec, 3, 30);
        for (uint32_t more = 0; more < 2; more++) { /* the first one that fails changes nothing */
            assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 2));
            assert_status(RLX_FAULT, rlx_exec_run(exec, 0));
            assert_error_has("past.grown");
            assert_error_has("position: 3");
        }
        assert_ok(rlx_exec_reset_state(exec));
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
}

static rlx_status open_and_plan(const rlx_allocator *allocator, void *argument) {
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    RLX_TRY(rlx_session_open(allocator, argument, &session));
    rlx_status status = rlx_session_plan(session, "cpu:scalar", 1, &options, &plan);
    rlx_plan_destroy(plan);
    rlx_session_destroy(session);
    return status;
}

/* The size less itself plus `number`, doubled so many times, as a shape. */
static rlx_status plan_doubles(int64_t number, uint32_t count) {
    const int64_t two[] = {2}, numbers[] = {number, number}, any[] = {-1, -1};
    char from[64], to[32];
    graph.size = 0;
    make_sums(true);
    put_initializer(&graph, "number", 7, two, 1, numbers, sizeof numbers);
    put_node(&graph, "Shape", "past", "size", NULL);
    put_node(&graph, "Sub", "size size", "none", NULL);
    put_node(&graph, "Add", "none number", "d0", NULL);
    for (uint32_t i = 0; i < count; i++) {
        snprintf(from, sizeof from, "d%u d%u", i, i);
        snprintf(to, sizeof to, "d%u", i + 1);
        put_node(&graph, "Add", from, to, NULL);
    }
    snprintf(to, sizeof to, "d%u", count);
    put_node(&graph, "ConstantOfShape", to, "z", NULL);
    put_port(&graph, 12, "z", any, 2);
    return open_and_plan(NULL, (void *)(uintptr_t)write_model());
}

static void sums_of_sizes_are_followed_for_a_while(void **state) {
    (void)state;
    assert_ok(plan_doubles(1, 3));
    /* As many paths as 2 to the power of 50, and a sum that would be 0 in 64 bits. */
    assert_status(RLX_UNSUPPORTED, plan_doubles(0, 50));
    assert_status(RLX_UNSUPPORTED, plan_doubles((int64_t)1 << 60, 4));
    assert_error_has("'d4'");
}

static void what_does_not_come_back_is_refused(void **state) {
    (void)state;
    make_sums(false);
    assert_status(RLX_UNSUPPORTED, open_and_plan(NULL, (void *)(uintptr_t)write_model()));
    assert_error_has("no output gives it back");
}

static void a_model_without_such_a_size_is_refused(void **state) {
    (void)state;
    const int64_t row[] = {1, 2};
    put_port(&graph, 11, "x", row, 2);
    put_node(&graph, "Relu", "x", "y", NULL);
    put_port(&graph, 12, "y", row, 2);
    assert_status(RLX_NOT_FOUND, open_and_plan(NULL, (void *)(uintptr_t)write_model()));
    assert_error_has("'N'");
}

static void a_graph_of_our_own_cannot_grow(void **state) {
    (void)state;
    static const char text[] = "rlx 1\ninput x : f32[2]\ny = relu(x)\noutput y\n";
    char path[300];
    snprintf(path, sizeof path, "%s", rlx_test_path(&folder, "m.rlx"));
    rlx_test_write_file(path, text, sizeof text - 1);
    assert_status(RLX_UNSUPPORTED, open_and_plan(NULL, path));
    assert_error_has("ONNX");
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    make_sums(true);
    rlx_test_every_allocation_fails(open_and_plan, (void *)(uintptr_t)write_model());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_run_appends_until_it_is_full, start),
        cmocka_unit_test_setup(sums_of_sizes_are_followed_for_a_while, start),
        cmocka_unit_test_setup(what_does_not_come_back_is_refused, start),
        cmocka_unit_test_setup(a_model_without_such_a_size_is_refused, start),
        cmocka_unit_test_setup(a_graph_of_our_own_cannot_grow, start),
        cmocka_unit_test_setup(every_allocation_may_fail, start),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
