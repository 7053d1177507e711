/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of a plane go through registers, so that both sides are read and written by whole vectors.
 * Planes that do not fit a cache are turned tile by tile. */
#include "backend/cpu/vec/transpose.h"

enum {
    LINE = 64,                   /* bytes */
    PITCH = VEC_TURN_PIECE + 64, /* of a tile: its rows do not share the sets of a cache */
    ROWS_AHEAD = 4               /* of a result that are asked for */
};

/* Rows and columns of a block. All its result rows are vectors of 32 bytes; where a unit is so
 * small that its source rows are of 16, two blocks lie in the halves of the vectors. */
VEC_INLINE int64_t block_rows(int64_t unit) {
    return unit == 8 ? 4 : unit == 1 ? 16 : 8;
}
VEC_INLINE int64_t block_cols(int64_t unit) {
    return 32 / unit;
}

/* As vec_turn4. */
VEC_INLINE void turn_8(vt8 r[4]) {
    vt8 a = VEC_SHUFFLE(r[0], r[1], 0, 4, 2, 6), b = VEC_SHUFFLE(r[0], r[1], 1, 5, 3, 7);
    vt8 c = VEC_SHUFFLE(r[2], r[3], 0, 4, 2, 6), d = VEC_SHUFFLE(r[2], r[3], 1, 5, 3, 7);
    r[0] = VEC_SHUFFLE(a, c, 0, 1, 4, 5);
    r[1] = VEC_SHUFFLE(b, d, 0, 1, 4, 5);
    r[2] = VEC_SHUFFLE(a, c, 2, 3, 6, 7);
    r[3] = VEC_SHUFFLE(b, d, 2, 3, 6, 7);
}
VEC_INLINE void turn_4(vt4 r[8]) {
    vec_turn4(r);
}
/* Three (four) times every row is interleaved with the one half the block away. */
VEC_INLINE void turn_2(vt2 r[8]) {
    VEC_UNROLLED for (int stage = 0; stage < 3; stage++) {
        vt2 s[8];
        VEC_UNROLLED for (int i = 0; i < 4; i++) {
            s[2 * i] = VEC_SHUFFLE(r[i], r[i + 4], 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26,
                                   11, 27);
            s[2 * i + 1] = VEC_SHUFFLE(r[i], r[i + 4], 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29,
                                       14, 30, 15, 31);
        }
        memcpy(r, s, sizeof s);
    }
}
VEC_INLINE void turn_1(vt1 r[16]) {
    VEC_UNROLLED for (int stage = 0; stage < 4; stage++) {
        vt1 s[16];
        VEC_UNROLLED for (int i = 0; i < 8; i++) {
            s[2 * i] =
                VEC_SHUFFLE(r[i], r[i + 8], 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                            16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55);
            s[2 * i + 1] =
                VEC_SHUFFLE(r[i], r[i + 8], 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46,
                            15, 47, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
        }
        memcpy(r, s, sizeof s);
    }
}

typedef uint64_t half __attribute__((vector_size(16)));
VEC_INLINE vt8 join(const uint8_t *low, const uint8_t *high) {
    half a, b;
    memcpy(&a, low, sizeof a);
    memcpy(&b, high, sizeof b);
    return VEC_SHUFFLE(a, b, 0, 1, 2, 3);
}

/* One block: rows of `to` from columns of `from`, steps in bytes. Of `cols` columns that are fewer
 * than a block has the last one is read again; of `rows` rows that are fewer only those are
 * written. */
#define DEFINE_BLOCK(unit, type, count)                                                          \
    VEC_INLINE void block_##unit(uint8_t *to, int64_t into, const uint8_t *from, int64_t out_of, \
                                 int64_t rows, int64_t cols) {                                   \
        type r[count];                                                                           \
        VEC_UNROLLED for (int i = 0; i < (count); i++)                                           \
            memcpy(&r[i], from + (i < cols ? i : cols - 1) * out_of, sizeof r[i]);               \
        turn_##unit(r);                                                                          \
        VEC_UNROLLED for (int i = 0; i < (count); i++) {                                         \
            if (i < rows) memcpy(to + i * into, &r[i], sizeof r[i]);                             \
        }                                                                                        \
    }
DEFINE_BLOCK(8, vt8, 4)
DEFINE_BLOCK(4, vt4, 8)

