/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of 8-bit integers to 32 bits, weights in panels with k in pairs. Both operands are widened
 * to 16 bits, where a product of a pair cannot overflow (the 8-bit multiply-add of AVX2 would
 * saturate), so the result is exact modulo 2^32, like scalar C. Weights of 7 bits are found on the
 * way: u8 times these does not saturate, and takes a quarter less. Vectors of 32 bytes: the family
 * is NARROW. */
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

/* Columns 0 to 3 and 8 to 11 together, 4 to 7 and 12 to 15: as fours are unpacked from pairs. The
 * way back is the same. */
VEC_INLINE void turn_columns(vi x[2]) {
    __m256i low = _mm256_permute2x128_si256((__m256i)x[0], (__m256i)x[1], 0x20);
    x[1] = (vi)_mm256_permute2x128_si256((__m256i)x[0], (__m256i)x[1], 0x31);
    x[0] = (vi)low;
}

/* The same with bytes: a is [rows][A_STRIDE] of four u8, b is signed and in -64 .. 64. Behind an
 * odd depth comes a pair of zeros in a. */
VEC_INLINE void tile_fours(int rows, const int32_t *a, const uint8_t *b, int64_t depth,
                           const tile_sums *c) {
    const __m256i ones = _mm256_set1_epi16(1);
    vi x[MATMUL_ROWS][2];
    tile_load(rows, c, x);
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        turn_columns(x[i]);
    for (int64_t k = 0; k < depth; k += 2, b += 8 * VF, a++) {
        const uint8_t *behind = k + 1 < depth ? b + 4 * VF : b;
        __m256i first = _mm256_loadu_si256((const __m256i *)(const void *)b);
        __m256i second = _mm256_loadu_si256((const __m256i *)(const void *)behind);
        __m256i b0 = _mm256_unpacklo_epi16(first, second);
        __m256i b1 = _mm256_unpackhi_epi16(first, second);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            __m256i s = (__m256i)vi_set(a[i * A_STRIDE]);
            x[i][0] += (vi)_mm256_madd_epi16(_mm256_maddubs_epi16(s, b0), ones);
            x[i][1] += (vi)_mm256_madd_epi16(_mm256_maddubs_epi16(s, b1), ones);
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        turn_columns(x[i]);
    tile_store(rows, c, x);
}
static void fours_5(const int32_t *a, const uint8_t *b, int64_t depth, const tile_sums *c) {
    tile_fours(5, a, b, depth, c);
}
static void fours_6(const int32_t *a, const uint8_t *b, int64_t depth, const tile_sums *c) {
    tile_fours(6, a, b, depth, c);
}

/* Whether weights are in -64 .. 64; `bytes` is a multiple of 32. */
static bool are_small(const uint8_t *b, int64_t bytes) {
    __m256i most = _mm256_setzero_si256(), middle = _mm256_set1_epi8(64);
    for (int64_t i = 0; i < bytes; i += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(b + i));
        most = _mm256_max_epu8(most, _mm256_add_epi8(x, middle));
    }
    most = _mm256_subs_epu8(most, _mm256_set1_epi8((char)128));
    return _mm256_testz_si256(most, most) != 0;
}

#include "backend/cpu/vec/matmul_bytes.inc"

/* Blocks that consist of tiles of 5 and 6 rows; with fewer the look at the weights costs more than
 * it brings. */
static bool takes_fours(const block *self) {
    const matmul *mm = self->mm;
    const int64_t depth = matmul_up(mm->k, MATMUL_GROUP) * MATMUL_GROUP;
    return self->rows >= 20 && mm->a_k == 1 && mm->a->dtype == RLX_DTYPE_U8 &&
           mm->b->dtype == RLX_DTYPE_I8 &&
           (self->is_new ? are_small(panel_of(self, 0), self->panels * depth * MATMUL_COLUMNS)
                         : self->is_small);
}

/* Bytes of a as they are, zeros behind them. */
static void pack_fours(const block *self, int64_t group, int64_t depth) {
    const matmul *mm = self->mm;
    const int64_t k = MATMUL_GROUP * group, room = 4 * matmul_up(depth, 2);
    const size_t bytes = (size_t)matmul_least(MATMUL_GROUP * depth, mm->k - k);
    const uint8_t *from = (const uint8_t *)mm->a->data + self->at->a + self->m * mm->a_m + k;
    for (int64_t i = 0; i < self->rows; i++, from += mm->a_m) {
        uint8_t *to = (uint8_t *)(self->a + i * A_STRIDE);
        memcpy(to, from, bytes);
        memset(to + bytes, 0, (size_t)room - bytes);
    }
}

static tile_fn tile_of_fours(int64_t rows) {
    return rows == 5 ? fours_5 : fours_6;
}

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
