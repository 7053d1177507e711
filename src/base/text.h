/* SPDX-License-Identifier: Apache-2.0 */
/* A growing text buffer for printers. An allocation failure sticks: later appends do nothing and
 * rlx_text_finish reports it, so printers need no check per line. */
#ifndef RLX_BASE_TEXT_H
#define RLX_BASE_TEXT_H

#include "base/alloc.h"

typedef struct rlx_text {
    const rlx_allocator *allocator; /* borrowed; NULL: default */
    char *data;                     /* owned, zero-terminated once anything was appended */
    size_t length, capacity;
    rlx_status status;
} rlx_text;

void rlx_text_printf(rlx_text *text, const char *format, ...) RLX_PRINTF(2, 3);
void rlx_text_append(rlx_text *text, const char *data, size_t length);
/* Hands the text over as an owned, zero-terminated string (rlx_free) and empties `text`. */
RLX_WARN_UNUSED rlx_status rlx_text_finish(rlx_text *text, char **out_string);
void rlx_text_free(rlx_text *text);

#endif
