/* SPDX-License-Identifier: Apache-2.0 */
/* Block channels: convolutions whose target has kernels for it get activations with channels in
 * blocks, [N][C / b][spatial..][b], and so do the pools, reductions, concats and elementwise ops
 * between them. Blocks are an ordinary axis: the pass writes plain nodes on values of one more
 * axis, so views, concats in place and every kernel but those of conv and pools know nothing of it.
 * One walk in node order, body by body (what comes from outside a body is plain there): a node is
 * turned when its inputs are in blocks already, or, of a conv, when what it gains is more than the
 * conversions cost. Depthwise ones are nearly as fast on planes: they stay there unless a conv that
 * needs blocks comes behind them. Whoever still wants the plain value
 * gets it from a conversion behind the node; those that nobody wants are removed at the end.
 * Inputs, outputs and states stay plain. */
#include "compile/compile.h"
#include "ir/infer.h"

#include <stdio.h>
#include <string.h>

typedef struct blocker {
    rlx_pass_context *context;
    rlx_graph *graph;
    int64_t block;
    rlx_block_id body;     /* the block of the graph under way */
    uint32_t at;           /* the node under way, in the body's list */
    uint32_t count;        /* values there were at the start */
    rlx_value_id *blocked; /* per value: the same in blocks; RLX_NONE: there is none */
    uint8_t *feeds_conv;   /* per value: a conv takes it as x or residual */
    uint8_t *is_wanted;    /* per value: a conv that needs blocks takes it, or what comes of it */
} blocker;

static const rlx_type *type_of(const blocker *self, rlx_value_id value) {
    return &self->graph->values.items[value].type;
}

static rlx_value_id twin(const blocker *self, rlx_value_id value) {
    rlx_value_id found = value < self->count ? self->blocked[value] : RLX_NONE;
    if (found == RLX_NONE) return RLX_NONE;
    rlx_node_id producer = self->graph->values.items[found].producer;
    return self->graph->nodes.items[producer].block == self->body ? found : RLX_NONE;
}

static int64_t blocks_of(const blocker *self, int64_t channels) {
    return channels / self->block + (channels % self->block != 0);
}

static bool is_exact(const rlx_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE || type->shape.dims[i] <= 0) return false;
    }
    return true;
}

static bool is_half(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}

static bool is_pixel(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_U8 || dtype == RLX_DTYPE_I8 ||
           dtype == RLX_DTYPE_I32 || is_half(dtype);
}

/* f32, f16, bf16 or quantised, [N][C] and one or two spatial axes, none empty, all known. */
static bool is_image(const blocker *self, rlx_value_id value) {
    const rlx_type *type = type_of(self, value);
    return is_pixel(type->dtype) && type->layout == RLX_LAYOUT_PLAIN &&
           (type->shape.rank == 3 || type->shape.rank == 4) && is_exact(type);
}

static bool has_whole_blocks(const blocker *self, rlx_value_id value) {
    return type_of(self, value)->shape.dims[1] % self->block == 0;
}

/* A node right before the one under way. `out_value` may be one of the inputs. */
static rlx_status put(blocker *self, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                      uint32_t input_count, const char *name, rlx_value_id *out_value) {
    rlx_value_id value;
    rlx_node_id node;
    RLX_TRY(rlx_graph_new_value(self->graph, name, RLX_VALUE_TEMPORARY, &value));
    RLX_TRY(rlx_graph_insert_node(self->graph, self->body, self->at++, op, attrs, inputs,
                                  input_count, &value, 1, &node));
    *out_value = value;
    return RLX_OK;
}

static rlx_status put_reshape(blocker *self, rlx_value_id value, const int64_t *dims, uint32_t rank,
                              rlx_value_id *out_value) {
    rlx_reshape_attrs attrs = {.shape = {.count = rank}};
    memcpy(attrs.shape.items, dims, rank * sizeof *dims);
    return put(self, RLX_OP_RESHAPE, &attrs, &value, 1, NULL, out_value);
}

