/* SPDX-License-Identifier: Apache-2.0 */
/* How far the vector functions are from the truth, in units in the last place: each level's own
 * kernel of an op against libm in double.
 *
 *     test_kernels_ulp                          every op, samples from the whole range of f32
 *     test_kernels_ulp --full OP [FROM TO]      one op at every f32, on two threads; or at those
 *                                               whose magnitudes are FROM to TO hundredths of all
 *
 * The bounds are those of docs/performance.md. */
#include "kernels/ulp.h"

#include "backend/cpu/table.h"
#include "base/thread.h"
#include "kernels/levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8192, SAMPLE_STEP = 16411, WORKERS = 2 };
#define MAGNITUDES (UINT64_C(1) << 31)

typedef struct far_at {
    double far;
    float at;
} far_at;

/* One function on every level; each worker takes batches and keeps what was worst. */
typedef struct sweep {
    const ulp_function *function;
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t level_count;
    uint64_t step, end; /* in magnitudes: the bits of a number that is not negative */
    _Atomic uint64_t next;
} sweep;

typedef struct worker {
    sweep *shared;
    far_at worst[KERNEL_LEVELS];
    bool is_rule_wrong;
    float x[BATCH], y[BATCH];
    double truth[BATCH];
} worker;

static void run_batch(const rlx_cpu_level *level, const ulp_function *self, const float *x,
                      float *y, int64_t count) {
    float second = (float)ULP_SECOND;
    bool is_default = self->alpha == 0;
    rlx_unary_attrs attrs = {.alpha = is_default ? 0.75 : self->alpha,
                             .beta = is_default ? 1.25 : self->beta};
    rlx_tensor in[2] = {{.data = (void *)(uintptr_t)x,
                         .dtype = RLX_DTYPE_F32,
                         .rank = 1,
                         .dims = {count},
                         .strides = {1}},
                        {.data = &second, .dtype = RLX_DTYPE_F32}};
    rlx_tensor out = {
        .data = y, .dtype = RLX_DTYPE_F32, .rank = 1, .dims = {count}, .strides = {1}};
    bool is_binary = self->op == RLX_OP_POW || self->op == RLX_OP_MOD || self->op == RLX_OP_FMOD;
    uint32_t in_count = is_binary ? 2 : 1;
    rlx_target_query query = {.op = self->op,
                              .attrs = &attrs,
                              .in = in,
                              .out = &out,
                              .in_count = in_count,
                              .out_count = 1};
    rlx_kernel_args args = {.op = self->op,
                            .attrs = &attrs,
                            .in = in,
                            .out = &out,
                            .in_count = in_count,
                            .out_count = 1};
    const rlx_kernel *kernel = rlx_cpu_choose(level, &query);
    kernel->run(&args, 0, kernel->items(&args));
}

/* The truth of a batch; of the negative side from the other one where that is the same. */
static void find_truth(worker *self, bool is_negative, int64_t count) {
    const ulp_function *of = self->shared->function;
    double low = fabs((double)self->x[0]), high = fabs((double)self->x[count - 1]);
    if (is_negative && of->symmetry != ULP_NEITHER) {
        for (int64_t i = 0; of->symmetry == ULP_ODD && i < count; i++)
            self->truth[i] = -self->truth[i];
    } else if (self->shared->step == 1 && ulp_rule_tells(of->rule, low, high, is_negative)) {
        ulp_by_rule(of->rule, high, is_negative, self->x, self->truth, count);
    } else {
        for (int64_t i = 0; i < count; i++)
            self->truth[i] = of->truth((double)self->x[i]);
    }
}

/* Rules say what the function says. */
static void check_rule(worker *self, bool is_negative, int64_t count) {
    const ulp_rule *rule = self->shared->function->rule;
    for (int64_t i = 0; i < count; i++) {
        double x = fabs((double)self->x[i]), truth;
        if (!ulp_rule_tells(rule, x, x, is_negative)) continue;
        ulp_by_rule(rule, x, is_negative, &self->x[i], &truth, 1);
        if (ulp_between(truth, self->truth[i]) <= 1e-6) continue;
        if (!self->is_rule_wrong)
            fprintf(stderr, "%s: %.17g by rule at %.9g, not %.17g\n", self->shared->function->name,
                    truth, (double)self->x[i], self->truth[i]);
        self->is_rule_wrong = true;
    }
}

