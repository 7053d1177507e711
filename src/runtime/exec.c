/* SPDX-License-Identifier: Apache-2.0 */
/* Making and cloning executables. Everything a run needs is made here, so that runs allocate
 * nothing. Running is walk.c; inputs and outputs are ports.c. */
#include "runtime/exec.h"

#include "base/options.h"

#include <string.h>

rlx_status rlx_exec_enter(rlx_exec *exec) {
    if (exec == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "exec is NULL");
    if (atomic_exchange_explicit(&exec->in_use, 1, memory_order_acquire) != 0) {
        return RLX_FAIL(RLX_BUSY, "the executable is in use by another call: one at a time");
    }
    return RLX_OK;
}

void rlx_exec_leave(rlx_exec *exec) {
    atomic_store_explicit(&exec->in_use, 0, memory_order_release);
}

static rlx_status make_arena(rlx_exec *exec, bool owns_weights) {
    const rlx_exec_options *options = &exec->options;
    rlx_program *program = exec->program;
    rlx_arena_request request = {.allocator = &exec->allocator, .plan = program->plan};
    if (!owns_weights) {
        request.memory[RLX_SEGMENT_WEIGHTS] =
            (rlx_arena_memory){program->weights, rlx_program_weights_bytes(program)};
    }
    request.memory[RLX_SEGMENT_STATE] =
        (rlx_arena_memory){options->state_memory, options->state_bytes};
    request.memory[RLX_SEGMENT_SCRATCH] =
        (rlx_arena_memory){options->scratch_memory, options->scratch_bytes};
    RLX_TRY(rlx_device_create_arena(program->device, &request, &exec->arena));
    if (exec->arena->bytes[RLX_SEGMENT_SCRATCH] >= RLX_FAULT_BYTES) {
        exec->fault = exec->arena->address[RLX_SEGMENT_SCRATCH];
    }
    return RLX_OK;
}

static rlx_status make_tables(rlx_exec *exec) {
    uint32_t ports = exec->program->plan->ports.count;
    RLX_TRY(rlx_scratch_array(&exec->memory, ports, sizeof(bool), (void **)&exec->is_set));
    RLX_TRY(rlx_scratch_array(&exec->memory, ports, sizeof(bool), (void **)&exec->is_lost));
    RLX_TRY(rlx_exec_prepare_items(exec));
    RLX_TRY(rlx_exec_prepare_streams(exec));
    if (exec->options.poison) RLX_TRY(rlx_exec_prepare_poison(exec));
    if (exec->options.profile) RLX_TRY(rlx_exec_prepare_profile(exec));
    return RLX_OK;
}

static rlx_status fill(rlx_exec *exec, bool owns_weights) {
    RLX_TRY(make_arena(exec, owns_weights));
    RLX_TRY(rlx_device_create_stream(exec->program->device, &exec->allocator, exec->arena,
                                     &exec->stream));
    return make_tables(exec);
}

/* Ranks begin and end together: none is left with an executable that its peers do not have. */
static rlx_status fill_ranked(rlx_exec *exec, bool owns_weights) {
    bool is_ranked = exec->program->plan->rank_count > 1 || exec->options.transport != NULL;
    if (!is_ranked) return fill(exec, owns_weights);
    RLX_TRY(rlx_exec_join_ranks(exec));
    rlx_status status = fill(exec, owns_weights);
    if (status == RLX_UNSUPPORTED) {
        status = rlx_fail_context(status, "several ranks keep state and scratch in their heap");
    }
    return rlx_exec_agree(exec, status);
}

static rlx_status create(rlx_program *program, const rlx_exec_options *options, bool owns_weights,
                         rlx_exec **out_exec) {
    const rlx_allocator *allocator =
        options->allocator != NULL ? options->allocator : rlx_default_allocator();
    rlx_exec *exec = NULL;
    rlx_status status;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *exec, (void **)&exec));
    exec->allocator = *allocator;
    exec->options = *options;
    exec->options.allocator = &exec->allocator;
    exec->program = rlx_program_retain(program);
    exec->memory.allocator = &exec->allocator;
    exec->input_entry = exec->ran_entry = RLX_NONE;
    exec->heap_offset = RLX_NO_OFFSET;
    status = fill_ranked(exec, owns_weights);
    if (status != RLX_OK) {
        rlx_exec_destroy(exec);
        return status;
    }
    *out_exec = exec;
    return RLX_OK;
}

rlx_status rlx_exec_create(rlx_program *program, const rlx_exec_options *options,
                           rlx_exec **out_exec) {
    rlx_exec_options full = {.size = sizeof full};
    if (program == NULL || out_exec == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "program or out_exec is NULL");
    }
    RLX_TRY(rlx_options_read(options, sizeof full, "executable", &full));
    full.single_step = full.single_step || full.poison;
    return create(program, &full, false, out_exec);
}

rlx_status rlx_exec_warm_up(rlx_exec *exec) {
    rlx_status status = RLX_OK;
    RLX_TRY(rlx_exec_enter(exec));
    for (uint32_t i = 0; i < exec->item_count && status == RLX_OK; i++) {
        if (exec->items[i].stretch == NULL) continue;
        status = rlx_stream_warm_up(exec->stream, exec->items[i].stretch);
    }
    rlx_exec_leave(exec);
    return status == RLX_OK ? RLX_OK : rlx_fail_context(status, "warming up");
}

void rlx_exec_destroy(rlx_exec *exec) {
    rlx_allocator allocator;
    if (exec == NULL) return;
    allocator = exec->allocator;
    rlx_exec_destroy_streams(exec); /* first: its reads write into the arena */
    for (uint32_t i = 0; i < exec->item_count; i++)
        rlx_stream_release(exec->stream, exec->items[i].stretch);
    rlx_stream_destroy(exec->stream);
    rlx_arena_destroy(exec->arena);
    rlx_exec_leave_ranks(exec);
    rlx_scratch_reset(&exec->memory);
    rlx_program_release(exec->program);
    rlx_free(&allocator, exec);
}

static rlx_status clone_locked(rlx_exec *exec, uint32_t flags, rlx_exec **out_exec) {
    rlx_exec_options options = exec->options;
    uint32_t ports = exec->program->plan->ports.count;
    rlx_exec *twin = NULL;
    rlx_status status;
    options.state_memory = options.scratch_memory = NULL;
    RLX_TRY(create(exec->program, &options, (flags & RLX_CLONE_OWN_ALL) != 0, &twin));
    status = rlx_arena_copy_to(exec->arena, twin->arena);
    if (status != RLX_OK) {
        rlx_exec_destroy(twin);
        return status;
    }
    memcpy(twin->is_set, exec->is_set, ports * sizeof(bool));
    memcpy(twin->is_lost, exec->is_lost, ports * sizeof(bool));
    twin->input_entry = exec->input_entry;
    twin->ran_entry = exec->ran_entry;
    *out_exec = twin;
    return RLX_OK;
}

rlx_status rlx_exec_clone(rlx_exec *exec, uint32_t flags, rlx_exec **out_exec) {
    rlx_status status;
    if (out_exec == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_exec is NULL");
    RLX_TRY(rlx_exec_enter(exec));
    status = clone_locked(exec, flags, out_exec);
    rlx_exec_leave(exec);
    return status;
}

rlx_program *rlx_exec_program(const rlx_exec *exec) {
    return exec->program;
}

rlx_arena *rlx_exec_arena(const rlx_exec *exec) {
    return exec->arena;
}

void rlx_exec_cancel(rlx_exec *exec) {
    if (exec != NULL) atomic_store_explicit(&exec->cancel, 1, memory_order_relaxed);
}
