/* SPDX-License-Identifier: Apache-2.0 */
/* How data moves once all ranks have agreed, by size and by where the operands lie:
 *
 *   small   travels in the slot with the call: one meeting, nothing else
 *   direct  operands in the heap are read where they are: a meeting before and one after.
 *           all_reduce in place is two-shot: each rank folds its part of all and writes it to all
 *   staged  private operands go through staging, chunk by chunk (staged.c)
 *
 * Folds go in rank order, so that all ranks have the same bits. */
#include "collective/mapped.h"

#include "collective/fold.h"

#include <string.h>

static bool is_offset(uint64_t offset) {
    return offset < RLX_OFFSET_IN_PLACE;
}

/* Whether peers can read the input where it lies. */
static bool has_visible_input(const rlx_collective_call *call) {
    if (call->kind == RLX_COLLECTIVE_BROADCAST) return is_offset(call->output_offset);
    if (call->input_offset == RLX_OFFSET_IN_PLACE) return is_offset(call->output_offset);
    return is_offset(call->input_offset);
}

static uint64_t payload_bytes(const rlx_collective_call *call) {
    return call->kind == RLX_COLLECTIVE_BROADCAST ? call->output_bytes : call->input_bytes;
}

rlx_way rlx_way_of(const rlx_collective_call *call) {
    if (call->kind >= RLX_COLLECTIVE_KIND_COUNT || call->count == 0) return RLX_WAY_NONE;
    if (payload_bytes(call) <= RLX_SMALL_BYTES) return RLX_WAY_SMALL;
    return has_visible_input(call) ? RLX_WAY_DIRECT : RLX_WAY_STAGED;
}

void rlx_way_post(rlx_mapped *self, const rlx_collective_call *call, rlx_slot *slot) {
    rlx_way way = rlx_way_of(call);
    if (way == RLX_WAY_SMALL) {
        bool is_broadcast = call->kind == RLX_COLLECTIVE_BROADCAST;
        uint64_t bytes = payload_bytes(call);
        if (is_broadcast && self->base.rank != call->root) return;
        rlx_small_post(slot, is_broadcast ? call->output : call->input, bytes);
    } else if (way == RLX_WAY_STAGED) {
        rlx_staged_post(self, call);
    }
}

/* small ---------------------------------------------------------------------------------------- */

static void fold_small(rlx_mapped *self, const rlx_collective_call *call, uint64_t first,
                       uint64_t count) {
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        self->sources[i] = rlx_small_payload(rlx_slot_of(self, i), call->input_bytes) +
                           first * call->element_bytes;
    }
    self->targets[0] = call->output;
    rlx_fold_with(self->folds, call->dtype, call->reduction, self->sources, self->base.rank_count,
                  self->targets, 1, count);
}

static void finish_small(rlx_mapped *self, const rlx_collective_call *call) {
    uint64_t bytes = call->count * call->element_bytes, first, count;
    uint8_t *output = call->output;
    switch (call->kind) {
    case RLX_COLLECTIVE_ALL_REDUCE:
        fold_small(self, call, 0, call->count);
        return;
    case RLX_COLLECTIVE_REDUCE_SCATTER:
        rlx_collective_part(call->count, self->base.rank_count, self->base.rank, &first, &count);
        if (count != 0) fold_small(self, call, first, count);
        return;
    case RLX_COLLECTIVE_BROADCAST:
        if (self->base.rank == call->root) return;
        rlx_small_copy(output, rlx_small_payload(rlx_slot_of(self, call->root), bytes), bytes);
        return;
    default: /* all_gather, all_to_all */
        for (uint32_t i = 0; i < self->base.rank_count; ++i) {
            const uint8_t *payload = rlx_small_payload(rlx_slot_of(self, i), call->input_bytes);
            if (call->kind == RLX_COLLECTIVE_ALL_TO_ALL) payload += self->base.rank * bytes;
            rlx_small_copy(output + i * bytes, payload, bytes);
        }
    }
}

/* direct --------------------------------------------------------------------------------------- */

/* Where a member's input lies. */
static uint8_t *input_of(const rlx_mapped *self, const rlx_collective_call *call, uint32_t member) {
    uint64_t bytes = call->count * call->element_bytes;
    if (call->kind == RLX_COLLECTIVE_BROADCAST) return self->heaps[member] + call->output_offset;
    if (call->input_offset != RLX_OFFSET_IN_PLACE) return self->heaps[member] + call->input_offset;
    return self->heaps[member] + call->output_offset +
           (call->kind == RLX_COLLECTIVE_ALL_GATHER ? member * bytes : 0);
}

/* Part `part` of `count` elements, cut at cache lines. */
static void line_part(uint64_t count, uint32_t element_bytes, uint32_t rank_count, uint32_t part,
                      uint64_t *out_first, uint64_t *out_count) {
    uint64_t per_line = 64 / element_bytes, lines = (count + per_line - 1) / per_line, first, own;
    rlx_collective_part(lines, rank_count, part, &first, &own);
    *out_first = first * per_line < count ? first * per_line : count;
    own = (first + own) * per_line < count ? (first + own) * per_line : count;
    *out_count = own - *out_first;
}

