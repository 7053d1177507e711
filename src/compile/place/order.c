/* SPDX-License-Identifier: Apache-2.0 */
/* The orders in which buffers are handed to the greedy fit. One row per order: what it sorts by,
 * and how ties are broken. To add an order, add a row. */
#include "compile/place/internal.h"

#include <math.h>
#include <string.h>

typedef enum sort_by {
    BY_INDEX = 0,
    BY_SIZE,      /* most bytes first */
    BY_LENGTH,    /* longest life first */
    BY_LOWER,     /* earliest start first */
    BY_UPPER,     /* latest end first: time order seen from the end */
    BY_CONFLICTS, /* most buffers alive together with it first */
    BY_BREADTH,   /* the one that lives in the busiest section first */
    BY_AREA,      /* bytes * time */
    BY_ROOT_AREA, /* bytes * sqrt(time): between size and area */
    BY_CONTENTION /* bytes * conflicts */
} sort_by;

enum { TIE_COUNT = BY_LOWER + 1 };

static const struct {
    sort_by key;
    sort_by tie; /* below TIE_COUNT */
    const char *first_fit, *best_fit;
} rows[] = {
    {BY_SIZE, BY_INDEX, "size/first-fit", "size/best-fit"},
    {BY_SIZE, BY_LENGTH, "size-length/first-fit", "size-length/best-fit"},
    {BY_BREADTH, BY_SIZE, "breadth/first-fit", "breadth/best-fit"},
    {BY_LENGTH, BY_SIZE, "length/first-fit", "length/best-fit"},
    {BY_CONFLICTS, BY_SIZE, "conflicts/first-fit", "conflicts/best-fit"},
    {BY_LOWER, BY_INDEX, "time/first-fit", "time/best-fit"},
    {BY_LENGTH, BY_INDEX, "length-index/first-fit", "length-index/best-fit"},
    {BY_CONFLICTS, BY_INDEX, "conflicts-index/first-fit", "conflicts-index/best-fit"},
    {BY_AREA, BY_SIZE, "area/first-fit", "area/best-fit"},
    {BY_ROOT_AREA, BY_SIZE, "root-area/first-fit", "root-area/best-fit"},
    {BY_CONTENTION, BY_SIZE, "contention/first-fit", "contention/best-fit"},
    {BY_SIZE, BY_LOWER, "size-time/first-fit", "size-time/best-fit"},
    {BY_LOWER, BY_SIZE, "time-size/first-fit", "time-size/best-fit"},
    {BY_LOWER, BY_LENGTH, "time-length/first-fit", "time-length/best-fit"},
    {BY_BREADTH, BY_LENGTH, "breadth-length/first-fit", "breadth-length/best-fit"},
    {BY_UPPER, BY_SIZE, "end/first-fit", "end/best-fit"},
};
enum { NAMED_COUNT = 6, ROW_COUNT = sizeof rows / sizeof rows[0] };

struct place_orders {
    const place_problem *problem; /* borrowed */
    place_key *keys, *spare;
    uint32_t *breadth;         /* [count] rank of its busiest section, 0 = busiest of all */
    uint32_t *conflicts;       /* [count] */
    uint32_t *ties[TIE_COUNT]; /* [count] each: permutations to start from */
};

/* Positive doubles compare like their bits. */
static uint64_t descending(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return UINT64_MAX - bits;
}

static uint64_t key_of(const place_orders *orders, sort_by by, uint32_t i) {
    const place_problem *problem = orders->problem;
    double bytes = (double)problem->bytes[i], length = (double)problem->length[i];
    switch (by) {
    case BY_INDEX:
        return i;
    case BY_SIZE:
        return UINT64_MAX - problem->bytes[i];
    case BY_LENGTH:
        return UINT64_MAX - problem->length[i];
    case BY_LOWER:
        return problem->lower[i];
    case BY_UPPER:
        return UINT64_MAX - (problem->lower[i] + problem->length[i]);
    case BY_CONFLICTS:
        return UINT64_MAX - orders->conflicts[i];
    case BY_BREADTH:
        return orders->breadth[i];
    case BY_AREA:
        return descending(bytes * length);
    case BY_ROOT_AREA:
        return descending(bytes * sqrt(length));
    case BY_CONTENTION:
        return descending(bytes * (1.0 + orders->conflicts[i]));
    }
    return i;
}

