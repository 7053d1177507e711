/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench rows`: ops that read and write memory once and compute little on the way, held against
 * copying as many bytes (half of what is read and written) with the same threads in the same run.
 * Where next to nothing is written the limit is reading. Both sides alternate, and the limit goes
 * from one part of its buffers to the next: neither finds its data in a cache. */
#include "bench.h"
#include "probe.h"

#include <rlx/rlx.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct row_case {
    const char *name;
    const char *text;  /* the graph; inputs x and, of gathers, index */
    double bar;        /* of the limit; 0: none is set */
    int64_t positions; /* indices are below this */
} row_case;

#define GRAPH(inputs, node) "rlx 1\n" inputs "\ny = " node "\noutput y\n"
#define X(type)             "input x : " type
#define SQUARE              X("f32[4096, 1024]")
#define AFFINE                                \
    "\nparam s : f32[1024] = seeded(1, 1, 1)" \
    "\nparam b : f32[1024] = seeded(2, 1)"

static const row_case cases[] = {
    {"softmax 4096x1024", GRAPH(SQUARE, "softmax(x) axis=-1"), 0.7, 0},
    {"layer_norm 4096x1024", GRAPH(SQUARE AFFINE, "layer_norm(x, s, b) axis=-1 epsilon=1e-5"), 0.7,
     0},
    {"rms_norm 4096x1024", GRAPH(SQUARE AFFINE, "rms_norm(x, s) axis=-1 epsilon=1e-5"), 0.7, 0},
    {"softmax f16 4096x1024", GRAPH(X("f16[4096, 1024]"), "softmax(x) axis=-1"), 0, 0},
    {"log_softmax 128x32000", GRAPH(X("f32[128, 32000]"), "log_softmax(x) axis=-1"), 0, 0},
    {"softmax 65536x64", GRAPH(X("f32[65536, 64]"), "softmax(x) axis=-1"), 0, 0},
    {"softmax 64x64x1024, axis 1", GRAPH(X("f32[64, 64, 1024]"), "softmax(x) axis=1"), 0, 0},
    {"transpose 4096x1024", GRAPH(SQUARE, "transpose(x) perm=[1, 0]"), 0, 0},
    {"transpose 3001x3001", GRAPH(X("f32[3001, 3001]"), "transpose(x) perm=[1, 0]"), 0, 0},
    {"transpose f16 4096x2048", GRAPH(X("f16[4096, 2048]"), "transpose(x) perm=[1, 0]"), 0, 0},
    {"transpose 64x224x224, channels last",
     GRAPH(X("f32[1, 64, 224, 224]"), "transpose(x) perm=[0, 2, 3, 1]"), 0, 0},
    {"transpose 224x224x64, channels first",
     GRAPH(X("f32[1, 224, 224, 64]"), "transpose(x) perm=[0, 3, 1, 2]"), 0, 0},
    {"transpose u8 32x224x224x3, channels first",
     GRAPH(X("u8[32, 224, 224, 3]"), "transpose(x) perm=[0, 3, 1, 2]"), 0, 0},
    {"transpose 8x16x512x64, heads",
     GRAPH(X("f32[8, 16, 512, 64]"), "transpose(x) perm=[0, 2, 1, 3]"), 0, 0},
    {"gather 8192 rows of 1024",
     GRAPH(X("f32[16384, 1024]") "\ninput index : i64[8192]", "gather(x, index) axis=0"), 0, 16384},
    {"reduce_sum 4096x1024, rows", GRAPH(SQUARE, "reduce_sum(x) axes=[1]"), 0, 0},
    {"reduce_sum 4096x1024, columns", GRAPH(SQUARE, "reduce_sum(x) axes=[0]"), 0, 0},
    {"reduce_max 4096x1024, rows", GRAPH(SQUARE, "reduce_max(x) axes=[1]"), 0, 0},
    {"layer_norm bf16 4096x1024",
     GRAPH(X("bf16[4096, 1024]") AFFINE, "layer_norm(x, s, b) axis=-1 epsilon=1e-5"), 0, 0},
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

typedef struct bench {
    rlx_bench_report report;
    const probe_kernels *kernels;
    uint8_t *from, *to; /* what the limit copies */
    size_t bytes;       /* of each */
    size_t copied, at;  /* in the case at hand: how many, from where on */
    bool reads;         /* its limit is reading */
    bool streams;       /* its limit uses streaming stores */
} bench;

enum { UNIT = 512 };

static bool check(const char *what, rlx_status status) {
    if (status != RLX_OK) fprintf(stderr, "rlx bench: %s: %s\n", what, rlx_last_error());
    return status == RLX_OK;
}

static double work_limit(void *user, uint32_t thread, uint32_t threads) {
    const bench *self = user;
    size_t units = self->copied / UNIT, first = units * thread / threads * UNIT;
    size_t bytes = units * (thread + 1) / threads * UNIT - first;
    first += self->at;
    if (self->reads) {
        volatile uint64_t sink = self->kernels->read(self->from + first, bytes);
        (void)sink;
    } else if (self->streams) {
        self->kernels->stream(self->to + first, self->from + first, bytes);
    } else {
        memcpy(self->to + first, self->from + first, bytes);
    }
    return (double)bytes;
}

/* One pass over bytes that were not touched for long. */
static bool pass_limit(bench *self, uint32_t threads, bool streams, double *out_rate) {
    rlx_bench_figures rates;
    self->streams = streams;
    self->at = self->at + 2 * self->copied <= self->bytes ? self->at + self->copied : 0;
    if (!rlx_bench_rates(work_limit, self, threads, 1, &rates)) return false;
    *out_rate = rates.items[0];
    return true;
}

/* Bytes per second of the better way of copying. */
static bool measure_limit(bench *self, uint32_t threads, double *out_rate) {
    double streamed = 0;
    if (!pass_limit(self, threads, false, out_rate)) return false;
    if (self->reads || self->kernels->stream == NULL) return true;
    if (!pass_limit(self, threads, true, &streamed)) return false;
    if (streamed > *out_rate) *out_rate = streamed;
    return true;
}

/* Small floats, or indices all over the place. */
static rlx_status fill_input(const row_case *row, rlx_exec *exec, uint32_t index,
                             const rlx_port_info *port) {
    void *memory = NULL;
    rlx_status status = rlx_exec_input_address(exec, 0, index, &memory);
    if (status != RLX_OK) return status;
    if (port->dtype == RLX_DTYPE_I64) {
        for (uint64_t i = 0; i < port->elements; i++)
            ((int64_t *)memory)[i] = (int64_t)(i * 7919 % (uint64_t)row->positions);
        return RLX_OK;
    }
    float chunk[1000];
    for (uint64_t i = 0; i < 1000; i++)
        chunk[i] = (float)(i * 7919 % 1000) * 0.006f - 3.0f;
    uint64_t each = port->bytes / port->elements;
    for (uint64_t i = 0; i < port->elements && status == RLX_OK; i += 1000) {
        uint64_t count = port->elements - i < 1000 ? port->elements - i : 1000;
        status = rlx_convert_from_f32(port->dtype, (uint8_t *)memory + i * each, chunk, count);
    }
    return status;
}

/* Sets the inputs and says how many bytes a run has to move. A gather reads what it writes. */
static rlx_status prepare(bench *self, const row_case *row, rlx_exec *exec) {
    const rlx_program *program = rlx_exec_program(exec);
    rlx_port_info port;
    uint64_t read = 0, written = 0;
    uint32_t index = 0;
    rlx_status status = RLX_OK;
    for (; status == RLX_OK && rlx_program_input(program, 0, index, &port) == RLX_OK; index++) {
        status = fill_input(row, exec, index, &port);
        if (row->positions == 0 || port.dtype == RLX_DTYPE_I64) read += port.bytes;
    }
    if (status == RLX_OK) status = rlx_program_output(program, 0, 0, &port);
    if (status != RLX_OK) return status;
    written = port.bytes;
    if (row->positions != 0) read += written;
    self->reads = written * 16 < read;
    self->at = 0;
    self->copied = (size_t)(self->reads ? read : (read + written) / 2) / UNIT * UNIT;
    return self->copied <= self->bytes ? RLX_OK : RLX_OUT_OF_BOUNDS;
}

static bool measure(bench *self, const row_case *row, uint32_t threads, rlx_exec *exec) {
    static rlx_bench_pairs pairs;
    char name[128];
    double bytes = (double)self->copied, rate = 0;
    rlx_bench_pairs_begin(&pairs);
    if (!check(row->name, rlx_exec_run(exec, 0))) return false; /* warms up */
    for (uint32_t i = rlx_bench_trials(row->bar); i > 0; i--) {
        rlx_bench_settle(&self->report, threads);
        if (!measure_limit(self, threads, &rate)) return false;
        uint64_t start = rlx_bench_now_ns();
        if (!check(row->name, rlx_exec_run(exec, 0))) return false;
        rlx_bench_pair(&pairs, bytes * 1e9 / rate, (double)(rlx_bench_now_ns() - start + 1));
    }
    snprintf(name, sizeof name, "%s, %u %s", row->name, threads,
             threads == 1 ? "thread" : "threads");
    rlx_bench_report_pairs(&self->report, name, &pairs, bytes, "GB/s", row->bar);
    return true;
}

static rlx_status make_exec(const row_case *row, rlx_device *device, rlx_exec **out_exec) {
    rlx_compile_options options = {.size = sizeof options, .keep_inputs = true};
    rlx_graph *graph = NULL;
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_status status = rlx_graph_parse(NULL, row->text, strlen(row->text), &graph);
    if (status != RLX_OK) return status;
    status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) rlx_graph_destroy(graph); /* consumed on success only */
    if (status == RLX_OK) status = rlx_session_compile(session, device, &options, NULL, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, NULL, out_exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    return status;
}

static bool bench_case(bench *self, const row_case *row, uint32_t threads) {
    rlx_device_options options = {.size = sizeof options, .threads = threads};
    rlx_device *device = NULL;
    rlx_exec *exec = NULL;
    bool is_done = check(row->name, rlx_device_open("cpu", &options, &device)) &&
                   check(row->name, make_exec(row, device, &exec)) &&
                   check(row->name, prepare(self, row, exec)) && measure(self, row, threads, exec);
    rlx_exec_destroy(exec);
    rlx_device_release(device);
    return is_done;
}

static uint8_t *map_buffer(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
#if defined(MADV_HUGEPAGE)
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
#endif
    memset(memory, 1, bytes);
    return memory;
}

int rlx_bench_rows(FILE *out, bool json) {
    uint32_t threads = rlx_bench_threads();
    bench self = {.report = rlx_bench_report_begin(out, json, threads),
                  .kernels = probe_best(),
                  .bytes = (size_t)96 << 20};
    self.from = map_buffer(self.bytes);
    self.to = map_buffer(self.bytes);
    bool is_done = self.from != NULL && self.to != NULL;
    for (uint32_t i = 0; i < CASE_COUNT && is_done; i++) {
        is_done = bench_case(&self, &cases[i], 1);
        if (threads > 1) is_done = is_done && bench_case(&self, &cases[i], threads);
    }
    if (self.from != NULL) munmap(self.from, self.bytes);
    if (self.to != NULL) munmap(self.to, self.bytes);
    return rlx_bench_report_end(&self.report, is_done);
}
