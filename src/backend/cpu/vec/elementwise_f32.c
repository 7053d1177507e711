/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions on cells of f32: every loop is one function of vec_unary.h or one line here. */
#include "backend/cpu/vec/elementwise.h"
#include "backend/cpu/vec/vec_pow.h"
#include "backend/cpu/vec/vec_unary.h"

#define UNARY_LOOP(name, expression)                                                      \
    static void name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const float *a = in[0];                                                           \
        float *d = out;                                                                   \
        const double alpha = step->alpha, beta = step->beta;                              \
        int64_t i = 0;                                                                    \
        (void)alpha, (void)beta;                                                          \
        for (; i + VF <= n; i += VF) {                                                    \
            vf x = vf_load(a + i);                                                        \
            vf_store(d + i, (expression));                                                \
        }                                                                                 \
        if (i < n) {                                                                      \
            vf x = vf_load_n(a + i, n - i);                                               \
            vf_store_n(d + i, (expression), n - i);                                       \
        }                                                                                 \
    }

#define BINARY_LOOP(name, expression)                                                     \
    static void name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const float *a = in[0], *b = in[1];                                               \
        float *d = out;                                                                   \
        int64_t i = 0;                                                                    \
        (void)step;                                                                       \
        for (; i + VF <= n; i += VF) {                                                    \
            vf x = vf_load(a + i), y = vf_load(b + i);                                    \
            vf_store(d + i, (expression));                                                \
        }                                                                                 \
        if (i < n) {                                                                      \
            vf x = vf_load_n(a + i, n - i), y = vf_load_n(b + i, n - i);                  \
            vf_store_n(d + i, (expression), n - i);                                       \
        }                                                                                 \
    }

#define OP(name) UNARY_LOOP(unary_##name, vec_unary(RLX_OP_##name, x, alpha, beta))
VEC_UNARY_OPS(OP)
#undef OP

BINARY_LOOP(binary_ADD, x + y)
BINARY_LOOP(binary_SUB, x - y)
BINARY_LOOP(binary_MUL, x *y)
BINARY_LOOP(binary_DIV, x / y)
BINARY_LOOP(binary_MIN, vf_select(x != x, x, vf_min(x, y)))
BINARY_LOOP(binary_MAX, vf_select(x != x, x, vf_max(x, y)))
BINARY_LOOP(binary_PRELU, vf_select(x < 0.0f, x *y, x))
BINARY_LOOP(binary_POW, vf_pow(x, y))

/* To bool: the compiler makes vectors of these. */
#define TRUTH_LOOP(name, expression)                                                      \
    static void name(const vec_step *step, const void *const *in, void *out, int64_t n) { \
        const float *a = in[0], *b = in[1];                                               \
        uint8_t *d = out;                                                                 \
        (void)step, (void)b;                                                              \
        for (int64_t i = 0; i < n; i++)                                                   \
            d[i] = (expression);                                                          \
    }
TRUTH_LOOP(truth_IS_NAN, a[i] != a[i])
TRUTH_LOOP(truth_EQUAL, a[i] == b[i])
TRUTH_LOOP(truth_NOT_EQUAL, a[i] != b[i])
TRUTH_LOOP(truth_LESS, a[i] < b[i])
TRUTH_LOOP(truth_LESS_EQUAL, a[i] <= b[i])
TRUTH_LOOP(truth_GREATER, a[i] > b[i])
TRUTH_LOOP(truth_GREATER_EQUAL, a[i] >= b[i])

vec_run vec_choose_f32(const vec_step *step) {
    switch (step->op) {
#define OP(name)        \
    case RLX_OP_##name: \
        return unary_##name;
        VEC_UNARY_OPS(OP)
#undef OP
#define ROW(kind, name) \
    case RLX_OP_##name: \
        return kind##_##name;
        ROW(binary, ADD)
        ROW(binary, SUB)
        ROW(binary, MUL)
        ROW(binary, DIV)
        ROW(binary, MIN)
        ROW(binary, MAX)
        ROW(binary, PRELU)
        ROW(binary, POW)
        ROW(truth, IS_NAN)
        ROW(truth, EQUAL)
        ROW(truth, NOT_EQUAL)
        ROW(truth, LESS)
        ROW(truth, LESS_EQUAL)
        ROW(truth, GREATER)
        ROW(truth, GREATER_EQUAL)
#undef ROW
    default:
        return NULL;
    }
}
