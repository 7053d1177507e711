/* SPDX-License-Identifier: Apache-2.0 */
/* Small graphs whose lowering is easy to get wrong, run with each pass left out in turn: loops that
 * swap, states that are read late, outputs that are inputs, products that overwrite. */
#include "support/support.h"

#include <rlx/exec.h>
#include <rlx/session.h>

#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

static rlx_status compile_text(const char *text, const rlx_compile_options *options,
                               rlx_program **out_program) {
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    assert_ok(rlx_session_create(NULL, graph, &session));
    assert_ok(rlx_device_open("cpu", NULL, &device));
    rlx_status status = rlx_session_compile(session, device, options, NULL, out_program);
    rlx_session_destroy(session);
    rlx_device_release(device);
    return status;
}

/* Input i counts up from i + 1; every output must hold the expected numbers. */
static void run_once(const char *text, const rlx_compile_options *options, uint32_t runs,
                     const float *const *expected, const uint64_t *counts) {
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_entry_info entry;
    rlx_exec_options exec_options = {.size = sizeof exec_options, .poison = true};
    assert_ok(compile_text(text, options, &program));
    assert_ok(rlx_exec_create(program, &exec_options, &exec));
    assert_ok(rlx_plan_entry_at(rlx_program_plan(program), 0, &entry));
    for (uint32_t run = 0; run < runs; run++) {
        for (uint32_t i = 0; i < entry.input_count; i++) {
            rlx_port_info port;
            float values[MOST];
            assert_ok(rlx_program_input(program, 0, i, &port));
            for (uint32_t k = 0; k < port.elements; k++)
                values[k] = (float)(i + 1 + k);
            assert_ok(rlx_exec_set_input_f32(exec, 0, i, values, port.elements));
        }
        assert_ok(rlx_exec_run(exec, 0));
    }
    for (uint32_t i = 0; i < entry.output_count; i++) {
        float values[MOST];
        uint64_t count;
        assert_ok(rlx_exec_read_output_f32(exec, 0, i, values, MOST, &count));
        assert_int_equal(count, counts[i]);
        for (uint64_t k = 0; k < count; k++)
            assert_float_equal(values[k], expected[i][k], 0);
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

/* With every pass, with each left out, with none, and without reuse. */
static void check(const char *text, uint32_t runs, const float *const *expected,
                  const uint64_t *counts) {
    uint32_t passes = rlx_pass_count();
    for (uint32_t i = 0; i <= passes + 2; i++) {
        rlx_compile_options options = {.size = sizeof options};
        if (i < passes) options.disabled_passes = UINT64_C(1) << i;
        if (i == passes) options.disabled_passes = (UINT64_C(1) << passes) - 1;
        options.without_reuse = i == passes + 1;
        run_once(text, &options, runs, expected, counts);
    }
}

static void a_loop_may_swap_views_of_what_it_carries(void **state) {
    static const float a[] = {2, 4, 6, 3, 5, 7}, b[] = {1, 4, 2, 5, 3, 6};
    const float *expected[] = {a, b};
    (void)state;
    check("rlx 1\n"
          "input a0 : f32[2, 3]\n"
          "input b0 : f32[3, 2]\n"
          "const n : i64[] = [3]\n"
          "const go : bool[] = [true]\n"
          "a, b = loop(n, _, a0, b0) (i, x, y) {\n"
          "    yt = transpose(y) perm=[1, 0]\n"
          "    xt = transpose(x) perm=[1, 0]\n"
          "    yield go, yt, xt\n"
          "}\n"
          "output a\n"
          "output b\n",
          1, expected, (uint64_t[]){6, 6});
}

static void rows_of_a_loop_that_ends_early_are_counted(void **state) {
    static const float rows[] = {1, 2, 2, 4}, count[] = {2}, last[] = {4, 8};
    const float *expected[] = {last, rows, count};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2]\n"
          "const four : f32[] = [4]\n"
          "last, rows, count = loop(_, _, x) bound=8 (i, v) {\n"
          "    w = add(v, v)\n"
          "    m = reduce_max(w)\n"
          "    go = less_equal(m, four)\n"
          "    yield go, w, v\n"
          "}\n"
          "output last\n"
          "output rows\n"
          "output count\n",
          1, expected, (uint64_t[]){2, 4, 1});
}

