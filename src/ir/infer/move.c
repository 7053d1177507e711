/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of what cuts, joins, turns and repeats tensors. Rows of block types stay whole: their
 * last axis passes untouched. Extents pass along every axis that is not changed. */
#include "base/size.h"
#include "ir/infer/movement.h"
#include "ir/view.h"

rlx_status rlx_infer_slice(rlx_infer *infer) {
    const rlx_type *in = infer->in[0];
    rlx_slice_axis axes[RLX_MAX_RANK];
    int64_t dims[RLX_MAX_RANK] = {0};
    uint32_t rank = in->shape.rank;
    RLX_TRY(rlx_slice_resolve(infer->attrs, rank, in->shape.dims, axes));
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = axes[i].size;
    RLX_TRY(rlx_infer_set(infer, 0, in->dtype, dims, rank));
    for (uint32_t i = 0; i < rank; i++) {
        bool is_whole = axes[i].size == in->shape.dims[i] && axes[i].step == 1;
        if (!is_whole) RLX_TRY(rlx_infer_whole_rows(infer, i));
        if (!is_whole && in->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, 0, i);
        infer->out[0].extents[i] = in->extents[i];
    }
    return RLX_OK;
}

/* Input `input` of a concat against the first one: all but the axis must agree. */
static rlx_status check_concat_input(const rlx_infer *infer, uint32_t input, uint32_t axis) {
    const rlx_type *first = infer->in[0], *in = infer->in[input];
    if (in == NULL) return RLX_FAIL(RLX_INVALID_GRAPH, "input %u of concat is absent", input);
    RLX_TRY(rlx_infer_same_dtype(infer, 0, input));
    if (in->shape.rank != first->shape.rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "inputs 0 and %u of concat have ranks %u and %u", input,
                        first->shape.rank, in->shape.rank);
    }
    for (uint32_t i = 0; i < in->shape.rank; i++) {
        if (i == axis) {
            if (in->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, input, i);
            continue;
        }
        if (in->shape.dims[i] != first->shape.dims[i]) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "axis %u of inputs 0 and %u of concat is %" PRId64 " and %" PRId64, i,
                            input, first->shape.dims[i], in->shape.dims[i]);
        }
        if (in->extents[i] != first->extents[i]) {
            return RLX_FAIL(RLX_UNSUPPORTED,
                            "axis %u of inputs 0 and %u of concat has different run-time sizes", i,
                            input);
        }
    }
    return RLX_OK;
}

rlx_status rlx_infer_concat(rlx_infer *infer) {
    const rlx_axis_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    rlx_shape shape = in->shape;
    uint32_t axis;
    RLX_TRY(rlx_infer_axis(attrs->axis, shape.rank, &axis));
    RLX_TRY(rlx_infer_whole_rows(infer, axis));
    shape.dims[axis] = 0;
    for (uint32_t i = 0; i < infer->in_count; i++) {
        RLX_TRY(check_concat_input(infer, i, axis));
        if (!rlx_add_i64(shape.dims[axis], infer->in[i]->shape.dims[axis], &shape.dims[axis])) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "axis %u of concat is longer than 2^63", axis);
        }
    }
    RLX_TRY(rlx_infer_set(infer, 0, in->dtype, shape.dims, shape.rank));
    for (uint32_t i = 0; i < shape.rank; i++)
        infer->out[0].extents[i] = in->extents[i];
    return RLX_OK;
}

/* The parts fill the axis exactly, and none is negative. */
static rlx_status check_split(const rlx_split_attrs *attrs, int64_t dim, uint32_t count) {
    int64_t sum = 0;
    if (attrs->sizes.count != 0 && attrs->sizes.count != count) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "split has %u sizes and %u outputs", attrs->sizes.count,
                        count);
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t size = rlx_split_size(attrs, dim, count, i);
        if (size < 0 || !rlx_add_i64(sum, size, &sum) || sum > dim) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "part %u of split has size %" PRId64 ", axis has %" PRId64
                            " in %u parts",
                            i, size, dim, count);
        }
    }
    if (sum == dim) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "sizes of split add to %" PRId64 ", axis has %" PRId64, sum,
                    dim);
}

