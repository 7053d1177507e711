/* SPDX-License-Identifier: Apache-2.0 */
/* Order and memory of the prepare steps. What only they need lives from the first of them that uses
 * it to the last and is placed like scratch; raw parameters are read right before their first use.
 * The largest come first: weights take real memory as they are written, so the most that is taken
 * while a program is made is little more than its weights. */
#include "compile/emit.h"

#include "base/size.h"

#include <rlx/place.h>

#include <stdlib.h>
#include <string.h>

/* A prepare step and the group of steps that hang on each other's results. */
typedef struct grouped_step {
    uint64_t bytes; /* of the group: its largest buffer that only prepare steps need */
    uint32_t group, index;
} grouped_step;

static int by_size(const void *a, const void *b) {
    const grouped_step *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static uint32_t group_of(grouped_step *steps, uint32_t step) {
    while (steps[step].group != step) {
        steps[step].group = steps[steps[step].group].group;
        step = steps[step].group;
    }
    return step;
}

/* `maker`: per buffer the first step that touches it, if any step writes it. */
static void join(const rlx_plan *plan, const rlx_plan_step *step, uint32_t s, uint32_t *maker,
                 grouped_step *steps) {
    for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
        uint32_t slot = plan->operands.items[step->operands_at + i];
        if (slot == RLX_NONE) continue;
        uint32_t buffer = plan->slots.items[slot].buffer;
        if (i >= step->input_count && maker[buffer] == RLX_NONE) maker[buffer] = s;
        if (maker[buffer] == RLX_NONE) continue; /* read by many, made by none */
        uint32_t a = group_of(steps, maker[buffer]), b = group_of(steps, s);
        steps[a > b ? a : b].group = a > b ? b : a;
    }
}

static void measure(const rlx_plan *plan, const rlx_plan_step *step, uint32_t group,
                    grouped_step *steps) {
    for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
        uint32_t slot = plan->operands.items[step->operands_at + i];
        if (slot == RLX_NONE) continue;
        const rlx_plan_buffer *buffer = &plan->buffers.items[plan->slots.items[slot].buffer];
        if (buffer->segment == RLX_SEGMENT_SOURCE && buffer->bytes > steps[group].bytes)
            steps[group].bytes = buffer->bytes;
    }
}

/* Prepare steps group by group, those with the largest weights first. A step that writes a buffer
 * comes before those that read it, as before: they are of one group. */
rlx_status rlx_emit_order_prepare(rlx_emitter *emitter) {
    const rlx_plan *plan = emitter->plan;
    const rlx_allocator *allocator = plan->allocator;
    uint32_t count = emitter->prepare.count, *maker = NULL;
    rlx_plan_step *items = emitter->prepare.items, *copy = NULL;
    grouped_step *steps = NULL;
    if (count < 2) return RLX_OK;
    rlx_status status =
        rlx_alloc_array(allocator, plan->buffers.count + 1u, sizeof *maker, (void **)&maker);
    if (status == RLX_OK)
        status = rlx_alloc_array(allocator, count, sizeof *steps, (void **)&steps);
    if (status == RLX_OK) status = rlx_alloc_array(allocator, count, sizeof *copy, (void **)&copy);
    if (status == RLX_OK) {
        memset(maker, 0xFF, plan->buffers.count * sizeof *maker);
        for (uint32_t s = 0; s < count; s++)
            steps[s] = (grouped_step){0, s, s};
        for (uint32_t s = 0; s < count; s++)
            join(plan, &items[s], s, maker, steps);
        for (uint32_t s = 0; s < count; s++)
            measure(plan, &items[s], group_of(steps, s), steps);
        for (uint32_t s = 0; s < count; s++) {
            uint32_t group = group_of(steps, s);
            if (group != s) steps[s].bytes = steps[group].bytes;
            steps[s].group = group;
        }
        qsort(steps, count, sizeof *steps, by_size);
        memcpy(copy, items, count * sizeof *copy);
        for (uint32_t s = 0; s < count; s++)
            items[s] = copy[steps[s].index];
    }
    rlx_free(allocator, maker);
    rlx_free(allocator, steps);
    rlx_free(allocator, copy);
    return status;
}

static void use_buffer(rlx_plan *plan, uint32_t buffer, uint32_t step) {
    rlx_plan_buffer *used = &plan->buffers.items[buffer];
    if (used->segment != RLX_SEGMENT_SOURCE) return;
    if (used->entry == RLX_NONE) {
        used->entry = RLX_PLAN_PREPARE;
        used->first_step = step;
    }
    used->last_step = step;
}

