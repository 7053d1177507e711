/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that only a run knows, where an op wants numbers: shapes that are put together from them,
 * and axes that have them where the graph's op wants a planned size. What is planned is the bound;
 * values go to their bound and back by places that are counted at run time. */
#include "import/onnx/extent.h"
#include "import/onnx/growth.h"
#include "ir/dtype.h"
#include "ir/infer.h"

#include <string.h>

enum { MOST_STEPS = 64 }; /* from a shape back to the sizes that it is made of */

/* A value that has `extent` as its only run-time size, in the same block; RLX_NONE: none has. */
static rlx_value_id find_witness(const ox *o, rlx_value_id extent, uint32_t *out_axis) {
    const rlx_value *values = o->graph->values.items;
    for (uint32_t i = 0; i < o->graph->values.count; i++) {
        const rlx_type *type = &values[i].type;
        uint32_t count = 0, axis = 0, empty = 0;
        if (values[i].block != values[extent].block) continue;
        for (uint32_t k = 0; k < type->shape.rank; k++) {
            empty += type->shape.dims[k] <= 0;
            if (type->extents[k] == RLX_NONE) continue;
            count++;
            if (type->extents[k] == extent) axis = k + 1;
        }
        if (count != 1 || axis == 0 || empty != 0) continue;
        *out_axis = axis - 1;
        return i;
    }
    return RLX_NONE;
}

static const rlx_node *producer_of(const ox *o, rlx_value_id value) {
    rlx_node_id producer = o->graph->values.items[value].producer;
    return producer == RLX_NONE ? NULL : &o->graph->nodes.items[producer];
}

/* One element of a value that is followed back to a constant or a run-time size. */
typedef struct element {
    rlx_value_id value;
    int64_t index;
} element;

/* Indices of a model may point anywhere. */
static bool is_within(const ox *o, const element *at) {
    uint64_t elements = 0;
    const rlx_shape *shape = &o->graph->values.items[at->value].type.shape;
    return at->index >= 0 && rlx_shape_elements(shape, &elements) == RLX_OK &&
           (uint64_t)at->index < elements;
}

/* Through ops that keep the order of elements, or pick by constants. False: no further. */
static bool step_back(ox *o, element *at) {
    const rlx_node *node = producer_of(o, at->value);
    if (node == NULL || !is_within(o, at)) return false;
    const rlx_type *from = &o->graph->values.items[node->inputs[0]].type;
    switch (node->op) {
    case RLX_OP_RESHAPE:
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_IDENTITY:
        break;
    case RLX_OP_CAST:
        if (!rlx_dtype_is_integer(from->dtype)) return false;
        break;
    case RLX_OP_CONCAT:
        for (uint32_t i = 0; i < node->input_count; i++) {
            const rlx_type *part = &o->graph->values.items[node->inputs[i]].type;
            if (part->shape.rank != 1 || part->extents[0] != RLX_NONE) return false;
            if (at->index < part->shape.dims[0]) {
                at->value = node->inputs[i];
                return true;
            }
            at->index -= part->shape.dims[0];
        }
        return false;
    case RLX_OP_SLICE: {
        const rlx_slice_attrs *attrs = node->attrs;
        if (from->shape.rank != 1 || attrs->starts.count != 1) return false;
        int64_t start = attrs->starts.items[0], step = 1;
        if (attrs->steps.count == 1) step = attrs->steps.items[0];
        if (start < 0) start += from->shape.dims[0];
        if (step < 1 || start < 0) return false;
        at->index = start + at->index * step;
        break;
    }
    case RLX_OP_GATHER: {
        const rlx_value *places = &o->graph->values.items[node->inputs[1]];
        if (from->shape.rank != 1 || places->kind != RLX_VALUE_CONSTANT) return false;
        int64_t place = (int64_t)rlx_load_f64(places->type.dtype, places->data, at->index);
        at->index = place < 0 ? place + from->shape.dims[0] : place;
        break;
    }
    default:
        return false;
    }
    at->value = node->inputs[0];
    return is_within(o, at);
}

static int64_t number_at(const ox *o, const element *at) {
    const rlx_value *info = &o->graph->values.items[at->value];
    return (int64_t)rlx_load_f64(info->type.dtype, info->data, at->index);
}

