/* SPDX-License-Identifier: Apache-2.0 */
/* Indices that are known: a gather of evenly spaced rows is a slice, and a scatter_nd that fills a
 * box is a concat of what lies around it and what is written. Exporters spell `x[:, 1]` and
 * `x[a:b] = y` that way. Slices are views and parts of a concat are computed in place, so what is
 * left of both is at most a copy. Rows of a table that is made of bytes are gathered as bytes: the
 * table of floats need not be there. */
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

/* A table made by arithmetic on weights, of which a run takes some rows. */
typedef struct table {
    rlx_rewrite *rewrite;
    rlx_node_id gather;
    rlx_value_id indices;
    rlx_shape shape;     /* of the table; its rows are those of axis 0 */
    uint64_t leaf_bytes; /* of one element of all that rows are made of */
} table;

enum { MOST_TABLE_DEPTH = 4 };

/* A number for every row: the operand has the first axis, and it is not 1. */
static bool has_rows(const table *self, rlx_value_id value) {
    const rlx_shape *shape = &rlx_rewrite_type(self->rewrite, value)->shape;
    return shape->rank == self->shape.rank && shape->dims[0] == self->shape.dims[0];
}

static rlx_node_id maker_of(const table *self, rlx_value_id value) {
    rlx_node_id id = rlx_rewrite_producer(self->rewrite, value, RLX_OP_NONE);
    if (id == RLX_NONE || !rlx_rewrite_may_move(self->rewrite, id, self->gather)) return RLX_NONE;
    switch (rlx_rewrite_op(self->rewrite, id)) {
    case RLX_OP_CAST:
    case RLX_OP_ADD:
    case RLX_OP_SUB:
    case RLX_OP_MUL:
    case RLX_OP_DIV:
        return id;
    default:
        return RLX_NONE;
    }
}

/* Whether rows of `value` can be made of rows of what it is made of; counts bytes of the latter. */
static bool find_leaves(table *self, rlx_value_id value, uint32_t depth) {
    const rlx_type *type = rlx_rewrite_type(self->rewrite, value);
    if (!rlx_rewrite_fact(self->rewrite, value)->is_prepared || rlx_rewrite_has_extent(type) ||
        rlx_dtype_block_elements(type->dtype) != 1 || type->shape.rank > self->shape.rank) {
        return false;
    }
    if (!has_rows(self, value)) return true;
    rlx_node_id maker = depth < MOST_TABLE_DEPTH ? maker_of(self, value) : RLX_NONE;
    if (maker == RLX_NONE) {
        bool is_wide = rlx_shape_equal(&type->shape, &self->shape);
        if (is_wide) self->leaf_bytes += rlx_dtype_block_bytes(type->dtype);
        return true;
    }
    for (uint32_t i = 0; i < self->rewrite->graph->nodes.items[maker].input_count; i++) {
        if (!find_leaves(self, rlx_rewrite_input(self->rewrite, maker, i), depth + 1)) return false;
    }
    return true;
}

static rlx_status gather_leaves(table *self, rlx_value_id value, uint32_t depth,
                                rlx_value_id *out_value);

/* The operands of `maker`, of which only rows are left. */
static rlx_status gather_operands(table *self, rlx_node_id maker, uint32_t depth,
                                  rlx_value_id out_operands[2]) {
    for (uint32_t i = 0; i < self->rewrite->graph->nodes.items[maker].input_count; i++)
        RLX_TRY(gather_leaves(self, rlx_rewrite_input(self->rewrite, maker, i), depth + 1,
                              &out_operands[i]));
    return RLX_OK;
}

static rlx_status gather_leaves(table *self, rlx_value_id value, uint32_t depth,
                                rlx_value_id *out_value) {
    const rlx_axis_attrs rows = {.axis = 0};
    const rlx_shape shape = rlx_rewrite_type(self->rewrite, value)->shape;
    rlx_value_id inputs[2] = {value, self->indices};
    if (!has_rows(self, value)) { /* beside rows, whatever axes come before them */
        uint32_t skip = shape.rank == self->shape.rank ? 1 : 0;
        return rlx_rewrite_reshaped(self->rewrite, self->gather, value, shape.dims + skip,
                                    shape.rank - skip, out_value);
    }
    rlx_node_id maker = depth < MOST_TABLE_DEPTH ? maker_of(self, value) : RLX_NONE;
    if (maker == RLX_NONE) {
        return rlx_rewrite_insert(self->rewrite, self->gather, RLX_OP_GATHER, &rows, inputs, 2,
                                  out_value);
    }
    RLX_TRY(gather_operands(self, maker, depth, inputs));
    return rlx_rewrite_insert(self->rewrite, self->gather, rlx_rewrite_op(self->rewrite, maker),
                              rlx_rewrite_attrs(self->rewrite, maker), inputs,
                              self->rewrite->graph->nodes.items[maker].input_count, out_value);
}

/* gather(f(table)) is f(gather(table)): the numbers are the same, and bytes are fewer. */
static rlx_status gather_bytes(rlx_rewrite *rewrite, rlx_node_id root) {
    const rlx_axis_attrs *attrs = rlx_rewrite_attrs(rewrite, root);
    rlx_value_id x = rlx_rewrite_input(rewrite, root, 0), operands[2];
    const rlx_type *type = rlx_rewrite_type(rewrite, x);
    const rlx_type *out = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, root));
    uint64_t all, taken;
    table self = {.rewrite = rewrite,
                  .gather = root,
                  .indices = rlx_rewrite_input(rewrite, root, 1),
                  .shape = type->shape};
    if (attrs->axis != 0 || type->shape.rank == 0 || rlx_rewrite_has_extent(type) ||
        rlx_rewrite_fact(rewrite, rlx_rewrite_output(rewrite, root))->is_prepared ||
        rlx_shape_elements(&type->shape, &all) != RLX_OK ||
        rlx_shape_elements(&out->shape, &taken) != RLX_OK || taken >= all ||
        !find_leaves(&self, x, 0) || self.leaf_bytes >= rlx_dtype_block_bytes(type->dtype)) {
        return RLX_OK;
    }
    rlx_node_id maker = maker_of(&self, x);
    if (maker == RLX_NONE) return RLX_OK;
    RLX_TRY(gather_operands(&self, maker, 0, operands));
    return rlx_rewrite_node(rewrite, root, rlx_rewrite_op(rewrite, maker),
                            rlx_rewrite_attrs(rewrite, maker), operands,
                            rewrite->graph->nodes.items[maker].input_count, NULL);
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
        RLX_TRY(slice_rows(rewrite, root));
        return rlx_rewrite_op(rewrite, root) == RLX_OP_GATHER ? gather_bytes(rewrite, root)
                                                              : RLX_OK;
    case RLX_OP_SCATTER_ND:
        return write_box(rewrite, root);
    default:
        return RLX_OK;
    }
}
