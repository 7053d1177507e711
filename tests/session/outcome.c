/* SPDX-License-Identifier: Apache-2.0 */
/* Running subjects and comparing what comes out. */
#include "session/subject.h"

#include "ops/case.h"

#include <stdio.h>
#include <stdlib.h>

rlx_device *subject_device(const char *name, uint32_t threads) {
    rlx_device_options options = {.size = sizeof options, .threads = threads};
    rlx_device *device = NULL;
    assert_ok(rlx_device_open(name, &options, &device));
    return device;
}

uint64_t subject_all_passes(void) {
    return (UINT64_C(1) << rlx_pass_count()) - 1;
}

static void note_end(outcome *out, rlx_status status) {
    out->status = status;
    if (status != RLX_OK) snprintf(out->text, sizeof out->text, "%s", rlx_last_error());
}

static rlx_status read_outputs(rlx_exec *exec, outcome *out) {
    for (uint32_t i = 0; i < out->output_count; i++) {
        rlx_output_info info;
        RLX_TRY(rlx_exec_output(exec, 0, i, &info));
        rlx_test_array *array = &out->outputs[out->run_count][i];
        *array = (rlx_test_array){info.dtype, info.shape, info.bytes, NULL};
        array->data = calloc(1, (size_t)info.bytes + 1);
        assert_non_null(array->data);
        RLX_TRY(rlx_exec_read_output(exec, 0, i, array->data, info.bytes, NULL));
    }
    return RLX_OK;
}

static rlx_status run_once(const subject *self, const manner *how, rlx_exec *exec, uint32_t run) {
    for (uint32_t i = 0; i < self->input_count; i++) {
        const rlx_test_array *input = &self->inputs[run][i];
        RLX_TRY(rlx_exec_set_input(exec, 0, i, input->data, input->bytes));
    }
    if (how->before_run != NULL) how->before_run();
    rlx_status status = rlx_exec_run(exec, 0);
    if (how->after_run != NULL) how->after_run();
    return status;
}

/* States that no node touches have no slot; they count as absent on both sides. */
static void read_states(const subject *self, rlx_exec *exec, outcome *out) {
    for (uint32_t v = 0; v < self->graph->values.count; v++) {
        const rlx_value *value = &self->graph->values.items[v];
        uint32_t slot;
        if (value->kind != RLX_VALUE_STATE) continue;
        assert_true(out->state_count < SUBJECT_ARRAYS);
        rlx_test_array *array = &out->states[out->state_count++];
        *array = (rlx_test_array){.dtype = value->type.dtype, .shape = value->type.shape};
        if (rlx_plan_find_slot(rlx_arena_plan(rlx_exec_arena(exec)), value->name, &slot) != RLX_OK)
            continue;
        array->bytes = rlx_arena_slot_bytes(rlx_exec_arena(exec), slot);
        array->data = calloc(1, (size_t)array->bytes + 1);
        assert_non_null(array->data);
        assert_ok(rlx_arena_read_bytes(rlx_exec_arena(exec), slot, 0, array->data, array->bytes, 0,
                                       NULL));
    }
}

static rlx_status run_all(const subject *self, const manner *how, rlx_exec *exec, outcome *out) {
    for (uint32_t run = 0; run < self->run_count; run++) {
        RLX_TRY(run_once(self, how, exec, run));
        RLX_TRY(read_outputs(exec, out));
        out->run_count++;
    }
    return RLX_OK;
}

static rlx_status pass_through_file(const manner *how, rlx_program **program) {
    RLX_TRY(rlx_program_save(*program, how->through_file));
    rlx_program_release(*program);
    *program = NULL;
    rlx_program_options options = {.size = sizeof options, .weights_budget = how->weights_budget};
    return rlx_program_load(how->device, how->through_file, &options, program);
}

void subject_run(subject *self, const manner *how, outcome *out) {
    rlx_entry_spec entry = {.bindings = self->bindings, .binding_count = self->binding_count};
    rlx_compile_options compile = {.size = sizeof compile,
                                   .entries = &entry,
                                   .entry_count = 1,
                                   .disabled_passes = how->disabled_passes,
                                   .without_reuse = how->without_reuse,
                                   .keep_inputs = how->keep_inputs};
    rlx_exec_options run = {.size = sizeof run, .poison = how->poison};
    rlx_program *program = NULL;
    rlx_exec *exec = NULL;
    *out = (outcome){.output_count = self->graph->outputs.count};
    assert_true(out->output_count <= SUBJECT_ARRAYS);
    rlx_status status = rlx_session_compile(self->session, how->device, &compile, NULL, &program);
    if (status == RLX_OK && how->through_file != NULL) {
        status = pass_through_file(how, &program);
    }
    if (status == RLX_OK && how->prepare != NULL) how->prepare(how->user, program, &run);
    if (status == RLX_OK) status = rlx_exec_create(program, &run, &exec);
    if (status == RLX_OK) status = run_all(self, how, exec, out);
    note_end(out, status);
    if (status == RLX_OK) read_states(self, exec, out);
    rlx_exec_destroy(exec);
    rlx_program_release(program);
}

