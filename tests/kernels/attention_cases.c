/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes around the tiles of attention.c: 96 rows, 96 to 132 keys, panels of one to three vectors
 * with a few rows beyond them, and few rows with so many keys that parts of them are items. */
#include "kernels/families.h"

#include <stdio.h>

static const char *const dtypes[] = {"f32", "f16", "bf16", "f32"};

static int64_t size_near(uint32_t index, uint32_t what) {
    static const int64_t near[] = {0, 8, 16, 32, 96, 132, 192};
    int64_t size = near[kernel_pick(index, what, 0, 6)] + kernel_pick(index, what + 1, -2, 3);
    return size < 0 ? 0 : size;
}

static void write_mask(uint32_t index, const int64_t sizes[4], char *text, uint32_t bytes) {
    int64_t dims[4];
    for (uint32_t i = 0; i < 4; i++)
        dims[i] = kernel_pick(index, 40 + i, 0, 1) == 0 ? 1 : sizes[i];
    (void)snprintf(text, bytes, "input m : %s[%d, %d, %d, %d]\n",
                   dtypes[kernel_pick(index, 44, 0, 3)], (int)dims[0], (int)dims[1], (int)dims[2],
                   (int)dims[3]);
}

/* The last value is infinite or no number, and only the last query, or none, sees it. */
static void write_hidden(uint32_t index, char *text, uint32_t bytes) {
    bool has_mask = index == 1;
    (void)snprintf(text, bytes,
                   "rlx 1\ninput q : f32[1, 2, %d, 8]\ninput k : %s[1, 2, 40, 8]\n"
                   "input v : %s[1, 2, 39, 8]\nconst bad : %s[1, 2, 1, 8] = [inf, nan, -inf, inf, "
                   "nan, 0, 1, inf, inf, nan, -inf, inf, nan, 0, 1, inf]\n"
                   "const m : f32[1, 1, 1, 40] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "
                   "0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -inf]\n"
                   "vv = concat(v, bad) axis=2\ny = attention(q, k, vv%s)%s\noutput y\n",
                   index == 1   ? 1
                   : index == 2 ? 5
                                : 30,
                   dtypes[index % 3], dtypes[index % 3], dtypes[index % 3], has_mask ? ", m" : "",
                   has_mask ? "" : " causal=true");
}

/* A key whose scores are minus infinity, in the data and not by a mask, and whose value is infinite
 * or no number: its weight is 0, and so nobody sees it. */
static void write_far(uint32_t index, char *text, uint32_t bytes) {
    const char *dtype = dtypes[index % 3];
    (void)snprintf(text, bytes,
                   "rlx 1\ninput a : f32[1, 2, %d, 8]\ninput k : %s[1, 2, %d, 8]\n"
                   "input v : %s[1, 2, %d, 8]\nconst far : %s[1, 2, 1, 8] = [inf, 0, 0, 0, 0, 0, "
                   "0, 0, inf, 0, 0, 0, 0, 0, 0, 0]\nconst bad : %s[1, 2, 1, 8] = [inf, nan, -inf, "
                   "inf, nan, 0, 1, inf, inf, nan, -inf, inf, nan, 0, 1, inf]\n"
                   "b = abs(a)\nq = neg(b)\nkk = concat(%s) axis=2\nvv = concat(%s) axis=2\n"
                   "y = attention(q, kk, vv)\noutput y\n",
                   index < 6 ? 1 + (int)index : 10 * (int)index, dtype, 30 * (int)index + 1, dtype,
                   30 * (int)index + 1, dtype, dtype, index % 2 == 0 ? "k, far" : "far, k",
                   index % 2 == 0 ? "v, bad" : "bad, v");
}

/* A mask as large as those that hide everything from a query: scores differ by nothing beside it.
 */
static void write_deep(uint32_t index, char *text, uint32_t bytes) {
    static const char *const depths[] = {"-1e10", "1e10", "-3e38", "-7e8", "-3e7", "65504"};
    (void)snprintf(text, bytes,
                   "rlx 1\ninput q : f32[1, 2, %d, 8]\ninput k : %s[1, 2, %d, 8]\n"
                   "input v : %s[1, 2, %d, 8]\nconst low : f32[1, 1, 1, 1] = [%s]\n"
                   "y = attention(q, k, v, low)\noutput y\n",
                   index < 6 ? 1 + 2 * (int)index : 10 * (int)index, dtypes[index % 3],
                   30 * (int)index + 1, dtypes[index % 3], 30 * (int)index + 1, depths[index % 6]);
}

