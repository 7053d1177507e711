/* SPDX-License-Identifier: Apache-2.0 */
/* rlx/onnx.h: names of a model's inputs and outputs, and values from .pb files. */
#include "import/onnx/ops.h"
#include "import/onnx/proto.h"

#include <rlx/onnx.h>

#include <stdlib.h>
#include <string.h>

/* An op that the file uses. */
typedef struct used_op {
    const char *name;
    uint32_t nodes;
} used_op;

struct rlx_onnx_ports {
    rlx_allocator hook;
    rlx_onnx_model model;
    const rlx_onnx_value_info **inputs;
    uint32_t input_count;
    used_op *ops; /* by name */
    uint32_t op_count;
};

static bool has_default(const rlx_onnx_graph *graph, const char *name) {
    for (uint32_t i = 0; i < graph->initializer_count; i++) {
        if (strcmp(graph->initializers[i].name, name) == 0) return true;
    }
    return false;
}

static rlx_status list_inputs(rlx_onnx_ports *self) {
    const rlx_onnx_graph *graph = &self->model.graph;
    RLX_TRY(rlx_scratch_array(&self->model.memory, graph->input_count, sizeof *self->inputs,
                              (void **)&self->inputs));
    for (uint32_t i = 0; i < graph->input_count; i++) {
        if (!has_default(graph, graph->inputs[i].name))
            self->inputs[self->input_count++] = &graph->inputs[i];
    }
    return RLX_OK;
}

/* Names of all nodes, bodies included; with `names` NULL they are only counted. */
static uint32_t list_nodes(const rlx_onnx_node *nodes, uint32_t count, const char **names) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (names != NULL) names[found] = nodes[i].op;
        found++;
        for (uint32_t a = 0; a < nodes[i].attr_count; a++) {
            const rlx_onnx_graph *body = nodes[i].attrs[a].graph;
            if (body == NULL) continue;
            found +=
                list_nodes(body->nodes, body->node_count, names == NULL ? NULL : names + found);
        }
    }
    return found;
}

static uint32_t list_all_nodes(const rlx_onnx_model *model, const char **names) {
    uint32_t found = list_nodes(model->graph.nodes, model->graph.node_count, names);
    for (uint32_t i = 0; i < model->function_count; i++)
        found += list_nodes(model->functions[i].nodes, model->functions[i].node_count,
                            names == NULL ? NULL : names + found);
    return found;
}

static int by_name(const void *a, const void *b) {
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static rlx_status list_ops(rlx_onnx_ports *self) {
    const char **names = NULL;
    uint32_t count = list_all_nodes(&self->model, NULL);
    RLX_TRY(rlx_scratch_array(&self->model.memory, count, sizeof *names, (void **)&names));
    RLX_TRY(rlx_scratch_array(&self->model.memory, count, sizeof *self->ops, (void **)&self->ops));
    if (count == 0) return RLX_OK;
    list_all_nodes(&self->model, names);
    qsort(names, count, sizeof *names, by_name);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(names[i - 1], names[i]) != 0)
            self->ops[self->op_count++] = (used_op){.name = names[i]};
        self->ops[self->op_count - 1].nodes++;
    }
    return RLX_OK;
}

void rlx_onnx_ports_destroy(rlx_onnx_ports *ports) {
    if (ports == NULL) return;
    const rlx_allocator hook = ports->hook;
    rlx_scratch_reset(&ports->model.memory);
    rlx_file_map_close(&ports->model.map);
    rlx_free(&hook, ports);
}

