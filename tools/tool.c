/* SPDX-License-Identifier: Apache-2.0 */
/* Messages and texts for the verbs. */
#include "tool.h"

#include "progress.h"
#include "signals.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int tool_exit_code(rlx_status status) {
    switch (status) {
    case RLX_OK:
        return TOOL_OK;
    case RLX_UNSUPPORTED:
        return TOOL_UNSUPPORTED;
    case RLX_DOES_NOT_FIT:
        return TOOL_DOES_NOT_FIT;
    case RLX_DIFFERS:
        return TOOL_DIFFERS;
    case RLX_CANCELLED:
        return TOOL_INTERRUPTED;
    default:
        return TOOL_FAILED;
    }
}

/* What the library says of a model that it cannot run: a line per node, of any number. An error
 * text has an end. */
static const char unsupported[] = "unsupported: ";
static char *node_lines;
static size_t node_bytes;

static void keep_line(const char *message) {
    size_t bytes = strlen(message) + 4;
    char *grown = realloc(node_lines, node_bytes + bytes);
    if (grown == NULL) return;
    node_bytes += (size_t)snprintf(grown + node_bytes, bytes, "\n  %s", message);
    node_lines = grown;
}

static char own_error[1024]; /* what tool_error wrote; "": the library failed */

rlx_status tool_error(rlx_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(own_error, sizeof own_error, format, arguments);
    va_end(arguments);
    return status;
}

/* Text from files may hold bytes that a terminal obeys. */
static void print_clean(FILE *out, const char *text) {
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;
        fputc((c < 0x20 && c != '\n') || c == 0x7F ? '?' : c, out);
    }
}

int tool_fail(const char *verb, rlx_status status) {
    const char *text = own_error[0] != 0 ? own_error : rlx_last_error();
    tool_progress_end();
    if (status == RLX_CANCELLED && tool_was_interrupted()) {
        fprintf(stderr, "rlx %s: interrupted\n", verb);
        return tool_interrupt_code();
    }
    fprintf(stderr, "rlx %s: ", verb);
    size_t length = strlen(text);
    bool is_cut = length >= 3 && strcmp(text + length - 3, "...") == 0;
    if (status == RLX_UNSUPPORTED && is_cut && node_lines != NULL) {
        fprintf(stderr, "%.*s", (int)strcspn(text, "\n"), text);
        text = node_lines;
    }
    print_clean(stderr, text[0] == 0 ? rlx_status_text(status) : text);
    fputc('\n', stderr);
    return tool_exit_code(status);
}

static void print_log(void *user, rlx_log_level level, const char *message) {
    static const char *const names[] = {"error", "warning", "info", "debug", "trace"};
    (void)user;
    if (strncmp(message, unsupported, sizeof unsupported - 1) == 0) {
        keep_line(message + sizeof unsupported - 1); /* tool_fail prints it */
        return;
    }
    fprintf(stderr, "rlx: %s: ", names[level]);
    print_clean(stderr, message);
    fputc('\n', stderr);
}

void tool_log(const tool_common *common) {
    rlx_env_settings settings;
    rlx_log_level level = RLX_LOG_WARN;
    if (rlx_env_options(&settings) == RLX_OK) level = settings.log_level;
    if (common->verbose && level < RLX_LOG_INFO) level = RLX_LOG_INFO;
    if (common->quiet) level = RLX_LOG_ERROR;
    rlx_log_set(print_log, NULL, level);
    tool_progress_allow(!common->quiet);
}

/* Bytes of the UTF-8 character at `text`; 0 when it is none. */
static size_t character_bytes(const unsigned char *text) {
    size_t bytes = text[0] < 0x80   ? 1
                   : text[0] < 0xC2 ? 0
                   : text[0] < 0xE0 ? 2
                   : text[0] < 0xF0 ? 3
                   : text[0] < 0xF5 ? 4
                                    : 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80) return 0;
    }
    if (text[0] == 0xE0 && text[1] < 0xA0) return 0;  /* too long for what it says */
    if (text[0] == 0xED && text[1] >= 0xA0) return 0; /* half of a pair */
    if (text[0] == 0xF0 && text[1] < 0x90) return 0;
    if (text[0] == 0xF4 && text[1] >= 0x90) return 0; /* past the last */
    return bytes;
}

void tool_json_text(FILE *out, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    fputc('"', out);
    while (*at != 0) {
        size_t bytes = character_bytes(at);
        if (*at == '"' || *at == '\\') {
            fprintf(out, "\\%c", *at);
        } else if (*at < 0x20) {
            fprintf(out, "\\u%04x", *at);
        } else if (bytes == 0) {
            fputs("\\ufffd", out);
        } else {
            fwrite(at, 1, bytes, out);
        }
        at += bytes == 0 ? 1 : bytes;
    }
    fputc('"', out);
}

/* A few buffers in turn, so that one printf can hold several texts. */
enum { TURNS = 8, TURN_BYTES = 256 };
static char *next_buffer(void) {
    static char buffers[TURNS][TURN_BYTES];
    static unsigned turn;
    return buffers[turn++ % TURNS];
}

const char *tool_name(const char *name) {
    char *buffer = next_buffer();
    size_t at = 0;
    for (const char *c = name; *c != 0 && at < TURN_BYTES - 1; c++) {
        unsigned char byte = (unsigned char)*c;
        buffer[at++] = (char)(byte < 0x20 || byte == 0x7F ? '?' : *c);
    }
    buffer[at] = 0;
    return buffer;
}

const char *tool_bytes(uint64_t bytes) {
    char *buffer = next_buffer();
    if (bytes < 10000) {
        snprintf(buffer, TURN_BYTES, "%" PRIu64 " B", bytes);
    } else if (bytes < 1000000) {
        snprintf(buffer, TURN_BYTES, "%.1f kB", (double)bytes / 1e3);
    } else if (bytes < 1000000000) {
        snprintf(buffer, TURN_BYTES, "%.2f MB", (double)bytes / 1e6);
    } else {
        snprintf(buffer, TURN_BYTES, "%.2f GB", (double)bytes / 1e9);
    }
    return buffer;
}

const char *tool_type(const rlx_graph *graph, rlx_dtype dtype, const rlx_shape *shape) {
    char *buffer = next_buffer();
    size_t at = (size_t)snprintf(buffer, TURN_BYTES, "%s[", rlx_dtype_name(dtype));
    for (uint32_t i = 0; i < shape->rank && at < TURN_BYTES - 64; i++) {
        const char *comma = i == 0 ? "" : ", ";
        const char *symbol = rlx_graph_dim_symbol(graph, shape->dims[i]);
        if (symbol != NULL) {
            at += (size_t)snprintf(buffer + at, TURN_BYTES - at, "%s%.40s", comma, symbol);
        } else {
            at +=
                (size_t)snprintf(buffer + at, TURN_BYTES - at, "%s%" PRId64, comma, shape->dims[i]);
        }
    }
    snprintf(buffer + at, TURN_BYTES - at, "]");
    return buffer;
}
