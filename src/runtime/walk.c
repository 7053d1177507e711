/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over an entry: stretches go to the device's stream, host steps to scalar C, reads of
 * weights to a copy engine, jumps are decided here. After each stretch the fault record is read;
 * between stretches the caller may cancel. Nothing in this file allocates while it runs. */
#include "runtime/exec.h"

#include "base/thread.h"

#include <string.h>

static const uint64_t look_up_ns = 50000000; /* how long a wait for a file lasts at once */

static uint32_t count_items(const rlx_exec *exec) {
    const rlx_plan *plan = exec->program->plan;
    uint32_t count = plan->stretches.count - plan->prepare_stretch_count;
    if (exec->options.single_step) return plan->steps.count - plan->prepare_count;
    for (uint32_t i = plan->prepare_count; i < plan->steps.count; i++) {
        uint32_t kind = plan->steps.items[i].kind;
        count += kind != RLX_STEP_KERNEL && kind != RLX_STEP_COPY;
    }
    return count;
}

static rlx_status make_item(rlx_exec *exec, uint32_t first_step, uint32_t step_count,
                            rlx_exec_item *item) {
    const rlx_plan_step *step = &exec->program->plan->steps.items[first_step];
    *item = (rlx_exec_item){.kind = step->kind, .first_step = first_step, .step_count = step_count};
    switch ((rlx_step_kind)step->kind) {
    case RLX_STEP_KERNEL:
    case RLX_STEP_COPY:
        return rlx_stream_prepare(exec->stream, first_step, step_count, &item->stretch);
    case RLX_STEP_HOST:
        return rlx_host_step_prepare(exec, first_step, &item->host);
    case RLX_STEP_COLLECTIVE:
        return rlx_collective_step_prepare(exec, first_step, &item->request);
    case RLX_STEP_JUMP:
    case RLX_STEP_STREAM:
        return RLX_OK;
    default:
        return RLX_FAIL(RLX_UNSUPPORTED, "step %u ('%s'): kind %u cannot run here", first_step,
                        step->name, step->kind);
    }
}

/* Items follow the steps; a stretch is one item, or one per step in single-step mode. */
static rlx_status make_items(rlx_exec *exec) {
    const rlx_plan *plan = exec->program->plan;
    uint32_t stretch = plan->prepare_stretch_count;
    for (uint32_t step = plan->prepare_count; step < plan->steps.count;) {
        uint32_t kind = plan->steps.items[step].kind, count = 1;
        if (!exec->options.single_step && (kind == RLX_STEP_KERNEL || kind == RLX_STEP_COPY)) {
            count = plan->stretches.items[stretch++].step_count;
        }
        exec->item_of_step[step] = exec->item_count;
        RLX_TRY(make_item(exec, step, count, &exec->items[exec->item_count]));
        exec->item_count++;
        step += count;
    }
    exec->item_of_step[plan->steps.count] = exec->item_count;
    return RLX_OK;
}

rlx_status rlx_exec_prepare_items(rlx_exec *exec) {
    uint32_t steps = exec->program->plan->steps.count;
    RLX_TRY(rlx_scratch_array(&exec->memory, count_items(exec), sizeof *exec->items,
                              (void **)&exec->items));
    RLX_TRY(rlx_scratch_array(&exec->memory, (uint64_t)steps + 1, sizeof *exec->item_of_step,
                              (void **)&exec->item_of_step));
    return make_items(exec);
}

/* Reads the fault record, wherever it lies; RLX_FAULT when a kernel raised one. */
static rlx_status check_fault(rlx_exec *exec) {
    rlx_fault fault = {0};
    if (exec->fault != NULL) {
        if (atomic_load_explicit(&exec->fault->claim, memory_order_relaxed) == 0) return RLX_OK;
        return rlx_report_fault(exec->program->plan, exec->fault->step, exec->fault->code,
                                exec->fault->value);
    }
    if (exec->arena->bytes[RLX_SEGMENT_SCRATCH] < RLX_FAULT_BYTES) return RLX_OK;
    RLX_TRY(rlx_arena_read_segment(exec->arena, RLX_SEGMENT_SCRATCH, 0, &fault, sizeof fault));
    if (atomic_load_explicit(&fault.claim, memory_order_relaxed) == 0) return RLX_OK;
    return rlx_report_fault(exec->program->plan, fault.step, fault.code, fault.value);
}

