/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of detectors' ops (nms, roi_align) and of unique. How much nms and unique find only a
 * run knows: they give it as an extent. */
#include "ir/infer/check.h"
#include "ir/infer/movement.h"

#include "base/size.h"

static rlx_status check_rank(const rlx_infer *infer, uint32_t input, const char *name,
                             uint32_t rank) {
    uint32_t got = infer->in[input]->shape.rank;
    if (got == rank) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s: %s have rank %u instead of %u", rlx_op_name(infer->op),
                    name, got, rank);
}

static rlx_status check_same_dim(const rlx_infer *infer, uint32_t a, uint32_t a_axis, uint32_t b,
                                 uint32_t b_axis) {
    const rlx_type *x = infer->in[a], *y = infer->in[b];
    if (x->shape.dims[a_axis] != y->shape.dims[b_axis])
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "%s: axis %u of input %u is %" PRId64 ", axis %u of input %u is %" PRId64,
                        rlx_op_name(infer->op), a_axis, a, x->shape.dims[a_axis], b_axis, b,
                        y->shape.dims[b_axis]);
    if (x->extents[a_axis] != y->extents[b_axis]) return rlx_infer_lost_extent(infer, a, a_axis);
    return RLX_OK;
}

static rlx_status check_four(const rlx_infer *infer, uint32_t input, uint32_t axis) {
    int64_t dim = infer->in[input]->shape.dims[axis];
    RLX_TRY(rlx_check_exact_dim(infer, input, axis));
    if (dim == 4) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s: a box has %" PRId64 " numbers instead of 4",
                    rlx_op_name(infer->op), dim);
}

/* An optional number of one element; any rank. */
static rlx_status check_number(const rlx_infer *infer, uint32_t input, const char *name,
                               rlx_dtype dtype) {
    uint64_t elements = 0;
    if (!rlx_infer_has(infer, input)) return RLX_OK;
    RLX_TRY(rlx_check_dtype(infer, input, name, dtype, false));
    RLX_TRY(rlx_infer_no_extent(infer, input));
    RLX_TRY(rlx_shape_elements(&infer->in[input]->shape, &elements));
    if (elements == 1) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s: %s has %" PRIu64 " elements instead of 1",
                    rlx_op_name(infer->op), name, elements);
}

static rlx_status check_nms(const rlx_infer *infer) {
    RLX_TRY(rlx_check_dtype(infer, 0, "boxes", RLX_DTYPE_F32, false));
    RLX_TRY(rlx_check_dtype(infer, 1, "scores", RLX_DTYPE_F32, false));
    RLX_TRY(check_rank(infer, 0, "boxes", 3));
    RLX_TRY(check_rank(infer, 1, "scores", 3));
    RLX_TRY(check_same_dim(infer, 0, 0, 1, 0));
    RLX_TRY(check_same_dim(infer, 0, 1, 1, 2));
    RLX_TRY(check_four(infer, 0, 2));
    RLX_TRY(check_number(infer, 2, "most", RLX_DTYPE_I64));
    RLX_TRY(check_number(infer, 3, "overlap", RLX_DTYPE_F32));
    return check_number(infer, 4, "score", RLX_DTYPE_F32);
}

static rlx_status check_count_output(const rlx_infer *infer, uint32_t output) {
    if (infer->out_ids[output] != RLX_NONE) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s without its count output", rlx_op_name(infer->op));
}

rlx_status rlx_infer_nms(rlx_infer *infer) {
    const rlx_nms_attrs *attrs = infer->attrs;
    RLX_TRY(check_nms(infer));
    const int64_t *scores = infer->in[1]->shape.dims;
    int64_t dims[2] = {0, 3}, per_class = scores[2];
    RLX_TRY(check_count_output(infer, 1));
    if (attrs->bound < 0)
        return RLX_FAIL(RLX_INVALID_GRAPH, "nms: bound %" PRId64 " is negative", attrs->bound);
    if (attrs->bound != 0 && attrs->bound < per_class) per_class = attrs->bound;
    if (!rlx_mul_i64(scores[0], scores[1], &dims[0]) || !rlx_mul_i64(dims[0], per_class, &dims[0]))
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "nms of %" PRId64 " x %" PRId64 " x %" PRId64, scores[0],
                        scores[1], per_class);
    RLX_TRY(rlx_infer_set(infer, 0, RLX_DTYPE_I64, dims, 2));
    RLX_TRY(rlx_infer_set(infer, 1, RLX_DTYPE_I64, NULL, 0));
    infer->out[0].extents[0] = infer->out_ids[1];
    return RLX_OK;
}

