/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a body's nodes can be mapped. Files should be sorted, but some tools write
 * them otherwise; a cycle is found here. */
#include "import/onnx/build.h"

#include <string.h>

/* Which node makes a name: an open hash over all names that the body defines. */
typedef struct makers {
    const rlx_onnx_graph *graph;
    const struct makers *outer; /* of the body around it; NULL for the one that is sorted */
    uint32_t *cells;            /* node + 1; 0: free; GIVEN: an input or initializer */
    const char **names;
    uint32_t mask;
} makers;

enum { GIVEN = -1 };

/* Edges from each node to those that it needs, node by node. */
typedef struct edges {
    uint32_t *first, *to;
    uint32_t count, capacity;
    bool is_sorted;
} edges;

static uint32_t hash_text(const char *text) {
    uint32_t hash = 2166136261u;
    for (; *text != 0; text++)
        hash = (hash ^ (uint8_t)*text) * 16777619u;
    return hash;
}

static uint32_t find_cell(const makers *self, const char *name) {
    uint32_t cell = hash_text(name) & self->mask;
    while (self->cells[cell] != 0 && strcmp(self->names[cell], name) != 0)
        cell = (cell + 1) & self->mask;
    return cell;
}

static bool is_constant(const rlx_onnx_node *node) {
    return strcmp(node->op, "Constant") == 0 && node->output_count == 1;
}

/* Of two Constant nodes of one name the later one counts: exporters write such files, and other
 * runtimes read them so. Any other name that is defined twice is an error, found when it is mapped.
 */
static bool replaces(const makers *self, uint32_t cell, uint32_t node) {
    return is_constant(&self->graph->nodes[self->cells[cell] - 1]) &&
           is_constant(&self->graph->nodes[node]);
}

static bool is_replaced(const makers *self, uint32_t node) {
    const rlx_onnx_node *one = &self->graph->nodes[node];
    if (!is_constant(one) || one->outputs[0][0] == 0) return false;
    uint32_t maker = self->cells[find_cell(self, one->outputs[0])];
    return maker != node + 1 && maker != 0 && is_constant(&self->graph->nodes[maker - 1]);
}

static void list_given(makers *self, const char *name) {
    uint32_t cell = find_cell(self, name);
    if (name[0] == 0 || self->cells[cell] != 0) return;
    self->cells[cell] = (uint32_t)GIVEN;
    self->names[cell] = name;
}

static bool list_makers(ox *o, const rlx_onnx_graph *graph, makers *self) {
    uint64_t outputs = (uint64_t)graph->input_count + graph->initializer_count, size = 16;
    for (uint32_t i = 0; i < graph->node_count; i++)
        outputs += graph->nodes[i].output_count;
    while (size < 2 * outputs)
        size *= 2;
    self->graph = graph;
    self->mask = (uint32_t)(size - 1);
    self->cells = ox_memory(o, size, sizeof *self->cells);
    self->names = ox_memory(o, size, sizeof *self->names);
    for (uint32_t i = 0; i < graph->node_count && ox_ok(o); i++) {
        for (uint32_t k = 0; k < graph->nodes[i].output_count; k++) {
            const char *name = graph->nodes[i].outputs[k];
            uint32_t cell = find_cell(self, name);
            bool is_taken = self->cells[cell] != 0;
            if (name[0] == 0 || (is_taken && !replaces(self, cell, i))) continue;
            self->cells[cell] = i + 1;
            self->names[cell] = name;
        }
    }
    for (uint32_t i = 0; i < graph->input_count && ox_ok(o); i++)
        list_given(self, graph->inputs[i].name);
    for (uint32_t i = 0; i < graph->initializer_count && ox_ok(o); i++)
        list_given(self, graph->initializers[i].name);
    return ox_ok(o);
}

static void add_edge(ox *o, edges *out, uint32_t to) {
    if (out->count == out->capacity) {
        uint32_t capacity = out->capacity == 0 ? 64 : 2 * out->capacity;
        uint32_t *grown = ox_memory(o, capacity, sizeof *grown);
        if (!ox_ok(o)) return;
        if (out->count != 0) memcpy(grown, out->to, out->count * sizeof *grown);
        out->to = grown;
        out->capacity = capacity;
    }
    out->to[out->count++] = to;
}

