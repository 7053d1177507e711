/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar gathers. A row (what one index, or one tuple of indices, selects) moves as a whole; rows
 * of block types are decoded to f32. An index outside its axis gives zeros and the INDEX fault, but
 * for gather_sum. */
#include "ref/access.h"
#include "ref/strided.h"

#include "ir/dtype.h"

/* Everything after the first `axis` dims of a tensor: one row. */
static void walk_row(rlx_walk *walk, const rlx_tensor *tensor, uint32_t axis) {
    rlx_walk_init(walk, tensor->dtype, tensor->data, 0, tensor->rank - axis, tensor->dims + axis,
                  tensor->strides + axis);
}

/* Offsets in `to` and `from` are in elements; `is_valid` false writes zeros. */
static void move_row(rlx_walk *to, int64_t to_offset, rlx_walk *from, int64_t from_offset,
                     int64_t row_elements, bool is_valid) {
    static const uint8_t zero[8];
    int64_t unit = rlx_unit_elements(from->dtype);
    rlx_walk_restart(to, to_offset);
    if (!is_valid) {
        rlx_walk_fill(to, zero, 0, row_elements);
        return;
    }
    rlx_walk_restart(from, from_offset / unit);
    if (to->dtype == from->dtype) {
        rlx_walk_copy(to, from, row_elements / unit);
    } else {
        rlx_walk_convert(to, from, row_elements / unit);
    }
}

/* gather: out [outer..][index..][inner..]. Three walks go over (outer, index) together; each moves
 * along the dims that its tensor has. */

static uint32_t gather_prefix(const rlx_kernel_args *args, uint32_t *out_axis) {
    const rlx_axis_attrs *attrs = args->attrs;
    *out_axis = rlx_axis_of(attrs->axis, args->in[0].rank);
    return *out_axis + args->in[1].rank;
}

static int64_t gather_items(const rlx_kernel_args *args) {
    const rlx_tensor *out = &args->out[0];
    uint32_t axis, prefix = gather_prefix(args, &axis);
    return rlx_row_items(out->dtype, rlx_dims_product(out->dims, prefix),
                         rlx_dims_product(out->dims + prefix, out->rank - prefix));
}

/* Whether the dims of a tensor from `axis` on lie one behind the other, as in rows. */
static bool is_dense(const rlx_tensor *tensor, uint32_t axis) {
    int64_t expected = 1;
    for (uint32_t i = tensor->rank; i-- > axis;) {
        if (tensor->dims[i] != 1 && tensor->strides[i] != expected) return false;
        expected *= tensor->dims[i];
    }
    return true;
}

/* Rows of whole bytes, everything but the axes before the gathered one in plain order. */
static bool can_copy_rows(const rlx_tensor *in, const rlx_tensor *index, const rlx_tensor *out,
                          uint32_t axis) {
    return in->dtype == out->dtype && rlx_dtype_row_of(in->dtype)->block_elements == 1 &&
           is_dense(out, 0) && is_dense(index, 0) && is_dense(in, axis + 1);
}

static inline void copy_row(char *to, const char *from, size_t bytes) {
    if (bytes == 4) {
        memcpy(to, from, 4); /* single elements: no call */
    } else {
        memcpy(to, from, bytes);
    }
}

static void copy_rows(const rlx_kernel_args *args, uint32_t axis, int64_t first, int64_t last,
                      int64_t row_elements) {
    const rlx_tensor *in = &args->in[0], *index = &args->in[1];
    int64_t element = rlx_dtype_row_of(in->dtype)->block_bytes, count = rlx_tensor_elements(index);
    int64_t bytes = row_elements * element;
    char *to = (char *)args->out[0].data + first * bytes;
    for (int64_t row = first; row < last;) {
        const char *from = (const char *)in->data +
                           rlx_ref_offset(axis, in->dims, in->strides, row / count) * element;
        for (int64_t i = row % count; i < count && row < last; i++, row++, to += bytes) {
            int64_t at =
                rlx_index_check(args, rlx_index_at(index->dtype, index->data, i), in->dims[axis]);
            if (at >= 0) {
                copy_row(to, from + at * in->strides[axis] * element, (size_t)bytes);
            } else {
                memset(to, 0, (size_t)bytes);
            }
        }
    }
}

