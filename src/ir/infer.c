/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the shape rules over a graph, and the helpers that rules share. */
#include "ir/infer.h"

#include "ir/dtype.h"
#include "ir/graph.h"
#include "ir/layout.h"

#include <stdio.h>

enum { TYPE_TEXT_BYTES = 128 };

rlx_status rlx_infer_axis(int64_t axis, uint32_t rank, uint32_t *out_axis) {
    int64_t wide_rank = (int64_t)rank;
    if (axis < -wide_rank || axis >= wide_rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "axis %" PRId64 " is outside a rank of %u", axis, rank);
    }
    *out_axis = (uint32_t)(axis < 0 ? axis + wide_rank : axis);
    return RLX_OK;
}

/* The dim and extent `from_end` places before the last; 1 and none beyond the front. */
static int64_t dim_from_end(const rlx_type *type, uint32_t from_end, rlx_value_id *out_extent) {
    *out_extent = RLX_NONE;
    if (from_end >= type->shape.rank) return 1;
    uint32_t axis = type->shape.rank - 1 - from_end;
    *out_extent = type->extents[axis];
    return type->shape.dims[axis];
}

rlx_status rlx_infer_broadcast(const rlx_type *a, const rlx_type *b, rlx_type *out_type) {
    rlx_type result = rlx_type_make(a->dtype, NULL, 0);
    uint32_t rank = a->shape.rank > b->shape.rank ? a->shape.rank : b->shape.rank;
    result.shape.rank = rank;
    for (uint32_t i = 0; i < rank; i++) {
        rlx_value_id a_extent, b_extent;
        int64_t a_dim = dim_from_end(a, i, &a_extent), b_dim = dim_from_end(b, i, &b_extent);
        bool a_repeats = a_dim == 1 && a_extent == RLX_NONE;
        bool b_repeats = b_dim == 1 && b_extent == RLX_NONE;
        if (!a_repeats && !b_repeats && (a_dim != b_dim || a_extent != b_extent)) {
            char a_text[TYPE_TEXT_BYTES], b_text[TYPE_TEXT_BYTES];
            return RLX_FAIL(RLX_INVALID_GRAPH, "%s and %s do not broadcast%s",
                            rlx_type_text(NULL, a, a_text, sizeof a_text),
                            rlx_type_text(NULL, b, b_text, sizeof b_text),
                            a_dim == b_dim ? ": their true sizes come from different values" : "");
        }
        result.shape.dims[rank - 1 - i] = a_repeats ? b_dim : a_dim;
        result.extents[rank - 1 - i] = a_repeats ? b_extent : a_extent;
    }
    *out_type = result;
    return RLX_OK;
}

rlx_status rlx_infer_no_extent(const rlx_infer *infer, uint32_t input) {
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    const rlx_type *type = infer->in[input];
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] == RLX_NONE) continue;
        return RLX_FAIL(RLX_UNSUPPORTED,
                        "%s cannot take input %u whose dim %u is known only at run time",
                        rlx_op_name(infer->op), input, i);
    }
    return RLX_OK;
}

bool rlx_dtype_is_float(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL && row->class_ == RLX_CLASS_FLOAT;
}

bool rlx_dtype_is_integer(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL && (row->class_ == RLX_CLASS_SIGNED || row->class_ == RLX_CLASS_UNSIGNED);
}

const char *rlx_node_text(const rlx_graph *graph, rlx_node_id id, char *buffer, size_t bytes) {
    const rlx_node *node = &graph->nodes.items[id];
    const char *name = "?";
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == RLX_NONE) continue;
        name = graph->values.items[node->outputs[i]].name;
        break;
    }
    snprintf(buffer, bytes, "node '%s' (%s)", name, rlx_op_name(node->op));
    return buffer;
}

/* Whether every present input has a type with known dims. */
static bool inputs_are_known(const rlx_graph *graph, const rlx_node *node) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == RLX_NONE) continue;
        const rlx_value *value = &graph->values.items[node->inputs[i]];
        if (!value->is_typed || !rlx_shape_is_known(&value->type.shape)) return false;
    }
    for (uint32_t b = 0; b < 2; b++) {
        if (node->blocks[b] == RLX_NONE) continue;
        const rlx_block *block = &graph->blocks.items[node->blocks[b]];
        for (uint32_t i = 0; i < block->yield_count; i++) {
            const rlx_value *value = &graph->values.items[block->yields[i]];
            if (!value->is_typed || !rlx_shape_is_known(&value->type.shape)) return false;
        }
    }
    return true;
}

