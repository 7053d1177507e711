/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of 8-bit integers to 32 bits with VNNI: four products of u8 and i8 go into a 32-bit sum at
 * once. Weights are in panels with k in fours. A signed a is moved up by 128 and an unsigned b down
 * by 128 on the way; what that adds is taken out again, so the result is exact modulo 2^32, like
 * scalar C. The level `wide` has the instruction in plain C, for the tests. */
#include "backend/cpu/vec/matmul.h"
#include "base/cpu.h"

#if defined(__x86_64__) && RLX_VEC_BYTES == 64
enum { MATMUL_GROUP = 4, GROUPS = 256, A_STRIDE = GROUPS + 16 };
#define COLUMNS_LAYOUT RLX_LAYOUT_COLUMNS32X4
#define ROWS_LAYOUT    RLX_LAYOUT_ROWS32X4

/* sum + the four products of every lane, bytes of a unsigned, of b signed. */
#if defined(__AVX512F__)
#define TILE_TARGET __attribute__((target("avx512vnni")))
enum { NEEDS = RLX_CPU_VNNI };
TILE_TARGET VEC_INLINE vi four_products(vi sum, vi a, vi b) {
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
}
#else
#define TILE_TARGET
enum { NEEDS = 0 };
VEC_INLINE vi four_products(vi sum, vi a, vi b) {
    for (int i = 0; i < 4; i++)
        sum += (vi)((vu)a >> (8 * i) & 0xff) * ((b << (24 - 8 * i)) >> 24);
    return sum;
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

/* c (+)= a b over `depth` fours of k. a is [rows][A_STRIDE] of four bytes, b
 * [depth][MATMUL_COLUMNS] of four bytes, c [rows][MATMUL_COLUMNS]. */
TILE_TARGET VEC_INLINE void tile(int rows, bool is_signed, const int32_t *a, const uint8_t *b,
                                 int64_t depth, int32_t *c, bool is_first) {
    vi x[MATMUL_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        x[i][0] = x[i][1] = (vi){0};
    if (!is_first) memcpy(x, c, (size_t)rows * sizeof *x);
    for (int64_t k = 0; k < depth; k++) {
        vi b0 = load_b(b, is_signed), b1 = load_b(b + 4 * VF, is_signed);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vi s = vi_set(a[i * A_STRIDE + k]);
            x[i][0] = four_products(x[i][0], s, b0);
            x[i][1] = four_products(x[i][1], s, b1);
        }
        b += 8 * VF;
    }
    memcpy(c, x, (size_t)rows * sizeof *x);
}

#include "backend/cpu/vec/matmul_bytes.inc"

/* With a' = a + 128 (where a is signed) and b' = b - 128 (where b is not):
 * sum a b = sum a' b' + 128 sum a' - 128 sum b' - 128 128 n, each term where its operand is moved.
 */
static uint32_t flip_of(const matmul *mm) {
    return mm->a->dtype == RLX_DTYPE_I8 ? (uint32_t)moved : 0;
}

static void sum_rows(const matmul *mm, const int32_t *a, int64_t rows, int64_t depth,
                     uint32_t *sums) {
    if (mm->b->dtype == RLX_DTYPE_I8) return;
    for (int64_t i = 0; i < rows; i++, a += A_STRIDE) {
        uint32_t sum = 0;
        for (int64_t k = 0; k < depth; k++) {
            for (int g = 0; g < 32; g += 8)
                sum += (uint32_t)a[k] >> g & 0xff;
        }
        sums[i] = sum;
    }
}

TILE_TARGET static void sum_columns(const uint8_t *b, bool is_signed, int64_t depth, vi *sums) {
    vi ones = vi_set(0x01010101);
    sums[0] = sums[1] = (vi){0};
    for (int64_t k = 0; k < depth; k++, b += 8 * VF) {
        sums[0] = four_products(sums[0], ones, load_b(b, is_signed));
        sums[1] = four_products(sums[1], ones, load_b(b + 4 * VF, is_signed));
    }
}

static void correct(const matmul *mm, const uint32_t *row_sums, const uint8_t *b, int64_t rows,
                    int64_t depth, int32_t *c) {
    bool is_up = mm->a->dtype == RLX_DTYPE_I8, is_down = mm->b->dtype != RLX_DTYPE_I8;
    vi columns[2] = {{0}};
    if (!is_up && !is_down) return;
    if (is_up) sum_columns(b, !is_down, depth, columns);
    uint32_t all = is_up && is_down ? 16384u * 4u * (uint32_t)depth : 0;
    for (int64_t i = 0; i < rows; i++, c += MATMUL_COLUMNS) {
        vi row[2], more = vi_set((int32_t)((is_down ? 128u * row_sums[i] : 0) - all));
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
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};

#else
const rlx_cpu_override VEC_SYMBOL(matmul_vnni)[] = {
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
#endif
