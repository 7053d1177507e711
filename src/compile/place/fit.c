/* SPDX-License-Identifier: Apache-2.0 */
/* First fit and best fit for one order of buffers, without looking at buffers of other times.
 *
 * Sections are grouped into leaves of a binary tree. A placed buffer of a short life is listed in
 * each leaf it touches, one of a long life in the few tree nodes that it covers whole. Every list
 * is sorted by offset, so the neighbours of a new buffer are the merge of the lists of all nodes
 * that meet its life, and a first fit stops at the first gap. How long a list can get depends on
 * the lives alone, so all lists share one array that is laid out once for any number of orders. */
#include "compile/place/internal.h"

#include <string.h>

/* A life of at most this many leaves is listed in the leaves themselves. */
enum { SHORT_LEAVES = 4 };

typedef struct entry {
    uint64_t offset, end;
    uint32_t first, last; /* sections */
} entry;

/* What is left of one list. */
typedef struct cursor {
    const entry *at, *end;
} cursor;

struct place_fit {
    const place_problem *problem; /* borrowed */
    uint32_t sections_per_leaf;
    uint32_t leaf_count;   /* power of two */
    uint32_t levels;       /* leaf_count == 1 << levels */
    uint64_t *list_start;  /* [2 * leaf_count + 1] where the list of a node begins in `entries` */
    uint32_t *list_length; /* [2 * leaf_count] */
    bool *level_used;      /* [levels + 1] level 0 are the leaves */
    entry *entries;
    cursor *open; /* [2 * leaf_count] the lists being looked through */
    uint32_t open_count;
    uint64_t work; /* entries looked at in all runs */
};

typedef void (*visit_node)(place_fit *fit, uint32_t node, const entry *placed);

/* Visits the nodes that list the life [first, last). Node 1 is the root, leaf k is leaf_count + k.
 */
static void visit_cover(place_fit *fit, const entry *placed, visit_node visit) {
    uint32_t low = fit->leaf_count + placed->first / fit->sections_per_leaf;
    uint32_t high = fit->leaf_count + (placed->last - 1) / fit->sections_per_leaf + 1;
    if (high - low <= SHORT_LEAVES) {
        for (uint32_t node = low; node < high; ++node)
            visit(fit, node, placed);
        return;
    }
    /* The first and last leaf may be covered in part only; they stay leaves. */
    visit(fit, low++, placed);
    visit(fit, --high, placed);
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1) visit(fit, low++, placed);
        if (high % 2 == 1) visit(fit, --high, placed);
    }
}

static void count_node(place_fit *fit, uint32_t node, const entry *placed) {
    (void)placed;
    ++fit->list_start[node + 1];
    uint32_t level = fit->levels;
    for (; node > 1; node /= 2)
        --level;
    fit->level_used[level] = true;
}

static void insert_node(place_fit *fit, uint32_t node, const entry *placed) {
    entry *list = fit->entries + fit->list_start[node];
    uint32_t low = 0, high = fit->list_length[node]++;
    uint32_t length = high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list[middle].offset <= placed->offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(list + low + 1, list + low, (length - low) * sizeof *list);
    list[low] = *placed;
}

/* Collects the lists of every node that meets [first, last). */
static void open_lists(place_fit *fit, uint32_t first, uint32_t last) {
    uint32_t low = fit->leaf_count + first / fit->sections_per_leaf;
    uint32_t high = fit->leaf_count + (last - 1) / fit->sections_per_leaf;
    fit->open_count = 0;
    for (uint32_t level = 0; level <= fit->levels; ++level, low /= 2, high /= 2) {
        if (!fit->level_used[level]) continue;
        for (uint32_t node = low; node <= high; ++node) {
            uint32_t length = fit->list_length[node];
            const entry *list = fit->entries + fit->list_start[node];
            if (length != 0) fit->open[fit->open_count++] = (cursor){list, list + length};
        }
    }
}

/* Moves `offset` up past every neighbour that is in the way of [offset, offset + bytes), until none
 * is. Each entry is passed once, in whatever list comes next: one that ended below stays below. */
static uint64_t rise_to_gap(place_fit *fit, uint32_t first, uint32_t last, uint64_t bytes,
                            uint64_t offset) {
    uint32_t quiet = 0; /* lists in a row that did not move it */
    for (uint32_t list = 0; quiet < fit->open_count;
         list = list + 1 < fit->open_count ? list + 1 : 0) {
        const entry *at = fit->open[list].at, *end = fit->open[list].end;
        uint64_t before = offset;
        for (; at != end && at->offset < offset + bytes; ++at) {
            /* Without branches: whether lives meet is as good as random. */
            uint64_t meets = (uint64_t)((at->first < last) & (at->last > first));
            uint64_t end_if_meets = at->end & (0 - meets);
            offset = end_if_meets > offset ? end_if_meets : offset;
        }
        fit->work += (uint64_t)(at - fit->open[list].at) + 1;
        fit->open[list].at = at;
        quiet = offset == before ? quiet + 1 : 1;
    }
    return offset;
}

