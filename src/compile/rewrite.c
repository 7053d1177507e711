/* SPDX-License-Identifier: Apache-2.0 */
/* Matching and replacing groups of nodes: the facts about values that matches ask for, and the
 * edits that keep them true. Knows no op by name but state_write. */
#include "compile/rewrite.h"

#include "ir/dtype.h"
#include "ir/infer.h"

#include <string.h>

typedef struct rlx_insertion {
    rlx_node_id node, anchor;
} rlx_insertion;

/* Makes room for `wanted` items in scratch memory; the old array stays behind. */
static rlx_status grow(rlx_rewrite *rewrite, void **items, uint32_t *capacity, uint32_t used,
                       uint32_t wanted, size_t item_bytes) {
    void *fresh = NULL;
    uint32_t next = *capacity < 32 ? 64 : *capacity * 2;
    if (wanted <= *capacity) return RLX_OK;
    if (next < wanted) next = wanted;
    RLX_TRY(rlx_scratch_array(rewrite->context->scratch, next, item_bytes, &fresh));
    if (used != 0) memcpy(fresh, *items, used * item_bytes);
    *items = fresh;
    *capacity = next;
    return RLX_OK;
}

static rlx_status reserve_facts(rlx_rewrite *rewrite) {
    uint32_t wanted = rewrite->graph->values.count;
    RLX_TRY(grow(rewrite, (void **)&rewrite->facts, &rewrite->fact_capacity, rewrite->fact_count,
                 wanted, sizeof *rewrite->facts));
    for (; rewrite->fact_count < wanted; rewrite->fact_count++) {
        rewrite->facts[rewrite->fact_count] = (rlx_value_fact){.state = RLX_NONE};
    }
    return RLX_OK;
}

static rlx_status reserve_positions(rlx_rewrite *rewrite) {
    uint32_t wanted = rewrite->graph->nodes.count;
    RLX_TRY(grow(rewrite, (void **)&rewrite->positions, &rewrite->position_capacity,
                 rewrite->position_count, wanted, sizeof *rewrite->positions));
    for (; rewrite->position_count < wanted; rewrite->position_count++)
        rewrite->positions[rewrite->position_count] = UINT32_MAX;
    return RLX_OK;
}

static void count_uses(rlx_rewrite *rewrite, uint32_t *counts) {
    const rlx_graph *graph = rewrite->graph;
    rlx_graph_count_uses(graph, counts);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        const rlx_type *type = &graph->values.items[v].type;
        rewrite->facts[v].uses += counts[v];
        for (uint32_t i = 0; i < type->shape.rank; i++) {
            if (type->extents[i] != RLX_NONE) rewrite->facts[type->extents[i]].uses++;
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        rewrite->facts[graph->outputs.items[i].value].is_output = true;
    }
}

/* As lowering decides it (prepared.c). */
static bool is_node_prepared(const rlx_rewrite *rewrite, rlx_node_id id) {
    const rlx_node *node = &rewrite->graph->nodes.items[id];
    uint32_t flags = rlx_op_info_of(node->op)->flags;
    if ((flags & (RLX_OPF_FLOW | RLX_OPF_STATEFUL | RLX_OPF_COLLECTIVE)) != 0) return false;
    if (node->op == RLX_OP_COPY) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id input = rlx_rewrite_input(rewrite, id, i);
        if (input != RLX_NONE && !rewrite->facts[input].is_prepared) return false;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (node->outputs[o] != RLX_NONE &&
            rlx_rewrite_has_extent(rlx_rewrite_type(rewrite, node->outputs[o]))) {
            return false;
        }
    }
    return node->block == 0 && node->input_count != 0;
}

