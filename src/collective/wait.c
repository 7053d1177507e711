/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for another rank: spin briefly, yield for a while, then sleep in slices. Each slice looks
 * at the group's failure, at who is still alive, and at the deadline. The first failure is written
 * once for all and stays.
 *
 * A sleeper says so, issues a memory barrier on every processor, looks once more and sleeps on its
 * doorbell. Writers therefore need no fence: after their store they read the count of sleepers, and
 * ring where it is not 0. */
#include "collective/mapped.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { YIELD_NS = 100000 };
static const uint64_t first_slice_ns = 1000000, longest_slice_ns = 50000000;

static void wake(rlx_mapped_world *world, uint32_t rank) {
    rlx_rank_line *line = &world->lines[rank];
    atomic_fetch_add(&line->doorbell, 1);
    if (world->is_shared) {
        rlx_futex_wake_shared(&line->doorbell, UINT32_MAX);
    } else {
        rlx_futex_wake(&line->doorbell, UINT32_MAX);
    }
}

void rlx_mapped_ring_slow(rlx_mapped_world *world) {
#if !defined(__SANITIZE_THREAD__)
    atomic_thread_fence(memory_order_seq_cst);
#endif
    if (atomic_load(&world->header->sleepers) == 0) return;
    for (uint32_t i = 0; i < world->layout.rank_count; ++i) {
        if (atomic_load(&world->lines[i].sleeping) != 0) wake(world, i);
    }
}

rlx_status rlx_mapped_failed(const rlx_mapped *self, uint64_t failure) {
    if (self->base.ops->failed != NULL) self->base.ops->failed(&self->base);
    return rlx_failure_explain(failure, self->world->layout.rank_count);
}

/* The first failure stays; everybody is woken to see it. */
static rlx_status fail(rlx_mapped *self, rlx_failure_kind kind, uint32_t rank, uint32_t call) {
    uint64_t none = 0;
    atomic_compare_exchange_strong(&self->world->header->failure, &none,
                                   rlx_failure_pack(kind, self->world->rank, rank, call));
    rlx_mapped_ring_slow(self->world);
    return rlx_mapped_failure(self);
}

void rlx_mapped_refuse(rlx_mapped_world *world, rlx_status cause) {
    uint64_t none = 0;
    atomic_compare_exchange_strong(
        &world->header->failure, &none,
        rlx_failure_pack(RLX_FAILURE_REFUSED, world->rank, world->rank, cause));
    rlx_mapped_ring_slow(world);
}

/* RLX_OK: all that matter are alive. Who left on purpose matters only when it is waited for. */
static rlx_status check_alive(rlx_mapped *self, uint32_t awaited, uint32_t call) {
    rlx_mapped_world *world = self->world;
    for (uint32_t i = 0; i < world->layout.rank_count; ++i) {
        uint32_t state = atomic_load(&world->lines[i].state);
        if (i == world->rank || state == RLX_RANK_ABSENT) continue;
        if (state == RLX_RANK_LEFT && i == awaited) return fail(self, RLX_FAILURE_LEFT, i, call);
        if (state == RLX_RANK_JOINED && world->is_gone(world, i)) {
            /* It may have left between the two looks. */
            if (atomic_load(&world->lines[i].state) == RLX_RANK_LEFT && i != awaited) continue;
            return fail(self, RLX_FAILURE_GONE, i, call);
        }
    }
    return RLX_OK;
}

typedef struct condition {
    const _Atomic uint64_t *word;
    rlx_word_range range;
} condition;

static inline bool holds(const condition *wanted) {
    return rlx_word_is_in(wanted->range, atomic_load_explicit(wanted->word, memory_order_acquire));
}

static bool spin(const rlx_mapped *self, const condition *wanted) {
    uint32_t spins = self->world->spins;
    for (uint32_t i = 0; i < spins; ++i) {
        if (holds(wanted)) return true;
        rlx_cpu_relax();
    }
    return false;
}

/* False after the time for yields, or when the group has failed: the sleeper finds out. */
static bool yield_until(const rlx_mapped *self, const condition *wanted, uint64_t start_ns) {
    for (uint32_t i = 0;; ++i) {
        sched_yield();
        if (holds(wanted)) return true;
        if (i % 8 != 7) continue;
        if (atomic_load_explicit(&self->world->header->failure, memory_order_relaxed) != 0 ||
            rlx_now_ns() - start_ns > YIELD_NS) {
            return false;
        }
    }
}

