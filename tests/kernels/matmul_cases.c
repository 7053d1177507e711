/* SPDX-License-Identifier: Apache-2.0 */
/* Products of every kind that the vector kernels take: packed, transposed, batched, thin, with all
 * that a store can do. */
#include "kernels/families.h"

#include <stdio.h>

static const char *const a_dtypes[] = {"f32", "f32", "f32", "f16", "bf16"};
static const char *const b_dtypes[] = {"f32", "f32", "f16", "bf16"};
static const char *const layouts[] = {"", "columns16", "columns32"};
static const char *const turned_layouts[] = {"", "rows16", "rows32"};
static const char *const stores[] = {
    "",
    " activation=relu",
    " alpha=0.5 activation=gelu",
    " gated=true activation=silu",
};

enum { VECTOR_COLUMNS = 1 }; /* columns16 in `layouts` */

/* Sizes around the edges of tiles and blocks. */
static int pick_size(uint32_t index, uint32_t what) {
    static const int sizes[] = {1, 2, 5, 6, 7, 12, 13, 16, 17, 31, 33, 40, 64, 97, 130, 200, 350};
    return sizes[kernel_pick(index, what, 0, (int64_t)(sizeof sizes / sizeof *sizes) - 1)];
}

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    int m = pick_size(index, 0), n = pick_size(index, 1), k = pick_size(index, 2);
    int batch = (int)kernel_pick(index, 3, 1, 3);
    bool turn_a = kernel_pick(index, 4, 0, 3) == 0, turn_b = kernel_pick(index, 5, 0, 1) == 0;
    bool shares = kernel_pick(index, 6, 0, 1) == 0; /* one b for all batches */
    uint32_t layout = (uint32_t)kernel_pick(index, 7, 0, 2);
    uint32_t store = (uint32_t)kernel_pick(index, 8, 0, 3);
    const char *a = a_dtypes[kernel_pick(index, 9, 0, 4)];
    const char *b = b_dtypes[kernel_pick(index, 10, 0, 3)];
    if (index % 97 == 0) k = 0;
    if (index % 89 == 0) m = 0;
    if (index == 1) { /* rows of a 4 KiB apart and enough panels to copy them */
        m = 20, n = 256, k = 1024, batch = 16, turn_a = shares = false, layout = VECTOR_COLUMNS;
        a = b = "f32", store = 1;
    }
    if (index == 5) { /* many blocks of few rows, some a tile higher, copied and run as one */
        m = 152, n = 16, k = 2000, batch = 1, turn_a = true, layout = VECTOR_COLUMNS;
        a = b = "f32";
    }
    if (index % 11 == 4) a = b = "f64", layout = 0, store = 0;
    if (index == 2 || index == 3) m = 2, k = 700, n = 100, a = "f16", layout = VECTOR_COLUMNS;
    int at = snprintf(text, bytes, "rlx 1\ninput a : %s[%d, %d, %d]\ninput b : %s[%d, %d, %d]\n", a,
                      batch, turn_a ? k : m, turn_a ? m : k, b, shares ? 1 : batch, turn_b ? n : k,
                      turn_b ? k : n);
    at += snprintf(text + at, bytes - (uint32_t)at,
                   "input bias : f32[%d]\ninput more : %s[%d, %d, %d]\n",
                   kernel_pick(index, 11, 0, 1) == 0 ? 1 : n, a, batch, m, n);
    const char *packed = turn_b ? turned_layouts[layout] : layouts[layout];
    if (layout != 0)
        at += snprintf(text + at, bytes - (uint32_t)at, "p = pack(b) layout=%s\n", packed);
    bool bare = store == 0 && (kernel_pick(index, 12, 0, 1) == 0 || index % 11 == 4);
    snprintf(text + at, bytes - (uint32_t)at, "y = matmul(a, %s%s)%s%s%s\noutput y\n",
             layout != 0 ? "p" : "b",
             bare         ? ""
             : store == 1 ? ", bias"
                          : ", bias, more",
             turn_a ? " transpose_a=true" : "", turn_b ? " transpose_b=true" : "", stores[store]);
}

