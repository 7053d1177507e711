/* SPDX-License-Identifier: Apache-2.0 */
/* The last rows of `rlx bench stream`: a saved program of 512 MiB of weights, run with a weights
 * budget of a quarter of them. Memory: the peak of this process from before the program is loaded.
 * Time: against the longer of the resident run and of reading the same bytes with blocking reads
 * past the page cache, all three in turn. The program is written to $TMPDIR (else /tmp) and removed
 * again. */
#include "bench.h"
#include "net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS = 32, WIDTH = 2048, TRIALS = 9, WARM_RUNS = 2, ENTRIES = 6 };

static const uint64_t piece_bytes = UINT64_C(4) << 20;
static const uint64_t slack_bytes = UINT64_C(64) << 20; /* the bar's: code, stacks, engines */
static const double time_bar = 1.1;

typedef struct bench {
    rlx_bench_report *report;
    char path[512];
    rlx_device *device;
    rlx_program *resident, *streamed;
    rlx_exec *whole, *split; /* executables of the two */
    float *x, *y[2];
    uint64_t budget, read_bytes;
} bench;

static bool check(rlx_status status) {
    if (status == RLX_OK) return true;
    fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
    return false;
}

/* More rows are more compute for the same bytes of weights. */
static const int64_t rows[ENTRIES] = {1, 4, 12, 32, 96, 256};

static rlx_status build(rlx_graph **out_graph) {
    net self = net_begin();
    rlx_shape shape = {2, {0, WIDTH}};
    if (self.status == RLX_OK) {
        self.status = rlx_graph_symbol(self.graph, "N", &shape.dims[0]);
    }
    rlx_value_id x = net_input(&self, "x", RLX_DTYPE_F32, shape);
    for (int i = 0; i < LAYERS; i++) {
        rlx_value_id w = net_weight(&self, (rlx_shape){2, {WIDTH, WIDTH}}, 0, 0.03);
        x = net_unary(&self, RLX_OP_TANH, net_binary(&self, RLX_OP_MATMUL, x, w));
    }
    return net_end(&self, x, out_graph);
}

static rlx_status save(bench *self) {
    rlx_binding bindings[ENTRIES];
    rlx_entry_spec entries[ENTRIES];
    rlx_compile_options options = {
        .size = sizeof options, .entries = entries, .entry_count = ENTRIES};
    static const char *const names[ENTRIES] = {"a", "b", "c", "d", "e", "f"};
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        bindings[i] = (rlx_binding){"N", rows[i]};
        entries[i] =
            (rlx_entry_spec){.name = names[i], .bindings = &bindings[i], .binding_count = 1};
    }
    rlx_status status = build(&graph);
    if (status != RLX_OK) return status;
    status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) {
        rlx_graph_destroy(graph);
        return status;
    }
    status = rlx_session_compile(session, self->device, &options, NULL, &program);
    if (status == RLX_OK) status = rlx_program_save(program, self->path);
    rlx_program_release(program);
    rlx_session_destroy(session);
    return status;
}

/* Writes the program and lets the page cache forget it. */
static bool make_program(bench *self) {
    const char *folder = getenv("TMPDIR");
    int descriptor;
    if (folder == NULL || folder[0] == 0) folder = "/tmp";
    snprintf(self->path, sizeof self->path, "%.400s/rlx-bench-program-XXXXXX", folder);
    descriptor = mkstemp(self->path);
    if (descriptor < 0) {
        fprintf(stderr, "rlx bench: %s: %s\n", self->path, strerror(errno));
        self->path[0] = 0;
        return false;
    }
    close(descriptor);
    if (!check(save(self))) return false;
    descriptor = open(self->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || fsync(descriptor) != 0) return false;
    (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    close(descriptor);
    return true;
}

/* Sets the peak that the system keeps of this process to what it has now. */
static bool reset_peak(void) {
    int descriptor = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    bool is_done = descriptor >= 0 && write(descriptor, "5", 1) == 1;
    if (descriptor >= 0) close(descriptor);
    return is_done;
}

static uint64_t peak_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kilobytes = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "VmHWM: %llu kB", &kilobytes) == 1) break;
    }
    if (file != NULL) fclose(file);
    return (uint64_t)kilobytes << 10;
}

static bool run(bench *self, rlx_exec *exec, uint32_t entry, float *y, double *out_ns) {
    uint64_t count = (uint64_t)rows[entry] * WIDTH, start;
    if (!check(rlx_exec_set_input_f32(exec, entry, 0, self->x, count))) return false;
    start = rlx_bench_now_ns();
    if (!check(rlx_exec_run(exec, entry))) return false;
    *out_ns = (double)(rlx_bench_now_ns() - start);
    return check(rlx_exec_read_output_f32(exec, entry, 0, y, count, NULL));
}

static bool load(bench *self, uint64_t budget, rlx_program **program, rlx_exec **exec) {
    rlx_program_options options = {.size = sizeof options, .weights_budget = budget};
    return check(rlx_program_load(self->device, self->path, &options, program)) &&
           check(rlx_exec_create(*program, NULL, exec));
}

