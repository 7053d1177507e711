/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a new program: memory, data from the sources, prepare steps. Raw parameters that
 * no run reads live in a temporary SOURCE segment, each as long as prepare steps need it; it is
 * gone when this returns. */
#include "ir/source.h"
#include "ref/kernel.h"
#include "runtime/program.h"

#include <string.h>

enum { PIECE_BYTES = 4 << 20, GIVE_BACK_BYTES = 1 << 20 };

/* Every buffer is written, by a source or a prepare step; what lies between them is zero. Nothing
 * else is touched: pages become real as weights arrive. */
static rlx_status allocate_weights(rlx_program *program) {
    const rlx_plan *plan = program->plan;
    uint64_t bytes = plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    RLX_TRY_WITH(
        rlx_alloc_aligned(&program->allocator, bytes, program->plan->alignment, &program->owned),
        "weights");
    rlx_prefer_large_pages(program->owned, bytes);
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        uint64_t end = buffer->offset + buffer->bytes; /* verified: inside the segment */
        uint64_t gap = (plan->alignment - end % plan->alignment) % plan->alignment;
        if (buffer->segment != RLX_SEGMENT_WEIGHTS) continue;
        if (gap > bytes - end) gap = bytes - end;
        if (gap > 0) memset((char *)program->owned + end, 0, (size_t)gap);
    }
    program->weights = program->owned;
    return RLX_OK;
}

/* How far it is, and whom to tell. */
typedef struct watch {
    const rlx_program_options *options;
    uint64_t done, total; /* bytes */
} watch;

static rlx_status tell(const watch *self) {
    const rlx_program_options *options = self->options;
    if (options->progress == NULL || options->progress(options->user, self->done, self->total)) {
        return RLX_OK;
    }
    return RLX_FAIL(RLX_CANCELLED,
                    "cancelled with %" PRIu64 " of %" PRIu64 " bytes of weights read", self->done,
                    self->total);
}

/* Piece by piece, so that a large weight can be cancelled too. */
static rlx_status read_pieces(const rlx_source *source, rlx_dtype dtype, uint64_t count,
                              uint8_t *data, watch *self) {
    uint64_t block = rlx_dtype_block_elements(dtype), block_bytes = rlx_dtype_block_bytes(dtype);
    uint64_t piece = PIECE_BYTES / block_bytes * block;
    for (uint64_t at = 0; at < count; at += piece) {
        uint64_t now = count - at < piece ? count - at : piece;
        RLX_TRY(tell(self));
        RLX_TRY(rlx_source_read(source, dtype, at, now, data + at / block * block_bytes));
        self->done += (now + block - 1) / block * block_bytes;
    }
    return RLX_OK;
}

static rlx_status read_source(const rlx_plan *plan, rlx_arena *arena, const rlx_plan_source *source,
                              watch *self) {
    const rlx_plan_slot *slot = &plan->slots.items[source->slot];
    rlx_tensor tensor = rlx_arena_tensor(arena, source->slot);
    if (tensor.data == NULL) {
        return RLX_FAIL(RLX_INVALID_PLAN, "parameter '%s' has no memory", slot->name);
    }
    if (source->source.kind == RLX_SOURCE_NONE) {
        return RLX_FAIL(RLX_NOT_FOUND, "parameter '%s' has no data: it was never given a source",
                        slot->name);
    }
    if (source->window.rows != 0) {
        uint64_t bytes = 0;
        RLX_TRY(tell(self));
        RLX_TRY_WITH(
            rlx_source_read_window(&source->source, slot->dtype, &source->window, tensor.data),
            "parameter '%s'", slot->name);
        RLX_TRY(rlx_plan_slot_bytes(slot, &bytes));
        self->done += bytes;
        return RLX_OK;
    }
    RLX_TRY_WITH(read_pieces(&source->source, slot->dtype, (uint64_t)rlx_tensor_elements(&tensor),
                             tensor.data, self),
                 "parameter '%s'", slot->name);
    return RLX_OK;
}

static rlx_status sum_sources(const rlx_plan *plan, uint64_t *out_total) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->sources.count; i++) {
        RLX_TRY(rlx_plan_slot_bytes(&plan->slots.items[plan->sources.items[i].slot], &bytes));
        *out_total += bytes;
    }
    return RLX_OK;
}

/* The prepare step before which source `index` must be read; UINT32_MAX past the last source. */
static uint32_t due(const rlx_plan *plan, uint32_t index) {
    if (index >= plan->sources.count) return UINT32_MAX;
    const rlx_plan_slot *slot = &plan->slots.items[plan->sources.items[index].slot];
    const rlx_plan_buffer *buffer = &plan->buffers.items[slot->buffer];
    return buffer->entry == RLX_PLAN_PREPARE ? buffer->first_step : 0;
}

