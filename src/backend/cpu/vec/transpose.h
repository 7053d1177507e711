/* SPDX-License-Identifier: Apache-2.0 */
/* Planes of units of 1, 2, 4 or 8 bytes whose rows become columns: square blocks go through
 * registers, so that both sides are read and written by whole vectors. */
#ifndef RLX_BACKEND_CPU_VEC_TRANSPOSE_H
#define RLX_BACKEND_CPU_VEC_TRANSPOSE_H

#include "backend/cpu/vec/rows.h"

/* Vectors of a fixed size: where registers are narrower the compiler uses several. */
typedef uint64_t vt8 __attribute__((vector_size(32)));
typedef uint32_t vt4 __attribute__((vector_size(32)));
typedef uint16_t vt2 __attribute__((vector_size(16)));
typedef uint8_t vt1 __attribute__((vector_size(16)));

/* Units along a side of a block. */
VEC_INLINE int64_t vec_block(int64_t unit) {
    return unit == 8 ? 4 : unit == 1 ? 16 : 8;
}

#define VEC_SHUFFLE __builtin_shufflevector

/* Lane i of row j changes places with lane j of row i. */
VEC_INLINE void vec_turn8(vt8 r[4]) {
    vt8 a = VEC_SHUFFLE(r[0], r[1], 0, 4, 2, 6), b = VEC_SHUFFLE(r[0], r[1], 1, 5, 3, 7);
    vt8 c = VEC_SHUFFLE(r[2], r[3], 0, 4, 2, 6), d = VEC_SHUFFLE(r[2], r[3], 1, 5, 3, 7);
    r[0] = VEC_SHUFFLE(a, c, 0, 1, 4, 5);
    r[1] = VEC_SHUFFLE(b, d, 0, 1, 4, 5);
    r[2] = VEC_SHUFFLE(a, c, 2, 3, 6, 7);
    r[3] = VEC_SHUFFLE(b, d, 2, 3, 6, 7);
}
VEC_INLINE void vec_turn4(vt4 r[8]) {
    vt4 s[8], t[8];
    for (int i = 0; i < 8; i += 2) {
        s[i] = VEC_SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = VEC_SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        t[i] = VEC_SHUFFLE(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 1] = VEC_SHUFFLE(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        t[i + 2] = VEC_SHUFFLE(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 3] = VEC_SHUFFLE(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = VEC_SHUFFLE(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = VEC_SHUFFLE(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
/* Three (four) times every row is interleaved with the one half the block away. */
VEC_INLINE void vec_turn2(vt2 r[8]) {
    for (int stage = 0; stage < 3; stage++) {
        vt2 s[8];
        for (int i = 0; i < 4; i++) {
            s[2 * i] = VEC_SHUFFLE(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
            s[2 * i + 1] = VEC_SHUFFLE(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        }
        memcpy(r, s, sizeof s);
    }
}
VEC_INLINE void vec_turn1(vt1 r[16]) {
    for (int stage = 0; stage < 4; stage++) {
        vt1 s[16];
        for (int i = 0; i < 8; i++) {
            s[2 * i] =
                VEC_SHUFFLE(r[i], r[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            s[2 * i + 1] = VEC_SHUFFLE(r[i], r[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29,
                                       14, 30, 15, 31);
        }
        memcpy(r, s, sizeof s);
    }
}

/* 16 or 32 bytes past the caches. */
VEC_INLINE void vec_stream_bytes(void *to, const void *from, size_t bytes) {
#if defined(__AVX2__)
    if (bytes == 32) {
        __m256i x;
        memcpy(&x, from, sizeof x);
        _mm256_stream_si256(to, x);
    } else {
        __m128i x;
        memcpy(&x, from, sizeof x);
        _mm_stream_si128(to, x);
    }
#else
    memcpy(to, from, bytes);
#endif
}

/* One block: rows of `to` from columns of `from`, steps in bytes. */
#define VEC_DEFINE_BLOCK(unit, type, side)                                           \
    VEC_INLINE void vec_block_##unit(uint8_t *to, int64_t into, const uint8_t *from, \
                                     int64_t out_of, bool streams) {                 \
        type r[side];                                                                \
        for (int i = 0; i < (side); i++)                                             \
            memcpy(&r[i], from + i * out_of, sizeof r[i]);                           \
        vec_turn##unit(r);                                                           \
        for (int i = 0; i < (side); i++) {                                           \
            if (streams) {                                                           \
                vec_stream_bytes(to + i * into, &r[i], sizeof r[i]);                 \
            } else {                                                                 \
                memcpy(to + i * into, &r[i], sizeof r[i]);                           \
            }                                                                        \
        }                                                                            \
    }
VEC_DEFINE_BLOCK(8, vt8, 4)
VEC_DEFINE_BLOCK(4, vt4, 8)
VEC_DEFINE_BLOCK(2, vt2, 8)
VEC_DEFINE_BLOCK(1, vt1, 16)

VEC_INLINE void vec_turn_block(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                               int64_t out_of, bool streams) {
    if (unit == 8) vec_block_8(to, into, from, out_of, streams);
    if (unit == 4) vec_block_4(to, into, from, out_of, streams);
    if (unit == 2) vec_block_2(to, into, from, out_of, streams);
    if (unit == 1) vec_block_1(to, into, from, out_of, streams);
}

/* What is left at the edges. */
VEC_INLINE void vec_turn_units(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                               int64_t out_of, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            memcpy(to + r * into + c * unit, from + r * unit + c * out_of, (size_t)unit);
    }
}

/* Columns [0, cols) of at most a line: all rows. */
VEC_INLINE void vec_turn_strip(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                               int64_t out_of, int64_t rows, int64_t cols, bool streams) {
    int64_t side = vec_block(unit), r = 0;
    for (; r + side <= rows; r += side) {
        int64_t c = 0;
        for (; c + side <= cols; c += side) {
            vec_turn_block(unit, to + r * into + c * unit, into, from + r * unit + c * out_of,
                           out_of, streams);
        }
        vec_turn_units(unit, to + r * into + c * unit, into, from + r * unit + c * out_of, out_of,
                       side, cols - c);
    }
    vec_turn_units(unit, to + r * into, into, from + r * unit, out_of, rows - r, cols);
}

/* Tiles of one line of each source row and a piece of each result row, turned in a
 * buffer: rows that are a page apart share the sets of the first-level cache, so a line is read
 * whole while it is there, and results leave by whole pieces. */
enum { VEC_TURN_LINE = 64, VEC_TURN_PIECE = 256 };
VEC_INLINE void vec_turn_tile(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                              int64_t out_of, bool streams) {
    _Alignas(64) uint8_t tile[VEC_TURN_LINE * VEC_TURN_PIECE];
    int64_t side = vec_block(unit), rows = VEC_TURN_LINE / unit, cols = VEC_TURN_PIECE / unit;
    for (int64_t c = 0; c < cols; c += side) {
        for (int64_t i = 0; i < side; i++) /* the tile after this one */
            __builtin_prefetch(from + (c + i) * out_of + VEC_TURN_LINE);
        for (int64_t r = 0; r < rows; r += side)
            vec_turn_block(unit, tile + r * VEC_TURN_PIECE + c * unit, VEC_TURN_PIECE,
                           from + r * unit + c * out_of, out_of, false);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t at = 0; at < VEC_TURN_PIECE; at += 32) {
            if (streams) {
                vec_stream_bytes(to + r * into + at, tile + r * VEC_TURN_PIECE + at, 32);
            } else {
                memcpy(to + r * into + at, tile + r * VEC_TURN_PIECE + at, 32);
            }
        }
    }
}

/* `unit` and `streams` are constants. */
VEC_INLINE void vec_turn_plane(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                               int64_t out_of, int64_t rows, int64_t cols, bool streams) {
    int64_t line = VEC_TURN_LINE / unit, piece = VEC_TURN_PIECE / unit, c = 0;
    for (; c + piece <= cols; c += piece) {
        int64_t r = 0;
        for (; r + line <= rows; r += line)
            vec_turn_tile(unit, to + r * into + c * unit, into, from + r * unit + c * out_of,
                          out_of, streams);
        vec_turn_strip(unit, to + r * into + c * unit, into, from + r * unit + c * out_of, out_of,
                       rows - r, piece, streams);
    }
    /* What is left is written a line of the cache at a time. */
    for (; c < cols; c += line)
        vec_turn_strip(unit, to + c * unit, into, from + c * out_of, out_of, rows,
                       rlx_ref_least(line, cols - c), streams);
}

/* Row r, column c of `to` (columns side by side, rows `into` bytes apart) from row r, column c of
 * `from` (rows side by side, columns `out_of` bytes apart). */
static inline void vec_transpose(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                                 int64_t out_of, int64_t rows, int64_t cols, bool streams) {
    streams = streams && ((uintptr_t)to | (uintptr_t)into) % 64 == 0;
    if (unit == 4 && streams) {
        vec_turn_plane(4, to, into, from, out_of, rows, cols, true);
    } else if (unit == 4) {
        vec_turn_plane(4, to, into, from, out_of, rows, cols, false);
    } else if (unit == 8) {
        vec_turn_plane(8, to, into, from, out_of, rows, cols, false);
    } else if (unit == 2) {
        vec_turn_plane(2, to, into, from, out_of, rows, cols, false);
    } else {
        vec_turn_plane(1, to, into, from, out_of, rows, cols, false);
    }
}

/* The same as a function, so that those who call it share its code. */
void VEC_SYMBOL(transpose)(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                           int64_t out_of, int64_t rows, int64_t cols, bool streams);

#endif
