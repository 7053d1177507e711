/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench steps`: what a step costs beside its work. Tiny steps (an elementwise op on 8 numbers,
 * in a chain that nothing fuses) on one thread and on two, and of other ops; a step that is just
 * large enough to be shared, against half of its time on one thread; and how much two threads get
 * done beside a busy loop of equal priority, against one thread beside the same loop. Figures of a
 * pair alternate. */
#include "bench.h"
#include "ready.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    TINY_STEPS = 1000,
    TINY_RUNS = 20, /* runs of a trial; the best counts */
    SHARED_STEPS = 100,
    SHARED_ELEMENTS = 40960, /* a little more than what stays on one thread */
    CROWD_TRIALS = 21,
    CROWD_MS = 120
};
static const double tolerance = 1.25;

/* Costs: the best and (within the tolerance) the median stay below the limit. */
static void print_cost(rlx_bench_report *self, const char *name, const rlx_bench_figures *us,
                       double limit) {
    double best = rlx_bench_least(us), median = rlx_bench_median(us);
    rlx_bench_report_most(self, name, "", best, "us", limit, 1,
                          best <= limit && median <= limit * tolerance);
    rlx_bench_report_row(self, name, ", median", median, "us", limit * tolerance);
}

/* What a chain consists of: v1 = op(v0 MORE, v2 = op(v1 MORE, and so on. */
typedef struct link {
    const char *op, *parameters, *more;
} link;
static const link negation = {"neg", "", ")"};
static const link others[] = {
    {"softmax", "", ") axis=1"},
    {"layer_norm", "param g : f32[8] = seeded(1, 1)\nparam b : f32[8] = seeded(2, 1)\n",
     ", g, b) axis=1"},
    {"matmul", "param w : f32[8, 8] = seeded(1, 0.3)\n", ", w)"},
    {"cumsum", "", ") axis=1"},
};

/* A chain of `steps` equal nodes. The text is the caller's to free. */
static char *chain_text(const link *of, const char *shape, uint32_t steps) {
    size_t bytes = 256 + (size_t)steps * 64, at = 0;
    char *text = malloc(bytes);
    if (text == NULL) return NULL;
    at += (size_t)snprintf(text, bytes, "rlx 1\ninput v0 : f32%s\n%s", shape, of->parameters);
    for (uint32_t i = 0; i < steps; i++)
        at +=
            (size_t)snprintf(text + at, bytes - at, "v%u = %s(v%u%s\n", i + 1, of->op, i, of->more);
    snprintf(text + at, bytes - at, "output v%u\n", steps);
    return text;
}

static bool make_chain(ready *self, const link *of, const char *shape, uint32_t steps,
                       uint32_t threads) {
    char *text = chain_text(of, shape, steps);
    bool is_made = text != NULL && ready_make(self, text, threads, true);
    free(text);
    return is_made;
}

/* The least time of a few runs, per step, in us; negative on failure. */
static double best_of(ready *self, uint32_t runs, uint32_t steps) {
    double best = -1;
    for (uint32_t i = 0; i < runs; i++) {
        double ns = ready_run(self);
        if (ns < 0) return -1;
        if (best < 0 || ns < best) best = ns;
    }
    return best * 1e-3 / steps;
}

static bool measure_tiny(rlx_bench_report *self, ready *one, ready *two) {
    rlx_bench_figures alone = {.count = 0}, unshared = {.count = 0};
    for (uint32_t trial = 0; trial < RLX_BENCH_JUDGED_TRIALS; trial++) {
        double a = best_of(one, TINY_RUNS, TINY_STEPS), b = best_of(two, TINY_RUNS, TINY_STEPS);
        if (a < 0 || b < 0) return false;
        alone.items[alone.count++] = a;
        unshared.items[unshared.count++] = b;
    }
    print_cost(self, "tiny step, 1 thread", &alone, 0.15);
    print_cost(self, "tiny step, 2 threads, not shared", &unshared, 0.2);
    return true;
}

/* Other ops on 8 numbers, one thread. */
static bool measure_other(rlx_bench_report *self, const link *of) {
    rlx_bench_figures us = {.count = 0};
    ready chain = {0};
    char name[80];
    bool is_done = make_chain(&chain, of, "[1, 8]", TINY_STEPS, 1) && best_of(&chain, 3, 1) >= 0;
    for (uint32_t trial = 0; is_done && trial < RLX_BENCH_JUDGED_TRIALS; trial++) {
        us.items[us.count++] = best_of(&chain, TINY_RUNS, TINY_STEPS);
        is_done = us.items[trial] >= 0;
    }
    ready_free(&chain);
    if (!is_done) return false;
    snprintf(name, sizeof name, "tiny step, %s, 1 thread", of->op);
    print_cost(self, name, &us, 0.15);
    return true;
}

static bool measure_others(rlx_bench_report *self) {
    bool is_done = true;
    for (size_t i = 0; is_done && i < sizeof others / sizeof *others; i++)
        is_done = measure_other(self, &others[i]);
    return is_done;
}

static bool measure_shared(rlx_bench_report *self, ready *one, ready *two) {
    rlx_bench_figures over = {.count = 0}, whole = {.count = 0};
    for (uint32_t trial = 0; trial < RLX_BENCH_JUDGED_TRIALS; trial++) {
        rlx_bench_settle(self, 2);
        double a = best_of(one, 5, SHARED_STEPS), b = best_of(two, 5, SHARED_STEPS);
        if (a < 0 || b < 0) return false;
        whole.items[whole.count++] = a;
        over.items[over.count++] = b - a / 2;
    }
    rlx_bench_row(self->out, self->json, "smallest shared step, 1 thread", rlx_bench_least(&whole),
                  "us", 0);
    print_cost(self, "shared step, 2 threads, over half of that", &over, 0.8);
    return true;
}

/* Something else that wants a processor. */
static void *be_busy(void *user) {
    while (atomic_load_explicit((_Atomic int *)user, memory_order_relaxed) == 0) {
    }
    return NULL;
}

/* Runs per second over CROWD_MS; negative on failure. */
static double rate_of(ready *self) {
    uint64_t start = rlx_bench_now_ns(), runs = 0, now = start;
    while (now - start < CROWD_MS * UINT64_C(1000000)) {
        if (ready_run(self) < 0) return -1;
        runs++;
        now = rlx_bench_now_ns();
    }
    return (double)runs * 1e9 / (double)(now - start);
}

/* Seconds per run, of one thread and of two. */
static bool crowd_trials(ready *one, ready *two, rlx_bench_pairs *pairs) {
    for (uint32_t trial = 0; trial < CROWD_TRIALS; trial++) {
        double x = rate_of(one), y = rate_of(two);
        if (x <= 0 || y <= 0) return false;
        rlx_bench_pair(pairs, 1 / x, 1 / y);
    }
    return true;
}

static bool measure_crowded(rlx_bench_report *self, ready *one, ready *two, const char *what) {
    static rlx_bench_pairs pairs;
    _Atomic int stop = 0;
    pthread_t loop;
    char name[160];
    rlx_bench_pairs_begin(&pairs);
    if (pthread_create(&loop, NULL, be_busy, &stop) != 0) return false;
    bool is_done = crowd_trials(one, two, &pairs);
    atomic_store(&stop, 1);
    pthread_join(loop, NULL);
    if (!is_done) return false;
    snprintf(name, sizeof name, "beside a busy loop, 2 threads : 1, %s", what);
    rlx_bench_report_pairs(self, name, &pairs, 0, "", 0.9);
    return true;
}

/* A pair of the same chain for one thread and for two. */
static bool with_pair(rlx_bench_report *self, const char *shape, uint32_t steps,
                      bool (*measure)(rlx_bench_report *self, ready *one, ready *two,
                                      const char *what),
                      const char *what) {
    ready one = {0}, two = {0};
    bool is_done = make_chain(&one, &negation, shape, steps, 1) &&
                   make_chain(&two, &negation, shape, steps, 2) && best_of(&one, 3, 1) >= 0 &&
                   best_of(&two, 3, 1) >= 0 && measure(self, &one, &two, what);
    ready_free(&one);
    ready_free(&two);
    return is_done;
}

static bool tiny(rlx_bench_report *self, ready *one, ready *two, const char *what) {
    (void)what;
    return measure_tiny(self, one, two);
}

static bool shared(rlx_bench_report *self, ready *one, ready *two, const char *what) {
    (void)what;
    return measure_shared(self, one, two);
}

int rlx_bench_steps(FILE *out, bool json) {
    rlx_bench_report self = rlx_bench_report_begin(out, json, 2);
    char shape[32];
    snprintf(shape, sizeof shape, "[%d]", SHARED_ELEMENTS);
    bool is_done = with_pair(&self, "[8]", TINY_STEPS, tiny, NULL) && measure_others(&self) &&
                   with_pair(&self, shape, SHARED_STEPS, shared, NULL) &&
                   with_pair(&self, shape, 10, measure_crowded, "small steps") &&
                   with_pair(&self, "[1048576]", 10, measure_crowded, "large steps");
    return rlx_bench_report_end(&self, is_done);
}
