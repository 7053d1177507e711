/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench conv`: the convolutions of resnet50, where they stand in the network and with the
 * clock of the step profile, against the multiply-adds that the same threads do in registers; whole
 * networks; and depthwise convolutions against copying as many bytes as they write, at the same
 * place in the caches. The limit and ours alternate. */
#include "bench.h"
#include "graphs.h"
#include "net.h"
#include "probe.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COPY_BYTES = 8 << 20 };

/* When one thread began and ended its part of a copy. */
typedef struct copy_span {
    _Alignas(64) uint64_t start_ns, end_ns;
} copy_span;
enum { COPY_THREADS = 64 };

typedef struct bench {
    rlx_bench_report report;
    uint32_t threads; /* at hand */
    uint8_t *from, *to;
    size_t bytes;            /* that the copy at hand moves */
    double flops;            /* of the convolutions at hand: the limit does as many */
    _Atomic uint32_t copied; /* parts begun in all copies so far */
    copy_span spans[COPY_THREADS];
} bench;

static bool check(const char *what, rlx_status status) {
    if (status != RLX_OK) fprintf(stderr, "rlx bench: %s: %s\n", what, rlx_last_error());
    return status == RLX_OK;
}

/* `what` with the threads at hand. */
static const char *name_of(const bench *self, const char *what, char name[160]) {
    snprintf(name, 160, "%s, %u thread%s", what, self->threads, self->threads == 1 ? "" : "s");
    return name;
}

static void print(const bench *self, const char *what, const char *unit, double value,
                  double limit) {
    char name[160];
    rlx_bench_report_row(&self->report, name_of(self, what, name), "", value, unit, limit);
}

/* Operations or bytes per second, measured in turns, as giga; bar 0: none. */
static void print_rates(bench *self, const char *what, const char *unit,
                        const rlx_bench_figures *ours, const rlx_bench_figures *limit,
                        const rlx_bench_figures *pairs, double bar) {
    char name[160];
    rlx_bench_report_rates(&self->report, name_of(self, what, name), rlx_bench_most(ours) * 1e-9,
                           rlx_bench_most(limit) * 1e-9, unit, rlx_bench_median(pairs), bar);
}

static double work_multiply_add(void *user, uint32_t thread, uint32_t threads) {
    const bench *self = user;
    (void)thread;
    return probe_amount(probe_best()->multiply_add, self->flops / threads);
}

/* A thread that slept at the barrier of the crew is woken late, by more than a small copy takes:
 * all wait awake for the last one and take the time themselves. */
static double work_copy(void *user, uint32_t thread, uint32_t threads) {
    bench *self = user;
    copy_span *span = &self->spans[thread % COPY_THREADS];
    size_t first = self->bytes * thread / threads / 64 * 64;
    size_t end =
        thread + 1 == threads ? self->bytes : self->bytes * (thread + 1) / threads / 64 * 64;
    uint32_t before = atomic_fetch_add(&self->copied, 1), all = (before / threads + 1) * threads;
    while (atomic_load(&self->copied) < all) {
    }
    span->start_ns = rlx_bench_now_ns();
    memcpy(self->to + first, self->from + first, end - first);
    span->end_ns = rlx_bench_now_ns();
    return (double)(end - first);
}

/* Of the last copy, in bytes per second: from the first thread's start to the last one's end. */
static double copy_rate(const bench *self) {
    uint64_t start = self->spans[0].start_ns, end = self->spans[0].end_ns;
    for (uint32_t i = 1; i < self->threads && i < COPY_THREADS; i++) {
        const copy_span *span = &self->spans[i];
        if (span->start_ns < start) start = span->start_ns;
        if (span->end_ns > end) end = span->end_ns;
    }
    return (double)self->bytes * 1e9 / (double)(end - start + 1);
}

static rlx_status make_exec(rlx_graph *graph, rlx_device *device, bool profile,
                            rlx_exec **out_exec) {
    rlx_compile_options options = {.size = sizeof options, .keep_inputs = true};
    rlx_exec_options exec_options = {.size = sizeof exec_options, .profile = profile};
    rlx_session *session = NULL;
    rlx_program *program = NULL;
    rlx_status status = rlx_session_create(NULL, graph, &session);
    if (status != RLX_OK) rlx_graph_destroy(graph); /* consumed on success only */
    if (status == RLX_OK) status = rlx_session_compile(session, device, &options, NULL, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, &exec_options, out_exec);
    rlx_program_release(program);
    rlx_session_destroy(session);
    return status;
}

static rlx_status fill_input(rlx_exec *exec) {
    rlx_port_info port;
    void *memory = NULL;
    rlx_status status = rlx_program_input(rlx_exec_program(exec), 0, 0, &port);
    if (status == RLX_OK) status = rlx_exec_input_address(exec, 0, 0, &memory);
    for (uint64_t i = 0; status == RLX_OK && i < port.elements; i++)
        ((float *)memory)[i] = (float)(i * 7919 % 1000) * 0.002f - 1.0f;
    return status;
}

/* Times of the convolutions in the last run. */
static double conv_ns(const rlx_exec *exec, double *out_flops) {
    uint32_t count = 0;
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    double ns = 0;
    *out_flops = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].op != RLX_OP_CONV || rows[i].runs == 0) continue;
        ns += (double)rows[i].total_ns;
        *out_flops += (double)rows[i].flops;
    }
    return ns;
}

/* Per layer the best of all runs. */
typedef struct layers {
    uint64_t *least; /* owned */
    uint32_t count;
} layers;

static bool note_layers(const rlx_exec *exec, layers *best) {
    uint32_t count = 0;
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    if (best->least == NULL) {
        best->least = calloc(count + 1u, sizeof *best->least);
        best->count = count;
    }
    if (best->least == NULL) return false;
    for (uint32_t i = 0; i < count && i < best->count; i++) {
        uint64_t ns = rows[i].total_ns;
        if (best->least[i] == 0 || ns < best->least[i]) best->least[i] = ns;
    }
    return true;
}

static void print_layers(bench *self, const char *network, const rlx_exec *exec, const layers *best,
                         double limit) {
    uint32_t count = 0;
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    for (uint32_t i = 0; i < count && i < best->count; i++) {
        char name[120];
        if (rows[i].op != RLX_OP_CONV || rows[i].runs == 0 || best->least[i] == 0) continue;
        snprintf(name, sizeof name, "%s layer %.40s (%.40s)", network, rows[i].name,
                 rows[i].kernel);
        print(self, name, "GFLOP/s", (double)rows[i].flops / (double)best->least[i], limit * 1e-9);
    }
}

typedef struct network_bars {
    double bar; /* of the multiply-add limit, for the sum of the convolutions; 0: none */
    bool has_layers;
} network_bars;

static bool measure_network(bench *self, const char *network, rlx_exec *exec, network_bars bars) {
    static rlx_bench_figures limit, ours, pairs, times, one;
    layers best = {NULL, 0};
    char name[120];
    bool is_done = check(network, fill_input(exec)) && check(network, rlx_exec_run(exec, 0));
    limit.count = ours.count = pairs.count = times.count = rlx_bench_trials(bars.bar);
    (void)conv_ns(exec, &self->flops);
    for (uint32_t i = 0; i < times.count && is_done; i++) {
        double flops = 0;
        rlx_bench_settle(&self->report, self->threads);
        is_done = rlx_bench_rates(work_multiply_add, self, self->threads, 1, &one);
        limit.items[i] = one.items[0];
        rlx_exec_reset_profile(exec);
        uint64_t start = rlx_bench_now_ns();
        is_done = is_done && check(network, rlx_exec_run(exec, 0));
        times.items[i] = (double)(rlx_bench_now_ns() - start);
        double ns = conv_ns(exec, &flops);
        ours.items[i] = flops * 1e9 / (ns + 1);
        pairs.items[i] = ours.items[i] / limit.items[i];
        is_done = is_done && note_layers(exec, &best);
    }
    if (is_done && bars.has_layers)
        print_layers(self, network, exec, &best, rlx_bench_most(&limit));
    if (is_done) {
        snprintf(name, sizeof name, "%s convolutions", network);
        print_rates(self, name, "GFLOP/s", &ours, &limit, &pairs, bars.bar);
        snprintf(name, sizeof name, "%s whole, best", network);
        print(self, name, "ms", rlx_bench_least(&times) * 1e-6, 0);
        snprintf(name, sizeof name, "%s whole, median", network);
        print(self, name, "ms", rlx_bench_median(&times) * 1e-6, 0);
    }
    free(best.least);
    return is_done;
}

/* The depthwise convolutions of one case: a small product before it puts x into blocks. */
typedef struct depthwise_case {
    const char *name;
    int64_t size, channels;
} depthwise_case;
static const depthwise_case depthwise_cases[] = {
    {"depthwise 3x3 112x112x64", 112, 64},
    {"depthwise 3x3 14x14x512", 14, 512},
};

static rlx_value_id depthwise(net *self, rlx_value_id x, int64_t stride) {
    int64_t channels = net_dim(self, x, 1);
    rlx_conv_attrs attrs = {.strides = {2, {stride, stride}},
                            .pads = {4, {1, 1, 1, 1}},
                            .groups = channels,
                            .activation = {.op = RLX_OP_RELU}};
    rlx_value_id inputs[3] = {x};
    inputs[1] = net_weight(self, (rlx_shape){4, {channels, 1, 3, 3}}, 0, 0.5);
    inputs[2] = net_weight(self, (rlx_shape){1, {channels}}, 0, 0.1);
    return net_node(self, RLX_OP_CONV, &attrs, inputs, 3);
}

static rlx_status build_depthwise(const depthwise_case *row, rlx_graph **out_graph) {
    net self = net_begin();
    rlx_value_id x =
        net_input(&self, "x", RLX_DTYPE_F32, (rlx_shape){4, {1, 16, row->size, row->size}});
    x = net_conv(&self, x, row->channels, 1, 1, 0, true);
    x = depthwise(&self, x, 1);
    return net_end(&self, net_global_average(&self, x), out_graph);
}

/* The shape of MobileNet v1: depthwise and pointwise convolutions in turns. */
static rlx_status build_mobilenet(rlx_graph **out_graph) {
    static const int64_t widths[] = {64,  128, 128, 256, 256,  512, 512,
                                     512, 512, 512, 512, 1024, 1024};
    static const int64_t strides[] = {1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1};
    net self = net_begin();
    rlx_value_id x = net_input(&self, "image", RLX_DTYPE_F32, (rlx_shape){4, {1, 3, 224, 224}});
    x = net_conv_bn_relu(&self, x, 32, 3, 2, 1);
    for (int i = 0; i < 13; i++) {
        x = depthwise(&self, x, strides[i]);
        x = net_conv_bn_relu(&self, x, widths[i], 1, 1, 0);
    }
    x = net_dense(&self, net_global_average(&self, x), 1000, true);
    return net_end(&self, x, out_graph);
}

static uint64_t depthwise_ns(const rlx_exec *exec) {
    uint32_t count = 0;
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    uint64_t ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].op == RLX_OP_CONV) ns = rows[i].total_ns; /* it is the last one */
    }
    return ns;
}

static bool measure_depthwise(bench *self, const depthwise_case *row, rlx_exec *exec) {
    static rlx_bench_figures limit, ours, pairs, one;
    self->bytes = (size_t)(row->size * row->size * row->channels) * sizeof(float);
    atomic_store(&self->copied, 0);
    bool is_done = check(row->name, fill_input(exec)) && check(row->name, rlx_exec_run(exec, 0));
    limit.count = ours.count = pairs.count = 10 * RLX_BENCH_TRIALS;
    for (uint32_t i = 0; i < limit.count && is_done; i++) {
        rlx_bench_settle(&self->report, self->threads);
        /* Both twice: the first finds in the caches what the other side left there. */
        is_done = rlx_bench_rates(work_copy, self, self->threads, 2, &one);
        limit.items[i] = copy_rate(self);
        for (int run = 0; run < 2 && is_done; run++) {
            rlx_exec_reset_profile(exec);
            is_done = check(row->name, rlx_exec_run(exec, 0));
        }
        ours.items[i] = (double)self->bytes * 1e9 / (double)(depthwise_ns(exec) + 1);
        pairs.items[i] = ours.items[i] / limit.items[i];
    }
    if (is_done) {
        print_rates(self, row->name, "GB/s", &ours, &limit, &pairs, 0.6);
    }
    return is_done;
}

static bool bench_network(bench *self, rlx_device *device, const char *name,
                          rlx_status (*build)(rlx_graph **out_graph), network_bars bars) {
    rlx_graph *graph = NULL;
    rlx_exec *exec = NULL;
    bool is_done = check(name, build(&graph)) &&
                   check(name, make_exec(graph, device, true, &exec)) &&
                   measure_network(self, name, exec, bars);
    rlx_exec_destroy(exec);
    return is_done;
}

static bool bench_depthwise(bench *self, rlx_device *device, const depthwise_case *row) {
    rlx_graph *graph = NULL;
    rlx_exec *exec = NULL;
    bool is_done = check(row->name, build_depthwise(row, &graph)) &&
                   check(row->name, make_exec(graph, device, true, &exec)) &&
                   measure_depthwise(self, row, exec);
    rlx_exec_destroy(exec);
    return is_done;
}

static bool bench_threads(bench *self, uint32_t threads) {
    rlx_device_options options = {.size = sizeof options, .threads = threads};
    rlx_device *device = NULL;
    bool is_done = check("cpu", rlx_device_open("cpu", &options, &device));
    self->threads = threads;
    for (uint32_t i = 0; i < rlx_bench_graph_count && is_done; i++) {
        const rlx_bench_graph *row = &rlx_bench_graphs[i];
        bool is_resnet = strcmp(row->name, "resnet50") == 0;
        network_bars bars = {.bar = is_resnet ? (threads == 1 ? 0.75 : 0.72) : 0,
                             .has_layers = is_resnet};
        if (strncmp(row->name, "decoder", 7) == 0) continue;
        is_done = bench_network(self, device, row->name, row->build, bars);
    }
    is_done = is_done &&
              bench_network(self, device, "mobilenet", build_mobilenet, (network_bars){.bar = 0});
    for (uint32_t i = 0; i < sizeof depthwise_cases / sizeof *depthwise_cases && is_done; i++)
        is_done = bench_depthwise(self, device, &depthwise_cases[i]);
    rlx_device_release(device);
    return is_done;
}

int rlx_bench_conv(FILE *out, bool json) {
    uint32_t threads = rlx_bench_threads();
    bench self = {.report = rlx_bench_report_begin(out, json, threads)};
    self.from = calloc(1, COPY_BYTES);
    self.to = calloc(1, COPY_BYTES);
    /* Pages that nobody has written to are all the same one, and that is in the first cache. */
    if (self.from != NULL) memset(self.from, 1, COPY_BYTES);
    bool is_done = self.from != NULL && self.to != NULL && bench_threads(&self, 1);
    if (threads > 1) is_done = is_done && bench_threads(&self, threads);
    free(self.from);
    free(self.to);
    return rlx_bench_report_end(&self.report, is_done);
}
