/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench limits`: what other figures are held against. The clock and the multiply-adds
 * alternate, since a clock that changes would spoil their ratio; bandwidths are those of memory, so
 * the buffers are larger than the caches; a copy counts the bytes that it delivers. */
#include "bench.h"
#include "probe.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHAIN_STEPS = 8000000, ROUNDS = 1000000, UNIT = 512 };

typedef struct limits {
    FILE *out;
    bool json;
    double busy; /* share of the processors not to be had */
    uint32_t threads;
    const probe_kernels *kernels;
    uint8_t *from, *to;
    size_t bytes; /* of each */
} limits;

/* The best and the median of the trials, as two rows. */
static void print(const limits *self, const char *what, uint32_t threads,
                  const rlx_bench_figures *rates, double scale, const char *unit, double limit) {
    rlx_bench_bar none = {.verdict = self->busy > RLX_BENCH_BUSY_LIMIT ? "not judged" : NULL};
    char name[96];
    snprintf(name, sizeof name, "%s, %u thread%s", what, threads, threads == 1 ? "" : "s");
    rlx_bench_row_with(self->out, self->json, name, rlx_bench_most(rates) * scale, unit, limit,
                       none);
    snprintf(name, sizeof name, "%s, %u thread%s, median", what, threads, threads == 1 ? "" : "s");
    rlx_bench_row_with(self->out, self->json, name, rlx_bench_median(rates) * scale, unit, limit,
                       none);
}

static double work_chain(void *user, uint32_t thread, uint32_t threads) {
    (void)user, (void)thread, (void)threads;
    return probe_chain(CHAIN_STEPS);
}

static double work_multiply_add(void *user, uint32_t thread, uint32_t threads) {
    const limits *self = user;
    (void)thread, (void)threads;
    return self->kernels->multiply_add(ROUNDS);
}

/* The limit is what the measured clock allows: every unit starts one in every cycle. */
static bool measure_arithmetic(limits *self, uint32_t threads) {
    rlx_bench_figures clocks = {.count = 0}, rates = {.count = 0}, one;
    char name[48];
    for (uint32_t i = 0; i < RLX_BENCH_TRIALS; i++) {
        if (!rlx_bench_rates(work_chain, self, threads, 1, &one)) return false;
        clocks.items[clocks.count++] = one.items[0];
        if (!rlx_bench_rates(work_multiply_add, self, threads, 1, &one)) return false;
        rates.items[rates.count++] = one.items[0];
    }
    print(self, "cycles", threads, &clocks, 1e-9, "GHz", 0);
    snprintf(name, sizeof name, "f32 multiply-add %s", self->kernels->isa);
    double per_cycle = 2.0 * self->kernels->lanes * self->kernels->pipes;
    print(self, name, threads, &rates, 1e-9, "GFLOP/s", rlx_bench_most(&clocks) * per_cycle * 1e-9);
    return true;
}

/* The part of a thread, in whole units. */
static size_t part_of(const limits *self, uint32_t thread, uint32_t threads, size_t *out_first) {
    size_t units = self->bytes / UNIT, first = units * thread / threads;
    *out_first = first * UNIT;
    return (units * (thread + 1) / threads - first) * UNIT;
}

static double work_read(void *user, uint32_t thread, uint32_t threads) {
    const limits *self = user;
    size_t first, bytes = part_of(self, thread, threads, &first);
    volatile uint64_t sink = self->kernels->read(self->from + first, bytes);
    (void)sink;
    return (double)bytes;
}

static double work_memcpy(void *user, uint32_t thread, uint32_t threads) {
    const limits *self = user;
    size_t first, bytes = part_of(self, thread, threads, &first);
    memcpy(self->to + first, self->from + first, bytes);
    return (double)bytes;
}

static double work_stream(void *user, uint32_t thread, uint32_t threads) {
    const limits *self = user;
    size_t first, bytes = part_of(self, thread, threads, &first);
    self->kernels->stream(self->to + first, self->from + first, bytes);
    return (double)bytes;
}

static bool measure_memory(limits *self, uint32_t threads) {
    rlx_bench_figures read, copy, stream = {.count = 0};
    if (!rlx_bench_rates(work_read, self, threads, RLX_BENCH_TRIALS, &read)) return false;
    if (!rlx_bench_rates(work_memcpy, self, threads, RLX_BENCH_TRIALS, &copy)) return false;
    if (self->kernels->stream != NULL &&
        !rlx_bench_rates(work_stream, self, threads, RLX_BENCH_TRIALS, &stream)) {
        return false;
    }
    bool is_stream = rlx_bench_most(&stream) > rlx_bench_most(&copy);
    print(self, "read", threads, &read, 1e-9, "GB/s", 0);
    print(self, is_stream ? "copy (streaming stores)" : "copy (memcpy)", threads,
          is_stream ? &stream : &copy, 1e-9, "GB/s", 0);
    return true;
}

/* Four times the last cache, so that little of a pass is left for the next. */
static size_t buffer_bytes(void) {
    const size_t least = (size_t)128 << 20, most = (size_t)1 << 30;
    long cache = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    size_t bytes = cache > 0 ? 4 * (size_t)cache : least;
    bytes = bytes < least ? least : bytes > most ? most : bytes;
    return bytes / UNIT * UNIT;
}

/* Written once, so that pages are there before the clock runs. */
static uint8_t *map_buffer(size_t bytes, int value) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#if defined(MADV_HUGEPAGE)
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    memset(memory, value, bytes);
    return memory;
}

static bool measure_all(limits *self) {
    rlx_bench_row(self->out, self->json, "busy: processor time not to be had", 100 * self->busy,
                  "%", 100 * RLX_BENCH_BUSY_LIMIT);
    if (!measure_arithmetic(self, 1)) return false;
    if (self->threads > 1 && !measure_arithmetic(self, self->threads)) return false;
    if (!measure_memory(self, 1)) return false;
    return self->threads == 1 || measure_memory(self, self->threads);
}

int rlx_bench_limits(FILE *out, bool json) {
    limits self = {.out = out, .json = json, .kernels = probe_best(), .bytes = buffer_bytes()};
    self.threads = rlx_bench_threads();
    self.busy = rlx_bench_busy(self.threads);
    self.from = map_buffer(self.bytes, 1);
    self.to = map_buffer(self.bytes, 2);
    bool is_done = self.from != NULL && self.to != NULL;
    if (!is_done)
        fprintf(stderr, "rlx bench: no memory for two buffers of %zu bytes\n", self.bytes);
    if (self.busy > RLX_BENCH_BUSY_LIMIT) {
        fprintf(stderr, "rlx bench: the machine is too busy to judge a limit\n");
    }
    rlx_bench_head(out, json);
    if (is_done) is_done = measure_all(&self);
    if (self.from != NULL) munmap(self.from, self.bytes);
    if (self.to != NULL) munmap(self.to, self.bytes);
    return is_done ? 0 : 1;
}