/* Two-shot where the output is in the heap; else every rank folds all for itself. */
static void all_reduce_direct(rlx_mapped *self, const rlx_collective_call *call) {
    uint32_t n = self->base.rank_count;
    bool is_shared = is_offset(call->output_offset);
    uint64_t first = 0, count = call->count;
    if (is_shared) {
        line_part(call->count, call->element_bytes, n, self->base.rank, &first, &count);
    }
    if (count == 0) return;
    for (uint32_t i = 0; i < n; ++i) {
        self->sources[i] = input_of(self, call, i) + first * call->element_bytes;
        if (is_shared) {
            self->targets[i] = self->heaps[i] + call->output_offset + first * call->element_bytes;
        }
    }
    if (!is_shared) self->targets[0] = call->output;
    rlx_fold_with(self->folds, call->dtype, call->reduction, self->sources, n, self->targets,
                  is_shared ? n : 1, count);
}

static void reduce_scatter_direct(rlx_mapped *self, const rlx_collective_call *call) {
    uint64_t first, count;
    rlx_collective_part(call->count, self->base.rank_count, self->base.rank, &first, &count);
    if (count == 0) return;
    for (uint32_t i = 0; i < self->base.rank_count; ++i)
        self->sources[i] = input_of(self, call, i) + first * call->element_bytes;
    self->targets[0] = call->output;
    rlx_fold_with(self->folds, call->dtype, call->reduction, self->sources, self->base.rank_count,
                  self->targets, 1, count);
}

/* Each rank begins with the next one, so that not all read the same memory at once. */
static void gather_direct(rlx_mapped *self, const rlx_collective_call *call) {
    uint32_t n = self->base.rank_count;
    uint64_t bytes = call->count * call->element_bytes;
    for (uint32_t step = 0; step < n; ++step) {
        uint32_t from = (self->base.rank + step) % n;
        uint8_t *target = (uint8_t *)call->output + from * bytes;
        const uint8_t *source = input_of(self, call, from);
        if (call->kind == RLX_COLLECTIVE_ALL_TO_ALL) source += self->base.rank * bytes;
        if (source != target) memcpy(target, source, bytes);
    }
}

/* In place, two ranks trade their parts: one swaps the first half of them, the other the rest. */
static void swap_bytes(uint8_t *a, uint8_t *b, uint64_t bytes) {
    uint8_t room[4096];
    while (bytes != 0) {
        uint64_t piece = bytes < sizeof room ? bytes : sizeof room;
        memcpy(room, a, piece);
        memcpy(a, b, piece);
        memcpy(b, room, piece);
        a += piece, b += piece, bytes -= piece;
    }
}

static void all_to_all_in_place(rlx_mapped *self, const rlx_collective_call *call) {
    uint32_t n = self->base.rank_count, rank = self->base.rank;
    uint64_t bytes = call->count * call->element_bytes, half = bytes / 2 & ~UINT64_C(63);
    for (uint32_t step = 1; step < n; ++step) {
        uint32_t other = (rank + step) % n;
        uint8_t *mine = self->heaps[rank] + call->output_offset + other * bytes;
        uint8_t *theirs = self->heaps[other] + call->output_offset + rank * bytes;
        if (rank < other) {
            swap_bytes(mine, theirs, half);
        } else {
            swap_bytes(mine + half, theirs + half, bytes - half);
        }
    }
}

static rlx_status finish_direct(rlx_mapped *self, const rlx_collective_call *call) {
    switch (call->kind) {
    case RLX_COLLECTIVE_ALL_REDUCE:
        all_reduce_direct(self, call);
        break;
    case RLX_COLLECTIVE_REDUCE_SCATTER:
        reduce_scatter_direct(self, call);
        break;
    case RLX_COLLECTIVE_BROADCAST:
        if (self->base.rank != call->root) {
            memcpy(call->output, input_of(self, call, call->root), call->output_bytes);
        }
        break;
    default:
        if (call->kind == RLX_COLLECTIVE_ALL_TO_ALL && call->input_offset == RLX_OFFSET_IN_PLACE) {
            all_to_all_in_place(self, call);
        } else {
            gather_direct(self, call);
        }
    }
    return rlx_way_all_done(self, call->kind);
}

rlx_status rlx_way_all_done(rlx_mapped *self, uint32_t kind) {
    atomic_store_explicit(&self->areas[self->base.rank]->done, self->sequence,
                          memory_order_release);
    rlx_mapped_ring(self->world);
    for (uint32_t i = 0; i < self->base.rank_count; ++i) {
        if (i == self->base.rank) continue;
        RLX_TRY(rlx_mapped_wait_for(self, &self->areas[i]->done, self->sequence, i, kind));
    }
    return RLX_OK;
}

rlx_status rlx_way_finish(rlx_mapped *self, const rlx_collective_call *call) {
    switch (rlx_way_of(call)) {
    case RLX_WAY_SMALL:
        finish_small(self, call);
        return RLX_OK;
    case RLX_WAY_DIRECT:
        return finish_direct(self, call);
    case RLX_WAY_STAGED:
        return rlx_staged_finish(self, call);
    default:
        return RLX_OK;
    }
}
