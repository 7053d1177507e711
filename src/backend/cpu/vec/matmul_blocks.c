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
VEC_INLINE __m128i eight_bytes(const uint8_t *from) {
    return _mm_loadl_epi64((const __m128i *)(const void *)from);
}
/* 0 to 15: the eight that is to be taken away comes with the rows, see `ready`. */
VEC_INLINE void decode_q4(const uint8_t *from, vf *to) {
    const __m256i low = _mm256_set1_epi32(15);
    for (int i = 0; i < 2; i++) {
        __m256i pairs = _mm256_cvtepu8_epi32(eight_bytes(from + 8 * i));
        to[i] = (vf)_mm256_cvtepi32_ps(_mm256_and_si256(pairs, low));
        to[i + 2] = (vf)_mm256_cvtepi32_ps(_mm256_srli_epi32(pairs, 4));
    }
}
VEC_INLINE void decode_q8(const uint8_t *from, vf *to) {
    for (int i = 0; i < VECTORS; i++)
        to[i] = (vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes(from + i * VF)));
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
        bytes[i] = from[i] & 15;
        bytes[i + BLOCK / 2] = from[i] >> 4;
    }
    decode_q8(bytes, to);
}
#endif

VEC_INLINE vf scale_of(const uint8_t *block) {
    uint16_t bits;
    memcpy(&bits, block, sizeof bits);
    return vf_of_f16((vh){0} + bits);
}

/* Infinities and numbers near them are multiplied with the weights that they have. */
typedef enum dots_kind { DOTS_Q8, DOTS_Q4, DOTS_Q4_WILD } dots_kind;

/* The rows of a batch. */
typedef struct ready {
    const float *a; /* as f32, side by side: where they are, or copied */
    int64_t row;    /* how far apart they are */
    /* What 4-bit weights have too much: minus eight times the sum over a block, lane by lane;
     * [row][block][VF]. */
    const float *less;
    int64_t blocks;
    bool is_tame; /* no number so large that weights from 0 to 15 would lead elsewhere */
} ready;

/* A column of weights times `rows` rows of a from row m on. */
VEC_INLINE void dots(int rows, dots_kind kind, const ready *of, int64_t m, const uint8_t *b,
                     float *to) {
    const bool is_q4 = kind != DOTS_Q8;
    const int64_t bytes = is_q4 ? 18 : 34, row = of->row, less_row = of->blocks * VF;
    const float *a = of->a + m * row, *less = kind == DOTS_Q4 ? of->less + m * less_row : a;
    vf sums[ROWS] = {{0}}, w[VECTORS];
#pragma GCC unroll 2
    for (int64_t i = 0; i < of->blocks; i++, b += bytes, a += BLOCK, less += VF) {
        vf scale = scale_of(b);
        if (is_q4) {
            decode_q4(b + 2, w);
            for (int v = 0; v < VECTORS && kind == DOTS_Q4_WILD; v++)
                w[v] = (w[v] - 8) * scale; /* before it meets anything large */
        } else {
            decode_q8(b + 2, w);
        }
        for (int r = 0; r < rows; r++) {
            const float *x = a + r * row;
            vf odd = w[1] * vf_load(x + VF);
            vf even = {0};
            if (kind == DOTS_Q4) even = vf_load(less + r * less_row);
            even = kind == DOTS_Q4 ? vf_fma(w[0], vf_load(x), even) : w[0] * vf_load(x);
            for (int v = 2; v < VECTORS; v += 2) {
                even = vf_fma(w[v], vf_load(x + v * VF), even);
                odd = vf_fma(w[v + 1], vf_load(x + (v + 1) * VF), odd);
            }
            sums[r] =
                kind == DOTS_Q4_WILD ? sums[r] + (even + odd) : vf_fma(even + odd, scale, sums[r]);
        }
    }
    for (int r = 0; r < rows; r++)
        to[r * MATMUL_COLUMNS] = vf_sum(sums[r]);
}

