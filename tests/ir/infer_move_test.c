/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of movement: what they refuse and with which facts, and how run-time sizes travel.
 * That accepted shapes are right is tested with the kernels (tests/ref). */
#include "support/support.h"

#include "ir/graph.h"
#include "ir/infer.h"

enum { MOST = 8 };

typedef struct fixture {
    rlx_graph *graph;
    rlx_value_id out[MOST];
    rlx_value_id extent, other; /* two i64 [] values */
} fixture;

static rlx_shape shape_of(uint32_t rank, const int64_t *dims) {
    rlx_shape shape = {.rank = rank};
    memcpy(shape.dims, dims, rank * sizeof *dims);
    return shape;
}
#define DIMS(...) \
    shape_of(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})
#define INTS(...)                                             \
    {                                                         \
        sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), { \
            __VA_ARGS__                                       \
        }                                                     \
    }

static int set_up(void **state) {
    static fixture self;
    rlx_shape scalar = {0};
    self = (fixture){0};
    assert_ok(rlx_graph_create(NULL, &self.graph));
    assert_ok(rlx_graph_add_input(self.graph, "n", RLX_DTYPE_I64, scalar, &self.extent));
    assert_ok(rlx_graph_add_input(self.graph, "m", RLX_DTYPE_I64, scalar, &self.other));
    *state = &self;
    return 0;
}

static int tear_down(void **state) {
    rlx_graph_destroy(((fixture *)*state)->graph);
    return 0;
}

static rlx_value_id input(fixture *self, rlx_dtype dtype, rlx_shape shape) {
    rlx_value_id value;
    assert_ok(rlx_graph_add_input(self->graph, NULL, dtype, shape, &value));
    return value;
}

/* An f32 input whose `axis` has the true size `extent`. */
static rlx_value_id sized(fixture *self, rlx_shape shape, uint32_t axis, rlx_value_id extent) {
    rlx_value_id value = input(self, RLX_DTYPE_F32, shape);
    self->graph->values.items[value].type.extents[axis] = extent;
    return value;
}

static rlx_status add(fixture *self, rlx_op op, const void *attrs, const rlx_value_id *in,
                      uint32_t in_count, uint32_t out_count) {
    return rlx_graph_add_node(self->graph, op, attrs, in, in_count, out_count, self->out);
}

static rlx_status add1(fixture *self, rlx_op op, const void *attrs, rlx_value_id in) {
    return add(self, op, attrs, &in, 1, 1);
}

static const rlx_type *result(const fixture *self, uint32_t output) {
    assert_true(self->graph->values.items[self->out[output]].is_typed);
    return &self->graph->values.items[self->out[output]].type;
}

#define assert_refused(status, text, call) \
    do {                                   \
        assert_status((status), (call));   \
        assert_error_has(text);            \
    } while (0)

static void slices_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_F32, DIMS(4, 6));
    rlx_slice_attrs no_step = {.starts = INTS(0), .ends = INTS(4), .steps = INTS(0)};
    rlx_slice_attrs far = {.starts = INTS(0), .ends = INTS(4), .axes = INTS(2)};
    rlx_slice_attrs twice = {.starts = INTS(0, 0), .ends = INTS(4, 4), .axes = INTS(1, -1)};
    rlx_slice_attrs uneven = {.starts = INTS(0, 1), .ends = INTS(4)};
    rlx_slice_attrs many = {.starts = INTS(0, 0, 0), .ends = INTS(1, 1, 1)};
    rlx_slice_attrs edge = {
        .starts = INTS(INT64_MIN), .ends = INTS(INT64_MAX), .axes = INTS(INT64_MIN)};
    assert_refused(RLX_INVALID_GRAPH, "slice step is 0", add1(self, RLX_OP_SLICE, &no_step, x));
    assert_refused(RLX_INVALID_GRAPH, "slice axis 2 of rank 2", add1(self, RLX_OP_SLICE, &far, x));
    assert_refused(RLX_INVALID_GRAPH, "axis 1 twice", add1(self, RLX_OP_SLICE, &twice, x));
    assert_refused(RLX_INVALID_GRAPH, "2 starts, 1 ends", add1(self, RLX_OP_SLICE, &uneven, x));
    assert_refused(RLX_INVALID_GRAPH, "3 starts", add1(self, RLX_OP_SLICE, &many, x));
    assert_refused(RLX_INVALID_GRAPH, "of rank 2", add1(self, RLX_OP_SLICE, &edge, x));
}

