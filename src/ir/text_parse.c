/* SPDX-License-Identifier: Apache-2.0 */
/* Text to graph: statements, nodes and blocks. One token of lookahead; the only recursion is one
 * level per block, with a limit. The graph does its own checks when something is added; this file
 * says on which line. */
#include "ir/text_parse.h"

#include "base/thread.h"

#include <stdio.h>

static rlx_status end_statement(rlx_parser *parser) {
    if (parser->token.kind == RLX_TOKEN_END || rlx_parse_at_mark(parser, '}')) return RLX_OK;
    if (parser->token.kind != RLX_TOKEN_NEWLINE)
        return rlx_parse_expected(parser, "the end of the line");
    return rlx_parse_advance(parser);
}

static rlx_status skip_newlines(rlx_parser *parser) {
    while (parser->token.kind == RLX_TOKEN_NEWLINE)
        RLX_TRY(rlx_parse_advance(parser));
    return RLX_OK;
}

/* Values up to `closing` (0: the end of the statement) on the stack of ids; "_" is RLX_NONE. */
static rlx_status parse_values(rlx_parser *parser, char closing, uint32_t *out_count) {
    uint32_t base = parser->ids.count;
    bool has_more = true;
    while (has_more && !(closing != 0 && rlx_parse_at_mark(parser, closing))) {
        rlx_value_id value = RLX_NONE;
        if (parser->ids.count - base == RLX_TEXT_MAX_VALUES)
            return rlx_token_fail(&parser->token, "more than %d values", RLX_TEXT_MAX_VALUES);
        if (rlx_parse_at_word(parser, "_")) {
            RLX_TRY(rlx_parse_advance(parser));
        } else {
            RLX_TRY(rlx_parse_value(parser, &value));
        }
        RLX_TRY(rlx_vec_push(parser->allocator, &parser->ids, value));
        RLX_TRY(rlx_parse_accept(parser, ',', &has_more));
    }
    *out_count = parser->ids.count - base;
    return RLX_OK;
}

/* Names that a statement defines, on the stack of targets; "_" is an unwanted output. */
static rlx_status push_target(rlx_parser *parser) {
    rlx_token token = parser->token;
    if (rlx_parse_at_word(parser, "_")) {
        RLX_TRY(rlx_parse_advance(parser));
    } else {
        RLX_TRY(rlx_parse_name_token(parser, "a name", &token));
    }
    return rlx_vec_push(parser->allocator, &parser->targets, token);
}

static bool is_unwanted(const rlx_token *token) {
    return token->kind == RLX_TOKEN_NAME && token->length == 1 && token->text[0] == '_';
}

static rlx_status parse_targets(rlx_parser *parser, char closing, uint32_t *out_count) {
    uint32_t base = parser->targets.count;
    bool has_more = true;
    while (has_more && !rlx_parse_at_mark(parser, closing)) {
        if (parser->targets.count - base == RLX_TEXT_MAX_VALUES)
            return rlx_token_fail(&parser->token, "more than %d names", RLX_TEXT_MAX_VALUES);
        RLX_TRY(push_target(parser));
        RLX_TRY(rlx_parse_accept(parser, ',', &has_more));
    }
    *out_count = parser->targets.count - base;
    return rlx_parse_mark(parser, closing);
}

/* One statement with its op, while its parts are on the stacks. */
typedef struct node_text {
    rlx_token token; /* of the op */
    rlx_op op;
    const rlx_op_info *info;
    uint32_t targets, target_count; /* where in parser->targets */
    uint32_t inputs, input_count;   /* where in parser->ids */
    rlx_attrs_buffer attrs;
} node_text;

