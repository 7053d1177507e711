/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench attention`: prefill against the multiply-add peak, decode against the read bandwidth,
 * each measured beside it in the same trial. Prefill counts the operations of keys that are seen;
 * decode counts the bytes of keys and values, and goes round more of them than any cache holds. */
#include "bench.h"
#include "probe.h"
#include "ready.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HEADS = 32, KV_HEADS = 4, DEPTH = 64, PREFILL = 512, ROUNDS = 300000 };
static const size_t read_bytes = (size_t)256 << 20;
static const double tolerance = 1.25;

typedef struct bench {
    FILE *out;
    bool json, is_judged;
    int code;
    const probe_kernels *kernels;
    uint8_t *memory; /* read_bytes of it */
} bench;

static double work_multiply_add(void *user, uint32_t thread, uint32_t threads) {
    const bench *self = user;
    (void)thread, (void)threads;
    return self->kernels->multiply_add(ROUNDS);
}

static double work_read(void *user, uint32_t thread, uint32_t threads) {
    const bench *self = user;
    size_t part = read_bytes / threads / 512 * 512;
    volatile uint64_t sink = self->kernels->read(self->memory + part * thread, part);
    (void)sink;
    return (double)part;
}

/* What is measured: a model, how much it does, and what limits it. */
typedef struct subject {
    const char *name;
    uint32_t threads;
    double amount; /* operations or bytes of one run */
    rlx_bench_work limit;
    const char *unit;
    double bar;
} subject;

/* The limit and ours alternate. The best of each, and the median of the pairs. */
static bool measure(bench *self, const subject *what, ready *model) {
    rlx_bench_figures limits = {.count = 0}, ours = {.count = 0}, pairs = {.count = 0}, one;
    for (uint32_t trial = 0; trial <= RLX_BENCH_TRIALS; trial++) {
        if (!rlx_bench_rates(what->limit, self, what->threads, 1, &one)) return false;
        double ns = ready_run(model);
        if (ns < 0) return false;
        if (trial == 0) continue; /* warms up */
        limits.items[limits.count++] = one.items[0];
        ours.items[ours.count++] = what->amount * 1e9 / ns;
        pairs.items[pairs.count++] = what->amount * 1e9 / ns / one.items[0];
    }
    char name[160];
    double limit = rlx_bench_most(&limits), best = rlx_bench_most(&ours);
    double median = rlx_bench_median(&pairs);
    const char *judged = self->is_judged ? "" : " (not judged)";
    snprintf(name, sizeof name, "%s, %u thread%s%s", what->name, what->threads,
             what->threads == 1 ? "" : "s", judged);
    rlx_bench_row(self->out, self->json, name, best * 1e-9, what->unit, limit * 1e-9);
    snprintf(name, sizeof name, "%s, %u thread%s, median of pairs%s", what->name, what->threads,
             what->threads == 1 ? "" : "s", judged);
    rlx_bench_row(self->out, self->json, name, median, "of the limit", 1);
    if (self->is_judged && (best < what->bar * limit || median * tolerance < what->bar)) {
        self->code = 1;
    }
    return true;
}

static bool prefill(bench *self, bool is_causal, uint32_t threads) {
    char text[512];
    ready model = {0};
    double keys = is_causal ? (PREFILL + 1) / 2.0 : PREFILL; /* seen by a query on average */
    subject what = {.name = is_causal ? "prefill 512 x 512, 32 x 64, causal"
                                      : "prefill 512 x 512, 32 x 64",
                    .threads = threads,
                    .amount = 4.0 * HEADS * PREFILL * keys * DEPTH,
                    .limit = work_multiply_add,
                    .unit = "GFLOP/s",
                    .bar = 0.5};
    snprintf(text, sizeof text,
             "rlx 1\ninput q : f32[1, %d, %d, %d]\ninput k : f32[1, %d, %d, %d]\n"
             "input v : f32[1, %d, %d, %d]\ny = attention(q, k, v)%s\noutput y\n",
             HEADS, PREFILL, DEPTH, HEADS, PREFILL, DEPTH, HEADS, PREFILL, DEPTH,
             is_causal ? " causal=true" : "");
    bool is_done = ready_make(&model, text, threads, false) && measure(self, &what, &model);
    ready_free(&model);
    return is_done;
}

/* Layers of attention one after the other, each with keys and values of its own. */
static char *decode_text(int64_t depth, int64_t layers) {
    size_t bytes = 256 + (size_t)layers * 256, at = 0;
    char *text = malloc(bytes);
    if (text == NULL) return NULL;
    at += (size_t)snprintf(text, bytes, "rlx 1\ninput q0 : f32[1, %d, 1, %d]\n", HEADS, DEPTH);
    for (int64_t i = 0; i < layers; i++) {
        at += (size_t)snprintf(text + at, bytes - at,
                               "param k%d : f16[1, %d, %d, %d] = seeded(%d, 1)\n"
                               "param v%d : f16[1, %d, %d, %d] = seeded(%d, 1)\n",
                               (int)i, KV_HEADS, (int)depth, DEPTH, (int)(2 * i + 1), (int)i,
                               KV_HEADS, (int)depth, DEPTH, (int)(2 * i + 2));
        at += (size_t)snprintf(text + at, bytes - at, "q%d = attention(q%d, k%d, v%d)\n",
                               (int)(i + 1), (int)i, (int)i, (int)i);
    }
    snprintf(text + at, bytes - at, "output q%d\n", (int)layers);
    return text;
}

static bool decode(bench *self, int64_t depth, uint32_t threads) {
    double layer_bytes = 2.0 * KV_HEADS * (double)depth * DEPTH * 2;
    int64_t layers = (int64_t)((double)read_bytes / layer_bytes + 0.999);
    char name[64], *text = decode_text(depth, layers);
    ready model = {0};
    subject what = {.name = name,
                    .threads = threads,
                    .amount = layer_bytes * (double)layers,
                    .limit = work_read,
                    .unit = "GB/s",
                    .bar = 0.6};
    snprintf(name, sizeof name, "decode at depth %d, 32 / 4 x 64, f16", (int)depth);
    bool is_done =
        text != NULL && ready_make(&model, text, threads, false) && measure(self, &what, &model);
    ready_free(&model);
    free(text);
    return is_done;
}

static bool measure_all(bench *self) {
    uint32_t threads = rlx_bench_threads() < 2 ? 1 : 2;
    bool is_done = true;
    for (uint32_t n = 1; is_done && n <= threads; n++)
        is_done = prefill(self, false, n) && prefill(self, true, n);
    return is_done && decode(self, 1024, threads) && decode(self, 8192, threads);
}

int rlx_bench_attention(FILE *out, bool json) {
    bench self = {.out = out, .json = json, .kernels = probe_best()};
    double busy = rlx_bench_busy(rlx_bench_threads());
    self.is_judged = busy <= RLX_BENCH_BUSY_LIMIT;
    if (!self.is_judged) fprintf(stderr, "rlx bench: the machine is too busy to judge\n");
    self.memory =
        mmap(NULL, read_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (self.memory == MAP_FAILED) {
        fprintf(stderr, "rlx bench: no memory for %zu bytes\n", read_bytes);
        return 1;
    }
    memset(self.memory, 1, read_bytes);
    rlx_bench_head(out, json);
    rlx_bench_row(out, json, "busy: processor time not to be had", 100 * busy, "%",
                  100 * RLX_BENCH_BUSY_LIMIT);
    bool is_done = measure_all(&self);
    munmap(self.memory, read_bytes);
    return is_done ? self.code : 1;
}
