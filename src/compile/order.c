/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the main block to choose from: as given, and greedy by memory (of the nodes that are
 * ready, the one that leaves the fewest live bytes). What must not change its order is data flow,
 * the writes of states, and readers of a state before the next write of it. */
#include "compile/lower.h"

#include <string.h>

typedef struct scheduler {
    const rlx_graph *graph;
    const rlx_block *block;
    uint32_t count;       /* nodes */
    uint32_t *waiting;    /* per position: unmet predecessors */
    uint32_t *edge_start; /* per position: into edges; count + 1 entries */
    uint32_t *edges;      /* positions that wait for it */
    uint32_t *uses;       /* per value: remaining readers */
    uint32_t *place;      /* per node id: position in the block */
    uint64_t *bytes;      /* per value */
} scheduler;

/* Views weigh nothing: their memory is that of their root. */
static uint64_t node_growth(const scheduler *self, const rlx_node *node) {
    uint64_t growth = 0;
    if ((rlx_op_info_of(node->op)->flags & RLX_OPF_VIEW) != 0) return 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != RLX_NONE) growth += self->bytes[node->outputs[i]];
    }
    return growth;
}

static uint64_t node_release(const scheduler *self, const rlx_node *node) {
    uint64_t release = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id value = node->inputs[i];
        if (value == RLX_NONE || self->uses[value] != 1) continue;
        rlx_value_kind kind = self->graph->values.items[value].kind;
        if (kind == RLX_VALUE_TEMPORARY || kind == RLX_VALUE_INPUT) release += self->bytes[value];
    }
    return release;
}

typedef void (*edge_fn)(void *user, uint32_t from, uint32_t to);

typedef struct edge_walk {
    scheduler *self;
    edge_fn emit;
    void *user;
} edge_walk;

static void walk_value(edge_walk *walk, uint32_t to, rlx_value_id value) {
    const rlx_graph *graph = walk->self->graph;
    rlx_node_id producer = value == RLX_NONE ? RLX_NONE : graph->values.items[value].producer;
    if (producer == RLX_NONE || graph->values.items[value].block != 0) return;
    uint32_t from = walk->self->place[producer];
    if (from != to) walk->emit(walk->user, from, to);
}

/* Everything that a node reads, the blocks of control flow included. */
static void walk_reads(edge_walk *walk, uint32_t to, const rlx_node *node) {
    const rlx_graph *graph = walk->self->graph;
    for (uint32_t i = 0; i < node->input_count; i++) {
        walk_value(walk, to, node->inputs[i]);
        if (node->inputs[i] == RLX_NONE) continue;
        const rlx_type *type = &graph->values.items[node->inputs[i]].type;
        for (uint32_t d = 0; d < type->shape.rank; d++)
            walk_value(walk, to, type->extents[d]);
    }
    for (uint32_t b = 0; b < 2; b++) {
        if (node->blocks[b] == RLX_NONE) continue;
        const rlx_block *block = &graph->blocks.items[node->blocks[b]];
        for (uint32_t i = 0; i < block->nodes.count; i++) {
            const rlx_node *inner = &graph->nodes.items[block->nodes.items[i]];
            if (!inner->is_dead) walk_reads(walk, to, inner);
        }
        for (uint32_t i = 0; i < block->yield_count; i++)
            walk_value(walk, to, block->yields[i]);
    }
}

/* Barriers: a node that writes states, or flow, or reads a state, or a collective, keeps its place
 * among such nodes. */
static bool touches_state(const rlx_graph *graph, const rlx_node *node) {
    uint32_t flags = rlx_op_info_of(node->op)->flags;
    if ((flags & (RLX_OPF_STATEFUL | RLX_OPF_FLOW | RLX_OPF_COLLECTIVE)) != 0) return true;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id value = node->inputs[i];
        while (value != RLX_NONE) {
            if (graph->values.items[value].kind == RLX_VALUE_STATE) return true;
            rlx_node_id producer = graph->values.items[value].producer;
            if (producer == RLX_NONE) break;
            const rlx_node *maker = &graph->nodes.items[producer];
            bool is_view = (rlx_op_info_of(maker->op)->flags & RLX_OPF_VIEW) != 0 ||
                           maker->op == RLX_OP_STATE_WRITE;
            value = is_view && maker->input_count != 0 ? maker->inputs[0] : RLX_NONE;
        }
    }
    return false;
}

static void walk_edges(edge_walk *walk) {
    scheduler *self = walk->self;
    uint32_t barrier = UINT32_MAX;
    for (uint32_t p = 0; p < self->count; p++) {
        const rlx_node *node = &self->graph->nodes.items[self->block->nodes.items[p]];
        walk_reads(walk, p, node);
        if (!touches_state(self->graph, node)) continue;
        if (barrier != UINT32_MAX) walk->emit(walk->user, barrier, p);
        barrier = p;
    }
}

static void count_edge(void *user, uint32_t from, uint32_t to) {
    scheduler *self = user;
    self->edge_start[from + 1]++;
    self->waiting[to]++;
}

static void store_edge(void *user, uint32_t from, uint32_t to) {
    scheduler *self = user;
    self->edges[self->edge_start[from]++] = to;
}

