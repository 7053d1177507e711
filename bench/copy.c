/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench copy`: what copy engines cost and what overlapping them with compute gains.
 *
 * Every figure is a ratio to a limit of the same run: the sync engine, max(copy, compute), or a
 * memcpy. The two sides alternate. */
#include "bench.h"
#include "probe.h"

#include <rlx/copy.h>

#include <stdlib.h>
#include <string.h>

enum { TILE_BUFFERS = 3, HANDOVER_TILES = 2000 };

static const uint64_t source_bytes = UINT64_C(128) << 20;
static const double cache_limit = 0.67; /* own against other core's tile, in time */
static volatile uint64_t kept_sum;      /* so that no compute is dropped */

typedef struct bench {
    rlx_bench_report report;
    rlx_copy_engine *sync, *thread, *handed; /* handed: nothing is copied at issue */
    uint8_t *source, *destination;           /* source_bytes each */
    uint64_t sum;                            /* of what was computed */
} bench;

static bool check(rlx_status status) {
    if (status == RLX_OK) return true;
    fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
    return false;
}

/* Issue and wait at once; nanoseconds, negative when it failed. */
static double copy_once(rlx_copy_engine *engine, const uint8_t *source, uint8_t *destination,
                        uint64_t bytes) {
    uint64_t start = rlx_bench_now_ns();
    rlx_copy_token token;
    rlx_copy_source from = {.memory = source};
    if (!check(rlx_copy_issue(engine, from, destination, bytes, &token))) return -1;
    if (!check(rlx_copy_wait(engine, token))) return -1;
    return (double)(rlx_bench_now_ns() - start);
}

/* Small copies are timed many at a time, over fresh memory. */
static double copy_many(bench *self, rlx_copy_engine *engine, uint64_t bytes) {
    uint64_t count = (UINT64_C(16) << 20) / bytes;
    double total = 0;
    if (count == 0) count = 1;
    for (uint64_t i = 0; i < count; ++i) {
        double ns =
            copy_once(engine, self->source + i * bytes, self->destination + i * bytes, bytes);
        if (ns < 0) return ns;
        total += ns;
    }
    return total / (double)count;
}

static int bench_size(bench *self, uint64_t bytes) {
    static rlx_bench_pairs all;
    char name[64];
    rlx_bench_pairs_begin(&all);
    for (uint32_t i = 0; i < RLX_BENCH_TRIALS; ++i) {
        double sync = copy_many(self, self->sync, bytes);
        double thread = copy_many(self, self->thread, bytes);
        if (sync < 0 || thread < 0) return -1;
        rlx_bench_pair(&all, sync, thread);
    }
    snprintf(name, sizeof name, "copy %llu KiB, thread against sync",
             (unsigned long long)(bytes >> 10));
    rlx_bench_report_least(&self->report, name, "", (double)bytes / rlx_bench_median(&all.ours),
                           "GB/s", (double)bytes / rlx_bench_median(&all.limit), 0.95,
                           rlx_bench_median(&all.ratio) >= 0.95);
    return 0;
}

/* What a tile pays besides the copy: a line of memory, handed over. First as a pipeline does it,
 * then all the way to the copy thread and back (polling, which does not help it). */
static int bench_handover(bench *self, bool is_round_trip) {
    static rlx_bench_figures times;
    times.count = 0;
    for (uint32_t trial = 0; trial < RLX_BENCH_TRIALS; ++trial) {
        uint64_t start = rlx_bench_now_ns();
        for (uint32_t i = 0; i < HANDOVER_TILES; ++i) {
            rlx_copy_source from = {.memory = self->source + 64 * i};
            rlx_copy_token token;
            bool done = !is_round_trip;
            if (!check(rlx_copy_issue(self->handed, from, self->destination + 64 * i, 64, &token)))
                return -1;
            while (!done) {
                if (!check(rlx_copy_poll(self->handed, token, &done))) return -1;
            }
            if (!check(rlx_copy_wait(self->handed, token))) return -1;
        }
        times.items[times.count++] = (double)(rlx_bench_now_ns() - start) / HANDOVER_TILES;
    }
    rlx_bench_report_most(
        &self->report, "hand-over per tile",
        is_round_trip ? ", to the thread and back, median" : ", issue + wait, median",
        rlx_bench_median(&times), "ns", 1000.0, 1, rlx_bench_median(&times) <= 1000.0);
    return 0;
}

/* Looks at every line of the tile, then computes for `steps` dependent multiplications. */
static uint64_t compute(const uint8_t *tile, uint64_t bytes, uint64_t steps) {
    uint64_t sum = 1;
    for (uint64_t i = 0; i < bytes; i += 64) {
        uint64_t word;
        memcpy(&word, tile + i, sizeof word);
        sum += word;
    }
    for (uint64_t i = 0; i < steps; ++i) {
        sum = sum * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    return sum;
}

/* Time to look at every line of tiles that `engine` has just copied, without helping it. */
static double look_at_tiles(bench *self, rlx_copy_engine *engine) {
    enum { TILES = 64, TILE_BYTES = 1 << 20 };
    double total = 0;
    for (uint64_t i = 0; i < TILES; ++i) {
        uint8_t *tile = self->destination + i % 2 * TILE_BYTES;
        rlx_copy_source from = {.memory = self->source + i * TILE_BYTES};
        rlx_copy_token token;
        uint64_t start;
        bool done = false;
        if (!check(rlx_copy_issue(engine, from, tile, TILE_BYTES, &token))) return -1;
        while (!done) {
            if (!check(rlx_copy_poll(engine, token, &done))) return -1;
        }
        start = rlx_bench_now_ns();
        self->sum += compute(tile, TILE_BYTES, 0);
        total += (double)(rlx_bench_now_ns() - start);
    }
    return total / TILES;
}

/* What the copy thread wrote lies in the cache of another core. Where the two share no cache (a
 * virtual machine may find its processors anywhere) overlap is lost on the way. */
static int probe_caches(bench *self) {
    static rlx_bench_pairs all;
    double ratio;
    rlx_bench_pairs_begin(&all);
    for (uint32_t i = 0; i < RLX_BENCH_TRIALS; ++i) {
        double own = look_at_tiles(self, self->sync), other = look_at_tiles(self, self->thread);
        if (own < 0 || other < 0) return -1;
        rlx_bench_pair(&all, own, other);
    }
    ratio = rlx_bench_median(&all.ratio);
    if (ratio < cache_limit) self->report.is_judged = false;
    rlx_bench_report_row(&self->report, "reading a tile of the copy thread, against an own one", "",
                         ratio, "of 1", 1.0);
    return 0;
}

/* One pipeline over the whole source. */
typedef struct pipeline {
    uint64_t tile_bytes, tiles, steps;
    uint32_t depth;
} pipeline;

static double run_pipeline(bench *self, rlx_copy_engine *engine, const pipeline *line) {
    void *stages[TILE_BUFFERS];
    rlx_ring *ring = NULL;
    rlx_status status;
    uint64_t filled = 0, start;
    for (uint32_t i = 0; i < TILE_BUFFERS; ++i) {
        stages[i] = self->destination + i * line->tile_bytes;
    }
    if (!check(rlx_ring_create(NULL, engine, stages, line->depth, line->tile_bytes, &ring)))
        return -1;
    status = RLX_OK;
    start = rlx_bench_now_ns();
    for (uint64_t tile = 0; tile < line->tiles && status == RLX_OK; ++tile) {
        rlx_ring_tile got;
        while (status == RLX_OK && filled < line->tiles && filled < tile + line->depth) {
            rlx_copy_source from = {.memory = self->source + filled++ * line->tile_bytes};
            status = rlx_ring_acquire(ring);
            if (status == RLX_OK) status = rlx_ring_issue(ring, from, line->tile_bytes);
            if (status == RLX_OK) status = rlx_ring_commit(ring);
        }
        if (status == RLX_OK) status = rlx_ring_wait(ring, UINT64_MAX, &got);
        if (status == RLX_OK) {
            self->sum += compute(got.data, got.bytes, line->steps);
            status = rlx_ring_release(ring);
        }
    }
    start = rlx_bench_now_ns() - start;
    check(status);
    rlx_ring_destroy(ring);
    return status == RLX_OK ? (double)start : -1;
}

static double run_copies(bench *self, const pipeline *line) {
    double total = 0;
    for (uint64_t tile = 0; tile < line->tiles; ++tile) {
        double ns =
            copy_once(self->sync, self->source + tile * line->tile_bytes,
                      self->destination + tile % line->depth * line->tile_bytes, line->tile_bytes);
        if (ns < 0) return ns;
        total += ns;
    }
    return total;
}

static double run_computes(bench *self, const pipeline *line) {
    uint64_t start = rlx_bench_now_ns();
    for (uint64_t tile = 0; tile < line->tiles; ++tile) {
        self->sum += compute(self->destination + tile % line->depth * line->tile_bytes,
                             line->tile_bytes, line->steps);
    }
    return (double)(rlx_bench_now_ns() - start);
}

/* Steps that make the compute of a tile take `ratio` times its copy: from the best of a few. */
static uint64_t calibrate(bench *self, pipeline line, double ratio) {
    enum { STEPS = 100000 };
    double copy = -1, base = -1, more = -1, per_step, rest;
    for (int i = 0; i < 5; ++i) {
        double ns = run_copies(self, &line);
        if (copy < 0 || ns < copy) copy = ns;
        line.steps = 0;
        ns = run_computes(self, &line);
        if (base < 0 || ns < base) base = ns;
        line.steps = STEPS;
        ns = run_computes(self, &line);
        if (more < 0 || ns < more) more = ns;
    }
    per_step = (more - base) / STEPS;
    rest = ratio * copy - base;
    return per_step <= 0 || rest <= 0 ? 0 : (uint64_t)(rest / per_step);
}

static int bench_pipeline(bench *self, uint64_t tile_bytes, double ratio, uint32_t depth) {
    static rlx_bench_pairs all, gain;
    pipeline line = {tile_bytes, source_bytes / tile_bytes, 0, depth};
    char name[96];
    rlx_bench_pairs_begin(&all);
    rlx_bench_pairs_begin(&gain);
    line.steps = calibrate(self, line, ratio);
    for (uint32_t i = 0; i < RLX_BENCH_TRIALS; ++i) {
        double copy = run_copies(self, &line), work = run_computes(self, &line);
        double pipelined = run_pipeline(self, self->thread, &line);
        double one_by_one = run_pipeline(self, self->sync, &line);
        if (copy < 0 || pipelined < 0 || one_by_one < 0) return -1;
        rlx_bench_pair(&all, copy > work ? copy : work, pipelined);
        rlx_bench_pair(&gain, one_by_one, pipelined);
    }
    snprintf(name, sizeof name, "efficiency, %llu MiB tiles, compute/copy %.1f, ring %u",
             (unsigned long long)(tile_bytes >> 20), ratio, depth);
    rlx_bench_report_pairs(&self->report, name, &all, 0, "", 0.85);
    if (ratio != 1.0) return 0;
    snprintf(name, sizeof name, "gain over sync, %llu MiB tiles, compute/copy 1, ring %u",
             (unsigned long long)(tile_bytes >> 20), depth);
    rlx_bench_report_pairs(&self->report, name, &gain, 0, "", 1.4);
    return 0;
}

/* The better of memcpy and a copy past the caches, where this machine has one. */
static double copy_plain(bench *self, uint64_t bytes) {
    const probe_kernels *probe = probe_best();
    uint64_t start = rlx_bench_now_ns(), middle, end;
    memcpy(self->destination, self->source, bytes);
    middle = end = rlx_bench_now_ns();
    if (probe->stream != NULL) {
        probe->stream(self->destination, self->source, bytes);
        end = rlx_bench_now_ns();
    }
    if (end == middle || middle - start < end - middle) return (double)(middle - start);
    return (double)(end - middle);
}

/* 64 MiB of f32 to a 2-byte dtype or back, against a copy that reads and writes as many bytes in
 * all: (64 + 32) / 2 MiB. */
static int bench_convert(bench *self, rlx_dtype dtype, bool is_from_f32) {
    static rlx_bench_pairs all;
    const uint64_t count = (UINT64_C(64) << 20) / 4, copied = count * (4 + 2) / 2;
    const float *floats = (const float *)(const void *)self->source;
    uint8_t *halves = self->source + 4 * count;
    char name[64];
    rlx_bench_pairs_begin(&all);
    if (!check(rlx_convert_from_f32(dtype, halves, floats, count))) return -1;
    for (uint32_t i = 0; i <= RLX_BENCH_TRIALS; ++i) {
        double limit = copy_plain(self, copied);
        uint64_t start = rlx_bench_now_ns();
        rlx_status status;
        status = is_from_f32
                     ? rlx_convert_from_f32(dtype, self->destination, floats, count)
                     : rlx_convert_to_f32(dtype, (float *)(void *)self->destination, halves, count);
        if (!check(status)) return -1;
        if (i > 0) rlx_bench_pair(&all, limit, (double)(rlx_bench_now_ns() - start));
    }
    snprintf(name, sizeof name,
             is_from_f32 ? "convert f32 to %s, 64 MiB" : "convert %s to f32, 64 MiB",
             rlx_dtype_name(dtype));
    rlx_bench_report_pairs(&self->report, name, &all, (double)copied, "GB/s", 0.8);
    return 0;
}

static int bench_all(bench *self) {
    static const uint64_t kib[] = {4, 16, 64, 128, 192, 256, 512, 1024, 4096, 16384, 65536};
    static const double ratios[] = {0.4, 1.0, 2.0};
    const bool is_quiet = self->report.is_judged;
    int code = 0;
    for (size_t i = 0; i < sizeof kib / sizeof kib[0] && code == 0; ++i) {
        code = bench_size(self, kib[i] << 10);
    }
    for (int i = 0; i < 2 && code == 0; ++i) {
        code = bench_handover(self, i != 0);
    }
    if (code == 0) code = probe_caches(self);
    for (uint64_t mib = 1; mib <= 4; mib *= 4) {
        for (int i = 0; i < 3; ++i) {
            for (uint32_t depth = 2; depth <= TILE_BUFFERS && code == 0; ++depth) {
                code = bench_pipeline(self, mib << 20, ratios[i], depth);
            }
        }
    }
    self->report.is_judged = is_quiet;
    for (int i = 0; i < 4 && code == 0; ++i) {
        code = bench_convert(self, i < 2 ? RLX_DTYPE_F16 : RLX_DTYPE_BF16, i % 2 == 0);
    }
    return code;
}

int rlx_bench_copy(FILE *out, bool json) {
    rlx_copy_options handed = {.size = sizeof handed, .inline_bytes = 1};
    bench self = {.report = rlx_bench_report_begin(out, json, 2)};
    int code = !check(rlx_copy_engine_create_sync(NULL, NULL, &self.sync)) ||
               !check(rlx_copy_engine_create_thread(NULL, NULL, &self.thread)) ||
               !check(rlx_copy_engine_create_thread(NULL, &handed, &self.handed));
    self.source = aligned_alloc(64, source_bytes);
    self.destination = aligned_alloc(64, source_bytes);
    if (self.source == NULL || self.destination == NULL) code = 1;
    if (code == 0) {
        /* Small floats: what conversions meet most. */
        for (uint64_t i = 0; i < source_bytes / 4; ++i) {
            float value = (float)(i % 1000) * 0.003f - 1.5f;
            memcpy(self.source + 4 * i, &value, sizeof value);
        }
        memset(self.destination, 1, source_bytes);
        code = bench_all(&self) != 0;
    }
    rlx_copy_engine_destroy(self.sync);
    rlx_copy_engine_destroy(self.thread);
    rlx_copy_engine_destroy(self.handed);
    free(self.source);
    free(self.destination);
    kept_sum = self.sum;
    return rlx_bench_report_end(&self.report, code == 0);
}
