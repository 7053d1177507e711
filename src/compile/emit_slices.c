/* SPDX-License-Identifier: Apache-2.0 */
/* Large weights are packed in slices: along the outermost axis of its layout a packed weight lies
 * part behind part, so a slice of the source can be read and packed before the next one is read.
 * The most memory while a program is made is then that of the weights and one slice, not that of a
 * weight twice. Looks at plans only: a `pack` of a parameter becomes several of its parts. Where
 * elementwise steps make what is packed (bytes that become floats), they are cut with it. */
#include "compile/emit.h"

#include "ir/layout.h"

#include <string.h>

enum { SLICE_BYTES = 2 << 20, SLICED_FROM_BYTES = 8 << 20 };

/* How one pack step is cut. The source lies as `rows` rows of `extent` x `inner` elements, in which
 * the axis counts the extent. */
typedef struct cut {
    uint32_t step, input, output, source; /* step of the list, slots, source of the plan */
    uint32_t axis;
    int64_t extent, inner, rows;
    int64_t slice;        /* positions of the axis in one slice */
    uint64_t out_bytes;   /* of a slice, packed */
    uint32_t slice_count; /* 2 or more */
} cut;

static uint32_t source_of(const rlx_plan *plan, uint32_t buffer) {
    for (uint32_t i = 0; i < plan->sources.count; i++) {
        if (plan->slots.items[plan->sources.items[i].slot].buffer == buffer) return i;
    }
    return RLX_NONE;
}

/* No step but this one reads the buffer, and no slot has it but its input and the source's. */
static bool is_used_once(const rlx_emitter *emitter, const cut *self, uint32_t buffer) {
    const rlx_plan *plan = emitter->plan;
    uint32_t uses = 0;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        bool is_known = i == self->input || i == plan->sources.items[self->source].slot;
        if (plan->slots.items[i].buffer == buffer && !is_known) return false;
    }
    for (uint32_t s = 0; s < emitter->prepare.count; s++) {
        const rlx_plan_step *step = &emitter->prepare.items[s];
        for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
            uint32_t slot = plan->operands.items[step->operands_at + i];
            uses += slot != RLX_NONE && plan->slots.items[slot].buffer == buffer;
        }
    }
    return uses == 1;
}

/* The source is the memory of the slot from its first element to its last, and the axis cuts every
 * row of it: strides inside stay, those that step over rows are whole rows. */
static bool find_rows(const rlx_plan *plan, const rlx_plan_slot *slot, cut *self) {
    int64_t elements = 1, row;
    if (slot->byte_offset != 0 || slot->strides[self->axis] <= 0) return false;
    self->extent = slot->dims[self->axis];
    self->inner = slot->strides[self->axis];
    row = self->extent * self->inner; /* the plan's own numbers: inside the buffer */
    for (uint32_t i = 0; i < slot->rank; i++) {
        int64_t stride = slot->strides[i];
        elements *= slot->dims[i];
        if (i == self->axis || slot->dims[i] == 1) continue;
        if (stride <= 0 || (stride >= self->inner && stride % row != 0)) return false;
    }
    if (elements % row != 0) return false;
    self->rows = elements / row;
    return (uint64_t)elements * rlx_dtype_block_bytes(slot->dtype) ==
           plan->buffers.items[slot->buffer].bytes;
}

/* Whole blocks of the outermost loop, so many that every slice begins where memory is aligned. */
static bool find_slices(const rlx_plan *plan, const rlx_plan_slot *slot, cut *self) {
    rlx_layout_map map;
    if (rlx_layout_map_make(slot->layout, slot->rank, slot->dims, &map) != RLX_OK) return false;
    const rlx_layout_loop *outer = &map.loops[0];
    uint64_t block = (uint64_t)outer->stride * rlx_dtype_block_bytes(slot->dtype);
    uint64_t blocks = block >= SLICE_BYTES ? 1 : SLICE_BYTES / block;
    self->axis = outer->axis;
    if (outer->divisor * (outer->count - 1) >= slot->dims[outer->axis]) return false;
    while (blocks * block % plan->alignment != 0)
        blocks++;
    self->slice = (int64_t)blocks * outer->divisor;
    self->out_bytes = blocks * block;
    self->slice_count = (uint32_t)(((uint64_t)outer->count + blocks - 1) / blocks);
    return self->slice_count > 1;
}

