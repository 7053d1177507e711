/* SPDX-License-Identifier: Apache-2.0 */
/* Resolves the operands of a step to addresses. See bind.h. */
#include "driver/bind.h"

#include "base/size.h"

static uint32_t operand_count(const rlx_plan_step *step) {
    return step->input_count + step->output_count;
}

void rlx_bind_room(const rlx_plan *plan, uint32_t step, uint64_t *tensor_count,
                   uint64_t *extent_count) {
    const rlx_plan_step *row = &plan->steps.items[step];
    *tensor_count += operand_count(row);
    for (uint32_t i = 0; i < operand_count(row); i++) {
        uint32_t slot = plan->operands.items[row->operands_at + i];
        if (slot == RLX_NONE) continue;
        for (uint32_t k = 0; k < plan->slots.items[slot].rank; k++) {
            *extent_count += plan->slots.items[slot].extents[k] != RLX_NONE;
        }
    }
}

/* An extent that the step itself writes is not known before it has run: the kernel gets the planned
 * size. */
static bool is_own_output(const rlx_plan *plan, const rlx_plan_step *step, uint32_t slot) {
    for (uint32_t i = 0; i < step->output_count; i++) {
        if (plan->operands.items[step->operands_at + step->input_count + i] == slot) return true;
    }
    return false;
}

static rlx_status bind_extent(const rlx_arena *arena, uint32_t slot, uint32_t extent,
                              rlx_tensor *tensor, uint32_t axis, rlx_bound_extent *out_extent) {
    rlx_tensor source = rlx_arena_tensor(arena, extent);
    if (source.data == NULL || source.dtype != RLX_DTYPE_I64 || rlx_tensor_elements(&source) != 1 ||
        (uintptr_t)source.data % sizeof(int64_t) != 0) {
        return RLX_FAIL(RLX_INVALID_PLAN, "slot '%s': the extent of dim %u is no i64 in memory",
                        arena->plan->slots.items[slot].name, axis);
    }
    *out_extent = (rlx_bound_extent){&tensor->dims[axis], tensor->dims[axis], source.data};
    return RLX_OK;
}

static rlx_status bind_operand(const rlx_arena *arena, const rlx_plan_step *step, uint32_t slot,
                               rlx_tensor *tensor, rlx_bound_extent **extents) {
    const rlx_plan *plan = arena->plan;
    if (slot == RLX_NONE) {
        *tensor = (rlx_tensor){0};
        return RLX_OK;
    }
    *tensor = rlx_arena_tensor(arena, slot);
    if (tensor->data == NULL) {
        return RLX_FAIL(RLX_INVALID_PLAN, "operand slot %u has no memory here", slot);
    }
    for (uint32_t i = 0; i < tensor->rank; i++) {
        uint32_t extent = plan->slots.items[slot].extents[i];
        if (extent == RLX_NONE || is_own_output(plan, step, extent)) continue;
        RLX_TRY(bind_extent(arena, slot, extent, tensor, i, *extents));
        (*extents)++;
    }
    return RLX_OK;
}

/* Workspace of no bytes has an address too: kernels clear and copy none of them there. */
static _Alignas(64) uint8_t nothing[64];

static rlx_status bind_workspace(const rlx_arena *arena, const rlx_plan_step *step,
                                 rlx_bound_step *bound) {
    const rlx_plan *plan = arena->plan;
    const rlx_plan_buffer *buffer;
    uint64_t stride;
    bound->workers = UINT32_MAX;
    bound->workspace = nothing;
    if (step->workspace == RLX_NONE || step->workspace_bytes == 0) return RLX_OK;
    buffer = &plan->buffers.items[step->workspace];
    if (!rlx_align_u64(step->workspace_bytes, RLX_PLAN_ALIGNMENT, &stride) ||
        buffer->bytes / stride == 0 || arena->address[buffer->segment] == NULL) {
        return RLX_FAIL(RLX_INVALID_PLAN,
                        "workspace of %" PRIu64 " bytes for one worker in a buffer of %" PRIu64,
                        step->workspace_bytes, buffer->bytes);
    }
    bound->workspace = (uint8_t *)arena->address[buffer->segment] + buffer->offset;
    bound->workspace_stride = stride;
    bound->workers =
        buffer->bytes / stride < UINT32_MAX ? (uint32_t)(buffer->bytes / stride) : UINT32_MAX;
    return RLX_OK;
}

rlx_status rlx_bind_step(const rlx_arena *arena, uint32_t step, rlx_tensor **tensors,
                         rlx_bound_extent **extents, rlx_bound_step *out_bound) {
    const rlx_plan *plan = arena->plan;
    const rlx_plan_step *row = &plan->steps.items[step];
    rlx_bound_extent *first_extent = *extents;
    *out_bound = (rlx_bound_step){.step = row, .tensors = *tensors, .extents = first_extent};
    for (uint32_t i = 0; i < operand_count(row); i++) {
        uint32_t slot = plan->operands.items[row->operands_at + i];
        RLX_TRY_WITH(bind_operand(arena, row, slot, (*tensors)++, extents), "step %u ('%s')", step,
                     row->name);
    }
    out_bound->extent_count = (uint32_t)(*extents - first_extent);
    RLX_TRY_WITH(bind_workspace(arena, row, out_bound), "step %u ('%s')", step, row->name);
    return RLX_OK;
}

bool rlx_bound_refresh(const rlx_bound_step *bound, int64_t *out_value) {
    bool is_good = true;
    for (uint32_t i = 0; i < bound->extent_count; i++) {
        const rlx_bound_extent *extent = &bound->extents[i];
        int64_t value = *extent->address;
        if (value < 0 || value > extent->bound) {
            is_good = false;
            *out_value = value;
            value = extent->bound;
        }
        *extent->dim = value;
    }
    return is_good;
}
