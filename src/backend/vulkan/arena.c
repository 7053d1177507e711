/* SPDX-License-Identifier: Apache-2.0 */
/* The arena in device memory: a segment is one buffer, or several where the device caps one.
 * Direct: mapped, host access is a memcpy. Staged: not mapped, host access goes through the queue.
 * Weights that a program gives are copied to the device once and shared by its arenas. */
#include "backend/vulkan/device.h"

#include "base/log.h"

#include <string.h>

static const char *const segment_names[RLX_SEGMENT_COUNT] = {"weights", "state", "scratch",
                                                             "source", "tiles"};

static rlx_vk_arena *arena_of(rlx_arena *base) {
    return (rlx_vk_arena *)base;
}

static uint8_t *at(const rlx_vk_buffer *buffer, uint64_t offset) {
    return (uint8_t *)buffer->mapped + offset;
}

static rlx_status read_block(rlx_vk_device *device, const rlx_vk_buffer *buffer, uint64_t offset,
                             void *destination, uint64_t bytes) {
    if (buffer->mapped == NULL) return rlx_vk_read(device, buffer, offset, destination, bytes);
    RLX_TRY(rlx_vk_invalidate(device, buffer, offset, bytes));
    memcpy(destination, at(buffer, offset), (size_t)bytes);
    return RLX_OK;
}

static rlx_status write_block(rlx_vk_device *device, const rlx_vk_buffer *buffer, uint64_t offset,
                              const void *source, uint64_t bytes) {
    if (buffer->mapped == NULL) return rlx_vk_write(device, buffer, offset, source, bytes);
    RLX_TRY(rlx_vk_invalidate(device, buffer, offset, bytes)); /* the rest of its atoms */
    memcpy(at(buffer, offset), source, (size_t)bytes);
    return rlx_vk_flush(device, buffer, offset, bytes);
}

static rlx_status vk_read(rlx_arena *base, rlx_segment segment, uint64_t offset, void *destination,
                          uint64_t bytes) {
    rlx_vk_arena *self = arena_of(base);
    for (uint64_t done = 0, inside, now; done < bytes; done += now) {
        const rlx_vk_buffer *buffer =
            rlx_vk_block_at(&self->blocks[segment], offset + done, bytes - done, &inside, &now);
        RLX_TRY(read_block(self->device, buffer, inside, (uint8_t *)destination + done, now));
    }
    return RLX_OK;
}

static rlx_status write_all(rlx_vk_device *device, const rlx_vk_blocks *blocks, uint64_t offset,
                            const void *source, uint64_t bytes) {
    for (uint64_t done = 0, inside, now; done < bytes; done += now) {
        const rlx_vk_buffer *buffer =
            rlx_vk_block_at(blocks, offset + done, bytes - done, &inside, &now);
        RLX_TRY(write_block(device, buffer, inside, (const uint8_t *)source + done, now));
    }
    return RLX_OK;
}

static rlx_status vk_write(rlx_arena *base, rlx_segment segment, uint64_t offset,
                           const void *source, uint64_t bytes) {
    rlx_vk_arena *self = arena_of(base);
    return write_all(self->device, &self->blocks[segment], offset, source, bytes);
}

static bool overlap(uint64_t a, uint64_t b, uint64_t bytes) {
    return a < b + bytes && b < a + bytes;
}

/* Inside one block on both sides. */
static rlx_status copy_block(rlx_vk_device *device, const rlx_vk_buffer *source,
                             uint64_t from_offset, const rlx_vk_buffer *target, uint64_t to_offset,
                             uint64_t bytes) {
    if (source->mapped == NULL || target->mapped == NULL) {
        return rlx_vk_copy(device, source, from_offset, target, to_offset, bytes);
    }
    RLX_TRY(rlx_vk_invalidate(device, source, from_offset, bytes));
    RLX_TRY(rlx_vk_invalidate(device, target, to_offset, bytes));
    memmove(at(target, to_offset), at(source, from_offset), (size_t)bytes);
    return rlx_vk_flush(device, target, to_offset, bytes);
}

/* Ranges that do not overlap, cut at the borders of blocks. */
static rlx_status copy_piece(rlx_vk_arena *self, rlx_segment from, uint64_t from_offset,
                             rlx_segment to, uint64_t to_offset, uint64_t bytes) {
    for (uint64_t done = 0, now; done < bytes; done += now) {
        uint64_t source_at, target_at, most;
        const rlx_vk_buffer *source = rlx_vk_block_at(&self->blocks[from], from_offset + done,
                                                      bytes - done, &source_at, &most);
        const rlx_vk_buffer *target =
            rlx_vk_block_at(&self->blocks[to], to_offset + done, most, &target_at, &now);
        RLX_TRY(copy_block(self->device, source, source_at, target, target_at, now));
    }
    return RLX_OK;
}