static void concats_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_axis_attrs axis0 = {0}, axis2 = {2};
    rlx_value_id a = input(self, RLX_DTYPE_F32, DIMS(2, 3));
    rlx_value_id wide = input(self, RLX_DTYPE_F32, DIMS(2, 4));
    rlx_value_id half = input(self, RLX_DTYPE_F16, DIMS(2, 3));
    rlx_value_id line = input(self, RLX_DTYPE_F32, DIMS(3));
    rlx_value_id huge = input(self, RLX_DTYPE_U8, DIMS(INT64_MAX - 1));
    assert_refused(RLX_INVALID_GRAPH, "axis 1 of inputs 0 and 1 of concat is 3 and 4",
                   add(self, RLX_OP_CONCAT, &axis0, (rlx_value_id[]){a, wide}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "are f32 and f16",
                   add(self, RLX_OP_CONCAT, &axis0, (rlx_value_id[]){a, half}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "ranks 2 and 1",
                   add(self, RLX_OP_CONCAT, &axis0, (rlx_value_id[]){a, line}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "axis 2",
                   add(self, RLX_OP_CONCAT, &axis2, (rlx_value_id[]){a, a}, 2, 1));
    assert_refused(RLX_OUT_OF_BOUNDS, "longer than 2^63",
                   add(self, RLX_OP_CONCAT, &axis0, (rlx_value_id[]){huge, huge}, 2, 1));
}

static void splits_fill_their_axis_exactly(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_F32, DIMS(5, 2));
    rlx_split_attrs less = {.sizes = {2, (int64_t[]){2, 2}}};
    rlx_split_attrs more = {.sizes = {2, (int64_t[]){4, 2}}};
    rlx_split_attrs negative = {.sizes = {2, (int64_t[]){6, -1}}};
    rlx_split_attrs three = {.sizes = {3, (int64_t[]){1, 1, 3}}};
    rlx_split_attrs wraps = {.sizes = {2, (int64_t[]){INT64_MAX, INT64_MAX}}};
    assert_refused(RLX_INVALID_GRAPH, "add to 4, axis has 5",
                   add(self, RLX_OP_SPLIT, &less, &x, 1, 2));
    assert_refused(RLX_INVALID_GRAPH, "part 1 of split has size 2",
                   add(self, RLX_OP_SPLIT, &more, &x, 1, 2));
    assert_status(RLX_INVALID_GRAPH, add(self, RLX_OP_SPLIT, &negative, &x, 1, 2));
    assert_refused(RLX_INVALID_GRAPH, "3 sizes and 2 outputs",
                   add(self, RLX_OP_SPLIT, &three, &x, 1, 2));
    assert_status(RLX_INVALID_GRAPH, add(self, RLX_OP_SPLIT, &wraps, &x, 1, 2));
    assert_ok(add(self, RLX_OP_SPLIT, &(rlx_split_attrs){0}, &x, 1, 3));
    assert_int_equal(1, result(self, 2)->shape.dims[0]); /* 2, 2, 1 */
    /* 2, 2, 1 and then a part of -1. */
    assert_status(RLX_INVALID_GRAPH, add(self, RLX_OP_SPLIT, &(rlx_split_attrs){0}, &x, 1, 4));
}

static void pads_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_F32, DIMS(3)),
                 none = input(self, RLX_DTYPE_F32, DIMS(0));
    rlx_pad_attrs few = {.pads = INTS(1)}, eats = {.pads = INTS(-2, -2)};
    rlx_pad_attrs deep = {.pads = INTS(INT64_MIN, INT64_MIN)};
    rlx_pad_attrs high = {.pads = INTS(INT64_MAX, 1)};
    rlx_pad_attrs mirror = {.pads = INTS(1, 0), .mode = RLX_PAD_REFLECT};
    assert_refused(RLX_INVALID_GRAPH, "1 pads", add1(self, RLX_OP_PAD, &few, x));
    assert_refused(RLX_INVALID_GRAPH, "remove more than axis 0 has (3)",
                   add1(self, RLX_OP_PAD, &eats, x));
    assert_status(RLX_INVALID_GRAPH, add1(self, RLX_OP_PAD, &deep, x));
    assert_refused(RLX_OUT_OF_BOUNDS, "longer than 2^63", add1(self, RLX_OP_PAD, &high, x));
    assert_refused(RLX_INVALID_GRAPH, "nothing to pad with", add1(self, RLX_OP_PAD, &mirror, none));
}

