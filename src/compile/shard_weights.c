/* SPDX-License-Identifier: Apache-2.0 */
/* This rank's part of a weight. Of a parameter only that part is ever read: it becomes a parameter
 * with a window on the same source. What is computed from weights is cut behind the computation,
 * but for transposes and casts, which are made of the part. Where a rank has fewer units than
 * another the rest is zero, so that all ranks have the same steps and the same memory. */
#include "compile/shard.h"

/* Inserts a node that is computed once, before everything else that runs. */
static rlx_status insert(rlx_sharder *self, rlx_value_id behind, rlx_op op, const void *attrs,
                         const rlx_value_id *inputs, uint32_t count, rlx_value_id *out_value) {
    rlx_graph *graph = self->graph;
    const rlx_block *block = &graph->blocks.items[0];
    rlx_node_id producer = behind == RLX_NONE ? RLX_NONE : graph->values.items[behind].producer,
                node;
    uint32_t position = 0;
    rlx_value_id made; /* out_value may be where an input stands */
    for (uint32_t i = 0; producer != RLX_NONE && i < block->nodes.count; i++) {
        if (block->nodes.items[i] == producer) position = i + 1;
    }
    RLX_TRY(rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &made));
    RLX_TRY(rlx_graph_insert_node(graph, 0, position, op, attrs, inputs, count, &made, 1, &node));
    *out_value = made;
    return RLX_OK;
}

/* Elements of the axis: where this rank's part of a segment begins, how many it has, how many are
 * planned. */
typedef struct part {
    int64_t first, count, width;
} part;

static part part_of(const rlx_shard_label *label, uint32_t segment, const rlx_shard_group *group) {
    int64_t unit = label->segments[segment] / group->units;
    part p = {group->first * unit, group->count * unit, group->most * unit};
    for (uint32_t i = 0; i < segment; i++)
        p.first += label->segments[i];
    return p;
}

static rlx_status window_parameter(rlx_sharder *self, rlx_value_id weight, uint32_t axis,
                                   const part *p, rlx_value_id *out_value) {
    rlx_graph *graph = self->graph;
    const char *name = NULL;
    RLX_TRY(rlx_scratch_printf(&graph->memory, &name, "%s[%u:%" PRId64 "+%" PRId64 "]",
                               graph->values.items[weight].name, axis, p->first, p->width));
    if (rlx_graph_find(graph, name, out_value) == RLX_OK) return RLX_OK; /* cut before */
    RLX_TRY(rlx_graph_new_value(graph, name, RLX_VALUE_PARAMETER, out_value));
    rlx_value *value = &graph->values.items[*out_value];
    const rlx_value *from = &graph->values.items[weight];
    uint64_t inner = 1, rows = 1;
    for (uint32_t i = 0; i < axis; i++)
        rows *= (uint64_t)from->type.shape.dims[i];
    for (uint32_t i = axis + 1; i < from->type.shape.rank; i++)
        inner *= (uint64_t)from->type.shape.dims[i];
    value->type = from->type;
    value->is_typed = true;
    value->type.shape.dims[axis] = p->width;
    const rlx_weight part_of_it = {
        .source = from->weight->source,
        .window = {.rows = rows,
                   .row = (uint64_t)from->type.shape.dims[axis] * inner,
                   .first = (uint64_t)p->first * inner,
                   .count = (uint64_t)p->count * inner,
                   .width = (uint64_t)p->width * inner},
    };
    return rlx_graph_keep_weight(graph, &part_of_it, &value->weight);
}

/* Cut out, and filled up with zeros. */
static rlx_status slice_value(rlx_sharder *self, rlx_value_id weight, uint32_t axis, const part *p,
                              rlx_value_id *out_value) {
    uint32_t rank = rlx_shard_type(self, weight)->shape.rank;
    rlx_slice_attrs cut = {.starts = {1, {p->first}},
                           .ends = {1, {p->first + p->count}},
                           .axes = {1, {(int64_t)axis}}};
    rlx_pad_attrs fill = {.pads = {.count = 2 * rank}};
    rlx_value_id value;
    RLX_TRY(insert(self, weight, RLX_OP_SLICE, &cut, &weight, 1, &value));
    if (p->count < p->width) {
        fill.pads.items[rank + axis] = p->width - p->count;
        RLX_TRY(insert(self, value, RLX_OP_PAD, &fill, &value, 1, &value));
    }
    *out_value = value;
    return RLX_OK;
}

static rlx_status cut_segment(rlx_sharder *self, rlx_value_id weight, const rlx_shard_label *label,
                              uint32_t segment, const rlx_shard_group *group,
                              rlx_value_id *out_value) {
    part p = part_of(label, segment, group);
    const rlx_value *value = &self->graph->values.items[weight];
    if (value->kind == RLX_VALUE_PARAMETER && value->weight->window.rows == 0) {
        return window_parameter(self, weight, label->axis, &p, out_value);
    }
    return slice_value(self, weight, label->axis, &p, out_value);
}

/* The parts of all segments, one behind the other. */
static rlx_status cut(rlx_sharder *self, rlx_value_id weight, const rlx_shard_label *label,
                      const rlx_shard_group *group, rlx_value_id *out_value) {
    rlx_value_id parts[RLX_SHARD_SEGMENTS], last = RLX_NONE;
    rlx_axis_attrs attrs = {(int64_t)label->axis};
    for (uint32_t i = 0; i < label->segment_count; i++) {
        RLX_TRY(cut_segment(self, weight, label, i, group, &parts[i]));
        /* The join stands behind the last of its parts in the order of the list. */
        if (self->graph->values.items[parts[i]].producer != RLX_NONE && last == RLX_NONE) {
            last = parts[i];
        }
    }
    if (label->segment_count == 1) {
        *out_value = parts[0];
        return RLX_OK;
    }
    return insert(self, last, RLX_OP_CONCAT, &attrs, parts, label->segment_count, out_value);
}

rlx_status rlx_shard_weight(rlx_sharder *self, rlx_value_id weight, const rlx_shard_label *label,
                            const rlx_shard_group *group, rlx_value_id *out_value) {
    rlx_node_id producer = self->graph->values.items[weight].producer;
    if (producer != RLX_NONE) {
        const rlx_node *node = &self->graph->nodes.items[producer];
        rlx_shard_label inner = *label;
        const void *attrs = node->attrs;
        rlx_op op = node->op;
        rlx_value_id input = node->inputs[0];
        if (op == RLX_OP_TRANSPOSE) {
            const rlx_transpose_attrs *turn = node->attrs;
            uint32_t rank = rlx_shard_type(self, weight)->shape.rank;
            int64_t axis = turn->perm.count == 0 ? (int64_t)(rank - 1 - label->axis)
                                                 : turn->perm.items[label->axis];
            inner.axis = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
        }
        if (op == RLX_OP_TRANSPOSE || op == RLX_OP_CAST) {
            RLX_TRY(rlx_shard_weight(self, input, &inner, group, &input));
            return insert(self, input, op, attrs, &input, 1, out_value);
        }
    }
    return cut(self, weight, label, group, out_value);
}
