/* SPDX-License-Identifier: Apache-2.0 */
/* Steps, ports and stretches of an entry. */
#include "compile/emit.h"

#include "base/size.h"

static rlx_status push_operands(rlx_entry_emission *self, const rlx_lowered_step *step,
                                rlx_plan_step *out) {
    rlx_plan *plan = self->plan;
    uint32_t count = step->input_count + step->output_count;
    out->input_count = step->input_count;
    out->output_count = step->output_count;
    uint32_t *slots = NULL;
    RLX_TRY(rlx_scratch_array(self->lowered->scratch, count + 1u, sizeof *slots, (void **)&slots));
    for (uint32_t i = 0; i < count; i++) {
        rlx_value_id value =
            i < step->input_count ? step->inputs[i] : step->outputs[i - step->input_count];
        slots[i] = RLX_NONE;
        if (value == RLX_NONE) continue;
        RLX_TRY(rlx_emit_slot(self, value, &slots[i]));
        uint64_t bytes;
        RLX_TRY(rlx_plan_slot_bytes(&plan->slots.items[slots[i]], &bytes));
        out->bytes += bytes;
    }
    out->operands_at = plan->operands.count;
    for (uint32_t i = 0; i < count; i++) {
        RLX_TRY(rlx_vec_push(plan->allocator, &plan->operands, slots[i]));
    }
    return RLX_OK;
}

static const char *step_name(const rlx_graph *graph, const rlx_lowered_step *step) {
    for (uint32_t i = 0; i < step->output_count; i++) {
        if (step->outputs[i] != RLX_NONE) return graph->values.items[step->outputs[i]].name;
    }
    if (step->node == RLX_NONE) return "";
    const rlx_node *node = &graph->nodes.items[step->node];
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] != RLX_NONE) return graph->values.items[node->outputs[i]].name;
    }
    return "";
}

static rlx_status make_step(rlx_entry_emission *self, uint32_t s, rlx_plan_step *out_step) {
    const rlx_lowered *lowered = self->lowered;
    const rlx_lowered_step *step = &lowered->steps.items[s];
    rlx_plan_step out = {.kind = step->kind,
                         .op = step->op,
                         .kernel = "",
                         .reason = "",
                         .workspace = RLX_NONE,
                         .target = RLX_NONE,
                         .condition = RLX_NONE,
                         .value = RLX_NONE};
    /* A prepare step is for the device to run as it likes: there is no executable yet that could
     * walk host steps. */
    if (step->is_prepare && step->kind == RLX_STEP_HOST) out.kind = RLX_STEP_KERNEL;
    RLX_TRY(rlx_plan_text(self->plan, step_name(lowered->graph, step), &out.name));
    if (step->kind == RLX_STEP_JUMP) {
        out.target = self->first_step + lowered->emitted[lowered->labels.items[step->label]];
        out.jump_if = step->jump_if;
        out.fault_code = step->fault_code;
        if (step->condition != RLX_NONE) {
            RLX_TRY(rlx_emit_slot(self, step->condition, &out.condition));
        }
        if (step->value != RLX_NONE) RLX_TRY(rlx_emit_slot(self, step->value, &out.value));
        *out_step = out;
        return RLX_OK;
    }
    out.flops = step->choice.flops;
    out.workspace_bytes = step->choice.workspace_bytes;
    if (out.workspace_bytes != 0) out.workspace = self->workspaces[s];
    RLX_TRY(rlx_plan_text(self->plan, step->choice.kernel, &out.kernel));
    RLX_TRY(rlx_plan_text(self->plan, step->choice.reason, &out.reason));
    RLX_TRY(rlx_plan_copy_attrs(self->plan, step->op, step->attrs, &out.attrs));
    RLX_TRY(push_operands(self, step, &out));
    *out_step = out;
    return RLX_OK;
}

/* Workspace of a prepare step: memory of the source segment. */
static rlx_status prepare_workspace(rlx_entry_emission *self, uint32_t s) {
    const rlx_lowered_step *step = &self->lowered->steps.items[s];
    uint64_t bytes = step->choice.workspace_bytes;
    if (bytes == 0) return RLX_OK;
    if (!rlx_align_u64(bytes, self->plan->alignment, &bytes) ||
        !rlx_mul_u64(bytes, self->plan->workers, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the workspace of a step wraps");
    }
    rlx_plan_buffer buffer = {
        .segment = RLX_SEGMENT_SOURCE, .entry = RLX_NONE, .bytes = bytes, .last_step = UINT32_MAX};
    self->workspaces[s] = self->plan->buffers.count;
    return rlx_vec_push(self->plan->allocator, &self->plan->buffers, buffer);
}

/* Prepare steps that a later one or a run needs, found from the last to the first. */
static rlx_status emit_prepare(rlx_entry_emission *self) {
    const rlx_lowered *lowered = self->lowered;
    for (uint32_t s = lowered->steps.count; s-- > 0;) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        uint32_t slot;
        if (!step->is_prepare || !self->is_needed[s] || step->is_elided) continue;
        for (uint32_t i = 0; i < step->input_count; i++) {
            if (step->inputs[i] != RLX_NONE) RLX_TRY(rlx_emit_slot(self, step->inputs[i], &slot));
        }
    }
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        const rlx_lowered_step *step = &lowered->steps.items[s];
        rlx_plan_step out;
        if (!step->is_prepare || !self->is_needed[s] || step->is_elided) continue;
        RLX_TRY(prepare_workspace(self, s));
        RLX_TRY(make_step(self, s, &out));
        RLX_TRY(rlx_vec_push(self->plan->allocator, &self->emitter->prepare, out));
    }
    return RLX_OK;
}

