/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and movement: reshapes, slices, pads, gathers, scatters. */
#include "import/onnx/extent.h"
#include "import/onnx/ops.h"

#include <string.h>

/* The sizes of a value as an i64 vector; those that only a run knows are read from their extents.
 */
static rlx_value_id sizes_of(ox *o, rlx_value_id x, uint32_t first, uint32_t end) {
    rlx_value_id parts[RLX_MAX_RANK];
    rlx_type type = ox_type(o, x);
    const int64_t one[] = {1};
    bool has_extent = false;
    uint32_t count = end > first ? end - first : 0;
    for (uint32_t i = 0; i < count; i++)
        has_extent = has_extent || type.extents[first + i] != RLX_NONE;
    if (!has_extent) return ox_i64s(o, type.shape.dims + first, count);
    for (uint32_t i = 0; i < count; i++) {
        rlx_value_id extent = type.extents[first + i];
        parts[i] = extent == RLX_NONE ? ox_i64s(o, &type.shape.dims[first + i], 1)
                                      : ox_reshape(o, extent, one, 1);
    }
    return ox_concat(o, parts, count, 0);
}

static uint32_t clamp_axis(int64_t axis, uint32_t rank) {
    if (axis < 0) axis += rank;
    if (axis < 0) return 0;
    return axis > (int64_t)rank ? rank : (uint32_t)axis;
}

void rlx_ox_shape(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    uint32_t rank = ox_rank(o, x);
    uint32_t first = clamp_axis(ox_int(o, "start", 0), rank);
    uint32_t end = clamp_axis(ox_int(o, "end", rank), rank);
    if (ox_ok(o)) ox_give(o, 0, sizes_of(o, x, first, end));
}

void rlx_ox_size(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    if (!ox_ok(o)) return;
    rlx_value_id sizes = sizes_of(o, x, 0, ox_rank(o, x));
    ox_give(o, 0, ox_reduce(o, RLX_OP_REDUCE_PROD, sizes, NULL, 0, false));
}

/* With allowzero a 0 is a size of 0; then a -1 must be found here. */
static void resolve_zeros(ox *o, rlx_value_id x, rlx_ints *shape) {
    int64_t known = 1, elements = ox_elements(o, x);
    uint32_t unknown = RLX_NONE;
    for (uint32_t i = 0; i < shape->count; i++) {
        if (shape->items[i] == -1) {
            unknown = i;
        } else {
            known = ox_times(o, known, shape->items[i]);
        }
    }
    if (unknown == RLX_NONE) return;
    if (known <= 0) {
        ox_invalid(o, "a size of -1 beside a 0 cannot be found");
        return;
    }
    shape->items[unknown] = elements / known;
}

/* A target shape with zeros as sizes goes through a value of that shape: nothing is moved. */
static rlx_value_id empty_of(ox *o, rlx_value_id x, const rlx_ints *shape) {
    rlx_value_id zero = ox_scalar(o, ox_dtype(o, x), 0);
    return ox_expand(o, zero, shape->items, shape->count);
}

/* A run-time size is that of the input where the input has it at the same place (0), or what is
 * left (-1). */
static void resolve_extents(ox *o, rlx_value_id x, ox_sizes *sizes) {
    rlx_type type = ox_type(o, x);
    for (uint32_t i = 0; i < sizes->dims.count && ox_ok(o); i++) {
        if (sizes->extents[i] == RLX_NONE) continue;
        bool is_there = i < type.shape.rank && type.extents[i] == sizes->extents[i];
        sizes->dims.items[i] = is_there ? 0 : -1;
    }
}

