/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx place`: the memory placer alone, on a table of buffers. */
#include "place_csv.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rlx_cmd_place(int argc, char **argv);

enum { EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DOES_NOT_FIT = 4, EXIT_INTERRUPTED = 130 };

typedef struct place_command {
    const char *in_path, *out_path;
    rlx_place_options options;
    bool is_json, is_quiet;
} place_command;

static volatile sig_atomic_t was_interrupted;

static void note_interrupt(int signal_number) {
    (void)signal_number;
    was_interrupted = 1;
}

static bool should_stop(void *user) {
    (void)user;
    return was_interrupted != 0;
}

static void show_progress(void *user, uint64_t best_peak, double seconds) {
    const place_command *command = user;
    fprintf(stderr, "\r%7.1f s  best peak %" PRIu64 "\033[K", seconds, best_peak);
    if (command->options.search_ns != UINT64_MAX) {
        fprintf(stderr, "  (limit %.0f s)", (double)command->options.search_ns * 1e-9);
    }
    fflush(stderr);
}

static int usage(FILE *out, int code) {
    fputs("usage: rlx place IN.csv [--capacity BYTES] [--seconds S] [--alignment N] [-o OUT.csv]\n"
          "                 [--json] [-q]\n"
          "\n"
          "Gives every buffer of the table (columns id, lower, upper, size; alive from lower to\n"
          "before upper) an offset, so that none that are alive together overlap.\n"
          "\n"
          "  --capacity BYTES  stop at the first plan that fits; K, M, G may follow the number\n"
          "  --seconds S       search this long; without it a short search of fixed work\n"
          "  --alignment N     offsets are multiples of N, a power of two (default 1)\n"
          "  -o OUT.csv        write the table with an offset column (\"-\": to stdout)\n"
          "  --json            print the summary as one JSON object\n"
          "  -q                no progress\n"
          "\n"
          "Exit: 0 done, 1 failed, 2 usage, 4 does not fit, 130 interrupted.\n",
          out);
    return code;
}

static int misuse(const char *what, const char *argument) {
    fprintf(stderr, "rlx place: %s '%s'; rlx place --help\n", what, argument);
    return EXIT_USAGE;
}

static bool parse_bytes(const char *text, uint64_t *out_bytes) {
    char *end = NULL;
    unsigned shift = 0;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0) return false;
    if (*end == 'K' || *end == 'M' || *end == 'G') {
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 30;
        ++end;
    }
    if (*end != 0 || value > UINT64_MAX >> shift) return false;
    *out_bytes = (uint64_t)value << shift;
    return true;
}

static bool parse_seconds(const char *text, uint64_t *out_ns) {
    char *end = NULL;
    double seconds = strtod(text, &end);
    if (end == text || *end != 0 || !(seconds > 0.0)) return false;
    double ns = seconds * 1e9;
    *out_ns = ns < 1.0 ? 1 : ns >= 1e19 ? UINT64_MAX : (uint64_t)ns;
    return true;
}

/* An option that takes a value. -1: not one of them; 0: taken; else the exit code. */
static int take_valued(place_command *command, const char *name, const char *value) {
    rlx_place_options *options = &command->options;
    bool is_capacity = strcmp(name, "--capacity") == 0, is_seconds = strcmp(name, "--seconds") == 0;
    bool is_alignment = strcmp(name, "--alignment") == 0, is_out = strcmp(name, "-o") == 0;
    if (!is_capacity && !is_seconds && !is_alignment && !is_out) return -1;
    if (value == NULL) return misuse("a value must follow", name);
    if (is_capacity && (!parse_bytes(value, &options->capacity) || options->capacity == 0)) {
        return misuse("--capacity wants bytes above 0, got", value);
    }
    if (is_seconds && !parse_seconds(value, &options->search_ns)) {
        return misuse("--seconds wants a number above 0, got", value);
    }
    if (is_alignment && (!parse_bytes(value, &options->alignment) || options->alignment == 0 ||
                         (options->alignment & (options->alignment - 1)) != 0)) {
        return misuse("--alignment wants a power of two, got", value);
    }
    if (is_out) command->out_path = value;
    return 0;
}

/* 0: go on; else the exit code + 1, so that --help (0) can end too. */
static int parse_arguments(int argc, char **argv, place_command *command) {
    for (int at = 1; at < argc; ++at) {
        const char *argument = argv[at];
        int taken = take_valued(command, argument, at + 1 < argc ? argv[at + 1] : NULL);
        if (taken > 0) return taken + 1;
        if (taken == 0) {
            ++at;
        } else if (strcmp(argument, "--json") == 0) {
            command->is_json = true;
        } else if (strcmp(argument, "-q") == 0) {
            command->is_quiet = true;
        } else if (strcmp(argument, "-h") == 0 || strcmp(argument, "--help") == 0) {
            return usage(stdout, 0) + 1;
        } else if (argument[0] == '-' && argument[1] != 0) {
            return misuse("unknown option", argument) + 1;
        } else if (command->in_path != NULL) {
            return misuse("one input only, not also", argument) + 1;
        } else {
            command->in_path = argument;
        }
    }
    return command->in_path == NULL ? usage(stderr, EXIT_USAGE) + 1 : 0;
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
        return EXIT_FAILED;
    }
    if (status == RLX_DOES_NOT_FIT) {
        fprintf(stderr, "rlx place: %s: %s\n", command->in_path, rlx_last_error());
    }
    if (rlx_place_verify(NULL, csv->items, csv->count, offsets, command->options.alignment,
                         report->peak) != RLX_OK) {
        fprintf(stderr, "rlx place: %s: wrong plan: %s\n", command->in_path, rlx_last_error());
        return EXIT_FAILED;
    }
    if (command->is_json) {
        print_json(out, csv->count, report, command->options.capacity);
    } else {
        print_text(out, csv->count, report, command->options.capacity);
    }
    if (status == RLX_DOES_NOT_FIT) return was_interrupted ? EXIT_INTERRUPTED : EXIT_DOES_NOT_FIT;
    if (command->out_path != NULL && !place_csv_write(command->out_path, csv, offsets)) {
        return EXIT_FAILED;
    }
    return was_interrupted ? EXIT_INTERRUPTED : 0;
}

static int place_table(place_command *command) {
    place_csv csv = {0};
    rlx_place_report report = {0};
    bool shows_progress =
        !command->is_quiet && command->options.search_ns != 0 && isatty(STDERR_FILENO);
    if (!place_csv_read(command->in_path, &csv)) return EXIT_FAILED;
    uint64_t *offsets = calloc((size_t)csv.count + 1, sizeof *offsets);
    int code = EXIT_FAILED;
    if (offsets == NULL) {
        fprintf(stderr, "rlx place: %s: out of memory\n", command->in_path);
    } else {
        command->options.user = command;
        command->options.stop = should_stop;
        if (shows_progress) command->options.progress = show_progress;
        signal(SIGINT, note_interrupt);
        rlx_status status =
            rlx_place(NULL, csv.items, csv.count, &command->options, offsets, &report);
        signal(SIGINT, SIG_DFL);
        if (shows_progress) fputs("\r\033[K", stderr);
        code = finish(command, &csv, offsets, &report, status);
    }
    free(offsets);
    place_csv_free(&csv);
    return code;
}

int rlx_cmd_place(int argc, char **argv) {
    place_command command = {.options = {.size = sizeof command.options}};
    int code = parse_arguments(argc, argv, &command);
    return code != 0 ? code - 1 : place_table(&command);
}
