/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that make tensors from numbers and shapes, and those that pick by data. */
#include "import/onnx/growth.h"
#include "import/onnx/ops.h"
#include "ir/dtype.h"

#include <math.h>
#include <string.h>

static void constant_list(ox *o, const rlx_onnx_attr *attr, rlx_dtype dtype, bool is_list) {
    const int64_t dims[] = {is_list ? (int64_t)attr->count : 1};
    const void *data = dtype == RLX_DTYPE_F32 ? (is_list ? (const void *)attr->floats : &attr->f)
                                              : (is_list ? (const void *)attr->ints : &attr->i);
    uint64_t bytes = (uint64_t)dims[0] * rlx_dtype_block_bytes(dtype);
    ox_give(o, 0, ox_constant(o, dtype, dims, is_list ? 1 : 0, data, bytes));
}

void rlx_ox_constant(ox *o) {
    const rlx_onnx_attr *attr = NULL;
    if ((attr = ox_attr(o, "value")) != NULL && attr->tensor != NULL) {
        ox_give_item(o, 0, ox_tensor_item(o, attr->tensor, NULL));
    } else if ((attr = ox_attr(o, "value_float")) != NULL) {
        constant_list(o, attr, RLX_DTYPE_F32, false);
    } else if ((attr = ox_attr(o, "value_floats")) != NULL) {
        constant_list(o, attr, RLX_DTYPE_F32, true);
    } else if ((attr = ox_attr(o, "value_int")) != NULL) {
        constant_list(o, attr, RLX_DTYPE_I64, false);
    } else if ((attr = ox_attr(o, "value_ints")) != NULL) {
        constant_list(o, attr, RLX_DTYPE_I64, true);
    } else {
        ox_unsupported(o, "a constant that is neither tensor nor number");
    }
}

void rlx_ox_constant_of_shape(ox *o) {
    const rlx_onnx_attr *attr = ox_attr(o, "value");
    ox_sizes shape;
    rlx_value_id value;
    if (attr != NULL && attr->tensor != NULL) {
        if (attr->tensor->is_string) ox_unsupported(o, "a tensor of strings");
        value = ox_tensor(o, attr->tensor, NULL);
        value = ox_reshape(o, value, NULL, 0);
    } else {
        value = ox_scalar(o, RLX_DTYPE_F32, 0);
    }
    if (!ox_need_sizes(o, ox_in(o, 0), &shape)) return;
    ox_give(o, 0, ox_spread(o, value, &shape));
}

/* Element (i, j) is 1 where j - i is `k`. */
static rlx_value_id distance(ox *o, int64_t rows, int64_t columns) {
    const int64_t down[] = {rows, 1};
    rlx_value_id i = ox_reshape(o, ox_range(o, RLX_DTYPE_I64, rows), down, 2);
    return ox_binary(o, RLX_OP_SUB, ox_range(o, RLX_DTYPE_I64, columns), i);
}

void rlx_ox_eye_like(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    rlx_dtype dtype = ox_dtype(o, x);
    int64_t k = ox_int(o, "k", 0);
    if (ox_ok(o) && ox_rank(o, x) != 2) ox_invalid(o, "input has rank %u", ox_rank(o, x));
    if (ox_attr(o, "dtype") != NULL && !rlx_onnx_dtype(ox_int(o, "dtype", 1), &dtype))
        ox_unsupported(o, "dtype %s", rlx_onnx_type_name(ox_int(o, "dtype", 0)));
    if (!ox_ok(o)) return;
    rlx_value_id far = distance(o, ox_dim(o, x, 0), ox_dim(o, x, 1));
    rlx_value_id hit = ox_binary(o, RLX_OP_EQUAL, far, ox_scalar(o, RLX_DTYPE_I64, (double)k));
    ox_give(o, 0, ox_cast(o, hit, dtype));
}

