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

static bool live_together(const rlx_place_item *a, const rlx_place_item *b) {
    return a->lower < b->upper && b->lower < a->upper;
}

/* The end of everything that stood below an item and still does. */
static rlx_status end_below(const rlx_block_items *self, const ordered *order, uint32_t at,
                            uint64_t *out_end) {
    const rlx_place_item *item = &self->items[order[at].item];
    *out_end = self->first;
    for (uint32_t i = 0; i < at; i++) {
        const rlx_place_item *below = &self->items[order[i].item];
        uint64_t end;
        if (below->bytes == 0 || !(self->is_shared_by_none || live_together(item, below))) continue;
        if (!rlx_add_u64(self->offsets[order[i].item], below->bytes, &end) ||
            !rlx_align_u64(end, self->alignment, &end)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
        if (end > *out_end) *out_end = end;
    }
    return RLX_OK;
}

rlx_status rlx_blocks_keep(const rlx_block_items *self, rlx_scratch *scratch, uint64_t *peak) {
    ordered *order = NULL;
    uint64_t highest = self->first;
    if (self->block_bytes == 0 || *peak <= self->block_bytes) return RLX_OK;
    RLX_TRY(rlx_scratch_array(scratch, self->count + 1u, sizeof *order, (void **)&order));
    for (uint32_t i = 0; i < self->count; i++)
        order[i] = (ordered){self->offsets[i], i};
    qsort(order, self->count, sizeof *order, by_offset);
    for (uint32_t i = 0; i < self->count; i++) {
        const rlx_place_item *item = &self->items[order[i].item];
        uint64_t *offset = &self->offsets[order[i].item];
        if (item->bytes == 0) continue;
        RLX_TRY(end_below(self, order, i, offset));
        RLX_TRY(rlx_blocks_fit(self->block_bytes, item->bytes, offset));
        if (*offset + item->bytes > highest) highest = *offset + item->bytes;
    }
    *peak = highest;
    return RLX_OK;
}
