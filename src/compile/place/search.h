/* SPDX-License-Identifier: Apache-2.0 */
/* The exact search, from the inside: its state with inference (state.c), the choice of what to try
 * next (choose.c), one depth-first dive (dive.c), and the loop of restarts and targets (search.c).
 *
 * Buffers are placed from the bottom up, each directly on a flat stretch of what is below it, so
 * nothing ever has to be put underneath later. A valley is a run of sections with the same floor
 * between higher neighbours: in every plan that cannot sink any further, each section of a valley
 * either has a buffer lying on that floor or leaves a hole. So a node of the search picks one
 * valley section and one buffer for it; the second branch says "not this buffer at this offset". */
#ifndef RLX_COMPILE_PLACE_SEARCH_H
#define RLX_COMPILE_PLACE_SEARCH_H

#include "compile/place/internal.h"

#include "base/vec.h"

/* Floor of a section in which no buffer is left to place. */
#define PLACE_NO_FLOOR UINT64_MAX

/* An old value to put back. */
typedef struct place_undo {
    uint64_t *where;
    uint64_t value;
} place_undo;

/* Everything below `low` that changes is written through the trail. In section s the buffers still
 * to be placed are jobs[job_start[s] .. + live[s]), about
 * sorted by low. */
typedef struct place_state {
    const place_problem *problem;
    const rlx_allocator *allocator;
    uint64_t capacity;   /* every buffer must end at or below it */
    uint64_t ceiling;    /* the same, rounded up to the alignment: for padded sizes */
    uint64_t *highest;   /* [count] highest offset at which the buffer ends within the capacity */
    uint64_t *low;       /* [count] no plan below this node has it lower; its offset once placed */
    uint64_t *top;       /* [sections] end of the highest placed buffer */
    uint64_t *floor;     /* [sections] least `low` of those to be placed, or PLACE_NO_FLOOR */
    uint64_t *live;      /* [sections] how many are to be placed */
    uint64_t *job_start; /* [sections + 1] */
    uint32_t *jobs;
    uint32_t *jobs_by_end; /* the same buffers, about sorted by low + padded size */
    double *weight;        /* [sections] how often it was the one that failed, fading */
    uint32_t *queue;       /* [sections] to be looked at again */
    bool *is_queued;       /* [sections] */
    uint32_t queue_length;
    uint64_t *keys, *sums; /* [count] while a section is looked at */
    RLX_VEC(place_undo) trail;
    rlx_status status; /* RLX_OUT_OF_MEMORY sticks: the dive ends */
    uint64_t work;     /* buffers looked at */
} place_state;

rlx_status place_state_create(rlx_scratch *scratch, const place_problem *problem,
                              place_state *out_state);
void place_state_free(place_state *state);
/* Nothing placed, everything to be looked at. False: no plan fits in `capacity`. */
bool place_state_reset(place_state *state, uint64_t capacity);
/* Puts the buffer at its `low`. False: this leads nowhere. */
bool place_state_put(place_state *state, uint32_t item);
/* Says that the buffer does not lie at its `low`. False: this leads nowhere. */
bool place_state_forbid(place_state *state, uint32_t item);
/* Back to when the trail had this length. */
void place_state_undo(place_state *state, uint32_t trail_length);

/* How a dive chooses. Restarts go through many of these. */
typedef enum place_valley_rule {
    PLACE_VALLEY_CORNERS, /* the corners of valleys, fewest candidates first */
    PLACE_VALLEY_LOW,     /* any section, few candidates and a low floor */
    PLACE_VALLEY_NARROW   /* any section, few candidates and a narrow valley */
} place_valley_rule;

typedef struct place_style {
    place_valley_rule rule;
    double size_power, width_power; /* prefer large, prefer long */
    double level_bonus;             /* for ending level with a neighbour */
    double wall_bonus;              /* for touching a wall of the valley */
    double noise;                   /* times a random number in [0, 1) */
} place_style;

typedef struct place_random {
    uint64_t state;
} place_random;
double place_random_next(place_random *random); /* [0, 1) */

/* The scores of a style that do not change during a dive. */
void place_choose_prepare(const place_problem *problem, const place_style *style,
                          double *out_scores);
/* The buffer to put next among sections [begin, end), none of them without floor. */
uint32_t place_choose(place_state *state, uint32_t begin, uint32_t end, const place_style *style,
                      const double *scores, place_random *random);

/* Asked about every millisecond; true ends everything. */
typedef struct place_clock {
    const rlx_place_options *options;
    uint64_t begin_ns, deadline_ns; /* deadline 0: only `work_limit` counts */
    uint64_t work_limit;
    uint64_t reported_ns;
    bool is_over;
} place_clock;
bool place_clock_check(place_clock *clock, const place_state *state, uint64_t best_peak);

typedef enum place_outcome {
    PLACE_FOUND,      /* every buffer is placed: state->low has the offsets */
    PLACE_IMPOSSIBLE, /* no plan fits */
    PLACE_GAVE_UP,    /* more failures than allowed */
    PLACE_STOPPED     /* clock, or out of memory (state->status) */
} place_outcome;

typedef struct place_dive place_dive;
rlx_status place_dive_create(rlx_scratch *scratch, place_state *state, bool is_long,
                             place_dive **out_dive);
void place_dive_free(place_dive *dive); /* NULL is fine */
place_outcome place_dive_run(place_dive *dive, uint64_t capacity, const place_style *style,
                             place_random *random, uint64_t failure_limit, place_clock *clock,
                             uint64_t best_peak);

#endif
