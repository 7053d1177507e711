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
    PIXELS = VF == 16 ? 12 : 6, /* with PANEL_VECTORS: 12 or 24 accumulators */
    HAS_PAIRS = VF == 8,        /* two panels at once, for half the positions */
    PAIR_VECTORS = 4,
    PAIR_PIXELS = PIXELS / 2,
    CONV_TURN = 8 /* inputs that a run is a multiple of */
};

/* The order of a depth: `run` inputs side by side (whole CONV_TURNs), `inner` times, and so on. A
 * step leads from the end of what lies within to the next one; the last of them before a longer way
 * is taken too. */
typedef struct conv_depth {
    int64_t run;
    int64_t inner, inner_step;
    int64_t middle, middle_step;
    int64_t outer, outer_step;
    const int64_t *offsets; /* and so many single inputs, by their offsets: runs of few */
    int64_t singles;
    int64_t spread;      /* inputs of a group that is narrower than a block; 0: it is not */
    vi first_of;         /* each lane's group, the lane of its first input */
    bool fetches_inputs; /* runs are short and apart: those of the next tile are asked for */
} conv_depth;

/* Position p of a tile has its inputs at x + x_at[p], and so on. */
typedef struct conv_tile {
    const float *x, *start; /* `start`: what the sums start with, at the same channels as y: the
                               residual, or y itself for a further part of the depth; or NULL */
    float *y;               /* channels of the panel's first block */
    const int64_t *x_at, *y_at, *start_at;
    int64_t y_block, start_block;
    const float *w;
    int64_t pair;       /* from there to the second panel of a pair */
    const float *next;  /* weights that are wanted next, */
    int64_t next_piece; /* so many floats per run of the depth */
    const float *bias;  /* of the panel or pair; NULL: none, or it is in already */
    bool is_bounded;    /* results lie between `low` and `high` */
    vf low, high;
    bool is_activated; /* one of another kind, when all tiles of the panel are done */
} conv_tile;

/* Tiles of whole panels, by the number of positions less one, 1 to PIXELS; they are in conv.c. */
typedef void (*conv_tile_fn)(const conv_depth *depth, const conv_tile *tile);
extern const conv_tile_fn VEC_SYMBOL(conv_tiles)[];

/* Sums are variables, not an array: gcc unrolls loops after it has decided what lives in memory.
 * Pixel p has the sums a (the first vector of the panel), b, c and d. */
/* clang-format off */
#define EACH_PIXEL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(10) M(11)
/* clang-format on */

