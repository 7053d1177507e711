/* SPDX-License-Identifier: Apache-2.0 */
/* `rlx diff`: runs a model on two devices step by step, compares what every step computes before it
 * is overwritten, then the outputs, and names the first that differs. With --each what differed is
 * replaced by the reference's values, so that every step is judged on the same inputs: differences
 * do not add up, and a rounding step cannot tip over because of what came before it. */
#include "inputs.h"
#include "outputs.h"
#include "signals.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What one execution of a step wrote into one output, or what an output of the model is: elements
 * [batch][channels][inner], or with channels in blocks [batch][channels / block][inner][block],
 * where the last block may have some that are none. */
typedef struct record {
    char *name;
    uint64_t name_bytes; /* without the suffix of a value in blocks */
    rlx_op op;           /* RLX_OP_NONE: an output of the model */
    float *values;
    uint64_t count, batch, channels, inner, block; /* block 0: no blocks */
    bool is_taken;                                 /* compared with one of the other run */
} record;

typedef struct recorder {
    record *records;
    uint64_t count, capacity;
    /* comparing */
    uint64_t next;
    double relative, absolute;
    bool is_each; /* later steps get the reference's values */
    bool differs;
    char first[512];
    uint64_t compared, alone; /* elements; outputs of steps that the reference does not have */
    double worst;
    rlx_status status;
} recorder;

static bool read_slot(rlx_exec *exec, uint32_t slot, record *out) {
    rlx_arena *arena = rlx_exec_arena(exec);
    out->count = rlx_arena_slot_elements(arena, slot);
    out->values = malloc(out->count == 0 ? 4 : out->count * sizeof *out->values);
    if (out->values == NULL) return false;
    return rlx_arena_read_f32(arena, slot, 0, out->values, out->count, 0, NULL) == RLX_OK;
}

static bool keep(recorder *self, record *made) {
    if (self->count == self->capacity) {
        uint64_t capacity = self->capacity == 0 ? 64 : 2 * self->capacity;
        record *grown = realloc(self->records, capacity * sizeof *grown);
        if (grown == NULL) return false;
        self->records = grown;
        self->capacity = capacity;
    }
    self->records[self->count++] = *made;
    return true;
}

/* The compiler calls a value whose channels it has put into blocks like the value, with ".b". */
static void set_order(const rlx_shape *shape, record *out) {
    static const char suffix[] = ".b";
    const uint64_t length = strlen(out->name), end = sizeof suffix - 1;
    const bool is_blocked =
        shape->rank > 3 && length > end && strcmp(out->name + length - end, suffix) == 0;
    const uint32_t last = shape->rank - is_blocked;
    out->name_bytes = length - (is_blocked ? end : 0);
    out->block = is_blocked ? (uint64_t)shape->dims[last] : 0;
    out->batch = shape->rank > 1 ? (uint64_t)shape->dims[0] : 1;
    out->channels = shape->rank > 1 ? (uint64_t)shape->dims[1] : 1;
    if (is_blocked) out->channels *= out->block;
    out->inner = shape->rank == 1 ? (uint64_t)shape->dims[0] : 1;
    for (uint32_t i = 2; i < last; i++)
        out->inner *= (uint64_t)shape->dims[i];
}

/* Where an element is among the values. */
static uint64_t place_of(const record *of, uint64_t n, uint64_t channel, uint64_t i) {
    if (of->block == 0) return (n * of->channels + channel) * of->inner + i;
    return ((n * of->channels / of->block + channel / of->block) * of->inner + i) * of->block +
           channel % of->block;
}

/* What has other elements than its dims say (packed, or smaller than planned) is one row. */
static void settle_order(record *of) {
    if (of->batch * of->channels * of->inner == of->count) return;
    of->batch = of->channels = 1;
    of->inner = of->count;
    of->block = 0;
}

static bool name_record(const char *name, const rlx_shape *shape, record *out) {
    out->name = malloc(strlen(name) + 1);
    if (out->name == NULL) return false;
    strcpy(out->name, name);
    set_order(shape, out);
    return true;
}

static bool fill_record(rlx_exec *exec, const rlx_step_info *step, uint32_t output, record *out) {
    rlx_slot_info slot;
    const rlx_plan *plan = rlx_program_plan(rlx_exec_program(exec));
    *out = (record){.op = step->op};
    if (rlx_plan_slot_at(plan, step->outputs[output], &slot) != RLX_OK ||
        !name_record(slot.name, &slot.shape, out) || !read_slot(exec, step->outputs[output], out)) {
        return false;
    }
    settle_order(out);
    return true;
}