void rlx_ox_reshape(ox *o) {
    rlx_reshape_attrs attrs = {0};
    ox_sizes sizes = {0};
    rlx_value_id x = ox_in(o, 0);
    if (o->since < 5) {
        ox_ints(o, "shape", &sizes.dims);
    } else if (!ox_need_sizes(o, ox_in(o, 1), &sizes)) {
        return;
    }
    if (sizes.has_extent) resolve_extents(o, x, &sizes);
    attrs.shape = sizes.dims;
    if (attrs.shape.count > RLX_MAX_RANK)
        ox_unsupported(o, "a shape of %u dims; at most %d", attrs.shape.count, RLX_MAX_RANK);
    bool has_zero = false;
    for (uint32_t i = 0; i < attrs.shape.count; i++)
        has_zero = has_zero || attrs.shape.items[i] == 0;
    if (has_zero && ox_int(o, "allowzero", 0) != 0) {
        resolve_zeros(o, x, &attrs.shape);
        if (ox_ok(o) && ox_elements(o, x) != 0) ox_invalid(o, "no elements are left");
        ox_give(o, 0, empty_of(o, x, &attrs.shape));
        return;
    }
    for (uint32_t i = ox_rank(o, x); i < attrs.shape.count && ox_ok(o); i++) {
        if (attrs.shape.items[i] == 0)
            ox_invalid(o, "size %u is 0, which copies a size that the input does not have", i);
    }
    ox_give(o, 0, ox_node(o, RLX_OP_RESHAPE, &attrs, &x, 1));
}

void rlx_ox_flatten(ox *o) {
    const rlx_axis_attrs attrs = {ox_int(o, "axis", 1)};
    rlx_value_id x = ox_in(o, 0);
    uint32_t rank = ox_rank(o, x);
    if (attrs.axis == (int64_t)rank && ox_ok(o)) { /* everything comes before it */
        const int64_t dims[] = {-1, 1};
        ox_give(o, 0, ox_reshape(o, x, dims, 2));
        return;
    }
    ox_give(o, 0, ox_node(o, RLX_OP_FLATTEN, &attrs, &x, 1));
}

void rlx_ox_squeeze(ox *o) {
    rlx_axes_attrs attrs = {{0}};
    rlx_value_id x = ox_in(o, 0);
    if (ox_has(o, 1)) {
        ox_need_ints(o, ox_in(o, 1), &attrs.axes);
    } else {
        ox_ints(o, "axes", &attrs.axes);
    }
    ox_give(o, 0, ox_node(o, o->op, &attrs, &x, 1));
}

void rlx_ox_transpose(ox *o) {
    rlx_transpose_attrs attrs = {{0}};
    rlx_value_id x = ox_in(o, 0);
    ox_ints(o, "perm", &attrs.perm);
    ox_give(o, 0, ox_node(o, RLX_OP_TRANSPOSE, &attrs, &x, 1));
}

void rlx_ox_expand(ox *o) {
    ox_sizes sizes;
    rlx_value_id x = ox_in(o, 0);
    if (ox_need_sizes(o, ox_in(o, 1), &sizes)) ox_give(o, 0, ox_spread(o, x, &sizes));
}

void rlx_ox_tile(ox *o) {
    rlx_reshape_attrs attrs = {{0}};
    rlx_value_id x = ox_in(o, 0);
    if (o->since >= 6) {
        ox_need_ints(o, ox_in(o, 1), &attrs.shape);
    } else { /* one axis, repeated */
        int64_t repeats = ox_need_int(o, ox_in(o, 1));
        uint32_t axis = ox_axis(o, ox_need_int(o, ox_in(o, 2)), ox_rank(o, x));
        attrs.shape.count = ox_rank(o, x);
        for (uint32_t i = 0; i < attrs.shape.count; i++)
            attrs.shape.items[i] = i == axis ? repeats : 1;
    }
    ox_give(o, 0, ox_node(o, RLX_OP_TILE, &attrs, &x, 1));
}

void rlx_ox_concat(ox *o) {
    rlx_value_id *parts = ox_memory(o, o->in_count, sizeof *parts);
    for (uint32_t i = 0; i < o->in_count && ox_ok(o); i++)
        parts[i] = ox_in(o, i);
    const rlx_axis_attrs attrs = {ox_int(o, "axis", 1)};
    if (!ox_ok(o)) return;
    uint32_t axis = o->in_count == 0 ? 0 : ox_axis(o, attrs.axis, ox_rank(o, parts[0]));
    for (uint32_t i = 0; i < o->in_count && o->in_count > 1 && ox_ok(o); i++) {
        if (ox_rank(o, parts[i]) <= axis || ox_type(o, parts[i]).extents[axis] == RLX_NONE)
            continue;
        ox_give(o, 0, ox_join(o, parts, o->in_count, axis));
        return;
    }
    if (ox_ok(o)) ox_give(o, 0, ox_node(o, RLX_OP_CONCAT, &attrs, parts, o->in_count));
}