static rlx_status clear_fault(rlx_exec *exec) {
    if (exec->arena->bytes[RLX_SEGMENT_SCRATCH] < RLX_FAULT_BYTES) return RLX_OK;
    return rlx_arena_fill(exec->arena, RLX_SEGMENT_SCRATCH, 0, RLX_FAULT_BYTES, 0);
}

/* The first bytes of a scalar slot. */
static rlx_status read_scalar(rlx_exec *exec, uint32_t slot, void *out, uint64_t bytes) {
    return rlx_arena_read_bytes(exec->arena, slot, 0, out, bytes, 0, NULL);
}

static rlx_status take_jump(rlx_exec *exec, const rlx_exec_item *item, uint32_t *next) {
    const rlx_plan_step *step = &exec->program->plan->steps.items[item->first_step];
    if (step->condition != RLX_NONE) {
        uint8_t flag = 0;
        RLX_TRY(read_scalar(exec, step->condition, &flag, sizeof flag));
        if ((flag != 0) != (step->jump_if != 0)) return RLX_OK;
    }
    if (step->fault_code != 0) {
        int64_t value = 0;
        if (step->value != RLX_NONE) RLX_TRY(read_scalar(exec, step->value, &value, sizeof value));
        return rlx_report_fault(exec->program->plan, item->first_step, step->fault_code, value);
    }
    *next = exec->item_of_step[step->target];
    return RLX_OK;
}

static rlx_status run_host(rlx_exec *exec, const rlx_exec_item *item) {
    if (exec->times != NULL) exec->times[0].start_ns = rlx_now_ns();
    RLX_TRY(rlx_host_step_run(exec, item->host));
    if (exec->times != NULL) exec->times[0].end_ns = rlx_now_ns();
    return RLX_OK;
}

/* In the peers' memory and this one's: nothing else moves. */
static rlx_status run_collective(rlx_exec *exec, const rlx_exec_item *item) {
    const rlx_collective_request *request = item->request;
    if (exec->times != NULL) exec->times[0].start_ns = rlx_now_ns();
    /* A broadcast works on one buffer. */
    if (request->kind == RLX_COLLECTIVE_BROADCAST && request->input != request->output &&
        request->count != 0) {
        memcpy(request->output, request->input, (size_t)request->count);
    }
    RLX_TRY_WITH(rlx_collective_run(exec->options.transport, request), "step %u ('%s')",
                 item->first_step, exec->program->plan->steps.items[item->first_step].name);
    if (exec->times != NULL) exec->times[0].end_ns = rlx_now_ns();
    return RLX_OK;
}

static rlx_status run_stretch(rlx_exec *exec, const rlx_exec_item *item) {
    RLX_TRY(rlx_stream_submit(exec->stream, item->stretch, exec->times));
    return rlx_stream_wait(exec->stream);
}

/* Cancelled from outside, or by the callback? */
static rlx_status check_cancel(rlx_exec *exec, uint32_t entry, const rlx_exec_item *item) {
    const rlx_plan_entry *row = &exec->program->plan->entries.items[entry];
    rlx_progress progress = {entry, item->first_step - row->first_step, row->step_count};
    bool is_cancelled = atomic_load_explicit(&exec->cancel, memory_order_relaxed) != 0;
    if (!is_cancelled && exec->options.progress != NULL && item->kind != RLX_STEP_JUMP &&
        item->kind != RLX_STEP_STREAM) {
        is_cancelled = !exec->options.progress(exec->options.user, &progress);
    }
    if (!is_cancelled) return RLX_OK;
    atomic_store_explicit(&exec->cancel, 0, memory_order_relaxed);
    return RLX_FAIL(RLX_CANCELLED, "cancelled before step %u of %u", progress.step,
                    progress.step_count);
}

static bool is_read(const rlx_exec *exec, const rlx_exec_item *item) {
    return exec->program->plan->steps.items[item->first_step].output_count != 0;
}

/* A slow file does not keep a run from being cancelled. */
static rlx_status run_stream(rlx_exec *exec, uint32_t entry, const rlx_exec_item *item) {
    rlx_step_time time = {.start_ns = exec->times == NULL ? 0 : rlx_now_ns()};
    bool is_done = false;
    for (;;) {
        RLX_TRY(rlx_exec_stream_step(exec, item->first_step, look_up_ns, &is_done));
        if (is_done) break;
        RLX_TRY(check_cancel(exec, entry, item));
    }
    if (exec->times == NULL || is_read(exec, item)) return RLX_OK; /* its time is noted later */
    time.end_ns = rlx_now_ns();
    rlx_exec_note_time(exec, item->first_step, time);
    return RLX_OK;
}

