/* SPDX-License-Identifier: Apache-2.0 */
/* Values that decide shapes. They are constants, small weights, or computed from model inputs; of
 * the last kind the caller must offer the inputs' values, which then are constants of this build.
 */
#include "import/onnx/extent.h"
#include "ir/dtype.h"
#include "ir/infer.h"
#include "ir/op.h"
#include "ir/source.h"

enum { MOST_BOUND_BYTES = 64 * 1024, MOST_INDEX_BYTES = 1 << 20 };

/* How a value hangs on what is asked for: it is it, follows by arithmetic on numbers (as sizes do),
 * or in another way. */
typedef enum link { LINK_SAME, LINK_NUMBERS, LINK_DATA } link;

/* Floats are data, unless it is a single number, a short list of which sizes are computed (those of
 * an image), or the op itself takes its size from them. */
static bool is_data(const rlx_type *type, link by) {
    uint64_t elements = 0;
    if (by == LINK_SAME || !rlx_dtype_is_float(type->dtype)) return false;
    if (rlx_shape_elements(&type->shape, &elements) != RLX_OK) return true;
    return elements > 1 && (by == LINK_DATA || type->shape.rank != 1 || elements > RLX_MAX_RANK);
}

static link link_through(const rlx_node *node, link by) {
    if (by == LINK_DATA) return LINK_DATA;
    if ((rlx_op_info_of(node->op)->flags & RLX_OPF_ELEMENTWISE) != 0) return LINK_NUMBERS;
    switch (node->op) {
    case RLX_OP_SLICE:
    case RLX_OP_GATHER:
    case RLX_OP_CONCAT:
    case RLX_OP_SPLIT:
    case RLX_OP_RESHAPE:
    case RLX_OP_SQUEEZE:
    case RLX_OP_UNSQUEEZE:
    case RLX_OP_REDUCE_MAX:
    case RLX_OP_REDUCE_MIN:
    case RLX_OP_REDUCE_PROD:
        return LINK_NUMBERS;
    default:
        return LINK_DATA;
    }
}

/* Marks the inputs that `value` is computed from (`marks` false: only looks). False: it hangs on
 * something that only a run knows. */
static bool mark_inputs(ox *o, rlx_value_id value, bool marks, link by, bool *is_seen,
                        uint32_t depth) {
    const rlx_graph *graph = o->graph;
    if (value == RLX_NONE || is_seen[value]) return true;
    is_seen[value] = true;
    const rlx_value *info = &graph->values.items[value];
    if (info->kind == RLX_VALUE_CONSTANT || info->kind == RLX_VALUE_PARAMETER) return true;
    if (info->kind == RLX_VALUE_INPUT) {
        for (uint32_t i = 0; i < o->model->graph.input_count; i++) {
            ox_item item;
            if (!ox_find(o, o->model->graph.inputs[i].name, &item) || item.kind != OX_TENSOR ||
                item.value != value)
                continue;
            uint64_t bytes = 0;
            bool is_small =
                rlx_type_bytes(&info->type, &bytes) == RLX_OK && bytes <= MOST_BOUND_BYTES;
            if (!is_small || is_data(&info->type, by)) return false;
            if (!marks) return true;
            if (!o->has_value[i]) {
                ox_fail(o, RLX_FAIL(RLX_INVALID_ARGUMENT,
                                    "input '%s' decides shapes: its value must be given when the "
                                    "model is compiled",
                                    info->name));
                return true;
            }
            o->wants_restart |= !o->is_bound[i];
            o->is_bound[i] = true;
            return true;
        }
        return false;
    }
    if (info->producer == RLX_NONE || depth > 2000) return false; /* a block's input, a state */
    const rlx_node *node = &graph->nodes.items[info->producer];
    if (node->blocks[0] != RLX_NONE) return false;
    by = link_through(node, by);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (!mark_inputs(o, node->inputs[i], marks, by, is_seen, depth + 1)) return false;
    }
    return true;
}

/* Reads a weight now. */
static void read_weight(ox *o, rlx_value_id value) {
    rlx_value *info = &o->graph->values.items[value];
    uint64_t bytes = 0, elements = 0;
    void *data = NULL;
    ox_fail(o, rlx_type_bytes(&info->type, &bytes));
    ox_fail(o, rlx_shape_elements(&info->type.shape, &elements));
    if (ox_ok(o)) ox_fail(o, rlx_scratch_alloc(&o->graph->memory, bytes, &data));
    if (ox_ok(o))
        ox_fail(o, rlx_source_read(&info->weight->source, info->type.dtype, 0, elements, data));
    if (!ox_ok(o)) return;
    info->kind = RLX_VALUE_CONSTANT;
    info->data = data;
    info->data_bytes = bytes;
}

static uint64_t weight_bytes(const ox *o, rlx_value_id value) {
    const rlx_value *info = &o->graph->values.items[value];
    uint64_t bytes = 0;
    if (info->kind != RLX_VALUE_PARAMETER || rlx_type_bytes(&info->type, &bytes) != RLX_OK)
        return 0;
    return bytes;
}

void ox_see_indices(ox *o, rlx_value_id value) {
    if (!ox_ok(o) || value == RLX_NONE) return;
    uint64_t bytes = weight_bytes(o, value);
    if (bytes != 0 && bytes <= MOST_INDEX_BYTES && !ox_is_float(o, value)) read_weight(o, value);
}

