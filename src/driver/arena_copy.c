/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between slots of one arena, whole-arena copies to a twin, and reads anywhere. */
#include "base/size.h"
#include "driver/arena_slot.h"
#include "ir/dtype.h"

#include <string.h>

enum { STAGE_BYTES = 16384 };

static rlx_status check_range(const rlx_arena_slot *slot, uint64_t first, uint64_t count) {
    rlx_status status;
    if (count <= slot->elements && first <= slot->elements - count) return RLX_OK;
    status = RLX_FAIL(RLX_OUT_OF_BOUNDS,
                      "slot '%s': element %" PRIu64 " + %" PRIu64 " > capacity %" PRIu64,
                      slot->row->name, first, count, slot->elements);
    rlx_error_detail_edit()->offset = first;
    rlx_error_detail_edit()->got = count;
    rlx_error_detail_edit()->limit = slot->elements;
    return status;
}

static rlx_status check_copy_slot(const rlx_arena_slot *slot, uint64_t first, uint64_t count) {
    RLX_TRY(check_range(slot, first, count));
    if (slot->row->layout != RLX_LAYOUT_PLAIN) {
        return RLX_FAIL(RLX_UNSUPPORTED, "slot '%s' is packed: no copies inside the arena",
                        slot->row->name);
    }
    return rlx_arena_check_blocks(slot, slot->row->dims, first, count);
}

static rlx_status copy_nibble(rlx_arena *arena, const rlx_arena_slot *from, uint64_t from_at,
                              const rlx_arena_slot *to, uint64_t to_at) {
    rlx_dtype dtype = from->row->dtype;
    uint8_t source = 0, target = 0;
    RLX_TRY(arena->ops->read(arena, from->segment, from->offset + from_at / 2, &source, 1));
    RLX_TRY(arena->ops->read(arena, to->segment, to->offset + to_at / 2, &target, 1));
    rlx_store_i64(dtype, &target, (int64_t)(to_at & 1),
                  rlx_load_i64(dtype, &source, (int64_t)(from_at & 1)));
    return arena->ops->write(arena, to->segment, to->offset + to_at / 2, &target, 1);
}

/* 4-bit elements one by one, in the order that keeps overlapping ranges right. */
static rlx_status copy_nibbles(rlx_arena *arena, const rlx_arena_slot *from, uint64_t from_first,
                               const rlx_arena_slot *to, uint64_t to_first, uint64_t count) {
    bool backwards =
        from->segment == to->segment && to->offset * 2 + to_first > from->offset * 2 + from_first;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t k = backwards ? count - 1 - i : i;
        RLX_TRY(copy_nibble(arena, from, from_first + k, to, to_first + k));
    }
    return RLX_OK;
}

