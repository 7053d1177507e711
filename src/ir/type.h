/* SPDX-License-Identifier: Apache-2.0 */
/* The type of a tensor on either side of the plan: dtype, shape, and which dims are known only at
 * run time. */
#ifndef RLX_IR_TYPE_H
#define RLX_IR_TYPE_H

#include "base/status.h"

#include <rlx/value.h>

struct rlx_graph;

/* dtype + shape + extents: what a shape rule reads and writes. An extent is the i64 scalar value
 * that holds the true size of a dim at run time (at most the dim); RLX_NONE where the dim is exact.
 */
typedef struct rlx_type {
    rlx_dtype dtype;
    rlx_layout layout; /* not plain: a temporary without extents that few ops take */
    rlx_shape shape;
    rlx_value_id extents[RLX_MAX_RANK];
} rlx_type;

/* Every dim is a number >= 0. */
bool rlx_shape_is_known(const rlx_shape *shape);
bool rlx_shape_equal(const rlx_shape *a, const rlx_shape *b);
/* Elements of a known shape, overflow-checked (RLX_OUT_OF_BOUNDS). */
RLX_WARN_UNUSED rlx_status rlx_shape_elements(const rlx_shape *shape, uint64_t *out_elements);
/* Bytes of a value of this type in its layout, rows of block types whole. */
RLX_WARN_UNUSED rlx_status rlx_type_bytes(const rlx_type *type, uint64_t *out_bytes);
/* "f32[1, 3, S]" into a caller's buffer, for messages; `graph` names the symbols and
 * may be NULL. Returns `buffer`. */
const char *rlx_type_text(const struct rlx_graph *graph, const rlx_type *type, char *buffer,
                          size_t bytes);
rlx_type rlx_type_make(rlx_dtype dtype, const int64_t *dims, uint32_t rank); /* no extents */

#endif