/* First, while nothing else of the program is in memory. */
static int bench_memory(bench *self) {
    bool has_peak = reset_peak();
    const rlx_plan *plan;
    rlx_stream_info info;
    uint64_t limit;
    double ns;
    if (!load(self, self->budget, &self->streamed, &self->split)) return -1;
    for (int i = 0; i < 3; i++) {
        if (!run(self, self->split, 0, self->y[0], &ns)) return -1;
    }
    plan = rlx_program_plan(self->streamed);
    if (!check(rlx_plan_stream_info(plan, &info))) return -1;
    limit = self->budget + rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE) +
            rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH) + slack_bytes;
    double peak = (double)peak_bytes();
    if (has_peak) {
        rlx_bench_report_most(self->report, "program of 4 x its weights budget, peak memory", "",
                              peak, "bytes", (double)limit, 1, peak <= (double)limit);
    } else {
        rlx_bench_report_row(self->report, "program of 4 x its weights budget, peak memory",
                             " of the whole process", peak, "bytes", (double)limit);
    }
    return 0;
}

/* The same number of bytes, blocking, past the page cache where the filesystem allows. */
static double read_raw(const bench *self, void *piece) {
    int descriptor = open(self->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    uint64_t start = rlx_bench_now_ns();
    bool is_good;
    if (descriptor < 0) descriptor = open(self->path, O_RDONLY | O_CLOEXEC);
    is_good = descriptor >= 0;
    for (uint64_t at = 0; at + piece_bytes <= self->read_bytes && is_good; at += piece_bytes)
        is_good = pread(descriptor, piece, piece_bytes, (off_t)at) == (ssize_t)piece_bytes;
    if (!is_good) fprintf(stderr, "rlx bench: %s: %s\n", self->path, strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return is_good ? (double)(rlx_bench_now_ns() - start) : -1;
}

/* The entry whose compute is nearest to `ratio` times the read. */
static uint32_t nearest(bench *self, double read_ns, double ratio) {
    uint32_t best = 0;
    double best_factor = 0;
    for (uint32_t i = 0; i < ENTRIES; i++) {
        double ns = 0, factor;
        if (!run(self, self->whole, i, self->y[0], &ns)) break;
        if (!run(self, self->whole, i, self->y[0], &ns)) break;
        factor = ns / (read_ns * ratio);
        if (factor > 1) factor = 1 / factor;
        if (factor <= best_factor) continue;
        best_factor = factor;
        best = i;
        if (ns > 2 * read_ns * ratio) break;
    }
    return best;
}

static int bench_time(bench *self, uint32_t entry, void *piece) {
    static rlx_bench_pairs pairs;
    double ratio = 0;
    char name[128];
    rlx_bench_pairs_begin(&pairs);
    for (int i = 0; i < TRIALS + WARM_RUNS; i++) {
        double read = read_raw(self, piece), work = 0, time = 0;
        if (read < 0 || !run(self, self->whole, entry, self->y[0], &work) ||
            !run(self, self->split, entry, self->y[1], &time)) {
            return -1;
        }
        if (memcmp(self->y[0], self->y[1], (size_t)rows[entry] * WIDTH * sizeof(float)) != 0) {
            fputs("rlx bench: the streamed run differs from the resident one\n", stderr);
            return -1;
        }
        if (i < WARM_RUNS) continue;
        ratio = work / read;
        rlx_bench_pair(&pairs, read > work ? read : work, time);
    }
    snprintf(name, sizeof name, "program of 4 x its weights budget, compute/read %.1f", ratio);
    rlx_bench_report_pairs(self->report, name, &pairs, 0, "", 1 / time_bar);
    return 0;
}

static int bench_times(bench *self) {
    void *piece = aligned_alloc(4096, piece_bytes);
    rlx_stream_entry_info info;
    int code = -1;
    if (piece != NULL && load(self, 0, &self->resident, &self->whole) &&
        check(rlx_plan_stream_entry(rlx_program_plan(self->streamed), 0, &info))) {
        self->read_bytes = info.read_bytes;
        double read = read_raw(self, piece);
        uint32_t balanced = nearest(self, read, 1);
        code = bench_time(self, 0, piece);
        if (code == 0 && balanced != 0) code = bench_time(self, balanced, piece);
    }
    free(piece);
    return code;
}

static int bench_all(bench *self) {
    uint64_t count = (uint64_t)rows[ENTRIES - 1] * WIDTH;
    self->x = malloc(count * sizeof *self->x);
    self->y[0] = malloc(count * sizeof *self->y[0]);
    self->y[1] = malloc(count * sizeof *self->y[1]);
    if (self->x == NULL || self->y[0] == NULL || self->y[1] == NULL) return -1;
    for (uint64_t i = 0; i < count; i++)
        self->x[i] = (float)(i % 17) / 17 - 0.5f;
    self->budget = (uint64_t)LAYERS * WIDTH * WIDTH * sizeof(float) / 4;
    if (!make_program(self) || bench_memory(self) != 0) return -1;
    return bench_times(self);
}

void rlx_bench_stream_program(rlx_bench_report *report) {
    bench self = {.report = report};
    int code = check(rlx_device_open("cpu", NULL, &self.device)) ? bench_all(&self) : -1;
    rlx_exec_destroy(self.whole);
    rlx_exec_destroy(self.split);
    rlx_program_release(self.resident);
    rlx_program_release(self.streamed);
    rlx_device_release(self.device);
    if (self.path[0] != 0) unlink(self.path);
    free(self.x);
    free(self.y[0]);
    free(self.y[1]);
    if (code != 0) report->code = 1;
}
