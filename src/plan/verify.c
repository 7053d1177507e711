/* SPDX-License-Identifier: Apache-2.0 */
/* rlx_plan_verify: proves a plan without trusting whoever made it. A saved program is hostile until
 * this has passed: afterwards no step can be pointed outside the arena. This file has the order of
 * the checks and those of the tables as a whole; verify_memory, verify_step and verify_life have
 * the rest. What the verifier cannot know is left to the runtime: that the kernel of a step's name
 * exists, and that it needs no more than the step's workspace. */
#include "plan/verify.h"

#include "base/size.h"
#include "ir/type.h"

enum { MOST_WORKERS = 65536, MOST_ALIGNMENT = 1 << 20, MOST_RANKS = 256 };

static rlx_status check_sizes(const rlx_plan *plan) {
    uint64_t left = INT64_MAX;
    if (plan->target == NULL || plan->target[0] == 0) return INVALID_PLAN("it names no target");
    if (plan->workers == 0 || plan->workers > MOST_WORKERS) {
        return INVALID_PLAN("%u workers, allowed are 1 to %u", plan->workers, MOST_WORKERS);
    }
    if (plan->alignment < RLX_PLAN_ALIGNMENT || plan->alignment > MOST_ALIGNMENT ||
        (plan->alignment & (plan->alignment - 1)) != 0) {
        return INVALID_PLAN("alignment %" PRIu64 " is no power of two in %u .. %u", plan->alignment,
                            RLX_PLAN_ALIGNMENT, MOST_ALIGNMENT);
    }
    if (plan->rank_count == 0 || plan->rank_count > MOST_RANKS || plan->rank >= plan->rank_count) {
        return INVALID_PLAN("rank %u of %u ranks (at most %u)", plan->rank, plan->rank_count,
                            MOST_RANKS);
    }
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++) {
        if (plan->segment_bytes[i] > left) return INVALID_PLAN("its segments exceed 2^63 bytes");
        left -= plan->segment_bytes[i];
    }
    if (plan->prepare_count > plan->steps.count) {
        return INVALID_PLAN("%u prepare steps of %u steps", plan->prepare_count, plan->steps.count);
    }
    if (plan->steps.count > plan->prepare_count &&
        plan->segment_bytes[RLX_SEGMENT_SCRATCH] < RLX_FAULT_BYTES) {
        return INVALID_PLAN("scratch of %" PRIu64 " bytes has no room for the fault record of %u",
                            plan->segment_bytes[RLX_SEGMENT_SCRATCH], RLX_FAULT_BYTES);
    }
    /* Slot and step numbers share their range with RLX_NONE and RLX_PLAN_PREPARE. */
    if (plan->steps.count >= RLX_PLAN_PREPARE || plan->slots.count >= RLX_PLAN_PREPARE ||
        plan->entries.count >= RLX_PLAN_PREPARE || plan->buffers.count >= RLX_PLAN_PREPARE) {
        return INVALID_PLAN("a table has more than 2^32 - 2 rows");
    }
    return RLX_OK;
}

static bool fits(uint32_t at, uint32_t count, uint32_t limit) {
    return at <= limit && count <= limit - at;
}

static rlx_status check_entry(const rlx_plan *plan, const rlx_plan_entry *entry) {
    if (entry->name == NULL || entry->bindings == NULL || entry->placed_by == NULL) {
        return INVALID_PLAN("a text is missing");
    }
    if (!fits(entry->inputs_at, entry->input_count, plan->ports.count) ||
        !fits(entry->outputs_at, entry->output_count, plan->ports.count)) {
        return INVALID_PLAN("its ports (%u + %u, %u + %u) are not among %u", entry->inputs_at,
                            entry->input_count, entry->outputs_at, entry->output_count,
                            plan->ports.count);
    }
    if (entry->scratch_bytes > plan->segment_bytes[RLX_SEGMENT_SCRATCH]) {
        return INVALID_PLAN("scratch %" PRIu64 " > segment %" PRIu64, entry->scratch_bytes,
                            plan->segment_bytes[RLX_SEGMENT_SCRATCH]);
    }
    return RLX_OK;
}

/* Steps and stretches of the entries follow each other without gap; prepare's come first. */
static rlx_status check_entries(const rlx_plan *plan) {
    uint32_t step = plan->prepare_count, stretch = plan->prepare_stretch_count;
    if (stretch > plan->stretches.count) {
        return INVALID_PLAN("%u prepare stretches of %u", stretch, plan->stretches.count);
    }
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        const rlx_plan_entry *entry = &plan->entries.items[i];
        RLX_TRY_WITH(check_entry(plan, entry), "entry %u", i);
        if (entry->first_step != step || !fits(step, entry->step_count, plan->steps.count)) {
            return INVALID_PLAN("entry %u: steps %u + %u, expected to start at %u of %u", i,
                                entry->first_step, entry->step_count, step, plan->steps.count);
        }
        if (entry->first_stretch != stretch ||
            !fits(stretch, entry->stretch_count, plan->stretches.count)) {
            return INVALID_PLAN("entry %u: stretches %u + %u, expected to start at %u of %u", i,
                                entry->first_stretch, entry->stretch_count, stretch,
                                plan->stretches.count);
        }
        step += entry->step_count;
        stretch += entry->stretch_count;
    }
    if (step != plan->steps.count || stretch != plan->stretches.count) {
        return INVALID_PLAN("the entries have %u of %u steps and %u of %u stretches", step,
                            plan->steps.count, stretch, plan->stretches.count);
    }
    return RLX_OK;
}

