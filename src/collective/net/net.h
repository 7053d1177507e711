/* SPDX-License-Identifier: Apache-2.0 */
/* A transport whose ranks send each other messages: no rank sees another's heap. It stands on a
 * messenger (rlx/spi/messenger.h), which MPI gives between hosts.
 *
 * One-sided calls are requests that their target answers whenever it is inside a call of this
 * transport: there is no thread and no passive progress. Collectives exchange a post each (what the
 * call is, and the first bytes), compare, and then move the rest.
 *
 *   world.c     requests of others, waiting, failures
 *   onesided.c  put, get, words
 *   meet.c      posts, comparison, barriers
 *   move.c      the data of collectives
 *   endpoint.c  creation and sub-groups */
#ifndef RLX_COLLECTIVE_NET_H
#define RLX_COLLECTIVE_NET_H

#include "base/thread.h"
#include "collective/agree.h"
#include "collective/queue.h"
#include "collective/watch.h"

#include <rlx/spi/messenger.h>

enum {
    RLX_NET_HEAD_BYTES = 64,
    RLX_NET_INLINE_BYTES = (32 << 10) - RLX_NET_HEAD_BYTES, /* that go with a post or a request */
    RLX_NET_ROOM_BYTES = RLX_NET_HEAD_BYTES + RLX_NET_INLINE_BYTES,
    RLX_NET_STAGING_BYTES = 2 << 20, /* of each of two, for all peers */
    RLX_NET_BULK_BYTES = 64 << 20,   /* of one message */
    RLX_NET_ROOMS = 4                /* receives for requests that are always there */
};

/* Tags of one transport; several in one process have different bases. */
enum { RLX_NET_TAG_REQUEST, RLX_NET_TAG_PUT, RLX_NET_TAG_GET, RLX_NET_TAG_GROUPS = 8 };
enum { RLX_NET_TAGS = RLX_NET_TAG_GROUPS + 2 * (RLX_GROUPS_MOST + 1) };

/* What one rank asks or tells another. Data of up to RLX_NET_INLINE_BYTES follows at once, more in
 * a message of its own. */
typedef enum rlx_net_kind {
    RLX_NET_PUT = 1,
    RLX_NET_GET,
    RLX_NET_ATOMIC,
    RLX_NET_ANSWER,
    RLX_NET_LEFT,
    RLX_NET_FAILED /* `value` is the failure */
} rlx_net_kind;
typedef struct rlx_net_head {
    uint32_t kind;
    uint32_t atomic; /* 1 + rlx_atomic_kind; 0: none */
    uint64_t number; /* of the request */
    uint64_t offset, bytes;
    uint64_t word_offset, value, expected;
    uint64_t reserved;
} rlx_net_head;
_Static_assert(sizeof(rlx_net_head) == RLX_NET_HEAD_BYTES, "heads have one size");

/* What this rank does for one other. */
typedef struct rlx_net_peer {
    bool has_left;
    uint64_t left_ns;      /* when that was noticed */
    int32_t process;       /* its number, where it is of this host; else 0 */
    rlx_watch watch;       /* of that process */
    uint64_t gone_ns;      /* when it was seen to have ended; 0: it lives */
    rlx_message answer;    /* under way to it, out of answer_room */
    uint8_t *answer_room;  /* RLX_NET_ROOM_BYTES */
    rlx_message outgoing;  /* the data of its get */
    rlx_message incoming;  /* the data of its put */
    rlx_net_head put_head; /* what comes after that data */
} rlx_net_peer;

typedef struct rlx_net_world {
    rlx_allocator allocator;
    const rlx_messenger *messenger;
    uint32_t rank, rank_count, group_count;
    uint32_t groups_used; /* bit per group of this rank; bit 0: all ranks */
    uint32_t tag_base;
    bool shares_processors; /* with other ranks: nobody spins */
    uint64_t heap_bytes;
    uint8_t *heap;                       /* owned */
    rlx_net_peer *peers;                 /* owned */
    uint8_t *answer_rooms;               /* of all peers; owned */
    uint8_t *rooms;                      /* RLX_NET_ROOMS; owned */
    rlx_message receives[RLX_NET_ROOMS]; /* into the rooms, oldest at next_room */
    uint32_t next_room;
    uint32_t busy;       /* incoming and outgoing of all peers */
    uint64_t watched_ns; /* when the peers' processes were looked at */
    uint64_t failure;
    /* The request of this rank that is under way: there is one at most. */
    uint64_t number;
    bool is_answered;
    uint64_t answer_value;
    void *answer_data;
    uint64_t answer_bytes;
    uint8_t *request_room; /* RLX_NET_ROOM_BYTES; owned */
} rlx_net_world;

typedef struct rlx_net {
    rlx_transport base;
    rlx_net_world *world; /* owned by the endpoint of all ranks, borrowed by sub-groups */
    uint32_t group;
    uint32_t *members; /* their numbers among all ranks; owned */
    rlx_call_queue queue;
    rlx_descriptor own;   /* of the call that is posted */
    uint8_t *post_rooms;  /* RLX_NET_ROOM_BYTES per member, received; owned */
    uint8_t *send_rooms;  /* the same, sent; owned */
    rlx_message *posts;   /* [member] received; owned */
    rlx_message *sends;   /* [member] sent; owned */
    rlx_message *flights; /* RLX_NET_FLIGHTS x [member]: chunks; owned */
    uint8_t *staging;     /* two of RLX_NET_STAGING_BYTES; owned */
    const void **sources; /* owned */
    const struct rlx_fold_table *folds;
} rlx_net;
/* Messages of chunks: two chunks are under way at once. */
enum {
    RLX_NET_FLIGHT_IN = 0,  /* + chunk % 2 */
    RLX_NET_FLIGHT_OUT = 2, /* + chunk % 2 */
    RLX_NET_FLIGHT_BACK_IN = 4,
    RLX_NET_FLIGHT_BACK_OUT = 6,
    RLX_NET_FLIGHTS = 8
};