static rlx_status check_arity(const node_text *node) {
    const rlx_op_info *info = node->info;
    rlx_op_description about;
    bool takes = node->input_count >= info->in_least && node->input_count <= info->in_most;
    bool has = node->target_count >= info->out_least && node->target_count <= info->out_most;
    if (takes && has) return RLX_OK;
    RLX_TRY(rlx_op_describe(node->op, &about));
    if (!takes)
        return rlx_token_fail(&node->token, "%s takes %s inputs, got %u", info->name, about.inputs,
                              node->input_count);
    return rlx_token_fail(&node->token, "%s has %s outputs, got %u", info->name, about.outputs,
                          node->target_count);
}

static rlx_status make_value(rlx_parser *parser, const rlx_token *target, rlx_value_id *out_value) {
    const char *name;
    RLX_TRY(rlx_token_decode(target, &parser->name, &name));
    return rlx_graph_new_value(parser->graph, name, RLX_VALUE_TEMPORARY, out_value);
}

/* An output that the op always has, but the text does not want: it gets a name all the same. */
static rlx_status make_unwanted(rlx_parser *parser, rlx_value_id *out_value) {
    char name[24];
    rlx_value_id taken;
    uint32_t number = parser->graph->values.count;
    do {
        snprintf(name, sizeof name, "_.%u", number++);
    } while (rlx_graph_find(parser->graph, name, &taken) == RLX_OK);
    return rlx_graph_new_value(parser->graph, name, RLX_VALUE_TEMPORARY, out_value);
}

/* The values that the statement defines, on the stack of ids. */
static rlx_status push_outputs(rlx_parser *parser, const node_text *node) {
    for (uint32_t i = 0; i < node->target_count; i++) {
        const rlx_token *target = &parser->targets.items[node->targets + i];
        rlx_value_id value = RLX_NONE;
        if (!is_unwanted(target)) {
            RLX_TRY(make_value(parser, target, &value));
        } else if (i < node->info->out_least) {
            RLX_TRY(make_unwanted(parser, &value));
        }
        RLX_TRY(rlx_vec_push(parser->allocator, &parser->ids, value));
    }
    return RLX_OK;
}

static rlx_status add_plain(rlx_parser *parser, const node_text *node) {
    uint32_t outputs = parser->ids.count;
    rlx_node_id id;
    RLX_TRY(push_outputs(parser, node));
    return rlx_graph_insert_node(parser->graph, parser->graph->current, UINT32_MAX, node->op,
                                 &node->attrs, parser->ids.items + node->inputs, node->input_count,
                                 parser->ids.items + outputs, node->target_count, &id);
}

static rlx_status parse_statements(rlx_parser *parser);

static rlx_status check_block_inputs(const rlx_parser *parser, const node_text *node,
                                     uint32_t count) {
    if (node->op == RLX_OP_LOOP && count + 1 != node->input_count)
        return rlx_token_fail(&parser->token,
                              "the block of this loop has %u inputs, got %u: the iteration and "
                              "what it carries",
                              node->input_count - 1, count);
    if (node->op != RLX_OP_LOOP && count > 0)
        return rlx_token_fail(&parser->token, "the blocks of %s have no inputs", node->info->name);
    return RLX_OK;
}

/* Input `index` of a loop's block, typed like what it carries; the first is the iteration. */
static rlx_status add_block_input(rlx_parser *parser, const node_text *node, uint32_t index,
                                  const rlx_token *target, rlx_value_id *out_value) {
    if (is_unwanted(target)) return rlx_token_fail(target, "a block input needs a name");
    rlx_status status = make_value(parser, target, out_value);
    if (status != RLX_OK) return rlx_parse_context(target, status);
    rlx_value *value = &parser->graph->values.items[*out_value];
    rlx_value_id like = index == 0 ? RLX_NONE : parser->ids.items[node->inputs + index + 1];
    value->type = like == RLX_NONE ? rlx_type_make(RLX_DTYPE_I64, NULL, 0)
                                   : parser->graph->values.items[like].type;
    value->is_typed = like == RLX_NONE || parser->graph->values.items[like].is_typed;
    return RLX_OK;
}

/* Opens a block whose input names are on top of the targets. Its inputs are made here, not by
 * rlx_graph_begin_block, which would make up names that the text may want to use. */