/* What the outputs of a node inherit from its inputs. */
static void set_node_facts(rlx_rewrite *rewrite, rlx_node_id id) {
    const rlx_node *node = &rewrite->graph->nodes.items[id];
    uint32_t flags = rlx_op_info_of(node->op)->flags;
    bool is_prepared = is_node_prepared(rewrite, id);
    rlx_value_id state = RLX_NONE;
    if ((flags & (RLX_OPF_VIEW | RLX_OPF_STATEFUL)) != 0) {
        state = rewrite->facts[rlx_rewrite_input(rewrite, id, 0)].state;
    }
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (node->outputs[o] == RLX_NONE) continue;
        rlx_value_fact *fact = &rewrite->facts[node->outputs[o]];
        fact->is_prepared = is_prepared;
        fact->state = (flags & RLX_OPF_STATEFUL) != 0 && o != 0 ? RLX_NONE : state;
    }
}

/* Walks a block: places, facts, effects. *out_writes: some node in it writes a state. */
static void scan_block(rlx_rewrite *rewrite, rlx_block_id id, bool *out_writes) {
    const rlx_block *block = &rewrite->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        rlx_node_id node_id = block->nodes.items[i];
        const rlx_node *node = &rewrite->graph->nodes.items[node_id];
        bool writes = (rlx_op_info_of(node->op)->flags & RLX_OPF_STATEFUL) != 0;
        rlx_value_id state = RLX_NONE;
        rewrite->positions[node_id] = i;
        if (node->is_dead) continue;
        if (writes) state = rewrite->facts[rlx_rewrite_input(rewrite, node_id, 0)].state;
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] != RLX_NONE) scan_block(rewrite, node->blocks[b], &writes);
        }
        set_node_facts(rewrite, node_id);
        if (!writes) continue;
        rewrite->effects[rewrite->effect_count++] = (rlx_state_effect){id, i, state};
        *out_writes = true;
    }
}

rlx_status rlx_rewrite_begin(rlx_pass_context *context, rlx_rewrite *out_rewrite) {
    rlx_graph *graph = context->graph;
    rlx_rewrite rewrite = {.context = context, .graph = graph};
    uint32_t *counts = NULL;
    bool writes = false;
    RLX_TRY(rlx_remap_begin(context, &rewrite.remap));
    RLX_TRY(reserve_facts(&rewrite));
    RLX_TRY(reserve_positions(&rewrite));
    RLX_TRY(rlx_scratch_array(context->scratch, graph->values.count + 1u, sizeof *counts,
                              (void **)&counts));
    RLX_TRY(rlx_scratch_array(context->scratch, graph->nodes.count + 1u, sizeof *rewrite.effects,
                              (void **)&rewrite.effects));
    count_uses(&rewrite, counts);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        rlx_value_kind kind = graph->values.items[v].kind;
        rewrite.facts[v].is_prepared = kind == RLX_VALUE_PARAMETER || kind == RLX_VALUE_CONSTANT;
        if (kind == RLX_VALUE_STATE) rewrite.facts[v].state = v;
    }
    scan_block(&rewrite, 0, &writes);
    *out_rewrite = rewrite;
    return RLX_OK;
}

/* Inserted nodes stand at the end of the lists; puts each before its anchor. */
static rlx_status place_insertions(rlx_rewrite *rewrite) {
    rlx_graph *graph = rewrite->graph;
    uint32_t *first = NULL, *next = NULL, *inserted = NULL;
    rlx_node_id *old = NULL;
    uint32_t node_count = graph->nodes.count;
    RLX_TRY(
        rlx_scratch_array(rewrite->context->scratch, node_count, sizeof *first, (void **)&first));
    RLX_TRY(rlx_scratch_array(rewrite->context->scratch, node_count, sizeof *next, (void **)&next));
    RLX_TRY(rlx_scratch_array(rewrite->context->scratch, graph->blocks.count, sizeof *inserted,
                              (void **)&inserted));
    RLX_TRY(rlx_scratch_array(rewrite->context->scratch, node_count, sizeof *old, (void **)&old));
    memset(first, 0xFF, node_count * sizeof *first);
    for (uint32_t i = rewrite->insertion_count; i-- > 0;) {
        const rlx_insertion *insertion = &rewrite->insertions[i];
        next[insertion->node] = first[insertion->anchor];
        first[insertion->anchor] = insertion->node;
        inserted[graph->nodes.items[insertion->node].block]++;
    }
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        rlx_block *block = &graph->blocks.items[b];
        uint32_t count = 0, old_count = block->nodes.count - inserted[b];
        if (inserted[b] == 0) continue;
        memcpy(old, block->nodes.items, old_count * sizeof *old);
        for (uint32_t i = 0; i < old_count; i++) {
            for (uint32_t n = first[old[i]]; n != RLX_NONE; n = next[n])
                block->nodes.items[count++] = n;
            block->nodes.items[count++] = old[i];
        }
        RLX_ASSERT(count == block->nodes.count);
    }
    return RLX_OK;
}

