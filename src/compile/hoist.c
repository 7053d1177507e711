/* SPDX-License-Identifier: Apache-2.0 */
/* Hoist: what a branch or a loop's body computes from weights alone moves to the main block, where
 * it becomes a prepare step instead of work of every run, and where weights can be packed. Ops that
 * can fail in a run stay: nobody may ever take the branch. */
#include "compile/lower.h"

typedef RLX_VEC(rlx_node_id) node_list;

/* Takes the prepare nodes of a body out of it. */
static rlx_status lift_block(rlx_graph *graph, rlx_block *block, uint8_t *is_prepared,
                             node_list *lifted) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        rlx_node_id id = block->nodes.items[i];
        rlx_node *node = &graph->nodes.items[id];
        bool is_safe = (rlx_op_info_of(node->op)->flags & RLX_OPF_FAULTS) == 0;
        if (node->is_dead || !is_safe || !rlx_mark_if_prepared(graph, id, is_prepared)) {
            block->nodes.items[kept++] = id;
            continue;
        }
        node->block = 0;
        for (uint32_t n = 0; n < node->output_count; n++) {
            if (node->outputs[n] != RLX_NONE) graph->values.items[node->outputs[n]].block = 0;
        }
        RLX_TRY(rlx_vec_push(graph->allocator, lifted, id));
    }
    block->nodes.count = kept;
    return RLX_OK;
}

/* The main block: its own prepare nodes, those from bodies, the rest. */
static void place_lifted(rlx_graph *graph, const uint8_t *is_prepared, const rlx_node_id *old,
                         uint32_t count, const node_list *lifted) {
    rlx_node_id *to = graph->blocks.items[0].nodes.items;
    for (uint32_t i = 0; i < count; i++) {
        if (rlx_is_prepare_node(graph, old[i], is_prepared)) *to++ = old[i];
    }
    for (uint32_t i = 0; i < lifted->count; i++)
        *to++ = lifted->items[i];
    for (uint32_t i = 0; i < count; i++) {
        if (!rlx_is_prepare_node(graph, old[i], is_prepared)) *to++ = old[i];
    }
}

static rlx_status lift_all(rlx_pass_context *context, node_list *lifted) {
    rlx_graph *graph = context->graph;
    rlx_block *main = &graph->blocks.items[0];
    uint32_t count = main->nodes.count;
    uint8_t *is_prepared = NULL;
    rlx_node_id *old = NULL;
    RLX_TRY(
        rlx_scratch_array(context->scratch, graph->values.count + 1u, 1, (void **)&is_prepared));
    RLX_TRY(rlx_scratch_array(context->scratch, count + 1u, sizeof *old, (void **)&old));
    rlx_mark_prepared(graph, main->nodes.items, count, is_prepared);
    for (uint32_t i = 0; i < count; i++)
        old[i] = main->nodes.items[i];
    for (uint32_t b = 1; b < graph->blocks.count; b++)
        RLX_TRY(lift_block(graph, &graph->blocks.items[b], is_prepared, lifted));
    for (uint32_t i = 0; i < lifted->count; i++)
        RLX_TRY(rlx_vec_push(graph->allocator, &main->nodes, lifted->items[i]));
    place_lifted(graph, is_prepared, old, count, lifted);
    return RLX_OK;
}

rlx_status rlx_pass_hoist(rlx_pass_context *context) {
    node_list lifted = {0};
    if (context->graph->blocks.count == 1) return RLX_OK;
    rlx_status status = lift_all(context, &lifted);
    rlx_vec_free(context->graph->allocator, &lifted);
    return status;
}