static void read_oracle_states(const subject *self, const rlx_test_oracle *oracle, outcome *out) {
    for (uint32_t v = 0; v < self->graph->values.count; v++) {
        const rlx_value *value = &self->graph->values.items[v];
        if (value->kind != RLX_VALUE_STATE) continue;
        assert_true(out->state_count < SUBJECT_ARRAYS);
        assert_ok(rlx_test_oracle_read(oracle, value->name, &out->states[out->state_count++]));
    }
}

void subject_run_oracle(const subject *self, outcome *out) {
    rlx_test_oracle *oracle = NULL;
    *out = (outcome){.output_count = self->graph->outputs.count};
    rlx_status status =
        rlx_test_oracle_create(self->graph, self->inputs[0], self->input_count, &oracle);
    for (uint32_t run = 0; status == RLX_OK && run < self->run_count; run++) {
        status =
            rlx_test_oracle_run(oracle, self->inputs[run], self->input_count, out->outputs[run]);
        out->run_count += status == RLX_OK;
    }
    note_end(out, status);
    if (status == RLX_OK) read_oracle_states(self, oracle, out);
    rlx_test_oracle_destroy(oracle);
}

void outcome_free(outcome *self) {
    for (uint32_t run = 0; run < SUBJECT_RUNS; run++) {
        for (uint32_t i = 0; i < SUBJECT_ARRAYS; i++)
            rlx_test_array_free(&self->outputs[run][i]);
    }
    for (uint32_t i = 0; i < SUBJECT_ARRAYS; i++)
        rlx_test_array_free(&self->states[i]);
    *self = (outcome){0};
}

static rlx_status compare_bits(const subject *self, const rlx_test_array *a,
                               const rlx_test_array *b) {
    (void)self;
    bool is_alike = a->dtype == b->dtype && rlx_shape_equal(&a->shape, &b->shape);
    if (!is_alike || a->bytes != b->bytes)
        return RLX_FAIL(RLX_DIFFERS, "shape or dtype differs (%" PRIu64 " and %" PRIu64 " bytes)",
                        a->bytes, b->bytes);
    if (a->bytes == 0 || memcmp(a->data, b->data, (size_t)a->bytes) == 0) return RLX_OK;
    uint64_t at = 0;
    while (((const uint8_t *)a->data)[at] == ((const uint8_t *)b->data)[at])
        at++;
    rlx_case any = {0};
    rlx_status status = rlx_case_compare(&any, a, b);
    return status != RLX_OK
               ? status
               : RLX_FAIL(RLX_DIFFERS, "byte %" PRIu64 " of %" PRIu64 " differs", at, a->bytes);
}

static rlx_status compare_near(const subject *self, const rlx_test_array *a,
                               const rlx_test_array *b) {
    rlx_case like = {.relative = self->relative,
                     .absolute = self->absolute,
                     .has_tolerance = self->has_tolerance};
    return rlx_case_compare(&like, a, b);
}

static bool compare(const subject *self, const outcome *a, const outcome *b, const char *what,
                    rlx_status (*arrays)(const subject *, const rlx_test_array *,
                                         const rlx_test_array *)) {
    if (a->status != b->status || a->run_count != b->run_count) {
        print_error("%s: %s: after %u and %u good runs '%s' and '%s'\n", self->name, what,
                    a->run_count, b->run_count, a->text, b->text);
        return false;
    }
    for (uint32_t run = 0; run < a->run_count; run++) {
        for (uint32_t i = 0; i < a->output_count; i++) {
            if (arrays(self, &a->outputs[run][i], &b->outputs[run][i]) == RLX_OK) continue;
            print_error("%s: %s: run %u, output %u: %s\n", self->name, what, run, i,
                        rlx_last_error());
            return false;
        }
    }
    for (uint32_t i = 0; i < a->state_count && i < b->state_count; i++) {
        bool is_there = a->states[i].data != NULL && b->states[i].data != NULL;
        if (!is_there || arrays(self, &a->states[i], &b->states[i]) == RLX_OK) continue;
        print_error("%s: %s: state %u: %s\n", self->name, what, i, rlx_last_error());
        return false;
    }
    return true;
}

bool outcomes_equal(const subject *self, const outcome *a, const outcome *b, const char *what) {
    return compare(self, a, b, what, compare_bits);
}

bool outcomes_close(const subject *self, const outcome *a, const outcome *b, const char *what) {
    return compare(self, a, b, what, compare_near);
}