rlx_status rlx_rewrite_finish(rlx_rewrite *rewrite) {
    if (rewrite->insertion_count != 0) RLX_TRY(place_insertions(rewrite));
    rlx_remap_apply(rewrite->context, &rewrite->remap);
    rewrite->insertion_count = 0;
    return RLX_OK;
}

rlx_status rlx_rewrite_walk(rlx_rewrite *rewrite, rlx_rewrite_visit visit, void *user) {
    rlx_graph *graph = rewrite->graph;
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        uint32_t count = graph->blocks.items[b].nodes.count;
        for (uint32_t i = 0; i < count; i++) {
            rlx_node_id id = graph->blocks.items[b].nodes.items[i];
            const rlx_node *node = &graph->nodes.items[id];
            /* A rewrite puts another node in the place of a first output; control flow may lack
             * it. */
            if (node->is_dead || node->output_count == 0 || node->outputs[0] == RLX_NONE) continue;
            RLX_TRY(visit(rewrite, id, user));
        }
    }
    return RLX_OK;
}

rlx_value_id rlx_rewrite_input(const rlx_rewrite *rewrite, rlx_node_id node, uint32_t index) {
    const rlx_node *at = &rewrite->graph->nodes.items[node];
    if (index >= at->input_count) return RLX_NONE;
    return rlx_remap_get(&rewrite->remap, at->inputs[index]);
}

bool rlx_rewrite_same_type(const rlx_rewrite *rewrite, const rlx_type *a, const rlx_type *b) {
    if (a->dtype != b->dtype || !rlx_shape_equal(&a->shape, &b->shape)) return false;
    for (uint32_t i = 0; i < a->shape.rank; i++) {
        if (rlx_remap_get(&rewrite->remap, a->extents[i]) !=
            rlx_remap_get(&rewrite->remap, b->extents[i])) {
            return false;
        }
    }
    return true;
}

bool rlx_rewrite_has_extent(const rlx_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE) return true;
    }
    return false;
}

rlx_node_id rlx_rewrite_producer(const rlx_rewrite *rewrite, rlx_value_id value, rlx_op op) {
    if (value == RLX_NONE) return RLX_NONE;
    rlx_node_id id = rewrite->graph->values.items[value].producer;
    if (id == RLX_NONE) return RLX_NONE;
    const rlx_node *node = &rewrite->graph->nodes.items[id];
    return !node->is_dead && (op == RLX_OP_NONE || node->op == op) ? id : RLX_NONE;
}

bool rlx_rewrite_may_move(const rlx_rewrite *rewrite, rlx_node_id node, rlx_node_id root) {
    const rlx_node *at = &rewrite->graph->nodes.items[node];
    uint32_t from = rewrite->positions[node], to = rewrite->positions[root];
    if (at->block != rewrite->graph->nodes.items[root].block) return false;
    if (rewrite->effect_count == 0) return true;
    for (uint32_t i = 0; i < at->input_count; i++) {
        rlx_value_id input = rlx_rewrite_input(rewrite, node, i);
        rlx_value_id state = input == RLX_NONE ? RLX_NONE : rewrite->facts[input].state;
        if (state == RLX_NONE) continue;
        for (uint32_t e = 0; e < rewrite->effect_count; e++) {
            const rlx_state_effect *effect = &rewrite->effects[e];
            if (effect->block == at->block && effect->position > from && effect->position < to &&
                (effect->state == RLX_NONE || effect->state == state)) {
                return false;
            }
        }
    }
    return true;
}

