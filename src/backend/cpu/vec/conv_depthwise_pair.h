/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a depthwise 3 x 3 convolution of stride 1 with padding of one all around, one vector of
 * channels, two rows at a time by F(2, 3) along columns: four products give two sums of three. For
 * processors that add on other units than they multiply on: 12 multiply-adds and 10 additions and
 * bounds for the two outputs of a column, where the direct sum (conv_depthwise_roll.h) has 18
 * multiply-adds. The twelve weights stay in registers for all rows of a plane, beside the four sums
 * of three columns.
 *
 * Infinities, and numbers so large that sums of two are none, spoil neighbours that the direct sum
 * keeps apart. So all results are looked at, and two rows with something that is not finite
 * are done again tap by tap. Part of conv_depthwise.c. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_PAIR_H
#define RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_PAIR_H

#include "backend/cpu/vec/conv_depthwise_roll.h"

/* Four input rows: the one above both rows, their own two, the one below. */
enum { PAIR_ROWS = 4, PAIR_KEPT = 3 };

/* Both rows again, from the inputs alone. */
static __attribute__((noinline)) void pair_again(const depthwise_rows *roll,
                                                 const float *const rows[PAIR_ROWS], float *y) {
    for (int64_t c = 0; c < roll->width; c++) {
        int64_t first = c == 0 ? 1 : 0, last = c == roll->width - 1 ? 1 : 2;
        for (int r = 0; r < 2; r++) {
            vf sum = roll->bias;
            for (int64_t tap = first; tap <= last; tap++) {
                for (int row = 0; row < 3; row++) {
                    if (rows[r + row] == NULL) continue;
                    vf x = vf_load(rows[r + row] + (c + tap - 1) * BLOCK);
                    sum = vf_fma(x, vf_load(roll->w + (row * 3 + tap) * BLOCK), sum);
                }
            }
            sum = vf_max(roll->low, sum);
            if (roll->has_high) sum = vf_min(roll->high, sum);
            vf_store(y + r * roll->y_row + c * BLOCK, sum);
        }
    }
}

/* clang-format off */
/* The four weights of kernel column T. */
#define PAIR_WEIGHTS(T)                                                                          \
    const vf u0##T = vf_load(roll->w + T * BLOCK), u3##T = vf_load(roll->w + (6 + T) * BLOCK);   \
    const vf half##T = (u0##T + u3##T) * 0.5f;                                                   \
    const vf own##T = vf_load(roll->w + (3 + T) * BLOCK) * 0.5f;                                 \
    const vf u1##T = half##T + own##T, u2##T = half##T - own##T