/* Overlapping ranges go in pieces that do not overlap, in the order of memmove. */
static rlx_status vk_copy(rlx_arena *base, rlx_segment from, uint64_t from_offset, rlx_segment to,
                          uint64_t to_offset, uint64_t bytes) {
    rlx_vk_arena *self = arena_of(base);
    uint64_t apart = from_offset < to_offset ? to_offset - from_offset : from_offset - to_offset;
    uint64_t piece = bytes;
    if (from == to && apart == 0) return RLX_OK;
    if (from == to && overlap(from_offset, to_offset, bytes)) piece = apart;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t now = bytes - done < piece ? bytes - done : piece;
        uint64_t first = from_offset < to_offset ? bytes - done - now : done;
        RLX_TRY(copy_piece(self, from, from_offset + first, to, to_offset + first, now));
        done += now;
    }
    return RLX_OK;
}

/* Whole words on the device; what sticks out at both ends is written. */
static rlx_status fill_on_device(rlx_vk_device *device, const rlx_vk_buffer *buffer,
                                 uint64_t offset, uint64_t bytes, uint8_t value) {
    uint64_t first = (offset + 3) / 4 * 4, last = (offset + bytes) / 4 * 4;
    uint8_t edge[4];
    memset(edge, value, sizeof edge);
    if (first >= last) {
        for (uint64_t i = 0; i < bytes; i++)
            RLX_TRY(rlx_vk_write(device, buffer, offset + i, edge, 1));
        return RLX_OK;
    }
    RLX_TRY(rlx_vk_fill(device, buffer, first, last - first, value * UINT32_C(0x01010101)));
    if (first != offset) RLX_TRY(rlx_vk_write(device, buffer, offset, edge, first - offset));
    if (last == offset + bytes) return RLX_OK;
    return rlx_vk_write(device, buffer, last, edge, offset + bytes - last);
}

static rlx_status fill_block(rlx_vk_device *device, const rlx_vk_buffer *buffer, uint64_t offset,
                             uint64_t bytes, uint8_t value) {
    if (buffer->mapped == NULL) return fill_on_device(device, buffer, offset, bytes, value);
    RLX_TRY(rlx_vk_invalidate(device, buffer, offset, bytes));
    memset(at(buffer, offset), value, (size_t)bytes);
    return rlx_vk_flush(device, buffer, offset, bytes);
}

static rlx_status vk_fill(rlx_arena *base, rlx_segment segment, uint64_t offset, uint64_t bytes,
                          uint8_t value) {
    rlx_vk_arena *self = arena_of(base);
    for (uint64_t done = 0, inside, now; done < bytes; done += now) {
        const rlx_vk_buffer *buffer =
            rlx_vk_block_at(&self->blocks[segment], offset + done, bytes - done, &inside, &now);
        RLX_TRY(fill_block(self->device, buffer, inside, now, value));
    }
    return RLX_OK;
}

/* Weights: found by the program's address, which is theirs alone while any arena has them. */
static rlx_status share_weights(rlx_vk_device *device, const rlx_allocator *allocator,
                                const void *source, uint64_t bytes, rlx_vk_weights **out_weights) {
    rlx_vk_weights *found;
    rlx_status status;
    pthread_mutex_lock(&device->lock);
    for (found = device->weights; found != NULL; found = found->next) {
        if (found->source == source) break;
    }
    if (found != NULL) found->owners++;
    pthread_mutex_unlock(&device->lock);
    if (found != NULL) {
        *out_weights = found;
        return RLX_OK;
    }
    RLX_TRY(rlx_alloc_zero(&device->base.allocator, sizeof *found, (void **)&found));
    (void)allocator;
    found->source = source;
    found->owners = 1;
    status = rlx_vk_blocks_create(device, bytes, &found->blocks);
    if (status == RLX_OK) status = write_all(device, &found->blocks, 0, source, bytes);
    if (status != RLX_OK) {
        rlx_vk_blocks_destroy(device, &found->blocks);
        rlx_free(&device->base.allocator, found);
        return status;
    }
    pthread_mutex_lock(&device->lock);
    found->next = device->weights;
    device->weights = found;
    pthread_mutex_unlock(&device->lock);
    *out_weights = found;
    return RLX_OK;
}

static void leave_weights(rlx_vk_device *device, rlx_vk_weights *weights) {
    rlx_vk_weights **link = &device->weights;
    bool is_last;
    if (weights == NULL) return;
    pthread_mutex_lock(&device->lock);
    is_last = --weights->owners == 0;
    while (is_last && *link != NULL && *link != weights)
        link = &(*link)->next;
    if (is_last && *link != NULL) *link = weights->next;
    pthread_mutex_unlock(&device->lock);
    if (!is_last) return;
    rlx_vk_blocks_destroy(device, &weights->blocks);
    rlx_free(&device->base.allocator, weights);
}

