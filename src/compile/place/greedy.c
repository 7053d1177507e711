/* SPDX-License-Identifier: Apache-2.0 */
/* The best of many greedy plans. The named orders always run, so the result is never worse than any
 * planner that uses one of them; a run is given up as soon as it cannot win. The variations run
 * while a budget of work lasts; work is counted in buffers looked at, not in time, so that the
 * result depends on the input alone. */
#include "compile/place/internal.h"

/* About 5 ms. */
static const uint64_t variation_work = 2000000;

/* What sorting one order costs, in the same unit. */
static const uint64_t sort_work = 50;

static void keep_better(place_plan *best, place_plan *other, const char *method) {
    uint64_t *offsets = best->offsets;
    *best = *other;
    best->method = method;
    other->offsets = offsets;
}

rlx_status place_greedy_create(rlx_scratch *scratch, const place_problem *problem,
                               place_greedy *out_greedy) {
    place_greedy greedy = {.problem = problem};
    RLX_TRY(place_orders_create(scratch, problem, &greedy.orders));
    RLX_TRY(place_fit_create(scratch, problem, &greedy.fit));
    RLX_TRY(
        rlx_scratch_array(scratch, problem->count, sizeof(uint32_t), (void **)&greedy.permutation));
    RLX_TRY(rlx_scratch_array(scratch, problem->count, sizeof(uint64_t),
                              (void **)&greedy.trial.offsets));
    *out_greedy = greedy;
    return RLX_OK;
}

/* False: the variations have used up their work. */
static bool may_go_on(const place_greedy *greedy, uint32_t order, uint64_t *begin,
                      uint64_t *sorts) {
    uint64_t work = place_fit_work(greedy->fit);
    if (order < place_orders_named()) return true;
    if ((*sorts)++ == 0) *begin = work;
    return work - *begin + *sorts * sort_work * greedy->problem->count <= variation_work;
}

void place_greedy_run(place_greedy *greedy, uint32_t begin, uint32_t end, uint64_t enough,
                      place_plan *best) {
    uint32_t count = greedy->problem->count;
    uint64_t work_begin = 0, sorts = 0;
    for (uint32_t order = begin; order < end && best->peak > enough; ++order) {
        if (!may_go_on(greedy, order, &work_begin, &sorts)) return;
        place_orders_fill(greedy->orders, order, greedy->permutation);
        for (int best_fit = 0; best_fit < 2 && best->peak > enough; ++best_fit) {
            greedy->trial.peak = 0;
            place_fit_clear(greedy->fit);
            if (place_fit_run(greedy->fit, greedy->permutation, count, best_fit, best->peak,
                              &greedy->trial)) {
                keep_better(best, &greedy->trial, place_orders_method(order, best_fit));
            }
        }
    }
}
