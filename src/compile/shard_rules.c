/* SPDX-License-Identifier: Apache-2.0 */
/* Sharding, op by op: given how some operands of a node are split, how the others have to be. Rules
 * are asked again and again while labels spread through the graph, so each completes what is there
 * and refuses what it cannot do. Knows types and attributes, no names. */
#include "compile/shard.h"

#include <stdio.h>
#include <string.h>

static const rlx_shard_label whole = {.axis = RLX_NONE};

bool rlx_shard_label_equal(const rlx_shard_label *a, const rlx_shard_label *b) {
    if (a->axis != b->axis) return false;
    if (a->axis == RLX_NONE) return true;
    return a->segment_count == b->segment_count &&
           memcmp(a->segments, b->segments, a->segment_count * sizeof *a->segments) == 0;
}

static int64_t total(const rlx_shard_label *label) {
    int64_t sum = 0;
    for (uint32_t i = 0; i < label->segment_count; i++)
        sum += label->segments[i];
    return sum;
}

/* What a rule works on. */
typedef struct rule {
    rlx_sharder *self;
    const rlx_node *node;
    rlx_shard_node *labels;
} rule;

static const rlx_type *in_type(const rule *r, uint32_t i) {
    return rlx_shard_type(r->self, r->node->inputs[i]);
}

static const rlx_type *out_type(const rule *r, uint32_t i) {
    return rlx_shard_type(r->self, r->node->outputs[i]);
}

static bool has_in(const rule *r, uint32_t i) {
    return i < r->node->input_count && r->node->inputs[i] != RLX_NONE;
}

static bool has_out(const rule *r, uint32_t i) {
    return i < r->node->output_count && r->node->outputs[i] != RLX_NONE;
}

static bool is_weight(const rule *r, uint32_t i) {
    return r->self->is_prepared[r->node->inputs[i]] != 0;
}

static bool refuse(const rule *r, const char *why) {
    const char *name = has_out(r, 0) ? r->self->graph->values.items[r->node->outputs[0]].name : "?";
    snprintf(r->self->reason, sizeof r->self->reason, "%s '%.80s' %s", rlx_op_name(r->node->op),
             name, why);
    return false;
}

/* The label moved to another axis. */
static rlx_shard_label at_axis(const rlx_shard_label *label, uint32_t axis) {
    rlx_shard_label moved = *label;
    moved.axis = axis;
    return moved;
}

static rlx_shard_label one_segment(uint32_t axis, int64_t elements) {
    return (rlx_shard_label){.axis = axis, .segment_count = 1, .segments = {elements}};
}

/* The label as an operand that broadcasts has it: counted from the last axis; whole where its dim
 * is 1 or missing. */
static rlx_shard_label broadcast(const rlx_type *type, const rlx_shard_label *label,
                                 uint32_t from_end) {
    if (type->shape.rank <= from_end) return whole;
    uint32_t axis = type->shape.rank - 1 - from_end;
    return type->shape.dims[axis] == total(label) ? at_axis(label, axis) : whole;
}

/* Elementwise with broadcasting, for the inputs from `first` on and output 0. */
static bool spread(const rule *r, const rlx_shard_label *label, uint32_t from_end, uint32_t first) {
    const rlx_type *out = out_type(r, 0);
    if (total(label) == 1) return refuse(r, "has a single element to split");
    if (out->shape.rank <= from_end) return refuse(r, "loses the split axis");
    r->labels->out[0] = broadcast(out, label, from_end);
    if (!rlx_shard_is_split(&r->labels->out[0])) return refuse(r, "changes the split axis");
    for (uint32_t i = first; i < r->node->input_count; i++) {
        if (has_in(r, i)) r->labels->in[i] = broadcast(in_type(r, i), label, from_end);
    }
    return true;
}

