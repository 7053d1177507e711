/* SPDX-License-Identifier: Apache-2.0 */
/* The shape rule of collectives. Shapes are those of every rank alike; the rank count is an
 * attribute, so that a graph can be typed without knowing who runs it. */
#include "ir/dtype.h"
#include "ir/infer/check.h"

enum { MOST_RANKS = 65536 };

static bool can_reduce(rlx_dtype dtype) {
    switch (dtype) {
    case RLX_DTYPE_F64:
    case RLX_DTYPE_F32:
    case RLX_DTYPE_F16:
    case RLX_DTYPE_BF16:
    case RLX_DTYPE_I32:
    case RLX_DTYPE_I64:
    case RLX_DTYPE_U8:
        return true;
    default:
        return false;
    }
}

static rlx_status check_dtype(const rlx_infer *infer) {
    rlx_dtype dtype = infer->in[0]->dtype;
    bool reduces = infer->op == RLX_OP_ALL_REDUCE || infer->op == RLX_OP_REDUCE_SCATTER;
    if (reduces ? can_reduce(dtype) : rlx_dtype_block_elements(dtype) == 1) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%s of %s", rlx_op_name(infer->op), rlx_dtype_name(dtype));
}

static rlx_status check_numbers(const rlx_infer *infer) {
    const rlx_collective_attrs *attrs = infer->attrs;
    if (attrs->ranks < 0 || attrs->ranks > MOST_RANKS) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%" PRId64 " ranks, allowed are 0 to %d", attrs->ranks,
                        MOST_RANKS);
    }
    if (attrs->root < 0 || attrs->root >= (attrs->ranks == 0 ? MOST_RANKS : attrs->ranks)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "root %" PRId64 " of %" PRId64 " ranks", attrs->root,
                        attrs->ranks);
    }
    return RLX_OK;
}

rlx_status rlx_infer_collective(rlx_infer *infer) {
    const rlx_collective_attrs *attrs = infer->attrs;
    int64_t ranks = attrs->ranks == 0 ? 1 : attrs->ranks;
    RLX_TRY(check_dtype(infer));
    RLX_TRY(check_numbers(infer));
    infer->out[0] = *infer->in[0];
    if (infer->op == RLX_OP_ALL_REDUCE || infer->op == RLX_OP_BROADCAST) return RLX_OK;
    RLX_TRY(rlx_infer_no_extent(infer, 0));
    rlx_shape *shape = &infer->out[0].shape;
    if (shape->rank == 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s of a scalar: it has no rows",
                        rlx_op_name(infer->op));
    }
    if (infer->op == RLX_OP_ALL_GATHER) {
        if (shape->dims[0] > INT64_MAX / ranks) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "%" PRId64 " ranks of %" PRId64 " rows wrap", ranks,
                            shape->dims[0]);
        }
        shape->dims[0] *= ranks;
        return RLX_OK;
    }
    if (shape->dims[0] % ranks != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%" PRId64 " rows cannot be shared by %" PRId64 " ranks",
                        shape->dims[0], ranks);
    }
    if (infer->op == RLX_OP_REDUCE_SCATTER) shape->dims[0] /= ranks;
    return RLX_OK;
}
