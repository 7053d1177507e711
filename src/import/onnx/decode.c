/* SPDX-License-Identifier: Apache-2.0 */
/* Model, graph, node, attribute and type messages to structs. Lists are counted first, then filled.
 * Unknown fields are skipped, as protobuf wants. tensor.c has tensors. */
#include "import/onnx/proto.h"

#include <string.h>

/* Room for the `number` messages of `wire`. */
static rlx_status make_list(rlx_onnx_reader *reader, rlx_wire wire, uint32_t number,
                            uint64_t item_bytes, void *out_items) {
    uint32_t count = 0;
    void *items = NULL;
    RLX_TRY(rlx_onnx_count(wire, number, &count));
    RLX_TRY(rlx_scratch_array(reader->memory, count, item_bytes, &items));
    memcpy(out_items, &items, sizeof items);
    return RLX_OK;
}

static rlx_status read_dim(rlx_onnx_reader *reader, rlx_wire wire, int64_t *out_dim,
                           const char **out_symbol) {
    rlx_wire_field field;
    bool has = false;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    for (; has;) {
        if (field.number == 1) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_VARINT));
            *out_dim = (int64_t)field.value < 0 ? -1 : (int64_t)field.value;
        } else if (field.number == 2) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, out_symbol));
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    if (*out_symbol != NULL && (*out_symbol)[0] == 0) *out_symbol = NULL;
    return RLX_OK;
}

static rlx_status read_shape(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_type *type) {
    rlx_wire_field field;
    bool has = false;
    type->has_shape = true;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            if (type->rank == RLX_MAX_RANK)
                return RLX_FAIL(RLX_UNSUPPORTED, "a shape of more than %d dims", RLX_MAX_RANK);
            type->dims[type->rank] = -1;
            RLX_TRY(read_dim(reader, rlx_wire_of(&field), &type->dims[type->rank],
                             &type->symbols[type->rank]));
            type->rank++;
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status read_tensor_type(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_type *type) {
    rlx_wire_field field;
    bool has = false;
    type->kind = RLX_ONNX_TYPE_TENSOR;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_VARINT));
            type->data_type = (int32_t)field.value;
        } else if (field.number == 2) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            RLX_TRY(read_shape(reader, rlx_wire_of(&field), type));
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

/* Sequences and optionals: field 1 is the element's type. */
static rlx_status read_holder_type(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_type_kind kind,
                                   rlx_onnx_type *type) {
    rlx_wire_field field;
    bool has = false;
    type->kind = kind;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) {
            rlx_onnx_type *element = NULL;
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            RLX_TRY(rlx_scratch_alloc(reader->memory, sizeof *element, (void **)&element));
            RLX_TRY(rlx_onnx_decode_type(reader, rlx_wire_of(&field), element));
            type->element = element;
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status enter(rlx_onnx_reader *reader) {
    if (++reader->depth <= RLX_ONNX_MOST_DEPTH) return RLX_OK;
    return RLX_FAIL(RLX_PARSE, "messages are nested more than %d deep", RLX_ONNX_MOST_DEPTH);
}

rlx_status rlx_onnx_decode_type(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_type *out_type) {
    rlx_wire_field field;
    bool has = false;
    RLX_TRY(enter(reader));
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1 || field.number == 4 || field.number == 9)
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
        if (field.number == 1) {
            RLX_TRY(read_tensor_type(reader, rlx_wire_of(&field), out_type));
        } else if (field.number == 4) {
            RLX_TRY(
                read_holder_type(reader, rlx_wire_of(&field), RLX_ONNX_TYPE_SEQUENCE, out_type));
        } else if (field.number == 9) {
            RLX_TRY(
                read_holder_type(reader, rlx_wire_of(&field), RLX_ONNX_TYPE_OPTIONAL, out_type));
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    reader->depth--;
    return RLX_OK;
}

static rlx_status read_value_info(rlx_onnx_reader *reader, rlx_wire wire,
                                  rlx_onnx_value_info *info) {
    rlx_wire_field field;
    bool has = false;
    info->name = "";
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &info->name));
        } else if (field.number == 2) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            RLX_TRY_WITH(rlx_onnx_decode_type(reader, rlx_wire_of(&field), &info->type), "'%s'",
                         info->name);
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status read_graph(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_graph *graph);