static bool is_device_step(const rlx_plan_step *step) {
    return step->kind == RLX_STEP_KERNEL || step->kind == RLX_STEP_COPY;
}

/* The stretches are exactly the runs of kernel and copy steps, in order; a run may be cut. */
static rlx_status check_stretches(plan_check *check, const step_range *range, uint32_t at,
                                  uint32_t count) {
    const rlx_plan *plan = check->plan;
    uint32_t step = range->first;
    for (uint32_t i = at; i < at + count; i++) {
        const rlx_plan_stretch *stretch = &plan->stretches.items[i];
        while (step < range->end && !is_device_step(&plan->steps.items[step]))
            step++;
        if (stretch->first_step != step || stretch->step_count == 0 ||
            stretch->step_count > range->end - step) {
            return INVALID_PLAN("stretch %u has steps %u + %u, expected to start at %u and end by "
                                "%u",
                                i, stretch->first_step, stretch->step_count, step, range->end);
        }
        for (uint32_t k = 0; k < stretch->step_count; k++, step++) {
            if (!is_device_step(&plan->steps.items[step])) {
                return INVALID_PLAN("stretch %u covers step %u, which is no kernel or copy", i,
                                    step);
            }
            check->is_inside[step] = k != 0;
        }
    }
    for (; step < range->end; step++) {
        if (is_device_step(&plan->steps.items[step])) {
            return INVALID_PLAN("step %u is in no stretch", step);
        }
    }
    return RLX_OK;
}

static rlx_status check_range(plan_check *check, uint32_t entry) {
    const rlx_plan *plan = check->plan;
    step_range range = {RLX_PLAN_PREPARE, 0, plan->prepare_count};
    uint32_t stretch = 0, stretch_count = plan->prepare_stretch_count;
    if (entry != RLX_PLAN_PREPARE) {
        const rlx_plan_entry *from = &plan->entries.items[entry];
        range = (step_range){entry, from->first_step, from->first_step + from->step_count};
        stretch = from->first_stretch;
        stretch_count = from->stretch_count;
    }
    RLX_TRY(check_stretches(check, &range, stretch, stretch_count));
    for (uint32_t step = range.first; step < range.end; step++)
        RLX_TRY(plan_check_step(check, &range, step));
    return entry == RLX_PLAN_PREPARE ? RLX_OK : plan_check_ports(check, &range);
}

static rlx_status check_source(const rlx_plan *plan, const rlx_plan_source *source) {
    const rlx_source *from = &source->source;
    uint64_t bytes;
    const rlx_plan_slot *slot = &plan->slots.items[source->slot];
    uint32_t segment = plan->buffers.items[slot->buffer].segment;
    if (segment != RLX_SEGMENT_WEIGHTS && segment != RLX_SEGMENT_SOURCE) {
        return INVALID_PLAN("it lies in segment %u, not in weights or source", segment);
    }
    if (!plan_slot_is_plain(slot)) return INVALID_PLAN("a source needs a plain slot");
    RLX_TRY(rlx_plan_slot_bytes(slot, &bytes));
    bool is_sized = from->kind == RLX_SOURCE_MEMORY || from->kind == RLX_SOURCE_FILE;
    if (source->window.rows != 0) {
        uint64_t elements, wanted;
        if (!rlx_mul_u64(source->window.rows, source->window.width, &elements)) {
            return INVALID_PLAN("a window of %" PRIu64 " rows wraps", source->window.rows);
        }
        RLX_TRY(rlx_dtype_bytes(slot->dtype, elements, &wanted));
        if (wanted != bytes) {
            return INVALID_PLAN("a window of %" PRIu64 " bytes, slot of %" PRIu64, wanted, bytes);
        }
        is_sized = false; /* the source is larger; reading checks its bounds */
    }
    if (is_sized && from->bytes != bytes) {
        return INVALID_PLAN("source of %" PRIu64 " bytes, slot of %" PRIu64, from->bytes, bytes);
    }
    if ((uint32_t)from->kind > RLX_SOURCE_SEEDED ||
        (from->kind == RLX_SOURCE_MEMORY && from->memory == NULL && bytes != 0) ||
        (from->kind == RLX_SOURCE_FILE && from->path == NULL)) {
        return INVALID_PLAN("source of kind %u without data", (unsigned)from->kind);
    }
    if (source->is_constant && from->kind != RLX_SOURCE_MEMORY) {
        return INVALID_PLAN("a constant with a source of kind %u", (unsigned)from->kind);
    }
    return RLX_OK;
}

