/* SPDX-License-Identifier: Apache-2.0 */
/* all_reduce of a few bytes: what decoding waits for, in less time than a careful look at the
 * arguments takes. The same checks, post, meeting and fold as by the long way (driver/collective.c,
 * call.c, algorithm.c), in one go and mostly in registers; whatever is out of the ordinary goes
 * there. What need not be done before the post is done while the others' posts are on their way.
 */
#include "collective/fold.h"
#include "collective/mapped.h"

enum { TINY_FLOATS = RLX_TINY_BYTES / sizeof(float) };

/* 0: collectives do not take it. */
static const uint8_t element_bytes[RLX_DTYPE_COUNT] = {
    [RLX_DTYPE_F32] = 4, [RLX_DTYPE_F64] = 8, [RLX_DTYPE_F16] = 2, [RLX_DTYPE_BF16] = 2,
    [RLX_DTYPE_I32] = 4, [RLX_DTYPE_I64] = 8, [RLX_DTYPE_U8] = 1};

/* Offset in the own heap or private; false where it crosses the heap's end. */
static inline bool find_place(const rlx_transport *base, uintptr_t at, uint64_t bytes,
                              uint64_t *out_offset) {
    uint64_t offset = at - (uintptr_t)base->heap;
    bool is_inside = offset < base->heap_bytes;
    *out_offset = is_inside ? offset : RLX_OFFSET_PRIVATE;
    return !is_inside || bytes <= base->heap_bytes - offset;
}

/* Input and output are the same, or apart; `bytes` is not 0. */
static inline bool find_places(const rlx_transport *base, uintptr_t in, uintptr_t out,
                               uint64_t bytes, uint64_t *out_input, uint64_t *out_output) {
    if (!find_place(base, out, bytes, out_output)) return false;
    *out_input = RLX_OFFSET_IN_PLACE;
    if (in - out + (bytes - 1) < 2 * bytes - 1) return in == out;
    return find_place(base, in, bytes, out_input);
}

/* Nothing is under way that has to be looked at first. */
static inline bool is_idle(const rlx_mapped *self) {
    return self->queue.count == 0 && !self->queue.is_poisoned &&
           atomic_load_explicit(&self->world->header->failure, memory_order_acquire) == 0;
}

/* Not 0 where a member says anything else of this call; `own` was posted before. */
static inline uint64_t differs(const rlx_slot *own, const rlx_slot *other) {
    return (atomic_load_explicit(&own->word, memory_order_relaxed) ^
            atomic_load_explicit(&other->word, memory_order_relaxed)) |
           (own->about.what ^ other->about.what) | (own->about.count ^ other->about.count) |
           (own->about.input_offset ^ other->about.input_offset) |
           (own->about.output_offset ^ other->about.output_offset);
}

/* Waits for everybody's post, whose word is `word`. */
static inline rlx_status meet(rlx_mapped *self, rlx_slot *const *slots, uint64_t word) {
    uint32_t count = self->base.rank_count, rank = self->base.rank;
    uint64_t other = 0;
    rlx_mapped_ring(self->world);
    for (uint32_t i = 0; i < count; ++i) {
        if (i == rank) continue;
        RLX_TRY(rlx_mapped_wait_for(self, &slots[i]->word, word, i, RLX_COLLECTIVE_ALL_REDUCE));
        other |= differs(slots[rank], slots[i]);
    }
    return other == 0 ? RLX_OK : rlx_mapped_disagree(self);
}

/* Where the operands lie; false: not so quickly. */
static inline bool check_operands(const rlx_mapped *self, const void *input, void *output,
                                  uint64_t count, uint64_t element, uint64_t *out_input,
                                  uint64_t *out_output) {
    uintptr_t in = (uintptr_t)input, out = (uintptr_t)output;
    /* The upper half of the addresses is nobody's, and NULL - 1 is in it. */
    return ((in | out) & (element - 1)) == 0 && ((in - 1) | (out - 1)) <= UINTPTR_MAX / 2 &&
           find_places(&self->base, in, out, count * element, out_input, out_output);
}

/* Writes what the call is into the own slot of the next call. */
static inline rlx_slot *begin(rlx_mapped *self, uint64_t what, uint64_t count,
                              uint64_t input_offset, uint64_t output_offset) {
    rlx_slot *slot;
    if (!self->world->is_shared) rlx_mapped_note_thread(self);
    slot = self->slots[++self->sequence % 2][self->base.rank];
    slot->about.what = what;
    slot->about.count = count;
    slot->about.input_offset = input_offset;
    slot->about.output_offset = output_offset;
    return slot;
}