static void gather_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *in = &args->in[0], *index = &args->in[1], *out = &args->out[0];
    uint32_t axis, prefix = gather_prefix(args, &axis);
    int64_t rows = rlx_dims_product(out->dims, prefix), first, last;
    int64_t row_elements = rlx_dims_product(out->dims + prefix, out->rank - prefix);
    int64_t outer_strides[RLX_MAX_RANK] = {0}, index_strides[RLX_MAX_RANK] = {0};
    rlx_walk place, outer, pick, to, from;
    rlx_item_rows(out->dtype, rows, row_elements, begin, end, &first, &last);
    if (first >= last) return;
    if (row_elements > 0 && can_copy_rows(in, index, out, axis)) {
        copy_rows(args, axis, first, last, row_elements);
        return;
    }
    for (uint32_t i = 0; i < prefix; i++) {
        if (i < axis) outer_strides[i] = in->strides[i];
        if (i >= axis) index_strides[i] = index->strides[i - axis];
    }
    /* These three only count; u8 makes their units elements. */
    rlx_walk_init(&place, RLX_DTYPE_U8, NULL, 0, prefix, out->dims, out->strides);
    rlx_walk_init(&outer, RLX_DTYPE_U8, NULL, 0, prefix, out->dims, outer_strides);
    rlx_walk_init(&pick, RLX_DTYPE_U8, NULL, 0, prefix, out->dims, index_strides);
    rlx_walk_seek(&place, first);
    rlx_walk_seek(&outer, first);
    rlx_walk_seek(&pick, first);
    walk_row(&to, out, prefix);
    walk_row(&from, in, axis + 1);
    for (int64_t row = first; row < last; row++) {
        int64_t wanted = rlx_index_at(index->dtype, index->data, pick.offset);
        int64_t at = rlx_index_check(args, wanted, in->dims[axis]);
        move_row(&to, place.offset, &from, outer.offset + at * in->strides[axis], row_elements,
                 at >= 0);
        rlx_walk_step(&place);
        rlx_walk_step(&outer);
        rlx_walk_step(&pick);
    }
}

/* gather_elements: out[i][j] = in[index[i][j]][j] for axis 0; shapes of index and out agree. */

static int64_t element_items(const rlx_kernel_args *args) {
    return rlx_row_items(args->out[0].dtype, rlx_tensor_elements(&args->out[0]), 1);
}

static void gather_elements_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_axis_attrs *attrs = args->attrs;
    const rlx_tensor *in = &args->in[0], *index = &args->in[1], *out = &args->out[0];
    uint32_t axis = rlx_axis_of(attrs->axis, in->rank);
    int64_t strides[RLX_MAX_RANK], first, last;
    rlx_walk to, from, pick, element;
    rlx_item_rows(out->dtype, rlx_tensor_elements(out), 1, begin, end, &first, &last);
    if (first >= last) return;
    for (uint32_t i = 0; i < in->rank; i++)
        strides[i] = i == axis ? 0 : in->strides[i];
    rlx_walk_init(&to, out->dtype, out->data, 0, out->rank, out->dims, out->strides);
    rlx_walk_init(&from, RLX_DTYPE_U8, NULL, 0, out->rank, out->dims, strides);
    rlx_walk_init(&pick, RLX_DTYPE_U8, NULL, 0, out->rank, out->dims, index->strides);
    rlx_walk_seek(&to, first);
    rlx_walk_seek(&from, first);
    rlx_walk_seek(&pick, first);
    rlx_walk_init(&element, in->dtype, in->data, 0, 0, NULL, NULL);
    for (int64_t i = first; i < last; i++) {
        static const uint8_t zero[8];
        int64_t wanted = rlx_index_at(index->dtype, index->data, pick.offset);
        int64_t at = rlx_index_check(args, wanted, in->dims[axis]);
        if (at < 0) {
            rlx_walk_fill(&to, zero, 0, 1);
        } else {
            rlx_walk_restart(&element, from.offset + at * in->strides[axis]);
            rlx_walk_copy(&to, &element, 1);
        }
        rlx_walk_step(&from);
        rlx_walk_step(&pick);
    }
}

/* gather_nd: the last axis of the index is a tuple that selects out of in[batch..]. */

static uint32_t tuple_size(const rlx_tensor *index) {
    return (uint32_t)index->dims[index->rank - 1];
}

