/* SPDX-License-Identifier: Apache-2.0 */
/* Typed and raw host access to slots, in logical order whatever the strides and (typed) the layout:
 * a range of logical elements is walked as runs that lie together in memory, and each run is
 * converted or copied. Everything is checked before the first byte moves. */
#include "base/size.h"
#include "driver/arena_slot.h"
#include "ir/dtype.h"
#include "ir/layout.h"

/* Elements that pass through the stack at a time where memory is not mapped; whole blocks of every
 * dtype. */
enum { CHUNK_ELEMENTS = 1024, CHUNK_BYTES = CHUNK_ELEMENTS * 8 };

/* One access: which slot, seen with which dims, from or to which host memory. */
typedef struct access {
    rlx_arena *arena;
    rlx_arena_slot slot;
    const int64_t *dims;
    bool to_arena, is_f32;
    uint8_t *host; /* f32 or raw bytes of the slot's dtype; only read when to_arena */
} access;

/* Reads and writes share one walk, so a source loses its const here and nowhere else; `to_arena`
 * says that it is only read. */
static uint8_t *only_read(const void *source) {
    union {
        const void *in;
        uint8_t *out;
    } both = {.in = source};
    return both.out;
}

static rlx_status move_bytes(const access *io, uint64_t offset, void *memory, uint64_t bytes) {
    if (io->to_arena) {
        return io->arena->ops->write(io->arena, io->slot.segment, offset, memory, bytes);
    }
    return io->arena->ops->read(io->arena, io->slot.segment, offset, memory, bytes);
}

/* One 4-bit element at an odd position, or in a run that does not start on a byte. */
static rlx_status move_nibble(const access *io, int64_t position, uint64_t done) {
    rlx_dtype dtype = io->slot.row->dtype;
    uint64_t offset = io->slot.offset + (uint64_t)(position >> 1);
    uint8_t *raw = io->host + done / 2;
    uint8_t byte = 0, one = 0;
    RLX_TRY(io->arena->ops->read(io->arena, io->slot.segment, offset, &byte, 1));
    if (!io->to_arena) {
        rlx_store_i64(dtype, &one, 0, rlx_load_i64(dtype, &byte, position & 1));
        if (io->is_f32) return rlx_convert_to_f32(dtype, (float *)io->host + done, &one, 1);
        rlx_store_i64(dtype, raw, (int64_t)(done & 1), rlx_load_i64(dtype, &one, 0));
        return RLX_OK;
    }
    if (io->is_f32) {
        RLX_TRY(rlx_convert_from_f32(dtype, &one, (const float *)io->host + done, 1));
    } else {
        rlx_store_i64(dtype, &one, 0, rlx_load_i64(dtype, raw, (int64_t)(done & 1)));
    }
    rlx_store_i64(dtype, &byte, position & 1, rlx_load_i64(dtype, &one, 0));
    return io->arena->ops->write(io->arena, io->slot.segment, offset, &byte, 1);
}

static rlx_status convert(const access *io, void *memory, uint64_t done, uint64_t count) {
    float *host = (float *)io->host + done;
    if (io->to_arena) return rlx_convert_from_f32(io->slot.row->dtype, memory, host, count);
    return rlx_convert_to_f32(io->slot.row->dtype, host, memory, count);
}

/* Where memory is not mapped, f32 passes through the stack. */
static rlx_status move_staged(const access *io, uint64_t offset, uint64_t done, uint64_t count) {
    uint64_t elements = io->slot.block_elements, bytes = io->slot.block_bytes;
    uint8_t stage[CHUNK_BYTES];
    while (count != 0) {
        uint64_t now = count < CHUNK_ELEMENTS ? count : CHUNK_ELEMENTS;
        uint64_t now_bytes = (now + elements - 1) / elements * bytes;
        /* A 4-bit write that ends inside a byte keeps the other half. */
        bool read_first = !io->to_arena || now % elements != 0;
        if (read_first) {
            RLX_TRY(io->arena->ops->read(io->arena, io->slot.segment, offset, stage, now_bytes));
        }
        RLX_TRY(convert(io, stage, done, now));
        if (io->to_arena) RLX_TRY(move_bytes(io, offset, stage, now_bytes));
        offset += now_bytes;
        done += now;
        count -= now;
    }
    return RLX_OK;
}

