/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes are data in ONNX. Each of their elements is followed back, through the ops that exporters
 * put shapes together with, to the constant or the run-time size that it is, or to a sum of them.
 * Nothing is added to the graph here but sizes that grow; extent.c makes what only a run can. */
#include "import/onnx/follow.h"
#include "import/onnx/growth.h"
#include "ir/dtype.h"
#include "ir/infer.h"

rlx_value_id ox_find_witness(const ox *o, rlx_value_id extent, uint32_t *out_axis) {
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

bool ox_is_within(const ox *o, const ox_element *at) {
    uint64_t elements = 0;
    const rlx_shape *shape = &o->graph->values.items[at->value].type.shape;
    return at->index >= 0 && rlx_shape_elements(shape, &elements) == RLX_OK &&
           (uint64_t)at->index < elements;
}

bool ox_step_back(ox *o, ox_element *at) {
    const rlx_node *node = producer_of(o, at->value);
    if (node == NULL || !ox_is_within(o, at)) return false;
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
        int64_t place = ox_number_at(o, node->inputs[1], at->index);
        at->index = place < 0 ? place + from->shape.dims[0] : place;
        break;
    }
    default:
        return false;
    }
    at->value = node->inputs[0];
    return ox_is_within(o, at);
}

/* The element of input `input` that element `at` of an elementwise node is made of. */
static bool operand_at(ox *o, const rlx_node *node, uint32_t input, const ox_element *at,
                       ox_element *out) {
    uint64_t of_input = 0, of_output = 0;
    const rlx_value *values = o->graph->values.items;
    *out = (ox_element){node->inputs[input], at->index};
    if (rlx_shape_elements(&values[out->value].type.shape, &of_input) != RLX_OK ||
        rlx_shape_elements(&values[at->value].type.shape, &of_output) != RLX_OK)
        return false;
    if (of_input == 1) out->index = 0;
    return of_input == 1 || of_input == of_output;
}

/* Sums share operands, so that there are far more paths back than nodes: all paths of a question
 * together may be so long. */
enum { MOST_STEPS_IN_ALL = 4096 };

/* Sizes are far below; what is beyond is not known. */
static const int64_t far_size = (int64_t)1 << 40;

static bool is_far(int64_t number) {
    return number < -far_size || number > far_size;
}

typedef struct search {
    ox *o;
    int steps_left;
} search;

static bool sum_of(search *s, ox_element at, int depth, ox_sum *out);

static bool sums_of_operands(search *s, const rlx_node *node, const ox_element *at, int depth,
                             ox_sum *out_first, ox_sum *out_second) {
    ox_element first, second;
    return operand_at(s->o, node, 0, at, &first) && operand_at(s->o, node, 1, at, &second) &&
           sum_of(s, first, depth, out_first) && sum_of(s, second, depth, out_second);
}

/* Whether two sizes are equal, where that can be told. */
static bool compare_at(search *s, ox_element at, int depth, bool *out_equal) {
    ox *o = s->o;
    ox_sum a, b;
    while (producer_of(o, at.value) != NULL && producer_of(o, at.value)->op != RLX_OP_EQUAL) {
        if (!ox_step_back(o, &at)) return false;
    }
    const rlx_node *node = producer_of(o, at.value);
    if (node == NULL && ox_is_constant(o, at.value) && ox_is_within(o, &at)) {
        *out_equal = ox_number_at(o, at.value, at.index) != 0;
        return true;
    }
    if (node == NULL || !sums_of_operands(s, node, &at, depth, &a, &b)) return false;
    *out_equal = a.plus == b.plus;
    if (a.has_held == b.has_held) return true;
    *out_equal = false; /* held is 0 or more, so a smaller number is never it plus something */
    return a.has_held ? b.plus < a.plus : a.plus < b.plus;
}

/* The chosen side of a where that asks whether a size is some number, as exporters write Expand. */
static bool choose_at(search *s, const rlx_node *node, const ox_element *at, int depth,
                      ox_element *out) {
    ox_element condition;
    bool is_equal;
    return operand_at(s->o, node, 0, at, &condition) &&
           compare_at(s, condition, depth, &is_equal) &&
           operand_at(s->o, node, is_equal ? 1 : 2, at, out);
}

static bool add_sums(search *s, const rlx_node *node, const ox_element *at, int depth,
                     ox_sum *out) {
    ox_sum a, b;
    int sign = node->op == RLX_OP_SUB ? -1 : 1;
    if (!sums_of_operands(s, node, at, depth, &a, &b)) return false;
    int held = a.has_held + sign * b.has_held;
    *out = (ox_sum){held == 1, a.plus + sign * b.plus};
    return (held == 0 || held == 1) && !is_far(out->plus);
}

static bool sum_of(search *s, ox_element at, int depth, ox_sum *out) {
    ox *o = s->o;
    for (int i = depth; i < OX_MOST_STEPS && ox_is_within(o, &at); i++) {
        const rlx_value *info = &o->graph->values.items[at.value];
        if (s->steps_left-- <= 0 || !rlx_dtype_is_integer(info->type.dtype)) return false;
        if (info->kind == RLX_VALUE_CONSTANT) {
            *out = (ox_sum){false, ox_number_at(o, at.value, at.index)};
            return !is_far(out->plus);
        }
        if (ox_find_grown_size(o, at.value, out)) return true;
        const rlx_node *node = producer_of(o, at.value);
        bool is_sum = node != NULL && (node->op == RLX_OP_ADD || node->op == RLX_OP_SUB);
        if (is_sum) return add_sums(s, node, &at, i + 1, out);
        if (node != NULL && node->op == RLX_OP_WHERE) {
            if (!choose_at(s, node, &at, i + 1, &at)) return false;
        } else if (!ox_step_back(o, &at)) {
            return false;
        }
    }
    return false;
}

