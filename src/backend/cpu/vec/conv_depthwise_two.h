/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a depthwise 3 x 3 convolution of stride 1 with padding of one all around, one vector of
 * channels, two rows at a time, for 16 registers: nine weights, two rows of sums of three columns,
 * and one input. The weights stay where they are for all rows of a plane; what else a column needs
 * (what is added, and the bounds) comes from memory. Products with padding are left out. An input
 * is loaded once per two rows and meets every sum that it is part of, so the two units for
 * multiply-adds are all that there is to wait for. Part of conv_depthwise.c; knows nothing of
 * residuals, of activations that are not bounds, and of a last row that has no partner. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_TWO_H
#define RLX_BACKEND_CPU_VEC_CONV_DEPTHWISE_TWO_H

#include "backend/cpu/vec/conv_depthwise_rows.h"

#if defined(__AVX2__) && RLX_VEC_BYTES == 32
enum { HAS_TWOS = 1 };
/* clang-format off */
/* One column of inputs, and the outputs of the column before, in one piece of assembler: all 16
 * registers are taken, and left to itself gcc keeps some of them on the stack. Sums a are of the
 * column before (this is the last one that they wait for), b of this one, c of the next; t, m and l
 * are the weights of the kernel's rows. */
#define TWO_ADD(sum, weight) "vfmadd231ps %[" #weight "], %[v], %[" #sum "]\n\t"
#define TWO_LOAD(x)          "vmovups %[" #x "], %[v]\n\t"
#define TWO_BIAS(c)          "vmovaps %[bias], %[" #c "0]\n\tvmovaps %[bias], %[" #c "1]\n\t"
/* The moves cost nothing: registers are renamed. */
#define TWO_MOVE(b, a)       "vmovaps %[" #b "0], %[" #a "0]\n\tvmovaps %[" #b "1], %[" #a "1]\n\t"
#define TWO_BOUND(op, bound)                                                                     \
    "vmovaps " bound "+%[bias], %[v]\n\t" op " %[a0], %[v], %[a0]\n\t" op " %[a1], %[v], %[a1]\n\t"
#define TWO_STORE                                                                                \
    TWO_BOUND("vmaxps", "32")                                                                     \
    "testl %[clip], %[clip]\n\tje 1f\n\t" TWO_BOUND("vminps", "64") "1:\n\t"                    \
    "vmovups %[a0], %[y0]\n\tvmovups %[a1], %[y1]\n\t"
/* An input meets row r by the kernel row T: in the first column, in the last one, and between. */
#define TWO_FIRST(T, r)      TWO_ADD(b##r, T##0) TWO_ADD(a##r, T##1)
#define TWO_LAST(T, r)       TWO_ADD(b##r, T##1) TWO_ADD(a##r, T##2)
#define TWO_MEET(T, r)       TWO_ADD(c##r, T##0) TWO_ADD(b##r, T##1) TWO_ADD(a##r, T##2)
/* The inputs of a column: the one above both rows, their own two, the one below. */
#define TWO_ABOVE(MEET)      TWO_LOAD(x0) MEET(t, 0)
#define TWO_OWN(MEET)                                                                            \
    TWO_LOAD(x1) MEET(t, 1) MEET(m, 0) TWO_LOAD(x2) TWO_KEEP MEET(m, 1) MEET(l, 0)
#define TWO_KEEP             "vmovups %[v], %[kept]\n\t"
#define TWO_BELOW(MEET)      TWO_LOAD(x3) MEET(l, 1)
#define TWO_NONE(MEET)
#define TWO_COLUMN(ABOVE, BELOW, MEET) ABOVE(MEET) TWO_OWN(MEET) BELOW(MEET)
#define TWO_AT(x)            *(const vf_loose *)((x) + at)
#define TWO_READS                                                                                \
    [t0] "x"(t0), [t1] "x"(t1), [t2] "x"(t2), [m0] "x"(m0), [m1] "x"(m1), [m2] "x"(m2),          \
    [l0] "x"(l0), [l1] "x"(l1), [l2] "x"(l2), [x0] "m"(TWO_AT(x0)), [x1] "m"(TWO_AT(x1)),        \
    [x2] "m"(TWO_AT(x2)), [x3] "m"(TWO_AT(x3)), [bias] "m"(bounds), [clip] "r"(clip)
#define TWO_WRITES                                                                               \
    [y0] "=m"(*(vf_loose *)(y0 + at - BLOCK)), [y1] "=m"(*(vf_loose *)(y1 + at - BLOCK))
