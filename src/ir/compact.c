/* SPDX-License-Identifier: Apache-2.0 */
/* For passes: taking dead nodes and unused values out of a graph's tables, so that what has a row
 * per value is no larger than what is left. Texts, attributes and data stay in the graph's scratch
 * memory until it is destroyed. */
#include "ir/graph.h"

#include <string.h>

/* New ids by old ones; RLX_NONE: left out. While marking, 0 is kept. */
typedef struct compaction {
    rlx_graph *graph;
    uint32_t *values, *nodes;
} compaction;

static void keep_value(compaction *self, rlx_value_id id) {
    if (id == RLX_NONE) return;
    self->values[id] = 0;
    const rlx_type *type = &self->graph->values.items[id].type;
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE) self->values[type->extents[i]] = 0; /* of rank 0 */
    }
}

static void keep_values(compaction *self, const rlx_value_id *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        keep_value(self, ids[i]);
}

static void mark(compaction *self) {
    const rlx_graph *graph = self->graph;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        const rlx_node *node = &graph->nodes.items[i];
        if (node->is_dead) continue;
        self->nodes[i] = 0;
        keep_values(self, node->inputs, node->input_count);
        keep_values(self, node->outputs, node->output_count);
    }
    for (uint32_t i = 0; i < graph->blocks.count; i++) {
        const rlx_block *block = &graph->blocks.items[i];
        keep_values(self, block->inputs, block->input_count);
        keep_values(self, block->yields, block->yield_count);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        keep_value(self, graph->outputs.items[i].value);
    for (uint32_t i = 0; i < graph->values.count; i++) {
        rlx_value_kind kind = graph->values.items[i].kind;
        if (kind == RLX_VALUE_INPUT || kind == RLX_VALUE_STATE) keep_value(self, i);
    }
}

/* Kept ones get their new ids; returns how many there are. */
static uint32_t number(uint32_t *ids, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] != RLX_NONE) ids[i] = kept++;
    }
    return kept;
}

static void renumber(const uint32_t *map, uint32_t *ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] != RLX_NONE) ids[i] = map[ids[i]];
    }
}

static void move_values(compaction *self) {
    rlx_graph *graph = self->graph;
    for (uint32_t i = 0; i < graph->values.count; i++) {
        if (self->values[i] == RLX_NONE) continue;
        rlx_value *value = &graph->values.items[self->values[i]];
        if (self->values[i] != i) *value = graph->values.items[i];
        renumber(self->values, value->type.extents, value->type.shape.rank);
        renumber(self->nodes, &value->producer, 1);
    }
}

static void move_nodes(compaction *self) {
    rlx_graph *graph = self->graph;
    for (uint32_t i = 0; i < graph->nodes.count; i++) {
        if (self->nodes[i] == RLX_NONE) continue;
        rlx_node *node = &graph->nodes.items[self->nodes[i]];
        if (self->nodes[i] != i) *node = graph->nodes.items[i];
        renumber(self->values, node->inputs, node->input_count);
        renumber(self->values, node->outputs, node->output_count);
    }
}

static void move_block(compaction *self, rlx_block *block) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        rlx_node_id id = self->nodes[block->nodes.items[i]];
        if (id != RLX_NONE) block->nodes.items[kept++] = id;
    }
    block->nodes.count = kept;
    renumber(self->values, block->inputs, block->input_count);
    renumber(self->values, block->yields, block->yield_count);
    renumber(self->nodes, &block->owner, 1);
}

rlx_status rlx_graph_compact(rlx_graph *graph) {
    rlx_scratch scratch = {.allocator = graph->allocator};
    compaction self = {.graph = graph};
    rlx_value *values = NULL;
    uint32_t values_before = graph->values.count, nodes_before = graph->nodes.count;
    rlx_status status =
        rlx_scratch_array(&scratch, values_before + 1u, sizeof *self.values, (void **)&self.values);
    if (status == RLX_OK)
        status = rlx_scratch_array(&scratch, nodes_before + 1u, sizeof *self.nodes,
                                   (void **)&self.nodes);
    if (status != RLX_OK) goto done;
    memset(self.values, 0xFF, values_before * sizeof *self.values);
    memset(self.nodes, 0xFF, nodes_before * sizeof *self.nodes);
    mark(&self);
    uint32_t value_count = number(self.values, values_before);
    uint32_t node_count = number(self.nodes, nodes_before);
    status = rlx_alloc_array(graph->allocator, value_count + 1u, sizeof *values, (void **)&values);
    if (status != RLX_OK) goto done;
    move_values(&self); /* from here on nothing fails */
    move_nodes(&self);
    for (uint32_t i = 0; i < graph->blocks.count; i++)
        move_block(&self, &graph->blocks.items[i]);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        renumber(self.values, &graph->outputs.items[i].value, 1);
    graph->nodes.count = node_count;
    if (graph->made < values_before) graph->made = values_before; /* their names are taken */
    if (value_count != 0) memcpy(values, graph->values.items, value_count * sizeof *values);
    rlx_free(graph->allocator, graph->values.items);
    graph->values.items = values;
    graph->values.count = value_count;
    graph->values.capacity = value_count + 1;
    rlx_graph_rehash(graph);
done:
    rlx_scratch_reset(&scratch);
    return status;
}