/* Node `index` reads `name`, itself or in a body that it holds. */
static void add_need(ox *o, const makers *scope, const char *name, uint32_t index, edges *out) {
    if (name[0] == 0 || !ox_ok(o)) return;
    for (; scope->outer != NULL; scope = scope->outer) {
        if (scope->cells[find_cell(scope, name)] != 0) return; /* the body's own hides it */
    }
    uint32_t maker = scope->cells[find_cell(scope, name)];
    if (maker == 0 || maker == (uint32_t)GIVEN) return;
    out->is_sorted = out->is_sorted && maker - 1 < index;
    add_edge(o, out, maker - 1);
}

/* What a node reads, bodies that it holds included: those see the names around them. */
static void add_needs(ox *o, const makers *scope, const rlx_onnx_node *node, uint32_t index,
                      edges *out) {
    for (uint32_t i = 0; i < node->input_count; i++)
        add_need(o, scope, node->inputs[i], index, out);
    for (uint32_t a = 0; a < node->attr_count && ox_ok(o); a++) {
        const rlx_onnx_graph *body = node->attrs[a].graph;
        makers own = {.outer = scope};
        if (body == NULL || !list_makers(o, body, &own)) continue;
        for (uint32_t i = 0; i < body->node_count && ox_ok(o); i++)
            add_needs(o, &own, &body->nodes[i], index, out);
        for (uint32_t i = 0; i < body->output_count; i++)
            add_need(o, &own, body->outputs[i].name, index, out);
    }
}

enum { NEW, OPEN, DONE };

/* Depth first from node `start`; what it needs comes before it. */
static void visit(ox *o, const makers *self, const edges *all, uint32_t start, uint8_t *states,
                  uint32_t *stack, uint32_t *next, uint32_t *order, uint32_t *count) {
    uint32_t depth = 1;
    if (states[start] != NEW) return;
    stack[0] = start;
    states[start] = OPEN;
    while (depth > 0) {
        uint32_t node = stack[depth - 1];
        if (next[node] == all->first[node + 1]) {
            states[node] = DONE;
            order[(*count)++] = node;
            depth--;
            continue;
        }
        uint32_t needed = all->to[next[node]++];
        if (states[needed] == OPEN) {
            ox_invalid(o, "node '%s' (%s) needs its own result", self->graph->nodes[needed].name,
                       self->graph->nodes[needed].op);
            return;
        }
        if (states[needed] == NEW) {
            states[needed] = OPEN;
            stack[depth++] = needed;
        }
    }
}

/* Leaves out what counts no more. */
static uint32_t drop_replaced(const makers *self, uint32_t *order, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_replaced(self, order[i])) order[kept++] = order[i];
    }
    return kept;
}

static uint32_t sort_nodes(ox *o, const rlx_onnx_graph *graph, uint32_t *order) {
    makers self = {0};
    edges all = {.is_sorted = true};
    uint32_t nodes = graph->node_count, count = 0;
    all.first = ox_memory(o, nodes + 1u, sizeof *all.first);
    if (!ox_ok(o) || !list_makers(o, graph, &self)) return 0;
    for (uint32_t i = 0; i < nodes && ox_ok(o); i++) {
        order[i] = i;
        add_needs(o, &self, &graph->nodes[i], i, &all);
        all.first[i + 1] = all.count;
    }
    if (!ox_ok(o) || all.is_sorted) return ox_ok(o) ? drop_replaced(&self, order, nodes) : 0;
    uint8_t *states = ox_memory(o, nodes, sizeof *states);
    uint32_t *stack = ox_memory(o, nodes, sizeof *stack), *next = ox_memory(o, nodes, sizeof *next);
    for (uint32_t i = 0; i < nodes && ox_ok(o); i++)
        next[i] = all.first[i];
    for (uint32_t i = 0; i < nodes && ox_ok(o); i++)
        visit(o, &self, &all, i, states, stack, next, order, &count);
    return ox_ok(o) ? drop_replaced(&self, order, count) : 0;
}

uint32_t *ox_order(ox *o, const rlx_onnx_graph *graph, uint32_t *out_count) {
    uint32_t *order = ox_memory(o, graph->node_count, sizeof *order);
    rlx_scratch kept = o->memory;
    o->memory.head = NULL; /* what is needed only here is gone after it */
    *out_count = sort_nodes(o, graph, order);
    rlx_scratch_reset(&o->memory);
    o->memory = kept;
    return order;
}
