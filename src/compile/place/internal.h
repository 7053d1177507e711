/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the placer share. The story: problem.c turns items into a normalised problem,
 * order.c sorts it in many ways, fit.c places one order, greedy.c keeps the best of them, search.c
 * and its helpers look for a plan below a given peak, peaks.c lets them look only where memory is
 * short, place.c drives all of it.
 *
 * Time is cut into sections: the maximal sets of buffers that are alive together. Every buffer
 * lives in a run of neighbouring sections, and two buffers clash if and only if they share one, so
 * times themselves are not needed any more. */
#ifndef RLX_COMPILE_PLACE_INTERNAL_H
#define RLX_COMPILE_PLACE_INTERNAL_H

#include <rlx/place.h>

#include "base/alloc.h"

/* The buffers that take memory. All arrays live in the scratch arena of the call. */
typedef struct place_problem {
    uint32_t count;
    uint32_t section_count;
    uint32_t *source;        /* [count] index in the caller's array */
    uint64_t *bytes;         /* [count] as given */
    uint64_t *padded;        /* [count] rounded up to the alignment: what a neighbour sees */
    uint64_t *lower;         /* [count] first time alive */
    uint64_t *length;        /* [count] time alive */
    uint32_t *first;         /* [count] first section alive in */
    uint32_t *last;          /* [count] one past the last section */
    uint64_t *section_time;  /* [section_count] a time at which exactly this set is alive */
    uint64_t *section_bytes; /* [section_count] sum of padded bytes alive */
    uint64_t alignment;      /* power of two */
    uint64_t sum_bytes;      /* all padded bytes; below 2^63, so offsets never wrap */
    uint64_t lower_bound;    /* bytes */
    uint32_t lower_bound_at; /* section */
} place_problem;

/* A plan under construction or the best one so far. */
typedef struct place_plan {
    uint64_t *offsets; /* [count] */
    uint64_t peak;     /* largest offset + bytes; UINT64_MAX: none yet */
    const char *method;
} place_plan;

/* Sort key of one buffer; equal keys keep their order. */
typedef struct place_key {
    uint64_t key;
    uint32_t index;
} place_key;

rlx_status place_problem_build(rlx_scratch *scratch, const rlx_place_item *items, uint32_t count,
                               uint64_t alignment, place_problem *out_problem);

/* Ascending and stable; `spare` has room for `count` keys. */
void place_sort(place_key *keys, uint32_t count, place_key *spare);

/* Named orders. Every row is one way to sort the buffers; the first place_orders_named() are those
 * that other planners use, the rest are variations (other ties, other weights). Row 0 is by size.
 */
typedef struct place_orders place_orders;
rlx_status place_orders_create(rlx_scratch *scratch, const place_problem *problem,
                               place_orders **out_orders);
uint32_t place_orders_count(void);
uint32_t place_orders_named(void);
const char *place_orders_method(uint32_t order, bool best_fit);
/* Writes the permutation [count] of order number `order`. */
void place_orders_fill(place_orders *orders, uint32_t order, uint32_t *out_permutation);

/* Places buffers one after the other. Reusable for any number of plans; place_fit_clear begins the
 * next one. */
typedef struct place_fit place_fit;
rlx_status place_fit_create(rlx_scratch *scratch, const place_problem *problem,
                            place_fit **out_fit);
void place_fit_clear(place_fit *fit);
/* Says where a buffer lies. It must not clash with those before. */
void place_fit_put(place_fit *fit, uint32_t item, uint64_t offset);
/* Each buffer of the permutation goes to the lowest gap it fits in (first fit), or to the smallest
 * (best fit); offsets and peak of the plan are updated. Gives up and returns false as soon as the
 * peak reaches `limit`. */
bool place_fit_run(place_fit *fit, const uint32_t *permutation, uint32_t count, bool best_fit,
                   uint64_t limit, place_plan *plan);
/* Buffers looked at in all runs so far. */
uint64_t place_fit_work(const place_fit *fit);

/* Greedy plans of one problem. */
typedef struct place_greedy {
    const place_problem *problem;
    place_orders *orders;
    place_fit *fit;
    uint32_t *permutation; /* [count] */
    place_plan trial;
} place_greedy;
rlx_status place_greedy_create(rlx_scratch *scratch, const place_problem *problem,
                               place_greedy *out_greedy);
/* Runs the orders [begin, end) with both fits until the peak is at most `enough`. Orders that are
 * not named stop after a fixed amount of work. `best` keeps the winner. */
void place_greedy_run(place_greedy *greedy, uint32_t begin, uint32_t end, uint64_t enough,
                      place_plan *best);

/* Looks for a plan within `target` by searching only where memory is short, and fitting the buffers
 * of all other times in between. Takes what it spends off `*work`. `best` keeps the winner. */
rlx_status place_peaks(const rlx_allocator *allocator, place_greedy *greedy, uint64_t target,
                       const rlx_place_options *options, uint64_t *work, place_plan *best);

/* Looks for a plan with a smaller peak, or within the capacity, until the time of the options is
 * over; without a time, until `*work` is spent, from which it takes what it did. Raises
 * `*possible_from`, below which no peak is possible. */
rlx_status place_search(rlx_scratch *scratch, const place_problem *problem,
                        const rlx_place_options *options, uint64_t begin_ns, uint64_t *work,
                        place_plan *best, uint64_t *possible_from);

#endif
