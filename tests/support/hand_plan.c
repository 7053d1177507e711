/* SPDX-License-Identifier: Apache-2.0 */
/* Plans by hand: see hand_plan.h. */
#include "support/hand_plan.h"

#include "support/support.h"

#define PUSH(hand, vec, ...)                                                            \
    do {                                                                                \
        if ((hand)->status == RLX_OK) {                                                 \
            (hand)->status = rlx_vec_push((hand)->plan->allocator, (vec), __VA_ARGS__); \
        }                                                                               \
    } while (0)

void hand_begin(hand_plan *hand, uint32_t workers) {
    *hand = (hand_plan){.is_prepare = true};
    assert_ok(rlx_plan_create(NULL, &hand->plan));
    hand->plan->target = "cpu/scalar";
    hand->plan->workers = workers;
    hand->plan->alignment = RLX_PLAN_ALIGNMENT;
    hand->used[RLX_SEGMENT_SCRATCH] = RLX_FAULT_BYTES;
}

static uint64_t rounded(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Lives are filled in when the entry ends; RLX_NONE marks those. */
static uint32_t add_buffer(hand_plan *hand, rlx_segment segment, uint64_t bytes) {
    rlx_plan_buffer buffer = {.segment = segment,
                              .entry = RLX_NONE,
                              .offset = hand->used[segment],
                              .bytes = bytes,
                              .last_step = RLX_NONE};
    hand->used[segment] += rounded(bytes);
    if (segment == RLX_SEGMENT_WEIGHTS || segment == RLX_SEGMENT_STATE) buffer.last_step = 0;
    PUSH(hand, &hand->plan->buffers, buffer);
    return hand->plan->buffers.count - 1;
}

static rlx_plan_slot plain_slot(const char *name, rlx_value_kind kind, rlx_dtype dtype,
                                const int64_t *dims) {
    rlx_plan_slot slot = {.name = name, .kind = kind, .dtype = dtype};
    int64_t stride = 1;
    for (; dims[slot.rank] >= 0; slot.rank++)
        slot.dims[slot.rank] = dims[slot.rank];
    for (uint32_t i = slot.rank; i-- > 0;) {
        slot.strides[i] = stride;
        stride *= slot.dims[i];
    }
    for (uint32_t i = 0; i < RLX_MAX_RANK; i++)
        slot.extents[i] = RLX_NONE;
    return slot;
}

uint32_t hand_slot(hand_plan *hand, rlx_segment segment, rlx_value_kind kind, const char *name,
                   rlx_dtype dtype, const int64_t *dims) {
    rlx_plan_slot slot = plain_slot(name, kind, dtype, dims);
    uint64_t bytes = 0;
    assert_ok(rlx_plan_slot_bytes(&slot, &bytes));
    slot.buffer = add_buffer(hand, segment, bytes);
    PUSH(hand, &hand->plan->slots, slot);
    return hand->plan->slots.count - 1;
}

uint32_t hand_slot_at(hand_plan *hand, rlx_value_kind kind, const char *name, rlx_dtype dtype,
                      const int64_t *dims, uint64_t offset, uint32_t first_step,
                      uint32_t last_step) {
    rlx_plan_slot slot = plain_slot(name, kind, dtype, dims);
    rlx_plan_buffer buffer = {.segment = RLX_SEGMENT_SCRATCH,
                              .entry = hand->plan->entries.count,
                              .offset = offset,
                              .first_step = hand->first_step + first_step,
                              .last_step = hand->first_step + last_step};
    assert_ok(rlx_plan_slot_bytes(&slot, &buffer.bytes));
    slot.buffer = hand->plan->buffers.count;
    PUSH(hand, &hand->plan->buffers, buffer);
    PUSH(hand, &hand->plan->slots, slot);
    if (offset + rounded(buffer.bytes) > hand->used[RLX_SEGMENT_SCRATCH]) {
        hand->used[RLX_SEGMENT_SCRATCH] = offset + rounded(buffer.bytes);
    }
    return hand->plan->slots.count - 1;
}

uint32_t hand_view(hand_plan *hand, uint32_t slot, const char *name, uint64_t byte_offset,
                   const int64_t *dims, const int64_t *strides) {
    rlx_plan_slot *base = &hand->plan->slots.items[slot];
    rlx_plan_slot view = plain_slot(name, RLX_VALUE_TEMPORARY, base->dtype, dims);
    view.buffer = base->buffer;
    view.byte_offset = base->byte_offset + byte_offset;
    for (uint32_t i = 0; i < view.rank; i++)
        view.strides[i] = strides[i];
    PUSH(hand, &hand->plan->slots, view);
    return hand->plan->slots.count - 1;
}

void hand_extent(hand_plan *hand, uint32_t slot, uint32_t axis, uint32_t extent) {
    hand->plan->slots.items[slot].extents[axis] = extent;
}

void hand_source(hand_plan *hand, uint32_t slot, const void *data, uint64_t bytes) {
    PUSH(hand, &hand->plan->sources,
         ((rlx_plan_source){.slot = slot,
                            .source = {.kind = RLX_SOURCE_MEMORY, .memory = data, .bytes = bytes},
                            .is_constant = true}));
}

uint32_t hand_step(hand_plan *hand, rlx_step_kind kind, rlx_op op, const void *attrs,
                   const char *name, const uint32_t *inputs, uint32_t input_count,
                   const uint32_t *outputs, uint32_t output_count) {
    rlx_plan *plan = hand->plan;
    rlx_plan_step step = {.kind = kind,
                          .op = op,
                          .name = name,
                          .kernel = "",
                          .reason = "by hand",
                          .operands_at = plan->operands.count,
                          .input_count = input_count,
                          .output_count = output_count,
                          .workspace = RLX_NONE,
                          .condition = RLX_NONE,
                          .value = RLX_NONE};
    for (uint32_t i = 0; i < input_count; i++)
        PUSH(hand, &plan->operands, inputs[i]);
    for (uint32_t i = 0; i < output_count; i++)
        PUSH(hand, &plan->operands, outputs[i]);
    if (op != RLX_OP_NONE) assert_ok(rlx_plan_copy_attrs(plan, op, attrs, &step.attrs));
    PUSH(hand, &plan->steps, step);
    return plan->steps.count - 1;
}

uint32_t hand_jump(hand_plan *hand, uint32_t target, uint32_t condition, uint32_t jump_if) {
    uint32_t step = hand_step(hand, RLX_STEP_JUMP, RLX_OP_NONE, NULL, "jump", NULL, 0, NULL, 0);
    hand->plan->steps.items[step].target = hand->first_step + target;
    hand->plan->steps.items[step].condition = condition;
    hand->plan->steps.items[step].jump_if = jump_if;
    return step;
}

uint32_t hand_fail_if(hand_plan *hand, uint32_t condition, uint32_t fault_code, uint32_t value) {
    uint32_t step = hand_jump(hand, 0, condition, 1);
    hand->plan->steps.items[step].fault_code = fault_code;
    hand->plan->steps.items[step].value = value;
    hand->plan->steps.items[step].name = "guard";
    return step;
}

void hand_workspace(hand_plan *hand, uint32_t step, uint64_t bytes_per_worker) {
    uint32_t buffer =
        add_buffer(hand, RLX_SEGMENT_SCRATCH, rounded(bytes_per_worker) * hand->plan->workers);
    hand->plan->steps.items[step].workspace = buffer;
    hand->plan->steps.items[step].workspace_bytes = rounded(bytes_per_worker);
}

static bool is_target(const hand_plan *hand, uint32_t step) {
    for (uint32_t i = hand->first_step; i < hand->plan->steps.count; i++) {
        const rlx_plan_step *row = &hand->plan->steps.items[i];
        if (row->kind == RLX_STEP_JUMP && row->fault_code == 0 && row->target == step) return true;
    }
    return false;
}

/* Runs of kernel and copy steps, cut at jump targets. */
static void cut_stretches(hand_plan *hand) {
    rlx_plan *plan = hand->plan;
    bool is_open = false;
    for (uint32_t i = hand->first_step; i < plan->steps.count; i++) {
        uint32_t kind = plan->steps.items[i].kind;
        bool is_device = kind == RLX_STEP_KERNEL || kind == RLX_STEP_COPY;
        if (is_device && (!is_open || is_target(hand, i))) {
            PUSH(hand, &plan->stretches, ((rlx_plan_stretch){i, 0}));
        }
        is_open = is_device;
        if (is_device) plan->stretches.items[plan->stretches.count - 1].step_count++;
    }
}

static void close_lives(hand_plan *hand, uint32_t entry) {
    rlx_plan *plan = hand->plan;
    uint32_t last = plan->steps.count > hand->first_step ? plan->steps.count - 1 : hand->first_step;
    for (uint32_t i = hand->first_buffer; i < plan->buffers.count; i++) {
        if (plan->buffers.items[i].last_step != RLX_NONE) continue;
        plan->buffers.items[i].entry = entry;
        plan->buffers.items[i].first_step = hand->first_step;
        plan->buffers.items[i].last_step = last;
    }
    hand->first_buffer = plan->buffers.count;
    hand->first_step = plan->steps.count;
}

void hand_end_prepare(hand_plan *hand) {
    cut_stretches(hand);
    close_lives(hand, RLX_PLAN_PREPARE);
    hand->plan->prepare_count = hand->plan->steps.count;
    hand->plan->prepare_stretch_count = hand->plan->stretches.count;
}

static uint32_t add_ports(hand_plan *hand, const uint32_t *slots, const bool *survives) {
    uint32_t count = 0;
    for (; slots[count] != RLX_NONE; count++) {
        rlx_plan_port port = {.name = hand->plan->slots.items[slots[count]].name,
                              .slot = slots[count],
                              .survives = survives != NULL && survives[count]};
        PUSH(hand, &hand->plan->ports, port);
    }
    return count;
}

void hand_end_entry(hand_plan *hand, const char *name, const uint32_t *inputs, const bool *survives,
                    const uint32_t *outputs) {
    rlx_plan *plan = hand->plan;
    rlx_plan_entry entry = {.name = name,
                            .bindings = "",
                            .placed_by = "hand",
                            .first_step = hand->first_step,
                            .step_count = plan->steps.count - hand->first_step,
                            .first_stretch = plan->stretches.count,
                            .inputs_at = plan->ports.count};
    entry.input_count = add_ports(hand, inputs, survives);
    entry.outputs_at = plan->ports.count;
    entry.output_count = add_ports(hand, outputs, NULL);
    cut_stretches(hand);
    entry.stretch_count = plan->stretches.count - entry.first_stretch;
    entry.scratch_bytes = hand->used[RLX_SEGMENT_SCRATCH];
    close_lives(hand, plan->entries.count);
    PUSH(hand, &plan->entries, entry);
}

rlx_plan *hand_finish_unchecked(hand_plan *hand) {
    assert_ok(hand->status);
    for (uint32_t i = 0; i < RLX_SEGMENT_COUNT; i++)
        hand->plan->segment_bytes[i] = hand->used[i];
    rlx_plan_hash_state(hand->plan);
    return hand->plan;
}

rlx_plan *hand_finish(hand_plan *hand) {
    rlx_plan *plan = hand_finish_unchecked(hand);
    assert_ok(rlx_plan_verify(plan));
    return plan;
}