/* Where the gap that rise_to_gap found ends: at the next neighbour. UINT64_MAX: at none. */
static uint64_t gap_end(place_fit *fit, uint32_t first, uint32_t last) {
    uint64_t nearest = UINT64_MAX;
    for (uint32_t list = 0; list < fit->open_count; ++list) {
        cursor *open = &fit->open[list];
        while (open->at != open->end && (open->at->first >= last || open->at->last <= first)) {
            ++open->at;
        }
        if (open->at != open->end && open->at->offset < nearest) nearest = open->at->offset;
    }
    return nearest;
}

/* The offset for buffer i: the lowest gap that holds it, or the tightest. */
static uint64_t find_gap(place_fit *fit, uint32_t i, bool best_fit) {
    uint32_t first = fit->problem->first[i], last = fit->problem->last[i];
    uint64_t bytes = fit->problem->padded[i];
    open_lists(fit, first, last);
    uint64_t offset = rise_to_gap(fit, first, last, bytes, 0);
    if (!best_fit) return offset;
    uint64_t best_gap = UINT64_MAX, best_offset = 0;
    for (uint64_t end; (end = gap_end(fit, first, last)) != UINT64_MAX;) {
        if (end - offset < best_gap) {
            best_gap = end - offset;
            best_offset = offset;
        }
        if (best_gap == bytes) break;
        offset = rise_to_gap(fit, first, last, bytes, end);
    }
    return best_gap == UINT64_MAX ? offset : best_offset;
}

void place_fit_clear(place_fit *fit) {
    memset(fit->list_length, 0, 2 * (size_t)fit->leaf_count * sizeof *fit->list_length);
}

void place_fit_put(place_fit *fit, uint32_t item, uint64_t offset) {
    const place_problem *problem = fit->problem;
    entry placed = {offset, offset + problem->padded[item], problem->first[item],
                    problem->last[item]};
    visit_cover(fit, &placed, insert_node);
}

bool place_fit_run(place_fit *fit, const uint32_t *permutation, uint32_t count, bool best_fit,
                   uint64_t limit, place_plan *plan) {
    const place_problem *problem = fit->problem;
    for (uint32_t k = 0; k < count; ++k) {
        uint32_t i = permutation[k];
        uint64_t offset = find_gap(fit, i, best_fit), end = offset + problem->bytes[i];
        if (end > plan->peak) plan->peak = end;
        if (plan->peak >= limit) return false;
        plan->offsets[i] = offset;
        place_fit_put(fit, i, offset);
    }
    return true;
}

/* Leaves about as long as the mean life: a buffer then touches two or three of them. */
static void choose_leaves(place_fit *fit) {
    const place_problem *problem = fit->problem;
    uint64_t total = 0, leaves;
    for (uint32_t i = 0; i < problem->count; ++i)
        total += problem->last[i] - problem->first[i];
    fit->sections_per_leaf = (uint32_t)(total / problem->count);
    if (fit->sections_per_leaf == 0) fit->sections_per_leaf = 1;
    leaves = (problem->section_count + fit->sections_per_leaf - 1) / fit->sections_per_leaf;
    while (((uint64_t)1 << fit->levels) < leaves)
        ++fit->levels;
    fit->leaf_count = (uint32_t)1 << fit->levels;
}

rlx_status place_fit_create(rlx_scratch *scratch, const place_problem *problem,
                            place_fit **out_fit) {
    place_fit *fit = NULL;
    RLX_TRY(rlx_scratch_alloc(scratch, sizeof *fit, (void **)&fit));
    fit->problem = problem;
    choose_leaves(fit);
    uint64_t nodes = 2 * (uint64_t)fit->leaf_count;
    RLX_TRY(rlx_scratch_array(scratch, nodes + 1, sizeof(uint64_t), (void **)&fit->list_start));
    RLX_TRY(rlx_scratch_array(scratch, nodes, sizeof(uint32_t), (void **)&fit->list_length));
    RLX_TRY(rlx_scratch_array(scratch, nodes, sizeof(cursor), (void **)&fit->open));
    RLX_TRY(rlx_scratch_array(scratch, (uint64_t)fit->levels + 1, 1, (void **)&fit->level_used));
    for (uint32_t i = 0; i < problem->count; ++i) {
        entry life = {.first = problem->first[i], .last = problem->last[i]};
        visit_cover(fit, &life, count_node);
    }
    for (uint64_t node = 0; node < nodes; ++node)
        fit->list_start[node + 1] += fit->list_start[node];
    RLX_TRY(
        rlx_scratch_array(scratch, fit->list_start[nodes], sizeof(entry), (void **)&fit->entries));
    *out_fit = fit;
    return RLX_OK;
}

uint64_t place_fit_work(const place_fit *fit) {
    return fit->work;
}
