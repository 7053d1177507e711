/* SPDX-License-Identifier: Apache-2.0 */
/* What two processes can do with plain shared memory: flags, slots and in-place two-shot sums,
 * written for two ranks and nothing else. */
#include "pair.h"
#include "probe.h"

#include <string.h>

#if defined(__x86_64__)
#define WIDE __attribute__((target("avx2")))
#else
#define WIDE
#endif
typedef float wide __attribute__((vector_size(32), aligned(4), may_alias));

static inline void await(const _Atomic uint64_t *word, uint64_t value) {
    while (atomic_load_explicit(word, memory_order_acquire) < value) {
    }
}

static void meet(pair_line lines[2], uint32_t rank, uint64_t value) {
    atomic_store_explicit(&lines[rank].value, value, memory_order_release);
    await(&lines[1 - rank].value, value);
}

void pair_meet(pair *self) {
    meet(self->shared->meeting, self->rank, ++self->meetings);
}

void pair_limit_barrier(pair *self) {
    meet(self->shared->barrier, self->rank, ++self->barriers);
}

void pair_limit_ping(pair *self) {
    pair_line *lines = self->shared->ping;
    uint64_t value = ++self->pings;
    if (self->rank == 0) {
        atomic_store_explicit(&lines[0].value, value, memory_order_release);
        await(&lines[1].value, value);
    } else {
        await(&lines[0].value, value);
        atomic_store_explicit(&lines[1].value, value, memory_order_release);
    }
}

/* to[0] = to[1] = a + b. */
WIDE static void add_to_both(float *a, float *b, uint64_t count) {
    for (uint64_t i = 0; i + 32 <= count; i += 32) {
        wide *x = (wide *)(a + i), *y = (wide *)(b + i);
        wide s = x[0] + y[0], t = x[1] + y[1], u = x[2] + y[2], v = x[3] + y[3];
        x[0] = s, x[1] = t, x[2] = u, x[3] = v;
        y[0] = s, y[1] = t, y[2] = u, y[3] = v;
    }
}

WIDE static void add(float *to, const float *a, const float *b, uint64_t count) {
    uint64_t i = 0;
    for (; i + 32 <= count; i += 32) {
        const wide *x = (const wide *)(a + i), *y = (const wide *)(b + i);
        wide *z = (wide *)(to + i);
        z[0] = x[0] + y[0], z[1] = x[1] + y[1], z[2] = x[2] + y[2], z[3] = x[3] + y[3];
    }
    for (; i < count; ++i)
        to[i] = a[i] + b[i];
}

/* Payload and sequence in two slots that alternate. */
void pair_limit_small(pair *self) {
    uint64_t sequence = ++self->sequence;
    pair_slot *mine = &self->shared->slots[self->rank][sequence % 2];
    pair_slot *theirs = &self->shared->slots[1 - self->rank][sequence % 2];
    const float *first = (const float *)(const void *)(self->rank == 0 ? mine : theirs)->payload;
    const float *second = (const float *)(const void *)(self->rank == 0 ? theirs : mine)->payload;
    memcpy(mine->payload, self->private_in, self->bytes);
    atomic_store_explicit(&mine->sequence, sequence, memory_order_release);
    await(&theirs->sequence, sequence);
    add(self->private_out, first, second, self->bytes / sizeof(float));
}

void pair_fill_limit(pair *self) {
    float *data = (float *)(void *)self->own;
    for (uint64_t i = 0; i < self->bytes / sizeof *data; ++i)
        data[i] = (float)(i % 1000 + self->rank);
}

void pair_read(pair *self, const void *memory, uint64_t bytes) {
    self->sum += probe_best()->read(memory, (size_t)bytes);
}

void pair_limit_all_reduce(pair *self) {
    uint64_t half = self->bytes / 2;
    float *mine = (float *)(void *)(self->own + self->rank * half);
    float *theirs = (float *)(void *)(self->other + self->rank * half);
    pair_limit_barrier(self);
    add_to_both(mine, theirs, half / sizeof(float));
    pair_limit_barrier(self);
    pair_read(self, self->own, self->bytes);
}

void pair_limit_reduce_scatter(pair *self) {
    uint64_t half = self->bytes / 2;
    const float *mine = (const float *)(const void *)(self->own + self->rank * half);
    const float *theirs = (const float *)(const void *)(self->other + self->rank * half);
    pair_limit_barrier(self);
    add((float *)(void *)(self->own + PAIR_BYTES), mine, theirs, half / sizeof(float));
    pair_limit_barrier(self);
}

/* Each rank has written its half in place and fetches the other one. */
void pair_limit_all_gather(pair *self) {
    uint64_t half = self->bytes / 2, at = (1 - self->rank) * half;
    pair_limit_barrier(self);
    memcpy(self->own + at, self->other + at, half);
    pair_limit_barrier(self);
}

void pair_limit_copy(pair *self) {
    if (self->rank == 0) memcpy(self->other, self->private_in, self->bytes);
}
