/* SPDX-License-Identifier: Apache-2.0 */
/* Elements chosen by an index: neighbours that come from one vector, others, from the end; gathers
 * along the last axis and of rows, gather_elements and scatter_elements along any. */
#include "kernels/families.h"

#include <stdio.h>

static const char *const dtypes[] = {"f32", "i32", "f16", "i64", "u8"};

/* Index i of `count` into an axis of `dim`. */
static int index_of(uint32_t pattern, uint32_t index, int i, int count, int dim) {
    switch (pattern) {
    case 0:
        return i * dim / count; /* enlarged, or made smaller */
    case 1:
        return dim - 1 - i * dim / count;
    case 2:
        return -1 - i % dim;
    default:
        return (int)kernel_pick(index, 10 + (uint32_t)i, 0, dim - 1);
    }
}

static uint32_t write_indices(uint32_t index, int count, int dim, char *text, uint32_t bytes) {
    uint32_t at = 0;
    for (int i = 0; i < count; i++) {
        at += (uint32_t)snprintf(text + at, bytes - at, "%s%d", i == 0 ? "" : ", ",
                                 index_of(index / 2 % 4, index, i, count, dim));
    }
    return at;
}

static void write_gather(uint32_t index, char *text, uint32_t bytes) {
    int rows = (int)kernel_pick(index, 0, 14, 40), dim = (int)kernel_pick(index, 1, 1, 50);
    int count = (int)kernel_pick(index, 2, 1, 100);
    uint32_t at =
        (uint32_t)snprintf(text, bytes, "rlx 1\ninput x : %s[2, %d, %d]\nconst i : %s[%d] = [",
                           dtypes[index / 2 % 2], rows, dim, index % 4 == 0 ? "i64" : "i32", count);
    at += write_indices(index, count, dim, text + at, bytes - at);
    (void)snprintf(text + at, bytes - at, "]\ny = gather(x, i) axis=2\noutput y\n");
}

/* Rows that move whole; those of one case are so many that they go past the caches. */
static void write_gather_rows(uint32_t index, char *text, uint32_t bytes) {
    bool is_large = index == 20;
    int outer = is_large ? 1 : (int)kernel_pick(index, 0, 1, 3);
    int dim = (int)kernel_pick(index, 1, 1, 9);
    int count = is_large ? 64 : (int)kernel_pick(index, 2, 1, 40);
    int length = is_large ? 70016 : (int)kernel_pick(index, 3, 15, 600);
    uint32_t at =
        (uint32_t)snprintf(text, bytes, "rlx 1\ninput x : %s[%d, %d, %d]\nconst i : %s[%d] = [",
                           is_large ? "f32" : dtypes[index / 8 % 5], outer, dim, length,
                           index % 16 == 4 ? "i64" : "i32", count);
    at += write_indices(index, count, dim, text + at, bytes - at);
    (void)snprintf(text + at, bytes - at, "]\ny = gather(x, i) axis=1\noutput y\n");
}

static void write_elements(uint32_t index, char *text, uint32_t bytes) {
    int a = (int)kernel_pick(index, 0, 1, 6), b = (int)kernel_pick(index, 1, 1, 12);
    int axis = (int)kernel_pick(index, 2, 0, 1), dim = (int)kernel_pick(index, 3, 1, 30);
    int rows = axis == 0 ? dim : a + 1, cols = axis == 0 ? b + 2 : dim;
    uint32_t at =
        (uint32_t)snprintf(text, bytes, "rlx 1\ninput x : %s[%d, %d]\nconst i : %s[%d, %d] = [",
                           dtypes[index / 2 % 5], rows, cols, index % 4 == 1 ? "i64" : "i32", a, b);
    at += write_indices(index, a * b, dim, text + at, bytes - at);
    (void)snprintf(text + at, bytes - at, "]\ny = gather_elements(x, i) axis=%d\noutput y\n", axis);
}

/* Rows that share their index, more than are looked at at a time. */
static void write_shared(uint32_t index, char *text, uint32_t bytes) {
    int dim = (int)kernel_pick(index, 0, 1, 30), count = (int)kernel_pick(index, 1, 500, 700);
    uint32_t at = (uint32_t)snprintf(text, bytes,
                                     "rlx 1\ninput x : %s[2, 3, %d]\nconst i : i64[2, 1, %d] = [",
                                     dtypes[index / 2 % 5], dim, count);
    at += write_indices(index, 2 * count, dim, text + at, bytes - at);
    (void)snprintf(
        text + at, bytes - at,
        "]\nj = expand(i) shape=[2, 3, %d]\ny = gather_elements(x, j) axis=2\noutput y\n", count);
}

/* One index for each row. */
static void write_rows(uint32_t index, char *text, uint32_t bytes) {
    int a = (int)kernel_pick(index, 0, 1, 9), b = (int)kernel_pick(index, 1, 1, 5);
    int c = (int)kernel_pick(index, 2, 1, 40);
    uint32_t at = (uint32_t)snprintf(
        text, bytes, "rlx 1\ninput x : %s[%d, %d, %d]\nconst i : i64[%d, %d, 1] = [",
        dtypes[index / 16 % 5], a, b, c, a, b);
    at += write_indices(index, a * b, a, text + at, bytes - at);
    (void)snprintf(text + at, bytes - at,
                   "]\nj = expand(i) shape=[%d, %d, %d]\ny = gather_elements(x, j) axis=0\n"
                   "output y\n",
                   a, b, c);
}

static void write_scatter(uint32_t index, char *text, uint32_t bytes) {
    static const char *const modes[] = {"set", "add", "mul", "min", "max"};
    bool is_long = index % 3 == 0;
    int a = is_long ? 2 : (int)kernel_pick(index, 0, 1, 5), b = is_long ? 1 : 3;
    int c = (int)(is_long ? kernel_pick(index, 2, 250, 520) : kernel_pick(index, 2, 1, 9));
    int axis = (int)kernel_pick(index, 3, 0, 2), dims[] = {a + 1, b, c + 2}, dim = dims[axis];
    const char *mode = modes[index / 8 % 5];
    const char *dtype = index / 8 % 5 == 0 ? dtypes[index % 5] : "f32";
    uint32_t at = (uint32_t)snprintf(text, bytes,
                                     "rlx 1\ninput x : %s[%d, %d, %d]\ninput u : %s[%d, %d, %d]\n",
                                     dtype, dims[0], dims[1], dims[2], dtype, a, b, c);
    at += (uint32_t)snprintf(text + at, bytes - at, "const i : %s[%d, %d, %d] = [",
                             index % 8 == 1 ? "i64" : "i32", a, b, c);
    at += write_indices(index, a * b * c, dim, text + at, bytes - at);
    (void)snprintf(text + at, bytes - at,
                   "]\ny = scatter_elements(x, i, u) axis=%d mode=%s\noutput y\n", axis, mode);
}

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    if (index % 8 == 4) {
        write_gather_rows(index, text, bytes);
    } else if (index % 2 == 0) {
        write_gather(index, text, bytes);
    } else if (index % 8 == 1 || index % 8 == 5) {
        write_scatter(index, text, bytes);
    } else if (index % 16 == 3) {
        write_shared(index, text, bytes);
    } else if (index % 16 == 7) {
        write_rows(index, text, bytes);
    } else {
        write_elements(index, text, bytes);
    }
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[1024, 1024]\ninput i : i32[1024]\ny = gather(x, i) axis=1\noutput y\n",
    NULL,
};

const kernel_family kernel_index = {"index", 0, 120, write_case, timed};
