/* SPDX-License-Identifier: Apache-2.0 */
/* One depth-first dive of the exact search, without recursion.
 *
 * Where no buffer that is left crosses some point of time, the rest falls into parts that have
 * nothing to do with each other. They are solved one after the other; when one has no solution, the
 * choices made inside its finished neighbours are dropped without trying their alternatives. States
 * that failed are remembered, across dives, by a hash of who is left and how low each may go. */
#include "compile/place/search.h"

#define NO_PART UINT32_MAX

enum { CLOCK_WORK = 200000 }; /* between two looks at the clock: about a millisecond */

/* Sections [begin, end) that have to be solved on their own. */
typedef struct part {
    uint32_t begin, end;
    uint32_t parent;       /* the part that fell apart into this one, or NO_PART */
    uint32_t next;         /* what to solve when this one is done, or NO_PART */
    uint32_t first_choice; /* height of the choice stack when work on it began */
    uint32_t split_choice; /* height when its parent fell apart */
} part;

typedef struct choice {
    uint64_t key; /* of the state before */
    uint32_t item;
    uint32_t part, part_count;
    uint32_t trail_length;
    bool is_second; /* "not here" is being tried */
} choice;

struct place_dive {
    place_state *state;
    double *scores;   /* [count] of the style */
    uint64_t *failed; /* [failed_mask + 1] keys of failed states, 0: empty */
    uint64_t failed_mask;
    RLX_VEC(part) parts;
    RLX_VEC(choice) choices;
    uint32_t current;  /* part being solved */
    uint64_t failures; /* of this dive */
};

static uint64_t mix(uint64_t x) {
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ x >> 33;
}

/* The same for every way to reach the same rest: a sum over the buffers left. */
static uint64_t state_key(place_state *state, uint32_t begin, uint32_t end) {
    uint64_t key = mix(state->capacity + 1);
    for (uint32_t s = begin; s < end; ++s) {
        const uint32_t *jobs = state->jobs + state->job_start[s];
        state->work += state->live[s];
        for (uint64_t at = 0; at < state->live[s]; ++at) {
            if (state->problem->first[jobs[at]] != s && s != begin) continue;
            key += mix(mix(jobs[at] + 1) + state->low[jobs[at]]);
        }
    }
    return key == 0 ? 1 : key;
}

static void add_part(place_dive *dive, part added) {
    rlx_status status = rlx_vec_push(dive->state->allocator, &dive->parts, added);
    if (status != RLX_OK) dive->state->status = status;
}

/* The end of the part that begins with section `begin`: no buffer left crosses it. */
static uint32_t part_end(place_state *state, uint32_t begin, uint32_t end) {
    uint32_t reach = begin + 1;
    for (uint32_t s = begin; s < reach && reach < end; ++s) {
        const uint32_t *jobs = state->jobs + state->job_start[s];
        state->work += state->live[s];
        for (uint64_t at = 0; at < state->live[s]; ++at) {
            uint32_t last = state->problem->last[jobs[at]];
            if (last > reach) reach = last;
        }
    }
    return reach < end ? reach : end;
}

static uint32_t skip_empty(const place_state *state, uint32_t begin, uint32_t end) {
    while (begin < end && state->floor[begin] == PLACE_NO_FLOOR)
        ++begin;
    return begin;
}

/* Narrows the current part to what is left of it. When that falls apart, adds the pieces, narrow
 * ones solved first as they fail fastest, and makes the first one current. */
static void split_part(place_dive *dive) {
    place_state *state = dive->state;
    part whole = dive->parts.items[dive->current];
    uint32_t begin = skip_empty(state, whole.begin, whole.end);
    uint32_t end = part_end(state, begin, whole.end);
    uint32_t rest = skip_empty(state, end, whole.end);
    if (begin == whole.begin && rest == whole.end && end == whole.end) return;
    uint32_t head = whole.next, height = dive->choices.count;
    while (begin < whole.end && state->status == RLX_OK) {
        part piece = {begin, end, dive->current, head, height, height};
        /* Insert by width into the list that starts at `head` and ends at whole.next. */
        uint32_t added = dive->parts.count, *link = &head;
        while (*link != whole.next &&
               dive->parts.items[*link].end - dive->parts.items[*link].begin <= end - begin) {
            link = &dive->parts.items[*link].next;
        }
        piece.next = *link;
        *link = added;
        add_part(dive, piece);
        begin = rest;
        end = begin < whole.end ? part_end(state, begin, whole.end) : whole.end;
        rest = skip_empty(state, end, whole.end);
    }
    dive->current = head;
}

/* A buffer that covers a flat part whole may as well lie at the bottom: whatever was below it in
 * some plan moves up by its size. With a capacity between two multiples of the alignment this holds
 * only for a size without padding. NO_PART: there is none. */
static uint32_t find_cover(place_state *state, uint32_t begin, uint32_t end) {
    const place_problem *problem = state->problem;
    const uint32_t *jobs = state->jobs + state->job_start[begin];
    uint64_t floor = state->floor[begin];
    uint32_t found = NO_PART;
    for (uint64_t at = 0; at < state->live[begin]; ++at) {
        uint32_t item = jobs[at];
        bool is_padded = problem->padded[item] != problem->bytes[item];
        if (problem->last[item] < end || problem->first[item] > begin) continue;
        if (is_padded && state->ceiling != state->capacity) continue;
        if (found == NO_PART || item < found) found = item;
    }
    for (uint32_t s = begin; s < end && found != NO_PART; ++s) {
        jobs = state->jobs + state->job_start[s];
        for (uint64_t at = 0; at < state->live[s]; ++at) {
            if (state->low[jobs[at]] != floor) return NO_PART;
        }
    }
    return found;
}

