/* SPDX-License-Identifier: Apache-2.0 */
/* Poison mode: after each step, the buffers that were used for the last time are filled with 0xFF,
 * so that a step that reads too late reads NaN. What lives across a loop's jump back has its last
 * step at the loop's end, so loops need no care here. */
#include "runtime/exec.h"

static void keep_slot(const rlx_plan *plan, uint32_t slot, bool *is_kept) {
    const rlx_plan_slot *row = &plan->slots.items[slot];
    is_kept[row->buffer] = true;
    for (uint32_t i = 0; i < row->rank; i++) {
        if (row->extents[i] != RLX_NONE) {
            is_kept[plan->slots.items[row->extents[i]].buffer] = true;
        }
    }
}

/* Outputs with their extents, and inputs that survive, are read after the last step. */
static void keep_ports(const rlx_plan *plan, bool *is_kept) {
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        const rlx_plan_entry *entry = &plan->entries.items[i];
        for (uint32_t k = entry->outputs_at; k < entry->outputs_at + entry->output_count; k++)
            keep_slot(plan, plan->ports.items[k].slot, is_kept);
        for (uint32_t k = entry->inputs_at; k < entry->inputs_at + entry->input_count; k++) {
            if (plan->ports.items[k].survives) keep_slot(plan, plan->ports.items[k].slot, is_kept);
        }
    }
}

static bool dies(const rlx_plan *plan, const bool *is_kept, uint32_t buffer) {
    const rlx_plan_buffer *row = &plan->buffers.items[buffer];
    if (row->segment == RLX_SEGMENT_TILES) return true;
    return !is_kept[buffer] && row->segment == RLX_SEGMENT_SCRATCH &&
           row->entry < plan->entries.count && plan->entries.items[row->entry].step_count != 0 &&
           row->offset >= RLX_FAULT_BYTES;
}

rlx_status rlx_exec_prepare_poison(rlx_exec *exec) {
    const rlx_plan *plan = exec->program->plan;
    uint32_t steps = plan->steps.count, buffers = plan->buffers.count;
    bool *is_kept = NULL;
    RLX_TRY(rlx_scratch_array(&exec->memory, buffers, sizeof *is_kept, (void **)&is_kept));
    RLX_TRY(rlx_scratch_array(&exec->memory, (uint64_t)steps + 2, sizeof *exec->poison_at,
                              (void **)&exec->poison_at));
    RLX_TRY(rlx_scratch_array(&exec->memory, buffers, sizeof *exec->poison_list,
                              (void **)&exec->poison_list));
    keep_ports(plan, is_kept);
    /* Counted by step, summed up, then filled: each step's buffers end up side by side. */
    for (uint32_t i = 0; i < buffers; i++) {
        if (dies(plan, is_kept, i)) exec->poison_at[plan->buffers.items[i].last_step + 2]++;
    }
    for (uint32_t i = 2; i < steps + 2; i++)
        exec->poison_at[i] += exec->poison_at[i - 1];
    for (uint32_t i = 0; i < buffers; i++) {
        if (!dies(plan, is_kept, i)) continue;
        exec->poison_list[exec->poison_at[plan->buffers.items[i].last_step + 1]++] = i;
    }
    return RLX_OK;
}

rlx_status rlx_exec_poison_step(rlx_exec *exec, uint32_t step) {
    for (uint32_t i = exec->poison_at[step]; i < exec->poison_at[step + 1]; i++) {
        const rlx_plan_buffer *buffer = &exec->program->plan->buffers.items[exec->poison_list[i]];
        RLX_TRY(rlx_arena_fill(exec->arena, (rlx_segment)buffer->segment, buffer->offset,
                               buffer->bytes, 0xFF));
    }
    return RLX_OK;
}
