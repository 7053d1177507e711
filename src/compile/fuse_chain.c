/* SPDX-License-Identifier: Apache-2.0 */
/* Fuse chains: a tree of elementwise nodes of one shape, whose inner values nobody else uses,
 * becomes one chain node. Trees are grown from their last node backwards; a value used several
 * times is taken in once all of its users are. Work on weights stays apart: it runs once, as
 * prepare steps. */
#include "compile/rewrite.h"
#include "ir/chain.h"
#include "ir/dtype.h"

/* Inputs of one chain: a kernel's mask of operands has 32 bits. */
enum { MOST_INPUTS = 32, MOST_OPERANDS = 3 };

typedef struct grower {
    uint32_t *work; /* per node: how many nodes before it in its block do real work */
    uint32_t *seen; /* per value: uses by the tree that is being grown */
    /* Per value: what it is in the tree's code: an input, or -1 - r for the result of r. */
    int64_t *operands;
    rlx_node_id root;
    rlx_node_id nodes[RLX_CHAIN_MOST];
    uint32_t node_count;
    rlx_value_id inputs[MOST_INPUTS]; /* of the whole tree, distinct */
    uint32_t input_count;
} grower;

static bool is_elementwise(const rlx_rewrite *rewrite, rlx_node_id id) {
    rlx_op op = rlx_rewrite_op(rewrite, id);
    if ((rlx_op_info_of(op)->flags & RLX_OPF_ELEMENTWISE) == 0 || op == RLX_OP_CHAIN) return false;
    rlx_value_id output = rlx_rewrite_output(rewrite, id);
    const rlx_type *type = rlx_rewrite_type(rewrite, output);
    return rlx_dtype_row_of(type->dtype)->class_ != RLX_CLASS_BLOCK &&
           !rewrite->facts[output].is_prepared;
}

static bool same_shape(const rlx_rewrite *rewrite, rlx_value_id a, rlx_value_id b) {
    rlx_type type = *rlx_rewrite_type(rewrite, a);
    type.dtype = rlx_rewrite_type(rewrite, b)->dtype;
    return rlx_rewrite_same_type(rewrite, &type, rlx_rewrite_type(rewrite, b));
}

/* Neither elementwise nor a view nor on weights alone: memory is wanted there. */
static bool is_work(const rlx_rewrite *rewrite, const rlx_node *node) {
    if (node->is_dead) return false;
    if ((rlx_op_info_of(node->op)->flags & (RLX_OPF_ELEMENTWISE | RLX_OPF_VIEW)) != 0) return false;
    for (uint32_t o = 0; o < node->output_count; o++) {
        if (node->outputs[o] != RLX_NONE) return !rewrite->facts[node->outputs[o]].is_prepared;
    }
    return true;
}

static void count_work(const rlx_rewrite *rewrite, uint32_t *out_work) {
    const rlx_graph *graph = rewrite->graph;
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < graph->blocks.items[b].nodes.count; i++) {
            rlx_node_id id = graph->blocks.items[b].nodes.items[i];
            out_work[id] = count;
            count += is_work(rewrite, &graph->nodes.items[id]);
        }
    }
}

/* Computing `id` at the root keeps its inputs alive until there instead of its output. That is no
 * loss with one input of the output's size, or when nothing large happens in between. */
static bool keeps_memory_low(const rlx_rewrite *rewrite, const grower *self, rlx_node_id id) {
    uint32_t large = 0;
    if (self->work[id] == self->work[self->root]) return true;
    for (uint32_t i = 0; i < rewrite->graph->nodes.items[id].input_count; i++) {
        rlx_value_id input = rlx_rewrite_input(rewrite, id, i);
        large += !rewrite->facts[input].is_prepared &&
                 same_shape(rewrite, input, rlx_rewrite_output(rewrite, id));
    }
    return large <= 1;
}

static bool can_join(const rlx_rewrite *rewrite, const grower *self, rlx_value_id value) {
    rlx_node_id id = rlx_rewrite_producer(rewrite, value, RLX_OP_NONE);
    if (id == RLX_NONE || self->node_count == RLX_CHAIN_MOST) return false;
    if (self->seen[value] != rewrite->facts[value].uses) return false;
    return is_elementwise(rewrite, id) && rlx_rewrite_may_move(rewrite, id, self->root) &&
           same_shape(rewrite, value, rlx_rewrite_output(rewrite, self->root)) &&
           keeps_memory_low(rewrite, self, id);
}

static void drop_input(grower *self, rlx_value_id value) {
    uint32_t at = 0;
    while (at < self->input_count && self->inputs[at] != value)
        at++;
    if (at == self->input_count) return;
    self->input_count--;
    for (; at < self->input_count; at++)
        self->inputs[at] = self->inputs[at + 1];
}

/* Takes a node in: its inputs become inputs of the tree. */
static void join(const rlx_rewrite *rewrite, grower *self, rlx_node_id id) {
    self->nodes[self->node_count++] = id;
    drop_input(self, rlx_rewrite_output(rewrite, id));
    for (uint32_t i = 0; i < rewrite->graph->nodes.items[id].input_count; i++) {
        rlx_value_id value = rlx_rewrite_input(rewrite, id, i);
        if (self->seen[value]++ == 0) self->inputs[self->input_count++] = value;
    }
}

