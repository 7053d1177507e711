/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs from .npy files or by rule. */
#include "inputs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The .npy file that was given for an input; NULL: none. */
static const char *file_of(const tool_inputs *inputs, const char *name) {
    for (uint32_t i = 0; i < inputs->files.count; i++) {
        size_t length = strlen(name);
        const char *item = inputs->files.items[i];
        if (strncmp(item, name, length) == 0 && item[length] == '=') return item + length + 1;
    }
    return NULL;
}

/* Same shape, and a dtype that is the input's or stands for its raw bits. */
static rlx_status check_file(const char *path, const rlx_port_info *port,
                             const rlx_npy_info *info) {
    bool is_same = info->shape.rank == port->shape.rank && info->bytes == port->bytes;
    for (uint32_t i = 0; i < info->shape.rank && is_same; i++) {
        is_same = info->shape.dims[i] == port->shape.dims[i];
    }
    bool is_raw = rlx_dtype_block_bytes(info->dtype) == rlx_dtype_block_bytes(port->dtype) &&
                  (info->dtype == RLX_DTYPE_U16 || info->dtype == RLX_DTYPE_U8);
    if (is_same && (info->dtype == port->dtype || is_raw)) return RLX_OK;
    return tool_error(RLX_MISMATCH, "input '%s': expected %s, but '%s' holds %s", port->name,
                      tool_type(NULL, port->dtype, &port->shape), path,
                      tool_type(NULL, info->dtype, &info->shape));
}

static rlx_status set_from_file(rlx_exec *exec, uint32_t entry, uint32_t index,
                                const rlx_port_info *port, const char *path) {
    rlx_npy_info info;
    void *data = NULL;
    rlx_status status = rlx_npy_read_header(path, &info);
    if (status != RLX_OK) return tool_error(status, "input '%s': %s", port->name, rlx_last_error());
    status = check_file(path, port, &info);
    if (status == RLX_OK) status = tool_read_npy(path, &info, &data);
    if (status == RLX_OK) status = rlx_exec_set_input(exec, entry, index, data, info.bytes);
    free(data);
    return status;
}

