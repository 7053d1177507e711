/* SPDX-License-Identifier: Apache-2.0 */
/* Remove dead: a node whose outputs nobody needs goes, unless it writes a state (or holds a block
 * that does). Optional outputs that nobody reads become absent. */
#include "compile/compile.h"

typedef struct marks {
    rlx_graph *graph;
    uint8_t *is_needed; /* per value */
    uint8_t *is_kept;   /* per node */
} marks;

static bool block_has_effect(const rlx_graph *graph, rlx_block_id id) {
    const rlx_block *block = &graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        const rlx_node *node = &graph->nodes.items[block->nodes.items[i]];
        if (node->is_dead) continue;
        if ((rlx_op_info_of(node->op)->flags & RLX_OPF_STATEFUL) != 0) return true;
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] != RLX_NONE && block_has_effect(graph, node->blocks[b])) {
                return true;
            }
        }
    }
    return false;
}

static void need_value(marks *self, rlx_value_id value) {
    if (value == RLX_NONE) return;
    self->is_needed[value] = 1;
    const rlx_type *type = &self->graph->values.items[value].type;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE) self->is_needed[type->extents[i]] = 1;
    }
}

/* Walks a block backwards: uses come after definitions, so one walk is enough. */
static void mark_block(marks *self, rlx_block_id id) {
    const rlx_block *block = &self->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->yield_count; i++)
        need_value(self, block->yields[i]);
    for (uint32_t i = block->nodes.count; i-- > 0;) {
        rlx_node_id node_id = block->nodes.items[i];
        const rlx_node *node = &self->graph->nodes.items[node_id];
        bool keep = (rlx_op_info_of(node->op)->flags & RLX_OPF_STATEFUL) != 0;
        if (node->is_dead) continue;
        for (uint32_t o = 0; o < node->output_count; o++) {
            keep |= node->outputs[o] != RLX_NONE && self->is_needed[node->outputs[o]];
        }
        for (uint32_t b = 0; b < 2 && !keep; b++) {
            keep = node->blocks[b] != RLX_NONE && block_has_effect(self->graph, node->blocks[b]);
        }
        if (!keep) continue;
        self->is_kept[node_id] = 1;
        for (uint32_t n = 0; n < node->input_count; n++)
            need_value(self, node->inputs[n]);
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] != RLX_NONE) mark_block(self, node->blocks[b]);
        }
    }
}

static void compact_block(rlx_graph *graph, rlx_block *block) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        rlx_node_id id = block->nodes.items[i];
        if (!graph->nodes.items[id].is_dead) block->nodes.items[kept++] = id;
    }
    block->nodes.count = kept;
}

/* Leaves the tables as small as what is left, for all that has a row per value. */
rlx_status rlx_pass_compact(rlx_pass_context *context) {
    return rlx_graph_compact(context->graph);
}

rlx_status rlx_pass_remove_dead(rlx_pass_context *context) {
    marks self = {.graph = context->graph};
    rlx_graph *graph = context->graph;
    RLX_TRY(
        rlx_scratch_array(context->scratch, graph->values.count + 1u, 1, (void **)&self.is_needed));
    RLX_TRY(
        rlx_scratch_array(context->scratch, graph->nodes.count + 1u, 1, (void **)&self.is_kept));
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        need_value(&self, graph->outputs.items[i].value);
    }
    mark_block(&self, 0);
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        rlx_node *node = &graph->nodes.items[n];
        const rlx_op_info *info = rlx_op_info_of(node->op);
        if (!self.is_kept[n]) node->is_dead = true;
        for (uint32_t o = info->out_least; o < node->output_count && !node->is_dead; o++) {
            bool is_free = (info->flags & RLX_OPF_FLOW) == 0 && info->out_most != RLX_OP_MANY;
            if (is_free && node->outputs[o] != RLX_NONE && !self.is_needed[node->outputs[o]]) {
                node->outputs[o] = RLX_NONE;
            }
        }
    }
    for (uint32_t b = 0; b < graph->blocks.count; b++)
        compact_block(graph, &graph->blocks.items[b]);
    return RLX_OK;
}
