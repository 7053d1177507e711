/* SPDX-License-Identifier: Apache-2.0 */
/* Planes of units of 1, 2, 4 or 8 bytes whose rows become columns. */
#ifndef RLX_BACKEND_CPU_VEC_TRANSPOSE_H
#define RLX_BACKEND_CPU_VEC_TRANSPOSE_H

#include "backend/cpu/vec/stream.h"

/* Vectors of a fixed size: where registers are narrower the compiler uses several. */
typedef uint64_t vt8 __attribute__((vector_size(32)));
typedef uint32_t vt4 __attribute__((vector_size(32)));
typedef uint16_t vt2 __attribute__((vector_size(32)));
typedef uint8_t vt1 __attribute__((vector_size(32)));

#define VEC_SHUFFLE __builtin_shufflevector

/* Lane i of row j changes places with lane j of row i. Rows stay in registers only where all loops
 * are unrolled. */
VEC_INLINE void vec_turn4(vt4 r[8]) {
    vt4 s[8], t[8];
    VEC_UNROLLED for (int i = 0; i < 8; i += 2) {
        s[i] = VEC_SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = VEC_SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    VEC_UNROLLED for (int i = 0; i < 8; i += 4) {
        t[i] = VEC_SHUFFLE(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 1] = VEC_SHUFFLE(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        t[i + 2] = VEC_SHUFFLE(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 3] = VEC_SHUFFLE(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    VEC_UNROLLED for (int i = 0; i < 4; i++) {
        r[i] = VEC_SHUFFLE(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = VEC_SHUFFLE(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Where a plane lies: in a cache, so that it is turned at once; or not, so that it is turned tile
 * by tile; or the result is so large that it goes past the caches too. */
typedef enum vec_turn { VEC_TURN_NEAR, VEC_TURN_FAR, VEC_TURN_STREAMS } vec_turn;

/* What is turned at a time then: so many rows of the result, and a piece of each. */
enum { VEC_TURN_ROWS = 128, VEC_TURN_PIECE = 512 /* bytes */ };

/* Row r, column c of `to` (columns side by side, rows `into` bytes apart) from row r, column c of
 * `from` (rows side by side, columns `out_of` bytes apart). */
#define vec_transpose VEC_NARROW_SYMBOL(transpose)
void vec_transpose(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from, int64_t out_of,
                   int64_t rows, int64_t cols, vec_turn how);

#endif