rlx_node_id rlx_rewrite_inner(const rlx_rewrite *rewrite, rlx_node_id root, rlx_value_id value,
                              rlx_op op) {
    rlx_node_id id = rlx_rewrite_producer(rewrite, value, op);
    if (id == RLX_NONE || rewrite->facts[value].uses != 1) return RLX_NONE;
    if (rewrite->facts[value].is_prepared &&
        !rewrite->facts[rlx_rewrite_output(rewrite, root)].is_prepared) {
        return RLX_NONE;
    }
    return rlx_rewrite_may_move(rewrite, id, root) ? id : RLX_NONE;
}

bool rlx_rewrite_scalar(const rlx_rewrite *rewrite, rlx_value_id value, double *out_number) {
    if (value == RLX_NONE) return false;
    const rlx_value *at = &rewrite->graph->values.items[value];
    uint64_t elements;
    if (at->kind != RLX_VALUE_CONSTANT || at->data == NULL ||
        rlx_dtype_block_elements(at->type.dtype) != 1 ||
        rlx_shape_elements(&at->type.shape, &elements) != RLX_OK || elements != 1) {
        return false;
    }
    *out_number = rlx_load_f64(at->type.dtype, at->data, 0);
    return true;
}

static void acquire(rlx_rewrite *rewrite, rlx_value_id value) {
    if (value != RLX_NONE) rewrite->facts[value].uses++;
}

/* One use less; a node that nobody uses any more is dead, and so on backwards. */
static void release(rlx_rewrite *rewrite, rlx_value_id value) {
    if (value == RLX_NONE || --rewrite->facts[value].uses != 0) return;
    rlx_node_id id = rlx_rewrite_producer(rewrite, value, RLX_OP_NONE);
    if (id == RLX_NONE) return;
    rlx_node *node = &rewrite->graph->nodes.items[id];
    if ((rlx_op_info_of(node->op)->flags & (RLX_OPF_FLOW | RLX_OPF_STATEFUL)) != 0) return;
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (node->outputs[o] != RLX_NONE && rewrite->facts[node->outputs[o]].uses != 0) return;
    }
    node->is_dead = true;
    for (uint32_t i = 0; i < node->input_count; i++)
        release(rewrite, rlx_rewrite_input(rewrite, id, i));
}

/* Types a node that was just changed; true when its first output is what it was before. */
static rlx_status types_again(rlx_rewrite *rewrite, rlx_node_id id, bool *out_is_same) {
    rlx_value_id output = rewrite->graph->nodes.items[id].outputs[0];
    rlx_type before = rewrite->graph->values.items[output].type;
    rlx_status status = rlx_graph_infer_node(rewrite->graph, id);
    if (status == RLX_OUT_OF_MEMORY) return status;
    rlx_type *after = &rewrite->graph->values.items[output].type;
    *out_is_same = status == RLX_OK && rlx_rewrite_same_type(rewrite, &before, after);
    if (!*out_is_same) *after = before;
    return RLX_OK;
}

