/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: how a value lies in memory when it does not lie in strides. A layout belongs to the type
 * of a value and to its slot. It is a row of rlx/layouts.def: an order of loops over axes and
 * blocks of axes, so that sizes, offsets and their inverse are one piece of code for all rows. A
 * packed value has no views and no extents, and its elements have blocks of 1 (no 4-bit and block
 * types).
 */
#ifndef RLX_IR_LAYOUT_H
#define RLX_IR_LAYOUT_H

#include "base/status.h"
#include "ir/tensor.h"

/* "columns16", or "?" for a number that is no layout. */
const char *rlx_layout_name(rlx_layout layout);
/* Names of all layouts in the order of their numbers. */
const char *const *rlx_layout_names(uint32_t *out_count);

enum { RLX_LAYOUT_LOOPS = RLX_MAX_RANK + 4 };

/* One loop: index[axis] / divisor % count of it, `stride` elements apart. */
typedef struct rlx_layout_loop {
    uint32_t axis;
    int64_t divisor, count, stride;
} rlx_layout_loop;

/* A layout with given dims: the loops from the outermost to the innermost. */
typedef struct rlx_layout_map {
    uint32_t rank, loop_count;
    int64_t dims[RLX_MAX_RANK];
    int64_t elements; /* with padding */
    rlx_layout_loop loops[RLX_LAYOUT_LOOPS];
} rlx_layout_map;

/* RLX_UNSUPPORTED: no such layout, or not for this rank; RLX_OUT_OF_BOUNDS: it would have more than
 * 2^63 elements. */
RLX_WARN_UNUSED rlx_status rlx_layout_map_make(rlx_layout layout, uint32_t rank,
                                               const int64_t *dims, rlx_layout_map *out_map);
/* The map of a tensor, packed or with strides (then `elements` is without meaning). The plan has
 * settled that there is one. */
rlx_layout_map rlx_layout_map_of(const rlx_tensor *tensor);
/* Bytes of a packed value. */
RLX_WARN_UNUSED rlx_status rlx_layout_bytes(rlx_layout layout, rlx_dtype dtype, uint32_t rank,
                                            const int64_t *dims, uint64_t *out_bytes);

/* Where an element lies, in elements from the first. */
static inline int64_t rlx_layout_offset(const rlx_layout_map *map, const int64_t *index) {
    int64_t offset = 0;
    for (uint32_t i = 0; i < map->loop_count; i++) {
        const rlx_layout_loop *loop = &map->loops[i];
        offset += index[loop->axis] / loop->divisor % loop->count * loop->stride;
    }
    return offset;
}
/* Which element lies at an offset of a packed tensor; false: padding. */
bool rlx_layout_index(const rlx_layout_map *map, int64_t offset, int64_t *out_index);

/* Whether an op takes this input in this layout. Every kernel of the op, the scalar one first, then
 * takes it; shape rules say what the output has. Plain is always taken. */
bool rlx_layout_is_taken(rlx_op op, uint32_t input, rlx_layout layout);

#endif
