/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to text: symbols, declarations in the order of their ids, the nodes of each block in the
 * order they run, outputs. Made-up names are printed like any other, so the text reads back to the
 * same graph. Dead nodes and values that only they made are left out. */
#include "ir/text_print.h"

#include "base/thread.h"
#include "ir/text_lex.h"
#include "ir/text_number.h"

void rlx_print_name(rlx_text *text, const char *name) {
    if (rlx_name_is_bare(name)) {
        rlx_text_append(text, name, strlen(name));
        return;
    }
    rlx_text_append(text, "\"", 1);
    for (const char *at = name; *at != 0; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\') {
            rlx_text_printf(text, "\\%c", c);
        } else if (c == '\n') {
            rlx_text_append(text, "\\n", 2);
        } else if (c < ' ' || c == 0x7f) {
            rlx_text_printf(text, "\\x%02x", c);
        } else {
            rlx_text_append(text, at, 1);
        }
    }
    rlx_text_append(text, "\"", 1);
}

void rlx_print_value_name(rlx_printer *printer, rlx_value_id value) {
    if (value == RLX_NONE) {
        rlx_text_append(&printer->text, "_", 1);
    } else {
        rlx_print_name(&printer->text, printer->graph->values.items[value].name);
    }
}

static void print_names(rlx_printer *printer, const rlx_value_id *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) rlx_text_append(&printer->text, ", ", 2);
        rlx_print_value_name(printer, values[i]);
    }
}

static void print_path(rlx_text *text, const char *path) {
    /* A path is always in quotes; a bare one is put into them as it is. */
    if (rlx_name_is_bare(path)) {
        rlx_text_printf(text, "\"%s\"", path);
    } else {
        rlx_print_name(text, path);
    }
}

static void print_source(rlx_printer *printer, const rlx_value *value) {
    const rlx_source *source = &value->weight->source;
    char scale[RLX_NUMBER_BYTES], mean[RLX_NUMBER_BYTES];
    switch (source->kind) {
    case RLX_SOURCE_NONE:
        return;
    case RLX_SOURCE_MEMORY:
        rlx_text_append(&printer->text, " = ", 3);
        rlx_print_data(printer, &value->type, source->memory, source->bytes);
        return;
    case RLX_SOURCE_FILE:
        rlx_text_append(&printer->text, " = file(", 8);
        print_path(&printer->text, source->path);
        rlx_text_printf(&printer->text, ", %" PRIu64 ")", source->offset);
        return;
    case RLX_SOURCE_SEEDED:
        rlx_number_print_f64(source->scale, scale);
        rlx_number_print_f64(source->mean, mean);
        rlx_text_printf(&printer->text, " = seeded(%" PRIu64 ", %s", source->seed, scale);
        if (strcmp(mean, "0") != 0) rlx_text_printf(&printer->text, ", %s", mean);
        rlx_text_append(&printer->text, ")", 1);
        return;
    }
}

static void print_declaration(rlx_printer *printer, const rlx_value *value) {
    static const char *const words[] = {"input", "param", "const", "state"};
    rlx_text_printf(&printer->text, "%s ", words[value->kind]);
    rlx_print_name(&printer->text, value->name);
    rlx_text_append(&printer->text, " : ", 3);
    rlx_print_type(printer, &value->type);
    if (value->kind == RLX_VALUE_PARAMETER) print_source(printer, value);
    if (value->kind == RLX_VALUE_CONSTANT) {
        rlx_text_append(&printer->text, " = ", 3);
        rlx_print_data(printer, &value->type, value->data, value->data_bytes);
    }
    rlx_text_append(&printer->text, "\n", 1);
}

static void print_indent(rlx_printer *printer, uint32_t depth) {
    for (uint32_t i = 0; i < depth; i++)
        rlx_text_append(&printer->text, "    ", 4);
}

static void print_type_comment(rlx_printer *printer, const rlx_node *node) {
    bool is_first = true;
    if ((printer->flags & RLX_PRINT_TYPES) == 0) return;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (node->outputs[i] == RLX_NONE) continue;
        const rlx_value *value = &printer->graph->values.items[node->outputs[i]];
        rlx_text_printf(&printer->text, is_first ? " # " : ", ");
        is_first = false;
        if (value->is_typed) {
            rlx_print_type(printer, &value->type);
        } else {
            rlx_text_append(&printer->text, "?", 1);
        }
    }
}