/* Zeros up to a whole number of blocks. */
static rlx_status put_padding(blocker *self, rlx_value_id *value) {
    const rlx_shape shape = type_of(self, *value)->shape;
    rlx_pad_attrs attrs = {.pads = {.count = 2 * shape.rank}};
    attrs.pads.items[shape.rank + 1] = blocks_of(self, shape.dims[1]) * self->block - shape.dims[1];
    if (attrs.pads.items[shape.rank + 1] == 0) return RLX_OK;
    return put(self, RLX_OP_PAD, &attrs, value, 1, NULL, value);
}

/* The value in blocks; converts it unless that was done before. */
static rlx_status to_blocks(blocker *self, rlx_value_id value, rlx_value_id *out_value) {
    const rlx_shape shape = type_of(self, value)->shape;
    int64_t dims[RLX_MAX_RANK] = {shape.dims[0], blocks_of(self, shape.dims[1]), self->block};
    rlx_transpose_attrs order = {.perm = {shape.rank + 1, {0, 1}}};
    rlx_value_id now = value;
    if (twin(self, value) != RLX_NONE) {
        *out_value = twin(self, value);
        return RLX_OK;
    }
    for (uint32_t i = 2; i < shape.rank; i++) {
        dims[i + 1] = shape.dims[i];
        order.perm.items[i] = i + 1;
    }
    order.perm.items[shape.rank] = 2;
    RLX_TRY(put_padding(self, &now));
    RLX_TRY(put_reshape(self, now, dims, shape.rank + 1, &now));
    RLX_TRY(put(self, RLX_OP_TRANSPOSE, &order, &now, 1, NULL, &now));
    RLX_TRY(put(self, RLX_OP_COPY, NULL, &now, 1, NULL, out_value));
    if (value < self->count) self->blocked[value] = *out_value;
    return RLX_OK;
}

/* The node under way is no more; `op` on `input` makes its output from now on. */
static rlx_status take_over(blocker *self, rlx_node_id node, rlx_op op, const void *attrs,
                            rlx_value_id input) {
    rlx_value_id output = self->graph->nodes.items[node].outputs[0];
    rlx_node_id made;
    self->graph->nodes.items[node].is_dead = true;
    return rlx_graph_insert_node(self->graph, self->body, self->at++, op, attrs, &input, 1, &output,
                                 1, &made);
}

/* `blocked` holds the output of the node under way: whoever wants it plain gets it from there. */
static rlx_status replace(blocker *self, rlx_node_id node, rlx_value_id blocked) {
    rlx_value_id output = self->graph->nodes.items[node].outputs[0], now = blocked;
    const rlx_shape shape = type_of(self, output)->shape;
    int64_t dims[RLX_MAX_RANK];
    rlx_transpose_attrs order = {.perm = {shape.rank + 1, {0, 1, shape.rank}}};
    rlx_reshape_attrs whole = {.shape = {.count = shape.rank}};
    memcpy(dims, shape.dims, sizeof dims);
    dims[1] = blocks_of(self, shape.dims[1]) * self->block;
    memcpy(whole.shape.items, dims, shape.rank * sizeof *dims);
    for (uint32_t i = 2; i < shape.rank; i++)
        order.perm.items[i + 1] = i;
    RLX_TRY(put(self, RLX_OP_TRANSPOSE, &order, &now, 1, NULL, &now));
    if (output < self->count) self->blocked[output] = blocked;
    if (dims[1] == shape.dims[1]) return take_over(self, node, RLX_OP_RESHAPE, &whole, now);
    rlx_slice_attrs slice = {.axes = {1, {1}}, .starts = {1, {0}}, .ends = {1, {shape.dims[1]}}};
    RLX_TRY(put_reshape(self, now, dims, shape.rank, &now));
    return take_over(self, node, RLX_OP_SLICE, &slice, now);
}

