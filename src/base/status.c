/* SPDX-License-Identifier: Apache-2.0 */
/* The error record of a thread: one fixed text and the facts behind it. Allocates nothing, so that
 * running out of memory can be reported too. Knows nothing of who fails or why. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local rlx_error_record record;

static const char *const status_texts[] = {
#define RLX_STATUS(name, text) text,
#include <rlx/status.def>
#undef RLX_STATUS
};

const char *rlx_status_text(rlx_status status) {
    if ((unsigned)status >= RLX_STATUS_COUNT) return "unknown status";
    return status_texts[status];
}

const char *rlx_last_error(void) {
    return record.text;
}

const rlx_error_detail *rlx_last_error_detail(void) {
    return &record.detail;
}

rlx_error_detail *rlx_error_detail_edit(void) {
    return &record.detail;
}

/* Formats into `out`; a text that does not fit ends in "...". */
static void format_text(char out[RLX_ERROR_TEXT_BYTES], const char *format, va_list arguments) {
    int length = vsnprintf(out, RLX_ERROR_TEXT_BYTES, format, arguments);
    if (length < 0) out[0] = '\0';
    if (length >= RLX_ERROR_TEXT_BYTES) memcpy(out + RLX_ERROR_TEXT_BYTES - 4, "...", 4);
}

static void format_args(char out[RLX_ERROR_TEXT_BYTES], const char *format, ...) RLX_PRINTF(2, 3);
static void format_args(char out[RLX_ERROR_TEXT_BYTES], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    format_text(out, format, arguments);
    va_end(arguments);
}

rlx_status rlx_fail(rlx_status status, const char *format, ...) {
    /* Formatted aside: an argument may point into the record itself. */
    char text[RLX_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    format_text(text, format, arguments);
    va_end(arguments);

    RLX_ASSERT(status != RLX_OK);
    record.detail = (rlx_error_detail){0};
    memcpy(record.text, text, strlen(text) + 1);
    return status;
}

rlx_status rlx_fail_context(rlx_status status, const char *format, ...) {
    char context[RLX_ERROR_TEXT_BYTES];
    char text[RLX_ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    format_text(context, format, arguments);
    va_end(arguments);

    RLX_ASSERT(status != RLX_OK);
    format_args(text, "%s: %s", context, record.text);
    memcpy(record.text, text, strlen(text) + 1);
    return status;
}

void rlx_error_save(rlx_error_record *out_record) {
    *out_record = record;
}

void rlx_error_restore(const rlx_error_record *saved) {
    record = *saved;
}
