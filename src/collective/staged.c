/* SPDX-License-Identifier: Apache-2.0 */
/* Private operands: each rank copies its input into its staging, chunk by chunk, and takes what it
 * needs from everybody's. Two chunks alternate. Who posts chunk c has finished with chunk c - 1, so
 * a buffer is free again once all have posted the chunk after it: one flag per chunk, no more. The
 * first chunk is posted with the call itself. */
#include "collective/mapped.h"

#include "collective/fold.h"

#include <string.h>

/* How a call is cut: parts of `part_bytes` (1, or one per rank for all_to_all), of which each chunk
 * has the same range. */
typedef struct cut {
    uint64_t part_bytes, piece_bytes, count;
    uint32_t parts;
} cut;

static cut cut_of(const rlx_mapped *self, const rlx_collective_call *call) {
    uint64_t bytes = call->count * call->element_bytes;
    uint32_t parts = call->kind == RLX_COLLECTIVE_ALL_TO_ALL ? self->base.rank_count : 1;
    uint64_t piece = RLX_CHUNK_BYTES / parts & ~UINT64_C(63);
    return (cut){.part_bytes = bytes,
                 .piece_bytes = piece,
                 .count = (bytes + piece - 1) / piece,
                 .parts = parts};
}

static uint64_t piece_bytes(const cut *how, uint64_t index) {
    uint64_t left = how->part_bytes - index * how->piece_bytes;
    return left < how->piece_bytes ? left : how->piece_bytes;
}

static uint8_t *staging_of(const rlx_mapped *self, uint32_t member, uint64_t index) {
    return self->areas[member]->staging[(self->chunks + index) % 2];
}

/* Copies chunk `index` of the own input into staging. */
static void fill(rlx_mapped *self, const rlx_collective_call *call, const cut *how,
                 uint64_t index) {
    bool is_broadcast = call->kind == RLX_COLLECTIVE_BROADCAST;
    const uint8_t *input = is_broadcast ? call->output : call->input;
    uint8_t *staging = staging_of(self, self->base.rank, index);
    uint64_t bytes = piece_bytes(how, index);
    if (is_broadcast && self->base.rank != call->root) return;
    for (uint32_t i = 0; i < how->parts; ++i) {
        memcpy(staging + i * how->piece_bytes,
               input + i * how->part_bytes + index * how->piece_bytes, bytes);
    }
}

void rlx_staged_post(rlx_mapped *self, const rlx_collective_call *call) {
    cut how = cut_of(self, call);
    fill(self, call, &how, 0);
}

/* Folds bytes [begin, end) of the input, as far as they are in this chunk, to `output`, which is
 * where byte `begin` goes. */
static void fold_range(rlx_mapped *self, const rlx_collective_call *call, const cut *how,
                       uint64_t index, uint64_t begin, uint64_t end, uint8_t *output) {
    uint64_t low = index * how->piece_bytes, high = low + piece_bytes(how, index);
    uint64_t from = begin > low ? begin : low, to = end < high ? end : high;
    if (from >= to) return;
    for (uint32_t i = 0; i < self->base.rank_count; ++i)
        self->sources[i] = staging_of(self, i, index) + (from - low);
    self->targets[0] = output + (from - begin);
    rlx_fold_with(self->folds, call->dtype, call->reduction, self->sources, self->base.rank_count,
                  self->targets, 1, (to - from) / call->element_bytes);
}

static void take(rlx_mapped *self, const rlx_collective_call *call, const cut *how,
                 uint64_t index) {
    uint64_t bytes = piece_bytes(how, index), at = index * how->piece_bytes, first, count;
    uint8_t *output = call->output;
    switch (call->kind) {
    case RLX_COLLECTIVE_ALL_REDUCE:
        fold_range(self, call, how, index, 0, call->input_bytes, output);
        return;
    case RLX_COLLECTIVE_REDUCE_SCATTER:
        rlx_collective_part(call->count, self->base.rank_count, self->base.rank, &first, &count);
        fold_range(self, call, how, index, first * call->element_bytes,
                   (first + count) * call->element_bytes, output);
        return;
    case RLX_COLLECTIVE_BROADCAST:
        if (self->base.rank == call->root) return;
        memcpy(output + at, staging_of(self, call->root, index), bytes);
        return;
    default: /* all_gather, all_to_all */
        for (uint32_t i = 0; i < self->base.rank_count; ++i) {
            const uint8_t *staging = staging_of(self, i, index);
            if (how->parts > 1) staging += self->base.rank * how->piece_bytes;
            memcpy(output + i * how->part_bytes + at, staging, bytes);
        }
    }
}

/* Chunk `index` > 0 is posted, and everybody's is there. */
static rlx_status exchange(rlx_mapped *self, const rlx_collective_call *call, uint64_t index) {
    uint64_t value = self->chunks + index;
    atomic_store_explicit(&self->areas[self->base.rank]->chunks, value, memory_order_release);
    rlx_mapped_ring(self->world);
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        if (i == self->base.rank) continue;
        RLX_TRY(rlx_mapped_wait_for(self, &self->areas[i]->chunks, value, i, call->kind));
    }
    return RLX_OK;
}

rlx_status rlx_staged_finish(rlx_mapped *self, const rlx_collective_call *call) {
    cut how = cut_of(self, call);
    for (uint64_t index = 0; index < how.count; ++index) {
        if (index != 0) {
            fill(self, call, &how, index);
            RLX_TRY(exchange(self, call, index));
        }
        take(self, call, &how, index);
    }
    self->chunks += how.count;
    return RLX_OK;
}
