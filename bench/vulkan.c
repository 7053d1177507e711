/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench vulkan`: an f32 product by the chosen shader against the naive one, 400 small
 * dispatches that wait for each other replayed against recorded anew, what a run records and
 * submits, which steps of networks stay on the host, and the bytes that a decode step moves. The
 * two sides of a row alternate. Figures of a software driver are about our shaders and our
 * recording, not about any GPU. */
#include "bench.h"
#include "graphs.h"
#include "ready.h"

#include <stdlib.h>
#include <string.h>

enum { CHAIN = 400, SIDE = 256, FAULT_RECORD = 24 };

typedef struct bench {
    rlx_bench_report report;
    const char *device;
} bench;

static const char mlp_text[] =
    "rlx 1\ninput x : f32[8, 64]\nparam a : f32[64, 128] = seeded(1, 0.2)\n"
    "param b : f32[128] = seeded(2, 0.2)\nparam c : f32[128, 10] = seeded(3, 0.2)\n"
    "h = matmul(x, a)\nhb = add(h, b)\nr = relu(hb)\ny = matmul(r, c)\np = softmax(y) axis=-1\n"
    "output p\n";

static const char encoder_text[] =
    "rlx 1\ninput x : f32[1, 32, 64]\nparam g : f32[64] = seeded(1, 0.2, 1)\n"
    "param z : f32[64] = seeded(2, 0.2)\nparam wq : f32[64, 64] = seeded(3, 0.2)\n"
    "param wk : f32[64, 64] = seeded(4, 0.2)\nparam wv : f32[64, 64] = seeded(5, 0.2)\n"
    "param wo : f32[64, 64] = seeded(6, 0.2)\nparam w1 : f32[64, 256] = seeded(7, 0.2)\n"
    "param w2 : f32[256, 64] = seeded(8, 0.2)\n"
    "n = layer_norm(x, g, z) axis=-1 epsilon=1e-5\n"
    "qa = matmul(n, wq)\nqb = reshape(qa) shape=[1, 32, 4, 16]\n"
    "q = transpose(qb) perm=[0, 2, 1, 3]\n"
    "ka = matmul(n, wk)\nkb = reshape(ka) shape=[1, 32, 4, 16]\n"
    "k = transpose(kb) perm=[0, 2, 1, 3]\n"
    "va = matmul(n, wv)\nvb = reshape(va) shape=[1, 32, 4, 16]\n"
    "v = transpose(vb) perm=[0, 2, 1, 3]\n"
    "a = attention(q, k, v)\nat = transpose(a) perm=[0, 2, 1, 3]\n"
    "ar = reshape(at) shape=[1, 32, 64]\no = matmul(ar, wo)\nr = add(o, x)\n"
    "m = layer_norm(r, g, z) axis=-1 epsilon=1e-5\nf = matmul(m, w1)\ne = gelu(f)\n"
    "d = matmul(e, w2)\ny = add(d, r)\noutput y\n";

static bool check(rlx_status status) {
    if (status == RLX_OK) return true;
    fprintf(stderr, "rlx bench: %s\n", rlx_last_error());
    return false;
}

static rlx_device_options options_of(uint32_t flags) {
    return (rlx_device_options){.size = sizeof(rlx_device_options), .flags = flags};
}

/* The least time of a few runs. */
static double best_run(ready *model, uint32_t runs) {
    double best = -1;
    for (uint32_t i = 0; i < runs; i++) {
        double ns = ready_run(model);
        if (ns < 0) return -1;
        if (best < 0 || ns < best) best = ns;
    }
    return best;
}

/* Ours against the other side, in turns; the ratio is how many times faster ours is. */
static bool compare(bench *self, const char *name, ready *ours, ready *other, uint32_t runs,
                    double bar) {
    static rlx_bench_pairs pairs;
    double least, median;
    rlx_bench_pairs_begin(&pairs);
    for (uint32_t trial = 0; trial <= RLX_BENCH_TRIALS; trial++) {
        double a = best_run(other, runs), b = best_run(ours, runs);
        if (a < 0 || b < 0) return false;
        if (trial > 0) rlx_bench_pair(&pairs, a, b); /* the first one warms up */
    }
    least = rlx_bench_least(&pairs.limit) / rlx_bench_least(&pairs.ours);
    median = rlx_bench_median(&pairs.ratio);
    rlx_bench_report_row(&self->report, name, ", ours", rlx_bench_least(&pairs.ours) * 1e-3, "us",
                         0);
    rlx_bench_report_least(&self->report, name, "", least, "times", bar, 1,
                           least >= bar && median * 1.25 >= bar);
    rlx_bench_report_row(&self->report, name, ", median of pairs", median, "times", bar);
    return true;
}

static bool product(bench *self) {
    rlx_device_options chosen = options_of(0), naive = options_of(RLX_DEVICE_PLAIN_SHADERS);
    ready ours = {0}, other = {0};
    char text[200];
    snprintf(text, sizeof text,
             "rlx 1\ninput x : f32[%d, %d]\nparam w : f32[%d, %d] = seeded(1, 1)\n"
             "y = matmul(x, w)\noutput y\n",
             SIDE, SIDE, SIDE, SIDE);
    bool is_done = ready_make_on(&ours, text, self->device, &chosen, false) &&
                   ready_make_on(&other, text, self->device, &naive, false) &&
                   compare(self, "f32 matmul 256^3 against the naive shader", &ours, &other, 1, 8);
    ready_free(&ours);
    ready_free(&other);
    return is_done;
}

/* Recordings and submits of one more run. */
static bool count_run(bench *self, const char *name, ready *model, double submits) {
    rlx_device_work before, after;
    if (!check(rlx_device_read_work(model->device, &before)) || ready_run(model) < 0 ||
        !check(rlx_device_read_work(model->device, &after))) {
        return false;
    }
    double recorded = (double)(after.recordings - before.recordings);
    double submitted = (double)(after.submits - before.submits);
    rlx_bench_report_row(&self->report, name, ": recordings of a run", recorded, "", 0);
    rlx_bench_report_most(&self->report, name, ": submits of a run", submitted, "", submits, 1,
                          recorded == 0 && submitted == submits);
    return true;
}

static bool dispatches(bench *self) {
    static char text[64 * (CHAIN + 4)];
    rlx_device_options replayed = options_of(0), recorded = options_of(RLX_DEVICE_RECORD_ALWAYS);
    ready ours = {0}, other = {0};
    size_t at = (size_t)snprintf(text, sizeof text, "rlx 1\ninput v0 : f32[8]\n");
    for (int i = 0; i < CHAIN; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "v%d = neg(v%d)\n", i + 1, i);
    snprintf(text + at, sizeof text - at, "output v%d\n", CHAIN);
    /* Mesa's software driver wakes threads for every dispatch unless it is told not to. */
    const char *before = getenv("LP_NUM_THREADS");
    if (before == NULL) setenv("LP_NUM_THREADS", "0", 1);
    bool is_done =
        ready_make_on(&ours, text, self->device, &replayed, true) &&
        ready_make_on(&other, text, self->device, &recorded, true) &&
        compare(self, "400 dispatches, replay against recording", &ours, &other, 5, 1.3) &&
        count_run(self, "400 dispatches", &ours, 1);
    if (before == NULL) unsetenv("LP_NUM_THREADS");
    ready_free(&ours);
    ready_free(&other);
    return is_done;
}

/* The session has the graph, also when it could not be made. */
static bool open_session(rlx_graph *graph, rlx_session **out_session) {
    rlx_status status = rlx_session_create(NULL, graph, out_session);
    if (status != RLX_OK) rlx_graph_destroy(graph);
    return check(status);
}

/* Steps of runs that have no shader. */
static bool host_steps(bench *self, const char *name, rlx_graph *graph) {
    const rlx_binding size = {"S", 1};
    const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
    rlx_compile_options options = {.size = sizeof options};
    rlx_session *session = NULL;
    rlx_plan *plan = NULL;
    double count = 0;
    if (strcmp(name, "decoder") == 0) {
        options.entries = &entry;
        options.entry_count = 1;
    }
    bool is_done = open_session(graph, &session) &&
                   check(rlx_session_plan(session, self->device, 0, &options, &plan));
    for (uint32_t i = 0; is_done && i < rlx_plan_step_count(plan); i++) {
        rlx_step_info step;
        is_done = check(rlx_plan_step_at(plan, i, &step));
        if (is_done && step.entry != RLX_NONE && step.is_host) count++;
    }
    rlx_plan_destroy(plan);
    rlx_session_destroy(session);
    if (!is_done) return false;
    rlx_bench_report_most(&self->report, name, ": steps on the host", count, "", 0, 0, count == 0);
    return true;
}

static bool host_steps_of_text(bench *self, const char *name, const char *text) {
    rlx_graph *graph = NULL;
    return check(rlx_graph_parse(NULL, text, strlen(text), &graph)) &&
           host_steps(self, name, graph);
}

static bool host_steps_of_cnn(bench *self) {
    rlx_graph *graph = NULL;
    for (uint32_t i = 0; i < rlx_bench_graph_count; i++) {
        if (strcmp(rlx_bench_graphs[i].name, "squeezenet") != 0) continue;
        return check(rlx_bench_graphs[i].build(&graph)) && host_steps(self, "CNN", graph);
    }
    return true;
}

static rlx_status decode_step(rlx_exec *exec, int64_t position, uint64_t *out_logits_bytes) {
    int64_t token = 7 + position;
    static float logits[1 << 16];
    uint64_t count = 0;
    rlx_status status = rlx_exec_set(exec, 0, "tokens", &token, sizeof token);
    if (status == RLX_OK) {
        status = rlx_exec_set(exec, 0, "positions", &position, sizeof position);
    }
    if (status == RLX_OK) status = rlx_exec_run(exec, 0);
    if (status == RLX_OK) {
        status =
            rlx_exec_read_output_f32(exec, 0, 0, logits, sizeof logits / sizeof *logits, &count);
    }
    *out_logits_bytes = count * sizeof *logits;
    return status;
}

static rlx_status decode(bench *self, rlx_device *device, rlx_session *session) {
    const rlx_binding size = {"S", 1};
    const rlx_entry_spec entry = {.bindings = &size, .binding_count = 1};
    const rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1};
    rlx_device_work before = {0}, after = {0};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    uint64_t logits = 0;
    rlx_status status = rlx_session_compile(session, device, &options, NULL, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, NULL, &exec);
    if (status == RLX_OK) status = decode_step(exec, 0, &logits);
    if (status == RLX_OK) status = rlx_device_read_work(device, &before);
    if (status == RLX_OK) status = decode_step(exec, 1, &logits);
    if (status == RLX_OK) status = rlx_device_read_work(device, &after);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    if (status != RLX_OK) return status;
    double up = (double)(after.upload_bytes - before.upload_bytes);
    double down = (double)(after.download_bytes - before.download_bytes);
    double recorded = (double)(after.recordings - before.recordings);
    rlx_bench_report_most(&self->report, "decode step, bytes to the device",
                          " (token and position)", up, "B", 2 * sizeof(int64_t), 1,
                          up <= 2 * sizeof(int64_t));
    rlx_bench_report_most(&self->report, "decode step, bytes from the device",
                          " (logits and fault record)", down, "B", (double)logits + FAULT_RECORD, 1,
                          down <= (double)logits + FAULT_RECORD);
    rlx_bench_report_most(&self->report, "decode step", ": recordings", recorded, "", 0, 0,
                          recorded == 0);
    return RLX_OK;
}

static bool decode_bytes(bench *self, rlx_graph *graph) {
    rlx_device_options staged = options_of(0);
    rlx_device *device = NULL;
    rlx_session *session = NULL;
    staged.memory = RLX_DEVICE_MEMORY_STAGED;
    bool is_done = open_session(graph, &session) &&
                   check(rlx_device_open(self->device, &staged, &device)) &&
                   check(decode(self, device, session));
    rlx_session_destroy(session);
    rlx_device_release(device);
    return is_done;
}

static bool measure_all(bench *self, rlx_status (*decoder)(rlx_graph **out_graph)) {
    rlx_graph *first = NULL, *second = NULL;
    bool is_done = product(self) && dispatches(self) && host_steps_of_text(self, "MLP", mlp_text) &&
                   host_steps_of_cnn(self) &&
                   host_steps_of_text(self, "transformer encoder", encoder_text);
    return is_done && check(decoder(&first)) && host_steps(self, "decoder", first) &&
           check(decoder(&second)) && decode_bytes(self, second);
}

/* The first Vulkan device that can be opened, GPUs before software; NULL: none, and why. */
static const char *find_device(const char **out_missing) {
    const char *software = NULL;
    *out_missing = "no Vulkan in this build";
    for (uint32_t i = 0; i < rlx_device_count(); i++) {
        rlx_device_info info;
        if (rlx_device_at(i, &info) != RLX_OK || strcmp(info.kind, "vulkan") != 0) continue;
        *out_missing = info.missing;
        if (!info.is_available) continue;
        if (strcmp(info.target, "vulkan/gpu") == 0) return info.name;
        if (software == NULL) software = info.name;
    }
    return software;
}

int rlx_bench_vulkan(FILE *out, bool json, const char *device,
                     rlx_status (*decoder)(rlx_graph **out_graph)) {
    const char *missing = "";
    bench self = {.device = device != NULL ? device : find_device(&missing)};
    if (self.device == NULL) {
        fprintf(stderr, "rlx bench: no Vulkan device: %s\n", missing);
        return 0;
    }
    self.report = rlx_bench_report_begin(out, json, rlx_bench_threads() < 2 ? 1 : 2);
    return rlx_bench_report_end(&self.report, measure_all(&self, decoder));
}
