/* SPDX-License-Identifier: Apache-2.0 */
/* Engines of op cases. */
#include "ops/engine.h"

#include <rlx/exec.h>

#include <stdio.h>
#include <stdlib.h>

enum { MAX_SYMBOLS = 16 };

struct rlx_engine {
    rlx_test_oracle *oracle; /* or all of these */
    rlx_device *device;
    rlx_session *session;
    rlx_program *program;
    rlx_exec *exec;
};

/* Each symbol takes the size that an input has in its place. */
static uint32_t bind(const rlx_graph *model, const rlx_test_array *inputs, uint32_t input_count,
                     rlx_binding *out_bindings) {
    uint32_t next = 0, count = 0;
    for (uint32_t i = 0; i < model->values.count; i++) {
        const rlx_value *value = &model->values.items[i];
        if (value->kind != RLX_VALUE_INPUT || next == input_count) continue;
        for (uint32_t d = 0; d < value->type.shape.rank; d++) {
            int64_t dim = value->type.shape.dims[d];
            uint32_t found = 0;
            if (!rlx_dim_is_symbol(dim)) continue;
            const char *symbol = model->symbols.items[rlx_dim_symbol(dim)];
            while (found < count && strcmp(out_bindings[found].symbol, symbol) != 0)
                found++;
            if (found == count && count < MAX_SYMBOLS)
                out_bindings[count++] = (rlx_binding){symbol, inputs[next].shape.dims[d]};
        }
        next++;
    }
    return count;
}

/* Every pass that may be left out; compiling says which may not. */
static uint64_t all_passes(void) {
    uint32_t count = rlx_pass_count();
    return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

static rlx_status compile(rlx_engine *self, const char *options, const rlx_graph *model,
                          const rlx_test_array *inputs, uint32_t input_count) {
    rlx_binding bindings[MAX_SYMBOLS];
    rlx_entry_spec entry = {.bindings = bindings};
    rlx_compile_options how = {.size = sizeof how, .entries = &entry, .entry_count = 1};
    rlx_exec_options run = {.size = sizeof run};
    rlx_graph *copy = NULL;
    entry.binding_count = bind(model, inputs, input_count, bindings);
    if (strstr(options, "+plain") != NULL) {
        how.disabled_passes = all_passes();
        how.without_reuse = true;
    }
    run.poison = strstr(options, "+poison") != NULL;
    RLX_TRY(rlx_graph_clone(model, NULL, &copy));
    rlx_status status = rlx_session_create(NULL, copy, &self->session);
    if (status != RLX_OK) {
        rlx_graph_destroy(copy);
        return status;
    }
    RLX_TRY(rlx_session_compile(self->session, self->device, &how, NULL, &self->program));
    return rlx_exec_create(self->program, &run, &self->exec);
}

/* A GPU is opened once for all cases: drivers take their time. */
static rlx_device *kept_device;

void rlx_engine_release_devices(void) {
    rlx_device_release(kept_device);
    kept_device = NULL;
}

static rlx_status open_by_name(rlx_engine *self, const char *name, const char *options) {
    rlx_device_options how = {.size = sizeof how};
    if (strncmp(name, "vulkan", 6) != 0) return rlx_device_open(name, NULL, &self->device);
    if (strstr(options, "+staged") != NULL) how.memory = RLX_DEVICE_MEMORY_STAGED;
    if (strstr(options, "+gpu") != NULL) how.flags = RLX_DEVICE_GPU_SHADERS;
    if (kept_device == NULL) RLX_TRY(rlx_device_open(name, &how, &kept_device));
    self->device = rlx_device_retain(kept_device);
    return RLX_OK;
}

rlx_status rlx_engine_probe(const char *name) {
    rlx_engine self = {0};
    char device[32];
    size_t length = strcspn(name, "+");
    if (strncmp(name, "vulkan", 6) != 0) return RLX_OK;
    snprintf(device, sizeof device, "%.*s", (int)length, name);
    RLX_TRY(open_by_name(&self, device, name + length));
    rlx_device_release(self.device);
    return RLX_OK;
}

static rlx_status open_device(rlx_engine *self, const char *name, const rlx_graph *model,
                              const rlx_test_array *inputs, uint32_t input_count) {
    char device[32];
    size_t length = strcspn(name, "+");
    snprintf(device, sizeof device, "%.*s", (int)length, name);
    RLX_TRY(open_by_name(self, device, name + length));
    return compile(self, name + length, model, inputs, input_count);
}

rlx_status rlx_engine_create(const char *name, const rlx_graph *model, const rlx_test_array *inputs,
                             uint32_t input_count, rlx_engine **out_engine) {
    rlx_engine *self = calloc(1, sizeof *self);
    if (self == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "engine");
    rlx_status status = strcmp(name, "oracle") == 0
                            ? rlx_test_oracle_create(model, inputs, input_count, &self->oracle)
                            : open_device(self, name, model, inputs, input_count);
    if (status == RLX_OK) {
        *out_engine = self;
    } else {
        rlx_engine_destroy(self);
    }
    return status;
}

void rlx_engine_destroy(rlx_engine *engine) {
    if (engine == NULL) return;
    rlx_test_oracle_destroy(engine->oracle);
    rlx_exec_destroy(engine->exec);
    rlx_program_release(engine->program);
    rlx_session_destroy(engine->session);
    rlx_device_release(engine->device);
    free(engine);
}

rlx_device *rlx_engine_device(const rlx_engine *engine) {
    return engine->device;
}

static rlx_status read_output(rlx_exec *exec, uint32_t index, rlx_test_array *out_array) {
    rlx_output_info info;
    RLX_TRY(rlx_exec_output(exec, 0, index, &info));
    rlx_test_array array = {info.dtype, info.shape, info.bytes, NULL};
    array.data = calloc(1, (size_t)info.bytes + 1);
    if (array.data == NULL) return RLX_FAIL(RLX_OUT_OF_MEMORY, "output");
    rlx_status status = rlx_exec_read_output(exec, 0, index, array.data, info.bytes, NULL);
    if (status == RLX_OK) {
        *out_array = array;
    } else {
        free(array.data);
    }
    return status;
}

rlx_status rlx_engine_run(rlx_engine *engine, const rlx_test_array *inputs, uint32_t input_count,
                          rlx_test_array *outputs, uint32_t output_count) {
    if (engine->oracle != NULL)
        return rlx_test_oracle_run(engine->oracle, inputs, input_count, outputs);
    for (uint32_t i = 0; i < input_count; i++)
        RLX_TRY(rlx_exec_set_input(engine->exec, 0, i, inputs[i].data, inputs[i].bytes));
    RLX_TRY(rlx_exec_run(engine->exec, 0));
    for (uint32_t i = 0; i < output_count; i++) {
        rlx_status status = read_output(engine->exec, i, &outputs[i]);
        if (status == RLX_OK) continue;
        while (i > 0)
            rlx_test_array_free(&outputs[--i]);
        return status;
    }
    return RLX_OK;
}