/* The name of the node's output with a mark, for profiles; NULL where that name is taken. */
static const char *name_of(const blocker *self, rlx_node_id node, char *buffer, size_t bytes) {
    rlx_value_id output = self->graph->nodes.items[node].outputs[0], found;
    (void)snprintf(buffer, bytes, "%s.b", self->graph->values.items[output].name);
    return rlx_graph_find(self->graph, buffer, &found) == RLX_OK ? NULL : buffer;
}

static rlx_status put_like(blocker *self, rlx_node_id node, const void *attrs,
                           const rlx_value_id *inputs, uint32_t count) {
    char name[96];
    rlx_op op = self->graph->nodes.items[node].op;
    rlx_value_id blocked = RLX_NONE;
    RLX_TRY(put(self, op, attrs, inputs, count, name_of(self, node, name, sizeof name), &blocked));
    return replace(self, node, blocked);
}

/* conv */

typedef struct conv_facts {
    rlx_value_id x, w, residual, y;
    int64_t groups, in, out; /* channels, of a group */
    bool is_depthwise, is_first, is_quantised;
} conv_facts;

static bool is_conv(rlx_op op) {
    return op == RLX_OP_CONV || op == RLX_OP_CONV_QUANTISED;
}

/* Where a conv has its residual. */
static uint32_t residual_at(rlx_op op) {
    return op == RLX_OP_CONV ? 3 : 5;
}

static rlx_value_id input_of(const rlx_node *node, uint32_t index) {
    return index < node->input_count ? node->inputs[index] : RLX_NONE;
}

static bool has_known_conv(const blocker *self, const rlx_node *node, conv_facts *facts) {
    const rlx_conv_attrs *attrs = node->attrs;
    *facts = (conv_facts){.x = node->inputs[0],
                          .w = node->inputs[1],
                          .residual = input_of(node, residual_at(node->op)),
                          .y = node->outputs[0],
                          .groups = attrs->groups == 0 ? 1 : attrs->groups,
                          .is_quantised = node->op == RLX_OP_CONV_QUANTISED};
    const rlx_type *w = type_of(self, facts->w);
    rlx_value_id bias = input_of(node, 2);
    if (attrs->channel_block != 0 || !is_image(self, facts->x) || !is_image(self, facts->y) ||
        !is_exact(w)) {
        return false;
    }
    if (!facts->is_quantised &&
        (w->dtype != RLX_DTYPE_F32 || type_of(self, facts->x)->dtype != RLX_DTYPE_F32 ||
         (bias != RLX_NONE && type_of(self, bias)->dtype != RLX_DTYPE_F32))) {
        return false;
    }
    facts->in = w->shape.dims[1];
    facts->out = w->shape.dims[0] / facts->groups;
    facts->is_depthwise = facts->groups > 1 && facts->in == 1 && facts->out == 1;
    facts->is_first = facts->groups == 1 && facts->in < self->block;
    return true;
}

/* Groups of whole blocks and panels, or of one channel; far fewer outputs than a block has only
 * where the inputs are in blocks already. */
static bool is_conv_for_blocks(const blocker *self, const conv_facts *facts) {
    if (facts->is_depthwise) return facts->groups >= self->block;
    if (2 * facts->out < self->block)
        return facts->groups == 1 && !facts->is_quantised && twin(self, facts->x) != RLX_NONE;
    return facts->groups == 1 ||
           (facts->in % self->block == 0 && facts->out % (2 * self->block) == 0);
}

/* Nearly as fast on planes, where lanes are pixels: depthwise, of f32, on not too few pixels. */
enum { LEAST_PIXELS = 32 };
static bool is_conv_for_planes(const blocker *self, const conv_facts *facts) {
    const rlx_shape *y = &type_of(self, facts->y)->shape;
    int64_t pixels = 1;
    for (uint32_t i = 2; i < y->rank; i++)
        pixels *= y->dims[i];
    return facts->is_depthwise && !facts->is_quantised && pixels >= LEAST_PIXELS;
}

