/* SPDX-License-Identifier: Apache-2.0 */
/* Two ranks as processes, each on a processor of its own: what `rlx bench collective` measures
 * with. The limits are plain shared memory and no library; both sides run on the same two
 * processes, in turns. */
#ifndef RLX_BENCH_PAIR_H
#define RLX_BENCH_PAIR_H

#include "bench.h"

#include <rlx/collective.h>

#include <stdatomic.h>
#include <stdbool.h>

enum { PAIR_REPS = 64, PAIR_BYTES = 64 << 20, PAIR_SLOT_BYTES = 2048 };

/* What the limits share; one line per writer. */
typedef struct pair_line {
    _Alignas(128) _Atomic uint64_t value;
} pair_line;
typedef struct pair_slot {
    _Alignas(128) _Atomic uint64_t sequence;
    uint8_t payload[PAIR_SLOT_BYTES];
} pair_slot;
typedef struct pair_shared {
    pair_line meeting[2], ping[2], barrier[2];
    pair_slot slots[2][2];
    double times[2][PAIR_REPS]; /* ns per rank and repetition */
    _Atomic uint32_t failed;
    _Atomic uint64_t turn; /* how often rank 0 has let rank 1 go on after the twin */
    _Atomic bool has_twin;
    _Alignas(4096) uint8_t heaps[2][2 * (size_t)PAIR_BYTES];
} pair_shared;

typedef struct pair {
    uint32_t rank;
    pair_shared *shared;
    rlx_transport *transport;        /* heaps of 2 * PAIR_BYTES + a page */
    uint8_t *heap;                   /* of the transport, own */
    uint8_t *own, *other;            /* heaps of the limit */
    float *private_in, *private_out; /* PAIR_BYTES each */
    uint64_t meetings, pings, barriers, sequence;
    uint64_t bytes; /* of the case */
    rlx_dtype dtype;
    uint64_t sum; /* of what was read */
} pair;

/* Waits for the other rank without any library. */
void pair_meet(pair *self);

/* One side of a case. `prepare` is not timed and may be NULL: then repetitions are timed as a
 * whole.
 */
typedef struct pair_side {
    void (*prepare)(pair *self);
    void (*run)(pair *self);
} pair_side;
/* The time of one run in ns: of the slower rank, the median of `reps`. */
double pair_time(pair *self, const pair_side *side, uint32_t reps);

/* The limits, in collective_limit.c: plain loads and stores. */
void pair_limit_ping(pair *self); /* there and back */
void pair_limit_barrier(pair *self);
void pair_limit_small(pair *self);      /* all_reduce f32 sum of `bytes`, one line hop */
void pair_limit_all_reduce(pair *self); /* in place, two-shot, and reading the result */
void pair_limit_reduce_scatter(pair *self);
void pair_limit_all_gather(pair *self);
void pair_limit_copy(pair *self); /* memcpy of `bytes` between private and shared memory */
void pair_fill_limit(pair *self); /* the input is just written */
void pair_read(pair *self, const void *memory, uint64_t bytes);

#endif
