/* SPDX-License-Identifier: Apache-2.0 */
/* Verifier, part five: weights that are read while a run goes on. Each tile is a buffer of its own
 * whose life begins with its read, so the overlap check of all buffers says that nobody else has
 * its bytes until its last use. Here: each is read once and waited for once after that, nobody
 * looks at it before, and no jump leads into or out of its life, so that the order of the steps is
 * the order of the run. */
#include "plan/verify.h"

#include "plan/file.h"

static rlx_status check_pieces(const rlx_plan *plan) {
    uint64_t at = 0, source = 0;
    for (uint32_t i = 0; i < plan->stream.pieces.count; i++) {
        const rlx_plan_piece *piece = &plan->stream.pieces.items[i];
        if (piece->offset != at || piece->bytes == 0 || piece->source_offset < source ||
            piece->source_offset % RLX_FILE_PAGE_BYTES != 0 ||
            piece->source_offset > plan->stream.source_bytes ||
            piece->bytes > plan->stream.source_bytes - piece->source_offset) {
            return INVALID_PLAN("resident piece %u: [%" PRIu64 " + %" PRIu64 ") of %" PRIu64
                                " bytes at %" PRIu64 ", expected at %" PRIu64,
                                i, piece->source_offset, piece->bytes, plan->stream.source_bytes,
                                piece->offset, at);
        }
        bool is_last = i + 1 == plan->stream.pieces.count;
        if (!is_last && piece->bytes % RLX_FILE_PAGE_BYTES != 0) {
            return INVALID_PLAN("resident piece %u: %" PRIu64 " bytes are no whole pages", i,
                                piece->bytes);
        }
        at += piece->bytes;
        source = piece->source_offset + piece->bytes;
    }
    if (at != plan->segment_bytes[RLX_SEGMENT_WEIGHTS]) {
        return INVALID_PLAN("resident pieces of %" PRIu64 " bytes, weights of %" PRIu64, at,
                            plan->segment_bytes[RLX_SEGMENT_WEIGHTS]);
    }
    return RLX_OK;
}

/* The tile's slot is the whole of a buffer of its own. */
static rlx_status check_tile(plan_check *check, uint32_t index) {
    const rlx_plan *plan = check->plan;
    const rlx_plan_tile *tile = &plan->stream.tiles.items[index];
    uint64_t limit = plan->stream.source_bytes;
    if (tile->slot >= plan->slots.count) {
        return INVALID_PLAN("slot %u of %u", tile->slot, plan->slots.count);
    }
    const rlx_plan_slot *slot = &plan->slots.items[tile->slot];
    const rlx_plan_buffer *buffer = &plan->buffers.items[slot->buffer];
    if (buffer->segment != RLX_SEGMENT_TILES || slot->dtype != RLX_DTYPE_U8 || slot->rank != 1 ||
        slot->layout != 0 || slot->byte_offset != 0 || !plan_slot_is_plain(slot) ||
        (uint64_t)slot->dims[0] != tile->bytes || buffer->bytes != tile->bytes) {
        return INVALID_PLAN(SLOT_FORMAT " is not the %" PRIu64 " bytes of a tile's buffer",
                            SLOT_ARGS(plan, tile->slot), tile->bytes);
    }
    if (tile->bytes == 0 || tile->bytes > limit || tile->source_offset > limit - tile->bytes) {
        return INVALID_PLAN("offset %" PRIu64 " + bytes %" PRIu64 " > weights %" PRIu64,
                            tile->source_offset, tile->bytes, limit);
    }
    if (check->tile_of[slot->buffer] != RLX_NONE) {
        return INVALID_PLAN("it shares buffer %u with tile %u", slot->buffer,
                            check->tile_of[slot->buffer]);
    }
    check->tile_of[slot->buffer] = index;
    if (tile->read_step != buffer->first_step || tile->wait_step <= tile->read_step ||
        tile->wait_step > buffer->last_step) {
        return INVALID_PLAN("read at step %u, waited for at %u, its buffer lives [%u, %u]",
                            tile->read_step, tile->wait_step, buffer->first_step,
                            buffer->last_step);
    }
    return RLX_OK;
}

