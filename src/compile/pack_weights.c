/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in the layout that the target's kernels want: asks the target about every node, and puts
 * a `pack` behind each weight (whatever is known once the weights are) whose consumers all want the
 * same one. Lowering makes it a prepare step and drops the unpacked copy. A weight that anybody
 * wants in rows stays as it is, so that no weight is held twice. The kernels of a convolution that
 * are not known ahead are packed in every run, for the convolution alone: small beside the work on
 * them. */
#include "compile/lower.h"
#include "compile/rewrite.h"

#include <string.h>

enum { UNASKED = RLX_LAYOUT_COUNT };

typedef struct packer {
    rlx_pass_context *context;
    rlx_graph *graph;
    uint8_t *is_prepared;
    rlx_layout *wanted;  /* per value: what all who were asked want, UNASKED: nobody was */
    rlx_layout *kernel;  /* the same of those that have it as kernels of a convolution */
    rlx_tensor *tensors; /* room for the operands of one node */
} packer;

static char present; /* what the data of a present operand points to; never followed */

static rlx_tensor query_tensor(const rlx_graph *graph, rlx_value_id value) {
    rlx_tensor tensor = {0};
    if (value == RLX_NONE) return tensor;
    const rlx_type *type = &graph->values.items[value].type;
    tensor = (rlx_tensor){
        .data = &present, .dtype = type->dtype, .layout = type->layout, .rank = type->shape.rank};
    memcpy(tensor.dims, type->shape.dims, sizeof tensor.dims);
    if (type->layout == RLX_LAYOUT_PLAIN) rlx_plain_strides(&type->shape, tensor.strides);
    return tensor;
}

/* Whether a run may turn it where it is computed. */
static bool can_turn(const rlx_value *value) {
    if (rlx_rewrite_has_extent(&value->type)) return false;
    return value->kind == RLX_VALUE_INPUT || value->kind == RLX_VALUE_TEMPORARY;
}

static void want(rlx_layout *wanted, rlx_layout layout) {
    if (*wanted == (rlx_layout)UNASKED) *wanted = layout;
    if (*wanted != layout) *wanted = RLX_LAYOUT_PLAIN;
}

static bool is_kernel(const rlx_node *node, uint32_t input) {
    return node->op == RLX_OP_CONV && input == 1;
}

/* Nodes that are prepare steps themselves have no say: what they alone read does not stay. */
static void ask_node(packer *self, rlx_node_id id) {
    const rlx_node *node = &self->graph->nodes.items[id];
    rlx_target_choice choice = {0};
    if (node->is_dead || rlx_is_prepare_node(self->graph, id, self->is_prepared)) return;
    if ((rlx_op_info_of(node->op)->flags & RLX_OPF_FLOW) == 0) {
        for (uint32_t i = 0; i < node->input_count; i++)
            self->tensors[i] = query_tensor(self->graph, node->inputs[i]);
        for (uint32_t i = 0; i < node->output_count; i++)
            self->tensors[node->input_count + i] = query_tensor(self->graph, node->outputs[i]);
        rlx_target_query query = {.op = node->op,
                                  .attrs = node->attrs,
                                  .in = self->tensors,
                                  .out = self->tensors + node->input_count,
                                  .in_count = node->input_count,
                                  .out_count = node->output_count};
        choice = self->context->target->choose(self->context->target, &query);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (node->inputs[i] == RLX_NONE) continue;
        rlx_layout layout = i < RLX_TARGET_LAYOUTS ? choice.in_layouts[i] : RLX_LAYOUT_PLAIN;
        want(&self->wanted[node->inputs[i]], layout);
        if (is_kernel(node, i)) want(&self->kernel[node->inputs[i]], layout);
    }
}

static void ask_all(packer *self) {
    const rlx_graph *graph = self->graph;
    for (uint32_t v = 0; v < graph->values.count; v++) {
        self->wanted[v] = self->kernel[v] = (rlx_layout)UNASKED;
    }
    for (uint32_t n = 0; n < graph->nodes.count; n++)
        ask_node(self, n);
    for (uint32_t b = 0; b < graph->blocks.count; b++) {
        for (uint32_t i = 0; i < graph->blocks.items[b].yield_count; i++)
            want(&self->wanted[graph->blocks.items[b].yields[i]], RLX_LAYOUT_PLAIN);
    }
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        want(&self->wanted[graph->outputs.items[i].value], RLX_LAYOUT_PLAIN);
}