bool ox_is_run_time(ox *o, rlx_value_id value) {
    if (!ox_ok(o) || value == RLX_NONE || ox_is_constant(o, value)) return false;
    bool *is_seen = ox_memory(o, o->graph->values.count, sizeof *is_seen);
    return ox_ok(o) && !mark_inputs(o, value, false, LINK_SAME, is_seen, 0);
}

bool ox_need(ox *o, rlx_value_id value) {
    bool *is_seen = NULL;
    if (!ox_ok(o) || value == RLX_NONE) return false;
    uint64_t bytes = weight_bytes(o, value);
    if (bytes > MOST_BOUND_BYTES)
        ox_unsupported(o, "a weight of %" PRIu64 " bytes decides shapes", bytes);
    if (o->graph->values.items[value].kind == RLX_VALUE_PARAMETER && ox_ok(o))
        read_weight(o, value);
    if (!ox_ok(o)) return false;
    if (ox_is_constant(o, value)) return true;
    is_seen = ox_memory(o, o->graph->values.count, sizeof *is_seen);
    if (!ox_ok(o)) return false;
    bool was_restart = o->wants_restart;
    bool follows = mark_inputs(o, value, true, LINK_SAME, is_seen, 0);
    if (ox_ok(o) && (!follows || o->wants_restart == was_restart)) {
        ox_unsupported(o, "'%s' decides a shape and is known only at run time",
                       o->graph->values.items[value].name);
    } else if (ox_ok(o)) {
        o->status = RLX_INVALID_ARGUMENT; /* begin again, with the inputs bound */
    }
    return false;
}

bool ox_need_doubles(ox *o, rlx_value_id value, double **out_items, uint32_t *out_count) {
    if (!ox_need(o, value)) return false;
    int64_t count = ox_elements(o, value);
    double *items = ox_memory(o, (uint64_t)count, sizeof *items);
    if (!ox_ok(o)) return false;
    const rlx_value *info = &o->graph->values.items[value];
    for (int64_t i = 0; i < count; i++)
        items[i] = rlx_load_f64(info->type.dtype, info->data, i);
    *out_items = items;
    *out_count = (uint32_t)count;
    return true;
}

int64_t ox_number_at(const ox *o, rlx_value_id value, int64_t index) {
    const rlx_value *info = &o->graph->values.items[value];
    rlx_dtype dtype = info->type.dtype;
    if (rlx_dtype_is_integer(dtype) || dtype == RLX_DTYPE_BOOL)
        return rlx_load_i64(dtype, info->data, index);
    double number = rlx_load_f64(dtype, info->data, index), most = 9223372036854775808.0;
    return number >= most ? INT64_MAX : number > -most ? (int64_t)number : INT64_MIN;
}

/* Differences of sizes that grow are numbers. */
static bool list_of_sums(ox *o, rlx_value_id value, int64_t **out_items, uint32_t *out_count) {
    ox_sum sum;
    if (!ox_ok(o) || o->growth == NULL || value == RLX_NONE || ox_is_constant(o, value))
        return false;
    int64_t count = ox_elements(o, value);
    if (count > RLX_MAX_INTS) return false;
    int64_t *items = ox_memory(o, (uint64_t)count, sizeof *items);
    for (int64_t i = 0; i < count && ox_ok(o); i++) {
        if (!ox_sum_at(o, value, i, &sum) || sum.has_held) return false;
        items[i] = sum.plus;
    }
    *out_items = items;
    *out_count = (uint32_t)count;
    return ox_ok(o);
}

bool ox_need_list(ox *o, rlx_value_id value, int64_t **out_items, uint32_t *out_count) {
    if (list_of_sums(o, value, out_items, out_count)) return true;
    if (!ox_need(o, value)) return false;
    int64_t count = ox_elements(o, value);
    int64_t *items = ox_memory(o, (uint64_t)count, sizeof *items);
    if (ox_ok(o) && rlx_dtype_is_float(ox_dtype(o, value)))
        ox_invalid(o, "'%s' must hold integers", o->graph->values.items[value].name);
    if (!ox_ok(o)) return false;
    for (int64_t i = 0; i < count; i++)
        items[i] = ox_number_at(o, value, i);
    *out_items = items;
    *out_count = (uint32_t)count;
    return true;
}

bool ox_need_ints(ox *o, rlx_value_id value, rlx_ints *out_ints) {
    int64_t *items = NULL;
    uint32_t count = 0;
    if (!ox_need_list(o, value, &items, &count)) return false;
    if (count > RLX_MAX_INTS) {
        ox_unsupported(o, "a list of %u sizes; at most %d", count, RLX_MAX_INTS);
        return false;
    }
    out_ints->count = count;
    for (uint32_t i = 0; i < count; i++)
        out_ints->items[i] = items[i];
    return true;
}

int64_t ox_need_int(ox *o, rlx_value_id value) {
    int64_t *items = NULL;
    uint32_t count = 0;
    if (!ox_need_list(o, value, &items, &count)) return 0;
    if (count == 1) return items[0];
    ox_invalid(o, "'%s' must hold one number, it has %u", o->graph->values.items[value].name,
               count);
    return 0;
}

double ox_need_double(ox *o, rlx_value_id value) {
    double *items = NULL;
    uint32_t count = 0;
    if (!ox_need_doubles(o, value, &items, &count)) return 0;
    if (count == 1) return items[0];
    ox_invalid(o, "'%s' must hold one number, it has %u", o->graph->values.items[value].name,
               count);
    return 0;
}