rlx_status rlx_infer_split(rlx_infer *infer) {
    const rlx_split_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    uint32_t axis;
    RLX_TRY(rlx_infer_axis(attrs->axis, in->shape.rank, &axis));
    RLX_TRY(rlx_infer_whole_rows(infer, axis));
    if (in->extents[axis] != RLX_NONE) return rlx_infer_lost_extent(infer, 0, axis);
    RLX_TRY(check_split(attrs, in->shape.dims[axis], infer->out_count));
    for (uint32_t i = 0; i < infer->out_count; i++) {
        infer->out[i] = *in;
        infer->out[i].shape.dims[axis] =
            rlx_split_size(attrs, in->shape.dims[axis], infer->out_count, i);
    }
    return RLX_OK;
}

/* One axis: negative pads crop what is there, positive ones add to what is left. */
static rlx_status pad_dim(const rlx_pad_attrs *attrs, uint32_t rank, uint32_t axis, int64_t dim,
                          int64_t *out_dim) {
    int64_t before = attrs->pads.items[axis], after = attrs->pads.items[rank + axis], left = dim;
    bool fits = (before >= 0 || rlx_add_i64(left, before, &left)) && left >= 0 &&
                (after >= 0 || rlx_add_i64(left, after, &left)) && left >= 0;
    if (!fits) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "pads %" PRId64 " and %" PRId64 " remove more than axis %u has (%" PRId64
                        ")",
                        before, after, axis, dim);
    }
    if (left == 0 && attrs->mode != RLX_PAD_CONSTANT && (before > 0 || after > 0)) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "axis %u has nothing to pad with", axis);
    }
    if ((before > 0 && !rlx_add_i64(left, before, &left)) ||
        (after > 0 && !rlx_add_i64(left, after, &left))) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "axis %u of pad is longer than 2^63", axis);
    }
    *out_dim = left;
    return RLX_OK;
}

rlx_status rlx_infer_pad(rlx_infer *infer) {
    const rlx_pad_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    uint32_t rank = in->shape.rank;
    int64_t dims[RLX_MAX_RANK] = {0};
    RLX_TRY(rlx_infer_no_block(infer, 0));
    if (attrs->pads.count != 2 * rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "pad of rank %u has %u pads", rank, attrs->pads.count);
    }
    if ((uint32_t)attrs->mode > RLX_PAD_WRAP) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "pad mode %d", (int)attrs->mode);
    }
    for (uint32_t i = 0; i < rank; i++)
        RLX_TRY(pad_dim(attrs, rank, i, in->shape.dims[i], &dims[i]));
    RLX_TRY(rlx_infer_set(infer, 0, in->dtype, dims, rank));
    for (uint32_t i = 0; i < rank; i++) {
        bool is_whole = attrs->pads.items[i] == 0 && attrs->pads.items[rank + i] == 0;
        if (!is_whole && in->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, 0, i);
        infer->out[0].extents[i] = in->extents[i];
    }
    return RLX_OK;
}

static rlx_status check_permutation(const rlx_ints *perm, uint32_t rank) {
    bool is_used[RLX_MAX_RANK] = {false};
    if (perm->count != 0 && perm->count != rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "transpose of rank %u has %u axes in perm", rank,
                        perm->count);
    }
    for (uint32_t i = 0; i < perm->count; i++) {
        int64_t axis = perm->items[i];
        if (axis < 0 || axis >= (int64_t)rank || is_used[axis]) {
            return RLX_FAIL(RLX_INVALID_GRAPH,
                            "perm of transpose is no permutation: item %u is %" PRId64, i, axis);
        }
        is_used[axis] = true;
    }
    return RLX_OK;
}