static void a_loop_past_its_bound_is_a_fault(void **state) {
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    const float x = 1;
    (void)state;
    assert_ok(compile_text("rlx 1\n"
                           "input x : f32[]\n"
                           "const go : bool[] = [true]\n"
                           "y = loop(_, _, x) bound=3 (i, v) {\n"
                           "    w = add(v, v)\n"
                           "    yield go, w\n"
                           "}\n"
                           "output y\n",
                           NULL, &program));
    assert_ok(rlx_exec_create(program, NULL, &exec));
    assert_ok(rlx_exec_set_f32(exec, 0, "x", &x, 1));
    assert_status(RLX_FAULT, rlx_exec_run(exec, 0));
    assert_error_has("'y'");
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void branches_give_what_they_yield(void **state) {
    static const float a[] = {2, 3}, b[] = {4, 6};
    const float *expected[] = {a, b};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2]\n"
          "input y : f32[2]\n"
          "const one : f32[] = [1]\n"
          "s = reduce_sum(x)\n"
          "p = less(s, one)\n"
          "a, b = if(p) {\n"
          "    t = sub(x, y)\n"
          "    yield t, x\n"
          "} else {\n"
          "    t2 = add(y, y)\n"
          "    yield y, t2\n"
          "}\n"
          "output a\n"
          "output b\n",
          1, expected, (uint64_t[]){2, 2});
}

static void a_state_keeps_rows_between_runs(void **state) {
    static const float sum[] = {4, 8};
    const float *expected[] = {sum};
    (void)state;
    check("rlx 1\n"
          "input x : f32[1, 2]\n"
          "state k : f32[4, 2]\n"
          "state at : i64[1]\n"
          "const zero : i64[] = [0]\n"
          "const one : i64[1] = [1]\n"
          "here = squeeze(at)\n"
          "k1, n = state_write(k, x, here) axis=0\n"
          "s = reduce_sum(k1) axes=[0]\n"
          "twice = add(s, s)\n"
          "next = add(at, one)\n"
          "at1, m = state_write(at, next, zero) axis=0\n"
          "output twice\n",
          2, expected, (uint64_t[]){2});
}

static void rows_may_be_a_view_of_their_own_state(void **state) {
    static const float sum[] = {10, 14, 18};
    const float *expected[] = {sum};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2, 3]\n"
          "state k : f32[4, 3]\n"
          "const zero : i64[] = [0]\n"
          "const two : i64[] = [2]\n"
          "k1, l1 = state_write(k, x, zero) axis=0 wrap=true\n"
          "first = slice(k1) starts=[0] ends=[2] axes=[0]\n"
          "k2, l2 = state_write(k1, first, two) axis=0 wrap=true\n"
          "s = reduce_sum(k2) axes=[0]\n"
          "output s\n",
          1, expected, (uint64_t[]){3});
}

static void a_state_is_not_read_as_it_was_before_a_write(void **state) {
    rlx_program *program = NULL;
    (void)state;
    assert_status(RLX_INVALID_GRAPH, compile_text("rlx 1\n"
                                                  "input x : f32[2, 3]\n"
                                                  "state k : f32[4, 3]\n"
                                                  "const zero : i64[] = [0]\n"
                                                  "k1, n = state_write(k, x, zero) axis=0\n"
                                                  "s = relu(k)\n"
                                                  "output s\n",
                                                  NULL, &program));
    assert_error_has("reads state 'k' as it was before an earlier node wrote it");
}

static void an_output_is_no_state_as_it_was_before_a_write(void **state) {
    static const char *const outputs[] = {"k", "k1"};
    rlx_program *program = NULL;
    char text[400], expected[100];
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text,
                 "rlx 1\n"
                 "input x : f32[2, 3]\n"
                 "state k : f32[4, 3]\n"
                 "const zero : i64[] = [0]\n"
                 "k1, n = state_write(k, x, zero) axis=0\n"
                 "k2, m = state_write(k1, x, n) axis=0\n"
                 "output k2\n"
                 "output %s\n",
                 outputs[i]);
        assert_status(RLX_INVALID_GRAPH, compile_text(text, NULL, &program));
        snprintf(expected, sizeof expected, "output '%s' is state 'k' as it was before",
                 outputs[i]);
        assert_error_has(expected);
    }
}

/* Under its own name: no value stands for what a block wrote. */
static void an_output_state_holds_what_a_block_wrote(void **state) {
    static const float k[] = {1, 2, 2, 4}, y[] = {1, 2};
    const float *expected[] = {k, y};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2]\n"
          "state k : f32[4]\n"
          "const zero : i64[] = [0]\n"
          "const two : i64[] = [2]\n"
          "const low : f32[] = [0]\n"
          "output k\n"
          "m = reduce_max(x)\n"
          "c = greater(m, low)\n"
          "y = if(c) {\n"
          "    k1, n = state_write(k, x, zero)\n"
          "    twice = add(x, x)\n"
          "    k2, l = state_write(k1, twice, two)\n"
          "    yield x\n"
          "} else {\n"
          "    yield x\n"
          "}\n"
          "output y\n",
          2, expected, (uint64_t[]){4, 2});
}