rlx_status rlx_rewrite_node(rlx_rewrite *rewrite, rlx_node_id id, rlx_op op, const void *attrs,
                            const rlx_value_id *inputs, uint32_t input_count, bool *out_done) {
    rlx_graph *graph = rewrite->graph;
    rlx_node before = graph->nodes.items[id], after = before;
    bool is_same = false;
    after.op = op;
    after.input_count = input_count;
    RLX_TRY(rlx_graph_copy_attrs(graph, op, attrs, &after.attrs));
    RLX_TRY(rlx_scratch_array(&graph->memory, input_count, sizeof *after.inputs,
                              (void **)&after.inputs));
    memcpy(after.inputs, inputs, input_count * sizeof *inputs);
    graph->nodes.items[id] = after;
    RLX_TRY(types_again(rewrite, id, &is_same));
    if (out_done != NULL) *out_done = is_same;
    if (!is_same) {
        graph->nodes.items[id] = before;
        return RLX_OK;
    }
    for (uint32_t i = 0; i < input_count; i++)
        acquire(rewrite, after.inputs[i]);
    for (uint32_t i = 0; i < before.input_count; i++)
        release(rewrite, rlx_remap_get(&rewrite->remap, before.inputs[i]));
    return RLX_OK;
}

rlx_status rlx_rewrite_insert(rlx_rewrite *rewrite, rlx_node_id anchor, rlx_op op,
                              const void *attrs, const rlx_value_id *inputs, uint32_t input_count,
                              rlx_value_id *out_value) {
    rlx_graph *graph = rewrite->graph;
    rlx_block_id block = graph->nodes.items[anchor].block;
    rlx_value_id value;
    rlx_node_id id;
    RLX_TRY(rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &value));
    graph->values.items[value].block = block;
    RLX_TRY(rlx_graph_insert_node(graph, block, UINT32_MAX, op, attrs, inputs, input_count, &value,
                                  1, &id));
    RLX_TRY(reserve_facts(rewrite));
    RLX_TRY(reserve_positions(rewrite));
    RLX_TRY(grow(rewrite, (void **)&rewrite->insertions, &rewrite->insertion_capacity,
                 rewrite->insertion_count, rewrite->insertion_count + 1,
                 sizeof *rewrite->insertions));
    rewrite->insertions[rewrite->insertion_count++] = (rlx_insertion){id, anchor};
    rewrite->positions[id] = rewrite->positions[anchor];
    for (uint32_t i = 0; i < input_count; i++)
        acquire(rewrite, inputs[i]);
    set_node_facts(rewrite, id);
    *out_value = value;
    return RLX_OK;
}

rlx_status rlx_rewrite_reshaped(rlx_rewrite *rewrite, rlx_node_id anchor, rlx_value_id value,
                                const int64_t *dims, uint32_t rank, rlx_value_id *out_value) {
    const rlx_shape *shape = &rlx_rewrite_type(rewrite, value)->shape;
    rlx_reshape_attrs attrs = {.shape = {.count = rank}};
    bool is_same = shape->rank == rank;
    for (uint32_t i = 0; i < rank; i++) { /* of a scalar dims may be NULL */
        attrs.shape.items[i] = dims[i];
        is_same = is_same && shape->dims[i] == dims[i];
    }
    if (is_same) {
        *out_value = value;
        return RLX_OK;
    }
    return rlx_rewrite_insert(rewrite, anchor, RLX_OP_RESHAPE, &attrs, &value, 1, out_value);
}

rlx_status rlx_rewrite_constant(rlx_rewrite *rewrite, rlx_dtype dtype, double number,
                                rlx_value_id *out_value) {
    unsigned char data[8];
    rlx_store_f64(dtype, data, 0, number);
    RLX_TRY(rlx_graph_add_constant(rewrite->graph, NULL, dtype, (rlx_shape){0}, data,
                                   rlx_dtype_block_bytes(dtype), out_value));
    RLX_TRY(reserve_facts(rewrite));
    rewrite->facts[*out_value].is_prepared = true;
    return RLX_OK;
}

