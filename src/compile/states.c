/* SPDX-License-Identifier: Apache-2.0 */
/* The order of reads and writes of states, checked on the model as it was given, so that no pass
 * decides whether a model is accepted. A state that was written is read through what the write
 * gave; after a block that wrote it, by its own name: there is no other. What a view of it saw is
 * kept whatever is written later (alias.c). Outputs are read after the last node. */
#include "compile/compile.h"

typedef struct state_write {
    rlx_value_id state;
    rlx_block_id block;
} state_write;

typedef struct checker {
    const rlx_graph *graph;
    state_write *writes; /* so far, in order */
    uint32_t write_count;
    uint32_t *seen; /* per value that a write gave: how many writes there were after it */
} checker;

/* The state whose own memory the value is; RLX_NONE: none. */
static rlx_value_id state_of(const rlx_graph *graph, rlx_value_id value) {
    while (graph->values.items[value].kind != RLX_VALUE_STATE) {
        const rlx_value *row = &graph->values.items[value];
        if (row->producer == RLX_NONE || row->producer_output != 0) return RLX_NONE;
        const rlx_node *node = &graph->nodes.items[row->producer];
        if (node->op != RLX_OP_STATE_WRITE) return RLX_NONE;
        value = node->inputs[0];
    }
    return value;
}

/* Whether block `inner` is `outer` or lies in it. */
static bool is_within(const rlx_graph *graph, rlx_block_id inner, rlx_block_id outer) {
    while (inner != outer && inner != RLX_NONE)
        inner = graph->blocks.items[inner].parent;
    return inner == outer;
}

/* The state that a read in `block` would see as it was before some write; RLX_NONE: none. Branches
 * do not see each other's writes. */
static rlx_value_id find_stale(const checker *self, rlx_value_id value, rlx_block_id block) {
    rlx_value_id state = value == RLX_NONE ? RLX_NONE : state_of(self->graph, value);
    if (state == RLX_NONE) return RLX_NONE;
    for (uint32_t i = self->seen[value]; i < self->write_count; i++) {
        const state_write *write = &self->writes[i];
        if (write->state != state) continue;
        bool is_before = is_within(self->graph, block, write->block);
        bool is_inside = value != state && is_within(self->graph, write->block, block);
        if (is_before || is_inside) return state;
    }
    return RLX_NONE;
}

static rlx_status check_read(const checker *self, rlx_value_id value, rlx_block_id block,
                             rlx_node_id reader) {
    rlx_value_id state = find_stale(self, value, block);
    char text[160];
    if (state == RLX_NONE) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH,
                    "%s reads state '%s' as it was before an earlier node wrote it: use the "
                    "value that the state_write returns",
                    rlx_node_text(self->graph, reader, text, sizeof text),
                    self->graph->values.items[state].name);
}

static rlx_status check_outputs(const checker *self) {
    for (uint32_t i = 0; i < self->graph->outputs.count; i++) {
        rlx_value_id state = find_stale(self, self->graph->outputs.items[i].value, 0);
        if (state == RLX_NONE) continue;
        return RLX_FAIL(
            RLX_INVALID_GRAPH,
            "output '%s' is state '%s' as it was before a node wrote it: make the value "
            "that the state_write returns an output",
            self->graph->outputs.items[i].name, self->graph->values.items[state].name);
    }
    return RLX_OK;
}

static void note_write(checker *self, const rlx_node *node) {
    self->writes[self->write_count++] =
        (state_write){state_of(self->graph, node->inputs[0]), node->block};
    if (node->outputs[0] != RLX_NONE) self->seen[node->outputs[0]] = self->write_count;
}

static rlx_status check_block(checker *self, rlx_block_id id) {
    const rlx_block *block = &self->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        rlx_node_id node_id = block->nodes.items[i];
        const rlx_node *node = &self->graph->nodes.items[node_id];
        if (node->is_dead) continue;
        for (uint32_t n = 0; n < node->input_count; n++)
            RLX_TRY(check_read(self, node->inputs[n], id, node_id));
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] != RLX_NONE) RLX_TRY(check_block(self, node->blocks[b]));
        }
        if (node->op == RLX_OP_STATE_WRITE) note_write(self, node);
    }
    for (uint32_t i = 0; i < block->yield_count; i++)
        RLX_TRY(check_read(self, block->yields[i], id, block->owner));
    return RLX_OK;
}

rlx_status rlx_check_states(const rlx_graph *graph, const rlx_allocator *allocator) {
    checker self = {.graph = graph};
    rlx_scratch scratch = {.allocator = allocator};
    rlx_status status = rlx_scratch_array(&scratch, graph->nodes.count + 1u, sizeof *self.writes,
                                          (void **)&self.writes);
    if (status == RLX_OK) {
        status = rlx_scratch_array(&scratch, graph->values.count + 1u, sizeof *self.seen,
                                   (void **)&self.seen);
    }
    if (status == RLX_OK) status = check_block(&self, 0);
    if (status == RLX_OK) status = check_outputs(&self);
    rlx_scratch_reset(&scratch);
    return status;
}
