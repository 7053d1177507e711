/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of reshape, squeeze, unsqueeze, flatten and expand: the same elements in the same
 * order under another shape. An extent survives where its dim does, with as many elements before
 * and after it. */
#include "base/size.h"
#include "ir/infer/movement.h"

/* Finds the output dim, from *from on, that has the size of input dim `axis` and as many elements
 * before it. Dims are without zeros here. */
static bool find_dim(const rlx_shape *in, uint32_t axis, const rlx_shape *out, uint32_t *from) {
    int64_t before_in = 1, before = 1;
    for (uint32_t i = 0; i < axis; i++)
        before_in *= in->dims[i];
    for (uint32_t i = 0; i < out->rank; i++) {
        if (i >= *from && before == before_in && out->dims[i] == in->dims[axis]) {
            *from = i;
            return true;
        }
        before *= out->dims[i];
    }
    return false;
}

/* Sets the output of a reshape-like op: bytes, whole rows of blocks, extents. */
static rlx_status set_reshaped(rlx_infer *infer, const rlx_shape *shape) {
    const rlx_type *in = infer->in[0];
    uint64_t elements, wanted;
    RLX_TRY(rlx_shape_elements(&in->shape, &elements));
    RLX_TRY(rlx_shape_elements(shape, &wanted));
    if (elements != wanted) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s of %" PRIu64 " elements to %" PRIu64,
                        rlx_op_name(infer->op), elements, wanted);
    }
    if (rlx_dtype_is_block(in->dtype) &&
        (shape->rank == 0 ||
         shape->dims[shape->rank - 1] % (int64_t)rlx_dtype_block_elements(in->dtype) != 0)) {
        return rlx_infer_no_block(infer, 0);
    }
    RLX_TRY(rlx_infer_set(infer, 0, in->dtype, shape->dims, shape->rank));
    uint32_t next = 0;
    for (uint32_t i = 0; i < in->shape.rank; i++) {
        if (in->extents[i] == RLX_NONE) continue;
        if (elements == 0 || !find_dim(&in->shape, i, shape, &next)) {
            return rlx_infer_lost_extent(infer, 0, i);
        }
        infer->out[0].extents[next++] = in->extents[i];
    }
    return RLX_OK;
}

/* The dim that -1 stands for. */
static rlx_status fill_inferred(const rlx_type *in, rlx_shape *shape, uint32_t axis) {
    uint64_t elements, known;
    shape->dims[axis] = 1;
    RLX_TRY(rlx_shape_elements(&in->shape, &elements));
    RLX_TRY(rlx_shape_elements(shape, &known));
    if (known == 0 || elements % known != 0 || elements / known > INT64_MAX) {
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "reshape of %" PRIu64 " elements: -1 among dims of product %" PRIu64,
                        elements, known);
    }
    shape->dims[axis] = (int64_t)(elements / known);
    return RLX_OK;
}

rlx_status rlx_infer_reshape(rlx_infer *infer) {
    const rlx_reshape_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    rlx_shape shape = {.rank = attrs->shape.count};
    uint32_t inferred = RLX_NONE;
    if (shape.rank > RLX_MAX_RANK) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "reshape to rank %u (most is %d)", shape.rank,
                        RLX_MAX_RANK);
    }
    for (uint32_t i = 0; i < shape.rank; i++) {
        int64_t dim = attrs->shape.items[i];
        if (dim < -1 || (dim == -1 && inferred != RLX_NONE)) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "reshape: dim %u is %" PRId64 "%s", i, dim,
                            dim == -1 ? ", a second -1" : "");
        }
        if (dim == 0 && i >= in->shape.rank) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "reshape copies dim %u of rank %u", i,
                            in->shape.rank);
        }
        if (dim == -1) inferred = i;
        shape.dims[i] = dim == 0 ? in->shape.dims[i] : dim;
    }
    if (inferred != RLX_NONE) RLX_TRY(fill_inferred(in, &shape, inferred));
    return set_reshaped(infer, &shape);
}

/* Marks the axes of a list; each at most once, within `rank`. */
static rlx_status mark_axes(const rlx_ints *axes, uint32_t rank, bool *out_marks) {
    for (uint32_t i = 0; i < rank; i++)
        out_marks[i] = false;
    if (axes->count > rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "%u axes of rank %u", axes->count, rank);
    }
    for (uint32_t i = 0; i < axes->count; i++) {
        uint32_t axis;
        RLX_TRY(rlx_infer_axis(axes->items[i], rank, &axis));
        if (out_marks[axis]) return RLX_FAIL(RLX_INVALID_GRAPH, "axis %u is named twice", axis);
        out_marks[axis] = true;
    }
    return RLX_OK;
}

static rlx_status squeeze_shape(const rlx_infer *infer, rlx_shape *shape) {
    const rlx_axes_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    bool is_removed[RLX_MAX_RANK];
    RLX_TRY(mark_axes(&attrs->axes, in->shape.rank, is_removed));
    shape->rank = 0;
    for (uint32_t i = 0; i < in->shape.rank; i++) {
        int64_t dim = in->shape.dims[i];
        /* Without a list, a dim of 1 whose size is known at run time only stays. */
        if (attrs->axes.count == 0) is_removed[i] = dim == 1 && in->extents[i] == RLX_NONE;
        if (!is_removed[i]) shape->dims[shape->rank++] = dim;
        if (is_removed[i] && dim != 1) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "squeeze of axis %u, which has %" PRId64, i, dim);
        }
        if (is_removed[i] && in->extents[i] != RLX_NONE) return rlx_infer_lost_extent(infer, 0, i);
    }
    return RLX_OK;
}

