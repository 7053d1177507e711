/* SPDX-License-Identifier: Apache-2.0 */
/* Items as the caller gives them -> a normalised problem: empty buffers dropped, sizes padded to
 * the alignment, time cut into sections, lower bound. Knows nothing of how offsets are found. */
#include "compile/place/internal.h"

#include "base/size.h"

static void merge_runs(const place_key *in, uint32_t begin, uint32_t middle, uint32_t end,
                       place_key *out) {
    uint32_t left = begin, right = middle;
    for (uint32_t at = begin; at < end; ++at) {
        bool take_left = left < middle && (right >= end || in[left].key <= in[right].key);
        out[at] = take_left ? in[left++] : in[right++];
    }
}

static void sort_short_run(place_key *keys, uint32_t begin, uint32_t end) {
    for (uint32_t at = begin + 1; at < end; ++at) {
        place_key moving = keys[at];
        uint32_t hole = at;
        for (; hole > begin && keys[hole - 1].key > moving.key; --hole)
            keys[hole] = keys[hole - 1];
        keys[hole] = moving;
    }
}

void place_sort(place_key *keys, uint32_t count, place_key *spare) {
    enum { RUN = 16 };
    place_key *in = keys, *out = spare;
    for (uint32_t at = 0; at < count; at += RUN) {
        sort_short_run(keys, at, count - at < RUN ? count : at + RUN);
        if (count - at <= RUN) break;
    }
    for (uint64_t width = RUN; width < count; width *= 2) {
        for (uint64_t at = 0; at < count; at += 2 * width) {
            uint64_t middle = at + width < count ? at + width : count;
            uint64_t end = at + 2 * width < count ? at + 2 * width : count;
            merge_runs(in, (uint32_t)at, (uint32_t)middle, (uint32_t)end, out);
        }
        place_key *swap = in;
        in = out;
        out = swap;
    }
    if (in != keys) {
        for (uint32_t i = 0; i < count; ++i)
            keys[i] = in[i];
    }
}

static bool takes_memory(const rlx_place_item *item) {
    return item->bytes != 0 && item->upper > item->lower;
}

static rlx_status allocate_items(rlx_scratch *scratch, uint32_t count, place_problem *problem) {
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint32_t), (void **)&problem->source));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&problem->bytes));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&problem->padded));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&problem->lower));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&problem->length));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint32_t), (void **)&problem->first));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint32_t), (void **)&problem->last));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&problem->section_time));
    return rlx_scratch_array(scratch, count, sizeof(uint64_t), (void **)&problem->section_bytes);
}

static rlx_status copy_items(const rlx_place_item *items, uint32_t count, place_problem *problem) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (!takes_memory(&items[i])) continue;
        uint32_t at = problem->count++;
        uint64_t padded = 0;
        if (!rlx_align_u64(items[i].bytes, problem->alignment, &padded) ||
            !rlx_add_u64(sum, padded, &sum) || sum > INT64_MAX) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS,
                            "sizes up to buffer %" PRIu32 " (%" PRIu64 " bytes, alignment %" PRIu64
                            ") sum to more than 63 bits",
                            i, items[i].bytes, problem->alignment);
        }
        problem->source[at] = i;
        problem->bytes[at] = items[i].bytes;
        problem->padded[at] = padded;
        problem->lower[at] = items[i].lower;
        problem->length[at] = items[i].upper - items[i].lower;
    }
    problem->sum_bytes = sum;
    return RLX_OK;
}

/* A set of live buffers is maximal right before an end that follows a start: its time is that of
 * the last start. `starts` and `ends` are sorted. */
static void cut_sections(const place_key *starts, const place_key *ends, place_problem *problem) {
    uint32_t start = 0, end = 0;
    while (start < problem->count) {
        while (start < problem->count && starts[start].key < ends[end].key)
            ++start;
        problem->section_time[problem->section_count++] = starts[start - 1].key;
        if (start == problem->count) return;
        while (ends[end].key <= starts[start].key)
            ++end;
    }
}