static void vk_destroy(rlx_arena *base) {
    rlx_vk_arena *self = arena_of(base);
    rlx_allocator allocator = base->allocator;
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        if (i == RLX_SEGMENT_WEIGHTS && self->weights != NULL) continue;
        rlx_vk_blocks_destroy(self->device, &self->blocks[i]);
    }
    leave_weights(self->device, self->weights);
    rlx_addresses_release(base->stand_in[RLX_SEGMENT_TILES], base->bytes[RLX_SEGMENT_TILES]);
    rlx_free(&allocator, self);
}

static const rlx_arena_ops vk_ops = {"vulkan", vk_destroy, vk_read, vk_write, vk_copy, vk_fill};

bool rlx_vk_is_arena(const rlx_arena *arena) {
    return arena->ops == &vk_ops;
}

static rlx_status take_own(rlx_vk_arena *self, rlx_segment segment) {
    rlx_vk_blocks *blocks = &self->blocks[segment];
    RLX_TRY_WITH(rlx_vk_blocks_create(self->device, self->base.bytes[segment], blocks),
                 "%s segment", segment_names[segment]);
    for (uint32_t i = 0; i < blocks->count; i++) {
        RLX_TRY(fill_block(self->device, &blocks->items[i], 0, blocks->items[i].bytes, 0));
    }
    return RLX_OK;
}

static rlx_status take_segment(rlx_vk_arena *self, const rlx_arena_request *request,
                               rlx_segment segment) {
    const rlx_arena_memory *memory = &request->memory[segment];
    uint64_t bytes = request->plan->segment_bytes[segment];
    bool is_weights = segment == RLX_SEGMENT_WEIGHTS;
    self->base.is_present[segment] = true;
    self->base.bytes[segment] = bytes;
    self->base.is_writable[segment] =
        segment != RLX_SEGMENT_TILES && !(is_weights && memory->address != NULL);
    if (memory->address != NULL && !is_weights) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s memory of the caller: device '%s' has its own",
                        segment_names[segment], self->device->name);
    }
    if (memory->address != NULL && memory->bytes < bytes) {
        return RLX_FAIL(RLX_DOES_NOT_FIT, "%s memory: %" PRIu64 " bytes given, %" PRIu64 " needed",
                        segment_names[segment], memory->bytes, bytes);
    }
    if (bytes == 0) return RLX_OK;
    if (memory->address == NULL) {
        RLX_TRY(take_own(self, segment));
    } else {
        RLX_TRY(share_weights(self->device, &self->base.allocator, memory->address, bytes,
                              &self->weights));
        self->blocks[segment] = self->weights->blocks;
        self->base.shared_weights = memory->address;
    }
    /* Where the host must flush and invalidate, or memory has several addresses, only our own
     * methods may touch it. */
    if (self->blocks[segment].count == 1 && self->blocks[segment].items[0].is_coherent) {
        self->base.address[segment] = self->blocks[segment].items[0].mapped;
    }
    if (segment == RLX_SEGMENT_TILES && self->base.address[segment] == NULL) {
        return rlx_addresses_reserve(bytes, &self->base.stand_in[segment]);
    }
    return RLX_OK;
}

static rlx_status take_segments(rlx_vk_arena *self, const rlx_arena_request *request) {
    uint32_t segments = request->segments == 0 ? RLX_SEGMENTS_RUN : request->segments;
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        if ((segments >> i & 1) != 0) RLX_TRY(take_segment(self, request, (rlx_segment)i));
    }
    return RLX_OK;
}

rlx_status rlx_vk_create_arena(rlx_device *base, const rlx_arena_request *request,
                               rlx_arena **out_arena) {
    rlx_vk_device *device = (rlx_vk_device *)base;
    const rlx_allocator *allocator =
        request->allocator != NULL ? request->allocator : rlx_default_allocator();
    rlx_vk_arena *self = NULL;
    rlx_status status;
    /* Weights in the making are host memory, and scalar C prepares them. */
    if (request->weights_writable) return rlx_arena_create_host(request, device->name, out_arena);
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->base.ops = &vk_ops;
    self->base.allocator = *allocator;
    self->base.plan = request->plan;
    self->device = device;
    status = take_segments(self, request);
    if (status != RLX_OK) {
        vk_destroy(&self->base);
        return status;
    }
    rlx_log(RLX_LOG_INFO,
            "arena on %s: weights %" PRIu64 ", state %" PRIu64 ", scratch %" PRIu64
            ", tiles %" PRIu64 " bytes",
            device->name, self->base.bytes[RLX_SEGMENT_WEIGHTS],
            self->base.bytes[RLX_SEGMENT_STATE], self->base.bytes[RLX_SEGMENT_SCRATCH],
            self->base.bytes[RLX_SEGMENT_TILES]);
    *out_arena = &self->base;
    return RLX_OK;
}
