/* SPDX-License-Identifier: Apache-2.0 */
/* Fold: nodes whose inputs are all constants, and whose outputs are small, are computed now by the
 * scalar kernels; an `if` on a constant is replaced by its branch. Large results stay nodes and
 * become prepare steps, so that a plan needs no weight. */
#include "base/thread.h"
#include "compile/compile.h"
#include "ir/infer.h"
#include "ref/kernel.h"

#include <string.h>

enum { FOLD_BYTES = 64 * 1024 };

typedef struct folder {
    rlx_pass_context *context;
    rlx_graph *graph;
    rlx_remap remap;
} folder;

static rlx_tensor plain_tensor(const rlx_type *type, void *data) {
    rlx_tensor tensor = {.data = data, .dtype = type->dtype, .rank = type->shape.rank};
    int64_t stride = 1;
    for (uint32_t i = type->shape.rank; i-- > 0;) {
        tensor.dims[i] = type->shape.dims[i];
        tensor.strides[i] = stride;
        stride *= type->shape.dims[i];
    }
    return tensor;
}

static bool has_extent(const rlx_type *type) {
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (type->extents[i] != RLX_NONE) return true;
    }
    return false;
}

static bool can_fold(const folder *self, const rlx_node *node) {
    const rlx_graph *graph = self->graph;
    if (node->is_dead || (rlx_op_info_of(node->op)->flags &
                          (RLX_OPF_FLOW | RLX_OPF_STATEFUL | RLX_OPF_COLLECTIVE))) {
        return false;
    }
    if (rlx_ref_kernel(node->op) == NULL) return false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id id = rlx_remap_get(&self->remap, node->inputs[i]);
        if (id == RLX_NONE) continue;
        const rlx_value *value = &graph->values.items[id];
        if (value->kind != RLX_VALUE_CONSTANT || has_extent(&value->type)) return false;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint64_t bytes;
        if (node->outputs[i] == RLX_NONE) continue;
        const rlx_type *type = &graph->values.items[node->outputs[i]].type;
        if (has_extent(type) || type->layout != RLX_LAYOUT_PLAIN)
            return false; /* constants lie in rows */
        if (rlx_type_bytes(type, &bytes) != RLX_OK || bytes > FOLD_BYTES) {
            return false;
        }
    }
    return node->output_count != 0;
}

/* Runs the node's kernel on plain memory. `*out_done` is false when the data made it fault: then
 * the node stays, and faults at run time as it should. */
static rlx_status evaluate(folder *self, const rlx_node *node, rlx_tensor *in, rlx_tensor *out,
                           bool *out_done) {
    const rlx_kernel *kernel = rlx_ref_kernel(node->op);
    rlx_fault fault = {0};
    rlx_kernel_args args = {.op = node->op,
                            .attrs = node->attrs,
                            .in = in,
                            .out = out,
                            .in_count = node->input_count,
                            .out_count = node->output_count,
                            .fault = &fault};
    if (kernel->workspace_bytes != NULL) {
        RLX_TRY(rlx_scratch_alloc(self->context->scratch, kernel->workspace_bytes(&args),
                                  &args.workspace));
    }
    kernel->run(&args, 0, kernel->items(&args));
    *out_done = fault.code == RLX_FAULT_NONE;
    return RLX_OK;
}

static rlx_status fold_node(folder *self, rlx_node_id id) {
    rlx_graph *graph = self->graph;
    rlx_node *node = &graph->nodes.items[id];
    rlx_tensor *in = NULL, *out = NULL;
    bool is_done = false;
    RLX_TRY(rlx_scratch_array(self->context->scratch, node->input_count + 1u, sizeof *in,
                              (void **)&in));
    RLX_TRY(rlx_scratch_array(self->context->scratch, node->output_count + 1u, sizeof *out,
                              (void **)&out));
    for (uint32_t i = 0; i < node->input_count; i++) {
        rlx_value_id input = rlx_remap_get(&self->remap, node->inputs[i]);
        if (input == RLX_NONE) continue;
        const rlx_value *value = &graph->values.items[input];
        void *data = NULL; /* a copy: kernels take writable tensors, constants are not */
        RLX_TRY(rlx_scratch_alloc(self->context->scratch, value->data_bytes + 1, &data));
        if (value->data_bytes != 0) memcpy(data, value->data, value->data_bytes);
        in[i] = plain_tensor(&value->type, data);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint64_t bytes;
        void *data = NULL;
        if (node->outputs[i] == RLX_NONE) continue;
        const rlx_type *type = &graph->values.items[node->outputs[i]].type;
        RLX_TRY(rlx_type_bytes(type, &bytes));
        RLX_TRY(rlx_scratch_alloc(&graph->memory, bytes + 1, &data)); /* becomes the constant */
        out[i] = plain_tensor(type, data);
    }
    RLX_TRY(evaluate(self, node, in, out, &is_done));
    if (!is_done) return RLX_OK;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == RLX_NONE) continue;
        rlx_value *value = &graph->values.items[node->outputs[i]];
        value->kind = RLX_VALUE_CONSTANT;
        value->producer = RLX_NONE;
        value->block = 0;
        value->data = out[i].data;
        RLX_TRY(rlx_type_bytes(&value->type, &value->data_bytes));
    }
    node->is_dead = true;
    return RLX_OK;
}

