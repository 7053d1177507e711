/* SPDX-License-Identifier: Apache-2.0 */
/* The weights of a new program: memory, data from the sources, prepare steps. The raw parameters
 * live in a temporary SOURCE segment that is gone when this returns. */
#include "ir/source.h"
#include "ref/kernel.h"
#include "runtime/program.h"

#include <string.h>

enum { PIECE_BYTES = 4 << 20 };

static rlx_status allocate_weights(rlx_program *program) {
    uint64_t bytes = program->plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    RLX_TRY_WITH(
        rlx_alloc_aligned(&program->allocator, bytes, program->plan->alignment, &program->owned),
        "weights");
    if (bytes != 0) memset(program->owned, 0, (size_t)bytes);
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
    RLX_TRY_WITH(read_pieces(&source->source, slot->dtype, (uint64_t)rlx_tensor_elements(&tensor),
                             tensor.data, self),
                 "parameter '%s'", slot->name);
    return RLX_OK;
}

static rlx_status read_sources(const rlx_program *program, rlx_arena *arena, watch *self) {
    const rlx_plan *plan = program->plan;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->sources.count; i++) {
        RLX_TRY(rlx_plan_slot_bytes(&plan->slots.items[plan->sources.items[i].slot], &bytes));
        self->total += bytes;
    }
    for (uint32_t i = 0; i < plan->sources.count; i++)
        RLX_TRY(read_source(plan, arena, &plan->sources.items[i], self));
    return tell(self);
}

static rlx_status run_stretch(rlx_stream *stream, const rlx_plan_stretch *row) {
    rlx_stretch *stretch = NULL;
    rlx_status status;
    RLX_TRY(rlx_stream_prepare(stream, row->first_step, row->step_count, &stretch));
    status = rlx_stream_submit(stream, stretch, NULL);
    if (status == RLX_OK) status = rlx_stream_wait(stream);
    rlx_stream_release(stream, stretch);
    return status;
}

static rlx_status run_prepare(const rlx_program *program, rlx_arena *arena, const watch *self) {
    const rlx_plan *plan = program->plan;
    rlx_fault fault = {0};
    rlx_stream *stream = NULL;
    rlx_status status = RLX_OK;
    if (plan->prepare_stretch_count == 0) return RLX_OK;
    RLX_TRY(rlx_device_create_stream(program->device, &program->allocator, arena, &stream));
    stream->fault = &fault;
    for (uint32_t i = 0; status == RLX_OK && i < plan->prepare_stretch_count; i++) {
        status = tell(self);
        if (status == RLX_OK) status = run_stretch(stream, &plan->stretches.items[i]);
        if (status == RLX_OK && atomic_load(&fault.claim) != 0) {
            status = rlx_report_fault(plan, fault.step, fault.code, fault.value);
        }
    }
    rlx_stream_destroy(stream);
    return status;
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
    status = read_sources(program, arena, &self);
    if (status == RLX_OK) status = run_prepare(program, arena, &self);
    rlx_arena_destroy(arena);
    return status;
}