/* Undoes the last choice that can still be taken otherwise, and takes it otherwise. False: none. */
static bool backtrack(place_dive *dive) {
    place_state *state = dive->state;
    while (state->status == RLX_OK) {
        part *failed = &dive->parts.items[dive->current];
        if (dive->choices.count == failed->first_choice) {
            if (failed->parent == NO_PART) return false;
            dive->choices.count = failed->split_choice;
            dive->current = failed->parent;
            continue;
        }
        choice *last = &dive->choices.items[dive->choices.count - 1];
        place_state_undo(state, last->trail_length);
        dive->current = last->part;
        dive->parts.count = last->part_count;
        if (last->is_second) {
            dive->failed[last->key & dive->failed_mask] = last->key;
            --dive->choices.count;
            continue;
        }
        ++dive->failures;
        last->is_second = true;
        if (place_state_forbid(state, last->item)) return true;
    }
    return false;
}

/* Does the buffer, at its `low`, touch something that is placed (or the bottom)? */
static bool is_supported(const place_state *state, uint32_t item) {
    for (uint32_t s = state->problem->first[item]; s < state->problem->last[item]; ++s) {
        if (state->top[s] == state->low[item]) return true;
    }
    return false;
}

/* One node: puts a buffer of the current part. False: backtrack. */
static bool step(place_dive *dive, const place_style *style, place_random *random) {
    place_state *state = dive->state;
    part here = dive->parts.items[dive->current];
    uint64_t key = state_key(state, here.begin, here.end);
    if (dive->failed[key & dive->failed_mask] == key) return false;
    uint32_t cover = find_cover(state, here.begin, here.end);
    if (cover != NO_PART) return place_state_put(state, cover);
    uint32_t item = place_choose(state, here.begin, here.end, style, dive->scores, random);
    /* Nothing can come below it any more, so it would float: such plans need not be looked at. */
    if (!is_supported(state, item)) return place_state_forbid(state, item);
    choice made = {key, item, dive->current, dive->parts.count, state->trail.count, false};
    rlx_status status = rlx_vec_push(state->allocator, &dive->choices, made);
    if (status != RLX_OK) {
        state->status = status;
        return false;
    }
    return place_state_put(state, item);
}

/* Goes on to the next part that has something left. False: there is none, all is placed. */
static bool enter_part(place_dive *dive) {
    const place_state *state = dive->state;
    for (;;) {
        const part *here = &dive->parts.items[dive->current];
        if (skip_empty(state, here->begin, here->end) < here->end) break;
        if (here->next == NO_PART) return false;
        dive->current = here->next;
        dive->parts.items[dive->current].first_choice = dive->choices.count;
    }
    split_part(dive);
    return true;
}

place_outcome place_dive_run(place_dive *dive, uint64_t capacity, const place_style *style,
                             place_random *random, uint64_t failure_limit, place_clock *clock,
                             uint64_t best_peak) {
    place_state *state = dive->state;
    dive->parts.count = dive->choices.count = dive->current = 0;
    dive->failures = 0;
    place_choose_prepare(state->problem, style, dive->scores);
    if (!place_state_reset(state, capacity)) {
        return state->status == RLX_OK ? PLACE_IMPOSSIBLE : PLACE_STOPPED;
    }
    add_part(dive, (part){0, state->problem->section_count, NO_PART, NO_PART, 0, 0});
    for (uint64_t next_look = 0; state->status == RLX_OK;) {
        if (!enter_part(dive)) return PLACE_FOUND;
        if (state->status != RLX_OK) break;
        if (!step(dive, style, random) && !backtrack(dive)) {
            return state->status == RLX_OK ? PLACE_IMPOSSIBLE : PLACE_STOPPED;
        }
        if (state->work >= next_look) {
            if (place_clock_check(clock, state, best_peak)) break;
            next_look = state->work + CLOCK_WORK;
        }
        if (dive->failures > failure_limit) return PLACE_GAVE_UP;
    }
    return PLACE_STOPPED;
}

rlx_status place_dive_create(rlx_scratch *scratch, place_state *state, bool is_long,
                             place_dive **out_dive) {
    place_dive *dive = NULL;
    uint64_t failed_count = is_long ? 1 << 20 : 1 << 14;
    RLX_TRY(rlx_scratch_alloc(scratch, sizeof *dive, (void **)&dive));
    RLX_TRY(
        rlx_scratch_array(scratch, state->problem->count, sizeof(double), (void **)&dive->scores));
    RLX_TRY(rlx_scratch_array(scratch, failed_count, sizeof(uint64_t), (void **)&dive->failed));
    dive->failed_mask = failed_count - 1;
    dive->state = state;
    *out_dive = dive;
    return RLX_OK;
}

void place_dive_free(place_dive *dive) {
    if (dive == NULL) return;
    rlx_vec_free(dive->state->allocator, &dive->parts);
    rlx_vec_free(dive->state->allocator, &dive->choices);
}