static bool share_memory(const rlx_arena_slot *a, const rlx_arena_slot *b) {
    rlx_arena_range x = rlx_arena_slot_range(a), y = rlx_arena_slot_range(b);
    return x.segment == y.segment && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

/* In logical order through the stack; no part of the destination may be read after it was written.
 */
static rlx_status copy_strided(rlx_arena *arena, const rlx_arena_slot *from, uint64_t from_first,
                               const rlx_arena_slot *to, uint64_t to_first, uint64_t count) {
    uint8_t stage[STAGE_BYTES];
    /* Whole blocks; of every dtype at least one fits. */
    uint64_t most = STAGE_BYTES / from->block_bytes * from->block_elements;
    if (share_memory(from, to)) {
        return RLX_FAIL(RLX_UNSUPPORTED,
                        "copy '%s' -> '%s': they share memory, and one has strides",
                        from->row->name, to->row->name);
    }
    for (uint64_t done = 0; done < count;) {
        uint64_t now = count - done < most ? count - done : most;
        RLX_TRY(rlx_arena_move_elements(arena, from, false, from_first + done, now, stage));
        RLX_TRY(rlx_arena_move_elements(arena, to, true, to_first + done, now, stage));
        done += now;
    }
    return RLX_OK;
}

static rlx_status copy_plain(rlx_arena *arena, const rlx_arena_slot *from, uint64_t from_first,
                             const rlx_arena_slot *to, uint64_t to_first, uint64_t count) {
    uint64_t elements = from->block_elements, bytes = from->block_bytes;
    if (elements == 2 && (from_first | to_first | count) % 2 != 0) {
        return copy_nibbles(arena, from, from_first, to, to_first, count);
    }
    return arena->ops->copy(arena, from->segment, from->offset + from_first / elements * bytes,
                            to->segment, to->offset + to_first / elements * bytes,
                            count / elements * bytes);
}

rlx_status rlx_arena_copy(rlx_arena *arena, uint32_t from, uint64_t from_first, uint32_t to,
                          uint64_t to_first, uint64_t count) {
    rlx_arena_slot a, b;
    RLX_TRY(rlx_arena_need(arena, from, false, &a));
    RLX_TRY(rlx_arena_need(arena, to, true, &b));
    if (a.row->dtype != b.row->dtype) {
        return RLX_FAIL(RLX_MISMATCH, "copy '%s' (%s) -> '%s' (%s): two dtypes", a.row->name,
                        rlx_dtype_name(a.row->dtype), b.row->name, rlx_dtype_name(b.row->dtype));
    }
    RLX_TRY_WITH(check_copy_slot(&a, from_first, count), "copy from");
    RLX_TRY_WITH(check_copy_slot(&b, to_first, count), "copy to");
    if (count == 0 || (from == to && from_first == to_first)) return RLX_OK;
    if (rlx_arena_slot_is_plain(&a) && rlx_arena_slot_is_plain(&b)) {
        return copy_plain(arena, &a, from_first, &b, to_first, count);
    }
    return copy_strided(arena, &a, from_first, &b, to_first, count);
}

static bool same_slot(const rlx_plan *a, const rlx_plan *b, uint32_t slot) {
    const rlx_plan_slot *x = &a->slots.items[slot], *y = &b->slots.items[slot];
    return x->dtype == y->dtype && x->rank == y->rank && x->layout == y->layout &&
           a->buffers.items[x->buffer].segment == b->buffers.items[y->buffer].segment &&
           rlx_plan_slot_offset(a, x) == rlx_plan_slot_offset(b, y) &&
           memcmp(x->dims, y->dims, sizeof x->dims[0] * x->rank) == 0 &&
           memcmp(x->strides, y->strides, sizeof x->strides[0] * x->rank) == 0 &&
           strcmp(x->name, y->name) == 0;
}

/* The very plan, or one with the same slots at the same places (a program that was loaded twice).
 */
static bool same_plan(const rlx_plan *a, const rlx_plan *b) {
    if (a == b) return true;
    if (a->slots.count != b->slots.count ||
        memcmp(a->segment_bytes, b->segment_bytes, sizeof a->segment_bytes) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < a->slots.count; i++) {
        if (!same_slot(a, b, i)) return false;
    }
    return true;
}

static rlx_status copy_segment(rlx_arena *from, rlx_arena *to, rlx_segment segment) {
    uint8_t stage[STAGE_BYTES];
    uint64_t bytes = from->bytes[segment];
    if (bytes == 0) return RLX_OK;
    if (from->address[segment] != NULL) {
        return to->ops->write(to, segment, 0, from->address[segment], bytes);
    }
    for (uint64_t at = 0; at < bytes;) {
        uint64_t now = bytes - at < STAGE_BYTES ? bytes - at : STAGE_BYTES;
        RLX_TRY(from->ops->read(from, segment, at, stage, now));
        RLX_TRY(to->ops->write(to, segment, at, stage, now));
        at += now;
    }
    return RLX_OK;
}

rlx_status rlx_arena_copy_to(rlx_arena *arena, rlx_arena *destination) {
    const rlx_segment weights = RLX_SEGMENT_WEIGHTS;
    bool shares_weights;
    RLX_TRY(rlx_arena_check_idle(arena));
    RLX_TRY(rlx_arena_check_idle(destination));
    if (arena == destination) return RLX_OK;
    if (!same_plan(arena->plan, destination->plan)) {
        return RLX_FAIL(RLX_MISMATCH, "the arenas are of different plans (%u and %u slots)",
                        arena->plan->slots.count, destination->plan->slots.count);
    }
    shares_weights =
        (arena->address[weights] != NULL &&
         arena->address[weights] == destination->address[weights]) ||
        (arena->shared_weights != NULL && arena->shared_weights == destination->shared_weights);
    if (!shares_weights && !destination->is_writable[weights] && arena->bytes[weights] != 0) {
        return RLX_FAIL(RLX_MISMATCH, "the destination shares the weights of another program");
    }
    if (!shares_weights) RLX_TRY(copy_segment(arena, destination, weights));
    RLX_TRY(copy_segment(arena, destination, RLX_SEGMENT_STATE));
    return copy_segment(arena, destination, RLX_SEGMENT_SCRATCH);
}

/* What of [offset, offset + bytes) of the one offset space lies together; inside the arena. */
static rlx_arena_range first_piece(const rlx_arena *arena, uint64_t offset, uint64_t bytes) {
    uint32_t segment = 0;
    while (segment == RLX_SEGMENT_SOURCE || offset >= arena->bytes[segment]) {
        if (segment != RLX_SEGMENT_SOURCE) offset -= arena->bytes[segment];
        segment++;
    }
    uint64_t rest = arena->bytes[segment] - offset;
    return (rlx_arena_range){(rlx_segment)segment, offset, bytes < rest ? bytes : rest};
}

static rlx_status check_space(const rlx_arena *arena, uint64_t offset, uint64_t bytes) {
    while (bytes != 0) {
        rlx_arena_range piece = first_piece(arena, offset, bytes);
        RLX_TRY(rlx_arena_check_range(arena, piece.segment, piece.offset, piece.bytes));
        offset += piece.bytes;
        bytes -= piece.bytes;
    }
    return RLX_OK;
}

static rlx_status read_space(rlx_arena *arena, uint64_t offset, uint8_t *destination,
                             uint64_t bytes) {
    while (bytes != 0) {
        rlx_arena_range piece = first_piece(arena, offset, bytes);
        RLX_TRY(arena->ops->read(arena, piece.segment, piece.offset, destination, piece.bytes));
        offset += piece.bytes;
        destination += piece.bytes;
        bytes -= piece.bytes;
    }
    return RLX_OK;
}

static rlx_status check_any(const rlx_arena *arena, rlx_dtype dtype, uint64_t first,
                            uint64_t count) {
    uint64_t elements = rlx_dtype_block_elements(dtype), bytes = rlx_dtype_block_bytes(dtype);
    uint64_t end, end_bytes, limit = rlx_arena_bytes(arena);
    rlx_status status;
    if (elements == 0) return RLX_FAIL(RLX_INVALID_ARGUMENT, "%u is no dtype", (unsigned)dtype);
    if (first % elements != 0 || (elements > 2 && count % elements != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "elements %" PRIu64 " + %" PRIu64 " are not whole blocks of %" PRIu64
                        " (%s)",
                        first, count, elements, rlx_dtype_name(dtype));
    }
    if (rlx_add_u64(first, count, &end) &&
        rlx_mul_u64(end / elements + (end % elements != 0), bytes, &end_bytes) &&
        end_bytes <= limit) {
        return RLX_OK;
    }
    status = RLX_FAIL(RLX_OUT_OF_BOUNDS,
                      "%s elements %" PRIu64 " + %" PRIu64 " > arena of %" PRIu64 " bytes",
                      rlx_dtype_name(dtype), first, count, limit);
    rlx_error_detail_edit()->offset = first;
    rlx_error_detail_edit()->got = count;
    rlx_error_detail_edit()->limit = limit;
    return status;
}

rlx_status rlx_arena_read_any_f32(rlx_arena *arena, rlx_dtype dtype, uint64_t first,
                                  float *destination, uint64_t count) {
    enum { CHUNK = 1024 };
    uint8_t stage[CHUNK * 8];
    uint64_t elements, bytes;
    RLX_TRY(rlx_arena_check_device(arena));
    RLX_TRY(check_any(arena, dtype, first, count));
    if (count != 0 && destination == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "destination is NULL");
    }
    elements = rlx_dtype_block_elements(dtype);
    bytes = rlx_dtype_block_bytes(dtype);
    RLX_TRY(
        check_space(arena, first / elements * bytes, (count + elements - 1) / elements * bytes));
    for (uint64_t done = 0; done < count;) {
        uint64_t now = count - done < CHUNK ? count - done : CHUNK;
        RLX_TRY(read_space(arena, (first + done) / elements * bytes, stage,
                           (now + elements - 1) / elements * bytes));
        RLX_TRY(rlx_convert_to_f32(dtype, destination + done, stage, now));
        done += now;
    }
    return RLX_OK;
}