/* The element of input `input` that element `at` of an elementwise node is made of. */
static bool operand_at(ox *o, const rlx_node *node, uint32_t input, const element *at,
                       element *out) {
    uint64_t of_input = 0, of_output = 0;
    const rlx_value *values = o->graph->values.items;
    *out = (element){node->inputs[input], at->index};
    if (rlx_shape_elements(&values[out->value].type.shape, &of_input) != RLX_OK ||
        rlx_shape_elements(&values[at->value].type.shape, &of_output) != RLX_OK)
        return false;
    if (of_input == 1) out->index = 0;
    return of_input == 1 || of_input == of_output;
}

static bool sum_of(ox *o, element at, int depth, ox_sum *out);

/* Whether two sizes are equal, where that can be told. */
static bool compare_at(ox *o, element at, int depth, bool *out_equal) {
    element left, right;
    ox_sum a, b;
    while (producer_of(o, at.value) != NULL && producer_of(o, at.value)->op != RLX_OP_EQUAL) {
        if (!step_back(o, &at)) return false;
    }
    const rlx_node *node = producer_of(o, at.value);
    if (node == NULL && ox_is_constant(o, at.value) && is_within(o, &at)) {
        *out_equal = number_at(o, &at) != 0;
        return true;
    }
    if (node == NULL || !operand_at(o, node, 0, &at, &left) ||
        !operand_at(o, node, 1, &at, &right) || !sum_of(o, left, depth, &a) ||
        !sum_of(o, right, depth, &b))
        return false;
    *out_equal = a.plus == b.plus;
    if (a.has_held == b.has_held) return true;
    *out_equal = false; /* held is 0 or more, so a smaller number is never it plus something */
    return a.has_held ? b.plus < a.plus : a.plus < b.plus;
}

/* The chosen side of a where that asks whether a size is some number, as exporters write Expand. */
static bool choose_at(ox *o, const rlx_node *node, const element *at, int depth, element *out) {
    element condition;
    bool is_equal;
    return operand_at(o, node, 0, at, &condition) && compare_at(o, condition, depth, &is_equal) &&
           operand_at(o, node, is_equal ? 1 : 2, at, out);
}

static bool add_sums(ox *o, const rlx_node *node, const element *at, int depth, ox_sum *out) {
    element left, right;
    ox_sum a, b;
    int sign = node->op == RLX_OP_SUB ? -1 : 1;
    if (!operand_at(o, node, 0, at, &left) || !operand_at(o, node, 1, at, &right) ||
        !sum_of(o, left, depth, &a) || !sum_of(o, right, depth, &b))
        return false;
    int held = a.has_held + sign * b.has_held;
    out->has_held = held == 1;
    out->plus = a.plus + sign * b.plus;
    return held == 0 || held == 1;
}

static bool sum_of(ox *o, element at, int depth, ox_sum *out) {
    for (int i = depth; i < MOST_STEPS && is_within(o, &at); i++) {
        const rlx_value *info = &o->graph->values.items[at.value];
        if (!rlx_dtype_is_integer(info->type.dtype)) return false;
        if (info->kind == RLX_VALUE_CONSTANT) {
            *out = (ox_sum){false, number_at(o, &at)};
            return out->plus > -OX_MOST_NUMBERS && out->plus < INT64_MAX / 4;
        }
        if (ox_find_grown_size(o, at.value, out)) return true;
        const rlx_node *node = producer_of(o, at.value);
        bool is_sum = node != NULL && (node->op == RLX_OP_ADD || node->op == RLX_OP_SUB);
        if (is_sum) return add_sums(o, node, &at, i + 1, out);
        if (node != NULL && node->op == RLX_OP_WHERE) {
            if (!choose_at(o, node, &at, i + 1, &at)) return false;
        } else if (!step_back(o, &at)) {
            return false;
        }
    }
    return false;
}

bool ox_sum_at(ox *o, rlx_value_id value, int64_t index, ox_sum *out) {
    return ox_ok(o) && o->growth != NULL && value != RLX_NONE &&
           sum_of(o, (element){value, index}, 0, out);
}

/* Sizes are far below; what is beyond is not known. */
static const int64_t far_size = (int64_t)1 << 40;

typedef struct bounds {
    int64_t low, high;
} bounds;

/* Between which numbers an element lies that only a run knows: run-time sizes and what is counted
 * from them. */
