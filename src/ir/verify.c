/* SPDX-License-Identifier: Apache-2.0 */
/* The graph verifier: accepts, or names the node, the rule and the values that break it. Passes run
 * it after each rewrite in debug builds; importers run it once. */
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/layout.h"

typedef struct verifier {
    const rlx_graph *graph;
    uint8_t *is_defined; /* per value: seen on the way here */
    uint8_t *is_placed;  /* per node: listed in a block */
} verifier;

static rlx_status broken(const verifier *self, rlx_node_id node, const char *rule,
                         rlx_value_id value) {
    char text[160];
    const char *name =
        value < self->graph->values.count ? self->graph->values.items[value].name : "(none)";
    return RLX_FAIL(RLX_INVALID_GRAPH, "%s: %s: value '%s'",
                    rlx_node_text(self->graph, node, text, sizeof text), rule, name);
}

static rlx_status check_inputs(const verifier *self, rlx_node_id id, const rlx_node *node,
                               const rlx_op_info *info) {
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id value = node->inputs[i];
        if (value == RLX_NONE) {
            if (i < info->in_least && (info->flags & RLX_OPF_FLOW) == 0) {
                return broken(self, id, "a needed input is absent", value);
            }
            continue;
        }
        if (value >= self->graph->values.count) return broken(self, id, "input is no value", value);
        if (!self->is_defined[value]) {
            return broken(self, id, "input is used before it is computed (a cycle?)", value);
        }
    }
    if (node->op == RLX_OP_STATE_WRITE) {
        /* Writes chain: the state itself, or what an earlier write of it gave. */
        const rlx_value *state = &self->graph->values.items[node->inputs[0]];
        bool is_written = state->producer != RLX_NONE && state->producer_output == 0 &&
                          self->graph->nodes.items[state->producer].op == RLX_OP_STATE_WRITE;
        if (state->kind != RLX_VALUE_STATE && !is_written) {
            return broken(self, id, "state_write needs a state", node->inputs[0]);
        }
    }
    return RLX_OK;
}

static rlx_status check_outputs(const verifier *self, rlx_node_id id, const rlx_node *node) {
    for (uint32_t i = 0; i < node->output_count; i++) {
        rlx_value_id value = node->outputs[i];
        if (value == RLX_NONE) {
            if (i < rlx_op_info_of(node->op)->out_least)
                return broken(self, id, "a needed output is absent", value);
            continue;
        }
        if (value >= self->graph->values.count) {
            return broken(self, id, "output is no value", value);
        }
        const rlx_value *output = &self->graph->values.items[value];
        if (self->is_defined[value]) return broken(self, id, "output is defined twice", value);
        if (output->kind != RLX_VALUE_TEMPORARY || output->producer != id ||
            output->producer_output != i) {
            return broken(self, id, "output names another producer", value);
        }
        self->is_defined[value] = 1;
    }
    return RLX_OK;
}

static rlx_status check_block(verifier *self, rlx_block_id block, uint32_t depth);

static rlx_status check_node(verifier *self, rlx_node_id id, uint32_t depth) {
    const rlx_graph *graph = self->graph;
    if (id >= graph->nodes.count) return RLX_FAIL(RLX_INVALID_GRAPH, "no node %u", id);
    const rlx_node *node = &graph->nodes.items[id];
    if (node->is_dead) return RLX_OK;
    const rlx_op_info *info = rlx_op_info_of(node->op);
    if (info == NULL) return RLX_FAIL(RLX_INVALID_GRAPH, "node %u has no op", id);
    if (self->is_placed[id]) return broken(self, id, "node stands in two places", RLX_NONE);
    self->is_placed[id] = 1;
    if (node->input_count < info->in_least || node->input_count > info->in_most ||
        node->output_count < info->out_least || node->output_count > info->out_most) {
        return broken(self, id, "wrong number of inputs or outputs", RLX_NONE);
    }
    RLX_TRY(check_inputs(self, id, node, info));
    uint32_t blocks = node->op == RLX_OP_IF ? 2 : node->op == RLX_OP_LOOP ? 1 : 0;
    for (uint32_t b = 0; b < 2; b++) {
        if ((b < blocks) != (node->blocks[b] != RLX_NONE)) {
            return broken(self, id, "wrong number of blocks", RLX_NONE);
        }
        if (b < blocks) RLX_TRY(check_block(self, node->blocks[b], depth + 1));
    }
    return check_outputs(self, id, node);
}

static rlx_status check_block(verifier *self, rlx_block_id id, uint32_t depth) {
    if (depth > 64) return RLX_FAIL(RLX_UNSUPPORTED, "blocks are nested more than 64 deep");
    if (id >= self->graph->blocks.count) return RLX_FAIL(RLX_INVALID_GRAPH, "no block %u", id);
    const rlx_block *block = &self->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->input_count; i++) {
        if (block->inputs[i] >= self->graph->values.count) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "block %u: input %u is no value", id, i);
        }
        self->is_defined[block->inputs[i]] = 1;
    }
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        RLX_TRY(check_node(self, block->nodes.items[i], depth));
    }
    for (uint32_t i = 0; i < block->yield_count; i++) {
        if (block->yields[i] >= self->graph->values.count || !self->is_defined[block->yields[i]]) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "block %u yields value %u, which is not computed",
                            id, block->yields[i]);
        }
        const rlx_value *yield = &self->graph->values.items[block->yields[i]];
        if (yield->type.layout != RLX_LAYOUT_PLAIN) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "block %u yields '%s' in layout %s, not plain", id,
                            yield->name, rlx_layout_name(yield->type.layout));
        }
    }
    /* What a block defines is not seen outside it. */
    for (uint32_t i = 0; id != 0 && i < block->nodes.count; i++) {
        const rlx_node *node = &self->graph->nodes.items[block->nodes.items[i]];
        for (uint32_t o = 0; o < node->output_count && !node->is_dead; o++) {
            if (node->outputs[o] != RLX_NONE) self->is_defined[node->outputs[o]] = 0;
        }
    }
    return RLX_OK;
}

static rlx_status verify_all(verifier *self) {
    const rlx_graph *graph = self->graph;
    if (graph->current != 0) {
        return RLX_FAIL(RLX_INVALID_GRAPH, "block %u is still open", graph->current);
    }
    for (uint32_t i = 0; i < graph->values.count; i++) {
        self->is_defined[i] = graph->values.items[i].kind != RLX_VALUE_TEMPORARY;
    }
    RLX_TRY(check_block(self, 0, 0));
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        const rlx_output *output = &graph->outputs.items[i];
        if (output->value >= graph->values.count || !self->is_defined[output->value]) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "output '%s' is not computed", output->name);
        }
        const rlx_type *type = &graph->values.items[output->value].type;
        if (type->layout != RLX_LAYOUT_PLAIN) {
            return RLX_FAIL(RLX_INVALID_GRAPH, "output '%s' is in layout %s, not plain",
                            output->name, rlx_layout_name(type->layout));
        }
    }
    return RLX_OK;
}

rlx_status rlx_graph_verify(const rlx_graph *graph) {
    if (graph == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    rlx_scratch scratch = {.allocator = graph->allocator};
    verifier self = {.graph = graph};
    rlx_status status =
        rlx_scratch_array(&scratch, graph->values.count + 1u, 1, (void **)&self.is_defined);
    if (status == RLX_OK) {
        status = rlx_scratch_array(&scratch, graph->nodes.count + 1u, 1, (void **)&self.is_placed);
    }
    if (status == RLX_OK) status = verify_all(&self);
    rlx_scratch_reset(&scratch);
    return status;
}