/* The first split operand: outputs, then inputs that are no weights. */
static const rlx_shard_label *find(const rule *r, const rlx_type **out_type_of) {
    for (uint32_t i = 0; i < r->node->output_count; i++) {
        if (!has_out(r, i) || !rlx_shard_is_split(&r->labels->out[i])) continue;
        *out_type_of = out_type(r, i);
        return &r->labels->out[i];
    }
    for (uint32_t i = 0; i < r->node->input_count; i++) {
        if (!has_in(r, i) || !rlx_shard_is_split(&r->labels->in[i])) continue;
        *out_type_of = in_type(r, i);
        return &r->labels->in[i];
    }
    return NULL;
}

static bool rule_elementwise(const rule *r) {
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    return spread(r, &label, type->shape.rank - 1 - label.axis, 0);
}

static bool can_sum(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F64 || dtype == RLX_DTYPE_F16 ||
           dtype == RLX_DTYPE_BF16 || dtype == RLX_DTYPE_I32 || dtype == RLX_DTYPE_I64;
}

/* Split over the columns of b: a product that makes a split value. */
static bool rule_columns(const rule *r) {
    const rlx_matmul_attrs *attrs = r->node->attrs;
    rlx_shard_label label = r->labels->out[0];
    if (!is_weight(r, 1) || in_type(r, 1)->shape.rank != 2) {
        return refuse(r, "has columns that are no weights");
    }
    if (rlx_shard_is_split(&r->labels->in[0])) return refuse(r, "would be split both ways");
    if (!spread(r, &label, 0, 2)) return false;
    r->labels->in[0] = whole;
    r->labels->in[1] = at_axis(&label, attrs->transpose_b ? 0 : 1);
    r->labels->is_source = true;
    return true;
}

/* Split over the rows of b, which it sums over: the sum needs every rank. */
static bool rule_rows(const rule *r) {
    const rlx_matmul_attrs *attrs = r->node->attrs;
    rlx_shard_label label = r->labels->in[0];
    if (!is_weight(r, 1) || in_type(r, 1)->shape.rank != 2) {
        return refuse(r, "sums over the split axis of no weight");
    }
    if (!can_sum(out_type(r, 0)->dtype)) return refuse(r, "has a type that ranks cannot sum");
    r->labels->in[1] = at_axis(&label, attrs->transpose_b ? 1 : 0);
    r->labels->is_sink = true;
    return true;
}

/* Split over an axis in front of the matrices. */
static bool rule_batch(const rule *r, const rlx_shard_label *label, uint32_t from_end) {
    rlx_shard_label copy = *label;
    if (from_end < 2) return refuse(r, "cannot be split along this axis");
    return spread(r, &copy, from_end, 0);
}

static bool rule_matmul(const rule *r) {
    const rlx_matmul_attrs *attrs = r->node->attrs;
    uint32_t a_rank = in_type(r, 0)->shape.rank, b_rank = in_type(r, 1)->shape.rank;
    uint32_t out_rank = out_type(r, 0)->shape.rank;
    const rlx_shard_label *a = &r->labels->in[0], *b = &r->labels->in[1], *y = &r->labels->out[0];
    if (a_rank < 2 || b_rank < 2) return refuse(r, "is a product of vectors");
    if (rlx_shard_is_split(y)) {
        if (y->axis + 1 == out_rank) return rule_columns(r);
        return rule_batch(r, y, out_rank - 1 - y->axis);
    }
    if (rlx_shard_is_split(a)) {
        if (a->axis == (attrs->transpose_a ? a_rank - 2 : a_rank - 1)) return rule_rows(r);
        return rule_batch(r, a, a_rank - 1 - a->axis);
    }
    if (rlx_shard_is_split(b)) return rule_batch(r, b, b_rank - 1 - b->axis);
    /* A bias or gate alone: it is as wide as the output. */
    for (uint32_t i = 2; i < r->node->input_count; i++) {
        if (!has_in(r, i) || !rlx_shard_is_split(&r->labels->in[i])) continue;
        r->labels->out[0] = broadcast(out_type(r, 0), &r->labels->in[i],
                                      in_type(r, i)->shape.rank - 1 - r->labels->in[i].axis);
        if (!rlx_shard_is_split(&r->labels->out[0])) return refuse(r, "changes the split axis");
        return rule_matmul(r);
    }
    return refuse(r, "is not split");
}

