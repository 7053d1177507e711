/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx run`: runs a model or program, shows or writes its outputs. */
#include "file.h"
#include "inputs.h"
#include "outputs.h"
#include "progress.h"
#include "ranks.h"
#include "signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct run_command {
    tool_common common;
    tool_model model;
    tool_inputs inputs;
    const char *entry, *output_dir, *trace, *timeline, *load_state, *save_state;
    uint64_t repeat, runs_done;
    bool profile, poison, network;
    rlx_rank who; /* the first rank alone shows and writes what all ranks have */
} run_command;

/* How far all runs are together. */
static bool show_progress(void *user, const rlx_progress *progress) {
    const run_command *command = user;
    char note[64];
    uint64_t steps = progress->step_count == 0 ? 1 : progress->step_count;
    uint64_t runs = command->repeat > UINT64_MAX / steps ? UINT64_MAX / steps : command->repeat;
    snprintf(note, sizeof note, "step %u of %u", progress->step, progress->step_count);
    tool_progress_show(command->runs_done * steps + progress->step, runs * steps, note);
    return true;
}

static int by_time(const void *a, const void *b) {
    const rlx_step_profile *x = a, *y = b;
    return x->total_ns < y->total_ns ? 1 : x->total_ns > y->total_ns ? -1 : 0;
}

static void print_profile(const rlx_exec *exec, bool json) {
    uint32_t count;
    const rlx_step_profile *rows = rlx_exec_profile(exec, &count);
    rlx_step_profile *sorted = malloc((count + 1u) * sizeof *sorted);
    uint64_t all = 0;
    if (sorted == NULL) return;
    if (count != 0) memcpy(sorted, rows, count * sizeof *sorted);
    for (uint32_t i = 0; i < count; i++)
        all += sorted[i].total_ns;
    qsort(sorted, count, sizeof *sorted, by_time);
    if (!json) puts("     us  share     GB/s  GFLOP/s  step");
    for (uint32_t i = 0; i < count; i++) {
        const rlx_step_profile *row = &sorted[i];
        if (row->runs == 0) continue;
        double ns = (double)row->total_ns / (double)row->runs;
        double rate = ns > 0 ? 1 / ns : 0;
        if (json) {
            printf("{\"step\":");
            tool_json_text(stdout, row->name);
            printf(",\"op\":\"%s\",\"kernel\":\"%s\",\"us\":%.3f,\"share\":%.4f,\"bytes\":%" PRIu64
                   ",\"flops\":%" PRIu64 "}\n",
                   rlx_op_name(row->op), row->kernel, ns / 1e3,
                   all == 0 ? 0 : (double)row->total_ns / (double)all, row->bytes, row->flops);
        } else {
            printf("%7.1f  %4.1f%%  %7.2f  %7.2f  %s (%s)\n", ns / 1e3,
                   all == 0 ? 0 : 100 * (double)row->total_ns / (double)all,
                   (double)row->bytes * rate, (double)row->flops * rate, row->name, row->kernel);
        }
    }
    free(sorted);
}

static rlx_status write_trace(const rlx_exec *exec, const char *path) {
    char *text = NULL;
    rlx_status status = rlx_exec_trace(exec, &text);
    if (status == RLX_OK) status = tool_file_write(path, text);
    rlx_string_free(NULL, text);
    return status;
}

/* The picture says which command made it. */
static rlx_status write_timeline(const run_command *command, const rlx_exec *exec) {
    char title[400], *text = NULL;
    const char *name = strrchr(command->model.path, '/');
    name = name == NULL ? command->model.path : name + 1;
    if (command->model.weights_budget == 0) {
        snprintf(title, sizeof title, "rlx run %.200s", name);
    } else {
        snprintf(title, sizeof title, "rlx run %.200s --weights-budget %" PRIu64, name,
                 command->model.weights_budget);
    }
    rlx_status status = rlx_exec_timeline(exec, title, &text);
    if (status == RLX_OK) status = tool_file_write(command->timeline, text);
    rlx_string_free(NULL, text);
    return status;
}

static rlx_status run_exec(run_command *command, rlx_exec *exec, uint32_t entry) {
    rlx_status status = RLX_OK;
    if (command->load_state != NULL) {
        status = rlx_exec_restore_state(exec, tool_rank_path(command->load_state, &command->who));
    }
    /* Times are those of runs, not of a driver's compiler. */
    if (status == RLX_OK && (command->repeat > 1 || command->profile || command->trace != NULL ||
                             command->timeline != NULL)) {
        status = rlx_exec_warm_up(exec);
    }
    if (command->who.rank == 0) tool_progress_begin("running");
    while (status == RLX_OK && command->runs_done < command->repeat) {
        status = tool_set_inputs(exec, entry, &command->inputs);
        if (status == RLX_OK) status = rlx_exec_run(exec, entry);
        if (status == RLX_OK) command->runs_done++;
    }
    tool_progress_end();
    if (status == RLX_OK && command->save_state != NULL) {
        status = rlx_exec_save_state(exec, tool_rank_path(command->save_state, &command->who));
    }
    if (status != RLX_OK || command->who.rank != 0) return status;
    status = tool_give_outputs(exec, entry, command->output_dir, &command->common);
    if (status == RLX_OK && command->trace != NULL) status = write_trace(exec, command->trace);
    if (status == RLX_OK && command->timeline != NULL) status = write_timeline(command, exec);
    if (status == RLX_OK && command->profile) print_profile(exec, command->common.json);
    return status;
}

/* Of several ranks: how they reach each other, with room for what they share. */
static rlx_status make_transport(const run_command *command, const rlx_program *program,
                                 rlx_transport **out_transport) {
    const rlx_plan *plan = rlx_program_plan(program);
    if (command->who.rank_count <= 1 && rlx_plan_rank_count(plan) <= 1) return RLX_OK;
    if (command->who.rank_count != rlx_plan_rank_count(plan)) {
        return tool_error(RLX_MISMATCH, "%s is a program for %u ranks, and there %s %u",
                          command->model.path, rlx_plan_rank_count(plan),
                          command->who.rank_count == 1 ? "is" : "are", command->who.rank_count);
    }
    const rlx_transport_options options = {.size = sizeof options, .network = command->network};
    return rlx_transport_create(NULL, &command->who, rlx_plan_heap_bytes(plan), &options,
                                out_transport);
}

static rlx_status run_program(run_command *command, rlx_program *program) {
    rlx_exec_options options = {.size = sizeof options,
                                .poison = command->poison,
                                .profile = command->profile || command->trace != NULL ||
                                           command->timeline != NULL,
                                .progress = show_progress,
                                .user = command};
    rlx_exec *exec = NULL;
    uint32_t entry = 0;
    rlx_status status = rlx_program_find_entry(program, command->entry, &entry);
    if (status == RLX_OK) status = make_transport(command, program, &options.transport);
    if (status == RLX_OK) status = rlx_exec_create(program, &options, &exec);
    if (status == RLX_OK) {
        tool_hold_interrupts(exec);
        status = run_exec(command, exec, entry);
        tool_release_interrupts();
    }
    rlx_exec_destroy(exec);
    rlx_transport_destroy(options.transport);
    return status;
}

/* Makes the folder for outputs before a long run, not after it. */
static rlx_status make_folder(const char *path, bool *out_is_new) {
    struct stat facts;
    *out_is_new = mkdir(path, 0777) == 0;
    if (*out_is_new) return RLX_OK;
    int code = errno;
    if (code == EEXIST && stat(path, &facts) == 0) {
        if (!S_ISDIR(facts.st_mode))
            code = ENOTDIR;
        else if (access(path, W_OK | X_OK) == 0)
            return RLX_OK;
        else
            code = errno;
    }
    return tool_error(RLX_IO, "cannot write outputs to '%s': %s", path, strerror(code));
}

static int run_model(run_command *command) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    bool is_new = false;
    rlx_status status = tool_bind_from_files(&command->model, &command->inputs);
    if (status == RLX_OK) status = tool_open_device(&command->model, &device);
    if (status == RLX_OK) status = tool_open_program(&command->model, device, &program);
    if (status == RLX_OK && command->output_dir != NULL && command->who.rank == 0) {
        status = make_folder(command->output_dir, &is_new);
    }
    if (status == RLX_OK) status = run_program(command, program);
    int code = status == RLX_OK ? TOOL_OK : tool_fail("run", status);
    if (code != TOOL_OK && is_new) rmdir(command->output_dir); /* unless an output is in it */
    rlx_program_release(program);
    rlx_device_release(device);
    return code;
}

static int run_rank(void *user, const rlx_rank *who) {
    run_command *command = user;
    command->who = *who;
    tool_model_rank(&command->model, who, command->common.verbose);
    return run_model(command);
}

int rlx_cmd_run(int argc, char **argv) {
    run_command command = {.repeat = 1};
    const tool_option options[] = {
        TOOL_MODEL_OPTIONS(command.model),
        TOOL_BUDGET_OPTION(command.model),
        TOOL_RANKS_OPTION(command.model),
        TOOL_INPUT_OPTIONS(command.inputs),
        {"--entry", TOOL_TEXT, &command.entry, "NAME", "which entry of a program; the first"},
        {"--output-dir", TOOL_TEXT, &command.output_dir, "DIR", "write outputs as .npy files"},
        {"--repeat", TOOL_NUMBER, &command.repeat, "N", "run so many times"},
        {"--profile", TOOL_FLAG, &command.profile, NULL, "time per step, slowest first"},
        {"--trace", TOOL_TEXT, &command.trace, "OUT.json", "step times as a Chrome trace"},
        {"--timeline", TOOL_TEXT, &command.timeline, "OUT.svg",
         "reads of weights and compute of the last run as a picture"},
        {"--load-state", TOOL_TEXT, &command.load_state, "FILE", "begin with this state"},
        {"--save-state", TOOL_TEXT, &command.save_state, "FILE", "write the state afterwards"},
        {"--poison", TOOL_FLAG, &command.poison, NULL, "overwrite memory after its last use"},
        {"--network", TOOL_FLAG, &command.network, NULL,
         "under mpirun: messages also between ranks of one host"},
        TOOL_COMMON_OPTIONS(command.common)};
    const tool_usage usage = {
        "run",
        "FILE [OPTIONS]",
        "Runs a model (.onnx, .rlx) or a saved program and prints each output's "
        "shape, dtype and summary.\n"
        "With --ranks, or under a launcher, the model is split over "
        "processes; the first one prints.",
        options,
        sizeof options / sizeof *options,
        1,
        1};
    int code;
    if (!tool_parse(&usage, argc, argv, &command.model.path, &code)) return code;
    tool_log(&command.common);
    if (command.repeat == 0) {
        fputs("rlx run: --repeat 0 runs nothing\n", stderr);
        return TOOL_USAGE;
    }
    if (!tool_inputs_check("run", &command.inputs)) return TOOL_USAGE;
    if (!tool_model_begin("run", &command.model, &code)) return code;
    return tool_run_ranks("run", command.model.ranks, run_rank, &command);
}
