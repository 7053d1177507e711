/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse quantised convolutions: a conv whose operands are 8-bit integers less a zero point, perhaps
 * times a scale (DequantizeLinear, QLinearConv and ConvInteger of ONNX, spelled out), becomes one
 * conv_quantised, together with what makes 8 bits of its result, and with the sum of that and
 * another 8-bit value. Runs before constants are folded: folded weights are floats. Only for
 * targets that keep channels in blocks, and for convolutions that they can. */
#include "compile/rewrite.h"
#include "ir/infer.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { W = 1, SCALE = 2, BIAS = 3, ZERO = 4, RESIDUAL = 5, INPUTS = 6 };

static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_U8 || dtype == RLX_DTYPE_I8;
}

static int64_t elements_of(const rlx_rewrite *rewrite, rlx_value_id value) {
    uint64_t elements = 0;
    const rlx_type *type = rlx_rewrite_type(rewrite, value);
    if (rlx_rewrite_has_extent(type) || !rlx_shape_is_known(&type->shape)) return -1;
    return rlx_shape_elements(&type->shape, &elements) == RLX_OK ? (int64_t)elements : -1;
}

/* (bytes - zero) scale. */
typedef struct centred {
    rlx_value_id bytes, zero, scale; /* the last two may be RLX_NONE */
} centred;

static bool match_centred(const rlx_rewrite *rewrite, rlx_value_id value, centred *out) {
    rlx_node_id node = rlx_rewrite_producer(rewrite, value, RLX_OP_MUL);
    *out = (centred){RLX_NONE, RLX_NONE, RLX_NONE};
    if (node != RLX_NONE) {
        value = rlx_rewrite_input(rewrite, node, 0);
        out->scale = rlx_rewrite_input(rewrite, node, 1);
        if (rlx_rewrite_type(rewrite, out->scale)->dtype != RLX_DTYPE_F32) return false;
    }
    node = rlx_rewrite_producer(rewrite, value, RLX_OP_SUB);
    if (node != RLX_NONE) {
        value = rlx_rewrite_input(rewrite, node, 0);
        out->zero = rlx_rewrite_input(rewrite, node, 1);
    }
    node = rlx_rewrite_producer(rewrite, value, RLX_OP_CAST);
    if (node == RLX_NONE) return false;
    out->bytes = rlx_rewrite_input(rewrite, node, 0);
    return is_byte(rlx_rewrite_type(rewrite, out->bytes)->dtype);
}

/* One number that is known now; 0 and 1 where there is none. */
static bool read_scalars(const rlx_rewrite *rewrite, const centred *from, double *out_zero,
                         double *out_scale) {
    *out_zero = 0, *out_scale = 1;
    return (from->zero == RLX_NONE || rlx_rewrite_scalar(rewrite, from->zero, out_zero)) &&
           (from->scale == RLX_NONE || rlx_rewrite_scalar(rewrite, from->scale, out_scale));
}

/* What makes 8 bits of a value: clip(round(value / scale) + zero), as `dtype`. */
typedef struct quantiser {
    rlx_value_id value, scale;
    double zero, least, most; /* bounds less zero */
    rlx_dtype dtype;
} quantiser;

static rlx_value_id input_of_inner(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                                   rlx_op op, uint32_t input) {
    rlx_node_id node = rlx_rewrite_inner(rewrite, root, value, op);
    return node == RLX_NONE ? RLX_NONE : rlx_rewrite_input(rewrite, node, input);
}

static bool match_quantiser(const rlx_rewrite *rewrite, rlx_node_id root, quantiser *out) {
    rlx_value_id value = rlx_rewrite_input(rewrite, root, 0), next;
    rlx_node_id clip = rlx_rewrite_inner(rewrite, root, value, RLX_OP_CLIP);
    *out =
        (quantiser){.scale = RLX_NONE,
                    .dtype = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->dtype};
    if (clip == RLX_NONE) return false;
    const rlx_unary_attrs *range = rlx_rewrite_attrs(rewrite, clip);
    value = rlx_rewrite_input(rewrite, clip, 0);
    next = input_of_inner(rewrite, root, value, RLX_OP_ADD, 1);
    if (next != RLX_NONE) {
        if (!rlx_rewrite_scalar(rewrite, next, &out->zero)) return false;
        value = input_of_inner(rewrite, root, value, RLX_OP_ADD, 0);
    }
    value = input_of_inner(rewrite, root, value, RLX_OP_ROUND, 0);
    if (value == RLX_NONE || rlx_rewrite_type(rewrite, value)->dtype != RLX_DTYPE_F32) return false;
    next = input_of_inner(rewrite, root, value, RLX_OP_DIV, 1);
    if (next != RLX_NONE) {
        out->scale = next;
        if (elements_of(rewrite, next) != 1) return false;
        value = input_of_inner(rewrite, root, value, RLX_OP_DIV, 0);
    }
    out->value = value;
    out->least = range->alpha - out->zero;
    out->most = range->beta - out->zero;
    return true;
}