/* Heads are axis 1 of q, k, v and the output; k and v may have fewer. */
static bool rule_attention(const rule *r) {
    const rlx_type *type = NULL;
    const rlx_shard_label *label = find(r, &type);
    if (label->axis != 1 || label->segment_count != 1) {
        return refuse(r, "can be split by heads only");
    }
    for (uint32_t i = 0; i < 3; i++)
        r->labels->in[i] = one_segment(1, in_type(r, i)->shape.dims[1]);
    r->labels->out[0] = one_segment(1, out_type(r, 0)->shape.dims[1]);
    if (has_in(r, 3)) r->labels->in[3] = broadcast(in_type(r, 3), &r->labels->out[0], 2);
    return true;
}

static bool rule_rope(const rule *r) {
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    if (label.axis != 1) return refuse(r, "can be split by heads only");
    r->labels->in[0] = r->labels->out[0] = label;
    return true;
}

static bool rule_transpose(const rule *r) {
    const rlx_transpose_attrs *attrs = r->node->attrs;
    uint32_t rank = out_type(r, 0)->shape.rank;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t axis = attrs->perm.count == 0 ? (int64_t)(rank - 1 - i) : attrs->perm.items[i];
        uint32_t from = (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
        if (rlx_shard_is_split(&r->labels->out[0]) ? r->labels->out[0].axis == i
                                                   : r->labels->in[0].axis == from) {
            rlx_shard_label label =
                rlx_shard_is_split(&r->labels->out[0]) ? r->labels->out[0] : r->labels->in[0];
            r->labels->in[0] = at_axis(&label, from);
            r->labels->out[0] = at_axis(&label, i);
            return true;
        }
    }
    return refuse(r, "loses the split axis");
}

static int64_t product(const rlx_shape *shape, uint32_t begin, uint32_t end) {
    int64_t elements = 1;
    for (uint32_t i = begin; i < end; i++)
        elements *= shape->dims[i];
    return elements;
}

/* Axis `axis` of `to` as the place where the split of `from` went: both sides are `before`
 * elements, then segments, then the rest. */
static bool carry_to(const rlx_shard_label *from, int64_t before, int64_t behind,
                     const rlx_shape *to, uint32_t axis, rlx_shard_label *out_label) {
    int64_t outer = product(to, 0, axis), inner = product(to, axis + 1, to->rank);
    int64_t repeats = 1;
    rlx_shard_label label = {.axis = axis};
    if (outer == 0 || inner == 0 || before == 0) return false;
    if (outer > before) { /* the segments became an axis of their own */
        for (uint32_t i = 1; i < from->segment_count; i++) {
            if (from->segments[i] != from->segments[0]) return false;
        }
        if (outer != before * from->segment_count || from->segment_count == 1) return false;
        label.segment_count = 1;
        label.segments[0] = from->segments[0] * behind / inner;
        if (from->segments[0] * behind % inner != 0) return false;
        *out_label = label;
        return label.segments[0] == to->dims[axis];
    }
    if (before % outer != 0) return false;
    repeats = before / outer; /* axes before it became segments */
    if (repeats * from->segment_count > RLX_SHARD_SEGMENTS) return false;
    for (int64_t n = 0; n < repeats; n++) {
        for (uint32_t i = 0; i < from->segment_count; i++) {
            if (from->segments[i] * behind % inner != 0) return false;
            label.segments[label.segment_count++] = from->segments[i] * behind / inner;
        }
    }
    *out_label = label;
    return total(&label) == to->dims[axis];
}

/* Of several places that fit, the one with the fewest segments, and of those with most elements:
 * not an axis of 1 beside it, nor one that is cut through all its elements. */
static bool carry(const rlx_shard_label *from, const rlx_shape *shape, const rlx_shape *to,
                  rlx_shard_label *out_label) {
    int64_t before = product(shape, 0, from->axis);
    int64_t behind = product(shape, from->axis + 1, shape->rank);
    bool is_found = false;
    for (uint32_t axis = 0; axis < to->rank; axis++) {
        rlx_shard_label label;
        if (!carry_to(from, before, behind, to, axis, &label)) continue;
        if (is_found && (label.segment_count > out_label->segment_count ||
                         (label.segment_count == out_label->segment_count &&
                          to->dims[axis] <= to->dims[out_label->axis]))) {
            continue;
        }
        *out_label = label;
        is_found = true;
    }
    return is_found;
}

