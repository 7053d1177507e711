/* SPDX-License-Identifier: Apache-2.0 */
/* Transports whose ranks have all heaps mapped: threads of a process, processes of a host. One
 * piece of memory holds, in this order:
 *
 *   header | a line per rank | areas [rank][group] | heaps [rank]
 *
 * An area is what one rank shows the others of one group: two slots that alternate (what it calls,
 * and small payloads), flags, and staging for private buffers. Each word has one writer. Sequence
 * numbers only grow, so nothing is ever reset. Knows nothing of how the memory came to be mapped;
 * local/ and shm/ do that. */
#ifndef RLX_COLLECTIVE_MAPPED_H
#define RLX_COLLECTIVE_MAPPED_H

#include "base/thread.h"
#include "collective/agree.h"
#include "collective/queue.h"
#include "driver/transport.h"

#include <string.h>

enum {
    RLX_LINE_BYTES = 128, /* two cache lines: processors fetch them in pairs */
    RLX_TINY_BYTES = 24,
    RLX_SMALL_BYTES = 2048,
    RLX_CHUNK_BYTES = 128 << 10,
    RLX_PROCESSOR_WORDS = 16, /* 1024 processors */
    RLX_EAGER_SPINS = 128,    /* without a pause */
    RLX_SPINS = 256
};

/* What a rank calls, for its peers to compare; small operands travel with it. The word is written
 * last: twice the call's number, plus 1 for a barrier, which has nothing else to say. */
typedef struct rlx_slot {
    _Alignas(64) _Atomic uint64_t word;
    rlx_descriptor about;
    uint8_t tiny[RLX_TINY_BYTES]; /* a payload that fits into the first line */
    _Alignas(64) uint8_t payload[RLX_SMALL_BYTES];
} rlx_slot;

typedef struct rlx_area {
    rlx_slot slots[2];                                /* call s is in slot s % 2 */
    _Alignas(RLX_LINE_BYTES) _Atomic uint64_t done;   /* the last call whose data was moved */
    _Alignas(RLX_LINE_BYTES) _Atomic uint64_t chunks; /* staged so far */
    _Alignas(RLX_LINE_BYTES) uint8_t staging[2][RLX_CHUNK_BYTES]; /* chunk c is in c % 2 */
} rlx_area;

enum { RLX_RANK_ABSENT = 0, RLX_RANK_JOINED, RLX_RANK_LEFT };
typedef struct rlx_rank_line {
    _Alignas(RLX_LINE_BYTES) _Atomic uint32_t doorbell; /* what a sleeping rank sleeps on */
    _Atomic uint32_t sleeping;                          /* threads of this rank */
    _Atomic uint32_t state;                             /* RLX_RANK_* */
    _Atomic int32_t process, thread;                    /* who it is; thread 0: nobody yet */
    _Atomic uint64_t processors[RLX_PROCESSOR_WORDS];   /* a bit for each that it may use */
} rlx_rank_line;

/* Read by everybody, written rarely. */
typedef struct rlx_mapped_header {
    uint64_t magic, heap_bytes, total_bytes;
    uint32_t rank_count, group_count;
    _Alignas(RLX_LINE_BYTES) _Atomic uint64_t failure; /* 0, or why and who: the first one stays */
    _Atomic uint32_t sleepers; /* over all ranks; one more where the system has no membarrier */
} rlx_mapped_header;

/* Where things lie; the same on every rank. */
typedef struct rlx_mapped_layout {
    uint32_t rank_count, group_count;
    uint64_t heap_bytes, heap_stride, lines_offset, areas_offset, heaps_offset, total_bytes;
} rlx_mapped_layout;
RLX_WARN_UNUSED rlx_status rlx_mapped_layout_make(uint32_t rank_count, uint32_t group_count,
                                                  uint64_t heap_bytes,
                                                  rlx_mapped_layout *out_layout);

/* One rank's hold on the memory; shared by its endpoint and its sub-groups. */
typedef struct rlx_mapped_world rlx_mapped_world;
struct rlx_mapped_world {
    rlx_mapped_layout layout;
    uint8_t *memory;
    rlx_mapped_header *header;
    rlx_rank_line *lines;
    uint32_t rank;
    uint32_t groups_used; /* bit per group of this rank; bit 0: all ranks */
    uint32_t spins;       /* 0 where ranks share processors */
    bool is_shared;       /* between processes */
    int32_t thread;       /* who used it last */
    uint64_t gone_since_ns[RLX_RANKS_MOST];
    /* Whether the rank's thread or process has ended. */
    bool (*is_gone)(rlx_mapped_world *world, uint32_t rank);
    void (*release)(rlx_mapped_world *world); /* unmaps and frees the world itself */
};