static void reshapes_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_F32, DIMS(4, 6));
    rlx_value_id empty = input(self, RLX_DTYPE_F32, DIMS(0, 6));
    rlx_reshape_attrs other = {.shape = INTS(5, 5)}, twice = {.shape = INTS(-1, -1)};
    rlx_reshape_attrs below = {.shape = INTS(-2, 12)}, past = {.shape = INTS(4, 6, 0)};
    rlx_reshape_attrs odd = {.shape = INTS(-1, 7)}, unclear = {.shape = INTS(0, -1)};
    rlx_reshape_attrs wraps = {.shape = INTS(INT64_MAX, INT64_MAX)};
    rlx_reshape_attrs deep = {.shape = {.count = 9}};
    assert_refused(RLX_INVALID_GRAPH, "24 elements to 25", add1(self, RLX_OP_RESHAPE, &other, x));
    assert_refused(RLX_INVALID_GRAPH, "a second -1", add1(self, RLX_OP_RESHAPE, &twice, x));
    assert_refused(RLX_INVALID_GRAPH, "dim 0 is -2", add1(self, RLX_OP_RESHAPE, &below, x));
    assert_refused(RLX_INVALID_GRAPH, "copies dim 2", add1(self, RLX_OP_RESHAPE, &past, x));
    assert_refused(RLX_INVALID_GRAPH, "product 7", add1(self, RLX_OP_RESHAPE, &odd, x));
    assert_refused(RLX_INVALID_GRAPH, "product 0", add1(self, RLX_OP_RESHAPE, &unclear, empty));
    assert_status(RLX_OUT_OF_BOUNDS, add1(self, RLX_OP_RESHAPE, &wraps, x));
    assert_refused(RLX_INVALID_GRAPH, "rank 9", add1(self, RLX_OP_RESHAPE, &deep, x));
}

static void axes_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_F32, DIMS(1, 6));
    rlx_axes_attrs wide = {INTS(1)}, twice = {INTS(0, -2)}, far = {INTS(2)};
    rlx_axes_attrs many = {INTS(0, 1, 2, 3, 4, 5, 6)}, same = {INTS(1, 1)}, out = {INTS(3)};
    rlx_axis_attrs late = {3};
    rlx_transpose_attrs few = {INTS(0)}, repeated = {INTS(1, 1)}, negative = {INTS(-1, 0)};
    rlx_reshape_attrs repeats = {INTS(-1, 1)}, high = {INTS(1, INT64_MAX)}, one = {INTS(2)};
    rlx_reshape_attrs mixed = {INTS(1, 5)}, minus = {INTS(1, -6)};
    assert_refused(RLX_INVALID_GRAPH, "axis 1, which has 6", add1(self, RLX_OP_SQUEEZE, &wide, x));
    assert_refused(RLX_INVALID_GRAPH, "axis 0 is named twice",
                   add1(self, RLX_OP_SQUEEZE, &twice, x));
    assert_refused(RLX_INVALID_GRAPH, "axis 2", add1(self, RLX_OP_SQUEEZE, &far, x));
    assert_refused(RLX_INVALID_GRAPH, "adds 7 axes to rank 2",
                   add1(self, RLX_OP_UNSQUEEZE, &many, x));
    assert_refused(RLX_INVALID_GRAPH, "named twice", add1(self, RLX_OP_UNSQUEEZE, &same, x));
    assert_refused(RLX_INVALID_GRAPH, "axis 3", add1(self, RLX_OP_UNSQUEEZE, &out, x));
    assert_refused(RLX_INVALID_GRAPH, "flatten at axis 3 of rank 2",
                   add1(self, RLX_OP_FLATTEN, &late, x));
    assert_refused(RLX_INVALID_GRAPH, "rank 2 has 1 axes", add1(self, RLX_OP_TRANSPOSE, &few, x));
    assert_refused(RLX_INVALID_GRAPH, "no permutation: item 1 is 1",
                   add1(self, RLX_OP_TRANSPOSE, &repeated, x));
    assert_status(RLX_INVALID_GRAPH, add1(self, RLX_OP_TRANSPOSE, &negative, x));
    assert_refused(RLX_INVALID_GRAPH, "repeats axis 0 -1 times",
                   add1(self, RLX_OP_TILE, &repeats, x));
    assert_refused(RLX_OUT_OF_BOUNDS, "axis 1 of tile", add1(self, RLX_OP_TILE, &high, x));
    assert_refused(RLX_INVALID_GRAPH, "1 repeats", add1(self, RLX_OP_TILE, &one, x));
    assert_refused(RLX_INVALID_GRAPH, "do not broadcast", add1(self, RLX_OP_EXPAND, &mixed, x));
    assert_refused(RLX_INVALID_GRAPH, "dim 1 is -6", add1(self, RLX_OP_EXPAND, &minus, x));
}

