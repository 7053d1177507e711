/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx plan`: exact bytes and steps before one weight is read. `rlx compile`: saves the program. */
#include "file.h"
#include "plan_ranks.h"
#include "plan_stream.h"
#include "progress.h"
#include "ranks.h"
#include "signals.h"

#include <inttypes.h>
#include <string.h>

static double ratio(uint64_t value, uint64_t bound) {
    return bound == 0 ? 1 : (double)value / (double)bound;
}

/* Steps of one op, kernel and reason, counted. */
typedef struct kernel_count {
    const char *op, *kernel, *reason;
    bool is_host;
    uint32_t steps;
} kernel_count;
enum { KERNELS_MOST = 512 };

static uint32_t count_kernels(const rlx_plan *plan, kernel_count *counts) {
    uint32_t used = 0;
    for (uint32_t s = 0; s < rlx_plan_step_count(plan); s++) {
        rlx_step_info step;
        uint32_t at = 0;
        if (rlx_plan_step_at(plan, s, &step) != RLX_OK) continue;
        if (step.is_stream) continue; /* counted with the entries */
        const char *op = step.is_jump ? "jump" : rlx_op_name(step.op);
        while (at < used &&
               (strcmp(counts[at].op, op) != 0 || strcmp(counts[at].kernel, step.kernel) != 0 ||
                counts[at].is_host != step.is_host)) {
            at++;
        }
        if (at == KERNELS_MOST) continue;
        if (at == used)
            counts[used++] = (kernel_count){op, step.kernel, step.reason, step.is_host, 0};
        counts[at].steps++;
    }
    return used;
}

static void print_entry(const rlx_entry_info *entry) {
    printf("entry %s: %u steps in %u stretches; scratch %" PRIu64 " B, lower bound %" PRIu64
           " B, ratio %.3f; without reuse %" PRIu64 " B\n",
           entry->name, entry->step_count, entry->stretch_count, entry->scratch_bytes,
           entry->lower_bound, ratio(entry->scratch_bytes, entry->lower_bound), entry->sum_bytes);
}

static void print_plan(const rlx_plan *plan, uint64_t budget, bool verbose) {
    static kernel_count counts[KERNELS_MOST];
    printf("target   %s\n", rlx_plan_target(plan));
    printf("weights  %" PRIu64 " B (%s)\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
           tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS)));
    printf("state    %" PRIu64 " B\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE));
    printf("scratch  %" PRIu64 " B (%s)\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH),
           tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH)));
    if (rlx_plan_segment_bytes(plan, RLX_SEGMENT_TILES) != 0) {
        printf("tiles    %" PRIu64 " B (%s)\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_TILES),
               tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_TILES)));
    }
    printf("arena    %" PRIu64 " B (%s)\n", rlx_plan_arena_bytes(plan),
           tool_bytes(rlx_plan_arena_bytes(plan)));
    if (rlx_plan_segment_bytes(plan, RLX_SEGMENT_SOURCE) != 0) {
        printf("         %" PRIu64 " B more while the program is created\n",
               rlx_plan_segment_bytes(plan, RLX_SEGMENT_SOURCE));
    }
    for (uint32_t i = 0; i < rlx_plan_entry_count(plan); i++) {
        rlx_entry_info entry;
        if (rlx_plan_entry_at(plan, i, &entry) == RLX_OK) print_entry(&entry);
    }
    tool_print_ranks(plan, verbose);
    tool_print_stream(plan, budget, verbose);
    uint32_t used = count_kernels(plan, counts);
    for (uint32_t i = 0; i < used; i++) {
        printf("%5u x %-16s %s %s (%s)\n", counts[i].steps, counts[i].op,
               counts[i].is_host ? "host" : "native", counts[i].kernel, counts[i].reason);
    }
}

static void print_json(const rlx_plan *plan, uint64_t budget) {
    printf("{\"target\":");
    tool_json_text(stdout, rlx_plan_target(plan));
    printf(",\"weights\":%" PRIu64 ",\"state\":%" PRIu64 ",\"scratch\":%" PRIu64
           ",\"arena\":%" PRIu64 ",\"source\":%" PRIu64 ",\"entries\":[",
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH), rlx_plan_arena_bytes(plan),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_SOURCE));
    for (uint32_t i = 0; i < rlx_plan_entry_count(plan); i++) {
        rlx_entry_info entry;
        if (rlx_plan_entry_at(plan, i, &entry) != RLX_OK) continue;
        printf("%s{\"name\":", i == 0 ? "" : ",");
        tool_json_text(stdout, entry.name);
        printf(",\"steps\":%u,\"stretches\":%u,\"scratch\":%" PRIu64 ",\"lower_bound\":%" PRIu64
               ",\"sum\":%" PRIu64 ",\"ratio\":%.6f}",
               entry.step_count, entry.stretch_count, entry.scratch_bytes, entry.lower_bound,
               entry.sum_bytes, ratio(entry.scratch_bytes, entry.lower_bound));
    }
    putchar(']');
    tool_json_ranks(plan);
    tool_json_stream(plan, budget);
    puts("}");
}

static rlx_status write_picture(const rlx_plan *plan, const char *title, const char *path) {
    char *html = NULL;
    rlx_status status = rlx_plan_html(plan, title, &html);
    if (status == RLX_OK) status = tool_file_write(path, html);
    rlx_string_free(NULL, html);
    return status;
}

static rlx_status show_plan(const rlx_plan *plan, uint64_t budget, const tool_common *common) {
    char *text = NULL;
    if (common->json) {
        print_json(plan, budget);
        return RLX_OK;
    }
    print_plan(plan, budget, common->verbose);
    if (!common->verbose) return RLX_OK;
    rlx_status status = rlx_plan_print(plan, &text);
    if (status == RLX_OK) printf("\n%s", text);
    rlx_string_free(NULL, text);
    return status;
}

int rlx_cmd_plan(int argc, char **argv) {
    tool_common common = {0};
    tool_model model = {0};
    const char *html = NULL;
    const tool_option options[] = {
        TOOL_MODEL_OPTIONS(model),
        TOOL_ENTRY_OPTION(model),
        TOOL_BUDGET_OPTION(model),
        TOOL_RANKS_OPTION(model),
        {"--html", TOOL_TEXT, &html, "OUT", "write the plan as a picture: offset against time"},
        TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {"plan",
                              "FILE [OPTIONS]",
                              "Plans a model for a device: exact bytes, lower bound, steps, and "
                              "where each op runs.\nReads no weight and opens no device. -v prints "
                              "every slot and step.",
                              options,
                              sizeof options / sizeof *options,
                              1,
                              1};
    rlx_plan *plan = NULL;
    int code;
    if (!tool_parse(&usage, argc, argv, &model.path, &code)) return code;
    tool_log(&common);
    if (!tool_model_begin("plan", &model, &code)) return code;
    rlx_status status = tool_open_plan(&model, &plan);
    if (status == RLX_OK) status = show_plan(plan, model.weights_budget, &common);
    if (status == RLX_OK && html != NULL) status = write_picture(plan, model.path, html);
    rlx_plan_destroy(plan);
    return status == RLX_OK ? TOOL_OK : tool_fail("plan", status);
}

/* An interrupt ends the write, and what was written goes with it. */
static rlx_status save_program(const rlx_program *program, const char *path) {
    rlx_program_options options = {.size = sizeof options, .progress = tool_progress_bytes};
    tool_progress_begin("writing the program");
    tool_hold_interrupts(NULL);
    rlx_status status = rlx_program_save_watched(program, path, &options);
    tool_release_interrupts();
    tool_progress_end();
    return status;
}

static void report_program(const rlx_plan *plan, const char *path, const tool_common *common) {
    uint64_t weights = rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS);
    uint64_t state = rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE);
    uint64_t scratch = rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH);
    if (common->json) {
        printf("{\"file\":");
        tool_json_text(stdout, path);
        printf(",\"entries\":%u,\"weights\":%" PRIu64 ",\"state\":%" PRIu64 ",\"scratch\":%" PRIu64
               "}\n",
               rlx_plan_entry_count(plan), weights, state, scratch);
    } else if (!common->quiet) {
        printf("%s: weights %s, state %s, scratch %s\n", path, tool_bytes(weights),
               tool_bytes(state), tool_bytes(scratch));
    }
}

static rlx_status compile_rank(tool_model *model, rlx_device *device, const rlx_rank *who,
                               const char *out, const tool_common *common) {
    rlx_program *program = NULL;
    const char *path = tool_rank_path(out, who);
    model->options.rank = who->rank;
    rlx_status status = tool_open_program(model, device, &program);
    if (status == RLX_OK) status = save_program(program, path);
    if (status == RLX_OK) report_program(rlx_program_plan(program), path, common);
    rlx_program_release(program);
    return status;
}

int rlx_cmd_compile(int argc, char **argv) {
    tool_common common = {0};
    tool_model model = {0};
    const char *out = NULL;
    const tool_option options[] = {{"-o", TOOL_TEXT, &out, "OUT", "the program file"},
                                   TOOL_MODEL_OPTIONS(model),
                                   TOOL_ENTRY_OPTION(model),
                                   TOOL_RANKS_OPTION(model),
                                   TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {"compile",
                              "FILE -o OUT [OPTIONS]",
                              "Compiles a model and saves plan and packed weights as one file, "
                              "which rlx run maps as it is.\nWith --ranks one file per rank: "
                              "OUT.0, OUT.1 and so on; rlx run OUT --ranks N runs them.",
                              options,
                              sizeof options / sizeof *options,
                              1,
                              1};
    rlx_device *device = NULL;
    int code;
    if (!tool_parse(&usage, argc, argv, &model.path, &code)) return code;
    tool_log(&common);
    if (out == NULL) {
        fputs("rlx compile: -o OUT is missing\n", stderr);
        return TOOL_USAGE;
    }
    if (!tool_model_begin("compile", &model, &code)) return code;
    rlx_status status = tool_open_device(&model, &device);
    rlx_rank who = {.rank_count = model.ranks <= 1 ? 1 : (uint32_t)model.ranks};
    for (; status == RLX_OK && who.rank < who.rank_count; who.rank++) {
        status = compile_rank(&model, device, &who, out, &common);
    }
    code = status == RLX_OK ? TOOL_OK : tool_fail("compile", status);
    rlx_device_release(device);
    return code;
}
