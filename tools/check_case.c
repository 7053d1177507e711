/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one ONNX backend test: all inputs are offered to the compiler, which takes as constants only
 * those that decide shapes; the rest are set, the program runs, outputs are compared. */
#include "check_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_VALUES = 512, PATH_BYTES = 1200 };

typedef struct check_run {
    const check_options *options;
    check_result *result;
    rlx_onnx_ports *ports;
    rlx_given_value given[MOST_VALUES];
    uint32_t given_count;
    char names[MOST_VALUES][160];
    int64_t lengths[MOST_VALUES];
    rlx_given_value odd[MOST_VALUES]; /* files that contradict the model's declared shape */
    uint32_t odd_count;
} check_run;

static rlx_status note(check_run *run, check_outcome outcome, const char *text) {
    run->result->outcome = outcome;
    snprintf(run->result->reason, sizeof run->result->reason, "%s", text);
    for (char *at = run->result->reason; *at != 0; at++) {
        if (*at == '\n') *at = ' '; /* a list stays on its line */
    }
    return RLX_FAULT;
}

static rlx_status note_error(check_run *run, rlx_status status) {
    bool is_unsupported = status == RLX_UNSUPPORTED;
    return note(run, is_unsupported ? CHECK_UNSUPPORTED : CHECK_FAILED, rlx_last_error());
}

/* Adds what a value offers under `name`; sequences and optionals as rlx/compile.h says. */
static bool give(check_run *run, const char *name, const rlx_onnx_data *value) {
    if (run->given_count == MOST_VALUES) return false;
    uint32_t at = run->given_count++;
    rlx_given_value *given = &run->given[at];
    const char *suffix = value->kind == RLX_ONNX_KIND_SEQUENCE ? ".length"
                         : value->kind == RLX_ONNX_KIND_EMPTY  ? ".empty"
                                                               : "";
    snprintf(run->names[at], sizeof run->names[at], "%s%s", name, suffix);
    *given = (rlx_given_value){.name = run->names[at], .dtype = RLX_DTYPE_I64};
    if (value->kind == RLX_ONNX_KIND_TENSOR || value->kind == RLX_ONNX_KIND_STRINGS) {
        given->dtype = value->dtype;
        given->shape = value->shape;
        given->data = value->bytes == 0 ? (const void *)"" : value->data;
        given->bytes = value->bytes;
    } else if (value->kind == RLX_ONNX_KIND_SEQUENCE) {
        run->lengths[at] = value->count;
        given->data = &run->lengths[at];
        given->bytes = sizeof run->lengths[at];
        for (uint32_t i = 0; i < value->count; i++) {
            char item[200];
            snprintf(item, sizeof item, "%s.%u", name, i);
            if (!give(run, item, &value->items[i])) return false;
        }
    }
    return true;
}

static rlx_status read_inputs(check_run *run, const char *folder) {
    run->given_count = run->odd_count = 0;
    for (uint32_t i = 0; i < rlx_onnx_input_count(run->ports); i++) {
        char path[PATH_BYTES + 32];
        rlx_onnx_data value;
        snprintf(path, sizeof path, "%s/input_%u.pb", folder, i);
        if (access(path, R_OK) != 0) continue;
        rlx_status status = rlx_onnx_read_input(run->ports, i, path, &value);
        if (status != RLX_OK) return note_error(run, status);
        if (value.contradicts && run->odd_count < MOST_VALUES) {
            run->odd[run->odd_count++] =
                (rlx_given_value){.name = rlx_onnx_input_name(run->ports, i),
                                  .dtype = value.dtype,
                                  .shape = value.shape};
        } else if (!give(run, rlx_onnx_input_name(run->ports, i), &value))
            return note(run, CHECK_FAILED, "more values than a test may have");
    }
    return RLX_OK;
}

static const rlx_given_value *find_given(const check_run *run, const char *name) {
    for (uint32_t i = 0; i < run->given_count; i++) {
        if (strcmp(run->given[i].name, name) == 0) return &run->given[i];
    }
    return NULL;
}

static const rlx_given_value *find_odd(const check_run *run, const char *name) {
    for (uint32_t i = 0; i < run->odd_count; i++) {
        if (strcmp(run->odd[i].name, name) == 0) return &run->odd[i];
    }
    return NULL;
}