/* Two f32 at a time. */
typedef float two_floats __attribute__((vector_size(8)));
static inline two_floats load_two(const rlx_slot *slot, uint64_t at) {
    two_floats both;
    memcpy(&both, slot->tiny + at * sizeof(float), sizeof both);
    return both;
}

/* In rank order, as every fold. */
static __attribute__((noinline)) rlx_status finish_tiny(rlx_mapped *self, float *output,
                                                        uint64_t count) {
    rlx_slot *const *slots = self->slots[self->sequence % 2];
    RLX_TRY(meet(self, slots, 2 * self->sequence));
    for (uint64_t at = 0; at < count; at += 2) {
        two_floats sum = load_two(slots[0], at);
        for (uint32_t i = 1; i < self->base.rank_count; ++i)
            sum += load_two(slots[i], at);
        memcpy(output + at, &sum, count - at == 1 ? sizeof *output : sizeof sum);
    }
    return RLX_OK;
}

static rlx_status finish(rlx_mapped *self, void *output, uint64_t count, uint64_t bytes,
                         rlx_dtype dtype, rlx_reduction reduction) {
    rlx_slot *const *slots = self->slots[self->sequence % 2];
    RLX_TRY(meet(self, slots, 2 * self->sequence));
    for (uint32_t i = 0; i < self->base.rank_count; ++i)
        self->sources[i] = rlx_small_payload(slots[i], bytes);
    self->targets[0] = output;
    rlx_fold_with(self->folds, dtype, reduction, self->sources, self->base.rank_count,
                  self->targets, 1, count);
    return RLX_OK;
}

static inline uint64_t what_of(rlx_dtype dtype, rlx_reduction reduction) {
    return (uint64_t)dtype << 16 | (uint64_t)reduction << 8 | RLX_COLLECTIVE_ALL_REDUCE;
}

static __attribute__((noinline)) rlx_status reduce_any(rlx_mapped *self, const void *input,
                                                       void *output, uint64_t count,
                                                       rlx_dtype dtype, rlx_reduction reduction) {
    uint64_t bytes = 0, input_offset = 0, output_offset = 0;
    rlx_slot *slot;
    if ((unsigned)dtype < RLX_DTYPE_COUNT && (unsigned)reduction < RLX_REDUCTION_COUNT &&
        count <= RLX_SMALL_BYTES) {
        bytes = count * element_bytes[dtype];
    }
    if (bytes - 1 >= RLX_SMALL_BYTES || !is_idle(self) ||
        !check_operands(self, input, output, count, element_bytes[dtype], &input_offset,
                        &output_offset)) {
        return rlx_all_reduce_checked(&self->base, input, output, count, dtype, reduction);
    }
    slot = begin(self, what_of(dtype, reduction), count, input_offset, output_offset);
    rlx_small_post(slot, input, bytes);
    atomic_store_explicit(&slot->word, 2 * self->sequence, memory_order_release);
    return finish(self, output, count, bytes, dtype, reduction);
}

/* The same operands as the last time, or others that are in order. */
static inline bool knows(rlx_mapped *self, const void *input, void *output, uint64_t count) {
    rlx_tiny_call *last = &self->last_tiny;
    if (last->input == input && last->output == output && last->count == count) return true;
    if (!check_operands(self, input, output, count, sizeof(float), &last->input_offset,
                        &last->output_offset)) {
        last->count = 0; /* is no call's */
        return false;
    }
    last->input = input;
    last->output = output;
    last->count = count;
    return true;
}

rlx_status rlx_mapped_all_reduce(rlx_transport *base, const void *input, void *output,
                                 uint64_t count, rlx_dtype dtype, rlx_reduction reduction) {
    rlx_mapped *self = (rlx_mapped *)base;
    rlx_slot *slot;
    /* Two or so f32 are the shortest of all: nothing is looked up, nothing called. */
    if (dtype != RLX_DTYPE_F32 || reduction != RLX_REDUCTION_SUM || count - 1 >= TINY_FLOATS ||
        !is_idle(self) || !knows(self, input, output, count)) {
        return reduce_any(self, input, output, count, dtype, reduction);
    }
    slot = begin(self, what_of(RLX_DTYPE_F32, RLX_REDUCTION_SUM), count,
                 self->last_tiny.input_offset, self->last_tiny.output_offset);
    if (count == 2) {
        memcpy(slot->tiny, input, 2 * sizeof(float));
    } else {
        memset(slot->tiny, 0, sizeof slot->tiny);
        rlx_small_copy(slot->tiny, input, count * sizeof(float));
    }
    atomic_store_explicit(&slot->word, 2 * self->sequence, memory_order_release);
    return finish_tiny(self, output, count);
}
