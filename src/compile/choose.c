/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the target which kernel runs each step, and lists every step that it cannot run. */
#include "compile/lower.h"

#include "base/text.h"

static char present; /* what the data of a present operand points to; never followed */

/* The operand as the target sees it: with its storage's strides once there is one. */
static rlx_tensor query_tensor(const rlx_lowered *self, rlx_value_id value) {
    rlx_tensor tensor = {0};
    if (value == RLX_NONE) return tensor;
    const rlx_type *type = &self->graph->values.items[value].type;
    tensor.data = &present;
    tensor.dtype = type->dtype;
    tensor.layout = type->layout;
    tensor.rank = type->shape.rank;
    for (uint32_t i = 0; i < tensor.rank; i++)
        tensor.dims[i] = type->shape.dims[i];
    if (type->layout != RLX_LAYOUT_PLAIN) return tensor;
    if (self->storages != NULL && self->storages[value].root != RLX_NONE) {
        for (uint32_t i = 0; i < tensor.rank; i++) {
            tensor.strides[i] = self->storages[value].strides[i];
        }
    } else {
        rlx_plain_strides(&type->shape, tensor.strides);
    }
    return tensor;
}

/* What all ranks do together. Alone it is a copy, which the target has a kernel for. */
static rlx_status choose_collective(rlx_lowered *self, rlx_lowered_step *step) {
    const rlx_collective_attrs *attrs = step->attrs;
    uint32_t ranks = self->options->rank_count == 0 ? 1 : self->options->rank_count;
    if (attrs->ranks != 0 && attrs->ranks != (int64_t)ranks) {
        char text[160];
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s is for %" PRId64 " ranks, the compile for %u",
                        rlx_node_text(self->graph, step->node, text, sizeof text), attrs->ranks,
                        ranks);
    }
    if (attrs->root >= (int64_t)ranks) {
        char text[160];
        return RLX_FAIL(RLX_INVALID_GRAPH, "%s: root %" PRId64 " of %u ranks",
                        rlx_node_text(self->graph, step->node, text, sizeof text), attrs->root,
                        ranks);
    }
    if (ranks <= 1) return RLX_OK;
    step->kind = RLX_STEP_COLLECTIVE;
    step->choice = (rlx_target_choice){.placement = RLX_PLACED_NATIVE,
                                       .kernel = "transport",
                                       .reason = "all ranks",
                                       .plain_inputs = 1,
                                       .plain_outputs = true};
    return RLX_OK;
}

/* The axes whose true size is an extent of the value. */
static uint8_t query_extents(const rlx_lowered *self, rlx_value_id value) {
    uint8_t axes = 0;
    if (value == RLX_NONE) return 0;
    const rlx_type *type = &self->graph->values.items[value].type;
    for (uint32_t i = 0; i < type->shape.rank; i++)
        axes |= (uint8_t)((type->extents[i] != RLX_NONE) << i);
    return axes;
}

static rlx_status choose_step(rlx_lowered *self, rlx_lowered_step *step, rlx_tensor *tensors,
                              uint8_t *extents) {
    rlx_target_query query = {.op = step->op,
                              .attrs = step->attrs,
                              .in = tensors,
                              .out = tensors + step->input_count,
                              .in_count = step->input_count,
                              .out_count = step->output_count,
                              .extents = extents};
    for (uint32_t i = 0; i < step->input_count; i++) {
        tensors[i] = query_tensor(self, step->inputs[i]);
        extents[i] = query_extents(self, step->inputs[i]);
    }
    for (uint32_t i = 0; i < step->output_count; i++) {
        tensors[step->input_count + i] = query_tensor(self, step->outputs[i]);
        extents[step->input_count + i] = query_extents(self, step->outputs[i]);
    }
    if ((rlx_op_info_of(step->op)->flags & RLX_OPF_COLLECTIVE) != 0) {
        RLX_TRY(choose_collective(self, step));
        if (step->kind == RLX_STEP_COLLECTIVE) return RLX_OK;
    }
    step->choice = self->target->choose(self->target, &query);
    step->kind = step->choice.placement == RLX_PLACED_HOST ? RLX_STEP_HOST : RLX_STEP_KERNEL;
    return RLX_OK;
}

static void list_unsupported(const rlx_lowered *self, const rlx_lowered_step *step,
                             rlx_text *list) {
    char text[160];
    const char *name = step->node == RLX_NONE
                           ? rlx_op_name(step->op)
                           : rlx_node_text(self->graph, step->node, text, sizeof text);
    rlx_text_printf(list, "%s%s: %s", list->length == 0 ? "" : "; ", name,
                    step->choice.reason == NULL ? "no kernel" : step->choice.reason);
}

rlx_status rlx_lower_choose(rlx_lowered *self) {
    rlx_text list = {.allocator = self->graph->allocator};
    rlx_tensor *tensors = NULL;
    uint8_t *extents = NULL;
    uint32_t most = 1, bad = 0;
    for (uint32_t s = 0; s < self->steps.count; s++) {
        uint32_t operands = self->steps.items[s].input_count + self->steps.items[s].output_count;
        if (operands > most) most = operands;
    }
    RLX_TRY(rlx_scratch_array(self->scratch, most, sizeof *tensors, (void **)&tensors));
    RLX_TRY(rlx_scratch_array(self->scratch, most, sizeof *extents, (void **)&extents));
    for (uint32_t s = 0; s < self->steps.count; s++) {
        rlx_lowered_step *step = &self->steps.items[s];
        if (step->kind == RLX_STEP_JUMP || step->is_elided) continue;
        RLX_TRY(choose_step(self, step, tensors, extents));
        if (step->choice.placement != RLX_PLACED_UNSUPPORTED) continue;
        list_unsupported(self, step, &list);
        bad++;
    }
    rlx_status status = list.status;
    if (bad != 0 && status == RLX_OK) {
        status = RLX_FAIL(RLX_UNSUPPORTED, "%s cannot run %u nodes: %s", self->target->name, bad,
                          list.data);
    }
    rlx_text_free(&list);
    return status;
}
