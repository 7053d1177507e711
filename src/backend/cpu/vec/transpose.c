/* SPDX-License-Identifier: Apache-2.0 */
/* The one copy of the transposes of transpose.h. */
#include "backend/cpu/vec/transpose.h"

void VEC_SYMBOL(transpose)(int64_t unit, uint8_t *to, int64_t into, const uint8_t *from,
                           int64_t out_of, int64_t rows, int64_t cols, bool streams) {
    vec_transpose(unit, to, into, from, out_of, rows, cols, streams);
}
