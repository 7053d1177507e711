/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of reductions, arg_max and arg_min, top_k, cumsum and softmax. */
#include "ir/dtype.h"
#include "ir/infer/check.h"

/* Elements can be addressed one by one: not in blocks, not two to a byte. */
static rlx_status check_plain(const rlx_infer *infer) {
    rlx_dtype dtype = infer->in[0]->dtype;
    if (rlx_dtype_block_elements(dtype) == 1) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%s of %s", rlx_op_name(infer->op), rlx_dtype_name(dtype));
}

/* Floats: everything. Integers: what stays an integer. Bool: max and min. */
static rlx_status check_reduce_dtype(const rlx_infer *infer) {
    rlx_dtype dtype = infer->in[0]->dtype;
    bool keeps_integers = true, is_order = false;
    switch (infer->op) {
    case RLX_OP_REDUCE_MAX:
    case RLX_OP_REDUCE_MIN:
        is_order = true;
        break;
    case RLX_OP_REDUCE_L2:
    case RLX_OP_REDUCE_LOG_SUM:
    case RLX_OP_REDUCE_LOG_SUM_EXP:
        keeps_integers = false;
        break;
    default:
        break;
    }
    if (rlx_dtype_is_float(dtype)) return RLX_OK;
    if (rlx_dtype_is_integer(dtype) && keeps_integers) return check_plain(infer);
    if (dtype == RLX_DTYPE_BOOL && is_order) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%s of %s", rlx_op_name(infer->op), rlx_dtype_name(dtype));
}

/* Which axes are reduced, as bits. */
static rlx_status read_axes(const rlx_ints *axes, uint32_t rank, uint32_t *out_bits) {
    uint32_t bits = 0;
    if (axes->count > RLX_MAX_INTS) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%u axes", axes->count);
    }
    for (uint32_t i = 0; i < axes->count; i++) {
        uint32_t axis;
        RLX_TRY(rlx_infer_axis(axes->items[i], rank, &axis));
        if (bits >> axis & 1) return RLX_FAIL(RLX_INVALID_GRAPH, "axis %u is named twice", axis);
        bits |= 1u << axis;
    }
    *out_bits = axes->count == 0 ? (1u << rank) - 1 : bits;
    return RLX_OK;
}

/* The input's type without the reduced axes, or with 1 in their place. */
static rlx_type reduced_type(const rlx_type *x, uint32_t bits, bool keep_dims) {
    rlx_type out = rlx_type_make(x->dtype, NULL, 0);
    for (uint32_t i = 0; i < x->shape.rank; i++) {
        bool is_reduced = bits >> i & 1;
        if (is_reduced && !keep_dims) continue;
        out.shape.dims[out.shape.rank] = is_reduced ? 1 : x->shape.dims[i];
        out.extents[out.shape.rank++] = is_reduced ? RLX_NONE : x->extents[i];
    }
    return out;
}

rlx_status rlx_infer_reduce(rlx_infer *infer) {
    const rlx_reduce_attrs *attrs = infer->attrs;
    uint32_t bits = 0;
    RLX_TRY(check_reduce_dtype(infer));
    RLX_TRY(read_axes(&attrs->axes, infer->in[0]->shape.rank, &bits));
    infer->out[0] = reduced_type(infer->in[0], bits, attrs->keep_dims);
    return RLX_OK;
}

rlx_status rlx_infer_arg(rlx_infer *infer) {
    const rlx_arg_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    uint32_t axis;
    RLX_TRY(check_plain(infer));
    RLX_TRY(rlx_infer_axis(attrs->axis, x->shape.rank, &axis));
    if (x->shape.dims[axis] == 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s along axis %u of 0 elements", rlx_op_name(infer->op),
                        axis);
    }
    infer->out[0] = reduced_type(x, 1u << axis, attrs->keep_dims);
    infer->out[0].dtype = RLX_DTYPE_I64;
    return RLX_OK;
}

rlx_status rlx_infer_top_k(rlx_infer *infer) {
    const rlx_top_k_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    uint32_t axis;
    RLX_TRY(check_plain(infer));
    RLX_TRY(rlx_infer_axis(attrs->axis, x->shape.rank, &axis));
    RLX_TRY(rlx_check_exact_dim(infer, 0, axis));
    if (attrs->k < 0 || attrs->k > x->shape.dims[axis]) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "k is %" PRId64 ", axis %u has %" PRId64 " elements",
                        attrs->k, axis, x->shape.dims[axis]);
    }
    infer->out[0] = *x;
    infer->out[0].shape.dims[axis] = attrs->k;
    if (infer->out_count > 1) {
        infer->out[1] = infer->out[0];
        infer->out[1].dtype = RLX_DTYPE_I64;
    }
    return RLX_OK;
}

rlx_status rlx_infer_cumsum(rlx_infer *infer) {
    const rlx_cumsum_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0];
    uint32_t axis;
    if (!rlx_dtype_is_float(x->dtype) && !rlx_dtype_is_integer(x->dtype)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "cumsum of %s", rlx_dtype_name(x->dtype));
    }
    RLX_TRY(check_plain(infer));
    RLX_TRY(rlx_infer_axis(attrs->axis, x->shape.rank, &axis));
    infer->out[0] = *x;
    return RLX_OK;
}

rlx_status rlx_infer_softmax(rlx_infer *infer) {
    const rlx_axis_attrs *attrs = infer->attrs;
    uint32_t axis;
    RLX_TRY(rlx_check_float(infer, 0, "x"));
    RLX_TRY(rlx_infer_axis(attrs->axis, infer->in[0]->shape.rank, &axis));
    infer->out[0] = *infer->in[0];
    return RLX_OK;
}