/* `count` elements that lie together from element `position` of the slot on; `done` elements of
 * the host side are behind us. */
static rlx_status move_run(const access *io, int64_t position, uint64_t done, uint64_t count) {
    uint64_t elements = io->slot.block_elements, bytes = io->slot.block_bytes;
    uint64_t offset;
    void *base = io->arena->address[io->slot.segment];
    while (elements == 2 && count != 0 && ((position & 1) != 0 || (!io->is_f32 && done % 2 != 0))) {
        RLX_TRY(move_nibble(io, position++, done++));
        count--;
    }
    if (elements == 2 && !io->is_f32 && count % 2 != 0) {
        RLX_TRY(move_nibble(io, position + (int64_t)count - 1, done + count - 1));
        count--;
    }
    if (count == 0) return RLX_OK;
    /* Wraps back into the segment where a negative stride led before the first element. */
    offset = io->slot.offset + (uint64_t)(position / (int64_t)elements * (int64_t)bytes);
    if (!io->is_f32) {
        return move_bytes(io, offset, io->host + done / elements * bytes, count / elements * bytes);
    }
    if (base != NULL) return convert(io, (uint8_t *)base + offset, done, count);
    return move_staged(io, offset, done, count);
}

/* How many elements lie together at the end of the dims; the dims before `out_outer` do not join
 * in. */
static uint64_t contiguous_elements(const access *io, uint32_t *out_outer) {
    const rlx_plan_slot *row = io->slot.row;
    uint64_t together = 1;
    uint32_t outer = row->rank;
    while (outer > 0 &&
           (io->dims[outer - 1] == 1 || row->strides[outer - 1] == (int64_t)together)) {
        together *= (uint64_t)io->dims[--outer];
    }
    *out_outer = outer;
    return together;
}

/* Element by element: packed slots are looked at, not worked on. */
static rlx_status walk_packed(const access *io, uint64_t first, uint64_t count) {
    rlx_tensor tensor = rlx_plan_tensor(io->slot.row);
    rlx_layout_map map = rlx_layout_map_of(&tensor);
    int64_t index[RLX_MAX_RANK];
    for (uint64_t done = 0; done < count; done++) {
        uint64_t rest = first + done;
        for (uint32_t i = map.rank; i-- > 0;) {
            index[i] = (int64_t)(rest % (uint64_t)io->dims[i]);
            rest /= (uint64_t)io->dims[i];
        }
        RLX_TRY(move_run(io, rlx_layout_offset(&map, index), done, 1));
    }
    return RLX_OK;
}

/* Walks logical elements [first, first + count) run by run. */
static rlx_status walk(const access *io, uint64_t first, uint64_t count) {
    if (io->slot.row->layout != RLX_LAYOUT_PLAIN) return walk_packed(io, first, count);
    uint32_t outer;
    uint64_t together = contiguous_elements(io, &outer);
    for (uint64_t done = 0; done < count;) {
        uint64_t index = (first + done) / together;
        uint64_t inside = (first + done) % together;
        uint64_t now = together - inside < count - done ? together - inside : count - done;
        int64_t position = (int64_t)inside;
        for (uint32_t i = outer; i-- > 0;) {
            position += (int64_t)(index % (uint64_t)io->dims[i]) * io->slot.row->strides[i];
            index /= (uint64_t)io->dims[i];
        }
        RLX_TRY(move_run(io, position, done, now));
        done += now;
    }
    return RLX_OK;
}