static double bytes_of(const blocker *self, rlx_value_id value) {
    uint64_t bytes = 0;
    if (value == RLX_NONE || rlx_type_bytes(type_of(self, value), &bytes) != RLX_OK) return 0;
    return (double)bytes;
}

/* Plain convolutions run on scalar C, at a tenth of the speed of those in blocks, depthwise ones at
 * a thirtieth of what the target can: the gain is nine or thirty times what the conv takes. A
 * conversion reads and writes; the output's is counted unless a conv takes it. */
static bool is_worth(const blocker *self, const conv_facts *facts) {
    const rlx_target *target = self->context->target;
    const rlx_shape *w = &type_of(self, facts->w)->shape;
    double moved = 0, flops = bytes_of(self, facts->y) / 2, gain = facts->is_depthwise ? 30 : 9;
    if (facts->is_quantised || twin(self, facts->x) != RLX_NONE) return true;
    if (is_conv_for_planes(self, facts)) {
        return self->is_wanted[facts->y] && bytes_of(self, facts->x) <= bytes_of(self, facts->y);
    }
    for (uint32_t i = 1; i < w->rank; i++)
        flops *= (double)w->dims[i];
    if (!self->feeds_conv[facts->y]) moved += bytes_of(self, facts->y);
    if (!facts->is_first) moved += bytes_of(self, facts->x);
    if (facts->residual != RLX_NONE && twin(self, facts->residual) == RLX_NONE) {
        moved += bytes_of(self, facts->residual);
    }
    return gain * flops /
               (double)(target->flops_per_second / (target->workers == 0 ? 1 : target->workers)) >
           2 * moved / (double)target->bytes_per_second;
}

static rlx_status visit_conv(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_conv_quantised_attrs attrs = {0}; /* a conv_attrs first */
    rlx_value_id inputs[6];
    uint32_t count = node->input_count;
    conv_facts facts;
    if (!has_known_conv(self, node, &facts) || !is_conv_for_blocks(self, &facts) ||
        !is_worth(self, &facts)) {
        return RLX_OK;
    }
    memcpy(&attrs, node->attrs, facts.is_quantised ? sizeof attrs : sizeof attrs.conv);
    memcpy(inputs, node->inputs, count * sizeof *inputs);
    attrs.conv.channel_block = self->block;
    uint32_t residual = residual_at(node->op);
    if (!facts.is_first) RLX_TRY(to_blocks(self, facts.x, &inputs[0]));
    if (facts.residual != RLX_NONE) RLX_TRY(to_blocks(self, facts.residual, &inputs[residual]));
    return put_like(self, id, &attrs, inputs, count);
}

/* pools and reductions over all spatial axes */

static bool is_pooled(rlx_op op, rlx_dtype dtype) {
    bool is_byte = dtype == RLX_DTYPE_U8 || dtype == RLX_DTYPE_I8;
    return dtype == RLX_DTYPE_F32 || is_half(dtype) || (op == RLX_OP_MAX_POOL && is_byte);
}

/* Pools in blocks are of f32 or bytes: 16 bits are widened for them. */
static rlx_status visit_pool(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_pool_attrs attrs = *(const rlx_pool_attrs *)node->attrs;
    rlx_value_id x = twin(self, node->inputs[0]);
    rlx_op op = node->op;
    if (x == RLX_NONE || !is_image(self, node->outputs[0])) return RLX_OK;
    const rlx_cast_attrs wide = {.to = RLX_DTYPE_F32}, narrow = {.to = type_of(self, x)->dtype};
    if (!is_pooled(op, narrow.to)) return RLX_OK;
    if (node->output_count > 1 && node->outputs[1] != RLX_NONE) return RLX_OK;
    attrs.is_blocked = true;
    if (!is_half(narrow.to)) return put_like(self, id, &attrs, &x, 1);
    RLX_TRY(put(self, RLX_OP_CAST, &wide, &x, 1, NULL, &x));
    RLX_TRY(put(self, op, &attrs, &x, 1, NULL, &x));
    RLX_TRY(put(self, RLX_OP_CAST, &narrow, &x, 1, NULL, &x));
    return replace(self, id, x);
}

