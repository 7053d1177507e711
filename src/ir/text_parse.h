/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the parser that its files share. Every function leaves parser->token at the first token
 * that it did not use. */
#ifndef RLX_IR_TEXT_PARSE_H
#define RLX_IR_TEXT_PARSE_H

#include "ir/text_lex.h"
#include "ir/text_number.h"

/* Room for any attribute struct, aligned for all of them. */
typedef union rlx_attrs_buffer {
    int64_t align_i64;
    double align_f64;
    const void *align_pointer;
    unsigned char bytes[1024];
} rlx_attrs_buffer;

typedef struct rlx_parser {
    const rlx_allocator *allocator;
    const rlx_text_resolver *resolver; /* may be NULL */
    rlx_graph *graph;                  /* being filled; handed out on success */
    rlx_lexer lexer;
    rlx_token token;            /* the one that comes next */
    uint32_t depth;             /* of blocks */
    rlx_scratch scratch;        /* lists of attributes, until the end of the parse */
    rlx_token_text name, path;  /* decoded tokens */
    RLX_VEC(rlx_token) targets; /* stack: what stands left of "=" in the open statements */
    RLX_VEC(rlx_value_id) ids;  /* stack: inputs, yields */
    RLX_VEC(int64_t) items;     /* the list being read */
} rlx_parser;

RLX_WARN_UNUSED rlx_status rlx_parse_advance(rlx_parser *parser);
static inline bool rlx_parse_at_mark(const rlx_parser *parser, char mark) {
    return parser->token.kind == RLX_TOKEN_MARK && parser->token.mark == mark;
}
bool rlx_parse_at_word(const rlx_parser *parser, const char *word);
/* "expected X, found Y" at the current token. */
rlx_status rlx_parse_expected(const rlx_parser *parser, const char *what);
RLX_WARN_UNUSED rlx_status rlx_parse_mark(rlx_parser *parser, char mark);
/* Goes past `mark` if it comes next. */
RLX_WARN_UNUSED rlx_status rlx_parse_accept(rlx_parser *parser, char mark, bool *out_found);
/* A name token (no keyword) or a string. */
RLX_WARN_UNUSED rlx_status rlx_parse_name_token(rlx_parser *parser, const char *what,
                                                rlx_token *out_token);
RLX_WARN_UNUSED rlx_status rlx_parse_i64(rlx_parser *parser, int64_t *out_value);
RLX_WARN_UNUSED rlx_status rlx_parse_u64(rlx_parser *parser, uint64_t *out_value);
RLX_WARN_UNUSED rlx_status rlx_parse_f64(rlx_parser *parser, double *out_value);
RLX_WARN_UNUSED rlx_status rlx_parse_dtype(rlx_parser *parser, rlx_dtype *out_dtype);
RLX_WARN_UNUSED rlx_status rlx_parse_op(rlx_parser *parser, rlx_op *out_op);
/* A value that was defined before and can be seen here. */
RLX_WARN_UNUSED rlx_status rlx_parse_value(rlx_parser *parser, rlx_value_id *out_value);
/* Hands a failure of the graph on as "line 3: ...". */
rlx_status rlx_parse_context(const rlx_token *token, rlx_status status);

/* The rest of `input`, `param`, `const`, `state` after the word. */
RLX_WARN_UNUSED rlx_status rlx_parse_declaration(rlx_parser *parser, rlx_value_kind kind);
/* name=value pairs into the op's struct, which starts zeroed. */
RLX_WARN_UNUSED rlx_status rlx_parse_attrs(rlx_parser *parser, rlx_op op, rlx_attrs_buffer *attrs);

/* The name out of `names` that is nearest to text[0, length); NULL when none is near. */
const char *rlx_parse_suggest(const char *text, size_t length,
                              const char *(*name_at)(uint32_t index), uint32_t count);

#endif
