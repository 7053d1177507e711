/* SPDX-License-Identifier: Apache-2.0 */
/* put, get and words: a request to the rank that has the memory, and the wait for its answer. The
 * target answers while it is inside any call of the transport. What is this rank's own is done at
 * once. Every call is complete when it returns, so that fence and quiet have nothing to do. */
#include "collective/net/net.h"

#include <stdatomic.h>
#include <string.h>

static rlx_status ask(rlx_net *self, uint32_t member, rlx_net_head *head, const void *data,
                      uint64_t bytes, rlx_message *out_message) {
    rlx_net_world *world = self->world;
    const rlx_messenger *messenger = world->messenger;
    uint32_t peer = self->members[member];
    head->number = ++world->number;
    world->is_answered = false;
    world->answer_bytes = 0;
    memcpy(world->request_room, head, sizeof *head);
    if (bytes != 0) memcpy(world->request_room + sizeof *head, data, bytes);
    return rlx_net_judge(world,
                         messenger->send(messenger->context, world->request_room,
                                         sizeof *head + bytes, peer,
                                         world->tag_base + RLX_NET_TAG_REQUEST, out_message),
                         peer, RLX_CALL_ONE_SIDED);
}

/* Until the request has its answer, and its own messages are done. */
static rlx_status await_answer(rlx_net *self, uint32_t member, rlx_message *request,
                               rlx_message *data) {
    rlx_net_world *world = self->world;
    uint32_t peer = self->members[member];
    uint64_t timeout = self->base.timeout_ns;
    rlx_net_patience patience = {0};
    while (!world->is_answered)
        RLX_TRY(rlx_net_be_patient(world, &patience, timeout, peer, RLX_CALL_ONE_SIDED));
    RLX_TRY(rlx_net_await(world, request, timeout, peer, RLX_CALL_ONE_SIDED));
    return rlx_net_await(world, data, timeout, peer, RLX_CALL_ONE_SIDED);
}

/* Hands the status on; messages of a call that failed are given up. */
static rlx_status settle(rlx_net *self, rlx_status status, rlx_message *request,
                         rlx_message *data) {
    const rlx_messenger *messenger = self->world->messenger;
    if (status == RLX_OK) return RLX_OK;
    messenger->cancel(messenger->context, request);
    messenger->cancel(messenger->context, data);
    return status;
}

static rlx_status put_piece(rlx_net *self, rlx_symmetric_buffer dst, const void *src,
                            const rlx_net_head *word) {
    rlx_net_world *world = self->world;
    const rlx_messenger *messenger = world->messenger;
    bool is_inline = dst.bytes <= RLX_NET_INLINE_BYTES;
    rlx_message request = {0}, data = {0};
    rlx_net_head head = *word;
    rlx_status status;
    head.kind = RLX_NET_PUT;
    head.offset = dst.offset;
    head.bytes = dst.bytes;
    status = ask(self, dst.rank, &head, src, is_inline ? dst.bytes : 0, &request);
    if (status == RLX_OK && !is_inline) {
        uint32_t peer = self->members[dst.rank];
        status = rlx_net_judge(world,
                               messenger->send(messenger->context, src, dst.bytes, peer,
                                               world->tag_base + RLX_NET_TAG_PUT, &data),
                               peer, RLX_CALL_ONE_SIDED);
    }
    if (status == RLX_OK) status = await_answer(self, dst.rank, &request, &data);
    return settle(self, status, &request, &data);
}

static bool is_own(const rlx_net *self, uint32_t member) {
    return member == self->base.rank;
}

static _Atomic uint64_t *own_word(const rlx_net *self, uint64_t offset) {
    return (_Atomic uint64_t *)(void *)(self->world->heap + offset);
}

/* Puts in pieces; the word goes with the last. */
static rlx_status put(rlx_net *self, rlx_symmetric_buffer dst, const void *src,
                      const rlx_net_head *word) {
    static const rlx_net_head none;
    const uint8_t *from = src;
    RLX_TRY(rlx_net_progress(self->world));
    while (dst.bytes > RLX_NET_BULK_BYTES) {
        rlx_symmetric_buffer piece = {dst.rank, dst.offset, RLX_NET_BULK_BYTES};
        RLX_TRY(put_piece(self, piece, from, &none));
        from += piece.bytes, dst.offset += piece.bytes, dst.bytes -= piece.bytes;
    }
    return put_piece(self, dst, from, word);
}

rlx_status rlx_net_put(rlx_transport *base, rlx_symmetric_buffer dst, const void *src) {
    static const rlx_net_head none;
    rlx_net *self = (rlx_net *)base;
    if (dst.bytes == 0) return RLX_OK;
    if (!is_own(self, dst.rank)) return put(self, dst, src, &none);
    memmove(base->heap + dst.offset, src, dst.bytes);
    return RLX_OK;
}

rlx_status rlx_net_put_signal(rlx_transport *base, const rlx_symmetric_buffer *dst, const void *src,
                              uint64_t signal_offset, rlx_atomic_kind kind, uint64_t value) {
    rlx_net *self = (rlx_net *)base;
    const rlx_net_head word = {
        .atomic = 1 + (uint32_t)kind, .word_offset = signal_offset, .value = value};
    if (!is_own(self, dst->rank)) return put(self, *dst, src, &word);
    if (dst->bytes != 0) memmove(base->heap + dst->offset, src, dst->bytes);
    if (kind == RLX_ATOMIC_SET) {
        atomic_store(own_word(self, signal_offset), value);
    } else {
        atomic_fetch_add(own_word(self, signal_offset), value);
    }
    return RLX_OK;
}

