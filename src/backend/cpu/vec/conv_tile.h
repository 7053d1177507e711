/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of the convolutions: a tile of PIXELS output positions x PANEL output channels in
 * registers, over a depth that is walked in runs of inputs that lie side by side. Positions are
 * given by address, so a tile may cross rows, and strides cost nothing. Weights are in panels,
 * [depth][PANEL]. Knows no tensors. */
#ifndef RLX_BACKEND_CPU_VEC_CONV_TILE_H
#define RLX_BACKEND_CPU_VEC_CONV_TILE_H

#include "backend/cpu/vec/activation.h"

enum {
    BLOCK = VF < 8 ? 8 : VF,    /* channels of a block of an activation */
    PANEL = 2 * BLOCK,          /* output channels of a panel of weights */
    PANEL_VECTORS = PANEL / VF, /* 2, or 4 of NEON */
    PIXELS = VF == 16 ? 12 : 6  /* with PANEL_VECTORS: 12 or 24 accumulators */
};

/* The order of a depth: channel blocks, kernel rows, taps, and in each a run of inputs. */
typedef struct conv_depth {
    int64_t blocks, block_stride;
    int64_t rows, row_stride;
    int64_t taps, tap_stride;
    int64_t run;
} conv_depth;

/* Position p of a tile has its inputs at x + x_at[p], and so on. */
typedef struct conv_tile {
    const float *x, *start; /* `start`: what the sums start with, at the same channels as y: the
                               residual, or y itself for a further part of the depth; or NULL */
    float *y;               /* channels of the panel's first block */
    const int64_t *x_at, *y_at, *start_at;
    int64_t y_block, start_block;
    const float *w;
    const float *next;  /* weights that are wanted next, */
    int64_t next_piece; /* so many floats per run of the depth */
    const float *bias;  /* PANEL values; NULL: none, or it is in already */
    bool is_bounded;    /* results lie between `low` and `high` */
    vf low, high;
    const rlx_activation *activation; /* of another kind; NULL: none, or more depth is to come */
} conv_tile;

/* Sums are variables, not an array: gcc unrolls loops after it has decided what lives in memory.
 * Pixel p has the sums a (the first vector of the panel), b, c and d. */
/* clang-format off */
#define EACH_PIXEL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
/* clang-format on */

