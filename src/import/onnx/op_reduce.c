/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, sorts and softmaxes. */
#include "import/onnx/extent.h"
#include "import/onnx/ops.h"

#include <math.h>

/* Axes are an attribute first and an input later. */
void rlx_ox_reduce(ox *o) {
    rlx_reduce_attrs attrs = {.keep_dims = ox_int(o, "keepdims", 1) != 0};
    rlx_value_id x = ox_in(o, 0);
    if (ox_has(o, 1)) {
        ox_need_ints(o, ox_in(o, 1), &attrs.axes);
    } else {
        ox_ints(o, "axes", &attrs.axes);
    }
    if (attrs.axes.count == 0 && ox_int(o, "noop_with_empty_axes", 0) != 0) {
        ox_give(o, 0, x);
        return;
    }
    bool is_bool = ox_dtype(o, x) == RLX_DTYPE_BOOL; /* version 20: false < true */
    if (is_bool) x = ox_cast(o, x, RLX_DTYPE_U8);
    x = ox_node(o, o->op, &attrs, &x, 1);
    ox_give(o, 0, is_bool ? ox_cast(o, x, RLX_DTYPE_BOOL) : x);
}

void rlx_ox_arg(ox *o) {
    const rlx_arg_attrs attrs = {.axis = ox_int(o, "axis", 0),
                                 .keep_dims = ox_int(o, "keepdims", 1) != 0,
                                 .select_last = ox_int(o, "select_last_index", 0) != 0};
    rlx_value_id x = ox_in(o, 0);
    ox_give(o, 0, ox_node(o, o->op, &attrs, &x, 1));
}

/* Of so many as only a run knows, or so many of them: all that there can be are sorted, what is not
 * there last, and cut to their number. */
static void top_k_at_run_time(ox *o, rlx_top_k_attrs attrs, rlx_value_id x, rlx_value_id k) {
    rlx_value_id out[2];
    uint32_t axis = ox_axis(o, attrs.axis, ox_rank(o, x));
    if (ox_ok(o) && !ox_is_float(o, x)) ox_unsupported(o, "integers of a run-time size");
    if (!ox_ok(o)) return;
    bool is_number = ox_is_constant(o, k);
    x = ox_to_bound_with(o, x, axis, attrs.smallest ? INFINITY : -INFINITY);
    attrs.k = is_number ? ox_need_int(o, k) : ox_ok(o) ? ox_dim(o, x, axis) : 0;
    ox_nodes(o, RLX_OP_TOP_K, &attrs, &x, 1, out, 2);
    for (uint32_t i = 0; i < 2 && ox_ok(o); i++) {
        if (!is_number) out[i] = ox_cut(o, out[i], axis, ox_scalar(o, RLX_DTYPE_I64, 0), k, 1);
        ox_give(o, i, out[i]);
    }
}

void rlx_ox_top_k(ox *o) {
    rlx_top_k_attrs attrs = {.axis = ox_int(o, "axis", -1),
                             .smallest = ox_int(o, "largest", 1) == 0,
                             .unsorted = ox_int(o, "sorted", 1) == 0};
    rlx_value_id x = ox_in(o, 0), out[2];
    if (ox_ok(o) && o->since >= 10) {
        rlx_value_id k = ox_in(o, 1);
        uint32_t axis = ox_axis(o, attrs.axis, ox_rank(o, x));
        if (ox_ok(o) && (ox_is_run_time(o, k) || ox_type(o, x).extents[axis] != RLX_NONE)) {
            top_k_at_run_time(o, attrs, x, k);
            return;
        }
    }
    attrs.k = o->since < 10 ? ox_int(o, "k", 0) : ox_need_int(o, ox_in(o, 1));
    ox_nodes(o, RLX_OP_TOP_K, &attrs, &x, 1, out, 2);
    ox_give(o, 0, out[0]);
    ox_give(o, 1, out[1]);
}

void rlx_ox_cumsum(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    const rlx_cumsum_attrs attrs = {.axis = ox_need_int(o, ox_in(o, 1)),
                                    .exclusive = ox_int(o, "exclusive", 0) != 0,
                                    .reverse = ox_int(o, "reverse", 0) != 0};
    ox_give(o, 0, ox_node(o, RLX_OP_CUMSUM, &attrs, &x, 1));
}

/* 1 at the first largest element along the axis, 0 elsewhere. */
static rlx_value_id hardmax(ox *o, rlx_value_id x, int64_t axis) {
    const rlx_arg_attrs arg = {.axis = axis, .keep_dims = true};
    int64_t dims[RLX_MAX_RANK];
    rlx_type type = ox_type(o, x);
    uint32_t at = ox_axis(o, axis, type.shape.rank);
    if (!ox_ok(o)) return RLX_NONE;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        dims[i] = i == at ? type.shape.dims[i] : 1;
    rlx_value_id places = ox_range(o, RLX_DTYPE_I64, type.shape.dims[at]);
    places = ox_reshape(o, places, dims, type.shape.rank);
    rlx_value_id best = ox_node(o, RLX_OP_ARG_MAX, &arg, &x, 1);
    return ox_cast(o, ox_binary(o, RLX_OP_EQUAL, places, best), type.dtype);
}

/* Before version 13 everything from the axis on counts as one. */
void rlx_ox_softmax(ox *o) {
    rlx_value_id x = ox_in(o, 0), y = x;
    rlx_axis_attrs attrs = {ox_int(o, "axis", o->since < 13 ? 1 : -1)};
    rlx_type type = ox_type(o, x);
    if (o->since < 13) {
        int64_t dims[2] = {1, 1};
        int64_t wide = attrs.axis < 0 ? ox_plus(o, attrs.axis, type.shape.rank) : attrs.axis;
        if (wide < 0 || wide > type.shape.rank)
            ox_invalid(o, "axis %" PRId64 " is outside a rank of %u", attrs.axis, type.shape.rank);
        if (!ox_ok(o)) return;
        for (uint32_t i = 0; i < type.shape.rank; i++)
            dims[i < (uint32_t)wide ? 0 : 1] =
                ox_times(o, dims[i < (uint32_t)wide ? 0 : 1], type.shape.dims[i]);
        y = ox_reshape(o, x, dims, 2);
        attrs.axis = 1;
    }
    y = o->op == RLX_OP_NONE ? hardmax(o, y, attrs.axis) : ox_node(o, o->op, &attrs, &y, 1);
    if (o->since < 13) y = ox_reshape(o, y, type.shape.dims, type.shape.rank);
    ox_give(o, 0, y);
}