/* The first section whose time is at least `time`. */
static uint32_t section_from(const place_problem *problem, uint64_t time) {
    uint32_t low = 0, high = problem->section_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (problem->section_time[middle] < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void measure_sections(place_problem *problem) {
    for (uint32_t i = 0; i < problem->count; ++i) {
        problem->first[i] = section_from(problem, problem->lower[i]);
        problem->last[i] = section_from(problem, problem->lower[i] + problem->length[i]);
    }
    /* Differences first, then the running sum; unsigned wrap-around cancels out. */
    for (uint32_t i = 0; i < problem->count; ++i) {
        problem->section_bytes[problem->first[i]] += problem->padded[i];
        if (problem->last[i] < problem->section_count) {
            problem->section_bytes[problem->last[i]] -= problem->padded[i];
        }
    }
    for (uint32_t s = 1; s < problem->section_count; ++s) {
        problem->section_bytes[s] += problem->section_bytes[s - 1];
    }
}

/* The first section from `section` on that has no padding yet, with path halving. */
static uint32_t next_open(uint32_t *next, uint32_t section) {
    while (next[section] != section) {
        next[section] = next[next[section]];
        section = next[section];
    }
    return section;
}

/* The buffer on top of a section needs no padding, so the bound of a section is its padded bytes
 * less the largest padding in it: buffers paint their sections, largest padding first. */
static rlx_status bound_sections(rlx_scratch *scratch, place_problem *problem, place_key *keys,
                                 place_key *spare) {
    uint32_t *next = NULL;
    RLX_TRY(rlx_scratch_array(scratch, (uint64_t)problem->section_count + 1, sizeof *next,
                              (void **)&next));
    for (uint32_t s = 0; s <= problem->section_count; ++s)
        next[s] = s;
    for (uint32_t i = 0; i < problem->count; ++i) {
        uint64_t padding = problem->padded[i] - problem->bytes[i];
        keys[i] = (place_key){UINT64_MAX - padding, i};
    }
    if (problem->alignment > 1) place_sort(keys, problem->count, spare);
    for (uint32_t k = 0; k < problem->count; ++k) {
        uint32_t i = keys[k].index;
        for (uint32_t s = next_open(next, problem->first[i]); s < problem->last[i];
             s = next_open(next, s)) {
            uint64_t bound = problem->section_bytes[s] - (UINT64_MAX - keys[k].key);
            if (bound > problem->lower_bound ||
                (bound == problem->lower_bound && s < problem->lower_bound_at)) {
                problem->lower_bound = bound;
                problem->lower_bound_at = s;
            }
            next[s] = s + 1;
        }
    }
    return RLX_OK;
}

rlx_status place_problem_build(rlx_scratch *scratch, const rlx_place_item *items, uint32_t count,
                               uint64_t alignment, place_problem *out_problem) {
    place_problem problem = {.alignment = alignment};
    place_key *starts = NULL, *ends = NULL, *spare = NULL;
    RLX_TRY(allocate_items(scratch, count, &problem));
    RLX_TRY(copy_items(items, count, &problem));
    RLX_TRY(rlx_scratch_array(scratch, problem.count, sizeof *starts, (void **)&starts));
    RLX_TRY(rlx_scratch_array(scratch, problem.count, sizeof *ends, (void **)&ends));
    RLX_TRY(rlx_scratch_array(scratch, problem.count, sizeof *spare, (void **)&spare));
    for (uint32_t i = 0; i < problem.count; ++i) {
        starts[i] = (place_key){problem.lower[i], i};
        ends[i] = (place_key){problem.lower[i] + problem.length[i], i};
    }
    place_sort(starts, problem.count, spare);
    place_sort(ends, problem.count, spare);
    cut_sections(starts, ends, &problem);
    measure_sections(&problem);
    RLX_TRY(bound_sections(scratch, &problem, starts, spare));
    *out_problem = problem;
    return RLX_OK;
}