static bool touches(const rlx_plan *plan, const uint32_t *slots, uint32_t count,
                    const rlx_slot_info *memory) {
    rlx_slot_info slot;
    for (uint32_t i = 0; i < count; i++) {
        if (slots[i] == RLX_NONE || rlx_plan_slot_at(plan, slots[i], &slot) != RLX_OK) continue;
        if (slot.segment == memory->segment && slot.offset < memory->offset + memory->bytes &&
            memory->offset < slot.offset + slot.bytes)
            return true;
    }
    return false;
}

/* Whether any step reads an input: its memory, before something else is there. */
static bool is_read(const rlx_plan *plan, uint32_t input) {
    rlx_slot_info memory;
    rlx_step_info step;
    if (rlx_plan_slot_at(plan, input, &memory) != RLX_OK) return true;
    for (uint32_t i = 0; rlx_plan_step_at(plan, i, &step) == RLX_OK; i++) {
        if (step.entry == RLX_NONE) continue;
        if (touches(plan, step.inputs, step.input_count, &memory)) return true;
        if (touches(plan, step.outputs, step.output_count, &memory)) return false;
    }
    return false;
}

/* An input must be set, whether anything reads it or not. */
static rlx_status set_unread(check_run *run, rlx_exec *exec, uint32_t index, uint64_t bytes) {
    void *zeros = calloc(1, bytes + 1);
    if (zeros == NULL) return note(run, CHECK_FAILED, "no memory");
    rlx_status status = rlx_exec_set_input(exec, 0, index, zeros, bytes);
    free(zeros);
    return status == RLX_OK ? RLX_OK : note_error(run, status);
}

/* A file of the wrong shape is an error, unless nothing reads the input: CastLike looks only at the
 * dtype of its second one, and the suite has such files there. */
static rlx_status set_odd(check_run *run, rlx_exec *exec, uint32_t index, const rlx_port_info *port,
                          const rlx_given_value *odd) {
    char text[600];
    if (!is_read(rlx_program_plan(rlx_exec_program(exec)), port->slot))
        return set_unread(run, exec, index, port->bytes);
    int used = snprintf(text, sizeof text, "input '%s' is %s in the model, ", port->name,
                        tool_type(NULL, port->dtype, &port->shape));
    if (used > 0 && (size_t)used < sizeof text)
        snprintf(text + used, sizeof text - (size_t)used, "its file holds %s",
                 tool_type(NULL, odd->dtype, &odd->shape));
    return note(run, CHECK_FAILED, text);
}

static rlx_status set_inputs(check_run *run, rlx_exec *exec) {
    const rlx_program *program = rlx_exec_program(exec);
    rlx_port_info port;
    for (uint32_t i = 0; rlx_program_input(program, 0, i, &port) == RLX_OK; i++) {
        const rlx_given_value *given = find_given(run, port.name);
        rlx_status status = RLX_OK;
        if (given != NULL) {
            status = rlx_exec_set_input(exec, 0, i, given->data, given->bytes);
            if (status != RLX_OK) return note_error(run, status);
        } else if (find_odd(run, port.name) != NULL) {
            status = set_odd(run, exec, i, &port, find_odd(run, port.name));
        } else {
            char text[300];
            snprintf(text, sizeof text, "input '%s' of the model has no file", port.name);
            status = note(run, CHECK_FAILED, text);
        }
        if (status != RLX_OK) return status;
    }
    return RLX_OK;
}

/* Names of inputs that are no inputs of the program: they became constants. */
static void list_bound(check_run *run, const rlx_program *program) {
    size_t used = 0;
    run->result->bound[0] = 0;
    for (uint32_t i = 0; i < run->given_count; i++) {
        uint32_t index;
        const char *name = run->given[i].name;
        if (rlx_program_find_input(program, 0, name, &index) == RLX_OK) continue;
        int more = snprintf(run->result->bound + used, sizeof run->result->bound - used, "%s%s",
                            used == 0 ? "" : ", ", name);
        if (more < 0 || (size_t)more >= sizeof run->result->bound - used) break;
        used += (size_t)more;
    }
}

static void count_host_steps(check_run *run, const rlx_plan *plan) {
    check_result *result = run->result;
    result->steps = result->host = 0;
    for (uint32_t i = 0; i < rlx_plan_step_count(plan); i++) {
        rlx_step_info step;
        if (rlx_plan_step_at(plan, i, &step) != RLX_OK || step.entry == RLX_NONE) continue;
        result->steps++;
        if (!step.is_host) continue;
        if (result->host++ == 0)
            snprintf(result->first_host, sizeof result->first_host, "%s", rlx_op_name(step.op));
    }
}