/* Sizes from an input, an attribute, or so many equal parts. */
static void split_sizes(ox *o, rlx_value_id x, uint32_t axis, rlx_list *out_sizes) {
    const rlx_onnx_attr *attr = ox_attr(o, "split");
    int64_t *items = NULL;
    uint32_t count = o->out_count;
    if (ox_has(o, 1)) {
        if (!ox_need_list(o, ox_in(o, 1), &items, &count)) return;
    } else if (attr != NULL && attr->type == RLX_ONNX_INTS) {
        *out_sizes = (rlx_list){attr->count, attr->ints};
        return;
    } else {
        int64_t dim = ox_dim(o, x, axis), most = count == 0 ? 1 : count;
        int64_t part = dim / most + (dim % most != 0);
        items = ox_memory(o, count, sizeof *items);
        for (uint32_t i = 0; i < count && ox_ok(o); i++) {
            items[i] = part < dim ? part : dim;
            dim -= items[i];
        }
    }
    *out_sizes = (rlx_list){count, items};
}

void rlx_ox_split(ox *o) {
    rlx_split_attrs attrs = {.axis = ox_int(o, "axis", 0)};
    rlx_value_id x = ox_in(o, 0), *out = ox_memory(o, o->out_count, sizeof *out);
    uint32_t axis = ox_axis(o, attrs.axis, ox_rank(o, x));
    split_sizes(o, x, axis, &attrs.sizes);
    if (ox_ok(o) && attrs.sizes.count != o->out_count)
        ox_invalid(o, "%u sizes for %u outputs", attrs.sizes.count, o->out_count);
    if (!ox_ok(o)) return;
    ox_nodes(o, RLX_OP_SPLIT, &attrs, &x, 1, out, o->out_count);
    for (uint32_t i = 0; i < o->out_count; i++)
        ox_give(o, i, out[i]);
}

/* One limit of a slice: a number is brought to where no sum of it overflows. */
static rlx_value_id slice_limit(ox *o, rlx_value_id list, uint32_t index) {
    const int64_t far = (int64_t)1 << 40;
    rlx_value_id at = ox_slice(o, list, 0, index, (int64_t)index + 1, 1);
    if (!ox_ok(o) || !ox_is_constant(o, at)) return at;
    int64_t number = ox_need_int(o, at);
    number = number > far ? far : number < -far ? -far : number;
    return ox_scalar(o, RLX_DTYPE_I64, (double)number);
}

/* A slice whose limits, or the size of an axis that it cuts, only a run knows: axis by axis. */
static void slice_at_run_time(ox *o, rlx_value_id x) {
    rlx_value_id starts = ox_in(o, 1), ends = ox_in(o, 2);
    uint32_t count = ox_ok(o) ? (uint32_t)ox_elements(o, starts) : 0, rank = ox_rank(o, x);
    rlx_ints axes = {0}, steps = {0};
    if (ox_has(o, 3)) ox_need_ints(o, ox_in(o, 3), &axes);
    if (ox_has(o, 4)) ox_need_ints(o, ox_in(o, 4), &steps);
    if (ox_ok(o) &&
        (count > RLX_MAX_RANK || ox_elements(o, ends) != count ||
         (axes.count != 0 && axes.count != count) || (steps.count != 0 && steps.count != count)))
        ox_invalid(o, "%u starts, but not as many ends, axes and steps", count);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        uint32_t axis = ox_axis(o, axes.count == 0 ? i : axes.items[i], rank);
        rlx_value_id start = slice_limit(o, starts, i), end = slice_limit(o, ends, i);
        int64_t step = steps.count == 0 ? 1 : steps.items[i];
        if (!ox_ok(o)) return;
        bool is_fixed = ox_is_constant(o, start) && ox_is_constant(o, end);
        int64_t first = is_fixed ? ox_need_int(o, start) : 0;
        int64_t last = is_fixed ? ox_need_int(o, end) : 0;
        if (is_fixed && (ox_type(o, x).extents[axis] == RLX_NONE ||
                         (first == 0 && last >= ox_dim(o, x, axis)))) {
            x = ox_slice(o, x, axis, first, last, step);
        } else {
            x = ox_cut(o, x, axis, start, end, step);
        }
    }
    ox_give(o, 0, x);
}

