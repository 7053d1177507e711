/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the printer that its files share. */
#ifndef RLX_IR_TEXT_PRINT_H
#define RLX_IR_TEXT_PRINT_H

#include "ir/text.h"

typedef struct rlx_printer {
    const rlx_graph *graph;
    uint32_t flags;
    rlx_text text;
} rlx_printer;

void rlx_print_name(rlx_text *text, const char *name);
/* A value's name, "_" for RLX_NONE. */
void rlx_print_value_name(rlx_printer *printer, rlx_value_id value);
void rlx_print_list(rlx_printer *printer, const int64_t *items, uint32_t count);
/* " name=value" for each attribute that is not at its default. */
void rlx_print_attrs(rlx_printer *printer, rlx_op op, const void *attrs);
/* "f32[1, S, n<=8]". */
void rlx_print_type(rlx_printer *printer, const rlx_type *type);
/* "[1, 2.5]", or hex("..") for block types. */
void rlx_print_data(rlx_printer *printer, const rlx_type *type, const void *data, uint64_t bytes);

#endif