static bounds bounds_of(ox *o, element at, uint32_t depth) {
    bounds all = {-far_size, far_size};
    rlx_value_id extent;
    int64_t size;
    while (is_within(o, &at) && step_back(o, &at)) {
    }
    if (!is_within(o, &at) || !rlx_dtype_is_integer(ox_dtype(o, at.value))) return all;
    if (ox_size_at(o, at.value, at.index, &size, &extent)) {
        if (size < -far_size || size > far_size) return all;
        return extent == RLX_NONE ? (bounds){size, size} : (bounds){0, size};
    }
    const rlx_node *node = producer_of(o, at.value);
    if (node == NULL || node->input_count != 2 || depth == 8) return all;
    rlx_op op = node->op;
    bool is_known = op == RLX_OP_ADD || op == RLX_OP_SUB || op == RLX_OP_MIN || op == RLX_OP_MAX ||
                    op == RLX_OP_MOD;
    if (!is_known) return all;
    element first, second;
    if (!operand_at(o, node, 0, &at, &first) || !operand_at(o, node, 1, &at, &second)) return all;
    bounds a = bounds_of(o, first, depth + 1), b = bounds_of(o, second, depth + 1);
    if (op == RLX_OP_MOD) return b.low > 0 ? (bounds){0, b.high - 1} : all;
    if (op == RLX_OP_ADD) a = (bounds){a.low + b.low, a.high + b.high};
    if (op == RLX_OP_SUB) a = (bounds){a.low - b.high, a.high - b.low};
    if (op == RLX_OP_MIN || op == RLX_OP_MAX) {
        bool is_min = op == RLX_OP_MIN;
        a.low = (a.low < b.low) == is_min ? a.low : b.low;
        a.high = (a.high < b.high) == is_min ? a.high : b.high;
    }
    a.low = a.low < -far_size ? -far_size : a.low;
    a.high = a.high > far_size ? far_size : a.high;
    return a;
}

/* An element without the constants that were added to it. */
static element without_sum(ox *o, rlx_value_id value, int64_t *sum) {
    element at = {value, 0};
    *sum = 0;
    for (int i = 0; i < MOST_STEPS && is_within(o, &at); i++) {
        const rlx_node *node = producer_of(o, at.value);
        if (step_back(o, &at)) continue;
        if (node == NULL || node->op != RLX_OP_ADD) break;
        element side[2];
        if (!operand_at(o, node, 0, &at, &side[0]) || !operand_at(o, node, 1, &at, &side[1])) break;
        uint32_t number = ox_is_constant(o, side[0].value) ? 0 : 1;
        bounds by = bounds_of(o, side[number], 8);
        if (!ox_is_constant(o, side[number].value) || by.low != by.high) break;
        *sum = ox_plus(o, *sum, by.low);
        at = side[1 - number];
    }
    return at;
}

bool ox_distance(ox *o, rlx_value_id from, rlx_value_id to, int64_t *out_distance) {
    int64_t a, b;
    if (!ox_ok(o) || from == RLX_NONE || to == RLX_NONE || ox_is_constant(o, from) ||
        ox_is_float(o, from))
        return false;
    element first = without_sum(o, from, &a), second = without_sum(o, to, &b);
    *out_distance = b - a;
    return ox_ok(o) && first.value == second.value && first.index == second.index;
}

bool ox_size_at(ox *o, rlx_value_id value, int64_t index, int64_t *out_size,
                rlx_value_id *out_extent) {
    element at = {value, index};
    uint32_t axis;
    ox_sum sum;
    if (ox_sum_at(o, value, index, &sum)) {
        *out_size = sum.has_held ? o->growth->most : sum.plus;
        *out_extent = sum.has_held ? ox_grown_size(o, sum.plus) : RLX_NONE;
        return true;
    }
    for (int i = 0; i < MOST_STEPS && is_within(o, &at); i++) {
        const rlx_value *info = &o->graph->values.items[at.value];
        *out_extent = RLX_NONE;
        if (info->kind == RLX_VALUE_CONSTANT) {
            *out_size = (int64_t)rlx_load_f64(info->type.dtype, info->data, at.index);
            return true;
        }
        rlx_value_id witness = find_witness(o, at.value, &axis);
        if (witness != RLX_NONE) {
            *out_size = o->graph->values.items[witness].type.shape.dims[axis];
            *out_extent = at.value;
            return true;
        }
        if (!step_back(o, &at)) return false;
    }
    return false;
}

