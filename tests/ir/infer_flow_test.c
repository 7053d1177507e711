/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of if and loop: what yields must look like, bounds, and the extents of stacked rows.
 */
#include "support/support.h"

#include "ir/graph.h"
#include "ir/infer.h"

typedef struct fixture {
    rlx_graph *graph;
    rlx_value_id flag, yes, no, trips, five; /* bool input, true, false, i64 input, constant 5 */
    rlx_value_id x, y;                       /* f32 [2, 3], f32 [4] */
    rlx_value_id out[4];
} fixture;

static const rlx_shape scalar = {0};

static int set_up(void **state) {
    static fixture self;
    rlx_shape grid = {2, {2, 3}}, line = {1, {4}};
    uint8_t yes = 1, no = 0;
    int64_t five = 5;
    self = (fixture){0};
    assert_ok(rlx_graph_create(NULL, &self.graph));
    assert_ok(rlx_graph_add_input(self.graph, "flag", RLX_DTYPE_BOOL, scalar, &self.flag));
    assert_ok(rlx_graph_add_input(self.graph, "trips", RLX_DTYPE_I64, scalar, &self.trips));
    assert_ok(rlx_graph_add_input(self.graph, "x", RLX_DTYPE_F32, grid, &self.x));
    assert_ok(rlx_graph_add_input(self.graph, "y", RLX_DTYPE_F32, line, &self.y));
    assert_ok(
        rlx_graph_add_constant(self.graph, "yes", RLX_DTYPE_BOOL, scalar, &yes, 1, &self.yes));
    assert_ok(rlx_graph_add_constant(self.graph, "no", RLX_DTYPE_BOOL, scalar, &no, 1, &self.no));
    assert_ok(
        rlx_graph_add_constant(self.graph, "five", RLX_DTYPE_I64, scalar, &five, 8, &self.five));
    *state = &self;
    return 0;
}

static int tear_down(void **state) {
    rlx_graph_destroy(((fixture *)*state)->graph);
    return 0;
}

static const rlx_type *result(const fixture *self, uint32_t output) {
    assert_true(self->graph->values.items[self->out[output]].is_typed);
    return &self->graph->values.items[self->out[output]].type;
}

/* A block that only yields. */
static rlx_block_id block_of(fixture *self, const rlx_value_id *yields, uint32_t count) {
    rlx_block_id block;
    assert_ok(rlx_graph_begin_block(self->graph, NULL, 0, NULL, &block));
    assert_ok(rlx_graph_end_block(self->graph, block, yields, count));
    return block;
}

static rlx_status add_if(fixture *self, rlx_value_id condition, rlx_block_id then_block,
                         rlx_block_id else_block, uint32_t outputs) {
    return rlx_graph_add_flow(self->graph, RLX_OP_IF, NULL, &condition, 1,
                              (rlx_block_id[]){then_block, else_block}, 2, outputs, self->out);
}

static void both_branches_yield_the_same(void **state) {
    fixture *self = *state;
    rlx_value_id x = self->x, y = self->y;
    assert_ok(add_if(self, self->flag, block_of(self, &x, 1), block_of(self, &x, 1), 1));
    assert_int_equal(3, result(self, 0)->shape.dims[1]);
    assert_status(RLX_INVALID_GRAPH,
                  add_if(self, self->flag, block_of(self, &x, 1), block_of(self, &y, 1), 1));
    assert_error_has("yield 0 is f32[2, 3] on one side and f32[4] on the other");
    assert_status(RLX_INVALID_GRAPH, add_if(self, self->flag, block_of(self, &x, 1),
                                            block_of(self, (rlx_value_id[]){x, y}, 2), 1));
    assert_error_has("1 outputs, the branches yield 1 and 2");
    assert_status(RLX_INVALID_GRAPH,
                  add_if(self, self->x, block_of(self, &x, 1), block_of(self, &x, 1), 1));
    assert_error_has("the condition is f32[2, 3], wanted one bool");
}

