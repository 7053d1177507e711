/* SPDX-License-Identifier: Apache-2.0 */
/* Block channels: convolutions whose target has kernels for it get activations with channels in
 * blocks, [N][C / b][spatial..][b], and so do the pools, reductions, concats and elementwise ops
 * between them. Blocks are an ordinary axis: the pass writes plain nodes on values of one more
 * axis, so views, concats in place and every kernel but those of conv and pools know nothing of it.
 * One walk in node order, body by body (what comes from outside a body is plain there): a node is
 * turned when its inputs are in blocks already, or, of a conv, when what it gains is more than the
 * conversions cost. Depthwise ones and those with little to multiply are nearly as fast on planes:
 * they stay there unless a conv that needs blocks comes behind them. Whoever still wants the plain
 * value gets it from a conversion behind the node; those that nobody wants are removed at the end.
 * Inputs, outputs and states stay plain. */
#include "compile/block_conv.h"
#include "ir/infer.h"

#include <string.h>

/* conv */

/* Groups of little depth read each input once, from planes as well as from blocks: an input that is
 * in planes stays there. Those of several blocks that fill no panels would turn it once per block.
 */
static bool is_of_planes(const rlx_blocker *self, const rlx_block_conv *facts) {
    enum { LITTLE = 36 }; /* blocks and taps: one part of the depth */
    bool is_once = !rlx_block_conv_is_narrow(self, facts) || facts->in <= self->block;
    return facts->groups > 1 && !facts->is_depthwise && !facts->is_quantised && is_once &&
           facts->in * facts->taps <= LITTLE * self->block &&
           rlx_blocker_twin(self, facts->x) == RLX_NONE;
}

/* Plain convolutions run on scalar C, at a tenth of the speed of those in blocks, depthwise ones at
 * a thirtieth of what the target can: the gain is nine or thirty times what the conv takes. A
 * conversion reads and writes; the output's is counted unless a conv takes it. */
static bool is_worth(const rlx_blocker *self, const rlx_block_conv *facts) {
    const rlx_target *target = self->context->target;
    double moved = 0, gain = facts->is_depthwise ? 30 : 9;
    if (facts->is_quantised || rlx_blocker_twin(self, facts->x) != RLX_NONE) return true;
    if (self->is_plain[facts->y]) return false;
    if (!self->feeds_conv[facts->y]) moved += rlx_block_bytes(self, facts->y);
    if (!facts->is_first && !is_of_planes(self, facts)) moved += rlx_block_bytes(self, facts->x);
    if (facts->residual != RLX_NONE && rlx_blocker_twin(self, facts->residual) == RLX_NONE) {
        moved += rlx_block_bytes(self, facts->residual);
    }
    return gain * rlx_block_flops(self, facts) / rlx_block_flops_per_second(self) >
           2 * moved / (double)target->bytes_per_second;
}

static rlx_status visit_conv(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_conv_quantised_attrs attrs = {0}; /* a conv_attrs first */
    rlx_value_id inputs[6];
    uint32_t count = node->input_count;
    rlx_block_conv facts;
    if (!rlx_block_conv_of(self, node, &facts) || !rlx_block_conv_fits(self, &facts) ||
        !is_worth(self, &facts)) {
        return RLX_OK;
    }
    memcpy(&attrs, node->attrs, facts.is_quantised ? sizeof attrs : sizeof attrs.conv);
    memcpy(inputs, node->inputs, count * sizeof *inputs);
    attrs.conv.channel_block = self->block;
    uint32_t residual = rlx_block_residual_at(node->op);
    if (!facts.is_first && !is_of_planes(self, &facts))
        RLX_TRY(rlx_blocker_convert(self, facts.x, &inputs[0]));
    if (facts.residual != RLX_NONE)
        RLX_TRY(rlx_blocker_convert(self, facts.residual, &inputs[residual]));
    return rlx_blocker_put_like(self, id, &attrs, inputs, count);
}

/* pools and reductions over all spatial axes */

static bool is_pooled(rlx_op op, rlx_dtype dtype) {
    bool is_byte = dtype == RLX_DTYPE_U8 || dtype == RLX_DTYPE_I8;
    return dtype == RLX_DTYPE_F32 || rlx_blocker_is_half(dtype) ||
           (op == RLX_OP_MAX_POOL && is_byte);
}

