/* SPDX-License-Identifier: Apache-2.0 */
/* Making, sharing and asking a program. Reading weights is weights.c, files are program_file.c. */
#include "runtime/program.h"

#include "base/options.h"

#include <rlx/copy.h>

#include <string.h>

/* "cpu/avx512" and "cpu/scalar" are of one kind: scalar C can run every plan of its kind. */
static rlx_status check_target(const rlx_device *device, const rlx_plan *plan) {
    const char *have = rlx_device_target(device)->name;
    size_t length = strcspn(have, "/");
    if (strcspn(plan->target, "/") == length && memcmp(plan->target, have, length) == 0) {
        return RLX_OK;
    }
    return RLX_FAIL(RLX_MISMATCH, "the plan is for target '%s', the device is '%s'", plan->target,
                    have);
}

static rlx_status check_alignment(const rlx_device *device, const rlx_plan *plan) {
    uint64_t wanted = rlx_device_target(device)->alignment;
    if (plan->alignment >= wanted) return RLX_OK;
    return RLX_FAIL(RLX_MISMATCH, "the plan aligns to %" PRIu64 " bytes, the device needs %" PRIu64,
                    plan->alignment, wanted);
}

rlx_status rlx_program_check(const rlx_device *device, const rlx_plan *plan) {
    RLX_TRY(rlx_plan_verify(plan));
    RLX_TRY(check_target(device, plan));
    return check_alignment(device, plan);
}

rlx_status rlx_program_new(rlx_device *device, const rlx_program_options *options,
                           rlx_program **out_program) {
    const rlx_allocator *allocator =
        options->allocator != NULL ? options->allocator : rlx_default_allocator();
    rlx_program *program = NULL;
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *program, (void **)&program));
    program->allocator = *allocator;
    atomic_init(&program->owners, 1);
    program->device = rlx_device_retain(device);
    *out_program = program;
    return RLX_OK;
}

rlx_status rlx_program_create(rlx_device *device, rlx_plan *plan,
                              const rlx_program_options *options, rlx_program **out_program) {
    rlx_program_options full = {.size = sizeof full};
    rlx_program *program = NULL;
    rlx_status status;
    if (device == NULL || plan == NULL || out_program == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "device, plan or out_program is NULL");
    }
    RLX_TRY(rlx_options_read(options, sizeof full, "program", &full));
    if (full.weights_budget != 0 || rlx_plan_is_streamed(plan)) {
        return RLX_FAIL(RLX_UNSUPPORTED, "a weights budget needs a saved program: weights are read "
                                         "from its file (rlx_program_load)");
    }
    RLX_TRY(rlx_program_check(device, plan));
    RLX_TRY(rlx_program_new(device, &full, &program));
    program->plan = plan;
    status = rlx_program_fill_weights(program, &full);
    if (status != RLX_OK) {
        program->plan = NULL; /* still the caller's */
        rlx_program_release(program);
        return status;
    }
    *out_program = program;
    return RLX_OK;
}

rlx_program *rlx_program_retain(rlx_program *program) {
    if (program != NULL) atomic_fetch_add_explicit(&program->owners, 1, memory_order_relaxed);
    return program;
}

void rlx_program_release(rlx_program *program) {
    rlx_allocator allocator;
    if (program == NULL) return;
    if (atomic_fetch_sub_explicit(&program->owners, 1, memory_order_acq_rel) != 1) return;
    allocator = program->allocator;
    rlx_plan_destroy(program->plan);
    rlx_free(&allocator, program->owned);
    rlx_file_map_close(&program->map);
    rlx_copy_file_close(program->file);
    rlx_device_release(program->device);
    rlx_free(&allocator, program);
}

const rlx_plan *rlx_program_plan(const rlx_program *program) {
    return program->plan;
}

rlx_device *rlx_program_device(const rlx_program *program) {
    return program->device;
}

uint64_t rlx_program_weights_bytes(const rlx_program *program) {
    return program->plan->segment_bytes[RLX_SEGMENT_WEIGHTS];
}

bool rlx_program_is_mapped(const rlx_program *program) {
    return program->map.data != NULL || program->file != NULL;
}

static rlx_status check_entry(const rlx_program *program, uint32_t entry) {
    if (program == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "program is NULL");
    if (entry >= program->plan->entries.count) {
        return RLX_FAIL(RLX_NOT_FOUND, "no entry %u (have %u)", entry,
                        program->plan->entries.count);
    }
    return RLX_OK;
}

/* Appends "name" or ", name" to a list in a buffer; false, with "..." at its end, when it is full.
 */
static bool list_name(const char *name, char *buffer, size_t bytes, size_t *used) {
    size_t length = strlen(name), comma = *used == 0 ? 0 : 2;
    if (*used + length + 8 > bytes) {
        memcpy(buffer + *used, ", ...", 6);
        return false;
    }
    memcpy(buffer + *used, ", ", comma);
    memcpy(buffer + *used + comma, name, length + 1);
    *used += comma + length;
    return true;
}

