/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar scatters: a copy of the data, then updates in the order of the indices, so that of two
 * updates of one place the later one counts (or both are combined in that order). Work items own
 * disjoint parts of the output. An index outside its axis writes nothing and raises the INDEX
 * fault.
 */
#include "ref/strided.h"

#include "ir/dtype.h"

static double combine_f64(rlx_scatter_mode mode, double old, double update) {
    switch (mode) {
    case RLX_SCATTER_ADD:
        return old + update;
    case RLX_SCATTER_MUL:
        return old * update;
    case RLX_SCATTER_MIN:
        return old != old || old < update ? old : update;
    default:
        return old != old || old > update ? old : update;
    }
}

/* Sums and products wrap; order is that of the dtype. */
static int64_t combine_i64(rlx_scatter_mode mode, bool is_unsigned, int64_t old, int64_t update) {
    uint64_t a = (uint64_t)old, b = (uint64_t)update;
    bool is_less = is_unsigned ? a < b : old < update;
    switch (mode) {
    case RLX_SCATTER_ADD:
        return (int64_t)(a + b);
    case RLX_SCATTER_MUL:
        return (int64_t)(a * b);
    case RLX_SCATTER_MIN:
        return is_less ? old : update;
    default:
        return is_less ? update : old;
    }
}

static void combine(rlx_scatter_mode mode, rlx_dtype dtype, void *data, int64_t offset,
                    const void *updates, int64_t update_offset) {
    rlx_dtype_class class_ = rlx_dtype_row_of(dtype)->class_;
    if (class_ == RLX_CLASS_FLOAT) {
        double old = rlx_load_f64(dtype, data, offset);
        double update = rlx_load_f64(dtype, updates, update_offset);
        rlx_store_f64(dtype, data, offset, combine_f64(mode, old, update));
        return;
    }
    int64_t old = rlx_load_i64(dtype, data, offset);
    int64_t update = rlx_load_i64(dtype, updates, update_offset);
    rlx_store_i64(dtype, data, offset,
                  combine_i64(mode, class_ == RLX_CLASS_UNSIGNED, old, update));
}

/* The next `count` elements of `updates` into the next of `to`. */
static void apply(rlx_scatter_mode mode, rlx_walk *to, rlx_walk *updates, int64_t count) {
    if (mode == RLX_SCATTER_SET) {
        rlx_walk_copy(to, updates, count);
        return;
    }
    for (; count > 0; count--) {
        combine(mode, to->dtype, to->data, to->offset, updates->data, updates->offset);
        rlx_walk_step(to);
        rlx_walk_step(updates);
    }
}

/* scatter_elements: indices differ only along the axis, so what lies before it splits the work. */

static int64_t elements_items(const rlx_kernel_args *args) {
    const rlx_scatter_attrs *attrs = args->attrs;
    const rlx_tensor *out = &args->out[0];
    uint32_t axis = rlx_axis_of(attrs->axis, out->rank);
    return rlx_row_items(out->dtype, rlx_dims_product(out->dims, axis),
                         rlx_dims_product(out->dims + axis, out->rank - axis));
}

/* Offsets of a place before the axis in the four tensors. */
typedef struct elements_place {
    int64_t in, index, updates, out;
    bool has_updates; /* the indices may cover less than the data */
} elements_place;

static elements_place place_of(const rlx_kernel_args *args, uint32_t axis, int64_t row) {
    const rlx_tensor *in = &args->in[0], *index = &args->in[1], *updates = &args->in[2];
    const rlx_tensor *out = &args->out[0];
    elements_place place = {.has_updates = true};
    for (uint32_t i = axis; i-- > 0;) {
        int64_t at = row % out->dims[i];
        row /= out->dims[i];
        place.in += at * in->strides[i];
        place.index += at * index->strides[i];
        place.updates += at * updates->strides[i];
        place.out += at * out->strides[i];
        place.has_updates = place.has_updates && at < index->dims[i];
    }
    return place;
}

static void elements_updates(const rlx_kernel_args *args, uint32_t axis, elements_place place) {
    const rlx_scatter_attrs *attrs = args->attrs;
    const rlx_tensor *index = &args->in[1], *updates = &args->in[2], *out = &args->out[0];
    uint32_t rank = out->rank - axis;
    int64_t strides[RLX_MAX_RANK] = {0}, count = rlx_dims_product(index->dims + axis, rank);
    rlx_walk pick, from, beside, to;
    for (uint32_t i = 1; i < rank; i++)
        strides[i] = out->strides[axis + i];
    if (count == 0) return;
    rlx_walk_init(&pick, RLX_DTYPE_U8, NULL, place.index, rank, index->dims + axis,
                  index->strides + axis);
    rlx_walk_init(&from, updates->dtype, updates->data, place.updates, rank, index->dims + axis,
                  updates->strides + axis);
    rlx_walk_init(&beside, RLX_DTYPE_U8, NULL, place.out, rank, index->dims + axis, strides);
    rlx_walk_init(&to, out->dtype, out->data, 0, 0, NULL, NULL);
    for (; count > 0; count--) {
        int64_t wanted = rlx_index_at(index->dtype, index->data, pick.offset);
        int64_t at = rlx_index_check(args, wanted, out->dims[axis]);
        if (at >= 0) {
            rlx_walk_restart(&to, beside.offset + at * out->strides[axis]);
            apply(attrs->mode, &to, &from, 1);
        } else {
            rlx_walk_step(&from);
        }
        rlx_walk_step(&pick);
        rlx_walk_step(&beside);
    }
}