static void print_block(rlx_printer *printer, rlx_block_id id, uint32_t depth);

static void print_flow(rlx_printer *printer, const rlx_node *node, uint32_t depth) {
    for (uint32_t i = 0; i < 2 && node->blocks[i] != RLX_NONE; i++) {
        const rlx_block *block = &printer->graph->blocks.items[node->blocks[i]];
        if (i == 1) rlx_text_append(&printer->text, " else", 5);
        if (block->input_count > 0) {
            rlx_text_append(&printer->text, " (", 2);
            print_names(printer, block->inputs, block->input_count);
            rlx_text_append(&printer->text, ")", 1);
        }
        rlx_text_append(&printer->text, " {", 2);
        if (i == 0) print_type_comment(printer, node);
        rlx_text_append(&printer->text, "\n", 1);
        print_block(printer, node->blocks[i], depth + 1);
        print_indent(printer, depth + 1);
        rlx_text_append(&printer->text, block->yield_count > 0 ? "yield " : "yield",
                        block->yield_count > 0 ? 6 : 5);
        print_names(printer, block->yields, block->yield_count);
        rlx_text_append(&printer->text, "\n", 1);
        print_indent(printer, depth);
        rlx_text_append(&printer->text, "}", 1);
    }
}

static void print_node(rlx_printer *printer, const rlx_node *node, uint32_t depth) {
    print_indent(printer, depth);
    print_names(printer, node->outputs, node->output_count);
    rlx_text_printf(&printer->text, "%s%s(", node->output_count > 0 ? " = " : "",
                    rlx_op_name(node->op));
    print_names(printer, node->inputs, node->input_count);
    rlx_text_append(&printer->text, ")", 1);
    rlx_print_attrs(printer, node->op, node->attrs);
    if (node->blocks[0] != RLX_NONE) {
        print_flow(printer, node, depth);
    } else {
        print_type_comment(printer, node);
    }
    rlx_text_append(&printer->text, "\n", 1);
}

/* Blocks nest as deep as the builder nested them. */
static void print_block(rlx_printer *printer, rlx_block_id id, uint32_t depth) {
    const rlx_block *block = &printer->graph->blocks.items[id];
    for (uint32_t i = 0; i < block->nodes.count; i++) {
        const rlx_node *node = &printer->graph->nodes.items[block->nodes.items[i]];
        if (!node->is_dead) print_node(printer, node, depth);
    }
}

static void print_output(rlx_printer *printer, const rlx_output *output) {
    const char *own = printer->graph->values.items[output->value].name;
    rlx_text_append(&printer->text, "output ", 7);
    rlx_print_value_name(printer, output->value);
    if (output->name != NULL && strcmp(output->name, own) != 0) {
        rlx_text_append(&printer->text, " as ", 4);
        rlx_print_name(&printer->text, output->name);
    }
    rlx_text_append(&printer->text, "\n", 1);
}

static void print_graph(rlx_printer *printer) {
    const rlx_graph *graph = printer->graph;
    rlx_text_append(&printer->text, "rlx 1\n", 6);
    for (uint32_t i = 0; i < graph->symbols.count; i++) {
        rlx_text_append(&printer->text, "symbol ", 7);
        rlx_print_name(&printer->text, graph->symbols.items[i]);
        rlx_text_append(&printer->text, "\n", 1);
    }
    for (uint32_t i = 0; i < graph->values.count; i++) {
        const rlx_value *value = &graph->values.items[i];
        if (value->kind != RLX_VALUE_TEMPORARY) print_declaration(printer, value);
    }
    print_block(printer, 0, 0);
    for (uint32_t i = 0; i < graph->outputs.count; i++)
        print_output(printer, &graph->outputs.items[i]);
}

rlx_status rlx_graph_print_options(const rlx_graph *graph, uint32_t flags, char **out_text) {
    if (graph == NULL || out_text == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "graph and out_text must not be NULL");
    rlx_printer printer = {.graph = graph, .flags = flags, .text = {.allocator = graph->allocator}};
    rlx_fp_mode saved = rlx_fp_mode_enter();
    print_graph(&printer);
    rlx_fp_mode_leave(saved);
    return rlx_text_finish(&printer.text, out_text);
}

rlx_status rlx_graph_print(const rlx_graph *graph, char **out_text) {
    return rlx_graph_print_options(graph, 0, out_text);
}