rlx_status rlx_arena_need(const rlx_arena *arena, uint32_t slot, bool to_write,
                          rlx_arena_slot *out_slot) {
    rlx_arena_range range;
    RLX_TRY(rlx_arena_check_device(arena));
    if (!rlx_arena_find(arena, slot, out_slot)) {
        return RLX_FAIL(RLX_NOT_FOUND, "slot %u has no memory (the plan has %u slots)", slot,
                        arena->plan->slots.count);
    }
    if (to_write && !arena->is_writable[out_slot->segment]) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "slot '%s' lies in shared weights: read only",
                        out_slot->row->name);
    }
    if (arena->holds == NULL) return RLX_OK;
    range = rlx_arena_slot_range(out_slot);
    RLX_TRY_WITH(rlx_arena_check_range(arena, range.segment, range.offset, range.bytes),
                 "slot '%s'", out_slot->row->name);
    return RLX_OK;
}

/* Cuts `count` to what is there when the flags allow it; else refuses. `unit` is for the text. */
static rlx_status limit(const rlx_arena_slot *slot, const char *unit, uint64_t first,
                        uint64_t capacity, uint32_t flags, uint64_t *count) {
    uint64_t room = first < capacity ? capacity - first : 0;
    rlx_status status;
    if (*count <= room && first <= capacity) return RLX_OK;
    if ((flags & RLX_ARENA_TRUNCATE) != 0) {
        *count = *count < room ? *count : room;
        return RLX_OK;
    }
    status =
        RLX_FAIL(RLX_OUT_OF_BOUNDS, "slot '%s': %s %" PRIu64 " + %" PRIu64 " > capacity %" PRIu64,
                 slot->row->name, unit, first, *count, capacity);
    rlx_error_detail_edit()->offset = first;
    rlx_error_detail_edit()->got = *count;
    rlx_error_detail_edit()->limit = capacity;
    return status;
}

rlx_status rlx_arena_move_elements(rlx_arena *arena, const rlx_arena_slot *slot, bool to_arena,
                                   uint64_t first, uint64_t count, uint8_t *memory) {
    access io = {.arena = arena, .slot = *slot, .to_arena = to_arena, .host = memory};
    io.dims = slot->row->dims;
    return walk(&io, first, count);
}

/* Ranges of block types begin and end on blocks; 4-bit types go element by element. */
rlx_status rlx_arena_check_blocks(const rlx_arena_slot *slot, const int64_t *dims, uint64_t first,
                                  uint64_t count) {
    uint64_t elements = slot->block_elements;
    uint64_t row = slot->row->rank == 0 ? 1 : (uint64_t)dims[slot->row->rank - 1];
    if (elements <= 2 || count == 0) return RLX_OK;
    if (first % elements == 0 && count % elements == 0 && row % elements == 0) return RLX_OK;
    return RLX_FAIL(RLX_INVALID_ARGUMENT,
                    "slot '%s': elements %" PRIu64 " + %" PRIu64 " are not whole blocks of %" PRIu64
                    " (%s)",
                    slot->row->name, first, count, elements, rlx_dtype_name(slot->row->dtype));
}

static rlx_status access_f32(access *io, uint32_t slot, uint64_t first, uint64_t count,
                             uint32_t flags, uint64_t *out_count) {
    RLX_TRY(rlx_arena_need(io->arena, slot, io->to_arena, &io->slot));
    io->dims = io->slot.row->dims;
    RLX_TRY(limit(&io->slot, "element", first, io->slot.elements, flags, &count));
    RLX_TRY(rlx_arena_check_blocks(&io->slot, io->dims, first, count));
    if (count != 0 && io->host == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "host memory is NULL");
    RLX_TRY_WITH(walk(io, first, count), "slot '%s'", io->slot.row->name);
    if (out_count != NULL) *out_count = count;
    return RLX_OK;
}

rlx_status rlx_arena_write_f32(rlx_arena *arena, uint32_t slot, uint64_t first, const float *source,
                               uint64_t count, uint32_t flags, uint64_t *out_count) {
    access io = {.arena = arena, .to_arena = true, .is_f32 = true, .host = only_read(source)};
    return access_f32(&io, slot, first, count, flags, out_count);
}

rlx_status rlx_arena_read_f32(rlx_arena *arena, uint32_t slot, uint64_t first, float *destination,
                              uint64_t count, uint32_t flags, uint64_t *out_count) {
    access io = {.arena = arena, .is_f32 = true, .host = (uint8_t *)destination};
    return access_f32(&io, slot, first, count, flags, out_count);
}

