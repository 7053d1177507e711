/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx plan`: exact bytes and steps before one weight is read. `rlx compile`: saves the program. */
#include "tool.h"

#include <errno.h>
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

static void print_plan(const rlx_plan *plan) {
    static kernel_count counts[KERNELS_MOST];
    printf("target   %s\n", rlx_plan_target(plan));
    printf("weights  %" PRIu64 " B (%s)\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
           tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS)));
    printf("state    %" PRIu64 " B\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE));
    printf("scratch  %" PRIu64 " B (%s)\n", rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH),
           tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH)));
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
    uint32_t used = count_kernels(plan, counts);
    for (uint32_t i = 0; i < used; i++) {
        printf("%5u x %-16s %s %s (%s)\n", counts[i].steps, counts[i].op,
               counts[i].is_host ? "host" : "native", counts[i].kernel, counts[i].reason);
    }
}

static void print_json(const rlx_plan *plan) {
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
    puts("]}");
}

/* Writes the picture; it appears whole or not at all. */
static int write_picture(const rlx_plan *plan, const char *title, const char *path) {
    char *html = NULL;
    rlx_status status = rlx_plan_html(plan, title, &html);
    if (status != RLX_OK) return tool_fail("plan", status);
    FILE *file = fopen(path, "w");
    bool is_written = file != NULL && fputs(html, file) >= 0;
    if (file != NULL && fclose(file) != 0) is_written = false;
    rlx_string_free(NULL, html);
    if (is_written) return TOOL_OK;
    fprintf(stderr, "rlx plan: cannot write '%s': %s\n", path, strerror(errno));
    if (file != NULL) remove(path);
    return TOOL_FAILED;
}

static rlx_status make_plan(tool_model *model, rlx_plan **out_plan) {
    rlx_session *session = NULL;
    if (tool_is_program(model->path)) return rlx_program_read_plan(NULL, model->path, out_plan);
    rlx_status status = rlx_session_open(NULL, model->path, &session);
    if (status == RLX_OK) {
        status = rlx_session_plan(session, model->device, (uint32_t)model->threads, &model->options,
                                  out_plan);
    }
    rlx_session_destroy(session);
    return status;
}

int rlx_cmd_plan(int argc, char **argv) {
    tool_common common = {0};
    tool_model model = {0};
    const char *html = NULL;
    const tool_option options[] = {
        TOOL_MODEL_OPTIONS(model),
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
    rlx_status status = make_plan(&model, &plan);
    if (status != RLX_OK) return tool_fail("plan", status);
    code = TOOL_OK;
    if (common.json) {
        print_json(plan);
    } else {
        print_plan(plan);
        char *text = NULL;
        if (common.verbose && rlx_plan_print(plan, &text) == RLX_OK) {
            putchar('\n');
            fputs(text, stdout);
            rlx_string_free(NULL, text);
        }
    }
    if (html != NULL) code = write_picture(plan, model.path, html);
    rlx_plan_destroy(plan);
    return code;
}

int rlx_cmd_compile(int argc, char **argv) {
    tool_common common = {0};
    tool_model model = {0};
    const char *out = NULL;
    const tool_option options[] = {{"-o", TOOL_TEXT, &out, "OUT", "the program file"},
                                   TOOL_MODEL_OPTIONS(model),
                                   TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {"compile",
                              "FILE -o OUT [OPTIONS]",
                              "Compiles a model and saves plan and packed weights as one file, "
                              "which rlx run maps as it is.",
                              options,
                              sizeof options / sizeof *options,
                              1,
                              1};
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    int code;
    if (!tool_parse(&usage, argc, argv, &model.path, &code)) return code;
    tool_log(&common);
    if (out == NULL) {
        fputs("rlx compile: -o OUT is missing\n", stderr);
        return TOOL_USAGE;
    }
    if (!tool_model_begin("compile", &model, &code)) return code;
    rlx_status status = tool_open_device(&model, &device);
    if (status == RLX_OK) status = tool_open_program(&model, device, &program);
    if (status == RLX_OK) status = rlx_program_save(program, out);
    code = status == RLX_OK ? TOOL_OK : tool_fail("compile", status);
    if (code == TOOL_OK && !common.quiet) {
        const rlx_plan *plan = rlx_program_plan(program);
        printf("%s: weights %s, state %s, scratch %s\n", out,
               tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS)),
               tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE)),
               tool_bytes(rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH)));
    }
    rlx_program_release(program);
    rlx_device_release(device);
    return code;
}