/* nonzero(x) inside a block; yields the places, and the count beside them when asked. */
static rlx_block_id nonzero_block(fixture *self, bool with_count) {
    rlx_value_id yields[2];
    rlx_block_id block;
    assert_ok(rlx_graph_begin_block(self->graph, NULL, 0, NULL, &block));
    assert_ok(rlx_graph_add_node(self->graph, RLX_OP_NONZERO, NULL, &self->x, 1, 2, yields));
    assert_ok(rlx_graph_end_block(self->graph, block, yields, with_count ? 2 : 1));
    return block;
}

static void a_run_time_size_leaves_a_branch_with_its_value(void **state) {
    fixture *self = *state;
    assert_ok(add_if(self, self->flag, nonzero_block(self, true), nonzero_block(self, true), 2));
    assert_int_equal(self->out[1], result(self, 0)->extents[1]);
    assert_status(RLX_UNSUPPORTED, add_if(self, self->flag, nonzero_block(self, false),
                                          nonzero_block(self, false), 1));
    assert_error_has("not yielded with them");
    /* A size from outside needs no company. */
    self->graph->values.items[self->x].type.extents[0] = self->trips;
    assert_ok(
        add_if(self, self->flag, block_of(self, &self->x, 1), block_of(self, &self->x, 1), 1));
    assert_int_equal(self->trips, result(self, 0)->extents[0]);
}

/* A loop over x whose body yields (go_on, x + x, y). */
static rlx_block_id body_of(fixture *self, rlx_value_id go_on) {
    rlx_value_id inputs[2], sum;
    rlx_block_id block;
    assert_ok(
        rlx_graph_begin_block(self->graph, (rlx_value_id[]){RLX_NONE, self->x}, 2, inputs, &block));
    assert_ok(rlx_graph_add_binary(self->graph, RLX_OP_ADD, inputs[1], inputs[1], &sum));
    assert_ok(rlx_graph_end_block(self->graph, block, (rlx_value_id[]){go_on, sum, self->y}, 3));
    return block;
}

static rlx_status add_loop(fixture *self, int64_t bound, rlx_value_id trips, rlx_value_id condition,
                           rlx_value_id go_on, uint32_t outputs) {
    rlx_block_id body = body_of(self, go_on);
    return rlx_graph_add_flow(self->graph, RLX_OP_LOOP, &(rlx_loop_attrs){bound},
                              (rlx_value_id[]){trips, condition, self->x}, 3, &body, 1, outputs,
                              self->out);
}

static void rows_stack_to_the_bound(void **state) {
    fixture *self = *state;
    assert_ok(add_loop(self, 7, self->trips, self->flag, self->flag, 3));
    assert_int_equal(2, result(self, 0)->shape.rank);
    assert_int_equal(2, result(self, 1)->shape.rank);
    assert_int_equal(7, result(self, 1)->shape.dims[0]);
    assert_int_equal(4, result(self, 1)->shape.dims[1]);
    assert_int_equal(self->out[2], result(self, 1)->extents[0]);
    assert_int_equal(RLX_DTYPE_I64, result(self, 2)->dtype);
    /* A constant trip count bounds it too; the smaller counts. */
    assert_ok(add_loop(self, 0, self->five, RLX_NONE, self->flag, 3));
    assert_int_equal(5, result(self, 1)->shape.dims[0]);
    assert_ok(add_loop(self, 3, self->five, RLX_NONE, self->flag, 3));
    assert_int_equal(3, result(self, 1)->shape.dims[0]);
}

static void the_count_may_be_left_out_when_it_is_known(void **state) {
    fixture *self = *state;
    assert_ok(add_loop(self, 0, self->five, self->yes, self->yes, 2));
    assert_int_equal(RLX_NONE, result(self, 1)->extents[0]);
    const struct {
        int64_t bound;
        rlx_value_id trips, condition, go_on;
    } early[] = {{9, self->trips, self->yes, self->yes},
                 {3, self->five, self->yes, self->yes},
                 {0, self->five, self->flag, self->yes},
                 {0, self->five, self->yes, self->flag},
                 {0, self->five, self->no, self->yes}};
    for (size_t i = 0; i < sizeof early / sizeof early[0]; i++) {
        assert_status(RLX_INVALID_GRAPH, add_loop(self, early[i].bound, early[i].trips,
                                                  early[i].condition, early[i].go_on, 2));
        assert_error_has("may stop early");
    }
}

