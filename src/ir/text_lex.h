/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of the text form. A token is a span of the text, never a copy. */
#ifndef RLX_IR_TEXT_LEX_H
#define RLX_IR_TEXT_LEX_H

#include "ir/text.h"

typedef enum rlx_token_kind {
    RLX_TOKEN_END,
    RLX_TOKEN_NEWLINE, /* only outside ( ) and [ ] */
    RLX_TOKEN_NAME,
    RLX_TOKEN_STRING, /* the span is what stands between the quotes, escapes as written */
    RLX_TOKEN_NUMBER, /* begins like a number; rlx_number_read decides */
    RLX_TOKEN_MARK    /* one of ( ) [ ] { } , = : ? $ or <= */
} rlx_token_kind;

typedef struct rlx_token {
    rlx_token_kind kind;
    char mark; /* of a mark; '<' stands for <= */
    uint32_t line, column;
    const char *text;
    size_t length;
} rlx_token;

typedef struct rlx_lexer {
    const char *at, *end, *line_start;
    uint32_t line;
    uint32_t depth; /* open ( and [ */
} rlx_lexer;

void rlx_lexer_start(rlx_lexer *lexer, const char *text, uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_lexer_next(rlx_lexer *lexer, rlx_token *out_token);

/* Whether a name stands without quotes. */
bool rlx_name_is_bare(const char *name);
/* Words that begin a statement or a part of one; a name like that is written in quotes. */
bool rlx_name_is_keyword(const char *text, size_t length);

/* The bytes that a name or string token means, zero-terminated in a buffer that is reused. */
typedef struct rlx_token_text {
    const rlx_allocator *allocator;
    RLX_VEC(char) bytes;
} rlx_token_text;
RLX_WARN_UNUSED rlx_status rlx_token_decode(const rlx_token *token, rlx_token_text *buffer,
                                            const char **out_text);
void rlx_token_text_free(rlx_token_text *buffer);

/* RLX_PARSE: "line 3, column 7: ..." with detail.line set; returns the status. */
rlx_status rlx_token_fail(const rlx_token *token, const char *format, ...) RLX_PRINTF(2, 3);
/* "'matmull'", "end of line", "end of text": for messages. Returns `buffer`. */
const char *rlx_token_show(const rlx_token *token, char *buffer, size_t bytes);

#endif
