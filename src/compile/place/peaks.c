/* SPDX-License-Identifier: Apache-2.0 */
/* A search where memory is short, for problems that are too large to be searched as a whole. At
 * most times far fewer bytes are alive than at the peaks. Only buffers that live through a busy
 * section are searched, each cluster of them that shares times on its own; then the rest is fitted
 * in between. What counts as busy is widened until the rest fits too. */
#include "compile/place/internal.h"

#include <string.h>

/* Busy: more bytes than this many 64ths of the target. */
static const uint64_t busy_levels[] = {56, 48, 40, 32};
enum { LEVEL_COUNT = sizeof busy_levels / sizeof busy_levels[0], LARGEST_CLUSTER = 4096 };

typedef struct peaks {
    place_greedy *greedy;
    const rlx_place_options *options; /* for its stop callback */
    rlx_scratch scratch;              /* of one level */
    uint64_t target;
    uint64_t *work;
    uint32_t *busy; /* [busy_count] buffers of busy sections, by their first section */
    uint32_t busy_count;
    bool *is_busy; /* [count] */
} peaks;

/* Lists the buffers that live in a section with more than `bytes`. */
static rlx_status list_busy(peaks *self, uint64_t bytes) {
    const place_problem *problem = self->greedy->problem;
    uint32_t *before = NULL; /* busy sections before this one */
    place_key *keys = NULL, *spare = NULL;
    RLX_TRY(rlx_scratch_array(&self->scratch, (uint64_t)problem->section_count + 1, sizeof *before,
                              (void **)&before));
    RLX_TRY(rlx_scratch_array(&self->scratch, problem->count, sizeof *keys, (void **)&keys));
    RLX_TRY(rlx_scratch_array(&self->scratch, problem->count, sizeof *spare, (void **)&spare));
    RLX_TRY(
        rlx_scratch_array(&self->scratch, problem->count, sizeof(uint32_t), (void **)&self->busy));
    RLX_TRY(
        rlx_scratch_array(&self->scratch, problem->count, sizeof(bool), (void **)&self->is_busy));
    for (uint32_t s = 0; s < problem->section_count; ++s) {
        before[s + 1] = before[s] + (problem->section_bytes[s] > bytes);
    }
    self->busy_count = 0;
    for (uint32_t i = 0; i < problem->count; ++i) {
        self->is_busy[i] = before[problem->last[i]] > before[problem->first[i]];
        if (self->is_busy[i]) keys[self->busy_count++] = (place_key){problem->first[i], i};
    }
    place_sort(keys, self->busy_count, spare);
    for (uint32_t k = 0; k < self->busy_count; ++k)
        self->busy[k] = keys[k].index;
    return RLX_OK;
}

/* One past the cluster that starts at `begin`: no later busy buffer shares a time with it. */
static uint32_t cluster_end(const peaks *self, uint32_t begin) {
    const place_problem *problem = self->greedy->problem;
    uint32_t end = begin, reach = problem->last[self->busy[begin]];
    for (; end < self->busy_count && problem->first[self->busy[end]] < reach; ++end) {
        if (problem->last[self->busy[end]] > reach) reach = problem->last[self->busy[end]];
    }
    return end;
}

static bool is_within(const peaks *self, const uint32_t *cluster, uint32_t count,
                      const place_plan *plan) {
    for (uint32_t k = 0; k < count; ++k) {
        uint64_t end = plan->offsets[cluster[k]] + self->greedy->problem->bytes[cluster[k]];
        if (end > self->target) return false;
    }
    return true;
}

static rlx_status place_cluster(peaks *self, rlx_scratch *scratch, const uint32_t *cluster,
                                uint32_t count, place_plan *found) {
    const place_problem *whole = self->greedy->problem;
    rlx_place_options options = {
        .capacity = self->target, .stop = self->options->stop, .user = self->options->user};
    rlx_place_item *items = NULL;
    place_problem problem;
    place_greedy greedy;
    uint64_t possible_from = 0;
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof *items, (void **)&items));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&found->offsets));
    for (uint32_t k = 0; k < count; ++k) {
        uint32_t i = cluster[k];
        items[k] = (rlx_place_item){whole->first[i], whole->last[i], whole->bytes[i]};
    }
    RLX_TRY(place_problem_build(scratch, items, count, whole->alignment, &problem));
    RLX_TRY(place_greedy_create(scratch, &problem, &greedy));
    /* When the cluster is most of the problem, its greedy plans are nothing new. */
    place_greedy_run(&greedy, 0, count > whole->count / 2 ? 1 : place_orders_count(), self->target,
                     found);
    uint64_t spent = place_fit_work(greedy.fit);
    *self->work = spent < *self->work ? *self->work - spent : 0;
    if (found->peak <= self->target) return RLX_OK;
    return place_search(scratch, &problem, &options, 0, self->work, found, &possible_from);
}

