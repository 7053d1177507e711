/* SPDX-License-Identifier: Apache-2.0 */
/* Norms that are spelled out. (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) is a
 * layer_norm, also as x r + (bias - mean(x) r) with r the scale over that root, as batch norms are
 * written; x / sqrt(mean(x^2) + epsilon) is an rms_norm; a mul and an add by weights behind a norm
 * are its scale and bias. exp(x - max(x)) over its sum is a softmax. A group_norm or instance_norm
 * is a layer_norm of its groups, scaled by channel. */
#include "compile/canonicalise.h"

#include "ir/infer.h"

/* reduce_mean over the last axes, which stay as 1; false for any other. */
static bool is_tail_mean(const rlx_rewrite *rewrite, rlx_node_id mean, uint32_t *out_axis) {
    const rlx_reduce_attrs *attrs = rlx_rewrite_attrs(rewrite, mean);
    uint32_t rank = rlx_rewrite_type(rewrite, rlx_rewrite_input(rewrite, mean, 0))->shape.rank;
    uint32_t mask = 0, axis = 0;
    if (!attrs->keep_dims || rank == 0) return false;
    for (uint32_t i = 0; i < attrs->axes.count; i++) {
        if (rlx_infer_axis(attrs->axes.items[i], rank, &axis) != RLX_OK) return false;
        mask |= 1u << axis;
    }
    if (attrs->axes.count == 0) mask = (1u << rank) - 1;
    for (axis = 0; axis < rank && (mask >> axis & 1) == 0;)
        axis++;
    *out_axis = axis;
    return axis < rank && mask >> axis == (1u << (rank - axis)) - 1;
}

/* value = sqrt(v), or 1 / sqrt(v) where `is_inverse`. */
static bool is_root(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                    bool is_inverse, rlx_value_id *out_v) {
    rlx_node_id id =
        rlx_rewrite_inner(rewrite, root, value, is_inverse ? RLX_OP_RSQRT : RLX_OP_SQRT);
    double power;
    bool is_right;
    if (id != RLX_NONE) {
        *out_v = rlx_rewrite_input(rewrite, id, 0);
        return true;
    }
    id = rlx_rewrite_inner(rewrite, root, value, RLX_OP_POW);
    return id != RLX_NONE && rlx_match_scalar(rewrite, id, out_v, &power, &is_right) && is_right &&
           power == (is_inverse ? -0.5 : 0.5);
}

/* value = mean(d^2) + epsilon over the axes from *out_axis on. */
static bool is_mean_square(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                           rlx_value_id *out_d, uint32_t *out_axis, double *out_epsilon) {
    rlx_node_id sum = rlx_rewrite_inner(rewrite, root, value, RLX_OP_ADD);
    rlx_value_id mean_value;
    bool is_right;
    if (sum == RLX_NONE || !rlx_match_scalar(rewrite, sum, &mean_value, out_epsilon, &is_right) ||
        *out_epsilon < 0) {
        return false;
    }
    rlx_node_id mean = rlx_rewrite_inner(rewrite, root, mean_value, RLX_OP_REDUCE_MEAN);
    if (mean == RLX_NONE || !is_tail_mean(rewrite, mean, out_axis)) return false;
    rlx_node_id square =
        rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, mean, 0), RLX_OP_SQUARE);
    if (square != RLX_NONE) *out_d = rlx_rewrite_input(rewrite, square, 0);
    return square != RLX_NONE;
}

/* What makes `value`, if it has `uses` uses and may be computed at the root. */
static rlx_node_id shared(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                          rlx_op op, uint32_t uses) {
    rlx_node_id id = rlx_rewrite_producer(rewrite, value, op);
    bool is_ours = id != RLX_NONE && rlx_rewrite_fact(rewrite, value)->uses == uses &&
                   rlx_rewrite_may_move(rewrite, id, root);
    return is_ours ? id : RLX_NONE;
}

/* d = x - mean(x) over the same axes; d and the mean are used as often as the norm uses them. */
static bool is_centred(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id d, uint32_t uses,
                       uint32_t mean_uses, uint32_t axis, rlx_value_id *out_x) {
    rlx_node_id sub = shared(rewrite, root, d, RLX_OP_SUB, uses);
    uint32_t mean_axis;
    if (sub == RLX_NONE) return false;
    rlx_node_id mean =
        shared(rewrite, root, rlx_rewrite_input(rewrite, sub, 1), RLX_OP_REDUCE_MEAN, mean_uses);
    *out_x = rlx_rewrite_input(rewrite, sub, 0);
    return mean != RLX_NONE && rlx_rewrite_input(rewrite, mean, 0) == *out_x &&
           is_tail_mean(rewrite, mean, &mean_axis) && mean_axis == axis;
}