/* Pools in blocks are of f32 or bytes: 16 bits are widened for them. */
static rlx_status visit_pool(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_pool_attrs attrs = *(const rlx_pool_attrs *)node->attrs;
    rlx_value_id x = rlx_blocker_twin(self, node->inputs[0]);
    rlx_op op = node->op;
    if (x == RLX_NONE || !rlx_blocker_is_image(self, node->outputs[0])) return RLX_OK;
    const rlx_cast_attrs wide = {.to = RLX_DTYPE_F32},
                         narrow = {.to = rlx_blocker_type(self, x)->dtype};
    if (!is_pooled(op, narrow.to)) return RLX_OK;
    if (node->output_count > 1 && node->outputs[1] != RLX_NONE) return RLX_OK;
    attrs.is_blocked = true;
    if (!rlx_blocker_is_half(narrow.to)) return rlx_blocker_put_like(self, id, &attrs, &x, 1);
    RLX_TRY(rlx_blocker_put(self, RLX_OP_CAST, &wide, &x, 1, NULL, &x));
    RLX_TRY(rlx_blocker_put(self, op, &attrs, &x, 1, NULL, &x));
    RLX_TRY(rlx_blocker_put(self, RLX_OP_CAST, &narrow, &x, 1, NULL, &x));
    return rlx_blocker_replace(self, id, x);
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
static rlx_status visit_reduce(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_reduce_attrs attrs = *(const rlx_reduce_attrs *)node->attrs;
    rlx_value_id x = rlx_blocker_twin(self, node->inputs[0]), y = node->outputs[0];
    rlx_reshape_attrs whole = {.shape = {.count = rlx_blocker_type(self, y)->shape.rank}};
    if (x == RLX_NONE || !rlx_blocker_has_whole(self, node->inputs[0])) return RLX_OK;
    if (!is_spatial(&attrs.axes, rlx_blocker_type(self, node->inputs[0])->shape.rank))
        return RLX_OK;
    for (uint32_t i = 0; i < attrs.axes.count; i++) {
        if (attrs.axes.items[i] < 0) attrs.axes.items[i]--;
    }
    memcpy(whole.shape.items, rlx_blocker_type(self, y)->shape.dims,
           whole.shape.count * sizeof *whole.shape.items);
    RLX_TRY(rlx_blocker_put(self, node->op, &attrs, &x, 1, NULL, &x));
    return rlx_blocker_take_over(self, id, RLX_OP_RESHAPE, &whole, x);
}

/* concat and elementwise */

/* Of the operands that have the whole shape, more bytes are in blocks than are not. */
static bool has_most_in_blocks(const rlx_blocker *self, const rlx_node *node, bool is_any_shape) {
    const rlx_shape *whole = &rlx_blocker_type(self, node->outputs[0])->shape;
    double in = 0, out = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id input = node->inputs[i];
        if (input == RLX_NONE) continue;
        if (!is_any_shape && !rlx_shape_equal(&rlx_blocker_type(self, input)->shape, whole))
            continue;
        *(rlx_blocker_twin(self, input) != RLX_NONE ? &in : &out) += rlx_block_bytes(self, input);
    }
    return in > out;
}

static rlx_status blocked_inputs(rlx_blocker *self, rlx_node_id id, rlx_value_id **out_inputs) {
    uint32_t count = self->graph->nodes.items[id].input_count;
    return rlx_scratch_array(self->context->scratch, count, sizeof **out_inputs,
                             (void **)out_inputs);
}

static rlx_status visit_concat(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_axis_attrs attrs = *(const rlx_axis_attrs *)node->attrs;
    rlx_value_id *inputs = NULL;
    uint32_t count = node->input_count;
    if (!rlx_blocker_is_image(self, node->outputs[0])) return RLX_OK;
    if (attrs.axis < 0) attrs.axis += rlx_blocker_type(self, node->outputs[0])->shape.rank;
    if (attrs.axis != 1 || !has_most_in_blocks(self, node, true)) return RLX_OK;
    for (uint32_t i = 0; i < count; i++) {
        if (!rlx_blocker_is_image(self, node->inputs[i]) ||
            !rlx_blocker_has_whole(self, node->inputs[i])) {
            return RLX_OK;
        }
    }
    RLX_TRY(blocked_inputs(self, id, &inputs));
    for (uint32_t i = 0; i < count; i++)
        RLX_TRY(rlx_blocker_convert(self, self->graph->nodes.items[id].inputs[i], &inputs[i]));
    return rlx_blocker_put_like(self, id, &attrs, inputs, count);
}

/* How an operand that is broadcast looks beside values in blocks: channels, if it has them, become
 * blocks and lanes, which is the same order where nothing lies behind them. */
static bool broadcast_dims(const rlx_blocker *self, rlx_value_id input, const rlx_shape *whole,
                           int64_t *dims) {
    const rlx_shape *shape = &rlx_blocker_type(self, input)->shape;
    uint32_t missing = whole->rank - shape->rank;
    bool is_inner = false; /* an axis behind the channels is more than 1 wide */
    if (shape->rank > whole->rank || !rlx_blocker_is_exact(rlx_blocker_type(self, input)))
        return false;
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

static bool is_elementwise_for_blocks(const rlx_blocker *self, const rlx_node *node) {
    const rlx_shape *whole = &rlx_blocker_type(self, node->outputs[0])->shape;
    int64_t dims[RLX_MAX_RANK + 1];
    if (node->output_count != 1 || !rlx_blocker_is_image(self, node->outputs[0])) return false;
    if (!rlx_blocker_has_whole(self, node->outputs[0]) || !has_most_in_blocks(self, node, false)) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id input = node->inputs[i];
        if (input == RLX_NONE) continue;
        if (!rlx_blocker_is_pixel(rlx_blocker_type(self, input)->dtype)) return false;
        if (rlx_shape_equal(&rlx_blocker_type(self, input)->shape, whole)) continue;
        if (!broadcast_dims(self, input, whole, dims)) return false;
    }
    return true;
}

