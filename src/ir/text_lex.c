/* SPDX-License-Identifier: Apache-2.0 */
/* The lexer of the text form: one pass, no copies, no recursion. Knows characters, not graphs. */
#include "ir/text_lex.h"

#include <stdarg.h>
#include <stdio.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool begins_name(char c) {
    return is_letter(c) || c == '_' || c == '%';
}

static bool continues_name(char c) {
    return begins_name(c) || is_digit(c) || c == '.' || c == '/' || c == ':' || c == '-';
}

static bool continues_number(char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '+' || c == '-';
}

bool rlx_name_is_keyword(const char *text, size_t length) {
    static const char *const words[] = {"rlx",    "symbol", "input", "param", "const", "state",
                                        "output", "yield",  "as",    "else",  "_"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0) return true;
    }
    return false;
}

bool rlx_name_is_bare(const char *name) {
    size_t length = strlen(name);
    if (length == 0 || !begins_name(name[0]) || name[length - 1] == ':') return false;
    for (size_t i = 1; i < length; i++) {
        if (!continues_name(name[i])) return false;
    }
    return !rlx_name_is_keyword(name, length);
}

void rlx_lexer_start(rlx_lexer *lexer, const char *text, uint64_t bytes) {
    *lexer = (rlx_lexer){.at = text, .end = text + bytes, .line_start = text, .line = 1};
}

/* Blanks, comments, and newlines inside brackets. */
static void skip_blank(rlx_lexer *lexer) {
    while (lexer->at < lexer->end) {
        char c = *lexer->at;
        if (c == '#') {
            const char *newline = memchr(lexer->at, '\n', (size_t)(lexer->end - lexer->at));
            lexer->at = newline != NULL ? newline : lexer->end;
        } else if (c == '\n' && lexer->depth > 0) {
            lexer->line_start = ++lexer->at;
            lexer->line++;
        } else if (c == ' ' || c == '\t' || c == '\r') {
            lexer->at++;
        } else {
            return;
        }
    }
}

static void take_while(rlx_lexer *lexer, rlx_token *token, bool (*accepts)(char)) {
    const char *at = lexer->at;
    while (at < lexer->end && accepts(*at))
        at++;
    /* "x:" is a name and a colon, "x:0" is a name. */
    if (token->kind == RLX_TOKEN_NAME) {
        while (at > lexer->at + 1 && at[-1] == ':')
            at--;
    }
    token->length = (size_t)(at - lexer->at);
    lexer->at = at;
}

static rlx_status take_string(rlx_lexer *lexer, rlx_token *token) {
    const char *at = lexer->at + 1;
    while (at < lexer->end && *at != '"' && *at != '\n') {
        at += *at == '\\' && at + 1 < lexer->end && at[1] != '\n' ? 2 : 1;
    }
    if (at >= lexer->end || *at != '"')
        return rlx_token_fail(token, "this string has no closing '\"' on its line");
    token->text = lexer->at + 1;
    token->length = (size_t)(at - token->text);
    lexer->at = at + 1;
    return RLX_OK;
}

static rlx_status take_mark(rlx_lexer *lexer, rlx_token *token) {
    char c = *lexer->at;
    bool is_bound = c == '<' && lexer->end - lexer->at > 1 && lexer->at[1] == '=';
    if (c == 0 || (strchr("()[]{},=:?$", c) == NULL && !is_bound)) {
        if (c >= ' ' && c <= '~') return rlx_token_fail(token, "unexpected character '%c'", c);
        return rlx_token_fail(token, "unexpected byte 0x%02x", (unsigned)(unsigned char)c);
    }
    if (c == '(' || c == '[') lexer->depth++;
    if ((c == ')' || c == ']') && lexer->depth > 0) lexer->depth--;
    token->mark = c;
    token->length = is_bound ? 2 : 1;
    lexer->at += token->length;
    return RLX_OK;
}

