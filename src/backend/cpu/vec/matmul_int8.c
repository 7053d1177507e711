/* SPDX-License-Identifier: Apache-2.0 */
/* matmul of 8-bit integers to 32 bits, weights in panels with k in pairs. Both operands are widened
 * to 16 bits, where a product of a pair cannot overflow (the 8-bit multiply-add of AVX2 would
 * saturate), so the result is exact modulo 2^32, like scalar C. */
#include "backend/cpu/vec/matmul.h"
#include "ref/tile.h"

#if defined(__x86_64__)

enum {
    PAIRS = 256,         /* of k in a block */
    BLOCK_ROWS = 96,     /* rows of an item at most */
    BLOCK_PANELS = 16,   /* panels of an item at most */
    WANTED_ITEMS = 16,   /* large products have at least so many items */
    LEAST_ITEM = 1 << 19 /* but none is cut below so many multiply-adds */
};

#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vi pairs_times(vi a, vi b) {
    return (vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}
VEC_INLINE vi widen(const uint8_t *from, bool is_signed) {
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return (vi)(is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes));
}
#else
typedef union vec_integers {
    vi v;
    __m256i n[RLX_VEC_BYTES / 32];
} vec_integers;
VEC_INLINE vi pairs_times(vi a, vi b) {
    vec_integers x = {a}, y = {b}, r;
    for (int p = 0; p < RLX_VEC_BYTES / 32; p++)
        r.n[p] = _mm256_madd_epi16(x.n[p], y.n[p]);
    return r.v;
}
VEC_INLINE vi widen(const uint8_t *from, bool is_signed) {
    vec_integers r;
    for (int p = 0; p < RLX_VEC_BYTES / 32; p++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(from + 16 * p));
        r.n[p] = is_signed ? _mm256_cvtepi8_epi16(bytes) : _mm256_cvtepu8_epi16(bytes);
    }
    return r.v;
}
#endif

/* c (+)= a b over `depth` pairs of k. a is [depth][rows] of two i16, b [depth][MATMUL_COLUMNS] of
 * two bytes, c [rows][MATMUL_COLUMNS]. */
typedef void (*tile_fn)(const int32_t *a, const uint8_t *b, int64_t depth, int32_t *c,
                        bool is_first);

VEC_INLINE void tile(int rows, bool is_signed, const int32_t *a, const uint8_t *b, int64_t depth,
                     int32_t *c, bool is_first) {
    vi x[MATMUL_ROWS][2];
#pragma GCC unroll 12
    for (int i = 0; i < rows; i++)
        x[i][0] = x[i][1] = (vi){0};
    if (!is_first) memcpy(x, c, (size_t)rows * sizeof *x);
    for (int64_t k = 0; k < depth; k++) {
        vi b0 = widen(b, is_signed), b1 = widen(b + 2 * VF, is_signed);
#pragma GCC unroll 12
        for (int i = 0; i < rows; i++) {
            vi s = vi_set(a[i]);
            x[i][0] += pairs_times(s, b0);
            x[i][1] += pairs_times(s, b1);
        }
        a += rows;
        b += 4 * VF;
    }
    memcpy(c, x, (size_t)rows * sizeof *x);
}

/* clang-format off */
#define TILE(n)                                                                             \
    static void signed_##n(const int32_t *a, const uint8_t *b, int64_t depth, int32_t *c,    \
                           bool is_first) {                                                 \
        tile(n, true, a, b, depth, c, is_first);                                            \
    }                                                                                       \
    static void unsigned_##n(const int32_t *a, const uint8_t *b, int64_t depth, int32_t *c,  \
                             bool is_first) {                                               \
        tile(n, false, a, b, depth, c, is_first);                                           \
    }
TILE(1) TILE(2) TILE(3) TILE(4) TILE(5) TILE(6)
#define NAMES_6(s) NULL, s##_1, s##_2, s##_3, s##_4, s##_5, s##_6
#if RLX_VEC_BYTES == 64
TILE(7) TILE(8) TILE(9) TILE(10) TILE(11) TILE(12)
#define NAMES(s) NAMES_6(s), s##_7, s##_8, s##_9, s##_10, s##_11, s##_12
#else
#define NAMES NAMES_6
#endif
static const tile_fn tiles[2][MATMUL_ROWS + 1] = {{NAMES(unsigned)}, {NAMES(signed)}};
/* clang-format on */