static void find_lives(rlx_plan *plan) {
    for (uint32_t s = 0; s < plan->prepare_count; s++) {
        const rlx_plan_step *step = &plan->steps.items[s];
        for (uint32_t i = 0; i < step->input_count + step->output_count; i++) {
            uint32_t slot = plan->operands.items[step->operands_at + i];
            if (slot != RLX_NONE) use_buffer(plan, plan->slots.items[slot].buffer, s);
        }
        if (step->workspace != RLX_NONE) use_buffer(plan, step->workspace, s);
    }
}

static bool is_whole(const rlx_plan *plan, const rlx_plan_slot *slot, uint64_t *out_bytes) {
    return slot->byte_offset == 0 && rlx_plan_slot_bytes(slot, out_bytes) == RLX_OK &&
           *out_bytes == plan->buffers.items[slot->buffer].bytes;
}

/* Whether step `s` may write its output over input `index`, both of them memory of the prepare
 * steps: the one ends here and the other begins, element on element. */
static bool can_overwrite(const rlx_plan *plan, const uint32_t *moved, uint32_t s, uint32_t index) {
    const rlx_plan_step *step = &plan->steps.items[s];
    const uint32_t *operands = &plan->operands.items[step->operands_at];
    uint32_t input = operands[index], output = operands[step->input_count];
    uint64_t in_bytes, out_bytes;
    if (input == RLX_NONE || output == RLX_NONE || !rlx_op_may_overwrite(step->op, index))
        return false;
    const rlx_plan_slot *in = &plan->slots.items[input], *out = &plan->slots.items[output];
    const rlx_plan_buffer *from = &plan->buffers.items[in->buffer];
    const rlx_plan_buffer *to = &plan->buffers.items[out->buffer];
    if (from->entry != RLX_PLAN_PREPARE || to->entry != RLX_PLAN_PREPARE || from == to ||
        from->last_step != s || to->first_step != s) {
        return false;
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        if (i != index && operands[i] != RLX_NONE &&
            moved[plan->slots.items[operands[i]].buffer] == moved[in->buffer])
            return false;
    }
    return in->dtype == out->dtype && in->layout == out->layout && in->rank == out->rank &&
           memcmp(in->dims, out->dims, in->rank * sizeof *in->dims) == 0 &&
           memcmp(in->strides, out->strides, in->rank * sizeof *in->strides) == 0 &&
           is_whole(plan, in, &in_bytes) && is_whole(plan, out, &out_bytes);
}

/* Results take the memory of an input that ends: of a raw weight and what is made of it there is
 * one at a time. Slots are moved at the end, all at once. */
static void overwrite_inputs(rlx_plan *plan, uint32_t *moved) {
    for (uint32_t i = 0; i < plan->buffers.count; i++)
        moved[i] = i;
    for (uint32_t s = 0; s < plan->prepare_count; s++) {
        const rlx_plan_step *step = &plan->steps.items[s];
        const uint32_t *operands = &plan->operands.items[step->operands_at];
        if (step->output_count != 1) continue;
        for (uint32_t i = 0; i < step->input_count; i++) {
            if (!can_overwrite(plan, moved, s, i)) continue;
            uint32_t in = plan->slots.items[operands[i]].buffer;
            uint32_t out = plan->slots.items[operands[step->input_count]].buffer;
            moved[out] = moved[in];
            plan->buffers.items[moved[in]].last_step = plan->buffers.items[out].last_step;
            break;
        }
    }
    for (uint32_t i = 0; i < plan->slots.count; i++)
        plan->slots.items[i].buffer = moved[plan->slots.items[i].buffer];
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        if (moved[i] != i) plan->buffers.items[i].bytes = 0; /* nobody has it any more */
    }
}

/* What many steps read, numbers like an epsilon, lies in front of everything else, so that behind
 * the largest weights memory can be given back. */
static bool lives_long(const rlx_plan *plan, const rlx_plan_buffer *buffer) {
    return buffer->entry != RLX_PLAN_PREPARE ||
           buffer->last_step - buffer->first_step > plan->prepare_count / 2;
}

