/* SPDX-License-Identifier: Apache-2.0 */
/* Host steps: ops that a device has no code for, done by scalar C. On mapped memory where it is;
 * where a device's memory is not mapped, on a copy of it (the shadow), and exactly what a step
 * touches goes there and back. */
#include "runtime/exec.h"

#include "base/thread.h"

#include <string.h>

static rlx_status choose(const rlx_plan_step *step, rlx_host_step *host) {
    uint64_t need;
    host->kernel = rlx_ref_kernel(step->op);
    if (host->kernel == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "no scalar kernel for op '%s'", rlx_op_name(step->op));
    }
    need = host->kernel->workspace_bytes == NULL ? 0 : host->kernel->workspace_bytes(&host->args);
    if (need > step->workspace_bytes) {
        return RLX_FAIL(RLX_MISMATCH, "workspace: %" PRIu64 " bytes planned, %" PRIu64 " needed",
                        step->workspace_bytes, need);
    }
    return RLX_OK;
}

/* The arena as scalar C may see it. Weights are those of the program; the rest is made when the
 * first step needs it. */
static rlx_status make_shadow(rlx_exec *exec) {
    const rlx_arena *arena = exec->arena;
    if (exec->shadow != NULL) return RLX_OK;
    rlx_arena *shadow = NULL;
    RLX_TRY(rlx_scratch_alloc(&exec->memory, sizeof *shadow, (void **)&shadow));
    shadow->plan = arena->plan;
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        shadow->is_present[i] = arena->is_present[i];
        shadow->bytes[i] = arena->bytes[i];
        shadow->address[i] = arena->address[i];
        if (arena->address[i] != NULL || arena->bytes[i] == 0) continue;
        if (i == RLX_SEGMENT_WEIGHTS) {
            shadow->address[i] = exec->program->weights;
        } else {
            RLX_TRY_WITH(rlx_scratch_alloc(&exec->memory, arena->bytes[i] + RLX_PLAN_ALIGNMENT,
                                           &shadow->address[i]),
                         "a copy of the device's memory for host steps");
        }
    }
    exec->shadow = shadow;
    return RLX_OK;
}

static bool is_mapped(const rlx_arena *arena) {
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        if (arena->is_present[i] && arena->bytes[i] != 0 && arena->address[i] == NULL) return false;
    }
    return true;
}

/* The bytes of one slot between the arena and the shadow. */
static rlx_status move_slot(rlx_exec *exec, uint32_t slot, bool to_host) {
    const rlx_plan *plan = exec->program->plan;
    if (slot == RLX_NONE) return RLX_OK;
    const rlx_plan_slot *row = &plan->slots.items[slot];
    rlx_segment segment = (rlx_segment)plan->buffers.items[row->buffer].segment;
    int64_t low = 0, high = 0;
    if (exec->arena->address[segment] != NULL || segment == RLX_SEGMENT_WEIGHTS) return RLX_OK;
    RLX_TRY(rlx_plan_slot_span(row, &low, &high));
    if (high <= low) return RLX_OK;
    uint64_t offset = rlx_plan_slot_offset(plan, row) + (uint64_t)low;
    uint8_t *copy = (uint8_t *)exec->shadow->address[segment] + offset;
    if (to_host) {
        RLX_TRY(rlx_arena_read_segment(exec->arena, segment, offset, copy, (uint64_t)(high - low)));
        for (uint32_t i = 0; i < row->rank; i++)
            RLX_TRY(move_slot(exec, row->extents[i], true));
        return RLX_OK;
    }
    return rlx_arena_write_segment(exec->arena, segment, offset, copy, (uint64_t)(high - low));
}

static rlx_status move_operands(rlx_exec *exec, const rlx_plan_step *step, bool to_host) {
    const uint32_t *slots = exec->program->plan->operands.items + step->operands_at;
    uint32_t first = to_host ? 0 : step->input_count;
    for (uint32_t i = first; i < step->input_count + step->output_count; i++)
        RLX_TRY(move_slot(exec, slots[i], to_host));
    return RLX_OK;
}

rlx_status rlx_host_step_prepare(rlx_exec *exec, uint32_t step, rlx_host_step **out_host) {
    const rlx_plan *plan = exec->program->plan;
    const rlx_plan_step *row = &plan->steps.items[step];
    uint64_t tensor_count = 0, extent_count = 0;
    rlx_host_step *host = NULL;
    rlx_tensor *tensors = NULL;
    rlx_bound_extent *extents = NULL;
    rlx_bind_room(plan, step, &tensor_count, &extent_count);
    RLX_TRY(rlx_scratch_alloc(&exec->memory, sizeof *host, (void **)&host));
    RLX_TRY(rlx_scratch_array(&exec->memory, tensor_count, sizeof *tensors, (void **)&tensors));
    RLX_TRY(rlx_scratch_array(&exec->memory, extent_count, sizeof *extents, (void **)&extents));
    if (!is_mapped(exec->arena)) RLX_TRY(make_shadow(exec));
    RLX_TRY(rlx_bind_step(exec->shadow == NULL ? exec->arena : exec->shadow, step, &tensors,
                          &extents, &host->bound));
    host->args = (rlx_kernel_args){.op = row->op,
                                   .step = step,
                                   .attrs = row->attrs,
                                   .in = host->bound.tensors,
                                   .out = host->bound.tensors + row->input_count,
                                   .in_count = row->input_count,
                                   .out_count = row->output_count,
                                   .fault = exec->fault,
                                   .workspace = host->bound.workspace};
    if (exec->fault == NULL && exec->shadow != NULL) {
        host->args.fault = exec->shadow->address[RLX_SEGMENT_SCRATCH];
    }
    RLX_TRY_WITH(choose(row, host), "step %u ('%s')", step, row->name);
    *out_host = host;
    return RLX_OK;
}

static void run_kernel(rlx_host_step *host) {
    rlx_fp_mode saved = rlx_fp_mode_enter();
    int64_t value = 0, items;
    if (host->bound.extent_count != 0 && !rlx_bound_refresh(&host->bound, &value)) {
        rlx_fault_raise(&host->args, RLX_FAULT_BOUND, value);
    }
    items = host->kernel->items(&host->args);
    if (items > 0) host->kernel->run(&host->args, 0, items);
    rlx_fp_mode_leave(saved);
}

rlx_status rlx_host_step_run(rlx_exec *exec, rlx_host_step *host) {
    if (exec->shadow == NULL) {
        run_kernel(host);
        return RLX_OK;
    }
    rlx_fault *fault = exec->fault == NULL ? host->args.fault : NULL;
    if (fault != NULL) memset(fault, 0, sizeof *fault);
    RLX_TRY(move_operands(exec, host->bound.step, true));
    run_kernel(host);
    RLX_TRY(move_operands(exec, host->bound.step, false));
    if (fault == NULL || atomic_load_explicit(&fault->claim, memory_order_relaxed) == 0) {
        return RLX_OK;
    }
    return rlx_arena_write_segment(exec->arena, RLX_SEGMENT_SCRATCH, 0, fault, sizeof *fault);
}