/* How the output of one batch is cut: from shapes alone. */
typedef struct cut {
    int64_t row_blocks, column_blocks, rows, panels;
} cut;

static cut cut_of(const matmul *mm) {
    int64_t panels = matmul_up(mm->n, MATMUL_COLUMNS);
    cut by = {.row_blocks = matmul_up(mm->m, BLOCK_ROWS),
              .column_blocks = matmul_up(panels, BLOCK_PANELS)};
    if (by.row_blocks < 1) by.row_blocks = 1;
    if (by.column_blocks < 1) by.column_blocks = 1;
    for (;;) {
        by.rows = matmul_up(mm->m, by.row_blocks);
        by.panels = matmul_up(panels, by.column_blocks);
        int64_t cost = rlx_ref_cost(by.rows * by.panels * MATMUL_COLUMNS, mm->k);
        if (by.row_blocks * by.column_blocks * mm->batches >= WANTED_ITEMS ||
            cost < 2 * LEAST_ITEM || by.panels < 2) {
            return by;
        }
        by.column_blocks = matmul_least(2 * by.column_blocks, panels);
    }
}

/* Floats of a's block and of the sums; they grow with every dim. */
static int64_t a_room(const matmul *mm) {
    return matmul_least(mm->m, BLOCK_ROWS) * matmul_least(matmul_up(mm->k, 2), PAIRS);
}
static int64_t sums_room(const matmul *mm) {
    return matmul_least(mm->m, BLOCK_ROWS) *
           matmul_least(matmul_up(mm->n, MATMUL_COLUMNS), BLOCK_PANELS) * MATMUL_COLUMNS;
}

/* Part `index` of `count` equal ones. */
static int64_t part_start(int64_t whole, int64_t count, int64_t index) {
    return whole / count * index + matmul_least(index, whole % count);
}

static int32_t element(const matmul *mm, int64_t at) {
    const void *data = mm->a->data;
    return mm->a->dtype == RLX_DTYPE_I8 ? ((const int8_t *)data)[at] : ((const uint8_t *)data)[at];
}

/* Rows of a as [pair][rows]; an odd k ends with a zero. */
static void pack_a(const matmul *mm, int64_t base, int64_t rows, int64_t pair, int64_t depth,
                   int32_t *to) {
    for (int64_t i = 0; i < rows; i++) {
        int64_t from = base + i * mm->a_m;
        for (int64_t j = 0; j < depth; j++) {
            int64_t k = 2 * (pair + j);
            int32_t low = element(mm, from + k * mm->a_k);
            int32_t high = k + 1 < mm->k ? element(mm, from + (k + 1) * mm->a_k) : 0;
            to[j * rows + i] = (int32_t)(((uint32_t)high << 16) | ((uint32_t)low & 0xffff));
        }
    }
}

static void store_row(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n,
                      const int32_t *sums) {
    uint32_t values[MATMUL_COLUMNS];
    int64_t count = matmul_least(mm->n - n, MATMUL_COLUMNS);
    rlx_ref_addend bias = {mm->bias, at->bias + m * mm->bias_m + n * mm->bias_n, mm->bias_n};
    rlx_ref_addend residual = {mm->residual, at->residual + m * mm->residual_m + n * mm->residual_n,
                               mm->residual_n};
    if (mm->out_n == 1 && mm->bias->data == NULL && mm->residual->data == NULL) {
        memcpy((int32_t *)mm->out->data + at->out + m * mm->out_m + n, sums,
               (size_t)count * sizeof *sums);
        return;
    }
    memcpy(values, sums, sizeof values);
    rlx_ref_finish_u32(values, count, bias, residual, &mm->activation);
    rlx_ref_write_u32(mm->out, at->out + m * mm->out_m + n * mm->out_n, mm->out_n, count, values);
}