/* Two blocks of small units, or one. They are large enough to be called. */
#define DEFINE_BLOCKS(name, unit, type, count, blocks)                                         \
    static __attribute__((noinline)) void name(uint8_t *to, int64_t into, const uint8_t *from, \
                                               int64_t out_of) {                               \
        type r[count];                                                                         \
        VEC_UNROLLED_MORE for (int i = 0; i < (count); i++) {                                  \
            const uint8_t *at = from + i * out_of;                                             \
            r[i] = (type)join(at, at + ((blocks)-1) * (count)*out_of);                         \
        }                                                                                      \
        turn_##unit(r);                                                                        \
        VEC_UNROLLED_MORE for (int i = 0; i < (count); i++)                                    \
            memcpy(to + i * into, &r[i], 16 * (blocks));                                       \
    }
DEFINE_BLOCKS(blocks_2, 2, vt2, 8, 2)
DEFINE_BLOCKS(blocks_1, 1, vt1, 16, 2)
DEFINE_BLOCKS(block_2, 2, vt2, 8, 1)
DEFINE_BLOCKS(block_1, 1, vt1, 16, 1)

VEC_INLINE void turn_block(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                           int64_t out_of) {
    if (unit == 8) block_8(to, into, from, out_of, 4, 4);
    if (unit == 4) block_4(to, into, from, out_of, 8, 8);
    if (unit == 2) blocks_2(to, into, from, out_of);
    if (unit == 1) blocks_1(to, into, from, out_of);
}

/* Blocks of which there are fewer columns (not of small units) or fewer rows. */
VEC_INLINE void turn_few_block(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                               int64_t out_of, int64_t rows, int64_t cols) {
    _Alignas(32) uint8_t result[16 * 32];
    if (unit == 8) block_8(to, into, from, out_of, rows, cols);
    if (unit == 4) block_4(to, into, from, out_of, rows, cols);
    if (unit > 2) return;
    turn_block(unit, result, 32, from, out_of);
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * into, result + r * 32, 32);
}

VEC_INLINE void turn_units(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                           int64_t out_of, int64_t rows, int64_t cols) {
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++)
            memcpy(to + r * into + c * unit, from + r * unit + c * out_of, (size_t)unit);
    }
}

/* Squares of a line by a line: what is read of a source row is used while it is in the first
 * cache, however few such rows fit there. The last blocks overlap those before them, so that no
 * units are left: there are at least as many rows and columns as a block has. `asks`: the source is
 * far, and the columns after these are asked for (after the last, those of the next tile). */
VEC_INLINE void turn_plane(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                           int64_t out_of, int64_t rows, int64_t cols, bool asks) {
    int64_t high = block_rows(unit), wide = block_cols(unit), line = LINE / unit;
    int64_t band = asks && unit > 1 ? 16 : line;
    for (int64_t c0 = 0; c0 < cols; c0 += band) {
        int64_t ask = c0 + band < cols ? band * out_of : rows * unit - c0 * out_of;
        for (int64_t r0 = 0; r0 < rows; r0 += line) {
            for (int64_t c = c0; c < cols && c < c0 + band; c += wide) {
                int64_t col = rlx_ref_least(c, cols - wide);
                const uint8_t *at = from + col * out_of;
                for (int64_t i = 0; asks && i < wide; i++)
                    __builtin_prefetch(at + r0 * unit + i * out_of + ask);
                for (int64_t r = r0; r < rows && r < r0 + line; r += high) {
                    int64_t row = rlx_ref_least(r, rows - high);
                    turn_block(unit, to + row * into + col * unit, into, at + row * unit, out_of);
                }
            }
        }
    }
}

/* Pixels of 3 or 4 bytes from as many planes, and back, 16 at a time: vectors hold four pixels, of
 * 3 bytes with room for a fourth that the next vector overwrites or takes. Both return how many are
 * done. Only whole vectors inside the pixels are written or read. */
typedef uint8_t quarter1 __attribute__((vector_size(16)));
typedef uint32_t quarter4 __attribute__((vector_size(16)));

VEC_INLINE void turn_quarters(quarter4 r[4]) {
    quarter4 a = VEC_SHUFFLE(r[0], r[2], 0, 4, 1, 5), b = VEC_SHUFFLE(r[0], r[2], 2, 6, 3, 7);
    quarter4 c = VEC_SHUFFLE(r[1], r[3], 0, 4, 1, 5), d = VEC_SHUFFLE(r[1], r[3], 2, 6, 3, 7);
    r[0] = VEC_SHUFFLE(a, c, 0, 4, 1, 5);
    r[1] = VEC_SHUFFLE(a, c, 2, 6, 3, 7);
    r[2] = VEC_SHUFFLE(b, d, 0, 4, 1, 5);
    r[3] = VEC_SHUFFLE(b, d, 2, 6, 3, 7);
}