static void begin_sleep(rlx_mapped_world *world) {
    atomic_fetch_add(&world->lines[world->rank].sleeping, 1);
    atomic_fetch_add(&world->header->sleepers, 1);
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static void end_sleep(rlx_mapped_world *world) {
    atomic_fetch_sub(&world->header->sleepers, 1);
    atomic_fetch_sub(&world->lines[world->rank].sleeping, 1);
}

static void doze(rlx_mapped_world *world, uint32_t bell, uint64_t slice_ns) {
    _Atomic uint32_t *doorbell = &world->lines[world->rank].doorbell;
    if (world->is_shared) {
        rlx_futex_wait_shared(doorbell, bell, slice_ns);
    } else {
        rlx_futex_wait(doorbell, bell, slice_ns);
    }
}

/* RLX_TIMEOUT without a text when the deadline passed: whose fault it is, the caller knows. */
static rlx_status sleep_until(rlx_mapped *self, const condition *wanted, uint64_t start_ns,
                              uint32_t awaited, uint32_t call) {
    rlx_mapped_world *world = self->world;
    uint64_t slice = first_slice_ns, timeout = self->base.timeout_ns;
    for (;;) {
        uint32_t bell = atomic_load(&world->lines[world->rank].doorbell);
        uint64_t waited;
        if (holds(wanted)) return RLX_OK;
        RLX_TRY(rlx_mapped_failure(self));
        RLX_TRY(check_alive(self, awaited, call));
        waited = rlx_now_ns() - start_ns;
        if (waited >= timeout) return RLX_TIMEOUT;
        doze(world, bell, slice < timeout - waited ? slice : timeout - waited);
        slice = 2 * slice < longest_slice_ns ? 2 * slice : longest_slice_ns;
    }
}

static rlx_status wait_for(rlx_mapped *self, const condition *wanted, uint32_t awaited,
                           uint32_t call) {
    uint64_t start_ns;
    rlx_status status;
    if (spin(self, wanted)) return RLX_OK;
    start_ns = rlx_now_ns();
    if (yield_until(self, wanted, start_ns)) return RLX_OK;
    begin_sleep(self->world);
    status = sleep_until(self, wanted, start_ns, awaited, call);
    end_sleep(self->world);
    return status;
}

rlx_status rlx_mapped_wait_slow(rlx_mapped *self, const _Atomic uint64_t *word, uint64_t value,
                                uint32_t member, uint32_t kind) {
    const condition wanted = {word, rlx_word_range_of(RLX_COMPARE_GE, value)};
    uint32_t rank = self->members[member];
    rlx_status status = wait_for(self, &wanted, rank, kind);
    if (status != RLX_TIMEOUT || rlx_mapped_failure(self) != RLX_OK) return status;
    return fail(self, RLX_FAILURE_LATE, rank, kind);
}

static __attribute__((noinline)) rlx_status
wait_until_slow(rlx_mapped *self, const condition *wanted, uint64_t *out_seen) {
    rlx_status status = wait_for(self, wanted, RLX_RANKS_MOST, RLX_CALL_WAIT_UNTIL);
    uint64_t seen = atomic_load_explicit(wanted->word, memory_order_acquire);
    if (status == RLX_TIMEOUT && rlx_mapped_failure(self) == RLX_OK) {
        return rlx_wait_until_timeout(&self->base,
                                      (uintptr_t)wanted->word - (uintptr_t)self->base.heap, seen);
    }
    if (status == RLX_OK && out_seen != NULL) *out_seen = seen;
    return status;
}

rlx_status rlx_mapped_wait_until(rlx_transport *base, uint64_t offset, rlx_compare compare,
                                 uint64_t value, uint64_t *out_seen) {
    rlx_mapped *self = (rlx_mapped *)base;
    const _Atomic uint64_t *word = (const _Atomic uint64_t *)(void *)(base->heap + offset);
    const rlx_word_range range = rlx_word_range_of(compare, value);
    uint32_t spins = self->world->spins != 0 ? RLX_EAGER_SPINS : 1;
    for (uint32_t i = 0; i < spins; ++i) {
        uint64_t seen = atomic_load_explicit(word, memory_order_acquire);
        if (!rlx_word_is_in(range, seen)) continue;
        if (out_seen != NULL) *out_seen = seen;
        return RLX_OK;
    }
    return wait_until_slow(self, &(condition){word, range}, out_seen);
}

void rlx_mapped_enter(rlx_mapped_world *world) {
    long code = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
    if (code != 0) atomic_fetch_add(&world->header->sleepers, 1);
}
