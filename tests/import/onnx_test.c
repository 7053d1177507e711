/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX files: what is read, what is refused and how it is said. */
#include "base/status.h"
#include "import/onnx/write.h"
#include "support/support.h"

#include <rlx/rlx.h>

#include <stdio.h>

static rlx_test_folder folder;
static message graph, model, other;

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
    graph.size = model.size = other.size = 0;
    return 0;
}

static const char *write_model(uint64_t opset) {
    static char path[300];
    make_model(&model, &graph, opset);
    snprintf(path, sizeof path, "%s", rlx_test_path(&folder, "m.onnx"));
    rlx_test_write_file(path, model.data, model.size);
    return path;
}

static void one_input(const char *output) {
    const int64_t dims[] = {2, 3};
    put_port(&graph, 11, "x", dims, 2);
    put_port(&graph, 12, output, dims, 2);
}

/* Opens what was written; the status is that of the first thing that fails. */
static rlx_status try_model(uint64_t opset) {
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    RLX_TRY(rlx_session_open(NULL, write_model(opset), &session));
    rlx_status status = rlx_session_plan(session, "cpu:scalar", 1, NULL, &plan);
    rlx_plan_destroy(plan);
    rlx_session_destroy(session);
    return status;
}

/* relu(x w + b) with x [N][2]. */
static void make_layer(void) {
    const float w[] = {1, -1, 2, 3}, b[] = {0.5F, -4};
    const int64_t square[] = {2, 2}, row[] = {2}, x[] = {-1, 2};
    put_port(&graph, 11, "x", x, 2);
    put_initializer(&graph, "w", 1, square, 2, w, sizeof w);
    put_initializer(&graph, "b", 1, row, 1, b, sizeof b);
    put_node(&graph, "Gemm", "x w b", "h", NULL);
    put_node(&graph, "Relu", "h", "y", NULL);
    put_port(&graph, 12, "y", x, 2);
}

static void a_layer_runs_with_a_bound_symbol(void **state) {
    (void)state;
    const float x[] = {1, 1, 2, 0};
    float y[4] = {0};
    const rlx_binding size = {"N", 2};
    const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
    const rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    make_layer();
    assert_ok(rlx_session_open(NULL, write_model(13), &session));
    assert_ok(rlx_device_open("cpu", NULL, &device));
    assert_ok(rlx_session_compile(session, device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 4));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 4, NULL));
    assert_true(y[0] == 3.5F && y[1] == 0 && y[2] == 2.5F && y[3] == 0);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
}

/* Two runs of numbers are no range of the file: the weight lies in what was decoded. */
static void a_weight_in_two_parts_outlives_the_build(void **state) {
    (void)state;
    static float w[1024], x[32], y[32];
    const int64_t row[] = {-1, 32};
    const rlx_binding size = {"N", 1};
    const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
    const rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    for (uint32_t i = 0; i < 1024; i++)
        w[i] = (float)i;
    x[31] = 1;
    put_port(&graph, 11, "x", row, 2);
    make_tensor(&other, "w", 1, (const int64_t[]){32, 32}, 2, NULL, 0);
    put_bytes(&other, 4, w, sizeof w / 2);
    put_bytes(&other, 4, w + 512, sizeof w / 2);
    put_message(&graph, 5, &other);
    put_node(&graph, "MatMul", "x w", "y", NULL);
    put_port(&graph, 12, "y", row, 2);
    assert_ok(rlx_session_open(NULL, write_model(13), &session));
    assert_ok(rlx_device_open("cpu", NULL, &device));
    assert_ok(rlx_session_compile(session, device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, 32));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, 32, NULL));
    for (uint32_t i = 0; i < 32; i++)
        assert_true(y[i] == w[31 * 32 + i]);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    rlx_session_destroy(session);
}

static void put_int(message *to, const char *name, uint64_t value) {
    static message attr;
    attr.size = 0;
    put_text(&attr, 1, name);
    put_number(&attr, 3, value);
    put_number(&attr, 20, 2);
    put_message(to, 5, &attr);
}

/* x [N][256] times weights of 4 bits, all of them 1, times a half. The weights are large enough to
 * stay in a file. */