static void grow_tree(const rlx_rewrite *rewrite, grower *self, rlx_node_id root) {
    self->root = root;
    self->node_count = self->input_count = 0;
    join(rewrite, self, root);
    for (uint32_t i = 0; i < self->input_count;) {
        rlx_value_id value = self->inputs[i];
        bool has_room = self->input_count - 1 + MOST_OPERANDS <= MOST_INPUTS;
        if (has_room && can_join(rewrite, self, value)) {
            join(rewrite, self, rewrite->graph->values.items[value].producer);
            i = 0; /* an input that was passed over may have all its users now */
        } else {
            i++;
        }
    }
}

/* Nodes in the order of the block, so that operands come first. */
static void sort_nodes(const rlx_rewrite *rewrite, grower *self) {
    for (uint32_t i = 1; i < self->node_count; i++) {
        rlx_node_id node = self->nodes[i];
        uint32_t at = i;
        for (; at > 0 && rewrite->positions[self->nodes[at - 1]] > rewrite->positions[node]; at--)
            self->nodes[at] = self->nodes[at - 1];
        self->nodes[at] = node;
    }
}

/* What a value is in the code; inputs are numbered by their first use. */
static int64_t operand_of(grower *self, rlx_value_id value, rlx_value_id *inputs, uint32_t *count) {
    if (self->operands[value] == RLX_CHAIN_NONE) {
        self->operands[value] = *count;
        inputs[(*count)++] = value;
    }
    return self->operands[value];
}

static rlx_chain_instruction make_instruction(const rlx_rewrite *rewrite, rlx_node_id id) {
    rlx_op op = rlx_rewrite_op(rewrite, id);
    rlx_chain_instruction instruction = {
        .op = op,
        .dtype = rlx_rewrite_type(rewrite, rlx_rewrite_output(rewrite, id))->dtype,
        .operands = {RLX_CHAIN_NONE, RLX_CHAIN_NONE, RLX_CHAIN_NONE},
    };
    if (op >= RLX_OP_ABS && op <= RLX_OP_IS_INF) {
        const rlx_unary_attrs *unary = rlx_rewrite_attrs(rewrite, id);
        instruction.alpha = unary->alpha;
        instruction.beta = unary->beta;
    }
    return instruction;
}

static rlx_status write_chain(rlx_rewrite *rewrite, grower *self) {
    int64_t words[RLX_CHAIN_MOST * RLX_CHAIN_WORDS];
    rlx_value_id inputs[MOST_INPUTS];
    uint32_t input_count = 0;
    rlx_chain_attrs attrs = {.code = {self->node_count * RLX_CHAIN_WORDS, words}};
    sort_nodes(rewrite, self);
    for (uint32_t i = 0; i < self->input_count; i++)
        self->operands[self->inputs[i]] = RLX_CHAIN_NONE;
    for (uint32_t n = 0; n < self->node_count; n++) {
        rlx_node_id id = self->nodes[n];
        rlx_chain_instruction instruction = make_instruction(rewrite, id);
        for (uint32_t i = 0; i < rewrite->graph->nodes.items[id].input_count; i++) {
            rlx_value_id value = rlx_rewrite_input(rewrite, id, i);
            instruction.operands[i] = operand_of(self, value, inputs, &input_count);
        }
        rlx_chain_encode(&instruction, words + (size_t)n * RLX_CHAIN_WORDS);
        self->operands[rlx_rewrite_output(rewrite, id)] = -1 - (int64_t)n;
    }
    return rlx_rewrite_node(rewrite, self->root, RLX_OP_CHAIN, &attrs, inputs, input_count, NULL);
}

static void forget_tree(const rlx_rewrite *rewrite, grower *self) {
    for (uint32_t i = 0; i < self->node_count; i++)
        self->seen[rlx_rewrite_output(rewrite, self->nodes[i])] = 0;
    for (uint32_t i = 0; i < self->input_count; i++)
        self->seen[self->inputs[i]] = 0;
}

/* Backwards, so that each tree is grown from its last node. */
static rlx_status fuse_block(rlx_rewrite *rewrite, grower *self, rlx_block_id block) {
    rlx_graph *graph = rewrite->graph;
    for (uint32_t i = graph->blocks.items[block].nodes.count; i-- > 0;) {
        rlx_node_id id = graph->blocks.items[block].nodes.items[i];
        if (graph->nodes.items[id].is_dead || !is_elementwise(rewrite, id)) continue;
        grow_tree(rewrite, self, id);
        if (self->node_count > 1) RLX_TRY(write_chain(rewrite, self));
        forget_tree(rewrite, self);
    }
    return RLX_OK;
}

rlx_status rlx_pass_fuse_chain(rlx_pass_context *context) {
    rlx_rewrite rewrite;
    grower *self = NULL;
    uint32_t values = context->graph->values.count;
    RLX_TRY(rlx_rewrite_begin(context, &rewrite));
    RLX_TRY(rlx_scratch_alloc(context->scratch, sizeof *self, (void **)&self));
    RLX_TRY(
        rlx_scratch_array(context->scratch, values + 1u, sizeof *self->seen, (void **)&self->seen));
    RLX_TRY(rlx_scratch_array(context->scratch, values + 1u, sizeof *self->operands,
                              (void **)&self->operands));
    RLX_TRY(rlx_scratch_array(context->scratch, context->graph->nodes.count + 1u,
                              sizeof *self->work, (void **)&self->work));
    count_work(&rewrite, self->work);
    for (uint32_t b = 0; b < context->graph->blocks.count; b++)
        RLX_TRY(fuse_block(&rewrite, self, b));
    return rlx_rewrite_finish(&rewrite);
}
