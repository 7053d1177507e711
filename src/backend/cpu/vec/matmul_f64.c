/* SPDX-License-Identifier: Apache-2.0 */
/* Bare matmul of f64: transforms (DFT, STFT) are such products. An item is a panel of columns for
 * some rows of the output; its part of b is copied side by side, a block of k at a time, and a is
 * read where it is. Products with a bias, a residual or an activation are left to scalar C. */
#include "backend/cpu/vec/matmul.h"
#include "backend/cpu/vec/vec_double.h"

enum {
    HALF = RLX_VEC_BYTES / 8,
    COLUMNS = 2 * HALF,
    ROWS = 6, /* of a tile */
    ITEM_ROWS = 8 * ROWS,
    DEPTH = 256
};

/* Columns [n, n + columns) from k on, as [depth][COLUMNS]; those past the end are zero. */
static void pack_panel(const matmul *mm, const double *b, int64_t columns, int64_t depth,
                       double *to) {
    for (int64_t k = 0; k < depth; k++, to += COLUMNS, b += mm->b_k) {
        if (columns == COLUMNS && mm->b_n == 1) {
            memcpy(to, b, COLUMNS * sizeof *to);
            continue;
        }
        for (int64_t j = 0; j < COLUMNS; j++)
            to[j] = j < columns ? b[j * mm->b_n] : 0;
    }
}

VEC_INLINE vd_half load(const double *from) {
    vd_half x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* sums[rows][COLUMNS] += a b; `rows` is a constant. */
VEC_INLINE void tile(int rows, const matmul *mm, const double *a, const double *b, int64_t depth,
                     double *sums) {
    vd_half x[ROWS][2];
    for (int i = 0; i < rows; i++)
        x[i][0] = load(sums + i * COLUMNS), x[i][1] = load(sums + i * COLUMNS + HALF);
    for (int64_t k = 0; k < depth; k++, b += COLUMNS, a += mm->a_k) {
        vd_half low = load(b), high = load(b + HALF);
        VEC_UNROLLED for (int i = 0; i < rows; i++) {
            vd_half s = a[i * mm->a_m] - (vd_half){0};
            x[i][0] = vd_fma(s, low, x[i][0]);
            x[i][1] = vd_fma(s, high, x[i][1]);
        }
    }
    for (int i = 0; i < rows; i++) {
        memcpy(sums + i * COLUMNS, &x[i][0], sizeof x[i][0]);
        memcpy(sums + i * COLUMNS + HALF, &x[i][1], sizeof x[i][1]);
    }
}

static void run_tile(const matmul *mm, int64_t rows, const double *a, const double *b,
                     int64_t depth, double *sums) {
    for (; rows >= ROWS; rows -= ROWS, a += ROWS * mm->a_m, sums += ROWS * COLUMNS)
        tile(ROWS, mm, a, b, depth, sums);
    for (; rows >= 2; rows -= 2, a += 2 * mm->a_m, sums += 2 * COLUMNS)
        tile(2, mm, a, b, depth, sums);
    if (rows > 0) tile(1, mm, a, b, depth, sums);
}

static void run_item(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n) {
    _Alignas(64) double panel[DEPTH * COLUMNS], sums[ITEM_ROWS * COLUMNS];
    int64_t rows = matmul_least(mm->m - m, ITEM_ROWS), columns = matmul_least(mm->n - n, COLUMNS);
    const double *a = (const double *)mm->a->data + at->a + m * mm->a_m;
    const double *b = (const double *)mm->b->data + at->b + n * mm->b_n;
    double *out = (double *)mm->out->data + at->out + m * mm->out_m + n * mm->out_n;
    memset(sums, 0, (size_t)(rows * COLUMNS) * sizeof *sums);
    for (int64_t k = 0; k < mm->k; k += DEPTH) {
        int64_t depth = matmul_least(DEPTH, mm->k - k);
        pack_panel(mm, b + k * mm->b_k, columns, depth, panel);
        run_tile(mm, rows, a + k * mm->a_k, panel, depth, sums);
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            out[i * mm->out_m + j * mm->out_n] = sums[i * COLUMNS + j];
    }
}

static int64_t panels_of(const matmul *mm) {
    return matmul_up(mm->n, COLUMNS);
}

static int64_t row_blocks_of(const matmul *mm) {
    return matmul_up(mm->m, ITEM_ROWS);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    matmul mm = matmul_make(args);
    int64_t panels = panels_of(&mm), per_batch = panels * row_blocks_of(&mm);
    for (int64_t item = begin; item < end; item++) {
        matmul_batch at = rlx_cpu_matmul_batch_at(&mm, item / per_batch);
        int64_t rest = item % per_batch;
        run_item(&mm, &at, rest / panels * ITEM_ROWS, rest % panels * COLUMNS);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return mm.batches * panels_of(&mm) * row_blocks_of(&mm);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    matmul mm = matmul_make(args);
    return rlx_ref_cost(matmul_least(mm.m, ITEM_ROWS) * COLUMNS / 4, mm.k);
}

static bool takes(const rlx_target_query *query) {
    const rlx_matmul_attrs *attrs = query->attrs;
    return query->in[0].dtype == RLX_DTYPE_F64 && query->in[1].dtype == RLX_DTYPE_F64 &&
           query->out[0].dtype == RLX_DTYPE_F64 && query->in[1].layout == RLX_LAYOUT_PLAIN &&
           query->in_count == 2 && (attrs->alpha == 0 || attrs->alpha == 1) && !attrs->gated &&
           attrs->activation.op == RLX_OP_NONE;
}

const rlx_cpu_override VEC_SYMBOL(matmul_f64)[] = {
    {RLX_OP_MATMUL, 0, takes, {VEC_NAME("matmul_f64"), run, items, item_cost, NULL}},
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
