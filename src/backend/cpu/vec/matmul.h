/* SPDX-License-Identifier: Apache-2.0 */
/* What the matmul kernels of this folder share: the operands of a step as [batch..][m][k] x
 * [batch..][k][n], how the output is cut into items, and the store of a finished tile. Sums run
 * over k in index order, one accumulator per output element (fused multiply-adds, blocks of k one
 * after the other), so no split of the items changes a bit. */
#ifndef RLX_BACKEND_CPU_VEC_MATMUL_H
#define RLX_BACKEND_CPU_VEC_MATMUL_H

#include "backend/cpu/vec/activation.h"
#include "backend/cpu/vec/convert.h"
#include "ref/access.h"

enum {
    MATMUL_COLUMNS = 2 * VF, /* of a tile and of a panel: two vectors */
    MATMUL_ROWS = VF < 16 ? 6 : 12,
};

/* The operands; strides in elements. A bias or residual without data has data NULL. */
typedef struct matmul {
    const rlx_tensor *a, *b, *bias, *residual, *out;
    int64_t m, n, k, batches;
    uint32_t batch_rank;
    int64_t batch_dims[RLX_MAX_RANK];
    int64_t a_batch[RLX_MAX_RANK], b_batch[RLX_MAX_RANK], out_batch[RLX_MAX_RANK];
    int64_t bias_batch[RLX_MAX_RANK], residual_batch[RLX_MAX_RANK];
    int64_t a_m, a_k, b_k, b_n, out_m, out_n, bias_m, bias_n, residual_m, residual_n;
    float alpha;
    bool gated;
    bool is_simple; /* f32 with columns side by side: the store needs no detour */
    bool is_bare;   /* and nothing is done to the sums */
    rlx_activation activation;
} matmul;

/* Where one batch begins, in elements of each operand. */
typedef struct matmul_batch {
    int64_t a, b, out, bias, residual;
} matmul_batch;

VEC_INLINE int64_t matmul_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}
VEC_INLINE int64_t matmul_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* Splits the strides of something broadcast to the output into batch, row and column. */
static void matmul_output_strides(const rlx_tensor *tensor, const rlx_tensor *out, bool has_m,
                                  bool has_n, int64_t *batch, int64_t *m, int64_t *n) {
    int64_t strides[RLX_MAX_RANK];
    uint32_t rank = out->rank;
    rlx_ref_broadcast_strides(tensor, rank, strides);
    *n = has_n ? strides[--rank] : 0;
    *m = has_m ? strides[--rank] : 0;
    memcpy(batch, strides, rank * sizeof *batch);
}

static void matmul_batch_strides(const rlx_tensor *tensor, uint32_t batch_rank, int64_t *strides) {
    rlx_tensor batch = *tensor;
    batch.rank = tensor->rank > 2 ? tensor->rank - 2 : 0;
    rlx_ref_broadcast_strides(&batch, batch_rank, strides);
}

/* A packed b has its batches one after the other; `matrix` elements each. */
static void matmul_packed_batches(matmul *mm, int64_t matrix) {
    uint32_t count = mm->b->rank - 2;
    for (uint32_t i = count; i-- > 0;) {
        mm->b_batch[mm->batch_rank - count + i] = mm->b->dims[i] == 1 ? 0 : matrix;
        matrix *= mm->b->dims[i];
    }
}

static void matmul_operands(matmul *mm, const rlx_matmul_attrs *attrs) {
    const rlx_tensor *a = mm->a, *b = mm->b;
    uint32_t am = a->rank - 2, ak = a->rank - 1, bk = b->rank - 2, bn = b->rank - 1;
    if (attrs->transpose_a) am = a->rank - 1, ak = a->rank - 2;
    if (attrs->transpose_b) bk = b->rank - 1, bn = b->rank - 2;
    mm->m = mm->n = 1;
    if (a->rank == 1) {
        mm->k = a->dims[0], mm->a_k = a->strides[0];
    } else {
        mm->m = a->dims[am], mm->a_m = a->strides[am];
        mm->k = a->dims[ak], mm->a_k = a->strides[ak];
    }
    if (b->rank == 1) {
        mm->b_k = b->strides[0];
    } else {
        mm->n = b->dims[bn], mm->b_n = b->strides[bn], mm->b_k = b->strides[bk];
    }
}

