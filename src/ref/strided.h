/* SPDX-License-Identifier: Apache-2.0 */
/* Walking strided memory in row-major order: what every movement kernel is made of. A walk moves
 * whole units: elements of 1, 2, 4 or 8 bytes, nibbles of 4-bit types, blocks of block types. It
 * finds the longest runs itself (adjacent dims merge), so plain tensors move by memcpy. */
#ifndef RLX_REF_STRIDED_H
#define RLX_REF_STRIDED_H

#include "ref/kernel.h"

/* Twice, because a tile sees every axis as (repeats, dim). */
enum { RLX_WALK_RANK = 2 * RLX_MAX_RANK };

/* About how many units one work item of a movement kernel moves; part of no result. */
enum { RLX_MOVE_CHUNK = 4096 };

/* A place in strided memory. `at` counts within the merged dims, of which there is at least one. */
typedef struct rlx_walk {
    uint8_t *data;
    rlx_dtype dtype;
    uint32_t unit_bytes; /* 0: nibbles */
    uint32_t rank;
    int64_t base, offset; /* in units: of the first and of the current one */
    int64_t dims[RLX_WALK_RANK], strides[RLX_WALK_RANK], at[RLX_WALK_RANK];
} rlx_walk;

/* How many elements make a unit: the block of a block type, 1 otherwise. */
int64_t rlx_unit_elements(rlx_dtype dtype);
/* Bytes of a unit; 0 for 4-bit types. */
uint32_t rlx_unit_bytes(rlx_dtype dtype);
/* Two items may write into one byte: the kernel has to be one item. */
static inline bool rlx_unit_is_nibble(rlx_dtype dtype) {
    return rlx_unit_bytes(dtype) == 0;
}

/* Over `rank` dims from element `offset` of `data`; dims, strides and offset in elements. Of block
 * types the last dim is whole blocks of stride 1 and the rest are multiples of a block. */
void rlx_walk_init(rlx_walk *walk, rlx_dtype dtype, const void *data, int64_t offset, uint32_t rank,
                   const int64_t *dims, const int64_t *strides);
/* To the unit with this number in row-major order. The walk must not be empty. */
void rlx_walk_seek(rlx_walk *walk, int64_t index);
/* Back to the first unit, which now lies at `base`. */
static inline void rlx_walk_restart(rlx_walk *walk, int64_t base) {
    walk->base = walk->offset = base;
    for (uint32_t i = 0; i < walk->rank; i++)
        walk->at[i] = 0;
}
/* Units left in the innermost dim; `count` of advance is at most that. */
static inline int64_t rlx_walk_run(const rlx_walk *walk) {
    return walk->dims[walk->rank - 1] - walk->at[walk->rank - 1];
}
void rlx_walk_advance(rlx_walk *walk, int64_t count);
/* One unit further; the common case is short. */
static inline void rlx_walk_step(rlx_walk *walk) {
    uint32_t last = walk->rank - 1;
    if (walk->at[last] + 1 < walk->dims[last]) {
        walk->at[last]++;
        walk->offset += walk->strides[last];
    } else {
        rlx_walk_advance(walk, 1);
    }
}

/* The next `count` units of `from` to the next of `to`: same unit size. */
void rlx_walk_copy(rlx_walk *to, rlx_walk *from, int64_t count);
/* The same between float types, round to nearest even; `from` may also be a block type. */
void rlx_walk_convert(rlx_walk *to, rlx_walk *from, int64_t count);
/* `count` times unit number `offset` of `unit` (same unit size, no blocks). */
void rlx_walk_fill(rlx_walk *to, const void *unit, int64_t offset, int64_t count);

/* An element of an i32 or i64 tensor. */
static inline int64_t rlx_index_at(rlx_dtype dtype, const void *data, int64_t offset) {
    if (dtype == RLX_DTYPE_I64) {
        int64_t value;
        __builtin_memcpy(&value, (const uint8_t *)data + 8 * offset, sizeof value);
        return value;
    }
    int32_t value;
    __builtin_memcpy(&value, (const uint8_t *)data + 4 * offset, sizeof value);
    return value;
}

/* Makes a negative index count from the end; outside [0, dim) raises the fault and gives -1. */
static inline int64_t rlx_index_check(const rlx_kernel_args *args, int64_t index, int64_t dim) {
    int64_t place = index < 0 ? index + dim : index;
    if (place >= 0 && place < dim) return place;
    rlx_fault_raise(args, RLX_FAULT_INDEX, index);
    return -1;
}

/* Product of dims. */
static inline int64_t rlx_dims_product(const int64_t *dims, uint32_t count) {
    int64_t product = 1;
    for (uint32_t i = 0; i < count; i++)
        product *= dims[i];
    return product;
}

static inline uint32_t rlx_axis_of(int64_t axis, uint32_t rank) {
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}

/* How many rows of `row_units` units go into one work item, and how many items `rows` rows make.
 * Nibbles make one item whatever the size. */
static inline int64_t rlx_rows_per_item(int64_t row_units) {
    return row_units >= RLX_MOVE_CHUNK ? 1 : RLX_MOVE_CHUNK / (row_units > 0 ? row_units : 1);
}
static inline int64_t rlx_row_items(rlx_dtype dtype, int64_t rows, int64_t row_units) {
    int64_t per_item = rlx_rows_per_item(row_units);
    if (rows <= 0 || row_units <= 0) return 0;
    return rlx_unit_is_nibble(dtype) ? 1 : (rows - 1) / per_item + 1;
}
/* The rows [*first, *last) of items [begin, end). */
static inline void rlx_item_rows(rlx_dtype dtype, int64_t rows, int64_t row_units, int64_t begin,
                                 int64_t end, int64_t *first, int64_t *last) {
    int64_t per_item = rlx_unit_is_nibble(dtype) ? rows : rlx_rows_per_item(row_units);
    *first = begin * per_item;
    *last = end * per_item < rows ? end * per_item : rows;
}

#endif