/* Moves the buffers of one cluster below the target, if they are not there already. */
static rlx_status settle_cluster(peaks *self, const uint32_t *cluster, uint32_t count,
                                 const place_plan *best, bool *out_is_settled) {
    uint64_t *offsets = self->greedy->trial.offsets;
    *out_is_settled = is_within(self, cluster, count, best);
    if (*out_is_settled) {
        for (uint32_t k = 0; k < count; ++k)
            offsets[cluster[k]] = best->offsets[cluster[k]];
        return RLX_OK;
    }
    if (count > LARGEST_CLUSTER) return RLX_OK;
    rlx_scratch scratch = {.allocator = self->scratch.allocator};
    place_plan found = {.peak = UINT64_MAX};
    rlx_status status = place_cluster(self, &scratch, cluster, count, &found);
    if (status == RLX_OK && found.peak <= self->target) {
        *out_is_settled = true;
        for (uint32_t k = 0; k < count; ++k)
            offsets[cluster[k]] = found.offsets[k];
    }
    rlx_scratch_reset(&scratch);
    return status;
}

/* Fits everything else around the settled clusters, largest first. */
static bool fit_rest(peaks *self) {
    place_greedy *greedy = self->greedy;
    const place_problem *problem = greedy->problem;
    uint32_t rest = 0;
    place_fit_clear(greedy->fit);
    greedy->trial.peak = 0;
    for (uint32_t k = 0; k < self->busy_count; ++k) {
        uint32_t i = self->busy[k];
        uint64_t end = greedy->trial.offsets[i] + problem->bytes[i];
        place_fit_put(greedy->fit, i, greedy->trial.offsets[i]);
        if (end > greedy->trial.peak) greedy->trial.peak = end;
    }
    place_orders_fill(greedy->orders, 0, greedy->permutation);
    for (uint32_t k = 0; k < problem->count; ++k) {
        uint32_t i = greedy->permutation[k];
        if (!self->is_busy[i]) greedy->permutation[rest++] = i;
    }
    return place_fit_run(greedy->fit, greedy->permutation, rest, false, self->target + 1,
                         &greedy->trial);
}

/* One meaning of busy. `*out_is_settled`: every cluster is below the target. */
static rlx_status try_level(peaks *self, uint64_t busy_bytes, place_plan *best,
                            bool *out_is_settled) {
    RLX_TRY(list_busy(self, busy_bytes));
    *out_is_settled = true;
    for (uint32_t begin = 0, end; begin < self->busy_count && *out_is_settled; begin = end) {
        end = cluster_end(self, begin);
        RLX_TRY(settle_cluster(self, self->busy + begin, end - begin, best, out_is_settled));
    }
    if (*out_is_settled && fit_rest(self)) {
        uint64_t *offsets = best->offsets;
        *best = self->greedy->trial;
        best->method = "search at the peaks";
        self->greedy->trial.offsets = offsets;
    }
    return RLX_OK;
}

rlx_status place_peaks(const rlx_allocator *allocator, place_greedy *greedy, uint64_t target,
                       const rlx_place_options *options, uint64_t *work, place_plan *best) {
    peaks self = {.greedy = greedy,
                  .options = options,
                  .scratch = {.allocator = allocator},
                  .target = target,
                  .work = work};
    rlx_status status = RLX_OK;
    bool is_settled = true;
    /* A cluster that cannot be settled will not be settled as part of a larger one. */
    for (uint32_t level = 0; level < LEVEL_COUNT && status == RLX_OK && is_settled; ++level) {
        if (best->peak <= target || *work == 0) break;
        uint64_t busy_bytes = target / 64 * busy_levels[level];
        status = try_level(&self, busy_bytes, best, &is_settled);
        rlx_scratch_reset(&self.scratch);
    }
    return status;
}
