/* SPDX-License-Identifier: Apache-2.0 */
/* Float instructions of the tile evaluator: the scalar functions, and the loops from
 * elementwise_float.inc once for f32 and once for f64 lanes. */
#include "base/status.h"
#include "ref/elementwise.h"

#include <math.h>

/* exp of what is never positive, so that it cannot overflow and the tail for x << 0 is not lost. */
static inline double sigmoid(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}

static inline double softplus(double x) {
    double tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}

static inline double celu(double x, double alpha) {
    double negative = alpha * expm1(x / alpha);
    return (x > 0 ? x : 0.0) + (negative > 0 ? 0.0 : negative);
}

/* 0.5 x (1 + tanh u) = x sigmoid(2 u), without the cancellation for x << 0. */
static inline double gelu_tanh(double x) {
    double u = (M_2_SQRTPI * M_SQRT1_2) * (x + 0.044715 * x * x * x);
    return x * sigmoid(2.0 * u);
}

static inline double clip(double x, double least, double most) {
    double raised = x < least ? least : x;
    return raised > most ? most : raised;
}

static inline double unit(double x) {
    return clip(x, 0.0, 1.0);
}

/* The remainder with the sign of the divisor. */
static inline double floor_mod(double x, double y) {
    double rest = fmod(x, y);
    if (rest == 0) return copysign(rest, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

static inline float floor_modf(float x, float y) {
    float rest = fmodf(x, y);
    if (rest == 0) return copysignf(rest, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}

#define T          float
#define F(name)    name##f
#define TILE_FLOAT rlx_tile_f32
#include "ref/elementwise_float.inc"
#undef T
#undef F
#undef TILE_FLOAT

#define T          double
#define F(name)    name
#define TILE_FLOAT rlx_tile_f64
#include "ref/elementwise_float.inc"
