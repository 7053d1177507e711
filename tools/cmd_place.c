/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx place`: the memory placer alone, on a table of buffers. */
#include "place_csv.h"
#include "progress.h"
#include "signals.h"
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct place_command {
    const char *in_path, *out_path;
    rlx_place_options options;
    tool_common common;
} place_command;

static bool should_stop(void *user) {
    (void)user;
    return tool_was_interrupted();
}

static void show_progress(void *user, uint64_t best_peak, double seconds) {
    const place_command *command = user;
    char note[64];
    snprintf(note, sizeof note, "best peak %" PRIu64, best_peak);
    tool_progress_show((uint64_t)(seconds * 1e9), command->options.search_ns, note);
}

static bool parse_seconds(const char *text, uint64_t *out_ns) {
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != 0 || !(seconds > 0.0)) return false;
    double ns = seconds * 1e9;
    *out_ns = ns < 1.0 ? 1 : ns >= 1e19 ? UINT64_MAX : (uint64_t)ns;
    return true;
}

static bool misuse(const char *what, int *out_code) {
    fprintf(stderr, "rlx place: %s; rlx place --help\n", what);
    *out_code = TOOL_USAGE;
    return false;
}

static bool parse_arguments(int argc, char **argv, place_command *command, int *out_code) {
    const char *seconds = NULL;
    rlx_place_options *options = &command->options;
    *options = (rlx_place_options){.size = sizeof *options, .alignment = 1, .capacity = UINT64_MAX};
    const tool_option table[] = {
        {"--capacity", TOOL_NUMBER, &options->capacity, "BYTES",
         "stop at the first plan that fits"},
        {"--seconds", TOOL_TEXT, &seconds, "S", "search this long; default: a short, fixed search"},
        {"--alignment", TOOL_NUMBER, &options->alignment, "N", "offsets are multiples of it; 1"},
        {"-o", TOOL_TEXT, &command->out_path, "OUT.csv", "the table with offsets; - for stdout"},
        TOOL_COMMON_OPTIONS(command->common),
    };
    const tool_usage usage = {
        "place",
        "IN.csv [--capacity BYTES] [--seconds S] [--alignment N] [-o OUT.csv]",
        "Gives every buffer of a table (columns id, lower, upper, size; alive from lower to "
        "before\n"
        "upper) an offset, so that none that are alive together overlap.",
        table,
        sizeof table / sizeof table[0],
        1,
        1};
    if (!tool_parse(&usage, argc, argv, &command->in_path, out_code)) return false;
    if (options->capacity == 0) return misuse("--capacity wants bytes above 0", out_code);
    if (options->capacity == UINT64_MAX) options->capacity = 0; /* not given */
    if (options->alignment == 0 || (options->alignment & (options->alignment - 1)) != 0) {
        return misuse("--alignment wants a power of two", out_code);
    }
    if (seconds != NULL && !parse_seconds(seconds, &options->search_ns)) {
        return misuse("--seconds wants a number above 0", out_code);
    }
    return true;
}

static double ratio_of(const rlx_place_report *report) {
    return report->lower_bound == 0 ? 1.0 : (double)report->peak / (double)report->lower_bound;
}

static void print_json(FILE *out, uint32_t count, const rlx_place_report *report,
                       uint64_t capacity) {
    fprintf(out,
            "{\"buffers\": %" PRIu32 ", \"peak\": %" PRIu64 ", \"lower_bound\": %" PRIu64
            ", \"ratio\": %.6f, \"sum\": %" PRIu64 ", \"peak_time\": %" PRIu64 ", ",
            count, report->peak, report->lower_bound, ratio_of(report), report->sum_bytes,
            report->peak_time);
    fprintf(out, "\"capacity\": %" PRIu64 ", \"fits\": %s, \"optimal\": %s, ", capacity,
            report->fits ? "true" : "false", report->is_optimal ? "true" : "false");
    fprintf(out, "\"method\": \"%s\", \"seconds\": %.6f}\n", report->method,
            (double)report->elapsed_ns * 1e-9);
}

static void print_text(FILE *out, uint32_t count, const rlx_place_report *report,
                       uint64_t capacity) {
    fprintf(out, "buffers      %" PRIu32 "\n", count);
    fprintf(out, "peak         %" PRIu64 " bytes%s\n", report->peak,
            report->is_optimal ? " (optimal)" : "");
    fprintf(out, "lower bound  %" PRIu64 " bytes (at time %" PRIu64 ")\n", report->lower_bound,
            report->peak_time);
    fprintf(out, "ratio        %.4f\n", ratio_of(report));
    fprintf(out, "sum          %" PRIu64 " bytes without reuse\n", report->sum_bytes);
    if (capacity != 0) {
        fprintf(out, "capacity     %" PRIu64 " bytes: %s\n", capacity,
                report->fits ? "fits" : "does not fit");
    }
    fprintf(out, "method       %s\n", report->method);
    fprintf(out, "time         %.3f s\n", (double)report->elapsed_ns * 1e-9);
}

/* Prints what was found; proves it first, as whoever reads the table will rely on it. */
static int finish(const place_command *command, const place_csv *csv, const uint64_t *offsets,
                  const rlx_place_report *report, rlx_status status) {
    bool is_table_on_stdout = command->out_path != NULL && strcmp(command->out_path, "-") == 0;
    FILE *out = is_table_on_stdout ? stderr : stdout;
    if (status != RLX_OK && status != RLX_DOES_NOT_FIT) {
        fprintf(stderr, "rlx place: %s: %s\n", command->in_path, rlx_last_error());
        return TOOL_FAILED;
    }
    if (status == RLX_DOES_NOT_FIT) {
        fprintf(stderr, "rlx place: %s: %s\n", command->in_path, rlx_last_error());
    }
    if (rlx_place_verify(NULL, csv->items, csv->count, offsets, command->options.alignment,
                         report->peak) != RLX_OK) {
        fprintf(stderr, "rlx place: %s: wrong plan: %s\n", command->in_path, rlx_last_error());
        return TOOL_FAILED;
    }
    if (command->common.json) {
        print_json(out, csv->count, report, command->options.capacity);
    } else {
        print_text(out, csv->count, report, command->options.capacity);
    }
    bool was_interrupted = tool_was_interrupted();
    if (status == RLX_DOES_NOT_FIT) {
        return was_interrupted ? tool_interrupt_code() : TOOL_DOES_NOT_FIT;
    }
    if (command->out_path != NULL && !place_csv_write(command->out_path, csv, offsets)) {
        return TOOL_FAILED;
    }
    return was_interrupted ? tool_interrupt_code() : TOOL_OK;
}

static int place_table(place_command *command) {
    place_csv csv = {0};
    rlx_place_report report = {0};
    if (!place_csv_read(command->in_path, &csv)) return TOOL_FAILED;
    uint64_t *offsets = calloc((size_t)csv.count + 1, sizeof *offsets);
    int code = TOOL_FAILED;
    if (offsets == NULL) {
        fprintf(stderr, "rlx place: %s: out of memory\n", command->in_path);
    } else {
        command->options.user = command;
        command->options.stop = should_stop;
        command->options.progress = show_progress;
        tool_progress_begin("searching");
        tool_hold_interrupts(NULL);
        rlx_status status =
            rlx_place(NULL, csv.items, csv.count, &command->options, offsets, &report);
        tool_progress_end();
        code = finish(command, &csv, offsets, &report, status);
        tool_release_interrupts();
    }
    free(offsets);
    place_csv_free(&csv);
    return code;
}

int rlx_cmd_place(int argc, char **argv) {
    place_command command = {0};
    int code = TOOL_OK;
    if (!parse_arguments(argc, argv, &command, &code)) return code;
    tool_log(&command.common);
    return place_table(&command);
}