bool ox_sum_at(ox *o, rlx_value_id value, int64_t index, ox_sum *out) {
    search s = {o, MOST_STEPS_IN_ALL};
    return ox_ok(o) && o->growth != NULL && value != RLX_NONE &&
           sum_of(&s, (ox_element){value, index}, 0, out);
}

static ox_bounds bounds_of(ox *o, ox_element at, uint32_t depth) {
    ox_bounds all = {-far_size, far_size};
    rlx_value_id extent;
    ox_sum sum;
    int64_t size;
    while (ox_is_within(o, &at) && ox_step_back(o, &at)) {
    }
    if (!ox_is_within(o, &at) || !rlx_dtype_is_integer(ox_dtype(o, at.value))) return all;
    if (ox_size_at(o, at.value, at.index, &size, &extent)) {
        if (is_far(size)) return all;
        if (extent == RLX_NONE) return (ox_bounds){size, size};
        bool is_below = ox_find_grown_size(o, extent, &sum) && sum.plus < 0;
        return (ox_bounds){is_below ? sum.plus : 0, size};
    }
    const rlx_node *node = producer_of(o, at.value);
    if (node == NULL || node->input_count != 2 || depth == 8) return all;
    rlx_op op = node->op;
    bool is_known = op == RLX_OP_ADD || op == RLX_OP_SUB || op == RLX_OP_MIN || op == RLX_OP_MAX ||
                    op == RLX_OP_MOD;
    if (!is_known) return all;
    ox_element first, second;
    if (!operand_at(o, node, 0, &at, &first) || !operand_at(o, node, 1, &at, &second)) return all;
    ox_bounds a = bounds_of(o, first, depth + 1), b = bounds_of(o, second, depth + 1);
    if (op == RLX_OP_MOD) return b.low > 0 ? (ox_bounds){0, b.high - 1} : all;
    if (op == RLX_OP_ADD) a = (ox_bounds){a.low + b.low, a.high + b.high};
    if (op == RLX_OP_SUB) a = (ox_bounds){a.low - b.high, a.high - b.low};
    if (op == RLX_OP_MIN || op == RLX_OP_MAX) {
        bool is_min = op == RLX_OP_MIN;
        a.low = (a.low < b.low) == is_min ? a.low : b.low;
        a.high = (a.high < b.high) == is_min ? a.high : b.high;
    }
    a.low = a.low < -far_size ? -far_size : a.low;
    a.high = a.high > far_size ? far_size : a.high;
    return a;
}

ox_bounds ox_bounds_of(ox *o, rlx_value_id value) {
    return bounds_of(o, (ox_element){value, 0}, 0);
}

/* An element without the constants that were added to it. */
static ox_element without_sum(ox *o, rlx_value_id value, int64_t *sum) {
    ox_element at = {value, 0};
    *sum = 0;
    for (int i = 0; i < OX_MOST_STEPS && ox_is_within(o, &at); i++) {
        const rlx_node *node = producer_of(o, at.value);
        if (ox_step_back(o, &at)) continue;
        if (node == NULL || node->op != RLX_OP_ADD) break;
        ox_element side[2];
        if (!operand_at(o, node, 0, &at, &side[0]) || !operand_at(o, node, 1, &at, &side[1])) break;
        uint32_t number = ox_is_constant(o, side[0].value) ? 0 : 1;
        ox_bounds by = bounds_of(o, side[number], 8);
        if (!ox_is_constant(o, side[number].value) || by.low != by.high) break;
        *sum = ox_plus(o, *sum, by.low);
        at = side[1 - number];
    }
    return at;
}

bool ox_distance(ox *o, rlx_value_id from, rlx_value_id to, int64_t *out_distance) {
    int64_t a, b;
    ox_sum before, behind;
    if (!ox_ok(o) || from == RLX_NONE || to == RLX_NONE || ox_is_constant(o, from) ||
        ox_is_float(o, from))
        return false;
    if (ox_sum_at(o, from, 0, &before) && ox_sum_at(o, to, 0, &behind)) {
        *out_distance = behind.plus - before.plus;
        return before.has_held == behind.has_held;
    }
    ox_element first = without_sum(o, from, &a), second = without_sum(o, to, &b);
    *out_distance = b - a;
    return ox_ok(o) && first.value == second.value && first.index == second.index;
}

bool ox_size_at(ox *o, rlx_value_id value, int64_t index, int64_t *out_size,
                rlx_value_id *out_extent) {
    ox_element at = {value, index};
    uint32_t axis;
    ox_sum sum;
    if (ox_sum_at(o, value, index, &sum)) {
        *out_size = sum.has_held ? o->growth->most : sum.plus;
        *out_extent = sum.has_held ? ox_grown_size(o, sum.plus) : RLX_NONE;
        return true;
    }
    for (int i = 0; i < OX_MOST_STEPS && ox_is_within(o, &at); i++) {
        const rlx_value *info = &o->graph->values.items[at.value];
        *out_extent = RLX_NONE;
        if (info->kind == RLX_VALUE_CONSTANT) {
            *out_size = ox_number_at(o, at.value, at.index);
            return true;
        }
        rlx_value_id witness = ox_find_witness(o, at.value, &axis);
        if (witness != RLX_NONE) {
            *out_size = o->graph->values.items[witness].type.shape.dims[axis];
            *out_extent = at.value;
            return true;
        }
        if (!ox_step_back(o, &at)) return false;
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
