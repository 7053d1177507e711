/* SPDX-License-Identifier: Apache-2.0 */
/* What an arena implements: raw reads, writes and copies inside segments. Everything that knows
 * slots, dtypes and logical order is done once, in arena.c and arena_io.c, on top of these. */
#ifndef RLX_DRIVER_ARENA_H
#define RLX_DRIVER_ARENA_H

#include "base/alloc.h"
#include "plan/plan.h"

#include <rlx/arena.h>

#include <stdatomic.h>

/* Memory that somebody else owns, for one segment. */
typedef struct rlx_arena_memory {
    void *address; /* NULL: the arena allocates its own */
    uint64_t bytes;
} rlx_arena_memory;

/* The segments of an executable, and those of prepare steps. */
enum {
    RLX_SEGMENTS_RUN = 1 << RLX_SEGMENT_WEIGHTS | 1 << RLX_SEGMENT_STATE |
                       1 << RLX_SEGMENT_SCRATCH | 1 << RLX_SEGMENT_TILES,
    RLX_SEGMENTS_PREPARE = 1 << RLX_SEGMENT_WEIGHTS | 1 << RLX_SEGMENT_SOURCE
};

/* What an arena is made from. Weights are given by the program, except where the arena shall own a
 * copy. */
typedef struct rlx_arena_request {
    const rlx_allocator *allocator; /* NULL: default; copied */
    const rlx_plan *plan;           /* borrowed, outlives the arena */
    rlx_arena_memory memory[RLX_SEGMENT_COUNT];
    uint32_t segments;     /* bit per segment; 0: RLX_SEGMENTS_RUN */
    bool weights_writable; /* given weights may be written: the program is still being made */
} rlx_arena_request;

/* The wrappers have checked segment, offset and bytes; bytes is never 0. */
typedef struct rlx_arena_ops {
    const char *name; /* "host" */
    void (*destroy)(rlx_arena *base);
    rlx_status (*read)(rlx_arena *base, rlx_segment segment, uint64_t offset, void *destination,
                       uint64_t bytes);
    rlx_status (*write)(rlx_arena *base, rlx_segment segment, uint64_t offset, const void *source,
                        uint64_t bytes);
    /* Like memmove. */
    rlx_status (*copy)(rlx_arena *base, rlx_segment from, uint64_t from_offset, rlx_segment to,
                       uint64_t to_offset, uint64_t bytes);
    rlx_status (*fill)(rlx_arena *base, rlx_segment segment, uint64_t offset, uint64_t bytes,
                       uint8_t value);
} rlx_arena_ops;

/* A range that somebody is filling: a copy engine, while the host runs on. Owned by whoever fills
 * it; linked into the arena as long as it is held. */
typedef struct rlx_arena_hold {
    struct rlx_arena_hold *next;
    rlx_segment segment;
    uint64_t offset, bytes;
} rlx_arena_hold;

struct rlx_arena { /* first member of every implementation */
    const rlx_arena_ops *ops;
    rlx_allocator allocator;
    const rlx_plan *plan; /* borrowed */
    uint64_t bytes[RLX_SEGMENT_COUNT];
    void *address[RLX_SEGMENT_COUNT]; /* host address, or NULL where not mapped */
    /* Where memory is not mapped: addresses that stand for it, which the device's copy engine takes
     * as destinations and nobody may follow. NULL: none. */
    void *stand_in[RLX_SEGMENT_COUNT];
    bool is_present[RLX_SEGMENT_COUNT]; /* has memory here (even if 0 bytes) */
    bool is_writable[RLX_SEGMENT_COUNT];
    const void *shared_weights; /* whose weights a device has copied; NULL: it copied none */
    _Atomic uint32_t pending;   /* submits that were not waited for: no host access */
    rlx_arena_hold *holds;      /* borrowed: ranges without host access */
};

/* Host memory, own or given. What it does not get it allocates with the plan's alignment; state,
 * scratch and own weights start as zeros. Logs `device` and the bytes per segment at info level. */
RLX_WARN_UNUSED rlx_status rlx_arena_create_host(const rlx_arena_request *request,
                                                 const char *device, rlx_arena **out_arena);
void rlx_arena_destroy(rlx_arena *arena); /* NULL is fine */

/* Host access to what the slot covers is RLX_BUSY from now until it is let go. By the thread that
 * uses the arena. A slot without memory holds nothing. */
void rlx_arena_hold_slot(rlx_arena *arena, uint32_t slot, rlx_arena_hold *hold);
void rlx_arena_let_go(rlx_arena *arena, rlx_arena_hold *hold); /* also one that is not held */

/* Raw access by segment, checked. */
RLX_WARN_UNUSED rlx_status rlx_arena_read_segment(rlx_arena *arena, rlx_segment segment,
                                                  uint64_t offset, void *destination,
                                                  uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_arena_write_segment(rlx_arena *arena, rlx_segment segment,
                                                   uint64_t offset, const void *source,
                                                   uint64_t bytes);
RLX_WARN_UNUSED rlx_status rlx_arena_fill(rlx_arena *arena, rlx_segment segment, uint64_t offset,
                                          uint64_t bytes, uint8_t value);

/* Reads of a slot with the true dims of this run (each at most the planned one), row-major. */
RLX_WARN_UNUSED rlx_status rlx_arena_read_dims_f32(rlx_arena *arena, uint32_t slot,
                                                   const int64_t *dims, float *destination);
RLX_WARN_UNUSED rlx_status rlx_arena_read_dims_bytes(rlx_arena *arena, uint32_t slot,
                                                     const int64_t *dims, void *destination);

/* Where a copy engine of the arena's device puts the slot's bytes: its address, or one that stands
 * for it. NULL: no engine reaches it. */
void *rlx_arena_copy_address(const rlx_arena *arena, uint32_t slot);

/* The slot as a tensor with its address; data NULL where it has no mapped memory. An empty tensor
 * in an empty segment gets an address that is not NULL and must not be followed. */
rlx_tensor rlx_arena_tensor(const rlx_arena *arena, uint32_t slot);

#endif