static bool can_cut(const rlx_emitter *emitter, uint32_t s, cut *self) {
    const rlx_plan *plan = emitter->plan;
    const rlx_plan_step *step = &emitter->prepare.items[s];
    if (step->op != RLX_OP_PACK || step->workspace_bytes != 0) return false;
    *self = (cut){.step = s,
                  .input = plan->operands.items[step->operands_at],
                  .output = plan->operands.items[step->operands_at + step->input_count]};
    const rlx_plan_slot *in = &plan->slots.items[self->input];
    const rlx_plan_slot *out = &plan->slots.items[self->output];
    const rlx_plan_buffer *buffer = &plan->buffers.items[in->buffer];
    if (buffer->segment != RLX_SEGMENT_SOURCE || buffer->bytes < SLICED_FROM_BYTES) return false;
    if (in->layout != RLX_LAYOUT_PLAIN || rlx_dtype_block_elements(in->dtype) != 1) return false;
    self->source = source_of(plan, in->buffer);
    if (self->source == RLX_NONE || plan->sources.items[self->source].window.rows != 0)
        return false;
    return is_used_once(emitter, self, in->buffer) && find_slices(plan, out, self) &&
           find_rows(plan, in, self);
}

/* In place of slot `at`, or as a new one (RLX_NONE). */
static rlx_status put_slot(rlx_plan *plan, uint32_t at, const rlx_plan_slot *slot,
                           uint32_t *out_slot) {
    *out_slot = at == RLX_NONE ? plan->slots.count : at;
    if (at == RLX_NONE) return rlx_vec_push(plan->allocator, &plan->slots, *slot);
    plan->slots.items[at] = *slot;
    return RLX_OK;
}

/* What a slice has of the source: memory of its own, and a slot that is filled row by row. The
 * first one has the place of the whole. */
static rlx_status add_part(rlx_plan *plan, const cut *self, rlx_plan_source source, int64_t first,
                           int64_t count, uint32_t *out_buffer) {
    rlx_plan_slot part = plan->slots.items[source.slot];
    int64_t row = count * self->inner;
    rlx_plan_buffer buffer = {.segment = RLX_SEGMENT_SOURCE,
                              .entry = RLX_NONE,
                              .bytes =
                                  (uint64_t)(self->rows * row) * rlx_dtype_block_bytes(part.dtype),
                              .last_step = UINT32_MAX};
    if (first > 0) part.buffer = plan->buffers.count;
    *out_buffer = part.buffer;
    part.rank = 2;
    part.dims[0] = self->rows, part.strides[0] = row;
    part.dims[1] = row, part.strides[1] = 1;
    RLX_TRY(put_slot(plan, first > 0 ? RLX_NONE : source.slot, &part, &source.slot));
    source.window = (rlx_source_window){.rows = (uint64_t)self->rows,
                                        .row = (uint64_t)(self->extent * self->inner),
                                        .first = (uint64_t)(first * self->inner),
                                        .count = (uint64_t)row,
                                        .width = (uint64_t)row};
    if (first == 0) {
        plan->buffers.items[part.buffer] = buffer;
        plan->sources.items[self->source] = source;
        return RLX_OK;
    }
    RLX_TRY(rlx_vec_push(plan->allocator, &plan->buffers, buffer));
    return rlx_vec_push(plan->allocator, &plan->sources, source);
}

/* The part as the step sees it: rows are shorter now. */
static rlx_plan_slot input_slot(const cut *self, const rlx_plan_slot *whole, uint32_t buffer,
                                int64_t count) {
    rlx_plan_slot slot = *whole;
    slot.buffer = buffer;
    slot.dims[self->axis] = count;
    for (uint32_t i = 0; i < slot.rank; i++) {
        if (i != self->axis && slot.strides[i] >= self->inner)
            slot.strides[i] = slot.strides[i] / self->extent * count;
    }
    return slot;
}

