/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles for the weights that are not resident: which tensors are read together, when each read is
 * issued, and where the tile lies. A tile never leaves its block, the run of steps between two
 * jumps or jump targets: so no read is under way, and no tile is waited for, across a jump. */
#include "plan/budget.h"

#include "base/size.h"

#include <rlx/place.h>

static uint64_t tile_size(const budget_tile *tile) {
    return tile->end - tile->begin;
}

/* Up to this many bytes a tile takes in whatever follows: no read is that small. */
static const uint64_t least_read = UINT64_C(1) << 20;

/* The weight lies right behind the tile in the file, and the tile may grow by it. */
static bool may_join(const budget *self, const budget_tile *tile, const budget_weight *weight,
                     uint32_t step, uint64_t target) {
    if (self->block[tile->first] != self->block[step]) return false;
    if (weight->offset < tile->used_end || weight->offset - tile->used_end > BUDGET_GAP) {
        return false;
    }
    if (tile->first == step) return true; /* needed together anyway */
    if (target == 0) return false;
    uint64_t small = least_read < target ? least_read : target;
    if (tile_size(tile) < small) return true;
    return tile_size(tile) < target && tile_size(tile) + weight->bytes <= 2 * target;
}

static void set_end(const budget *self, budget_tile *tile, const budget_weight *weight) {
    uint64_t limit = self->plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
    tile->used_end = weight->offset + weight->bytes;
    if (!rlx_align_u64(tile->used_end, self->page, &tile->end) || tile->end > limit) {
        tile->end = limit;
    }
}

static void read_weight(budget *self, uint32_t index, uint32_t step, budget_level level,
                        uint64_t *clock) {
    budget_weight *weight = &self->weights[index];
    budget_tile *tile = self->tile_count == 0 ? NULL : &self->tiles[self->tile_count - 1];
    if (tile == NULL || !may_join(self, tile, weight, step, level.target_bytes)) {
        tile = &self->tiles[self->tile_count++];
        *tile = (budget_tile){.begin = weight->offset / self->page * self->page,
                              .issue = step,
                              .first = step,
                              .weight = index};
    }
    set_end(self, tile, weight);
    tile->last = step;
    tile->weight_count++;
    weight->tile = self->tile_count - 1;
    weight->block = self->block[step];
    *clock += weight->bytes;
    weight->clock = *clock;
}

/* The tile of an earlier use is still there: in this block, with little read in between. */
static bool is_still_there(const budget *self, const budget_weight *weight, uint32_t step,
                           budget_level level, uint64_t clock) {
    return level.is_kept && weight->tile != RLX_NONE && weight->block == self->block[step] &&
           clock - weight->clock <= level.target_bytes;
}

static void build_step(budget *self, uint32_t step, budget_level level, uint64_t *clock) {
    uint32_t begin = self->uses_at[step], end = self->uses_at[step + 1];
    for (uint32_t i = begin; i < end; i++) {
        budget_use *use = &self->uses[i];
        budget_weight *weight = &self->weights[use->weight];
        use->tile = RLX_NONE;
        use->is_read = !weight->is_resident && !is_still_there(self, weight, step, level, *clock);
        if (weight->is_resident || use->is_read) continue;
        use->tile = weight->tile;
        self->tiles[use->tile].last = step;
        weight->clock = *clock;
    }
    for (uint32_t i = begin; i < end; i++) { /* in order of their offsets */
        budget_use *use = &self->uses[i];
        if (!use->is_read) continue;
        read_weight(self, use->weight, step, level, clock);
        use->tile = self->weights[use->weight].tile;
    }
}

void budget_build_tiles(budget *self, budget_level level) {
    uint64_t clock = 0;
    self->tile_count = 0;
    for (uint32_t i = 0; i < self->weight_count; i++)
        self->weights[i].tile = RLX_NONE;
    for (uint32_t step = self->plan->prepare_count; step < self->plan->steps.count; step++)
        build_step(self, step, level, &clock);
}

static uint64_t aligned_size(const budget *self, const budget_tile *tile) {
    return (tile_size(tile) + self->page - 1) / self->page * self->page;
}