static rlx_status place_long_lives(rlx_plan *plan, uint64_t *out_bytes) {
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (buffer->segment != RLX_SEGMENT_SOURCE || !lives_long(plan, buffer)) continue;
        buffer->offset = *out_bytes;
        if (!rlx_add_u64(*out_bytes, buffer->bytes, out_bytes) ||
            !rlx_align_u64(*out_bytes, plan->alignment, out_bytes)) {
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
        }
    }
    return RLX_OK;
}

static rlx_status place(rlx_plan *plan, rlx_place_item *items, uint64_t *offsets) {
    rlx_place_report report = {0};
    rlx_place_options options = {.size = sizeof options, .alignment = plan->alignment};
    uint64_t base = 0;
    uint32_t count = 0;
    RLX_TRY(place_long_lives(plan, &base));
    for (uint32_t i = 0; i < plan->buffers.count; i++) {
        const rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (buffer->segment != RLX_SEGMENT_SOURCE || lives_long(plan, buffer)) continue;
        items[count++] =
            (rlx_place_item){buffer->first_step, (uint64_t)buffer->last_step + 1, buffer->bytes};
    }
    RLX_TRY(rlx_place(plan->allocator, items, count, &options, offsets, &report));
    for (uint32_t i = 0, at = 0; i < plan->buffers.count; i++) {
        rlx_plan_buffer *buffer = &plan->buffers.items[i];
        if (buffer->segment != RLX_SEGMENT_SOURCE || lives_long(plan, buffer)) continue;
        buffer->offset = base + offsets[at++];
    }
    if (!rlx_add_u64(base, report.peak, &plan->segment_bytes[RLX_SEGMENT_SOURCE]))
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "the model needs more than 2^64 bytes");
    return RLX_OK;
}

/* When a source must be there: 0 at once, 1 + s before prepare step s. */
static uint32_t due(const rlx_plan *plan, const rlx_plan_source *source) {
    const rlx_plan_buffer *buffer = &plan->buffers.items[plan->slots.items[source->slot].buffer];
    return buffer->entry == RLX_PLAN_PREPARE ? buffer->first_step + 1 : 0;
}

/* Sources in the order in which they are due; those of one step stay in their order. */
static void sort_sources(rlx_plan *plan, rlx_plan_source *copy, uint32_t *starts) {
    uint32_t count = plan->sources.count;
    memset(starts, 0, (plan->prepare_count + 2u) * sizeof *starts);
    for (uint32_t i = 0; i < count; i++)
        starts[due(plan, &plan->sources.items[i]) + 1]++;
    for (uint32_t i = 1; i < plan->prepare_count + 2u; i++)
        starts[i] += starts[i - 1];
    if (count != 0) memcpy(copy, plan->sources.items, count * sizeof *copy);
    for (uint32_t i = 0; i < count; i++)
        plan->sources.items[starts[due(plan, &copy[i])]++] = copy[i];
}

rlx_status rlx_emit_sources(rlx_emitter *emitter) {
    rlx_plan *plan = emitter->plan;
    const rlx_allocator *allocator = plan->allocator;
    rlx_place_item *items = NULL;
    uint64_t *offsets = NULL;
    rlx_plan_source *copy = NULL;
    uint32_t *starts = NULL, *moved = NULL;
    rlx_status status =
        rlx_alloc_array(allocator, plan->buffers.count + 1u, sizeof *items, (void **)&items);
    if (status == RLX_OK) {
        status = rlx_alloc_array(allocator, plan->buffers.count + 1u, sizeof *offsets,
                                 (void **)&offsets);
    }
    if (status == RLX_OK) {
        status = rlx_alloc_array(allocator, plan->sources.count + 1u, sizeof *copy, (void **)&copy);
    }
    if (status == RLX_OK) {
        status =
            rlx_alloc_array(allocator, plan->prepare_count + 3u, sizeof *starts, (void **)&starts);
    }
    if (status == RLX_OK) {
        status =
            rlx_alloc_array(allocator, plan->buffers.count + 1u, sizeof *moved, (void **)&moved);
    }
    if (status == RLX_OK) {
        find_lives(plan);
        if (rlx_pass_is_on(emitter->options, "in_place")) overwrite_inputs(plan, moved);
        status = place(plan, items, offsets);
    }
    if (status == RLX_OK) sort_sources(plan, copy, starts);
    rlx_free(allocator, items);
    rlx_free(allocator, offsets);
    rlx_free(allocator, copy);
    rlx_free(allocator, starts);
    rlx_free(allocator, moved);
    return status;
}
