/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of graphs, with everything of their own and with shared memory, and taking out what no one
 * needs. Graphs are compared as text. */
#include "support/support.h"

#include "ir/graph.h"
#include "ir/text.h"

static const char sample[] = "rlx 1\n"
                             "input c : bool[]\n"
                             "input unused : f32[2]\n"
                             "input x : f32[4]\n"
                             "param w : f32[4] = seeded(1, 0.5)\n"
                             "param spare : f32[4] = seeded(2, 0.5)\n"
                             "const k : i64[1] = [0]\n"
                             "const two : f32[] = 2\n"
                             "state s : f32[4]\n"
                             "idle = neg(x)\n"
                             "a = mul(x, w)\n"
                             "b = if(c) {\n"
                             "    t = mul(a, two)\n"
                             "    yield t\n"
                             "} else {\n"
                             "    yield a\n"
                             "}\n"
                             "at, count = nonzero(a)\n"
                             "output b\n"
                             "output at\n";

static rlx_graph *parse(const rlx_allocator *allocator) {
    rlx_graph *graph = NULL;
    assert_ok(rlx_graph_parse(allocator, sample, strlen(sample), &graph));
    return graph;
}

static char *text_of(const rlx_graph *graph) {
    char *text = NULL;
    assert_ok(rlx_graph_verify(graph));
    assert_ok(rlx_graph_print_options(graph, RLX_PRINT_TYPES, &text));
    return text;
}

static void kill_node(rlx_graph *graph, const char *output) {
    rlx_value_id value;
    assert_ok(rlx_graph_find(graph, output, &value));
    graph->nodes.items[graph->values.items[value].producer].is_dead = true;
}

static bool has_value(const rlx_graph *graph, const char *name) {
    rlx_value_id value;
    if (rlx_graph_find(graph, name, &value) != RLX_OK) return false;
    assert_string_equal(graph->values.items[value].name, name);
    return true;
}

static void a_shared_copy_changes_alone(void **state) {
    (void)state;
    rlx_graph *graph = parse(NULL), *copy = NULL;
    rlx_value_id value;
    char *before = text_of(graph);
    assert_ok(rlx_graph_share(graph, NULL, &copy));
    char *copied = text_of(copy);
    assert_string_equal(copied, before);
    assert_ok(rlx_graph_find(copy, "w", &value));
    assert_ok(rlx_graph_rename(copy, value, "weights"));
    kill_node(copy, "idle");
    assert_ok(rlx_graph_compact(copy));
    rlx_graph_destroy(copy);
    char *after = text_of(graph);
    assert_string_equal(after, before);
    rlx_string_free(NULL, before);
    rlx_string_free(NULL, copied);
    rlx_string_free(NULL, after);
    rlx_graph_destroy(graph);
}

static void what_nobody_needs_is_left_out(void **state) {
    (void)state;
    rlx_graph *graph = parse(NULL), *again = NULL;
    uint32_t values = graph->values.count, nodes = graph->nodes.count;
    kill_node(graph, "idle");
    assert_ok(rlx_graph_compact(graph));
    assert_int_equal(graph->values.count, values - 3); /* idle, spare, k */
    assert_int_equal(graph->nodes.count, nodes - 1);
    assert_false(has_value(graph, "idle") || has_value(graph, "spare") || has_value(graph, "k"));
    assert_true(has_value(graph, "unused") && has_value(graph, "s") && has_value(graph, "count"));
    char *text = text_of(graph), *second = NULL;
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &again));
    second = text_of(again);
    assert_string_equal(second, text);
    rlx_string_free(NULL, text);
    rlx_string_free(NULL, second);
    rlx_graph_destroy(again);
    rlx_graph_destroy(graph);
}

static void a_compact_graph_grows_again(void **state) {
    (void)state;
    rlx_graph *graph = parse(NULL);
    rlx_value_id x, value;
    kill_node(graph, "idle");
    assert_ok(rlx_graph_compact(graph));
    assert_ok(rlx_graph_find(graph, "x", &x));
    for (uint32_t i = 0; i < 100; i++) {
        value = x;
        assert_ok(rlx_graph_add_node(graph, RLX_OP_NEG, NULL, &value, 1, 1, &x));
    }
    assert_ok(rlx_graph_add_output(graph, x, "y"));
    assert_ok(rlx_graph_verify(graph));
    rlx_graph_destroy(graph);
}

static void an_empty_graph_is_compact(void **state) {
    (void)state;
    rlx_graph *graph = NULL;
    assert_ok(rlx_graph_create(NULL, &graph));
    assert_ok(rlx_graph_compact(graph));
    assert_int_equal(graph->values.count, 0);
    rlx_graph_destroy(graph);
}

static rlx_status copy_and_compact(const rlx_allocator *allocator, void *argument) {
    rlx_graph *copy = NULL;
    RLX_TRY(rlx_graph_share(argument, allocator, &copy));
    rlx_status status = rlx_graph_compact(copy);
    if (status != RLX_OK)
        assert_int_equal(copy->values.count, ((rlx_graph *)argument)->values.count);
    rlx_graph_destroy(copy);
    return status;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    rlx_graph *graph = parse(NULL);
    rlx_test_every_allocation_fails(copy_and_compact, graph);
    rlx_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_copy_changes_alone),
        cmocka_unit_test(what_nobody_needs_is_left_out),
        cmocka_unit_test(a_compact_graph_grows_again),
        cmocka_unit_test(an_empty_graph_is_compact),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