/* Takes a relu or clip in front of a quantiser into its bounds: rounding keeps the order. */
static bool take_bounds(const rlx_rewrite *rewrite, rlx_node_id root, quantiser *to) {
    rlx_node_id node = rlx_rewrite_inner(rewrite, root, to->value, RLX_OP_NONE);
    double scale = 1;
    if (node == RLX_NONE) return true;
    const rlx_unary_attrs *range = rlx_rewrite_attrs(rewrite, node);
    if (rlx_rewrite_op(rewrite, node) == RLX_OP_RELU) {
        to->least = fmax(to->least, 0);
    } else if (rlx_rewrite_op(rewrite, node) == RLX_OP_CLIP) {
        if (to->scale != RLX_NONE && !rlx_rewrite_scalar(rewrite, to->scale, &scale)) return false;
        to->least = fmax(to->least, (double)rintf((float)range->alpha / (float)scale));
        to->most = fmin(to->most, (double)rintf((float)range->beta / (float)scale));
    } else {
        return true;
    }
    to->value = rlx_rewrite_input(rewrite, node, 0);
    return to->least <= to->most;
}

/* A conv of two centred operands, and what stands between it and the root. */
typedef struct found_conv {
    rlx_node_id node;
    centred x, w;
    rlx_value_id bias, ratio; /* RLX_NONE: none */
    int64_t channels;
} found_conv;

/* Groups of whole blocks and panels, or of one channel; not far fewer outputs than a block has: as
 * block_channels wants them. */
static bool suits_blocks(const rlx_rewrite *rewrite, const rlx_conv_attrs *attrs,
                         const rlx_shape *w) {
    int64_t block = rewrite->context->target->channel_block;
    int64_t groups = attrs->groups == 0 ? 1 : attrs->groups, out = w->dims[0] / groups;
    if (groups > 1 && w->dims[1] == 1 && out == 1) return groups >= block;
    if (groups > 1) return w->dims[1] % block == 0 && out % (2 * block) == 0;
    return 2 * out >= block;
}

static bool match_conv(const rlx_rewrite *rewrite, rlx_node_id node, found_conv *out) {
    const rlx_conv_attrs *attrs = rlx_rewrite_attrs(rewrite, node);
    rlx_value_id x = rlx_rewrite_input(rewrite, node, 0), w = rlx_rewrite_input(rewrite, node, 1);
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, w)->shape;
    out->node = node;
    out->bias = rlx_rewrite_input(rewrite, node, 2);
    if (!match_centred(rewrite, x, &out->x) || !match_centred(rewrite, w, &out->w)) return false;
    if (attrs->activation.op != RLX_OP_NONE || attrs->channel_block != 0 ||
        rlx_rewrite_input(rewrite, node, 3) != RLX_NONE) {
        return false;
    }
    if (shape->rank > 4 || elements_of(rewrite, w) <= 0 || elements_of(rewrite, x) <= 0 ||
        elements_of(rewrite, rlx_rewrite_output(rewrite, node)) <= 0) {
        return false;
    }
    out->channels = shape->dims[0];
    if ((out->x.zero != RLX_NONE && elements_of(rewrite, out->x.zero) != 1) ||
        (out->x.scale != RLX_NONE && elements_of(rewrite, out->x.scale) != 1)) {
        return false;
    }
    return rlx_rewrite_fact(rewrite, w)->is_prepared && suits_blocks(rewrite, attrs, shape);
}

/* `value` is the result of such a conv: itself, or as exact integers times a ratio. */
static bool find_conv(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                      found_conv *out) {
    rlx_value_id next = input_of_inner(rewrite, root, value, RLX_OP_MUL, 0);
    *out = (found_conv){.ratio = RLX_NONE};
    if (next != RLX_NONE) {
        out->ratio = input_of_inner(rewrite, root, value, RLX_OP_MUL, 1);
        if (rlx_rewrite_type(rewrite, out->ratio)->dtype != RLX_DTYPE_F32) return false;
        value = next;
    }
    next = input_of_inner(rewrite, root, value, RLX_OP_CAST, 0);
    if (next != RLX_NONE && rlx_rewrite_type(rewrite, next)->dtype == RLX_DTYPE_I32) value = next;
    next = input_of_inner(rewrite, root, value, RLX_OP_CAST, 0);
    if (next != RLX_NONE) value = next;
    rlx_node_id node = rlx_rewrite_inner(rewrite, root, value, RLX_OP_CONV);
    return node != RLX_NONE && match_conv(rewrite, node, out);
}