/* Room for `more` further items behind `count`. */
static rlx_status grow(rlx_onnx_reader *reader, const void *items, uint32_t count, uint64_t more,
                       uint64_t item_bytes, void **out_items) {
    void *grown = NULL;
    if (count != 0 && items == NULL) return RLX_FAIL(RLX_PARSE, "lists of two kinds");
    RLX_TRY(rlx_scratch_array(reader->memory, count + more, item_bytes, &grown));
    if (count != 0) memcpy(grown, items, count * item_bytes);
    *out_items = grown;
    return RLX_OK;
}

static rlx_status check_list(uint64_t count) {
    if (count <= UINT32_MAX) return RLX_OK;
    return RLX_FAIL(RLX_PARSE, "a list of %" PRIu64 " numbers", count);
}

/* Repeated int64, packed or one by one. */
static rlx_status add_ints(rlx_onnx_reader *reader, const rlx_wire_field *field,
                           rlx_onnx_attr *attr) {
    int64_t *ints = NULL;
    rlx_wire wire = {0};
    uint64_t count = 1, value = field->value;
    if (field->kind == RLX_WIRE_BYTES) {
        wire = rlx_wire_of(field);
        count = 0;
        for (const uint8_t *at = wire.at; at < wire.end; at++)
            count += *at < 128;
    } else {
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
    }
    RLX_TRY(check_list(attr->count + count));
    RLX_TRY(grow(reader, attr->ints, attr->count, count, sizeof *ints, (void **)&ints));
    for (uint64_t i = 0; i < count; i++) {
        if (field->kind == RLX_WIRE_BYTES) RLX_TRY(rlx_wire_varint(&wire, &value));
        ints[attr->count + i] = (int64_t)value;
    }
    attr->ints = ints;
    attr->count += (uint32_t)count;
    return RLX_OK;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static rlx_status add_floats(rlx_onnx_reader *reader, const rlx_wire_field *field,
                             rlx_onnx_attr *attr) {
    float *floats = NULL;
    bool is_packed = field->kind == RLX_WIRE_BYTES;
    uint64_t count = is_packed ? field->bytes / 4 : 1;
    if (!is_packed) RLX_TRY(rlx_wire_expect(field, RLX_WIRE_FIXED32));
    RLX_TRY(check_list(attr->count + count));
    RLX_TRY(grow(reader, attr->floats, attr->count, count, sizeof *floats, (void **)&floats));
    if (is_packed && count != 0) memcpy(floats + attr->count, field->data, count * 4);
    if (!is_packed) floats[attr->count] = float_of((uint32_t)field->value);
    attr->floats = floats;
    attr->count += (uint32_t)count;
    return RLX_OK;
}

static rlx_status add_string(rlx_onnx_reader *reader, const rlx_wire_field *field,
                             rlx_onnx_attr *attr) {
    rlx_onnx_text *strings = NULL;
    RLX_TRY(grow(reader, attr->strings, attr->count, 1, sizeof *strings, (void **)&strings));
    RLX_TRY(rlx_onnx_text_of(reader, field, &strings[attr->count]));
    attr->strings = strings;
    attr->count++;
    return RLX_OK;
}

/* Says where a failure is, unless it is deep inside: then the outermost places are enough. A failed
 * message leaves the depth as it was. */
static rlx_status where(const rlx_onnx_reader *reader, rlx_status status, const char *what,
                        const char *name) {
    return reader->depth > 4 ? status : rlx_fail_context(status, "%s '%s'", what, name);
}

static rlx_status read_attr_field(rlx_onnx_reader *reader, const rlx_wire_field *field,
                                  rlx_onnx_attr *attr) {
    switch (field->number) {
    case 1:
        return rlx_onnx_name_of(reader, field, &attr->name);
    case 2:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_FIXED32));
        attr->f = float_of((uint32_t)field->value);
        return RLX_OK;
    case 3:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
        attr->i = (int64_t)field->value;
        return RLX_OK;
    case 4:
        return rlx_onnx_text_of(reader, field, &attr->s);
    case 5: {
        rlx_onnx_tensor *tensor = NULL;
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        RLX_TRY(rlx_scratch_alloc(reader->memory, sizeof *tensor, (void **)&tensor));
        attr->tensor = tensor;
        return rlx_onnx_decode_tensor(reader, rlx_wire_of(field), tensor);
    }
    case 6: {
        rlx_onnx_graph *graph = NULL;
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        RLX_TRY(rlx_scratch_alloc(reader->memory, sizeof *graph, (void **)&graph));
        attr->graph = graph;
        return read_graph(reader, rlx_wire_of(field), graph);
    }
    case 7:
        return add_floats(reader, field, attr);
    case 8:
        return add_ints(reader, field, attr);
    case 9:
        return add_string(reader, field, attr);
    case 20:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
        attr->type = (rlx_onnx_attr_type)(field->value & 0xFF);
        return RLX_OK;
    case 21:
        return rlx_onnx_name_of(reader, field, &attr->reference);
    default:
        return RLX_OK;
    }
}