/* The distance from the diagonal is a constant; k may be an input. */
void rlx_ox_trilu(ox *o) {
    rlx_value_id x = ox_in(o, 0), k = ox_maybe(o, 1);
    uint32_t rank = ox_rank(o, x);
    bool is_upper = ox_int(o, "upper", 1) != 0;
    if (ox_ok(o) && rank < 2) ox_invalid(o, "input has rank %u", rank);
    if (!ox_ok(o)) return;
    rlx_type type = ox_type(o, x);
    rlx_value_id far = distance(o, type.shape.dims[rank - 2], type.shape.dims[rank - 1]);
    for (uint32_t i = 0; i < 2; i++)
        far = ox_limit(o, far, i, type.extents[rank - 2 + i]);
    if (k == RLX_NONE) k = ox_scalar(o, RLX_DTYPE_I64, 0);
    k = ox_reshape(o, k, NULL, 0);
    rlx_value_id keep = ox_binary(o, is_upper ? RLX_OP_GREATER_EQUAL : RLX_OP_LESS_EQUAL, far, k);
    ox_give(o, 0, ox_where(o, keep, x, ox_scalar(o, ox_dtype(o, x), 0)));
}

/* Whether a size is less than what caches hold, so that it may be below 0. */
static bool is_below_held(const ox *o, rlx_value_id extent) {
    ox_sum sum;
    return ox_find_grown_size(o, extent, &sum) && sum.plus < 0;
}

/* A range in steps of 1 whose limits are sizes, one of them known only at run time, is cut out of
 * the places below its end. RLX_NONE: it is not so. */
static rlx_value_id range_of_sizes(ox *o, rlx_value_id start, rlx_value_id limit) {
    rlx_value_id first = RLX_NONE, last = RLX_NONE;
    int64_t least = 0, most = 0;
    if (!ox_ok(o) || ox_is_float(o, start) || !ox_size_at(o, limit, 0, &most, &last) ||
        !ox_size_at(o, start, 0, &least, &first) || (first == RLX_NONE && last == RLX_NONE) ||
        least < 0 || most < 0 || most > OX_MOST_NUMBERS || is_below_held(o, first))
        return RLX_NONE;
    if (is_below_held(o, last)) { /* below 0 there is nothing, while a slice counts from the end */
        limit = ox_cast(o, ox_reshape(o, limit, NULL, 0), RLX_DTYPE_I64);
        limit = ox_binary(o, RLX_OP_MAX, limit, ox_scalar(o, RLX_DTYPE_I64, 0));
        return ox_cut(o, ox_range(o, RLX_DTYPE_I64, most), 0, start, limit, 1);
    }
    rlx_value_id all = last == RLX_NONE ? ox_range(o, RLX_DTYPE_I64, most) : ox_places(o, last);
    bool is_whole = first == RLX_NONE && least == 0;
    return is_whole ? all : ox_cut(o, all, 0, start, limit, 1);
}

/* The number of elements must be known; the elements are computed where they are needed. */
void rlx_ox_range(ox *o) {
    rlx_value_id start = ox_in(o, 0), limit = ox_in(o, 1), delta = ox_in(o, 2);
    int64_t steps_between = 0;
    if (ox_ok(o) && ox_is_constant(o, delta) && ox_need_double(o, delta) == 1) {
        rlx_value_id found = RLX_NONE;
        if (ox_distance(o, start, limit, &steps_between) && steps_between <= OX_MOST_NUMBERS) {
            found = ox_range(o, ox_dtype(o, start), steps_between < 0 ? 0 : steps_between);
            found = ox_binary(o, RLX_OP_ADD, found, ox_reshape(o, start, NULL, 0));
        } else {
            found = range_of_sizes(o, start, limit);
        }
        if (found != RLX_NONE || !ox_ok(o)) {
            ox_give(o, 0, ox_cast(o, found, ox_dtype(o, start)));
            return;
        }
    }
    ox_need(o, start);
    ox_need(o, limit);
    ox_need(o, delta);
    if (!ox_ok(o)) return;
    double step = ox_need_double(o, delta);
    double count = ceil((ox_need_double(o, limit) - ox_need_double(o, start)) / step);
    if (ox_ok(o) && (step == 0 || isnan(count) || count > OX_MOST_NUMBERS))
        ox_invalid(o, "a range of %g elements", count);
    if (!ox_ok(o)) return;
    rlx_dtype dtype = ox_dtype(o, start);
    rlx_value_id steps = ox_range(o, dtype, count < 0 ? 0 : (int64_t)count);
    delta = ox_reshape(o, delta, NULL, 0);
    start = ox_reshape(o, start, NULL, 0);
    ox_give(o, 0, ox_binary(o, RLX_OP_ADD, ox_binary(o, RLX_OP_MUL, steps, delta), start));
}