static rlx_status add_slice(rlx_emitter *emitter, const cut *self, const rlx_plan_slot *whole,
                            const rlx_plan_source *source, uint32_t n) {
    rlx_plan *plan = emitter->plan;
    rlx_plan_step step = emitter->prepare.items[self->step];
    rlx_plan_slot input, output = plan->slots.items[self->output];
    int64_t first = n * self->slice, count = self->extent - first;
    uint32_t buffer, slots[2],
        replaced = n > 0 || self->input == source->slot ? RLX_NONE : self->input;
    uint64_t in_bytes, out_bytes;
    if (count > self->slice) count = self->slice;
    RLX_TRY(add_part(plan, self, *source, first, count, &buffer));
    input = input_slot(self, whole, buffer, count);
    output.byte_offset = n * self->out_bytes;
    output.dims[self->axis] = count;
    RLX_TRY(put_slot(plan, replaced, &input, &slots[0]));
    RLX_TRY(put_slot(plan, RLX_NONE, &output, &slots[1]));
    step.operands_at = plan->operands.count;
    for (uint32_t i = 0; i < 2; i++)
        RLX_TRY(rlx_vec_push(plan->allocator, &plan->operands, slots[i]));
    RLX_TRY(rlx_plan_slot_bytes(&input, &in_bytes));
    RLX_TRY(rlx_plan_slot_bytes(&output, &out_bytes));
    step.bytes = in_bytes + out_bytes;
    step.flops /= self->slice_count;
    if (n > 0) return rlx_vec_push(plan->allocator, &emitter->prepare, step);
    emitter->prepare.items[self->step] = step;
    return RLX_OK;
}

/* What elementwise steps make and a pack step packs: values of one shape, each of which is used by
 * the next step alone. All of them are cut along the axis of the pack. */
enum { MOST_LINKS = 8, MOST_OPERANDS = 8 };
typedef struct line {
    cut pack;
    uint32_t count;                  /* of links */
    uint32_t at[MOST_LINKS];         /* steps of the list, the first one first */
    rlx_plan_step steps[MOST_LINKS]; /* as they were */
    uint32_t slots[MOST_LINKS];      /* their outputs */
    rlx_plan_slot whole[MOST_LINKS];
} line;

/* How often prepare steps name the buffer, and the one that writes it. */
static uint32_t count_uses(const rlx_emitter *emitter, uint32_t buffer, uint32_t *out_maker) {
    const rlx_plan *plan = emitter->plan;
    uint32_t uses = 0;
    *out_maker = RLX_NONE;
    for (uint32_t s = 0; s < emitter->prepare.count; s++) {
        const rlx_plan_step *step = &emitter->prepare.items[s];
        for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
            uint32_t slot = plan->operands.items[step->operands_at + i];
            if (slot == RLX_NONE || plan->slots.items[slot].buffer != buffer) continue;
            uses++;
            if (i >= step->input_count) *out_maker = s;
        }
    }
    return uses;
}

static uint32_t count_slots(const rlx_plan *plan, uint32_t buffer) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->slots.count; i++)
        count += plan->slots.items[i].buffer == buffer;
    return count;
}

static bool is_plain(const rlx_plan_slot *slot) {
    if (slot->layout != RLX_LAYOUT_PLAIN || rlx_dtype_block_elements(slot->dtype) != 1)
        return false;
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->extents[i] != RLX_NONE) return false;
    }
    return true;
}

/* Memory of the prepare steps that is one value from its first byte to its last, element behind
 * element, and has the shape of what is packed. */
static bool is_link(const rlx_plan *plan, const rlx_plan_slot *packed, const rlx_plan_slot *slot) {
    const rlx_plan_buffer *buffer = &plan->buffers.items[slot->buffer];
    int64_t expected = 1;
    if (buffer->segment != RLX_SEGMENT_SOURCE || slot->byte_offset != 0 || !is_plain(slot) ||
        slot->rank != packed->rank) {
        return false;
    }
    for (uint32_t i = slot->rank; i-- > 0;) {
        if (slot->dims[i] != packed->dims[i] || slot->strides[i] != expected) return false;
        expected *= slot->dims[i];
    }
    return buffer->bytes == (uint64_t)expected * rlx_dtype_block_bytes(slot->dtype);
}

