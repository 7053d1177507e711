/* SPDX-License-Identifier: Apache-2.0 */
/* The operands of a matmul as its kernels see them, whatever their vectors: [batch..][m][k] x
 * [batch..][k][n] with strides. Compiled once, for all levels. */
#ifndef RLX_BACKEND_CPU_MATMUL_OPERANDS_H
#define RLX_BACKEND_CPU_MATMUL_OPERANDS_H

#include "plan/target.h"
#include "ref/access.h"
#include "ref/kernel.h"

/* Products to so few columns, with so much of k for each, have kernels of their own
 * (vec/matmul_narrow.c) and want their weights column by column (wants.c). */
enum { MATMUL_NARROW_COLUMNS = 8, MATMUL_NARROW_DEPTH = 8 };

/* The operands; strides in elements. A bias or residual without data has data NULL. */
typedef struct matmul {
    const rlx_tensor *a, *b, *bias, *residual, *out;
    const rlx_tensor *scale, *offset; /* of matmul_quantised */
    int64_t m, n, k, batches;
    uint32_t batch_rank;
    int64_t batch_dims[RLX_MAX_RANK];
    int64_t a_batch[RLX_MAX_RANK], b_batch[RLX_MAX_RANK], out_batch[RLX_MAX_RANK];
    int64_t bias_batch[RLX_MAX_RANK], residual_batch[RLX_MAX_RANK];
    int64_t scale_batch[RLX_MAX_RANK], offset_batch[RLX_MAX_RANK];
    int64_t scale_m, scale_n, offset_m, offset_n, zero;
    int64_t a_m, a_k, b_k, b_n, out_m, out_n, bias_m, bias_n, residual_m, residual_n;
    float alpha;
    bool gated;
    bool is_quantised; /* matmul_quantised */
    bool is_simple;    /* f32 with columns side by side: the store needs no detour */
    bool is_bare;      /* and nothing is done to the sums */
    rlx_activation activation;
} matmul;

/* Where one batch begins, in elements of each operand. */
typedef struct matmul_batch {
    int64_t a, b, out, bias, residual, scale, offset;
} matmul_batch;

/* `columns` of b are side by side in a panel, where b is packed. */
matmul rlx_cpu_matmul_make(const rlx_kernel_args *args, int64_t columns);
matmul_batch rlx_cpu_matmul_batch_at(const matmul *mm, int64_t batch);
/* Rows of a for each matrix b of a planned product. */
int64_t rlx_cpu_matmul_rows_per_b(const rlx_target_query *query);

#endif
