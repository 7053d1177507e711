/* SPDX-License-Identifier: Apache-2.0 */
/* The data of collectives over messages. Each rank has a stream of bytes for every other:
 *
 *   all_reduce      small: everything, and all ranks fold all of it. Large: part p goes to rank p,
 *                   which folds it and sends the result to all
 *   reduce_scatter  part p goes to rank p, which folds it
 *   all_gather      the input
 *   broadcast       root sends everything; large ones with more than two ranks: part p to rank p,
 *                   which sends it on to all
 *   all_to_all      part p goes to rank p
 *
 * The first RLX_NET_INLINE_BYTES of a stream came with the post: they are chunk 0. Later chunks are
 * messages of their own; the next one is under way while one is folded. Folds go in rank order, so
 * that all ranks have the same bits. */
#include "collective/net/net.h"

#include "collective/fold.h"

#include <string.h>

enum { ONE_SHOT_BYTES = 64 << 10, PHASE_THERE = 0, PHASE_BACK = 1 };

/* How a call is done; the same on every rank. */
typedef struct course {
    const rlx_collective_call *call;
    uint32_t n, rank;
    bool is_two_shot; /* results go back to all */
    bool is_direct;   /* chunks are received where they belong */
    uint64_t chunk_bytes, chunk_count;
} course;

typedef struct range {
    uint64_t begin, bytes;
} range;

static bool reduces(const rlx_collective_call *call) {
    return call->kind == RLX_COLLECTIVE_ALL_REDUCE || call->kind == RLX_COLLECTIVE_REDUCE_SCATTER;
}

static bool has_no_data(const rlx_collective_call *call) {
    return call->kind >= RLX_COLLECTIVE_KIND_COUNT || call->count == 0;
}

static bool is_two_shot(const rlx_collective_call *call, uint32_t n) {
    uint64_t bytes = call->count * call->element_bytes;
    if (call->kind == RLX_COLLECTIVE_ALL_REDUCE)
        return bytes > ONE_SHOT_BYTES / (n > 1 ? n - 1 : 1);
    return call->kind == RLX_COLLECTIVE_BROADCAST && n > 2 && bytes > RLX_NET_INLINE_BYTES;
}

static range part_of(const rlx_collective_call *call, uint32_t n, uint32_t part) {
    uint64_t first, count;
    rlx_collective_part(call->count, n, part, &first, &count);
    return (range){first * call->element_bytes, count * call->element_bytes};
}

/* What goes from one member to another, as a range of the sender's input (broadcast: output). */
static range stream(const course *how, uint32_t from, uint32_t to) {
    const rlx_collective_call *call = how->call;
    uint64_t bytes = call->count * call->element_bytes;
    bool is_broadcast = call->kind == RLX_COLLECTIVE_BROADCAST;
    if (from == to || (is_broadcast && from != call->root)) return (range){0, 0};
    if (how->is_two_shot || call->kind == RLX_COLLECTIVE_REDUCE_SCATTER) {
        return part_of(call, how->n, to);
    }
    return (range){call->kind == RLX_COLLECTIVE_ALL_TO_ALL ? to * bytes : 0, bytes};
}

static uint64_t longest_stream(const course *how) {
    const rlx_collective_call *call = how->call;
    bool has_parts = how->is_two_shot || call->kind == RLX_COLLECTIVE_REDUCE_SCATTER;
    return has_parts ? part_of(call, how->n, 0).bytes : call->count * call->element_bytes;
}

static course plan(const rlx_net *self, const rlx_collective_call *call) {
    course how = {.call = call, .n = self->base.rank_count, .rank = self->base.rank};
    uint64_t rest;
    how.is_two_shot = is_two_shot(call, how.n);
    how.is_direct =
        !reduces(call) && !how.is_two_shot &&
        !(call->kind == RLX_COLLECTIVE_ALL_TO_ALL && call->input_offset == RLX_OFFSET_IN_PLACE);
    how.chunk_bytes =
        how.is_direct ? RLX_NET_BULK_BYTES : (RLX_NET_STAGING_BYTES / how.n & ~UINT64_C(63));
    rest = longest_stream(&how);
    rest = rest > RLX_NET_INLINE_BYTES ? rest - RLX_NET_INLINE_BYTES : 0;
    how.chunk_count = 1 + (rest + how.chunk_bytes - 1) / how.chunk_bytes;
    return how;
}

/* The part of a range that chunk `index` has. */
static range chunk_of(const course *how, range whole, uint64_t index) {
    uint64_t begin = 0, bytes = RLX_NET_INLINE_BYTES;
    if (index != 0) {
        begin = RLX_NET_INLINE_BYTES + (index - 1) * how->chunk_bytes;
        bytes = how->chunk_bytes;
    }
    if (begin >= whole.bytes) return (range){whole.begin, 0};
    if (bytes > whole.bytes - begin) bytes = whole.bytes - begin;
    return (range){whole.begin + begin, bytes};
}

