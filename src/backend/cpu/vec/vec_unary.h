/* SPDX-License-Identifier: Apache-2.0 */
/* The float unary ops on vectors of f32: their one definition on a level. Elementwise kernels,
 * chains and the activations of matmul and conv (activation.h) all use it, so fusing changes no
 * bit. Ops that are missing here are done by scalar C in all of them. What is exact in src/ref
 * (comparisons, signs, rounding once from double) gives the same bits here. */
#ifndef RLX_BACKEND_CPU_VEC_UNARY_H
#define RLX_BACKEND_CPU_VEC_UNARY_H

#include "backend/cpu/vec/vec_double.h"
#include "backend/cpu/vec/vec_math.h"
#include "backend/cpu/vec/vec_trig.h"

/* clang-format off */
#define VEC_UNARY_OPS(OP)                                                                        \
    OP(IDENTITY) OP(ABS) OP(NEG) OP(SIGN) OP(FLOOR) OP(CEIL) OP(ROUND) OP(SQRT) OP(RSQRT)        \
    OP(RECIPROCAL) OP(SQUARE) OP(EXP) OP(LOG) OP(SIN) OP(COS) OP(TANH) OP(ERF) OP(SIGMOID) OP(RELU)              \
    OP(LEAKY_RELU) OP(ELU) OP(CELU) OP(SELU) OP(GELU) OP(GELU_TANH) OP(SILU) OP(MISH)            \
    OP(HARD_SIGMOID) OP(HARD_SWISH) OP(SOFTPLUS) OP(SOFTSIGN) OP(THRESHOLDED_RELU) OP(CLIP)
/* clang-format on */

/* c < 0 ? less : x, per lane of two doubles. */
VEC_INLINE vd_half vec_leaky_half(vd_half x, double alpha) {
    return vd_select(x < 0.0, alpha * x, x);
}
VEC_INLINE vd_half vec_threshold_half(vd_half x, double alpha) {
    return vd_select((x > alpha) | (x != x), x, (vd_half){0});
}

VEC_INLINE bool vec_is_f32(double number) {
    return (double)(float)number == number;
}

/* A slope that makes small of large: the larger one of x and its product is the right one, and x
 * where both are 0 or NaN. */
VEC_INLINE bool vec_leaky_is_short(double alpha) {
    return vec_is_f32(alpha) && alpha > 0 && alpha <= 1;
}
VEC_INLINE vf vec_leaky_short(vf x, float a) {
    return vf_max(x * a, x);
}

/* The product of two f32 is exact in double: with an f32 for alpha it rounds once either way. */
VEC_INLINE vf vec_leaky(vf x, double alpha) {
    const float a = (float)alpha;
    if (vec_is_f32(alpha)) return vf_select(x < 0.0f, x * a, x);
    vd wide = vd_of(x);
    return vf_of_vd((vd){vec_leaky_half(wide.low, alpha), vec_leaky_half(wide.high, alpha)});
}

/* clip(alpha x + beta, 0, 1) with numbers of f32: rounded once. */
VEC_INLINE bool vec_hard_sigmoid_is_short(double alpha, double beta) {
    return vec_is_f32(alpha) && alpha != 0 && vec_is_f32(beta);
}
VEC_INLINE vf vec_hard_sigmoid_short(vf x, float a, float b) {
    vf y = vf_fma(x, vf_set(a), vf_set(b));
    return vf_min(vf_set(1.0f), vf_max(vf_set(0.0f), y));
}

/* With others at most 1 ulp: what alpha and beta have beyond f32 is added to a sum that is rounded
 * once. x is finite first, so that what is nothing stays nothing. */
VEC_INLINE vf vec_hard_sigmoid(vf x, double alpha, double beta) {
    const float a = (float)alpha, b = (float)beta, most = 0x1.fffffep+127f;
    const float a_rest = (float)(alpha - a), b_rest = (float)(beta - b);
    if (vec_hard_sigmoid_is_short(alpha, beta)) return vec_hard_sigmoid_short(x, a, b);
    x = vf_max(vf_set(-most), vf_min(vf_set(most), x));
    vf y = vf_fma(x, vf_set(a), vf_set(b)) + vf_fma(x, vf_set(a_rest), vf_set(b_rest));
    return vf_min(vf_set(1.0f), vf_max(vf_set(0.0f), y));
}

