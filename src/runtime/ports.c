/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs and outputs of an executable: by index and by name, copied or in place. Remembers which
 * inputs hold data and which outputs are still there, because they share memory with the rest of a
 * run. */
#include "runtime/exec.h"

#include <string.h>

static const rlx_plan_buffer *port_buffer(const rlx_plan *plan, uint32_t port) {
    return &plan->buffers.items[plan->slots.items[plan->ports.items[port].slot].buffer];
}

static bool overlap(const rlx_plan_buffer *a, const rlx_plan_buffer *b) {
    return a->segment == b->segment && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Entries share scratch: as soon as one is used, inputs and outputs of the others are gone. */
static void switch_entry(rlx_exec *exec, uint32_t entry) {
    const rlx_plan *plan = exec->program->plan;
    if (exec->input_entry != entry && exec->input_entry != RLX_NONE) {
        const rlx_plan_entry *old = &plan->entries.items[exec->input_entry];
        for (uint32_t i = old->inputs_at; i < old->inputs_at + old->input_count; i++) {
            if (port_buffer(plan, i)->segment == RLX_SEGMENT_SCRATCH) exec->is_set[i] = false;
        }
    }
    exec->input_entry = entry;
    if (exec->ran_entry != entry) exec->ran_entry = RLX_NONE;
}

/* An input is about to be written: outputs of the last run that share its memory are gone. */
static void lose_outputs(rlx_exec *exec, uint32_t entry, uint32_t port) {
    const rlx_plan *plan = exec->program->plan;
    const rlx_plan_entry *row = &plan->entries.items[entry];
    if (exec->ran_entry != entry) return;
    for (uint32_t i = row->outputs_at; i < row->outputs_at + row->output_count; i++) {
        if (overlap(port_buffer(plan, i), port_buffer(plan, port))) exec->is_lost[i] = true;
    }
}

static rlx_status find_input(rlx_exec *exec, uint32_t entry, uint32_t index, uint32_t *out_port) {
    return rlx_program_port(exec->program, entry, index, false, out_port);
}

static rlx_status check_length(const rlx_exec *exec, uint32_t port, const char *unit,
                               uint64_t expected, uint64_t got) {
    rlx_status status;
    if (expected == got) return RLX_OK;
    status = RLX_FAIL(RLX_LENGTH_MISMATCH, "input '%s' has %" PRIu64 " %s, got %" PRIu64,
                      exec->program->plan->ports.items[port].name, expected, unit, got);
    rlx_error_detail_edit()->expected = expected;
    rlx_error_detail_edit()->got = got;
    return status;
}

static rlx_status set_locked(rlx_exec *exec, uint32_t entry, uint32_t index, const void *data,
                             uint64_t count, bool is_f32) {
    uint32_t port, slot;
    RLX_TRY(find_input(exec, entry, index, &port));
    slot = exec->program->plan->ports.items[port].slot;
    if (is_f32) {
        RLX_TRY(check_length(exec, port, "elements", rlx_arena_slot_elements(exec->arena, slot),
                             count));
        RLX_TRY(rlx_arena_write_f32(exec->arena, slot, 0, data, count, 0, NULL));
    } else {
        RLX_TRY(check_length(exec, port, "bytes", rlx_arena_slot_bytes(exec->arena, slot), count));
        RLX_TRY(rlx_arena_write_bytes(exec->arena, slot, 0, data, count, 0, NULL));
    }
    switch_entry(exec, entry);
    lose_outputs(exec, entry, port);
    exec->is_set[port] = true;
    return RLX_OK;
}

static rlx_status set(rlx_exec *exec, uint32_t entry, uint32_t index, const void *data,
                      uint64_t count, bool is_f32) {
    rlx_status status;
    RLX_TRY(rlx_exec_enter(exec));
    status = set_locked(exec, entry, index, data, count, is_f32);
    rlx_exec_leave(exec);
    return status;
}

rlx_status rlx_exec_set_input(rlx_exec *exec, uint32_t entry, uint32_t index, const void *data,
                              uint64_t bytes) {
    return set(exec, entry, index, data, bytes, false);
}

rlx_status rlx_exec_set_input_f32(rlx_exec *exec, uint32_t entry, uint32_t index, const float *data,
                                  uint64_t count) {
    return set(exec, entry, index, data, count, true);
}

static rlx_status set_named(rlx_exec *exec, uint32_t entry, const char *name, const void *data,
                            uint64_t count, bool is_f32) {
    uint32_t index;
    if (exec == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "exec is NULL");
    RLX_TRY(rlx_program_find_input(exec->program, entry, name, &index));
    return set(exec, entry, index, data, count, is_f32);
}

rlx_status rlx_exec_set(rlx_exec *exec, uint32_t entry, const char *name, const void *data,
                        uint64_t bytes) {
    return set_named(exec, entry, name, data, bytes, false);
}

rlx_status rlx_exec_set_f32(rlx_exec *exec, uint32_t entry, const char *name, const float *data,
                            uint64_t count) {
    return set_named(exec, entry, name, data, count, true);
}

/* Host address of an input or output. */
static rlx_status port_address(const rlx_exec *exec, uint32_t port, const char *what,
                               void **out_address) {
    const rlx_plan_port *row = &exec->program->plan->ports.items[port];
    rlx_tensor tensor = rlx_arena_tensor(exec->arena, row->slot);
    if (tensor.data == NULL) {
        return RLX_FAIL(RLX_UNSUPPORTED, "%s '%s' is not mapped into host memory", what, row->name);
    }
    *out_address = tensor.data;
    return RLX_OK;
}

static rlx_status address_locked(rlx_exec *exec, uint32_t entry, uint32_t index,
                                 void **out_address) {
    uint32_t port;
    RLX_TRY(find_input(exec, entry, index, &port));
    RLX_TRY(port_address(exec, port, "input", out_address));
    switch_entry(exec, entry);
    lose_outputs(exec, entry, port);
    exec->is_set[port] = true;
    return RLX_OK;
}

rlx_status rlx_exec_input_address(rlx_exec *exec, uint32_t entry, uint32_t index,
                                  void **out_address) {
    rlx_status status;
    if (out_address == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_address is NULL");
    RLX_TRY(rlx_exec_enter(exec));
    status = address_locked(exec, entry, index, out_address);
    rlx_exec_leave(exec);
    return status;
}

rlx_status rlx_exec_check_inputs(const rlx_exec *exec, uint32_t entry) {
    const rlx_plan *plan = exec->program->plan;
    const rlx_plan_entry *row;
    if (entry >= plan->entries.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "no entry %u (have %u)", entry, plan->entries.count);
    }
    row = &plan->entries.items[entry];
    for (uint32_t i = row->inputs_at; i < row->inputs_at + row->input_count; i++) {
        if (exec->is_set[i]) continue;
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "input '%s' of entry '%s' is not set%s",
                        plan->ports.items[i].name, row->name,
                        plan->ports.items[i].survives
                            ? ""
                            : " (it does not survive a run: set it before each)");
    }
    return RLX_OK;
}

