/* SPDX-License-Identifier: Apache-2.0 */
/* The truth of each function, from libm in double, and where a rule says the same. */
#include "kernels/ulp.h"

#include <math.h>

static double sigmoid(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}
static double softplus(double x) {
    double tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}
static double silu(double x) {
    return x * sigmoid(x);
}
static double gelu(double x) {
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}
static double gelu_tanh(double x) {
    return x * sigmoid(2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x));
}
static double mish(double x) {
    return x * tanh(softplus(x));
}
static double elu(double x) {
    return x > 0 ? x : 0.75 * expm1(x);
}
static double celu(double x) {
    double negative = 0.75 * expm1(x / 0.75);
    return (x > 0 ? x : 0.0) + (negative > 0 ? 0.0 : negative);
}
static double selu(double x) {
    return 1.25 * (x > 0 ? x : 0.75 * expm1(x));
}
static double hard_swish(double x) {
    double unit = x / 6.0 + 0.5;
    return x * (unit < 0 ? 0.0 : unit > 1 ? 1.0 : unit);
}
static double softsign(double x) {
    return x / (1.0 + fabs(x));
}
static double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
static double hard_sigmoid(double x) {
    double y = x / 6.0 + 0.3;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}
static double leaky_relu(double x) {
    return x < 0 ? 0.1 * x : x;
}
/* With numbers of f32: shorter code. */
static double hard_sigmoid_short(double x) {
    double y = (double)0.2F * x + 0.5;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}
static double leaky_relu_short(double x) {
    return x < 0 ? (double)0.1F * x : x;
}
static double power(double x) {
    return pow(x, ULP_SECOND);
}
static double truncated_rest(double x) {
    return fmod(x, ULP_SECOND);
}
static double floored_rest(double x) {
    double rest = fmod(x, ULP_SECOND);
    return rest < 0 ? rest + ULP_SECOND : rest;
}

/* What a rule leaves out is below 2^-44 of the truth, a millionth of an ulp of f32, or of the
 * smallest f32 where the truth is smaller still. `near`: the next term of the series. Tails:
 * exp(-40) beside 1, exp(-125) beside 2^-149. */
#define NEVER HUGE_VAL
static const ulp_rule no_negatives = {-1, {0, 0, 0}, NEVER, {0, 0}, 0, {NAN, 0}};
static const ulp_rule of_exp = {0x1p-16, {1, 1, 0.5}, 89, {HUGE_VAL, 0}, -125, {0, 0}};
static const ulp_rule of_sin = {0x1p-21, {0, 1, 0}, NEVER, {0, 0}, -NEVER, {0, 0}};
static const ulp_rule of_cos = {0x1p-11, {1, 0, -0.5}, NEVER, {0, 0}, -NEVER, {0, 0}};
static const ulp_rule of_tanh = {0x1p-22, {0, 1, 0}, 20, {1, 0}, -20, {-1, 0}};
static const ulp_rule of_erf = {0x1p-22, {0, M_2_SQRTPI, 0}, 6, {1, 0}, -6, {-1, 0}};
static const ulp_rule of_sigmoid = {0x1p-15, {0.5, 0.25, 0}, 40, {1, 0}, -125, {0, 0}};
static const ulp_rule of_silu = {0x1p-15, {0, 0.5, 0.25}, 40, {0, 1}, -130, {0, 0}};
/* 0.5 x (1 + x sqrt(2 / pi)) */
#define GELU_NEAR \
    { 0, 0.5, 0.5 * M_2_SQRTPI *M_SQRT1_2 }
