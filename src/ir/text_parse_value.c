/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing declarations: types, data that stands in the text, and sources of parameters. What is
 * allocated for data is bounded by the text that is left. */
#include "ir/text_parse.h"

#include "base/size.h"

static rlx_status parse_symbol(rlx_parser *parser, const rlx_token *token, int64_t *out_dim) {
    char shown[64];
    const char *name;
    RLX_TRY(rlx_token_decode(token, &parser->name, &name));
    /* Few symbols: a scan is enough, and rlx_graph_symbol would make a new one. */
    for (uint32_t i = 0; i < parser->graph->symbols.count; i++) {
        if (strcmp(parser->graph->symbols.items[i], name) == 0) {
            *out_dim = rlx_symbol_dim(i);
            return RLX_OK;
        }
    }
    return rlx_token_fail(token, "unknown symbol %s; declare it before: symbol %s",
                          rlx_token_show(token, shown, sizeof shown), name);
}

static rlx_status parse_size(rlx_parser *parser, int64_t *out_dim) {
    rlx_token token = parser->token;
    RLX_TRY(rlx_parse_i64(parser, out_dim));
    if (*out_dim < 0)
        return rlx_token_fail(&token, "a dim must not be negative, got %" PRId64, *out_dim);
    return RLX_OK;
}

/* 12, S, ?, or with an extent n<=12. */
static rlx_status parse_dim(rlx_parser *parser, int64_t *out_dim, rlx_value_id *out_extent) {
    bool has_extent;
    if (parser->token.kind == RLX_TOKEN_NUMBER) return parse_size(parser, out_dim);
    if (rlx_parse_at_mark(parser, '?')) {
        *out_dim = RLX_DIM_UNKNOWN;
        return rlx_parse_advance(parser);
    }
    rlx_token token = parser->token;
    if (token.kind != RLX_TOKEN_NAME && token.kind != RLX_TOKEN_STRING)
        return rlx_parse_expected(parser, "a dim: a number, a symbol or '?'");
    rlx_lexer lexer = parser->lexer;
    RLX_TRY(rlx_parse_advance(parser));
    RLX_TRY(rlx_parse_accept(parser, '<', &has_extent));
    if (!has_extent) return parse_symbol(parser, &token, out_dim);
    parser->lexer = lexer; /* back to the name, which is a value's */
    parser->token = token;
    RLX_TRY(rlx_parse_value(parser, out_extent));
    RLX_TRY(rlx_parse_mark(parser, '<'));
    return parser->token.kind == RLX_TOKEN_NUMBER
               ? parse_size(parser, out_dim)
               : rlx_parse_expected(parser, "the bound of an extent: a number");
}

static rlx_status parse_type(rlx_parser *parser, rlx_type *out_type) {
    rlx_type type = {0};
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++)
        type.extents[i] = RLX_NONE;
    RLX_TRY(rlx_parse_dtype(parser, &type.dtype));
    RLX_TRY(rlx_parse_mark(parser, '['));
    while (!rlx_parse_at_mark(parser, ']')) {
        if (type.shape.rank > 0) RLX_TRY(rlx_parse_mark(parser, ','));
        if (type.shape.rank == RLX_MAX_RANK)
            return rlx_token_fail(&parser->token, "more than %d dims", RLX_MAX_RANK);
        RLX_TRY(
            parse_dim(parser, &type.shape.dims[type.shape.rank], &type.extents[type.shape.rank]));
        type.shape.rank++;
    }
    *out_type = type;
    return rlx_parse_advance(parser);
}

/* Elements and bytes of data that stands in the text. */
static rlx_status known_size(const rlx_token *token, const rlx_type *type, uint64_t *out_elements,
                             uint64_t *out_bytes) {
    if (!rlx_shape_is_known(&type->shape))
        return rlx_token_fail(token, "a value with data needs a shape of numbers");
    rlx_status status = rlx_shape_elements(&type->shape, out_elements);
    if (status == RLX_OK) status = rlx_type_bytes(type, out_bytes);
    return status == RLX_OK ? RLX_OK : rlx_parse_context(token, status);
}

static rlx_status parse_element(rlx_parser *parser, rlx_dtype dtype, void *data, uint64_t index) {
    rlx_number number;
    char shown[64];
    rlx_token *token = &parser->token;
    if ((token->kind != RLX_TOKEN_NUMBER && token->kind != RLX_TOKEN_NAME) ||
        !rlx_number_read(token->text, token->length, &number))
        return rlx_parse_expected(parser, "a number");
    if (!rlx_number_store(&number, dtype, data, (int64_t)index))
        return rlx_token_fail(token, "%s does not fit %s",
                              rlx_token_show(token, shown, sizeof shown), rlx_dtype_name(dtype));
    return rlx_parse_advance(parser);
}

