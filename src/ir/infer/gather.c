/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of gathers and scatters. An axis that is only indexed may have an extent (indices are
 * checked against the true size); an axis that passes through takes its extent along. */
#include "ir/infer/movement.h"

static rlx_status check_rank(const rlx_infer *infer, uint64_t rank) {
    if (rank <= RLX_MAX_RANK) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "%s gives rank %" PRIu64 " (most is %d)",
                    rlx_op_name(infer->op), rank, RLX_MAX_RANK);
}

/* Appends a dim of `from`, with its extent. */
static void push_dim(rlx_type *type, const rlx_type *from, uint32_t axis) {
    type->shape.dims[type->shape.rank] = from->shape.dims[axis];
    type->extents[type->shape.rank++] = from->extents[axis];
}

static rlx_status finish(rlx_infer *infer, const rlx_type *type) {
    uint64_t bytes;
    RLX_TRY(rlx_type_bytes(type, &bytes));
    infer->out[0] = *type;
    return RLX_OK;
}

/* Gathered rows of a block type come out decoded. */
static rlx_dtype row_dtype(rlx_dtype dtype) {
    return rlx_dtype_is_block(dtype) ? RLX_DTYPE_F32 : dtype;
}

rlx_status rlx_infer_gather(rlx_infer *infer) {
    const rlx_axis_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0], *index = infer->in[1];
    rlx_type out = rlx_type_make(row_dtype(in->dtype), NULL, 0);
    uint32_t axis;
    RLX_TRY(rlx_infer_index_dtype(infer, 1));
    RLX_TRY(rlx_infer_axis(attrs->axis, in->shape.rank, &axis));
    RLX_TRY(rlx_infer_whole_rows(infer, axis));
    RLX_TRY(check_rank(infer, (uint64_t)in->shape.rank - 1 + index->shape.rank));
    for (uint32_t i = 0; i < axis; i++)
        push_dim(&out, in, i);
    for (uint32_t i = 0; i < index->shape.rank; i++)
        push_dim(&out, index, i);
    for (uint32_t i = axis + 1; i < in->shape.rank; i++)
        push_dim(&out, in, i);
    return finish(infer, &out);
}

/* On the axes beside `axis`, the index may be smaller than the data but not larger; a run-time size
 * must be the same one on both. */
static rlx_status check_elements(const rlx_infer *infer, uint32_t axis) {
    const rlx_type *in = infer->in[0], *index = infer->in[1];
    if (in->shape.rank != index->shape.rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s: data has rank %u, indices %u",
                        rlx_op_name(infer->op), in->shape.rank, index->shape.rank);
    }
    for (uint32_t i = 0; i < in->shape.rank; i++) {
        if (i == axis) continue;
        if (index->shape.dims[i] > in->shape.dims[i]) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "%s: axis %u of the indices has %" PRId64 ", of the data %" PRId64,
                            rlx_op_name(infer->op), i, index->shape.dims[i], in->shape.dims[i]);
        }
        if (in->extents[i] != RLX_NONE && in->extents[i] != index->extents[i]) {
            return rlx_infer_lost_extent(infer, 0, i);
        }
    }
    return RLX_OK;
}

rlx_status rlx_infer_gather_elements(rlx_infer *infer) {
    const rlx_axis_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    rlx_type out = *infer->in[1];
    uint32_t axis;
    RLX_TRY(rlx_infer_no_block(infer, 0));
    RLX_TRY(rlx_infer_index_dtype(infer, 1));
    RLX_TRY(rlx_infer_axis(attrs->axis, in->shape.rank, &axis));
    RLX_TRY(check_elements(infer, axis));
    out.dtype = in->dtype;
    return finish(infer, &out);
}

/* The last axis of the indices: a tuple that fits behind `batch` dims of the data. */
static rlx_status tuple_size(const rlx_infer *infer, uint32_t batch, uint32_t *out_size) {
    const rlx_type *in = infer->in[0], *index = infer->in[1];
    RLX_TRY(rlx_infer_index_dtype(infer, 1));
    if (index->shape.rank == 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s: indices have rank 0", rlx_op_name(infer->op));
    }
    uint32_t last = index->shape.rank - 1;
    int64_t size = index->shape.dims[last];
    if (index->extents[last] != RLX_NONE) return rlx_infer_lost_extent(infer, 1, last);
    if (batch > in->shape.rank || size > (int64_t)(in->shape.rank - batch)) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "%s: tuples of %" PRId64 " indices after %u batch dims, data has rank %u",
                        rlx_op_name(infer->op), size, batch, in->shape.rank);
    }
    *out_size = (uint32_t)size;
    return RLX_OK;
}

