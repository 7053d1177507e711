/* SPDX-License-Identifier: Apache-2.0 */
/* Formats a message and hands it to the one callback; without a callback the library is silent. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A longer message is cut with "...". */
enum { MESSAGE_BYTES = 1024 };

static struct {
    rlx_log_fn callback;
    void *user;
    rlx_log_level level;
} sink;

void rlx_log_set(rlx_log_fn callback, void *user, rlx_log_level level) {
    sink.callback = callback;
    sink.user = user;
    sink.level = level;
}

bool rlx_log_wants(rlx_log_level level) {
    return sink.callback != NULL && level <= sink.level;
}

void rlx_log(rlx_log_level level, const char *format, ...) {
    char message[MESSAGE_BYTES];
    va_list arguments;
    int length;
    if (!rlx_log_wants(level)) return;
    va_start(arguments, format);
    length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    if (length >= MESSAGE_BYTES) memcpy(message + MESSAGE_BYTES - 4, "...", 4);
    sink.callback(sink.user, level, message);
}
