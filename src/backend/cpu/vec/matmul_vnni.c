/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of 8-bit integers to 32 bits with VNNI: four products of u8 and i8 go into a 32-bit sum at
 * once. Weights are in panels with k in fours. A signed a is moved up by 128 and an unsigned b down
 * by 128 on the way; what that adds is taken out again, so the result is exact modulo 2^32, like
 * scalar C. The level `wide` has the instruction in plain C, for the tests. */
#include "backend/cpu/vec/matmul_bytes.h"
#include "base/cpu.h"

#if defined(__x86_64__) && RLX_VEC_BYTES == 64
enum { MATMUL_GROUP = 4, GROUPS = 256, A_STRIDE = GROUPS + 16 };
#define COLUMNS_LAYOUT RLX_LAYOUT_COLUMNS32X4
#define ROWS_LAYOUT    RLX_LAYOUT_ROWS32X4

/* *sum += the four products of every lane, bytes of a unsigned, of b signed. Spelled out: see
 * vf_add_product. */
#if defined(__AVX512F__)
#define TILE_TARGET __attribute__((target("avx512vnni")))
enum { NEEDS = RLX_CPU_VNNI };
TILE_TARGET VEC_INLINE void four_products(vi *sum, vi a, vi b) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(a), "v"(b));
}
#else
#define TILE_TARGET
enum { NEEDS = 0 };
VEC_INLINE void four_products(vi *sum, vi a, vi b) {
    for (int i = 0; i < 4; i++)
        *sum += (vi)((vu)a >> (8 * i) & 0xff) * ((b << (24 - 8 * i)) >> 24);
}
#endif

/* 128 more, or less, in all four bytes. */
static const int32_t moved = (int32_t)0x80808080;

VEC_INLINE vi load_b(const uint8_t *b, bool is_signed) {
    vi x;
    memcpy(&x, b, sizeof x);
    return is_signed ? x : x ^ moved;
}

/* Fours of a row of a; how many of `count`. */
static int64_t pack_words(const uint8_t *from, bool is_signed, int64_t count, int32_t *to) {
    memcpy(to, from, (size_t)count * sizeof *to);
    for (int64_t j = 0; is_signed && j < count; j++)
        to[j] ^= moved;
    return count;
}

/* Sums (+)= a b over `depth` fours of k. a is [rows][A_STRIDE] of four bytes, b
 * [depth][MATMUL_COLUMNS] of four bytes. */
TILE_TARGET VEC_INLINE void tile(int rows, bool is_signed, const int32_t *a, const uint8_t *b,
                                 int64_t depth, const tile_sums *c) {
    vi x[MATMUL_ROWS][2];
    tile_load(rows, c, x);
    tile_fetch(rows, c);
    const uint8_t *next = c->next;
    const int64_t step = c->next_step;
    for (int64_t k = 0; k < depth; k++, next += step) {
        __builtin_prefetch(next);
        vi b0 = load_b(b, is_signed), b1 = load_b(b + 4 * VF, is_signed);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vi s = vi_set(a[i * A_STRIDE + k]);
            four_products(&x[i][0], s, b0);
            four_products(&x[i][1], s, b1);
        }
        b += 8 * VF;
    }
    tile_store(rows, c, x);
}

#include "backend/cpu/vec/matmul_bytes.inc"

/* All tiles are of fours. */
static bool takes_fours(const block *self) {
    (void)self;
    return false;
}
static void pack_fours(const block *self, int64_t group, int64_t depth) {
    (void)self, (void)group, (void)depth;
}
static tile_fn tile_of_fours(int64_t rows) {
    (void)rows;
    return NULL;
}

/* With a' = a + 128 (where a is signed) and b' = b - 128 (where b is not):
 * sum a b = sum a' b' + 128 sum a' - 128 sum b' - 128 128 n, each term where its operand is moved.
 */
static uint32_t flip_of(const matmul *mm) {
    return mm->a->dtype == RLX_DTYPE_I8 ? (uint32_t)moved : 0;
}

static bool is_up(const matmul *mm) {
    return mm->a->dtype == RLX_DTYPE_I8;
}
static bool is_down(const matmul *mm) {
    return mm->b->dtype != RLX_DTYPE_I8;
}

static void sum_rows(const matmul *mm, const int32_t *a, int64_t rows, int64_t depth,
                     uint32_t *sums) {
    for (int64_t i = 0; i < rows && is_down(mm); i++, a += A_STRIDE) {
        for (int64_t k = 0; k < depth; k++) {
            for (int g = 0; g < 32; g += 8)
                sums[i] += (uint32_t)a[k] >> g & 0xff;
        }
    }
}

TILE_TARGET static void sum_columns(const matmul *mm, const uint8_t *b, int32_t *sums) {
    const int64_t groups = is_up(mm) ? matmul_up(mm->k, MATMUL_GROUP) : 0;
    const bool is_signed = !is_down(mm);
    vi x[2] = {{0}}, ones = vi_set(0x01010101);
    for (int64_t k = 0; k < groups; k++, b += 8 * VF) {
        four_products(&x[0], ones, load_b(b, is_signed));
        four_products(&x[1], ones, load_b(b + 4 * VF, is_signed));
    }
    memcpy(sums, x, sizeof x);
}

static void correct(const matmul *mm, const uint32_t *row_sums, const int32_t *column_sums,
                    int64_t rows, int32_t *c, int64_t c_row) {
    vi columns[2];
    if (!is_up(mm) && !is_down(mm)) return;
    memcpy(columns, column_sums, sizeof columns);
    uint32_t count = MATMUL_GROUP * (uint32_t)matmul_up(mm->k, MATMUL_GROUP);
    uint32_t all = is_up(mm) && is_down(mm) ? 16384u * count : 0;
    for (int64_t i = 0; i < rows; i++, c += c_row) {
        vi row[2], more = vi_set((int32_t)(128u * row_sums[i] - all));
        memcpy(row, c, sizeof row);
        row[0] += more - columns[0] * 128;
        row[1] += more - columns[1] * 128;
        memcpy(c, row, sizeof row);
    }
}

const rlx_cpu_override VEC_SYMBOL(matmul_vnni)[] = {
    {RLX_OP_MATMUL,
     NEEDS,
     takes,
     {VEC_NAME("matmul_vnni"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_MATMUL_QUANTISED,
     NEEDS,
     takes_bytes,
     {VEC_NAME("matmul_quantised_vnni"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};

#else
const rlx_cpu_override VEC_SYMBOL(matmul_vnni)[] = {
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
#endif