/* Batch dims of data and indices are the same. */
static rlx_status check_batch(const rlx_infer *infer, uint32_t batch) {
    const rlx_type *in = infer->in[0], *index = infer->in[1];
    for (uint32_t i = 0; i < batch; i++) {
        if (in->shape.dims[i] != index->shape.dims[i]) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "gather_nd: batch dim %u of data and indices is %" PRId64
                            " and %" PRId64,
                            i, in->shape.dims[i], index->shape.dims[i]);
        }
        if (in->extents[i] != index->extents[i]) return rlx_infer_lost_extent(infer, 0, i);
    }
    return RLX_OK;
}

rlx_status rlx_infer_gather_nd(rlx_infer *infer) {
    const rlx_gather_nd_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0], *index = infer->in[1];
    rlx_type out = rlx_type_make(row_dtype(in->dtype), NULL, 0);
    uint32_t tuple;
    if (attrs->batch_dims < 0 || attrs->batch_dims >= (int64_t)index->shape.rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "gather_nd: %" PRId64 " batch dims, indices have rank %u",
                        attrs->batch_dims, index->shape.rank);
    }
    uint32_t batch = (uint32_t)attrs->batch_dims;
    RLX_TRY(tuple_size(infer, batch, &tuple));
    RLX_TRY(check_batch(infer, batch));
    if (batch + tuple == in->shape.rank) RLX_TRY(rlx_infer_no_block(infer, 0));
    RLX_TRY(check_rank(infer, (uint64_t)index->shape.rank - 1 + in->shape.rank - batch - tuple));
    for (uint32_t i = 0; i + 1 < index->shape.rank; i++)
        push_dim(&out, index, i);
    for (uint32_t i = batch + tuple; i < in->shape.rank; i++)
        push_dim(&out, in, i);
    return finish(infer, &out);
}

/* Updates of scatter_nd: one row of the data per tuple. */
static rlx_status check_nd_updates(const rlx_infer *infer) {
    const rlx_type *in = infer->in[0], *index = infer->in[1], *updates = infer->in[2];
    rlx_type wanted = rlx_type_make(in->dtype, NULL, 0);
    char have_text[96], want_text[96];
    uint32_t tuple;
    RLX_TRY(tuple_size(infer, 0, &tuple));
    RLX_TRY(check_rank(infer, (uint64_t)index->shape.rank - 1 + in->shape.rank - tuple));
    for (uint32_t i = 0; i + 1 < index->shape.rank; i++)
        push_dim(&wanted, index, i);
    for (uint32_t i = tuple; i < in->shape.rank; i++)
        push_dim(&wanted, in, i);
    if (!rlx_shape_equal(&wanted.shape, &updates->shape)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "scatter_nd: updates are %s, wanted %s",
                        rlx_type_text(infer->graph, updates, have_text, sizeof have_text),
                        rlx_type_text(infer->graph, &wanted, want_text, sizeof want_text));
    }
    for (uint32_t i = 0; i < wanted.shape.rank; i++) {
        if (wanted.extents[i] != updates->extents[i]) return rlx_infer_lost_extent(infer, 2, i);
    }
    return RLX_OK;
}

static rlx_status check_element_updates(const rlx_infer *infer, int64_t wanted_axis) {
    const rlx_type *in = infer->in[0], *index = infer->in[1], *updates = infer->in[2];
    uint32_t axis;
    RLX_TRY(rlx_infer_axis(wanted_axis, in->shape.rank, &axis));
    RLX_TRY(check_elements(infer, axis));
    if (!rlx_shape_equal(&index->shape, &updates->shape)) {
        char have_text[96], want_text[96];
        return RLX_FAIL(RLX_INVALID_GRAPH, "scatter_elements: updates are %s, indices %s",
                        rlx_type_text(infer->graph, updates, have_text, sizeof have_text),
                        rlx_type_text(infer->graph, index, want_text, sizeof want_text));
    }
    for (uint32_t i = 0; i < index->shape.rank; i++) {
        if (index->extents[i] != updates->extents[i]) return rlx_infer_lost_extent(infer, 2, i);
    }
    return RLX_OK;
}

rlx_status rlx_infer_scatter(rlx_infer *infer) {
    const rlx_scatter_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    RLX_TRY(rlx_infer_no_block(infer, 0));
    RLX_TRY(rlx_infer_index_dtype(infer, 1));
    RLX_TRY(rlx_infer_same_dtype(infer, 0, 2));
    if ((uint32_t)attrs->mode > RLX_SCATTER_MAX) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "scatter mode %d", (int)attrs->mode);
    }
    if (attrs->mode != RLX_SCATTER_SET && in->dtype == RLX_DTYPE_BOOL) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s cannot compute with bool", rlx_op_name(infer->op));
    }
    if (infer->op == RLX_OP_SCATTER_ND) {
        RLX_TRY(check_nd_updates(infer));
    } else {
        RLX_TRY(check_element_updates(infer, attrs->axis));
    }
    infer->out[0] = *in;
    return RLX_OK;
}
