/* SPDX-License-Identifier: Apache-2.0 */
/* Small checks that the movement rules share. */
#ifndef RLX_IR_INFER_MOVEMENT_H
#define RLX_IR_INFER_MOVEMENT_H

#include "ir/dtype.h"
#include "ir/infer.h"

static inline bool rlx_dtype_is_block(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL && row->class_ == RLX_CLASS_BLOCK;
}

/* For ops that look at single elements or compute with them. */
static inline rlx_status rlx_infer_no_block(const rlx_infer *infer, uint32_t input) {
    rlx_dtype dtype = infer->in[input]->dtype;
    if (!rlx_dtype_is_block(dtype)) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%s cannot take apart the blocks of %s",
                    rlx_op_name(infer->op), rlx_dtype_name(dtype));
}

/* For ops that cut or join along one axis: rows of a block type stay whole. */
static inline rlx_status rlx_infer_whole_rows(const rlx_infer *infer, uint32_t axis) {
    const rlx_type *in = infer->in[0];
    if (axis + 1 < in->shape.rank) return RLX_OK;
    return rlx_infer_no_block(infer, 0);
}

static inline rlx_status rlx_infer_index_dtype(const rlx_infer *infer, uint32_t input) {
    rlx_dtype dtype = infer->in[input]->dtype;
    if (dtype == RLX_DTYPE_I64 || dtype == RLX_DTYPE_I32) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s wants indices of i32 or i64, got %s",
                    rlx_op_name(infer->op), rlx_dtype_name(dtype));
}

static inline rlx_status rlx_infer_same_dtype(const rlx_infer *infer, uint32_t a, uint32_t b) {
    if (infer->in[a]->dtype == infer->in[b]->dtype) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "inputs %u and %u of %s are %s and %s", a, b,
                    rlx_op_name(infer->op), rlx_dtype_name(infer->in[a]->dtype),
                    rlx_dtype_name(infer->in[b]->dtype));
}

/* The extent of one dim cannot be carried. */
static inline rlx_status rlx_infer_lost_extent(const rlx_infer *infer, uint32_t input,
                                               uint32_t axis) {
    return RLX_FAIL(RLX_UNSUPPORTED,
                    "%s changes axis %u of input %u, whose size is known at run "
                    "time only",
                    rlx_op_name(infer->op), axis, input);
}

/* Writes an output type without extents, once its bytes are known not to wrap. */
static inline rlx_status rlx_infer_set(rlx_infer *infer, uint32_t output, rlx_dtype dtype,
                                       const int64_t *dims, uint32_t rank) {
    rlx_type type = rlx_type_make(dtype, dims, rank);
    uint64_t bytes;
    RLX_TRY(rlx_type_bytes(&type, &bytes));
    infer->out[output] = type;
    return RLX_OK;
}

#endif
