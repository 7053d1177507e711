/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx demo`: a small decoder on every CPU device, and a table that shows its memory, its speed and
 * that all agree with a plain forward. The work is in demo_device.c. */
#include "demo_ranks.h"
#include "signals.h"
#include "tool.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RESULTS = 16, DEFAULT_TOKENS = 40, RANKS = 4 };

/* Logits are of unit scale. */
static const double tolerance = 1e-3;

typedef struct demo_command {
    tool_common common;
    uint64_t tokens;
    const char *device; /* NULL: every CPU device, and several ranks */
    demo_job job;
    demo_result *results[MOST_RESULTS]; /* owned */
    uint32_t result_count;
} demo_command;

/* True: go on. */
static bool parse_arguments(int argc, char **argv, demo_command *command, int *out_code) {
    const tool_option options[] = {
        {"--tokens", TOOL_NUMBER, &command->tokens, "N", "how many follow the prompt (40)"},
        {"--device", TOOL_TEXT, &command->device, "D", "on this device alone (rlx devices)"},
        TOOL_COMMON_OPTIONS(command->common)};
    const tool_usage usage = {
        "demo",
        "[--device D] [--tokens N] [--json] [-q]",
        "Decodes a small transformer with seeded weights on every CPU device and split over 2\n"
        "to 4 ranks, keys and values resident in the arena, and compares every logit with an\n"
        "uncached forward on scalar kernels without fusion or memory reuse.",
        options,
        sizeof options / sizeof *options,
        0,
        0};
    uint32_t most = DEMO_CAPACITY - demo_prompt_count;
    if (!tool_parse(&usage, argc, argv, NULL, out_code)) return false;
    tool_log(&command->common);
    if (command->tokens >= 1 && command->tokens <= most) return true;
    fprintf(stderr, "rlx demo: --tokens %" PRIu64 " is not in 1 .. %u\n", command->tokens, most);
    *out_code = TOOL_USAGE;
    return false;
}

static bool is_agreeing(const demo_result *result) {
    return result->problem[0] == 0 && result->difference <= tolerance; /* NaN does not agree */
}

/* The same device gives the same bits for any number of threads. */
static void compare_threads(demo_command *command, demo_result *last) {
    bool has_same_bits = true;
    for (uint32_t i = 0; i + 1 < command->result_count; i++) {
        const demo_result *earlier = command->results[i];
        if (strcmp(earlier->device, last->device) != 0) continue;
        (void)demo_chat_difference(&earlier->chat, &last->chat, &has_same_bits);
    }
    if (has_same_bits || last->problem[0] != 0) return;
    snprintf(last->problem, sizeof last->problem, "the number of threads changes results");
}

/* Room for another row. */
static rlx_status add_result(demo_command *command, demo_result **out_result) {
    if (tool_was_interrupted()) return RLX_CANCELLED;
    demo_result *result = calloc(1, sizeof *result);
    if (result == NULL || command->result_count == MOST_RESULTS) {
        free(result);
        return RLX_OUT_OF_MEMORY;
    }
    command->results[command->result_count++] = result;
    *out_result = result;
    return RLX_OK;
}

static rlx_status run_ranks(demo_command *command) {
    rlx_status status = RLX_OK;
    for (uint32_t ranks = 2; status == RLX_OK && ranks <= RANKS; ranks++) {
        demo_result *result = NULL;
        status = add_result(command, &result);
        if (status == RLX_OK) status = demo_run_ranks(&command->job, ranks, result);
    }
    return status;
}

static rlx_status run_one(demo_command *command, const char *device, uint32_t threads) {
    demo_result *result = NULL;
    rlx_status status = add_result(command, &result);
    if (status != RLX_OK) return status;
    status = demo_run_device(&command->job, device, threads, result);
    if (status == RLX_OK) compare_threads(command, result);
    return status;
}

/* "cpu" with one thread and with all; the forced instruction sets with all. */
static rlx_status run_devices(demo_command *command) {
    rlx_device_info info;
    rlx_status status = RLX_OK;
    if (command->device != NULL) return run_one(command, command->device, 0);
    for (uint32_t i = 0; status == RLX_OK && i < rlx_device_count(); i++) {
        status = rlx_device_at(i, &info);
        if (status != RLX_OK || !info.is_available || strcmp(info.kind, "cpu") != 0) continue;
        if (strcmp(info.name, "cpu") == 0 && info.threads > 1) {
            status = run_one(command, info.name, 1);
        }
        if (status == RLX_OK) status = run_one(command, info.name, 0);
    }
    return status == RLX_OK ? run_ranks(command) : status;
}

static void print_story(const demo_command *command) {
    const demo_chat *chat = &command->results[0]->chat;
    printf("model: %s\n", demo_model_text());
    printf("prompt: %u tokens (prefill of %d, then one by one), %" PRIu64 " decoded greedily:",
           demo_prompt_count, DEMO_PREFILL, command->tokens);
    for (uint32_t i = demo_prompt_count; i < chat->count; i++)
        printf(" %" PRId64, chat->tokens[i]);
    printf("\nthe same bits from a clone and from a saved state in mid-conversation, from a saved\n"
           "and mapped program, after reset, and for every number of threads\n");
    const demo_result *row = command->results[0];
    printf("and with %" PRIu64 " B of memory for %" PRIu64 " B of weights, of which every token "
           "reads %" PRIu64 " B\nfrom the program file while it computes\n",
           row->budget_bytes, row->weights_bytes, row->read_bytes);
    if (command->device != NULL) {
        putchar('\n');
        return;
    }
    printf("split over 2 to %d ranks, each with its heads, its keys and values and its part of "
           "the\nweights: the same bits on every rank (bytes are those of one)\n\n",
           RANKS);
}

static void print_table(const demo_command *command) {
    printf("| device | threads | bytes planned | bytes mapped | tokens/s | largest difference |\n"
           "|---|---|---|---|---|---|\n");
    for (uint32_t i = 0; i < command->result_count; i++) {
        const demo_result *row = command->results[i];
        printf("| %s | %u | %" PRIu64 " | %" PRIu64 " | %.0f | %.2g |\n", row->device, row->threads,
               row->planned_bytes, row->mapped_bytes, row->tokens_per_second, row->difference);
    }
}

static void print_json(const demo_command *command) {
    for (uint32_t i = 0; i < command->result_count; i++) {
        const demo_result *row = command->results[i];
        printf("{\"device\": \"%s\", \"threads\": %u, \"planned_bytes\": %" PRIu64
               ", \"mapped_bytes\": %" PRIu64 ", \"weights_budget\": %" PRIu64
               ", \"streamed_bytes\": %" PRIu64 ", \"tokens_per_second\": %.1f, ",
               row->device, row->threads, row->planned_bytes, row->mapped_bytes, row->budget_bytes,
               row->read_bytes, row->tokens_per_second);
        if (isfinite(row->difference)) {
            printf("\"difference\": %.3g, ", row->difference);
        } else {
            printf("\"difference\": null, ");
        }
        printf("\"tolerance\": %g, \"agrees\": %s}\n", tolerance,
               is_agreeing(row) ? "true" : "false");
    }
}

/* Each row that does not agree, on stderr. */
static int judge(const demo_command *command) {
    int code = 0;
    for (uint32_t i = 0; i < command->result_count; i++) {
        const demo_result *row = command->results[i];
        if (is_agreeing(row)) continue;
        code = TOOL_DIFFERS;
        if (row->problem[0] != 0) {
            fprintf(stderr, "rlx demo: %s, %u threads: %s\n", row->device, row->threads,
                    row->problem);
        } else {
            fprintf(stderr, "rlx demo: %s, %u threads: logits differ by %g, more than %g\n",
                    row->device, row->threads, row->difference, tolerance);
        }
    }
    return code;
}

static int report(demo_command *command) {
    int code = judge(command);
    if (command->common.json) {
        print_json(command);
    } else {
        if (!command->common.quiet && code == 0) print_story(command);
        print_table(command);
    }
    return code;
}

static bool make_folder(demo_job *job) {
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == 0) parent = "/tmp";
    int length = snprintf(job->folder, sizeof job->folder, "%s/rlx-demo-XXXXXX", parent);
    if (length < (int)sizeof job->folder && mkdtemp(job->folder) != NULL) return true;
    fprintf(stderr, "rlx demo: cannot make a folder for temporary files in '%s'\n", parent);
    job->folder[0] = 0;
    return false;
}

static int run_command(demo_command *command) {
    rlx_status status = demo_job_begin(&command->job, (uint32_t)command->tokens);
    if (status == RLX_OK && !make_folder(&command->job)) return TOOL_FAILED;
    if (status == RLX_OK) status = run_devices(command);
    if (status == RLX_OK) return report(command);
    int code = tool_fail("demo", status);
    return status == RLX_CANCELLED ? code : TOOL_FAILED; /* the model is ours, not the caller's */
}

int rlx_cmd_demo(int argc, char **argv) {
    static demo_command command = {.tokens = DEFAULT_TOKENS}; /* too large for a stack */
    int code = TOOL_OK;
    if (!parse_arguments(argc, argv, &command, &code)) return code;
    tool_hold_interrupts(NULL); /* files are to be removed before the process ends */
    code = run_command(&command);
    if (command.job.folder[0] != 0) rmdir(command.job.folder);
    tool_release_interrupts();
    demo_job_end(&command.job);
    for (uint32_t i = 0; i < command.result_count; i++)
        free(command.results[i]);
    return code;
}
