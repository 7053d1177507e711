/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx run`: runs a model or program, shows or writes its outputs. */
#include "inputs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct run_command {
    tool_common common;
    tool_model model;
    tool_inputs inputs;
    const char *entry, *output_dir, *trace, *load_state, *save_state;
    uint64_t repeat;
    bool profile, poison;
} run_command;

static rlx_exec *volatile interrupted_exec;

static void note_interrupt(int signal_number) {
    (void)signal_number;
    rlx_exec *exec = interrupted_exec;
    if (exec != NULL) rlx_exec_cancel(exec);
}

/* A line on stderr that tells how far a long run is, when somebody is looking. */
static bool show_progress(void *user, const rlx_progress *progress) {
    static uint64_t shown;
    (void)user;
    if (++shown % 16 == 0) {
        fprintf(stderr, "\rstep %u of %u\033[K", progress->step, progress->step_count);
    }
    return true;
}

typedef struct summary {
    double least, most, sum;
    uint64_t nans;
} summary;

static summary summarise(const float *values, uint64_t count) {
    summary result = {INFINITY, -INFINITY, 0, 0};
    for (uint64_t i = 0; i < count; i++) {
        if (isnan(values[i])) {
            result.nans++;
            continue;
        }
        if (values[i] < result.least) result.least = values[i];
        if (values[i] > result.most) result.most = values[i];
        result.sum += values[i];
    }
    return result;
}

static void json_number(const char *key, double value) {
    if (isfinite(value)) {
        printf(",\"%s\":%.9g", key, value);
    } else {
        printf(",\"%s\":null", key);
    }
}

static rlx_status show_output(const run_command *command, rlx_exec *exec, uint32_t entry,
                              uint32_t index, const rlx_output_info *info) {
    float *values = malloc(info->elements == 0 ? 4 : info->elements * sizeof *values);
    uint64_t count = 0;
    if (values == NULL) return RLX_OUT_OF_MEMORY;
    rlx_status status =
        rlx_exec_read_output_f32(exec, entry, index, values, info->elements, &count);
    summary all = summarise(values, count);
    double mean = count > all.nans ? all.sum / (double)(count - all.nans) : 0;
    if (status == RLX_OK && command->common.json) {
        printf("{\"output\":");
        tool_json_text(stdout, info->name);
        printf(",\"type\":");
        tool_json_text(stdout, tool_type(NULL, info->dtype, &info->shape));
        json_number("min", all.least);
        json_number("max", all.most);
        json_number("mean", mean);
        printf(",\"nan\":%" PRIu64 "}\n", all.nans);
    } else if (status == RLX_OK) {
        printf("%s : %s  min %.6g  max %.6g  mean %.6g", info->name,
               tool_type(NULL, info->dtype, &info->shape), all.least, all.most, mean);
        if (all.nans != 0) printf("  %" PRIu64 " NaN", all.nans);
        printf("  [");
        for (uint64_t i = 0; i < count && i < 6; i++)
            printf("%s%.6g", i == 0 ? "" : ", ", values[i]);
        puts(count > 6 ? ", ..]" : "]");
    }
    free(values);
    return status;
}

/* The output's name as a file name: what a path would trip over becomes '_'. */
static rlx_status write_output(const run_command *command, rlx_exec *exec, uint32_t entry,
                               uint32_t index, const rlx_output_info *info) {
    char path[4096];
    void *data = malloc(info->bytes == 0 ? 1 : info->bytes);
    if (data == NULL) return RLX_OUT_OF_MEMORY;
    size_t at = (size_t)snprintf(path, sizeof path, "%s/", command->output_dir);
    for (const char *c = info->name; *c != 0 && at < sizeof path - 8; c++) {
        path[at++] = *c == '/' || (*c == '.' && c == info->name) ? '_' : *c;
    }
    snprintf(path + at, sizeof path - at, ".npy");
    rlx_status status = rlx_exec_read_output(exec, entry, index, data, info->bytes, NULL);
    if (status == RLX_OK)
        status = rlx_npy_write(path, info->dtype, &info->shape, data, info->bytes);
    if (status == RLX_OK && !command->common.quiet) fprintf(stderr, "wrote %s\n", path);
    free(data);
    return status;
}

static rlx_status give_outputs(const run_command *command, rlx_exec *exec, uint32_t entry) {
    rlx_entry_info entry_info;
    const rlx_plan *plan = rlx_program_plan(rlx_exec_program(exec));
    rlx_status status = rlx_plan_entry_at(plan, entry, &entry_info);
    for (uint32_t i = 0; status == RLX_OK && i < entry_info.output_count; i++) {
        rlx_output_info info;
        status = rlx_exec_output(exec, entry, i, &info);
        if (status == RLX_OK) status = show_output(command, exec, entry, i, &info);
        if (status == RLX_OK && command->output_dir != NULL) {
            status = write_output(command, exec, entry, i, &info);
        }
    }
    return status;
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
    if (status != RLX_OK) return status;
    FILE *file = fopen(path, "w");
    bool is_written = file != NULL && fputs(text, file) >= 0;
    if (file != NULL && fclose(file) != 0) is_written = false;
    rlx_string_free(NULL, text);
    if (is_written) return RLX_OK;
    fprintf(stderr, "rlx run: cannot write '%s': %s\n", path, strerror(errno));
    if (file != NULL) remove(path);
    return RLX_IO;
}

static rlx_status run_exec(run_command *command, rlx_exec *exec, uint32_t entry) {
    rlx_status status = RLX_OK;
    if (command->load_state != NULL) status = rlx_exec_restore_state(exec, command->load_state);
    for (uint64_t i = 0; status == RLX_OK && i < command->repeat; i++) {
        status = tool_set_inputs(exec, entry, &command->inputs);
        if (status != RLX_OK) exit(tool_exit_code(status)); /* the message is out */
        status = rlx_exec_run(exec, entry);
    }
    if (status == RLX_OK) status = give_outputs(command, exec, entry);
    if (status == RLX_OK && command->save_state != NULL) {
        status = rlx_exec_save_state(exec, command->save_state);
    }
    if (status == RLX_OK && command->trace != NULL) status = write_trace(exec, command->trace);
    if (status == RLX_OK && command->profile) print_profile(exec, command->common.json);
    return status;
}

static rlx_status run_program(run_command *command, rlx_program *program) {
    bool is_watched = isatty(STDERR_FILENO) && !command->common.quiet;
    rlx_exec_options options = {.size = sizeof options,
                                .poison = command->poison,
                                .profile = command->profile || command->trace != NULL,
                                .progress = is_watched ? show_progress : NULL};
    rlx_exec *exec = NULL;
    uint32_t entry = 0;
    rlx_status status = rlx_program_find_entry(program, command->entry, &entry);
    if (status == RLX_OK) status = rlx_exec_create(program, &options, &exec);
    if (status == RLX_OK) {
        interrupted_exec = exec;
        signal(SIGINT, note_interrupt);
        status = run_exec(command, exec, entry);
        signal(SIGINT, SIG_DFL);
        interrupted_exec = NULL;
        if (is_watched) fputs("\r\033[K", stderr);
    }
    rlx_exec_destroy(exec);
    return status;
}

static int run_model(run_command *command) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_status status = tool_bind_from_files(&command->model, &command->inputs);
    if (command->output_dir != NULL && mkdir(command->output_dir, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "rlx run: cannot make '%s': %s\n", command->output_dir, strerror(errno));
        return TOOL_FAILED;
    }
    if (status == RLX_OK) status = tool_open_device(&command->model, &device);
    if (status == RLX_OK) status = tool_open_program(&command->model, device, &program);
    if (status == RLX_OK) status = run_program(command, program);
    int code = status == RLX_OK ? TOOL_OK : tool_fail("run", status);
    rlx_program_release(program);
    rlx_device_release(device);
    return code;
}

int rlx_cmd_run(int argc, char **argv) {
    run_command command = {.repeat = 1};
    const tool_option options[] = {
        TOOL_MODEL_OPTIONS(command.model),
        TOOL_INPUT_OPTIONS(command.inputs),
        {"--entry", TOOL_TEXT, &command.entry, "NAME", "which entry of a program; the first"},
        {"--output-dir", TOOL_TEXT, &command.output_dir, "DIR", "write outputs as .npy files"},
        {"--repeat", TOOL_NUMBER, &command.repeat, "N", "run so many times"},
        {"--profile", TOOL_FLAG, &command.profile, NULL, "time per step, slowest first"},
        {"--trace", TOOL_TEXT, &command.trace, "OUT.json", "step times as a Chrome trace"},
        {"--load-state", TOOL_TEXT, &command.load_state, "FILE", "begin with this state"},
        {"--save-state", TOOL_TEXT, &command.save_state, "FILE", "write the state afterwards"},
        {"--poison", TOOL_FLAG, &command.poison, NULL, "overwrite memory after its last use"},
        TOOL_COMMON_OPTIONS(command.common)};
    const tool_usage usage = {"run",
                              "FILE [OPTIONS]",
                              "Runs a model (.rlx) or a saved program and prints each output's "
                              "shape, dtype and summary.",
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
    if (!tool_model_begin("run", &command.model, &code)) return code;
    return run_model(&command);
}