/* Whether the last batch axis continues the rows of an operand. */
static bool matmul_continues(int64_t batch, int64_t row, int64_t rows) {
    return batch == rows * row;
}

/* Batches that share b become more rows. */
static void matmul_join_batches(matmul *mm) {
    while (mm->batch_rank > 0) {
        uint32_t last = mm->batch_rank - 1;
        bool is_single = mm->batch_dims[last] == 1;
        bool joins = mm->b_batch[last] == 0 && mm->m > 0 &&
                     matmul_continues(mm->a_batch[last], mm->a_m, mm->m) &&
                     matmul_continues(mm->out_batch[last], mm->out_m, mm->m) &&
                     matmul_continues(mm->bias_batch[last], mm->bias_m, mm->m) &&
                     matmul_continues(mm->residual_batch[last], mm->residual_m, mm->m);
        if (mm->m == 1 && !is_single && mm->b_batch[last] == 0) {
            /* One row each: the batch axis is the row axis. */
            mm->a_m = mm->a_batch[last], mm->out_m = mm->out_batch[last];
            mm->bias_m = mm->bias_batch[last], mm->residual_m = mm->residual_batch[last];
            joins = true;
        }
        if (!is_single && !joins) return;
        mm->m *= mm->batch_dims[last];
        mm->batch_rank = last;
    }
}

/* How many of k lie side by side in a packed b. */
static int64_t matmul_group(rlx_layout layout) {
    switch (layout) {
    case RLX_LAYOUT_COLUMNS16X2:
    case RLX_LAYOUT_COLUMNS32X2:
    case RLX_LAYOUT_ROWS16X2:
    case RLX_LAYOUT_ROWS32X2:
        return 2;
    case RLX_LAYOUT_COLUMNS32X4:
    case RLX_LAYOUT_ROWS32X4:
        return 4;
    default:
        return 1;
    }
}

static inline matmul matmul_make(const rlx_kernel_args *args) {
    static const rlx_tensor absent = {0};
    const rlx_matmul_attrs *attrs = args->attrs;
    matmul mm = {.a = &args->in[0],
                 .b = &args->in[1],
                 .bias = args->in_count > 2 ? &args->in[2] : &absent,
                 .residual = args->in_count > 3 ? &args->in[3] : &absent,
                 .out = &args->out[0],
                 .alpha = attrs->alpha == 0 ? 1 : (float)attrs->alpha,
                 .gated = attrs->gated,
                 .activation = attrs->activation};
    bool has_m = mm.a->rank > 1, has_n = mm.b->rank > 1;
    matmul_operands(&mm, attrs);
    mm.batch_rank = mm.out->rank - has_m - has_n;
    memcpy(mm.batch_dims, mm.out->dims, sizeof mm.batch_dims);
    matmul_batch_strides(mm.a, mm.batch_rank, mm.a_batch);
    matmul_batch_strides(mm.b, mm.batch_rank, mm.b_batch);
    matmul_output_strides(mm.out, mm.out, has_m, has_n, mm.out_batch, &mm.out_m, &mm.out_n);
    matmul_output_strides(mm.bias, mm.out, has_m, has_n, mm.bias_batch, &mm.bias_m, &mm.bias_n);
    matmul_output_strides(mm.residual, mm.out, has_m, has_n, mm.residual_batch, &mm.residual_m,
                          &mm.residual_n);
    if (mm.b->layout != RLX_LAYOUT_PLAIN) {
        int64_t group = matmul_group(mm.b->layout), depth = matmul_up(mm.k, group) * group;
        matmul_packed_batches(&mm, depth * matmul_up(mm.n, MATMUL_COLUMNS) * MATMUL_COLUMNS);
    }
    matmul_join_batches(&mm);
    mm.batches = 1;
    for (uint32_t i = 0; i < mm.batch_rank; i++)
        mm.batches *= mm.batch_dims[i];
    mm.is_simple = mm.out->dtype == RLX_DTYPE_F32 && (mm.out_n == 1 || mm.n == 1) &&
                   (mm.bias->data == NULL || (mm.bias->dtype == RLX_DTYPE_F32 && mm.bias_n <= 1)) &&
                   (mm.residual->data == NULL ||
                    (mm.residual->dtype == RLX_DTYPE_F32 && mm.residual_n <= 1)) &&
                   mm.bias_n >= 0 && mm.residual_n >= 0;
    mm.is_bare = mm.is_simple && mm.alpha == 1 && mm.bias->data == NULL &&
                 mm.residual->data == NULL && mm.activation.op == RLX_OP_NONE;
    return mm;
}

