/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding: attributes that hold a size of the split axis get that of the planned part. */
#include "compile/shard.h"

int64_t rlx_shard_extent(const rlx_shard_label *label, const rlx_shard_group *group) {
    int64_t extent = 0;
    for (uint32_t i = 0; i < label->segment_count; i++)
        extent += label->segments[i] / group->units * group->most;
    return extent;
}

/* Only sizes that are written out change: 0 copies the dim and -1 is inferred. */
static void resize_reshape(rlx_ints *shape, const rlx_shard_node *labels, const rlx_shape *out,
                           int64_t extent, bool is_expand) {
    uint32_t axis = labels->out[0].axis;
    if (is_expand) { /* as long as the output, or shorter */
        if (axis + shape->count < out->rank) return;
        axis -= out->rank - shape->count;
        if (shape->items[axis] != 1) shape->items[axis] = extent;
        return;
    }
    if (shape->items[axis] == -1) return;
    if (shape->items[axis] == 0 && labels->in[0].axis == axis) return;
    shape->items[axis] = extent;
    for (uint32_t i = 0; i < shape->count; i++) {
        /* A 0 that copied the dim that is split now, to an axis that is not. */
        if (i != axis && shape->items[i] == 0 && labels->in[0].axis == i) {
            shape->items[i] = out->dims[i];
        }
    }
}

static rlx_status resize_split(rlx_sharder *self, rlx_node *node, const rlx_shard_node *labels,
                               const rlx_shard_group *group) {
    int64_t sizes[RLX_SHARD_OPERANDS];
    rlx_split_attrs attrs = *(const rlx_split_attrs *)node->attrs;
    const rlx_type *type = rlx_shard_type(self, node->inputs[0]);
    if (!rlx_shard_is_axis(attrs.axis, type->shape.rank, labels->in[0].axis)) return RLX_OK;
    for (uint32_t i = 0; i < node->output_count; i++)
        sizes[i] = rlx_shard_extent(&labels->out[i], group);
    attrs.sizes = (rlx_list){node->output_count, sizes};
    return rlx_graph_copy_attrs(self->graph, node->op, &attrs, &node->attrs);
}

/* A slice that takes an axis whole says so by its end, which may be past it. */
static rlx_status resize_slice(rlx_sharder *self, rlx_node *node, const rlx_shard_node *labels) {
    rlx_slice_attrs attrs = *(const rlx_slice_attrs *)node->attrs;
    uint32_t rank = rlx_shard_type(self, node->inputs[0])->shape.rank;
    for (uint32_t i = 0; i < attrs.starts.count; i++) {
        int64_t axis = attrs.axes.count == 0 ? (int64_t)i : attrs.axes.items[i];
        if (!rlx_shard_is_axis(axis, rank, labels->in[0].axis)) continue;
        attrs.starts.items[i] = 0;
        attrs.ends.items[i] = INT64_MAX;
    }
    return rlx_graph_copy_attrs(self->graph, node->op, &attrs, &node->attrs);
}

rlx_status rlx_shard_attrs(rlx_sharder *self, rlx_node_id id, const rlx_shard_node *labels,
                           const rlx_shard_group *group) {
    rlx_node *node = &self->graph->nodes.items[id];
    if (node->op == RLX_OP_SPLIT) return resize_split(self, node, labels, group);
    if (node->op == RLX_OP_SLICE) return resize_slice(self, node, labels);
    if (node->op != RLX_OP_RESHAPE && node->op != RLX_OP_EXPAND) return RLX_OK;
    if (!rlx_shard_is_split(&labels->out[0])) return RLX_OK;
    rlx_reshape_attrs attrs = *(const rlx_reshape_attrs *)node->attrs;
    resize_reshape(&attrs.shape, labels, &rlx_shard_type(self, node->outputs[0])->shape,
                   rlx_shard_extent(&labels->out[0], group), node->op == RLX_OP_EXPAND);
    return rlx_graph_copy_attrs(self->graph, node->op, &attrs, &node->attrs);
}
