/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench elementwise`: elementwise ops and chains on tensors of 64 MiB, held against copying as
 * many bytes (half of what is read and written) with the same threads in the same run; and a chain
 * of six ops held against a single add of the same tensors. All sides alternate. */
#include "bench.h"
#include "probe.h"
#include "ready.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = 512, MIB = 1 << 20, BUFFER = 192 * MIB };

typedef struct elementwise_case {
    const char *name;
    const char *text;
    uint32_t moved_mib; /* read and written */
    double bar;         /* of copying; 0: none is set */
} elementwise_case;

#define LARGE   "f32[4096, 4096]"
#define GRAPH   "rlx 1\ninput x : " LARGE "\ninput r : " LARGE "\ninput s : f32[4096]\n"
#define ONE(op) "rlx 1\ninput x : " LARGE "\ny = " op "\noutput y\n"
#define GATE \
    "a = mul(x, s)\nb = add(a, s)\nc = sigmoid(b)\nd = mul(c, x)\ne = clip(d) alpha=-1 beta=1\n"
#define CHANNELS "input x : f32[4, 64, 256, 256]\ninput s : f32[64, 1, 1]\n"
static const elementwise_case cases[] = {
    {"add", GRAPH "y = add(x, r)\noutput y\n", 192, 0},
    {"chain of six, two large inputs", GRAPH GATE "y = add(e, r)\noutput y\n", 192, 0.85},
    {"chain of six, one large input",
     "rlx 1\ninput x : " LARGE "\ninput s : f32[4096]\n" GATE "y = add(e, s)\noutput y\n", 128,
     0.85},
    {"bias and relu per channel", "rlx 1\n" CHANNELS "a = add(x, s)\ny = relu(a)\noutput y\n", 128,
     0},
    {"exp", ONE("exp(x)"), 128, 0},
    {"tanh", ONE("tanh(x)"), 128, 0},
    {"gelu", ONE("gelu(x)"), 128, 0},
    {"gelu_tanh", ONE("gelu_tanh(x)"), 128, 0},
    {"silu", ONE("silu(x)"), 128, 0},
    {"f32 to f16", ONE("cast(x) to=f16"), 96, 0},
    {"quantise to i8",
     "rlx 1\ninput x : " LARGE "\nconst k : f32[] = 40\na = mul(x, k)\nb = round(a)\n"
     "c = clip(b) alpha=-128 beta=127\ny = cast(c) to=i8\noutput y\n",
     80, 0},
    {"f16 add and silu",
     "rlx 1\ninput x : f16[4096, 8192]\ninput s : f16[8192]\na = add(x, s)\ny = silu(a)\noutput "
     "y\n",
     128, 0},
    {"i32 less and where",
     "rlx 1\ninput x : i32[4096, 4096]\ninput r : i32[4096, 4096]\na = less(x, r)\n"
     "y = where(a, x, r)\noutput y\n",
     192, 0},
};
enum { CASES = sizeof cases / sizeof *cases, ADD = 0, CHAIN = 1 };

typedef struct bench {
    rlx_bench_report report;
    const probe_kernels *kernels;
    uint8_t *from, *to; /* what the limit copies */
    size_t copied;      /* bytes */
    bool streams;
} bench;

static double copy(void *user, uint32_t thread, uint32_t threads) {
    const bench *self = user;
    size_t units = self->copied / UNIT, first = units * thread / threads * UNIT;
    size_t bytes = units * (thread + 1) / threads * UNIT - first;
    if (self->streams) {
        self->kernels->stream(self->to + first, self->from + first, bytes);
    } else {
        memcpy(self->to + first, self->from + first, bytes);
    }
    return (double)bytes;
}

/* Bytes per second of the better way of copying. */
static bool measure_limit(bench *self, uint32_t threads, double *out_rate) {
    rlx_bench_figures rates;
    self->streams = false;
    if (!rlx_bench_rates(copy, self, threads, 1, &rates)) return false;
    *out_rate = rates.items[0];
    if (self->kernels->stream == NULL) return true;
    self->streams = true;
    if (!rlx_bench_rates(copy, self, threads, 1, &rates)) return false;
    if (rates.items[0] > *out_rate) *out_rate = rates.items[0];
    return true;
}

static void print(bench *self, const char *what, uint32_t threads, const rlx_bench_pairs *pairs,
                  double bytes, double bar) {
    char name[128];
    snprintf(name, sizeof name, "%s, %u %s", what, threads, threads == 1 ? "thread" : "threads");
    /* Bars are of all threads: one cannot compute a chain as fast as it copies. */
    rlx_bench_report_pairs(&self->report, name, pairs, bytes, "GB/s", threads > 1 ? bar : 0);
}

static bool measure_case(bench *self, const elementwise_case *row, uint32_t threads, ready *model) {
    static rlx_bench_pairs pairs;
    double rate = 0;
    self->copied = (size_t)row->moved_mib * MIB / 2;
    rlx_bench_pairs_begin(&pairs);
    if (ready_run(model) < 0) return false; /* warms up */
    for (uint32_t i = rlx_bench_trials(row->bar); i > 0; i--) {
        rlx_bench_settle(&self->report, threads);
        if (!measure_limit(self, threads, &rate)) return false;
        double time = ready_run(model);
        if (time < 0) return false;
        rlx_bench_pair(&pairs, (double)self->copied * 1e9 / rate, time);
    }
    print(self, row->name, threads, &pairs, (double)self->copied, row->bar);
    return true;
}

static bool bench_case(bench *self, const elementwise_case *row, uint32_t threads) {
    ready model;
    bool is_done =
        ready_make(&model, row->text, threads, false) && measure_case(self, row, threads, &model);
    ready_free(&model);
    return is_done;
}

/* The add is the limit: the chain may take 1.15 times as long. */
static bool measure_pair(bench *self, uint32_t threads, ready *add, ready *chain) {
    static rlx_bench_pairs pairs;
    rlx_bench_pairs_begin(&pairs);
    if (ready_run(add) < 0 || ready_run(chain) < 0) return false;
    for (uint32_t i = 0; i < RLX_BENCH_JUDGED_TRIALS; i++) {
        rlx_bench_settle(&self->report, threads);
        double limit = ready_run(add), ours = ready_run(chain);
        if (limit < 0 || ours < 0) return false;
        rlx_bench_pair(&pairs, limit, ours);
    }
    print(self, "one add over a chain of six", threads, &pairs, 0, 1 / 1.15);
    return true;
}

static bool bench_pair(bench *self, uint32_t threads) {
    ready add, chain;
    bool is_done = ready_make(&add, cases[ADD].text, threads, false);
    is_done = ready_make(&chain, cases[CHAIN].text, threads, false) && is_done;
    is_done = is_done && measure_pair(self, threads, &add, &chain);
    ready_free(&add);
    ready_free(&chain);
    return is_done;
}

int rlx_bench_elementwise(FILE *out, bool json) {
    uint32_t threads = rlx_bench_threads();
    bench self = {.report = rlx_bench_report_begin(out, json, threads), .kernels = probe_best()};
    self.from = aligned_alloc(4096, BUFFER / 2);
    self.to = aligned_alloc(4096, BUFFER / 2);
    bool is_done = self.from != NULL && self.to != NULL;
    if (is_done) memset(self.from, 1, BUFFER / 2), memset(self.to, 1, BUFFER / 2);
    for (uint32_t i = 0; i < CASES && is_done; i++) {
        is_done = bench_case(&self, &cases[i], 1);
        if (threads > 1) is_done = is_done && bench_case(&self, &cases[i], threads);
    }
    if (is_done) is_done = bench_pair(&self, threads);
    free(self.from);
    free(self.to);
    return rlx_bench_report_end(&self.report, is_done);
}