/* The endpoint of all ranks. Every rank calls it; `transport_number` is the same on all of them and
 * another for each transport of the process. Does not meet the others. */
RLX_WARN_UNUSED rlx_status rlx_net_create(const rlx_transport_ops *ops,
                                          const rlx_allocator *allocator,
                                          const rlx_messenger *messenger, uint64_t heap_bytes,
                                          const rlx_transport_options *options,
                                          uint32_t transport_number, bool shares_processors,
                                          rlx_transport **out_transport);
/* The rank is a process of this host: its end is noticed by whoever waits. For the endpoint of all
 * ranks. */
void rlx_net_watch(rlx_transport *base, uint32_t rank, int32_t process);

/* The methods. */
void rlx_net_destroy(rlx_transport *base);
void *rlx_net_address(const rlx_transport *base, uint32_t rank);
rlx_status rlx_net_check(rlx_transport *base);
rlx_status rlx_net_put(rlx_transport *base, rlx_symmetric_buffer dst, const void *src);
rlx_status rlx_net_get(rlx_transport *base, rlx_symmetric_buffer src, void *dst);
rlx_status rlx_net_order(rlx_transport *base); /* fence and quiet */
rlx_status rlx_net_put_signal(rlx_transport *base, const rlx_symmetric_buffer *dst, const void *src,
                              uint64_t signal_offset, rlx_atomic_kind kind, uint64_t value);
rlx_status rlx_net_wait_until(rlx_transport *base, uint64_t offset, rlx_compare compare,
                              uint64_t value, uint64_t *out_seen);
rlx_status rlx_net_atomic(rlx_transport *base, rlx_symmetric_buffer where,
                          const rlx_atomic_call *call, uint64_t *out_before);
rlx_status rlx_net_run(rlx_transport *base, const rlx_collective_call *call);
rlx_status rlx_net_start(rlx_transport *base, const rlx_collective_call *call, uint64_t *out_token);
rlx_status rlx_net_wait(rlx_transport *base, uint64_t token);
rlx_status rlx_net_split(rlx_transport *base, uint32_t colour, uint32_t key,
                         rlx_transport **out_transport);
#define RLX_NET_OPS(transport_name)                                                             \
    {                                                                                           \
        .name = transport_name, .destroy = rlx_net_destroy, .address = rlx_net_address,         \
        .check = rlx_net_check, .put = rlx_net_put, .get = rlx_net_get, .fence = rlx_net_order, \
        .quiet = rlx_net_order, .put_signal = rlx_net_put_signal,                               \
        .wait_until = rlx_net_wait_until, .atomic = rlx_net_atomic, .run = rlx_net_run,         \
        .start = rlx_net_start, .wait = rlx_net_wait, .split = rlx_net_split                    \
    }

/* world.c -------------------------------------------------------------------------------------- */

/* Posts the receives for requests. */
RLX_WARN_UNUSED rlx_status rlx_net_listen(rlx_net_world *world);
/* Gives up everything under way and tells the peers that this rank leaves. */
void rlx_net_leave(rlx_net_world *world);

/* Does what others ask, as far as it has arrived. RLX_OK, or why the group has failed. */
RLX_WARN_UNUSED rlx_status rlx_net_progress(rlx_net_world *world);

/* RLX_OK, or the failure that the group has had. */
RLX_WARN_UNUSED rlx_status rlx_net_failure(const rlx_net_world *world);
/* The messenger's call of this code failed: the peer is gone. RLX_OK for 0. */
RLX_WARN_UNUSED rlx_status rlx_net_judge(rlx_net_world *world, int code, uint32_t peer,
                                         uint32_t call);

/* How a wait goes on; zero it first. */
typedef struct rlx_net_patience {
    uint64_t start_ns;
    uint32_t rounds;
} rlx_net_patience;
/* One round of waiting for `peer` (a world rank; RLX_RANKS_MOST: nobody in particular) in `call`:
 * serves others, and yields or sleeps. RLX_TIMEOUT without a failure of the group where nobody in
 * particular is waited for. */
RLX_WARN_UNUSED rlx_status rlx_net_be_patient(rlx_net_world *world, rlx_net_patience *patience,
                                              uint64_t timeout_ns, uint32_t peer, uint32_t call);
/* Waits until the message is done. */
RLX_WARN_UNUSED rlx_status rlx_net_await(rlx_net_world *world, rlx_message *message,
                                         uint64_t timeout_ns, uint32_t peer, uint32_t call);

/* meet.c, move.c ------------------------------------------------------------------------------- */

extern const rlx_queue_steps rlx_net_steps;
/* Waits for the end of all sends of posts. */
RLX_WARN_UNUSED rlx_status rlx_net_finish_posts(rlx_net *self, uint32_t call);
/* Gives up all messages of the endpoint. */
void rlx_net_forget(rlx_net *self);

/* The bytes of `call` that go to member `to` with the post: where they lie and how many. */
uint64_t rlx_net_lead(const rlx_net *self, const rlx_collective_call *call, uint32_t to,
                      const void **out_data);
/* The data of a call that all agree on; posts have arrived. */
RLX_WARN_UNUSED rlx_status rlx_net_move(rlx_net *self, const rlx_collective_call *call);

static inline rlx_message *rlx_net_flight(const rlx_net *self, uint32_t flight, uint32_t member) {
    return &self->flights[flight * self->base.rank_count + member];
}
static inline uint8_t *rlx_net_room(uint8_t *rooms, uint32_t index) {
    return rooms + (size_t)index * RLX_NET_ROOM_BYTES;
}

#endif