static const uint8_t *input_of(const rlx_collective_call *call) {
    return call->kind == RLX_COLLECTIVE_BROADCAST ? call->output : call->input;
}

uint64_t rlx_net_lead(const rlx_net *self, const rlx_collective_call *call, uint32_t to,
                      const void **out_data) {
    course how;
    range lead;
    if (has_no_data(call)) return 0;
    how = plan(self, call);
    lead = chunk_of(&how, stream(&how, how.rank, to), 0);
    if (lead.bytes == 0) return 0;
    *out_data = input_of(call) + lead.begin;
    return lead.bytes;
}

/* Where the bytes of member `from` go that are copied and not folded. */
static uint8_t *place_of(const course *how, uint32_t from) {
    const rlx_collective_call *call = how->call;
    bool has_rows =
        call->kind == RLX_COLLECTIVE_ALL_GATHER || call->kind == RLX_COLLECTIVE_ALL_TO_ALL;
    return (uint8_t *)call->output + (has_rows ? from * call->count * call->element_bytes : 0);
}

/* Where chunk `index` of the stream from a member lies once it has arrived. */
static uint8_t *arrived_at(const rlx_net *self, const course *how, uint32_t from, uint64_t index) {
    if (index == 0) return rlx_net_room(self->post_rooms, from) + RLX_NET_HEAD_BYTES;
    return self->staging + (index % 2) * RLX_NET_STAGING_BYTES + from * how->chunk_bytes;
}

static uint32_t tag_of(const rlx_net *self, uint32_t phase) {
    return self->world->tag_base + RLX_NET_TAG_GROUPS + 2 * self->group + phase;
}

static rlx_status send(rlx_net *self, const course *how, const void *data, uint64_t bytes,
                       uint32_t to, uint32_t phase, rlx_message *out_message) {
    const rlx_messenger *messenger = self->world->messenger;
    int code;
    if (bytes == 0) return RLX_OK;
    code = messenger->send(messenger->context, data, bytes, self->members[to], tag_of(self, phase),
                           out_message);
    return rlx_net_judge(self->world, code, self->members[to], how->call->kind);
}

static rlx_status receive(rlx_net *self, const course *how, void *data, uint64_t bytes,
                          uint32_t from, uint32_t phase, rlx_message *out_message) {
    const rlx_messenger *messenger = self->world->messenger;
    int code;
    if (bytes == 0) return RLX_OK;
    code = messenger->receive(messenger->context, data, bytes, self->members[from],
                              tag_of(self, phase), out_message);
    return rlx_net_judge(self->world, code, self->members[from], how->call->kind);
}

static rlx_status await_all(rlx_net *self, const course *how, uint32_t flight) {
    for (uint32_t i = 0; i < how->n; ++i) {
        RLX_TRY(rlx_net_await(self->world, rlx_net_flight(self, flight, i), self->base.timeout_ns,
                              self->members[i], how->call->kind));
    }
    return RLX_OK;
}

/* Chunk `index` > 0 goes out, and receives wait for those of the others. */
static rlx_status begin_chunk(rlx_net *self, const course *how, uint64_t index) {
    uint32_t parity = index % 2;
    for (uint32_t step = 1; step < how->n; ++step) {
        uint32_t to = (how->rank + step) % how->n, from = (how->rank + how->n - step) % how->n;
        range theirs = chunk_of(how, stream(how, from, how->rank), index);
        range mine = chunk_of(how, stream(how, how->rank, to), index);
        uint8_t *target = arrived_at(self, how, from, index);
        if (how->is_direct) {
            range whole = stream(how, from, how->rank);
            target = place_of(how, from) + (theirs.begin - whole.begin);
        }
        RLX_TRY(receive(self, how, target, theirs.bytes, from, PHASE_THERE,
                        rlx_net_flight(self, RLX_NET_FLIGHT_IN + parity, from)));
        RLX_TRY(send(self, how, input_of(how->call) + mine.begin, mine.bytes, to, PHASE_THERE,
                     rlx_net_flight(self, RLX_NET_FLIGHT_OUT + parity, to)));
    }
    return RLX_OK;
}

/* The range of input and output that this rank folds: all of it, or its part. */
static range own_range(const course *how) {
    const rlx_collective_call *call = how->call;
    if (how->is_two_shot || call->kind == RLX_COLLECTIVE_REDUCE_SCATTER) {
        return part_of(call, how->n, how->rank);
    }
    return (range){0, call->count * call->element_bytes};
}

