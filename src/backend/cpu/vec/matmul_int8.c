/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of 8-bit integers to 32 bits, weights in panels with k in pairs. Both operands are widened
 * to 16 bits, where a product of a pair cannot overflow (the 8-bit multiply-add of AVX2 would
 * saturate), so the result is exact modulo 2^32, like scalar C. Vectors of 32 bytes: the family is
 * NARROW. */
#include "backend/cpu/vec/matmul_bytes.h"

#if defined(__x86_64__)
enum { MATMUL_GROUP = 2, GROUPS = 256, A_STRIDE = GROUPS + 16 };
#define COLUMNS_LAYOUT RLX_LAYOUT_COLUMNS16X2
#define ROWS_LAYOUT    RLX_LAYOUT_ROWS16X2
#define TILE_TARGET

VEC_INLINE vi pairs_times(vi a, vi b) {
    return (vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}
VEC_INLINE vi widen(const uint8_t *from, bool is_signed) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)from);
    return (vi)(is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes));
}

/* Whole vectors of pairs of a row of a, bytes as 16 bits; how many of `count` pairs. */
static int64_t pack_words(const uint8_t *from, bool is_signed, int64_t count, int32_t *to) {
    int64_t j = 0;
    for (; j + VF <= count; j += VF) {
        vi words = widen(from + 2 * j, is_signed);
        memcpy(to + j, &words, sizeof words);
    }
    return j;
}

/* Sums (+)= a b over `depth` pairs of k. a is [rows][A_STRIDE] of two i16, b
 * [depth][MATMUL_COLUMNS] of two bytes. */
VEC_INLINE void tile(int rows, bool is_signed, const int32_t *a, const uint8_t *b, int64_t depth,
                     const tile_sums *c) {
    vi x[MATMUL_ROWS][2];
    tile_load(rows, c, x);
    for (int64_t k = 0; k < depth; k++) {
        vi b0 = widen(b, is_signed), b1 = widen(b + 2 * VF, is_signed);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vi s = vi_set(a[i * A_STRIDE + k]);
            x[i][0] += pairs_times(s, b0);
            x[i][1] += pairs_times(s, b1);
        }
        b += 4 * VF;
    }
    tile_store(rows, c, x);
}

#include "backend/cpu/vec/matmul_bytes.inc"

/* 16 bits hold every byte as it is: nothing is to be put right. */
static uint32_t flip_of(const matmul *mm) {
    (void)mm;
    return 0;
}
static void sum_rows(const matmul *mm, const int32_t *a, int64_t rows, int64_t depth,
                     uint32_t *sums) {
    (void)mm, (void)a, (void)rows, (void)depth, (void)sums;
}
static void sum_columns(const matmul *mm, const uint8_t *b, int32_t *sums) {
    (void)mm, (void)b, (void)sums;
}
static void correct(const matmul *mm, const uint32_t *row_sums, const int32_t *column_sums,
                    int64_t rows, int32_t *c, int64_t c_row) {
    (void)mm, (void)row_sums, (void)column_sums, (void)rows, (void)c, (void)c_row;
}

const rlx_cpu_override VEC_SYMBOL(matmul_int8)[] = {
    {RLX_OP_MATMUL, 0, takes, {VEC_NAME("matmul_int8"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_MATMUL_QUANTISED,
     0,
     takes_bytes,
     {VEC_NAME("matmul_quantised"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};

#else
const rlx_cpu_override VEC_SYMBOL(matmul_int8)[] = {
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
#endif