static bool rule_reshape(const rule *r) {
    const rlx_shape *in = &in_type(r, 0)->shape, *out = &out_type(r, 0)->shape;
    bool is_forward = rlx_shard_is_split(&r->labels->in[0]);
    bool is_done = is_forward ? carry(&r->labels->in[0], in, out, &r->labels->out[0])
                              : carry(&r->labels->out[0], out, in, &r->labels->in[0]);
    return is_done ? true : refuse(r, "mixes the split axis with another");
}

static bool rule_expand(const rule *r) {
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    const rlx_shape *in = &in_type(r, 0)->shape, *out = &out_type(r, 0)->shape;
    uint32_t from_end = type->shape.rank - 1 - label.axis;
    if (from_end >= in->rank || from_end >= out->rank ||
        in->dims[in->rank - 1 - from_end] != out->dims[out->rank - 1 - from_end]) {
        return refuse(r, "repeats the split axis");
    }
    r->labels->in[0] = at_axis(&label, in->rank - 1 - from_end);
    r->labels->out[0] = at_axis(&label, out->rank - 1 - from_end);
    return true;
}

/* Rows of a state go to the same place in the state, along another axis. */
static bool rule_state_write(const rule *r) {
    const rlx_state_write_attrs *attrs = r->node->attrs;
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    if (rlx_shard_is_axis(attrs->axis, type->shape.rank, label.axis)) {
        return refuse(r, "writes along the split axis");
    }
    r->labels->in[0] = r->labels->in[1] = r->labels->out[0] = label;
    return true;
}

static bool rule_softmax(const rule *r) {
    const rlx_axis_attrs *attrs = r->node->attrs;
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    if (rlx_shard_is_axis(attrs->axis, type->shape.rank, label.axis)) {
        return refuse(r, "sums over the split axis");
    }
    r->labels->in[0] = r->labels->out[0] = label;
    return true;
}

static bool rule_norm(const rule *r) {
    const rlx_norm_attrs *attrs = r->node->attrs;
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    int64_t first = attrs->axis < 0 ? attrs->axis + (int64_t)type->shape.rank : attrs->axis;
    if ((int64_t)label.axis >= first) return refuse(r, "norms over the split axis");
    r->labels->in[0] = r->labels->out[0] = label;
    if (has_in(r, 3)) r->labels->in[3] = label;
    if (has_out(r, 1)) r->labels->out[1] = label;
    return true;
}

/* Parts of the split axis are whole segments. */
static bool split_segments(const rule *r, uint32_t axis) {
    rlx_shard_label joined = {.axis = axis};
    uint32_t at = 0;
    if (rlx_shard_is_split(&r->labels->in[0])) {
        rlx_shard_label label = r->labels->in[0];
        for (uint32_t i = 0; i < r->node->output_count; i++) {
            rlx_shard_label part = {.axis = axis};
            int64_t left = has_out(r, i) ? out_type(r, i)->shape.dims[axis] : 0;
            if (!has_out(r, i)) return refuse(r, "has a part that nobody wants");
            for (; left > 0 && at < label.segment_count; at++) {
                part.segments[part.segment_count++] = label.segments[at];
                left -= label.segments[at];
            }
            if (left != 0) return refuse(r, "cuts a unit of the split axis");
            r->labels->out[i] = part;
        }
        return true;
    }
    for (uint32_t i = 0; i < r->node->output_count; i++) {
        if (!has_out(r, i)) return refuse(r, "has a part that nobody wants");
        rlx_shard_label part = r->labels->out[i];
        if (!rlx_shard_is_split(&part)) part = one_segment(axis, out_type(r, i)->shape.dims[axis]);
        if (joined.segment_count + part.segment_count > RLX_SHARD_SEGMENTS) {
            return refuse(r, "has too many parts");
        }
        for (uint32_t n = 0; n < part.segment_count; n++)
            joined.segments[joined.segment_count++] = part.segments[n];
        r->labels->out[i] = part;
    }
    r->labels->in[0] = joined;
    return true;
}

