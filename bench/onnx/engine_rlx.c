/* SPDX-License-Identifier: Apache-2.0 */
/* rlx as an engine of the ONNX benchmark, through the public API. */
#include "engine.h"

#include <rlx/rlx.h>
#include <stdlib.h>

static rlx_session *session;
static rlx_device *device;
static rlx_program *program;
static rlx_exec *exec;
static float *out_data[ENGINE_MOST_PORTS];

static rlx_dtype dtype_of(const engine_input *input) {
    if (input->is_f32) return RLX_DTYPE_F32;
    if (input->item_bytes == 1) return RLX_DTYPE_BOOL;
    return input->item_bytes == 8 ? RLX_DTYPE_I64 : RLX_DTYPE_I32;
}

static rlx_status compile(const engine_case *c) {
    rlx_given_value given[ENGINE_MOST_PORTS];
    for (uint32_t i = 0; i < c->input_count; i++) {
        const engine_input *input = &c->inputs[i];
        given[i] = (rlx_given_value){.name = input->name,
                                     .dtype = dtype_of(input),
                                     .data = input->data,
                                     .bytes = input->bytes};
        given[i].shape.rank = input->rank;
        for (uint32_t d = 0; d < input->rank; d++)
            given[i].shape.dims[d] = input->dims[d];
    }
    rlx_entry_spec entry = {.given = given, .given_count = c->input_count};
    rlx_compile_options options = {
        .size = sizeof options, .entries = &entry, .entry_count = 1, .keep_inputs = c->sets_once};
    rlx_status status = rlx_session_open(NULL, c->model, &session);
    if (status != RLX_OK) return status;
    return rlx_session_compile(session, device, &options, NULL, &program);
}

static const char *open_rlx(const engine_case *c) {
    rlx_device_options options = {.size = sizeof options, .threads = c->threads};
    rlx_status status = rlx_device_open("cpu", &options, &device);
    if (status == RLX_OK) {
        status = rlx_program_probe(c->model) ? rlx_program_load(device, c->model, NULL, &program)
                                             : compile(c);
    }
    if (status == RLX_OK) status = rlx_exec_create(program, NULL, &exec);
    /* A program keeps what it needs. */
    rlx_session_destroy(session);
    session = NULL;
    return status == RLX_OK ? NULL : rlx_last_error();
}

/* An input that decided shapes is a constant of the program and no input of it. */
static const char *run_rlx(const engine_case *c) {
    static bool is_set;
    for (uint32_t i = 0; !(c->sets_once && is_set) && i < c->input_count; i++) {
        const engine_input *input = &c->inputs[i];
        uint32_t index = 0;
        if (rlx_program_find_input(program, 0, input->name, &index) != RLX_OK) continue;
        if (rlx_exec_set_input(exec, 0, index, input->data, input->bytes) != RLX_OK)
            return rlx_last_error();
    }
    is_set = true;
    return rlx_exec_run(exec, 0) == RLX_OK ? NULL : rlx_last_error();
}

static const char *read_rlx(const engine_case *c, uint32_t index, const float **out,
                            size_t *out_count) {
    uint32_t port = 0;
    rlx_output_info info;
    uint64_t count = 0;
    if (rlx_program_find_output(program, 0, c->outputs[index], &port) != RLX_OK ||
        rlx_exec_output(exec, 0, port, &info) != RLX_OK)
        return rlx_last_error();
    free(out_data[index]);
    out_data[index] = malloc(info.elements * sizeof(float) + 1);
    if (out_data[index] == NULL) return "out of memory";
    if (rlx_exec_read_output_f32(exec, 0, port, out_data[index], info.elements, &count) != RLX_OK)
        return rlx_last_error();
    *out = out_data[index];
    *out_count = (size_t)count;
    return NULL;
}

static const char *save_rlx(const char *path) {
    return rlx_program_save(program, path) == RLX_OK ? NULL : rlx_last_error();
}

const engine engine_rlx = {"rlx", open_rlx, run_rlx, read_rlx, save_rlx};