static void make_four_bits(void) {
    enum { ROWS = 640, DEPTH = 256 };
    static uint8_t w[ROWS * DEPTH / 2];
    static float scales[ROWS * DEPTH / 32];
    static message entry, attrs;
    const int64_t x[] = {-1, DEPTH}, y[] = {-1, ROWS}, blocks[] = {ROWS, DEPTH / 32, 16};
    memset(w, 0x99, sizeof w);
    for (uint32_t i = 0; i < sizeof scales / sizeof *scales; i++)
        scales[i] = 0.5F;
    rlx_test_write_file(rlx_test_path(&folder, "bits.bin"), w, sizeof w);
    entry.size = attrs.size = 0;
    put_text(&entry, 1, "location");
    put_text(&entry, 2, "bits.bin");
    make_tensor(&other, "w", 2, blocks, 3, NULL, 0);
    put_message(&other, 13, &entry);
    put_number(&other, 14, 1);
    put_message(&graph, 5, &other);
    put_initializer(&graph, "s", 1, blocks, 2, scales, sizeof scales);
    put_text(&attrs, 7, "com.microsoft");
    put_int(&attrs, "K", DEPTH);
    put_int(&attrs, "N", ROWS);
    put_int(&attrs, "bits", 4);
    put_int(&attrs, "block_size", 32);
    put_port(&graph, 11, "x", x, 2);
    put_node(&graph, "MatMulNBits", "x w s", "y", &attrs);
    put_port(&graph, 12, "y", y, 2);
}