static rlx_status parse_elements(rlx_parser *parser, const rlx_token *start, rlx_dtype dtype,
                                 uint64_t count, void *data) {
    bool has_more = count > 0;
    uint64_t index = 0;
    if (!rlx_parse_at_mark(parser, '[')) { /* a scalar may stand without brackets */
        if (count != 1) return rlx_parse_expected(parser, "'['");
        return parse_element(parser, dtype, data, 0);
    }
    RLX_TRY(rlx_parse_advance(parser));
    for (; has_more && index < count && !rlx_parse_at_mark(parser, ']'); index++) {
        RLX_TRY(parse_element(parser, dtype, data, index));
        RLX_TRY(rlx_parse_accept(parser, ',', &has_more));
    }
    if (index < count && rlx_parse_at_mark(parser, ']'))
        return rlx_token_fail(start, "expected %" PRIu64 " elements, got %" PRIu64, count, index);
    if (index == count && has_more && !rlx_parse_at_mark(parser, ']'))
        return rlx_token_fail(start, "expected %" PRIu64 " elements, got more", count);
    return rlx_parse_mark(parser, ']');
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* hex("00ff") */
static rlx_status parse_hex(rlx_parser *parser, uint64_t bytes, uint8_t *data) {
    RLX_TRY(rlx_parse_advance(parser));
    RLX_TRY(rlx_parse_mark(parser, '('));
    const rlx_token *token = &parser->token;
    if (token->kind != RLX_TOKEN_STRING)
        return rlx_parse_expected(parser, "a string of hex digits");
    if (token->length / 2 != bytes || token->length % 2 != 0)
        return rlx_token_fail(token,
                              "expected %" PRIu64 " bytes as two hex digits each, got %zu digits",
                              bytes, token->length);
    for (uint64_t i = 0; i < bytes; i++) {
        int high = hex_digit(token->text[2 * i]), low = hex_digit(token->text[2 * i + 1]);
        if (high < 0 || low < 0)
            return rlx_token_fail(token, "byte %" PRIu64 " is not two hex digits", i);
        data[i] = (uint8_t)(high * 16 + low);
    }
    RLX_TRY(rlx_parse_advance(parser));
    return rlx_parse_mark(parser, ')');
}

/* Data into memory that the caller frees with the parser's scratch. */
static rlx_status parse_data(rlx_parser *parser, const rlx_type *type, rlx_scratch *memory,
                             void **out_data, uint64_t *out_bytes) {
    rlx_token start = parser->token;
    uint64_t count = 0, bytes = 0, left = (uint64_t)(parser->lexer.end - start.text);
    void *data = NULL;
    RLX_TRY(known_size(&start, type, &count, &bytes));
    bool is_hex = rlx_parse_at_word(parser, "hex");
    if (!is_hex && rlx_dtype_block_elements(type->dtype) > 2)
        return rlx_token_fail(&start, "data of %s is written as hex(\"..\")",
                              rlx_dtype_name(type->dtype));
    /* Each element or byte takes two characters, so a short text cannot ask for much memory. */
    if (is_hex ? bytes > left / 2 : count > left / 2 + 1)
        return rlx_token_fail(&start, "expected %" PRIu64 " %s, the text ends before",
                              is_hex ? bytes : count, is_hex ? "bytes" : "elements");
    RLX_TRY(rlx_scratch_alloc(memory, bytes > 0 ? bytes : 1, &data));
    RLX_TRY(is_hex ? parse_hex(parser, bytes, data)
                   : parse_elements(parser, &start, type->dtype, count, data));
    *out_data = data;
    *out_bytes = bytes;
    return RLX_OK;
}

/* seeded(7, 0.02) or seeded(7, 0.02, 1) */
static rlx_status parse_seeded(rlx_parser *parser, rlx_source *source) {
    bool has_mean;
    source->kind = RLX_SOURCE_SEEDED;
    RLX_TRY(rlx_parse_u64(parser, &source->seed));
    RLX_TRY(rlx_parse_mark(parser, ','));
    RLX_TRY(rlx_parse_f64(parser, &source->scale));
    RLX_TRY(rlx_parse_accept(parser, ',', &has_mean));
    if (has_mean) RLX_TRY(rlx_parse_f64(parser, &source->mean));
    return RLX_OK;
}

/* npy("w.npy") or file("u.bin", 128) */
static rlx_status parse_reference(rlx_parser *parser, const rlx_token *start, bool is_npy,
                                  rlx_text_reference *reference) {
    uint64_t elements = 0;
    reference->is_npy = is_npy;
    RLX_TRY(known_size(start, reference->type, &elements, &reference->bytes));
    if (parser->token.kind != RLX_TOKEN_STRING)
        return rlx_parse_expected(parser, "a path in quotes");
    RLX_TRY(rlx_token_decode(&parser->token, &parser->path, &reference->path));
    if (reference->path[0] == 0) return rlx_token_fail(&parser->token, "the path is empty");
    RLX_TRY(rlx_parse_advance(parser));
    if (is_npy) return RLX_OK;
    RLX_TRY(rlx_parse_mark(parser, ','));
    return rlx_parse_u64(parser, &reference->offset);
}

static rlx_status resolve(rlx_parser *parser, const rlx_token *start,
                          const rlx_text_reference *reference, rlx_source *source) {
    if (parser->resolver != NULL) {
        rlx_status status = parser->resolver->resolve(parser->resolver->user, reference, source);
        return status == RLX_OK ? RLX_OK : rlx_parse_context(start, status);
    }
    if (reference->is_npy)
        return rlx_token_fail(start, "npy(\"%s\") can only be read as part of a .rlx file",
                              reference->path);
    source->kind = RLX_SOURCE_FILE;
    source->path = reference->path;
    source->offset = reference->offset;
    source->bytes = reference->bytes;
    return RLX_OK;
}

static rlx_status parse_source(rlx_parser *parser, const char *name, const rlx_type *type,
                               rlx_source *source) {
    rlx_token start = parser->token;
    rlx_text_reference reference = {.name = name, .type = type};
    bool is_npy = rlx_parse_at_word(parser, "npy"), is_file = rlx_parse_at_word(parser, "file");
    bool is_seeded = rlx_parse_at_word(parser, "seeded");
    if (!is_npy && !is_file && !is_seeded) {
        void *data = NULL;
        if (!rlx_parse_at_mark(parser, '[') && !rlx_parse_at_word(parser, "hex"))
            return rlx_parse_expected(parser, "npy(), file(), seeded(), hex() or [..]");
        /* The graph's own memory: the source borrows it as long as the graph lives. */
        RLX_TRY(parse_data(parser, type, &parser->graph->memory, &data, &source->bytes));
        source->kind = RLX_SOURCE_MEMORY;
        source->memory = data;
        return RLX_OK;
    }
    RLX_TRY(rlx_parse_advance(parser));
    RLX_TRY(rlx_parse_mark(parser, '('));
    if (is_seeded) {
        RLX_TRY(parse_seeded(parser, source));
    } else {
        RLX_TRY(parse_reference(parser, &start, is_npy, &reference));
        RLX_TRY(resolve(parser, &start, &reference, source));
    }
    return rlx_parse_mark(parser, ')');
}

static rlx_status add_parameter(rlx_parser *parser, const char *name, const rlx_type *type,
                                rlx_value_id *out_value) {
    rlx_source source = {0};
    bool has_source;
    RLX_TRY(rlx_parse_accept(parser, '=', &has_source));
    if (has_source) RLX_TRY(parse_source(parser, name, type, &source));
    return rlx_graph_add_parameter(parser->graph, name, type->dtype, type->shape, &source,
                                   out_value);
}

static rlx_status add_constant(rlx_parser *parser, const char *name, const rlx_type *type,
                               rlx_value_id *out_value) {
    rlx_scratch memory = {.allocator = parser->allocator};
    void *data = NULL;
    uint64_t bytes = 0;
    RLX_TRY(rlx_parse_mark(parser, '='));
    rlx_status status = parse_data(parser, type, &memory, &data, &bytes);
    if (status == RLX_OK)
        status = rlx_graph_add_constant(parser->graph, name, type->dtype, type->shape, data, bytes,
                                        out_value);
    rlx_scratch_reset(&memory);
    return status;
}

static rlx_status add_value(rlx_parser *parser, rlx_value_kind kind, const char *name,
                            const rlx_type *type, rlx_value_id *out_value) {
    rlx_graph *graph = parser->graph;
    switch (kind) {
    case RLX_VALUE_INPUT:
        return rlx_graph_add_input(graph, name, type->dtype, type->shape, out_value);
    case RLX_VALUE_STATE:
        return rlx_graph_add_state(graph, name, type->dtype, type->shape, out_value);
    case RLX_VALUE_CONSTANT:
        return add_constant(parser, name, type, out_value);
    case RLX_VALUE_PARAMETER:
        return add_parameter(parser, name, type, out_value);
    case RLX_VALUE_TEMPORARY:
        break;
    }
    return RLX_FAIL(RLX_INTERNAL, "no declaration of kind %d", (int)kind);
}

rlx_status rlx_parse_declaration(rlx_parser *parser, rlx_value_kind kind) {
    rlx_token token;
    rlx_type type;
    const char *name;
    rlx_value_id value = RLX_NONE;
    RLX_TRY(rlx_parse_name_token(parser, "a name", &token));
    RLX_TRY(rlx_parse_mark(parser, ':'));
    RLX_TRY(parse_type(parser, &type));
    RLX_TRY(rlx_token_decode(&token, &parser->name, &name));
    rlx_status status = add_value(parser, kind, name, &type, &value);
    if (status != RLX_OK) return rlx_parse_context(&token, status);
    memcpy(parser->graph->values.items[value].type.extents, type.extents, sizeof type.extents);
    return RLX_OK;
}