static rlx_status visit_elementwise(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_value_id *inputs = NULL;
    uint32_t count = node->input_count;
    int64_t dims[RLX_MAX_RANK + 1];
    if (!is_elementwise_for_blocks(self, node)) return RLX_OK;
    const rlx_shape whole = rlx_blocker_type(self, node->outputs[0])->shape;
    RLX_TRY(blocked_inputs(self, id, &inputs));
    for (uint32_t i = 0; i < count; i++) {
        rlx_value_id input = self->graph->nodes.items[id].inputs[i];
        inputs[i] = input;
        if (input == RLX_NONE || rlx_blocker_type(self, input)->shape.rank == 0) continue;
        if (rlx_shape_equal(&rlx_blocker_type(self, input)->shape, &whole)) {
            RLX_TRY(rlx_blocker_convert(self, input, &inputs[i]));
        } else if (broadcast_dims(self, input, &whole, dims)) {
            RLX_TRY(rlx_blocker_reshape(self, input, dims, whole.rank + 1, &inputs[i]));
        }
    }
    return rlx_blocker_put_like(self, id, self->graph->nodes.items[id].attrs, inputs, count);
}

static rlx_status visit(rlx_blocker *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    if (rlx_block_is_conv(node->op)) return visit_conv(self, id);
    if (node->op == RLX_OP_MAX_POOL || node->op == RLX_OP_AVERAGE_POOL) return visit_pool(self, id);
    if (node->op >= RLX_OP_REDUCE_SUM && node->op <= RLX_OP_REDUCE_SUM_SQUARE) {
        return visit_reduce(self, id);
    }
    if (node->op == RLX_OP_CONCAT) return visit_concat(self, id);
    if (node->op == RLX_OP_SLICE || node->op == RLX_OP_PAD || node->op == RLX_OP_RESHAPE) {
        return rlx_blocker_move(self, id);
    }
    if ((rlx_op_info_of(node->op)->flags & RLX_OPF_ELEMENTWISE) != 0) {
        return visit_elementwise(self, id);
    }
    return RLX_OK;
}

static rlx_status visit_body(rlx_blocker *self) {
    const rlx_graph *graph = self->graph;
    for (self->at = 0; self->at < graph->blocks.items[self->body].nodes.count; self->at++) {
        rlx_node_id id = graph->blocks.items[self->body].nodes.items[self->at];
        const rlx_node *node = &graph->nodes.items[id];
        if (node->is_dead || node->output_count == 0 || node->outputs[0] == RLX_NONE) continue;
        RLX_TRY(visit(self, id));
    }
    return RLX_OK;
}

/* From the last node of a body to the first. */
static void mark_wanted(rlx_blocker *self, rlx_block_id body) {
    const rlx_graph *graph = self->graph;
    for (uint32_t i = graph->blocks.items[body].nodes.count; i-- > 0;) {
        const rlx_node *node = &graph->nodes.items[graph->blocks.items[body].nodes.items[i]];
        rlx_block_conv facts;
        if (node->is_dead || node->output_count == 0 || node->outputs[0] == RLX_NONE) continue;
        bool needs = rlx_block_is_conv(node->op) && rlx_block_conv_of(self, node, &facts) &&
                     rlx_block_conv_fits(self, &facts) && !self->is_plain[facts.y];
        if (!needs && !(rlx_block_is_neutral(node) && self->is_wanted[node->outputs[0]])) continue;
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (node->inputs[k] != RLX_NONE) self->is_wanted[node->inputs[k]] = 1;
        }
    }
}

rlx_status rlx_pass_block_channels(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    rlx_blocker self = {.context = context, .graph = graph, .count = graph->values.count};
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
        if (node->is_dead || !rlx_block_is_conv(node->op)) continue;
        rlx_value_id residual = rlx_block_input(node, rlx_block_residual_at(node->op));
        self.feeds_conv[node->inputs[0]] = 1;
        if (residual != RLX_NONE) self.feeds_conv[residual] = 1;
    }
    RLX_TRY(rlx_scratch_array(context->scratch, self.count + 1u, 1, (void **)&self.is_plain));
    RLX_TRY(rlx_block_find_plain(&self));
    for (rlx_block_id body = 0; body < graph->blocks.count; body++)
        mark_wanted(&self, body);
    for (; self.body < graph->blocks.count; self.body++)
        RLX_TRY(visit_body(&self));
    return rlx_pass_remove_dead(context);
}