/* root = d / sqrt(..), or d * (1 / sqrt(..)) with d on either side. */
static rlx_status match_norm(rlx_rewrite *rewrite, rlx_node_id root) {
    bool is_mul = rlx_rewrite_op(rewrite, root) == RLX_OP_MUL;
    for (uint32_t i = 0; i < (is_mul ? 2u : 1u); i++) {
        rlx_value_id d = rlx_rewrite_input(rewrite, root, i), v, x, squared;
        rlx_norm_attrs attrs = {0};
        uint32_t axis;
        if (!is_root(rewrite, root, rlx_rewrite_input(rewrite, root, 1 - i), is_mul, &v) ||
            !is_mean_square(rewrite, root, v, &squared, &axis, &attrs.epsilon) || squared != d) {
            continue;
        }
        attrs.axis = axis;
        if (is_centred(rewrite, root, d, 2, 1, axis, &x)) {
            return rlx_rewrite_node(rewrite, root, RLX_OP_LAYER_NORM, &attrs, &x, 1, NULL);
        }
        return rlx_rewrite_node(rewrite, root, RLX_OP_RMS_NORM, &attrs, &d, 1, NULL);
    }
    return RLX_OK;
}

/* How many leading dims of 1 a weight has that the norm's tail has not; false: it has others. */
static bool find_skip(const rlx_rewrite *rewrite, rlx_value_id weight, uint32_t tail_rank,
                      uint32_t *out_skip) {
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, weight)->shape;
    *out_skip = shape->rank > tail_rank ? shape->rank - tail_rank : 0;
    for (uint32_t i = 0; i < *out_skip; i++) {
        if (shape->dims[i] != 1) return false;
    }
    return true;
}

/* A weight beside the last `tail_rank` axes without dims of 1 before them. */
static rlx_status as_tail(rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id weight,
                          uint32_t skip, rlx_value_id *out_weight) {
    rlx_shape shape = rlx_rewrite_type(rewrite, weight)->shape;
    return rlx_rewrite_reshaped(rewrite, root, weight, shape.dims + skip, shape.rank - skip,
                                out_weight);
}

/* r = scale / sqrt(mean((x - mean(x))^2) + epsilon), where the root uses r and mean(x) twice. */
static bool is_scaled_root(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id r,
                           rlx_value_id *out_scale, rlx_value_id *out_x, rlx_value_id *out_mean,
                           rlx_norm_attrs *out_attrs) {
    rlx_node_id product = shared(rewrite, root, r, RLX_OP_MUL, 2);
    for (uint32_t i = 0; product != RLX_NONE && i < 2; i++) {
        rlx_value_id v, d;
        uint32_t axis;
        *out_scale = rlx_rewrite_input(rewrite, product, i);
        if (rlx_rewrite_fact(rewrite, *out_scale)->is_prepared &&
            is_root(rewrite, root, rlx_rewrite_input(rewrite, product, 1 - i), true, &v) &&
            is_mean_square(rewrite, root, v, &d, &axis, &out_attrs->epsilon) &&
            is_centred(rewrite, root, d, 1, 2, axis, out_x)) {
            rlx_node_id sub = rlx_rewrite_producer(rewrite, d, RLX_OP_SUB);
            *out_mean = rlx_rewrite_input(rewrite, sub, 1);
            out_attrs->axis = axis;
            return true;
        }
    }
    return false;
}

/* Whether `node` multiplies a by b. */
static bool multiplies(const rlx_rewrite *rewrite, rlx_node_id node, rlx_value_id a,
                       rlx_value_id b) {
    rlx_value_id x = rlx_rewrite_input(rewrite, node, 0), y = rlx_rewrite_input(rewrite, node, 1);
    return (x == a && y == b) || (x == b && y == a);
}

