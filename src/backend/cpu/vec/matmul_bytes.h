/* SPDX-License-Identifier: Apache-2.0 */
/* The sums of a tile of 8-bit integers, on their way into registers and out again. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_BYTES_H
#define RLX_BACKEND_CPU_VEC_MATMUL_BYTES_H

#include "backend/cpu/vec/matmul.h"
#include "backend/cpu/vec/vec_bytes.h"

/* Where they come from (NULL: zeros) and where they go, rows `from_row` and `to_row` apart. */
typedef struct tile_sums {
    const int32_t *from;
    int32_t *to;
    int64_t from_row, to_row;
    /* What comes next: every step of k asks for the byte `next_step` further on. */
    const uint8_t *next;
    int64_t next_step;
} tile_sums;

VEC_INLINE void tile_load(int rows, const tile_sums *c, vi x[][2]) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        x[i][0] = x[i][1] = (vi){0};
    if (c->from == NULL) return;
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        x[i][0] = vi_load(c->from + i * c->from_row);
        x[i][1] = vi_load(c->from + i * c->from_row + VF);
    }
}

/* Asks for the lines that the sums go to while there is something else to do. */
VEC_INLINE void tile_fetch(int rows, const tile_sums *c) {
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(c->to + i * c->to_row, 1);
        __builtin_prefetch(c->to + i * c->to_row + VF, 1);
    }
}

VEC_INLINE void tile_store(int rows, const tile_sums *c, vi x[][2]) {
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++) {
        memcpy(c->to + i * c->to_row, &x[i][0], sizeof x[i][0]);
        memcpy(c->to + i * c->to_row + VF, &x[i][1], sizeof x[i][1]);
    }
}

#endif
