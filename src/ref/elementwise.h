/* SPDX-License-Identifier: Apache-2.0 */
/* The tile evaluator of elementwise ops, from inside: shared by the elementwise_*.c files only.
 *
 * Every op is an instruction on tiles of up to RLX_TILE elements. A tile holds lanes of one of four
 * kinds: f32 for floats up to 32 bits and blocks, f64, i64 for signed integers, u64 for unsigned
 * integers and bool. */
#ifndef RLX_REF_ELEMENTWISE_H
#define RLX_REF_ELEMENTWISE_H

#include "ir/dtype.h"
#include "ref/kernel.h"

enum { RLX_TILE = 256, RLX_TILE_BYTES = RLX_TILE * 8 };

typedef enum rlx_lane { RLX_LANE_F32, RLX_LANE_F64, RLX_LANE_I64, RLX_LANE_U64 } rlx_lane;

static inline rlx_lane rlx_lane_of(rlx_dtype dtype) {
    switch (rlx_dtype_row_of(dtype)->class_) {
    case RLX_CLASS_SIGNED:
        return RLX_LANE_I64;
    case RLX_CLASS_UNSIGNED:
    case RLX_CLASS_BOOL:
        return RLX_LANE_U64;
    default:
        return dtype == RLX_DTYPE_F64 ? RLX_LANE_F64 : RLX_LANE_F32;
    }
}

static inline uint32_t rlx_lane_bytes(rlx_lane lane) {
    return lane == RLX_LANE_F32 ? 4 : 8;
}

/* Bits of an integer type. */
static inline uint32_t rlx_dtype_bits(rlx_dtype dtype) {
    return 8 * rlx_dtype_block_bytes(dtype) / rlx_dtype_block_elements(dtype);
}

/* One instruction on one tile. `out` may be an operand itself (same lanes, in place), never overlap
 * it otherwise. */
typedef struct rlx_tile_op {
    const rlx_kernel_args *args; /* for faults */
    rlx_op op;
    rlx_dtype dtype; /* of the result; it is rounded to it later (rlx_tile_round, rlx_tile_store) */
    rlx_dtype operands[3];
    const void *in[3];
    void *out;
    double alpha, beta;
    uint32_t count;
} rlx_tile_op;

void rlx_tile_run(const rlx_tile_op *op);
/* By the lanes of the operands that carry data. Comparisons give u64 lanes. */
void rlx_tile_f32(const rlx_tile_op *op);
void rlx_tile_f64(const rlx_tile_op *op);
void rlx_tile_i64(const rlx_tile_op *op);
void rlx_tile_u64(const rlx_tile_op *op);
void rlx_tile_cast(const rlx_tile_op *op);
void rlx_tile_pow(const rlx_tile_op *op);

/* Truncates towards zero, saturates to the integer type, NaN gives 0. u64 as its bits. */
int64_t rlx_float_to_integer(rlx_dtype dtype, double value);

/* Lanes become what the dtype can hold: floats rounded, integers wrapped. */
void rlx_tile_round(rlx_dtype dtype, void *lanes, uint32_t count);

/* Elements side by side, at any alignment, to lanes; and lanes to elements: floats are rounded,
 * integers cut to their width. No blocks of several elements. */
void rlx_tile_decode(rlx_dtype dtype, const char *source, int64_t count, void *lanes);
void rlx_tile_encode(rlx_dtype dtype, char *target, int64_t count, const void *lanes);

/* How the elements of all tensors are stepped through together: dims of 1 are left out, and
 * neighbouring dims are one where every tensor allows it. The rank is at least 1. */
typedef struct rlx_sweep {
    uint32_t rank;
    int64_t dims[RLX_MAX_RANK];
    uint32_t axes[RLX_MAX_RANK]; /* the output axis that steps each dim; RLX_MAX_RANK: none */
    uint32_t out_rank;
} rlx_sweep;

rlx_sweep rlx_sweep_make(const rlx_kernel_args *args);
/* The tensor's stride along a dim of the sweep; 0 where it repeats. */
int64_t rlx_sweep_stride(const rlx_sweep *sweep, const rlx_tensor *tensor, uint32_t dim);
/* Coordinates of a flat index, and the tensor's element offset there. */
void rlx_sweep_seek(const rlx_sweep *sweep, int64_t index, int64_t *out_at);
int64_t rlx_sweep_offset(const rlx_sweep *sweep, const rlx_tensor *tensor, const int64_t *at);
/* Steps `count` elements on, at most to the end of the row. */
void rlx_sweep_step(const rlx_sweep *sweep, int64_t *at, int64_t count);

/* Loads `count` elements from `at` on into lanes. Returns `lanes`, or the tensor's own memory where
 * that already looks the same. */
const void *rlx_tile_load(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                          uint32_t count, void *lanes);
/* The output's own memory if lanes can be written straight to it, else NULL. */
void *rlx_tile_target(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                      uint32_t count);
void rlx_tile_store(const rlx_sweep *sweep, const int64_t *at, const rlx_tensor *tensor,
                    uint32_t count, const void *lanes);

/* Iterations are independent even where the output is an operand: distance 0 carries nothing. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* loops that call libm stay scalar */
#define RLX_TILE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define RLX_TILE_LOOP _Pragma("GCC ivdep")
#else
#define RLX_TILE_LOOP
#endif

#endif
