/* SPDX-License-Identifier: Apache-2.0 */
/* The split of the weights under a budget, in words and as JSON. */
#include "plan_stream.h"

#include <inttypes.h>

static void print_entries(const rlx_plan *plan) {
    for (uint32_t i = 0; i < rlx_plan_entry_count(plan); i++) {
        rlx_stream_entry_info stream;
        rlx_entry_info entry;
        if (rlx_plan_entry_at(plan, i, &entry) != RLX_OK) continue;
        if (rlx_plan_stream_entry(plan, i, &stream) != RLX_OK) continue;
        printf("reads    entry %s: %" PRIu64 " B (%s) per run in %u reads", entry.name,
               stream.read_bytes, tool_bytes(stream.read_bytes), stream.read_count);
        if (stream.loop_bytes != 0) {
            printf(", of which %" PRIu64 " B in each round of a loop", stream.loop_bytes);
        }
        fputc('\n', stdout);
    }
}

/* Tensors that a run would read more than once, and what was done about it. */
static void print_weights(const rlx_plan *plan, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rlx_weight_info weight;
        if (rlx_plan_weight_at(plan, i, &weight) != RLX_OK) continue;
        if (!weight.is_pinned && weight.read_count < 2) continue;
        printf("         %s: %" PRIu64 " B, used by %u step%s, ", tool_name(weight.name),
               weight.bytes, weight.use_count, weight.use_count == 1 ? "" : "s");
        if (weight.is_pinned) {
            puts("pinned");
        } else {
            printf("read %u times per run\n", weight.read_count);
        }
    }
}

static void print_tiles(const rlx_plan *plan, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rlx_tile_info tile;
        if (rlx_plan_tile_at(plan, i, &tile) != RLX_OK) continue;
        printf("tile %u: %" PRIu64 " B at %" PRIu64 " from %" PRIu64
               ", read at step %u, there at %u, last used at %u\n",
               i, tile.bytes, tile.offset, tile.source_offset, tile.read_step, tile.wait_step,
               tile.last_step);
    }
}

void tool_print_stream(const rlx_plan *plan, uint64_t budget, bool verbose) {
    rlx_stream_info info;
    if (budget == 0 || rlx_plan_stream_info(plan, &info) != RLX_OK) return;
    if (info.budget_bytes == 0) {
        printf("budget   %" PRIu64 " B: all weights stay resident, a run reads nothing\n", budget);
        return;
    }
    printf("budget   %" PRIu64 " B for %" PRIu64 " B of weights: resident %" PRIu64 " B (%s)",
           budget, info.weights_bytes, info.resident_bytes, tool_bytes(info.resident_bytes));
    printf(", tiles %" PRIu64 " B (%s); largest tile %" PRIu64 " B\n", info.tiles_bytes,
           tool_bytes(info.tiles_bytes), info.largest_tile);
    print_entries(plan);
    print_weights(plan, info.weight_count);
    if (verbose) print_tiles(plan, info.tile_count);
}

static void json_entries(const rlx_plan *plan) {
    for (uint32_t i = 0; i < rlx_plan_entry_count(plan); i++) {
        rlx_stream_entry_info stream;
        rlx_entry_info entry;
        if (rlx_plan_entry_at(plan, i, &entry) != RLX_OK) continue;
        if (rlx_plan_stream_entry(plan, i, &stream) != RLX_OK) continue;
        printf("%s{\"name\":", i == 0 ? "" : ",");
        tool_json_text(stdout, entry.name);
        printf(",\"reads\":%u,\"read_bytes\":%" PRIu64 ",\"loop_bytes\":%" PRIu64 "}",
               stream.read_count, stream.read_bytes, stream.loop_bytes);
    }
}

static void json_weights(const rlx_plan *plan, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rlx_weight_info weight;
        if (rlx_plan_weight_at(plan, i, &weight) != RLX_OK) continue;
        printf("%s{\"name\":", i == 0 ? "" : ",");
        tool_json_text(stdout, weight.name);
        printf(",\"bytes\":%" PRIu64 ",\"uses\":%u,\"reads\":%u,\"pinned\":%s}", weight.bytes,
               weight.use_count, weight.read_count, weight.is_pinned ? "true" : "false");
    }
}

static void json_tiles(const rlx_plan *plan, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        rlx_tile_info tile;
        if (rlx_plan_tile_at(plan, i, &tile) != RLX_OK) continue;
        printf("%s{\"entry\":%u,\"bytes\":%" PRIu64 ",\"offset\":%" PRIu64 ",\"source\":%" PRIu64
               ",\"read\":%u,\"wait\":%u,\"last\":%u}",
               i == 0 ? "" : ",", tile.entry, tile.bytes, tile.offset, tile.source_offset,
               tile.read_step, tile.wait_step, tile.last_step);
    }
}

void tool_json_stream(const rlx_plan *plan, uint64_t budget) {
    rlx_stream_info info;
    if (budget == 0 || rlx_plan_stream_info(plan, &info) != RLX_OK) return;
    printf(",\"stream\":{\"budget\":%" PRIu64 ",\"weights\":%" PRIu64 ",\"resident\":%" PRIu64
           ",\"tiles\":%" PRIu64 ",\"largest_tile\":%" PRIu64 ",\"entries\":[",
           budget, info.weights_bytes, info.resident_bytes, info.tiles_bytes, info.largest_tile);
    json_entries(plan);
    printf("],\"tensors\":[");
    json_weights(plan, info.weight_count);
    printf("],\"reads\":[");
    json_tiles(plan, info.tile_count);
    printf("]}");
}