static void write_int8_case(uint32_t index, char *text, uint32_t bytes) {
    int m = pick_size(index, 0), n = pick_size(index, 1), k = pick_size(index, 2);
    int batch = (int)kernel_pick(index, 3, 1, 2);
    bool turn_a = kernel_pick(index, 4, 0, 3) == 0, turn_b = kernel_pick(index, 5, 0, 1) == 0;
    bool has_bias = kernel_pick(index, 6, 0, 1) == 0;
    static const char *const orders[] = {"16x2", "32x2", "32x4"};
    bool is_small = index % 3 == 1; /* weights of 7 bits */
    if (index % 37 == 0) k = 0;
    if (index % 5 == 0) k += 600; /* several blocks of k */
    if (is_small && index % 2 == 0) m += 20;
    snprintf(text, bytes,
             "rlx 1\ninput a : %s[%d, %d, %d]\n%s b : %s[%d, %d, %d]%s\ninput bias : i32[%d]\n"
             "p = pack(b) layout=%s%s\ny = matmul(a, p%s) to=i32%s%s\noutput y\n",
             kernel_pick(index, 8, 0, 1) == 0 ? "i8" : "u8", batch, turn_a ? k : m, turn_a ? m : k,
             is_small ? "param" : "input",
             is_small || kernel_pick(index, 9, 0, 1) == 0 ? "i8" : "u8",
             kernel_pick(index, 10, 0, 1) ? 1 : batch, turn_b ? n : k, turn_b ? k : n,
             is_small ? " = seeded(7, 64)" : "", n, turn_b ? "rows" : "columns",
             orders[kernel_pick(index, 7, 0, 2)], has_bias ? ", bias" : "",
             turn_a ? " transpose_a=true" : "", turn_b ? " transpose_b=true" : "");
}

/* Numbers and bytes of products of bytes, with everything that their store can do; odd strides of
 * what is added come from transposes, which are views. */
static void write_quantised_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const orders[] = {"16x2", "32x2", "32x4"};
    static const char *const to[] = {"f32", "u8", "i8"};
    static const char *const done[] = {"",
                                       " activation=relu",
                                       " activation=clip activation_alpha=-9 activation_beta=70",
                                       " gated=true",
                                       " activation=gelu",
                                       " gated=true activation=silu"};
    int m = pick_size(index, 0), n = pick_size(index, 1), k = pick_size(index, 2);
    int batch = (int)kernel_pick(index, 3, 1, 2), kind = (int)kernel_pick(index, 6, 0, 2);
    bool turn_b = kernel_pick(index, 5, 0, 1) == 0, shares = kernel_pick(index, 10, 0, 1) == 1;
    bool by_rows = index % 9 == 5, is_turned = index % 9 == 7;
    /* Of bytes none that rounds in its own way. */
    int store = (int)kernel_pick(index, 11, 0, kind == 0 ? 5 : 3);
    bool has_residual = store == 3 || store == 5 || kernel_pick(index, 12, 0, 1) == 0;
    if (index % 37 == 0) k = 0;
    if (index % 41 == 3) m = 0;
    if (index % 5 == 0) k += 600; /* several blocks of k */
    int at =
        snprintf(text, bytes,
                 "rlx 1\ninput a : %s[%d, %d, %d]\ninput b : %s[%d, %d, %d]\n"
                 "input bias : f32[%d]\ninput s : f32[%d, %d]\ninput o : i32[%d, %d]\n"
                 "const h : f32[] = 0.0002\nt = mul(s, h)\np = pack(b) layout=%s%s\n",
                 kernel_pick(index, 8, 0, 1) == 0 ? "i8" : "u8", batch, m, k,
                 kernel_pick(index, 9, 0, 1) == 0 ? "i8" : "u8", shares ? 1 : batch, turn_b ? n : k,
                 turn_b ? k : n, n, by_rows ? m : 1, by_rows ? 1 : n, by_rows ? m : 1,
                 by_rows ? 1 : n, turn_b ? "rows" : "columns", orders[kernel_pick(index, 7, 0, 2)]);
    at += snprintf(text + at, bytes - (uint32_t)at,
                   is_turned ? "input w : f32[%d, %d, %d]\nr = transpose(w) perm=[0, 2, 1]\n"
                             : "input r : f32[%d, %d, %d]\n",
                   batch, is_turned ? n : m, is_turned ? m : n);
    snprintf(text + at, bytes - (uint32_t)at,
             "y = matmul_quantised(a, p, %s, %s, %s, %s)%s to=%s%s%s\noutput y\n",
             index % 4 == 1 ? "_" : "bias", has_residual ? "r" : "_", index % 7 == 3 ? "h" : "t",
             index % 6 == 0 ? "_" : "o", turn_b ? " transpose_b=true" : "", to[kind],
             kind == 0 ? "" : " zero=17", done[store]);
}