rlx_status rlx_onnx_ports_open(const rlx_allocator *allocator, const char *path,
                               rlx_onnx_ports **out_ports) {
    rlx_onnx_ports *self = NULL;
    if (path == NULL || out_ports == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (allocator == NULL) allocator = rlx_default_allocator();
    RLX_TRY(rlx_alloc_zero(allocator, sizeof *self, (void **)&self));
    self->hook = *allocator;
    self->model.memory.allocator = &self->hook;
    self->model.path = path;
    rlx_status status = rlx_file_map_open(path, &self->model.map);
    if (status == RLX_OK) status = rlx_onnx_decode(&self->model);
    if (status == RLX_OK) status = list_inputs(self);
    if (status == RLX_OK) status = list_ops(self);
    if (status != RLX_OK) {
        rlx_onnx_ports_destroy(self);
        return rlx_fail_context(status, "%s", path);
    }
    *out_ports = self;
    return RLX_OK;
}

uint32_t rlx_onnx_input_count(const rlx_onnx_ports *ports) {
    return ports == NULL ? 0 : ports->input_count;
}

uint32_t rlx_onnx_output_count(const rlx_onnx_ports *ports) {
    return ports == NULL ? 0 : ports->model.graph.output_count;
}

const char *rlx_onnx_input_name(const rlx_onnx_ports *ports, uint32_t index) {
    return index < rlx_onnx_input_count(ports) ? ports->inputs[index]->name : NULL;
}

const char *rlx_onnx_output_name(const rlx_onnx_ports *ports, uint32_t index) {
    return index < rlx_onnx_output_count(ports) ? ports->model.graph.outputs[index].name : NULL;
}

int64_t rlx_onnx_opset_version(const rlx_onnx_ports *ports) {
    for (uint32_t i = 0; ports != NULL && i < ports->model.opset_count; i++) {
        const rlx_onnx_opset *opset = &ports->model.opsets[i];
        if (opset->domain[0] == 0 || strcmp(opset->domain, "ai.onnx") == 0) return opset->version;
    }
    return 0;
}

const char *rlx_onnx_producer(const rlx_onnx_ports *ports) {
    return ports == NULL || ports->model.producer == NULL ? "" : ports->model.producer;
}

const char *rlx_onnx_used_op(const rlx_onnx_ports *ports, uint32_t index, uint32_t *out_nodes) {
    if (ports == NULL || index >= ports->op_count) return NULL;
    if (out_nodes != NULL) *out_nodes = ports->ops[index].nodes;
    return ports->ops[index].name;
}

const char *rlx_onnx_op(uint32_t index) {
    return rlx_onnx_op_name(index);
}

uint32_t rlx_onnx_op_version(uint32_t index, uint32_t nth) {
    return rlx_onnx_op_since(index, nth);
}

/* Whether a shape cannot be what the model declares. */
static bool is_contradiction(const rlx_onnx_type *type, const rlx_shape *shape, bool is_string) {
    if (!type->has_shape) return false;
    if (type->rank + is_string != shape->rank) return true;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[i] >= 0 && type->dims[i] != shape->dims[i]) return true;
    }
    return false;
}

static rlx_status take_tensor(rlx_onnx_reader *reader, rlx_wire wire, const rlx_onnx_type *type,
                              rlx_onnx_data *out_data) {
    rlx_onnx_tensor tensor;
    void *copy = NULL;
    RLX_TRY(rlx_onnx_decode_tensor(reader, wire, &tensor));
    *out_data =
        (rlx_onnx_data){.kind = tensor.is_string ? RLX_ONNX_KIND_STRINGS : RLX_ONNX_KIND_TENSOR,
                        .shape = tensor.shape};
    if (!tensor.is_known || tensor.location != NULL)
        return RLX_FAIL(RLX_UNSUPPORTED, "a tensor of type %s",
                        rlx_onnx_type_name(tensor.data_type));
    /* Files may call the bits of a bf16 what they are, u16; the model knows better. */
    rlx_dtype declared = tensor.dtype;
    if (rlx_onnx_dtype(type->data_type, &declared) && declared == RLX_DTYPE_BF16 &&
        tensor.dtype == RLX_DTYPE_U16)
        tensor.dtype = declared;
    RLX_TRY(rlx_scratch_alloc(reader->memory, tensor.bytes, &copy));
    if (tensor.bytes != 0) memcpy(copy, tensor.data, tensor.bytes);
    out_data->dtype = tensor.dtype;
    out_data->data = copy;
    out_data->bytes = tensor.bytes;
    out_data->contradicts = is_contradiction(type, &tensor.shape, tensor.is_string);
    return RLX_OK;
}