/* The axis of the pack in an operand that is broadcast to its shape; RLX_NONE: it has none. */
static uint32_t axis_in(const rlx_plan_slot *slot, const cut *self, uint32_t rank) {
    uint32_t back = rank - self->axis;
    if (slot->rank < back || slot->dims[slot->rank - back] == 1) return RLX_NONE;
    return slot->rank - back;
}

/* The step that makes a link, `slot`. *out_next: the link that it is made of, or RLX_NONE. */
static bool find_link(const rlx_emitter *emitter, const rlx_plan_slot *packed, uint32_t slot,
                      line *self, uint32_t *out_next) {
    const rlx_plan *plan = emitter->plan;
    uint32_t buffer = plan->slots.items[slot].buffer, s, other;
    if (source_of(plan, buffer) != RLX_NONE || count_uses(emitter, buffer, &s) != 2 ||
        s == RLX_NONE || count_slots(plan, buffer) != 1 || self->count == MOST_LINKS) {
        return false;
    }
    const rlx_plan_step *step = &emitter->prepare.items[s];
    const rlx_op_info *info = rlx_op_info_of(step->op);
    if (step->kind != RLX_STEP_KERNEL || (info->flags & RLX_OPF_ELEMENTWISE) == 0 ||
        step->output_count != 1 || step->input_count > MOST_OPERANDS ||
        step->workspace_bytes != 0) {
        return false;
    }
    *out_next = RLX_NONE;
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t input = plan->operands.items[step->operands_at + i];
        if (input == RLX_NONE) continue;
        const rlx_plan_slot *in = &plan->slots.items[input];
        if (is_link(plan, packed, in) && source_of(plan, in->buffer) == RLX_NONE &&
            *out_next == RLX_NONE && count_uses(emitter, in->buffer, &other) == 2 &&
            other != RLX_NONE) {
            *out_next = input;
        } else if (!is_plain(in)) {
            return false;
        }
    }
    self->at[self->count] = s;
    self->steps[self->count] = *step;
    self->slots[self->count] = slot;
    self->whole[self->count++] = plan->slots.items[slot];
    return true;
}

/* From the pack back to what is not made by a step like these. */
static bool find_line(const rlx_emitter *emitter, uint32_t s, line *self) {
    const rlx_plan *plan = emitter->plan;
    const rlx_plan_step *step = &emitter->prepare.items[s];
    if (step->op != RLX_OP_PACK || step->workspace_bytes != 0) return false;
    uint32_t slot = plan->operands.items[step->operands_at];
    const rlx_plan_slot packed = plan->slots.items[slot];
    self->count = 0;
    self->pack = (cut){.step = s,
                       .input = slot,
                       .output = plan->operands.items[step->operands_at + step->input_count]};
    if (plan->buffers.items[packed.buffer].bytes < SLICED_FROM_BYTES ||
        !is_link(plan, &packed, &packed) ||
        !find_slices(plan, &plan->slots.items[self->pack.output], &self->pack)) {
        return false;
    }
    self->pack.extent = packed.dims[self->pack.axis];
    while (slot != RLX_NONE) {
        if (!find_link(emitter, &packed, slot, self, &slot)) return false;
    }
    return true;
}

/* Part of a link: memory of its own, the first one in the place of the whole. */
static rlx_status add_link(rlx_plan *plan, const line *self, uint32_t link, uint32_t n,
                           int64_t count, uint32_t *out_slot) {
    rlx_plan_slot part = self->whole[link];
    rlx_plan_buffer buffer = {
        .segment = RLX_SEGMENT_SOURCE, .entry = RLX_NONE, .last_step = UINT32_MAX};
    int64_t elements = 1;
    part.dims[self->pack.axis] = count;
    for (uint32_t i = part.rank; i-- > 0; elements *= part.dims[i])
        part.strides[i] = elements;
    buffer.bytes = (uint64_t)elements * rlx_dtype_block_bytes(part.dtype);
    if (n == 0) {
        plan->buffers.items[part.buffer] = buffer;
    } else {
        part.buffer = plan->buffers.count;
        RLX_TRY(rlx_vec_push(plan->allocator, &plan->buffers, buffer));
    }
    return put_slot(plan, n == 0 ? self->slots[link] : RLX_NONE, &part, out_slot);
}

