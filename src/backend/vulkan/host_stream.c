/* SPDX-License-Identifier: Apache-2.0 */
/* Prepare steps on the host: weights in the making are host memory, and scalar C works on them, one
 * step after the other. They are made once per program. */
#include "backend/vulkan/device.h"

#include "driver/bind.h"
#include "ref/kernel.h"

#include <string.h>

static rlx_status run_copy(const rlx_plan *plan, const rlx_bound_step *bound) {
    uint64_t bytes = 0;
    RLX_TRY(rlx_plan_slot_bytes(&plan->slots.items[plan->operands.items[bound->step->operands_at]],
                                &bytes));
    if (bytes != 0) memmove(bound->tensors[1].data, bound->tensors[0].data, (size_t)bytes);
    return RLX_OK;
}

static rlx_status run_kernel(rlx_stream *base, rlx_scratch *memory, uint32_t step,
                             const rlx_bound_step *bound) {
    const rlx_plan_step *row = bound->step;
    const rlx_kernel *kernel = rlx_ref_kernel(row->op);
    rlx_kernel_args args = {.op = row->op,
                            .step = step,
                            .attrs = row->attrs,
                            .in = bound->tensors,
                            .out = bound->tensors + row->input_count,
                            .in_count = row->input_count,
                            .out_count = row->output_count,
                            .fault = base->fault};
    int64_t items;
    if (kernel == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "no scalar kernel for op '%s'", rlx_op_name(row->op));
    }
    if (kernel->workspace_bytes != NULL) {
        RLX_TRY(rlx_scratch_alloc(memory, kernel->workspace_bytes(&args), &args.workspace));
    }
    items = kernel->items(&args);
    if (items > 0) kernel->run(&args, 0, items);
    return RLX_OK;
}

static rlx_status run_step(rlx_stream *base, rlx_scratch *memory, uint32_t step) {
    uint64_t tensor_count = 0, extent_count = 0;
    rlx_tensor *tensors = NULL;
    rlx_bound_extent *extents = NULL;
    rlx_bound_step bound;
    int64_t value = 0;
    rlx_bind_room(base->arena->plan, step, &tensor_count, &extent_count);
    RLX_TRY(rlx_scratch_array(memory, tensor_count, sizeof *tensors, (void **)&tensors));
    RLX_TRY(rlx_scratch_array(memory, extent_count, sizeof *extents, (void **)&extents));
    RLX_TRY(rlx_bind_step(base->arena, step, &tensors, &extents, &bound));
    if (bound.step->kind == RLX_STEP_COPY) return run_copy(base->arena->plan, &bound);
    if (bound.extent_count != 0 && !rlx_bound_refresh(&bound, &value)) {
        rlx_kernel_args args = {.step = step, .fault = base->fault};
        rlx_fault_raise(&args, RLX_FAULT_BOUND, value);
    }
    return run_kernel(base, memory, step, &bound);
}

static rlx_status host_submit(rlx_stream *base, rlx_stretch *stretch, rlx_step_time *times) {
    rlx_fp_mode saved = rlx_fp_mode_enter();
    rlx_status status = RLX_OK;
    for (uint32_t i = 0; status == RLX_OK && i < stretch->step_count; i++) {
        rlx_scratch memory = {.allocator = &base->allocator};
        uint64_t start = rlx_now_ns();
        status = run_step(base, &memory, stretch->first_step + i);
        rlx_scratch_reset(&memory);
        if (times != NULL) times[i] = (rlx_step_time){start, rlx_now_ns()};
    }
    rlx_fp_mode_leave(saved);
    return status;
}

static rlx_status host_prepare(rlx_stream *base, uint32_t first_step, uint32_t step_count,
                               rlx_stretch **out_stretch) {
    rlx_stretch *self = NULL;
    RLX_TRY(rlx_alloc_zero(&base->allocator, sizeof *self, (void **)&self));
    *self = (rlx_stretch){base, first_step, step_count};
    *out_stretch = self;
    return RLX_OK;
}

static void host_release(rlx_stream *base, rlx_stretch *stretch) {
    rlx_free(&base->allocator, stretch);
}

static void host_destroy(rlx_stream *base) {
    rlx_allocator allocator = base->allocator;
    rlx_free(&allocator, base);
}

static const rlx_stream_ops host_ops = {.destroy = host_destroy,
                                        .prepare = host_prepare,
                                        .release = host_release,
                                        .submit = host_submit};

rlx_status rlx_vk_create_host_stream(const rlx_allocator *allocator, rlx_arena *arena,
                                     rlx_stream **out_stream) {
    rlx_stream *self = NULL;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->ops = &host_ops;
    self->allocator = *allocator;
    self->arena = arena;
    *out_stream = self;
    return RLX_OK;
}
