/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as a container: making and freeing it, sizes of slots, copies of attributes, the hash of
 * the state layout. Stands between the compiler, which fills a plan, and the runtime, which eats
 * it; knows neither. Queries are in query.c. */
#include "plan/plan.h"

#include "base/hash.h"
#include "base/size.h"
#include "ir/dtype.h"
#include "ir/layout.h"

rlx_status rlx_plan_create(const rlx_allocator *allocator, rlx_plan **out_plan) {
    rlx_plan *plan = NULL;
    if (out_plan == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *plan, (void **)&plan));
    plan->hook = *allocator;
    plan->allocator = &plan->hook;
    plan->memory.allocator = plan->allocator;
    plan->target = "";
    plan->workers = 1;
    plan->rank_count = 1;
    plan->alignment = RLX_PLAN_ALIGNMENT;
    *out_plan = plan;
    return RLX_OK;
}

void rlx_plan_destroy(rlx_plan *plan) {
    if (plan == NULL) return;
    const rlx_allocator hook = plan->hook, *allocator = &hook;
    rlx_vec_free(allocator, &plan->buffers);
    rlx_vec_free(allocator, &plan->slots);
    rlx_vec_free(allocator, &plan->operands);
    rlx_vec_free(allocator, &plan->steps);
    rlx_vec_free(allocator, &plan->stretches);
    rlx_vec_free(allocator, &plan->ports);
    rlx_vec_free(allocator, &plan->entries);
    rlx_vec_free(allocator, &plan->sources);
    rlx_vec_free(allocator, &plan->splits);
    rlx_vec_free(allocator, &plan->stream.tiles);
    rlx_vec_free(allocator, &plan->stream.pieces);
    rlx_vec_free(allocator, &plan->stream.weights);
    rlx_scratch_reset(&plan->memory);
    rlx_free(allocator, plan);
}

/* First and last element that the strides reach, relative to the slot's own. */
static bool element_span(const rlx_plan_slot *slot, int64_t *out_low, int64_t *out_high) {
    int64_t low = 0, high = 0;
    for (uint32_t i = 0; i < slot->rank; i++) {
        int64_t reach;
        if (!rlx_mul_i64(slot->dims[i] - 1, slot->strides[i], &reach)) return false;
        if (!rlx_add_i64(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) return false;
    }
    *out_low = low;
    *out_high = high;
    return true;
}

static int64_t floor_divide(int64_t value, int64_t divisor) {
    return value / divisor - (value % divisor < 0 ? 1 : 0);
}

rlx_status rlx_plan_slot_span(const rlx_plan_slot *slot, int64_t *out_low, int64_t *out_high) {
    const rlx_dtype_row *row = rlx_dtype_row_of(slot->dtype);
    int64_t first, last, low = 0, high = 0;
    if (row == NULL) return RLX_FAIL(RLX_INVALID_PLAN, "dtype %u is none", (unsigned)slot->dtype);
    if (slot->rank > RLX_MAX_RANK) return RLX_FAIL(RLX_INVALID_PLAN, "rank %u > 8", slot->rank);
    bool is_empty = false;
    for (uint32_t i = 0; i < slot->rank; i++) {
        if (slot->dims[i] < 0) {
            return RLX_FAIL(RLX_INVALID_PLAN, "dim %u is %" PRId64, i, slot->dims[i]);
        }
        is_empty = is_empty || slot->dims[i] == 0;
    }
    if (is_empty) {
        *out_low = *out_high = 0;
        return RLX_OK;
    }
    if (slot->layout != RLX_LAYOUT_PLAIN) {
        uint64_t bytes;
        RLX_TRY(rlx_layout_bytes(slot->layout, slot->dtype, slot->rank, slot->dims, &bytes));
        high = (int64_t)bytes;
    } else if (!element_span(slot, &first, &last) ||
               !rlx_mul_i64(floor_divide(first, row->block_elements), row->block_bytes, &low) ||
               !rlx_mul_i64(floor_divide(last, row->block_elements) + 1, row->block_bytes, &high)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "its strides reach past 2^63 bytes");
    }
    *out_low = low;
    *out_high = high;
    return RLX_OK;
}

rlx_status rlx_plan_slot_bytes(const rlx_plan_slot *slot, uint64_t *out_bytes) {
    int64_t low, high;
    RLX_TRY(rlx_plan_slot_span(slot, &low, &high));
    *out_bytes = (uint64_t)high - (uint64_t)low; /* low <= 0 <= high */
    return RLX_OK;
}

