/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of few rows with weights in blocks of 32 along k (q4_0, q8_0), as a language model has it
 * for each word: a column of weights is decoded in registers and multiplied with up to four rows at
 * once. Each lane of a vector sums its part of k; the lanes are added last. */
#include "backend/cpu/vec/matmul.h"
#include "backend/cpu/vec/rows.h"
#include "ir/dtype.h"

enum {
    BLOCK = 32,
    VECTORS = BLOCK / VF,
    ROWS = 4,                              /* at once */
    MOST_ROWS = 8,                         /* with more it is better to decode once, into memory */
    ITEM_PANELS = 2 * 16 / MATMUL_COLUMNS, /* so that an item has 32 columns */
};

typedef int8_t vb __attribute__((vector_size(VF)));

#if defined(__AVX2__) && RLX_VEC_BYTES == 32
VEC_INLINE vf of_bytes(__m128i x) {
    return (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
}
VEC_INLINE void decode_q4(const uint8_t *from, vf *to) {
    const __m128i low = _mm_set1_epi8(15), eight = _mm_set1_epi8(8);
    __m128i pairs = _mm_loadu_si128((const __m128i *)(const void *)from);
    __m128i first = _mm_sub_epi8(_mm_and_si128(pairs, low), eight);
    __m128i second = _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(pairs, 4), low), eight);
    to[0] = of_bytes(first);
    to[1] = of_bytes(_mm_srli_si128(first, 8));
    to[2] = of_bytes(second);
    to[3] = of_bytes(_mm_srli_si128(second, 8));
}
VEC_INLINE void decode_q8(const uint8_t *from, vf *to) {
    for (int i = 0; i < VECTORS; i++)
        to[i] = of_bytes(_mm_loadl_epi64((const __m128i *)(const void *)(from + i * VF)));
}
#else
VEC_INLINE void decode_q8(const uint8_t *from, vf *to) {
    for (int i = 0; i < VECTORS; i++) {
        vb bytes;
        memcpy(&bytes, from + i * VF, sizeof bytes);
        to[i] = vf_of(__builtin_convertvector(bytes, vi));
    }
}
VEC_INLINE void decode_q4(const uint8_t *from, vf *to) {
    uint8_t bytes[BLOCK];
    for (int i = 0; i < BLOCK / 2; i++) {
        bytes[i] = (uint8_t)((from[i] & 15) - 8);
        bytes[i + BLOCK / 2] = (uint8_t)((from[i] >> 4) - 8);
    }
    decode_q8(bytes, to);
}
#endif

VEC_INLINE vf scale_of(const uint8_t *block) {
    uint16_t bits;
    memcpy(&bits, block, sizeof bits);
    return vf_of_f16((vh){0} + bits);
}

/* A column of weights times `rows` rows of a. */
VEC_INLINE void dots(int rows, bool is_q4, const float *a, int64_t row, const uint8_t *b,
                     int64_t blocks, float *to) {
    const int64_t bytes = is_q4 ? 18 : 34;
    vf sums[ROWS] = {{0}}, w[VECTORS];
    for (int64_t i = 0; i < blocks; i++, b += bytes, a += BLOCK) {
        if (is_q4) {
            decode_q4(b + 2, w);
        } else {
            decode_q8(b + 2, w);
        }
        vf scale = scale_of(b);
        for (int r = 0; r < rows; r++) {
            const float *x = a + r * row;
            vf even = w[0] * vf_load(x), odd = w[1] * vf_load(x + VF);
            for (int v = 2; v < VECTORS; v += 2) {
                even = vf_fma(w[v], vf_load(x + v * VF), even);
                odd = vf_fma(w[v + 1], vf_load(x + (v + 1) * VF), odd);
            }
            sums[r] = vf_fma(even + odd, scale, sums[r]);
        }
    }
    for (int r = 0; r < rows; r++)
        to[r * MATMUL_COLUMNS] = vf_sum(sums[r]);
}

typedef void (*dots_fn)(const float *a, int64_t row, const uint8_t *b, int64_t blocks, float *to);
/* clang-format off */
#define DOTS(rows)                                                                         \
    static void q4_##rows(const float *a, int64_t row, const uint8_t *b, int64_t blocks,   \
                          float *to) {                                                     \
        dots(rows, true, a, row, b, blocks, to);                                           \
    }                                                                                      \
    static void q8_##rows(const float *a, int64_t row, const uint8_t *b, int64_t blocks,   \
                          float *to) {                                                     \
        dots(rows, false, a, row, b, blocks, to);                                          \
    }