static const ulp_rule of_gelu = {0x1p-15, GELU_NEAR, 9, {0, 1}, -16, {0, 0}};
static const ulp_rule of_softplus = {0x1p-12, {M_LN2, 0.5, 0.125}, 40, {0, 1}, -125, {0, 0}};
static const ulp_rule of_mish = {0x1p-22, {0, 0.6, 0.32}, 40, {0, 1}, -130, {0, 0}};
static const ulp_rule of_elu = {0x1p-22, {0, 0.75, 0.375}, 0, {0, 1}, -50, {-0.75, 0}};
static const ulp_rule of_celu = {0x1p-22, {0, 1, 1 / 1.5}, 0, {0, 1}, -50, {-0.75, 0}};
static const ulp_rule of_selu = {0x1p-22, {0, 0.9375, 0.46875}, 0, {0, 1.25}, -50, {-0.9375, 0}};

const ulp_function ulp_functions[] = {
    {"exp", RLX_OP_EXP, exp, 2, 0, 0, ULP_NEITHER, &of_exp},
    {"log", RLX_OP_LOG, log, 1, 0, 0, ULP_NEITHER, &no_negatives},
    {"sin", RLX_OP_SIN, sin, 2, 0, 0, ULP_ODD, &of_sin},
    {"cos", RLX_OP_COS, cos, 2, 0, 0, ULP_EVEN, &of_cos},
    {"tanh", RLX_OP_TANH, tanh, 3, 0, 0, ULP_ODD, &of_tanh},
    {"erf", RLX_OP_ERF, erf, 2, 0, 0, ULP_ODD, &of_erf},
    {"sigmoid", RLX_OP_SIGMOID, sigmoid, 3, 0, 0, ULP_NEITHER, &of_sigmoid},
    {"silu", RLX_OP_SILU, silu, 3, 0, 0, ULP_NEITHER, &of_silu},
    {"gelu", RLX_OP_GELU, gelu, 8, 0, 0, ULP_NEITHER, &of_gelu},
    {"gelu_tanh", RLX_OP_GELU_TANH, gelu_tanh, 3, 0, 0, ULP_NEITHER, &of_gelu},
    {"softplus", RLX_OP_SOFTPLUS, softplus, 3, 0, 0, ULP_NEITHER, &of_softplus},
    {"mish", RLX_OP_MISH, mish, 6, 0, 0, ULP_NEITHER, &of_mish},
    {"elu", RLX_OP_ELU, elu, 3, 0, 0, ULP_NEITHER, &of_elu},
    {"celu", RLX_OP_CELU, celu, 4, 0, 0, ULP_NEITHER, &of_celu},
    {"selu", RLX_OP_SELU, selu, 4, 0, 0, ULP_NEITHER, &of_selu},
    {"hard_swish", RLX_OP_HARD_SWISH, hard_swish, 3, 0, 0, ULP_NEITHER, NULL},
    {"softsign", RLX_OP_SOFTSIGN, softsign, 2, 0, 0, ULP_ODD, NULL},
    {"rsqrt", RLX_OP_RSQRT, rsqrt, 2, 0, 0, ULP_NEITHER, &no_negatives},
    {"pow", RLX_OP_POW, power, 1, 0, 0, ULP_NEITHER, &no_negatives},
    {"fmod", RLX_OP_FMOD, truncated_rest, 0, 0, 0, ULP_ODD, NULL},
    {"mod", RLX_OP_MOD, floored_rest, 1, 0, 0, ULP_NEITHER, NULL},
    {"hard_sigmoid", RLX_OP_HARD_SIGMOID, hard_sigmoid, 1, 1.0 / 6.0, 0.3, ULP_NEITHER, NULL},
    {"leaky_relu", RLX_OP_LEAKY_RELU, leaky_relu, 1, 0.1, 1, ULP_NEITHER, NULL},
    {"hard_sigmoid_short", RLX_OP_HARD_SIGMOID, hard_sigmoid_short, 1, 0.2F, 0.5, ULP_NEITHER,
     NULL},
    {"leaky_relu_short", RLX_OP_LEAKY_RELU, leaky_relu_short, 1, 0.1F, 0, ULP_NEITHER, NULL},
};
const uint32_t ulp_function_count = sizeof ulp_functions / sizeof ulp_functions[0];