/* Fills a world over zeroed memory that the layout fits. */
void rlx_mapped_world_init(rlx_mapped_world *world, const rlx_mapped_layout *layout, void *memory,
                           uint32_t rank);

/* Operands of a sum of a few f32 that were found in order. */
typedef struct rlx_tiny_call {
    const void *input;
    void *output;
    uint64_t count; /* 0: none yet */
    uint64_t input_offset, output_offset;
} rlx_tiny_call;

typedef struct rlx_mapped {
    rlx_transport base;
    rlx_mapped_world *world; /* owned by the endpoint of all ranks, borrowed by sub-groups */
    uint32_t group;
    uint32_t *members;   /* their numbers among all ranks; owned */
    rlx_area **areas;    /* per member; owned */
    rlx_slot **slots[2]; /* per member: theirs for odd and for even calls; owned */
    uint8_t **heaps;     /* per member; owned */
    const void **sources;
    void **targets;                     /* room for a fold's operands; owned */
    const struct rlx_fold_table *folds; /* for this processor */
    uint64_t sequence;                  /* calls posted */
    uint64_t chunks;                    /* staged by each rank */
    rlx_tiny_call last_tiny;
    rlx_call_queue queue;
} rlx_mapped;

/* The endpoint of all ranks. Consumes the world, also when it fails. */
RLX_WARN_UNUSED rlx_status rlx_mapped_create(const rlx_transport_ops *ops,
                                             const rlx_allocator *allocator,
                                             const rlx_transport_options *options,
                                             rlx_mapped_world *world,
                                             rlx_transport **out_transport);

/* call.c */
extern const rlx_queue_steps rlx_mapped_steps;
/* RLX_MISMATCH, and what everybody says of the current call. */
rlx_status rlx_mapped_disagree(const rlx_mapped *self);
/* Among threads: who uses the endpoint now. */
void rlx_mapped_note_thread(rlx_mapped *self);

/* The methods; an implementation's table names them. */
void rlx_mapped_destroy(rlx_transport *base);
void *rlx_mapped_address(const rlx_transport *base, uint32_t rank);
rlx_status rlx_mapped_check(rlx_transport *base);
rlx_status rlx_mapped_put(rlx_transport *base, rlx_symmetric_buffer dst, const void *src);
rlx_status rlx_mapped_get(rlx_transport *base, rlx_symmetric_buffer src, void *dst);
rlx_status rlx_mapped_order(rlx_transport *base); /* fence and quiet */
rlx_status rlx_mapped_put_signal(rlx_transport *base, const rlx_symmetric_buffer *dst,
                                 const void *src, uint64_t signal_offset, rlx_atomic_kind kind,
                                 uint64_t value);
rlx_status rlx_mapped_wait_until(rlx_transport *base, uint64_t offset, rlx_compare compare,
                                 uint64_t value, uint64_t *out_seen);
rlx_status rlx_mapped_atomic(rlx_transport *base, rlx_symmetric_buffer where,
                             const rlx_atomic_call *call, uint64_t *out_before);
rlx_status rlx_mapped_barrier(rlx_transport *base);
rlx_status rlx_mapped_run(rlx_transport *base, const rlx_collective_call *call);
rlx_status rlx_mapped_all_reduce(rlx_transport *base, const void *input, void *output,
                                 uint64_t count, rlx_dtype dtype, rlx_reduction reduction);
rlx_status rlx_mapped_start(rlx_transport *base, const rlx_collective_call *call,
                            uint64_t *out_token);
rlx_status rlx_mapped_wait(rlx_transport *base, uint64_t token);
rlx_status rlx_mapped_split(rlx_transport *base, uint32_t colour, uint32_t key,
                            rlx_transport **out_transport);
#define RLX_MAPPED_OPS(transport_name, on_failure)                                                 \
    {                                                                                              \
        .name = transport_name, .destroy = rlx_mapped_destroy, .address = rlx_mapped_address,      \
        .check = rlx_mapped_check, .put = rlx_mapped_put, .get = rlx_mapped_get,                   \
        .fence = rlx_mapped_order, .quiet = rlx_mapped_order, .put_signal = rlx_mapped_put_signal, \
        .wait_until = rlx_mapped_wait_until, .atomic = rlx_mapped_atomic,                          \
        .barrier = rlx_mapped_barrier, .run = rlx_mapped_run, .all_reduce = rlx_mapped_all_reduce, \
        .start = rlx_mapped_start, .wait = rlx_mapped_wait, .split = rlx_mapped_split,             \
        .failed = on_failure                                                                       \
    }

