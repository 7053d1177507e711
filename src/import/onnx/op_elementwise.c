/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise ONNX ops. */
#include "import/onnx/ops.h"

#include <float.h>
#include <math.h>
#include <string.h>

void rlx_ox_identity(ox *o) {
    if (!ox_has(o, 0)) ox_invalid(o, "input 0 is missing");
    if (ox_ok(o)) ox_give_item(o, 0, o->in[0]);
}

void rlx_ox_unary(ox *o) {
    ox_give(o, 0, ox_unary(o, o->op, ox_in(o, 0)));
}

static void give_with(ox *o, double alpha, double beta) {
    const rlx_unary_attrs attrs = {alpha, beta};
    rlx_value_id x = ox_in(o, 0);
    ox_give(o, 0, ox_node(o, o->op, &attrs, &x, 1));
}

void rlx_ox_leaky_relu(ox *o) {
    give_with(o, ox_float(o, "alpha", 0.01F), 0);
}

void rlx_ox_elu(ox *o) { /* Celu and ThresholdedRelu too */
    give_with(o, ox_float(o, "alpha", 1), 0);
}

void rlx_ox_selu(ox *o) {
    bool is_old = o->since == 1; /* fewer digits */
    give_with(o, ox_float(o, "alpha", is_old ? 1.6732 : 1.67326319217681884765625),
              ox_float(o, "gamma", is_old ? 1.0507 : 1.05070102214813232421875));
}

void rlx_ox_gelu(ox *o) {
    if (strcmp(ox_text(o, "approximate", "none"), "tanh") == 0) o->op = RLX_OP_GELU_TANH;
    rlx_ox_unary(o);
}

void rlx_ox_hard_sigmoid(ox *o) {
    give_with(o, ox_float(o, "alpha", 0.2F), ox_float(o, "beta", 0.5F));
}

void rlx_ox_shrink(ox *o) {
    give_with(o, ox_float(o, "lambd", 0.5), ox_float(o, "bias", 0));
}

void rlx_ox_is_inf(ox *o) {
    give_with(o, (double)ox_int(o, "detect_negative", 1), (double)ox_int(o, "detect_positive", 1));
}

/* A clip with constant ends is one op, which convolutions can take along. */
void rlx_ox_clip(ox *o) {
    rlx_value_id x = ox_in(o, 0), least = RLX_NONE, most = RLX_NONE;
    bool is_float = ox_is_float(o, x);
    if (o->since < 11) {
        give_with(o, ox_float(o, "min", -FLT_MAX), ox_float(o, "max", FLT_MAX));
        return;
    }
    least = ox_maybe(o, 1);
    most = ox_maybe(o, 2);
    bool is_fixed = (least == RLX_NONE || ox_is_constant(o, least)) &&
                    (most == RLX_NONE || ox_is_constant(o, most));
    if (is_fixed && is_float && (least != RLX_NONE || most != RLX_NONE)) {
        give_with(o, least == RLX_NONE ? -INFINITY : ox_need_double(o, least),
                  most == RLX_NONE ? INFINITY : ox_need_double(o, most));
        return;
    }
    if (least != RLX_NONE) x = ox_binary(o, RLX_OP_MAX, x, least);
    if (most != RLX_NONE) x = ox_binary(o, RLX_OP_MIN, x, most);
    ox_give(o, 0, x);
}

static void cast_to(ox *o, int64_t data_type) {
    rlx_dtype to = RLX_DTYPE_F32;
    if (!rlx_onnx_dtype(data_type, &to))
        ox_unsupported(o, "a cast to %s", rlx_onnx_type_name(data_type));
    ox_give(o, 0, ox_cast(o, ox_in(o, 0), to));
}

/* Version 1 spells the type out. */
static int64_t cast_type(ox *o) {
    if (o->since > 1) return ox_int(o, "to", 0);
    const char *name = ox_text(o, "to", "");
    for (int64_t i = 1; i < 17; i++) {
        if (strcmp(rlx_onnx_type_name(i), name) == 0) return i;
    }
    ox_invalid(o, "'%s' is no type", name);
    return 0;
}

/* f8 targets saturate unless told otherwise; then their overflow would have to become infinity. */
void rlx_ox_cast(ox *o) {
    int64_t type = cast_type(o);
    if (type >= 17 && type <= 20 && ox_int(o, "saturate", 1) == 0)
        ox_unsupported(o, "a cast to %s that does not saturate", rlx_onnx_type_name(type));
    cast_to(o, type);
}

void rlx_ox_cast_like(ox *o) {
    rlx_value_id like = ox_in(o, 1);
    ox_give(o, 0, ox_cast(o, ox_in(o, 0), ox_dtype(o, like)));
}