rlx_status plan_check_tiles(plan_check *check) {
    const rlx_plan *plan = check->plan;
    RLX_TRY(rlx_scratch_array(&check->memory, plan->buffers.count, sizeof *check->tile_of,
                              (void **)&check->tile_of));
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        check->tile_of[i] = RLX_NONE;
    if (rlx_plan_is_streamed(plan)) RLX_TRY(check_pieces(plan));
    for (uint32_t i = 0; i < plan->stream.tiles.count; i++)
        RLX_TRY_WITH(check_tile(check, i), "tile %u", i);
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        if (plan->buffers.items[i].segment == RLX_SEGMENT_TILES && check->tile_of[i] == RLX_NONE) {
            return INVALID_PLAN("buffer %u lies among the tiles and is none", i);
        }
    }
    return RLX_OK;
}

rlx_status plan_check_stream_step(plan_check *check, const step_range *range,
                                  const rlx_plan_step *step, uint32_t index,
                                  const uint32_t *operands) {
    const rlx_plan *plan = check->plan;
    if (range->entry == RLX_PLAN_PREPARE) return INVALID_PLAN("prepare steps do not stream");
    if (step->target >= plan->stream.tiles.count) {
        return INVALID_PLAN("tile %u of %u", step->target, plan->stream.tiles.count);
    }
    const rlx_plan_tile *tile = &plan->stream.tiles.items[step->target];
    bool is_read = step->output_count == 1 && tile->read_step == index;
    bool is_wait = step->input_count == 1 && tile->wait_step == index;
    if (step->input_count + step->output_count != 1 || !(is_read || is_wait) ||
        operands[0] != tile->slot) {
        return INVALID_PLAN("neither the read (step %u) nor the wait (step %u) of tile %u",
                            tile->read_step, tile->wait_step, step->target);
    }
    return RLX_OK;
}

rlx_status plan_check_tile_use(const plan_check *check, uint32_t buffer, uint32_t step) {
    const rlx_plan *plan = check->plan;
    if (plan->buffers.items[buffer].segment != RLX_SEGMENT_TILES) return RLX_OK;
    if (plan->steps.items[step].kind == RLX_STEP_STREAM) return RLX_OK;
    uint32_t wait = plan->stream.tiles.items[check->tile_of[buffer]].wait_step;
    if (step > wait) return RLX_OK;
    return INVALID_PLAN("tile %u is there after step %u, not at step %u", check->tile_of[buffer],
                        wait, step);
}

/* doors[i]: at how many places up to step i a run may leave the order of the steps. A jump is such
 * a place behind itself, the target of a jump before itself. */
static rlx_status count_doors(plan_check *check, uint32_t **out_doors) {
    const rlx_plan *plan = check->plan;
    uint32_t steps = plan->steps.count, *doors = NULL;
    RLX_TRY(rlx_scratch_array(&check->memory, (uint64_t)steps + 2, sizeof *doors, (void **)&doors));
    for (uint32_t i = 0; i < steps; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        if (step->kind != RLX_STEP_JUMP) continue;
        doors[i + 1]++;
        if (step->fault_code == 0) doors[step->target]++;
    }
    for (uint32_t i = 1; i <= steps; i++)
        doors[i] += doors[i - 1];
    *out_doors = doors;
    return RLX_OK;
}

/* None may lie behind the read and before the last use. */
rlx_status plan_check_stream_order(plan_check *check) {
    const rlx_plan *plan = check->plan;
    uint32_t *doors = NULL;
    if (plan->stream.tiles.count == 0) return RLX_OK;
    RLX_TRY(count_doors(check, &doors));
    for (uint32_t i = 0; i < plan->stream.tiles.count; i++) {
        const rlx_plan_tile *tile = &plan->stream.tiles.items[i];
        const rlx_plan_buffer *buffer = &plan->buffers.items[plan->slots.items[tile->slot].buffer];
        const rlx_plan_step *read = &plan->steps.items[tile->read_step];
        const rlx_plan_step *wait = &plan->steps.items[tile->wait_step];
        if (read->kind != RLX_STEP_STREAM || read->target != i || wait->kind != RLX_STEP_STREAM ||
            wait->target != i) {
            return INVALID_PLAN("tile %u: steps %u and %u do not read it and wait for it", i,
                                tile->read_step, tile->wait_step);
        }
        if (doors[buffer->last_step] != doors[tile->read_step]) {
            return INVALID_PLAN("tile %u lives [%u, %u], across a jump", i, tile->read_step,
                                buffer->last_step);
        }
    }
    return RLX_OK;
}