/* An operand that is not a link, as a slice sees it. */
static rlx_status narrow(rlx_plan *plan, const line *self, uint32_t slot, int64_t first,
                         int64_t count, uint32_t *out_slot) {
    rlx_plan_slot part = plan->slots.items[slot];
    uint32_t axis = axis_in(&part, &self->pack, self->whole[0].rank);
    *out_slot = slot;
    if (axis == RLX_NONE) return RLX_OK;
    part.dims[axis] = count;
    part.byte_offset += (uint64_t)(first * part.strides[axis]) * rlx_dtype_block_bytes(part.dtype);
    return put_slot(plan, RLX_NONE, &part, out_slot);
}

/* Step `step` with other operands: in its place at first, then behind all others. */
static rlx_status add_step(rlx_emitter *emitter, const line *self, rlx_plan_step step, uint32_t at,
                           uint32_t n, const uint32_t *operands) {
    rlx_plan *plan = emitter->plan;
    step.operands_at = plan->operands.count;
    step.bytes /= self->pack.slice_count;
    step.flops /= self->pack.slice_count;
    for (uint32_t i = 0; i < step.input_count + step.output_count; i++)
        RLX_TRY(rlx_vec_push(plan->allocator, &plan->operands, operands[i]));
    if (n > 0) return rlx_vec_push(plan->allocator, &emitter->prepare, step);
    emitter->prepare.items[at] = step;
    return RLX_OK;
}

static rlx_status slice_line(rlx_emitter *emitter, const line *self, const rlx_plan_step *pack,
                             uint32_t n) {
    rlx_plan *plan = emitter->plan;
    uint32_t operands[MOST_OPERANDS + 1], made = RLX_NONE;
    int64_t first = n * self->pack.slice, count = self->pack.extent - first;
    rlx_plan_slot output = plan->slots.items[self->pack.output];
    if (count > self->pack.slice) count = self->pack.slice;
    for (uint32_t link = self->count; link-- > 0;) {
        const rlx_plan_step *step = &self->steps[link];
        uint32_t before = link + 1 < self->count ? self->slots[link + 1] : RLX_NONE;
        for (uint32_t i = 0; i < step->input_count; i++) {
            uint32_t slot = plan->operands.items[step->operands_at + i];
            operands[i] = slot == before ? made : slot;
            if (slot == RLX_NONE || slot == before) continue;
            RLX_TRY(narrow(plan, self, slot, first, count, &operands[i]));
        }
        RLX_TRY(add_link(plan, self, link, n, count, &made));
        operands[step->input_count] = made;
        RLX_TRY(add_step(emitter, self, *step, self->at[link], n, operands));
    }
    operands[0] = made;
    output.byte_offset = n * self->pack.out_bytes;
    output.dims[self->pack.axis] = count;
    RLX_TRY(put_slot(plan, RLX_NONE, &output, &operands[1]));
    return add_step(emitter, self, *pack, self->pack.step, n, operands);
}

static rlx_status cut_line(rlx_emitter *emitter, uint32_t s) {
    line self;
    if (!find_line(emitter, s, &self)) return RLX_OK;
    const rlx_plan_step pack = emitter->prepare.items[s];
    for (uint32_t n = 0; n < self.pack.slice_count; n++)
        RLX_TRY(slice_line(emitter, &self, &pack, n));
    return RLX_OK;
}

rlx_status rlx_emit_slices(rlx_emitter *emitter) {
    uint32_t known = emitter->prepare.count;
    for (uint32_t s = 0; s < known; s++) {
        cut self;
        if (!can_cut(emitter, s, &self)) {
            RLX_TRY(cut_line(emitter, s));
            continue;
        }
        rlx_plan_source source = emitter->plan->sources.items[self.source];
        rlx_plan_slot whole = emitter->plan->slots.items[self.input];
        for (uint32_t n = 0; n < self.slice_count; n++)
            RLX_TRY(add_slice(emitter, &self, &whole, &source, n));
    }
    return RLX_OK;
}