static double load(rlx_dtype dtype, const void *data, uint64_t index) {
    const char *at = (const char *)data + index * rlx_dtype_block_bytes(dtype);
    float narrow = 0;
    double wide = 0;
    if (dtype == RLX_DTYPE_F64) {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (rlx_convert_to_f32(dtype, &narrow, at, 1) != RLX_OK) return NAN;
    return (double)narrow;
}

static bool is_close(double got, double expected, const check_options *options) {
    if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got);
    if (isinf(expected) || isinf(got)) return expected == got;
    return fabs(got - expected) <= options->absolute + options->relative * fabs(expected);
}

static rlx_status compare_data(check_run *run, const char *name, rlx_dtype dtype, const void *got,
                               const rlx_onnx_data *expected, uint64_t elements) {
    char text[300];
    bool is_float = dtype <= RLX_DTYPE_F8E5M2FNUZ;
    uint32_t bytes = rlx_dtype_block_bytes(dtype);
    for (uint64_t i = 0; i < elements; i++) {
        const char *a = (const char *)got + i * bytes,
                   *b = (const char *)expected->data + i * bytes;
        if (is_float ? is_close(load(dtype, got, i), load(dtype, expected->data, i), run->options)
                     : memcmp(a, b, bytes) == 0)
            continue;
        snprintf(text, sizeof text, "output '%s'[%" PRIu64 "] is %.9g instead of %.9g", name, i,
                 load(dtype, got, i), load(dtype, expected->data, i));
        return note(run, CHECK_DIFFERS, text);
    }
    return RLX_OK;
}

/* Rows of bytes that may be filled up to different widths. */
static rlx_status compare_strings(check_run *run, const char *name, const char *got,
                                  const rlx_shape *shape, const rlx_onnx_data *expected) {
    size_t width = (size_t)shape->dims[shape->rank - 1];
    size_t wanted = (size_t)expected->shape.dims[shape->rank - 1];
    const char *data = expected->data;
    char text[300];
    for (uint64_t i = 0; i < expected->bytes / wanted; i++) {
        size_t a = strnlen(got + i * width, width), b = strnlen(data + i * wanted, wanted);
        if (a == b && memcmp(got + i * width, data + i * wanted, a) == 0) continue;
        snprintf(text, sizeof text, "output '%s'[%" PRIu64 "] is '%.*s' instead of '%.*s'", name, i,
                 (int)(a < 80 ? a : 80), got + i * width, (int)(b < 80 ? b : 80),
                 data + i * wanted);
        return note(run, CHECK_DIFFERS, text);
    }
    return RLX_OK;
}

static rlx_status compare_tensor(check_run *run, rlx_exec *exec, const char *name,
                                 const rlx_onnx_data *expected) {
    uint32_t index;
    rlx_output_info info;
    char text[300];
    rlx_status status = rlx_program_find_output(rlx_exec_program(exec), 0, name, &index);
    if (status == RLX_OK) status = rlx_exec_output(exec, 0, index, &info);
    if (status != RLX_OK) return note_error(run, status);
    bool is_same = info.shape.rank == expected->shape.rank;
    bool is_text = expected->kind == RLX_ONNX_KIND_STRINGS;
    for (uint32_t i = 0; is_same && i + is_text < info.shape.rank; i++)
        is_same = info.shape.dims[i] == expected->shape.dims[i];
    /* Test files of bf16 may call their bits u16. */
    bool is_raw = info.dtype == RLX_DTYPE_BF16 && expected->dtype == RLX_DTYPE_U16;
    if (!is_same || (info.dtype != expected->dtype && !is_raw)) {
        snprintf(text, sizeof text, "output '%s' is %s instead of %s", name,
                 tool_type(NULL, info.dtype, &info.shape),
                 tool_type(NULL, expected->dtype, &expected->shape));
        return note(run, CHECK_DIFFERS, text);
    }
    void *got = malloc(info.bytes + 1);
    if (got == NULL) return note(run, CHECK_FAILED, "no memory");
    status = rlx_exec_read_output(exec, 0, index, got, info.bytes, NULL);
    if (status != RLX_OK) {
        status = note_error(run, status);
    } else if (is_text) {
        status = compare_strings(run, name, got, &info.shape, expected);
    } else {
        status = compare_data(run, name, info.dtype, got, expected, info.elements);
    }
    free(got);
    return status;
}

