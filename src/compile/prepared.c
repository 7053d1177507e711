/* SPDX-License-Identifier: Apache-2.0 */
/* What is known once the weights are (and so becomes a prepare step), and the pass that gives
 * outputs memory of their own. */
#include "compile/lower.h"

#include "ir/view.h"

#include <string.h>

static bool has_extent(const rlx_graph *graph, rlx_value_id value) {
    const rlx_type *type = &graph->values.items[value].type;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE) return true;
    }
    return false;
}

/* Copies are made on purpose, in every run; sizes that come with a run cannot be prepared. */
static bool can_prepare(const rlx_graph *graph, const rlx_node *node, const uint8_t *is_prepared) {
    uint32_t flags = rlx_op_info_of(node->op)->flags;
    if ((flags & (RLX_OPF_FLOW | RLX_OPF_STATEFUL | RLX_OPF_COLLECTIVE)) != 0) return false;
    if (node->op == RLX_OP_COPY) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] != RLX_NONE && !is_prepared[node->inputs[i]]) return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != RLX_NONE && has_extent(graph, node->outputs[i])) return false;
    }
    return node->input_count != 0;
}

bool rlx_mark_if_prepared(const rlx_graph *graph, rlx_node_id id, uint8_t *is_prepared) {
    const rlx_node *node = &graph->nodes.items[id];
    if (node->is_dead || !can_prepare(graph, node, is_prepared)) return false;
    for (uint32_t n = 0; n < node->output_count; n++) {
        if (node->outputs[n] != RLX_NONE) is_prepared[node->outputs[n]] = 1;
    }
    return true;
}

void rlx_mark_prepared(const rlx_graph *graph, const rlx_node_id *order, uint32_t count,
                       uint8_t *is_prepared) {
    for (uint32_t v = 0; v < graph->values.count; v++) {
        rlx_value_kind kind = graph->values.items[v].kind;
        is_prepared[v] = kind == RLX_VALUE_PARAMETER || kind == RLX_VALUE_CONSTANT;
    }
    for (uint32_t i = 0; i < count; i++)
        rlx_mark_if_prepared(graph, order[i], is_prepared);
}

bool rlx_is_prepare_node(const rlx_graph *graph, rlx_node_id id, const uint8_t *is_prepared) {
    const rlx_node *node = &graph->nodes.items[id];
    for (uint32_t n = 0; n < node->output_count; n++) {
        if (node->outputs[n] != RLX_NONE) return is_prepared[node->outputs[n]] != 0;
    }
    return false;
}

rlx_value_id rlx_view_root(const rlx_graph *graph, rlx_value_id value) {
    for (;;) {
        rlx_node_id producer = graph->values.items[value].producer;
        if (producer == RLX_NONE) return value;
        const rlx_node *node = &graph->nodes.items[producer];
        bool is_view = (rlx_op_info_of(node->op)->flags & RLX_OPF_VIEW) != 0 ||
                       (node->op == RLX_OP_STATE_WRITE && node->outputs[0] == value);
        if (!is_view) return value;
        value = node->inputs[0];
    }
}

/* Where the value is as an output shall give it: a state after the last node, since blocks may
 * write it under its own name; what a node gave after that node. */
static uint32_t position_after(const rlx_graph *graph, rlx_value_id value) {
    rlx_node_id producer = graph->values.items[value].producer;
    const rlx_block *block = &graph->blocks.items[0];
    if (graph->values.items[value].kind == RLX_VALUE_STATE) return block->nodes.count;
    for (uint32_t i = 0; producer != RLX_NONE && i < block->nodes.count; i++) {
        if (block->nodes.items[i] == producer) return i + 1;
    }
    return 0;
}

static rlx_tensor shape_of(const rlx_graph *graph, rlx_value_id value) {
    const rlx_type *type = &graph->values.items[value].type;
    rlx_tensor tensor = {.dtype = type->dtype, .rank = type->shape.rank};
    memcpy(tensor.dims, type->shape.dims, sizeof tensor.dims);
    rlx_plain_strides(&type->shape, tensor.strides);
    return tensor;
}

static uint32_t output_number(const rlx_node *node, rlx_value_id value) {
    uint32_t output = 0;
    while (node->outputs[output] != value)
        output++;
    return output;
}

/* Whether an op between an input and a value that is made of it by view ops alone moves what it
 * reads, as a reshape across holes does: the value has memory that is no input's. */
static bool is_moved(const rlx_graph *graph, rlx_value_id value, rlx_value_id root) {
    enum { LONGEST = 32 };
    rlx_value_id chain[LONGEST];
    uint32_t count = 0;
    if (graph->values.items[root].kind != RLX_VALUE_INPUT) return false;
    for (; value != root && count < LONGEST; count++) {
        chain[count] = value;
        value = graph->nodes.items[graph->values.items[value].producer].inputs[0];
    }
    rlx_tensor from = shape_of(graph, value);
    while (value == root && count-- > 0) {
        const rlx_node *node = &graph->nodes.items[graph->values.items[chain[count]].producer];
        rlx_tensor to = shape_of(graph, chain[count]);
        int64_t offset;
        if (!rlx_view_of(node->op, node->attrs, output_number(node, chain[count]),
                         node->output_count, &from, &to, &offset))
            return true;
        from = to;
    }
    return false;
}

/* An output that is an input, a weight or a state gets a copy of its own: reading it gives what
 * this run saw, and the next run's inputs do not change it. */
rlx_status rlx_pass_own_outputs(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    const rlx_block *block = &graph->blocks.items[0];
    uint8_t *is_prepared = NULL;
    uint32_t known = graph->values.count;
    RLX_TRY(rlx_scratch_array(context->scratch, known + 1u, 1, (void **)&is_prepared));
    rlx_mark_prepared(graph, block->nodes.items, block->nodes.count, is_prepared);
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        rlx_value_id value = graph->outputs.items[i].value, copy;
        rlx_node_id node;
        rlx_value_id root = rlx_view_root(graph, value);
        bool is_kept =
            graph->values.items[root].kind == RLX_VALUE_TEMPORARY || is_moved(graph, value, root);
        if (is_kept && !(value < known && is_prepared[value])) continue;
        RLX_TRY(rlx_graph_new_value(graph, NULL, RLX_VALUE_TEMPORARY, &copy));
        RLX_TRY(rlx_graph_insert_node(graph, 0, position_after(graph, value), RLX_OP_COPY, NULL,
                                      &value, 1, &copy, 1, &node));
        graph->outputs.items[i].value = copy;
    }
    return RLX_OK;
}
