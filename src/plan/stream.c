/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may ask about the split of a plan's weights (budget.c makes it). */
#include "plan/plan.h"

rlx_status rlx_plan_stream_info(const rlx_plan *plan, rlx_stream_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    const rlx_plan_stream *stream = &plan->stream;
    uint64_t resident = plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    *out_info = (rlx_stream_info){.budget_bytes = stream->budget,
                                  .weights_bytes =
                                      rlx_plan_is_streamed(plan) ? stream->source_bytes : resident,
                                  .resident_bytes = resident,
                                  .tiles_bytes = plan->segment_bytes[RLX_SEGMENT_TILES],
                                  .largest_tile = stream->largest_tile,
                                  .tile_count = stream->tiles.count,
                                  .weight_count = stream->weights.count};
    return RLX_OK;
}

/* A jump back over this step. */
static bool is_in_loop(const rlx_plan *plan, const rlx_plan_entry *entry, uint32_t step) {
    for (uint32_t s = step; s < entry->first_step + entry->step_count; s++) {
        const rlx_plan_step *jump = &plan->steps.items[s];
        if (jump->kind == RLX_STEP_JUMP && jump->fault_code == 0 && jump->target <= step) {
            return true;
        }
    }
    return false;
}

rlx_status rlx_plan_stream_entry(const rlx_plan *plan, uint32_t entry,
                                 rlx_stream_entry_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (entry >= plan->entries.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "entry %u of %u", entry, plan->entries.count);
    }
    const rlx_plan_entry *row = &plan->entries.items[entry];
    rlx_stream_entry_info info = {0};
    for (uint32_t i = 0; i < plan->stream.tiles.count; i++) {
        const rlx_plan_tile *tile = &plan->stream.tiles.items[i];
        if (tile->read_step < row->first_step ||
            tile->read_step - row->first_step >= row->step_count) {
            continue;
        }
        info.read_count++;
        info.read_bytes += tile->bytes;
        if (is_in_loop(plan, row, tile->read_step)) info.loop_bytes += tile->bytes;
    }
    *out_info = info;
    return RLX_OK;
}

rlx_status rlx_plan_tile_at(const rlx_plan *plan, uint32_t tile, rlx_tile_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (tile >= plan->stream.tiles.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "tile %u of %u", tile, plan->stream.tiles.count);
    }
    const rlx_plan_tile *row = &plan->stream.tiles.items[tile];
    const rlx_plan_buffer *buffer = &plan->buffers.items[plan->slots.items[row->slot].buffer];
    *out_info = (rlx_tile_info){.entry = buffer->entry,
                                .read_step = row->read_step,
                                .wait_step = row->wait_step,
                                .last_step = buffer->last_step,
                                .offset = buffer->offset,
                                .source_offset = row->source_offset,
                                .bytes = row->bytes};
    return RLX_OK;
}

rlx_status rlx_plan_weight_at(const rlx_plan *plan, uint32_t index, rlx_weight_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (index >= plan->stream.weights.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "weight %u of %u", index, plan->stream.weights.count);
    }
    const rlx_plan_weight *row = &plan->stream.weights.items[index];
    *out_info = (rlx_weight_info){.name = row->name,
                                  .bytes = row->bytes,
                                  .use_count = row->use_count,
                                  .read_count = row->read_count,
                                  .is_pinned = row->is_pinned};
    return RLX_OK;
}
