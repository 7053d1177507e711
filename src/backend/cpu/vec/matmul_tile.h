/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loop of every float product: a tile of up to MATMUL_ROWS x two vectors in registers,
 * half as many rows of two panels side by side, or twice as many of half a panel. Knows nothing of
 * epilogues, items or where the output is. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_TILE_H
#define RLX_BACKEND_CPU_VEC_MATMUL_TILE_H

#include "backend/cpu/vec/matmul.h"

/* How the panel of b is stored. */
typedef enum matmul_kind { PANEL_F32, PANEL_F16, PANEL_BF16, PANEL_KINDS } matmul_kind;

VEC_INLINE int64_t matmul_kind_bytes(matmul_kind kind) {
    return kind == PANEL_F32 ? 4 : 2;
}

VEC_INLINE vf matmul_load(matmul_kind kind, const uint8_t *from) {
    if (kind == PANEL_F16) return vf_of_f16(vh_load((const uint16_t *)(const void *)from));
    if (kind == PANEL_BF16) return vf_of_bf16(vh_load((const uint16_t *)(const void *)from));
    return vf_load((const float *)(const void *)from);
}

/* Where a tile's sums come from and go to, rows `from_row` and `to_row` apart (from NULL: zeros),
 * and what is fetched on the way. */
typedef struct matmul_sums {
    const float *from;
    float *to;
    int64_t from_row, to_row;
    /* What comes next: every step of k asks for the byte `next_step` further on. */
    const uint8_t *next;
    int64_t next_step;
    /* Tiles one after the other: so far apart in a, b (bytes) and what is written. */
    int64_t count, a_step, b_step, to_step;
} matmul_sums;

/* sums + a b over `depth` steps of k. Element (i, k) of a is at a[i * row + k]; b is
 * [depth][MATMUL_COLUMNS]. */
typedef void (*matmul_tile_fn)(const float *a, int64_t row, const uint8_t *b, int64_t depth,
                               const matmul_sums *c);

/* The same with the panel that is `apart` bytes further on: rows of sums are twice as long. */
typedef void (*matmul_pair_fn)(const float *a, int64_t row, const uint8_t *b, int64_t apart,
                               int64_t depth, const matmul_sums *c);

/* Steps of k in a turn of the loop. Who shares a core with somebody has half of its decoder: each
 * instruction beside the multiply-adds then costs time. Tiles of full height are most of it; long
 * turns of the others would only make the library larger. */
VEC_INLINE int matmul_turn(int rows, int vectors, matmul_kind kind) {
    if (VF >= 16 && vectors == 2 && rows > 6 && rows < MATMUL_ROWS) return 1;
    if (rows <= 3 || vectors == 1) return 1;
    if (rows * vectors < 2 * MATMUL_ROWS || kind != PANEL_F32) return 2;
    return VF < 16 ? 8 : 4;
}

/* One step of k. Rows of a are reached from every third one, which fits the addresses of x86: base,
 * base + row, base + 2 row. */
VEC_INLINE void matmul_step(int rows, int vectors, matmul_kind kind, const char *const *third,
                            int64_t row, int64_t at, const uint8_t *const *b, int64_t b_at,
                            vf x[][4]) {
    const int64_t half = VF * matmul_kind_bytes(kind);
    vf y[4];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; j++)
        y[j] = matmul_load(kind, b[j / 2] + b_at + j % 2 * half);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        vf s = vf_set(*(const float *)(const void *)(third[i / 3] + i % 3 * row + at));
#pragma GCC unroll 4
        for (int j = 0; j < vectors; j++)
            vf_add_product(&x[i][j], s, y[j]);
    }
    /* No load moves to another step: there is no register left for what it brings. */
    __asm__ volatile("" ::: "memory");
}

/* `rows`, `vectors` (of a row: one, two, or four of two panels) and `kind` are constants at the
 * call. */