/* One step of the depth for pixel p. */
#define CONV_STEP_PIXEL(p)                            \
    if (P > p) {                                      \
        vf one = vf_set(x##p[i + k]);                 \
        vf_add_product(&a##p, one, wide0);            \
        if (V > 1) vf_add_product(&b##p, one, wide1); \
        if (V > 2) vf_add_product(&c##p, one, wide2); \
        if (V > 3) vf_add_product(&d##p, one, wide3); \
    }
#define CONV_STEP(step)                                                                 \
    do {                                                                                \
        enum { k = step };                                                              \
        vf wide0 = vf_load(w + k * PANEL), wide1 = wide0, wide2 = wide0, wide3 = wide0; \
        if (V > 1) wide1 = vf_load(w + k * PANEL + VF);                                 \
        if (V > 2) wide2 = vf_load(w + k * PANEL + 2 * VF);                             \
        if (V > 3) wide3 = vf_load(w + k * PANEL + 3 * VF);                             \
        EACH_PIXEL(CONV_STEP_PIXEL)                                                     \
        (void)wide1, (void)wide2, (void)wide3;                                          \
    } while (0);

/* Where vector v of a panel is, from its first block on. */
#define CONV_AT(v, block) ((v)*VF / BLOCK * (block) + (v)*VF % BLOCK)

/* Activations that are not bounds. */
static __attribute__((noinline)) void conv_activate(const conv_tile *tile, int pixels,
                                                    int vectors) {
    vf values[PIXELS * PANEL_VECTORS];
    for (int i = 0; i < pixels * vectors; i++)
        values[i] =
            vf_load(tile->y + tile->y_at[i / vectors] + CONV_AT(i % vectors, tile->y_block));
    VEC_SYMBOL(activation)(tile->activation, values, pixels * vectors);
    for (int i = 0; i < pixels * vectors; i++)
        vf_store(tile->y + tile->y_at[i / vectors] + CONV_AT(i % vectors, tile->y_block),
                 values[i]);
}

/* The bias is in; then come what was there before, and the bounds. */
#define CONV_ADD_START(p)                                                 \
    if (P > p) {                                                          \
        const float *from = tile->start + tile->start_at[p];              \
        a##p += vf_load(from);                                            \
        if (V > 1) b##p += vf_load(from + CONV_AT(1, tile->start_block)); \
        if (V > 2) c##p += vf_load(from + CONV_AT(2, tile->start_block)); \
        if (V > 3) d##p += vf_load(from + CONV_AT(3, tile->start_block)); \
    }
#define CONV_BOUND(p)                                      \
    if (P > p) {                                           \
        a##p = vf_min(high, vf_max(low, a##p));            \
        if (V > 1) b##p = vf_min(high, vf_max(low, b##p)); \
        if (V > 2) c##p = vf_min(high, vf_max(low, c##p)); \
        if (V > 3) d##p = vf_min(high, vf_max(low, d##p)); \
    }
#define CONV_STORE(p)                                              \
    if (P > p) {                                                   \
        float *to = tile->y + tile->y_at[p];                       \
        vf_store(to, a##p);                                        \
        if (V > 1) vf_store(to + CONV_AT(1, tile->y_block), b##p); \
        if (V > 2) vf_store(to + CONV_AT(2, tile->y_block), c##p); \
        if (V > 3) vf_store(to + CONV_AT(3, tile->y_block), d##p); \
    }

/* P positions x V vectors of channels; both constants, so that all of this is straight code. */
VEC_INLINE void conv_tile_run(const conv_depth *depth, const conv_tile *tile, const int P,
                              const int V) {
    const float *w = tile->w, *next = tile->next;
    vf a0 = {0}, b0 = a0, c0 = a0, d0 = a0;
    if (tile->bias != NULL) {
        a0 = vf_load(tile->bias);
        if (V > 1) b0 = vf_load(tile->bias + VF);
        if (V > 2) c0 = vf_load(tile->bias + 2 * VF);
        if (V > 3) d0 = vf_load(tile->bias + 3 * VF);
    }
    vf a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0, a10 = a0,
       a11 = a0, b1 = b0, b2 = b0, b3 = b0, b4 = b0, b5 = b0, b6 = b0, b7 = b0, b8 = b0, b9 = b0,
       b10 = b0, b11 = b0, c1 = c0, c2 = c0, c3 = c0, c4 = c0, c5 = c0, c6 = c0, c7 = c0, c8 = c0,
       c9 = c0, c10 = c0, c11 = c0, d1 = d0, d2 = d0, d3 = d0, d4 = d0, d5 = d0, d6 = d0, d7 = d0,
       d8 = d0, d9 = d0, d10 = d0, d11 = d0;
    int64_t runs = depth->blocks * depth->rows * depth->taps, tap = 0, row = 0;
    int64_t row_step = depth->row_stride - depth->taps * depth->tap_stride;
    int64_t block_step = depth->block_stride - depth->rows * depth->row_stride;
    bool is_point = depth->rows == 1 && depth->taps == 1;
#define CONV_AIM(p) const float *x##p = tile->x + tile->x_at[P > p ? p : 0];
#define CONV_MOVE(p) \
    if (P > p) x##p += step;
    EACH_PIXEL(CONV_AIM)
    for (; runs > 0; runs--) {
        int64_t i = 0, step = depth->tap_stride;
        for (int64_t n = 0; n < tile->next_piece; n += 16)
            __builtin_prefetch(next + n, 0, 2);
        next += tile->next_piece;
        if (is_point) { /* what the next tile needs is on its way */
            __builtin_prefetch(x0 + P * BLOCK);
            if (P > 2) __builtin_prefetch(x0 + P * BLOCK + 16);
            if (P > 4) __builtin_prefetch(x0 + P * BLOCK + 32);
        }
        for (; i + 4 <= depth->run; i += 4) {
            CONV_STEP(0) CONV_STEP(1) CONV_STEP(2) CONV_STEP(3);
            w += 4 * PANEL;
        }
        for (; i < depth->run; i++) {
            CONV_STEP(0);
            w += PANEL;
        }
        if (++tap == depth->taps) {
            tap = 0, step += row_step;
            if (++row == depth->rows) row = 0, step += block_step;
        }
        EACH_PIXEL(CONV_MOVE)
    }
    if (tile->start != NULL) {
        EACH_PIXEL(CONV_ADD_START)
    }
    if (tile->is_bounded) {
        const vf low = tile->low, high = tile->high;
        EACH_PIXEL(CONV_BOUND)
    }
    EACH_PIXEL(CONV_STORE)
    if (tile->activation != NULL) conv_activate(tile, P, V);
}

#endif
