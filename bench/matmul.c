/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench matmul`: products with packed weights against the multiply-add peak, and matrix x
 * vector over more weights than any cache holds against the read bandwidth; the limit is measured
 * beside it in the same trial. Everything goes through compiled programs. */
#include "bench.h"
#include "probe.h"
#include "ready.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ROUNDS = 300000 };
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
    double bar; /* 0: none */
} subject;

/* Small products run often enough to be told from the clock's steps. */
static double best_of_few(ready *model, const subject *what) {
    uint32_t runs = what->amount < 1e8 ? 32 : 1;
    double best = ready_run(model);
    for (uint32_t i = 1; best >= 0 && i < runs; i++) {
        double ns = ready_run(model);
        if (ns < best) best = ns;
    }
    return best;
}

/* The limit and ours alternate. The best of each, and the median of the pairs. */
static bool measure(bench *self, const subject *what, ready *model) {
    rlx_bench_figures limits = {.count = 0}, ours = {.count = 0}, pairs = {.count = 0}, one;
    char name[160];
    for (uint32_t trial = 0; trial <= RLX_BENCH_TRIALS; trial++) {
        if (!rlx_bench_rates(what->limit, self, what->threads, 1, &one)) return false;
        double ns = best_of_few(model, what);
        if (ns < 0) return false;
        if (trial == 0) continue; /* warms up */
        limits.items[limits.count++] = one.items[0];
        ours.items[ours.count++] = what->amount * 1e9 / ns;
        pairs.items[pairs.count++] = what->amount * 1e9 / ns / one.items[0];
    }
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

/* x [m][k] times weights [k][n]. */
static bool product(bench *self, int m, int k, int n, uint32_t threads, double bar) {
    char text[256], name[64];
    ready model = {0};
    subject what = {.name = name,
                    .threads = threads,
                    .amount = 2.0 * m * k * n,
                    .limit = work_multiply_add,
                    .unit = "GFLOP/s",
                    .bar = bar};
    snprintf(name, sizeof name, "f32 %d x %d x %d", m, k, n);
    snprintf(text, sizeof text,
             "rlx 1\ninput x : f32[%d, %d]\nparam w : f32[%d, %d] = seeded(1, 1)\n"
             "y = matmul(x, w)\noutput y\n",
             m, k, k, n);
    bool is_done = ready_make(&model, text, threads, false) && measure(self, &what, &model);
    ready_free(&model);
    return is_done;
}

/* One row through layers of 4096 x 4096 until read_bytes of weights are read. */
static bool vector(bench *self, const char *dtype, int element, uint32_t threads) {
    enum { SIDE = 4096, TEXT = 8192 };
    int layers = (int)(read_bytes / (size_t)(SIDE * SIDE * element));
    char name[64], *text = malloc(TEXT);
    ready model = {0};
    subject what = {.name = name,
                    .threads = threads,
                    .amount = (double)layers * SIDE * SIDE * element,
                    .limit = work_read,
                    .unit = "GB/s",
                    .bar = 0.85};
    if (text == NULL) return false;
    size_t at = (size_t)snprintf(text, TEXT, "rlx 1\ninput x0 : f32[1, %d]\n", SIDE);
    for (int i = 0; i < layers; i++) {
        at += (size_t)snprintf(text + at, TEXT - at,
                               "param w%d : %s[%d, %d] = seeded(%d, 0.01)\n"
                               "x%d = matmul(x%d, w%d)\n",
                               i, dtype, SIDE, SIDE, i + 1, i + 1, i, i);
    }
    snprintf(text + at, TEXT - at, "output x%d\n", layers);
    snprintf(name, sizeof name, "%s matrix x vector, 256 MiB", dtype);
    bool is_done = ready_make(&model, text, threads, false) && measure(self, &what, &model);
    ready_free(&model);
    free(text);
    return is_done;
}

static bool measure_all(bench *self) {
    static const int shapes[][3] = {
        {64, 64, 64},    {128, 128, 128},  {256, 256, 256},  {512, 512, 512},   {2048, 2048, 2048},
        {1, 768, 768},   {1, 768, 3072},   {8, 768, 768},    {8, 768, 3072},    {8, 4096, 4096},
        {128, 768, 768}, {128, 768, 3072}, {128, 3072, 768}, {128, 4096, 4096},
    };
    uint32_t threads = rlx_bench_threads() < 2 ? 1 : 2;
    bool is_done = product(self, 1024, 1024, 1024, 1, 0.85);
    if (threads > 1) is_done = is_done && product(self, 1024, 1024, 1024, threads, 0.80);
    for (size_t i = 0; is_done && i < sizeof shapes / sizeof *shapes; i++)
        is_done = product(self, shapes[i][0], shapes[i][1], shapes[i][2], threads, 0);
    return is_done && vector(self, "f32", 4, threads) && vector(self, "f16", 2, threads);
}

int rlx_bench_matmul(FILE *out, bool json) {
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