/* Few rows and weights in blocks, and more rows than are few. */
static void write_blocks_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"q4_0", "q8_0"};
    int m = (int)kernel_pick(index, 0, 1, 9), n = pick_size(index, 1);
    int k = 32 * (int)kernel_pick(index, 2, 0, 12), batch = (int)kernel_pick(index, 3, 1, 2);
    bool turn_a = kernel_pick(index, 4, 0, 3) == 0;
    uint32_t store = (uint32_t)kernel_pick(index, 5, 0, 3);
    const char *a = a_dtypes[kernel_pick(index, 6, 0, 4)];
    snprintf(text, bytes,
             "rlx 1\ninput a : %s[%d, %d, %d]\nparam b : %s[%d, %d] = seeded(%u, 0.5)\n"
             "input bias : f32[%d]\ninput more : %s[%d, %d, %d]\n"
             "y = matmul(a, b%s) transpose_b=true%s%s\noutput y\n",
             a, batch, turn_a ? k : m, turn_a ? m : k, dtypes[kernel_pick(index, 7, 0, 1)], n, k,
             index, n, a, batch, m, n, store == 0 ? "" : ", bias, more",
             turn_a ? " transpose_a=true" : "", stores[store]);
}

static const char *const timed_blocks[] = {
    "rlx 1\ninput a : f32[1, 1024]\nparam b : q4_0[4096, 1024] = seeded(1, 0.5)\n"
    "y = matmul(a, b) transpose_b=true\noutput y\n",
    "rlx 1\ninput a : f32[1, 1024]\nparam b : q8_0[4096, 1024] = seeded(1, 0.5)\n"
    "y = matmul(a, b) transpose_b=true\noutput y\n",
    NULL,
};

const kernel_family kernel_matmul_blocks = {"matmul_blocks", 4e-5, 60, write_blocks_case,
                                            timed_blocks};

static const char *const timed_int8[] = {
    "rlx 1\ninput a : u8[512, 512]\ninput b : i8[512, 512]\np = pack(b) layout=columns16x2\n"
    "y = matmul(a, p) to=i32\noutput y\n",
    NULL,
};

const kernel_family kernel_matmul_int8 = {"matmul_int8", 0, 120, write_int8_case, timed_int8};

static const char *const timed_quantised[] = {
    "rlx 1\ninput a : u8[128, 512]\ninput b : i8[512, 512]\ninput o : i32[512]\ninput c : "
    "f32[512]\n"
    "p = pack(b) layout=columns16x2\ny = matmul_quantised(a, p, c, _, c, o)\noutput y\n",
    NULL,
};

const kernel_family kernel_matmul_quantised = {"matmul_quantised", 4e-5, 160, write_quantised_case,
                                               timed_quantised};

static const char *const timed[] = {
    "rlx 1\ninput a : f32[512, 512]\ninput b : f32[512, 512]\np = pack(b) layout=columns16\n"
    "y = matmul(a, p)\noutput y\n",
    "rlx 1\ninput a : f32[512, 512]\ninput b : f32[512, 512]\ny = matmul(a, b)\noutput y\n",
    NULL,
};

const kernel_family kernel_matmul = {"matmul", 4e-5, 200, write_case, timed};

/* Few columns: around the sizes of tiles, items and blocks of k, b as it comes or column by column,
 * results as a column that may be stored as a row. */
