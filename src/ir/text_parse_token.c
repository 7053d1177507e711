/* SPDX-License-Identifier: Apache-2.0 */
/* The parser's small steps: marks, names, numbers, dtypes, ops and values, each with its message.
 */
#include "ir/text_parse.h"

rlx_status rlx_parse_advance(rlx_parser *parser) {
    return rlx_lexer_next(&parser->lexer, &parser->token);
}

bool rlx_parse_at_word(const rlx_parser *parser, const char *word) {
    const rlx_token *token = &parser->token;
    return token->kind == RLX_TOKEN_NAME && strlen(word) == token->length &&
           memcmp(token->text, word, token->length) == 0;
}

rlx_status rlx_parse_expected(const rlx_parser *parser, const char *what) {
    char shown[64];
    return rlx_token_fail(&parser->token, "expected %s, found %s", what,
                          rlx_token_show(&parser->token, shown, sizeof shown));
}

rlx_status rlx_parse_mark(rlx_parser *parser, char mark) {
    char what[8] = {'\'', mark, '\'', 0};
    if (!rlx_parse_at_mark(parser, mark))
        return rlx_parse_expected(parser, mark == '<' ? "'<='" : what);
    return rlx_parse_advance(parser);
}

rlx_status rlx_parse_accept(rlx_parser *parser, char mark, bool *out_found) {
    *out_found = rlx_parse_at_mark(parser, mark);
    return *out_found ? rlx_parse_advance(parser) : RLX_OK;
}

rlx_status rlx_parse_name_token(rlx_parser *parser, const char *what, rlx_token *out_token) {
    rlx_token token = parser->token;
    char shown[64];
    if (token.kind != RLX_TOKEN_NAME && token.kind != RLX_TOKEN_STRING)
        return rlx_parse_expected(parser, what);
    if (token.kind == RLX_TOKEN_NAME && rlx_name_is_keyword(token.text, token.length))
        return rlx_token_fail(&token, "expected %s; %s is a word of the format: put it in quotes",
                              what, rlx_token_show(&token, shown, sizeof shown));
    if (token.length == 0) return rlx_token_fail(&token, "a name must not be empty");
    *out_token = token;
    return rlx_parse_advance(parser);
}

static rlx_status parse_number(rlx_parser *parser, const char *what, rlx_number *out_number) {
    const rlx_token *token = &parser->token;
    if ((token->kind != RLX_TOKEN_NUMBER && token->kind != RLX_TOKEN_NAME) ||
        !rlx_number_read(token->text, token->length, out_number))
        return rlx_parse_expected(parser, what);
    return RLX_OK;
}

rlx_status rlx_parse_i64(rlx_parser *parser, int64_t *out_value) {
    rlx_number number;
    RLX_TRY(parse_number(parser, "an integer", &number));
    if (!rlx_number_i64(&number, out_value))
        return rlx_parse_expected(parser, "an integer of 64 bits");
    return rlx_parse_advance(parser);
}

rlx_status rlx_parse_u64(rlx_parser *parser, uint64_t *out_value) {
    rlx_number number;
    RLX_TRY(parse_number(parser, "an integer", &number));
    if (!rlx_number_u64(&number, out_value))
        return rlx_parse_expected(parser, "an integer of 64 bits that is not negative");
    return rlx_parse_advance(parser);
}

rlx_status rlx_parse_f64(rlx_parser *parser, double *out_value) {
    rlx_number number;
    RLX_TRY(parse_number(parser, "a number", &number));
    *out_value = number.real;
    return rlx_parse_advance(parser);
}

static const char *dtype_name_at(uint32_t index) {
    return rlx_dtype_name((rlx_dtype)index);
}

static const char *op_name_at(uint32_t index) {
    return rlx_op_name((rlx_op)(index + 1));
}

/* "unknown op 'matmull' (did you mean 'matmul'?)" */
static rlx_status unknown_name(const rlx_parser *parser, const char *what,
                               const char *(*name_at)(uint32_t index), uint32_t count) {
    char shown[64];
    const rlx_token *token = &parser->token;
    const char *near = rlx_parse_suggest(token->text, token->length, name_at, count);
    rlx_token_show(token, shown, sizeof shown);
    if (near == NULL) return rlx_token_fail(token, "unknown %s %s", what, shown);
    return rlx_token_fail(token, "unknown %s %s (did you mean '%s'?)", what, shown, near);
}

rlx_status rlx_parse_dtype(rlx_parser *parser, rlx_dtype *out_dtype) {
    for (uint32_t i = 0; i < RLX_DTYPE_COUNT; i++) {
        if (rlx_parse_at_word(parser, dtype_name_at(i))) {
            *out_dtype = (rlx_dtype)i;
            return rlx_parse_advance(parser);
        }
    }
    if (parser->token.kind != RLX_TOKEN_NAME) return rlx_parse_expected(parser, "a dtype");
    return unknown_name(parser, "dtype", dtype_name_at, RLX_DTYPE_COUNT);
}

rlx_status rlx_parse_op(rlx_parser *parser, rlx_op *out_op) {
    const char *name;
    if (parser->token.kind != RLX_TOKEN_NAME) return rlx_parse_expected(parser, "an op");
    RLX_TRY(rlx_token_decode(&parser->token, &parser->name, &name));
    if (rlx_op_from_name(name, out_op) != RLX_OK)
        return unknown_name(parser, "op", op_name_at, RLX_OP_COUNT - 1);
    return rlx_parse_advance(parser);
}

static bool is_visible(const rlx_graph *graph, rlx_block_id defined) {
    rlx_block_id block = graph->current;
    while (block != defined && block != 0)
        block = graph->blocks.items[block].parent;
    return block == defined;
}

rlx_status rlx_parse_value(rlx_parser *parser, rlx_value_id *out_value) {
    char shown[64];
    const char *name;
    rlx_token token;
    RLX_TRY(rlx_parse_name_token(parser, "the name of a value", &token));
    RLX_TRY(rlx_token_decode(&token, &parser->name, &name));
    rlx_token_show(&token, shown, sizeof shown);
    if (rlx_graph_find(parser->graph, name, out_value) != RLX_OK)
        return rlx_token_fail(&token, "%s is not defined before this line", shown);
    if (!is_visible(parser->graph, parser->graph->values.items[*out_value].block))
        return rlx_token_fail(&token, "%s is defined in a block that has ended", shown);
    return RLX_OK;
}

rlx_status rlx_parse_context(const rlx_token *token, rlx_status status) {
    if (rlx_last_error_detail()->line != 0) return status; /* says so already */
    rlx_fail_context(status, "line %u", token->line);
    rlx_error_detail_edit()->line = token->line;
    return status;
}
