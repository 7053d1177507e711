/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx bench`: a topic of bench/, or a model or program file run again and again. */
#include "bench.h"
#include "demo_model.h"
#include "inputs.h"
#include "signals.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_command {
    tool_common common;
    tool_model model;
    tool_inputs inputs;
    const char *entry;
    uint64_t runs, steps;
} bench_command;

static const char *vulkan_device; /* --device of the topic `vulkan` */

static rlx_status build_decoder(rlx_graph **out_graph) {
    return demo_model_build(true, out_graph);
}

static int bench_vulkan(FILE *out, bool json) {
    return rlx_bench_vulkan(out, json, vulkan_device, build_decoder);
}

typedef struct topic {
    const char *name;
    int (*run)(FILE *out, bool json);
} topic;

static const topic topics[] = {
    {"limits", rlx_bench_limits},
    {"memory", rlx_bench_memory},
    {"place", rlx_bench_place},
    {"copy", rlx_bench_copy},
    {"stream", rlx_bench_stream},
    {"steps", rlx_bench_steps},
    {"rows", rlx_bench_rows},
    {"attention", rlx_bench_attention},
    {"conv", rlx_bench_conv},
    {"matmul", rlx_bench_matmul},
    {"elementwise", rlx_bench_elementwise},
    {"collective", rlx_bench_collective},
    {"vulkan", bench_vulkan},
};
enum { TOPIC_COUNT = sizeof topics / sizeof *topics };

/* Inputs are set before every run, outside the time: a run may overwrite them. */
static rlx_status run_often(const bench_command *command, rlx_exec *exec, uint32_t entry,
                            rlx_bench_figures *out_times) {
    rlx_status status = RLX_OK;
    out_times->count = 0;
    tool_hold_interrupts(exec);
    for (uint64_t i = 0; status == RLX_OK && i <= command->runs; i++) {
        status = tool_set_inputs(exec, entry, &command->inputs);
        uint64_t start = rlx_bench_now_ns();
        if (status == RLX_OK) status = rlx_exec_run(exec, entry);
        double ns = (double)(rlx_bench_now_ns() - start);
        if (i > 0) out_times->items[out_times->count++] = ns; /* the first one warms up */
        if (i == 0) rlx_exec_reset_profile(exec);
    }
    tool_release_interrupts();
    return status;
}

static int by_time(const void *a, const void *b) {
    const rlx_step_profile *x = a, *y = b;
    return (x->total_ns < y->total_ns) - (x->total_ns > y->total_ns);
}

/* The slowest steps; the limit is the time of all, so that the ratio is the share. */
static rlx_status print_steps(const bench_command *command, const rlx_exec *exec, uint32_t entry) {
    uint32_t count = 0, kept = 0;
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    rlx_step_profile *sorted = calloc(count + 1u, sizeof *sorted);
    uint64_t total = 0;
    if (sorted == NULL) return RLX_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].entry != entry || rows[i].runs == 0) continue;
        sorted[kept++] = rows[i];
        total += rows[i].total_ns;
    }
    qsort(sorted, kept, sizeof *sorted, by_time);
    for (uint32_t i = 0; i < kept && i < command->steps; i++) {
        const rlx_step_profile *row = &sorted[i];
        double runs = (double)command->runs * 1e3;
        char name[256];
        snprintf(name, sizeof name, "step %.120s: %s (%.60s)", row->name, rlx_op_name(row->op),
                 row->kernel);
        rlx_bench_row(stdout, command->common.json, name, (double)row->total_ns / runs, "us",
                      (double)total / runs);
    }
    free(sorted);
    return RLX_OK;
}

/* Runs in an executable of its own, with or without a clock around every step. */
static rlx_status time_runs(const bench_command *command, rlx_program *program, bool has_steps) {
    static rlx_bench_figures times;
    const rlx_exec_options options = {.size = sizeof options, .profile = has_steps};
    bool json = command->common.json;
    rlx_exec *exec = NULL;
    uint32_t entry = 0;
    rlx_status status = rlx_program_find_entry(program, command->entry, &entry);
    if (status == RLX_OK) status = rlx_exec_create(program, &options, &exec);
    if (status == RLX_OK) status = run_often(command, exec, entry, &times);
    if (status == RLX_OK && has_steps) status = print_steps(command, exec, entry);
    if (status == RLX_OK && !has_steps) {
        rlx_bench_head(stdout, json);
        rlx_bench_row(stdout, json, "run, best", rlx_bench_least(&times) * 1e-3, "us", 0);
        rlx_bench_row(stdout, json, "run, median", rlx_bench_median(&times) * 1e-3, "us", 0);
    }
    rlx_exec_destroy(exec);
    return status;
}

static int bench_file(bench_command *command) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    int code = TOOL_OK;
    if (command->runs < 1 || command->runs > RLX_BENCH_MOST_TRIALS) {
        fprintf(stderr, "rlx bench: --runs %" PRIu64 " is not in 1 .. %d\n", command->runs,
                RLX_BENCH_MOST_TRIALS);
        return TOOL_USAGE;
    }
    if (!tool_inputs_check("bench", &command->inputs)) return TOOL_USAGE;
    if (!tool_model_begin("bench", &command->model, &code)) return code;
    rlx_status status = tool_bind_from_files(&command->model, &command->inputs);
    if (status == RLX_OK) status = tool_open_device(&command->model, &device);
    if (status == RLX_OK) status = tool_open_program(&command->model, device, &program);
    if (status == RLX_OK) status = time_runs(command, program, false);
    if (status == RLX_OK) status = time_runs(command, program, true);
    code = status == RLX_OK ? TOOL_OK : tool_fail("bench", status);
    rlx_program_release(program);
    rlx_device_release(device);
    return code;
}

static int bench_all(const bench_command *command) {
    int code = TOOL_OK;
    for (int i = 0; i < TOPIC_COUNT; i++) {
        if (!command->common.json) printf("%s## %s\n\n", i == 0 ? "" : "\n", topics[i].name);
        if (topics[i].run(stdout, command->common.json) != 0) code = TOOL_FAILED;
    }
    return code;
}

int rlx_cmd_bench(int argc, char **argv) {
    static bench_command command = {.runs = RLX_BENCH_TRIALS, .steps = 20};
    const tool_option options[] = {
        {"--runs", TOOL_NUMBER, &command.runs, "N", "how often FILE runs (11)"},
        {"--steps", TOOL_NUMBER, &command.steps, "N", "how many of its slowest steps to show (20)"},
        {"--entry", TOOL_TEXT, &command.entry, "NAME", "which entry of a program; the first"},
        TOOL_INPUT_OPTIONS(command.inputs),
        TOOL_MODEL_OPTIONS(command.model),
        TOOL_COMMON_OPTIONS(command.common)};
    const tool_usage usage = {
        "bench",
        "[TOPIC or FILE] [options]",
        "Measures a topic, or how long a model or program takes: best and median of the runs, and\n"
        "the share of its slowest steps. Without a topic: all of them.\n\n"
        "  limits   arithmetic, read and copy speed of this machine\n"
        "  memory   scratch bytes of well-known networks\n"
        "  place    speed and quality of the memory placer\n"
        "  conv     convolutions and networks of them\n"
        "  copy     copy engines, overlap with compute, conversions\n"
        "  stream   layers read from disk behind compute\n"
        "  steps    what a step costs beside its work, on one thread and shared\n"
        "  rows     softmax, norms, reductions, pools, moves against copying\n"
        "  elementwise  chains and single ops against copying\n"
        "  attention  prefill and decode against arithmetic and memory\n"
        "  collective  ranks on two processors against plain shared memory, and against MPI; one\n"
        "           part alone: collective:small (signals, copies, large, halves, private, idle,\n"
        "           crews, network)\n"
        "  matmul   products against arithmetic and memory; one alone: matmul:MxKxN\n"
        "  vulkan   shaders, replay and host steps of a Vulkan device (--device)",
        options,
        sizeof options / sizeof *options,
        0,
        1};
    const char *subject = NULL;
    int code = TOOL_OK;
    if (!tool_parse(&usage, argc, argv, &subject, &code)) return code;
    tool_log(&command.common);
    vulkan_device = command.model.device;
    if (subject == NULL) return bench_all(&command);
    for (int i = 0; i < TOPIC_COUNT; i++) {
        if (strcmp(subject, topics[i].name) != 0) continue;
        return topics[i].run(stdout, command.common.json) == 0 ? TOOL_OK : TOOL_FAILED;
    }
    if (strncmp(subject, "collective:", 11) == 0) {
        return rlx_bench_collective_part(stdout, command.common.json, subject + 11) == 0
                   ? TOOL_OK
                   : TOOL_FAILED;
    }
    if (strncmp(subject, "matmul:", 7) == 0) {
        return rlx_bench_matmul_shape(stdout, command.common.json, subject + 7) == 0 ? TOOL_OK
                                                                                     : TOOL_FAILED;
    }
    command.model.path = subject;
    return bench_file(&command);
}