rlx_status rlx_lexer_next(rlx_lexer *lexer, rlx_token *out_token) {
    skip_blank(lexer);
    rlx_token token = {.line = lexer->line,
                       .column = (uint32_t)(lexer->at - lexer->line_start) + 1,
                       .text = lexer->at};
    if (lexer->at == lexer->end) {
        token.kind = RLX_TOKEN_END;
    } else if (*lexer->at == '\n') {
        token.kind = RLX_TOKEN_NEWLINE;
        lexer->line_start = ++lexer->at;
        lexer->line++;
    } else if (begins_name(*lexer->at)) {
        token.kind = RLX_TOKEN_NAME;
        take_while(lexer, &token, continues_name);
    } else if (is_digit(*lexer->at) || strchr("+-.", *lexer->at) != NULL) {
        if (*lexer->at == 0) return rlx_token_fail(&token, "unexpected byte 0x00");
        token.kind = RLX_TOKEN_NUMBER;
        take_while(lexer, &token, continues_number);
    } else if (*lexer->at == '"') {
        token.kind = RLX_TOKEN_STRING;
        RLX_TRY(take_string(lexer, &token));
    } else {
        token.kind = RLX_TOKEN_MARK;
        RLX_TRY(take_mark(lexer, &token));
    }
    *out_token = token;
    return RLX_OK;
}

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

/* One escape at text[*at] == '\\'; 0 is never a result. */
static rlx_status decode_escape(const rlx_token *token, size_t *at, char *out) {
    const char *text = token->text + *at;
    size_t left = token->length - *at;
    char c = left > 1 ? text[1] : 0;
    *at += 2;
    if (c == 'n' || c == '"' || c == '\\') {
        *out = c == 'n' ? '\n' : c;
        return RLX_OK;
    }
    if (c != 'x' || left < 4 || hex_digit(text[2]) < 0 || hex_digit(text[3]) < 0)
        return rlx_token_fail(token, "unknown escape in a string; there are \\\" \\\\ \\n \\xNN");
    *at += 2;
    *out = (char)(hex_digit(text[2]) * 16 + hex_digit(text[3]));
    if (*out == 0) return rlx_token_fail(token, "a string must not contain \\x00");
    return RLX_OK;
}

rlx_status rlx_token_decode(const rlx_token *token, rlx_token_text *buffer, const char **out_text) {
    if (token->length > RLX_TEXT_MAX_NAME)
        return rlx_token_fail(token, "a name of %zu bytes; at most %d", token->length,
                              RLX_TEXT_MAX_NAME);
    buffer->bytes.count = 0;
    RLX_TRY(rlx_vec_reserve(buffer->allocator, &buffer->bytes, (uint32_t)token->length + 1));
    for (size_t i = 0; i < token->length;) {
        char c = token->text[i];
        if (token->kind == RLX_TOKEN_STRING && c == '\\') {
            RLX_TRY(decode_escape(token, &i, &c));
        } else if (c == 0) {
            return rlx_token_fail(token, "a string must not contain a zero byte");
        } else {
            i++;
        }
        buffer->bytes.items[buffer->bytes.count++] = c;
    }
    buffer->bytes.items[buffer->bytes.count] = 0;
    *out_text = buffer->bytes.items;
    return RLX_OK;
}

void rlx_token_text_free(rlx_token_text *buffer) {
    rlx_vec_free(buffer->allocator, &buffer->bytes);
}

rlx_status rlx_token_fail(const rlx_token *token, const char *format, ...) {
    char fact[512];
    va_list list;
    va_start(list, format);
    vsnprintf(fact, sizeof fact, format, list);
    va_end(list);
    rlx_status status =
        rlx_fail(RLX_PARSE, "line %u, column %u: %s", token->line, token->column, fact);
    rlx_error_detail_edit()->line = token->line;
    return status;
}

const char *rlx_token_show(const rlx_token *token, char *buffer, size_t bytes) {
    if (token->kind == RLX_TOKEN_END) return "the end of the text";
    if (token->kind == RLX_TOKEN_NEWLINE) return "the end of the line";
    size_t length = token->length > 40 ? 40 : token->length;
    char part[48];
    for (size_t i = 0; i < length; i++) {
        char c = token->text[i];
        part[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    snprintf(buffer, bytes, "'%.*s%s'", (int)length, part, length < token->length ? "..." : "");
    return buffer;
}