static void free_record(record *of) {
    free(of->name);
    free(of->values);
}

static bool record_step(void *user, rlx_exec *exec, const rlx_step_info *step) {
    recorder *self = user;
    for (uint32_t i = 0; i < step->output_count; i++) {
        record made;
        if (step->outputs[i] == RLX_NONE) continue;
        if (!fill_record(exec, step, i, &made) || !keep(self, &made)) {
            self->status = RLX_OUT_OF_MEMORY;
            return false;
        }
    }
    return true;
}

/* True: every value is the same, bit by bit. */
static bool compare(recorder *self, const record *expected, const record *got) {
    bool is_same = true;
    const bool is_moved = expected->block != got->block;
    const uint64_t channels =
        expected->channels < got->channels ? expected->channels : got->channels;
    const uint64_t all = is_moved ? got->batch * channels * got->inner : got->count;
    for (uint64_t at = 0; at < all; at++) {
        uint64_t here = at, there = at;
        if (is_moved) {
            const uint64_t i = at % got->inner, channel = at / got->inner % channels;
            const uint64_t n = at / got->inner / channels;
            here = place_of(got, n, channel, i), there = place_of(expected, n, channel, i);
        }
        double a = expected->values[there], b = got->values[here];
        double difference = (isnan(a) && isnan(b)) || a == b ? 0 : fabs(a - b);
        if (isnan(difference)) difference = INFINITY; /* one of them is NaN */
        self->compared++;
        is_same = is_same && difference == 0;
        if (difference > self->worst) self->worst = difference;
        double allowed = self->absolute + (isfinite(a) ? self->relative * fabs(a) : 0);
        if (difference <= allowed) continue;
        if (self->differs) continue;
        self->differs = true;
        snprintf(self->first, sizeof self->first,
                 "'%s' (%s): element %" PRIu64 " is %.9g, expected %.9g, difference %.3g",
                 got->name, got->op == RLX_OP_NONE ? "an output" : rlx_op_name(got->op), at, b, a,
                 difference);
    }
    return is_same;
}

/* Whether two records are of the same value. Blocks may have channels past the last. */
static bool is_same_value(const record *a, const record *b) {
    const uint64_t apart =
        a->channels < b->channels ? b->channels - a->channels : a->channels - b->channels;
    const uint64_t block = a->channels < b->channels ? b->block : a->block;
    if ((a->op == RLX_OP_NONE) != (b->op == RLX_OP_NONE)) return false;
    if (strcmp(a->name, b->name) == 0 && a->count == b->count && a->block == b->block) return true;
    return (a->block != 0 || b->block != 0) && a->name_bytes == b->name_bytes &&
           memcmp(a->name, b->name, a->name_bytes) == 0 && a->batch == b->batch &&
           a->inner == b->inner && (apart == 0 || apart < block);
}

/* The reference's record of the same value: usually the next one, but the other device may take its
 * steps in another order or fuse a value away. In a loop the first that is left is of the same
 * round. */
static const record *find(recorder *self, const record *got) {
    for (uint64_t tried = 0; tried < self->count; tried++) {
        uint64_t i = (self->next + tried) % self->count;
        record *one = &self->records[i];
        if (one->is_taken || !is_same_value(one, got)) continue;
        one->is_taken = true;
        self->next = i + 1;
        return one;
    }
    self->alone++;
    return NULL;
}

/* What the reference has in the place of what was got; channels past its last stay. */
static rlx_status replace(rlx_exec *exec, uint32_t slot, const record *expected, record *got) {
    const bool is_moved = expected->block != got->block;
    if (!is_moved) memcpy(got->values, expected->values, got->count * sizeof *got->values);
    for (uint64_t n = 0; is_moved && n < got->batch; n++) {
        for (uint64_t c = 0; c < got->channels && c < expected->channels; c++) {
            for (uint64_t i = 0; i < got->inner; i++)
                got->values[place_of(got, n, c, i)] = expected->values[place_of(expected, n, c, i)];
        }
    }
    return rlx_arena_write_f32(rlx_exec_arena(exec), slot, 0, got->values, got->count, 0, NULL);
}