void rlx_exec_begin_run(rlx_exec *exec, uint32_t entry) {
    const rlx_plan *plan = exec->program->plan;
    const rlx_plan_entry *row = &plan->entries.items[entry];
    switch_entry(exec, entry);
    exec->ran_entry = RLX_NONE;
    for (uint32_t i = row->inputs_at; i < row->inputs_at + row->input_count; i++) {
        if (!plan->ports.items[i].survives) exec->is_set[i] = false;
    }
}

void rlx_exec_end_run(rlx_exec *exec, uint32_t entry, bool is_good) {
    const rlx_plan_entry *row = &exec->program->plan->entries.items[entry];
    if (!is_good) return;
    exec->ran_entry = entry;
    for (uint32_t i = row->outputs_at; i < row->outputs_at + row->output_count; i++)
        exec->is_lost[i] = false;
}

/* An output that is there to be read. */
static rlx_status need_output(const rlx_exec *exec, uint32_t entry, uint32_t index,
                              uint32_t *out_port) {
    const char *name;
    RLX_TRY(rlx_program_port(exec->program, entry, index, true, out_port));
    name = exec->program->plan->ports.items[*out_port].name;
    if (exec->ran_entry != entry) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "output '%s': entry '%s' was not the last to run without an error", name,
                        exec->program->plan->entries.items[entry].name);
    }
    if (exec->is_lost[*out_port]) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "output '%s' is gone: an input that shares its memory was set", name);
    }
    return RLX_OK;
}

/* The true size of one dim. */
static rlx_status true_dim(rlx_exec *exec, const rlx_plan_slot *slot, uint32_t axis,
                           int64_t *out_dim) {
    int64_t value = 0;
    *out_dim = slot->dims[axis];
    if (slot->extents[axis] == RLX_NONE) return RLX_OK;
    RLX_TRY(
        rlx_arena_read_bytes(exec->arena, slot->extents[axis], 0, &value, sizeof value, 0, NULL));
    if (value < 0 || value > slot->dims[axis]) {
        return RLX_FAIL(RLX_FAULT, "'%s': dim %u has extent %" PRId64 ", at most %" PRId64,
                        slot->name, axis, value, slot->dims[axis]);
    }
    *out_dim = value;
    return RLX_OK;
}

