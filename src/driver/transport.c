/* SPDX-License-Identifier: Apache-2.0 */
/* The checked face of transports: ranks, bounds, lengths, words. Knows no transport. */
#include "driver/transport.h"

#include "base/options.h"
#include "base/size.h"

enum { WORD = 8 };

rlx_status rlx_transport_read_options(const rlx_transport_options *options,
                                      rlx_transport_options *out_full) {
    rlx_transport_options full = {.size = sizeof full};
    RLX_TRY(rlx_options_read(options, sizeof full, "transport", &full));
    if (full.timeout_ns == 0) full.timeout_ns = rlx_timeout_default_ns;
    if (full.groups == 0) full.groups = RLX_GROUPS_DEFAULT;
    if (full.groups > RLX_GROUPS_MOST) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%u sub-groups, at most %d", full.groups,
                        RLX_GROUPS_MOST);
    }
    *out_full = full;
    return RLX_OK;
}

void rlx_transport_finish(rlx_transport *base) {
    rlx_free(&base->allocator, base->blocks);
    base->blocks = NULL;
}

void rlx_transport_destroy(rlx_transport *transport) {
    if (transport != NULL) transport->ops->destroy(transport);
}

const char *rlx_transport_name(const rlx_transport *transport) {
    return transport != NULL ? transport->ops->name : "";
}

uint32_t rlx_transport_rank(const rlx_transport *transport) {
    return transport != NULL ? transport->rank : 0;
}

uint32_t rlx_transport_rank_count(const rlx_transport *transport) {
    return transport != NULL ? transport->rank_count : 0;
}

uint64_t rlx_transport_heap_bytes(const rlx_transport *transport) {
    return transport != NULL ? transport->heap_bytes : 0;
}

void *rlx_transport_address(const rlx_transport *transport, uint32_t rank) {
    if (transport == NULL || rank >= transport->rank_count) return NULL;
    return transport->ops->address(transport, rank);
}

rlx_status rlx_transport_check(rlx_transport *transport) {
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "transport is null");
    return transport->ops->check(transport);
}

uint64_t rlx_transport_timeout_ns(const rlx_transport *transport) {
    return transport != NULL ? transport->timeout_ns : 0;
}

void rlx_transport_set_timeout_ns(rlx_transport *transport, uint64_t timeout_ns) {
    if (transport == NULL) return;
    transport->timeout_ns = timeout_ns != 0 ? timeout_ns : rlx_timeout_default_ns;
}

static rlx_status unknown_rank(uint32_t rank, uint32_t rank_count) {
    rlx_status status = RLX_FAIL(RLX_UNKNOWN_RANK, "unknown rank %u (have %u)", rank, rank_count);
    *rlx_error_detail_edit() = (rlx_error_detail){.rank = rank, .rank_count = rank_count};
    return status;
}

static rlx_status check_bounds(const rlx_transport *transport, rlx_symmetric_buffer buffer) {
    uint64_t heap = transport->heap_bytes;
    rlx_status status;
    /* Subtract rather than add: offset + bytes may wrap. */
    if (buffer.bytes <= heap && buffer.offset <= heap - buffer.bytes) return RLX_OK;
    status = RLX_FAIL(RLX_OUT_OF_BOUNDS, "offset %" PRIu64 " + bytes %" PRIu64 " > heap %" PRIu64,
                      buffer.offset, buffer.bytes, heap);
    *rlx_error_detail_edit() = (rlx_error_detail){.rank = buffer.rank,
                                                  .rank_count = transport->rank_count,
                                                  .offset = buffer.offset,
                                                  .bytes = buffer.bytes,
                                                  .limit = heap};
    return status;
}

static rlx_status length_mismatch(uint64_t expected, uint64_t got) {
    rlx_status status = RLX_FAIL(
        RLX_LENGTH_MISMATCH, "length mismatch: expected %" PRIu64 ", got %" PRIu64, expected, got);
    *rlx_error_detail_edit() = (rlx_error_detail){.expected = expected, .got = got};
    return status;
}