rlx_status rlx_fold_node(rlx_graph *graph, rlx_node_id node, bool *out_done) {
    rlx_scratch scratch = {.allocator = graph->allocator};
    rlx_pass_context context = {.graph = graph, .scratch = &scratch};
    folder self = {.context = &context, .graph = graph};
    rlx_status status = RLX_OK;
    if (can_fold(&self, &graph->nodes.items[node])) {
        rlx_fp_mode saved = rlx_fp_mode_enter();
        status = fold_node(&self, node);
        rlx_fp_mode_leave(saved);
    }
    *out_done = graph->nodes.items[node].is_dead;
    rlx_scratch_reset(&scratch);
    return status;
}

/* Puts the nodes of the taken branch where the `if` stood. */
static rlx_status inline_branch(folder *self, rlx_block_id home_id, uint32_t position,
                                rlx_node_id id, bool condition) {
    rlx_graph *graph = self->graph;
    rlx_node *node = &graph->nodes.items[id];
    rlx_block_id branch_id = node->blocks[condition ? 0 : 1];
    rlx_block *branch = &graph->blocks.items[branch_id];
    rlx_block *home = &graph->blocks.items[home_id];
    uint32_t moved = branch->nodes.count;
    RLX_TRY(rlx_vec_reserve(graph->allocator, &home->nodes, home->nodes.count + moved));
    memmove(home->nodes.items + position + 1 + moved, home->nodes.items + position + 1,
            (home->nodes.count - position - 1) * sizeof *home->nodes.items);
    for (uint32_t i = 0; i < moved; i++) {
        rlx_node *inner = &graph->nodes.items[branch->nodes.items[i]];
        home->nodes.items[position + 1 + i] = branch->nodes.items[i];
        inner->block = home_id;
        for (uint32_t o = 0; o < inner->output_count; o++) {
            if (inner->outputs[o] != RLX_NONE) {
                graph->values.items[inner->outputs[o]].block = home_id;
            }
        }
        for (uint32_t b = 0; b < 2; b++) {
            if (inner->blocks[b] != RLX_NONE) {
                graph->blocks.items[inner->blocks[b]].parent = home_id;
            }
        }
    }
    home->nodes.count += moved;
    branch->nodes.count = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != RLX_NONE) {
            rlx_remap_set(&self->remap, node->outputs[i], branch->yields[i]);
        }
    }
    node->is_dead = true;
    return RLX_OK;
}

static rlx_status fold_block(folder *self, rlx_block_id block) {
    for (uint32_t i = 0; i < self->graph->blocks.items[block].nodes.count; i++) {
        rlx_node_id id = self->graph->blocks.items[block].nodes.items[i];
        const rlx_node *node = &self->graph->nodes.items[id];
        if (node->is_dead) continue;
        if (can_fold(self, node)) {
            RLX_TRY(fold_node(self, id));
            continue;
        }
        if (node->op == RLX_OP_IF) {
            rlx_value_id input = rlx_remap_get(&self->remap, node->inputs[0]);
            const rlx_value *condition = &self->graph->values.items[input];
            if (condition->kind == RLX_VALUE_CONSTANT && condition->data_bytes == 1) {
                bool taken = *(const uint8_t *)condition->data != 0;
                RLX_TRY(inline_branch(self, block, i, id, taken));
                continue;
            }
        }
        for (uint32_t b = 0; b < 2; b++) {
            if (node->blocks[b] != RLX_NONE) RLX_TRY(fold_block(self, node->blocks[b]));
            node = &self->graph->nodes.items[id];
        }
    }
    return RLX_OK;
}

rlx_status rlx_pass_fold(rlx_pass_context *context) {
    folder self = {.context = context, .graph = context->graph};
    RLX_TRY(rlx_remap_begin(context, &self.remap));
    RLX_TRY(fold_block(&self, 0));
    rlx_remap_apply(context, &self.remap);
    return RLX_OK;
}