static int64_t join_bytes(uint8_t *to, const uint8_t *from, int64_t out_of, int64_t rows,
                          int64_t cols) {
    int64_t done = 0;
    for (; (done + 12) * cols + 16 <= rows * cols; done += 16) {
        quarter4 r[4];
        VEC_UNROLLED for (int i = 0; i < 4; i++)
            memcpy(&r[i], from + done + (i < cols ? i : cols - 1) * out_of, sizeof r[i]);
        turn_quarters(r); /* each: four bytes of every plane */
        VEC_UNROLLED for (int i = 0; i < 4; i++) {
            quarter1 x = (quarter1)r[i];
            x = cols == 3 ? VEC_SHUFFLE(x, x, 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, 12, 13, 14, 15)
                          : VEC_SHUFFLE(x, x, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            memcpy(to + (done + 4 * i) * cols, &x, sizeof x);
        }
    }
    return done;
}

static int64_t part_bytes(uint8_t *to, int64_t into, const uint8_t *from, int64_t out_of,
                          int64_t rows, int64_t cols) {
    int64_t done = 0, end = (cols - 1) * out_of + rows;
    for (; (done + 12) * out_of + 16 <= end && done + 16 <= cols; done += 16) {
        quarter4 r[4];
        VEC_UNROLLED for (int i = 0; i < 4; i++) {
            quarter1 x;
            memcpy(&x, from + (done + 4 * i) * out_of, sizeof x);
            x = out_of == 3
                    ? VEC_SHUFFLE(x, x, 0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, 12, 13, 14, 15)
                    : VEC_SHUFFLE(x, x, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
            r[i] = (quarter4)x;
        }
        turn_quarters(r);
        for (int64_t i = 0; i < rows; i++)
            memcpy(to + i * into + done, &r[i], sizeof r[i]);
    }
    return done;
}

/* Columns that are fewer than two blocks of small units have, but not fewer than one has. */
VEC_INLINE void turn_narrow(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                            int64_t out_of, int64_t rows, int64_t cols) {
    int64_t high = block_rows(unit), last = cols - block_cols(unit) / 2;
    for (int64_t r = 0; r < rows; r += high) {
        int64_t row = rlx_ref_least(r, rows - high);
        uint8_t *put = to + row * into;
        const uint8_t *get = from + row * unit;
        (unit == 2 ? block_2 : block_1)(put, into, get, out_of);
        if (last == 0) continue;
        (unit == 2 ? block_2 : block_1)(put + last * unit, into, get + last * out_of, out_of);
    }
}

/* Fewer rows or columns than a block has. Result rows without holes are written by whole vectors,
 * whose ends the next row overwrites; columns are read by whole vectors, whose ends belong to the
 * next. The last ones, where that would leave the plane, go unit by unit. */
VEC_INLINE void turn_few(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                         int64_t out_of, int64_t rows, int64_t cols) {
    int64_t high = block_rows(unit), wide = block_cols(unit), row = 0, col = 0;
    int64_t read = high * unit, end = (cols - 1) * out_of + rows * unit;
    if (unit < 4 && rows >= high && 2 * cols >= wide) {
        turn_narrow(unit, to, into, from, out_of, rows, cols);
        return;
    }
    if (unit == 1 && into == cols && (cols == 3 || cols == 4)) {
        row = join_bytes(to, from, out_of, rows, cols);
    } else if (unit == 1 && rows <= out_of && (out_of == 3 || out_of == 4)) {
        col = part_bytes(to, into, from, out_of, rows, cols);
    } else if (unit > 2 && rows >= high && into == cols * unit) {
        for (; (row + high - 1) * into + 32 <= rows * into; row += high)
            turn_few_block(unit, to + row * into, into, from + row * unit, out_of, high, cols);
    } else if (cols >= wide && rows > 0 && out_of > 0) {
        for (; (col + wide - 1) * out_of + read <= end; col += wide)
            turn_few_block(unit, to + col * unit, into, from + col * out_of, out_of, rows, wide);
    }
    turn_units(unit, to + row * into + col * unit, into, from + row * unit + col * out_of, out_of,
               rows - row, cols - col);
}

/* One function for each unit. */
#define DEFINE_TURN(unit)                                                                      \
    static void turn_by_##unit(uint8_t *to, int64_t into, const uint8_t *from, int64_t out_of, \
                               int64_t rows, int64_t cols, bool asks) {                        \
        if (rows < block_rows(unit) || cols < block_cols(unit)) {                              \
            turn_few(unit, to, into, from, out_of, rows, cols);                                \
        } else {                                                                               \
            turn_plane(unit, to, into, from, out_of, rows, cols, asks);                        \
        }                                                                                      \
    }
DEFINE_TURN(1)
DEFINE_TURN(2)
DEFINE_TURN(4)
DEFINE_TURN(8)
typedef void turn_function(uint8_t *to, int64_t into, const uint8_t *from, int64_t out_of,
                           int64_t rows, int64_t cols, bool asks);

/* Asks for the lines that will be written, of which streaming leaves only those not whole: a store
 * that has to wait for its line holds up all that follow. */
static void ask_for(uint8_t *to, int64_t bytes, bool streams) {
    if (streams && ((uintptr_t)to | (uintptr_t)bytes) % LINE == 0) return;
    for (int64_t at = 0; at < bytes; at += streams ? bytes : LINE)
        __builtin_prefetch(to + at, 1);
    __builtin_prefetch(to + bytes - 1, 1);
}

/* A row of a tile goes where it belongs. */
static void leave(uint8_t *to, const uint8_t *from, int64_t bytes, bool streams) {
    int64_t at = 0;
    if (streams) {
        at = rlx_ref_least((int64_t)(-(uintptr_t)to % LINE), bytes);
        memcpy(to, from, (size_t)at);
        int64_t whole = (bytes - at) / LINE * LINE;
        vec_stream_lines(to + at, from + at, whole);
        at += whole;
    }
    memcpy(to + at, from + at, (size_t)(bytes - at));
}

static void turn_tile(turn_function *turn, uint8_t *to, int64_t into, const uint8_t *from,
                      int64_t out_of, int64_t rows, int64_t cols, int64_t bytes, bool streams) {
    _Alignas(64) uint8_t tile[VEC_TURN_ROWS * PITCH];
    for (int64_t i = 0; i < rows && i < ROWS_AHEAD; i++)
        ask_for(to + i * into, bytes, streams);
    turn(tile, PITCH, from, out_of, rows, cols, true);
    for (int64_t i = 0; i < rows; i++) {
        if (i + ROWS_AHEAD < rows) ask_for(to + (i + ROWS_AHEAD) * into, bytes, streams);
        leave(to + i * into, tile + i * PITCH, bytes, streams);
    }
}

void vec_transpose(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from, int64_t out_of,
                   int64_t rows, int64_t cols, vec_turn how) {
    turn_function *turn = unit == 8   ? turn_by_8
                          : unit == 4 ? turn_by_4
                          : unit == 2 ? turn_by_2
                                      : turn_by_1;
    int64_t high = block_rows(unit), wide = block_cols(unit), piece = VEC_TURN_PIECE / unit;
    if (how == VEC_TURN_NEAR || rows < high || cols < wide) {
        turn(to, into, from, out_of, rows, cols, false);
        return;
    }
    /* Blocks of channels from planes: short rows that touch are written in order as they are. */
    bool is_row = into == cols * unit && into <= LINE;
    for (int64_t r = 0; is_row && r < rows; r += VEC_TURN_ROWS) {
        int64_t row = rlx_ref_least(r, rows - high);
        turn(to + row * into, into, from + row * unit, out_of,
             rlx_ref_least(VEC_TURN_ROWS, rows - row), cols, true);
    }
    if (is_row) return;
    /* Along the source. The last tiles overlap those before them too. */
    for (int64_t c = 0; c < cols; c += piece) {
        int64_t col = rlx_ref_least(c, cols - wide), width = rlx_ref_least(piece, cols - col);
        for (int64_t r = 0; r < rows; r += VEC_TURN_ROWS) {
            int64_t row = rlx_ref_least(r, rows - high);
            turn_tile(turn, to + row * into + col * unit, into, from + row * unit + col * out_of,
                      out_of, rlx_ref_least(VEC_TURN_ROWS, rows - row), width, width * unit,
                      how == VEC_TURN_STREAMS);
        }
    }
}