static bool compare_step(void *user, rlx_exec *exec, const rlx_step_info *step) {
    recorder *self = user;
    for (uint32_t i = 0; i < step->output_count; i++) {
        record got;
        if (step->outputs[i] == RLX_NONE) continue;
        if (!fill_record(exec, step, i, &got)) {
            self->status = RLX_OUT_OF_MEMORY;
            return false;
        }
        const record *expected = find(self, &got);
        if (expected != NULL && !compare(self, expected, &got) && self->is_each) {
            self->status = replace(exec, step->outputs[i], expected, &got);
        }
        free_record(&got);
    }
    return self->status == RLX_OK;
}

static bool fill_output(rlx_exec *exec, uint32_t index, const rlx_port_info *port, record *out) {
    out->values = malloc(port->elements == 0 ? 4 : port->elements * sizeof *out->values);
    return out->values != NULL && name_record(port->name, &port->shape, out) &&
           rlx_exec_read_output_f32(exec, 0, index, out->values, port->elements, &out->count) ==
               RLX_OK;
}

/* Whether a step that wrote this value has been compared. */
static bool is_compared(const recorder *self, const rlx_plan *plan, uint32_t index) {
    rlx_slot_info slot;
    if (rlx_plan_slot_at(plan, index, &slot) != RLX_OK) return false;
    for (uint64_t i = 0; i < self->count; i++) {
        const record *one = &self->records[i];
        if (one->is_taken && one->op != RLX_OP_NONE && strcmp(one->name, slot.name) == 0)
            return true;
    }
    return false;
}

/* An output of which the reference has more or fewer elements, as only a run knows. */
static void note_size(recorder *self, const record *got) {
    for (uint64_t i = 0; i < self->count && !self->differs; i++) {
        const record *one = &self->records[i];
        if (one->op != RLX_OP_NONE || strcmp(one->name, got->name) != 0) continue;
        self->differs = true;
        snprintf(self->first, sizeof self->first,
                 "'%s' (an output): %" PRIu64 " elements, expected %" PRIu64, got->name, got->count,
                 one->count);
    }
}

/* The outputs of the model, which may be views that no step wrote: those of the reference are kept,
 * the others are compared with them. */
static rlx_status visit_outputs(rlx_exec *exec, recorder *self, bool is_reference) {
    const rlx_program *program = rlx_exec_program(exec);
    rlx_port_info port;
    for (uint32_t i = 0; rlx_program_output(program, 0, i, &port) == RLX_OK; i++) {
        record made = {.op = RLX_OP_NONE};
        if (!is_reference && is_compared(self, rlx_program_plan(program), port.slot)) continue;
        bool is_kept = false, is_filled = fill_output(exec, i, &port, &made);
        if (is_filled) {
            settle_order(&made);
            is_kept = is_reference && keep(self, &made);
            const record *expected = is_reference ? NULL : find(self, &made);
            if (expected != NULL) (void)compare(self, expected, &made);
            if (!is_reference && expected == NULL) note_size(self, &made);
        }
        if (!is_kept) free_record(&made);
        if (!is_filled || (is_reference && !is_kept)) return RLX_OUT_OF_MEMORY;
    }
    return RLX_OK;
}

static rlx_status run_on(tool_model *model, const char *device_name, tool_inputs *inputs,
                         bool is_reference, recorder *user) {
    rlx_device *device = NULL;
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    rlx_exec_options options = {.size = sizeof options, .single_step = true};
    model->device = device_name;
    rlx_status status = tool_open_device(model, &device);
    if (status == RLX_OK) status = tool_open_program(model, device, &program);
    if (status == RLX_OK) status = rlx_exec_create(program, &options, &exec);
    if (status == RLX_OK) status = tool_set_inputs(exec, 0, inputs);
    if (status == RLX_OK) {
        tool_hold_interrupts(exec);
        status = rlx_exec_run_steps(exec, 0, is_reference ? record_step : compare_step, user);
        tool_release_interrupts();
    }
    if (status == RLX_OK) status = user->status = visit_outputs(exec, user, is_reference);
    if (user->status == RLX_OUT_OF_MEMORY) {
        status = tool_error(user->status, "no memory to keep a step");
    } else if (user->status != RLX_OK) {
        status = user->status;
    }
    rlx_exec_destroy(exec);
    rlx_program_release(program);
    rlx_device_release(device);
    return status;
}