rlx_status rlx_rewrite_matrix(rlx_rewrite *rewrite, const float *numbers, int64_t rows,
                              int64_t columns, rlx_value_id *out_value) {
    const rlx_shape shape = {.rank = 2, .dims = {rows, columns}};
    RLX_TRY(rlx_graph_add_constant(rewrite->graph, NULL, RLX_DTYPE_F32, shape, numbers,
                                   (uint64_t)(rows * columns) * sizeof *numbers, out_value));
    RLX_TRY(reserve_facts(rewrite));
    rewrite->facts[*out_value].is_prepared = true;
    return RLX_OK;
}

rlx_status rlx_rewrite_cast(rlx_rewrite *rewrite, rlx_node_id anchor, rlx_value_id value,
                            rlx_dtype to, rlx_value_id *out_value) {
    rlx_cast_attrs attrs = {.to = to};
    if (rlx_rewrite_type(rewrite, value)->dtype == to) {
        *out_value = value;
        return RLX_OK;
    }
    return rlx_rewrite_insert(rewrite, anchor, RLX_OP_CAST, &attrs, &value, 1, out_value);
}

rlx_status rlx_rewrite_take_output(rlx_rewrite *rewrite, rlx_node_id id, rlx_value_id value) {
    rlx_graph *graph = rewrite->graph;
    rlx_node_id old = graph->values.items[value].producer;
    rlx_value_id *outputs = NULL;
    RLX_TRY(rlx_scratch_array(&graph->memory, 2, sizeof *outputs, (void **)&outputs));
    outputs[0] = graph->nodes.items[id].outputs[0];
    outputs[1] = value;
    graph->nodes.items[id].outputs = outputs;
    graph->nodes.items[id].output_count = 2;
    graph->values.items[value].producer = id;
    graph->values.items[value].producer_output = 1;
    graph->nodes.items[old].is_dead = true;
    for (uint32_t i = 0; i < graph->nodes.items[old].input_count; i++)
        release(rewrite, rlx_rewrite_input(rewrite, old, i));
    return RLX_OK;
}

/* Gives output `from`'s place to `to`, which has the same type. */
static void take_over(rlx_rewrite *rewrite, rlx_value_id from, rlx_value_id to) {
    rlx_graph *graph = rewrite->graph;
    rlx_value *old = &graph->values.items[from];
    rlx_value_fact *fact = &rewrite->facts[to];
    graph->nodes.items[old->producer].outputs[old->producer_output] = to;
    graph->values.items[to].producer = old->producer;
    graph->values.items[to].producer_output = old->producer_output;
    fact->uses += rewrite->facts[from].uses - 1;
    fact->is_prepared = rewrite->facts[from].is_prepared;
    rewrite->facts[from].uses = 0;
    rlx_remap_set(&rewrite->remap, from, to);
}

void rlx_rewrite_bypass(rlx_rewrite *rewrite, rlx_node_id id, rlx_value_id by) {
    rlx_graph *graph = rewrite->graph;
    rlx_value_id output = graph->nodes.items[id].outputs[0];
    rlx_block_id block = graph->nodes.items[id].block;
    /* A read of a state happens where it stands: its users must not read later. */
    if (rewrite->facts[by].state != RLX_NONE) return;
    rlx_node_id producer = rlx_rewrite_producer(rewrite, by, RLX_OP_NONE);
    bool is_same_block = producer != RLX_NONE && graph->nodes.items[producer].block == block;
    if (rewrite->facts[output].is_output || (block != 0 && !is_same_block)) {
        if (!is_same_block || rewrite->facts[by].is_output || by >= rewrite->remap.count ||
            (rlx_op_info_of(graph->nodes.items[producer].op)->flags &
             (RLX_OPF_FLOW | RLX_OPF_STATEFUL)) != 0) {
            return;
        }
        graph->nodes.items[id].is_dead = true;
        take_over(rewrite, by, output);
        return;
    }
    if (output >= rewrite->remap.count) return;
    graph->nodes.items[id].is_dead = true;
    rewrite->facts[by].uses += rewrite->facts[output].uses - 1;
    rewrite->facts[output].uses = 0;
    rlx_remap_set(&rewrite->remap, output, by);
}
