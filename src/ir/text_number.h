/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text: the same characters on every machine and in every locale, and the same bits
 * when they are read back. */
#ifndef RLX_IR_TEXT_NUMBER_H
#define RLX_IR_TEXT_NUMBER_H

#include "ir/dtype.h"

#include <stddef.h>

enum { RLX_NUMBER_BYTES = 64 };

/* The shortest decimal that reads back to the same double: "2.5", "-0", "inf", "nan", "1e-05". */
void rlx_number_print_f64(double value, char out[RLX_NUMBER_BYTES]);

/* Element `index` of an array; not for block types. Shortest for the dtype; bool is true/false. */
void rlx_number_print_element(rlx_dtype dtype, const void *data, int64_t index,
                              char out[RLX_NUMBER_BYTES]);

/* A number as it was written: an integer that fits 64 bits keeps sign and magnitude. */
typedef struct rlx_number {
    double real; /* always the value, rounded */
    bool is_integer, is_negative;
    uint64_t magnitude; /* of an integer */
} rlx_number;

/* Reads all of text[0, length): an integer (decimal or 0x), a decimal or hex float, inf, nan, true
 * (1), false (0), each number with an optional sign. False when it is none of these, or a finite
 * number that no double holds. */
bool rlx_number_read(const char *text, size_t length, rlx_number *out_number);
/* False unless it is an integer in the range of the type. */
bool rlx_number_i64(const rlx_number *number, int64_t *out_value);
bool rlx_number_u64(const rlx_number *number, uint64_t *out_value);

/* Stores into element `index` of an array of a dtype that is no block type. False, and nothing is
 * stored, when the dtype cannot hold it: out of range, or a fraction in an integer. */
bool rlx_number_store(const rlx_number *number, rlx_dtype dtype, void *data, int64_t index);

#endif
