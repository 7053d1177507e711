/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device in blocks: where a driver caps one buffer, no buffer of a plan may lie across
 * the border of two blocks. Placement knows nothing of blocks; this lifts what lies across to the
 * next one and what stands above it after it, in the order of their offsets. */
#include "compile/emit.h"

#include "base/size.h"

#include <stdlib.h>

rlx_status rlx_blocks_fit(uint64_t block_bytes, uint64_t bytes, uint64_t *offset) {
    uint64_t inside;
    if (block_bytes == 0 || bytes == 0) return RLX_OK;
    if (bytes > block_bytes) {
        return RLX_FAIL(RLX_DOES_NOT_FIT,
                        "a buffer of %" PRIu64 " bytes: the device has blocks of %" PRIu64, bytes,
                        block_bytes);
    }
    inside = *offset % block_bytes;
    if (inside <= block_bytes - bytes) return RLX_OK;
    if (!rlx_add_u64(*offset, block_bytes - inside, offset)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
    }
    return RLX_OK;
}

typedef struct ordered {
    uint64_t offset;
    uint32_t item;
} ordered;

static int by_offset(const void *a, const void *b) {
    const ordered *x = a, *y = b;
    if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
    return (x->item > y->item) - (x->item < y->item);
}

/* Up to where memory is taken at each time: a tree of ranges of times, node 1 is all of them, 2n
 * and 2n + 1 are the halves of n. */
typedef struct ends {
    uint64_t *whole; /* taken during all of the node's times */
    uint64_t *most;  /* taken at any of them, by what stands in the node or below */
    uint64_t times;
} ends;

/* Of the times [lower, upper) of item and node [from, to). */
static uint64_t end_of(const ends *self, uint64_t node, uint64_t from, uint64_t to,
                       const rlx_place_item *item) {
    if (item->upper <= from || to <= item->lower) return 0;
    if (item->lower <= from && to <= item->upper) return self->most[node];
    uint64_t middle = from + (to - from) / 2, end = self->whole[node];
    uint64_t left = end_of(self, 2 * node, from, middle, item);
    uint64_t right = end_of(self, 2 * node + 1, middle, to, item);
    if (end < left) end = left;
    return end < right ? right : end;
}

static void take(const ends *self, uint64_t node, uint64_t from, uint64_t to,
                 const rlx_place_item *item, uint64_t end) {
    if (item->upper <= from || to <= item->lower) return;
    if (self->most[node] < end) self->most[node] = end;
    if (item->lower <= from && to <= item->upper) {
        if (self->whole[node] < end) self->whole[node] = end;
        return;
    }
    uint64_t middle = from + (to - from) / 2;
    take(self, 2 * node, from, middle, item, end);
    take(self, 2 * node + 1, middle, to, item, end);
}

static rlx_status make_ends(const rlx_block_items *self, rlx_scratch *scratch, ends *out) {
    uint64_t nodes = 4;
    out->times = 1;
    for (uint32_t i = 0; i < self->count && !self->is_shared_by_none; i++)
        if (self->items[i].upper > out->times) out->times = self->items[i].upper;
    if (!rlx_mul_u64(nodes, out->times, &nodes))
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "a plan of %" PRIu64 " times", out->times);
    RLX_TRY(rlx_scratch_array(scratch, nodes, sizeof *out->whole, (void **)&out->whole));
    return rlx_scratch_array(scratch, nodes, sizeof *out->most, (void **)&out->most);
}

/* Lifts one item over what stood below it and still does, and past a border. */
static rlx_status lift(const rlx_block_items *self, const ends *taken, uint32_t index,
                       uint64_t *highest) {
    static const rlx_place_item always = {.lower = 0, .upper = UINT64_MAX};
    const rlx_place_item *item = self->is_shared_by_none ? &always : &self->items[index];
    uint64_t bytes = self->items[index].bytes, end, *offset = &self->offsets[index];
    *offset = end_of(taken, 1, 0, taken->times, item);
    if (*offset < self->first) *offset = self->first;
    RLX_TRY(rlx_blocks_fit(self->block_bytes, bytes, offset));
    if (!rlx_add_u64(*offset, bytes, &end))
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
    if (end > *highest) *highest = end;
    if (!rlx_align_u64(end, self->alignment, &end))
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
    take(taken, 1, 0, taken->times, item, end);
    return RLX_OK;
}

rlx_status rlx_blocks_keep(const rlx_block_items *self, rlx_scratch *scratch, uint64_t *peak) {
    ordered *order = NULL;
    ends taken = {0};
    uint64_t highest = self->first;
    if (self->block_bytes == 0 || *peak <= self->block_bytes) return RLX_OK;
    RLX_TRY(rlx_scratch_array(scratch, self->count + 1u, sizeof *order, (void **)&order));
    for (uint32_t i = 0; i < self->count; i++)
        order[i] = (ordered){self->offsets[i], i};
    qsort(order, self->count, sizeof *order, by_offset);
    RLX_TRY(make_ends(self, scratch, &taken));
    for (uint32_t i = 0; i < self->count; i++) {
        if (self->items[order[i].item].bytes == 0) continue;
        RLX_TRY(lift(self, &taken, order[i].item, &highest));
    }
    *peak = highest;
    return RLX_OK;
}