static void fold_chunk(rlx_net *self, const course *how, uint64_t index) {
    const rlx_collective_call *call = how->call;
    range whole = own_range(how), mine = chunk_of(how, whole, index);
    uint8_t *output = (uint8_t *)call->output + mine.begin;
    void *targets[1];
    if (mine.bytes == 0) return;
    if (call->kind == RLX_COLLECTIVE_REDUCE_SCATTER) output -= whole.begin;
    targets[0] = output;
    for (uint32_t i = 0; i < how->n; ++i) {
        self->sources[i] = i == how->rank ? (const uint8_t *)call->input + mine.begin
                                          : arrived_at(self, how, i, index);
    }
    rlx_fold_with(self->folds, call->dtype, call->reduction, self->sources, how->n, targets, 1,
                  mine.bytes / call->element_bytes);
}

/* Copies what arrived beside its place: chunk 0, and all of a call that is not direct. */
static void copy_chunk(rlx_net *self, const course *how, uint64_t index) {
    for (uint32_t i = 0; i < how->n; ++i) {
        range whole = stream(how, i, how->rank), theirs = chunk_of(how, whole, index);
        uint64_t at = how->is_two_shot ? theirs.begin : theirs.begin - whole.begin;
        if (theirs.bytes == 0 || (how->is_direct && index != 0)) continue;
        memcpy(place_of(how, i) + at, arrived_at(self, how, i, index), theirs.bytes);
    }
}

/* What goes back with chunk `index`: chunk 0 is short, and waits for the next one. */
static range back_of(const course *how, range whole, uint64_t index) {
    range part = chunk_of(how, whole, index), first = chunk_of(how, whole, 0);
    if (index == 0 && how->chunk_count > 1) return (range){whole.begin, 0};
    if (index == 1) part = (range){first.begin, first.bytes + part.bytes};
    return part;
}

/* The folded chunk goes to all, and theirs come. Root of a broadcast has everything. */
static rlx_status begin_back(rlx_net *self, const course *how, uint64_t index) {
    const rlx_collective_call *call = how->call;
    bool is_broadcast = call->kind == RLX_COLLECTIVE_BROADCAST;
    uint8_t *output = call->output;
    uint32_t parity = index % 2;
    for (uint32_t step = 1; step < how->n; ++step) {
        uint32_t to = (how->rank + step) % how->n, from = (how->rank + how->n - step) % how->n;
        range mine = back_of(how, part_of(call, how->n, how->rank), index);
        range theirs = back_of(how, part_of(call, how->n, from), index);
        if (!is_broadcast || how->rank != call->root) {
            RLX_TRY(receive(self, how, output + theirs.begin, theirs.bytes, from, PHASE_BACK,
                            rlx_net_flight(self, RLX_NET_FLIGHT_BACK_IN + parity, from)));
        }
        if (!is_broadcast || to != call->root) {
            RLX_TRY(send(self, how, output + mine.begin, mine.bytes, to, PHASE_BACK,
                         rlx_net_flight(self, RLX_NET_FLIGHT_BACK_OUT + parity, to)));
        }
    }
    return RLX_OK;
}

static rlx_status end_back(rlx_net *self, const course *how, uint64_t index) {
    RLX_TRY(await_all(self, how, RLX_NET_FLIGHT_BACK_IN + index % 2));
    return await_all(self, how, RLX_NET_FLIGHT_BACK_OUT + index % 2);
}

/* What was sent of a chunk may be written over from here on: results land where inputs were. */
static rlx_status finish_chunk(rlx_net *self, const course *how, uint64_t index) {
    if (index != 0) {
        RLX_TRY(await_all(self, how, RLX_NET_FLIGHT_IN + index % 2));
        RLX_TRY(await_all(self, how, RLX_NET_FLIGHT_OUT + index % 2));
    }
    if (reduces(how->call)) {
        fold_chunk(self, how, index);
    } else {
        copy_chunk(self, how, index);
    }
    if (!how->is_two_shot) return RLX_OK;
    if (index != 0) RLX_TRY(end_back(self, how, index - 1));
    return begin_back(self, how, index);
}

/* The own part of what is only copied. */
static void copy_own(const course *how) {
    const rlx_collective_call *call = how->call;
    uint64_t bytes = call->count * call->element_bytes;
    const uint8_t *source = call->input;
    uint8_t *target = place_of(how, how->rank);
    if (reduces(call) || call->kind == RLX_COLLECTIVE_BROADCAST) return;
    if (call->kind == RLX_COLLECTIVE_ALL_TO_ALL) source += how->rank * bytes;
    if (source != target) memcpy(target, source, bytes);
}

rlx_status rlx_net_move(rlx_net *self, const rlx_collective_call *call) {
    course how;
    if (has_no_data(call)) return RLX_OK;
    how = plan(self, call);
    for (uint64_t index = 0; index < how.chunk_count; ++index) {
        if (index + 1 < how.chunk_count) RLX_TRY(begin_chunk(self, &how, index + 1));
        RLX_TRY(finish_chunk(self, &how, index));
    }
    copy_own(&how);
    return how.is_two_shot ? end_back(self, &how, how.chunk_count - 1) : RLX_OK;
}
