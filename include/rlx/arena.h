/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: the memory of one executable, in which every tensor of the plan is an offset. Host
 * access to it by slot (rlx_plan_find_slot gives the slot of a name).
 *
 * Used by one thread at a time; may move between threads. A slot that is not row-major without
 * holes is read and written in logical order all the same; only packed weights show their bytes as
 * they are. Every refused call names the slot and the numbers, and has written nothing. While a
 * device works on the arena, host access is RLX_BUSY; while a ring fills slots of it (rlx/copy.h),
 * access to these. Of copies that are issued to an address the arena knows nothing. */
#ifndef RLX_ARENA_H
#define RLX_ARENA_H

#include <rlx/plan.h>

RLX_BEGIN_DECLS

typedef struct rlx_arena rlx_arena;

/* Queries. They never fail; an unknown slot has no memory. A slot of the SOURCE segment has memory
 * only while a program is created. */
RLX_API const rlx_plan *rlx_arena_plan(const rlx_arena *arena);
RLX_API bool rlx_arena_has_slot(const rlx_arena *arena, uint32_t slot);
/* Offset in the arena's one offset space [weights | state | scratch]; RLX_NO_OFFSET without slot.
 */
RLX_API uint64_t rlx_arena_offset(const rlx_arena *arena, uint32_t slot);
/* The same in elements of the slot's dtype; RLX_NO_OFFSET also where the byte offset is no whole
 * number of blocks. */
RLX_API uint64_t rlx_arena_element_offset(const rlx_arena *arena, uint32_t slot);
/* How much can be read and written: whole tensor in logical order; 0 without slot. */
RLX_API uint64_t rlx_arena_slot_bytes(const rlx_arena *arena, uint32_t slot);
RLX_API uint64_t rlx_arena_slot_elements(const rlx_arena *arena, uint32_t slot);
RLX_API uint64_t rlx_arena_bytes(const rlx_arena *arena); /* weights + state + scratch */
RLX_API uint64_t rlx_arena_segment_bytes(const rlx_arena *arena, rlx_segment segment);
/* Host address of the slot's first element; NULL without slot or where memory is not mapped. It
 * stays the same as long as the arena lives. Weights that are shared must not be written. */
RLX_API void *rlx_arena_address(const rlx_arena *arena, uint32_t slot);

/* What does not fit is cut instead of refused; the count says how much was done. */
enum { RLX_ARENA_TRUNCATE = 1 };

/* `count` elements from logical element `first` on, between host f32 and the slot's own dtype, by
 * the rules of rlx_convert_from_f32. Fewer than the slot holds is legal and leaves the rest; 0 is a
 * no-op. `out_count` (may be NULL) receives the elements done. RLX_NOT_FOUND: no such slot;
 * RLX_OUT_OF_BOUNDS: first + count past the end; RLX_INVALID_ARGUMENT: not on block boundaries, or
 * shared weights written; RLX_UNSUPPORTED: packed weights. */
RLX_CALL rlx_status rlx_arena_write_f32(rlx_arena *arena, uint32_t slot, uint64_t first,
                                        const float *source, uint64_t count, uint32_t flags,
                                        uint64_t *out_count);
RLX_CALL rlx_status rlx_arena_read_f32(rlx_arena *arena, uint32_t slot, uint64_t first,
                                       float *destination, uint64_t count, uint32_t flags,
                                       uint64_t *out_count);

/* Raw bytes of the slot's dtype in logical order, from byte `first` on. `first` and `bytes` are
 * whole blocks of the dtype unless the slot is plain. */
RLX_CALL rlx_status rlx_arena_write_bytes(rlx_arena *arena, uint32_t slot, uint64_t first,
                                          const void *source, uint64_t bytes, uint32_t flags,
                                          uint64_t *out_bytes);
RLX_CALL rlx_status rlx_arena_read_bytes(rlx_arena *arena, uint32_t slot, uint64_t first,
                                         void *destination, uint64_t bytes, uint32_t flags,
                                         uint64_t *out_bytes);

/* Copies `count` elements, counted in logical order, between two slots of one dtype. Onto itself at
 * the same place is a no-op; between row-major slots overlapping ranges behave like memmove.
 * RLX_MISMATCH: two dtypes; RLX_UNSUPPORTED: packed weights, or slots that share memory and of
 * which one has strides (which element would be read before it is written?). */
RLX_CALL rlx_status rlx_arena_copy(rlx_arena *arena, uint32_t from, uint64_t from_first,
                                   uint32_t to, uint64_t to_first, uint64_t count);

/* Copies everything into an arena of the same plan. Weights are copied where the destination owns
 * its own, and must otherwise be the very same memory (RLX_MISMATCH). */
RLX_CALL rlx_status rlx_arena_copy_to(rlx_arena *arena, rlx_arena *destination);

/* Reads `count` elements of `dtype` anywhere in the arena, `first` counted in elements of that
 * dtype from the start of the arena, whatever lies there. */
RLX_CALL rlx_status rlx_arena_read_any_f32(rlx_arena *arena, rlx_dtype dtype, uint64_t first,
                                           float *destination, uint64_t count);

RLX_END_DECLS

#endif
