/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the exact search and what can be inferred from it.
 *
 * Within one section the buffers are jobs on one machine: `low` is the release time, the padded
 * size the duration, the ceiling the common deadline. A section that cannot be done in time ends
 * the branch; a buffer that cannot come before some of the others is moved up. Raising one buffer
 * makes all its sections worth another look. */
#include "compile/place/search.h"

#include "base/size.h"

static void write_value(place_state *state, uint64_t *where, uint64_t value) {
    place_undo undo = {where, *where};
    rlx_status status = rlx_vec_push(state->allocator, &state->trail, undo);
    if (status != RLX_OK) state->status = status;
    *where = value;
}

void place_state_undo(place_state *state, uint32_t trail_length) {
    while (state->trail.count > trail_length) {
        place_undo undo = state->trail.items[--state->trail.count];
        *undo.where = undo.value;
    }
}

static void enqueue(place_state *state, uint32_t item) {
    const place_problem *problem = state->problem;
    for (uint32_t s = problem->first[item]; s < problem->last[item]; ++s) {
        if (state->is_queued[s]) continue;
        state->is_queued[s] = true;
        state->queue[state->queue_length++] = s;
    }
}

static void raise_low(place_state *state, uint32_t item, uint64_t low) {
    write_value(state, &state->low[item], low);
    enqueue(state, item);
}

static uint64_t least_end(const place_state *state, uint32_t item) {
    return state->low[item] + state->problem->padded[item];
}

/* Sorts jobs by their keys, which move along. The order of the last look is mostly still right. */
static void sort_jobs(uint32_t *jobs, uint64_t *keys, uint64_t count) {
    for (uint64_t at = 1; at < count; ++at) {
        uint32_t moving = jobs[at];
        uint64_t key = keys[at], hole = at;
        for (; hole > 0 && keys[hole - 1] > key; --hole) {
            jobs[hole] = jobs[hole - 1];
            keys[hole] = keys[hole - 1];
        }
        jobs[hole] = moving;
        keys[hole] = key;
    }
}