static rlx_status take_value(rlx_onnx_reader *reader, rlx_wire wire, const rlx_onnx_type *type,
                             rlx_onnx_data *out_data);

/* SequenceProto: tensors are field 3, sequences field 5, optionals field 7. */
static rlx_status take_sequence(rlx_onnx_reader *reader, rlx_wire wire, const rlx_onnx_type *type,
                                rlx_onnx_data *out_data) {
    rlx_onnx_data *items = NULL;
    rlx_wire_field field;
    bool has = false;
    uint32_t number = type->kind == RLX_ONNX_TYPE_TENSOR     ? 3
                      : type->kind == RLX_ONNX_TYPE_SEQUENCE ? 5
                                                             : 7;
    uint32_t count = 0;
    RLX_TRY(rlx_onnx_count(wire, number, &count));
    RLX_TRY(rlx_scratch_array(reader->memory, count, sizeof *items, (void **)&items));
    *out_data = (rlx_onnx_data){.kind = RLX_ONNX_KIND_SEQUENCE, .items = items};
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == number) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            RLX_TRY(take_value(reader, rlx_wire_of(&field), type, &items[out_data->count++]));
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

/* OptionalProto: a tensor is field 3, a sequence field 5. */
static rlx_status take_optional(rlx_onnx_reader *reader, rlx_wire wire, const rlx_onnx_type *type,
                                rlx_onnx_data *out_data) {
    rlx_wire_field field;
    bool has = false;
    *out_data = (rlx_onnx_data){.kind = RLX_ONNX_KIND_EMPTY};
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        bool is_it = (field.number == 3 && type->kind == RLX_ONNX_TYPE_TENSOR) ||
                     (field.number == 5 && type->kind == RLX_ONNX_TYPE_SEQUENCE);
        if (is_it) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            RLX_TRY(take_value(reader, rlx_wire_of(&field), type, out_data));
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status take_value(rlx_onnx_reader *reader, rlx_wire wire, const rlx_onnx_type *type,
                             rlx_onnx_data *out_data) {
    if (++reader->depth > RLX_ONNX_MOST_DEPTH)
        return RLX_FAIL(RLX_PARSE, "values are nested more than %d deep", RLX_ONNX_MOST_DEPTH);
    rlx_status status;
    if (type->kind == RLX_ONNX_TYPE_SEQUENCE && type->element != NULL) {
        status = take_sequence(reader, wire, type->element, out_data);
    } else if (type->kind == RLX_ONNX_TYPE_OPTIONAL && type->element != NULL) {
        status = take_optional(reader, wire, type->element, out_data);
    } else {
        status = take_tensor(reader, wire, type, out_data);
    }
    reader->depth--;
    return status;
}

static rlx_status read_value(rlx_onnx_ports *ports, const rlx_onnx_value_info *info,
                             const char *path, rlx_onnx_data *out_data) {
    rlx_file_map map = {0};
    RLX_TRY(rlx_file_map_open(path, &map));
    rlx_onnx_reader reader = {.memory = &ports->model.memory, .base = map.data};
    rlx_wire wire = {map.data, map.data + map.bytes};
    rlx_status status = take_value(&reader, wire, &info->type, out_data);
    rlx_file_map_close(&map);
    return status == RLX_OK ? RLX_OK : rlx_fail_context(status, "%s", path);
}

rlx_status rlx_onnx_read_input(rlx_onnx_ports *ports, uint32_t index, const char *path,
                               rlx_onnx_data *out_data) {
    if (ports == NULL || path == NULL || out_data == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (index >= ports->input_count) return RLX_FAIL(RLX_NOT_FOUND, "no input %u", index);
    return read_value(ports, ports->inputs[index], path, out_data);
}

rlx_status rlx_onnx_read_output(rlx_onnx_ports *ports, uint32_t index, const char *path,
                                rlx_onnx_data *out_data) {
    if (ports == NULL || path == NULL || out_data == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (index >= ports->model.graph.output_count)
        return RLX_FAIL(RLX_NOT_FOUND, "no output %u", index);
    return read_value(ports, &ports->model.graph.outputs[index], path, out_data);
}