static bool is_sliced_at_run_time(ox *o, rlx_value_id x) {
    rlx_value_id starts = ox_in(o, 1), ends = ox_in(o, 2);
    return ox_ok(o) &&
           (ox_has_extent(o, x) || ox_is_run_time(o, starts) || ox_is_run_time(o, ends)) &&
           ox_rank(o, starts) == 1 && ox_rank(o, ends) == 1 && !ox_has_extent(o, starts) &&
           !ox_has_extent(o, ends);
}

void rlx_ox_slice(ox *o) {
    rlx_slice_attrs attrs = {0};
    rlx_value_id x = ox_in(o, 0);
    if (o->since >= 10 && is_sliced_at_run_time(o, x)) {
        slice_at_run_time(o, x);
        return;
    }
    if (o->since < 10) {
        ox_ints(o, "starts", &attrs.starts);
        ox_ints(o, "ends", &attrs.ends);
        ox_ints(o, "axes", &attrs.axes);
    } else {
        ox_need_ints(o, ox_in(o, 1), &attrs.starts);
        ox_need_ints(o, ox_in(o, 2), &attrs.ends);
        if (ox_has(o, 3)) ox_need_ints(o, ox_in(o, 3), &attrs.axes);
        if (ox_has(o, 4)) ox_need_ints(o, ox_in(o, 4), &attrs.steps);
    }
    ox_give(o, 0, ox_node(o, RLX_OP_SLICE, &attrs, &x, 1));
}

/* Pads of some axes only, as version 18 may give them. */
static void spread_pads(ox *o, uint32_t rank, const rlx_ints *axes, rlx_ints *pads) {
    rlx_ints wide = {.count = 2 * rank};
    if (axes->count * 2 != pads->count)
        ox_invalid(o, "%u pads for %u axes", pads->count, axes->count);
    for (uint32_t i = 0; i < axes->count && ox_ok(o); i++) {
        uint32_t axis = ox_axis(o, axes->items[i], rank);
        wide.items[axis] = pads->items[i];
        wide.items[rank + axis] = pads->items[axes->count + i];
    }
    *pads = wide;
}

/* Pads that only a run knows: axis by axis. */
static void pad_at_run_time(ox *o, rlx_value_id x, rlx_value_id pads, const char *mode) {
    uint32_t rank = ox_rank(o, x), count = rank;
    rlx_ints axes = {0};
    rlx_value_id filler = ox_maybe(o, 2);
    if (strcmp(mode, "constant") != 0) ox_unsupported(o, "mode '%s' at run time", mode);
    if (ox_has(o, 3) && ox_need_ints(o, ox_in(o, 3), &axes)) count = axes.count;
    if (ox_ok(o) && (ox_rank(o, pads) != 1 || ox_elements(o, pads) != 2 * (int64_t)count))
        ox_invalid(o, "pads for %u axes are not twice as many", count);
    if (!ox_ok(o)) return;
    filler = filler == RLX_NONE ? ox_scalar(o, ox_dtype(o, x), 0) : ox_reshape(o, filler, NULL, 0);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        uint32_t axis = ox_axis(o, axes.count == 0 ? i : axes.items[i], rank);
        rlx_value_id before = ox_slice(o, pads, 0, i, (int64_t)i + 1, 1);
        rlx_value_id after = ox_slice(o, pads, 0, count + i, (int64_t)count + i + 1, 1);
        int64_t first = 1, last = 1;
        rlx_value_id extents[2];
        bool is_none = ox_ok(o) && ox_size_at(o, before, 0, &first, &extents[0]) &&
                       ox_size_at(o, after, 0, &last, &extents[1]) && first == 0 && last == 0;
        if (!is_none) x = ox_widen(o, x, axis, before, after, filler);
    }
    ox_give(o, 0, x);
}

