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
        printf("%s %s : %s\n", title, tool_name(info.name),
               tool_type(graph, info.dtype, &info.shape));
    }
}

/* "seeded(7, 0.02)", "file 'w.npy' at 128", in a buffer of its own. */
static const char *source_text(const rlx_graph *graph, rlx_value_id value) {
    static char text[512];
    rlx_source source;
    if (rlx_graph_parameter_source(graph, value, &source) != RLX_OK) return "unknown";
    switch (source.kind) {
    case RLX_SOURCE_NONE:
        return "no source";
    case RLX_SOURCE_MEMORY:
        return "in the file";
    case RLX_SOURCE_FILE:
        snprintf(text, sizeof text, "'%s' at %" PRIu64, tool_name(source.path), source.offset);
        return text;
    case RLX_SOURCE_SEEDED:
        snprintf(text, sizeof text, "seeded(%" PRIu64 ", %g, %g)", source.seed, source.scale,
                 source.mean);
        return text;
    }
    return "unknown";
}

static void print_weights(const rlx_graph *graph) {
    for (uint32_t v = 0; v < rlx_graph_value_count(graph); v++) {
        rlx_value_info info;
        if (rlx_graph_value(graph, v, &info) != RLX_OK || info.kind != RLX_VALUE_PARAMETER)
            continue;
        printf("weight %s : %s, %" PRIu64 " B, %s\n", tool_name(info.name),
               tool_type(graph, info.dtype, &info.shape), value_bytes(&info),
               source_text(graph, v));
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

/* What the file itself says: an ONNX graph exists only once its sizes are bound. */
static uint32_t onnx_nodes(const rlx_onnx_ports *file) {
    uint32_t total = 0, nodes = 0;
    for (uint32_t i = 0; rlx_onnx_used_op(file, i, &nodes) != NULL; i++)
        total += nodes;
    return total;
}

static void print_onnx(const rlx_onnx_ports *file) {
    uint32_t nodes = 0;
    const char *op = NULL;
    printf("onnx opset %" PRId64 ", by '%s', nodes %u:", rlx_onnx_opset_version(file),
           tool_name(rlx_onnx_producer(file)), onnx_nodes(file));
    for (uint32_t i = 0; (op = rlx_onnx_used_op(file, i, &nodes)) != NULL; i++)
        printf(" %s %u", tool_name(op), nodes);
    putchar('\n');
}

static void print_onnx_json(const rlx_onnx_ports *file) {
    uint32_t nodes = 0;
    const char *op = NULL;
    printf(",\"opset\":%" PRId64 ",\"producer\":", rlx_onnx_opset_version(file));
    tool_json_text(stdout, rlx_onnx_producer(file));
    printf(",\"onnx_nodes\":%u,\"onnx_ops\":{", onnx_nodes(file));
    for (uint32_t i = 0; (op = rlx_onnx_used_op(file, i, &nodes)) != NULL; i++) {
        if (i != 0) putchar(',');
        tool_json_text(stdout, op);
        printf(":%u", nodes);
    }
    putchar('}');
}

static void print_model(const rlx_graph *graph, const rlx_onnx_ports *file, bool verbose) {
    uint32_t weights;
    uint64_t bytes;
    for (uint32_t i = 0; i < rlx_graph_symbol_count(graph); i++) {
        printf("symbol %s\n", tool_name(rlx_graph_symbol_name(graph, i)));
    }
    print_values(graph, RLX_VALUE_INPUT, "input ");
    for (uint32_t i = 0; i < rlx_graph_output_count(graph); i++) {
        rlx_value_info info;
        if (rlx_graph_value(graph, rlx_graph_output(graph, i), &info) != RLX_OK) continue;
        printf("output %s : %s\n", tool_name(rlx_graph_output_name(graph, i)),
               info.is_typed ? tool_type(graph, info.dtype, &info.shape)
                             : "known once symbols are bound");
    }
    print_values(graph, RLX_VALUE_STATE, "state ");
    if (verbose) print_weights(graph);
    sum_weights(graph, &weights, &bytes);
    printf("weights %u, %s\n", weights, tool_bytes(bytes));
    if (file != NULL) print_onnx(file);
    if (file == NULL || rlx_graph_node_count(graph) != 0) print_ops(graph);
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
        if (kind == RLX_VALUE_PARAMETER) {
            printf(",\"bytes\":%" PRIu64 ",\"source\":", value_bytes(&info));
            tool_json_text(stdout, source_text(graph, v));
        }
        putchar('}');
        is_first = false;
    }
    putchar(']');
}

/* With -v also every weight. */
static void print_model_json(const rlx_graph *graph, const rlx_onnx_ports *file, bool verbose) {
    uint32_t weights;
    uint64_t bytes;
    sum_weights(graph, &weights, &bytes);
    printf("{\"kind\":\"model\",\"nodes\":%u,\"weights\":%u,\"weight_bytes\":%" PRIu64,
           rlx_graph_node_count(graph), weights, bytes);
    if (file != NULL) print_onnx_json(file);
    json_values(graph, RLX_VALUE_INPUT, "inputs");
    json_values(graph, RLX_VALUE_STATE, "states");
    if (verbose) json_values(graph, RLX_VALUE_PARAMETER, "weight_list");
    printf(",\"outputs\":[");
    for (uint32_t i = 0; i < rlx_graph_output_count(graph); i++) {
        if (i != 0) putchar(',');
        tool_json_text(stdout, rlx_graph_output_name(graph, i));
    }
    puts("]}");
}

/* Of an ONNX file that cannot become a graph: what the file itself says. */
static void print_unsupported(const char *path) {
    rlx_onnx_ports *file = NULL;
    if (rlx_onnx_ports_open(NULL, path, &file) != RLX_OK) return;
    for (uint32_t i = 0; i < rlx_onnx_input_count(file); i++)
        printf("input  %s\n", tool_name(rlx_onnx_input_name(file, i)));
    for (uint32_t i = 0; i < rlx_onnx_output_count(file); i++)
        printf("output %s\n", tool_name(rlx_onnx_output_name(file, i)));
    print_onnx(file);
    rlx_onnx_ports_destroy(file);
}

static int inspect_model(const char *path, const tool_common *common, bool as_text) {
    rlx_session *session = NULL;
    rlx_onnx_ports *file = NULL;
    char *text = NULL;
    rlx_status status = rlx_session_open(NULL, path, &session);
    if (status == RLX_OK && as_text) status = rlx_graph_print(rlx_session_graph(session), &text);
    if (status != RLX_OK) {
        int code = tool_fail("inspect", status);
        if (status == RLX_UNSUPPORTED && !common->json && !as_text) print_unsupported(path);
        rlx_session_destroy(session);
        return code;
    }
    if (rlx_onnx_ports_open(NULL, path, &file) != RLX_OK) file = NULL; /* of another format */
    if (as_text) {
        fputs(text, stdout);
        rlx_string_free(NULL, text);
    } else if (common->json) {
        print_model_json(rlx_session_graph(session), file, common->verbose);
    } else {
        print_model(rlx_session_graph(session), file, common->verbose);
    }
    rlx_onnx_ports_destroy(file);
    rlx_session_destroy(session);
    return TOOL_OK;
}

static void print_port(const rlx_plan *plan, const char *title, const char *name, uint32_t slot) {
    rlx_slot_info info;
    if (rlx_plan_slot_at(plan, slot, &info) != RLX_OK) return;
    printf("  %s %s : %s\n", title, tool_name(name == NULL ? info.name : name),
           tool_type(NULL, info.dtype, &info.shape));
}

static void print_program(const rlx_plan *plan) {
    printf("program for %s, %u %s\nweights %" PRIu64 " B\nstate %" PRIu64 " B\nscratch %" PRIu64
           " B\n",
           rlx_plan_target(plan), rlx_plan_entry_count(plan),
           rlx_plan_entry_count(plan) == 1 ? "entry" : "entries",
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH));
    for (uint32_t e = 0; e < rlx_plan_entry_count(plan); e++) {
        rlx_entry_info entry;
        if (rlx_plan_entry_at(plan, e, &entry) != RLX_OK) continue;
        printf("entry %s: %u steps\n", tool_name(entry.name), entry.step_count);
        for (uint32_t i = 0; i < entry.input_count; i++)
            print_port(plan, "input ", NULL, rlx_plan_input(plan, e, i));
        for (uint32_t i = 0; i < entry.output_count; i++) {
            print_port(plan, "output", rlx_plan_output_name(plan, e, i),
                       rlx_plan_output(plan, e, i));
        }
    }
}

