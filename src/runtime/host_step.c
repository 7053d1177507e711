/* SPDX-License-Identifier: Apache-2.0 */
/* Host steps: ops that a device has no code for, done by scalar C on mapped memory. */
#include "runtime/exec.h"

#include "base/thread.h"

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
    RLX_TRY(rlx_bind_step(exec->arena, step, &tensors, &extents, &host->bound));
    host->args = (rlx_kernel_args){.op = row->op,
                                   .step = step,
                                   .attrs = row->attrs,
                                   .in = host->bound.tensors,
                                   .out = host->bound.tensors + row->input_count,
                                   .in_count = row->input_count,
                                   .out_count = row->output_count,
                                   .fault = exec->fault,
                                   .workspace = host->bound.workspace};
    RLX_TRY_WITH(choose(row, host), "step %u ('%s')", step, row->name);
    *out_host = host;
    return RLX_OK;
}

void rlx_host_step_run(rlx_host_step *host) {
    rlx_fp_mode saved = rlx_fp_mode_enter();
    int64_t value = 0, items;
    if (host->bound.extent_count != 0 && !rlx_bound_refresh(&host->bound, &value)) {
        rlx_fault_raise(&host->args, RLX_FAULT_BOUND, value);
    }
    items = host->kernel->items(&host->args);
    if (items > 0) host->kernel->run(&host->args, 0, items);
    rlx_fp_mode_leave(saved);
}
