/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions on f64: arithmetic, by vectors that the compiler makes. Transcendental functions are
 * left to scalar C. The expressions are those of ref/elementwise_float.inc. */
#include "backend/cpu/vec/elementwise.h"
#include "ref/elementwise.h"

#include <math.h>

#define LOOP(op, types, expression)                                                           \
    static void f64_##op(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const double alpha = step->alpha, beta = step->beta;                                  \
        types;                                                                                \
        (void)alpha, (void)beta;                                                              \
        RLX_TILE_LOOP for (int64_t i = 0; i < n; i++) {                                       \
            expression;                                                                       \
        }                                                                                     \
    }
#define UNARY(op, expression) \
    LOOP(op, const double *a = in[0]; double *d = out, double x = a[i]; d[i] = (expression))
#define BINARY(op, expression)                                                                   \
    LOOP(op, const double *a = in[0]; const double *b = in[1]; double *d = out, double x = a[i]; \
         double y = b[i]; d[i] = (expression))
#define TRUTH(op, operator)                                    \
    LOOP(op, const double *a = in[0]; const double *b = in[1]; \
         uint8_t *d = out, d[i] = a[i] operator b[i])

UNARY(ABS, fabs(x))
UNARY(NEG, -x)
UNARY(FLOOR, floor(x))
UNARY(CEIL, ceil(x))
UNARY(ROUND, rint(x))
UNARY(RECIPROCAL, 1 / x)
UNARY(SQUARE, x *x)
UNARY(RELU, x < 0 ? 0 : x)
UNARY(LEAKY_RELU, x < 0 ? alpha * x : x)
BINARY(ADD, x + y)
BINARY(SUB, x - y)
BINARY(MUL, x *y)
BINARY(DIV, x / y)
BINARY(MIN, x < y || x != x ? x : y)
BINARY(MAX, x > y || x != x ? x : y)
BINARY(PRELU, x < 0 ? x * y : x)
TRUTH(EQUAL, ==)
TRUTH(NOT_EQUAL, !=)
TRUTH(LESS, <)
TRUTH(LESS_EQUAL, <=)
TRUTH(GREATER, >)
TRUTH(GREATER_EQUAL, >=)

static void f64_CLIP(const vec_step *step, const void *const *in, void *out, int64_t n) {
    const double *a = in[0], least = step->alpha, most = step->beta;
    double *d = out;
    RLX_TILE_LOOP for (int64_t i = 0; i < n; i++) {
        double raised = a[i] < least ? least : a[i];
        d[i] = raised > most ? most : raised;
    }
}

vec_run vec_choose_f64(const vec_step *step) {
    switch (step->op) {
#define ROW(op)       \
    case RLX_OP_##op: \
        return f64_##op;
        ROW(ABS)
        ROW(NEG)
        ROW(FLOOR)
        ROW(CEIL)
        ROW(ROUND)
        ROW(RECIPROCAL)
        ROW(SQUARE)
        ROW(RELU)
        ROW(LEAKY_RELU)
        ROW(CLIP)
        ROW(ADD)
        ROW(SUB)
        ROW(MUL)
        ROW(DIV)
        ROW(MIN)
        ROW(MAX)
        ROW(PRELU)
        ROW(EQUAL)
        ROW(NOT_EQUAL)
        ROW(LESS)
        ROW(LESS_EQUAL)
        ROW(GREATER)
        ROW(GREATER_EQUAL)
#undef ROW
    default:
        return NULL;
    }
}
