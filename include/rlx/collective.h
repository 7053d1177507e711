/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: every rank of a group calls the same, in the same order, and all get the same bits.
 *
 * Sums and the like are folded in rank order 0 .. n-1; f16 and bf16 travel as 16 bits, are folded
 * in f32 and rounded once. NaN propagates through min and max. Integer sums and products wrap; the
 * mean of integers rounds toward zero.
 *
 * Buffers that lie in the own heap are symmetric: the same offset on every rank, reduced in place
 * without a staging copy. Others are private. A mixture between ranks is a mismatch.
 *
 * Each call tells its peers what it is. Ranks that disagree on kind, dtype, reduction, count, root
 * or offset all get RLX_MISMATCH, which names a rank and the difference, and no output is written;
 * so do the peers of a rank whose own arguments are wrong. The group stays usable. */
#ifndef RLX_COLLECTIVE_H
#define RLX_COLLECTIVE_H

#include <rlx/dtype.h>
#include <rlx/transport.h>

RLX_BEGIN_DECLS

typedef enum rlx_collective_kind {
    RLX_COLLECTIVE_ALL_REDUCE = 0, /* count elements in, count out */
    RLX_COLLECTIVE_ALL_GATHER,     /* count in, rank_count * count out, in rank order */
    RLX_COLLECTIVE_REDUCE_SCATTER, /* count in, the own part (rlx_collective_part) out */
    RLX_COLLECTIVE_BROADCAST,      /* count of root; input is not used */
    RLX_COLLECTIVE_ALL_TO_ALL,     /* rank_count * count in and out: part p goes to rank p */
    RLX_COLLECTIVE_KIND_COUNT
} rlx_collective_kind;

typedef enum rlx_reduction {
    RLX_REDUCTION_SUM = 0,
    RLX_REDUCTION_MEAN,
    RLX_REDUCTION_PRODUCT,
    RLX_REDUCTION_MIN,
    RLX_REDUCTION_MAX,
    RLX_REDUCTION_COUNT
} rlx_reduction;

/* "all_reduce", "sum"; "?" for a number that is none. */
RLX_API const char *rlx_collective_kind_name(rlx_collective_kind kind);
RLX_API const char *rlx_reduction_name(rlx_reduction reduction);

/* One collective. dtype is f32 f64 f16 bf16 i32 i64 u8. Pointers are aligned to the element, may be
 * NULL where nothing is counted, and are the collective's until it is done. In place: input ==
 * output (all_gather: input is the own part of output; reduce_scatter: output is the own part of
 * input); any other overlap is RLX_INVALID_ARGUMENT. */
typedef struct rlx_collective_request {
    rlx_collective_kind kind;
    rlx_reduction reduction; /* all_reduce, reduce_scatter */
    rlx_dtype dtype;
    uint32_t root; /* broadcast */
    uint64_t count;
    const void *input;
    void *output;
} rlx_collective_request;

/* Rank `part` of `rank_count` owns [*out_first, *out_first + *out_count) of `count` elements: parts
 * differ by at most one, the first are the larger ones. */
RLX_API void rlx_collective_part(uint64_t count, uint32_t rank_count, uint32_t part,
                                 uint64_t *out_first, uint64_t *out_count);

RLX_CALL rlx_status rlx_collective_run(rlx_transport *transport,
                                       const rlx_collective_request *request);

/* Starts one and returns; compute may go on meanwhile, on other memory. Up to 16 may be under way
 * (then RLX_BUSY); they are done in the order they were started. Tokens are never 0. */
RLX_CALL rlx_status rlx_collective_start(rlx_transport *transport,
                                         const rlx_collective_request *request,
                                         uint64_t *out_token);
/* Finishes it and all that were started before it. Each token once, in any order: RLX_NOT_FOUND
 * otherwise. A blocking collective finishes what was started before it; its outcome stays for
 * wait. */
RLX_CALL rlx_status rlx_collective_wait(rlx_transport *transport, uint64_t token);

/* The same as calls. */
RLX_CALL rlx_status rlx_all_reduce(rlx_transport *transport, const void *input, void *output,
                                   uint64_t count, rlx_dtype dtype, rlx_reduction reduction);
RLX_CALL rlx_status rlx_all_gather(rlx_transport *transport, const void *input, void *output,
                                   uint64_t count, rlx_dtype dtype);
RLX_CALL rlx_status rlx_reduce_scatter(rlx_transport *transport, const void *input, void *output,
                                       uint64_t count, rlx_dtype dtype, rlx_reduction reduction);
RLX_CALL rlx_status rlx_broadcast(rlx_transport *transport, void *buffer, uint64_t count,
                                  rlx_dtype dtype, uint32_t root);
RLX_CALL rlx_status rlx_all_to_all(rlx_transport *transport, const void *input, void *output,
                                   uint64_t count, rlx_dtype dtype);

RLX_END_DECLS

#endif
