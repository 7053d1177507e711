/* SPDX-License-Identifier: Apache-2.0 */
/* The best of many greedy plans. The named orders always run, so the result is never worse than any
 * planner that uses one of them; a run is given up as soon as it cannot win. The variations run
 * while a budget of work lasts; work is counted in buffers looked at, not in time, so that the
 * result depends on the input alone. */
#include "compile/place/internal.h"

/* About 10 ms. */
static const uint64_t variation_work = 4000000;

/* What sorting one order costs, in the same unit. */
static const uint64_t sort_work = 50;

static void keep_better(place_plan *best, place_plan *other, const char *method) {
    uint64_t *offsets = best->offsets;
    *best = *other;
    best->method = method;
    other->offsets = offsets;
}

rlx_status place_greedy(rlx_scratch *scratch, const place_problem *problem, uint64_t enough,
                        place_plan *best) {
    place_orders *orders = NULL;
    place_fit *fit = NULL;
    place_plan trial = {.peak = UINT64_MAX};
    uint32_t *permutation = NULL;
    uint64_t variation_begin = UINT64_MAX, sorting = 0;
    RLX_TRY(place_orders_create(scratch, problem, &orders));
    RLX_TRY(place_fit_create(scratch, problem, &fit));
    RLX_TRY(rlx_scratch_array(scratch, problem->count, sizeof *permutation, (void **)&permutation));
    RLX_TRY(rlx_scratch_array(scratch, problem->count, sizeof(uint64_t), (void **)&trial.offsets));
    for (uint32_t order = 0; order < place_orders_count() && best->peak > enough; ++order) {
        if (order == place_orders_named()) variation_begin = place_fit_work(fit);
        if (order >= place_orders_named()) {
            sorting += sort_work * problem->count;
            if (place_fit_work(fit) - variation_begin + sorting > variation_work) break;
        }
        place_orders_fill(orders, order, permutation);
        for (int best_fit = 0; best_fit < 2 && best->peak > enough; ++best_fit) {
            if (place_fit_run(fit, permutation, best_fit, best->peak, &trial)) {
                keep_better(best, &trial, place_orders_method(order, best_fit));
            }
        }
    }
    return RLX_OK;
}