static void a_view_of_a_state_is_kept_over_a_write(void **state) {
    static const float sum[] = {2, 4, 6, 8, 10, 12};
    const float *expected[] = {sum};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2, 3]\n"
          "state k : f32[4, 3]\n"
          "const zero : i64[] = [0]\n"
          "old = slice(k) starts=[0] ends=[2] axes=[0]\n"
          "twice = add(x, x)\n"
          "k1, n = state_write(k, twice, zero) axis=0\n"
          "s = add(old, twice)\n"
          "output s\n",
          1, expected, (uint64_t[]){6});
}

static void outputs_may_be_inputs_weights_and_states(void **state) {
    static const float x[] = {1, 2}, w[] = {7, 8}, k[] = {0, 0}, flat[] = {1, 2};
    const float *expected[] = {x, w, k, flat};
    (void)state;
    check("rlx 1\n"
          "input x : f32[1, 2]\n"
          "const w : f32[2] = [7, 8]\n"
          "state k : f32[2]\n"
          "flat = reshape(x) shape=[2]\n"
          "output x\n"
          "output w\n"
          "output k\n"
          "output flat\n",
          1, expected, (uint64_t[]){2, 2, 2, 2});
}

static void a_value_that_was_fused_away_has_no_slot(void **state) {
    static const char text[] = "rlx 1\n"
                               "input x : f32[2, 2]\n"
                               "const w : f32[2, 2] = [1, 2, 3, 4]\n"
                               "h = matmul(x, w)\n"
                               "y = relu(h)\n"
                               "output y\n";
    rlx_compile_options plain = {.size = sizeof plain};
    rlx_program *program = NULL;
    uint32_t slot;
    (void)state;
    plain.disabled_passes = (UINT64_C(1) << rlx_pass_count()) - 1;
    assert_ok(compile_text(text, NULL, &program));
    assert_status(RLX_NOT_FOUND, rlx_plan_find_slot(rlx_program_plan(program), "h", &slot));
    assert_ok(rlx_plan_find_slot(rlx_program_plan(program), "y", &slot));
    rlx_program_release(program);
    assert_ok(compile_text(text, &plain, &program));
    assert_ok(rlx_plan_find_slot(rlx_program_plan(program), "h", &slot));
    rlx_program_release(program);
}

static void a_product_does_not_overwrite_what_it_multiplies(void **state) {
    static const float y[] = {2, 4, 6, 8};
    const float *expected[] = {y};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2, 2]\n"
          "const w : f32[2, 2] = [1, 0, 0, 1]\n"
          "h = add(x, x)\n"
          "const half : f32[] = [0.5]\n"
          "g = mul(h, half)\n"
          "p = matmul(g, w)\n"
          "y = add(p, g)\n"
          "output y\n",
          1, expected, (uint64_t[]){4});
}

static void parts_of_a_concat_may_be_used_elsewhere(void **state) {
    static const float whole[] = {2, 3, 2, 3, 1, 2, 4, 5, 4, 5, 3, 4}, e[] = {4, 6, 8, 10};
    const float *expected[] = {whole, e};
    (void)state;
    check("rlx 1\n"
          "input x : f32[2, 2]\n"
          "const one : f32[] = [1]\n"
          "a = add(x, one)\n"
          "m = max(a, one)\n"
          "c = concat(a, m, x) axis=1\n"
          "e = add(a, m)\n"
          "r = reshape(c) shape=[12]\n"
          "output r\n"
          "output e\n",
          1, expected, (uint64_t[]){12, 4});
}

static void entries_share_weights_and_state(void **state) {
    const rlx_binding many = {"S", 3}, one = {"S", 1};
    const rlx_entry_spec entries[] = {{.name = "prefill", .bindings = &many, .binding_count = 1},
                                      {.name = "decode", .bindings = &one, .binding_count = 1}};
    rlx_compile_options options = {.size = sizeof options, .entries = entries, .entry_count = 2};
    rlx_program *program = NULL;
    (void)state;
    assert_ok(compile_text("rlx 1\n"
                           "symbol S\n"
                           "input x : f32[S, 4]\n"
                           "input pos : i64[]\n"
                           "param w : f32[4, 4] = seeded(1, 1)\n"
                           "param scale : f32[4] = seeded(2, 1)\n"
                           "state k : f32[8, 4]\n"
                           "ws = mul(w, scale)\n"
                           "h = matmul(x, ws)\n"
                           "k1, n = state_write(k, h, pos) axis=0\n"
                           "y = reduce_sum(k1) axes=[0]\n"
                           "output y\n",
                           &options, &program));
    const rlx_plan *plan = rlx_program_plan(program);
    /* ws, once; kernels may want it in panels of 16 or 32 columns */
    uint64_t weights = rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS);
    assert_true(weights == 64 || weights == 256 || weights == 512);
    assert_int_equal(rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE), 128);
    rlx_program_release(program);
}