/* One step of the depth for pixel p. */
#define CONV_STEP_PIXEL(p)                            \
    if (P > p) {                                      \
        vf one = vf_set(x##p[at + k]);                \
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

/* A block has the inputs of several narrow groups: a lane takes the one of its own group. */
#define CONV_SPREAD_PIXEL(p) \
    if (P > p) vf_add_product(&a##p, vf_pick(vf_load(x##p + at), which), wide);

/* The same for two panels, w and pair: few positions, whose inputs are kept while the weights come
 * one by one. */
#define CONV_PAIR_VECTOR(sums, weights)                  \
    do {                                                 \
        vf wide = vf_load((weights) + k * PANEL);        \
        vf_add_product(&sums##0, one0, wide);            \
        if (P > 1) vf_add_product(&sums##1, one1, wide); \
        if (P > 2) vf_add_product(&sums##2, one2, wide); \
    } while (0)
#define CONV_PAIR_STEP(step)                                    \
    do {                                                        \
        enum { k = step };                                      \
        vf one0 = vf_set(x0[at + k]), one1 = one0, one2 = one0; \
        if (P > 1) one1 = vf_set(x1[at + k]);                   \
        if (P > 2) one2 = vf_set(x2[at + k]);                   \
        CONV_PAIR_VECTOR(a, w);                                 \
        CONV_PAIR_VECTOR(b, w + VF);                            \
        CONV_PAIR_VECTOR(c, pair);                              \
        CONV_PAIR_VECTOR(d, pair + VF);                         \
        (void)one1, (void)one2;                                 \
    } while (0);

/* Where vector v of a panel is, from its first block on. */
#define CONV_AT(v, block) ((v)*VF / BLOCK * (block) + (v)*VF % BLOCK)

/* The bias is in; then come what was there before, and the bounds. */
#define CONV_ADD_START(p)                                           \
    if (P > p) {                                                    \
        const float *from = start + start_at[p];                    \
        a##p += vf_load(from);                                      \
        if (V > 1) b##p += vf_load(from + CONV_AT(1, start_block)); \
        if (V > 2) c##p += vf_load(from + CONV_AT(2, start_block)); \
        if (V > 3) d##p += vf_load(from + CONV_AT(3, start_block)); \
    }
#define CONV_BOUND(p)                                      \
    if (P > p) {                                           \
        a##p = vf_min(high, vf_max(low, a##p));            \
        if (V > 1) b##p = vf_min(high, vf_max(low, b##p)); \
        if (V > 2) c##p = vf_min(high, vf_max(low, c##p)); \
        if (V > 3) d##p = vf_min(high, vf_max(low, d##p)); \
    }
#define CONV_STORE(p)                                        \
    if (P > p) {                                             \
        float *to = y + y_at[p];                             \
        vf_store(to, a##p);                                  \
        if (V > 1) vf_store(to + CONV_AT(1, y_block), b##p); \
        if (V > 2) vf_store(to + CONV_AT(2, y_block), c##p); \
        if (V > 3) vf_store(to + CONV_AT(3, y_block), d##p); \
    }

/* Keeps the compiler from moving a pointer per position instead of the offset that they share. */
#if defined(__x86_64__)
#define CONV_ONE_OFFSET(offset) __asm__("" : "+r"(offset))
#else
#define CONV_ONE_OFFSET(offset) (void)0
#endif

/* P positions x V vectors of channels; all constants, so that this is straight code. What stands
 * beside the multiply-adds is kept short: one offset moves all positions, and a processor that is
 * shared with somebody else's thread has no idle slots to hide it in. IS_PAIR: two panels of a 1 x
 * 1 kernel, whose depth is BLOCK inputs, `inner` times. IS_SPREAD: one vector of channels of groups
 * that are narrower than a block. */
VEC_INLINE void conv_tile_run(const conv_depth *depth, const conv_tile *tile, const int P,
                              const int V, const bool IS_PAIR, const bool IS_SPREAD) {
    const float *w = tile->w, *pair = w + tile->pair, *next = tile->next;
    const int64_t inner = depth->inner, inner_step = depth->inner_step;
    enum {
        FEW = 4,
        MANY = CONV_TURN
    }; /* steps in one turn of the loop: many where a tile is usual */
    const int64_t unroll = VF == 8 && V > 1 && P > 4 ? MANY : FEW;
    const int64_t whole = depth->run / unroll, *offsets = depth->offsets;
    const int64_t next_piece = tile->next_piece;
    const bool fetches_inputs = depth->fetches_inputs;
    int64_t at = 0;
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
#define CONV_AIM(p) const float *x##p = tile->x + tile->x_at[P > p ? p : 0];
    EACH_PIXEL(CONV_AIM)
    if (IS_PAIR) {
        const float *ahead = tile->x + tile->x_at[P], *ahead_end = ahead + P * BLOCK - 1;
        for (int64_t n = inner; n > 0; n--, at += inner_step) {
            __builtin_prefetch(next, 0, 2);
            next += next_piece;
            __builtin_prefetch(ahead + at);
            if (P > 1) __builtin_prefetch(ahead_end + at);
            CONV_ONE_OFFSET(at);
            CONV_ONE_OFFSET(pair);
            CONV_PAIR_STEP(0) CONV_PAIR_STEP(1) CONV_PAIR_STEP(2) CONV_PAIR_STEP(3);
            CONV_PAIR_STEP(4) CONV_PAIR_STEP(5) CONV_PAIR_STEP(6) CONV_PAIR_STEP(7);
            at += BLOCK, w += BLOCK * PANEL, pair += BLOCK * PANEL;
        }
    }
    for (int64_t outer = IS_PAIR ? 0 : depth->outer; outer > 0; outer--, at += depth->outer_step) {
        for (int64_t middle = depth->middle; middle > 0; middle--, at += depth->middle_step) {
            for (int64_t n = inner; n > 0; n--, at += inner_step) {
                __builtin_prefetch(next, 0, 2);
                for (int64_t line = 16; line < next_piece; line += 16)
                    __builtin_prefetch(next + line, 0, 2);
                next += next_piece;
                if (fetches_inputs) {
                    __builtin_prefetch(x0 + at + P * BLOCK);
                    if (P > 2) __builtin_prefetch(x0 + at + P * BLOCK + 16);
                    if (P > 4) __builtin_prefetch(x0 + at + P * BLOCK + 32);
                }
                for (int64_t i = IS_SPREAD ? depth->run : 0; i > 0; i -= BLOCK, at += BLOCK) {
                    vi which = depth->first_of;
                    for (int64_t k = depth->spread; k > 0; k--, w += PANEL, which += 1) {
                        const vf wide = vf_load(w);
                        CONV_ONE_OFFSET(at); /* and from keeping inputs on the stack */
                        EACH_PIXEL(CONV_SPREAD_PIXEL)
                    }
                }
                for (int64_t i = IS_SPREAD ? 0 : whole; i > 0;
                     i--, at += unroll, w += unroll * PANEL) {
                    CONV_ONE_OFFSET(at);
                    CONV_STEP(0) CONV_STEP(1) CONV_STEP(2) CONV_STEP(3);
                    if (unroll == MANY) {
                        CONV_STEP(4) CONV_STEP(5) CONV_STEP(6) CONV_STEP(7);
                    }
                }
            }
        }
    }
    for (int64_t i = IS_PAIR ? 0 : depth->singles; i > 0; i--, w += PANEL) {
        at = *offsets++;
        CONV_STEP(0);
    }
    float *const y = tile->y;
    const float *const start = tile->start;
    const int64_t *const y_at = tile->y_at, *const start_at = tile->start_at;
    const int64_t y_block = tile->y_block, start_block = tile->start_block;
    if (start != NULL) {
        EACH_PIXEL(CONV_ADD_START)
    }
    if (tile->is_bounded) {
        const vf low = tile->low, high = tile->high;
        EACH_PIXEL(CONV_BOUND)
    }
    EACH_PIXEL(CONV_STORE)
}

#endif
