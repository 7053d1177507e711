/* SPDX-License-Identifier: Apache-2.0 */
/* The short forms of rlx_graph_add_node. */
#include "ir/graph.h"

rlx_status rlx_graph_add_unary(rlx_graph *graph, rlx_op op, rlx_value_id x, rlx_value_id *out_y) {
    return rlx_graph_add_node(graph, op, NULL, &x, 1, 1, out_y);
}

rlx_status rlx_graph_add_binary(rlx_graph *graph, rlx_op op, rlx_value_id a, rlx_value_id b,
                                rlx_value_id *out_y) {
    const rlx_value_id inputs[] = {a, b};
    return rlx_graph_add_node(graph, op, NULL, inputs, 2, 1, out_y);
}

rlx_status rlx_graph_add_matmul(rlx_graph *graph, rlx_value_id a, rlx_value_id b,
                                rlx_value_id *out_y) {
    return rlx_graph_add_binary(graph, RLX_OP_MATMUL, a, b, out_y);
}

rlx_status rlx_graph_add_conv(rlx_graph *graph, rlx_value_id x, rlx_value_id w, rlx_value_id bias,
                              const rlx_conv_attrs *attrs, rlx_value_id *out_y) {
    const rlx_value_id inputs[] = {x, w, bias};
    return rlx_graph_add_node(graph, RLX_OP_CONV, attrs, inputs, 3, 1, out_y);
}

rlx_status rlx_graph_add_softmax(rlx_graph *graph, rlx_value_id x, int64_t axis,
                                 rlx_value_id *out_y) {
    const rlx_axis_attrs attrs = {axis};
    return rlx_graph_add_node(graph, RLX_OP_SOFTMAX, &attrs, &x, 1, 1, out_y);
}

/* A list attribute from an array; refuses what does not fit. */
static rlx_status make_ints(const int64_t *items, uint32_t count, rlx_ints *out_ints) {
    if (count > RLX_MAX_RANK || (items == NULL && count != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "a rank of %u is more than %d", count, RLX_MAX_RANK);
    }
    out_ints->count = count;
    for (uint32_t i = 0; i < count; i++)
        out_ints->items[i] = items[i];
    return RLX_OK;
}

rlx_status rlx_graph_add_reshape(rlx_graph *graph, rlx_value_id x, rlx_shape shape,
                                 rlx_value_id *out_y) {
    rlx_reshape_attrs attrs = {0};
    RLX_TRY(make_ints(shape.dims, shape.rank, &attrs.shape));
    return rlx_graph_add_node(graph, RLX_OP_RESHAPE, &attrs, &x, 1, 1, out_y);
}

rlx_status rlx_graph_add_transpose(rlx_graph *graph, rlx_value_id x, const int64_t *perm,
                                   uint32_t rank, rlx_value_id *out_y) {
    rlx_transpose_attrs attrs = {0};
    RLX_TRY(make_ints(perm, rank, &attrs.perm));
    return rlx_graph_add_node(graph, RLX_OP_TRANSPOSE, &attrs, &x, 1, 1, out_y);
}

rlx_status rlx_graph_add_concat(rlx_graph *graph, const rlx_value_id *inputs, uint32_t count,
                                int64_t axis, rlx_value_id *out_y) {
    const rlx_axis_attrs attrs = {axis};
    return rlx_graph_add_node(graph, RLX_OP_CONCAT, &attrs, inputs, count, 1, out_y);
}
