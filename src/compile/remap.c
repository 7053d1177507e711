/* SPDX-License-Identifier: Apache-2.0 */
/* Replacing many values at once. */
#include "compile/compile.h"

#include <string.h>

rlx_status rlx_remap_begin(rlx_pass_context *context, rlx_remap *out_remap) {
    rlx_remap remap = {.count = context->graph->values.count};
    RLX_TRY(rlx_scratch_array(context->scratch, remap.count + 1u, sizeof *remap.to,
                              (void **)&remap.to));
    memset(remap.to, 0xFF, remap.count * sizeof *remap.to);
    *out_remap = remap;
    return RLX_OK;
}

rlx_value_id rlx_remap_get(const rlx_remap *remap, rlx_value_id value) {
    while (value < remap->count && remap->to[value] != RLX_NONE)
        value = remap->to[value];
    return value;
}

void rlx_remap_set(rlx_remap *remap, rlx_value_id from, rlx_value_id to) {
    to = rlx_remap_get(remap, to);
    if (from >= remap->count || from == to) return;
    remap->to[from] = to;
    remap->is_used = true;
}

void rlx_remap_apply(rlx_pass_context *context, rlx_remap *remap) {
    rlx_graph *graph = context->graph;
    if (!remap->is_used) return;
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        rlx_node *node = &graph->nodes.items[n];
        for (uint32_t i = 0; i < node->input_count && !node->is_dead; i++) {
            node->inputs[i] = rlx_remap_get(remap, node->inputs[i]);
        }
    }
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        rlx_block *block = &graph->blocks.items[b];
        for (uint32_t i = 0; i < block->yield_count; i++) {
            block->yields[i] = rlx_remap_get(remap, block->yields[i]);
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        graph->outputs.items[i].value = rlx_remap_get(remap, graph->outputs.items[i].value);
    }
    for (uint32_t v = 0; v < graph->values.count; v++) {
        rlx_type *type = &graph->values.items[v].type;
        for (uint32_t i = 0; i < type->shape.rank; i++) {
            type->extents[i] = rlx_remap_get(remap, type->extents[i]);
        }
    }
    memset(remap->to, 0xFF, remap->count * sizeof *remap->to);
    remap->is_used = false;
}
