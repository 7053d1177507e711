/* SPDX-License-Identifier: Apache-2.0 */
/* Merge duplicates: of two nodes of one block with equal op, attributes and inputs, the later one's
 * outputs become the earlier one's. Constants with equal bytes are merged first. */
#include "compile/compile.h"

#include "base/hash.h"

#include <string.h>

typedef struct finder {
    rlx_graph *graph;
    rlx_remap remap;
    uint32_t *cells; /* open hash; holds node or value ids; RLX_NONE: free */
    uint32_t mask;
} finder;

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

static bool types_equal(const rlx_type *a, const rlx_type *b) {
    return a->dtype == b->dtype && rlx_shape_equal(&a->shape, &b->shape);
}

static void merge_constant(finder *self, rlx_value_id id) {
    const rlx_value *value = &self->graph->values.items[id];
    uint64_t hash = mix(rlx_hash(RLX_HASH_SEED, value->data, value->data_bytes), value->type.dtype);
    for (uint32_t cell = (uint32_t)hash & self->mask;; cell = (cell + 1) & self->mask) {
        rlx_value_id other_id = self->cells[cell];
        if (other_id == RLX_NONE) {
            self->cells[cell] = id;
            return;
        }
        const rlx_value *other = &self->graph->values.items[other_id];
        if (other->data_bytes == value->data_bytes && types_equal(&other->type, &value->type) &&
            (value->data_bytes == 0 || memcmp(other->data, value->data, value->data_bytes) == 0)) {
            rlx_remap_set(&self->remap, id, other_id);
            return;
        }
    }
}

static uint64_t hash_node(const finder *self, const rlx_node *node) {
    uint64_t hash = mix(rlx_attrs_hash(node->op, node->attrs), node->block);
    for (uint32_t i = 0; i < node->input_count; i++) {
        hash = mix(hash, rlx_remap_get(&self->remap, node->inputs[i]));
    }
    return mix(hash, node->output_count);
}

static bool nodes_equal(const finder *self, const rlx_node *a, const rlx_node *b) {
    if (a->op != b->op || a->block != b->block || a->input_count != b->input_count ||
        a->output_count != b->output_count || !rlx_attrs_equal(a->op, a->attrs, b->attrs)) {
        return false;
    }
    for (uint32_t i = 0; i < a->input_count; i++) {
        if (rlx_remap_get(&self->remap, a->inputs[i]) !=
            rlx_remap_get(&self->remap, b->inputs[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < a->output_count; i++) { /* the kept one must compute all of them */
        if (a->outputs[i] == RLX_NONE && b->outputs[i] != RLX_NONE) return false;
    }
    return true;
}

static void merge_node(finder *self, rlx_node_id id) {
    rlx_node *node = &self->graph->nodes.items[id];
    uint64_t hash = hash_node(self, node);
    for (uint32_t cell = (uint32_t)hash & self->mask;; cell = (cell + 1) & self->mask) {
        if (self->cells[cell] == RLX_NONE) {
            self->cells[cell] = id;
            return;
        }
        const rlx_node *other = &self->graph->nodes.items[self->cells[cell]];
        if (!nodes_equal(self, other, node)) continue;
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (node->outputs[i] != RLX_NONE) {
                rlx_remap_set(&self->remap, node->outputs[i], other->outputs[i]);
            }
        }
        node->is_dead = true;
        return;
    }
}

/* Reads of a state are never merged: they may stand before and after a write of it. */
static bool may_merge(const rlx_graph *graph, const rlx_node *node) {
    if (node->is_dead || node->output_count == 0) return false;
    if ((rlx_op_info_of(node->op)->flags & (RLX_OPF_FLOW | RLX_OPF_STATEFUL)) != 0) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == RLX_NONE) continue;
        if (graph->values.items[node->inputs[i]].kind == RLX_VALUE_STATE) return false;
    }
    return true;
}

rlx_status rlx_pass_merge_duplicates(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    finder self = {.graph = graph, .mask = 63};
    RLX_TRY(rlx_remap_begin(context, &self.remap));
    while (self.mask < 2 * (graph->values.count + graph->nodes.count))
        self.mask = self.mask * 2 + 1;
    RLX_TRY(rlx_scratch_array(context->scratch, self.mask + 1u, sizeof *self.cells,
                              (void **)&self.cells));
    memset(self.cells, 0xFF, (self.mask + 1u) * sizeof *self.cells);
    for (uint32_t v = 0; v < graph->values.count; v++) {
        if (graph->values.items[v].kind == RLX_VALUE_CONSTANT) merge_constant(&self, v);
    }
    memset(self.cells, 0xFF, (self.mask + 1u) * sizeof *self.cells);
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        const rlx_block *block = &graph->blocks.items[b];
        for (uint32_t i = 0; i < block->nodes.count; i++) {
            rlx_node_id id = block->nodes.items[i];
            if (may_merge(graph, &graph->nodes.items[id])) merge_node(&self, id);
        }
    }
    rlx_remap_apply(context, &self.remap);
    return RLX_OK;
}
