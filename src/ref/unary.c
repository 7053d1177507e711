/* SPDX-License-Identifier: Apache-2.0 */
/* Float unary ops on runs of values: the instructions of the tile evaluator under another name. */
#include "ref/unary.h"

#include "ref/elementwise.h"

static rlx_tile_op unary_op(rlx_op op, rlx_dtype dtype, void *values, double alpha, double beta) {
    return (rlx_tile_op){.op = op,
                         .dtype = dtype,
                         .operands = {dtype},
                         .in = {values},
                         .out = values,
                         .alpha = alpha,
                         .beta = beta};
}

void rlx_ref_unary_run_f32(rlx_op op, float *values, int64_t count, double alpha, double beta) {
    for (int64_t i = 0; i < count; i += RLX_TILE) {
        rlx_tile_op tile = unary_op(op, RLX_DTYPE_F32, values + i, alpha, beta);
        tile.count = (uint32_t)(count - i < RLX_TILE ? count - i : RLX_TILE);
        rlx_tile_f32(&tile);
    }
}

void rlx_ref_unary_run_f64(rlx_op op, double *values, int64_t count, double alpha, double beta) {
    for (int64_t i = 0; i < count; i += RLX_TILE) {
        rlx_tile_op tile = unary_op(op, RLX_DTYPE_F64, values + i, alpha, beta);
        tile.count = (uint32_t)(count - i < RLX_TILE ? count - i : RLX_TILE);
        rlx_tile_f64(&tile);
    }
}

float rlx_ref_unary_f32(rlx_op op, float x, double alpha, double beta) {
    rlx_ref_unary_run_f32(op, &x, 1, alpha, beta);
    return x;
}