/* Does one item; `next` is where to go on. */
static rlx_status run_item(rlx_exec *exec, uint32_t entry, const rlx_exec_item *item,
                           uint32_t *next) {
    if (item->kind == RLX_STEP_JUMP) return take_jump(exec, item, next);
    if (item->kind == RLX_STEP_STREAM) return run_stream(exec, entry, item);
    if (item->kind == RLX_STEP_HOST) {
        RLX_TRY(run_host(exec, item));
    } else if (item->kind == RLX_STEP_COLLECTIVE) {
        RLX_TRY(run_collective(exec, item));
    } else {
        RLX_TRY(run_stretch(exec, item));
    }
    if (exec->times != NULL) rlx_exec_note_times(exec, item);
    return check_fault(exec);
}

static rlx_status after_item(rlx_exec *exec, const rlx_exec_item *item, bool goes_back,
                             rlx_step_fn after, void *user) {
    if (after != NULL && item->kind != RLX_STEP_JUMP && item->kind != RLX_STEP_STREAM) {
        rlx_step_info info;
        RLX_TRY(rlx_plan_step_at(exec->program->plan, item->first_step, &info));
        if (!after(user, exec, &info)) {
            return RLX_FAIL(RLX_CANCELLED, "cancelled after step %u", item->first_step);
        }
    }
    /* The last step of what lives across a jump back is that jump: it dies when the loop ends. */
    if (!exec->options.poison || goes_back) return RLX_OK;
    return rlx_exec_poison_step(exec, item->first_step);
}

/* One item with what comes before and behind it; *at is where to go on, and stays on failure but
 * for a collective, which the peers know about already. */
static rlx_status walk_item(rlx_exec *exec, uint32_t entry, uint32_t *at, rlx_step_fn after,
                            void *user) {
    const rlx_exec_item *item = &exec->items[*at];
    uint32_t next = *at + 1;
    RLX_TRY(check_cancel(exec, entry, item));
    rlx_status status = run_item(exec, entry, item, &next);
    if (item->kind == RLX_STEP_COLLECTIVE && status != RLX_OK) *at = exec->item_count;
    if (status != RLX_OK) return status;
    bool goes_back = next <= *at;
    *at = next;
    return after_item(exec, item, goes_back, after, user);
}

static rlx_status walk(rlx_exec *exec, uint32_t entry, rlx_step_fn after, void *user) {
    const rlx_plan_entry *row = &exec->program->plan->entries.items[entry];
    uint32_t at = exec->item_of_step[row->first_step];
    uint32_t end = exec->item_of_step[row->first_step + row->step_count];
    rlx_status status = clear_fault(exec);
    if (status == RLX_OK) status = rlx_exec_begin_streams(exec);
    while (status == RLX_OK && at < end)
        status = walk_item(exec, entry, &at, after, user);
    if (status != RLX_OK && exec->options.transport != NULL) {
        rlx_exec_abandon_run(exec, entry, at);
    }
    return status;
}

static rlx_status run_locked(rlx_exec *exec, uint32_t entry, rlx_step_fn after, void *user) {
    rlx_status status;
    RLX_TRY(rlx_exec_check_inputs(exec, entry));
    rlx_exec_begin_run(exec, entry);
    exec->run_event = exec->event_count;
    status = walk(exec, entry, after, user);
    if (status != RLX_OK) rlx_exec_drain_streams(exec);
    rlx_exec_end_run(exec, entry, status == RLX_OK);
    return status;
}

static rlx_status run(rlx_exec *exec, uint32_t entry, rlx_step_fn after, void *user) {
    rlx_status status;
    RLX_TRY(rlx_exec_enter(exec));
    status = run_locked(exec, entry, after, user);
    rlx_exec_leave(exec);
    return status;
}

rlx_status rlx_exec_run(rlx_exec *exec, uint32_t entry) {
    return run(exec, entry, NULL, NULL);
}

rlx_status rlx_exec_run_steps(rlx_exec *exec, uint32_t entry, rlx_step_fn after, void *user) {
    if (exec == NULL || after == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "exec or callback is NULL");
    }
    if (!exec->options.single_step) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "the executable was not made with single_step");
    }
    return run(exec, entry, after, user);
}