static rlx_status begin_block(rlx_parser *parser, const node_text *node, uint32_t count,
                              rlx_block_id *out_block) {
    uint32_t targets = parser->targets.count - count;
    rlx_value_id *inputs = NULL;
    RLX_TRY(check_block_inputs(parser, node, count));
    RLX_TRY(rlx_scratch_array(&parser->graph->memory, count, sizeof *inputs, (void **)&inputs));
    RLX_TRY(rlx_graph_begin_block(parser->graph, NULL, 0, NULL, out_block));
    for (uint32_t i = 0; i < count; i++)
        RLX_TRY(add_block_input(parser, node, i, &parser->targets.items[targets + i], &inputs[i]));
    rlx_block *block = &parser->graph->blocks.items[*out_block];
    block->inputs = inputs;
    block->input_count = count;
    parser->targets.count = targets;
    return RLX_OK;
}

static rlx_status parse_yield(rlx_parser *parser, rlx_block_id block) {
    uint32_t base = parser->ids.count, count = 0;
    rlx_token token = parser->token;
    if (!rlx_parse_at_word(parser, "yield"))
        return rlx_parse_expected(parser, "yield at the end of the block");
    RLX_TRY(rlx_parse_advance(parser));
    if (parser->token.kind != RLX_TOKEN_NEWLINE && !rlx_parse_at_mark(parser, '}'))
        RLX_TRY(parse_values(parser, 0, &count));
    rlx_status status = rlx_graph_end_block(parser->graph, block, parser->ids.items + base, count);
    if (status != RLX_OK) return rlx_parse_context(&token, status);
    parser->ids.count = base;
    return skip_newlines(parser);
}

/* (i, acc) { statements yield values } */
static rlx_status parse_block(rlx_parser *parser, const node_text *node, rlx_block_id *out_block) {
    uint32_t count = 0;
    bool has_inputs;
    if (parser->depth >= RLX_TEXT_MAX_NESTING)
        return rlx_token_fail(&parser->token, "blocks are nested deeper than %d",
                              RLX_TEXT_MAX_NESTING);
    RLX_TRY(rlx_parse_accept(parser, '(', &has_inputs));
    if (has_inputs) RLX_TRY(parse_targets(parser, ')', &count));
    RLX_TRY(rlx_parse_mark(parser, '{'));
    RLX_TRY(begin_block(parser, node, count, out_block));
    parser->depth++;
    RLX_TRY(parse_statements(parser));
    RLX_TRY(parse_yield(parser, *out_block));
    parser->depth--;
    return rlx_parse_mark(parser, '}');
}

static rlx_status add_flow(rlx_parser *parser, const node_text *node) {
    rlx_block_id blocks[2] = {RLX_NONE, RLX_NONE};
    uint32_t block_count = node->op == RLX_OP_IF ? 2 : 1, outputs;
    rlx_node_id id;
    for (uint32_t i = 0; i < block_count; i++) {
        if (i == 1) {
            if (!rlx_parse_at_word(parser, "else")) return rlx_parse_expected(parser, "else");
            RLX_TRY(rlx_parse_advance(parser));
        }
        RLX_TRY(parse_block(parser, node, &blocks[i]));
    }
    outputs = parser->ids.count;
    RLX_TRY(push_outputs(parser, node));
    return rlx_graph_insert_flow(parser->graph, node->op, &node->attrs,
                                 parser->ids.items + node->inputs, node->input_count, blocks,
                                 block_count, parser->ids.items + outputs, node->target_count, &id);
}