static const char *list_ports(const rlx_plan *plan, uint32_t at, uint32_t count, char *buffer,
                              size_t bytes) {
    size_t used = 0;
    buffer[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!list_name(plan->ports.items[at + i].name, buffer, bytes, &used)) break;
    }
    return buffer;
}

static const char *list_entries(const rlx_plan *plan, char *buffer, size_t bytes) {
    size_t used = 0;
    buffer[0] = 0;
    for (uint32_t i = 0; i < plan->entries.count; i++) {
        if (!list_name(plan->entries.items[i].name, buffer, bytes, &used)) break;
    }
    return buffer;
}

rlx_status rlx_program_find_entry(const rlx_program *program, const char *name,
                                  uint32_t *out_entry) {
    RLX_TRY(check_entry(program, 0));
    if (out_entry == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_entry is NULL");
    for (uint32_t i = 0; i < program->plan->entries.count; i++) {
        if (name == NULL || strcmp(program->plan->entries.items[i].name, name) == 0) {
            *out_entry = i;
            return RLX_OK;
        }
    }
    char names[256];
    return RLX_FAIL(RLX_NOT_FOUND, "no entry '%.200s'; there are: %s", name,
                    list_entries(program->plan, names, sizeof names));
}

rlx_status rlx_program_port(const rlx_program *program, uint32_t entry, uint32_t index,
                            bool is_output, uint32_t *out_port) {
    const rlx_plan_entry *row;
    uint32_t count;
    RLX_TRY(check_entry(program, entry));
    row = &program->plan->entries.items[entry];
    count = is_output ? row->output_count : row->input_count;
    if (index >= count) {
        return RLX_FAIL(RLX_NOT_FOUND, "entry '%s' has no %s %u (have %u)", row->name,
                        is_output ? "output" : "input", index, count);
    }
    *out_port = (is_output ? row->outputs_at : row->inputs_at) + index;
    return RLX_OK;
}

static rlx_status find_port(const rlx_program *program, uint32_t entry, const char *name,
                            bool is_output, uint32_t *out_index) {
    const rlx_plan_entry *row;
    uint32_t at, count;
    char names[256];
    RLX_TRY(check_entry(program, entry));
    if (name == NULL || out_index == NULL) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "name or out_index is NULL");
    }
    row = &program->plan->entries.items[entry];
    at = is_output ? row->outputs_at : row->inputs_at;
    count = is_output ? row->output_count : row->input_count;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(program->plan->ports.items[at + i].name, name) == 0) {
            *out_index = i;
            return RLX_OK;
        }
    }
    return RLX_FAIL(RLX_NOT_FOUND, "entry '%s' has no %s '%.200s'; it has: %s", row->name,
                    is_output ? "output" : "input", name,
                    list_ports(program->plan, at, count, names, sizeof names));
}

rlx_status rlx_program_find_input(const rlx_program *program, uint32_t entry, const char *name,
                                  uint32_t *out_index) {
    return find_port(program, entry, name, false, out_index);
}

rlx_status rlx_program_find_output(const rlx_program *program, uint32_t entry, const char *name,
                                   uint32_t *out_index) {
    return find_port(program, entry, name, true, out_index);
}

static rlx_status port_info(const rlx_program *program, uint32_t entry, uint32_t index,
                            bool is_output, rlx_port_info *out_info) {
    const rlx_plan_port *port;
    const rlx_plan_slot *slot;
    rlx_port_info info = {0};
    uint32_t at;
    RLX_TRY(rlx_program_port(program, entry, index, is_output, &at));
    if (out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "out_info is NULL");
    port = &program->plan->ports.items[at];
    slot = &program->plan->slots.items[port->slot];
    info.name = port->name;
    info.dtype = slot->dtype;
    info.shape.rank = slot->rank;
    info.elements = 1;
    for (uint32_t i = 0; i < slot->rank; i++) {
        info.shape.dims[i] = slot->dims[i];
        info.elements *= (uint64_t)slot->dims[i];
    }
    RLX_TRY(rlx_dtype_bytes(slot->dtype, info.elements, &info.bytes));
    info.slot = port->slot;
    info.survives = port->survives;
    *out_info = info;
    return RLX_OK;
}

rlx_status rlx_program_input(const rlx_program *program, uint32_t entry, uint32_t index,
                             rlx_port_info *out_info) {
    return port_info(program, entry, index, false, out_info);
}

rlx_status rlx_program_output(const rlx_program *program, uint32_t entry, uint32_t index,
                              rlx_port_info *out_info) {
    return port_info(program, entry, index, true, out_info);
}