#define TWO_KEPT [kept] "=m"(*(vf_loose *)(kept + at))
#define TWO_SUMS(how) [a0] how(a0), [a1] how(a1), [b0] how(b0), [b1] how(b1), [v] "=&x"(v)
/* Both rows, column by column. */
#define TWO_ROWS(ABOVE, BELOW)                                                                   \
    do {                                                                                         \
        const float *x1 = twos->x + row * x_row, *x2 = x1 + x_row;                               \
        const float *x0 = ABOVE##_ROW, *x3 = BELOW##_ROW;                                        \
        float *y0 = twos->y + row * y_row, *y1 = y0 + y_row;                                     \
        vf a0, a1, b0, b1, c0, c1, v;                                                            \
        int64_t at = 0;                                                                          \
        __asm__(TWO_BIAS(a) TWO_BIAS(b) TWO_COLUMN(ABOVE, BELOW, TWO_FIRST)                      \
                : TWO_SUMS("=&x"), TWO_KEPT : TWO_READS : "cc");                                 \
        for (at = BLOCK; at < end; at += BLOCK) {                                                \
            __asm__(TWO_BIAS(c) TWO_COLUMN(ABOVE, BELOW, TWO_MEET) TWO_STORE                     \
                    TWO_MOVE(b, a) TWO_MOVE(c, b)                                                \
                    : TWO_SUMS("+x"), [c0] "=&x"(c0), [c1] "=&x"(c1), TWO_WRITES, TWO_KEPT       \
                    : TWO_READS : "cc");                                                         \
        }                                                                                        \
        __asm__(TWO_COLUMN(ABOVE, BELOW, TWO_LAST) TWO_STORE TWO_MOVE(b, a)                      \
                : TWO_SUMS("+x"), TWO_WRITES, TWO_KEPT : TWO_READS : "cc");                      \
        at += BLOCK;                                                                             \
        __asm__(TWO_STORE : TWO_SUMS("+x"), TWO_WRITES : TWO_READS : "cc");                      \
    } while (0)
/* Rows that are not there are never loaded; their name stands for another. */
#define TWO_ABOVE_ROW (is_in_place ? kept : x1 - x_row)
#define TWO_BELOW_ROW (x2 + x_row)
#define TWO_NONE_ROW  x1
#define TWO_WEIGHTS(T, row)                                                                      \
    const vf T##0 = vf_load(twos->w + (row) * 3 * BLOCK);                                        \
    const vf T##1 = vf_load(twos->w + ((row) * 3 + 1) * BLOCK);                                  \
    const vf T##2 = vf_load(twos->w + ((row) * 3 + 2) * BLOCK)
/* clang-format on */

/* Rows [row, row_end), both even. The lower one's inputs go to twos->kept, which is the row above
 * the next two where y lies in x (twos->above is the same then, else NULL). */
static void run_twos(const depthwise_rows *twos, int64_t row, int64_t row_end) {
    const int64_t x_row = twos->x_row, y_row = twos->y_row, end = (twos->width - 1) * BLOCK;
    const int clip = twos->has_high;
    const bool is_in_place = twos->above != NULL;
    const vf bounds[3] = {twos->bias, twos->low, twos->high};
    float *kept = twos->kept;
    TWO_WEIGHTS(t, 0);
    TWO_WEIGHTS(m, 1);
    TWO_WEIGHTS(l, 2);
    if (row == 0 && row < row_end) {
        TWO_ROWS(TWO_NONE, TWO_BELOW);
        row += 2;
    }
    for (; row < row_end && row + 2 < twos->height; row += 2)
        TWO_ROWS(TWO_ABOVE, TWO_BELOW);
    if (row < row_end) TWO_ROWS(TWO_ABOVE, TWO_NONE);
}

#undef TWO_ADD
#undef TWO_LOAD
#undef TWO_BIAS
#undef TWO_MOVE
#undef TWO_BOUND
#undef TWO_STORE
#undef TWO_FIRST
#undef TWO_LAST
#undef TWO_MEET
#undef TWO_ABOVE
#undef TWO_OWN
#undef TWO_BELOW
#undef TWO_NONE
#undef TWO_COLUMN
#undef TWO_AT
#undef TWO_READS
#undef TWO_WRITES
#undef TWO_SUMS
#undef TWO_ROWS
#undef TWO_ABOVE_ROW
#undef TWO_BELOW_ROW
#undef TWO_NONE_ROW
#undef TWO_WEIGHTS
#else
enum { HAS_TWOS = 0 };
/* The other levels have more registers, and conv_depthwise_roll.h. */
VEC_INLINE void run_twos(const depthwise_rows *twos, int64_t row, int64_t row_end) {
    (void)twos, (void)row, (void)row_end;
}
#endif
#endif