rlx_status rlx_infer_transpose(rlx_infer *infer) {
    const rlx_transpose_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    rlx_type *out = &infer->out[0];
    uint32_t rank = in->shape.rank;
    RLX_TRY(check_permutation(&attrs->perm, rank));
    *out = *in;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from = attrs->perm.count != 0 ? (uint32_t)attrs->perm.items[i] : rank - 1 - i;
        if (i + 1 == rank && from != i) RLX_TRY(rlx_infer_no_block(infer, 0));
        out->shape.dims[i] = in->shape.dims[from];
        out->extents[i] = in->extents[from];
    }
    return RLX_OK;
}

rlx_status rlx_infer_tile(rlx_infer *infer) {
    const rlx_reshape_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    uint32_t rank = in->shape.rank;
    int64_t dims[RLX_MAX_RANK] = {0};
    if (attrs->shape.count != rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "tile of rank %u has %u repeats", rank,
                        attrs->shape.count);
    }
    for (uint32_t i = 0; i < rank; i++) {
        int64_t repeats = attrs->shape.items[i];
        if (repeats < 0) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "tile repeats axis %u %" PRId64 " times", i,
                            repeats);
        }
        if (!rlx_mul_i64(in->shape.dims[i], repeats, &dims[i])) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "axis %u of tile is longer than 2^63", i);
        }
    }
    RLX_TRY(rlx_infer_set(infer, 0, in->dtype, dims, rank));
    for (uint32_t i = 0; i < rank; i++) {
        bool is_whole = attrs->shape.items[i] == 1;
        if (!is_whole) RLX_TRY(rlx_infer_whole_rows(infer, i));
        if (!is_whole && in->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, 0, i);
        infer->out[0].extents[i] = in->extents[i];
    }
    return RLX_OK;
}

/* Any extents of the input are fine: the kernel sees true dims and reports true places. */
rlx_status rlx_infer_nonzero(rlx_infer *infer) {
    const rlx_type *in = infer->in[0];
    uint64_t elements;
    RLX_TRY(rlx_infer_no_block(infer, 0));
    RLX_TRY(rlx_shape_elements(&in->shape, &elements));
    if (elements > INT64_MAX) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "nonzero of %" PRIu64 " elements", elements);
    }
    if (infer->out_ids[1] == RLX_NONE) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "nonzero without its count output");
    }
    int64_t dims[2] = {(int64_t)in->shape.rank, (int64_t)elements};
    RLX_TRY(rlx_infer_set(infer, 0, RLX_DTYPE_I64, dims, 2));
    RLX_TRY(rlx_infer_set(infer, 1, RLX_DTYPE_I64, NULL, 0));
    infer->out[0].extents[1] = infer->out_ids[1];
    return RLX_OK;
}

rlx_status rlx_infer_limit(rlx_infer *infer) {
    const rlx_axis_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0], *size = infer->in[1];
    uint32_t axis;
    RLX_TRY(rlx_infer_no_block(infer, 0));
    RLX_TRY(rlx_infer_axis(attrs->axis, x->shape.rank, &axis));
    if (size->dtype != RLX_DTYPE_I64 || size->shape.rank != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "limit wants its size as i64[], got %s rank %u",
                        rlx_dtype_name(size->dtype), size->shape.rank);
    }
    infer->out[0] = *x;
    infer->out[0].extents[axis] = infer->in_ids[1];
    return RLX_OK;
}

/* Elements of blocks and 4-bit ones stay in rows; a packed value has the size it was planned with.
 */
rlx_status rlx_infer_pack(rlx_infer *infer) {
    const rlx_pack_attrs *attrs = infer->attrs;
    rlx_type out = *infer->in[0];
    uint64_t bytes;
    out.layout = attrs->layout;
    if (out.layout != RLX_LAYOUT_PLAIN) RLX_TRY(rlx_infer_no_extent(infer, 0));
    RLX_TRY(rlx_type_bytes(&out, &bytes));
    infer->out[0] = out;
    return RLX_OK;
}