static rlx_status build(rlx_pass_context *context, scheduler *self) {
    const rlx_graph *graph = self->graph;
    rlx_scratch *scratch = context->scratch;
    edge_walk walk = {.self = self, .emit = count_edge, .user = self};
    RLX_TRY(
        rlx_scratch_array(scratch, self->count + 1u, sizeof(uint32_t), (void **)&self->waiting));
    RLX_TRY(
        rlx_scratch_array(scratch, self->count + 2u, sizeof(uint32_t), (void **)&self->edge_start));
    RLX_TRY(rlx_scratch_array(scratch, graph->values.count + 1u, sizeof(uint32_t),
                              (void **)&self->uses));
    RLX_TRY(rlx_scratch_array(scratch, graph->nodes.count + 1u, sizeof(uint32_t),
                              (void **)&self->place));
    RLX_TRY(rlx_scratch_array(scratch, graph->values.count + 1u, sizeof(uint64_t),
                              (void **)&self->bytes));
    for (uint32_t p = 0; p < self->count; p++)
        self->place[self->block->nodes.items[p]] = p;
    for (uint32_t v = 0; v < graph->values.count; v++) {
        if (rlx_type_bytes(&graph->values.items[v].type, &self->bytes[v]) != RLX_OK) {
            self->bytes[v] = 0; /* a dead value that was never typed */
        }
    }
    rlx_graph_count_uses(graph, self->uses);
    walk_edges(&walk);
    for (uint32_t p = 0; p < self->count; p++)
        self->edge_start[p + 1] += self->edge_start[p];
    RLX_TRY(rlx_scratch_array(scratch, self->edge_start[self->count] + 1u, sizeof(uint32_t),
                              (void **)&self->edges));
    walk.emit = store_edge;
    walk_edges(&walk);
    /* store_edge moved each start to its end: shift back. */
    for (uint32_t p = self->count; p > 0; p--)
        self->edge_start[p] = self->edge_start[p - 1];
    self->edge_start[0] = 0;
    return RLX_OK;
}

/* The ready node that grows memory least; the earliest of equals. The ready set is small in
 * practice but may be wide: only the first so many are compared. */
enum { READY_COMPARED = 256 };

static uint32_t pick(const scheduler *self, const uint32_t *ready, uint32_t ready_count) {
    uint32_t best = 0;
    int64_t best_growth = INT64_MAX;
    for (uint32_t i = 0; i < ready_count && i < READY_COMPARED; i++) {
        const rlx_node *node = &self->graph->nodes.items[self->block->nodes.items[ready[i]]];
        int64_t growth =
            (int64_t)(node_growth(self, node) >> 1) - (int64_t)(node_release(self, node) >> 1);
        if (growth < best_growth || (growth == best_growth && ready[i] < ready[best])) {
            best = i;
            best_growth = growth;
        }
    }
    return best;
}

static rlx_status greedy(rlx_pass_context *context, scheduler *self, rlx_node_id *out_order) {
    uint32_t *ready = NULL, ready_count = 0, done = 0;
    RLX_TRY(rlx_scratch_array(context->scratch, self->count + 1u, sizeof *ready, (void **)&ready));
    for (uint32_t p = 0; p < self->count; p++) {
        if (self->waiting[p] == 0) ready[ready_count++] = p;
    }
    while (ready_count != 0) {
        uint32_t chosen = pick(self, ready, ready_count);
        uint32_t position = ready[chosen];
        const rlx_node *node = &self->graph->nodes.items[self->block->nodes.items[position]];
        memmove(ready + chosen, ready + chosen + 1, (ready_count - chosen - 1) * sizeof *ready);
        ready_count--;
        out_order[done++] = self->block->nodes.items[position];
        for (uint32_t i = 0; i < node->input_count; i++) {
            if (node->inputs[i] != RLX_NONE && self->uses[node->inputs[i]] != 0) {
                self->uses[node->inputs[i]]--;
            }
        }
        for (uint32_t e = self->edge_start[position]; e < self->edge_start[position + 1]; e++) {
            if (--self->waiting[self->edges[e]] == 0) ready[ready_count++] = self->edges[e];
        }
    }
    RLX_ASSERT(done == self->count);
    return RLX_OK;
}

rlx_status rlx_order_candidate(rlx_pass_context *context, uint32_t index, rlx_node_id *out_order,
                               uint32_t *out_count, bool *out_exists) {
    const rlx_graph *graph = context->graph;
    const rlx_block *block = &graph->blocks.items[0];
    uint32_t live = 0;
    *out_exists = index == 0 || (index == 1 && rlx_pass_is_on(context->options, "reorder"));
    if (!*out_exists) return RLX_OK;
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        if (!graph->nodes.items[block->nodes.items[i]].is_dead) {
            out_order[live++] = block->nodes.items[i];
        }
    }
    *out_count = live;
    if (index == 0) return RLX_OK;
    if (live != block->nodes.count) { /* remove_dead was switched off: keep the given order */
        *out_exists = false;
        return RLX_OK;
    }
    scheduler self = {.graph = graph, .block = block, .count = live};
    RLX_TRY(build(context, &self));
    return greedy(context, &self, out_order);
}
