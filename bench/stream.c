/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench stream`: the `file` copy engine against raw reads past the page cache, and layers of
 * 64 MiB streamed from disk behind compute: efficiency is the longer of read and compute over the
 * pipelined time, both measured in the same trial, in steady state. The file is written to $TMPDIR
 * (else /tmp) and removed again. */
#include "bench.h"

#include <rlx/copy.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 4, TILES = 16, READ_TRIALS = 15, RING = 2 };

static const uint64_t layer_bytes = UINT64_C(64) << 20;
static const uint64_t piece_bytes = UINT64_C(4) << 20;
static volatile uint64_t kept_sum; /* so that no compute is dropped */

typedef struct bench {
    rlx_bench_report report;
    char path[512];
    int direct; /* the file with O_DIRECT, or without where that is refused */
    rlx_copy_file *file;
    uint8_t *stages[RING];
    uint64_t sum;
} bench;

static bool check(rlx_status status) {
    if (status == RLX_OK) return true;
    fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
    return false;
}

static bool check_system(bool is_good, const char *path) {
    if (!is_good) fprintf(stderr, "rlx bench: %s: %s\n", path, strerror(errno));
    return is_good;
}

/* Every layer once, on the disk and not in the page cache. */
static bool write_file(bench *self) {
    const char *folder = getenv("TMPDIR");
    bool is_good;
    int descriptor;
    if (folder == NULL || folder[0] == 0) folder = "/tmp";
    snprintf(self->path, sizeof self->path, "%.400s/rlx-bench-stream-XXXXXX", folder);
    descriptor = mkstemp(self->path);
    if (!check_system(descriptor >= 0, self->path)) return false;
    is_good = true;
    for (uint64_t at = 0; at < LAYERS * layer_bytes && is_good; at += piece_bytes) {
        memset(self->stages[0], (int)(1 + at / layer_bytes), piece_bytes);
        is_good = write(descriptor, self->stages[0], piece_bytes) == (ssize_t)piece_bytes;
    }
    is_good = is_good && fsync(descriptor) == 0;
    (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    check_system(is_good, self->path);
    close(descriptor);
    if (!is_good) return false;
    self->direct = open(self->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (self->direct < 0) self->direct = open(self->path, O_RDONLY | O_CLOEXEC);
    return check_system(self->direct >= 0, self->path) &&
           check(rlx_copy_file_open(NULL, self->path, &self->file));
}

/* Blocking reads of 4 MiB, one after the other; nanoseconds, negative when one failed. */
static double read_raw(bench *self, uint64_t tiles) {
    uint64_t start = rlx_bench_now_ns();
    for (uint64_t tile = 0; tile < tiles; ++tile) {
        for (uint64_t at = 0; at < layer_bytes; at += piece_bytes) {
            ssize_t got = pread(self->direct, self->stages[tile % RING] + at, piece_bytes,
                                (off_t)(tile % LAYERS * layer_bytes + at));
            if (!check_system(got == (ssize_t)piece_bytes, self->path)) return -1;
        }
    }
    return (double)(rlx_bench_now_ns() - start);
}

/* Looks at every line of the tile, then computes for `steps` dependent multiplications. */
static uint64_t compute(const uint8_t *tile, uint64_t steps) {
    uint64_t sum = 1;
    for (uint64_t i = 0; i < layer_bytes; i += 64) {
        sum += tile[i];
    }
    for (uint64_t i = 0; i < steps; ++i) {
        sum = sum * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    }
    return sum;
}

static double run_computes(bench *self, uint64_t tiles, uint64_t steps) {
    uint64_t start = rlx_bench_now_ns();
    for (uint64_t tile = 0; tile < tiles; ++tile) {
        self->sum += compute(self->stages[tile % RING], steps);
    }
    return (double)(rlx_bench_now_ns() - start);
}

static rlx_status fill(bench *self, rlx_ring *ring, uint64_t tile) {
    rlx_copy_source from = {.file = self->file, .offset = tile % LAYERS * layer_bytes};
    rlx_status status = rlx_ring_acquire(ring);
    if (status == RLX_OK) status = rlx_ring_issue(ring, from, layer_bytes);
    if (status == RLX_OK) status = rlx_ring_commit(ring);
    return status;
}

/* Streams tiles and computes on each unless `steps` is 0; a tile that is not the layer's bytes is a
 * failure. The time of `tiles` tiles in steady state, from the arrival of the first to the arrival
 * of one more: as many reads and as many computes, without the first read, which nothing hides. */
static double run_pipeline(bench *self, rlx_copy_engine *engine, uint64_t tiles, uint64_t steps) {
    void *stages[RING] = {self->stages[0], self->stages[1]};
    rlx_ring *ring = NULL;
    rlx_status status;
    uint64_t filled = 0, start = 0, end = 0;
    bool is_right = true;
    if (!check(rlx_ring_create(NULL, engine, stages, RING, layer_bytes, &ring))) return -1;
    status = RLX_OK;
    for (uint64_t tile = 0; tile <= tiles && status == RLX_OK; ++tile) {
        rlx_ring_tile got;
        while (status == RLX_OK && filled <= tiles && filled < tile + RING) {
            status = fill(self, ring, filled++);
        }
        if (status == RLX_OK) status = rlx_ring_wait(ring, UINT64_MAX, &got);
        if (status != RLX_OK) break;
        end = rlx_bench_now_ns();
        if (tile == 0) start = end;
        if (steps != 0 && tile < tiles) self->sum += compute(got.data, steps);
        is_right = is_right && ((const uint8_t *)got.data)[tile * 4096] == 1 + tile % LAYERS;
        status = rlx_ring_release(ring);
    }
    check(status);
    rlx_ring_destroy(ring);
    if (!is_right) fputs("rlx bench: a tile has other bytes than its layer\n", stderr);
    return status == RLX_OK && is_right ? (double)(end - start) : -1;
}

/* One way of reading against blocking reads past the page cache. */
static int bench_read(bench *self, const char *name, uint32_t flags) {
    rlx_copy_options options = {.size = sizeof options, .flags = flags};
    rlx_copy_engine *engine = NULL;
    static rlx_bench_figures raw, ours;
    char row[128];
    raw.count = ours.count = 0;
    if (!check(rlx_copy_engine_create_file(NULL, &options, &engine))) return -1;
    for (uint32_t i = 0; i < READ_TRIALS; ++i) {
        raw.items[raw.count++] = read_raw(self, LAYERS);
        ours.items[ours.count++] = run_pipeline(self, engine, LAYERS, 0);
        if (raw.items[i] < 0 || ours.items[i] < 0) break;
    }
    snprintf(row, sizeof row, "read 64 MiB layers, %s, %s", rlx_copy_engine_name(engine), name);
    rlx_copy_engine_destroy(engine);
    if (rlx_bench_least(&raw) < 0 || rlx_bench_least(&ours) < 0) return -1;
    rlx_bench_report_row(&self->report, row, "",
                         LAYERS * (double)layer_bytes / rlx_bench_median(&ours), "GB/s",
                         LAYERS * (double)layer_bytes / rlx_bench_median(&raw));
    return 0;
}

/* Steps that make the compute of a layer take `ratio` times its read. */
static uint64_t calibrate(bench *self, rlx_copy_engine *engine, double ratio) {
    enum { STEPS = 4000000 };
    double read = run_pipeline(self, engine, LAYERS, 0), base = run_computes(self, LAYERS, 1);
    double per_step = (run_computes(self, LAYERS, STEPS) - base) / STEPS;
    double rest = ratio * read - base;
    return read < 0 || per_step <= 0 || rest <= 0 ? 1 : (uint64_t)(rest / per_step);
}

static int bench_overlap(bench *self, rlx_copy_engine *engine, double ratio) {
    static rlx_bench_pairs pairs;
    uint64_t steps = calibrate(self, engine, ratio);
    char row[96];
    rlx_bench_pairs_begin(&pairs);
    for (uint32_t i = 0; i < READ_TRIALS; ++i) {
        double read = run_pipeline(self, engine, TILES, 0);
        double work = run_computes(self, TILES, steps);
        double pipelined = run_pipeline(self, engine, TILES, steps);
        if (read < 0 || pipelined < 0) return -1;
        rlx_bench_pair(&pairs, read > work ? read : work, pipelined);
    }
    snprintf(row, sizeof row, "efficiency, 64 MiB layers from disk, compute/read %.0f, ring %d",
             ratio, RING);
    rlx_bench_report_pairs(&self->report, row, &pairs, 0, "", 0.9);
    return 0;
}

static int bench_all(bench *self) {
    rlx_copy_engine *engine = NULL;
    int code = bench_read(self, "past the page cache", 0);
    if (code == 0) code = bench_read(self, "past the page cache", RLX_COPY_THREADS);
    if (code == 0) code = bench_read(self, "through it", RLX_COPY_BUFFERED | RLX_COPY_THREADS);
    if (code == 0) code = check(rlx_copy_engine_create_file(NULL, NULL, &engine)) ? 0 : -1;
    for (int ratio = 1; ratio <= 2 && code == 0; ++ratio) {
        code = bench_overlap(self, engine, ratio);
    }
    rlx_copy_engine_destroy(engine);
    return code;
}

int rlx_bench_stream(FILE *out, bool json) {
    bench self = {.report = rlx_bench_report_begin(out, json, 2), .direct = -1};
    int code = 0;
    rlx_bench_stream_program(&self.report); /* before memory is taken */
    for (int i = 0; i < RING; ++i) {
        self.stages[i] = aligned_alloc(4096, layer_bytes);
        if (self.stages[i] == NULL) code = 1;
    }
    if (code == 0) code = !write_file(&self);
    if (code == 0) {
        code = bench_all(&self) != 0;
    }
    rlx_copy_file_close(self.file);
    if (self.direct >= 0) close(self.direct);
    if (self.path[0] != 0) unlink(self.path);
    for (int i = 0; i < RING; ++i) {
        free(self.stages[i]);
    }
    kept_sum = self.sum;
    return rlx_bench_report_end(&self.report, code == 0);
}