void rlx_ox_nonzero(ox *o) {
    rlx_value_id x = ox_in(o, 0), out[2];
    ox_nodes(o, RLX_OP_NONZERO, NULL, &x, 1, out, 2);
    ox_give(o, 0, out[0]);
}

/* The places where the condition holds, then a gather of them. */
void rlx_ox_compress(ox *o) {
    rlx_value_id x = ox_in(o, 0), condition = ox_in(o, 1), out[2];
    const int64_t flat[] = {-1};
    int64_t axis = 0;
    if (ox_attr(o, "axis") == NULL) {
        x = ox_reshape(o, x, flat, 1);
    } else {
        axis = ox_int(o, "axis", 0);
    }
    uint32_t at = ox_axis(o, axis, ox_rank(o, x));
    if (ox_ok(o) && ox_dim(o, condition, 0) > ox_dim(o, x, at))
        condition = ox_slice(o, condition, 0, 0, ox_dim(o, x, at), 1);
    ox_nodes(o, RLX_OP_NONZERO, NULL, &condition, 1, out, 2);
    ox_give(o, 0, ox_gather(o, x, ox_squeeze(o, out[0], 0), axis));
}

/* Indices may count from the end; one that is outside gives a row of `off`. */
void rlx_ox_one_hot(ox *o) {
    rlx_value_id indices = ox_in(o, 0), values = ox_in(o, 2);
    uint32_t rank = ox_rank(o, indices);
    int64_t depth = 0, dims[RLX_MAX_RANK];
    rlx_value_id depth_value = ox_in(o, 1);
    if (ox_is_float(o, depth_value)) {
        ox_need_double(o, depth_value);
        if (ox_ok(o)) depth = ox_number_at(o, depth_value, 0);
    } else {
        depth = ox_need_int(o, depth_value);
    }
    uint32_t axis = ox_axis(o, ox_int(o, "axis", -1), rank + 1);
    if (ox_ok(o) && rank == RLX_MAX_RANK) ox_unsupported(o, "a result of %u dims", rank + 1);
    if (!ox_ok(o)) return;
    for (uint32_t i = 0; i <= rank; i++)
        dims[i] = i == axis ? depth : 1;
    indices = ox_unsqueeze(o, ox_cast(o, indices, RLX_DTYPE_I64), axis);
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0);
    rlx_value_id wrapped =
        ox_binary(o, RLX_OP_ADD, indices, ox_scalar(o, RLX_DTYPE_I64, (double)depth));
    indices = ox_where(o, ox_binary(o, RLX_OP_LESS, indices, zero), wrapped, indices);
    rlx_value_id places = ox_reshape(o, ox_range(o, RLX_DTYPE_I64, depth), dims, rank + 1);
    rlx_value_id off = ox_reshape(o, ox_slice(o, values, 0, 0, 1, 1), NULL, 0);
    rlx_value_id on = ox_reshape(o, ox_slice(o, values, 0, 1, 2, 1), NULL, 0);
    ox_give(o, 0, ox_where(o, ox_binary(o, RLX_OP_EQUAL, places, indices), on, off));
}

