/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of a compile: lowered entries become the plan's tables. */
#include "compile/emit.h"

#include "base/size.h"
#include "base/text.h"

#include <string.h>

rlx_status rlx_emitter_create(rlx_plan *plan, const rlx_target *target,
                              const rlx_compile_options *options, rlx_emitter **out_emitter) {
    rlx_emitter *emitter = NULL;
    RLX_TRY(rlx_plan_text(plan, target->name, &plan->target));
    plan->workers = target->workers == 0 ? 1 : target->workers;
    plan->rank = options->rank;
    plan->rank_count = options->rank_count;
    plan->alignment =
        target->alignment < RLX_PLAN_ALIGNMENT ? RLX_PLAN_ALIGNMENT : target->alignment;
    RLX_TRY(rlx_alloc_zero(plan->allocator, sizeof *emitter, (void **)&emitter));
    emitter->plan = plan;
    emitter->target = target;
    emitter->options = options;
    *out_emitter = emitter;
    return RLX_OK;
}

void rlx_emitter_destroy(rlx_emitter *emitter) {
    if (emitter == NULL) return;
    const rlx_allocator *allocator = emitter->plan->allocator;
    rlx_vec_free(allocator, &emitter->shared);
    rlx_vec_free(allocator, &emitter->cells);
    rlx_vec_free(allocator, &emitter->prepare);
    rlx_free(allocator, emitter);
}

static rlx_status start_entry(rlx_entry_emission *self) {
    rlx_scratch *scratch = self->lowered->scratch;
    uint64_t values = self->lowered->value_count + 1u;
    uint64_t steps = self->lowered->steps.count + 1u;
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof(uint32_t), (void **)&self->buffers));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof(uint32_t), (void **)&self->slots));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof(uint32_t), (void **)&self->maker));
    RLX_TRY(rlx_scratch_array(scratch, values, sizeof *self->keys, (void **)&self->keys));
    RLX_TRY(rlx_scratch_array(scratch, steps, sizeof(uint32_t), (void **)&self->workspaces));
    RLX_TRY(rlx_scratch_array(scratch, steps, 1, (void **)&self->is_needed));
    memset(self->buffers, 0xFF, values * sizeof(uint32_t));
    memset(self->slots, 0xFF, values * sizeof(uint32_t));
    memset(self->workspaces, 0xFF, steps * sizeof(uint32_t));
    return RLX_OK;
}

static rlx_status bindings_text(rlx_plan *plan, const rlx_entry_spec *entry, const char **out) {
    rlx_text text = {.allocator = plan->allocator};
    for (uint32_t i = 0; i < entry->binding_count; i++) {
        rlx_text_printf(&text, "%s%s=%" PRId64, i == 0 ? "" : ", ", entry->bindings[i].symbol,
                        entry->bindings[i].value);
    }
    rlx_status status = text.status;
    if (status == RLX_OK) {
        status = rlx_plan_text(plan, text.data == NULL ? "" : text.data, out);
    }
    rlx_text_free(&text);
    return status;
}

static rlx_status check_name(const rlx_plan *plan, const char *name) {
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        if (strcmp(plan->entries.items[i].name, name) == 0) {
            return RLX_FAIL(RLX_INVALID_ARGUMENT, "two entries are called '%s'", name);
        }
    }
    return RLX_OK;
}

rlx_status rlx_emit_entry(rlx_emitter *emitter, rlx_lowered *lowered, const rlx_entry_spec *entry) {
    rlx_plan *plan = emitter->plan;
    const char *name = entry->name == NULL ? "main" : entry->name;
    rlx_entry_emission self = {.emitter = emitter,
                               .lowered = lowered,
                               .plan = plan,
                               .entry = plan->entries.count,
                               .first_step = plan->steps.count};
    RLX_TRY(check_name(plan, name));
    RLX_TRY(start_entry(&self));
    RLX_TRY(rlx_emit_keys(&self));
    RLX_TRY(rlx_emit_scratch(&self));
    RLX_TRY(rlx_emit_steps(&self));
    RLX_TRY(rlx_emit_ports(&self));
    self.report.first_step = self.first_step;
    self.report.step_count = plan->steps.count - self.first_step;
    RLX_TRY(rlx_plan_text(plan, name, &self.report.name));
    RLX_TRY(bindings_text(plan, entry, &self.report.bindings));
    RLX_TRY(rlx_plan_text(plan, self.report.placed_by, &self.report.placed_by));
    return rlx_vec_push(plan->allocator, &plan->entries, self.report);
}

/* One after the other, in the order of first use. */
static rlx_status lay_out(const rlx_emitter *emitter, uint32_t segment) {
    rlx_plan *plan = emitter->plan;
    /* Sources are host memory. */
    uint64_t block = segment == RLX_SEGMENT_SOURCE ? 0 : emitter->target->block_bytes, at = 0;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (buffer->segment != segment) continue;
        RLX_TRY(rlx_blocks_fit(block, buffer->bytes, &at));
        buffer->offset = at;
        if (!rlx_add_u64(at, buffer->bytes, &at) || !rlx_align_u64(at, plan->alignment, &at)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
    }
    plan->segment_bytes[segment] = at;
    return RLX_OK;
}

/* Numbers of run steps move up by the number of prepare steps. */
static rlx_status put_prepare_first(rlx_emitter *emitter) {
    rlx_plan *plan = emitter->plan;
    uint32_t moved = emitter->prepare.count, runs = plan->steps.count;
    RLX_TRY(rlx_vec_reserve(plan->allocator, &plan->steps, runs + moved));
    if (runs != 0) {
        memmove(plan->steps.items + moved, plan->steps.items, runs * sizeof *plan->steps.items);
    }
    if (moved != 0) {
        memcpy(plan->steps.items, emitter->prepare.items, moved * sizeof *plan->steps.items);
    }
    plan->steps.count = runs + moved;
    plan->prepare_count = moved;
    for (uint32_t s = moved; s < plan->steps.count; s++) {
        if (plan->steps.items[s].kind == RLX_STEP_JUMP) plan->steps.items[s].target += moved;
    }
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        if (plan->buffers.items[i].entry == RLX_NONE) continue;
        plan->buffers.items[i].first_step += moved;
        plan->buffers.items[i].last_step += moved;
    }
    for (uint32_t i = 0; i < plan->entries.count; i++)
        plan->entries.items[i].first_step += moved;
    return RLX_OK;
}

rlx_status rlx_emit_finish(rlx_emitter *emitter) {
    rlx_plan *plan = emitter->plan;
    if (!emitter->options->without_reuse) RLX_TRY(rlx_emit_slices(emitter));
    RLX_TRY(lay_out(emitter, RLX_SEGMENT_WEIGHTS));
    RLX_TRY(lay_out(emitter, RLX_SEGMENT_STATE));
    RLX_TRY(lay_out(emitter, RLX_SEGMENT_SOURCE));
    if (!emitter->options->without_reuse) RLX_TRY(rlx_emit_order_prepare(emitter));
    RLX_TRY(put_prepare_first(emitter));
    if (!emitter->options->without_reuse) RLX_TRY(rlx_emit_sources(emitter));
    RLX_TRY(rlx_emit_stretches(emitter));
    rlx_plan_hash_state(plan);
    return RLX_OK;
}