static bool is_spatial(const rlx_ints *axes, uint32_t rank) {
    uint32_t seen = 0;
    for (uint32_t i = 0; i < axes->count; i++) {
        int64_t axis = axes->items[i] < 0 ? axes->items[i] + rank : axes->items[i];
        if (axis < 2 || axis >= rank) return false;
        seen |= 1u << axis;
    }
    return seen == (1u << rank) - 4;
}

/* What is left is one number per channel, in order. */
static rlx_status visit_reduce(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_reduce_attrs attrs = *(const rlx_reduce_attrs *)node->attrs;
    rlx_value_id x = twin(self, node->inputs[0]), y = node->outputs[0];
    rlx_reshape_attrs whole = {.shape = {.count = type_of(self, y)->shape.rank}};
    if (x == RLX_NONE || !has_whole_blocks(self, node->inputs[0])) return RLX_OK;
    if (!is_spatial(&attrs.axes, type_of(self, node->inputs[0])->shape.rank)) return RLX_OK;
    for (uint32_t i = 0; i < attrs.axes.count; i++) {
        if (attrs.axes.items[i] < 0) attrs.axes.items[i]--;
    }
    memcpy(whole.shape.items, type_of(self, y)->shape.dims,
           whole.shape.count * sizeof *whole.shape.items);
    RLX_TRY(put(self, node->op, &attrs, &x, 1, NULL, &x));
    return take_over(self, id, RLX_OP_RESHAPE, &whole, x);
}

/* concat and elementwise */

/* Of the operands that have the whole shape, more bytes are in blocks than are not. */
static bool has_most_in_blocks(const blocker *self, const rlx_node *node, bool is_any_shape) {
    const rlx_shape *whole = &type_of(self, node->outputs[0])->shape;
    double in = 0, out = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id input = node->inputs[i];
        if (input == RLX_NONE) continue;
        if (!is_any_shape && !rlx_shape_equal(&type_of(self, input)->shape, whole)) continue;
        *(twin(self, input) != RLX_NONE ? &in : &out) += bytes_of(self, input);
    }
    return in > out;
}

static rlx_status blocked_inputs(blocker *self, rlx_node_id id, rlx_value_id **out_inputs) {
    uint32_t count = self->graph->nodes.items[id].input_count;
    return rlx_scratch_array(self->context->scratch, count, sizeof **out_inputs,
                             (void **)out_inputs);
}

static rlx_status visit_concat(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_axis_attrs attrs = *(const rlx_axis_attrs *)node->attrs;
    rlx_value_id *inputs = NULL;
    uint32_t count = node->input_count;
    if (!is_image(self, node->outputs[0])) return RLX_OK;
    if (attrs.axis < 0) attrs.axis += type_of(self, node->outputs[0])->shape.rank;
    if (attrs.axis != 1 || !has_most_in_blocks(self, node, true)) return RLX_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_image(self, node->inputs[i]) || !has_whole_blocks(self, node->inputs[i])) {
            return RLX_OK;
        }
    }
    RLX_TRY(blocked_inputs(self, id, &inputs));
    for (uint32_t i = 0; i < count; i++)
        RLX_TRY(to_blocks(self, self->graph->nodes.items[id].inputs[i], &inputs[i]));
    return put_like(self, id, &attrs, inputs, count);
}

/* How an operand that is broadcast looks beside values in blocks: channels, if it has them, become
 * blocks and lanes, which is the same order where nothing lies behind them. */
static bool broadcast_dims(const blocker *self, rlx_value_id input, const rlx_shape *whole,
                           int64_t *dims) {
    const rlx_shape *shape = &type_of(self, input)->shape;
    uint32_t missing = whole->rank - shape->rank;
    bool is_inner = false; /* an axis behind the channels is more than 1 wide */
    if (shape->rank > whole->rank || !is_exact(type_of(self, input))) return false;
    for (uint32_t i = 0; i < whole->rank; i++) {
        dims[i] = i < missing ? 1 : shape->dims[i - missing];
        if (dims[i] != 1 && dims[i] != whole->dims[i]) return false;
        if (i > 1 && dims[i] != 1) is_inner = true;
    }
    dims[whole->rank] = 1;
    if (dims[1] == 1) return true;
    dims[whole->rank] = self->block;
    dims[1] /= self->block;
    return !is_inner;
}

