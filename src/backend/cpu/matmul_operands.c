/* SPDX-License-Identifier: Apache-2.0 */
/* From the arguments of a matmul step to what its kernels walk over: see matmul_operands.h. */
#include "backend/cpu/matmul_operands.h"
#include "ref/matmul.h"

#include <string.h>

/* A packed b has its batches one after the other; `matrix` elements each. */
static void packed_batches(matmul *mm, int64_t matrix) {
    uint32_t count = mm->b->rank - 2;
    for (uint32_t i = count; i-- > 0;) {
        mm->b_batch[mm->batch_rank - count + i] = mm->b->dims[i] == 1 ? 0 : matrix;
        matrix *= mm->b->dims[i];
    }
}

static void find_operands(matmul *mm, const rlx_matmul_attrs *attrs) {
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
static bool continues(int64_t batch, int64_t row, int64_t rows) {
    return batch == rows * row;
}

/* Batches that share b become more rows. */
static void join_batches(matmul *mm) {
    while (mm->batch_rank > 0) {
        uint32_t last = mm->batch_rank - 1;
        bool is_single = mm->batch_dims[last] == 1;
        bool joins = mm->b_batch[last] == 0 && mm->m > 0 &&
                     continues(mm->a_batch[last], mm->a_m, mm->m) &&
                     continues(mm->out_batch[last], mm->out_m, mm->m) &&
                     continues(mm->bias_batch[last], mm->bias_m, mm->m) &&
                     continues(mm->residual_batch[last], mm->residual_m, mm->m) &&
                     continues(mm->scale_batch[last], mm->scale_m, mm->m) &&
                     continues(mm->offset_batch[last], mm->offset_m, mm->m);
        if (mm->m == 1 && !is_single && mm->b_batch[last] == 0) {
            /* One row each: the batch axis is the row axis. */
            mm->a_m = mm->a_batch[last], mm->out_m = mm->out_batch[last];
            mm->bias_m = mm->bias_batch[last], mm->residual_m = mm->residual_batch[last];
            mm->scale_m = mm->scale_batch[last], mm->offset_m = mm->offset_batch[last];
            joins = true;
        }
        if (!is_single && !joins) return;
        mm->m *= mm->batch_dims[last];
        mm->batch_rank = last;
    }
}

/* How many of k lie side by side in a packed b. */
static int64_t group_of(rlx_layout layout) {
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

/* What matmul_quantised has besides. */
static void find_factors(matmul *mm, const rlx_kernel_args *args, bool has_m, bool has_n) {
    mm->is_quantised = true;
    mm->zero = ((const rlx_matmul_attrs *)args->attrs)->zero;
    if (args->in_count > 4) mm->scale = &args->in[4];
    if (args->in_count > 5) mm->offset = &args->in[5];
    rlx_ref_output_strides(mm->scale, mm->out, has_m, has_n, mm->scale_batch, &mm->scale_m,
                           &mm->scale_n);
    rlx_ref_output_strides(mm->offset, mm->out, has_m, has_n, mm->offset_batch, &mm->offset_m,
                           &mm->offset_n);
}

/* Columns side by side, or the same for all. */
static bool is_even(const rlx_tensor *tensor, int64_t stride) {
    return tensor->data == NULL || stride == 0 || stride == 1;
}

static bool is_simple(const matmul *mm) {
    bool is_f32 = (mm->bias->data == NULL || mm->bias->dtype == RLX_DTYPE_F32) &&
                  (mm->residual->data == NULL || mm->residual->dtype == RLX_DTYPE_F32);
    return (mm->out->dtype == RLX_DTYPE_F32 || mm->is_quantised) && is_f32 &&
           (mm->out_n == 1 || mm->n == 1) && is_even(mm->bias, mm->bias_n) &&
           is_even(mm->residual, mm->residual_n) && is_even(mm->scale, mm->scale_n) &&
           is_even(mm->offset, mm->offset_n);
}

matmul rlx_cpu_matmul_make(const rlx_kernel_args *args, int64_t columns) {
    static const rlx_tensor absent = {0};
    const rlx_matmul_attrs *attrs = args->attrs;
    matmul mm = {.a = &args->in[0],
                 .b = &args->in[1],
                 .bias = args->in_count > 2 ? &args->in[2] : &absent,
                 .residual = args->in_count > 3 ? &args->in[3] : &absent,
                 .scale = &absent,
                 .offset = &absent,
                 .out = &args->out[0],
                 .alpha = attrs->alpha == 0 ? 1 : (float)attrs->alpha,
                 .gated = attrs->gated,
                 .activation = attrs->activation};
    bool has_m = mm.a->rank > 1, has_n = mm.b->rank > 1;
    find_operands(&mm, attrs);
    mm.batch_rank = mm.out->rank - has_m - has_n;
    memcpy(mm.batch_dims, mm.out->dims, sizeof mm.batch_dims);
    rlx_ref_batch_strides(mm.a, mm.batch_rank, mm.a_batch);
    rlx_ref_batch_strides(mm.b, mm.batch_rank, mm.b_batch);
    rlx_ref_output_strides(mm.out, mm.out, has_m, has_n, mm.out_batch, &mm.out_m, &mm.out_n);
    rlx_ref_output_strides(mm.bias, mm.out, has_m, has_n, mm.bias_batch, &mm.bias_m, &mm.bias_n);
    rlx_ref_output_strides(mm.residual, mm.out, has_m, has_n, mm.residual_batch, &mm.residual_m,
                           &mm.residual_n);
    if (args->op == RLX_OP_MATMUL_QUANTISED) find_factors(&mm, args, has_m, has_n);
    if (mm.b->layout == RLX_LAYOUT_TURNED) {
        mm.b_k = 1, mm.b_n = mm.k;
        packed_batches(&mm, mm.k * mm.n);
    } else if (mm.b->layout != RLX_LAYOUT_PLAIN) {
        int64_t group = group_of(mm.b->layout), depth = rlx_ref_divide_up(mm.k, group) * group;
        packed_batches(&mm, depth * rlx_ref_divide_up(mm.n, columns) * columns);
    }
    join_batches(&mm);
    mm.batches = 1;
    for (uint32_t i = 0; i < mm.batch_rank; i++)
        mm.batches *= mm.batch_dims[i];
    mm.is_simple = is_simple(&mm);
    mm.is_bare = mm.is_simple && !mm.is_quantised && mm.alpha == 1 && mm.bias->data == NULL &&
                 mm.residual->data == NULL && mm.activation.op == RLX_OP_NONE;
    return mm;
}

matmul_batch rlx_cpu_matmul_batch_at(const matmul *mm, int64_t batch) {
    matmul_batch at;
    at.a = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->a_batch, batch);
    at.b = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->b_batch, batch);
    at.out = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->out_batch, batch);
    at.bias = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->bias_batch, batch);
    at.residual = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->residual_batch, batch);
    at.scale = at.offset = 0;
    if (!mm->is_quantised) return at;
    at.scale = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->scale_batch, batch);
    at.offset = rlx_ref_offset(mm->batch_rank, mm->batch_dims, mm->offset_batch, batch);
    return at;
}

int64_t rlx_cpu_matmul_rows_per_b(const rlx_target_query *query) {
    const rlx_tensor *b = &query->in[1], *out = &query->out[0];
    int64_t rows = 1, batches = 1;
    for (uint32_t i = 0; i + 1 < out->rank; i++)
        rows = rlx_ref_cost(rows, out->dims[i]);
    for (uint32_t i = 0; i + 2 < b->rank; i++)
        batches = rlx_ref_cost(batches, b->dims[i]);
    return batches > 0 ? rows / batches : 0;
}
