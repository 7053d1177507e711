/* SPDX-License-Identifier: Apache-2.0 */
/* What a transport implements. The wrappers in transport.c and collective.c have checked the
 * arguments; a method only does the work. */
#ifndef RLX_DRIVER_TRANSPORT_H
#define RLX_DRIVER_TRANSPORT_H

#include "base/alloc.h"

#include <rlx/collective.h>

/* Calls that ranks must agree on without being collectives of the public list. */
enum {
    RLX_CALL_BARRIER = RLX_COLLECTIVE_KIND_COUNT,
    RLX_CALL_ALLOCATE,
    RLX_CALL_FREE,
    RLX_CALL_SPLIT,
    RLX_CALL_WAIT_UNTIL,
    RLX_CALL_ONE_SIDED, /* put, get, atomics, where the target has to answer */
    RLX_CALL_POISON     /* a rank whose own arguments are wrong; `root` is its status */
};
/* "barrier" and the like, and the names of collectives. */
const char *rlx_call_name(uint32_t kind);

/* Where an operand lies, for peers to compare: an offset in the heap, or one of these. */
#define RLX_OFFSET_PRIVATE  UINT64_MAX
#define RLX_OFFSET_IN_PLACE (UINT64_MAX - 1) /* where the other operand says */

/* A checked call. The first part is what ranks must agree on. */
typedef struct rlx_collective_call {
    uint32_t kind; /* rlx_collective_kind or RLX_CALL_* */
    rlx_reduction reduction;
    rlx_dtype dtype;
    uint32_t root;
    uint64_t count;
    uint64_t input_offset, output_offset;

    const void *input;
    void *output;
    uint32_t element_bytes;
    uint64_t input_bytes, output_bytes; /* of all that is read or written on this rank */
} rlx_collective_call;

typedef enum rlx_atomic_kind { RLX_ATOMIC_SET, RLX_ATOMIC_ADD, RLX_ATOMIC_SWAP } rlx_atomic_kind;
typedef struct rlx_atomic_call {
    rlx_atomic_kind kind;
    uint64_t value, expected; /* SWAP: `value` where the word is `expected` */
    bool wants_before;
} rlx_atomic_call;

typedef struct rlx_transport_ops {
    const char *name;
    void (*destroy)(rlx_transport *base);
    void *(*address)(const rlx_transport *base, uint32_t rank); /* the rank exists */
    rlx_status (*check)(rlx_transport *base);
    rlx_status (*put)(rlx_transport *base, rlx_symmetric_buffer dst, const void *src);
    rlx_status (*get)(rlx_transport *base, rlx_symmetric_buffer src, void *dst);
    /* Optional pairs; NULL: put and get, which complete on return. */
    rlx_status (*put_start)(rlx_transport *base, rlx_symmetric_buffer dst, const void *src);
    rlx_status (*get_start)(rlx_transport *base, rlx_symmetric_buffer src, void *dst);
    rlx_status (*fence)(rlx_transport *base);
    rlx_status (*quiet)(rlx_transport *base);
    /* `kind` SET or ADD on the word at {dst->rank, signal_offset}, after the bytes. */
    rlx_status (*put_signal)(rlx_transport *base, const rlx_symmetric_buffer *dst, const void *src,
                             uint64_t signal_offset, rlx_atomic_kind kind, uint64_t value);
    /* `out_seen` may be NULL. */
    rlx_status (*wait_until)(rlx_transport *base, uint64_t offset, rlx_compare compare,
                             uint64_t value, uint64_t *out_seen);
    rlx_status (*atomic)(rlx_transport *base, rlx_symmetric_buffer where,
                         const rlx_atomic_call *call, uint64_t *out_before);
    rlx_status (*barrier)(rlx_transport *base); /* optional; NULL: run with RLX_CALL_BARRIER */
    /* Collectives, barrier and agreements. RLX_CALL_POISON returns without waiting. */
    rlx_status (*run)(rlx_transport *base, const rlx_collective_call *call);
    /* Optional: all_reduce of arguments that nobody has looked at; the transport is not NULL. What
     * is not small and ordinary goes on to rlx_all_reduce_checked. */
    rlx_status (*all_reduce)(rlx_transport *base, const void *input, void *output, uint64_t count,
                             rlx_dtype dtype, rlx_reduction reduction);
    rlx_status (*start)(rlx_transport *base, const rlx_collective_call *call, uint64_t *out_token);
    rlx_status (*wait)(rlx_transport *base, uint64_t token);
    /* Optional: a call has failed because the group has. */
    void (*failed)(const rlx_transport *base);
    rlx_status (*split)(rlx_transport *base, uint32_t colour, uint32_t key,
                        rlx_transport **out_transport);
} rlx_transport_ops;

/* Which parts of the heap are allocated, in order of their offsets. */
typedef struct rlx_symmetric_block {
    uint64_t offset, bytes;
} rlx_symmetric_block;

struct rlx_transport { /* first member of every implementation */
    const rlx_transport_ops *ops;
    rlx_allocator allocator;
    uint32_t rank, rank_count;
    uint64_t heap_bytes, timeout_ns;
    uint8_t *heap; /* of this rank; borrowed */
    bool is_sub_group;
    rlx_symmetric_block *blocks; /* owned */
    uint32_t block_count, block_capacity;
};

enum { RLX_GROUPS_DEFAULT = 7, RLX_GROUPS_MOST = 31 };
static const uint64_t rlx_timeout_default_ns = UINT64_C(30) * 1000000000u;

/* all_reduce by the long way, which says what is wrong with its arguments. */
RLX_WARN_UNUSED rlx_status rlx_all_reduce_checked(rlx_transport *transport, const void *input,
                                                  void *output, uint64_t count, rlx_dtype dtype,
                                                  rlx_reduction reduction);

/* Reads and checks the options of any transport. */
RLX_WARN_UNUSED rlx_status rlx_transport_read_options(const rlx_transport_options *options,
                                                      rlx_transport_options *out_full);
/* Releases what the base owns; each destroy() calls it. */
void rlx_transport_finish(rlx_transport *base);

/* Checks the buffer against ranks and heap, in the order of the contract. */
RLX_WARN_UNUSED rlx_status rlx_transport_check_buffer(const rlx_transport *transport,
                                                      rlx_symmetric_buffer buffer, uint64_t bytes);

#endif
