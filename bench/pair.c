/* SPDX-License-Identifier: Apache-2.0 */
/* Timing on two ranks: both repeat, the slower one counts. */
#include "pair.h"

#include <stdlib.h>

static double slower(const pair *self, uint32_t rep) {
    double a = self->shared->times[0][rep], b = self->shared->times[1][rep];
    return a > b ? a : b;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void time_whole(pair *self, const pair_side *side, uint32_t reps) {
    pair_meet(self);
    uint64_t start = rlx_bench_now_ns();
    for (uint32_t i = 0; i < reps; ++i)
        side->run(self);
    self->shared->times[self->rank][0] = (double)(rlx_bench_now_ns() - start) / reps;
}

static void time_each(pair *self, const pair_side *side, uint32_t reps) {
    for (uint32_t i = 0; i < reps; ++i) {
        side->prepare(self);
        pair_meet(self);
        uint64_t start = rlx_bench_now_ns();
        side->run(self);
        self->shared->times[self->rank][i] = (double)(rlx_bench_now_ns() - start);
    }
}

double pair_time(pair *self, const pair_side *side, uint32_t reps) {
    double all[PAIR_REPS];
    uint32_t count = 1;
    if (side->prepare == NULL) {
        time_whole(self, side, reps);
    } else {
        count = reps < PAIR_REPS ? reps : PAIR_REPS;
        time_each(self, side, count);
    }
    pair_meet(self);
    for (uint32_t i = 0; i < count; ++i)
        all[i] = slower(self, i);
    pair_meet(self);
    qsort(all, count, sizeof *all, compare);
    return all[count / 2];
}