static void run_four_bits(rlx_session *session, rlx_device *device, int64_t rows) {
    static float x[3 * 256], y[3 * 640];
    const rlx_binding size = {"N", rows};
    const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
    const rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    uint64_t count = (uint64_t)rows;
    for (uint32_t i = 0; i < 3 * 256; i++)
        x[i] = 1;
    assert_ok(rlx_session_compile(session, device, &options, NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", x, count * 256));
    assert_ok(rlx_exec_run(exec, 0));
    assert_ok(rlx_exec_read_f32(exec, 0, "y", y, count * 640, NULL));
    for (uint32_t i = 0; i < count * 640; i++)
        assert_true(y[i] == 128);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

/* They are made once, in memory of the model, and serve every program of the session. */
static void weights_in_blocks_outlive_the_build(void **state) {
    (void)state;
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    make_four_bits();
    assert_ok(rlx_session_open(NULL, write_model(17), &session));
    assert_ok(rlx_device_open("cpu", NULL, &device));
    run_four_bits(session, device, 1);
    run_four_bits(session, device, 3);
    rlx_device_release(device);
    rlx_session_destroy(session);
}

static void one_session_compiles_for_many_sizes(void **state) {
    (void)state;
    rlx_session *session = NULL;
    make_layer();
    assert_ok(rlx_session_open(NULL, write_model(13), &session));
    for (int64_t n = 1; n < 5; n++) {
        const rlx_binding size = {"N", n};
        const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
        const rlx_compile_options options = {
            .size = sizeof options, .entries = &entry, .entry_count = 1};
        rlx_plan *plan = NULL;
        rlx_slot_info info;
        uint32_t slot;
        assert_ok(rlx_session_plan(session, "cpu:scalar", 1, &options, &plan));
        assert_ok(rlx_plan_find_slot(plan, "y", &slot));
        assert_ok(rlx_plan_slot_at(plan, slot, &info));
        assert_int_equal(info.shape.dims[0], n);
        rlx_plan_destroy(plan);
    }
    rlx_session_destroy(session);
}

static void a_symbol_that_is_not_bound_is_named(void **state) {
    (void)state;
    make_layer();
    assert_status(RLX_INVALID_ARGUMENT, try_model(13));
    assert_error_has("'N'");
}

/* relu(x), and as many numbers as the input `limit` says. */
static void make_counter(void) {
    const float zero = 0, one = 1;
    one_input("y");
    put_port(&graph, 11, "limit", NULL, 0);
    put_initializer(&graph, "from", 1, NULL, 0, &zero, sizeof zero);
    put_initializer(&graph, "step", 1, NULL, 0, &one, sizeof one);
    put_node(&graph, "Relu", "x", "y", NULL);
    put_node(&graph, "Range", "from limit step", "r", NULL);
    put_port(&graph, 12, "r", (const int64_t[]){-1}, 1);
}

static rlx_program *compile_counter(rlx_session *session, rlx_device *device, float x,
                                    float limit) {
    const float values[6] = {x, x};
    const rlx_given_value given[] = {
        {"x", RLX_DTYPE_F32, {2, {2, 3}}, values, sizeof values},
        {"limit", RLX_DTYPE_F32, {0, {0}}, &limit, sizeof limit},
    };
    const rlx_entry_spec entry = {.given = given, .given_count = 2};
    const rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_program *program = NULL;
    assert_ok(rlx_session_compile(session, device, &options, NULL, &program));
    return program;
}

static void only_values_that_decide_a_shape_decide_the_program(void **state) {
    (void)state;
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    make_counter();
    assert_ok(rlx_session_open(NULL, write_model(13), &session));
    assert_ok(rlx_device_open("cpu:scalar", NULL, &device));
    rlx_program *three = compile_counter(session, device, 1, 3);
    rlx_program *again = compile_counter(session, device, 2, 3);
    rlx_program *four = compile_counter(session, device, 1, 4);
    assert_ptr_equal(three, again);
    assert_ptr_not_equal(three, four);
    rlx_program_release(three);
    rlx_program_release(again);
    rlx_program_release(four);
    rlx_device_release(device);
    rlx_session_destroy(session);
}

static void every_unsupported_node_is_listed(void **state) {
    (void)state;
    one_input("z");
    put_node(&graph, "Frobnicate", "x", "y", NULL);
    put_node(&graph, "Relu", "y", "h", NULL);
    put_node(&graph, "Defrobnicate", "h", "z", NULL);
    assert_status(RLX_UNSUPPORTED, try_model(13));
    assert_error_has("2 nodes");
    assert_error_has("node 'y' (Frobnicate)");
    assert_error_has("node 'z' (Defrobnicate)");
}

static void an_opset_of_the_future_is_refused(void **state) {
    (void)state;
    one_input("y");
    put_node(&graph, "Relu", "x", "y", NULL);
    assert_status(RLX_UNSUPPORTED, try_model(99));
    assert_error_has("opset 99");
}

static void nodes_may_stand_in_any_order(void **state) {
    (void)state;
    one_input("y");
    put_node(&graph, "Relu", "h", "y", NULL);
    put_node(&graph, "Neg", "x", "h", NULL);
    assert_ok(try_model(13));
}

static void a_cycle_is_refused(void **state) {
    (void)state;
    one_input("y");
    put_node(&graph, "Add", "x b", "a", NULL);
    put_node(&graph, "Relu", "a", "b", NULL);
    put_node(&graph, "Neg", "b", "y", NULL);
    assert_status(RLX_INVALID_GRAPH, try_model(13));
    assert_error_has("needs its own result");
}

static void an_undefined_input_is_named(void **state) {
    (void)state;
    one_input("y");
    put_node(&graph, "Add", "x nowhere", "y", NULL);
    assert_status(RLX_INVALID_GRAPH, try_model(13));
    assert_error_has("node 'y' (Add-13)");
    assert_error_has("'nowhere'");
}

static void an_output_that_nobody_makes_is_named(void **state) {
    (void)state;
    one_input("y");
    put_node(&graph, "Relu", "x", "h", NULL);
    assert_status(RLX_INVALID_GRAPH, try_model(13));
    assert_error_has("'y'");
}

static void a_name_is_defined_once(void **state) {
    (void)state;
    one_input("y");
    put_node(&graph, "Relu", "x", "y", NULL);
    put_node(&graph, "Neg", "x", "y", NULL);
    assert_status(RLX_INVALID_GRAPH, try_model(13));
    assert_error_has("defined twice");
}

static void shapes_that_contradict_name_the_node(void **state) {
    (void)state;
    const float w[4] = {0};
    const int64_t dims[] = {2, 2};
    one_input("y");
    put_initializer(&graph, "w", 1, dims, 2, w, sizeof w);
    put_node(&graph, "MatMul", "x w", "y", NULL);
    assert_status(RLX_INVALID_GRAPH, try_model(13));
    assert_error_has("node 'y' (MatMul-13)");
}

static void data_must_fit_the_dims(void **state) {
    (void)state;
    const float w[3] = {0};
    const int64_t dims[] = {2, 2}, huge[] = {INT64_MAX, 4}, negative[] = {-2, 2};
    const int64_t *const cases[] = {dims, huge, negative};
    for (uint32_t i = 0; i < 3; i++) {
        graph.size = 0;
        one_input("y");
        put_initializer(&graph, "w", 1, cases[i], 2, w, sizeof w);
        put_node(&graph, "MatMul", "x w", "y", NULL);
        rlx_status status = try_model(13);
        assert_true(status == RLX_PARSE || status == RLX_OUT_OF_BOUNDS);
        assert_error_has("tensor '");
    }
}

/* An initializer in another file. */
static void put_external(const char *location) {
    static message tensor, entry;
    const int64_t dims[] = {2, 3};
    make_tensor(&tensor, "w", 1, dims, 2, NULL, 0);
    entry.size = 0;
    put_text(&entry, 1, "location");
    put_text(&entry, 2, location);
    put_message(&tensor, 13, &entry);
    put_number(&tensor, 14, 1);
    put_message(&graph, 5, &tensor);
}

static void external_data_stays_in_the_folder(void **state) {
    (void)state;
    static const char *const bad[] = {"/etc/passwd", "../w.bin", "a/../../w.bin",
                                      "..",          "",         "a\\..\\w.bin"};
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        graph.size = 0;
        one_input("y");
        put_external(bad[i]);
        put_node(&graph, "Add", "x w", "y", NULL);
        assert_status(RLX_INVALID_GRAPH, try_model(13));
        assert_error_has("outside the model's folder");
    }
}

static void external_data_is_found_beside_the_model(void **state) {
    (void)state;
    const float w[6] = {1, 2, 3, 4, 5, 6};
    one_input("y");
    put_external("w.bin");
    put_node(&graph, "Add", "x w", "y", NULL);
    assert_status(RLX_IO, try_model(13));
    rlx_test_write_file(rlx_test_path(&folder, "w.bin"), w, sizeof w - 1);
    assert_status(RLX_OUT_OF_BOUNDS, try_model(13));
    rlx_test_write_file(rlx_test_path(&folder, "w.bin"), w, sizeof w);
    assert_ok(try_model(13));
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    static message inner, attr;
    one_input("y");
    put_node(&graph, "Relu", "x", "y", NULL);
    for (uint32_t i = 0; i < 100; i++) {
        attr.size = inner.size = 0;
        put_text(&attr, 1, "body");
        put_message(&attr, 6, &graph);
        put_number(&attr, 20, 5);
        put_message(&inner, 5, &attr);
        graph.size = 0;
        put_node(&graph, "Loop", "x", "y", &inner);
    }
    assert_status(RLX_PARSE, try_model(13));
    assert_error_has("nested");
}

static void a_cut_file_is_refused_at_every_byte(void **state) {
    (void)state;
    rlx_session *session = NULL;
    make_layer();
    const char *path = write_model(13);
    for (size_t size = 0; size < model.size; size++) {
        rlx_test_write_file(path, model.data, size);
        if (rlx_session_open(NULL, path, &session) == RLX_OK) {
            rlx_session_destroy(session); /* cut between two fields */
        } else {
            assert_true(rlx_last_error()[0] != 0);
        }
    }
}

static void a_wrong_wire_type_is_refused(void **state) {
    (void)state;
    put_number(&graph, 1, 5); /* a node that is a number */
    assert_status(RLX_PARSE, try_model(13));
    assert_error_has("wire type");
}

static rlx_status open_and_plan(const rlx_allocator *allocator, void *argument) {
    const rlx_binding size = {"N", 2};
    const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
    const rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    RLX_TRY(rlx_session_open(allocator, argument, &session));
    rlx_status status = rlx_session_plan(session, "cpu:scalar", 1, &options, &plan);
    rlx_plan_destroy(plan);
    rlx_session_destroy(session);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    make_layer();
    rlx_test_every_allocation_fails(open_and_plan, (void *)(uintptr_t)write_model(13));
}

static void every_allocation_for_blocks_may_fail(void **state) {
    (void)state;
    make_four_bits();
    rlx_test_every_allocation_fails(open_and_plan, (void *)(uintptr_t)write_model(17));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_layer_runs_with_a_bound_symbol, start),
        cmocka_unit_test_setup(a_weight_in_two_parts_outlives_the_build, start),
        cmocka_unit_test_setup(weights_in_blocks_outlive_the_build, start),
        cmocka_unit_test_setup(one_session_compiles_for_many_sizes, start),
        cmocka_unit_test_setup(a_symbol_that_is_not_bound_is_named, start),
        cmocka_unit_test_setup(only_values_that_decide_a_shape_decide_the_program, start),
        cmocka_unit_test_setup(every_unsupported_node_is_listed, start),
        cmocka_unit_test_setup(an_opset_of_the_future_is_refused, start),
        cmocka_unit_test_setup(nodes_may_stand_in_any_order, start),
        cmocka_unit_test_setup(a_cycle_is_refused, start),
        cmocka_unit_test_setup(an_undefined_input_is_named, start),
        cmocka_unit_test_setup(an_output_that_nobody_makes_is_named, start),
        cmocka_unit_test_setup(a_name_is_defined_once, start),
        cmocka_unit_test_setup(shapes_that_contradict_name_the_node, start),
        cmocka_unit_test_setup(data_must_fit_the_dims, start),
        cmocka_unit_test_setup(external_data_stays_in_the_folder, start),
        cmocka_unit_test_setup(external_data_is_found_beside_the_model, start),
        cmocka_unit_test_setup(deep_nesting_is_refused, start),
        cmocka_unit_test_setup(a_cut_file_is_refused_at_every_byte, start),
        cmocka_unit_test_setup(a_wrong_wire_type_is_refused, start),
        cmocka_unit_test_setup(every_allocation_may_fail, start),
        cmocka_unit_test_setup(every_allocation_for_blocks_may_fail, start),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
