/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing attributes by the field table of the op, and the readable form of a chain's code. */
#include "ir/chain.h"
#include "ir/text_parse.h"

#include "base/size.h"

/* Levenshtein distance, for names of up to 31 characters; longer ones are far from everything. */
static uint32_t distance(const char *a, size_t a_length, const char *b, size_t b_length) {
    uint32_t row[32];
    if (a_length > 31 || b_length > 31) return UINT32_MAX;
    for (uint32_t j = 0; j <= b_length; j++)
        row[j] = j;
    for (size_t i = 0; i < a_length; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i + 1;
        for (size_t j = 0; j < b_length; j++) {
            uint32_t change = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            uint32_t least = diagonal < row[j] ? diagonal + 1 : row[j] + 1;
            row[j + 1] = least < change ? least : change;
        }
    }
    return row[b_length];
}

const char *rlx_parse_suggest(const char *text, size_t length,
                              const char *(*name_at)(uint32_t index), uint32_t count) {
    const char *best = NULL;
    uint32_t least = 3; /* at most two letters wrong, and at most half of them */
    for (uint32_t i = 0; i < count; i++) {
        const char *name = name_at(i);
        uint32_t far = distance(text, length, name, strlen(name));
        if (far < least && 2 * far <= length) {
            least = far;
            best = name;
        }
    }
    return best;
}

/* [1, -2, 3] into parser->items. */
static rlx_status parse_ints(rlx_parser *parser, uint32_t most) {
    bool has_more = true;
    parser->items.count = 0;
    RLX_TRY(rlx_parse_mark(parser, '['));
    while (has_more && !rlx_parse_at_mark(parser, ']')) {
        int64_t item = 0;
        if (parser->items.count == most)
            return rlx_token_fail(&parser->token, "more than %u integers in this list", most);
        RLX_TRY(rlx_parse_i64(parser, &item));
        RLX_TRY(rlx_vec_push(parser->allocator, &parser->items, item));
        RLX_TRY(rlx_parse_accept(parser, ',', &has_more));
    }
    return rlx_parse_mark(parser, ']');
}

/* parser->items as a list that lives until the end of the parse. */
static rlx_status keep_list(rlx_parser *parser, rlx_list *out_list) {
    void *copy = NULL;
    uint32_t count = parser->items.count;
    if (count > 0) {
        RLX_TRY(rlx_scratch_array(&parser->scratch, count, sizeof(int64_t), &copy));
        memcpy(copy, parser->items.items, count * sizeof(int64_t));
    }
    *out_list = (rlx_list){count, copy};
    return RLX_OK;
}

/* $2 is input 2 of the node, %0 the result of instruction 0, _ is absent. */
static rlx_status parse_operand(rlx_parser *parser, int64_t *out_operand) {
    rlx_token token = parser->token;
    rlx_number number;
    uint64_t index = 0;
    if (rlx_parse_at_word(parser, "_")) {
        *out_operand = RLX_CHAIN_NONE;
        return rlx_parse_advance(parser);
    }
    bool is_result = token.kind == RLX_TOKEN_NAME && token.text[0] == '%';
    if (is_result) {
        if (!rlx_number_read(token.text + 1, token.length - 1, &number) ||
            !rlx_number_u64(&number, &index) || index >= RLX_TEXT_MAX_LIST)
            return rlx_parse_expected(parser, "the number of an instruction after '%'");
        *out_operand = -1 - (int64_t)index;
        return rlx_parse_advance(parser);
    }
    if (!rlx_parse_at_mark(parser, '$')) return rlx_parse_expected(parser, "$input, %result or _");
    RLX_TRY(rlx_parse_advance(parser));
    RLX_TRY(rlx_parse_u64(parser, &index));
    if (index >= RLX_TEXT_MAX_VALUES)
        return rlx_token_fail(&token, "no node has an input %" PRIu64, index);
    *out_operand = (int64_t)index;
    return RLX_OK;
}