/* x clip(x + 3, 0, 6) / 6: x + 3 is exact where the result comes near 0. */
VEC_INLINE vf vec_hard_swish(vf x) {
    vf part = vf_min(vf_set(6.0f), vf_max(vf_set(0.0f), x + 3.0f));
    return x * (part * (1.0f / 6.0f));
}

/* alpha expm1(x / alpha) where that is negative, plus x where it is positive. */
VEC_INLINE vf vec_celu(vf x, float alpha) {
    vf below = vf_expm1(x / alpha) * alpha;
    return vf_max(vf_set(0.0f), x) + vf_min(vf_set(0.0f), below);
}

/* With a constant op this is one function; with any other a switch. */
VEC_INLINE vf vec_unary(rlx_op op, vf x, double alpha, double beta) {
    const float a = (float)alpha, b = (float)beta;
    const vf zero = vf_set(0.0f), one = vf_set(1.0f);
    switch (op) {
    case RLX_OP_ABS:
        return vf_abs(x);
    case RLX_OP_NEG:
        return -x;
    case RLX_OP_SIGN:
        return vf_select((x == 0.0f) | (x != x), x + zero, vf_copysign(one, x));
    case RLX_OP_FLOOR:
        return vf_floor(x);
    case RLX_OP_CEIL:
        return vf_ceil(x);
    case RLX_OP_ROUND:
        return vf_round(x);
    case RLX_OP_SQRT:
        return vf_sqrt(x);
    case RLX_OP_RSQRT:
        return one / vf_sqrt(x);
    case RLX_OP_RECIPROCAL:
        return one / x;
    case RLX_OP_SQUARE:
        return x * x;
    case RLX_OP_EXP:
        return vf_exp(x);
    case RLX_OP_LOG:
        return vf_log(x);
    case RLX_OP_SIN:
        return vf_sin(x);
    case RLX_OP_COS:
        return vf_cos(x);
    case RLX_OP_TANH:
        return vf_tanh(x);
    case RLX_OP_ERF:
        return vf_erf(x);
    case RLX_OP_SIGMOID:
        return vf_sigmoid(x);
    case RLX_OP_RELU:
        return vf_max(zero, x);
    case RLX_OP_LEAKY_RELU:
        return vec_leaky(x, alpha);
    case RLX_OP_ELU:
        return vf_select(x > 0.0f, x, vf_expm1(x) * a);
    case RLX_OP_CELU:
        return vec_celu(x, a);
    case RLX_OP_SELU:
        return vf_select(x > 0.0f, x, vf_expm1(x) * a) * b;
    case RLX_OP_GELU:
        return vf_gelu(x);
    case RLX_OP_GELU_TANH:
        return vf_gelu_tanh(x);
    case RLX_OP_SILU:
        return vf_silu(x);
    case RLX_OP_MISH:
        return vf_mish(x);
    case RLX_OP_HARD_SIGMOID:
        return vec_hard_sigmoid(x, alpha, beta);
    case RLX_OP_HARD_SWISH:
        return vec_hard_swish(x);
    case RLX_OP_SOFTPLUS:
        return vf_softplus(x);
    case RLX_OP_SOFTSIGN:
        return x / (one + vf_abs(x));
    case RLX_OP_THRESHOLDED_RELU: {
        vd wide = vd_of(x);
        return vf_of_vd(
            (vd){vec_threshold_half(wide.low, alpha), vec_threshold_half(wide.high, alpha)});
    }
    case RLX_OP_CLIP: /* bounds rounded to f32 cut f32 numbers as the bounds themselves do */
        return vf_min(vf_set(b), vf_max(vf_set(a), x));
    default:
        return x;
    }
}

#endif