static bool is_elementwise_for_blocks(const blocker *self, const rlx_node *node) {
    const rlx_shape *whole = &type_of(self, node->outputs[0])->shape;
    int64_t dims[RLX_MAX_RANK + 1];
    if (node->output_count != 1 || !is_image(self, node->outputs[0])) return false;
    if (!has_whole_blocks(self, node->outputs[0]) || !has_most_in_blocks(self, node, false)) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id input = node->inputs[i];
        if (input == RLX_NONE) continue;
        if (!is_pixel(type_of(self, input)->dtype)) return false;
        if (rlx_shape_equal(&type_of(self, input)->shape, whole)) continue;
        if (!broadcast_dims(self, input, whole, dims)) return false;
    }
    return true;
}

static rlx_status visit_elementwise(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_value_id *inputs = NULL;
    uint32_t count = node->input_count;
    int64_t dims[RLX_MAX_RANK + 1];
    if (!is_elementwise_for_blocks(self, node)) return RLX_OK;
    const rlx_shape whole = type_of(self, node->outputs[0])->shape;
    RLX_TRY(blocked_inputs(self, id, &inputs));
    for (uint32_t i = 0; i < count; i++) {
        rlx_value_id input = self->graph->nodes.items[id].inputs[i];
        inputs[i] = input;
        if (input == RLX_NONE || type_of(self, input)->shape.rank == 0) continue;
        if (rlx_shape_equal(&type_of(self, input)->shape, &whole)) {
            RLX_TRY(to_blocks(self, input, &inputs[i]));
        } else if (broadcast_dims(self, input, &whole, dims)) {
            RLX_TRY(put_reshape(self, input, dims, whole.rank + 1, &inputs[i]));
        }
    }
    return put_like(self, id, self->graph->nodes.items[id].attrs, inputs, count);
}

/* moves along spatial axes */

/* Whole blocks that a conv wants at the end; a value that leaves them is better moved plain. */
static bool is_moved_in_blocks(const blocker *self, rlx_value_id x, rlx_value_id y) {
    return twin(self, x) != RLX_NONE && self->is_wanted[y] && is_image(self, y) &&
           has_whole_blocks(self, x) && has_whole_blocks(self, y);
}

/* A slice of channels is one of blocks where it begins and ends with one. */
static rlx_status visit_slice(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_slice_attrs attrs = *(const rlx_slice_attrs *)node->attrs;
    rlx_value_id x = twin(self, node->inputs[0]);
    if (!is_moved_in_blocks(self, node->inputs[0], node->outputs[0])) return RLX_OK;
    const rlx_shape *shape = &type_of(self, node->inputs[0])->shape;
    for (uint32_t i = 0; i < attrs.starts.count; i++) {
        int64_t axis = attrs.axes.count == 0 ? i : attrs.axes.items[i];
        if (axis < 0) axis += shape->rank;
        if (attrs.axes.count != 0) attrs.axes.items[i] = axis;
        if (axis != 1) continue;
        int64_t start = attrs.starts.items[i], end = attrs.ends.items[i];
        if (end > shape->dims[1]) end = shape->dims[1];
        if (start < 0 || end < start || start % self->block != 0 || end % self->block != 0 ||
            (attrs.steps.count != 0 && attrs.steps.items[i] != 1)) {
            return RLX_OK;
        }
        attrs.starts.items[i] = start / self->block;
        attrs.ends.items[i] = end / self->block;
    }
    return put_like(self, id, &attrs, &x, 1);
}