void rlx_ox_pad(ox *o) {
    rlx_pad_attrs attrs = {0};
    rlx_ints axes = {0};
    rlx_value_id x = ox_in(o, 0);
    const char *mode = ox_text(o, "mode", "constant");
    if (o->since >= 11 && ox_is_run_time(o, ox_in(o, 1))) {
        pad_at_run_time(o, x, ox_in(o, 1), mode);
        return;
    }
    if (o->since < 11) {
        ox_ints(o, o->since < 2 ? "paddings" : "pads", &attrs.pads);
        attrs.value = ox_float(o, "value", 0);
    } else {
        ox_need_ints(o, ox_in(o, 1), &attrs.pads);
        if (ox_has(o, 2)) attrs.value = ox_need_double(o, ox_in(o, 2));
        if (ox_has(o, 3) && ox_need_ints(o, ox_in(o, 3), &axes))
            spread_pads(o, ox_rank(o, x), &axes, &attrs.pads);
    }
    attrs.mode = strcmp(mode, "reflect") == 0 ? RLX_PAD_REFLECT
                 : strcmp(mode, "edge") == 0  ? RLX_PAD_EDGE
                 : strcmp(mode, "wrap") == 0  ? RLX_PAD_WRAP
                                              : RLX_PAD_CONSTANT;
    if (attrs.mode == RLX_PAD_CONSTANT && strcmp(mode, "constant") != 0)
        ox_invalid(o, "mode '%s' is not known", mode);
    ox_give(o, 0, ox_node(o, RLX_OP_PAD, &attrs, &x, 1));
}

/* Each axis is cut or filled up with zeros on both sides, the odd one at the end. */
void rlx_ox_center_crop_pad(ox *o) {
    rlx_ints shape = {0}, axes = {0};
    rlx_value_id x = ox_in(o, 0);
    uint32_t rank = ox_rank(o, x);
    rlx_pad_attrs more = {.pads = {.count = 2 * rank}};
    bool has_more = false;
    if (!ox_need_ints(o, ox_in(o, 1), &shape)) return;
    if (!ox_ints(o, "axes", &axes)) {
        for (axes.count = 0; axes.count < rank; axes.count++)
            axes.items[axes.count] = axes.count;
    }
    if (ox_ok(o) && shape.count != axes.count)
        ox_invalid(o, "%u sizes for %u axes", shape.count, axes.count);
    for (uint32_t i = 0; i < axes.count && ox_ok(o); i++) {
        uint32_t axis = ox_axis(o, axes.items[i], rank);
        if (ox_ok(o) && (shape.items[i] < 0 || ox_type(o, x).extents[axis] != RLX_NONE))
            ox_unsupported(o, "size %" PRId64 " of axis %u", shape.items[i], axis);
        if (!ox_ok(o)) return;
        int64_t extra = shape.items[i] - ox_dim(o, x, axis);
        if (extra < 0) x = ox_slice(o, x, axis, -extra / 2, -extra / 2 + shape.items[i], 1);
        if (extra <= 0) continue;
        has_more = true;
        more.pads.items[axis] = extra / 2;
        more.pads.items[rank + axis] = extra - extra / 2;
    }
    ox_give(o, 0, has_more ? ox_node(o, RLX_OP_PAD, &more, &x, 1) : x);
}

void rlx_ox_gather(ox *o) { /* GatherElements too */
    const rlx_axis_attrs attrs = {ox_int(o, "axis", 0)};
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1)};
    ox_give(o, 0, ox_node(o, o->op, &attrs, inputs, 2));
}

void rlx_ox_gather_nd(ox *o) {
    const rlx_gather_nd_attrs attrs = {ox_int(o, "batch_dims", 0)};
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1)};
    ox_give(o, 0, ox_node(o, RLX_OP_GATHER_ND, &attrs, inputs, 2));
}

void rlx_ox_scatter(ox *o) {
    static const char *const modes[] = {"none", "add", "mul", "min", "max"};
    rlx_scatter_attrs attrs = {.axis = ox_int(o, "axis", 0)};
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_in(o, 2)};
    const char *mode = ox_text(o, "reduction", "none");
    uint32_t i = 0;
    while (i < 5 && strcmp(modes[i], mode) != 0)
        i++;
    if (i == 5) ox_invalid(o, "reduction '%s' is not known", mode);
    attrs.mode = (rlx_scatter_mode)i;
    if (o->op == RLX_OP_SCATTER_ND) ox_see_indices(o, inputs[1]);
    ox_give(o, 0, ox_node(o, o->op, &attrs, inputs, 3));
}
