/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: counting uses, and deep copies. */
#include "ir/graph.h"

#include <string.h>

void rlx_graph_count_uses(const rlx_graph *graph, uint32_t *counts) {
    memset(counts, 0, graph->values.count * sizeof *counts);
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const rlx_node *node = &graph->nodes.items[n];
        if (node->is_dead) continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i] != RLX_NONE) counts[node->inputs[i]]++;
        }
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] == RLX_NONE) continue;
            const rlx_block *block = &graph->blocks.items[node->blocks[b]];
            for (uint32_t i = 0; i < block->yield_count; i++)
                counts[block->yields[i]]++;
        }
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        counts[graph->outputs.items[i].value]++;
}

static rlx_status clone_weight(rlx_graph *copy, rlx_value *value) {
    rlx_weight weight = *value->weight;
    if (weight.source.path != NULL)
        RLX_TRY(rlx_graph_keep_path(copy, weight.source.path, &weight.source.path));
    return rlx_graph_keep_weight(copy, &weight, &value->weight);
}

static rlx_status clone_values(const rlx_graph *graph, bool is_shared, rlx_graph *copy) {
    RLX_TRY(rlx_vec_reserve(copy->allocator, &copy->values, graph->values.count));
    for (uint32_t i = 0; i < graph->values.count; i++) {
        rlx_value value = graph->values.items[i];
        if (is_shared) {
            copy->values.items[copy->values.count++] = value;
            continue;
        }
        RLX_TRY(rlx_scratch_text(&copy->memory, value.name, strlen(value.name), &value.name));
        if (value.data != NULL) {
            void *data = NULL;
            RLX_TRY(rlx_scratch_alloc(&copy->memory, value.data_bytes, &data));
            if (value.data_bytes != 0) memcpy(data, value.data, value.data_bytes);
            value.data = data;
        }
        if (value.weight != NULL) RLX_TRY(clone_weight(copy, &value));
        copy->values.items[copy->values.count++] = value;
    }
    RLX_TRY(rlx_vec_reserve(copy->allocator, &copy->names, graph->names.count));
    copy->names.count = graph->names.count;
    copy->renamed = graph->renamed;
    if (graph->names.count != 0) {
        memcpy(copy->names.items, graph->names.items,
               graph->names.count * sizeof *graph->names.items);
    }
    return RLX_OK;
}

static rlx_status clone_ids(rlx_graph *copy, const uint32_t *ids, uint32_t count,
                            uint32_t **out_ids) {
    uint32_t *result = NULL;
    RLX_TRY(rlx_scratch_array(&copy->memory, count, sizeof *result, (void **)&result));
    if (count != 0) memcpy(result, ids, count * sizeof *result);
    *out_ids = result;
    return RLX_OK;
}

static rlx_status clone_nodes(const rlx_graph *graph, bool is_shared, rlx_graph *copy) {
    RLX_TRY(rlx_vec_reserve(copy->allocator, &copy->nodes, graph->nodes.count));
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        rlx_node node = graph->nodes.items[i];
        if (!is_shared) RLX_TRY(rlx_graph_copy_attrs(copy, node.op, node.attrs, &node.attrs));
        RLX_TRY(clone_ids(copy, node.inputs, node.input_count, &node.inputs));
        RLX_TRY(clone_ids(copy, node.outputs, node.output_count, &node.outputs));
        copy->nodes.items[copy->nodes.count++] = node;
    }
    return RLX_OK;
}

static rlx_status clone_block(const rlx_graph *graph, rlx_graph *copy, uint32_t index) {
    const rlx_block *from = &graph->blocks.items[index];
    rlx_block block = *from;
    memset(&block.nodes, 0, sizeof block.nodes);
    RLX_TRY(clone_ids(copy, from->inputs, from->input_count, &block.inputs));
    RLX_TRY(clone_ids(copy, from->yields, from->yield_count, &block.yields));
    RLX_TRY(rlx_vec_push(copy->allocator, &copy->blocks, block));
    rlx_block *to = &copy->blocks.items[copy->blocks.count - 1];
    RLX_TRY(rlx_vec_reserve(copy->allocator, &to->nodes, from->nodes.count));
    for (uint32_t i = 0; i < from->nodes.count; i++) {
        rlx_node_id node = from->nodes.items[i];
        if (!graph->nodes.items[node].is_dead) to->nodes.items[to->nodes.count++] = node;
    }
    return RLX_OK;
}

static rlx_status clone_into(const rlx_graph *graph, bool is_shared, rlx_graph *copy) {
    RLX_TRY(clone_values(graph, is_shared, copy));
    RLX_TRY(clone_nodes(graph, is_shared, copy));
    copy->blocks.count = 0; /* the fresh graph's main block has nothing to free */
    for (uint32_t i = 0; i < graph->blocks.count; i++)
        RLX_TRY(clone_block(graph, copy, i));
    for (uint32_t i = 0; i < graph->symbols.count; i++) {
        const char *name = graph->symbols.items[i];
        RLX_TRY(rlx_scratch_text(&copy->memory, name, strlen(name), &name));
        RLX_TRY(rlx_vec_push(copy->allocator, &copy->symbols, name));
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        rlx_output output = graph->outputs.items[i];
        RLX_TRY(rlx_scratch_text(&copy->memory, output.name, strlen(output.name), &output.name));
        RLX_TRY(rlx_vec_push(copy->allocator, &copy->outputs, output));
    }
    copy->current = graph->current;
    copy->made = graph->made;
    return RLX_OK;
}

static rlx_status make_copy(const rlx_graph *graph, bool is_shared, const rlx_allocator *allocator,
                            rlx_graph **out_graph) {
    rlx_graph *copy = NULL;
    RLX_TRY(rlx_graph_create(allocator, &copy));
    rlx_status status = clone_into(graph, is_shared, copy);
    if (status != RLX_OK) {
        rlx_graph_destroy(copy);
        return status;
    }
    *out_graph = copy;
    return RLX_OK;
}

rlx_status rlx_graph_clone(const rlx_graph *graph, const rlx_allocator *allocator,
                           rlx_graph **out_graph) {
    return make_copy(graph, false, allocator, out_graph);
}

rlx_status rlx_graph_share(const rlx_graph *graph, const rlx_allocator *allocator,
                           rlx_graph **out_graph) {
    return make_copy(graph, true, allocator, out_graph);
}