static void gathers_and_scatters_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_F32, DIMS(4, 6));
    rlx_value_id flag = input(self, RLX_DTYPE_BOOL, DIMS(4, 6));
    rlx_value_id floats = input(self, RLX_DTYPE_F32, DIMS(2));
    rlx_value_id line = input(self, RLX_DTYPE_I64, DIMS(2));
    rlx_value_id grid = input(self, RLX_DTYPE_I64, DIMS(5, 3));
    rlx_value_id deep = input(self, RLX_DTYPE_I64, DIMS(1, 1, 1, 1, 1, 1, 1, 1));
    rlx_axis_attrs axis1 = {1};
    rlx_gather_nd_attrs none = {0}, one = {1}, minus = {-1};
    rlx_scatter_attrs set = {.axis = 1}, sum = {.axis = 1, .mode = RLX_SCATTER_ADD};
    assert_refused(RLX_INVALID_GRAPH, "indices of i32 or i64, got f32",
                   add(self, RLX_OP_GATHER, &axis1, (rlx_value_id[]){x, floats}, 2, 1));
    assert_refused(RLX_UNSUPPORTED, "rank 9",
                   add(self, RLX_OP_GATHER, &axis1, (rlx_value_id[]){x, deep}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "data has rank 2, indices 1",
                   add(self, RLX_OP_GATHER_ELEMENTS, &axis1, (rlx_value_id[]){x, line}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "axis 0 of the indices has 5, of the data 4",
                   add(self, RLX_OP_GATHER_ELEMENTS, &axis1, (rlx_value_id[]){x, grid}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "tuples of 3 indices after 0 batch dims",
                   add(self, RLX_OP_GATHER_ND, &none, (rlx_value_id[]){x, grid}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "1 batch dims",
                   add(self, RLX_OP_GATHER_ND, &one, (rlx_value_id[]){x, line}, 2, 1));
    assert_status(RLX_INVALID_GRAPH,
                  add(self, RLX_OP_GATHER_ND, &minus, (rlx_value_id[]){x, line}, 2, 1));
    rlx_value_id planes = input(self, RLX_DTYPE_F32, DIMS(2, 3, 5));
    rlx_value_id taps = input(self, RLX_DTYPE_I64, DIMS(2, 4, 6));
    rlx_value_id parts = input(self, RLX_DTYPE_F32, DIMS(2, 4, 7));
    assert_refused(RLX_INVALID_GRAPH, "x have rank 2 instead of 3",
                   add(self, RLX_OP_GATHER_SUM, NULL, (rlx_value_id[]){x, taps, parts}, 3, 1));
    assert_refused(RLX_INVALID_GRAPH, "axis 2 of input 1 is 6, axis 2 of input 2 is 7",
                   add(self, RLX_OP_GATHER_SUM, NULL, (rlx_value_id[]){planes, taps, parts}, 3, 1));
    assert_status(RLX_INVALID_GRAPH,
                  add(self, RLX_OP_GATHER_SUM, NULL, (rlx_value_id[]){planes, taps, taps}, 3, 1));
    rlx_value_id many = input(self, RLX_DTYPE_F32, DIMS(2, 3, 5, 7, 8));
    assert_refused(RLX_INVALID_GRAPH, "x have rank 5 instead of 3",
                   add(self, RLX_OP_GATHER_SUM, NULL, (rlx_value_id[]){many, taps, parts}, 3, 1));
    assert_refused(RLX_INVALID_GRAPH, "updates are f32[4, 6], wanted f32[]",
                   add(self, RLX_OP_SCATTER_ND, &set, (rlx_value_id[]){x, line, x}, 3, 1));
    rlx_value_id indices = input(self, RLX_DTYPE_I32, DIMS(4, 6));
    assert_refused(
        RLX_INVALID_GRAPH, "are f32 and bool",
        add(self, RLX_OP_SCATTER_ELEMENTS, &set, (rlx_value_id[]){x, indices, flag}, 3, 1));
    assert_refused(
        RLX_INVALID_GRAPH, "cannot compute with bool",
        add(self, RLX_OP_SCATTER_ELEMENTS, &sum, (rlx_value_id[]){flag, indices, flag}, 3, 1));
}

static void blocks_are_never_taken_apart(void **state) {
    fixture *self = *state;
    rlx_value_id x = input(self, RLX_DTYPE_Q8_0, DIMS(4, 64));
    rlx_value_id index = input(self, RLX_DTYPE_I64, DIMS(3));
    rlx_axis_attrs axis0 = {0}, axis1 = {1};
    rlx_slice_attrs rows = {.starts = INTS(1), .ends = INTS(3)};
    rlx_slice_attrs columns = {.starts = INTS(0), .ends = INTS(32), .axes = INTS(1)};
    rlx_reshape_attrs longer = {INTS(2, 128)}, shorter = {INTS(16, 16)};
    rlx_pad_attrs pad = {.pads = INTS(1, 0, 0, 0)};
    assert_ok(add(self, RLX_OP_GATHER, &axis0, (rlx_value_id[]){x, index}, 2, 1));
    assert_int_equal(RLX_DTYPE_F32, result(self, 0)->dtype);
    assert_ok(add1(self, RLX_OP_SLICE, &rows, x));
    assert_int_equal(RLX_DTYPE_Q8_0, result(self, 0)->dtype);
    assert_ok(add1(self, RLX_OP_RESHAPE, &longer, x));
    assert_refused(RLX_UNSUPPORTED, "blocks of q8_0",
                   add(self, RLX_OP_GATHER, &axis1, (rlx_value_id[]){x, index}, 2, 1));
    assert_refused(RLX_UNSUPPORTED, "blocks of q8_0", add1(self, RLX_OP_SLICE, &columns, x));
    assert_refused(RLX_UNSUPPORTED, "blocks of q8_0", add1(self, RLX_OP_RESHAPE, &shorter, x));
    assert_refused(RLX_UNSUPPORTED, "blocks of q8_0", add1(self, RLX_OP_PAD, &pad, x));
    assert_status(RLX_UNSUPPORTED, add1(self, RLX_OP_TRANSPOSE, NULL, x));
    assert_status(RLX_UNSUPPORTED, add(self, RLX_OP_NONZERO, NULL, &x, 1, 2));
}

/* Run-time sizes. */

static void extents_follow_their_axis(void **state) {
    fixture *self = *state;
    rlx_value_id x = sized(self, DIMS(2, 8, 6), 1, self->extent);
    rlx_value_id index = input(self, RLX_DTYPE_I64, DIMS(3, 3));
    assert_ok(add1(self, RLX_OP_TRANSPOSE, &(rlx_transpose_attrs){INTS(1, 2, 0)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[0]);
    assert_int_equal(RLX_NONE, result(self, 0)->extents[1]);
    assert_ok(add1(self, RLX_OP_RESHAPE, &(rlx_reshape_attrs){INTS(1, 2, 8, 2, 3)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[2]);
    assert_ok(add1(self, RLX_OP_UNSQUEEZE, &(rlx_axes_attrs){INTS(0, -1)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[2]);
    assert_ok(add1(self, RLX_OP_SLICE,
                   &(rlx_slice_attrs){.starts = INTS(1), .ends = INTS(2), .axes = INTS(2)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[1]);
    assert_ok(add(self, RLX_OP_SPLIT, &(rlx_split_attrs){.axis = 2}, &x, 1, 2));
    assert_int_equal(self->extent, result(self, 1)->extents[1]);
    assert_ok(add1(self, RLX_OP_PAD, &(rlx_pad_attrs){.pads = INTS(1, 0, 0, 1, 0, 2)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[1]);
    assert_ok(add1(self, RLX_OP_EXPAND, &(rlx_reshape_attrs){INTS(5, 2, 8, 6)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[2]);
    assert_ok(add1(self, RLX_OP_TILE, &(rlx_reshape_attrs){INTS(3, 1, 2)}, x));
    assert_int_equal(self->extent, result(self, 0)->extents[1]);
    assert_ok(add(self, RLX_OP_CONCAT, &(rlx_axis_attrs){2}, (rlx_value_id[]){x, x}, 2, 1));
    assert_int_equal(self->extent, result(self, 0)->extents[1]);
    assert_ok(add(self, RLX_OP_GATHER, &(rlx_axis_attrs){0}, (rlx_value_id[]){x, index}, 2, 1));
    assert_int_equal(self->extent, result(self, 0)->extents[2]);
    /* Indexing by place needs no extent behind it: indices are checked against the true size. */
    assert_ok(add(self, RLX_OP_GATHER, &(rlx_axis_attrs){1}, (rlx_value_id[]){x, index}, 2, 1));
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(RLX_NONE, result(self, 0)->extents[i]);
    assert_ok(add(self, RLX_OP_NONZERO, NULL, &x, 1, 2));
    assert_int_equal(self->out[1], result(self, 0)->extents[1]);
}

static void limit_makes_an_input_the_size_of_an_axis(void **state) {
    fixture *self = *state;
    rlx_value_id x = sized(self, DIMS(2, 8, 6), 1, self->extent);
    rlx_value_id size = input(self, RLX_DTYPE_I64, (rlx_shape){0});
    rlx_value_id wide = input(self, RLX_DTYPE_I64, DIMS(1));
    assert_ok(add(self, RLX_OP_LIMIT, &(rlx_axis_attrs){-1}, (rlx_value_id[]){x, size}, 2, 1));
    assert_int_equal(self->extent, result(self, 0)->extents[1]);
    assert_int_equal(size, result(self, 0)->extents[2]);
    assert_ok(add(self, RLX_OP_LIMIT, &(rlx_axis_attrs){1}, (rlx_value_id[]){x, size}, 2, 1));
    assert_int_equal(size, result(self, 0)->extents[1]); /* whatever it was before */
    assert_refused(RLX_INVALID_GRAPH, "i64[]",
                   add(self, RLX_OP_LIMIT, &(rlx_axis_attrs){1}, (rlx_value_id[]){x, wide}, 2, 1));
    assert_refused(RLX_INVALID_GRAPH, "axis",
                   add(self, RLX_OP_LIMIT, &(rlx_axis_attrs){3}, (rlx_value_id[]){x, size}, 2, 1));
}

static void extents_that_would_change_are_refused(void **state) {
    fixture *self = *state;
    rlx_value_id x = sized(self, DIMS(2, 8, 6), 1, self->extent);
    rlx_value_id y = sized(self, DIMS(2, 8, 6), 1, self->other);
    rlx_value_id one = sized(self, DIMS(1, 6), 0, self->extent);
    rlx_slice_attrs cut = {.starts = INTS(0), .ends = INTS(5), .axes = INTS(1)};
    rlx_slice_attrs back = {
        .starts = INTS(-1), .ends = INTS(INT64_MIN), .axes = INTS(1), .steps = INTS(-1)};
    assert_refused(RLX_UNSUPPORTED, "changes axis 1 of input 0", add1(self, RLX_OP_SLICE, &cut, x));
    assert_status(RLX_UNSUPPORTED, add1(self, RLX_OP_SLICE, &back, x));
    assert_status(RLX_UNSUPPORTED,
                  add1(self, RLX_OP_RESHAPE, &(rlx_reshape_attrs){INTS(16, 6)}, x));
    assert_status(RLX_UNSUPPORTED,
                  add1(self, RLX_OP_RESHAPE, &(rlx_reshape_attrs){INTS(8, 2, 6)}, x));
    assert_status(RLX_UNSUPPORTED, add1(self, RLX_OP_FLATTEN, &(rlx_axis_attrs){1}, x));
    assert_status(RLX_UNSUPPORTED, add1(self, RLX_OP_SQUEEZE, &(rlx_axes_attrs){INTS(0)}, one));
    assert_status(RLX_UNSUPPORTED,
                  add(self, RLX_OP_SPLIT, &(rlx_split_attrs){.axis = 1}, &x, 1, 2));
    assert_status(RLX_UNSUPPORTED, add1(self, RLX_OP_TILE, &(rlx_reshape_attrs){INTS(1, 2, 1)}, x));
    assert_status(RLX_UNSUPPORTED,
                  add1(self, RLX_OP_PAD, &(rlx_pad_attrs){.pads = INTS(0, 0, 0, 0, 1, 0)}, x));
    assert_status(RLX_UNSUPPORTED,
                  add(self, RLX_OP_CONCAT, &(rlx_axis_attrs){1}, (rlx_value_id[]){x, x}, 2, 1));
    assert_refused(RLX_UNSUPPORTED, "different run-time sizes",
                   add(self, RLX_OP_CONCAT, &(rlx_axis_attrs){0}, (rlx_value_id[]){x, y}, 2, 1));
    assert_ok(add1(self, RLX_OP_SQUEEZE, NULL, one)); /* stays: it may be 0 */
    assert_int_equal(2, result(self, 0)->shape.rank);
}

static rlx_value_id a_state(fixture *self, rlx_dtype dtype, rlx_shape shape) {
    rlx_value_id value;
    assert_ok(rlx_graph_add_state(self->graph, NULL, dtype, shape, &value));
    return value;
}

static void state_writes_give_the_length_as_extent(void **state) {
    fixture *self = *state;
    rlx_value_id cache = a_state(self, RLX_DTYPE_F16, DIMS(1, 2, 16, 4));
    rlx_value_id rows = input(self, RLX_DTYPE_F32, DIMS(1, 2, 3, 4));
    rlx_state_write_attrs attrs = {.axis = 2}, ring = {.axis = 2, .wrap = true};
    assert_ok(
        add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){cache, rows, self->extent}, 3, 2));
    assert_int_equal(RLX_DTYPE_F16, result(self, 0)->dtype);
    assert_int_equal(16, result(self, 0)->shape.dims[2]);
    assert_int_equal(self->out[1], result(self, 0)->extents[2]);
    assert_int_equal(RLX_DTYPE_I64, result(self, 1)->dtype);
    rlx_value_id written = self->out[0];
    assert_ok(
        add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){written, rows, self->other}, 3, 2));
    assert_int_equal(self->out[1], result(self, 0)->extents[2]);
    assert_ok(
        add(self, RLX_OP_STATE_WRITE, &ring, (rlx_value_id[]){cache, rows, self->extent}, 3, 2));
    assert_int_equal(RLX_NONE, result(self, 0)->extents[2]);
}

static void state_writes_are_refused_with_the_reason(void **state) {
    fixture *self = *state;
    rlx_value_id cache = a_state(self, RLX_DTYPE_F16, DIMS(2, 16));
    rlx_value_id narrow = input(self, RLX_DTYPE_F16, DIMS(1, 3));
    rlx_value_id longer = input(self, RLX_DTYPE_F16, DIMS(2, 17));
    rlx_value_id whole = input(self, RLX_DTYPE_I32, DIMS(2, 3));
    rlx_value_id rows = input(self, RLX_DTYPE_F16, DIMS(2, 3));
    rlx_value_id flat = input(self, RLX_DTYPE_F16, DIMS(3));
    rlx_state_write_attrs attrs = {.axis = 1};
    rlx_value_id at = self->extent;
    assert_refused(
        RLX_INVALID_GRAPH, "axis 0 of the state has 2, of the rows 1",
        add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){cache, narrow, at}, 3, 2));
    assert_refused(
        RLX_INVALID_GRAPH, "axis 1 of the state has 16, of the rows 17",
        add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){cache, longer, at}, 3, 2));
    assert_refused(RLX_INVALID_GRAPH, "i32 rows into a f16 state",
                   add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){cache, whole, at}, 3, 2));
    assert_refused(RLX_INVALID_GRAPH, "state has rank 2, rows 1",
                   add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){cache, flat, at}, 3, 2));
    assert_refused(
        RLX_INVALID_GRAPH, "position as i64[]",
        add(self, RLX_OP_STATE_WRITE, &attrs, (rlx_value_id[]){cache, rows, rows}, 3, 2));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(slices_are_refused_with_the_reason),
        TEST(concats_are_refused_with_the_reason),
        TEST(splits_fill_their_axis_exactly),
        TEST(pads_are_refused_with_the_reason),
        TEST(reshapes_are_refused_with_the_reason),
        TEST(axes_are_refused_with_the_reason),
        TEST(gathers_and_scatters_are_refused_with_the_reason),
        TEST(blocks_are_never_taken_apart),
        TEST(extents_follow_their_axis),
        TEST(limit_makes_an_input_the_size_of_an_axis),
        TEST(extents_that_would_change_are_refused),
        TEST(state_writes_give_the_length_as_extent),
        TEST(state_writes_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests_name("ir_infer_move", tests, NULL, NULL);
}