static rlx_status unsqueeze_shape(const rlx_infer *infer, rlx_shape *shape) {
    const rlx_axes_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    bool is_added[RLX_MAX_RANK];
    if (attrs->axes.count > RLX_MAX_RANK - in->shape.rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "unsqueeze adds %u axes to rank %u (most is %d)",
                        attrs->axes.count, in->shape.rank, RLX_MAX_RANK);
    }
    shape->rank = in->shape.rank + attrs->axes.count;
    RLX_TRY(mark_axes(&attrs->axes, shape->rank, is_added));
    uint32_t from = 0;
    for (uint32_t i = 0; i < shape->rank; i++)
        shape->dims[i] = is_added[i] ? 1 : in->shape.dims[from++];
    return RLX_OK;
}

/* To [product before axis][product from axis on]; axis may be the rank. */
static rlx_status flatten_shape(const rlx_infer *infer, rlx_shape *shape) {
    const rlx_axis_attrs *attrs = infer->attrs;
    const rlx_shape *in = &infer->in[0]->shape;
    int64_t rank = (int64_t)in->rank, axis = attrs->axis;
    if (axis < -rank || axis > rank) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "flatten at axis %" PRId64 " of rank %u", axis,
                        in->rank);
    }
    if (axis < 0) axis += rank;
    *shape = (rlx_shape){.rank = 2, .dims = {1, 1}};
    for (int64_t i = 0; i < rank; i++) {
        int64_t *dim = &shape->dims[i < axis ? 0 : 1];
        if (!rlx_mul_i64(*dim, in->dims[i], dim)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "flatten: a dim is longer than 2^63");
        }
    }
    return RLX_OK;
}

/* Extents of squeeze and unsqueeze follow their dims exactly, dims of 1 and 0 included. */
static void carry_in_order(rlx_infer *infer) {
    const rlx_type *in = infer->in[0];
    const rlx_axes_attrs *attrs = infer->attrs;
    const rlx_type *wide = infer->op == RLX_OP_SQUEEZE ? in : &infer->out[0];
    bool is_one[RLX_MAX_RANK];
    uint32_t narrow = 0;
    if (mark_axes(&attrs->axes, wide->shape.rank, is_one) != RLX_OK) return;
    for (uint32_t i = 0; i < wide->shape.rank; i++) {
        if (infer->op == RLX_OP_SQUEEZE && attrs->axes.count == 0)
            is_one[i] = in->shape.dims[i] == 1 && in->extents[i] == RLX_NONE;
        if (is_one[i]) continue;
        if (infer->op == RLX_OP_SQUEEZE) infer->out[0].extents[narrow] = in->extents[i];
        if (infer->op == RLX_OP_UNSQUEEZE) infer->out[0].extents[i] = in->extents[narrow];
        narrow++;
    }
}

rlx_status rlx_infer_squeeze(rlx_infer *infer) {
    const rlx_type *in = infer->in[0];
    rlx_shape shape = {0};
    if (infer->op == RLX_OP_FLATTEN) {
        RLX_TRY(flatten_shape(infer, &shape));
        return set_reshaped(infer, &shape);
    }
    if (infer->op == RLX_OP_SQUEEZE) RLX_TRY(squeeze_shape(infer, &shape));
    if (infer->op == RLX_OP_UNSQUEEZE) RLX_TRY(unsqueeze_shape(infer, &shape));
    if (rlx_dtype_is_block(in->dtype) &&
        (shape.rank == 0 || shape.dims[shape.rank - 1] != in->shape.dims[in->shape.rank - 1])) {
        return rlx_infer_no_block(infer, 0);
    }
    RLX_TRY(rlx_infer_set(infer, 0, in->dtype, shape.dims, shape.rank));
    carry_in_order(infer);
    return RLX_OK;
}

rlx_status rlx_infer_expand(rlx_infer *infer) {
    const rlx_reshape_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    rlx_type wanted = rlx_type_make(in->dtype, NULL, 0), result;
    uint64_t bytes;
    if (attrs->shape.count > RLX_MAX_RANK) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "expand to rank %u (most is %d)", attrs->shape.count,
                        RLX_MAX_RANK);
    }
    wanted.shape.rank = attrs->shape.count;
    for (uint32_t i = 0; i < wanted.shape.rank; i++) {
        wanted.shape.dims[i] = attrs->shape.items[i];
        if (wanted.shape.dims[i] < 0) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "expand: dim %u is %" PRId64, i,
                            wanted.shape.dims[i]);
        }
        /* A dim that is asked for at its bound stays as it is, extent and all. */
        uint32_t from_end = wanted.shape.rank - 1 - i;
        if (from_end >= in->shape.rank) continue;
        uint32_t axis = in->shape.rank - 1 - from_end;
        if (in->shape.dims[axis] == wanted.shape.dims[i]) wanted.extents[i] = in->extents[axis];
    }
    RLX_TRY(rlx_infer_broadcast(in, &wanted, &result));
    result.dtype = in->dtype;
    RLX_TRY(rlx_type_bytes(&result, &bytes));
    infer->out[0] = result;
    return RLX_OK;
}
