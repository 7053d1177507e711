/* SPDX-License-Identifier: Apache-2.0 */
/* The growing half of RLX_VEC: doubles the room and moves the items. */
#include "base/vec.h"
#include "base/size.h"

enum { FIRST_CAPACITY = 8 };

/* One less than uint32_t holds, so that count + 1 of a full vec never wraps to 0. */
static const uint32_t most_items = UINT32_MAX - 1;

rlx_status rlx_vec_grow(const rlx_allocator *allocator, void **items, uint32_t *capacity,
                        uint32_t used, uint32_t count, size_t item_bytes) {
    void *old_items, *new_items = NULL;
    uint64_t room = (uint64_t)*capacity * 2, bytes;
    if (room < FIRST_CAPACITY) room = FIRST_CAPACITY;
    if (room < count) room = count;
    if (room > most_items) room = most_items;
    if (count > most_items || !rlx_mul_u64(room, item_bytes, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_MEMORY,
                        "out of memory: a list of %" PRIu32 " items of %zu bytes", count,
                        item_bytes);
    }
    RLX_TRY_WITH(rlx_alloc(allocator, bytes, &new_items),
                 "a list of %" PRIu32 " items of %zu bytes", count, item_bytes);
    /* *items is a pointer to some other type: move it by bytes, not as a void pointer. */
    memcpy(&old_items, items, sizeof old_items);
    if (used != 0) memcpy(new_items, old_items, used * item_bytes);
    rlx_free(allocator, old_items);
    memcpy(items, &new_items, sizeof new_items);
    *capacity = (uint32_t)room;
    return RLX_OK;
}