typedef void (*dots_fn)(const ready *of, int64_t m, const uint8_t *b, float *to);
/* clang-format off */
#define DOTS(rows)                                                                         \
    static void q4_##rows(const ready *of, int64_t m, const uint8_t *b, float *to) {       \
        dots(rows, DOTS_Q4, of, m, b, to);                                                  \
    }                                                                                      \
    static void q8_##rows(const ready *of, int64_t m, const uint8_t *b, float *to) {       \
        dots(rows, DOTS_Q8, of, m, b, to);                                                  \
    }
DOTS(1) DOTS(2) DOTS(3) DOTS(4)
    /* clang-format on */
    /* By kind and number of rows. */
    static const dots_fn all_dots[2][ROWS] = {{q8_1, q8_2, q8_3, q8_4}, {q4_1, q4_2, q4_3, q4_4}};

static void q4_wild(const ready *of, int64_t m, int64_t rows, const uint8_t *b, float *to) {
    for (int64_t i = 0; i < rows; i++)
        dots(1, DOTS_Q4_WILD, of, m + i, b, to + i * MATMUL_COLUMNS);
}

static bool is_direct(const matmul *mm) {
    return mm->a->dtype == RLX_DTYPE_F32 && mm->a_k == 1;
}

static bool is_q4(const matmul *mm) {
    return mm->b->dtype == RLX_DTYPE_Q4_0;
}

/* Floats of workspace that copied rows take. */
static int64_t copied(const matmul *mm) {
    return is_direct(mm) ? 0 : mm->m * mm->k;
}

static ready ready_rows(const matmul *mm, const matmul_batch *at, float *workspace) {
    float *less = is_q4(mm) ? workspace + copied(mm) : workspace;
    const float large = 1e36f;
    vf most = {0};
    ready of = {workspace, mm->k, less, mm->k / BLOCK, true};
    if (is_direct(mm)) of.a = (const float *)mm->a->data + at->a, of.row = mm->a_m;
    for (int64_t i = 0; i < mm->m && !is_direct(mm); i++)
        vec_read_f32(mm->a, at->a + i * mm->a_m, mm->a_k, mm->k, workspace + i * mm->k);
    for (int64_t i = 0; i < mm->m && is_q4(mm); i++) {
        const float *x = of.a + i * of.row;
        for (int64_t block = 0; block < of.blocks; block++, less += VF) {
            vf sum = {0};
            for (int v = 0; v < VECTORS; v++, x += VF) {
                sum += vf_load(x);
                most = vf_max(vf_max(vf_load(x), -vf_load(x)), most);
            }
            vf_store(less, sum * -8);
        }
    }
    for (int i = 0; i < VF; i++)
        of.is_tame = of.is_tame && most[i] < large;
    return of;
}

static void run_panel(const matmul *mm, const matmul_batch *at, const ready *of, int64_t n) {
    _Alignas(64) float sums[ROWS * MATMUL_COLUMNS] = {0};
    int64_t columns = matmul_least(mm->n - n, MATMUL_COLUMNS), bytes = is_q4(mm) ? 18 : 34;
    for (int64_t m = 0; m < mm->m; m += ROWS) {
        int64_t rows = matmul_least(mm->m - m, ROWS);
        for (int64_t i = 0; i < columns; i++) {
            const uint8_t *b = (const uint8_t *)mm->b->data;
            b += (at->b + (n + i) * mm->b_n) / BLOCK * bytes;
            if (of->is_tame) {
                all_dots[is_q4(mm)][rows - 1](of, m, b, sums + i);
            } else {
                q4_wild(of, m, rows, b, sums + i);
            }
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
    matmul_batch at = {0};
    ready of = {0};
    for (int64_t item = begin; item < end; item++) {
        int64_t first = item % per_batch * ITEM_PANELS * MATMUL_COLUMNS;
        if (item == begin || item % per_batch == 0) {
            at = rlx_cpu_matmul_batch_at(&mm, item / per_batch);
            of = ready_rows(&mm, &at, args->workspace);
        }
        for (int64_t p = 0; p < ITEM_PANELS && first < mm.n; p++, first += MATMUL_COLUMNS)
            run_panel(&mm, &at, &of, first);
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
    int64_t less = is_q4(&mm) ? mm.m * (mm.k / BLOCK) * VF : 0;
    return (uint64_t)(copied(&mm) + less) * sizeof(float);
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