/* The layout that a value is packed in, PLAIN: in none. What others want of kernels of a run has no
 * say: those that are computed anyway may be there twice. */
static rlx_layout layout_of(const packer *self, rlx_value_id value) {
    const rlx_value *whole = &self->graph->values.items[value];
    rlx_layout layout = RLX_LAYOUT_PLAIN;
    if (self->is_prepared[value]) {
        layout = self->wanted[value];
    } else if (can_turn(whole)) {
        layout = self->kernel[value];
    }
    if (layout == (rlx_layout)UNASKED || whole->type.layout != RLX_LAYOUT_PLAIN)
        return RLX_LAYOUT_PLAIN;
    return layout;
}

/* Right behind what computes the value; before all else for a parameter or an input. */
static uint32_t position_of(const rlx_graph *graph, rlx_value_id value) {
    const rlx_block *block = &graph->blocks.items[graph->values.items[value].block];
    rlx_node_id producer = graph->values.items[value].producer;
    for (uint32_t i = 0; producer != RLX_NONE && i < block->nodes.count; i++) {
        if (block->nodes.items[i] == producer) return i + 1;
    }
    return 0;
}

static rlx_status insert_packs(packer *self, rlx_value_id *packed, uint32_t count) {
    for (uint32_t v = 0; v < count; v++) {
        packed[v] = RLX_NONE;
        rlx_pack_attrs attrs = {.layout = layout_of(self, v)};
        if (attrs.layout == RLX_LAYOUT_PLAIN) continue;
        rlx_node_id node;
        RLX_TRY(rlx_graph_new_value(self->graph, NULL, RLX_VALUE_TEMPORARY, &packed[v]));
        RLX_TRY(rlx_graph_insert_node(self->graph, self->graph->values.items[v].block,
                                      position_of(self->graph, v), RLX_OP_PACK, &attrs, &v, 1,
                                      &packed[v], 1, &node));
    }
    return RLX_OK;
}

rlx_status rlx_pass_pack_weights(rlx_pass_context *context) {
    rlx_graph *graph = context->graph;
    packer self = {.context = context, .graph = graph};
    uint32_t values = graph->values.count, nodes = graph->nodes.count, most = 1;
    rlx_value_id *packed = NULL;
    rlx_scratch *scratch = context->scratch;
    if (context->target == NULL) return RLX_OK; /* a graph on its way through passes alone */
    for (uint32_t n = 0; n < nodes; n++) {
        uint32_t operands = graph->nodes.items[n].input_count + graph->nodes.items[n].output_count;
        if (operands > most) most = operands;
    }
    RLX_TRY(rlx_scratch_array(scratch, values + 1u, 1, (void **)&self.is_prepared));
    RLX_TRY(rlx_scratch_array(scratch, values + 1u, sizeof *self.wanted, (void **)&self.wanted));
    RLX_TRY(rlx_scratch_array(scratch, values + 1u, sizeof *self.kernel, (void **)&self.kernel));
    RLX_TRY(rlx_scratch_array(scratch, values + 1u, sizeof *packed, (void **)&packed));
    RLX_TRY(rlx_scratch_array(scratch, most, sizeof *self.tensors, (void **)&self.tensors));
    rlx_mark_prepared(graph, graph->blocks.items[0].nodes.items, graph->blocks.items[0].nodes.count,
                      self.is_prepared);
    ask_all(&self);
    RLX_TRY(insert_packs(&self, packed, values));
    for (uint32_t n = 0; n < nodes; n++) {
        rlx_node *node = &graph->nodes.items[n];
        if (node->is_dead || rlx_is_prepare_node(graph, n, self.is_prepared)) continue;
        for (uint32_t i = 0; i < node->input_count; i++) {
            rlx_value_id input = node->inputs[i];
            if (input == RLX_NONE || packed[input] == RLX_NONE) continue;
            if (self.is_prepared[input] || is_kernel(node, i)) node->inputs[i] = packed[input];
        }
    }
    return RLX_OK;
}