static rlx_status get_inline(rlx_net *self, rlx_symmetric_buffer src, void *dst) {
    rlx_net_world *world = self->world;
    rlx_net_head head = {.kind = RLX_NET_GET, .offset = src.offset, .bytes = src.bytes};
    rlx_message request = {0}, none = {0};
    rlx_status status = ask(self, src.rank, &head, NULL, 0, &request);
    world->answer_data = dst;
    world->answer_bytes = src.bytes;
    if (status == RLX_OK) status = await_answer(self, src.rank, &request, &none);
    return settle(self, status, &request, &none);
}

/* The data itself is the answer. */
static rlx_status get_bulk(rlx_net *self, rlx_symmetric_buffer src, void *dst) {
    rlx_net_world *world = self->world;
    const rlx_messenger *messenger = world->messenger;
    uint32_t peer = self->members[src.rank];
    rlx_net_head head = {.kind = RLX_NET_GET, .offset = src.offset, .bytes = src.bytes};
    rlx_message request = {0}, data = {0};
    rlx_status status = rlx_net_judge(world,
                                      messenger->receive(messenger->context, dst, src.bytes, peer,
                                                         world->tag_base + RLX_NET_TAG_GET, &data),
                                      peer, RLX_CALL_ONE_SIDED);
    if (status == RLX_OK) status = ask(self, src.rank, &head, NULL, 0, &request);
    world->is_answered = true;
    if (status == RLX_OK) status = await_answer(self, src.rank, &request, &data);
    return settle(self, status, &request, &data);
}

rlx_status rlx_net_get(rlx_transport *base, rlx_symmetric_buffer src, void *dst) {
    rlx_net *self = (rlx_net *)base;
    uint8_t *to = dst;
    if (src.bytes == 0) return RLX_OK;
    if (is_own(self, src.rank)) {
        memmove(dst, base->heap + src.offset, src.bytes);
        return RLX_OK;
    }
    RLX_TRY(rlx_net_progress(self->world));
    while (src.bytes > RLX_NET_INLINE_BYTES) {
        rlx_symmetric_buffer piece = src;
        if (piece.bytes > RLX_NET_BULK_BYTES) piece.bytes = RLX_NET_BULK_BYTES;
        RLX_TRY(get_bulk(self, piece, to));
        to += piece.bytes, src.offset += piece.bytes, src.bytes -= piece.bytes;
    }
    return src.bytes != 0 ? get_inline(self, src, to) : RLX_OK;
}

rlx_status rlx_net_order(rlx_transport *base) {
    return rlx_net_progress(((rlx_net *)base)->world);
}

static uint64_t apply_own(_Atomic uint64_t *word, const rlx_atomic_call *call) {
    uint64_t before = call->expected;
    if (call->kind == RLX_ATOMIC_ADD) return atomic_fetch_add(word, call->value);
    atomic_compare_exchange_strong(word, &before, call->value);
    return before;
}

rlx_status rlx_net_atomic(rlx_transport *base, rlx_symmetric_buffer where,
                          const rlx_atomic_call *call, uint64_t *out_before) {
    rlx_net *self = (rlx_net *)base;
    rlx_net_head head = {.kind = RLX_NET_ATOMIC,
                         .atomic = 1 + (uint32_t)call->kind,
                         .word_offset = where.offset,
                         .value = call->value,
                         .expected = call->expected};
    rlx_message request = {0}, none = {0};
    rlx_status status;
    RLX_TRY(rlx_net_progress(self->world));
    if (is_own(self, where.rank)) {
        *out_before = apply_own(own_word(self, where.offset), call);
        return RLX_OK;
    }
    status = ask(self, where.rank, &head, NULL, 0, &request);
    if (status == RLX_OK) status = await_answer(self, where.rank, &request, &none);
    RLX_TRY(settle(self, status, &request, &none));
    *out_before = self->world->answer_value;
    return RLX_OK;
}

rlx_status rlx_net_wait_until(rlx_transport *base, uint64_t offset, rlx_compare compare,
                              uint64_t value, uint64_t *out_seen) {
    rlx_net *self = (rlx_net *)base;
    const _Atomic uint64_t *word = own_word(self, offset);
    const rlx_word_range range = rlx_word_range_of(compare, value);
    rlx_net_patience patience = {0};
    rlx_status status = RLX_OK;
    while (status == RLX_OK) {
        uint64_t seen = atomic_load(word);
        if (rlx_word_is_in(range, seen)) {
            if (out_seen != NULL) *out_seen = seen;
            return RLX_OK;
        }
        status = rlx_net_be_patient(self->world, &patience, base->timeout_ns, RLX_RANKS_MOST,
                                    RLX_CALL_WAIT_UNTIL);
    }
    if (status != RLX_TIMEOUT || self->world->failure != 0) return status;
    return rlx_wait_until_timeout(base, offset, atomic_load(word));
}
