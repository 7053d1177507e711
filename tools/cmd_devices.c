/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx devices` and `rlx ops`: tables of what this build has. */
#include "tool.h"

#include <inttypes.h>

static void print_json(const rlx_device_info *info) {
    printf("{\"name\":");
    tool_json_text(stdout, info->name);
    printf(",\"kind\":");
    tool_json_text(stdout, info->kind);
    printf(",\"description\":");
    tool_json_text(stdout, info->description);
    printf(",\"target\":");
    tool_json_text(stdout, info->target);
    printf(",\"available\":%s,\"missing\":", info->is_available ? "true" : "false");
    tool_json_text(stdout, info->missing);
    printf(",\"threads\":%u,\"memory_bytes\":%" PRIu64 ",\"alignment\":%" PRIu64 "}\n",
           info->threads, info->memory_bytes, info->alignment);
}

int rlx_cmd_devices(int argc, char **argv) {
    tool_common common = {0};
    const tool_option options[] = {TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {"devices",
                              "[--json]",
                              "Lists the devices that programs run on, by the names that --device "
                              "takes.",
                              options,
                              sizeof options / sizeof *options,
                              0,
                              0};
    int code;
    if (!tool_parse(&usage, argc, argv, NULL, &code)) return code;
    for (uint32_t i = 0; i < rlx_device_count(); i++) {
        rlx_device_info info;
        rlx_status status = rlx_device_at(i, &info);
        if (status != RLX_OK) return tool_fail("devices", status);
        if (common.json) {
            print_json(&info);
        } else if (info.is_available) {
            printf("%-12s %s, %s\n", info.name, info.description, tool_bytes(info.memory_bytes));
        } else {
            printf("%-12s not available: %s\n", info.name, info.missing);
        }
    }
    return TOOL_OK;
}

static rlx_status print_op(rlx_op op, bool json) {
    rlx_op_description about;
    rlx_status status = rlx_op_describe(op, &about);
    if (status != RLX_OK) return status;
    printf(json ? "{\"op\":\"%s\",\"inputs\":\"%s\",\"outputs\":\"%s\",\"attributes\":\"%s\"}\n"
                : "| %s | %s | %s | %s |\n",
           about.name, about.inputs, about.outputs, about.attributes);
    return RLX_OK;
}

/* One line: the op, and the opsets in which it changed. */
static void print_onnx_op(uint32_t index, bool json) {
    printf(json ? "{\"onnx\":\"%s\",\"versions\":\"" : "| %s | ", rlx_onnx_op(index));
    for (uint32_t i = 0; rlx_onnx_op_version(index, i) != 0; i++)
        printf("%s%u", i == 0 ? "" : ", ", rlx_onnx_op_version(index, i));
    puts(json ? "\"}" : " |");
}

int rlx_cmd_ops(int argc, char **argv) {
    tool_common common = {0};
    const tool_option options[] = {TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {
        "ops",
        "[--json]",
        "Lists the ops that graphs and .rlx files may use, with their inputs, outputs and\n"
        "attributes; then the ONNX ops that models may use, with the opsets in which each changed.",
        options,
        sizeof options / sizeof *options,
        0,
        0};
    int code;
    if (!tool_parse(&usage, argc, argv, NULL, &code)) return code;
    if (!common.json) puts("| op | inputs | outputs | attributes |\n|---|---|---|---|");
    for (uint32_t op = 1; op < RLX_OP_COUNT; op++) {
        rlx_status status = print_op((rlx_op)op, common.json);
        if (status != RLX_OK) return tool_fail("ops", status);
    }
    if (!common.json) puts("\n| ONNX op | versions |\n|---|---|");
    for (uint32_t i = 0; rlx_onnx_op(i) != NULL; i++)
        print_onnx_op(i, common.json);
    return TOOL_OK;
}
