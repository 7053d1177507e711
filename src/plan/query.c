/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may ask a plan. Every index is checked; names are looked up by a walk over the
 * tables, because nobody looks up a name while a model runs. */
#include "plan/plan.h"

const char *rlx_plan_target(const rlx_plan *plan) {
    return plan->target;
}

uint64_t rlx_plan_segment_bytes(const rlx_plan *plan, rlx_segment segment) {
    return (uint32_t)segment < RLX_SEGMENT_COUNT ? plan->segment_bytes[segment] : 0;
}

uint64_t rlx_plan_arena_bytes(const rlx_plan *plan) {
    return plan->segment_bytes[RLX_SEGMENT_WEIGHTS] + plan->segment_bytes[RLX_SEGMENT_STATE] +
           plan->segment_bytes[RLX_SEGMENT_SCRATCH] + plan->segment_bytes[RLX_SEGMENT_TILES];
}

uint32_t rlx_plan_rank(const rlx_plan *plan) {
    return plan == NULL ? 0 : plan->rank;
}

uint32_t rlx_plan_rank_count(const rlx_plan *plan) {
    return plan == NULL ? 1 : plan->rank_count;
}

/* Each begins on a line of its own, at the plan's alignment; segments are below 2^63 bytes. */
uint64_t rlx_plan_heap_bytes(const rlx_plan *plan) {
    if (plan == NULL) return 0;
    return plan->segment_bytes[RLX_SEGMENT_STATE] + plan->segment_bytes[RLX_SEGMENT_SCRATCH] +
           2 * plan->alignment;
}

uint32_t rlx_plan_slot_count(const rlx_plan *plan) {
    return plan->slots.count;
}

rlx_status rlx_plan_slot_at(const rlx_plan *plan, uint32_t slot, rlx_slot_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (slot >= plan->slots.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "slot %u of %u", slot, plan->slots.count);
    }
    const rlx_plan_slot *from = &plan->slots.items[slot];
    rlx_tensor tensor = rlx_plan_tensor(from);
    rlx_slot_info info = {
        .name = from->name,
        .kind = (rlx_value_kind)from->kind,
        .dtype = from->dtype,
        .shape = {.rank = from->rank},
        .segment = (rlx_segment)plan->buffers.items[from->buffer].segment,
        .offset = rlx_plan_slot_offset(plan, from),
        .is_plain = rlx_tensor_is_plain(&tensor),
    };
    memcpy(info.shape.dims, from->dims, sizeof info.shape.dims);
    RLX_TRY_WITH(rlx_plan_slot_bytes(from, &info.bytes), "slot %u '%.80s'", slot, from->name);
    *out_info = info;
    return RLX_OK;
}

static bool find_port(const rlx_plan *plan, uint32_t at, uint32_t count, const char *name,
                      uint32_t *out_slot) {
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(plan->ports.items[at + i].name, name) != 0) continue;
        *out_slot = plan->ports.items[at + i].slot;
        return true;
    }
    return false;
}

rlx_status rlx_plan_find_slot(const rlx_plan *plan, const char *name, uint32_t *out_slot) {
    if (plan == NULL || name == NULL || out_slot == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    }
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        const rlx_plan_entry *entry = &plan->entries.items[i];
        if (find_port(plan, entry->outputs_at, entry->output_count, name, out_slot) ||
            find_port(plan, entry->inputs_at, entry->input_count, name, out_slot)) {
            return RLX_OK;
        }
    }
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        if (strcmp(plan->slots.items[i].name, name) != 0) continue;
        *out_slot = i;
        return RLX_OK;
    }
    return RLX_FAIL(RLX_NOT_FOUND, "the plan has no slot '%.200s'", name);
}

uint32_t rlx_plan_entry_count(const rlx_plan *plan) {
    return plan->entries.count;
}

rlx_status rlx_plan_entry_at(const rlx_plan *plan, uint32_t entry, rlx_entry_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (entry >= plan->entries.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "entry %u of %u", entry, plan->entries.count);
    }
    const rlx_plan_entry *from = &plan->entries.items[entry];
    *out_info = (rlx_entry_info){
        .name = from->name,
        .input_count = from->input_count,
        .output_count = from->output_count,
        .step_count = from->step_count,
        .stretch_count = from->stretch_count,
        .scratch_bytes = from->scratch_bytes,
        .lower_bound = from->lower_bound,
        .sum_bytes = from->sum_bytes,
    };
    return RLX_OK;
}

/* The port, or NULL past the end. */
static const rlx_plan_port *port_of(const rlx_plan *plan, uint32_t entry, uint32_t index,
                                    bool is_output) {
    if (plan == NULL || entry >= plan->entries.count) return NULL;
    const rlx_plan_entry *from = &plan->entries.items[entry];
    uint32_t at = is_output ? from->outputs_at : from->inputs_at;
    uint32_t count = is_output ? from->output_count : from->input_count;
    return index < count ? &plan->ports.items[at + index] : NULL;
}

uint32_t rlx_plan_input(const rlx_plan *plan, uint32_t entry, uint32_t index) {
    const rlx_plan_port *port = port_of(plan, entry, index, false);
    return port == NULL ? RLX_NONE : port->slot;
}

uint32_t rlx_plan_output(const rlx_plan *plan, uint32_t entry, uint32_t index) {
    const rlx_plan_port *port = port_of(plan, entry, index, true);
    return port == NULL ? RLX_NONE : port->slot;
}

const char *rlx_plan_output_name(const rlx_plan *plan, uint32_t entry, uint32_t index) {
    const rlx_plan_port *port = port_of(plan, entry, index, true);
    return port == NULL ? NULL : port->name;
}

uint32_t rlx_plan_split_count(const rlx_plan *plan) {
    return plan == NULL ? 0 : plan->splits.count;
}

rlx_status rlx_plan_split_at(const rlx_plan *plan, uint32_t index, rlx_split_info *out_info) {
    if (plan == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (index >= plan->splits.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "split %u of %u", index, plan->splits.count);
    }
    const rlx_plan_split *row = &plan->splits.items[index];
    *out_info = (rlx_split_info){.entry = row->entry,
                                 .name = row->name,
                                 .text = row->text,
                                 .is_split = row->is_split,
                                 .whole_bytes = row->whole_bytes,
                                 .own_bytes = row->own_bytes};
    return RLX_OK;
}
