/* SPDX-License-Identifier: Apache-2.0 */
/* Two rows of a depthwise 3 x 3 convolution of stride 1 with one column of padding, one vector of
 * channels, by Winograd's F(2, 3) down the columns: 12 products per two outputs instead of 18. Of
 * the input rows x0 .. x3, and the weights g0, g1, g2 of a column,
 *     y0 = m1 + m2 + (x0 - x2) g0        m1 = (x1 + x2) (g0 + g1 + g2) / 2
 *     y1 = m1 - m2 + (x3 - x1) g2        m2 = (x2 - x1) (g0 - g1 + g2) / 2
 * Two passes along the row, each with its six weights in registers: the first leaves m1 + m2 and
 * m1 - m2 in y, the second adds the rest. Part of conv_depthwise.c; knows nothing of borders above
 * and below, residuals, and activations that are not bounds. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_PAIR_H
#define RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_PAIR_H

#include "backend/cpu/vec/conv_view.h"

/* Stays in a register: left to itself gcc loads weights again where they are used. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
#define PAIR_KEEP(v) __asm__("" : "+v"(v))
#elif defined(__AVX2__) && RLX_VEC_BYTES == 32
#define PAIR_KEEP(v) __asm__("" : "+x"(v))
#else
#define PAIR_KEEP(v) (void)(v)
#endif

typedef struct depthwise_pair {
    const float *x[4];      /* rows, column 0 */
    float *y[2];            /* rows, column 0 */
    int64_t width;          /* columns, at least 2 */
    vf bias, low, high;     /* what is added, and the bounds of the result */
    vf middle[6], outer[6]; /* weights of both passes: three for d, then three for e */
} depthwise_pair;

/* From the nine taps of this vector of channels. */
VEC_INLINE void pair_weights(depthwise_pair *pair, const float *w) {
    for (int t = 0; t < 3; t++) {
        vf g0 = vf_load(w + t * BLOCK), g1 = vf_load(w + (3 + t) * BLOCK);
        vf g2 = vf_load(w + (6 + t) * BLOCK), half = (g0 + g2) * 0.5f;
        pair->outer[t] = g0, pair->outer[3 + t] = g2;
        pair->middle[t] = half + g1 * 0.5f, pair->middle[3 + t] = half - g1 * 0.5f;
    }
}

/* clang-format off */
/* One column: the last products of outputs A and X, the middle ones of B and Y, the first of C and
 * Z. Outputs of the column before are then whole. */
#define PAIR_LAST(A, X)  vf_add_product(&A, d, w2); vf_add_product(&X, e, v2)
#define PAIR_NEXT(B, Y)  vf_add_product(&B, d, w1); vf_add_product(&Y, e, v1)
#define PAIR_MIDDLE(o)                                                                           \
    d = vf_load(x1 + (o)), e = vf_load(x2 + (o)), both = d + e, e = e - d, d = both;               \
    PAIR_KEEP(d); PAIR_KEEP(e)
#define PAIR_MIDDLE_STEP(A, B, C, X, Y, Z, o)                                                    \
    do {                                                                                         \
        PAIR_MIDDLE(o);                                                                          \
        PAIR_LAST(A, X); PAIR_NEXT(B, Y);                                                        \
        C = bias; vf_add_product(&C, d, w0);                                                     \
        Z = e * v0; PAIR_KEEP(Z);                                                                \
        vf_store(y0 + (o) - BLOCK, A + X); vf_store(y1 + (o) - BLOCK, A - X);                    \
    } while (0)
#define PAIR_OUTER(o)                                                                            \
    d = vf_load(x0 + (o)) - vf_load(x2 + (o)), e = vf_load(x3 + (o)) - vf_load(x1 + (o));        \
    PAIR_KEEP(d); PAIR_KEEP(e)
#define PAIR_FINISH(A, X, o)                                                                     \
    do {                                                                                         \
        A += vf_load(y0 + (o)); X += vf_load(y1 + (o));                                          \
        both = A + X;                                                                            \
        PAIR_KEEP(both);                                                                         \
        sum += both;                                                                             \
        vf_store(y0 + (o), vf_min(high, vf_max(low, A)));                                        \
        vf_store(y1 + (o), vf_min(high, vf_max(low, X)));                                        \
    } while (0)
