/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives that were started and not waited for, in the order of their tokens. The oldest one
 * that is not done is posted, so that peers need not wait for this rank's next call. */
#ifndef RLX_COLLECTIVE_QUEUE_H
#define RLX_COLLECTIVE_QUEUE_H

#include "driver/transport.h"

enum { RLX_PENDING_MOST = 16 };

typedef struct rlx_pending {
    uint64_t token;
    rlx_collective_call call;
    bool is_done;
    rlx_status status;
    rlx_error_record record;
} rlx_pending;

/* How the transport does a call: say what it is, then meet the others and move the data. A post
 * that fails shows in finish. */
typedef struct rlx_queue_steps {
    void (*post)(rlx_transport *base, const rlx_collective_call *call);
    rlx_status (*finish)(rlx_transport *base, const rlx_collective_call *call);
} rlx_queue_steps;

typedef struct rlx_call_queue {
    const rlx_queue_steps *steps;
    rlx_pending *items; /* RLX_PENDING_MOST, a ring; owned */
    uint32_t first, count;
    uint64_t tokens;  /* given out */
    bool is_posted;   /* the last call is posted and not yet met */
    bool is_poisoned; /* and it is this rank's poison */
} rlx_call_queue;

RLX_WARN_UNUSED rlx_status rlx_queue_create(const rlx_allocator *allocator,
                                            const rlx_queue_steps *steps,
                                            rlx_call_queue *out_queue);
void rlx_queue_release(const rlx_allocator *allocator, rlx_call_queue *queue);

/* Finishes all that was started up to `token`. */
void rlx_queue_drain(rlx_call_queue *queue, rlx_transport *base, uint64_t token);
/* The methods start and wait of a transport. */
RLX_WARN_UNUSED rlx_status rlx_queue_start(rlx_call_queue *queue, rlx_transport *base,
                                           const rlx_collective_call *call, uint64_t *out_token);
RLX_WARN_UNUSED rlx_status rlx_queue_wait(rlx_call_queue *queue, rlx_transport *base,
                                          uint64_t token);

#endif