DOTS(1) DOTS(2) DOTS(3) DOTS(4)
    /* clang-format on */
    /* By kind and number of rows. */
    static const dots_fn all_dots[2][ROWS] = {{q8_1, q8_2, q8_3, q8_4}, {q4_1, q4_2, q4_3, q4_4}};

/* Up to four rows of a as f32 side by side: where they are, or copied. */
static const float *rows_at(const matmul *mm, const matmul_batch *at, int64_t m, int64_t rows,
                            float *copy, int64_t *out_row) {
    *out_row = mm->a_m;
    if (mm->a->dtype == RLX_DTYPE_F32 && mm->a_k == 1)
        return (const float *)mm->a->data + at->a + m * mm->a_m;
    for (int64_t i = 0; i < rows; i++)
        vec_read_f32(mm->a, at->a + (m + i) * mm->a_m, mm->a_k, mm->k, copy + i * mm->k);
    *out_row = mm->k;
    return copy;
}

static void run_panel(const matmul *mm, const matmul_batch *at, int64_t n, float *copy) {
    _Alignas(64) float sums[ROWS * MATMUL_COLUMNS] = {0};
    int64_t columns = matmul_least(mm->n - n, MATMUL_COLUMNS), blocks = mm->k / BLOCK, row;
    bool is_q4 = mm->b->dtype == RLX_DTYPE_Q4_0;
    int64_t bytes = is_q4 ? 18 : 34;
    for (int64_t m = 0; m < mm->m; m += ROWS) {
        int64_t rows = matmul_least(mm->m - m, ROWS);
        const float *a = rows_at(mm, at, m, rows, copy, &row);
        for (int64_t i = 0; i < columns; i++) {
            const uint8_t *b = (const uint8_t *)mm->b->data;
            b += (at->b + (n + i) * mm->b_n) / BLOCK * bytes;
            all_dots[is_q4][rows - 1](a, row, b, blocks, sums + i);
        }
        for (int64_t r = 0; r < rows; r++)
            matmul_store_row(mm, at, m + r, n, sums + r * MATMUL_COLUMNS, columns);
    }
}

static int64_t items_of(const matmul *mm) {
    return matmul_up(mm->n, ITEM_PANELS * MATMUL_COLUMNS);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    matmul mm = matmul_make(args);
    int64_t per_batch = items_of(&mm);
    for (int64_t item = begin; item < end; item++) {
        matmul_batch at = rlx_cpu_matmul_batch_at(&mm, item / per_batch);
        int64_t first = item % per_batch * ITEM_PANELS * MATMUL_COLUMNS;
        for (int64_t p = 0; p < ITEM_PANELS && first < mm.n; p++, first += MATMUL_COLUMNS)
            run_panel(&mm, &at, first, args->workspace);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return mm.m == 0 || mm.n == 0 ? 0 : mm.batches * items_of(&mm);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return rlx_ref_cost(ITEM_PANELS * MATMUL_COLUMNS * (1 + mm.m) / 8, mm.k);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    bool is_direct = mm.a->dtype == RLX_DTYPE_F32 && mm.a_k == 1;
    return is_direct ? 0 : (uint64_t)(matmul_least(mm.m, ROWS) * mm.k) * sizeof(float);
}

static bool takes(const rlx_target_query *query) {
    const rlx_tensor *a = &query->in[0], *b = &query->in[1], *out = &query->out[0];
    int64_t rows = 1;
    bool is_block = b->dtype == RLX_DTYPE_Q4_0 || b->dtype == RLX_DTYPE_Q8_0;
    if (!is_block || b->rank != 2 || b->layout != RLX_LAYOUT_PLAIN || a->rank < 2) return false;
    for (uint32_t i = 0; i + 1 < out->rank; i++)
        rows =
            out->dims[i] > MOST_ROWS ? MOST_ROWS + 1 : matmul_least(rows * out->dims[i], 1 << 20);
    return rows <= MOST_ROWS && vec_is_float(a->dtype) && vec_is_float(out->dtype);
}

const rlx_cpu_override VEC_SYMBOL(matmul_blocks)[] = {
    {RLX_OP_MATMUL, 0, takes, {VEC_NAME("matmul_blocks"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