static inline matmul_batch matmul_batch_at(const matmul *mm, int64_t batch) {
    matmul_batch at;
    at.a = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->a_batch, batch);
    at.b = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->b_batch, batch);
    at.out = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->out_batch, batch);
    at.bias = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->bias_batch, batch);
    at.residual = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->residual_batch, batch);
    return at;
}

/* Some numbers of an f32 addend: a vector side by side, or one for all. */
VEC_INLINE vf matmul_addend(const float *from, int64_t stride, int64_t count) {
    if (stride == 0) return vf_set(*from);
    return count >= VF ? vf_load(from) : vf_load_n(from, count);
}

/* One vector of results of row m from column n on, `count` of them wanted. */
VEC_INLINE void matmul_store_vector(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n,
                                    vf x, int64_t count) {
    float *to = (float *)mm->out->data + at->out + m * mm->out_m + n;
    vf more = {0};
    if (mm->alpha != 1) x *= mm->alpha;
    if (mm->bias->data != NULL) {
        const float *bias = (const float *)mm->bias->data + at->bias + m * mm->bias_m;
        x += matmul_addend(bias + n * mm->bias_n, mm->bias_n, count);
    }
    if (mm->residual->data != NULL) {
        const float *residual =
            (const float *)mm->residual->data + at->residual + m * mm->residual_m;
        more = matmul_addend(residual + n * mm->residual_n, mm->residual_n, count);
        if (!mm->gated) x += more;
    }
    x = vf_activation(&mm->activation, x);
    if (mm->gated) x *= more;
    if (count >= VF) {
        vf_store(to, x);
    } else {
        vf_store_n(to, x, count);
    }
}

/* The same for any dtypes and strides: a row of `count` results (at most MATMUL_COLUMNS). */
static __attribute__((noinline, unused)) void matmul_store_row(const matmul *mm,
                                                               const matmul_batch *at, int64_t m,
                                                               int64_t n, float *row,
                                                               int64_t count) {
    float more[MATMUL_COLUMNS];
    if (mm->alpha != 1) {
        for (int64_t i = 0; i < count; i++)
            row[i] *= mm->alpha;
    }
    if (mm->bias->data != NULL) {
        vec_read_f32(mm->bias, at->bias + m * mm->bias_m + n * mm->bias_n, mm->bias_n, count, more);
        for (int64_t i = 0; i < count; i++)
            row[i] += more[i];
    }
    if (mm->residual->data != NULL) {
        vec_read_f32(mm->residual, at->residual + m * mm->residual_m + n * mm->residual_n,
                     mm->residual_n, count, more);
        for (int64_t i = 0; !mm->gated && i < count; i++)
            row[i] += more[i];
    }
    vec_activation_run(&mm->activation, row, count);
    for (int64_t i = 0; mm->gated && i < count; i++)
        row[i] *= more[i];
    vec_write_f32(mm->out, at->out + m * mm->out_m + n * mm->out_n, mm->out_n, count, row);
}

/* A finished row of a tile: two vectors. */
VEC_INLINE void matmul_store(const matmul *mm, const matmul_batch *at, int64_t m, int64_t n, vf x,
                             vf y, int64_t count) {
    if (mm->is_simple) {
        matmul_store_vector(mm, at, m, n, x, count);
        if (count > VF) matmul_store_vector(mm, at, m, n + VF, y, count - VF);
    } else {
        float row[MATMUL_COLUMNS];
        vf_store(row, x);
        vf_store(row + VF, y);
        matmul_store_row(mm, at, m, n, row, matmul_least(count, MATMUL_COLUMNS));
    }
}

#endif
