/* SPDX-License-Identifier: Apache-2.0 */
/* Indices that are known: a gather of evenly spaced rows is a slice, and a scatter_nd that fills a
 * box is a concat of what lies around it and what is written. Exporters spell `x[:, 1]` and
 * `x[a:b] = y` that way. Slices are views and parts of a concat are computed in place, so what is
 * left of both is at most a copy. */
#include "compile/canonicalise.h"

#include <string.h>

typedef struct index_list {
    const rlx_shape *shape;
    const unsigned char *data;
    rlx_dtype dtype;
    uint64_t count;
} index_list;

static bool read_indices(const rlx_rewrite *rewrite, rlx_value_id value, index_list *out_list) {
    const rlx_value *at = &rewrite->graph->values.items[value];
    if (at->kind != RLX_VALUE_CONSTANT || at->data == NULL || rlx_rewrite_has_extent(&at->type) ||
        (at->type.dtype != RLX_DTYPE_I64 && at->type.dtype != RLX_DTYPE_I32)) {
        return false;
    }
    *out_list = (index_list){&at->type.shape, at->data, at->type.dtype, 0};
    return rlx_shape_elements(&at->type.shape, &out_list->count) == RLX_OK && out_list->count > 0;
}

/* Index `i`, counted from the start; -1 when it is outside of 0 .. size - 1. */
static int64_t index_at(const index_list *list, uint64_t i, int64_t size) {
    int64_t index;
    int32_t narrow;
    if (list->dtype == RLX_DTYPE_I64) {
        memcpy(&index, list->data + i * sizeof index, sizeof index);
    } else {
        memcpy(&narrow, list->data + i * sizeof narrow, sizeof narrow);
        index = narrow;
    }
    if (index < -size || index >= size) return -1;
    return index < 0 ? index + size : index;
}

/* Content that may be read somewhere else than where it is read now. */
static bool is_plain(const rlx_rewrite *rewrite, rlx_value_id value) {
    const rlx_type *type = rlx_rewrite_type(rewrite, value);
    return !rlx_rewrite_has_extent(type) && rlx_rewrite_fact(rewrite, value)->state == RLX_NONE &&
           rlx_dtype_block_elements(type->dtype) == 1;
}

static rlx_slice_attrs slice_of(uint32_t axis, int64_t start, int64_t end, int64_t step) {
    rlx_slice_attrs attrs = {.starts = {.count = 1}, .ends = {.count = 1}, .axes = {.count = 1}};
    attrs.starts.items[0] = start;
    attrs.ends.items[0] = end;
    attrs.axes.items[0] = axis;
    attrs.steps.count = 1;
    attrs.steps.items[0] = step;
    return attrs;
}

/* Rows first, first + step, ..: false for anything else, and for rows that are not there. */
static bool is_even(const index_list *list, int64_t size, int64_t *out_first, int64_t *out_step) {
    int64_t first = index_at(list, 0, size);
    int64_t step = list->count > 1 ? index_at(list, 1, size) - first : 1;
    for (uint64_t i = 0; i < list->count; i++) {
        int64_t index = index_at(list, i, size);
        if (index < 0 || index != first + (int64_t)i * step) return false;
    }
    *out_first = first;
    *out_step = step;
    return step != 0;
}

static rlx_status slice_rows(rlx_rewrite *rewrite, rlx_node_id root) {
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0), rows;
    const rlx_axis_attrs *gather = rlx_rewrite_attrs(rewrite, root);
    const rlx_shape out = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root))->shape;
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, x)->shape;
    uint32_t axis = (uint32_t)(gather->axis < 0 ? gather->axis + shape->rank : gather->axis);
    int64_t first, step, end;
    index_list list;
    if (!is_plain(rewrite, x) ||
        !read_indices(rewrite, rlx_rewrite_input(rewrite, root, 1), &list) ||
        !is_even(&list, shape->dims[axis], &first, &step)) {
        return RLX_OK;
    }
    for (uint32_t i = 0; i < out.rank; i++) {
        if (out.dims[i] == 0) return RLX_OK; /* a reshape cannot write it */
    }
    end = first + (int64_t)list.count * step;
    if (end < 0) end = INT64_MIN; /* as far as it goes */
    rlx_slice_attrs attrs = slice_of(axis, first, end, step);
    if (list.shape->rank == 1) {
        return rlx_rewrite_node(rewrite, root, RLX_OP_SLICE, &attrs, &x, 1, NULL);
    }
    rlx_reshape_attrs reshape = {.shape = {.count = out.rank}};
    memcpy(reshape.shape.items, out.dims, out.rank * sizeof *out.dims);
    RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_SLICE, &attrs, &x, 1, &rows));
    return rlx_rewrite_node(rewrite, root, RLX_OP_RESHAPE, &reshape, &rows, 1, NULL);
}

/* Where scatter_nd writes: begin .. end - 1 of each of the first `rank` axes, all of the others. */
typedef struct box {
    uint32_t rank;
    int64_t begin[RLX_MAX_RANK], end[RLX_MAX_RANK];
} box;