static rlx_status compare_value(check_run *run, rlx_exec *exec, const char *name,
                                const rlx_onnx_data *expected) {
    char item[200];
    uint32_t index;
    if (expected->kind == RLX_ONNX_KIND_TENSOR || expected->kind == RLX_ONNX_KIND_STRINGS)
        return compare_tensor(run, exec, name, expected);
    for (uint32_t i = 0; expected->kind == RLX_ONNX_KIND_SEQUENCE && i < expected->count; i++) {
        snprintf(item, sizeof item, "%s.%u", name, i);
        rlx_status status = compare_value(run, exec, item, &expected->items[i]);
        if (status != RLX_OK) return status;
    }
    snprintf(item, sizeof item, "%s.%u", name, expected->count);
    bool is_longer = rlx_program_find_output(rlx_exec_program(exec), 0, item, &index) == RLX_OK;
    return is_longer ? note(run, CHECK_DIFFERS, "a sequence is too long") : RLX_OK;
}

static rlx_status compare_outputs(check_run *run, rlx_exec *exec, const char *folder) {
    for (uint32_t i = 0; i < rlx_onnx_output_count(run->ports); i++) {
        char path[PATH_BYTES + 32];
        rlx_onnx_data expected;
        snprintf(path, sizeof path, "%s/output_%u.pb", folder, i);
        if (access(path, R_OK) != 0) return note(run, CHECK_FAILED, "an output has no file");
        rlx_status status = rlx_onnx_read_output(run->ports, i, path, &expected);
        if (status != RLX_OK) return note_error(run, status);
        status = compare_value(run, exec, rlx_onnx_output_name(run->ports, i), &expected);
        if (status != RLX_OK) return status;
    }
    return RLX_OK;
}

static rlx_status run_program(check_run *run, rlx_program *program, const char *folder) {
    rlx_exec *exec = NULL;
    rlx_status status = rlx_exec_create(program, NULL, &exec);
    if (status != RLX_OK) return note_error(run, status);
    status = set_inputs(run, exec);
    if (status == RLX_OK) {
        status = rlx_exec_run(exec, 0);
        if (status != RLX_OK) note_error(run, status);
    }
    if (status == RLX_OK) status = compare_outputs(run, exec, folder);
    rlx_exec_destroy(exec);
    return status;
}

static rlx_status run_set(check_run *run, rlx_session *session, rlx_device *device,
                          const char *folder) {
    rlx_program *program = NULL;
    rlx_status status = read_inputs(run, folder);
    if (status != RLX_OK) return status;
    rlx_entry_spec entry = {.given = run->given, .given_count = run->given_count};
    rlx_compile_options options = {.size = sizeof options, .entries = &entry, .entry_count = 1};
    status = rlx_session_compile(session, device, &options, NULL, &program);
    if (status != RLX_OK) return note_error(run, status);
    list_bound(run, program);
    count_host_steps(run, rlx_program_plan(program));
    status = run_program(run, program, folder);
    rlx_program_release(program);
    return status;
}

static rlx_status run_sets(check_run *run, rlx_session *session, rlx_device *device,
                           const char *folder) {
    char path[PATH_BYTES];
    uint32_t sets = 0;
    for (;; sets++) {
        snprintf(path, sizeof path, "%s/test_data_set_%u", folder, sets);
        if (access(path, R_OK | X_OK) != 0) break;
        rlx_status status = run_set(run, session, device, path);
        if (status != RLX_OK) return status;
    }
    return sets == 0 ? note(run, CHECK_FAILED, "no test_data_set_0") : RLX_OK;
}

void check_case_run(const char *folder, const check_options *options, check_result *out_result) {
    char path[PATH_BYTES];
    check_run *run = calloc(1, sizeof *run);
    rlx_session *session = NULL;
    rlx_device *device = NULL;
    rlx_device_options device_options = {.size = sizeof device_options, .threads = 1};
    if (run == NULL) {
        out_result->outcome = CHECK_FAILED;
        return;
    }
    run->options = options;
    run->result = out_result;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    rlx_status status = rlx_onnx_ports_open(NULL, path, &run->ports);
    if (status == RLX_OK) status = rlx_session_open(NULL, path, &session);
    if (status == RLX_OK) status = rlx_device_open(options->device, &device_options, &device);
    if (status != RLX_OK) {
        note_error(run, status);
    } else if (run_sets(run, session, device, folder) == RLX_OK) {
        out_result->outcome = CHECK_PASSED;
    }
    rlx_session_destroy(session);
    rlx_device_release(device);
    rlx_onnx_ports_destroy(run->ports);
    free(run);
}
