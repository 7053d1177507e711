/* SPDX-License-Identifier: Apache-2.0 */
/* A call of all ranks: post what it is, meet the others, compare, then move the data. Calls that
 * were started and not waited for stand in a queue; only the first of it is posted. */
#include "collective/mapped.h"

#include <stdio.h>

static uint64_t pack_what(const rlx_collective_call *call) {
    return (uint64_t)call->root << 32 | (uint64_t)call->dtype << 16 |
           (uint64_t)call->reduction << 8 | call->kind;
}

static void post(rlx_mapped *self, const rlx_collective_call *call) {
    uint64_t sequence = ++self->sequence;
    rlx_slot *slot = rlx_slot_of(self, self->base.rank);
    slot->what = pack_what(call);
    slot->count = call->count;
    slot->input_offset = call->input_offset;
    slot->output_offset = call->output_offset;
    rlx_way_post(self, call, slot);
    atomic_store_explicit(&slot->word, 2 * sequence, memory_order_release);
    rlx_mapped_ring(self->world);
    self->is_posted = true;
}

/* What a slot says; a barrier's is not written out. */
static uint64_t what_of(const rlx_slot *slot) {
    bool is_barrier = atomic_load_explicit(&slot->word, memory_order_relaxed) % 2 != 0;
    return is_barrier ? RLX_CALL_BARRIER : slot->what;
}

static inline bool is_same(const rlx_slot *a, const rlx_slot *b) {
    return a->what == b->what && a->count == b->count && a->input_offset == b->input_offset &&
           a->output_offset == b->output_offset;
}

static rlx_status poisoned(uint32_t rank, const rlx_slot *slot, const rlx_mapped *self) {
    rlx_status cause = (rlx_status)(slot->what >> 32);
    rlx_fail(RLX_MISMATCH, "rank %u called with wrong arguments (%s)", rank,
             rlx_status_text(cause));
    *rlx_error_detail_edit() =
        (rlx_error_detail){.rank = rank, .rank_count = self->base.rank_count};
    return RLX_MISMATCH;
}

static const char *offset_text(uint64_t offset, char text[32]) {
    if (offset == RLX_OFFSET_PRIVATE) return "a private address";
    if (offset == RLX_OFFSET_IN_PLACE) return "the place of the other operand";
    snprintf(text, 32, "offset %" PRIu64, offset);
    return text;
}

/* Says the first thing that rank `rank` has other than rank 0. */
static void describe(uint32_t rank, const rlx_slot *a, const rlx_slot *b) {
    char left[32], right[32];
    uint32_t kind_a = what_of(a) & 0xff, kind_b = what_of(b) & 0xff;
    const char *name = rlx_call_name(kind_a);
    rlx_dtype dtype_a = (rlx_dtype)(a->what >> 16 & 0xffff);
    rlx_dtype dtype_b = (rlx_dtype)(b->what >> 16 & 0xffff);
    rlx_reduction reduction_a = (rlx_reduction)(a->what >> 8 & 0xff);
    rlx_reduction reduction_b = (rlx_reduction)(b->what >> 8 & 0xff);
    if (kind_a != kind_b) {
        rlx_fail(RLX_MISMATCH, "rank %u calls %s, rank 0 %s", rank, rlx_call_name(kind_b), name);
    } else if (dtype_a != dtype_b) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u has dtype %s, rank 0 %s", name, rank,
                 rlx_dtype_name(dtype_b), rlx_dtype_name(dtype_a));
    } else if (reduction_a != reduction_b) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u takes the %s, rank 0 the %s", name, rank,
                 rlx_reduction_name(reduction_b), rlx_reduction_name(reduction_a));
    } else if (a->what != b->what) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u has root %u, rank 0 %u", name, rank,
                 (uint32_t)(b->what >> 32), (uint32_t)(a->what >> 32));
    } else if (a->count != b->count) {
        rlx_fail(RLX_MISMATCH, "%s: rank %u has count %" PRIu64 ", rank 0 %" PRIu64, name, rank,
                 b->count, a->count);
    } else {
        bool is_input = a->input_offset != b->input_offset;
        rlx_fail(RLX_MISMATCH, "%s: rank %u has its %s at %s, rank 0 at %s", name, rank,
                 is_input ? "input" : "output",
                 offset_text(is_input ? b->input_offset : b->output_offset, right),
                 offset_text(is_input ? a->input_offset : a->output_offset, left));
    }
}

