/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences and optionals. They exist only while a model is built: an op on them moves names of
 * values, and nothing is left of it in the graph. */
#include "import/onnx/ops.h"

#include <string.h>

static ox_item sequence_in(ox *o, uint32_t index) {
    if (ox_ok(o) && (!ox_has(o, index) || o->in[index].kind != OX_SEQUENCE))
        ox_invalid(o, "input %u is no sequence", index);
    return ox_ok(o) ? o->in[index] : (ox_item){.kind = OX_SEQUENCE};
}

static ox_item make_sequence(ox *o, uint32_t count, ox_item **out_items) {
    *out_items = ox_memory(o, count, sizeof **out_items);
    return (ox_item){.kind = OX_SEQUENCE, .items = *out_items, .count = count};
}

/* A place in a sequence; `most` is one past the last that is allowed. */
static uint32_t position(ox *o, uint32_t index, uint32_t count, uint32_t most) {
    int64_t at = ox_need_int(o, ox_in(o, index));
    if (!ox_ok(o)) return 0;
    int64_t place = at < 0 ? at + count : at;
    if (place < 0 || place >= (int64_t)most)
        ox_invalid(o, "position %" PRId64 " in a sequence of %u", at, count);
    return ox_ok(o) ? (uint32_t)place : 0;
}

void rlx_ox_sequence_empty(ox *o) {
    ox_give_item(o, 0, (ox_item){.kind = OX_SEQUENCE});
}

void rlx_ox_sequence_construct(ox *o) {
    ox_item *items = NULL, made = make_sequence(o, o->in_count, &items);
    for (uint32_t i = 0; i < o->in_count && ox_ok(o); i++)
        items[i] = o->in[i];
    ox_give_item(o, 0, made);
}

void rlx_ox_sequence_insert(ox *o) {
    ox_item from = sequence_in(o, 0), *items = NULL;
    ox_item made = make_sequence(o, from.count + 1, &items);
    uint32_t at = ox_has(o, 2) ? position(o, 2, from.count, from.count + 1) : from.count;
    if (ox_ok(o) && !ox_has(o, 1)) ox_invalid(o, "nothing to insert");
    for (uint32_t i = 0; i <= from.count && ox_ok(o); i++)
        items[i] = i < at ? from.items[i] : i == at ? o->in[1] : from.items[i - 1];
    ox_give_item(o, 0, made);
}

void rlx_ox_sequence_erase(ox *o) {
    ox_item from = sequence_in(o, 0), *items = NULL;
    if (ox_ok(o) && from.count == 0) ox_invalid(o, "the sequence is empty");
    if (!ox_ok(o)) return;
    ox_item made = make_sequence(o, from.count - 1, &items);
    uint32_t at = ox_has(o, 1) ? position(o, 1, from.count, from.count) : from.count - 1;
    for (uint32_t i = 0; i + 1 < from.count && ox_ok(o); i++)
        items[i] = from.items[i < at ? i : i + 1];
    ox_give_item(o, 0, made);
}

void rlx_ox_sequence_at(ox *o) {
    ox_item from = sequence_in(o, 0);
    uint32_t at = position(o, 1, from.count, from.count);
    if (ox_ok(o)) ox_give_item(o, 0, from.items[at]);
}

void rlx_ox_sequence_length(ox *o) {
    ox_item from = sequence_in(o, 0);
    const int64_t count = from.count;
    ox_give(o, 0, ox_constant(o, RLX_DTYPE_I64, NULL, 0, &count, sizeof count));
}

void rlx_ox_concat_from_sequence(ox *o) {
    ox_item from = sequence_in(o, 0);
    int64_t axis = ox_int(o, "axis", 0);
    bool is_new = ox_int(o, "new_axis", 0) != 0;
    rlx_value_id *parts = ox_memory(o, from.count, sizeof *parts);
    if (ox_ok(o) && from.count == 0) ox_invalid(o, "the sequence is empty");
    for (uint32_t i = 0; i < from.count && ox_ok(o); i++) {
        if (from.items[i].kind != OX_TENSOR) ox_invalid(o, "element %u is no tensor", i);
        parts[i] = is_new ? ox_unsqueeze(o, from.items[i].value, axis) : from.items[i].value;
    }
    if (ox_ok(o)) ox_give(o, 0, ox_concat(o, parts, from.count, axis));
}