/* One number or one per channel, as [] or [channels]; *value is RLX_NONE where it is neither. */
static rlx_status shape_factor(rlx_rewrite *rewrite, rlx_node_id root, int64_t channels,
                               rlx_value_id *value) {
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, *value)->shape;
    int64_t elements = elements_of(rewrite, *value), widest = 1;
    for (uint32_t i = 0; i < shape->rank; i++)
        widest = shape->dims[i] > widest ? shape->dims[i] : widest;
    if (elements == 1) return rlx_rewrite_reshaped(rewrite, root, *value, NULL, 0, value);
    if (elements == channels && widest == channels)
        return rlx_rewrite_reshaped(rewrite, root, *value, &channels, 1, value);
    *value = RLX_NONE;
    return RLX_OK;
}

/* *value = *value op factor; RLX_NONE stands for 1. */
static rlx_status put_factor(rlx_rewrite *rewrite, rlx_node_id root, rlx_op op, rlx_value_id factor,
                             rlx_value_id *value) {
    if (factor == RLX_NONE) return RLX_OK;
    if (*value == RLX_NONE && op == RLX_OP_MUL) {
        *value = factor;
        return RLX_OK;
    }
    if (*value == RLX_NONE) RLX_TRY(rlx_rewrite_constant(rewrite, RLX_DTYPE_F32, 1, value));
    const rlx_value_id inputs[] = {*value, factor};
    return rlx_rewrite_insert(rewrite, root, op, NULL, inputs, 2, value);
}

/* Weights as 16 bits less their zero point. */
static rlx_status put_weights(rlx_rewrite *rewrite, rlx_node_id root, const centred *w,
                              rlx_value_id *out) {
    rlx_value_id inputs[2];
    double zero = 0;
    RLX_TRY(rlx_rewrite_cast(rewrite, root, w->bytes, RLX_DTYPE_I16, out));
    if (w->zero == RLX_NONE || (rlx_rewrite_scalar(rewrite, w->zero, &zero) && zero == 0)) {
        return RLX_OK;
    }
    inputs[0] = *out;
    RLX_TRY(rlx_rewrite_cast(rewrite, root, w->zero, RLX_DTYPE_I16, &inputs[1]));
    return rlx_rewrite_insert(rewrite, root, RLX_OP_SUB, NULL, inputs, 2, out);
}

/* The inputs of the new node; y = conv result * ratio / y_scale. False: a factor has no shape that
 * it can take. */
static rlx_status put_inputs(rlx_rewrite *rewrite, rlx_node_id root, const found_conv *found,
                             rlx_value_id y_scale, rlx_value_id *inputs, bool *out_fits) {
    rlx_value_id factors[] = {found->x.scale, found->w.scale, found->ratio, y_scale};
    rlx_value_id scale = RLX_NONE, bias = found->bias;
    *out_fits = false;
    for (uint32_t i = 0; i < 4; i++) {
        if (factors[i] == RLX_NONE) continue;
        RLX_TRY(shape_factor(rewrite, root, found->channels, &factors[i]));
        if (factors[i] == RLX_NONE) return RLX_OK;
    }
    for (uint32_t i = 0; i < 4; i++)
        RLX_TRY(put_factor(rewrite, root, i == 3 ? RLX_OP_DIV : RLX_OP_MUL, factors[i], &scale));
    if (bias != RLX_NONE) {
        RLX_TRY(rlx_rewrite_cast(rewrite, root, bias, RLX_DTYPE_F32, &bias));
        RLX_TRY(put_factor(rewrite, root, RLX_OP_MUL, factors[2], &bias));
        RLX_TRY(put_factor(rewrite, root, RLX_OP_DIV, factors[3], &bias));
    }
    inputs[0] = found->x.bytes;
    RLX_TRY(put_weights(rewrite, root, &found->w, &inputs[W]));
    inputs[SCALE] = scale;
    inputs[BIAS] = bias;
    inputs[ZERO] = found->x.zero;
    inputs[RESIDUAL] = RLX_NONE;
    if (found->x.zero != RLX_NONE) {
        rlx_dtype dtype = rlx_rewrite_type(rewrite, found->x.bytes)->dtype;
        RLX_TRY(rlx_rewrite_reshaped(rewrite, root, found->x.zero, NULL, 0, &inputs[ZERO]));
        RLX_TRY(rlx_rewrite_cast(rewrite, root, inputs[ZERO], dtype, &inputs[ZERO]));
    }
    *out_fits = true;
    return RLX_OK;
}