/* wait.c ------------------------------------------------------------------------------------- */

/* Registers this process for the sleepers' memory barriers. */
void rlx_mapped_enter(rlx_mapped_world *world);

/* Fails the group before this rank has joined it: nobody needs to wait for it. */
void rlx_mapped_refuse(rlx_mapped_world *world, rlx_status cause);

rlx_status rlx_mapped_failed(const rlx_mapped *self, uint64_t failure);
/* RLX_OK, or the failure that the group has had. */
RLX_WARN_UNUSED static inline rlx_status rlx_mapped_failure(const rlx_mapped *self) {
    uint64_t failure = atomic_load_explicit(&self->world->header->failure, memory_order_acquire);
    return failure == 0 ? RLX_OK : rlx_mapped_failed(self, failure);
}

/* Waits until *word >= value; `member` writes it, `kind` is the call in which it is waited for. */
RLX_WARN_UNUSED rlx_status rlx_mapped_wait_slow(rlx_mapped *self, const _Atomic uint64_t *word,
                                                uint64_t value, uint32_t member, uint32_t kind);
RLX_WARN_UNUSED static inline rlx_status rlx_mapped_wait_for(rlx_mapped *self,
                                                             const _Atomic uint64_t *word,
                                                             uint64_t value, uint32_t member,
                                                             uint32_t kind) {
    uint32_t spins = self->world->spins != 0 ? RLX_EAGER_SPINS : 1;
    for (uint32_t i = 0; i < spins; ++i) {
        if (atomic_load_explicit(word, memory_order_acquire) >= value) return RLX_OK;
    }
    return rlx_mapped_wait_slow(self, word, value, member, kind);
}

/* Wakes ranks that sleep; called after a word was written that one may wait for. */
void rlx_mapped_ring_slow(rlx_mapped_world *world);
static inline void rlx_mapped_ring(rlx_mapped_world *world) {
    /* The sleeper's membarrier stands for the fence that is missing here. */
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&world->header->sleepers, memory_order_relaxed) != 0) {
        rlx_mapped_ring_slow(world);
    }
}

/* algorithm.c, staged.c: the data of a call ------------------------------------------------------
 */

/* How a call's data moves; depends on what all ranks agreed on alone. */
typedef enum rlx_way { RLX_WAY_NONE, RLX_WAY_SMALL, RLX_WAY_DIRECT, RLX_WAY_STAGED } rlx_way;
rlx_way rlx_way_of(const rlx_collective_call *call);

/* Before the call is posted: small payloads and the first chunk. */
void rlx_way_post(rlx_mapped *self, const rlx_collective_call *call, rlx_slot *slot);
/* After all ranks have agreed. */
RLX_WARN_UNUSED rlx_status rlx_way_finish(rlx_mapped *self, const rlx_collective_call *call);
/* Waits until every rank has moved the data of this call. */
RLX_WARN_UNUSED rlx_status rlx_way_all_done(rlx_mapped *self, uint32_t kind);

/* The first line of each slot of the current call. */
static inline rlx_slot *rlx_slot_of(const rlx_mapped *self, uint32_t member) {
    return self->slots[self->sequence % 2][member];
}

/* Where a small payload of this size lies in a slot. */
static inline uint8_t *rlx_small_payload(rlx_slot *slot, uint64_t bytes) {
    return bytes <= RLX_TINY_BYTES ? slot->tiny : slot->payload;
}

/* The compiler knows how few bytes these can be, and would make a slow instruction of it. */
static inline void rlx_small_copy(void *to, const void *from, uint64_t bytes) {
    if (bytes == 8) {
        memcpy(to, from, 8);
    } else {
        __asm__("" : "+r"(bytes));
        memcpy(to, from, bytes);
    }
}

static inline void rlx_small_post(rlx_slot *slot, const void *from, uint64_t bytes) {
    rlx_small_copy(rlx_small_payload(slot, bytes), from, bytes);
}

/* The first chunk's copy, and the rest of a staged call. */
void rlx_staged_post(rlx_mapped *self, const rlx_collective_call *call);
RLX_WARN_UNUSED rlx_status rlx_staged_finish(rlx_mapped *self, const rlx_collective_call *call);

#endif