/* Before version 7 the second operand was aligned by attributes instead of from the end. */
static rlx_value_id align(ox *o, rlx_value_id a, rlx_value_id b) {
    int64_t dims[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, a), b_rank = ox_rank(o, b);
    const rlx_onnx_attr *axis = ox_attr(o, "axis");
    if (o->since >= 7 || axis == NULL || ox_int(o, "broadcast", 0) == 0) return b;
    int64_t first = axis->i < 0 ? ox_plus(o, axis->i, rank) : axis->i;
    if (first < 0 || first > (int64_t)rank || (uint32_t)first + b_rank > rank)
        ox_invalid(o, "axis %" PRId64 " cannot hold %u dims in %u", axis->i, b_rank, rank);
    if (!ox_ok(o)) return b;
    uint32_t used = 0;
    for (uint32_t i = 0; i < b_rank; i++)
        dims[used++] = ox_dim(o, b, i);
    while (used < rank - (uint32_t)first)
        dims[used++] = 1;
    return ox_reshape(o, b, dims, used);
}

void rlx_ox_binary(ox *o) {
    rlx_value_id a = ox_in(o, 0), b = ox_in(o, 1);
    ox_give(o, 0, ox_binary(o, o->op, a, align(o, a, b)));
}

/* Before version 7 one slope per channel; from then on slopes align from the end. */
void rlx_ox_prelu(ox *o) {
    rlx_value_id x = ox_in(o, 0), slope = ox_in(o, 1);
    uint32_t rank = ox_rank(o, x);
    if (o->since < 7 && ox_rank(o, slope) == 1 && rank > 2 && ox_dim(o, slope, 0) != 1) {
        int64_t dims[RLX_MAX_RANK] = {ox_dim(o, slope, 0)};
        for (uint32_t i = 1; i + 1 < rank; i++)
            dims[i] = 1;
        slope = ox_reshape(o, slope, dims, rank - 1);
    }
    ox_give(o, 0, ox_binary(o, RLX_OP_PRELU, x, slope));
}

void rlx_ox_mod(ox *o) {
    rlx_value_id a = ox_in(o, 0), b = ox_in(o, 1);
    bool is_fmod = ox_int(o, "fmod", 0) != 0;
    if (ox_ok(o) && !is_fmod && ox_is_float(o, a)) ox_invalid(o, "floats need fmod = 1");
    ox_give(o, 0, ox_binary(o, is_fmod ? RLX_OP_FMOD : RLX_OP_MOD, a, b));
}

void rlx_ox_bit_shift(ox *o) {
    const char *direction = ox_text(o, "direction", "");
    bool is_left = strcmp(direction, "LEFT") == 0;
    if (!is_left && strcmp(direction, "RIGHT") != 0)
        ox_invalid(o, "direction '%s' is neither LEFT nor RIGHT", direction);
    ox_give(
        o, 0,
        ox_binary(o, is_left ? RLX_OP_SHIFT_LEFT : RLX_OP_SHIFT_RIGHT, ox_in(o, 0), ox_in(o, 1)));
}

void rlx_ox_where(ox *o) {
    ox_give(o, 0, ox_where(o, ox_in(o, 0), ox_in(o, 1), ox_in(o, 2)));
}

static rlx_value_id join_all(ox *o) {
    rlx_value_id result = ox_in(o, 0);
    for (uint32_t i = 1; i < o->in_count; i++)
        result = ox_binary(o, o->op, result, ox_in(o, i));
    return result;
}

void rlx_ox_variadic(ox *o) {
    ox_give(o, 0, join_all(o));
}

void rlx_ox_mean(ox *o) {
    rlx_value_id sum = join_all(o);
    if (o->in_count > 1 && ox_ok(o))
        sum = ox_binary(o, RLX_OP_DIV, sum, ox_scalar(o, ox_dtype(o, sum), o->in_count));
    ox_give(o, 0, sum);
}

/* Inference passes through. Training would need the same random numbers as the one who asks. */
void rlx_ox_dropout(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    bool is_training = false;
    if (o->since >= 12 && ox_has(o, 2)) {
        rlx_value_id mode = ox_in(o, 2);
        is_training = ox_need(o, mode) && ox_need_int(o, mode) != 0;
        if (is_training && ox_has(o, 1)) is_training = ox_need_double(o, ox_in(o, 1)) != 0;
    }
    if (o->since < 7) is_training = ox_int(o, "is_test", 0) == 0 && ox_float(o, "ratio", 0.5) != 0;
    if (is_training) ox_unsupported(o, "training mode draws random numbers");
    ox_give(o, 0, x);
    if (!ox_wants(o, 1) || !ox_ok(o)) return;
    rlx_type type = ox_type(o, x);
    rlx_value_id one = ox_scalar(o, o->since >= 10 ? RLX_DTYPE_BOOL : type.dtype, 1);
    ox_give(o, 1, ox_expand(o, one, type.shape.dims, type.shape.rank));
}