/* root = x r + (bias - mean(x) r). */
static rlx_status match_moments(rlx_rewrite *rewrite, rlx_node_id root) {
    for (uint32_t i = 0; i < 4; i++) { /* which side of the sum, which side of x r */
        rlx_value_id scale, x, mean, inputs[3];
        rlx_norm_attrs attrs = {0};
        uint32_t skips[2];
        rlx_node_id left =
            rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, root, i & 1), RLX_OP_MUL);
        rlx_node_id rest = rlx_rewrite_inner(
            rewrite, root, rlx_rewrite_input(rewrite, root, 1 - (i & 1)), RLX_OP_SUB);
        if (left == RLX_NONE || rest == RLX_NONE) continue;
        rlx_value_id r = rlx_rewrite_input(rewrite, left, i >> 1);
        rlx_value_id bias = rlx_rewrite_input(rewrite, rest, 0);
        rlx_node_id right =
            rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, rest, 1), RLX_OP_MUL);
        if (right == RLX_NONE || !rlx_rewrite_fact(rewrite, bias)->is_prepared ||
            !is_scaled_root(rewrite, root, r, &scale, &x, &mean, &attrs) ||
            !multiplies(rewrite, left, x, r) || !multiplies(rewrite, right, mean, r)) {
            continue;
        }
        uint32_t tail = rlx_rewrite_type(rewrite, x)->shape.rank - (uint32_t)attrs.axis;
        if (!find_skip(rewrite, scale, tail, &skips[0]) ||
            !find_skip(rewrite, bias, tail, &skips[1])) {
            continue;
        }
        inputs[0] = x;
        RLX_TRY(as_tail(rewrite, root, scale, skips[0], &inputs[1]));
        RLX_TRY(as_tail(rewrite, root, bias, skips[1], &inputs[2]));
        return rlx_rewrite_node(rewrite, root, RLX_OP_LAYER_NORM, &attrs, inputs, 3, NULL);
    }
    return RLX_OK;
}

/* A reduction of `value` over one axis that stays as 1. */
static bool reduces(const rlx_rewrite *rewrite, rlx_node_id id, rlx_value_id value,
                    uint32_t *out_axis) {
    if (id == RLX_NONE || rlx_rewrite_input(rewrite, id, 0) != value) return false;
    const rlx_reduce_attrs *attrs = rlx_rewrite_attrs(rewrite, id);
    uint32_t rank = rlx_rewrite_type(rewrite, value)->shape.rank;
    return attrs->keep_dims && attrs->axes.count == 1 &&
           rlx_infer_axis(attrs->axes.items[0], rank, out_axis) == RLX_OK;
}

/* root = e / sum(e) with e = exp(x - max(x)) along one axis. */
static rlx_status match_softmax(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_value_id e = rlx_rewrite_input(rewrite, root, 0);
    rlx_node_id sum =
        rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, root, 1), RLX_OP_REDUCE_SUM);
    rlx_node_id power = shared(rewrite, root, e, RLX_OP_EXP, 2);
    uint32_t axis, most_axis;
    if (power == RLX_NONE || !reduces(rewrite, sum, e, &axis)) return RLX_OK;
    rlx_node_id sub =
        rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, power, 0), RLX_OP_SUB);
    if (sub == RLX_NONE) return RLX_OK;
    rlx_value_id x = rlx_rewrite_input(rewrite, sub, 0);
    rlx_node_id most =
        rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, sub, 1), RLX_OP_REDUCE_MAX);
    if (!reduces(rewrite, most, x, &most_axis) || most_axis != axis) return RLX_OK;
    const rlx_axis_attrs attrs = {axis};
    return rlx_rewrite_node(rewrite, root, RLX_OP_SOFTMAX, &attrs, &x, 1, NULL);
}