bool rlx_arena_slot_is_plain(const rlx_arena_slot *slot) {
    rlx_tensor tensor = rlx_plan_tensor(slot->row);
    return slot->row->layout != RLX_LAYOUT_PLAIN || slot->elements == 0 ||
           rlx_tensor_is_plain(&tensor);
}

/* Strided slots: bytes become elements, so both ends must be whole blocks. */
static rlx_status walk_bytes(access *io, uint64_t first, uint64_t bytes) {
    uint64_t block = io->slot.block_bytes, elements = io->slot.block_elements;
    uint64_t first_element = first / block * elements, count = bytes / block * elements;
    if (first % block != 0 || bytes % block != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "slot '%s' has strides: bytes %" PRIu64 " + %" PRIu64
                        " are not whole blocks of %" PRIu64,
                        io->slot.row->name, first, bytes, block);
    }
    if (count > io->slot.elements - first_element) count = io->slot.elements - first_element;
    RLX_TRY(rlx_arena_check_blocks(&io->slot, io->slot.row->dims, first_element, count));
    return walk(io, first_element, count);
}

static rlx_status access_bytes(access *io, uint32_t slot, uint64_t first, uint64_t bytes,
                               uint32_t flags, uint64_t *out_bytes) {
    RLX_TRY(rlx_arena_need(io->arena, slot, io->to_arena, &io->slot));
    io->dims = io->slot.row->dims;
    RLX_TRY(limit(&io->slot, "byte", first, io->slot.bytes, flags, &bytes));
    if (bytes != 0 && io->host == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "host memory is NULL");
    if (bytes != 0 && rlx_arena_slot_is_plain(&io->slot)) {
        RLX_TRY(move_bytes(io, io->slot.offset + first, io->host, bytes));
    } else if (bytes != 0) {
        RLX_TRY(walk_bytes(io, first, bytes));
    }
    if (out_bytes != NULL) *out_bytes = bytes;
    return RLX_OK;
}

rlx_status rlx_arena_write_bytes(rlx_arena *arena, uint32_t slot, uint64_t first,
                                 const void *source, uint64_t bytes, uint32_t flags,
                                 uint64_t *out_bytes) {
    access io = {.arena = arena, .to_arena = true, .host = only_read(source)};
    return access_bytes(&io, slot, first, bytes, flags, out_bytes);
}

rlx_status rlx_arena_read_bytes(rlx_arena *arena, uint32_t slot, uint64_t first, void *destination,
                                uint64_t bytes, uint32_t flags, uint64_t *out_bytes) {
    access io = {.arena = arena, .host = destination};
    return access_bytes(&io, slot, first, bytes, flags, out_bytes);
}

static rlx_status read_dims(access *io, uint32_t slot, const int64_t *dims) {
    uint64_t count = 1;
    RLX_TRY(rlx_arena_need(io->arena, slot, false, &io->slot));
    for (uint32_t i = 0; i < io->slot.row->rank; i++) {
        if (dims[i] < 0 || dims[i] > io->slot.row->dims[i]) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "slot '%s': dim %u is %" PRId64 ", planned %" PRId64,
                            io->slot.row->name, i, dims[i], io->slot.row->dims[i]);
        }
        count *= (uint64_t)dims[i];
    }
    io->dims = dims;
    RLX_TRY(rlx_arena_check_blocks(&io->slot, dims, 0, count));
    if (count != 0 && io->host == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "host memory is NULL");
    return walk(io, 0, count);
}

rlx_status rlx_arena_read_dims_f32(rlx_arena *arena, uint32_t slot, const int64_t *dims,
                                   float *destination) {
    access io = {.arena = arena, .is_f32 = true, .host = (uint8_t *)destination};
    return read_dims(&io, slot, dims);
}

rlx_status rlx_arena_read_dims_bytes(rlx_arena *arena, uint32_t slot, const int64_t *dims,
                                     void *destination) {
    access io = {.arena = arena, .host = destination};
    return read_dims(&io, slot, dims);
}