static int64_t gather_nd_items(const rlx_kernel_args *args) {
    const rlx_tensor *out = &args->out[0];
    uint32_t prefix = args->in[1].rank - 1;
    return rlx_row_items(out->dtype, rlx_dims_product(out->dims, prefix),
                         rlx_dims_product(out->dims + prefix, out->rank - prefix));
}

/* Offset in `in` that the tuple at `offset` of the index adds; false: an index is outside. */
static bool tuple_offset(const rlx_kernel_args *args, uint32_t batch, int64_t offset,
                         int64_t *out_offset) {
    const rlx_tensor *in = &args->in[0], *index = &args->in[1];
    *out_offset = 0;
    for (uint32_t i = 0; i < tuple_size(index); i++) {
        int64_t wanted =
            rlx_index_at(index->dtype, index->data, offset + i * index->strides[index->rank - 1]);
        int64_t at = rlx_index_check(args, wanted, in->dims[batch + i]);
        if (at < 0) return false;
        *out_offset += at * in->strides[batch + i];
    }
    return true;
}

/* Asks for the beginning of a row of `in`: rows may lie anywhere. */
static void ask_row(const rlx_tensor *in, int64_t offset, int64_t elements) {
    enum { LINE = 64, ASKED = 512 };
    const rlx_dtype_row *unit = rlx_dtype_row_of(in->dtype);
    int64_t bytes = rlx_ref_least(elements, ASKED) * unit->block_bytes / unit->block_elements;
    const char *at = (const char *)in->data + offset / unit->block_elements * unit->block_bytes;
    for (int64_t i = 0; i < rlx_ref_least(bytes, ASKED); i += LINE)
        __builtin_prefetch(at + i);
}

enum { TOGETHER = 8 /* rows that are found before one is moved */ };

/* Rows [first, last) of whole bytes where everything lies in plain order and there is no batch. */
static void copy_tuples(const rlx_kernel_args *args, int64_t first, int64_t last,
                        int64_t row_elements) {
    const rlx_tensor *in = &args->in[0];
    int64_t element = rlx_dtype_row_of(in->dtype)->block_bytes, bytes = row_elements * element;
    int64_t tuple = tuple_size(&args->in[1]), offsets[TOGETHER], count;
    char *to = (char *)args->out[0].data + first * bytes;
    for (int64_t row = first; row < last; row += count) {
        count = rlx_ref_least(TOGETHER, last - row);
        for (int64_t i = 0; i < count; i++) {
            if (!tuple_offset(args, 0, (row + i) * tuple, &offsets[i])) offsets[i] = -1;
            if (offsets[i] >= 0) ask_row(in, offsets[i], row_elements);
        }
        for (int64_t i = 0; i < count; i++, to += bytes) {
            if (offsets[i] >= 0) {
                copy_row(to, (const char *)in->data + offsets[i] * element, (size_t)bytes);
            } else {
                memset(to, 0, (size_t)bytes);
            }
        }
    }
}

static void gather_nd_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_gather_nd_attrs *attrs = args->attrs;
    const rlx_tensor *in = &args->in[0], *index = &args->in[1], *out = &args->out[0];
    uint32_t batch = (uint32_t)attrs->batch_dims, prefix = index->rank - 1;
    int64_t rows = rlx_dims_product(out->dims, prefix), first, last;
    int64_t row_elements = rlx_dims_product(out->dims + prefix, out->rank - prefix);
    int64_t batch_strides[RLX_MAX_RANK] = {0};
    rlx_walk place, outer, pick, to, from;
    rlx_item_rows(out->dtype, rows, row_elements, begin, end, &first, &last);
    if (first >= last) return;
    if (batch == 0 && row_elements > 0 && tuple_size(index) > 0 &&
        can_copy_rows(in, index, out, tuple_size(index) - 1)) {
        copy_tuples(args, first, last, row_elements);
        return;
    }
    for (uint32_t i = 0; i < batch; i++)
        batch_strides[i] = in->strides[i];
    rlx_walk_init(&place, RLX_DTYPE_U8, NULL, 0, prefix, out->dims, out->strides);
    rlx_walk_init(&outer, RLX_DTYPE_U8, NULL, 0, prefix, out->dims, batch_strides);
    rlx_walk_init(&pick, RLX_DTYPE_U8, NULL, 0, prefix, out->dims, index->strides);
    rlx_walk_seek(&place, first);
    rlx_walk_seek(&outer, first);
    rlx_walk_seek(&pick, first);
    walk_row(&to, out, prefix);
    walk_row(&from, in, batch + tuple_size(index));
    for (int64_t row = first, count; row < last; row += count) {
        int64_t offsets[TOGETHER];
        bool is_valid[TOGETHER];
        count = rlx_ref_least(TOGETHER, last - row);
        for (int64_t i = 0; i < count; i++) {
            is_valid[i] = tuple_offset(args, batch, pick.offset, &offsets[i]);
            offsets[i] += outer.offset;
            if (is_valid[i]) ask_row(in, offsets[i], row_elements);
            rlx_walk_step(&outer);
            rlx_walk_step(&pick);
        }
        for (int64_t i = 0; i < count; i++) {
            move_row(&to, place.offset, &from, offsets[i], row_elements, is_valid[i]);
            rlx_walk_step(&place);
        }
    }
}