rlx_status rlx_infer_roi_align(rlx_infer *infer) {
    const rlx_roi_align_attrs *attrs = infer->attrs;
    const rlx_type *x = infer->in[0], *regions = infer->in[1];
    RLX_TRY(rlx_check_float(infer, 0, "x"));
    RLX_TRY(rlx_check_dtype(infer, 1, "regions", x->dtype, false));
    RLX_TRY(rlx_check_dtype(infer, 2, "batch indices", RLX_DTYPE_I64, false));
    RLX_TRY(check_rank(infer, 0, "x", 4));
    RLX_TRY(check_rank(infer, 1, "regions", 2));
    RLX_TRY(check_rank(infer, 2, "batch indices", 1));
    RLX_TRY(check_four(infer, 1, 1));
    RLX_TRY(check_same_dim(infer, 1, 0, 2, 0));
    if (attrs->height < 0 || attrs->width < 0 || attrs->samples < 0)
        return RLX_FAIL(RLX_INVALID_GRAPH,
                        "roi_align: %" PRId64 " x %" PRId64 " bins of %" PRId64 " samples",
                        attrs->height, attrs->width, attrs->samples);
    RLX_TRY(rlx_check_number("scale", attrs->scale, true));
    const int64_t dims[] = {regions->shape.dims[0], x->shape.dims[1],
                            attrs->height == 0 ? 1 : attrs->height,
                            attrs->width == 0 ? 1 : attrs->width};
    RLX_TRY(rlx_infer_set(infer, 0, x->dtype, dims, 4));
    infer->out[0].extents[0] = regions->extents[0];
    infer->out[0].extents[1] = x->extents[1];
    return RLX_OK;
}

rlx_status rlx_infer_gather_sum(rlx_infer *infer) {
    const rlx_type *x = infer->in[0], *index = infer->in[1];
    RLX_TRY(rlx_check_float(infer, 0, "x"));
    RLX_TRY(rlx_infer_index_dtype(infer, 1));
    RLX_TRY(rlx_check_dtype(infer, 2, "weights", x->dtype, false));
    if (x->shape.rank != 4) RLX_TRY(check_rank(infer, 0, "x", 3));
    RLX_TRY(check_rank(infer, 1, "index", 3));
    RLX_TRY(check_rank(infer, 2, "weights", 3));
    RLX_TRY(check_same_dim(infer, 0, 0, 1, 0));
    for (uint32_t i = 0; i < 3; i++)
        RLX_TRY(check_same_dim(infer, 1, i, 2, i));
    rlx_shape shape = x->shape;
    shape.dims[2] = index->shape.dims[2];
    RLX_TRY(rlx_infer_set(infer, 0, x->dtype, shape.dims, shape.rank));
    for (uint32_t i = 0; i < shape.rank; i++)
        infer->out[0].extents[i] = i == 2 ? index->extents[2] : x->extents[i];
    return RLX_OK;
}

rlx_status rlx_infer_unique(rlx_infer *infer) {
    const rlx_unique_attrs *attrs = infer->attrs;
    const rlx_type *in = infer->in[0];
    rlx_type values = *in;
    uint32_t axis = 0;
    uint64_t elements = 0;
    if (rlx_dtype_block_elements(in->dtype) != 1)
        return RLX_FAIL(RLX_UNSUPPORTED, "unique of %s", rlx_dtype_name(in->dtype));
    RLX_TRY(rlx_infer_no_extent(infer, 0));
    RLX_TRY(check_count_output(infer, 4));
    if (attrs->by_axis) {
        RLX_TRY(rlx_infer_axis(attrs->axis, in->shape.rank, &axis));
    } else {
        RLX_TRY(rlx_shape_elements(&in->shape, &elements));
        if (elements > INT64_MAX)
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "unique of %" PRIu64 " elements", elements);
        values = rlx_type_make(in->dtype, &(int64_t){(int64_t)elements}, 1);
    }
    int64_t count = values.shape.dims[axis];
    RLX_TRY(rlx_infer_set(infer, 0, values.dtype, values.shape.dims, values.shape.rank));
    for (uint32_t i = 1; i <= 3; i++)
        RLX_TRY(rlx_infer_set(infer, i, RLX_DTYPE_I64, &count, 1));
    RLX_TRY(rlx_infer_set(infer, 4, RLX_DTYPE_I64, NULL, 0));
    infer->out[0].extents[axis] = infer->out_ids[4];
    infer->out[1].extents[0] = infer->out_ids[4];
    infer->out[3].extents[0] = infer->out_ids[4];
    return RLX_OK;
}