/* When a source is read: before this prepare step. */
static uint32_t due(const rlx_plan *plan, uint32_t source) {
    const rlx_plan_slot *slot = &plan->slots.items[plan->sources.items[source].slot];
    const rlx_plan_buffer *buffer = &plan->buffers.items[slot->buffer];
    return buffer->entry == RLX_PLAN_PREPARE ? buffer->first_step : 0;
}

static rlx_status check_sources(plan_check *check) {
    const rlx_plan *plan = check->plan;
    uint8_t *seen = NULL;
    RLX_TRY(rlx_scratch_alloc(&check->memory, plan->slots.count, (void **)&seen));
    for (uint32_t i = 0; i < plan->sources.count; i++) {
        uint32_t slot = plan->sources.items[i].slot;
        if (slot >= plan->slots.count) {
            return INVALID_PLAN("source %u: slot %u of %u", i, slot, plan->slots.count);
        }
        RLX_TRY_WITH(check_source(plan, &plan->sources.items[i]), "source %u: " SLOT_FORMAT, i,
                     SLOT_ARGS(plan, slot));
        if (seen[slot]) {
            return INVALID_PLAN("source %u: " SLOT_FORMAT " has two", i, SLOT_ARGS(plan, slot));
        }
        seen[slot] = 1;
        if (i > 0 && due(plan, i) < due(plan, i - 1)) {
            return INVALID_PLAN("source %u is due before step %u, after one of step %u", i,
                                due(plan, i), due(plan, i - 1));
        }
    }
    return RLX_OK;
}

static rlx_status make_tables(plan_check *check) {
    const rlx_plan *plan = check->plan;
    uint32_t most = 0;
    for (uint32_t i = 0; i < plan->steps.count; i++) {
        const rlx_plan_step *step = &plan->steps.items[i];
        if (!fits(step->operands_at, step->input_count, plan->operands.count) ||
            !fits(step->operands_at + step->input_count, step->output_count,
                  plan->operands.count)) {
            return INVALID_PLAN("step %u: operands %u + %u + %u are not among %u", i,
                                step->operands_at, step->input_count, step->output_count,
                                plan->operands.count);
        }
        uint32_t count = step->input_count + step->output_count;
        if (count > most) most = count;
    }
    rlx_scratch *memory = &check->memory;
    uint32_t steps = plan->steps.count, buffers = plan->buffers.count;
    RLX_TRY(rlx_scratch_alloc(memory, steps, (void **)&check->is_inside));
    RLX_TRY(rlx_scratch_alloc(memory, buffers, (void **)&check->is_used));
    RLX_TRY(rlx_scratch_alloc(memory, buffers, (void **)&check->is_carried));
    RLX_TRY(rlx_scratch_alloc(memory, buffers, (void **)&check->is_written));
    RLX_TRY(rlx_scratch_array(memory, (uint64_t)steps + 1, sizeof *check->loop_ends,
                              (void **)&check->loop_ends));
    RLX_TRY(
        rlx_scratch_array(memory, steps, sizeof *check->loop_heads, (void **)&check->loop_heads));
    for (uint32_t i = 0; i < steps; i++)
        check->loop_heads[i] = RLX_NONE;
    RLX_TRY(rlx_scratch_array(memory, most, sizeof *check->types, (void **)&check->types));
    RLX_TRY(rlx_scratch_array(memory, most, sizeof *check->ids, (void **)&check->ids));
    return rlx_scratch_array(memory, most, sizeof *check->inputs, (void **)&check->inputs);
}

static rlx_status check_all(plan_check *check) {
    const rlx_plan *plan = check->plan;
    RLX_TRY(check_sizes(plan));
    RLX_TRY(check_entries(plan));
    RLX_TRY(make_tables(check));
    RLX_TRY(plan_check_buffers(check));
    RLX_TRY(plan_check_slots(check));
    RLX_TRY(plan_check_overlap(check));
    RLX_TRY(plan_check_tiles(check));
    RLX_TRY(check_range(check, RLX_PLAN_PREPARE));
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        RLX_TRY_WITH(check_range(check, i), "entry %u '%.80s'", i, plan->entries.items[i].name);
    }
    RLX_TRY(plan_check_loops(check));
    RLX_TRY(plan_check_stream_order(check));
    RLX_TRY(check_sources(check));
    if (plan->state_hash != rlx_plan_state_hash(plan)) {
        return INVALID_PLAN("state hash %016" PRIx64 ", expected %016" PRIx64, plan->state_hash,
                            rlx_plan_state_hash(plan));
    }
    return RLX_OK;
}

rlx_status rlx_plan_verify(const rlx_plan *plan) {
    if (plan == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    plan_check check = {.plan = plan, .memory = {.allocator = plan->allocator}};
    rlx_status status = check_all(&check);
    rlx_scratch_reset(&check.memory);
    return status;
}