/* Lengths of the parts: a list, one length for all, or 1. */
static void part_sizes(ox *o, int64_t dim, bool is_split, int64_t **out_sizes,
                       uint32_t *out_count) {
    int64_t part = 1;
    if (is_split) {
        rlx_value_id split = ox_in(o, 1);
        if (ox_rank(o, split) == 1) {
            ox_need_list(o, split, out_sizes, out_count);
            return;
        }
        part = ox_need_int(o, split);
    }
    if (ox_ok(o) && part <= 0) ox_invalid(o, "parts of %" PRId64, part);
    if (!ox_ok(o)) return;
    if ((dim - 1) / part >= RLX_ONNX_MOST_ITEMS) ox_unsupported(o, "%" PRId64 " parts", dim / part);
    if (!ox_ok(o)) return;
    *out_count = (uint32_t)(dim / part + (dim % part != 0));
    *out_sizes = ox_memory(o, *out_count, sizeof **out_sizes);
    for (uint32_t i = 0; i < *out_count && ox_ok(o); i++) {
        (*out_sizes)[i] = part < dim ? part : dim;
        dim -= part;
    }
}

void rlx_ox_split_to_sequence(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    uint32_t axis = ox_axis(o, ox_int(o, "axis", 0), ox_rank(o, x)), count = 0;
    bool keeps = ox_int(o, "keepdims", 1) != 0, is_split = ox_has(o, 1);
    int64_t *sizes = NULL, at = 0;
    ox_item *items = NULL;
    part_sizes(o, ox_dim(o, x, axis), is_split, &sizes, &count);
    ox_item made = make_sequence(o, count, &items);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        int64_t end = ox_plus(o, at, sizes[i]);
        if (sizes[i] < 0) ox_invalid(o, "a part of %" PRId64, sizes[i]);
        rlx_value_id part = ox_slice(o, x, axis, at, end, 1);
        at = end;
        items[i] = ox_item_of(keeps || is_split ? part : ox_squeeze(o, part, axis));
    }
    ox_give_item(o, 0, made);
}

/* The body once per element; other inputs are sequences of the same length, or tensors. */
void rlx_ox_sequence_map(ox *o) {
    const rlx_onnx_attr *body = ox_attr(o, "body");
    ox_item first = sequence_in(o, 0);
    uint32_t in_count = o->in_count, out_count = o->out_count;
    const ox_item *in = o->in;
    if (ox_ok(o) && (body == NULL || body->graph == NULL)) ox_invalid(o, "it has no body");
    ox_item *inputs = ox_memory(o, in_count, sizeof *inputs);
    ox_item **lists = ox_memory(o, out_count, sizeof *lists);
    if (!ox_ok(o)) return;
    ox_item *outputs = ox_memory(o, body->graph->output_count, sizeof *outputs);
    for (uint32_t i = 0; i < out_count && ox_ok(o); i++)
        ox_give_item(o, i, make_sequence(o, first.count, &lists[i]));
    for (uint32_t e = 0; e < first.count && ox_ok(o); e++) {
        for (uint32_t i = 0; i < in_count; i++) {
            bool is_list = in[i].kind == OX_SEQUENCE;
            if (is_list && in[i].count != first.count)
                ox_invalid(o, "sequences of %u and %u elements", first.count, in[i].count);
            if (!ox_ok(o)) return;
            inputs[i] = is_list ? in[i].items[e] : in[i];
        }
        ox_body(o, body->graph, inputs, in_count, outputs);
        for (uint32_t i = 0; i < out_count && i < body->graph->output_count && ox_ok(o); i++)
            lists[i][e] = outputs[i];
    }
}

void rlx_ox_optional(ox *o) {
    ox_give_item(o, 0, ox_has(o, 0) ? o->in[0] : (ox_item){.kind = OX_EMPTY});
}

void rlx_ox_optional_has_element(ox *o) {
    const bool has = ox_has(o, 0) && o->in[0].kind != OX_EMPTY;
    ox_give(o, 0, ox_constant(o, RLX_DTYPE_BOOL, NULL, 0, &has, sizeof has));
}

void rlx_ox_optional_get_element(ox *o) {
    if (!ox_has(o, 0) || o->in[0].kind == OX_EMPTY) ox_invalid(o, "the optional is empty");
    if (ox_ok(o)) ox_give_item(o, 0, o->in[0]);
}