static bool read_tolerance(const char *text, double *out_value) {
    char *end = NULL;
    if (text == NULL) return true;
    *out_value = strtod(text, &end);
    if (end != text && *end == 0 && *out_value >= 0) return true;
    fprintf(stderr, "rlx diff: '%s' is no tolerance\n", text);
    return false;
}

static void free_records(recorder *self) {
    for (uint64_t i = 0; i < self->count; i++)
        free_record(&self->records[i]);
    free(self->records);
}

static int report(const recorder *self, const tool_common *common) {
    if (common->json) {
        printf("{\"differs\":%s,\"compared\":%" PRIu64 ",\"alone\":%" PRIu64,
               self->differs ? "true" : "false", self->compared, self->alone);
        tool_json_number(stdout, "largest", self->worst);
        printf(",\"first\":");
        tool_json_text(stdout, self->first);
        puts("}");
    } else {
        if (self->differs) printf("first difference: %s\n", self->first);
        printf("%" PRIu64 " elements of every step compared, largest difference %.3g: %s\n",
               self->compared, self->worst, self->differs ? "they differ" : "equal");
        if (self->alone != 0) {
            printf("%" PRIu64 " results of steps have no counterpart in the reference\n",
                   self->alone);
        }
    }
    return self->differs ? TOOL_DIFFERS : TOOL_OK;
}

/* First the reference, whose results are kept, then the device, compared step by step. */
static rlx_status run_both(tool_model *model, const char *reference, tool_inputs *inputs,
                           const rlx_compile_options *reference_options, recorder *self) {
    const char *device = model->device;
    rlx_compile_options device_options = model->options;
    rlx_status status = tool_bind_from_files(model, inputs);
    model->options = *reference_options;
    if (status == RLX_OK) status = run_on(model, reference, inputs, true, self);
    model->options = device_options;
    if (status == RLX_OK) status = run_on(model, device, inputs, false, self);
    return status;
}

int rlx_cmd_diff(int argc, char **argv) {
    tool_common common = {0};
    tool_model model = {0};
    tool_inputs inputs = {0};
    tool_list without = {0};
    const char *reference = "cpu:scalar", *relative = NULL, *absolute = NULL;
    recorder self = {.relative = 1e-4, .absolute = 1e-5};
    const tool_option options[] = {
        {"--ref", TOOL_TEXT, &reference, "NAME", "the device that is right; cpu:scalar"},
        TOOL_MODEL_OPTIONS(model),
        TOOL_INPUT_OPTIONS(inputs),
        {"--rtol", TOOL_TEXT, &relative, "X", "relative tolerance; 1e-4"},
        {"--atol", TOOL_TEXT, &absolute, "X", "absolute tolerance; 1e-5"},
        {"--ref-disable", TOOL_MANY, &without, "PASS", "compile the reference without it; all"},
        {"--each", TOOL_FLAG, &self.is_each, NULL, "judge each step on the reference's inputs"},
        TOOL_COMMON_OPTIONS(common)};
    const tool_usage usage = {"diff",
                              "FILE --ref NAME --device NAME [OPTIONS]",
                              "Runs a model on two devices step by step and compares every step's "
                              "outputs.\nExit 5 when they differ; the first step that does is "
                              "named.",
                              options,
                              sizeof options / sizeof *options,
                              1,
                              1};
    int code;
    if (!tool_parse(&usage, argc, argv, &model.path, &code)) return code;
    tool_log(&common);
    if (!read_tolerance(relative, &self.relative) || !read_tolerance(absolute, &self.absolute)) {
        return TOOL_USAGE;
    }
    if (!tool_inputs_check("diff", &inputs)) return TOOL_USAGE;
    if (!tool_model_begin("diff", &model, &code)) return code;
    rlx_compile_options reference_options = model.options;
    if (!tool_disable("diff", &without, &reference_options)) return TOOL_USAGE;
    if (without.count != 0 && tool_is_program(model.path)) {
        fputs("rlx diff: --ref-disable comes too late for a compiled program\n", stderr);
        return TOOL_USAGE;
    }
    rlx_status status = run_both(&model, reference, &inputs, &reference_options, &self);
    code = status == RLX_OK ? report(&self, &common) : tool_fail("diff", status);
    free_records(&self);
    return code;
}
