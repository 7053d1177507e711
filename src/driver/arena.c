/* SPDX-License-Identifier: Apache-2.0 */
/* Arena queries, raw segment access, and copies inside an arena and to its twin: everything but the
 * typed reads and writes (arena_io.c). Works on any implementation of the contract. */
#include "driver/arena.h"
#include "driver/arena_slot.h"

#include <string.h>

const rlx_plan *rlx_arena_plan(const rlx_arena *arena) {
    return arena != NULL ? arena->plan : NULL;
}

void rlx_arena_destroy(rlx_arena *arena) {
    if (arena != NULL) arena->ops->destroy(arena);
}

bool rlx_arena_find(const rlx_arena *arena, uint32_t slot, rlx_arena_slot *out_slot) {
    const rlx_plan *plan;
    const rlx_plan_slot *row;
    uint32_t segment;
    if (arena == NULL || slot >= arena->plan->slots.count) return false;
    plan = arena->plan;
    row = &plan->slots.items[slot];
    if (row->buffer >= plan->buffers.count) return false;
    segment = plan->buffers.items[row->buffer].segment;
    if (segment >= RLX_SEGMENT_COUNT || !arena->is_present[segment]) return false;
    out_slot->row = row;
    out_slot->segment = (rlx_segment)segment;
    out_slot->offset = rlx_plan_slot_offset(plan, row);
    out_slot->block_elements = rlx_dtype_block_elements(row->dtype);
    out_slot->block_bytes = rlx_dtype_block_bytes(row->dtype);
    out_slot->elements = 1;
    for (uint32_t i = 0; i < row->rank; i++)
        out_slot->elements *= (uint64_t)row->dims[i];
    out_slot->bytes = (out_slot->elements + out_slot->block_elements - 1) /
                      out_slot->block_elements * out_slot->block_bytes;
    if (row->layout != RLX_LAYOUT_PLAIN) {
        out_slot->bytes = plan->buffers.items[row->buffer].bytes - row->byte_offset;
    }
    return true;
}

bool rlx_arena_has_slot(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    return rlx_arena_find(arena, slot, &found);
}

/* Where a segment starts in the one offset space. SOURCE is there only while a program is made, and
 * then without tiles. */
static uint64_t segment_start(const rlx_arena *arena, rlx_segment segment) {
    uint64_t start = 0;
    for (uint32_t i = 0; i < (uint32_t)segment; i++)
        start += arena->bytes[i];
    return start;
}

uint64_t rlx_arena_offset(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    if (!rlx_arena_find(arena, slot, &found)) return RLX_NO_OFFSET;
    return segment_start(arena, found.segment) + found.offset;
}

uint64_t rlx_arena_element_offset(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    uint64_t offset;
    if (!rlx_arena_find(arena, slot, &found)) return RLX_NO_OFFSET;
    offset = segment_start(arena, found.segment) + found.offset;
    if (offset % found.block_bytes != 0) return RLX_NO_OFFSET;
    return offset / found.block_bytes * found.block_elements;
}

uint64_t rlx_arena_slot_bytes(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    return rlx_arena_find(arena, slot, &found) ? found.bytes : 0;
}

uint64_t rlx_arena_slot_elements(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    return rlx_arena_find(arena, slot, &found) ? found.elements : 0;
}

uint64_t rlx_arena_bytes(const rlx_arena *arena) {
    return arena == NULL
               ? 0
               : segment_start(arena, RLX_SEGMENT_COUNT) - arena->bytes[RLX_SEGMENT_SOURCE];
}

uint64_t rlx_arena_segment_bytes(const rlx_arena *arena, rlx_segment segment) {
    if (arena == NULL || (uint32_t)segment >= RLX_SEGMENT_COUNT) return 0;
    return arena->bytes[segment];
}

void *rlx_arena_address(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    if (!rlx_arena_find(arena, slot, &found) || arena->address[found.segment] == NULL) return NULL;
    return (uint8_t *)arena->address[found.segment] + found.offset;
}

void *rlx_arena_copy_address(const rlx_arena *arena, uint32_t slot) {
    rlx_arena_slot found;
    uint8_t *first;
    if (!rlx_arena_find(arena, slot, &found)) return NULL;
    first = arena->address[found.segment];
    if (first == NULL) first = arena->stand_in[found.segment];
    return first == NULL ? NULL : first + found.offset;
}

rlx_tensor rlx_arena_tensor(const rlx_arena *arena, uint32_t slot) {
    static max_align_t nothing; /* where empty tensors point: never followed */
    rlx_arena_slot found;
    rlx_tensor tensor = {0};
    if (!rlx_arena_find(arena, slot, &found)) return tensor;
    tensor = rlx_plan_tensor(found.row);
    tensor.data = rlx_arena_address(arena, slot);
    if (tensor.data == NULL && arena->bytes[found.segment] == 0) tensor.data = &nothing;
    return tensor;
}

