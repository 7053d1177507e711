/* SPDX-License-Identifier: Apache-2.0 */
/* Float unary ops, one value at a time. Written so that neither large arguments nor cancellation
 * spoil the result; NaN stays NaN. */
#include "ref/unary.h"

#include <math.h>

static double sigmoid(double x) {
    if (x >= 0) return 1 / (1 + exp(-x));
    double e = exp(x);
    return e / (1 + e);
}

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double clip(double x, double least, double most) {
    if (x < least) return least;
    return x > most ? most : x;
}

static double sign(double x) {
    if (isnan(x)) return x;
    return (double)((x > 0) - (x < 0));
}

static double gelu_tanh(double x) {
    static const double root_2_over_pi = 0.79788456080286535588;
    return 0.5 * x * (1 + tanh(root_2_over_pi * (x + 0.044715 * x * x * x)));
}

static double shrink(double x, double lambda, double bias) {
    if (x < -lambda) return x + bias;
    if (x > lambda) return x - bias;
    return isnan(x) ? x : 0;
}

/* Activations; the plain functions of mathematics are below. */
static double activate(rlx_op op, double x, double alpha, double beta) {
    static const double root_half = 0.70710678118654752440;
    switch (op) {
    case RLX_OP_SIGMOID:
        return sigmoid(x);
    case RLX_OP_RELU:
        return x < 0 ? 0 : x;
    case RLX_OP_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    case RLX_OP_ELU:
        return x < 0 ? alpha * expm1(x) : x;
    case RLX_OP_CELU:
        return x < 0 ? alpha * expm1(x / alpha) : x;
    case RLX_OP_SELU:
        return beta * (x < 0 ? alpha * expm1(x) : x);
    case RLX_OP_GELU:
        return 0.5 * x * erfc(-x * root_half);
    case RLX_OP_GELU_TANH:
        return gelu_tanh(x);
    case RLX_OP_SILU:
        return x * sigmoid(x);
    case RLX_OP_MISH:
        return x * tanh(softplus(x));
    case RLX_OP_HARD_SIGMOID:
        return clip(alpha * x + beta, 0, 1);
    case RLX_OP_HARD_SWISH:
        return x * clip(x / 6 + 0.5, 0, 1);
    case RLX_OP_SOFTPLUS:
        return softplus(x);
    case RLX_OP_SOFTSIGN:
        return x / (1 + fabs(x));
    case RLX_OP_THRESHOLDED_RELU:
        return x > alpha || isnan(x) ? x : 0;
    case RLX_OP_SHRINK:
        return shrink(x, alpha, beta);
    case RLX_OP_CLIP:
        return clip(x, alpha, beta);
    default:
        return x;
    }
}

double rlx_ref_unary_f64(rlx_op op, double x, double alpha, double beta) {
    switch (op) {
    case RLX_OP_ABS:
        return fabs(x);
    case RLX_OP_NEG:
        return -x;
    case RLX_OP_SIGN:
        return sign(x);
    case RLX_OP_FLOOR:
        return floor(x);
    case RLX_OP_CEIL:
        return ceil(x);
    case RLX_OP_ROUND:
        return rint(x);
    case RLX_OP_SQRT:
        return sqrt(x);
    case RLX_OP_RSQRT:
        return 1 / sqrt(x);
    case RLX_OP_RECIPROCAL:
        return 1 / x;
    case RLX_OP_SQUARE:
        return x * x;
    case RLX_OP_EXP:
        return exp(x);
    case RLX_OP_LOG:
        return log(x);
    case RLX_OP_SIN:
        return sin(x);
    case RLX_OP_COS:
        return cos(x);
    case RLX_OP_TAN:
        return tan(x);
    case RLX_OP_ASIN:
        return asin(x);
    case RLX_OP_ACOS:
        return acos(x);
    case RLX_OP_ATAN:
        return atan(x);
    case RLX_OP_SINH:
        return sinh(x);
    case RLX_OP_COSH:
        return cosh(x);
    case RLX_OP_TANH:
        return tanh(x);
    case RLX_OP_ASINH:
        return asinh(x);
    case RLX_OP_ACOSH:
        return acosh(x);
    case RLX_OP_ATANH:
        return atanh(x);
    case RLX_OP_ERF:
        return erf(x);
    default:
        return activate(op, x, alpha, beta);
    }
}

float rlx_ref_unary_f32(rlx_op op, float x, double alpha, double beta) {
    if (op == RLX_OP_RELU) return x < 0 ? 0 : x;
    return (float)rlx_ref_unary_f64(op, x, alpha, beta);
}