/* The first of sums[from, to) that is at least `wanted`; `to` when none is. */
static uint64_t first_reaching(const uint64_t *sums, uint64_t from, uint64_t to, uint64_t wanted) {
    while (from < to) {
        uint64_t middle = from + (to - from) / 2;
        if (sums[middle] < wanted) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

/* A buffer at `low` with everyone else above it would end `over` bytes too high: at least that many
 * bytes have to come below it. The cheapest such set are those that can end first, and it cannot
 * lie lower than the end of the last of them. */
static bool raise_late(place_state *state, uint32_t section, uint64_t count, uint64_t sum) {
    uint32_t *jobs = state->jobs_by_end + state->job_start[section];
    uint64_t *ends = state->keys, *sums = state->sums, below = 0;
    for (uint64_t at = 0; at < count; ++at)
        ends[at] = least_end(state, jobs[at]);
    sort_jobs(jobs, ends, count);
    for (uint64_t at = 0; at < count; ++at)
        sums[at] = below += state->problem->padded[jobs[at]];
    state->work += 3 * count;
    for (uint64_t at = 0; at < count; ++at) {
        uint32_t item = jobs[at];
        if (state->low[item] + sum <= state->ceiling) continue;
        uint64_t over = state->low[item] + sum - state->ceiling;
        uint64_t last = first_reaching(sums, 0, at, over);
        if (last == at) { /* not those before it alone; it does not count itself */
            over += state->problem->padded[item];
            last = first_reaching(sums, at + 1, count, over);
            if (last == count) return false;
        }
        if (ends[last] > state->low[item]) raise_low(state, item, ends[last]);
    }
    return true;
}

static bool look_at_section(place_state *state, uint32_t section) {
    uint32_t *jobs = state->jobs + state->job_start[section];
    uint64_t count = state->live[section], end = 0, sum = 0, floor = PLACE_NO_FLOOR;
    uint64_t *lows = state->keys;
    state->work += count + 1;
    for (uint64_t at = 0; at < count; ++at) {
        lows[at] = state->low[jobs[at]];
        if (lows[at] > state->highest[jobs[at]]) return false;
    }
    sort_jobs(jobs, lows, count);
    for (uint64_t at = 0; at < count; ++at) {
        if (lows[at] > end) end = lows[at];
        end += state->problem->padded[jobs[at]];
        sum += state->problem->padded[jobs[at]];
    }
    if (end > state->ceiling) return false;
    if (count != 0) floor = lows[0];
    if (floor != state->floor[section]) write_value(state, &state->floor[section], floor);
    if (count < 2 || lows[count - 1] + sum <= state->ceiling) return true;
    return raise_late(state, section, count, sum);
}

/* Until nothing changes any more. */
static bool infer(place_state *state) {
    bool is_possible = true;
    while (state->queue_length != 0) {
        uint32_t section = state->queue[--state->queue_length];
        state->is_queued[section] = false;
        if (is_possible && !look_at_section(state, section)) {
            state->weight[section] += 1.0;
            is_possible = false;
        }
    }
    return is_possible && state->status == RLX_OK;
}

/* Moves the buffer behind the live ones and keeps their order. */
static void move_to_end(uint32_t *jobs, uint64_t count, uint32_t item) {
    uint64_t at = 0;
    while (jobs[at] != item)
        ++at;
    for (; at + 1 < count; ++at)
        jobs[at] = jobs[at + 1];
    jobs[count - 1] = item;
}

/* Undoing `live` brings the buffer back. */
static void retire(place_state *state, uint32_t section, uint32_t item) {
    uint64_t count = state->live[section];
    move_to_end(state->jobs + state->job_start[section], count, item);
    move_to_end(state->jobs_by_end + state->job_start[section], count, item);
    write_value(state, &state->live[section], count - 1);
}

bool place_state_put(place_state *state, uint32_t item) {
    const place_problem *problem = state->problem;
    uint64_t top = least_end(state, item);
    enqueue(state, item);
    for (uint32_t s = problem->first[item]; s < problem->last[item]; ++s) {
        const uint32_t *jobs = state->jobs + state->job_start[s];
        retire(state, s, item);
        write_value(state, &state->top[s], top);
        state->work += state->live[s];
        for (uint64_t at = 0; at < state->live[s]; ++at) {
            if (state->low[jobs[at]] < top) raise_low(state, jobs[at], top);
        }
    }
    return infer(state);
}

/* In a plan that cannot sink, a buffer that does not lie on what is placed lies on one that is
 * still to be placed. */
bool place_state_forbid(place_state *state, uint32_t item) {
    const place_problem *problem = state->problem;
    uint64_t support = UINT64_MAX;
    for (uint32_t s = problem->first[item]; s < problem->last[item]; ++s) {
        const uint32_t *jobs = state->jobs + state->job_start[s];
        state->work += state->live[s];
        for (uint64_t at = 0; at < state->live[s]; ++at) {
            uint64_t end = least_end(state, jobs[at]);
            if (jobs[at] != item && end < support) support = end;
        }
    }
    if (support == UINT64_MAX) return false;
    if (support <= state->low[item]) support = state->low[item] + problem->alignment;
    raise_low(state, item, support);
    return infer(state);
}

bool place_state_reset(place_state *state, uint64_t capacity) {
    const place_problem *problem = state->problem;
    place_state_undo(state, 0);
    state->capacity = capacity;
    if (!rlx_align_u64(capacity, problem->alignment, &state->ceiling)) state->ceiling = UINT64_MAX;
    if (problem->lower_bound > capacity) return false;
    for (uint32_t i = 0; i < problem->count; ++i) {
        state->highest[i] = (capacity - problem->bytes[i]) & ~(problem->alignment - 1);
        enqueue(state, i);
    }
    return infer(state);
}

static rlx_status fill_jobs(rlx_scratch *scratch, place_state *state) {
    const place_problem *problem = state->problem;
    for (uint32_t i = 0; i < problem->count; ++i) {
        for (uint32_t s = problem->first[i]; s < problem->last[i]; ++s)
            ++state->job_start[s + 1];
    }
    for (uint32_t s = 0; s < problem->section_count; ++s) {
        state->job_start[s + 1] += state->job_start[s];
    }
    RLX_TRY(rlx_scratch_array(scratch, state->job_start[problem->section_count],
                              sizeof *state->jobs, (void **)&state->jobs));
    RLX_TRY(rlx_scratch_array(scratch, state->job_start[problem->section_count],
                              sizeof *state->jobs, (void **)&state->jobs_by_end));
    for (uint32_t i = 0; i < problem->count; ++i) {
        for (uint32_t s = problem->first[i]; s < problem->last[i]; ++s) {
            uint64_t at = state->job_start[s] + state->live[s]++;
            state->jobs[at] = state->jobs_by_end[at] = i;
        }
    }
    return RLX_OK;
}

rlx_status place_state_create(rlx_scratch *scratch, const place_problem *problem,
                              place_state *out_state) {
    place_state state = {.problem = problem, .allocator = scratch->allocator};
    uint64_t count = problem->count, sections = problem->section_count;
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&state.highest));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&state.low));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&state.keys));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&state.sums));
    RLX_TRY(rlx_scratch_array(scratch, sections, sizeof(uint64_t), (void **)&state.top));
    RLX_TRY(rlx_scratch_array(scratch, sections, sizeof(uint64_t), (void **)&state.floor));
    RLX_TRY(rlx_scratch_array(scratch, sections, sizeof(uint64_t), (void **)&state.live));
    RLX_TRY(rlx_scratch_array(scratch, sections + 1, sizeof(uint64_t), (void **)&state.job_start));
    RLX_TRY(rlx_scratch_array(scratch, sections, sizeof(double), (void **)&state.weight));
    RLX_TRY(rlx_scratch_array(scratch, sections, sizeof(uint32_t), (void **)&state.queue));
    RLX_TRY(rlx_scratch_array(scratch, sections, sizeof(bool), (void **)&state.is_queued));
    RLX_TRY(fill_jobs(scratch, &state));
    *out_state = state;
    return RLX_OK;
}

void place_state_free(place_state *state) {
    rlx_vec_free(state->allocator, &state->trail);
}
