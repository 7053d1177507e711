/* SPDX-License-Identifier: Apache-2.0 */
/* Three or four rows of a depthwise 3 x 3 convolution of stride 1 with one column of padding, one
 * vector of channels, column after column. The nine weights stay in registers beside the sums of
 * three columns, so this is for the levels with 32 of them. Each input is loaded once per block of
 * rows and meets every output that it is part of: nine multiply-adds and a bound are all that the
 * two units for arithmetic have to do. Part of conv_depthwise.c; knows nothing of residuals, and of
 * activations that are not bounds. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_ROLL_H
#define RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_ROLL_H

#include "backend/cpu/vec/conv_depthwise_rows.h"

/* How many of `rows` are in blocks of three, the others being in blocks of four; -1: that cannot
 * be. The blocks of four come first. */
static int64_t roll_threes(int64_t rows) {
    int64_t threes = (4 - rows % 4) % 4;
    return rows >= 3 * threes ? threes : -1;
}

/* clang-format off */
/* The weights of kernel row T and an input go to output row r: the last product of the column
 * before, the middle one of this column and the first of the next. */
#define ROLL_MEET(T, r)                                                                          \
    do {                                                                                         \
        if (!IS_FIRST) vf_add_product(&a##r, v, T##2);                                           \
        vf_add_product(&b##r, v, T##1);                                                          \
        vf_add_product(&c##r, v, T##0);                                                          \
    } while (0)
/* One column of inputs. */
#define ROLL_COLUMN(first)                                                                       \
    do {                                                                                         \
        enum { IS_FIRST = first };                                                               \
        vf v;                                                                                    \
        c0 = bias, c1 = bias, c2 = bias, c3 = bias;                                              \
        if (has_top) { v = vf_load(above + at); ROLL_MEET(top, 0); }                             \
        v = vf_load(x);             ROLL_MEET(mid, 0); ROLL_MEET(top, 1);                        \
        v = vf_load(x + x_row);     ROLL_MEET(low, 0); ROLL_MEET(mid, 1); ROLL_MEET(top, 2);     \
        v = vf_load(x + 2 * x_row); ROLL_MEET(low, 1); ROLL_MEET(mid, 2);                        \
        if (R > 3) ROLL_MEET(top, 3);                                                            \
        if (is_kept && R == 3) vf_store(kept + at, v);                                           \
        if (R > 3) { v = vf_load(x3); ROLL_MEET(low, 2); ROLL_MEET(mid, 3); }                    \
        if (is_kept && R > 3) vf_store(kept + at, v);                                            \
        if (has_last && R == 3) { v = vf_load(x3); ROLL_MEET(low, 2); }                          \
        if (has_last && R > 3) { v = vf_load(x3 + x_row); ROLL_MEET(low, 3); }                   \
    } while (0)
/* The sums a are whole, and belong to y. Then the others move up. */
#define ROLL_STORE()                                                                             \
    do {                                                                                         \
        a0 = vf_max(least, a0), a1 = vf_max(least, a1), a2 = vf_max(least, a2);                  \
        if (R > 3) a3 = vf_max(least, a3);                                                       \
        if (has_high) {                                                                          \
            a0 = vf_min(roll->high, a0), a1 = vf_min(roll->high, a1);                            \
            a2 = vf_min(roll->high, a2);                                                         \
            if (R > 3) a3 = vf_min(roll->high, a3);                                              \
        }                                                                                        \
        vf_store(y, a0), vf_store(y + y_row, a1), vf_store(y + 2 * y_row, a2);                   \
        if (R > 3) vf_store(y3, a3);                                                             \
    } while (0)
#define ROLL_NEXT()                                                                              \
    a0 = b0, a1 = b1, a2 = b2, a3 = b3, b0 = c0, b1 = c1, b2 = c2, b3 = c3
#define ROLL_WEIGHTS(T, row)                                                                     \
    const vf T##0 = vf_load(roll->w + (row) * 3 * BLOCK);                                        \
    const vf T##1 = vf_load(roll->w + ((row) * 3 + 1) * BLOCK);                                  \
    const vf T##2 = vf_load(roll->w + ((row) * 3 + 2) * BLOCK)
/* clang-format on */

/* R is 3 or 4. The moves from sum to sum cost nothing: registers are renamed. */
VEC_INLINE void roll_rows(const depthwise_rows *roll, const int R) {
    ROLL_WEIGHTS(top, 0);
    ROLL_WEIGHTS(mid, 1);
    ROLL_WEIGHTS(low, 2);
    const vf bias = roll->bias, least = roll->low;
    const int64_t x_row = roll->x_row, y_row = roll->y_row;
    const bool has_top = roll->above != NULL, has_last = roll->has_last;
    const bool has_high = roll->has_high, is_kept = roll->kept != NULL;
    const float *x = roll->x, *x3 = x + 3 * x_row, *above = roll->above;
    float *y = roll->y, *y3 = y + 3 * y_row, *kept = roll->kept;
    int64_t at = 0;
    vf a0 = bias, a1 = bias, a2 = bias, a3 = bias, b0 = bias, b1 = bias, b2 = bias, b3 = bias;
    vf c0, c1, c2, c3;
    ROLL_COLUMN(true);
    ROLL_NEXT();
    for (int64_t n = roll->width - 1; n > 0; n--, y += BLOCK, y3 += BLOCK) {
        x += BLOCK, x3 += BLOCK, at += BLOCK;
        ROLL_COLUMN(false);
        ROLL_STORE();
        ROLL_NEXT();
    }
    ROLL_STORE();
}

static void run_roll(const depthwise_rows *roll, int64_t rows) {
    if (rows == 4) {
        roll_rows(roll, 4);
    } else {
        roll_rows(roll, 3);
    }
}

#undef ROLL_MEET
#undef ROLL_COLUMN
#undef ROLL_STORE
#undef ROLL_NEXT
#undef ROLL_WEIGHTS
#endif