rlx_status rlx_transport_check_buffer(const rlx_transport *transport, rlx_symmetric_buffer buffer,
                                      uint64_t bytes) {
    if (buffer.rank >= transport->rank_count) {
        return unknown_rank(buffer.rank, transport->rank_count);
    }
    RLX_TRY(check_bounds(transport, buffer));
    return bytes == buffer.bytes ? RLX_OK : length_mismatch(buffer.bytes, bytes);
}

/* The same as a question; small calls come by here millions of times a second. */
static inline bool is_inside(const rlx_transport *transport, rlx_symmetric_buffer buffer) {
    return buffer.rank < transport->rank_count && buffer.bytes <= transport->heap_bytes &&
           buffer.offset <= transport->heap_bytes - buffer.bytes;
}

static rlx_status check_copy(const rlx_transport *transport, const char *what,
                             rlx_symmetric_buffer buffer, const void *memory, uint64_t bytes) {
    if (transport == NULL || (memory == NULL && bytes != 0)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: %s is null", what,
                        transport == NULL ? "transport" : "memory");
    }
    RLX_TRY_WITH(rlx_transport_check_buffer(transport, buffer, bytes), "%s %u -> %u", what,
                 transport->rank, buffer.rank);
    return RLX_OK;
}

/* A word of the heap: {rank, offset, 8}. */
static rlx_status check_word(const rlx_transport *transport, const char *what,
                             rlx_symmetric_buffer where) {
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: transport is null", what);
    RLX_TRY_WITH(rlx_transport_check_buffer(transport, where, WORD), "%s %u -> %u", what,
                 transport->rank, where.rank);
    if (where.offset % WORD != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "%s %u -> %u: offset %" PRIu64 " is not a multiple of 8", what,
                        transport->rank, where.rank, where.offset);
    }
    return RLX_OK;
}

rlx_status rlx_transport_put(rlx_transport *transport, rlx_symmetric_buffer dst, const void *src,
                             uint64_t bytes) {
    RLX_TRY(check_copy(transport, "put", dst, src, bytes));
    return transport->ops->put(transport, dst, src);
}

rlx_status rlx_transport_get(rlx_transport *transport, rlx_symmetric_buffer src, void *dst,
                             uint64_t bytes) {
    RLX_TRY(check_copy(transport, "get", src, dst, bytes));
    return transport->ops->get(transport, src, dst);
}

rlx_status rlx_transport_put_start(rlx_transport *transport, rlx_symmetric_buffer dst,
                                   const void *src, uint64_t bytes) {
    RLX_TRY(check_copy(transport, "put", dst, src, bytes));
    if (transport->ops->put_start == NULL) return transport->ops->put(transport, dst, src);
    return transport->ops->put_start(transport, dst, src);
}

rlx_status rlx_transport_get_start(rlx_transport *transport, rlx_symmetric_buffer src, void *dst,
                                   uint64_t bytes) {
    RLX_TRY(check_copy(transport, "get", src, dst, bytes));
    if (transport->ops->get_start == NULL) return transport->ops->get(transport, src, dst);
    return transport->ops->get_start(transport, src, dst);
}

rlx_status rlx_transport_fence(rlx_transport *transport) {
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "fence: transport is null");
    return transport->ops->fence(transport);
}

rlx_status rlx_transport_quiet(rlx_transport *transport) {
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "quiet: transport is null");
    return transport->ops->quiet(transport);
}

/* What the quick looks below found out of order, with its facts; apart from them, so that they save
 * no registers for it. */
static __attribute__((noinline)) rlx_status refuse_signal(const rlx_transport *transport,
                                                          const rlx_symmetric_buffer *dst,
                                                          const void *src, uint64_t bytes,
                                                          uint64_t signal_offset, rlx_signal kind) {
    RLX_TRY(check_copy(transport, "put_signal", *dst, src, bytes));
    RLX_TRY(check_word(transport, "put_signal",
                       (rlx_symmetric_buffer){dst->rank, signal_offset, WORD}));
    return RLX_FAIL(RLX_INVALID_ARGUMENT, "put_signal: no signal kind %d", (int)kind);
}