/* matmul(x, w, _, r) transpose_b=true: everything right of "=". */
static rlx_status parse_call(rlx_parser *parser, node_text *node) {
    node->token = parser->token;
    RLX_TRY(rlx_parse_op(parser, &node->op));
    node->info = rlx_op_info_of(node->op);
    RLX_TRY(rlx_parse_mark(parser, '('));
    node->inputs = parser->ids.count;
    RLX_TRY(parse_values(parser, ')', &node->input_count));
    RLX_TRY(rlx_parse_mark(parser, ')'));
    RLX_TRY(rlx_parse_attrs(parser, node->op, &node->attrs));
    RLX_TRY(check_arity(node));
    bool is_flow = (node->info->flags & RLX_OPF_FLOW) != 0;
    rlx_status status = is_flow ? add_flow(parser, node) : add_plain(parser, node);
    return status == RLX_OK ? RLX_OK : rlx_parse_context(&node->token, status);
}

/* `y, _ = op(..)`, or `op(..)` without outputs. */
static rlx_status parse_node(rlx_parser *parser) {
    node_text node = {.targets = parser->targets.count};
    uint32_t ids = parser->ids.count;
    rlx_lexer lexer = parser->lexer;
    rlx_token first = parser->token;
    bool is_call = false;
    if (first.kind == RLX_TOKEN_NAME && !is_unwanted(&first)) {
        RLX_TRY(rlx_parse_advance(parser));
        is_call = rlx_parse_at_mark(parser, '(');
        parser->lexer = lexer;
        parser->token = first;
    }
    if (!is_call) RLX_TRY(parse_targets(parser, '=', &node.target_count));
    RLX_TRY(parse_call(parser, &node));
    parser->targets.count = node.targets;
    parser->ids.count = ids;
    return end_statement(parser);
}

static rlx_status parse_symbol(rlx_parser *parser) {
    rlx_token token;
    const char *name;
    int64_t dim;
    RLX_TRY(rlx_parse_name_token(parser, "the name of a symbol", &token));
    if (parser->graph->symbols.count == RLX_TEXT_MAX_SYMBOLS)
        return rlx_token_fail(&token, "more than %d symbols", RLX_TEXT_MAX_SYMBOLS);
    RLX_TRY(rlx_token_decode(&token, &parser->name, &name));
    uint32_t before = parser->graph->symbols.count;
    RLX_TRY(rlx_graph_symbol(parser->graph, name, &dim));
    if (parser->graph->symbols.count == before)
        return rlx_token_fail(&token, "the symbol '%.40s' is declared twice", name);
    return RLX_OK;
}

/* output y as "hidden" */
static rlx_status parse_output(rlx_parser *parser) {
    rlx_token token = parser->token;
    const char *name = NULL;
    rlx_value_id value;
    if (parser->graph->outputs.count == RLX_TEXT_MAX_OUTPUTS)
        return rlx_token_fail(&token, "more than %d outputs", RLX_TEXT_MAX_OUTPUTS);
    RLX_TRY(rlx_parse_value(parser, &value));
    if (rlx_parse_at_word(parser, "as")) {
        rlx_token other;
        RLX_TRY(rlx_parse_advance(parser));
        RLX_TRY(rlx_parse_name_token(parser, "the name of the output", &other));
        RLX_TRY(rlx_token_decode(&other, &parser->name, &name));
    }
    rlx_status status = rlx_graph_add_output(parser->graph, value, name);
    return status == RLX_OK ? RLX_OK : rlx_parse_context(&token, status);
}

/* A statement that begins with a word of the format. */
static rlx_status parse_keyword(rlx_parser *parser) {
    static const char *const words[] = {"input", "param", "const", "state"};
    rlx_token token = parser->token;
    char shown[64];
    rlx_token_show(&token, shown, sizeof shown);
    if (rlx_parse_at_word(parser, "rlx") || rlx_parse_at_word(parser, "as") ||
        rlx_parse_at_word(parser, "else") || rlx_parse_at_word(parser, "yield"))
        return rlx_token_fail(&token, "%s cannot begin a statement here", shown);
    if (parser->depth > 0) return rlx_token_fail(&token, "%s must stand outside blocks", shown);
    bool is_symbol = rlx_parse_at_word(parser, "symbol");
    RLX_TRY(rlx_parse_advance(parser));
    if (is_symbol) {
        RLX_TRY(parse_symbol(parser));
        return end_statement(parser);
    }
    for (uint32_t i = 0; i < 4; i++) {
        if (token.length != strlen(words[i]) || memcmp(token.text, words[i], token.length) != 0)
            continue;
        RLX_TRY(rlx_parse_declaration(parser, (rlx_value_kind)i));
        return end_statement(parser);
    }
    RLX_TRY(parse_output(parser));
    return end_statement(parser);
}