static void sort_permutation(place_orders *orders, sort_by by, const uint32_t *start,
                             uint32_t *out_permutation) {
    uint32_t count = orders->problem->count;
    for (uint32_t k = 0; k < count; ++k) {
        uint32_t i = start == NULL ? k : start[k];
        orders->keys[k] = (place_key){key_of(orders, by, i), i};
    }
    place_sort(orders->keys, count, orders->spare);
    for (uint32_t k = 0; k < count; ++k)
        out_permutation[k] = orders->keys[k].index;
}

/* Everyone except those that end before it starts and those that start after it ends. */
static rlx_status count_conflicts(rlx_scratch *scratch, place_orders *orders) {
    const place_problem *problem = orders->problem;
    uint32_t *ended = NULL, *started = NULL; /* by this section, exclusive of it / below it */
    RLX_TRY(rlx_scratch_array(scratch, (uint64_t)problem->section_count + 2, sizeof *ended,
                              (void **)&ended));
    RLX_TRY(rlx_scratch_array(scratch, (uint64_t)problem->section_count + 2, sizeof *started,
                              (void **)&started));
    for (uint32_t i = 0; i < problem->count; ++i) {
        ++ended[problem->last[i]];
        ++started[problem->first[i] + 1];
    }
    for (uint32_t s = 1; s <= problem->section_count; ++s) {
        ended[s] += ended[s - 1];
        started[s] += started[s - 1];
    }
    for (uint32_t i = 0; i < problem->count; ++i) {
        orders->conflicts[i] = started[problem->last[i]] - ended[problem->first[i]] - 1;
    }
    return RLX_OK;
}

/* Sections by falling bytes, then a tree of least ranks to ask for a buffer's busiest section. */
static rlx_status rank_breadth(rlx_scratch *scratch, place_orders *orders) {
    const place_problem *problem = orders->problem;
    uint32_t sections = problem->section_count, *tree = NULL;
    RLX_TRY(rlx_scratch_array(scratch, 2 * (uint64_t)sections, sizeof *tree, (void **)&tree));
    for (uint32_t s = 0; s < sections; ++s) {
        orders->keys[s] = (place_key){UINT64_MAX - problem->section_bytes[s], s};
    }
    place_sort(orders->keys, sections, orders->spare);
    for (uint32_t k = 0; k < sections; ++k)
        tree[sections + orders->keys[k].index] = k;
    for (uint32_t node = sections; node-- > 1;) {
        uint32_t left = tree[2 * (size_t)node], right = tree[2 * (size_t)node + 1];
        tree[node] = left < right ? left : right;
    }
    for (uint32_t i = 0; i < problem->count; ++i) {
        uint32_t least = UINT32_MAX;
        size_t low = (size_t)problem->first[i] + sections,
               high = (size_t)problem->last[i] + sections;
        for (; low < high; low /= 2, high /= 2) {
            if (low % 2 == 1 && tree[low++] < least) least = tree[low - 1];
            if (high % 2 == 1 && tree[--high] < least) least = tree[high];
        }
        orders->breadth[i] = least;
    }
    return RLX_OK;
}

rlx_status place_orders_create(rlx_scratch *scratch, const place_problem *problem,
                               place_orders **out_orders) {
    place_orders *orders = NULL;
    uint32_t count = problem->count;
    RLX_TRY(rlx_scratch_alloc(scratch, sizeof *orders, (void **)&orders));
    orders->problem = problem;
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(place_key), (void **)&orders->keys));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(place_key), (void **)&orders->spare));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint32_t), (void **)&orders->breadth));
    RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint32_t), (void **)&orders->conflicts));
    RLX_TRY(count_conflicts(scratch, orders));
    RLX_TRY(rank_breadth(scratch, orders));
    for (uint32_t tie = 0; tie < TIE_COUNT; ++tie) {
        RLX_TRY(rlx_scratch_array(scratch, count, sizeof(uint32_t), (void **)&orders->ties[tie]));
        sort_permutation(orders, (sort_by)tie, NULL, orders->ties[tie]);
    }
    *out_orders = orders;
    return RLX_OK;
}

uint32_t place_orders_count(void) {
    return ROW_COUNT;
}

uint32_t place_orders_named(void) {
    return NAMED_COUNT;
}

const char *place_orders_method(uint32_t order, bool best_fit) {
    return best_fit ? rows[order].best_fit : rows[order].first_fit;
}

void place_orders_fill(place_orders *orders, uint32_t order, uint32_t *out_permutation) {
    sort_permutation(orders, rows[order].key, orders->ties[rows[order].tie], out_permutation);
}