/* gather_sum: an item is the points of one plane (n, c), or their rows. */

static int64_t gather_sum_items(const rlx_kernel_args *args) {
    return rlx_tensor_elements(&args->out[0]) == 0 ? 0
                                                   : args->out[0].dims[0] * args->out[0].dims[1];
}

static int64_t gather_sum_cost(const rlx_kernel_args *args) {
    int64_t row = args->out[0].rank == 4 ? args->out[0].dims[3] : 1;
    return rlx_ref_cost(row, rlx_ref_cost(args->in[1].dims[1], args->in[1].dims[2]));
}

/* The sum of point p; offsets are those of the plane, of index[n] and of weights[n]. */
static double sum_point(const rlx_kernel_args *args, int64_t p, int64_t plane, int64_t index_at,
                        int64_t weights_at) {
    const rlx_tensor *x = &args->in[0], *index = &args->in[1], *weights = &args->in[2];
    double sum = 0, value, weight;
    for (int64_t k = 0; k < index->dims[1]; k++) {
        int64_t at = rlx_index_at(index->dtype, index->data,
                                  index_at + k * index->strides[1] + p * index->strides[2]);
        if (at < 0 || at >= x->dims[2]) continue;
        rlx_ref_read_f64(x, plane + at * x->strides[2], 1, 1, &value);
        rlx_ref_read_f64(weights, weights_at + k * weights->strides[1] + p * weights->strides[2], 1,
                         1, &weight);
        sum += weight * value;
    }
    return sum;
}

static void gather_sum_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_tensor *x = &args->in[0], *out = &args->out[0];
    const int64_t row = out->rank == 4 ? out->dims[3] : 1;
    for (int64_t item = begin; item < end; item++) {
        int64_t n = item / out->dims[1], c = item % out->dims[1];
        int64_t plane = n * x->strides[0] + c * x->strides[1];
        int64_t to = n * out->strides[0] + c * out->strides[1];
        for (int64_t i = 0; i < out->dims[2] * row; i++) {
            int64_t p = i / row, x_at = 0, out_at = p * out->strides[2];
            if (x->rank == 4) x_at = i % row * x->strides[3], out_at += i % row * out->strides[3];
            double sum = sum_point(args, p, plane + x_at, n * args->in[1].strides[0],
                                   n * args->in[2].strides[0]);
            rlx_ref_write_f64(out, to + out_at, 1, 1, &sum);
        }
    }
}

const rlx_ref_row rlx_ref_gather_rows[] = {
    {RLX_OP_GATHER, {"gather_scalar", gather_run, gather_items, NULL, NULL}},
    {RLX_OP_GATHER_ELEMENTS,
     {"gather_elements_scalar", gather_elements_run, element_items, NULL, NULL}},
    {RLX_OP_GATHER_ND, {"gather_nd_scalar", gather_nd_run, gather_nd_items, NULL, NULL}},
    {RLX_OP_GATHER_SUM,
     {"gather_sum_scalar", gather_sum_run, gather_sum_items, gather_sum_cost, NULL}},
};
const uint32_t rlx_ref_gather_count = sizeof rlx_ref_gather_rows / sizeof rlx_ref_gather_rows[0];