/* A number in [0, 1) from a seed and a counter: the same everywhere. */
static double unit_random(uint64_t seed, uint64_t index) {
    uint64_t z = seed * 0x9E3779B97F4A7C15u + (index + 1) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

typedef enum fill_kind { FILL_ZEROS, FILL_RAMP, FILL_RANDOM } fill_kind;

static bool read_fill(const char *text, fill_kind *out_kind, uint64_t *out_seed) {
    char *end = NULL;
    *out_seed = 1;
    *out_kind = FILL_RANDOM;
    if (text == NULL || strcmp(text, "random") == 0) return true;
    if (strcmp(text, "zeros") == 0) {
        *out_kind = FILL_ZEROS;
        return true;
    }
    if (strcmp(text, "ramp") == 0) {
        *out_kind = FILL_RAMP;
        return true;
    }
    if (strncmp(text, "random:", 7) != 0 || text[7] < '0' || text[7] > '9') return false;
    errno = 0;
    *out_seed = strtoull(text + 7, &end, 10);
    return *end == 0 && errno == 0;
}

/* Ramps count 0, 1, 2, .. 15 and around; random floats lie in [-1, 1), integers and bools are 0 or
 * 1, so that they are valid indices of anything that is not empty. */
static float fill_value(fill_kind kind, uint64_t seed, uint64_t index, bool is_float) {
    if (kind == FILL_ZEROS) return 0;
    if (kind == FILL_RAMP) return (float)(index % 16) * (is_float ? 0.0625F : 1);
    double unit = unit_random(seed, index);
    return is_float ? (float)(2 * unit - 1) : (float)(unit >= 0.5);
}

static rlx_status set_by_rule(rlx_exec *exec, uint32_t entry, uint32_t index,
                              const rlx_port_info *port, fill_kind kind, uint64_t seed) {
    bool is_float = port->dtype <= RLX_DTYPE_F8E5M2FNUZ;
    float *values = malloc(port->elements == 0 ? 4 : port->elements * sizeof *values);
    if (values == NULL) {
        return tool_error(RLX_OUT_OF_MEMORY, "input '%s': no memory to fill it", port->name);
    }
    for (uint64_t i = 0; i < port->elements; i++) {
        values[i] = fill_value(kind, seed + index, i, is_float);
    }
    rlx_status status = rlx_exec_set_input_f32(exec, entry, index, values, port->elements);
    free(values);
    return status;
}

bool tool_inputs_check(const char *verb, const tool_inputs *inputs) {
    fill_kind kind;
    uint64_t seed;
    for (uint32_t i = 0; i < inputs->files.count; i++) {
        const char *name, *path;
        if (tool_split(inputs->files.items[i], &name, &path) && path[0] != 0) continue;
        fprintf(stderr, "rlx %s: --input wants NAME=F.npy, got '%s'\n", verb,
                inputs->files.items[i]);
        return false;
    }
    if (read_fill(inputs->fill, &kind, &seed)) return true;
    fprintf(stderr, "rlx %s: --fill '%s' is not zeros, ramp or random:SEED\n", verb, inputs->fill);
    return false;
}

/* Every --input names an input. */
static rlx_status check_names(const rlx_program *program, uint32_t entry,
                              const tool_inputs *inputs) {
    for (uint32_t i = 0; i < inputs->files.count; i++) {
        const char *item = inputs->files.items[i];
        char name[1024];
        uint32_t index;
        size_t length = strcspn(item, "=");
        if (length >= sizeof name) length = sizeof name - 1;
        memcpy(name, item, length);
        name[length] = 0;
        if (inputs->is_model_input[i]) continue; /* perhaps a constant of the program by now */
        rlx_status status = rlx_program_find_input(program, entry, name, &index);
        if (status != RLX_OK) return status;
    }
    return RLX_OK;
}

rlx_status tool_set_inputs(rlx_exec *exec, uint32_t entry, const tool_inputs *inputs) {
    const rlx_program *program = rlx_exec_program(exec);
    fill_kind kind;
    uint64_t seed;
    rlx_entry_info info;
    if (!read_fill(inputs->fill, &kind, &seed)) {
        return tool_error(RLX_INVALID_ARGUMENT, "'%s' is no way to fill inputs", inputs->fill);
    }
    rlx_status status = check_names(program, entry, inputs);
    if (status == RLX_OK) status = rlx_plan_entry_at(rlx_program_plan(program), entry, &info);
    for (uint32_t i = 0; status == RLX_OK && i < info.input_count; i++) {
        rlx_port_info port;
        status = rlx_program_input(program, entry, i, &port);
        if (status != RLX_OK) break;
        const char *path = file_of(inputs, port.name);
        status = path != NULL ? set_from_file(exec, entry, i, &port, path)
                              : set_by_rule(exec, entry, i, &port, kind, seed);
    }
    return status;
}

static bool is_bound(const tool_model *model, const char *symbol) {
    for (uint32_t i = 0; i < model->entry.binding_count; i++) {
        if (strcmp(model->bindings[i].symbol, symbol) == 0) return true;
    }
    return false;
}

static void bind_from_shape(tool_model *model, const rlx_graph *graph, const rlx_shape *declared,
                            const rlx_shape *given) {
    for (uint32_t i = 0; i < declared->rank && i < given->rank; i++) {
        const char *symbol = rlx_graph_dim_symbol(graph, declared->dims[i]);
        if (symbol == NULL || is_bound(model, symbol)) continue;
        if (model->entry.binding_count == TOOL_LIST_MOST) return;
        char *copy = tool_keep(strlen(symbol) + 1);
        if (copy == NULL) return;
        strcpy(copy, symbol);
        model->bindings[model->entry.binding_count++] = (rlx_binding){copy, given->dims[i]};
    }
}

rlx_status tool_bind_from_files(tool_model *model, tool_inputs *inputs) {
    rlx_session *session = NULL;
    if (inputs->files.count == 0 || tool_is_program(model->path)) return RLX_OK;
    rlx_status status = rlx_session_open(NULL, model->path, &session);
    for (uint32_t i = 0; status == RLX_OK && i < inputs->files.count; i++) {
        const rlx_graph *graph = rlx_session_graph(session);
        const char *name, *path;
        rlx_value_id value;
        rlx_value_info declared;
        rlx_npy_info given;
        if (!tool_split(inputs->files.items[i], &name, &path)) continue; /* said later */
        if (rlx_graph_find(graph, name, &value) != RLX_OK) continue;
        status = rlx_graph_value(graph, value, &declared);
        if (status == RLX_OK) status = rlx_npy_read_header(path, &given);
        if (status != RLX_OK) tool_error(status, "input '%s': %s", name, rlx_last_error());
        if (status != RLX_OK) break;
        bind_from_shape(model, graph, &declared.shape, &given.shape);
        inputs->is_model_input[i] = declared.kind == RLX_VALUE_INPUT;
        if (inputs->is_model_input[i]) status = tool_give(model, name, path);
    }
    model->entry.given_count = model->given_count;
    rlx_session_destroy(session);
    return status;
}
