/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx inspect`: what a model or program file holds, without reading a weight. */
#include "tool.h"

#include <inttypes.h>
#include <stdlib.h>

/* Bytes of a typed value; 0 while a dim is symbolic. */
static uint64_t value_bytes(const rlx_value_info *info) {
    uint64_t elements = 1, bytes = 0;
    for (uint32_t i = 0; i < info->shape.rank; i++) {
        if (info->shape.dims[i] < 0) return 0;
        elements *= (uint64_t)info->shape.dims[i];
    }
    return rlx_dtype_bytes(info->dtype, elements, &bytes) == RLX_OK ? bytes : 0;
}

static void print_values(const rlx_graph *graph, rlx_value_kind kind, const char *title) {
    for (uint32_t v = 0; v < rlx_graph_value_count(graph); v++) {
        rlx_value_info info;
        if (rlx_graph_value(graph, v, &info) != RLX_OK || info.kind != kind) continue;
        printf("%s %s : %s\n", title, info.name, tool_type(graph, info.dtype, &info.shape));
    }
}

static void print_ops(const rlx_graph *graph) {
    uint32_t counts[RLX_OP_COUNT] = {0};
    for (uint32_t n = 0; n < rlx_graph_node_count(graph); n++) {
        rlx_node_info node;
        if (rlx_graph_node(graph, n, &node) == RLX_OK) counts[node.op]++;
    }
    printf("nodes %u:", rlx_graph_node_count(graph));
    for (uint32_t op = 1; op < RLX_OP_COUNT; op++) {
        if (counts[op] != 0) printf(" %s %u", rlx_op_name((rlx_op)op), counts[op]);
    }
    putchar('\n');
}

static void sum_weights(const rlx_graph *graph, uint32_t *out_count, uint64_t *out_bytes) {
    *out_count = 0;
    *out_bytes = 0;
    for (uint32_t v = 0; v < rlx_graph_value_count(graph); v++) {
        rlx_value_info info;
        if (rlx_graph_value(graph, v, &info) != RLX_OK || info.kind != RLX_VALUE_PARAMETER)
            continue;
        ++*out_count;
        *out_bytes += value_bytes(&info);
    }
}

static void print_model(const rlx_graph *graph, bool verbose) {
    uint32_t weights;
    uint64_t bytes;
    for (uint32_t i = 0; i < rlx_graph_symbol_count(graph); i++) {
        printf("symbol %s\n", rlx_graph_symbol_name(graph, i));
    }
    print_values(graph, RLX_VALUE_INPUT, "input ");
    for (uint32_t i = 0; i < rlx_graph_output_count(graph); i++) {
        rlx_value_info info;
        if (rlx_graph_value(graph, rlx_graph_output(graph, i), &info) != RLX_OK) continue;
        printf("output %s : %s\n", rlx_graph_output_name(graph, i),
               info.is_typed ? tool_type(graph, info.dtype, &info.shape)
                             : "known once symbols are bound");
    }
    print_values(graph, RLX_VALUE_STATE, "state ");
    if (verbose) print_values(graph, RLX_VALUE_PARAMETER, "weight");
    sum_weights(graph, &weights, &bytes);
    printf("weights %u, %s\n", weights, tool_bytes(bytes));
    print_ops(graph);
}

static void json_values(const rlx_graph *graph, rlx_value_kind kind, const char *key) {
    bool is_first = true;
    printf(",\"%s\":[", key);
    for (uint32_t v = 0; v < rlx_graph_value_count(graph); v++) {
        rlx_value_info info;
        if (rlx_graph_value(graph, v, &info) != RLX_OK || info.kind != kind) continue;
        printf("%s{\"name\":", is_first ? "" : ",");
        tool_json_text(stdout, info.name);
        printf(",\"type\":");
        tool_json_text(stdout, tool_type(graph, info.dtype, &info.shape));
        putchar('}');
        is_first = false;
    }
    putchar(']');
}

static void print_model_json(const rlx_graph *graph) {
    uint32_t weights;
    uint64_t bytes;
    sum_weights(graph, &weights, &bytes);
    printf("{\"kind\":\"model\",\"nodes\":%u,\"weights\":%u,\"weight_bytes\":%" PRIu64,
           rlx_graph_node_count(graph), weights, bytes);
    json_values(graph, RLX_VALUE_INPUT, "inputs");
    json_values(graph, RLX_VALUE_STATE, "states");
    printf(",\"outputs\":[");
    for (uint32_t i = 0; i < rlx_graph_output_count(graph); i++) {
        if (i != 0) putchar(',');
        tool_json_text(stdout, rlx_graph_output_name(graph, i));
    }
    puts("]}");
}

static int inspect_model(const char *path, const tool_common *common, bool as_text) {
    rlx_session *session = NULL;
    char *text = NULL;
    rlx_status status = rlx_session_open(NULL, path, &session);
    if (status == RLX_OK && as_text) status = rlx_graph_print(rlx_session_graph(session), &text);
    if (status != RLX_OK) {
        rlx_session_destroy(session);
        return tool_fail("inspect", status);
    }
    if (as_text) {
        fputs(text, stdout);
        rlx_string_free(NULL, text);
    } else if (common->json) {
        print_model_json(rlx_session_graph(session));
    } else {
        print_model(rlx_session_graph(session), common->verbose);
    }
    rlx_session_destroy(session);
    return TOOL_OK;
}

static int inspect_program(const char *path, const tool_common *common, bool as_text) {
    rlx_plan *plan = NULL;
    char *text = NULL;
    rlx_status status = rlx_program_read_plan(NULL, path, &plan);
    if (status == RLX_OK && (as_text || common->verbose)) status = rlx_plan_print(plan, &text);
    if (status != RLX_OK) {
        rlx_plan_destroy(plan);
        return tool_fail("inspect", status);
    }
    if (text != NULL) {
        fputs(text, stdout);
        rlx_string_free(NULL, text);
    } else {
        const char *format = common->json
                                 ? "{\"kind\":\"program\",\"target\":\"%s\",\"entries\":%u,"
                                   "\"weight_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64
                                   ",\"scratch_bytes\":%" PRIu64 "}\n"
                                 : "program for %s, %u entries\nweights %" PRIu64
                                   " B\nstate %" PRIu64 " B\nscratch %" PRIu64 " B\n";
        printf(format, rlx_plan_target(plan), rlx_plan_entry_count(plan),
               rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
               rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE),
               rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH));
    }
    rlx_plan_destroy(plan);
    return TOOL_OK;
}

int rlx_cmd_inspect(int argc, char **argv) {
    tool_common common = {0};
    bool as_text = false;
    const tool_option options[] = {
        {"--text", TOOL_FLAG, &as_text, NULL, "print the whole graph (or plan) in its text form"},
        TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {"inspect",
                              "FILE [--text] [--json]",
                              "Shows inputs, outputs, states, weights and ops of a model, or the "
                              "memory of a program.",
                              options,
                              sizeof options / sizeof *options,
                              1,
                              1};
    const char *path;
    int code;
    if (!tool_parse(&usage, argc, argv, &path, &code)) return code;
    tool_log(&common);
    return tool_is_program(path) ? inspect_program(path, &common, as_text)
                                 : inspect_model(path, &common, as_text);
}