rlx_status rlx_arena_check_device(const rlx_arena *arena) {
    if (arena == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "arena is NULL");
    if (atomic_load_explicit(&arena->pending, memory_order_acquire) != 0) {
        return RLX_FAIL(RLX_BUSY, "the device is working on this arena: wait for it first");
    }
    return RLX_OK;
}

static rlx_status fail_held(const rlx_arena_hold *hold) {
    rlx_status status =
        RLX_FAIL(RLX_BUSY, "a copy is filling %" PRIu64 " bytes at %" PRIu64 " of segment %u",
                 hold->bytes, hold->offset, (unsigned)hold->segment);
    rlx_error_detail_edit()->offset = hold->offset;
    rlx_error_detail_edit()->bytes = hold->bytes;
    return status;
}

rlx_status rlx_arena_check_idle(const rlx_arena *arena) {
    RLX_TRY(rlx_arena_check_device(arena));
    return arena->holds == NULL ? RLX_OK : fail_held(arena->holds);
}

rlx_status rlx_arena_check_range(const rlx_arena *arena, rlx_segment segment, uint64_t offset,
                                 uint64_t bytes) {
    RLX_TRY(rlx_arena_check_device(arena));
    for (const rlx_arena_hold *hold = arena->holds; hold != NULL; hold = hold->next) {
        /* Ranges of one segment: neither end wraps. */
        if (hold->segment == segment && offset < hold->offset + hold->bytes &&
            hold->offset < offset + bytes) {
            return fail_held(hold);
        }
    }
    return RLX_OK;
}

rlx_arena_range rlx_arena_slot_range(const rlx_arena_slot *slot) {
    int64_t low = 0, high = 0;
    if (slot->row->layout != RLX_LAYOUT_PLAIN ||
        rlx_plan_slot_span(slot->row, &low, &high) != RLX_OK) {
        return (rlx_arena_range){slot->segment, slot->offset, slot->bytes};
    }
    return (rlx_arena_range){slot->segment, slot->offset + (uint64_t)low, (uint64_t)(high - low)};
}

void rlx_arena_hold_slot(rlx_arena *arena, uint32_t slot, rlx_arena_hold *hold) {
    rlx_arena_slot found;
    rlx_arena_range range;
    if (!rlx_arena_find(arena, slot, &found)) return;
    rlx_arena_let_go(arena, hold);
    range = rlx_arena_slot_range(&found);
    *hold = (rlx_arena_hold){arena->holds, range.segment, range.offset, range.bytes};
    arena->holds = hold;
}

void rlx_arena_let_go(rlx_arena *arena, rlx_arena_hold *hold) {
    rlx_arena_hold **at = &arena->holds;
    while (*at != NULL && *at != hold) {
        at = &(*at)->next;
    }
    if (*at != NULL) *at = hold->next;
}

static rlx_status check_segment(const rlx_arena *arena, rlx_segment segment, uint64_t offset,
                                uint64_t bytes) {
    rlx_status status;
    RLX_TRY(rlx_arena_check_device(arena));
    if ((uint32_t)segment >= RLX_SEGMENT_COUNT || !arena->is_present[segment]) {
        return RLX_FAIL(RLX_NOT_FOUND, "no segment %u", (unsigned)segment);
    }
    /* Subtract rather than add: offset + bytes may wrap. */
    if (bytes <= arena->bytes[segment] && offset <= arena->bytes[segment] - bytes) {
        return rlx_arena_check_range(arena, segment, offset, bytes);
    }
    status =
        RLX_FAIL(RLX_OUT_OF_BOUNDS, "offset %" PRIu64 " + bytes %" PRIu64 " > segment %" PRIu64,
                 offset, bytes, arena->bytes[segment]);
    rlx_error_detail_edit()->offset = offset;
    rlx_error_detail_edit()->bytes = bytes;
    rlx_error_detail_edit()->limit = arena->bytes[segment];
    return status;
}

rlx_status rlx_arena_read_segment(rlx_arena *arena, rlx_segment segment, uint64_t offset,
                                  void *destination, uint64_t bytes) {
    RLX_TRY(check_segment(arena, segment, offset, bytes));
    if (bytes == 0) return RLX_OK;
    return arena->ops->read(arena, segment, offset, destination, bytes);
}

rlx_status rlx_arena_write_segment(rlx_arena *arena, rlx_segment segment, uint64_t offset,
                                   const void *source, uint64_t bytes) {
    RLX_TRY(check_segment(arena, segment, offset, bytes));
    if (bytes == 0) return RLX_OK;
    return arena->ops->write(arena, segment, offset, source, bytes);
}

rlx_status rlx_arena_fill(rlx_arena *arena, rlx_segment segment, uint64_t offset, uint64_t bytes,
                          uint8_t value) {
    RLX_TRY(check_segment(arena, segment, offset, bytes));
    if (bytes == 0) return RLX_OK;
    return arena->ops->fill(arena, segment, offset, bytes, value);
}