/* True when the indices go through the whole box once, the last axis first. */
static bool read_box(const index_list *list, const rlx_shape *shape, box *out_box) {
    uint32_t rank = (uint32_t)list->shape->dims[list->shape->rank - 1];
    uint64_t rows = list->count / rank, expected = 1;
    int64_t at[RLX_MAX_RANK];
    out_box->rank = rank;
    for (uint32_t d = 0; d < rank; d++) {
        out_box->begin[d] = at[d] = index_at(list, d, shape->dims[d]);
        out_box->end[d] = index_at(list, (rows - 1) * rank + d, shape->dims[d]) + 1;
        if (at[d] < 0 || out_box->end[d] <= at[d]) return false;
        expected *= (uint64_t)(out_box->end[d] - at[d]); /* at most rows of all that there are */
        if (expected > rows) return false;
    }
    if (expected != rows) return false;
    for (uint64_t row = 0; row < rows; row++) {
        for (uint32_t d = 0; d < rank; d++) {
            if (index_at(list, row * rank + d, shape->dims[d]) != at[d]) return false;
        }
        for (uint32_t d = rank; d-- > 0;) {
            if (++at[d] < out_box->end[d]) break;
            at[d] = out_box->begin[d];
        }
    }
    return true;
}

/* `x` without what is outside of the box on the axes before `axis`. */
static rlx_status inside(rlx_rewrite *rewrite, rlx_node_id root, const box *b, uint32_t axis,
                         rlx_value_id *x) {
    for (uint32_t d = 0; d < axis; d++) {
        rlx_slice_attrs attrs = slice_of(d, b->begin[d], b->end[d], 1);
        if (b->begin[d] == 0 && b->end[d] == rlx_rewrite_type(rewrite, *x)->shape.dims[d]) continue;
        RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_SLICE, &attrs, x, 1, x));
    }
    return RLX_OK;
}

/* before | written | after, along one axis; parts that are empty are left out. */
static rlx_status surround(rlx_rewrite *rewrite, rlx_node_id root, const box *b, uint32_t axis,
                           rlx_value_id x, rlx_value_id written, rlx_value_id *out_parts,
                           uint32_t *out_count) {
    int64_t size = rlx_rewrite_type(rewrite, x)->shape.dims[axis];
    rlx_slice_attrs before = slice_of(axis, 0, b->begin[axis], 1);
    rlx_slice_attrs after = slice_of(axis, b->end[axis], size, 1);
    uint32_t count = 0;
    RLX_TRY(inside(rewrite, root, b, axis, &x));
    if (b->begin[axis] > 0) {
        RLX_TRY(
            rlx_rewrite_insert(rewrite, root, RLX_OP_SLICE, &before, &x, 1, &out_parts[count++]));
    }
    out_parts[count++] = written;
    if (b->end[axis] < size) {
        RLX_TRY(
            rlx_rewrite_insert(rewrite, root, RLX_OP_SLICE, &after, &x, 1, &out_parts[count++]));
    }
    *out_count = count;
    return RLX_OK;
}

static rlx_status write_box(rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_scatter_attrs *scatter = rlx_rewrite_attrs(rewrite, root);
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0), y, parts[3];
    const rlx_shape shape = rlx_rewrite_type(rewrite, x)->shape;
    rlx_shape inner = shape;
    uint32_t axes[RLX_MAX_RANK], axis_count = 0, count;
    index_list list;
    box b;
    y = rlx_rewrite_input(rewrite, root, 2);
    if (scatter->mode != RLX_SCATTER_SET || !is_plain(rewrite, x) || !is_plain(rewrite, y) ||
        !read_indices(rewrite, rlx_rewrite_input(rewrite, root, 1), &list) ||
        list.shape->rank == 0 || !read_box(&list, &shape, &b)) {
        return RLX_OK;
    }
    for (uint32_t d = 0; d < b.rank; d++) {
        inner.dims[d] = b.end[d] - b.begin[d];
        if (inner.dims[d] != shape.dims[d]) axes[axis_count++] = d;
    }
    for (uint32_t d = 0; d < shape.rank; d++) {
        if (shape.dims[d] == 0) return RLX_OK; /* a reshape cannot write it */
    }
    if (axis_count == 0) {
        rlx_reshape_attrs all = {.shape = {.count = shape.rank}};
        memcpy(all.shape.items, shape.dims, shape.rank * sizeof *shape.dims);
        return rlx_rewrite_node(rewrite, root, RLX_OP_RESHAPE, &all, &y, 1, NULL);
    }
    RLX_TRY(rlx_rewrite_reshaped(rewrite, root, y, inner.dims, shape.rank, &y));
    while (axis_count-- > 1) {
        rlx_axis_attrs along = {.axis = axes[axis_count]};
        RLX_TRY(surround(rewrite, root, &b, axes[axis_count], x, y, parts, &count));
        RLX_TRY(rlx_rewrite_insert(rewrite, root, RLX_OP_CONCAT, &along, parts, count, &y));
    }
    rlx_axis_attrs along = {.axis = axes[0]};
    RLX_TRY(surround(rewrite, root, &b, axes[0], x, y, parts, &count));
    return rlx_rewrite_node(rewrite, root, RLX_OP_CONCAT, &along, parts, count, NULL);
}

rlx_status rlx_canonicalise_index(rlx_rewrite *rewrite, rlx_node_id root) {
    switch (rlx_rewrite_op(rewrite, root)) {
    case RLX_OP_GATHER:
        return slice_rows(rewrite, root);
    case RLX_OP_SCATTER_ND:
        return write_box(rewrite, root);
    default:
        return RLX_OK;
    }
}