static void elements_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_scatter_attrs *attrs = args->attrs;
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    uint32_t axis = rlx_axis_of(attrs->axis, out->rank), rank = out->rank - axis;
    int64_t rows = rlx_dims_product(out->dims, axis), first, last;
    int64_t row_elements = rlx_dims_product(out->dims + axis, rank);
    rlx_walk to, from;
    rlx_item_rows(out->dtype, rows, row_elements, begin, end, &first, &last);
    rlx_walk_init(&to, out->dtype, out->data, 0, rank, out->dims + axis, out->strides + axis);
    rlx_walk_init(&from, in->dtype, in->data, 0, rank, in->dims + axis, in->strides + axis);
    for (int64_t row = first; row < last; row++) {
        elements_place place = place_of(args, axis, row);
        rlx_walk_restart(&to, place.out);
        rlx_walk_restart(&from, place.in);
        if (in->data != out->data) rlx_walk_copy(&to, &from, row_elements);
        if (place.has_updates) elements_updates(args, axis, place);
    }
}

/* scatter_nd: every item goes through all tuples, for its own part of a row. */

typedef struct nd_shape {
    uint32_t tuple;       /* indices per tuple */
    int64_t tuples, rows; /* how many of each: updates, and places they may go to */
    int64_t row_elements;
} nd_shape;

static nd_shape nd_shape_of(const rlx_kernel_args *args) {
    const rlx_tensor *index = &args->in[1], *out = &args->out[0];
    uint32_t tuple = (uint32_t)index->dims[index->rank - 1];
    return (nd_shape){.tuple = tuple,
                      .tuples = rlx_dims_product(index->dims, index->rank - 1),
                      .rows = rlx_dims_product(out->dims, tuple),
                      .row_elements = rlx_dims_product(out->dims + tuple, out->rank - tuple)};
}

static int64_t nd_items(const rlx_kernel_args *args) {
    nd_shape shape = nd_shape_of(args);
    if (shape.rows == 0) return 0;
    return rlx_row_items(args->out[0].dtype, shape.row_elements, 1);
}

/* Elements [first, last) of each row of the data. */
static void nd_copy(const rlx_kernel_args *args, nd_shape shape, int64_t first, int64_t last) {
    const rlx_tensor *in = &args->in[0], *out = &args->out[0];
    uint32_t rank = out->rank - shape.tuple;
    rlx_walk to_row, from_row, to, from;
    if (in->data == out->data) return;
    rlx_walk_init(&to_row, RLX_DTYPE_U8, NULL, 0, shape.tuple, out->dims, out->strides);
    rlx_walk_init(&from_row, RLX_DTYPE_U8, NULL, 0, shape.tuple, in->dims, in->strides);
    rlx_walk_init(&to, out->dtype, out->data, 0, rank, out->dims + shape.tuple,
                  out->strides + shape.tuple);
    rlx_walk_init(&from, in->dtype, in->data, 0, rank, in->dims + shape.tuple,
                  in->strides + shape.tuple);
    for (int64_t row = 0; row < shape.rows; row++) {
        to.base = to_row.offset;
        from.base = from_row.offset;
        rlx_walk_seek(&to, first);
        rlx_walk_seek(&from, first);
        rlx_walk_copy(&to, &from, last - first);
        rlx_walk_step(&to_row);
        rlx_walk_step(&from_row);
    }
}

static bool nd_place(const rlx_kernel_args *args, nd_shape shape, int64_t offset,
                     int64_t *out_place) {
    const rlx_tensor *index = &args->in[1], *out = &args->out[0];
    *out_place = 0;
    for (uint32_t i = 0; i < shape.tuple; i++) {
        int64_t wanted =
            rlx_index_at(index->dtype, index->data, offset + i * index->strides[index->rank - 1]);
        int64_t at = rlx_index_check(args, wanted, out->dims[i]);
        if (at < 0) return false;
        *out_place += at * out->strides[i];
    }
    return true;
}

static void nd_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    const rlx_scatter_attrs *attrs = args->attrs;
    const rlx_tensor *index = &args->in[1], *updates = &args->in[2], *out = &args->out[0];
    nd_shape shape = nd_shape_of(args);
    uint32_t prefix = index->rank - 1, rank = out->rank - shape.tuple;
    int64_t first, last, place;
    rlx_walk pick, update_row, to, from;
    rlx_item_rows(out->dtype, shape.row_elements, 1, begin, end, &first, &last);
    if (first >= last) return;
    nd_copy(args, shape, first, last);
    rlx_walk_init(&pick, RLX_DTYPE_U8, NULL, 0, prefix, index->dims, index->strides);
    rlx_walk_init(&update_row, RLX_DTYPE_U8, NULL, 0, prefix, index->dims, updates->strides);
    rlx_walk_init(&to, out->dtype, out->data, 0, rank, out->dims + shape.tuple,
                  out->strides + shape.tuple);
    rlx_walk_init(&from, updates->dtype, updates->data, 0, rank, updates->dims + prefix,
                  updates->strides + prefix);
    for (int64_t i = 0; i < shape.tuples; i++) {
        if (nd_place(args, shape, pick.offset, &place)) {
            to.base = place;
            from.base = update_row.offset;
            rlx_walk_seek(&to, first);
            rlx_walk_seek(&from, first);
            apply(attrs->mode, &to, &from, last - first);
        }
        rlx_walk_step(&pick);
        rlx_walk_step(&update_row);
    }
}

const rlx_ref_row rlx_ref_scatter_rows[] = {
    {RLX_OP_SCATTER_ELEMENTS,
     {"scatter_elements_scalar", elements_run, elements_items, NULL, NULL}},
    {RLX_OP_SCATTER_ND, {"scatter_nd_scalar", nd_run, nd_items, NULL, NULL}},
};
const uint32_t rlx_ref_scatter_count = sizeof rlx_ref_scatter_rows / sizeof rlx_ref_scatter_rows[0];