static __attribute__((noinline)) rlx_status refuse_wait(const rlx_transport *transport,
                                                        uint64_t offset, rlx_compare compare) {
    uint32_t rank = rlx_transport_rank(transport);
    RLX_TRY(check_word(transport, "wait_until", (rlx_symmetric_buffer){rank, offset, WORD}));
    return RLX_FAIL(RLX_INVALID_ARGUMENT, "wait_until: no comparison %d", (int)compare);
}

rlx_status rlx_transport_put_signal(rlx_transport *transport, rlx_symmetric_buffer dst,
                                    const void *src, uint64_t bytes, uint64_t signal_offset,
                                    rlx_signal kind, uint64_t value) {
    const rlx_symmetric_buffer word = {dst.rank, signal_offset, WORD};
    if (transport == NULL || (src == NULL && bytes != 0) || bytes != dst.bytes ||
        !is_inside(transport, dst) || !is_inside(transport, word) || signal_offset % WORD != 0 ||
        (unsigned)kind > RLX_SIGNAL_ADD) {
        return refuse_signal(transport, &dst, src, bytes, signal_offset, kind);
    }
    return transport->ops->put_signal(transport, &dst, src, signal_offset,
                                      kind == RLX_SIGNAL_ADD ? RLX_ATOMIC_ADD : RLX_ATOMIC_SET,
                                      value);
}

rlx_status rlx_transport_wait_until(rlx_transport *transport, uint64_t offset, rlx_compare compare,
                                    uint64_t value, uint64_t *out_seen) {
    if (transport == NULL || offset % WORD != 0 || transport->heap_bytes < WORD ||
        offset > transport->heap_bytes - WORD || (unsigned)compare > RLX_COMPARE_LE) {
        return refuse_wait(transport, offset, compare);
    }
    return transport->ops->wait_until(transport, offset, compare, value, out_seen);
}

static rlx_status run_atomic(rlx_transport *transport, const char *what, rlx_symmetric_buffer where,
                             const rlx_atomic_call *call, uint64_t *out_before) {
    uint64_t before = 0;
    RLX_TRY(check_word(transport, what, where));
    if (call->wants_before && out_before == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: nowhere to put the word", what);
    }
    RLX_TRY(transport->ops->atomic(transport, where, call, &before));
    if (out_before != NULL) *out_before = before;
    return RLX_OK;
}

rlx_status rlx_transport_atomic_add(rlx_transport *transport, rlx_symmetric_buffer where,
                                    uint64_t value) {
    const rlx_atomic_call call = {.kind = RLX_ATOMIC_ADD, .value = value};
    return run_atomic(transport, "atomic_add", where, &call, NULL);
}

rlx_status rlx_transport_fetch_add(rlx_transport *transport, rlx_symmetric_buffer where,
                                   uint64_t value, uint64_t *out_before) {
    const rlx_atomic_call call = {.kind = RLX_ATOMIC_ADD, .value = value, .wants_before = true};
    return run_atomic(transport, "fetch_add", where, &call, out_before);
}

rlx_status rlx_transport_compare_swap(rlx_transport *transport, rlx_symmetric_buffer where,
                                      uint64_t expected, uint64_t desired, uint64_t *out_before) {
    const rlx_atomic_call call = {
        .kind = RLX_ATOMIC_SWAP, .value = desired, .expected = expected, .wants_before = true};
    return run_atomic(transport, "compare_swap", where, &call, out_before);
}

rlx_status rlx_transport_barrier(rlx_transport *transport) {
    static const rlx_collective_call call = {.kind = RLX_CALL_BARRIER,
                                             .input_offset = RLX_OFFSET_PRIVATE,
                                             .output_offset = RLX_OFFSET_PRIVATE};
    if (transport == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "barrier: transport is null");
    if (transport->ops->barrier != NULL) return transport->ops->barrier(transport);
    return transport->ops->run(transport, &call);
}

rlx_status rlx_transport_split(rlx_transport *transport, uint32_t colour, uint32_t key,
                               rlx_transport **out_transport) {
    rlx_transport *made = NULL;
    if (transport == NULL || out_transport == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "split: null");
    }
    RLX_TRY(transport->ops->split(transport, colour, key, &made));
    *out_transport = made;
    return RLX_OK;
}
