/* SPDX-License-Identifier: Apache-2.0 */
/* The growing text buffer of printers; doubles its room, remembers the first failure. */
#include "base/text.h"
#include "base/size.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_CAPACITY = 256 };

/* Makes room for `more` bytes and the terminating zero; false once the text has failed. */
static bool reserve(rlx_text *text, size_t more) {
    uint64_t needed, capacity = (uint64_t)text->capacity * 2;
    char *data = NULL;
    if (text->status != RLX_OK) return false;
    if (text->capacity != 0 && more < text->capacity - text->length) return true;
    if (!rlx_add_u64(text->length, more, &needed) || !rlx_add_u64(needed, 1, &needed)) {
        text->status = RLX_OUT_OF_MEMORY;
        return false;
    }
    if (capacity < FIRST_CAPACITY) capacity = FIRST_CAPACITY;
    if (capacity < needed) capacity = needed;
    text->status = rlx_alloc(text->allocator, capacity, (void **)&data);
    if (text->status != RLX_OK) return false;
    if (text->length != 0) memcpy(data, text->data, text->length);
    data[text->length] = '\0';
    rlx_free(text->allocator, text->data);
    text->data = data;
    text->capacity = (size_t)capacity;
    return true;
}

void rlx_text_append(rlx_text *text, const char *data, size_t length) {
    if (!reserve(text, length)) return;
    if (length != 0) memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void rlx_text_printf(rlx_text *text, const char *format, ...) {
    va_list arguments;
    int length;
    if (!reserve(text, 0)) return;
    va_start(arguments, format);
    length = vsnprintf(text->data + text->length, text->capacity - text->length, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length >= text->capacity - text->length) {
        text->data[text->length] = '\0'; /* take back the cut text */
        if (!reserve(text, (size_t)length)) return;
        va_start(arguments, format);
        length =
            vsnprintf(text->data + text->length, text->capacity - text->length, format, arguments);
        va_end(arguments);
    }
    if (length < 0) {
        text->data[text->length] = '\0';
        text->status = RLX_INTERNAL;
        return;
    }
    text->length += (size_t)length;
}

rlx_status rlx_text_finish(rlx_text *text, char **out_string) {
    rlx_status status;
    size_t length = text->length;
    (void)reserve(text, 0); /* an empty text is "" */
    status = text->status;
    if (status == RLX_OK) {
        *out_string = text->data;
        text->data = NULL;
    }
    rlx_text_free(text);
    /* Other calls may have failed since, so the record is written here and not where it broke. */
    if (status == RLX_OUT_OF_MEMORY) {
        return RLX_FAIL(status, "out of memory: a text of more than %zu bytes", length);
    }
    return status == RLX_OK
               ? RLX_OK
               : RLX_FAIL(status, "a text cannot be formatted after %zu bytes", length);
}

void rlx_text_free(rlx_text *text) {
    const rlx_allocator *allocator = text->allocator;
    rlx_free(allocator, text->data);
    *text = (rlx_text){.allocator = allocator};
}

void rlx_string_free(const rlx_allocator *allocator, char *text) {
    rlx_free(allocator, text);
}