/* Heads side by side: keys are 2 KiB apart. */
static void write_apart(uint32_t index, char *text, uint32_t bytes) {
    int64_t queries = kernel_pick(index, 0, 1, 130), keys = kernel_pick(index, 1, 1, 230);
    int64_t depth = index % 2 == 0 ? 64 : 128;
    (void)snprintf(text, bytes,
                   "rlx 1\ninput q : f32[1, %d, %d, 64]\ninput ks : f32[1, %d, %d, 64]\n"
                   "input vs : f32[1, %d, %d, %d]\nk = transpose(ks) perm=[0, 2, 1, 3]\n"
                   "v = transpose(vs) perm=[0, 2, 1, 3]\n"
                   "y = attention(q, k, v)%s\noutput y\n",
                   512 / 64, (int)queries, (int)keys, 512 / 64, (int)keys, 512 / 64, (int)depth,
                   index % 3 == 0 ? " causal=true" : "");
}

enum { CASES = 180, FAR_CASES = 12, DEEP_CASES = 12 };

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    if (index >= CASES + FAR_CASES) {
        write_deep(index - CASES - FAR_CASES, text, bytes);
        return;
    }
    if (index >= CASES) {
        write_far(index - CASES, text, bytes);
        return;
    }
    if (index < 8) {
        (index < 4 ? write_hidden : write_apart)(index, text, bytes);
        return;
    }
    int64_t batch = kernel_pick(index, 0, 1, 2), heads = kernel_pick(index, 1, 1, 3);
    int64_t group = kernel_pick(index, 2, 1, 3) == 1 ? kernel_pick(index, 3, 1, 9) : 1;
    int64_t queries = kernel_pick(index, 4, 0, 2) == 0 ? 1 : size_near(index, 5);
    int64_t keys = size_near(index, 7), depth = kernel_pick(index, 9, 1, 70);
    int64_t width = kernel_pick(index, 10, 0, 1) == 0 ? depth : kernel_pick(index, 11, 1, 70);
    const char *kv = dtypes[kernel_pick(index, 12, 0, 3)];
    if (index % 60 == 8) { /* few rows, and nothing to take a product of */
        depth = 0, width = 16, group = 5, queries = 1;
    }
    if (index % 5 == 4) depth = 16 * kernel_pick(index, 22, 1, 4); /* whole vectors */
    if (index % 10 == 9) {
        queries = kernel_pick(index, 19, 1, 2);
        keys = kernel_pick(index, 20, 4, 20) * 96 + kernel_pick(index, 21, -1, 1);
    }
    bool is_causal = kernel_pick(index, 13, 0, 1) == 1,
         has_mask = kernel_pick(index, 14, 0, 2) == 0;
    char mask[128] = "", attrs[128] = "";
    if (has_mask) {
        write_mask(index, (int64_t[]){batch, heads * group, queries, keys}, mask, sizeof mask);
    }
    if (is_causal) {
        int window = kernel_pick(index, 15, 0, 2) == 0
                         ? (int)kernel_pick(index, 16, 1, keys > 500 ? 900 : 120)
                         : 0;
        (void)snprintf(attrs, sizeof attrs, " causal=true window=%d", window);
    }
    (void)snprintf(text, bytes,
                   "rlx 1\ninput q : %s[%d, %d, %d, %d]\ninput k : %s[%d, %d, %d, %d]\n"
                   "input v : %s[%d, %d, %d, %d]\n%sy = attention(q, k, v%s)%s%s\noutput y\n",
                   dtypes[kernel_pick(index, 17, 0, 3)], (int)batch, (int)(heads * group),
                   (int)queries, (int)depth, kv, (int)batch, (int)heads, (int)keys, (int)depth, kv,
                   (int)batch, (int)heads, (int)keys, (int)width, mask, has_mask ? ", m" : "",
                   attrs, kernel_pick(index, 18, 0, 4) == 0 ? " softcap=1.5 scale=0.7" : "");
}

#define HEADS(q, s, k, t, dtype)                                                       \
    "rlx 1\ninput q : f32[1, " #q ", " #s ", 64]\ninput k : " #dtype "[1, " #k ", " #t \
    ", 64]\ninput v : " #dtype "[1, " #k ", " #t ", 64]\ny = attention("               \
    "q, k, v)"
static const char *const timed[] = {
    HEADS(32, 512, 32, 512, f32) "\noutput y\n",
    HEADS(32, 512, 32, 512, f32) " causal=true\noutput y\n",
    HEADS(32, 1, 4, 1024, f16) "\noutput y\n",
    HEADS(32, 1, 4, 8192, f16) "\noutput y\n",
    HEADS(32, 1, 32, 1024, f32) "\noutput y\n",
    NULL,
};

const kernel_family kernel_attention = {"attention", 2e-5, CASES + FAR_CASES + DEEP_CASES,
                                        write_case, timed};
