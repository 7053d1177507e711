/* SPDX-License-Identifier: Apache-2.0 */
/* What fills a smaller part up to the planned size. Its weights are zeros, but what a model
 * computes from zeros may be infinite or no number (x / x, log x), and 0 times that is no number
 * either: one such column would spoil the whole sum. Where a group has such ops, what its sums read
 * is put to zero beyond the rank's own part. Every rank has the same steps; the masks differ. */
#include "compile/shard.h"

#include "ir/infer.h"

#include <string.h>

bool rlx_shard_is_filled(const rlx_sharder *self, const rlx_shard_group *group) {
    return group->most * (int64_t)self->rank_count > group->units;
}

/* Finite operands give a finite result, however large or small they are. */
static bool is_tame_op(rlx_op op) {
    switch (op) {
    case RLX_OP_NONE:
    case RLX_OP_IDENTITY:
    case RLX_OP_COPY:
    case RLX_OP_ABS:
    case RLX_OP_NEG:
    case RLX_OP_ADD:
    case RLX_OP_SUB:
    case RLX_OP_MUL:
    case RLX_OP_MIN:
    case RLX_OP_MAX:
    case RLX_OP_CLIP:
    case RLX_OP_WHERE:
    case RLX_OP_TANH:
    case RLX_OP_ERF:
    case RLX_OP_SIGMOID:
    case RLX_OP_RELU:
    case RLX_OP_LEAKY_RELU:
    case RLX_OP_GELU:
    case RLX_OP_GELU_TANH:
    case RLX_OP_SILU:
    case RLX_OP_HARD_SIGMOID:
    case RLX_OP_HARD_SWISH:
    case RLX_OP_ATTENTION:
    case RLX_OP_ROPE:
    case RLX_OP_SOFTMAX:
    case RLX_OP_TRANSPOSE:
    case RLX_OP_RESHAPE:
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_FLATTEN:
    case RLX_OP_EXPAND:
    case RLX_OP_STATE_WRITE:
    case RLX_OP_SPLIT:
    case RLX_OP_CONCAT:
    case RLX_OP_SLICE:
        return true;
    default:
        return false;
    }
}

static bool is_tame(const rlx_node *node) {
    if (node->op == RLX_OP_MATMUL) {
        return is_tame_op(((const rlx_matmul_attrs *)node->attrs)->activation.op);
    }
    if (node->op == RLX_OP_LAYER_NORM || node->op == RLX_OP_RMS_NORM) {
        return ((const rlx_norm_attrs *)node->attrs)->epsilon > 0;
    }
    return is_tame_op(node->op);
}

bool rlx_shard_needs_mask(const rlx_sharder *self, rlx_node_id id, bool is_sink) {
    /* What a sum does behind it, it does to results that are whole. */
    return !is_sink && !is_tame(&self->graph->nodes.items[id]);
}

/* A part that is filled up has divisors that are 0, and integers cannot be divided by that. */
bool rlx_shard_may_fault(const rlx_sharder *self, rlx_node_id id, const rlx_shard_node *labels) {
    const rlx_node *node = &self->graph->nodes.items[id];
    bool divides = node->op == RLX_OP_DIV || node->op == RLX_OP_MOD || node->op == RLX_OP_FMOD;
    if (!divides || labels->in[1].axis == RLX_NONE) return false;
    return !rlx_dtype_is_float(rlx_shard_type(self, node->inputs[1])->dtype);
}

/* True for the units that this rank has, in the order of the planned part. */
static rlx_status make_mask(rlx_sharder *self, const rlx_shape *shape, const rlx_shard_label *label,
                            const rlx_shard_group *group, rlx_value_id *out_value) {
    uint64_t extent = (uint64_t)rlx_shard_extent(label, group), at = 0;
    rlx_shape mask_shape = {.rank = shape->rank};
    uint8_t *mask = NULL;
    RLX_TRY(rlx_scratch_array(self->context->scratch, extent + 1, 1, (void **)&mask));
    for (uint32_t i = 0; i < label->segment_count; i++) {
        uint64_t unit = (uint64_t)(label->segments[i] / group->units);
        memset(mask + at, 1, (size_t)(unit * (uint64_t)group->count));
        at += unit * (uint64_t)group->most;
    }
    for (uint32_t i = 0; i < shape->rank; i++)
        mask_shape.dims[i] = i == label->axis ? (int64_t)extent : 1;
    return rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_BOOL, mask_shape, mask, extent,
                                  out_value);
}

rlx_status rlx_shard_mask(rlx_sharder *self, rlx_node_id sink, uint32_t position) {
    static const uint8_t zeros[16];
    rlx_graph *graph = self->graph;
    rlx_value_id x = graph->nodes.items[sink].inputs[0], inputs[3], masked;
    const rlx_shard_group *group = &self->groups.items[self->node_group[sink]];
    rlx_type type = *rlx_shard_type(self, x);
    uint64_t bytes = 0;
    rlx_node_id node;
    RLX_TRY(rlx_dtype_bytes(type.dtype, 1, &bytes));
    inputs[1] = x;
    RLX_TRY(make_mask(self, &type.shape, &self->labels[x], group, &inputs[0]));
    RLX_TRY(
        rlx_graph_add_constant(graph, NULL, type.dtype, (rlx_shape){0}, zeros, bytes, &inputs[2]));
    RLX_TRY(rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &masked));
    RLX_TRY(rlx_graph_insert_node(graph, 0, position, RLX_OP_WHERE, NULL, inputs, 3, &masked, 1,
                                  &node));
    graph->nodes.items[sink].inputs[0] = masked;
    return RLX_OK;
}