static bool rule_split(const rule *r) {
    const rlx_split_attrs *attrs = r->node->attrs;
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    if (r->node->output_count > RLX_SHARD_OPERANDS) return refuse(r, "has too many parts");
    if (rlx_shard_is_axis(attrs->axis, type->shape.rank, label.axis))
        return split_segments(r, label.axis);
    r->labels->in[0] = label;
    for (uint32_t i = 0; i < r->node->output_count; i++)
        r->labels->out[i] = label;
    return true;
}

static bool rule_concat(const rule *r) {
    const rlx_axis_attrs *attrs = r->node->attrs;
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    if (rlx_shard_is_axis(attrs->axis, type->shape.rank, label.axis)) {
        return refuse(r, "joins along the split axis");
    }
    for (uint32_t i = 0; i < r->node->input_count; i++)
        r->labels->in[i] = label;
    r->labels->out[0] = label;
    return true;
}

/* Of the axes that it does not cut. */
static bool rule_slice(const rule *r) {
    const rlx_type *type = NULL;
    rlx_shard_label label = *find(r, &type);
    const rlx_slice_attrs *attrs = r->node->attrs;
    if (in_type(r, 0)->shape.dims[label.axis] != out_type(r, 0)->shape.dims[label.axis]) {
        return refuse(r, "cuts the split axis");
    }
    for (uint32_t i = 0; i < attrs->steps.count; i++) {
        int64_t axis = attrs->axes.count == 0 ? (int64_t)i : attrs->axes.items[i];
        if (rlx_shard_is_axis(axis, type->shape.rank, label.axis) && attrs->steps.items[i] != 1) {
            return refuse(r, "turns the split axis around");
        }
    }
    r->labels->in[0] = r->labels->out[0] = label;
    return true;
}

static bool apply_rule(const rule *r) {
    if ((rlx_op_info_of(r->node->op)->flags & RLX_OPF_ELEMENTWISE) != 0 &&
        r->node->op != RLX_OP_CHAIN) {
        return rule_elementwise(r);
    }
    switch (r->node->op) {
    case RLX_OP_COPY:
        return rule_elementwise(r);
    case RLX_OP_MATMUL:
        return rule_matmul(r);
    case RLX_OP_ATTENTION:
        return rule_attention(r);
    case RLX_OP_ROPE:
        return rule_rope(r);
    case RLX_OP_TRANSPOSE:
        return rule_transpose(r);
    case RLX_OP_RESHAPE:
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_FLATTEN:
        return rule_reshape(r);
    case RLX_OP_EXPAND:
        return rule_expand(r);
    case RLX_OP_STATE_WRITE:
        return rule_state_write(r);
    case RLX_OP_SOFTMAX:
    case RLX_OP_LOG_SOFTMAX:
        return rule_softmax(r);
    case RLX_OP_LAYER_NORM:
    case RLX_OP_RMS_NORM:
        return rule_norm(r);
    case RLX_OP_SPLIT:
        return rule_split(r);
    case RLX_OP_CONCAT:
        return rule_concat(r);
    case RLX_OP_SLICE:
        return rule_slice(r);
    default:
        return refuse(r, "is not one that can be split");
    }
}

bool rlx_shard_rule(rlx_sharder *self, rlx_node_id id, rlx_shard_node *out_node) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rule r = {self, node, out_node};
    if (node->input_count > RLX_SHARD_OPERANDS || node->output_count > RLX_SHARD_OPERANDS) {
        return refuse(&r, "has too many operands");
    }
    out_node->is_sink = out_node->is_source = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool is_known = has_in(&r, i) && !is_weight(&r, i);
        out_node->in[i] = is_known ? self->labels[node->inputs[i]] : whole;
    }
    for (uint32_t i = 0; i < node->output_count; i++)
        out_node->out[i] = has_out(&r, i) ? self->labels[node->outputs[i]] : whole;
    if (node->block != 0) return refuse(&r, "belongs to control flow");
    return apply_rule(&r);
}