static void run_block(const matmul *mm, const matmul_batch *at, int64_t m, int64_t rows,
                      int64_t first_panel, int64_t panels, int32_t *a, int32_t *sums) {
    int64_t pairs = matmul_up(mm->k, 2), count = matmul_up(rows, MATMUL_ROWS);
    const tile_fn *of = tiles[mm->b->dtype == RLX_DTYPE_I8];
    for (int64_t k = 0, depth; k < pairs; k += depth) {
        depth = matmul_least(PAIRS, pairs - k);
        for (int64_t t = 0; t < count; t++) {
            int64_t first = part_start(rows, count, t), end = part_start(rows, count, t + 1);
            pack_a(mm, at->a + (m + first) * mm->a_m, end - first, k, depth, a + first * depth);
        }
        for (int64_t p = 0; p < panels; p++) {
            const uint8_t *b = (const uint8_t *)mm->b->data + at->b +
                               ((first_panel + p) * pairs + k) * 2 * MATMUL_COLUMNS;
            for (int64_t t = 0; t < count; t++) {
                int64_t first = part_start(rows, count, t), end = part_start(rows, count, t + 1);
                of[end - first](a + first * depth, b, depth,
                                sums + (p * rows + first) * MATMUL_COLUMNS, k == 0);
            }
        }
    }
    if (pairs == 0) memset(sums, 0, (size_t)(panels * rows * MATMUL_COLUMNS) * sizeof *sums);
    for (int64_t p = 0; p < panels; p++) {
        for (int64_t i = 0; i < rows; i++)
            store_row(mm, at, m + i, (first_panel + p) * MATMUL_COLUMNS,
                      sums + (p * rows + i) * MATMUL_COLUMNS);
    }
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    matmul mm = matmul_make(args);
    cut by = cut_of(&mm);
    int32_t *a = args->workspace, *sums = a + a_room(&mm);
    int64_t panels = matmul_up(mm.n, MATMUL_COLUMNS), per_batch = by.row_blocks * by.column_blocks;
    for (int64_t item = begin; item < end; item++) {
        int64_t rest = item % per_batch;
        int64_t row = rest % by.row_blocks, column = rest / by.row_blocks;
        matmul_batch at = matmul_batch_at(&mm, item / per_batch);
        int64_t m = part_start(mm.m, by.row_blocks, row);
        int64_t panel = part_start(panels, by.column_blocks, column);
        run_block(&mm, &at, m, part_start(mm.m, by.row_blocks, row + 1) - m, panel,
                  part_start(panels, by.column_blocks, column + 1) - panel, a, sums);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    cut by = cut_of(&mm);
    if (mm.m == 0 || mm.n == 0) return 0;
    return mm.batches * by.row_blocks * by.column_blocks;
}

static int64_t item_cost(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    cut by = cut_of(&mm);
    return rlx_ref_cost(by.rows * by.panels * MATMUL_COLUMNS, mm.k) / 16;
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return (uint64_t)(a_room(&mm) + sums_room(&mm)) * sizeof(int32_t);
}

static bool is_byte(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_I8 || dtype == RLX_DTYPE_U8;
}

static bool takes(const rlx_target_query *query) {
    rlx_layout columns = VF < 16 ? RLX_LAYOUT_COLUMNS16X2 : RLX_LAYOUT_COLUMNS32X2;
    rlx_layout rows = VF < 16 ? RLX_LAYOUT_ROWS16X2 : RLX_LAYOUT_ROWS32X2;
    const rlx_tensor *b = &query->in[1], *out = &query->out[0];
    const rlx_matmul_attrs *attrs = query->attrs;
    return !attrs->gated && is_byte(query->in[0].dtype) && is_byte(b->dtype) &&
           (out->dtype == RLX_DTYPE_I32 || out->dtype == RLX_DTYPE_U32) &&
           query->in[0].layout == RLX_LAYOUT_PLAIN && (b->layout == columns || b->layout == rows);
}

const rlx_cpu_override VEC_SYMBOL(matmul_int8)[] = {
    {RLX_OP_MATMUL, 0, takes, {VEC_NAME("matmul_int8"), run, items, item_cost, workspace_bytes}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};

#else
const rlx_cpu_override VEC_SYMBOL(matmul_int8)[] = {
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
#endif