/* Files of IR version 1 leave the type out: it is what is there. */
static void guess_type(rlx_onnx_attr *attr) {
    if (attr->type != 0) return;
    attr->type = attr->tensor != NULL    ? RLX_ONNX_TENSOR
                 : attr->graph != NULL   ? RLX_ONNX_GRAPH
                 : attr->ints != NULL    ? RLX_ONNX_INTS
                 : attr->floats != NULL  ? RLX_ONNX_FLOATS
                 : attr->strings != NULL ? RLX_ONNX_STRINGS
                 : attr->s.data != NULL  ? RLX_ONNX_STRING
                 : attr->f != 0.0F       ? RLX_ONNX_FLOAT
                                         : RLX_ONNX_INT;
}

/* What the type says is there, unless it comes with the call of a function. */
static rlx_status check_type(const rlx_onnx_attr *attr) {
    bool has_items = attr->count != 0;
    if (attr->reference != NULL) return RLX_OK;
    if ((attr->type == RLX_ONNX_TENSOR && attr->tensor == NULL) ||
        (attr->type == RLX_ONNX_GRAPH && attr->graph == NULL) ||
        (attr->type == RLX_ONNX_INTS && has_items && attr->ints == NULL) ||
        (attr->type == RLX_ONNX_FLOATS && has_items && attr->floats == NULL) ||
        (attr->type == RLX_ONNX_STRINGS && has_items && attr->strings == NULL)) {
        return RLX_FAIL(RLX_PARSE, "it has type %u and something else inside",
                        (unsigned)attr->type);
    }
    return RLX_OK;
}

static rlx_status read_attr(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_attr *attr) {
    rlx_wire_field field;
    bool has = false;
    attr->name = "";
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        rlx_status status = read_attr_field(reader, &field, attr);
        if (status != RLX_OK) return where(reader, status, "attribute", attr->name);
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    if (attr->s.data == NULL) attr->s.data = "";
    guess_type(attr);
    rlx_status status = check_type(attr);
    return status == RLX_OK ? RLX_OK : where(reader, status, "attribute", attr->name);
}

static rlx_status read_node(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_node *node) {
    rlx_wire_field field;
    bool has = false;
    node->name = node->op = node->domain = "";
    RLX_TRY(make_list(reader, wire, 1, sizeof *node->inputs, &node->inputs));
    RLX_TRY(make_list(reader, wire, 2, sizeof *node->outputs, &node->outputs));
    RLX_TRY(make_list(reader, wire, 5, sizeof *node->attrs, &node->attrs));
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &node->inputs[node->input_count++]));
        } else if (field.number == 2) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &node->outputs[node->output_count++]));
        } else if (field.number == 3) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &node->name));
        } else if (field.number == 4) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &node->op));
        } else if (field.number == 5) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_BYTES));
            rlx_status status =
                read_attr(reader, rlx_wire_of(&field), &node->attrs[node->attr_count++]);
            if (status != RLX_OK) return where(reader, status, "node", node->name);
        } else if (field.number == 7) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &node->domain));
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status read_graph_field(rlx_onnx_reader *reader, const rlx_wire_field *field,
                                   rlx_onnx_graph *graph) {
    if (field->number == 2) return rlx_onnx_name_of(reader, field, &graph->name);
    if (field->number != 1 && field->number != 5 && field->number != 11 && field->number != 12 &&
        field->number != 15)
        return RLX_OK;
    RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
    switch (field->number) {
    case 1:
        return read_node(reader, rlx_wire_of(field), &graph->nodes[graph->node_count++]);
    case 5:
        return rlx_onnx_decode_tensor(reader, rlx_wire_of(field),
                                      &graph->initializers[graph->initializer_count++]);
    case 11:
        return read_value_info(reader, rlx_wire_of(field), &graph->inputs[graph->input_count++]);
    case 12:
        return read_value_info(reader, rlx_wire_of(field), &graph->outputs[graph->output_count++]);
    default:
        graph->sparse_count++;
        return RLX_OK;
    }
}

