/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench matmul`: products with packed weights against the multiply-add peak and against the
 * faster of OpenBLAS and oneDNN (peer.h), bytes against what the instruction set allows, and matrix
 * x vector over more weights than any cache holds against the read bandwidth. What is compared
 * alternates. Everything goes through compiled programs. */
#include "against.h"
#include "peer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of the time of the faster peer, each product at most. */
#define PEER_BAR 1.03

typedef struct bench {
    against base;
    peer peers[PEER_COUNT];
    double logs; /* of the ratios to the faster peer */
    uint32_t log_count;
} bench;

/* Products that are compared with others: [m][k] x [k][n]. */
static const int shapes[][3] = {
    {64, 64, 64},       {128, 128, 128},   {256, 256, 256},   {512, 512, 512},   {1024, 1024, 1024},
    {2048, 2048, 2048}, {1, 768, 768},     {1, 768, 3072},    {1, 3072, 768},    {1, 4096, 4096},
    {1, 2048, 8192},    {1, 8192, 2048},   {8, 768, 768},     {8, 768, 3072},    {8, 3072, 768},
    {8, 4096, 4096},    {8, 2048, 8192},   {8, 8192, 2048},   {128, 768, 768},   {128, 768, 3072},
    {128, 3072, 768},   {128, 4096, 4096}, {128, 2048, 8192}, {128, 8192, 2048},
};

static double bar_of(const int *shape, uint32_t threads) {
    bool is_judged = shape[0] == 1024 && shape[1] == 1024 && shape[2] == 1024;
    return !is_judged ? 0 : threads == 1 ? 0.85 : 0.80;
}

/* Times of the peers and what ours are of them. */
typedef struct contest {
    rlx_bench_figures theirs[PEER_COUNT], pairs[PEER_COUNT];
} contest;

/* Each peer and ours after it. One thread has the same processor on both sides, trial by trial
 * another one. */
static bool run_trial(bench *self, const subject *what, ready *model, const rlx_bench_pin *pin,
                      uint32_t trial, contest *to) {
    uint32_t repeats = against_repeats(what->amount);
    rlx_bench_settle(&self->base.report, what->threads);
    if (what->threads == 1) rlx_bench_pin_to(pin, trial, 0);
    for (uint32_t p = 0; p < PEER_COUNT; p++) {
        peer *other = &self->peers[p];
        if (other->process <= 0) continue;
        if (what->threads == 1) rlx_bench_pin_to(pin, trial, other->process);
        double ns = peer_run(other, repeats);
        double own = ns > 0 ? against_best_run(model, repeats) : 0;
        if (own < 0) return false;
        if (ns <= 0 || trial == 0) continue; /* the first one warms up */
        to->theirs[p].items[to->theirs[p].count++] = ns;
        to->pairs[p].items[to->pairs[p].count++] = own / ns;
    }
    return true;
}

static bool run_trials(bench *self, const int *shape, const subject *what, ready *model,
                       contest *to) {
    rlx_bench_pin pin = rlx_bench_pin_begin();
    bool is_done = true;
    for (uint32_t p = 0; p < PEER_COUNT; p++) {
        peer *other = &self->peers[p];
        if (other->process > 0 && !peer_set(other, shape[0], shape[1], shape[2], what->threads))
            peer_end(other);
        to->theirs[p].count = to->pairs[p].count = 0;
    }
    for (uint32_t trial = 0; is_done && trial <= rlx_bench_trials(PEER_BAR); trial++)
        is_done = run_trial(self, what, model, &pin, trial, to);
    rlx_bench_pin_end(&pin, 0);
    for (uint32_t p = 0; p < PEER_COUNT; p++) {
        if (self->peers[p].process > 0) rlx_bench_pin_end(&pin, self->peers[p].process);
    }
    return is_done;
}

/* Ours against each peer, in turns. The row is of the one that is faster in the median. */
static bool compare(bench *self, const int *shape, const subject *what, ready *model) {
    static contest now;
    uint32_t best = PEER_COUNT;
    char name[120];
    if (!run_trials(self, shape, what, model, &now)) return false;
    for (uint32_t p = 0; p < PEER_COUNT; p++) {
        if (now.theirs[p].count == 0) continue;
        if (best == PEER_COUNT ||
            rlx_bench_median(&now.theirs[p]) < rlx_bench_median(&now.theirs[best]))
            best = p;
    }
    if (best == PEER_COUNT) return true;
    double ratio = rlx_bench_median(&now.pairs[best]);
    snprintf(name, sizeof name, "%s, %u thread%s, time against ", what->name, what->threads,
             what->threads == 1 ? "" : "s");
    rlx_bench_report_most(&self->base.report, name, peer_names[best], ratio, "of its time", 1,
                          PEER_BAR, ratio <= PEER_BAR);
    self->logs += log(ratio);
    self->log_count++;
    return true;
}

static bool product(bench *self, const int *shape, uint32_t threads) {
    char text[256], name[64];
    ready model = {0};
    int m = shape[0], k = shape[1], n = shape[2];
    subject what = {.name = name,
                    .threads = threads,
                    .amount = 2.0 * m * k * n,
                    .limit = against_multiply_add,
                    .unit = "GFLOP/s",
                    .bar = bar_of(shape, threads)};
    snprintf(name, sizeof name, "f32 %d x %d x %d", m, k, n);
    snprintf(text, sizeof text,
             "rlx 1\ninput x : f32[%d, %d]\nparam w : f32[%d, %d] = seeded(1, 1)\n"
             "y = matmul(x, w)\noutput y\n",
             m, k, k, n);
    bool is_done = ready_make(&model, text, threads, false) &&
                   against_measure(&self->base, &what, &model) &&
                   compare(self, shape, &what, &model);
    ready_free(&model);
    return is_done;
}

/* u8 times i8, sums of 32 bits. */
static bool bytes(bench *self, const int *shape, uint32_t threads) {
    const int m = shape[0], k = shape[1], n = shape[2];
    char text[256], name[96];
    ready model = {0};
    const probe_kernels *probe = self->base.kernels;
    subject what = {.name = name,
                    .threads = threads,
                    .amount = 2.0 * m * k * n,
                    .limit = against_multiply_bytes,
                    .unit = "Gop/s"};
    if (probe->multiply_bytes == NULL) return true;
    if (strcmp(probe->bytes_by, "VNNI") == 0 && m == 1024) what.bar = 0.65;
    snprintf(name, sizeof name, "int8 %d x %d x %d (peak of %s)", m, k, n, probe->bytes_by);
    snprintf(text, sizeof text,
             "rlx 1\ninput x : u8[%d, %d]\nparam w : i8[%d, %d] = seeded(1, 100)\n"
             "y = matmul(x, w) to=i32\noutput y\n",
             m, k, k, n);
    bool is_done =
        ready_make(&model, text, threads, false) && against_measure(&self->base, &what, &model);
    ready_free(&model);
    return is_done;
}

/* One row through layers of 4096 x 4096 until AGAINST_READ_BYTES of weights are read. */
static bool vector(bench *self, const char *dtype, int element, uint32_t threads) {
    enum { SIDE = 4096, TEXT = 8192 };
    int layers = (int)(AGAINST_READ_BYTES / (size_t)(SIDE * SIDE * element));
    char name[64], *text = malloc(TEXT);
    ready model = {0};
    subject what = {.name = name,
                    .threads = threads,
                    .amount = (double)layers * SIDE * SIDE * element,
                    .limit = against_read,
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
    bool is_done =
        ready_make(&model, text, threads, false) && against_measure(&self->base, &what, &model);
    ready_free(&model);
    free(text);
    return is_done;
}

static void print_mean(bench *self) {
    if (self->log_count == 0) {
        fputs("rlx bench: no peer: build with libopenblas-dev or libdnnl-dev\n", stderr);
        return;
    }
    double mean = exp(self->logs / self->log_count);
    rlx_bench_report_most(&self->base.report, "time against the faster peer", ", geometric mean",
                          mean, "of its time", 1, 0.90, mean <= 0.90);
}

static bool measure_all(bench *self) {
    uint32_t threads = rlx_bench_threads() < 2 ? 1 : 2;
    bool is_done = true;
    for (uint32_t t = 1; t <= threads; t++) {
        for (size_t i = 0; is_done && i < sizeof shapes / sizeof *shapes; i++)
            is_done = product(self, shapes[i], t);
        is_done = is_done && bytes(self, (const int[]){1024, 1024, 1024}, t) &&
                  bytes(self, (const int[]){1, 4096, 4096}, t);
    }
    print_mean(self);
    return is_done && vector(self, "f32", 4, threads) && vector(self, "f16", 2, threads);
}

static bool measure_shape(bench *self, const int *shape) {
    bool is_done = true;
    for (uint32_t t = 1; is_done && t <= rlx_bench_threads() && t <= 2; t++)
        is_done = product(self, shape, t) && bytes(self, shape, t);
    return is_done;
}

static bool is_shape(const char *text, int *shape) {
    char rest;
    return sscanf(text, "%dx%dx%d%c", &shape[0], &shape[1], &shape[2], &rest) == 3 &&
           shape[0] > 0 && shape[1] > 0 && shape[2] > 0 && shape[0] <= 16384 && shape[1] <= 16384 &&
           shape[2] <= 16384;
}

int rlx_bench_matmul_shape(FILE *out, bool json, const char *text) {
    bench self = {.log_count = 0};
    int shape[3] = {0};
    if (text != NULL && !is_shape(text, shape)) {
        fprintf(stderr, "rlx bench: '%s' is no product: write MxKxN\n", text);
        return 1;
    }
    for (uint32_t p = 0; p < PEER_COUNT; p++)
        (void)peer_start(&self.peers[p], peer_names[p]);
    bool is_done = against_begin(&self.base, out, json) &&
                   (text == NULL ? measure_all(&self) : measure_shape(&self, shape));
    for (uint32_t p = 0; p < PEER_COUNT; p++)
        peer_end(&self.peers[p]);
    return against_end(&self.base, is_done);
}

int rlx_bench_matmul(FILE *out, bool json) {
    return rlx_bench_matmul_shape(out, json, NULL);
}