static void write_narrow_case(uint32_t index, char *text, uint32_t bytes) {
    static const int rows[] = {1, 2, 3, 7, 8, 9, 11, 12, 13, 50, 96, 97, 200};
    static const int depths[] = {1, 2, 3, 5, 8};
    int m = rows[kernel_pick(index, 0, 0, 12)], n = (int)kernel_pick(index, 1, 1, 8);
    int k = 8 * n * depths[kernel_pick(index, 2, 0, 4)] + (int)kernel_pick(index, 3, 0, 7);
    int batch = (int)kernel_pick(index, 4, 1, 3);
    bool turn_b = kernel_pick(index, 5, 0, 2) == 0, shares = kernel_pick(index, 6, 0, 1) == 0;
    bool is_packed = !turn_b && kernel_pick(index, 7, 0, 1) == 0;
    uint32_t store = (uint32_t)kernel_pick(index, 8, 0, 3);
    const char *a = a_dtypes[kernel_pick(index, 9, 0, 4)];
    const char *b = b_dtypes[kernel_pick(index, 10, 0, 3)];
    const char *how = stores[store];
    if (index % 4 == 3) /* a row times columns that lie side by side each */
        m = 1, n = (int)kernel_pick(index, 12, 9, 200), turn_b = true, is_packed = shares = false;
    /* Several blocks of k; so long a sum rounds otherwise in scalar C, hence the factor. */
    if (index == 1) m = 100, n = 3, k = 4500, a = b = "f32", how = " alpha=0.01";
    if (index == 2) m = 0;
    int at = snprintf(text, bytes, "rlx 1\ninput a : %s[%d, %d, %d]\ninput b : %s[%d, %d, %d]\n", a,
                      batch, m, k, b, shares ? 1 : batch, turn_b ? n : k, turn_b ? k : n);
    at += snprintf(text + at, bytes - (uint32_t)at,
                   "input bias : f32[%d]\ninput more : %s[%d, %d, %d]\n%s",
                   kernel_pick(index, 11, 0, 1) == 0 ? 1 : n, a, batch, m, n,
                   is_packed ? "p = pack(b) layout=turned\n" : "");
    snprintf(text + at, bytes - (uint32_t)at, "y = matmul(a, %s%s)%s%s\noutput y\n",
             is_packed ? "p" : "b",
             store == 0   ? ""
             : store == 1 ? ", bias"
                          : ", bias, more",
             turn_b ? " transpose_b=true" : "", how);
}

static const char *const timed_narrow[] = {
    "rlx 1\ninput a : f32[1024, 1024]\ninput b : f32[1024, 1]\ny = matmul(a, b)\noutput y\n",
    "rlx 1\ninput a : f32[1024, 1024]\ninput b : f32[1024, 8]\np = pack(b) layout=turned\n"
    "y = matmul(a, p)\noutput y\n",
    NULL,
};

const kernel_family kernel_matmul_narrow = {"matmul_narrow", 4e-5, 160, write_narrow_case,
                                            timed_narrow};

/* Few rows and a b that is no weight: around vectors and strips. */
static void write_rows_case(uint32_t index, char *text, uint32_t bytes) {
    static const int columns[] = {9, 15, 16, 17, 64, 65, 100, 511, 512, 513, 1100};
    int m = (int)kernel_pick(index, 0, 1, 8), n = columns[kernel_pick(index, 1, 0, 10)];
    int k = (int)kernel_pick(index, 2, 0, 40), batch = (int)kernel_pick(index, 3, 1, 9);
    bool turn_a = kernel_pick(index, 4, 0, 2) == 0, shares = kernel_pick(index, 5, 0, 3) == 0;
    uint32_t store = (uint32_t)kernel_pick(index, 6, 0, 3);
    if (shares) m = batch = kernel_pick(index, 8, 0, 1) == 0 ? 2 : 1; /* batches are rows then */
    int at = snprintf(text, bytes, "rlx 1\ninput a : f32[%d, %d, %d]\ninput b : f32[%d, %d, %d]\n",
                      batch, turn_a ? k : m, turn_a ? m : k, shares ? 1 : batch, k, n);
    snprintf(
        text + at, bytes - (uint32_t)at,
        "input bias : f32[%d]\ninput more : f32[%d, %d, %d]\ny = matmul(a, b%s)%s%s\noutput y\n",
        kernel_pick(index, 9, 0, 1) == 0 ? 1 : n, batch, m, n,
        store == 0   ? ""
        : store == 1 ? ", bias"
                     : ", bias, more",
        turn_a ? " transpose_a=true" : "", stores[store]);
}

static const char *const timed_rows[] = {
    "rlx 1\ninput a : f32[1, 1024]\ninput b : f32[1024, 1024]\ny = matmul(a, b)\noutput y\n",
    "rlx 1\ninput a : f32[64, 1, 128]\ninput b : f32[64, 128, 64]\ny = matmul(a, b)\noutput y\n",
    NULL,
};

const kernel_family kernel_matmul_rows = {"matmul_rows", 4e-5, 120, write_rows_case, timed_rows};