/* Every rank looks at the same slots in the same order and says the same. */
static rlx_status disagree(const rlx_mapped *self) {
    const rlx_slot *first = rlx_slot_of(self, 0);
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        const rlx_slot *other = rlx_slot_of(self, i);
        if ((what_of(other) & 0xff) == RLX_CALL_POISON) return poisoned(i, other, self);
    }
    for (uint32_t i = 1; i < self->base.rank_count; ++i) {
        const rlx_slot *other = rlx_slot_of(self, i);
        if (what_of(first) == what_of(other) && is_same(first, other)) continue;
        describe(i, first, other);
        *rlx_error_detail_edit() = (rlx_error_detail){.rank = i,
                                                      .rank_count = self->base.rank_count,
                                                      .expected = first->count,
                                                      .got = other->count};
        break;
    }
    return RLX_MISMATCH;
}

/* Waits for everybody's post of the current call; whether all are the same. */
static inline rlx_status meet(rlx_mapped *self, uint32_t kind, bool *out_agrees) {
    const rlx_slot *own = rlx_slot_of(self, self->base.rank);
    bool agrees = true;
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        const rlx_slot *other = rlx_slot_of(self, i);
        if (i == self->base.rank) continue;
        RLX_TRY(rlx_mapped_wait_for(self, &other->word, 2 * self->sequence, i, kind));
        agrees = agrees && atomic_load_explicit(&other->word, memory_order_relaxed) % 2 == 0 &&
                 is_same(own, other);
    }
    self->is_posted = false;
    *out_agrees = agrees;
    return RLX_OK;
}

static rlx_status finish(rlx_mapped *self, const rlx_collective_call *call) {
    bool agrees = false;
    RLX_TRY(meet(self, call->kind, &agrees));
    if (!agrees) return disagree(self);
    return rlx_way_finish(self, call);
}

/* The peers of a poisoned call have to be met before the next one is posted. */
static rlx_status meet_poisoned(rlx_mapped *self) {
    bool agrees;
    RLX_TRY(meet(self, RLX_CALL_POISON, &agrees));
    self->is_poisoned = false;
    return RLX_OK;
}

static rlx_pending *pending_at(const rlx_mapped *self, uint32_t index) {
    return &self->pending[(self->pending_first + index) % RLX_PENDING_MOST];
}

static void finish_pending(rlx_mapped *self, rlx_pending *item) {
    if (!self->is_posted) post(self, &item->call);
    item->status = finish(self, &item->call);
    item->is_done = true;
    if (item->status != RLX_OK) rlx_error_save(&item->record);
}

/* Finishes all that was started up to `token`. */
static void drain(rlx_mapped *self, uint64_t token) {
    for (uint32_t i = 0; i < self->pending_count; ++i) {
        rlx_pending *item = pending_at(self, i);
        if (item->token > token) return;
        if (!item->is_done) finish_pending(self, item);
    }
}

/* Posts the oldest call that is not done, so that peers need not wait for this rank's next call. */
static void post_next(rlx_mapped *self) {
    for (uint32_t i = 0; i < self->pending_count && !self->is_posted; ++i) {
        rlx_pending *item = pending_at(self, i);
        if (!item->is_done) post(self, &item->call);
    }
}

static void note_thread(rlx_mapped *self) {
    static _Thread_local int32_t number;
    rlx_mapped_world *world = self->world;
    if (number == 0) number = rlx_thread_number();
    if (world->thread == number) return;
    world->thread = number;
    atomic_store(&world->lines[world->rank].thread, number);
}

static inline rlx_status begin(rlx_mapped *self) {
    if (!self->world->is_shared) note_thread(self);
    RLX_TRY(rlx_mapped_failure(self));
    return self->is_poisoned ? meet_poisoned(self) : RLX_OK;
}