static void print_program_json(const rlx_plan *plan) {
    printf("{\"kind\":\"program\",\"target\":");
    tool_json_text(stdout, rlx_plan_target(plan));
    printf(",\"weight_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64 ",\"scratch_bytes\":%" PRIu64
           ",\"entries\":[",
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_WEIGHTS),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_STATE),
           rlx_plan_segment_bytes(plan, RLX_SEGMENT_SCRATCH));
    for (uint32_t e = 0; e < rlx_plan_entry_count(plan); e++) {
        rlx_entry_info entry;
        if (rlx_plan_entry_at(plan, e, &entry) != RLX_OK) continue;
        printf("%s{\"name\":", e == 0 ? "" : ",");
        tool_json_text(stdout, entry.name);
        printf(",\"steps\":%u,\"inputs\":%u,\"outputs\":%u}", entry.step_count, entry.input_count,
               entry.output_count);
    }
    puts("]}");
}

static int inspect_program(const char *path, const tool_common *common, bool as_text) {
    rlx_plan *plan = NULL;
    char *text = NULL;
    bool prints_plan = as_text || (common->verbose && !common->json);
    rlx_status status = rlx_program_read_plan(NULL, path, &plan);
    if (status == RLX_OK && prints_plan) status = rlx_plan_print(plan, &text);
    if (status != RLX_OK) {
        rlx_plan_destroy(plan);
        return tool_fail("inspect", status);
    }
    if (prints_plan) {
        fputs(text, stdout);
    } else if (common->json) {
        print_program_json(plan);
    } else {
        print_program(plan);
    }
    rlx_string_free(NULL, text);
    rlx_plan_destroy(plan);
    return TOOL_OK;
}

int rlx_cmd_inspect(int argc, char **argv) {
    tool_common common = {0};
    bool as_text = false;
    const tool_option options[] = {
        {"--text", TOOL_FLAG, &as_text, NULL, "print the whole graph (or plan) in its text form"},
        TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {
        "inspect",
        "FILE [--text] [--json]",
        "Shows inputs, outputs, states, weights and ops of a model, or the "
        "memory of a program. Of an ONNX model that cannot run also which nodes are in the way.",
        options,
        sizeof options / sizeof *options,
        1,
        1};
    const char *path;
    int code;
    if (!tool_parse(&usage, argc, argv, &path, &code)) return code;
    tool_log(&common);
    if (as_text && common.json) {
        fputs("rlx inspect: --text and --json are two forms; one at a time\n", stderr);
        return TOOL_USAGE;
    }
    return tool_is_program(path) ? inspect_program(path, &common, as_text)
                                 : inspect_model(path, &common, as_text);
}