static rlx_status parse_operands(rlx_parser *parser, int64_t operands[3]) {
    bool has_more = true;
    RLX_TRY(rlx_parse_mark(parser, '('));
    for (uint32_t i = 0; i < 3; i++)
        operands[i] = RLX_CHAIN_NONE;
    for (uint32_t i = 0; has_more && !rlx_parse_at_mark(parser, ')'); i++) {
        if (i == 3) return rlx_token_fail(&parser->token, "more than 3 operands");
        RLX_TRY(parse_operand(parser, &operands[i]));
        RLX_TRY(rlx_parse_accept(parser, ',', &has_more));
    }
    return rlx_parse_mark(parser, ')');
}

/* f32 clip(%0) alpha=-1 beta=1 */
static rlx_status parse_instruction(rlx_parser *parser) {
    rlx_chain_instruction instruction = {0};
    int64_t words[RLX_CHAIN_WORDS];
    RLX_TRY(rlx_parse_dtype(parser, &instruction.dtype));
    RLX_TRY(rlx_parse_op(parser, &instruction.op));
    RLX_TRY(parse_operands(parser, instruction.operands));
    while (parser->token.kind == RLX_TOKEN_NAME) {
        bool is_alpha = rlx_parse_at_word(parser, "alpha");
        if (!is_alpha && !rlx_parse_at_word(parser, "beta"))
            return rlx_parse_expected(parser, "alpha, beta, ',' or ']'");
        RLX_TRY(rlx_parse_advance(parser));
        RLX_TRY(rlx_parse_mark(parser, '='));
        RLX_TRY(rlx_parse_f64(parser, is_alpha ? &instruction.alpha : &instruction.beta));
    }
    rlx_chain_encode(&instruction, words);
    for (uint32_t i = 0; i < RLX_CHAIN_WORDS; i++)
        RLX_TRY(rlx_vec_push(parser->allocator, &parser->items, words[i]));
    return RLX_OK;
}

/* Instructions, or the raw words as integers. */
static rlx_status parse_code(rlx_parser *parser) {
    bool has_more = true;
    rlx_lexer lexer = parser->lexer;
    rlx_token bracket = parser->token;
    RLX_TRY(rlx_parse_mark(parser, '['));
    if (parser->token.kind != RLX_TOKEN_NAME) {
        parser->lexer = lexer;
        parser->token = bracket;
        return parse_ints(parser, RLX_TEXT_MAX_LIST);
    }
    parser->items.count = 0;
    while (has_more && !rlx_parse_at_mark(parser, ']')) {
        if (parser->items.count > RLX_TEXT_MAX_LIST - RLX_CHAIN_WORDS)
            return rlx_token_fail(&parser->token, "more than %d words of code", RLX_TEXT_MAX_LIST);
        RLX_TRY(parse_instruction(parser));
        RLX_TRY(rlx_parse_accept(parser, ',', &has_more));
    }
    return rlx_parse_mark(parser, ']');
}

static rlx_status parse_bool(rlx_parser *parser, bool *out_value) {
    bool is_true = rlx_parse_at_word(parser, "true");
    if (!is_true && !rlx_parse_at_word(parser, "false"))
        return rlx_parse_expected(parser, "true or false");
    *out_value = is_true;
    return rlx_parse_advance(parser);
}

static rlx_status parse_enum(rlx_parser *parser, const rlx_field *field, void *at) {
    uint32_t count = 0;
    const char *const *names = rlx_field_names(field->kind, &count);
    char list[160] = "";
    for (uint32_t i = 0; i < count; i++) {
        if (rlx_parse_at_word(parser, names[i])) {
            memcpy(at, &i, sizeof i);
            return rlx_parse_advance(parser);
        }
        size_t used = strlen(list), length = strlen(names[i]);
        if (used + length + 3 > sizeof list) continue;
        memcpy(list + used, i > 0 ? ", " : "", i > 0 ? 3 : 1);
        memcpy(list + strlen(list), names[i], length + 1);
    }
    return rlx_parse_expected(parser, list);
}

static rlx_status parse_ints_field(rlx_parser *parser, rlx_ints *ints) {
    RLX_TRY(parse_ints(parser, RLX_MAX_INTS));
    ints->count = parser->items.count;
    if (ints->count > 0) memcpy(ints->items, parser->items.items, ints->count * sizeof(int64_t));
    return RLX_OK;
}

