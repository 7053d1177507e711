/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs mean the same before and after the passes: all of them, each alone, and all but
 * one. */
#include "compile/compile.h"
#include "support/agree.h"
#include "support/random_graph.h"
#include "support/support.h"

#include <stdio.h>

enum { GRAPHS = 200 };

/* Runs the passes of one mask over a copy of the graph. */
static rlx_status passed(const rlx_graph *graph, uint64_t disabled, const rlx_allocator *allocator,
                         rlx_graph **out_graph) {
    rlx_compile_options options = {.size = sizeof options, .disabled_passes = disabled};
    rlx_entry_spec entry = {0};
    rlx_scratch scratch = {.allocator = allocator};
    rlx_graph *copy = NULL;
    RLX_TRY(rlx_graph_clone(graph, allocator, &copy));
    rlx_pass_context context = {
        .graph = copy, .options = &options, .entry = &entry, .scratch = &scratch};
    rlx_status status = rlx_run_passes(&context);
    rlx_scratch_reset(&scratch);
    if (status == RLX_OK) status = rlx_graph_verify(copy);
    if (status != RLX_OK) {
        rlx_graph_destroy(copy);
        return status;
    }
    *out_graph = copy;
    return RLX_OK;
}

static void assert_agrees(const rlx_graph *graph, uint64_t disabled, uint64_t seed) {
    rlx_graph *after = NULL;
    uint32_t index;
    assert_ok(passed(graph, disabled, NULL, &after));
    double difference = rlx_test_difference(graph, after, seed, &index);
    if (!(difference <= 2e-4)) {
        char *before_text = NULL, *after_text = NULL;
        assert_ok(rlx_graph_print(graph, &before_text));
        assert_ok(rlx_graph_print(after, &after_text));
        print_error("seed %u, passes off %llx: output %u differs by %g\n%s---\n%s", (unsigned)seed,
                    (unsigned long long)disabled, index, difference, before_text, after_text);
        rlx_string_free(NULL, before_text);
        rlx_string_free(NULL, after_text);
        fail();
    }
    rlx_graph_destroy(after);
}

static uint64_t every_pass(void) {
    return (UINT64_C(1) << rlx_pass_count()) - 1;
}

static void all_passes_together_change_no_result(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        assert_agrees(graph, 0, seed);
        rlx_graph_destroy(graph);
    }
}

static void each_pass_alone_changes_no_result(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        uint32_t pass = (uint32_t)(seed % rlx_pass_count());
        assert_agrees(graph, every_pass() & ~(UINT64_C(1) << pass), seed);
        rlx_graph_destroy(graph);
    }
}

static void leaving_out_any_pass_changes_no_result(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        uint32_t pass = (uint32_t)(seed % rlx_pass_count());
        assert_agrees(graph, UINT64_C(1) << pass, seed);
        rlx_graph_destroy(graph);
    }
}

static void passes_may_run_on_what_they_have_made(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed), *once = NULL;
        assert_ok(passed(graph, 0, NULL, &once));
        assert_agrees(once, 0, seed);
        rlx_graph_destroy(graph);
        rlx_graph_destroy(once);
    }
}

/* Otherwise the tests above say little. */
static void every_fusion_happens_in_random_graphs(void **state) {
    static const rlx_op fused[] = {RLX_OP_CHAIN,    RLX_OP_ATTENTION, RLX_OP_LAYER_NORM,
                                   RLX_OP_RMS_NORM, RLX_OP_GELU_TANH, RLX_OP_HARD_SWISH};
    uint32_t counts[RLX_OP_COUNT] = {0}, residuals = 0, sums = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed), *after = NULL;
        assert_ok(passed(graph, 0, NULL, &after));
        for (uint32_t n = 0; n < after->nodes.count; n++) {
            const rlx_node *node = &after->nodes.items[n];
            if (node->is_dead) continue;
            counts[node->op]++;
            residuals += node->op == RLX_OP_CONV && node->input_count == 4;
            sums += node->op == RLX_OP_RMS_NORM && node->output_count == 2;
        }
        rlx_graph_destroy(graph);
        rlx_graph_destroy(after);
    }
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++)
        assert_true(counts[fused[i]] >= 5);
    assert_true(residuals >= 5 && sums >= 5);
    assert_int_equal(counts[RLX_OP_SQUEEZE], 0);
}

static rlx_graph *fresh_graph(rlx_value_id *out_x) {
    rlx_graph *graph = NULL;
    assert_ok(rlx_graph_create(NULL, &graph));
    assert_ok(rlx_graph_add_input(graph, "x", RLX_DTYPE_F32, (rlx_shape){2, {4, 4}}, out_x));
    return graph;
}

static uint32_t chain_count(const rlx_graph *graph) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->nodes.count; n++)
        count += !graph->nodes.items[n].is_dead && graph->nodes.items[n].op == RLX_OP_CHAIN;
    return count;
}

/* A chain has room for 256 instructions. */
static void a_long_chain_becomes_a_few(void **state) {
    rlx_value_id x;
    rlx_graph *graph = fresh_graph(&x), *after = NULL;
    (void)state;
    for (uint32_t i = 0; i < 600; i++)
        assert_ok(rlx_graph_add_unary(graph, i % 2 == 0 ? RLX_OP_SIN : RLX_OP_NEG, x, &x));
    assert_ok(rlx_graph_add_output(graph, x, NULL));
    assert_agrees(graph, 0, 1);
    assert_ok(passed(graph, 0, NULL, &after));
    assert_int_equal(chain_count(after), 3);
    rlx_graph_destroy(after);
    rlx_graph_destroy(graph);
}

/* And for 32 inputs. */
static void a_wide_sum_becomes_a_few(void **state) {
    rlx_value_id x, sum;
    rlx_graph *graph = fresh_graph(&x), *after = NULL;
    (void)state;
    sum = x;
    for (uint32_t i = 0; i < 80; i++) {
        assert_ok(rlx_graph_add_input(graph, NULL, RLX_DTYPE_F32, (rlx_shape){2, {4, 4}}, &x));
        assert_ok(rlx_graph_add_binary(graph, RLX_OP_ADD, sum, x, &sum));
    }
    assert_ok(rlx_graph_add_output(graph, sum, NULL));
    assert_agrees(graph, 0, 1);
    assert_ok(passed(graph, 0, NULL, &after));
    assert_int_equal(chain_count(after), 3);
    rlx_graph_destroy(after);
    rlx_graph_destroy(graph);
}

static rlx_status compile_once(const rlx_allocator *allocator, void *argument) {
    rlx_graph *after = NULL;
    RLX_TRY(passed(argument, 0, allocator, &after));
    rlx_graph_destroy(after);
    return RLX_OK;
}

static void every_allocation_of_the_passes_may_fail(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        rlx_graph *graph = rlx_test_random_graph(seed);
        (void)rlx_test_every_allocation_fails(compile_once, graph);
        rlx_graph_destroy(graph);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_passes_together_change_no_result),
        cmocka_unit_test(each_pass_alone_changes_no_result),
        cmocka_unit_test(leaving_out_any_pass_changes_no_result),
        cmocka_unit_test(passes_may_run_on_what_they_have_made),
        cmocka_unit_test(every_fusion_happens_in_random_graphs),
        cmocka_unit_test(a_long_chain_becomes_a_few),
        cmocka_unit_test(a_wide_sum_becomes_a_few),
        cmocka_unit_test(every_allocation_of_the_passes_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