static rlx_status visit_pad(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_pad_attrs attrs = *(const rlx_pad_attrs *)node->attrs;
    const rlx_pad_attrs plain = attrs;
    rlx_value_id x = twin(self, node->inputs[0]);
    if (!is_moved_in_blocks(self, node->inputs[0], node->outputs[0])) return RLX_OK;
    uint32_t rank = type_of(self, node->inputs[0])->shape.rank;
    if (plain.pads.count != 2 * rank || plain.pads.items[1] != 0 ||
        plain.pads.items[rank + 1] != 0) {
        return RLX_OK;
    }
    attrs.pads = (rlx_ints){.count = 2 * rank + 2};
    for (uint32_t i = 0; i < rank; i++) {
        attrs.pads.items[i] = plain.pads.items[i];
        attrs.pads.items[rank + 1 + i] = plain.pads.items[rank + i];
    }
    return put_like(self, id, &attrs, &x, 1);
}

/* The node of this op that makes a value; NULL: another one does. */
static const rlx_node *maker(const blocker *self, rlx_value_id value, rlx_op op) {
    rlx_node_id producer = self->graph->values.items[value].producer;
    if (producer == RLX_NONE || self->graph->nodes.items[producer].op != op) return NULL;
    return &self->graph->nodes.items[producer];
}

/* A shape of [N][C][rest..] in blocks; false: it is another, or has too many axes. */
static bool blocked_dims(const blocker *self, rlx_value_id value, const rlx_shape *image,
                         int64_t *dims) {
    const rlx_shape *shape = &type_of(self, value)->shape;
    if (shape->rank < 3 || shape->rank >= RLX_MAX_RANK || shape->dims[0] != image->dims[0] ||
        shape->dims[1] != image->dims[1]) {
        return false;
    }
    memcpy(dims, shape->dims, shape->rank * sizeof *dims);
    dims[1] /= self->block;
    dims[shape->rank] = self->block;
    return true;
}

/* reshape(expand(reshape(x))): pixels that are repeated, as in a resize by whole factors. */
static rlx_status visit_repeat(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    int64_t with[RLX_MAX_RANK], wide[RLX_MAX_RANK], result[RLX_MAX_RANK];
    char name[96];
    const rlx_node *expand = maker(self, node->inputs[0], RLX_OP_EXPAND);
    const rlx_node *first = expand ? maker(self, expand->inputs[0], RLX_OP_RESHAPE) : NULL;
    if (first == NULL || !is_moved_in_blocks(self, first->inputs[0], node->outputs[0])) {
        return RLX_OK;
    }
    const rlx_shape image = type_of(self, first->inputs[0])->shape;
    uint32_t rank = type_of(self, expand->inputs[0])->shape.rank;
    rlx_value_id x = twin(self, first->inputs[0]), y = node->outputs[0];
    if (!blocked_dims(self, expand->inputs[0], &image, with) ||
        !blocked_dims(self, node->inputs[0], &image, wide) ||
        !blocked_dims(self, y, &image, result) ||
        type_of(self, node->inputs[0])->shape.rank != rank) {
        return RLX_OK;
    }
    rlx_reshape_attrs attrs = {.shape = {.count = rank + 1}};
    memcpy(attrs.shape.items, wide, (rank + 1) * sizeof *wide);
    RLX_TRY(put_reshape(self, x, with, rank + 1, &x));
    RLX_TRY(put(self, RLX_OP_EXPAND, &attrs, &x, 1, NULL, &x));
    attrs.shape.count = type_of(self, y)->shape.rank + 1;
    memcpy(attrs.shape.items, result, attrs.shape.count * sizeof *result);
    RLX_TRY(put(self, RLX_OP_RESHAPE, &attrs, &x, 1, name_of(self, id, name, sizeof name), &x));
    return replace(self, id, x);
}