/* Types are sane: sizes do not wrap, so later arithmetic on them cannot either. */
static rlx_status store_types(rlx_graph *graph, const rlx_node *node, const rlx_type *types) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint64_t bytes;
        RLX_TRY_WITH(rlx_type_bytes(&types[i], &bytes), "output %u", i);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == RLX_NONE) continue;
        rlx_value *value = &graph->values.items[node->outputs[i]];
        value->type = types[i];
        value->is_typed = true;
    }
    return RLX_OK;
}

rlx_status rlx_infer_types(rlx_infer *infer) {
    for (uint32_t i = 0; i < infer->in_count; i++) {
        if (infer->in[i] == NULL || rlx_layout_is_taken(infer->op, i, infer->in[i]->layout)) {
            continue;
        }
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s does not take input %u in layout %s",
                        rlx_op_name(infer->op), i, rlx_layout_name(infer->in[i]->layout));
    }
    return rlx_op_info_of(infer->op)->infer(infer);
}

rlx_status rlx_graph_infer_node(rlx_graph *graph, rlx_node_id id) {
    const rlx_node *node = &graph->nodes.items[id];
    const rlx_type **in = NULL;
    rlx_type *out = NULL;
    rlx_scratch scratch = {.allocator = graph->allocator};
    rlx_status status = RLX_OK;
    char text[160];

    if (!inputs_are_known(graph, node)) return RLX_OK;
    status = rlx_scratch_array(&scratch, node->input_count + 1u, sizeof *in, (void **)&in);
    if (status == RLX_OK) {
        status = rlx_scratch_array(&scratch, node->output_count + 1u, sizeof *out, (void **)&out);
    }
    if (status == RLX_OK) {
        for (uint32_t i = 0; i < node->input_count; i++) {
            in[i] = node->inputs[i] == RLX_NONE ? NULL : &graph->values.items[node->inputs[i]].type;
        }
        for (uint32_t i = 0; i < node->output_count; i++) {
            out[i] = rlx_type_make(RLX_DTYPE_F32, NULL, 0);
        }
        rlx_infer infer = {.graph = graph,
                           .node = node,
                           .in_ids = node->inputs,
                           .out_ids = node->outputs,
                           .op = node->op,
                           .attrs = node->attrs,
                           .in_count = node->input_count,
                           .out_count = node->output_count,
                           .in = in,
                           .out = out};
        status = rlx_infer_types(&infer);
        if (status == RLX_OK) status = store_types(graph, node, out);
        if (status != RLX_OK) {
            rlx_fail_context(status, "%s", rlx_node_text(graph, id, text, sizeof text));
        }
    }
    rlx_scratch_reset(&scratch);
    return status;
}

/* Block inputs of a loop: i64 iteration, then like the carried inputs of the node. */
static void type_block_inputs(rlx_graph *graph, const rlx_node *node) {
    if (node->op != RLX_OP_LOOP) return;
    const rlx_block *block = &graph->blocks.items[node->blocks[0]];
    for (uint32_t i = 0; i < block->input_count; i++) {
        rlx_value *value = &graph->values.items[block->inputs[i]];
        if (i == 0) {
            value->type = rlx_type_make(RLX_DTYPE_I64, NULL, 0);
            value->is_typed = true;
        } else if (i + 1 < node->input_count && node->inputs[i + 1] != RLX_NONE) {
            const rlx_value *like = &graph->values.items[node->inputs[i + 1]];
            value->type = like->type;
            value->is_typed = like->is_typed;
        }
    }
}

static rlx_status infer_block(rlx_graph *graph, rlx_block_id block, uint32_t depth) {
    if (depth > 64) return RLX_FAIL(RLX_UNSUPPORTED, "blocks are nested more than 64 deep");
    for (uint32_t i = 0; i < graph->blocks.items[block].nodes.count; i++) {
        rlx_node_id id = graph->blocks.items[block].nodes.items[i];
        const rlx_node *node = &graph->nodes.items[id];
        if (node->is_dead) continue;
        type_block_inputs(graph, node);
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] != RLX_NONE) {
                RLX_TRY(infer_block(graph, node->blocks[b], depth + 1));
            }
        }
        RLX_TRY(rlx_graph_infer_node(graph, id));
    }
    return RLX_OK;
}

rlx_status rlx_graph_infer(rlx_graph *graph) {
    return infer_block(graph, 0, 0);
}
