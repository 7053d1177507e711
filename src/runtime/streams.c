/* SPDX-License-Identifier: Apache-2.0 */
/* Weights that are read during a run. A stream step either hands the read of a tile to the
 * executable's own copy engine or waits for it; both were planned (plan/budget.c) and proven
 * (plan/verify_stream.c), so nothing is decided here. A run that ends early waits for its reads
 * before it returns: they write into the arena. */
#include "runtime/streams.h"

#include "base/thread.h"

#include <string.h>

static const rlx_plan_tile *tile_of(const rlx_exec *exec, uint32_t step, uint32_t *out_index) {
    const rlx_plan *plan = exec->program->plan;
    *out_index = plan->steps.items[step].target;
    return &plan->stream.tiles.items[*out_index];
}

/* On a copy thread, with a profile only: the last read of a tile says when the tile was there. */
static int64_t note_result(void *user, uint64_t offset, uint64_t bytes, int64_t result) {
    rlx_exec_streams *streams = user;
    (void)bytes;
    for (uint32_t i = 0; i < RLX_STREAMS_NOTED; i++) {
        rlx_noted_read *read = &streams->noted[i];
        uint64_t begin = atomic_load_explicit(&read->begin, memory_order_acquire);
        if (offset < begin || offset >= atomic_load(&read->end)) continue;
        atomic_store_explicit(&read->done_ns, rlx_now_ns(), memory_order_relaxed);
    }
    return result;
}

static rlx_status make_engine(rlx_exec *exec) {
    rlx_exec_streams *streams = exec->streams;
    RLX_TRY_WITH(rlx_device_create_copy_engine(exec->program->device, exec->arena, &exec->allocator,
                                               NULL, &streams->engine),
                 "streamed weights");
    rlx_copy_set_hooks(streams->engine, &streams->hooks);
    return RLX_OK;
}

rlx_status rlx_exec_prepare_streams(rlx_exec *exec) {
    uint32_t tiles = exec->program->plan->stream.tiles.count;
    rlx_exec_streams *streams = NULL;
    if (tiles == 0) return RLX_OK;
    if (exec->arena->address[RLX_SEGMENT_TILES] == NULL &&
        exec->arena->stand_in[RLX_SEGMENT_TILES] == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "a weights budget: no copy engine reaches this memory");
    }
    RLX_TRY(rlx_scratch_alloc(&exec->memory, sizeof *streams, (void **)&streams));
    RLX_TRY(rlx_scratch_array(&exec->memory, tiles, sizeof *streams->tokens,
                              (void **)&streams->tokens));
    exec->streams = streams;
    if (exec->options.profile) {
        RLX_TRY(rlx_scratch_array(&exec->memory, RLX_STREAMS_NOTED, sizeof *streams->noted,
                                  (void **)&streams->noted));
        streams->hooks = (rlx_copy_hooks){.result = note_result, .user = streams};
    }
    return make_engine(exec);
}

void rlx_exec_destroy_streams(rlx_exec *exec) {
    if (exec->streams != NULL) rlx_copy_engine_destroy(exec->streams->engine);
}

rlx_status rlx_exec_set_stream_hooks(rlx_exec *exec, const rlx_copy_hooks *hooks) {
    if (exec->streams == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "nothing is streamed");
    exec->streams->hooks = *hooks;
    exec->streams->is_worn = true;
    return RLX_OK;
}

rlx_status rlx_exec_begin_streams(rlx_exec *exec) {
    rlx_exec_streams *streams = exec->streams;
    if (streams == NULL) return RLX_OK;
    streams->first = streams->count = 0;
    if (!streams->is_worn) return RLX_OK;
    /* An engine remembers each failure, and refuses work after some of them. */
    rlx_copy_engine_destroy(streams->engine);
    streams->engine = NULL;
    RLX_TRY(make_engine(exec));
    streams->is_worn = false;
    return RLX_OK;
}

static void note_issue(rlx_exec_streams *streams, uint64_t offset, uint64_t bytes) {
    rlx_noted_read *read;
    if (streams->noted == NULL) return;
    read = &streams->noted[streams->issued % RLX_STREAMS_NOTED];
    read->issued_ns = rlx_now_ns();
    atomic_store(&read->done_ns, 0);
    atomic_store(&read->end, offset + bytes);
    atomic_store_explicit(&read->begin, offset, memory_order_release);
}

static rlx_status issue(rlx_exec *exec, uint32_t step) {
    rlx_exec_streams *streams = exec->streams;
    const rlx_program *program = exec->program;
    uint32_t index;
    const rlx_plan_tile *tile = tile_of(exec, step, &index);
    uint64_t offset = program->weights_offset + tile->source_offset;
    note_issue(streams, offset, tile->bytes);
    RLX_TRY(rlx_copy_issue(
        streams->engine, (rlx_copy_source){.file = program->file, .offset = offset},
        rlx_arena_copy_address(exec->arena, tile->slot), tile->bytes, &streams->tokens[index]));
    streams->issued++;
    if (streams->count == 0) streams->first = index;
    streams->count++;
    return RLX_OK;
}

/* What a trace shows of the read: from when it could begin to when its last byte was there. */
static void note_read(rlx_exec *exec, const rlx_plan_tile *tile) {
    rlx_exec_streams *streams = exec->streams;
    rlx_noted_read *read;
    rlx_step_time time;
    if (streams->noted == NULL) return;
    read = &streams->noted[(streams->issued - streams->count) % RLX_STREAMS_NOTED];
    time.end_ns = atomic_load(&read->done_ns);
    atomic_store(&read->begin, UINT64_MAX);
    time.start_ns =
        read->issued_ns > streams->last_done_ns ? read->issued_ns : streams->last_done_ns;
    if (time.end_ns < time.start_ns) time.end_ns = time.start_ns;
    streams->last_done_ns = time.end_ns;
    rlx_exec_note_time(exec, tile->read_step, time);
}

rlx_status rlx_exec_stream_step(rlx_exec *exec, uint32_t step, uint64_t timeout_ns,
                                bool *out_done) {
    rlx_exec_streams *streams = exec->streams;
    const rlx_plan_tile *tile;
    uint32_t index;
    rlx_status status;
    *out_done = true;
    tile = tile_of(exec, step, &index);
    if (step == tile->read_step) return issue(exec, step);
    status = rlx_copy_wait_for(streams->engine, streams->tokens[index], timeout_ns);
    if (status == RLX_TIMEOUT) {
        *out_done = false;
        return RLX_OK;
    }
    if (status != RLX_OK) {
        return rlx_fail_context(status, "streamed weights, step %u ('%.80s')", step,
                                exec->program->plan->steps.items[step].name);
    }
    note_read(exec, tile);
    streams->first = index + 1;
    streams->count--;
    return RLX_OK;
}

void rlx_exec_drain_streams(rlx_exec *exec) {
    rlx_exec_streams *streams = exec->streams;
    rlx_error_record record;
    if (streams == NULL || streams->count == 0) return;
    rlx_error_save(&record); /* the run's own failure is the one to tell */
    for (uint32_t i = 0; i < streams->count; i++) {
        if (rlx_copy_wait(streams->engine, streams->tokens[streams->first + i]) != RLX_OK) {
            streams->is_worn = true;
        }
    }
    streams->count = 0;
    rlx_error_restore(&record);
}