static rlx_status describe(rlx_exec *exec, uint32_t entry, uint32_t index,
                           rlx_output_info *out_info) {
    const rlx_plan *plan = exec->program->plan;
    const rlx_plan_slot *slot;
    rlx_output_info info = {.elements = 1};
    uint32_t port;
    RLX_TRY(need_output(exec, entry, index, &port));
    info.name = plan->ports.items[port].name;
    info.slot = plan->ports.items[port].slot;
    slot = &plan->slots.items[info.slot];
    info.dtype = slot->dtype;
    info.shape.rank = slot->rank;
    for (uint32_t i = 0; i < slot->rank; i++) {
        RLX_TRY(true_dim(exec, slot, i, &info.shape.dims[i]));
        info.elements *= (uint64_t)info.shape.dims[i];
    }
    RLX_TRY(rlx_dtype_bytes(info.dtype, info.elements, &info.bytes));
    *out_info = info;
    return RLX_OK;
}

rlx_status rlx_exec_output(rlx_exec *exec, uint32_t entry, uint32_t index,
                           rlx_output_info *out_info) {
    rlx_status status;
    if (out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_info is NULL");
    RLX_TRY(rlx_exec_enter(exec));
    status = describe(exec, entry, index, out_info);
    rlx_exec_leave(exec);
    return status;
}

static rlx_status read_locked(rlx_exec *exec, uint32_t entry, uint32_t index, void *out,
                              uint64_t capacity, bool is_f32, uint64_t *out_count) {
    rlx_output_info info;
    uint64_t count;
    RLX_TRY(describe(exec, entry, index, &info));
    count = is_f32 ? info.elements : info.bytes;
    if (count > capacity) {
        rlx_status status =
            RLX_FAIL(RLX_OUT_OF_BOUNDS, "output '%s' has %" PRIu64 " %s, room for %" PRIu64,
                     info.name, count, is_f32 ? "elements" : "bytes", capacity);
        rlx_error_detail_edit()->expected = count;
        rlx_error_detail_edit()->got = capacity;
        return status;
    }
    if (is_f32) {
        RLX_TRY(rlx_arena_read_dims_f32(exec->arena, info.slot, info.shape.dims, out));
    } else {
        RLX_TRY(rlx_arena_read_dims_bytes(exec->arena, info.slot, info.shape.dims, out));
    }
    if (out_count != NULL) *out_count = count;
    return RLX_OK;
}

static rlx_status read(rlx_exec *exec, uint32_t entry, uint32_t index, void *out, uint64_t capacity,
                       bool is_f32, uint64_t *out_count) {
    rlx_status status;
    RLX_TRY(rlx_exec_enter(exec));
    status = read_locked(exec, entry, index, out, capacity, is_f32, out_count);
    rlx_exec_leave(exec);
    return status;
}

rlx_status rlx_exec_read_output(rlx_exec *exec, uint32_t entry, uint32_t index, void *out,
                                uint64_t capacity_bytes, uint64_t *out_bytes) {
    return read(exec, entry, index, out, capacity_bytes, false, out_bytes);
}

rlx_status rlx_exec_read_output_f32(rlx_exec *exec, uint32_t entry, uint32_t index, float *out,
                                    uint64_t capacity, uint64_t *out_count) {
    return read(exec, entry, index, out, capacity, true, out_count);
}

static rlx_status read_named(rlx_exec *exec, uint32_t entry, const char *name, void *out,
                             uint64_t capacity, bool is_f32, uint64_t *out_count) {
    uint32_t index;
    if (exec == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "exec is NULL");
    RLX_TRY(rlx_program_find_output(exec->program, entry, name, &index));
    return read(exec, entry, index, out, capacity, is_f32, out_count);
}

rlx_status rlx_exec_read(rlx_exec *exec, uint32_t entry, const char *name, void *out,
                         uint64_t capacity_bytes, uint64_t *out_bytes) {
    return read_named(exec, entry, name, out, capacity_bytes, false, out_bytes);
}

rlx_status rlx_exec_read_f32(rlx_exec *exec, uint32_t entry, const char *name, float *out,
                             uint64_t capacity, uint64_t *out_count) {
    return read_named(exec, entry, name, out, capacity, true, out_count);
}

static rlx_status output_address_locked(rlx_exec *exec, uint32_t entry, uint32_t index,
                                        const void **out_address) {
    uint32_t port;
    void *address = NULL;
    RLX_TRY(need_output(exec, entry, index, &port));
    RLX_TRY(port_address(exec, port, "output", &address));
    *out_address = address;
    return RLX_OK;
}

rlx_status rlx_exec_output_address(rlx_exec *exec, uint32_t entry, uint32_t index,
                                   const void **out_address) {
    rlx_status status;
    if (out_address == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_address is NULL");
    RLX_TRY(rlx_exec_enter(exec));
    status = output_address_locked(exec, entry, index, out_address);
    rlx_exec_leave(exec);
    return status;
}