rlx_status rlx_emit_steps(rlx_entry_emission *self) {
    const rlx_lowered *lowered = self->lowered;
    for (uint32_t s = 0; s < lowered->steps.count; s++) {
        rlx_plan_step out;
        if (lowered->steps.items[s].is_elided || lowered->steps.items[s].is_prepare) continue;
        RLX_TRY(make_step(self, s, &out));
        RLX_TRY(rlx_vec_push(self->plan->allocator, &self->plan->steps, out));
    }
    return emit_prepare(self);
}

static rlx_status push_port(rlx_entry_emission *self, const char *name, rlx_value_id value,
                            bool survives) {
    rlx_plan_port port = {.survives = survives};
    RLX_TRY(rlx_plan_text(self->plan, name, &port.name));
    RLX_TRY(rlx_emit_slot(self, value, &port.slot));
    return rlx_vec_push(self->plan->allocator, &self->plan->ports, port);
}

rlx_status rlx_emit_ports(rlx_entry_emission *self) {
    const rlx_graph *graph = self->lowered->graph;
    rlx_plan_entry *report = &self->report;
    bool survives = self->emitter->options->keep_inputs && self->emitter->options->entry_count <= 1;
    report->inputs_at = self->plan->ports.count;
    for (uint32_t v = 0; v < self->lowered->value_count; v++) {
        const rlx_value *value = &graph->values.items[v];
        if (value->kind != RLX_VALUE_INPUT) continue;
        RLX_TRY(push_port(self, value->name, v, survives));
        report->input_count++;
    }
    report->outputs_at = self->plan->ports.count;
    for (uint32_t i = 0; i < graph->outputs.count; i++) {
        RLX_TRY(
            push_port(self, graph->outputs.items[i].name, graph->outputs.items[i].value, false));
        report->output_count++;
    }
    return RLX_OK;
}

/* About 100 ms, so that progress and cancellation are never far. */
static bool is_long(const rlx_target *target, uint64_t flops, uint64_t bytes) {
    double seconds = 0;
    if (target->flops_per_second != 0) {
        seconds += (double)flops / (double)target->flops_per_second;
    }
    if (target->bytes_per_second != 0) {
        seconds += (double)bytes / (double)target->bytes_per_second;
    }
    return seconds > 0.1;
}

/* Cuts steps [first, first + count) at jumps, host steps, jump targets and long work. */
static rlx_status cut(rlx_emitter *emitter, uint32_t first, uint32_t count,
                      const uint8_t *is_target) {
    rlx_plan *plan = emitter->plan;
    rlx_plan_stretch stretch = {first, 0};
    uint64_t flops = 0, bytes = 0;
    for (uint32_t s = first; s <= first + count; s++) {
        const rlx_plan_step *step = s < first + count ? &plan->steps.items[s] : NULL;
        bool is_device =
            step != NULL && (step->kind == RLX_STEP_KERNEL || step->kind == RLX_STEP_COPY);
        if (!is_device || is_target[s] || is_long(emitter->target, flops, bytes)) {
            if (stretch.step_count != 0) {
                RLX_TRY(rlx_vec_push(plan->allocator, &plan->stretches, stretch));
            }
            stretch = (rlx_plan_stretch){s, 0};
            flops = bytes = 0;
        }
        if (!is_device) {
            stretch.first_step = s + 1;
            continue;
        }
        stretch.step_count++;
        flops += step->flops;
        bytes += step->bytes;
    }
    return RLX_OK;
}

rlx_status rlx_emit_stretches(rlx_emitter *emitter) {
    rlx_plan *plan = emitter->plan;
    uint8_t *is_target = NULL;
    RLX_TRY(rlx_alloc_array(plan->allocator, plan->steps.count + 1u, 1, (void **)&is_target));
    for (uint32_t s = 0; s < plan->steps.count; s++) {
        if (plan->steps.items[s].kind == RLX_STEP_JUMP) is_target[plan->steps.items[s].target] = 1;
    }
    rlx_status status = cut(emitter, 0, plan->prepare_count, is_target);
    plan->prepare_stretch_count = plan->stretches.count;
    for (uint32_t e = 0; e < plan->entries.count && status == RLX_OK; e++) {
        rlx_plan_entry *entry = &plan->entries.items[e];
        entry->first_stretch = plan->stretches.count;
        status = cut(emitter, entry->first_step, entry->step_count, is_target);
        entry->stretch_count = plan->stretches.count - entry->first_stretch;
    }
    rlx_free(plan->allocator, is_target);
    return status;
}