bool ox_need_sizes(ox *o, rlx_value_id value, ox_sizes *out) {
    bool has_extent = false;
    *out = (ox_sizes){0};
    if (!ox_ok(o) || value == RLX_NONE) return false;
    rlx_type type = ox_type(o, value);
    bool is_list = !ox_is_constant(o, value) && type.shape.rank == 1 &&
                   rlx_dtype_is_integer(type.dtype) && type.extents[0] == RLX_NONE &&
                   type.shape.dims[0] <= RLX_MAX_RANK;
    for (int64_t i = 0; is_list && i < type.shape.dims[0]; i++) {
        is_list = ox_size_at(o, value, i, &out->dims.items[i], &out->extents[i]);
        has_extent |= is_list && out->extents[i] != RLX_NONE;
    }
    out->has_extent = is_list && has_extent;
    if (out->has_extent) {
        out->dims.count = (uint32_t)type.shape.dims[0];
        return true;
    }
    for (uint32_t i = 0; i < RLX_MAX_INTS; i++)
        out->extents[i] = RLX_NONE;
    return ox_need_ints(o, value, &out->dims);
}

rlx_value_id ox_limit(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id extent) {
    const rlx_axis_attrs attrs = {axis};
    if (!ox_ok(o) || extent == RLX_NONE || ox_type(o, x).extents[axis] == extent) return x;
    const rlx_value_id inputs[] = {x, extent};
    return ox_node(o, RLX_OP_LIMIT, &attrs, inputs, 2);
}

/* The most that a run-time size can be. */
static int64_t bound_of(ox *o, rlx_value_id extent) {
    uint32_t axis;
    if (ox_is_grown_size(o, extent)) return o->growth->most;
    rlx_value_id witness = find_witness(o, extent, &axis);
    return witness == RLX_NONE ? 0 : ox_dim(o, witness, axis);
}

rlx_value_id ox_spread(ox *o, rlx_value_id x, const ox_sizes *sizes) {
    int64_t dims[RLX_MAX_RANK] = {0};
    uint32_t rank = sizes->dims.count;
    if (ox_ok(o) && rank > RLX_MAX_RANK)
        ox_unsupported(o, "a shape of %u dims; at most %d", rank, RLX_MAX_RANK);
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, x);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t from = i + type.shape.rank - rank; /* wraps where x has no such axis */
        bool has_it = from < type.shape.rank && type.extents[from] != RLX_NONE;
        dims[i] = has_it ? 1 : sizes->dims.items[i];
    }
    x = ox_expand(o, x, dims, rank);
    for (uint32_t i = 0; i < rank && ox_ok(o); i++)
        x = ox_limit(o, x, ox_rank(o, x) - rank + i, sizes->extents[i]);
    return x;
}

rlx_value_id ox_places(ox *o, rlx_value_id extent) {
    if (!ox_ok(o)) return RLX_NONE;
    return ox_limit(o, ox_range(o, RLX_DTYPE_I64, bound_of(o, extent)), 0, extent);
}

/* Axis `axis` in front, or back where it was. */
static rlx_value_id turned(ox *o, rlx_value_id x, uint32_t axis, bool is_back) {
    int64_t perm[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x);
    if (axis == 0) return x;
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = is_back ? (i < axis    ? i + 1
                             : i == axis ? 0
                                         : i)
                          : (i == 0      ? axis
                             : i <= axis ? i - 1
                                         : i);
    return ox_transpose(o, x, perm, rank);
}

rlx_value_id ox_to_bound(ox *o, rlx_value_id x, uint32_t axis) {
    rlx_type type = ox_type(o, x);
    const rlx_scatter_attrs attrs = {0};
    const int64_t down[] = {-1, 1};
    if (!ox_ok(o) || type.extents[axis] == RLX_NONE) return x;
    x = turned(o, x, axis, false);
    rlx_type wide = ox_type(o, x);
    rlx_value_id zeros = ox_scalar(o, type.dtype, 0);
    zeros = ox_expand(o, zeros, wide.shape.dims, wide.shape.rank);
    rlx_value_id places = ox_reshape(o, ox_places(o, type.extents[axis]), down, 2);
    const rlx_value_id inputs[] = {zeros, places, x};
    return turned(o, ox_node(o, RLX_OP_SCATTER_ND, &attrs, inputs, 3), axis, true);
}

rlx_value_id ox_from_bound(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id extent) {
    return ox_limit(o, x, axis, extent);
}

/* The places along an axis where `keep` holds. */
static rlx_value_id places_where(ox *o, rlx_value_id keep) {
    rlx_value_id out[2];
    const int64_t flat[] = {-1};
    ox_nodes(o, RLX_OP_NONZERO, NULL, &keep, 1, out, 2);
    return ox_ok(o) ? ox_reshape(o, out[0], flat, 1) : RLX_NONE;
}

