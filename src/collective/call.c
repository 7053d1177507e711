/* SPDX-License-Identifier: Apache-2.0 */
/* A call of all ranks: post what it is, meet the others, compare, then move the data. */
#include "collective/mapped.h"

static void post(rlx_mapped *self, const rlx_collective_call *call) {
    uint64_t sequence = ++self->sequence;
    rlx_slot *slot = rlx_slot_of(self, self->base.rank);
    rlx_descriptor_set(&slot->about, call);
    rlx_way_post(self, call, slot);
    atomic_store_explicit(&slot->word, 2 * sequence, memory_order_release);
    rlx_mapped_ring(self->world);
    self->queue.is_posted = true;
}

/* What everybody says; a barrier's descriptor is not written out. */
rlx_status rlx_mapped_disagree(const rlx_mapped *self) {
    static const rlx_collective_call barrier = {.kind = RLX_CALL_BARRIER};
    rlx_descriptor all[RLX_RANKS_MOST];
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        const rlx_slot *slot = rlx_slot_of(self, i);
        if (atomic_load_explicit(&slot->word, memory_order_relaxed) % 2 != 0) {
            rlx_descriptor_set(&all[i], &barrier);
        } else {
            all[i] = slot->about;
        }
    }
    return rlx_disagree(all, self->base.rank_count);
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
                 rlx_descriptor_is_same(&own->about, &other->about);
    }
    self->queue.is_posted = false;
    *out_agrees = agrees;
    return RLX_OK;
}

static rlx_status finish(rlx_mapped *self, const rlx_collective_call *call) {
    bool agrees = false;
    RLX_TRY(meet(self, call->kind, &agrees));
    if (!agrees) return rlx_mapped_disagree(self);
    return rlx_way_finish(self, call);
}

/* The peers of a poisoned call have to be met before the next one is posted. */
static rlx_status meet_poisoned(rlx_mapped *self) {
    bool agrees;
    RLX_TRY(meet(self, RLX_CALL_POISON, &agrees));
    self->queue.is_poisoned = false;
    return RLX_OK;
}

static void post_step(rlx_transport *base, const rlx_collective_call *call) {
    post((rlx_mapped *)base, call);
}

static rlx_status finish_step(rlx_transport *base, const rlx_collective_call *call) {
    return finish((rlx_mapped *)base, call);
}

const rlx_queue_steps rlx_mapped_steps = {post_step, finish_step};

void rlx_mapped_note_thread(rlx_mapped *self) {
    static _Thread_local int32_t number;
    rlx_mapped_world *world = self->world;
    if (number == 0) number = rlx_thread_number();
    if (world->thread == number) return;
    world->thread = number;
    atomic_store(&world->lines[world->rank].thread, number);
}

static inline rlx_status begin(rlx_mapped *self) {
    if (!self->world->is_shared) rlx_mapped_note_thread(self);
    RLX_TRY(rlx_mapped_failure(self));
    return self->queue.is_poisoned ? meet_poisoned(self) : RLX_OK;
}

/* The short way through post and meet: one word each. */
static inline rlx_status meet_at_barrier(rlx_mapped *self) {
    uint64_t sequence = ++self->sequence, word = 2 * sequence + 1, other = 0;
    rlx_slot *const *slots = self->slots[sequence % 2];
    uint32_t count = self->base.rank_count, rank = self->base.rank;
    atomic_store_explicit(&slots[rank]->word, word, memory_order_release);
    rlx_mapped_ring(self->world);
    for (uint32_t i = 0; i < count; ++i) {
        if (i == rank) continue;
        RLX_TRY(rlx_mapped_wait_for(self, &slots[i]->word, word - 1, i, RLX_CALL_BARRIER));
        other |= atomic_load_explicit(&slots[i]->word, memory_order_relaxed) ^ word;
    }
    return other == 0 ? RLX_OK : rlx_mapped_disagree(self);
}

rlx_status rlx_mapped_barrier(rlx_transport *base) {
    rlx_mapped *self = (rlx_mapped *)base;
    RLX_TRY(begin(self));
    if (self->queue.count != 0) {
        rlx_queue_drain(&self->queue, base, UINT64_MAX);
        RLX_TRY(rlx_mapped_failure(self));
    }
    return meet_at_barrier(self);
}

rlx_status rlx_mapped_run(rlx_transport *base, const rlx_collective_call *call) {
    rlx_mapped *self = (rlx_mapped *)base;
    RLX_TRY(begin(self));
    if (self->queue.count != 0) {
        rlx_queue_drain(&self->queue, base, UINT64_MAX);
        RLX_TRY(rlx_mapped_failure(self));
    }
    post(self, call);
    if (call->kind == RLX_CALL_POISON) {
        self->queue.is_poisoned = true;
        return RLX_OK;
    }
    return finish(self, call);
}

rlx_status rlx_mapped_start(rlx_transport *base, const rlx_collective_call *call,
                            uint64_t *out_token) {
    rlx_mapped *self = (rlx_mapped *)base;
    RLX_TRY(begin(self));
    return rlx_queue_start(&self->queue, base, call, out_token);
}

rlx_status rlx_mapped_wait(rlx_transport *base, uint64_t token) {
    rlx_mapped *self = (rlx_mapped *)base;
    if (self->queue.count != 0) rlx_mapped_note_thread(self);
    return rlx_queue_wait(&self->queue, base, token);
}