static rlx_status visit(blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    if (is_conv(node->op)) return visit_conv(self, id);
    if (node->op == RLX_OP_MAX_POOL || node->op == RLX_OP_AVERAGE_POOL) return visit_pool(self, id);
    if (node->op >= RLX_OP_REDUCE_SUM && node->op <= RLX_OP_REDUCE_SUM_SQUARE) {
        return visit_reduce(self, id);
    }
    if (node->op == RLX_OP_CONCAT) return visit_concat(self, id);
    if (node->op == RLX_OP_SLICE) return visit_slice(self, id);
    if (node->op == RLX_OP_PAD) return visit_pad(self, id);
    if (node->op == RLX_OP_RESHAPE) return visit_repeat(self, id);
    if ((rlx_op_info_of(node->op)->flags & RLX_OPF_ELEMENTWISE) != 0) {
        return visit_elementwise(self, id);
    }
    return RLX_OK;
}

static rlx_status visit_body(blocker *self) {
    const rlx_graph *graph = self->graph;
    for (self->at = 0; self->at < graph->blocks.items[self->body].nodes.count; self->at++) {
        rlx_node_id id = graph->blocks.items[self->body].nodes.items[self->at];
        const rlx_node *node = &graph->nodes.items[id];
        if (node->is_dead || node->output_count == 0 || node->outputs[0] == RLX_NONE) continue;
        RLX_TRY(visit(self, id));
    }
    return RLX_OK;
}

/* Whether a node passes on what its users want of its output. */
static bool is_neutral(const rlx_node *node) {
    return is_conv(node->op) || node->op == RLX_OP_MAX_POOL || node->op == RLX_OP_AVERAGE_POOL ||
           node->op == RLX_OP_CONCAT || node->op == RLX_OP_SLICE || node->op == RLX_OP_PAD ||
           (rlx_op_info_of(node->op)->flags & RLX_OPF_ELEMENTWISE) != 0;
}

/* From the last node of a body to the first. */
static void mark_wanted(blocker *self, rlx_block_id body) {
    const rlx_graph *graph = self->graph;
    for (uint32_t i = graph->blocks.items[body].nodes.count; i-- > 0;) {
        const rlx_node *node = &graph->nodes.items[graph->blocks.items[body].nodes.items[i]];
        conv_facts facts;
        if (node->is_dead || node->output_count == 0 || node->outputs[0] == RLX_NONE) continue;
        bool needs = is_conv(node->op) && has_known_conv(self, node, &facts) &&
                     is_conv_for_blocks(self, &facts) && !is_conv_for_planes(self, &facts);
        if (!needs && !(is_neutral(node) && self->is_wanted[node->outputs[0]])) continue;
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (node->inputs[k] != RLX_NONE) self->is_wanted[node->inputs[k]] = 1;
        }
    }
}

rlx_status rlx_pass_block_channels(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    blocker self = {.context = context, .graph = graph, .count = graph->values.count};
    if (context->target == NULL || context->target->channel_block == 0) return RLX_OK;
    if (!rlx_pass_is_on(context->options, "pack_weights")) return RLX_OK; /* kernels want panels */
    self.block = context->target->channel_block;
    RLX_TRY(rlx_scratch_array(context->scratch, self.count + 1u, sizeof *self.blocked,
                              (void **)&self.blocked));
    RLX_TRY(rlx_scratch_array(context->scratch, self.count + 1u, 1, (void **)&self.feeds_conv));
    RLX_TRY(rlx_scratch_array(context->scratch, self.count + 1u, 1, (void **)&self.is_wanted));
    for (uint32_t v = 0; v < self.count; v++)
        self.blocked[v] = RLX_NONE;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        if (node->is_dead || !is_conv(node->op)) continue;
        rlx_value_id residual = input_of(node, residual_at(node->op));
        self.feeds_conv[node->inputs[0]] = 1;
        if (residual != RLX_NONE) self.feeds_conv[residual] = 1;
    }
    for (rlx_block_id body = 0; body < graph->blocks.count; body++)
        mark_wanted(&self, body);
    for (; self.body < graph->blocks.count; self.body++)
        RLX_TRY(visit_body(&self));
    return rlx_pass_remove_dead(context);
}
