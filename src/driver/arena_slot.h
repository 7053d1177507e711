/* SPDX-License-Identifier: Apache-2.0 */
/* A slot of an arena with everything the wrappers keep asking about it. Shared by the arena*.c
 * files; nobody else needs it. */
#ifndef RLX_DRIVER_ARENA_SLOT_H
#define RLX_DRIVER_ARENA_SLOT_H

#include "driver/arena.h"

typedef struct rlx_arena_slot {
    const rlx_plan_slot *row;
    rlx_segment segment;
    uint64_t offset;   /* of the first element in its segment */
    uint64_t elements; /* of the whole tensor */
    uint64_t bytes;    /* of the whole tensor in logical order; packed: as they lie there */
    uint64_t block_elements, block_bytes;
} rlx_arena_slot;

/* False when the slot has no memory in this arena. */
bool rlx_arena_find(const rlx_arena *arena, uint32_t slot, rlx_arena_slot *out_slot);

/* RLX_BUSY while a device works on the arena. */
RLX_WARN_UNUSED rlx_status rlx_arena_check_device(const rlx_arena *arena);
/* RLX_BUSY also while somebody fills any part of it. */
RLX_WARN_UNUSED rlx_status rlx_arena_check_idle(const rlx_arena *arena);

/* RLX_BUSY while the device works on the arena, or somebody fills a part of these bytes. */
RLX_WARN_UNUSED rlx_status rlx_arena_check_range(const rlx_arena *arena, rlx_segment segment,
                                                 uint64_t offset, uint64_t bytes);

/* The bytes of its segment that the slot's elements lie in, holes between them included. */
typedef struct rlx_arena_range {
    rlx_segment segment;
    uint64_t offset, bytes;
} rlx_arena_range;
rlx_arena_range rlx_arena_slot_range(const rlx_arena_slot *slot);

/* `count` elements from logical element `first` on, between the arena and raw host memory that
 * holds them without gaps. Everything was checked; `first` is on a block, or the dtype has 4 bits.
 */
RLX_WARN_UNUSED rlx_status rlx_arena_move_elements(rlx_arena *arena, const rlx_arena_slot *slot,
                                                   bool to_arena, uint64_t first, uint64_t count,
                                                   uint8_t *memory);
/* Whole blocks: `first` and `count`, and the rows that they lie in. */
RLX_WARN_UNUSED rlx_status rlx_arena_check_blocks(const rlx_arena_slot *slot, const int64_t *dims,
                                                  uint64_t first, uint64_t count);

/* RLX_BUSY, RLX_NOT_FOUND; and RLX_INVALID_ARGUMENT when it shall be written but may not. */
RLX_WARN_UNUSED rlx_status rlx_arena_need(const rlx_arena *arena, uint32_t slot, bool to_write,
                                          rlx_arena_slot *out_slot);

/* Row-major without holes, whatever the dims. */
bool rlx_arena_slot_is_plain(const rlx_arena_slot *slot);

#endif