/* Up to the yield of the block, or the end of the text. */
static rlx_status parse_statements(rlx_parser *parser) {
    RLX_TRY(skip_newlines(parser));
    while (parser->token.kind != RLX_TOKEN_END) {
        const rlx_token *token = &parser->token;
        if (parser->depth > 0 && (rlx_parse_at_word(parser, "yield") || token->mark == '}')) break;
        bool is_keyword = token->kind == RLX_TOKEN_NAME && !is_unwanted(token) &&
                          rlx_name_is_keyword(token->text, token->length);
        RLX_TRY(is_keyword ? parse_keyword(parser) : parse_node(parser));
        RLX_TRY(skip_newlines(parser));
    }
    return RLX_OK;
}

static rlx_status parse_version(rlx_parser *parser) {
    rlx_token token;
    uint64_t version = 0;
    RLX_TRY(skip_newlines(parser));
    if (!rlx_parse_at_word(parser, "rlx"))
        return rlx_parse_expected(parser, "'rlx 1' as the first line");
    RLX_TRY(rlx_parse_advance(parser));
    token = parser->token;
    RLX_TRY(rlx_parse_u64(parser, &version));
    if (version != 1)
        return rlx_token_fail(&token, "version %" PRIu64 " of the format is not known; this is 1",
                              version);
    return end_statement(parser);
}

static rlx_status parse_all(rlx_parser *parser) {
    RLX_TRY(rlx_graph_create(parser->allocator, &parser->graph));
    RLX_TRY(rlx_parse_advance(parser));
    RLX_TRY(parse_version(parser));
    RLX_TRY(parse_statements(parser));
    return RLX_OK;
}

rlx_status rlx_graph_parse_with(const rlx_allocator *allocator, const char *text, uint64_t bytes,
                                const rlx_text_resolver *resolver, rlx_graph **out_graph) {
    if (out_graph == NULL || (text == NULL && bytes != 0))
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "text and out_graph must not be NULL");
    if (bytes > RLX_TEXT_MAX_BYTES)
        return RLX_FAIL(RLX_PARSE, "a text of %" PRIu64 " bytes; at most %" PRIu64, bytes,
                        (uint64_t)RLX_TEXT_MAX_BYTES);
    rlx_parser parser = {.allocator = allocator,
                         .resolver = resolver,
                         .scratch = {.allocator = allocator},
                         .name = {.allocator = allocator},
                         .path = {.allocator = allocator}};
    rlx_lexer_start(&parser.lexer, text != NULL ? text : "", bytes);
    rlx_fp_mode saved = rlx_fp_mode_enter(); /* the same numbers whatever the caller's rounding */
    rlx_status status = parse_all(&parser);
    rlx_fp_mode_leave(saved);
    rlx_vec_free(allocator, &parser.targets);
    rlx_vec_free(allocator, &parser.ids);
    rlx_vec_free(allocator, &parser.items);
    rlx_token_text_free(&parser.name);
    rlx_token_text_free(&parser.path);
    rlx_scratch_reset(&parser.scratch);
    if (status == RLX_OK) {
        *out_graph = parser.graph;
    } else {
        rlx_graph_destroy(parser.graph);
    }
    return status;
}

rlx_status rlx_graph_parse(const rlx_allocator *allocator, const char *text, uint64_t bytes,
                           rlx_graph **out_graph) {
    return rlx_graph_parse_with(allocator, text, bytes, NULL, out_graph);
}