/* root = norm * weight (input 1) or norm + weight (input 2). */
static rlx_status take_weight(rlx_rewrite *rewrite, rlx_node_id root, uint32_t slot) {
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id weight = rlx_rewrite_input(rewrite, root, 1 - i);
        rlx_value_id normed = rlx_rewrite_input(rewrite, root, i);
        rlx_node_id norm = rlx_rewrite_inner(rewrite, root, normed, RLX_OP_NONE);
        if (norm == RLX_NONE || !rlx_rewrite_fact(rewrite, weight)->is_prepared) continue;
        const rlx_node *node = &rewrite->graph->nodes.items[norm];
        if ((node->op != RLX_OP_LAYER_NORM && node->op != RLX_OP_RMS_NORM) ||
            node->output_count != 1) {
            continue;
        }
        rlx_value_id inputs[4] = {RLX_NONE, RLX_NONE, RLX_NONE, RLX_NONE};
        for (uint32_t n = 0; n < 4; n++)
            inputs[n] = rlx_rewrite_input(rewrite, norm, n);
        if (inputs[slot] != RLX_NONE || inputs[2] != RLX_NONE || inputs[3] != RLX_NONE) continue;
        uint32_t rank = rlx_rewrite_type(rewrite, normed)->shape.rank, axis, skip;
        const rlx_norm_attrs attrs = *(const rlx_norm_attrs *)node->attrs;
        rlx_op op = node->op;
        RLX_TRY(rlx_infer_axis(attrs.axis, rank, &axis));
        if (!find_skip(rewrite, weight, rank - axis, &skip)) continue;
        RLX_TRY(as_tail(rewrite, root, weight, skip, &inputs[slot]));
        return rlx_rewrite_node(rewrite, root, op, &attrs, inputs, slot + 1, NULL);
    }
    return RLX_OK;
}

/* A scale or bias [C] as [C, 1..] beside [N, C, ..]. */
static rlx_status beside_channels(rlx_rewrite *rewrite, rlx_node_id root, uint32_t rank,
                                  rlx_value_id *weight) {
    int64_t dims[RLX_MAX_RANK] = {rlx_rewrite_type(rewrite, *weight)->shape.dims[0]};
    for (uint32_t i = 1; i + 1 < rank; i++)
        dims[i] = 1;
    return rlx_rewrite_reshaped(rewrite, root, *weight, dims, rank - 1, weight);
}

static rlx_status split_channel_norm(rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_norm_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    bool is_instance = rlx_rewrite_op(rewrite, root) == RLX_OP_INSTANCE_NORM;
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0);
    rlx_value_id scale = rlx_rewrite_input(rewrite, root, 1);
    rlx_value_id bias = rlx_rewrite_input(rewrite, root, 2);
    const rlx_type type = *rlx_rewrite_type(rewrite, x);
    const rlx_norm_attrs rows = {.axis = 1, .epsilon = attrs->epsilon};
    int64_t groups = type.shape.dims[0] * (is_instance ? type.shape.dims[1] : attrs->groups);
    int64_t elements = 1;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        elements *= type.shape.dims[i];
    if (rlx_rewrite_has_extent(&type) || elements == 0 || groups <= 0) return RLX_OK;
    const int64_t apart[2] = {groups, elements / groups};
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, x, apart, 2, &x));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_LAYER_NORM, &rows, &x, 1, &x));
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, x, type.shape.dims, type.shape.rank, &x));
    RLX_TRY(beside_channels(rewrite, root, type.shape.rank, &scale));
    RLX_TRY(beside_channels(rewrite, root, type.shape.rank, &bias));
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_MUL, NULL, (rlx_value_id[]){x, scale}, 2, &x));
    return rlx_rewrite_node(rewrite, root, RLX_OP_ADD, NULL, (rlx_value_id[]){x, bias}, 2, NULL);
}

rlx_status rlx_canonicalise_norm(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_op op = rlx_rewrite_op(rewrite, root);
    if (op == RLX_OP_INSTANCE_NORM || op == RLX_OP_GROUP_NORM)
        return split_channel_norm(rewrite, root);
    if (op != RLX_OP_DIV && op != RLX_OP_MUL && op != RLX_OP_ADD) return RLX_OK;
    const rlx_type *type = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root));
    if (!rlx_dtype_is_float(type->dtype)) return RLX_OK;
    switch (op) {
    case RLX_OP_DIV:
        RLX_TRY(match_norm(rewrite, root));
        return rlx_rewrite_op(rewrite, root) == RLX_OP_DIV ? match_softmax(rewrite, root) : RLX_OK;
    case RLX_OP_MUL:
        RLX_TRY(match_norm(rewrite, root));
        if (rlx_rewrite_op(rewrite, root) != RLX_OP_MUL) return RLX_OK;
        return take_weight(rewrite, root, 1);
    case RLX_OP_ADD:
        RLX_TRY(match_moments(rewrite, root));
        return rlx_rewrite_op(rewrite, root) == RLX_OP_ADD ? take_weight(rewrite, root, 2) : RLX_OK;
    default:
        return RLX_OK;
    }
}