void rlx_ox_depth_to_space(ox *o) {
    static const int64_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    rlx_value_id x = ox_in(o, 0);
    int64_t block = ox_int(o, "blocksize", 0);
    bool is_crd = strcmp(ox_text(o, "mode", "DCR"), "CRD") == 0;
    if (ox_ok(o) && (ox_rank(o, x) != 4 || block <= 0 || block > 32768 ||
                     ox_dim(o, x, 1) % (block * block) != 0))
        ox_invalid(o, "blocks of %" PRId64 " do not fit the input", block);
    if (!ox_ok(o)) return;
    int64_t n = ox_dim(o, x, 0), c = ox_dim(o, x, 1) / (block * block), h = ox_dim(o, x, 2),
            w = ox_dim(o, x, 3);
    const int64_t dcr_dims[] = {n, block, block, c, h, w}, crd_dims[] = {n, c, block, block, h, w};
    const int64_t result[] = {n, c, ox_times(o, h, block), ox_times(o, w, block)};
    x = ox_reshape(o, x, is_crd ? crd_dims : dcr_dims, 6);
    ox_give(o, 0, ox_reshape(o, ox_transpose(o, x, is_crd ? crd : dcr, 6), result, 4));
}

void rlx_ox_space_to_depth(ox *o) {
    static const int64_t perm[] = {0, 3, 5, 1, 2, 4};
    rlx_value_id x = ox_in(o, 0);
    int64_t b = ox_int(o, "blocksize", 0);
    if (ox_ok(o) && (ox_rank(o, x) != 4 || b <= 0 || b > 32768 || ox_dim(o, x, 2) % b != 0 ||
                     ox_dim(o, x, 3) % b != 0))
        ox_invalid(o, "blocks of %" PRId64 " do not fit the input", b);
    if (!ox_ok(o)) return;
    int64_t n = ox_dim(o, x, 0), c = ox_dim(o, x, 1), h = ox_dim(o, x, 2) / b,
            w = ox_dim(o, x, 3) / b;
    const int64_t dims[] = {n, c, h, b, w, b}, result[] = {n, ox_times(o, c, b * b), h, w};
    x = ox_transpose(o, ox_reshape(o, x, dims, 6), perm, 6);
    ox_give(o, 0, ox_reshape(o, x, result, 4));
}

/* Row t of batch b comes from length[b] - 1 - t while t is inside the length. */
void rlx_ox_reverse_sequence(ox *o) {
    rlx_value_id x = ox_in(o, 0), lengths = ox_cast(o, ox_in(o, 1), RLX_DTYPE_I64);
    rlx_type type = ox_type(o, x);
    uint32_t rank = type.shape.rank;
    uint32_t batch = ox_axis(o, ox_int(o, "batch_axis", 1), rank);
    uint32_t time = ox_axis(o, ox_int(o, "time_axis", 0), rank);
    int64_t time_dims[RLX_MAX_RANK], batch_dims[RLX_MAX_RANK];
    if (ox_ok(o) && batch == time) ox_invalid(o, "batch and time are the same axis");
    if (!ox_ok(o)) return;
    for (uint32_t i = 0; i < rank; i++) {
        time_dims[i] = i == time ? type.shape.dims[i] : 1;
        batch_dims[i] = i == batch ? type.shape.dims[i] : 1;
    }
    rlx_value_id t =
        ox_reshape(o, ox_range(o, RLX_DTYPE_I64, type.shape.dims[time]), time_dims, rank);
    lengths = ox_reshape(o, lengths, batch_dims, rank);
    rlx_value_id last = ox_binary(o, RLX_OP_SUB, lengths, ox_scalar(o, RLX_DTYPE_I64, 1));
    rlx_value_id place =
        ox_where(o, ox_binary(o, RLX_OP_LESS, t, lengths), ox_binary(o, RLX_OP_SUB, last, t), t);
    const rlx_axis_attrs attrs = {time};
    const rlx_value_id inputs[] = {x, ox_expand(o, place, type.shape.dims, rank)};
    ox_give(o, 0, ox_node(o, RLX_OP_GATHER_ELEMENTS, &attrs, inputs, 2));
}