static void check_side(worker *self, bool is_negative, int64_t count) {
    const sweep *all = self->shared;
    find_truth(self, is_negative, count);
    if (all->step != 1) check_rule(self, is_negative, count);
    for (uint32_t i = 0; i < all->level_count; i++) {
        int64_t at;
        run_batch(all->levels[i], all->function, self->x, self->y, count);
        double far = ulp_worst(self->y, self->truth, count, &at);
        if (far > self->worst[i].far) self->worst[i] = (far_at){far, self->x[at]};
    }
}

/* Every step-th magnitude, from another first one in each batch, on both sides of 0. */
static void *work(void *user) {
    worker *self = user;
    uint64_t step = self->shared->step, base;
    while ((base = atomic_fetch_add(&self->shared->next, BATCH * step)) < self->shared->end) {
        uint64_t shift = base / BATCH * 2654435761u % step;
        int64_t count = 0;
        for (; count < BATCH; count++) {
            uint64_t at = base + (uint64_t)count * step + shift;
            if (at >= self->shared->end) break;
            uint32_t bits = (uint32_t)at;
            memcpy(&self->x[count], &bits, sizeof bits);
        }
        if (count == 0) continue;
        check_side(self, false, count);
        for (int64_t i = 0; i < count; i++)
            self->x[i] = -self->x[i];
        check_side(self, true, count);
    }
    return NULL;
}

/* The worst of all workers per level. Returns how many bounds do not hold. */
static uint32_t report(const sweep *all, const worker *workers, uint32_t count) {
    uint32_t bad = 0;
    for (uint32_t i = 0; i < all->level_count; i++) {
        far_at worst = workers[0].worst[i];
        for (uint32_t w = 1; w < count; w++) {
            if (workers[w].worst[i].far > worst.far) worst = workers[w].worst[i];
        }
        bool holds = worst.far <= all->function->bound;
        bad += !holds;
        printf("%-12s %-7s worst %.3f ulp of %.0f at %.9g%s\n", all->function->name,
               all->levels[i]->name, worst.far, all->function->bound, (double)worst.at,
               holds ? "" : "  TOO FAR");
    }
    for (uint32_t w = 0; w < count; w++)
        bad += workers[w].is_rule_wrong;
    return bad;
}

/* Infinities, zeros and the ends of what is normal are always among the samples, and the place
 * where a sigmoid with a quicker quotient was 3.13 ulp off, which samples had missed. */
static void check_ends(worker *self) {
    static const uint32_t ends[] = {0,          1,          0x7fffff,   0x800000,
                                    0x3f800000, 0x7f7fffff, 0x7f800000, 0x410aba41};
    enum { ENDS = sizeof ends / sizeof ends[0] };
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t i = 0; i < ENDS; i++) {
            uint32_t bits = ends[i] | side << 31;
            memcpy(&self->x[i], &bits, sizeof bits);
        }
        check_side(self, side == 1, ENDS);
    }
}

static uint32_t check(sweep *all) {
    static worker workers[WORKERS];
    pthread_t threads[WORKERS];
    bool is_started[WORKERS] = {false};
    for (uint32_t w = 0; w < WORKERS; w++)
        memset(&workers[w], 0, sizeof workers[w]), workers[w].shared = all;
    for (uint32_t w = 1; w < WORKERS && all->step == 1; w++)
        is_started[w] = rlx_thread_start(&threads[w], work, &workers[w]) == RLX_OK;
    if (all->step != 1) check_ends(&workers[0]);
    (void)work(&workers[0]);
    for (uint32_t w = 1; w < WORKERS; w++) {
        if (is_started[w]) (void)pthread_join(threads[w], NULL);
    }
    return report(all, workers, WORKERS);
}

int main(int argc, char **argv) {
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t count = kernel_levels(levels), bad = 0, checked = 0;
    bool is_full = argc >= 3 && strcmp(argv[1], "--full") == 0;
    uint64_t from = 0, to = 100;
    if (argc == 5) from = (uint64_t)atoi(argv[3]), to = (uint64_t)atoi(argv[4]);
    for (uint32_t f = 0; f < ulp_function_count && count != 0; f++) {
        if (is_full && strcmp(argv[2], ulp_functions[f].name) != 0) continue;
        sweep all = {.function = &ulp_functions[f],
                     .level_count = count,
                     .step = is_full ? 1 : SAMPLE_STEP,
                     .next = MAGNITUDES / 100 * from,
                     .end = to >= 100 ? MAGNITUDES : MAGNITUDES / 100 * to};
        memcpy(all.levels, levels, sizeof levels);
        bad += check(&all);
        checked++;
    }
    if (checked == 0 && count != 0) fprintf(stderr, "no such function\n");
    return bad != 0 || (checked == 0 && count != 0);
}