static rlx_status read_graph(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_graph *graph) {
    rlx_wire_field field;
    bool has = false;
    graph->name = "";
    RLX_TRY(enter(reader));
    RLX_TRY(make_list(reader, wire, 1, sizeof *graph->nodes, &graph->nodes));
    RLX_TRY(make_list(reader, wire, 5, sizeof *graph->initializers, &graph->initializers));
    RLX_TRY(make_list(reader, wire, 11, sizeof *graph->inputs, &graph->inputs));
    RLX_TRY(make_list(reader, wire, 12, sizeof *graph->outputs, &graph->outputs));
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        RLX_TRY(read_graph_field(reader, &field, graph));
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    reader->depth--;
    return RLX_OK;
}

static rlx_status read_opset(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_opset *opset) {
    rlx_wire_field field;
    bool has = false;
    opset->domain = "";
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) {
            RLX_TRY(rlx_onnx_name_of(reader, &field, &opset->domain));
        } else if (field.number == 2) {
            RLX_TRY(rlx_wire_expect(&field, RLX_WIRE_VARINT));
            opset->version = (int64_t)field.value;
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status read_function_field(rlx_onnx_reader *reader, const rlx_wire_field *field,
                                      rlx_onnx_function *self) {
    switch (field->number) {
    case 1:
        return rlx_onnx_name_of(reader, field, &self->name);
    case 4:
        return rlx_onnx_name_of(reader, field, &self->inputs[self->input_count++]);
    case 5:
        return rlx_onnx_name_of(reader, field, &self->outputs[self->output_count++]);
    case 6:
        return rlx_onnx_name_of(reader, field, &self->attr_names[self->attr_name_count++]);
    case 7:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        return read_node(reader, rlx_wire_of(field), &self->nodes[self->node_count++]);
    case 9:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        return read_opset(reader, rlx_wire_of(field), &self->opsets[self->opset_count++]);
    case 10:
        return rlx_onnx_name_of(reader, field, &self->domain);
    case 11:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        return read_attr(reader, rlx_wire_of(field), &self->attrs[self->attr_count++]);
    default:
        return RLX_OK;
    }
}

static rlx_status read_function(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_function *self) {
    rlx_wire_field field;
    bool has = false;
    self->name = self->domain = "";
    RLX_TRY(make_list(reader, wire, 4, sizeof *self->inputs, &self->inputs));
    RLX_TRY(make_list(reader, wire, 5, sizeof *self->outputs, &self->outputs));
    RLX_TRY(make_list(reader, wire, 6, sizeof *self->attr_names, &self->attr_names));
    RLX_TRY(make_list(reader, wire, 7, sizeof *self->nodes, &self->nodes));
    RLX_TRY(make_list(reader, wire, 9, sizeof *self->opsets, &self->opsets));
    RLX_TRY(make_list(reader, wire, 11, sizeof *self->attrs, &self->attrs));
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        RLX_TRY_WITH(read_function_field(reader, &field, self), "function '%s'", self->name);
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

static rlx_status read_model_field(rlx_onnx_reader *reader, const rlx_wire_field *field,
                                   rlx_onnx_model *model, uint32_t *graph_count) {
    switch (field->number) {
    case 1:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
        model->ir_version = (int64_t)field->value;
        return RLX_OK;
    case 2:
        return rlx_onnx_name_of(reader, field, &model->producer);
    case 7:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        if (++*graph_count > 1) return RLX_FAIL(RLX_PARSE, "a model of two graphs");
        return read_graph(reader, rlx_wire_of(field), &model->graph);
    case 8:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        return read_opset(reader, rlx_wire_of(field), &model->opsets[model->opset_count++]);
    case 25:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        return read_function(reader, rlx_wire_of(field),
                             &model->functions[model->function_count++]);
    default:
        return RLX_OK;
    }
}

rlx_status rlx_onnx_decode(rlx_onnx_model *model) {
    rlx_onnx_reader reader = {.memory = &model->memory, .base = model->map.data};
    rlx_wire wire =
        rlx_wire_of(&(rlx_wire_field){.data = model->map.data, .bytes = model->map.bytes});
    rlx_wire_field field;
    bool has = false;
    uint32_t graph_count = 0;
    model->producer = "";
    RLX_TRY(make_list(&reader, wire, 8, sizeof *model->opsets, &model->opsets));
    RLX_TRY(make_list(&reader, wire, 25, sizeof *model->functions, &model->functions));
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        RLX_TRY(read_model_field(&reader, &field, model, &graph_count));
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    if (graph_count == 0) return RLX_FAIL(RLX_PARSE, "no ONNX model: it has no graph");
    return RLX_OK;
}