#define PAIR_OUTER_STEP(A, B, C, X, Y, Z, o)                                                     \
    do {                                                                                         \
        PAIR_OUTER(o);                                                                           \
        PAIR_LAST(A, X); PAIR_NEXT(B, Y);                                                        \
        C = d * w0; Z = e * v0;                                                                  \
        PAIR_KEEP(C); PAIR_KEEP(Z);                                                              \
        PAIR_FINISH(A, X, (o) - BLOCK);                                                          \
    } while (0)
#define PAIR_WEIGHTS(from)                                                                       \
    vf w0 = (from)[0], w1 = (from)[1], w2 = (from)[2], v0 = (from)[3], v1 = (from)[4],           \
       v2 = (from)[5];                                                                           \
    PAIR_KEEP(w0); PAIR_KEEP(w1); PAIR_KEEP(w2); PAIR_KEEP(v0); PAIR_KEEP(v1); PAIR_KEEP(v2)
/* Columns 1 to width - 1 after the first, three at a time: the sums then have their names again. */
#define PAIR_WALK(STEP, MOVE)                                                                    \
    int64_t column = 1;                                                                          \
    for (; column + 3 <= pair->width; column += 3) {                                             \
        STEP(a, b, c, p, q, s, BLOCK);                                                           \
        STEP(b, c, a, q, s, p, 2 * BLOCK);                                                       \
        STEP(c, a, b, s, p, q, 3 * BLOCK);                                                       \
        MOVE(3 * BLOCK);                                                                         \
    }                                                                                            \
    for (; column < pair->width; column++) {                                                     \
        STEP(a, b, c, p, q, s, BLOCK);                                                           \
        MOVE(BLOCK);                                                                             \
        a = b, p = q, b = c, q = s;                                                              \
    }
#define PAIR_MOVE_MIDDLE(by) x1 += (by), x2 += (by), y0 += (by), y1 += (by)
#define PAIR_MOVE_OUTER(by)  x0 += (by), x3 += (by), PAIR_MOVE_MIDDLE(by)
/* clang-format on */

VEC_INLINE void pair_middle(const depthwise_pair *pair) {
    const float *x1 = pair->x[1], *x2 = pair->x[2];
    float *y0 = pair->y[0], *y1 = pair->y[1];
    const vf bias = pair->bias;
    PAIR_WEIGHTS(pair->middle);
    vf d, e, both;
    PAIR_MIDDLE(0);
    vf a = bias, b = bias, c = bias, p = e * v1, q = e * v0, s = q;
    vf_add_product(&a, d, w1);
    vf_add_product(&b, d, w0);
    PAIR_WALK(PAIR_MIDDLE_STEP, PAIR_MOVE_MIDDLE)
    vf_store(y0, a + p);
    vf_store(y1, a - p);
}

/* Returns the sum of all that it stored, before the bounds: no number where one of them is none. */
VEC_INLINE vf pair_outer(const depthwise_pair *pair) {
    const float *x0 = pair->x[0], *x1 = pair->x[1], *x2 = pair->x[2], *x3 = pair->x[3];
    float *y0 = pair->y[0], *y1 = pair->y[1];
    const vf low = pair->low, high = pair->high;
    vf sum = {0};
    PAIR_WEIGHTS(pair->outer);
    vf d, e, both;
    PAIR_OUTER(0);
    vf a = d * w1, b = d * w0, c = b, p = e * v1, q = e * v0, s = q;
    PAIR_WALK(PAIR_OUTER_STEP, PAIR_MOVE_OUTER)
    PAIR_FINISH(a, p, 0);
    return sum;
}

/* Both rows. False where a result is infinite or no number, or might be: differences of inputs are
 * then no way to it, and the rows have to be done tap by tap. */
static bool run_pair(const depthwise_pair *pair) {
    pair_middle(pair);
    vf sum = pair_outer(pair);
    return vi_all((vi)(sum - sum == 0.0f));
}

#undef PAIR_KEEP
#undef PAIR_LAST
#undef PAIR_NEXT
#undef PAIR_MIDDLE
#undef PAIR_MIDDLE_STEP
#undef PAIR_OUTER
#undef PAIR_FINISH
#undef PAIR_OUTER_STEP
#undef PAIR_WEIGHTS
#undef PAIR_WALK
#undef PAIR_MOVE_MIDDLE
#undef PAIR_MOVE_OUTER
#endif