rlx_value_id ox_join(ox *o, const rlx_value_id *parts, uint32_t count, uint32_t axis) {
    rlx_value_id grown = ox_join_grown(o, parts, count, axis);
    if (grown != RLX_NONE) return grown;
    rlx_value_id *whole = ox_memory(o, count, sizeof *whole);
    rlx_value_id *keep = ox_memory(o, count, sizeof *keep);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        rlx_type type = ox_type(o, parts[i]);
        rlx_value_id places = ox_range(o, RLX_DTYPE_I64, type.shape.dims[axis]);
        rlx_value_id size = type.extents[axis];
        if (size == RLX_NONE) size = ox_scalar(o, RLX_DTYPE_I64, (double)type.shape.dims[axis]);
        keep[i] = ox_binary(o, RLX_OP_LESS, places, ox_reshape(o, size, NULL, 0));
        whole[i] = ox_to_bound(o, parts[i], axis);
    }
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id places = places_where(o, ox_concat(o, keep, count, 0));
    return ox_gather(o, ox_concat(o, whole, count, axis), places, axis);
}

/* A limit of a slice as a place: negative ones count from the end. */
static rlx_value_id limit(ox *o, rlx_value_id at, rlx_value_id size) {
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0);
    at = ox_cast(o, ox_reshape(o, at, NULL, 0), RLX_DTYPE_I64);
    rlx_value_id from_end = ox_binary(o, RLX_OP_ADD, at, size);
    return ox_where(o, ox_binary(o, RLX_OP_LESS, at, zero), from_end, at);
}

/* Which of the places 0 .. size - 1 a slice takes. */
static rlx_value_id keep_between(ox *o, rlx_value_id places, rlx_value_id size, rlx_value_id start,
                                 rlx_value_id end, int64_t step) {
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0);
    size = ox_reshape(o, size, NULL, 0);
    start = ox_binary(o, RLX_OP_MAX, limit(o, start, size), zero);
    rlx_value_id keep = ox_binary(o, RLX_OP_GREATER_EQUAL, places, start);
    rlx_value_id before = ox_binary(o, RLX_OP_LESS, places, limit(o, end, size));
    keep = ox_binary(o, RLX_OP_AND, keep, before);
    if (step == 1) return keep;
    rlx_value_id rest = ox_binary(o, RLX_OP_SUB, places, start);
    rest = ox_binary(o, RLX_OP_MOD, rest, ox_scalar(o, RLX_DTYPE_I64, (double)step));
    return ox_binary(o, RLX_OP_AND, keep, ox_binary(o, RLX_OP_EQUAL, rest, zero));
}

/* Slices that are the same are counted once: what they give has the same run-time size, so that it
 * can meet in one op. */
typedef struct cut_key {
    element start, end; /* of a number: no value, and the number */
    int64_t dim, step;
    rlx_value_id extent;
    rlx_block_id block;
} cut_key;

struct ox_cut_places {
    cut_key key;
    rlx_value_id places;
    struct ox_cut_places *next;
};

static element key_of(ox *o, rlx_value_id at) {
    element key = {at, 0};
    for (int i = 0; i < MOST_STEPS && !ox_is_constant(o, key.value) && step_back(o, &key); i++) {
    }
    if (!ox_is_constant(o, key.value) || !is_within(o, &key)) return key;
    const rlx_value *info = &o->graph->values.items[key.value];
    int64_t number = (int64_t)rlx_load_f64(info->type.dtype, info->data, key.index);
    return (element){RLX_NONE, number};
}

static bool is_same_key(const cut_key *a, const cut_key *b) {
    return a->start.value == b->start.value && a->start.index == b->start.index &&
           a->end.value == b->end.value && a->end.index == b->end.index && a->dim == b->dim &&
           a->step == b->step && a->extent == b->extent && a->block == b->block;
}

static rlx_value_id cut_places(ox *o, const cut_key *key, rlx_value_id start, rlx_value_id end) {
    for (const struct ox_cut_places *cut = o->cuts; cut != NULL; cut = cut->next) {
        if (is_same_key(&cut->key, key)) return cut->places;
    }
    bool is_number = key->extent == RLX_NONE;
    rlx_value_id size = is_number ? ox_scalar(o, RLX_DTYPE_I64, (double)key->dim) : key->extent;
    rlx_value_id all = is_number ? ox_range(o, RLX_DTYPE_I64, key->dim) : ox_places(o, key->extent);
    rlx_value_id places = places_where(o, keep_between(o, all, size, start, end, key->step));
    struct ox_cut_places *cut = ox_memory(o, 1, sizeof *cut);
    if (!ox_ok(o)) return RLX_NONE;
    *cut = (struct ox_cut_places){.key = *key, .places = places, .next = o->cuts};
    o->cuts = cut;
    return places;
}