/* Sum i of an input column, `t`, goes to the column before (a), to this one (b) and the next (c). */
#define PAIR_MEET(i, t)                                                                          \
    do {                                                                                         \
        if (!IS_FIRST) vf_add_product(&a##i, t, u##i##2);                                        \
        vf_add_product(&b##i, t, u##i##1);                                                       \
        if (i == 1) {                                                                            \
            c##i = vf_fma(t, u##i##0, bias);                                                     \
        } else {                                                                                 \
            c##i = t * u##i##0;                                                                  \
        }                                                                                        \
    } while (0)
#define PAIR_COLUMN(first)                                                                       \
    do {                                                                                         \
        enum { IS_FIRST = first };                                                               \
        const vf d1 = vf_load(x1 + at), d2 = vf_load(x2 + at);                                   \
        vf t;                                                                                    \
        if (IS_KEPT) vf_store(k1 + at, d1), vf_store(k2 + at, d2);                               \
        t = d1 + d2; PAIR_MEET(1, t);                                                            \
        t = d2 - d1; PAIR_MEET(2, t);                                                            \
        t = vf_load(x0 + at) - d2; PAIR_MEET(0, t);                                              \
        t = d1 - vf_load(x3 + at); PAIR_MEET(3, t);                                              \
    } while (0)
/* The sums a are whole: the outputs of the column before `at`. What is not finite stays so in
 * `looked`; additions wait less for their units than multiply-adds. */
#define PAIR_STORE()                                                                             \
    do {                                                                                         \
        vf y0 = (a0 + a1) + a2, y1 = (a1 - a2) - a3;                                             \
        looked += y0 + y1;                                                                       \
        y0 = vf_max(least, y0), y1 = vf_max(least, y1);                                          \
        if (has_high) {                                                                          \
            y0 = vf_min(roll->high, y0), y1 = vf_min(roll->high, y1);                            \
        }                                                                                        \
        vf_store(y + at - BLOCK, y0), vf_store(y2 + at - BLOCK, y1);                             \
    } while (0)
#define PAIR_NEXT()                                                                              \
    a0 = b0, a1 = b1, a2 = b2, a3 = b3, b0 = c0, b1 = c1, b2 = c2, b3 = c3
#define PAIR_STEP()                                                                              \
    do {                                                                                         \
        PAIR_COLUMN(false); PAIR_STORE(); PAIR_NEXT();                                           \
        at += BLOCK;                                                                             \
    } while (0)
/* clang-format on */

/* `pairs` pairs of rows from where `roll` says. IS_KEPT: y lies in x, and inputs that are still
 * needed go to `room`, PAIR_KEPT rows, of which the last one has the row above if there is one.
 * Rows are pointed at by their ends, so that `at` counts up to 0. */
VEC_INLINE void run_pairs_of(const depthwise_rows *roll, int64_t pairs, float *room,
                             const float *zeros, const bool IS_KEPT) {
    const vf bias = roll->bias, least = roll->low, nothing = vf_set(0.0f);
    const int64_t x_row = roll->x_row, y_row = roll->y_row, length = roll->width * BLOCK;
    const int64_t thirds = -((roll->width - 1) / 3 * 3 * BLOCK);
    const bool has_high = roll->has_high;
    const float *x1 = roll->x + length, *zero = zeros + length;
    const float *x0 = roll->above == NULL ? zero : roll->above + length;
    float *y = roll->y + length, *k1 = room + length, *k2 = k1 + length, *next = k2 + length;
    PAIR_WEIGHTS(0);
    PAIR_WEIGHTS(1);
    PAIR_WEIGHTS(2);
    for (; pairs > 0; pairs--) {
        const float *x2 = x1 + x_row;
        const float *x3 = pairs > 1 || roll->has_last ? x2 + x_row : zero;
        float *y2 = y + y_row;
        vf a0, a1, a2, a3, c0, c1, c2, c3, looked = nothing;
        vf b0 = nothing, b1 = bias, b2 = nothing, b3 = nothing;
        int64_t at = -length;
        PAIR_COLUMN(true);
        PAIR_NEXT();
        for (at += BLOCK; at < thirds;)
            PAIR_STEP();
        while (at < 0) {
            PAIR_STEP();
            PAIR_STEP();
            PAIR_STEP();
        }
        PAIR_STORE();
        if (!vi_all(looked - looked == nothing)) {
            const float *rows[PAIR_ROWS] = {
                x0 == zero ? NULL : x0 - length, (IS_KEPT ? k1 : x1) - length,
                (IS_KEPT ? k2 : x2) - length, x3 == zero ? NULL : x3 - length};
            pair_again(roll, rows, y - length);
        }
        x0 = x2, x1 = x2 + x_row, y = y2 + y_row;
        if (IS_KEPT) { /* what was above this pair is no longer needed */
            float *below = next;
            x0 = next = k2;
            k2 = below;
        }
    }
}

static __attribute__((noinline)) void run_pairs_kept(const depthwise_rows *roll, int64_t pairs,
                                                     float *room, const float *zeros) {
    run_pairs_of(roll, pairs, room, zeros, true);
}

static __attribute__((noinline)) void run_pairs_apart(const depthwise_rows *roll, int64_t pairs,
                                                      float *room, const float *zeros) {
    run_pairs_of(roll, pairs, room, zeros, false);
}

#undef PAIR_WEIGHTS
#undef PAIR_MEET
#undef PAIR_COLUMN
#undef PAIR_STORE
#undef PAIR_NEXT
#undef PAIR_STEP
#endif