/* Bytes of tiles at each step, reads where they are issued now. */
static void sum_live(budget *self) {
    uint32_t steps = self->plan->steps.count;
    memset(self->live, 0, ((size_t)steps + 1) * sizeof *self->live);
    for (uint32_t i = 0; i < self->tile_count; i++) {
        self->live[self->tiles[i].issue] += aligned_size(self, &self->tiles[i]);
        self->live[self->tiles[i].last + 1] -= aligned_size(self, &self->tiles[i]);
    }
    for (uint32_t s = 1; s <= steps; s++)
        self->live[s] += self->live[s - 1];
}

uint64_t budget_least_space(budget *self, uint32_t *out_step) {
    uint64_t most = 0;
    sum_live(self);
    for (uint32_t s = 0; s < self->plan->steps.count; s++) {
        if (self->live[s] <= most) continue;
        most = self->live[s];
        if (out_step != NULL) *out_step = s;
    }
    return most;
}

/* Each read as early as `space` allows, in the order of use, so that reads end in that order too.
 */
static void read_ahead(budget *self, uint64_t space) {
    for (uint32_t i = 0; i < self->tile_count; i++)
        self->tiles[i].issue = self->tiles[i].first;
    sum_live(self);
    for (uint32_t i = 0; i < self->tile_count; i++) {
        budget_tile *tile = &self->tiles[i], *before = i == 0 ? NULL : &self->tiles[i - 1];
        uint32_t block = self->block[tile->first];
        uint32_t low = before != NULL && self->block[before->first] == block ? before->issue : 0;
        if (i >= BUDGET_READS_AHEAD && self->tiles[i - BUDGET_READS_AHEAD].first > low) {
            low = self->tiles[i - BUDGET_READS_AHEAD].first;
        }
        while (tile->issue > low && self->block[tile->issue - 1] == block &&
               self->live[tile->issue - 1] + aligned_size(self, tile) <= space) {
            tile->issue--;
            self->live[tile->issue] += aligned_size(self, tile);
        }
    }
}

static rlx_status place(budget *self, rlx_place_item *items, uint64_t *offsets, uint64_t space,
                        bool *out_fits) {
    rlx_place_options options = {
        .size = sizeof options, .alignment = self->page, .capacity = space};
    rlx_place_report report = {0};
    for (uint32_t i = 0; i < self->tile_count; i++) {
        const budget_tile *tile = &self->tiles[i];
        items[i] = (rlx_place_item){tile->issue, (uint64_t)tile->last + 1, tile_size(tile)};
    }
    rlx_status status =
        rlx_place(self->plan->allocator, items, self->tile_count, &options, offsets, &report);
    if (status != RLX_OK && status != RLX_DOES_NOT_FIT) return status;
    *out_fits = status == RLX_OK && report.fits;
    for (uint32_t i = 0; i < self->tile_count; i++)
        self->tiles[i].offset = offsets[i];
    self->tile_space = report.peak;
    return RLX_OK;
}

rlx_status budget_place_tiles(budget *self, uint64_t space, bool *out_fits) {
    uint64_t *offsets = NULL, least = budget_least_space(self, NULL);
    rlx_place_item *items = NULL;
    *out_fits = false;
    self->tile_space = 0;
    if (least > space) return RLX_OK;
    if (self->tile_count == 0) {
        *out_fits = true;
        return RLX_OK;
    }
    RLX_TRY(rlx_scratch_array(&self->memory, self->tile_count, sizeof *items, (void **)&items));
    RLX_TRY(rlx_scratch_array(&self->memory, self->tile_count, sizeof *offsets, (void **)&offsets));
    /* Gaps between tiles may want room: then fewer are read ahead, and at last none. */
    for (uint64_t limit = space; !*out_fits; limit -= (limit - least + 1) / 2) {
        if (limit - least < self->page) limit = 0;
        read_ahead(self, limit);
        RLX_TRY(place(self, items, offsets, space, out_fits));
        if (limit == 0) break;
    }
    return RLX_OK;
}