rlx_value_id ox_cut(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id start, rlx_value_id end,
                    int64_t step) {
    if (ox_ok(o) && step < 1) ox_unsupported(o, "a step of %" PRId64 " at run time", step);
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, x);
    rlx_value_id part = step == 1 ? ox_cut_grown(o, x, axis, start, end) : RLX_NONE;
    if (part != RLX_NONE) return part;
    const cut_key key = {.start = key_of(o, start),
                         .end = key_of(o, end),
                         .dim = type.shape.dims[axis],
                         .step = step,
                         .extent = type.extents[axis],
                         .block = o->graph->current};
    rlx_value_id places = cut_places(o, &key, start, end);
    return ox_ok(o) ? ox_gather(o, x, places, axis) : RLX_NONE;
}

rlx_value_id ox_to_bound_with(ox *o, rlx_value_id x, uint32_t axis, double filler) {
    rlx_type type = ox_type(o, x);
    int64_t dims[RLX_MAX_RANK];
    if (!ox_ok(o) || type.extents[axis] == RLX_NONE) return x;
    for (uint32_t i = 0; i < type.shape.rank; i++)
        dims[i] = i == axis ? type.shape.dims[i] : 1;
    rlx_value_id places = ox_range(o, RLX_DTYPE_I64, type.shape.dims[axis]);
    places = ox_reshape(o, places, dims, type.shape.rank);
    rlx_value_id size = ox_reshape(o, type.extents[axis], NULL, 0);
    rlx_value_id is_there = ox_binary(o, RLX_OP_LESS, places, size);
    return ox_where(o, is_there, ox_to_bound(o, x, axis), ox_scalar(o, type.dtype, filler));
}

rlx_value_id ox_widen(ox *o, rlx_value_id x, uint32_t axis, rlx_value_id before, rlx_value_id after,
                      rlx_value_id filler) {
    int64_t dims[RLX_MAX_RANK];
    if (!ox_ok(o)) return RLX_NONE;
    rlx_type type = ox_type(o, x);
    int64_t dim = type.shape.dims[axis];
    bounds first = bounds_of(o, (element){before, 0}, 0),
           last = bounds_of(o, (element){after, 0}, 0);
    int64_t most = ox_plus(o, dim, ox_plus(o, first.high, last.high));
    if (first.low < 0 || last.low < 0 || most > OX_MOST_NUMBERS)
        ox_unsupported(o, "pads that only a run knows, of %" PRId64 " to %" PRId64 " elements",
                       first.low < last.low ? first.low : last.low,
                       first.high > last.high ? first.high : last.high);
    if (ox_ok(o) && dim == 0) ox_unsupported(o, "pads of nothing that only a run knows");
    if (!ox_ok(o)) return RLX_NONE;
    rlx_value_id zero = ox_scalar(o, RLX_DTYPE_I64, 0), size = type.extents[axis];
    rlx_value_id end = ox_scalar(o, RLX_DTYPE_I64, (double)(dim - 1));
    size =
        size == RLX_NONE ? ox_scalar(o, RLX_DTYPE_I64, (double)dim) : ox_reshape(o, size, NULL, 0);
    before = ox_reshape(o, before, NULL, 0);
    rlx_value_id whole = ox_binary(o, RLX_OP_ADD, ox_binary(o, RLX_OP_ADD, size, before),
                                   ox_reshape(o, after, NULL, 0));
    rlx_value_id all = ox_range(o, RLX_DTYPE_I64, most);
    rlx_value_id from = places_where(o, ox_binary(o, RLX_OP_LESS, all, whole));
    from = ox_binary(o, RLX_OP_SUB, from, before);
    rlx_value_id is_there = ox_binary(o, RLX_OP_AND, ox_binary(o, RLX_OP_GREATER_EQUAL, from, zero),
                                      ox_binary(o, RLX_OP_LESS, from, size));
    from = ox_binary(o, RLX_OP_MIN, ox_binary(o, RLX_OP_MAX, from, zero), end);
    x = ox_gather(o, ox_to_bound(o, x, axis), from, axis);
    for (uint32_t i = 0; i < type.shape.rank; i++)
        dims[i] = i == axis ? -1 : 1;
    return ox_where(o, ox_reshape(o, is_there, dims, type.shape.rank), x, filler);
}
