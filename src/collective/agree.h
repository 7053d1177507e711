/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks tell each other about a call, how they say that they disagree, how a group's failure
 * is written down, and how a group is cut. The same for every transport, so that all say the same.
 */
#ifndef RLX_COLLECTIVE_AGREE_H
#define RLX_COLLECTIVE_AGREE_H

#include "driver/transport.h"

/* What a rank calls, for its peers to compare. */
typedef struct rlx_descriptor {
    uint64_t what; /* kind, reduction, dtype, root */
    uint64_t count, input_offset, output_offset;
} rlx_descriptor;

static inline void rlx_descriptor_set(rlx_descriptor *out, const rlx_collective_call *call) {
    out->what = (uint64_t)call->root << 32 | (uint64_t)call->dtype << 16 |
                (uint64_t)call->reduction << 8 | call->kind;
    out->count = call->count;
    out->input_offset = call->input_offset;
    out->output_offset = call->output_offset;
}

static inline bool rlx_descriptor_is_same(const rlx_descriptor *a, const rlx_descriptor *b) {
    return a->what == b->what && a->count == b->count && a->input_offset == b->input_offset &&
           a->output_offset == b->output_offset;
}

/* RLX_MISMATCH: the first rank that called with wrong arguments, or that differs from rank 0.
 * Everybody looks at the same descriptors in the same order and says the same. */
RLX_WARN_UNUSED rlx_status rlx_disagree(const rlx_descriptor *all, uint32_t count);

/* A group's failure in one word: kind | waiting rank | failed rank | call, 16 bits each. */
typedef enum rlx_failure_kind {
    RLX_FAILURE_GONE = 1,
    RLX_FAILURE_LEFT,
    RLX_FAILURE_LATE,
    RLX_FAILURE_REFUSED /* the call's bits hold the status */
} rlx_failure_kind;
static inline uint64_t rlx_failure_pack(rlx_failure_kind kind, uint32_t by, uint32_t rank,
                                        uint32_t call) {
    return (uint64_t)kind << 48 | (uint64_t)by << 32 | (uint64_t)rank << 16 | call;
}
/* Its status and text; not 0. */
RLX_WARN_UNUSED rlx_status rlx_failure_explain(uint64_t failure, uint32_t rank_count);

/* A comparison with a value as a range of words, so that who polls need not choose each time. */
typedef struct rlx_word_range {
    uint64_t low, span; /* low .. low + span, which never wraps */
    bool is_outside;    /* the words that are not in it */
} rlx_word_range;
static inline rlx_word_range rlx_word_range_of(rlx_compare compare, uint64_t value) {
    switch (compare) {
    case RLX_COMPARE_EQ:
    case RLX_COMPARE_NE:
        return (rlx_word_range){value, 0, compare == RLX_COMPARE_NE};
    case RLX_COMPARE_GE:
    case RLX_COMPARE_LT:
        return (rlx_word_range){value, UINT64_MAX - value, compare == RLX_COMPARE_LT};
    default:
        return (rlx_word_range){0, value, compare == RLX_COMPARE_GT};
    }
}
static inline bool rlx_word_is_in(rlx_word_range range, uint64_t word) {
    return (word - range.low <= range.span) != range.is_outside;
}
/* RLX_TIMEOUT: nobody in particular was late. */
RLX_WARN_UNUSED rlx_status rlx_wait_until_timeout(const rlx_transport *base, uint64_t offset,
                                                  uint64_t seen);

/* The base of an endpoint of `count` members; `like` says ops, allocator, timeout and heap. */
void rlx_endpoint_begin(rlx_transport *out_base, const rlx_transport *like, uint32_t group,
                        uint32_t count);

/* How a transport makes the endpoint of a sub-group. */
typedef struct rlx_split_steps {
    /* An endpoint of `count` members of the group; their list is still to be filled in. */
    rlx_status (*make)(rlx_transport *parent, uint32_t group, uint32_t count,
                       rlx_transport **out_made);
    /* Member `index` is who has `parent_index` in the parent. */
    void (*set_member)(rlx_transport *made, uint32_t index, const rlx_transport *parent,
                       uint32_t parent_index);
    /* Before the others use it; optional. */
    void (*clear)(rlx_transport *made);
    void (*release)(rlx_transport *made);
} rlx_split_steps;
/* The split of a transport: who has the same colour becomes a group, in the order of (key, old
 * rank). `groups_used` has a bit per group of this rank; of `group_count` the first that is free on
 * all ranks is taken. RLX_BUSY on all ranks: none is. */
RLX_WARN_UNUSED rlx_status rlx_split(rlx_transport *base, const rlx_split_steps *steps,
                                     uint32_t group_count, uint32_t *groups_used, uint32_t colour,
                                     uint32_t key, rlx_transport **out_transport);

#endif