/* The weights of y = x w with 512 rows of w and `columns`, for S of each of `count` bindings. */
static uint64_t weights_for(int columns, const rlx_binding *bindings, uint32_t count) {
    rlx_entry_spec entries[2] = {{.name = "a", .bindings = bindings, .binding_count = 1},
                                 {.name = "b", .bindings = bindings + 1, .binding_count = 1}};
    rlx_compile_options options = {
        .size = sizeof options, .entries = entries, .entry_count = count};
    rlx_program *program = NULL;
    char text[160];
    snprintf(text, sizeof text,
             "rlx 1\nsymbol S\ninput x : f32[S, 512]\nparam w : f32[512, %d] = seeded(1, 1)\n"
             "y = matmul(x, w)\noutput y\n",
             columns);
    assert_ok(compile_text(text, &options, &program));
    uint64_t bytes = rlx_plan_segment_bytes(rlx_program_plan(program), RLX_SEGMENT_WEIGHTS);
    rlx_program_release(program);
    return bytes;
}

static void a_weight_lies_one_way_for_few_rows_and_for_many(void **state) {
    const rlx_binding few_many[] = {{"S", 1}, {"S", 200}};
    (void)state;
    for (int columns = 1; columns <= 20; columns++) {
        uint64_t both = weights_for(columns, few_many, 2);
        assert_int_equal(both, weights_for(columns, few_many, 1));
        assert_int_equal(both, weights_for(columns, few_many + 1, 1));
    }
}

/* A reshape that no strides describe has moved its input already. */
static void an_output_that_was_moved_is_not_copied_again(void **state) {
    static const float turned[] = {1, 4, 2, 5, 3, 6}, negative[] = {-1, -4, -2, -5, -3, -6};
    static const char text[] = "rlx 1\n"
                               "input x : f32[2, 3]\n"
                               "t = transpose(x) perm=[1, 0]\n"
                               "y = reshape(t) shape=[6]\n"
                               "z = neg(y)\n"
                               "output y\n"
                               "output z\n";
    const float *expected[] = {turned, negative};
    rlx_compile_options options = {.size = sizeof options};
    rlx_program *program = NULL;
    rlx_entry_info entry;
    (void)state;
    check(text, 2, expected, (uint64_t[]){6, 6});
    assert_ok(compile_text(text, &options, &program));
    assert_ok(rlx_plan_entry_at(rlx_program_plan(program), 0, &entry));
    assert_int_equal(entry.step_count, 2);
    rlx_program_release(program);
}

static void two_entries_of_one_name_are_refused(void **state) {
    const rlx_entry_spec entries[] = {{.name = "a"}, {.name = "a"}};
    rlx_compile_options options = {.size = sizeof options, .entries = entries, .entry_count = 2};
    rlx_program *program = NULL;
    (void)state;
    assert_status(RLX_INVALID_ARGUMENT, compile_text("rlx 1\n"
                                                     "input x : f32[2]\n"
                                                     "y = neg(x)\n"
                                                     "output y\n",
                                                     &options, &program));
    assert_error_has("two entries are called 'a'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_may_swap_views_of_what_it_carries),
        cmocka_unit_test(rows_of_a_loop_that_ends_early_are_counted),
        cmocka_unit_test(a_loop_past_its_bound_is_a_fault),
        cmocka_unit_test(branches_give_what_they_yield),
        cmocka_unit_test(a_state_keeps_rows_between_runs),
        cmocka_unit_test(rows_may_be_a_view_of_their_own_state),
        cmocka_unit_test(a_state_is_not_read_as_it_was_before_a_write),
        cmocka_unit_test(an_output_is_no_state_as_it_was_before_a_write),
        cmocka_unit_test(an_output_state_holds_what_a_block_wrote),
        cmocka_unit_test(a_view_of_a_state_is_kept_over_a_write),
        cmocka_unit_test(outputs_may_be_inputs_weights_and_states),
        cmocka_unit_test(a_value_that_was_fused_away_has_no_slot),
        cmocka_unit_test(a_product_does_not_overwrite_what_it_multiplies),
        cmocka_unit_test(parts_of_a_concat_may_be_used_elsewhere),
        cmocka_unit_test(an_output_that_was_moved_is_not_copied_again),
        cmocka_unit_test(entries_share_weights_and_state),
        cmocka_unit_test(a_weight_lies_one_way_for_few_rows_and_for_many),
        cmocka_unit_test(two_entries_of_one_name_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