VEC_INLINE void matmul_tile_of(int rows, int vectors, matmul_kind kind, const float *a, int64_t row,
                               const uint8_t *first, int64_t apart, int64_t depth,
                               const matmul_sums *c) {
    const int64_t line = 2 * VF * matmul_kind_bytes(kind), element = sizeof *a;
    const int turn = matmul_turn(rows, vectors, kind);
    vf x[MATMUL_MOST_ROWS][4];
    const char *third[(MATMUL_MOST_ROWS + 2) / 3];
    const int64_t next_step = c->next_step;
    const int64_t span = next_step * turn;
    const int64_t to_row = c->to_row, from_row = c->from_row;
    const float *from = c->from;
    float *to = c->to;
    const uint8_t *start = c->next;
    row *= element;
    for (int64_t left = c->count;;) {
        const uint8_t *b[2] = {first, first + apart}, *next = start;
        int64_t k = 0;
#pragma GCC unroll 4
        for (int i = 0; i < (rows + 2) / 3; i++)
            third[i] = (const char *)a + 3 * i * row;
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                x[i][j] = (vf){0};
        if (from != NULL) {
#pragma GCC unroll 12
            for (int i = 0; i < rows; i++, from += from_row)
#pragma GCC unroll 4
                for (int j = 0; j < vectors; j++)
                    x[i][j] = vf_load(from + j * VF);
        }
        for (; k + turn <= depth; k += turn) {
            __builtin_prefetch(next);
            if (turn * line > 64 && span > 64) __builtin_prefetch(next + 64);
            for (int64_t j = 128; j < span; j += 64)
                __builtin_prefetch(next + j);
            next += span;
#pragma GCC unroll 8
            for (int j = 0; j < turn; j++)
                matmul_step(rows, vectors, kind, third, row, j * element, b, j * line, x);
#pragma GCC unroll 4
            for (int i = 0; i < (rows + 2) / 3; i++)
                third[i] += turn * element;
#pragma GCC unroll 2
            for (int i = 0; i < (vectors + 1) / 2; i++)
                b[i] += turn * line;
        }
        for (; turn > 1 && k < depth; k++) {
            matmul_step(rows, vectors, kind, third, row, 0, b, 0, x);
#pragma GCC unroll 4
            for (int i = 0; i < (rows + 2) / 3; i++)
                third[i] += element;
#pragma GCC unroll 2
            for (int i = 0; i < (vectors + 1) / 2; i++)
                b[i] += line;
        }
        float *line_to = to;
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++, line_to += to_row)
#pragma GCC unroll 4
            for (int j = 0; j < vectors; j++)
                vf_store(line_to + j * VF, x[i][j]);
        if (--left <= 0) return;
        a += c->a_step, first += c->b_step, to += c->to_step;
        start += depth * next_step;
    }
}

/* One panel of f32. */
VEC_INLINE void matmul_tile(int rows, const float *a, int64_t row, const uint8_t *b, int64_t depth,
                            const matmul_sums *c) {
    matmul_tile_of(rows, 2, PANEL_F32, a, row, b, 0, depth, c);
}

/* The same for one to three rows of all of k. One panel has too few sums to keep the multiply-adds
 * busy, and one stream of memory is slower than several: `panels` of them, `apart` bytes from each
 * other, go side by side; who asks for them ahead does so since the hardware fetches no further
 * than to the end of a page. Where there is one panel only, k is taken in turns by `turns` sums
 * each, which are added up at the end in the order of the turns. */
VEC_INLINE void matmul_few(int rows, int panels, int turns, bool asks, matmul_kind kind,
                           const float *a, int64_t row, const uint8_t *b, int64_t apart,
                           int64_t depth, float *to) {
    const int64_t half = VF * matmul_kind_bytes(kind), ahead = 1024;
    vf x[12][3][2]; /* [turn or panel][row] */
    const int sets = panels > 1 ? panels : turns;
    const uint8_t *third[4]; /* every third panel, as in matmul_step */
    int64_t k = 0;
#pragma GCC unroll 4
    for (int t = 0; t < (sets + 2) / 3; t++)
        third[t] = b + 3 * t * (panels > 1 ? apart : 2 * half);
#pragma GCC unroll 12
    for (int t = 0; t < sets; t++)
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++)
            x[t][i][0] = x[t][i][1] = (vf){0};
    for (; k + turns <= depth; k += turns) {
#pragma GCC unroll 12
        for (int t = 0; t < sets; t++) {
            const uint8_t *at = third[t / 3] + t % 3 * (panels > 1 ? apart : 2 * half);
            vf b0 = matmul_load(kind, at), b1 = matmul_load(kind, at + half);
            if (asks) __builtin_prefetch(at + ahead);
            if (asks && half >= 64) __builtin_prefetch(at + ahead + half);
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++) {
                vf s = vf_set(a[i * row + (panels > 1 ? k : k + t)]);
                x[t][i][0] = vf_fma(s, b0, x[t][i][0]);
                x[t][i][1] = vf_fma(s, b1, x[t][i][1]);
            }
        }
#pragma GCC unroll 4
        for (int t = 0; t < (sets + 2) / 3; t++)
            third[t] += turns * 2 * half;
        __asm__ volatile("" ::: "memory");
    }
    for (b = third[0]; turns > 1 && k < depth; k++) {
        vf b0 = matmul_load(kind, b), b1 = matmul_load(kind, b + half);
#pragma GCC unroll 3
        for (int i = 0; i < rows; i++) {
            vf s = vf_set(a[i * row + k]);
            x[0][i][0] = vf_fma(s, b0, x[0][i][0]);
            x[0][i][1] = vf_fma(s, b1, x[0][i][1]);
        }
        b += 2 * half;
    }
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 12
        for (int t = 0; t < sets; t++) {
            if (panels == 1 && t > 0) {
                x[0][i][0] += x[t][i][0];
                x[0][i][1] += x[t][i][1];
            }
        }
#pragma GCC unroll 12
        for (int p = 0; p < panels; p++) {
            vf_store(to + (p * rows + i) * MATMUL_COLUMNS, x[p][i][0]);
            vf_store(to + (p * rows + i) * MATMUL_COLUMNS + VF, x[p][i][1]);
        }
    }
}

#endif
