/* SPDX-License-Identifier: Apache-2.0 */
/* The arena in host memory: own, or handed in by the caller, segment by segment. Every offset has
 * an address, so its methods are memcpy and friends. */
#include "base/log.h"
#include "driver/arena.h"

#include <string.h>

enum { TILE_ALIGNMENT = 4096 }; /* what reads past the page cache want */

typedef struct host_arena {
    rlx_arena base;
    void *owned[RLX_SEGMENT_COUNT]; /* owned; NULL where memory was given */
} host_arena;

static const char *const segment_names[RLX_SEGMENT_COUNT] = {"weights", "state", "scratch",
                                                             "source", "tiles"};

static uint8_t *at(const rlx_arena *base, rlx_segment segment, uint64_t offset) {
    return (uint8_t *)base->address[segment] + offset;
}

static rlx_status host_read(rlx_arena *base, rlx_segment segment, uint64_t offset,
                            void *destination, uint64_t bytes) {
    memcpy(destination, at(base, segment, offset), (size_t)bytes);
    return RLX_OK;
}

static rlx_status host_write(rlx_arena *base, rlx_segment segment, uint64_t offset,
                             const void *source, uint64_t bytes) {
    memcpy(at(base, segment, offset), source, (size_t)bytes);
    return RLX_OK;
}

static rlx_status host_copy(rlx_arena *base, rlx_segment from, uint64_t from_offset, rlx_segment to,
                            uint64_t to_offset, uint64_t bytes) {
    memmove(at(base, to, to_offset), at(base, from, from_offset), (size_t)bytes);
    return RLX_OK;
}

static rlx_status host_fill(rlx_arena *base, rlx_segment segment, uint64_t offset, uint64_t bytes,
                            uint8_t value) {
    memset(at(base, segment, offset), value, (size_t)bytes);
    return RLX_OK;
}

static void host_destroy(rlx_arena *base) {
    host_arena *self = (host_arena *)base;
    rlx_allocator allocator = base->allocator;
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++)
        rlx_free(&allocator, self->owned[i]);
    rlx_free(&allocator, self);
}

static const rlx_arena_ops host_ops = {"host",     host_destroy, host_read,
                                       host_write, host_copy,    host_fill};

static rlx_status take_given(host_arena *self, rlx_segment segment, rlx_arena_memory memory,
                             uint64_t alignment) {
    uint64_t wanted = self->base.bytes[segment];
    if (memory.bytes < wanted) {
        rlx_status status =
            RLX_FAIL(RLX_DOES_NOT_FIT, "%s memory: %" PRIu64 " bytes given, %" PRIu64 " needed",
                     segment_names[segment], memory.bytes, wanted);
        rlx_error_detail_edit()->expected = wanted;
        rlx_error_detail_edit()->got = memory.bytes;
        return status;
    }
    if (((uintptr_t)memory.address & (alignment - 1)) != 0) {
        return RLX_FAIL(RLX_DOES_NOT_FIT, "%s memory is not aligned to %" PRIu64 " bytes",
                        segment_names[segment], alignment);
    }
    self->base.address[segment] = memory.address;
    return RLX_OK;
}

static rlx_status take_own(host_arena *self, rlx_segment segment, uint64_t alignment) {
    uint64_t bytes = self->base.bytes[segment];
    RLX_TRY_WITH(rlx_alloc_aligned(&self->base.allocator, bytes, alignment, &self->owned[segment]),
                 "%s segment", segment_names[segment]);
    self->base.address[segment] = self->owned[segment];
    rlx_prefer_large_pages(self->owned[segment], bytes);
    return RLX_OK;
}

/* Address and zeros of one segment. Weights that were given hold data already. */
static rlx_status take_segment(host_arena *self, const rlx_arena_request *request,
                               rlx_segment segment) {
    rlx_arena_memory memory = request->memory[segment];
    uint64_t alignment = request->plan->alignment;
    bool is_given = memory.address != NULL;
    if (alignment < RLX_PLAN_ALIGNMENT) alignment = RLX_PLAN_ALIGNMENT;
    if (segment == RLX_SEGMENT_TILES && alignment < TILE_ALIGNMENT) alignment = TILE_ALIGNMENT;
    self->base.is_present[segment] = true;
    self->base.bytes[segment] = request->plan->segment_bytes[segment];
    self->base.is_writable[segment] =
        segment != RLX_SEGMENT_TILES &&
        (segment != RLX_SEGMENT_WEIGHTS || !is_given || request->weights_writable);
    if (is_given) {
        RLX_TRY(take_given(self, segment, memory, alignment));
        if (segment == RLX_SEGMENT_WEIGHTS) return RLX_OK;
    } else {
        RLX_TRY(take_own(self, segment, alignment));
    }
    if (self->base.bytes[segment] != 0) {
        memset(self->base.address[segment], 0, (size_t)self->base.bytes[segment]);
    }
    return RLX_OK;
}

rlx_status rlx_arena_create_host(const rlx_arena_request *request, const char *device,
                                 rlx_arena **out_arena) {
    host_arena *self = NULL;
    uint32_t segments = request->segments == 0 ? RLX_SEGMENTS_RUN : request->segments;
    const rlx_allocator *allocator =
        request->allocator != NULL ? request->allocator : rlx_default_allocator();
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->base.ops = &host_ops;
    self->base.allocator = *allocator;
    self->base.plan = request->plan;
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        rlx_status status;
        if ((segments >> i & 1) == 0) continue;
        status = take_segment(self, request, (rlx_segment)i);
        if (status != RLX_OK) {
            host_destroy(&self->base);
            return status;
        }
    }
    rlx_log(RLX_LOG_INFO,
            "arena on %s: weights %" PRIu64 ", state %" PRIu64 ", scratch %" PRIu64
            ", tiles %" PRIu64 " bytes",
            device, self->base.bytes[RLX_SEGMENT_WEIGHTS], self->base.bytes[RLX_SEGMENT_STATE],
            self->base.bytes[RLX_SEGMENT_SCRATCH], self->base.bytes[RLX_SEGMENT_TILES]);
    *out_arena = &self->base;
    return RLX_OK;
}