static rlx_status become(rlx_rewrite *rewrite, rlx_node_id root,
                         const rlx_conv_quantised_attrs *attrs, const rlx_value_id *inputs) {
    uint32_t count = INPUTS;
    while (inputs[count - 1] == RLX_NONE)
        count--;
    return rlx_rewrite_node(rewrite, root, RLX_OP_CONV_QUANTISED, attrs, inputs, count, NULL);
}

static rlx_status become_conv(rlx_rewrite *rewrite, rlx_node_id root, const found_conv *found,
                              rlx_value_id y_scale, rlx_conv_quantised_attrs *attrs) {
    rlx_value_id inputs[INPUTS];
    bool fits;
    attrs->conv = *(const rlx_conv_attrs *)rlx_rewrite_attrs(rewrite, found->node);
    RLX_TRY(put_inputs(rewrite, root, found, y_scale, inputs, &fits));
    return fits ? become(rewrite, root, attrs, inputs) : RLX_OK;
}

/* A sum of two dequantised values of one shape, one of them of a conv that nobody else wants. */
static bool match_sum(const rlx_rewrite *rewrite, rlx_node_id root, rlx_node_id add,
                      rlx_value_id *inputs, rlx_conv_quantised_attrs *out_attrs) {
    centred parts[2];
    double zeros[2], scales[2];
    for (uint32_t i = 0; i < 2; i++) {
        if (!match_centred(rewrite, rlx_rewrite_input(rewrite, add, i), &parts[i]) ||
            !read_scalars(rewrite, &parts[i], &zeros[i], &scales[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < 2; i++) {
        rlx_value_id value = rlx_rewrite_input(rewrite, add, i), other = parts[1 - i].bytes;
        rlx_op steps[] = {RLX_OP_MUL, RLX_OP_SUB, RLX_OP_CAST};
        for (uint32_t s = 0; s < 3; s++) { /* each used once */
            rlx_value_id next = input_of_inner(rewrite, root, value, steps[s], 0);
            if (next != RLX_NONE) value = next;
        }
        rlx_node_id node = rlx_rewrite_inner(rewrite, root, value, RLX_OP_CONV_QUANTISED);
        if (value != parts[i].bytes || node == RLX_NONE || other == value) continue;
        rlx_conv_quantised_attrs attrs =
            *(const rlx_conv_quantised_attrs *)rlx_rewrite_attrs(rewrite, node);
        if (!is_byte(attrs.to) || rlx_rewrite_input(rewrite, node, RESIDUAL) != RLX_NONE ||
            (double)attrs.y_zero != zeros[i] ||
            !rlx_shape_equal(&rlx_rewrite_type(rewrite, value)->shape,
                             &rlx_rewrite_type(rewrite, other)->shape)) {
            continue;
        }
        for (uint32_t k = 0; k < RESIDUAL; k++)
            inputs[k] = rlx_rewrite_input(rewrite, node, k);
        inputs[RESIDUAL] = other;
        attrs.inner_scale = scales[i];
        attrs.residual_scale = scales[1 - i];
        attrs.residual_zero = (int64_t)zeros[1 - i];
        *out_attrs = attrs;
        return true;
    }
    return false;
}

/* The end of a QuantizeLinear. */
static rlx_status visit_bytes(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    rlx_conv_quantised_attrs attrs = {0};
    rlx_value_id inputs[INPUTS];
    quantiser by;
    found_conv found;
    (void)user;
    if (rlx_rewrite_op(rewrite, root) != RLX_OP_CAST ||
        !is_byte(rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->dtype) ||
        !match_quantiser(rewrite, root, &by) || !take_bounds(rewrite, root, &by)) {
        return RLX_OK;
    }
    if (find_conv(rewrite, root, by.value, &found)) {
        attrs.to = by.dtype;
        attrs.least = by.least, attrs.most = by.most;
        attrs.y_zero = (int64_t)by.zero;
        return become_conv(rewrite, root, &found, by.scale, &attrs);
    }
    rlx_node_id add = rlx_rewrite_inner(rewrite, root, by.value, RLX_OP_ADD);
    double scale = 1;
    if (add == RLX_NONE || !match_sum(rewrite, root, add, inputs, &attrs)) return RLX_OK;
    if (by.scale != RLX_NONE && !rlx_rewrite_scalar(rewrite, by.scale, &scale)) return RLX_OK;
    attrs.to = by.dtype;
    attrs.y_scale = scale;
    attrs.y_zero = (int64_t)by.zero;
    attrs.y_least = by.least, attrs.y_most = by.most;
    return become(rewrite, root, &attrs, inputs);
}

/* The sums themselves (ConvInteger), or these as floats. */
static rlx_status visit_cast(rlx_rewrite *rewrite, rlx_node_id root,
                             rlx_conv_quantised_attrs *attrs) {
    rlx_value_id value = rlx_rewrite_input(rewrite, root, 0), inputs[INPUTS];
    rlx_node_id sums = rlx_rewrite_inner(rewrite, root, value, RLX_OP_CONV_QUANTISED);
    rlx_node_id conv = rlx_rewrite_inner(rewrite, root, value, RLX_OP_CONV);
    found_conv found = {.ratio = RLX_NONE};
    attrs->to = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->dtype;
    if (attrs->to == RLX_DTYPE_F32 && sums != RLX_NONE) {
        const rlx_conv_quantised_attrs *of = rlx_rewrite_attrs(rewrite, sums);
        if (of->to != RLX_DTYPE_I32) return RLX_OK;
        attrs->conv = of->conv;
        for (uint32_t i = 0; i < INPUTS; i++)
            inputs[i] = rlx_rewrite_input(rewrite, sums, i);
        return become(rewrite, root, attrs, inputs);
    }
    if (attrs->to != RLX_DTYPE_I32 || conv == RLX_NONE || !match_conv(rewrite, conv, &found) ||
        found.x.scale != RLX_NONE || found.w.scale != RLX_NONE || found.bias != RLX_NONE) {
        return RLX_OK;
    }
    attrs->least = attrs->most = 0;
    return become_conv(rewrite, root, &found, RLX_NONE, attrs);
}

/* What ends in floats, or in the sums themselves. */
static rlx_status visit_others(rlx_rewrite *rewrite, rlx_node_id root, void *user) {
    rlx_conv_quantised_attrs attrs = {.to = RLX_DTYPE_F32, .least = -FLT_MAX, .most = FLT_MAX};
    rlx_value_id inputs[INPUTS];
    rlx_op op = rlx_rewrite_op(rewrite, root);
    found_conv found = {.ratio = RLX_NONE};
    (void)user;
    if (op == RLX_OP_CAST) return visit_cast(rewrite, root, &attrs);
    if (rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->dtype != RLX_DTYPE_F32) {
        return RLX_OK;
    }
    if (op == RLX_OP_ADD && match_sum(rewrite, root, root, inputs, &attrs)) {
        attrs.to = RLX_DTYPE_F32;
        attrs.y_zero = 0, attrs.y_least = -FLT_MAX, attrs.y_most = FLT_MAX;
        return become(rewrite, root, &attrs, inputs);
    }
    if (op == RLX_OP_CONV && match_conv(rewrite, root, &found) && found.x.scale != RLX_NONE &&
        found.w.scale != RLX_NONE) {
        return become_conv(rewrite, root, &found, RLX_NONE, &attrs);
    }
    if (op == RLX_OP_RELU) {
        rlx_node_id node = rlx_rewrite_inner(rewrite, root, rlx_rewrite_input(rewrite, root, 0),
                                             RLX_OP_CONV_QUANTISED);
        if (node == RLX_NONE) return RLX_OK;
        attrs = *(const rlx_conv_quantised_attrs *)rlx_rewrite_attrs(rewrite, node);
        attrs.least = fmax(attrs.least, 0);
        for (uint32_t i = 0; i < INPUTS; i++)
            inputs[i] = rlx_rewrite_input(rewrite, node, i);
        if (inputs[RESIDUAL] == RLX_NONE) return become(rewrite, root, &attrs, inputs);
    }
    return RLX_OK;
}

rlx_status rlx_pass_fuse_quantised(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    if (context->target == NULL || context->target->channel_block == 0) return RLX_OK;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit_bytes, NULL));
    RLX_TRY(rlx_rewrite_walk(&rewrite, visit_others, NULL));
    return rlx_rewrite_finish(&rewrite);
}