/* The short way through post and meet: one word each. */
static rlx_status meet_at_barrier(rlx_mapped *self) {
    uint64_t word = 2 * ++self->sequence + 1;
    bool agrees = true;
    atomic_store_explicit(&rlx_slot_of(self, self->base.rank)->word, word, memory_order_release);
    rlx_mapped_ring(self->world);
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        const _Atomic uint64_t *other = &rlx_slot_of(self, i)->word;
        if (i == self->base.rank) continue;
        RLX_TRY(rlx_mapped_wait_for(self, other, word - 1, i, RLX_CALL_BARRIER));
        agrees = agrees && atomic_load_explicit(other, memory_order_relaxed) == word;
    }
    return agrees ? RLX_OK : disagree(self);
}

rlx_status rlx_mapped_barrier(rlx_transport *base) {
    rlx_mapped *self = (rlx_mapped *)base;
    RLX_TRY(begin(self));
    if (self->pending_count != 0) {
        drain(self, UINT64_MAX);
        RLX_TRY(rlx_mapped_failure(self));
    }
    return meet_at_barrier(self);
}

/* Small reductions are what decoding waits for: post, meet and fold in one go. */
static rlx_status reduce_small(rlx_mapped *self, const rlx_collective_call *call) {
    bool agrees = false;
    rlx_slot *slot;
    ++self->sequence;
    slot = rlx_slot_of(self, self->base.rank);
    slot->what = pack_what(call);
    slot->count = call->count;
    slot->input_offset = call->input_offset;
    slot->output_offset = call->output_offset;
    rlx_small_post(slot, call->input, call->input_bytes);
    atomic_store_explicit(&slot->word, 2 * self->sequence, memory_order_release);
    rlx_mapped_ring(self->world);
    self->is_posted = true;
    RLX_TRY(meet(self, call->kind, &agrees));
    if (!agrees) return disagree(self);
    rlx_small_reduce(self, call);
    return RLX_OK;
}

rlx_status rlx_mapped_run(rlx_transport *base, const rlx_collective_call *call) {
    rlx_mapped *self = (rlx_mapped *)base;
    if (call->kind == RLX_COLLECTIVE_ALL_REDUCE && call->input_bytes - 1 < RLX_SMALL_BYTES &&
        self->pending_count == 0) {
        RLX_TRY(begin(self));
        return reduce_small(self, call);
    }
    RLX_TRY(begin(self));
    if (self->pending_count != 0) {
        drain(self, UINT64_MAX);
        RLX_TRY(rlx_mapped_failure(self));
    }
    post(self, call);
    if (call->kind == RLX_CALL_POISON) {
        self->is_poisoned = true;
        return RLX_OK;
    }
    return finish(self, call);
}

rlx_status rlx_mapped_start(rlx_transport *base, const rlx_collective_call *call,
                            uint64_t *out_token) {
    rlx_mapped *self = (rlx_mapped *)base;
    rlx_pending *item;
    RLX_TRY(begin(self));
    if (self->pending_count == RLX_PENDING_MOST) {
        return RLX_FAIL(RLX_BUSY, "%d collectives are under way and were not waited for",
                        RLX_PENDING_MOST);
    }
    item = pending_at(self, self->pending_count++);
    item->call = *call;
    item->is_done = false;
    item->token = *out_token = ++self->tokens;
    post_next(self);
    return RLX_OK;
}

/* Takes an item out; those before it move up. */
static void forget(rlx_mapped *self, uint32_t index) {
    for (; index > 0; --index)
        *pending_at(self, index) = *pending_at(self, index - 1);
    self->pending_first = (self->pending_first + 1) % RLX_PENDING_MOST;
    self->pending_count--;
}

rlx_status rlx_mapped_wait(rlx_transport *base, uint64_t token) {
    rlx_mapped *self = (rlx_mapped *)base;
    for (uint32_t i = 0; i < self->pending_count; ++i) {
        rlx_pending *item = pending_at(self, i);
        rlx_status status;
        if (item->token != token) continue;
        note_thread(self);
        drain(self, token);
        status = item->status;
        if (status != RLX_OK) rlx_error_restore(&item->record);
        forget(self, i);
        if (status == RLX_OK || status == RLX_MISMATCH) post_next(self);
        return status;
    }
    return RLX_FAIL(RLX_NOT_FOUND, "collective %" PRIu64 " was never started, or waited for before",
                    token);
}