static void a_loop_without_a_bound_is_refused(void **state) {
    fixture *self = *state;
    assert_status(RLX_INVALID_GRAPH, add_loop(self, 0, self->trips, self->flag, self->flag, 3));
    assert_error_has("no bound");
    assert_status(RLX_INVALID_GRAPH, add_loop(self, -4, self->trips, self->flag, self->flag, 3));
    assert_error_has("bound -4");
}

static void loops_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id inputs[2], go_on = self->flag;
    rlx_block_id body;
    rlx_value_id like[] = {RLX_NONE, self->x};
    rlx_loop_attrs attrs = {4};
    assert_status(RLX_INVALID_GRAPH, add_loop(self, 4, self->flag, self->flag, self->flag, 3));
    assert_error_has("the trip count is bool[], wanted one i64");
    assert_status(RLX_INVALID_GRAPH, add_loop(self, 4, self->trips, self->flag, self->trips, 3));
    assert_error_has("yield 0 is i64[], wanted one bool");
    assert_status(RLX_INVALID_GRAPH, add_loop(self, 4, self->trips, self->flag, go_on, 5));
    assert_error_has("5 outputs; carried 1, scanned 1");
    assert_ok(rlx_graph_begin_block(self->graph, like, 2, inputs, &body));
    assert_ok(rlx_graph_end_block(self->graph, body, (rlx_value_id[]){go_on, self->y}, 2));
    rlx_value_id in[] = {self->trips, self->flag, self->x};
    assert_status(RLX_INVALID_GRAPH, rlx_graph_add_flow(self->graph, RLX_OP_LOOP, &attrs, in, 3,
                                                        &body, 1, 1, self->out));
    assert_error_has("carried value 0 is f32[2, 3] on one side and f32[4] on the other");
    assert_ok(rlx_graph_begin_block(self->graph, like, 1, inputs, &body));
    assert_ok(rlx_graph_end_block(self->graph, body, &go_on, 1));
    assert_status(RLX_INVALID_GRAPH, rlx_graph_add_flow(self->graph, RLX_OP_LOOP, &attrs, in, 3,
                                                        &body, 1, 1, self->out));
    assert_error_has("carries 1 values, its body takes 1 and yields 1");
}

static void inference_runs_again_after_a_symbol_is_bound(void **state) {
    fixture *self = *state;
    int64_t symbol;
    rlx_value_id s, inputs[2];
    rlx_block_id body;
    rlx_shape shape = {1, {0}};
    assert_ok(rlx_graph_symbol(self->graph, "S", &symbol));
    shape.dims[0] = symbol;
    assert_ok(rlx_graph_add_input(self->graph, "s", RLX_DTYPE_F32, shape, &s));
    rlx_value_id like[] = {RLX_NONE, s}, sum;
    assert_ok(rlx_graph_begin_block(self->graph, like, 2, inputs, &body));
    assert_ok(rlx_graph_add_binary(self->graph, RLX_OP_ADD, inputs[1], inputs[1], &sum));
    assert_ok(rlx_graph_end_block(self->graph, body, (rlx_value_id[]){self->yes, sum, sum}, 3));
    assert_ok(rlx_graph_add_flow(self->graph, RLX_OP_LOOP, NULL,
                                 (rlx_value_id[]){self->five, RLX_NONE, s}, 3, &body, 1, 2,
                                 self->out));
    assert_false(self->graph->values.items[self->out[1]].is_typed);
    self->graph->values.items[s].type.shape.dims[0] = 6;
    assert_ok(rlx_graph_infer(self->graph));
    assert_int_equal(5, result(self, 1)->shape.dims[0]);
    assert_int_equal(6, result(self, 1)->shape.dims[1]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(both_branches_yield_the_same),
        TEST(a_run_time_size_leaves_a_branch_with_its_value),
        TEST(rows_stack_to_the_bound),
        TEST(the_count_may_be_left_out_when_it_is_known),
        TEST(a_loop_without_a_bound_is_refused),
        TEST(loops_are_refused_with_the_reason),
        TEST(inference_runs_again_after_a_symbol_is_bound),
    };
    return cmocka_run_group_tests_name("ir_infer_flow", tests, NULL, NULL);
}