static rlx_status run_steps(rlx_stream *stream, uint32_t first, uint32_t end) {
    rlx_stretch *stretch = NULL;
    rlx_status status;
    if (first >= end) return RLX_OK;
    RLX_TRY(rlx_stream_prepare(stream, first, end - first, &stretch));
    status = rlx_stream_submit(stream, stretch, NULL);
    if (status == RLX_OK) status = rlx_stream_wait(stream);
    rlx_stream_release(stream, stretch);
    return status;
}

/* The SOURCE segment in host memory; NULL where it is not mapped. */
static char *source_memory(const rlx_plan *plan, const rlx_arena *arena) {
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        const rlx_plan_slot *slot = &plan->slots.items[i];
        const rlx_plan_buffer *buffer = &plan->buffers.items[slot->buffer];
        if (buffer->segment != RLX_SEGMENT_SOURCE || buffer->bytes == 0) continue;
        char *address = rlx_arena_address(arena, i);
        return address == NULL ? NULL : address - slot->byte_offset - buffer->offset;
    }
    return NULL;
}

/* How many bytes of the SOURCE segment steps from `step` on need. */
static uint64_t still_needed(const rlx_plan *plan, uint32_t step) {
    uint64_t needed = 0;
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (buffer->segment != RLX_SEGMENT_SOURCE || buffer->last_step < step) continue;
        if (buffer->offset + buffer->bytes > needed) needed = buffer->offset + buffer->bytes;
    }
    return needed;
}

/* Memory of large weights is given back before that of all the others is taken. */
static void give_back(const rlx_plan *plan, char *memory, uint32_t step, uint64_t *resident) {
    uint64_t needed = memory == NULL ? *resident : still_needed(plan, step);
    if (needed > *resident || *resident - needed < GIVE_BACK_BYTES) return;
    rlx_forget_pages(memory + needed, *resident - needed);
    *resident = needed;
}

/* A stretch of prepare steps, cut where sources are due: before that their memory is another's. */
static rlx_status run_stretch(const rlx_program *program, rlx_arena *arena, rlx_stream *stream,
                              const rlx_plan_stretch *row, uint32_t *next_source, watch *self) {
    const rlx_plan *plan = program->plan;
    char *memory = source_memory(plan, arena);
    uint64_t resident = plan->segment_bytes[RLX_SEGMENT_SOURCE];
    uint32_t at = row->first_step, end = at + row->step_count;
    while (at < end) {
        for (; due(plan, *next_source) <= at; ++*next_source)
            RLX_TRY(read_source(plan, arena, &plan->sources.items[*next_source], self));
        give_back(plan, memory, at, &resident);
        uint32_t until = due(plan, *next_source);
        if (until > end) until = end;
        RLX_TRY(run_steps(stream, at, until));
        at = until;
    }
    return RLX_OK;
}

static rlx_status run_prepare(const rlx_program *program, rlx_arena *arena, watch *self) {
    const rlx_plan *plan = program->plan;
    rlx_fault fault = {0};
    rlx_stream *stream = NULL;
    uint32_t next_source = 0;
    rlx_status status = RLX_OK;
    RLX_TRY(sum_sources(plan, &self->total));
    for (; next_source < plan->sources.count && due(plan, next_source) == 0; next_source++)
        RLX_TRY(read_source(plan, arena, &plan->sources.items[next_source], self));
    if (plan->prepare_stretch_count == 0) return tell(self);
    RLX_TRY(rlx_device_create_stream(program->device, &program->allocator, arena, &stream));
    stream->fault = &fault;
    for (uint32_t i = 0; status == RLX_OK && i < plan->prepare_stretch_count; i++) {
        status = tell(self);
        if (status == RLX_OK) {
            status =
                run_stretch(program, arena, stream, &plan->stretches.items[i], &next_source, self);
        }
        if (status == RLX_OK && atomic_load(&fault.claim) != 0) {
            status = rlx_report_fault(plan, fault.step, fault.code, fault.value);
        }
    }
    rlx_stream_destroy(stream);
    return status == RLX_OK ? tell(self) : status;
}

rlx_status rlx_program_fill_weights(rlx_program *program, const rlx_program_options *options) {
    rlx_arena_request request = {.allocator = &program->allocator,
                                 .plan = program->plan,
                                 .segments = RLX_SEGMENTS_PREPARE,
                                 .weights_writable = true};
    watch self = {.options = options};
    rlx_arena *arena = NULL;
    rlx_status status;
    RLX_TRY(allocate_weights(program));
    request.memory[RLX_SEGMENT_WEIGHTS].address = program->weights;
    request.memory[RLX_SEGMENT_WEIGHTS].bytes = program->plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    RLX_TRY(rlx_device_create_arena(program->device, &request, &arena));
    status = run_prepare(program, arena, &self);
    rlx_arena_destroy(arena);
    return status;
}