rlx_tensor rlx_plan_tensor(const rlx_plan_slot *slot) {
    rlx_tensor tensor = {.dtype = slot->dtype, .layout = slot->layout, .rank = slot->rank};
    memcpy(tensor.dims, slot->dims, sizeof tensor.dims);
    memcpy(tensor.strides, slot->strides, sizeof tensor.strides);
    return tensor;
}

rlx_status rlx_plan_copy_attrs(rlx_plan *plan, rlx_op op, const void *attrs,
                               const void **out_attrs) {
    const rlx_op_info *info = rlx_op_info_of(op);
    char *copy = NULL;
    if (info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "op %u is none", (unsigned)op);
    RLX_TRY(rlx_scratch_alloc(&plan->memory, info->attrs_bytes, (void **)&copy));
    if (attrs != NULL) memcpy(copy, attrs, info->attrs_bytes);
    for (uint32_t i = 0; i < info->field_count; i++) {
        if (info->fields[i].kind != RLX_FIELD_LIST) continue;
        rlx_list *list = (rlx_list *)(void *)(copy + info->fields[i].offset);
        int64_t *items = NULL;
        if (list->count == 0) {
            list->items = NULL;
            continue;
        }
        RLX_TRY(rlx_scratch_array(&plan->memory, list->count, sizeof *items, (void **)&items));
        memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    *out_attrs = copy;
    return RLX_OK;
}

/* Byte by byte from the low end, so that every machine gets the same hash. */
static uint64_t hash_u64(uint64_t hash, uint64_t value) {
    uint8_t bytes[8];
    for (uint32_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(value >> (8 * i));
    return rlx_hash(hash, bytes, sizeof bytes);
}

uint64_t rlx_plan_state_hash(const rlx_plan *plan) {
    uint64_t hash = RLX_HASH_SEED;
    for (uint32_t i = 0; i < plan->slots.count; i++) {
        const rlx_plan_slot *slot = &plan->slots.items[i];
        if (slot->kind != RLX_VALUE_STATE) continue;
        hash = rlx_hash(hash, slot->name, strlen(slot->name) + 1);
        hash = hash_u64(hash, slot->dtype);
        hash = hash_u64(hash, slot->rank);
        for (uint32_t axis = 0; axis < slot->rank; axis++)
            hash = hash_u64(hash, (uint64_t)slot->dims[axis]);
        hash = hash_u64(hash, rlx_plan_slot_offset(plan, slot));
    }
    return hash_u64(hash, plan->segment_bytes[RLX_SEGMENT_STATE]);
}

void rlx_plan_hash_state(rlx_plan *plan) {
    plan->state_hash = rlx_plan_state_hash(plan);
}

uint32_t rlx_plan_step_count(const rlx_plan *plan) {
    return plan == NULL ? 0 : plan->steps.count;
}

static uint32_t entry_of_step(const rlx_plan *plan, uint32_t step) {
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        const rlx_plan_entry *entry = &plan->entries.items[i];
        if (step >= entry->first_step && step - entry->first_step < entry->step_count) return i;
    }
    return RLX_NONE;
}

rlx_status rlx_plan_step_at(const rlx_plan *plan, uint32_t step, rlx_step_info *out_info) {
    if (plan == NULL || out_info == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "plan or out_info is NULL");
    }
    if (step >= plan->steps.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "no step %u (have %u)", step, plan->steps.count);
    }
    const rlx_plan_step *row = &plan->steps.items[step];
    bool has_op = row->kind == RLX_STEP_KERNEL || row->kind == RLX_STEP_HOST ||
                  row->kind == RLX_STEP_COLLECTIVE;
    *out_info = (rlx_step_info){.step = step,
                                .entry = entry_of_step(plan, step),
                                .name = row->name,
                                .kernel = row->kernel,
                                .reason = row->reason,
                                .op = has_op ? row->op : RLX_OP_NONE,
                                .is_host = row->kind == RLX_STEP_HOST,
                                .is_jump = row->kind == RLX_STEP_JUMP,
                                .is_stream = row->kind == RLX_STEP_STREAM,
                                .is_collective = row->kind == RLX_STEP_COLLECTIVE,
                                .input_count = row->input_count,
                                .output_count = row->output_count,
                                .flops = row->flops,
                                .bytes = row->bytes};
    if (row->input_count + row->output_count != 0) {
        out_info->inputs = &plan->operands.items[row->operands_at];
        out_info->outputs = out_info->inputs + row->input_count;
    }
    return RLX_OK;
}
