/* SPDX-License-Identifier: Apache-2.0 */
/* Moves of every unit size: transposes with odd edges, slices, splits, concats, tiles, expands,
 * pads. */
#include "kernels/families.h"

#include <stdio.h>

static const char *const dtypes[] = {"f32", "f16", "i64", "u8", "i32"};

static void write_transpose(uint32_t index, const char *dtype, char *text, uint32_t bytes) {
    static const char *const perms[] = {"0, 2, 1, 3", "0, 2, 3, 1", "0, 3, 1, 2",
                                        "3, 2, 1, 0", "1, 0, 2, 3", "0, 1, 3, 2"};
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d, %d]\ny = transpose(x) perm=[%s]\n"
                   "z = transpose(y) perm=[1, 0, 3, 2]\noutput y\noutput z\n",
                   dtype, (int)kernel_pick(index, 0, 0, 3), (int)kernel_pick(index, 1, 1, 40),
                   (int)kernel_pick(index, 2, 1, 19), (int)kernel_pick(index, 3, 1, 70),
                   perms[index % 6]);
}

static void write_parts(uint32_t index, const char *dtype, char *text, uint32_t bytes) {
    int a = (int)kernel_pick(index, 0, 1, 9), b = (int)kernel_pick(index, 1, 2, 30);
    int c = (int)kernel_pick(index, 2, 4, 33), axis = (int)kernel_pick(index, 3, 0, 2);
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : %s[%d, %d, %d]\ninput w : %s[%d, 1, %d]\n"
        "input u : %s[%d, %d, 1]\nl = expand(u) shape=[%d, %d, %d]\nm = copy(l)\noutput m\n"
        "s = slice(x) starts=[1, -1] ends=[99, -99] axes=[1, 2] steps=[1, -%d]\n"
        "e = expand(w) shape=[%d, %d, %d]\nj = concat(x, e, x) axis=%d\n"
        "p, q = split(j) axis=2 sizes=[%d, %d]\nt = tile(p) shape=[2, 1, 3]\n"
        "f = flatten(s) axis=1\nd = transpose(x) perm=[1, 2, 0]\n"
        "r = reshape(d) shape=[-1]\nk = copy(q)\n"
        "output f\noutput t\noutput r\noutput k\noutput j\n",
        dtype, a, b, c, dtype, a, c, dtype, a, b, a, b, 3 * c, 1 + (int)(index % 3), a, b, c, axis,
        3, axis == 2 ? 3 * c - 3 : c - 3);
}

/* Margins of every kind, negative ones, and axes without any. */
static void write_pad(uint32_t index, const char *dtype, char *text, uint32_t bytes) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const char *mode = modes[index % 4];
    int least = index % 3 == 0 ? -1 : 0, last = index % 5 < 2 ? 0 : 2;
    bool is_turned = index % 7 > 4;
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d]\n"
                   "%sy = pad(%s) pads=[%d, %d, %d, %d, %d, %d] mode=%s value=%d\noutput y\n",
                   dtype, (int)kernel_pick(index, 0, 3, 5), (int)kernel_pick(index, 1, 3, 40),
                   (int)kernel_pick(index, 2, 3, 70),
                   is_turned ? "t = transpose(x) perm=[0, 2, 1]\n" : "", is_turned ? "t" : "x",
                   (int)kernel_pick(index, 3, least, 1), (int)kernel_pick(index, 4, least, 2),
                   last > 0 ? (int)(index % 3) : 0, (int)kernel_pick(index, 5, 0, 2),
                   (int)kernel_pick(index, 6, least, 2),
                   last > 0 ? (int)kernel_pick(index, 7, least, 2) : 0, mode, (int)(index % 3));
}

/* Pixels that are repeated, and every second one. */
static void write_pixels(uint32_t index, const char *dtype, char *text, uint32_t bytes) {
    int a = (int)kernel_pick(index, 0, 1, 4), b = (int)kernel_pick(index, 1, 1, 5);
    int c = (int)kernel_pick(index, 2, 1, 40), times = (int)kernel_pick(index, 3, 2, 4);
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : %s[%d, %d, 1, %d, 1]\ny = expand(x) shape=[%d, %d, 2, %d, %d]\n"
        "s = reshape(y) shape=[%d, %d, 2, %d, 2]\nt = transpose(s) perm=[2, 4, 0, 1, 3]\n"
        "z = copy(t)\noutput z\n",
        dtype, a, b, 2 * c, a, b, 2 * c, times, a, b, c * times);
}

/* Runs of 16, 32 and 64 bytes, as blocks of channels are: woven, repeated and cut out. */
static void write_vectors(uint32_t index, char *text, uint32_t bytes) {
    static const int sizes[] = {4, 2, 8, 1, 4};
    int a = (int)kernel_pick(index, 0, 1, 3), b = (int)kernel_pick(index, 1, 1, 3);
    int c = (int)kernel_pick(index, 2, 1, 3), d = (int)kernel_pick(index, 3, 1, 4);
    int e = (int)kernel_pick(index, 4, 1, 9), f = (int)kernel_pick(index, 5, 1, 40);
    int run = (16 << index % 3) / sizes[index % 5];
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : %s[%d, %d, %d, %d, %d, %d, %d]\n"
        "t = transpose(x) perm=[0, 3, 4, 1, 5, 2, 6]\ny = reshape(t) shape=[%d, -1, %d]\n"
        "u = reshape(y) shape=[%d, 1, %d, 1, %d]\nr = expand(u) shape=[%d, 2, %d, 3, %d]\n"
        "z = copy(r)\ns = slice(x) axes=[5] starts=[1] ends=[99]\nv = copy(s)\n"
        "output y\noutput z\noutput v\n",
        dtypes[index % 5], a, b, c, d, e, f, run, a * d, run, a * d, b * c * e * f, run, a * d,
        b * c * e * f, run);
}

enum { MOVE_CASES = 120, VECTOR_CASES = 30 };

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    const char *dtype = dtypes[index % 5];
    if (index >= MOVE_CASES) {
        write_vectors(index - MOVE_CASES, text, bytes);
        return;
    }
    if (index % 8 == 7) {
        write_pixels(index, dtypes[index / 8 % 5], text, bytes);
        return;
    }
    if (index % 8 == 3 || index % 8 == 5) {
        write_pad(index / 8 * 2 + index % 8 / 5, dtypes[index / 8 % 5], text, bytes);
    } else if (index % 2 == 0) {
        write_transpose(index / 2, dtype, text, bytes);
    } else {
        write_parts(index, dtype, text, bytes);
    }
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[4096, 1024]\ny = transpose(x) perm=[1, 0]\nz = copy(y)\noutput z\n",
    "rlx 1\ninput x : f32[64, 3136]\ny = transpose(x) perm=[1, 0]\noutput y\n",
    "rlx 1\ninput x : f16[4096, 1024]\ny = transpose(x) perm=[1, 0]\noutput y\n",
    "rlx 1\ninput x : u8[224, 224, 3]\ny = transpose(x) perm=[2, 0, 1]\noutput y\n",
    NULL,
};

const kernel_family kernel_move = {"move", 0, MOVE_CASES + VECTOR_CASES, write_case, timed};