static rlx_status parse_field(rlx_parser *parser, const rlx_field *field, void *at) {
    switch (field->kind) {
    case RLX_FIELD_BOOL:
        return parse_bool(parser, at);
    case RLX_FIELD_I64:
        return rlx_parse_i64(parser, at);
    case RLX_FIELD_F64:
        return rlx_parse_f64(parser, at);
    case RLX_FIELD_DTYPE:
        return rlx_parse_dtype(parser, at);
    case RLX_FIELD_OP:
        return rlx_parse_op(parser, at);
    case RLX_FIELD_AUTO_PAD:
    case RLX_FIELD_PAD_MODE:
    case RLX_FIELD_SCATTER_MODE:
    case RLX_FIELD_DIRECTION:
    case RLX_FIELD_GATE:
    case RLX_FIELD_LAYOUT:
    case RLX_FIELD_COMBINE:
        return parse_enum(parser, field, at);
    case RLX_FIELD_INTS:
        return parse_ints_field(parser, at);
    case RLX_FIELD_LIST:
        RLX_TRY(strcmp(field->name, "code") == 0 ? parse_code(parser)
                                                 : parse_ints(parser, RLX_TEXT_MAX_LIST));
        return keep_list(parser, at);
    }
    return RLX_FAIL(RLX_INTERNAL, "field '%s' has no known kind", field->name);
}

/* An attribute that the op does not have. */
static rlx_status unknown_field(rlx_parser *parser, const rlx_op_info *info) {
    char shown[64], list[256] = "none";
    size_t used = 0;
    for (uint32_t i = 0; i < info->field_count; i++) {
        size_t length = strlen(info->fields[i].name);
        if (strncmp(info->fields[i].name, "has_", 4) == 0) continue;
        if (used + length + 3 > sizeof list) break;
        if (used > 0) {
            memcpy(list + used, ", ", 2);
            used += 2;
        }
        memcpy(list + used, info->fields[i].name, length + 1);
        used += length;
    }
    return rlx_token_fail(&parser->token, "%s has no attribute %s; it has: %s", info->name,
                          rlx_token_show(&parser->token, shown, sizeof shown), list);
}

static rlx_status find_field(rlx_parser *parser, const rlx_op_info *info, uint32_t *out_index) {
    for (uint32_t i = 0; i < info->field_count; i++) {
        if (strncmp(info->fields[i].name, "has_", 4) == 0) continue;
        if (rlx_parse_at_word(parser, info->fields[i].name)) {
            *out_index = i;
            return RLX_OK;
        }
    }
    return unknown_field(parser, info);
}

/* Sets has_X when X was given. */
static void set_partner(const rlx_op_info *info, const char *name, unsigned char *attrs) {
    for (uint32_t i = 0; i < info->field_count; i++) {
        const rlx_field *field = &info->fields[i];
        if (strncmp(field->name, "has_", 4) == 0 && strcmp(field->name + 4, name) == 0)
            *(bool *)(void *)(attrs + field->offset) = true;
    }
}

rlx_status rlx_parse_attrs(rlx_parser *parser, rlx_op op, rlx_attrs_buffer *attrs) {
    const rlx_op_info *info = rlx_op_info_of(op);
    uint64_t seen = 0;
    if (info == NULL || info->attrs_bytes > sizeof attrs->bytes || info->field_count > 64)
        return RLX_FAIL(RLX_INTERNAL, "op %d has no usable attribute table", (int)op);
    memset(attrs, 0, sizeof *attrs);
    while (parser->token.kind == RLX_TOKEN_NAME) {
        rlx_token token = parser->token;
        uint32_t index = 0;
        RLX_TRY(find_field(parser, info, &index));
        const rlx_field *field = &info->fields[index];
        if ((seen >> index) & 1) return rlx_token_fail(&token, "%s is given twice", field->name);
        seen |= UINT64_C(1) << index;
        RLX_TRY(rlx_parse_advance(parser));
        RLX_TRY(rlx_parse_mark(parser, '='));
        RLX_TRY(parse_field(parser, field, attrs->bytes + field->offset));
        set_partner(info, field->name, attrs->bytes);
    }
    return RLX_OK;
}
