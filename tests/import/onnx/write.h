/* SPDX-License-Identifier: Apache-2.0 */
/* Small ONNX models, written field by field: what tests of the importer feed on. */
#ifndef RLX_TESTS_IMPORT_ONNX_WRITE_H
#define RLX_TESTS_IMPORT_ONNX_WRITE_H

#include <stdint.h>
#include <string.h>

/* A message being written. 64 KiB are enough for every test. */
typedef struct message {
    uint8_t data[1 << 16];
    size_t size;
} message;

static inline void put_varint(message *to, uint64_t value) {
    do {
        to->data[to->size++] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value != 0);
}

static inline void put_number(message *to, uint32_t field, uint64_t value) {
    put_varint(to, (uint64_t)field << 3);
    put_varint(to, value);
}

static inline void put_bytes(message *to, uint32_t field, const void *data, size_t size) {
    put_varint(to, (uint64_t)field << 3 | 2);
    put_varint(to, size);
    if (size != 0) memcpy(to->data + to->size, data, size);
    to->size += size;
}

static inline void put_text(message *to, uint32_t field, const char *text) {
    put_bytes(to, field, text, strlen(text));
}

static inline void put_message(message *to, uint32_t field, const message *from) {
    put_bytes(to, field, from->data, from->size);
}

/* Words of a text, each as one field. */
static inline void put_words(message *to, uint32_t field, const char *text) {
    while (*text != 0) {
        size_t length = strcspn(text, " ");
        put_bytes(to, field, text, length);
        text += length + (text[length] == ' ');
    }
}

/* A node of the graph; `attrs` may be NULL: AttributeProto fields, ready made. */
static inline void put_node(message *graph, const char *op, const char *inputs, const char *outputs,
                            const message *attrs) {
    static message node;
    node.size = 0;
    put_words(&node, 1, inputs);
    put_words(&node, 2, outputs);
    put_text(&node, 3, outputs);
    put_text(&node, 4, op);
    if (attrs != NULL) {
        memcpy(node.data + node.size, attrs->data, attrs->size);
        node.size += attrs->size;
    }
    put_message(graph, 1, &node);
}

/* A graph input (field 11) or output (12) of f32 and the dims; a dim < 0 is the symbol "N". */
static inline void put_port(message *graph, uint32_t field, const char *name, const int64_t *dims,
                            uint32_t rank) {
    static message port, type, tensor, shape, dim;
    port.size = type.size = tensor.size = shape.size = 0;
    for (uint32_t i = 0; i < rank; i++) {
        dim.size = 0;
        if (dims[i] < 0) {
            put_text(&dim, 2, "N");
        } else {
            put_number(&dim, 1, (uint64_t)dims[i]);
        }
        put_message(&shape, 1, &dim);
    }
    put_number(&tensor, 1, 1);
    put_message(&tensor, 2, &shape);
    put_message(&type, 1, &tensor);
    put_text(&port, 1, name);
    put_message(&port, 2, &type);
    put_message(graph, field, &port);
}

/* TensorProto with raw data; data_type 1 is f32, 7 is i64. */
static inline void make_tensor(message *tensor, const char *name, uint32_t data_type,
                               const int64_t *dims, uint32_t rank, const void *data, size_t size) {
    tensor->size = 0;
    for (uint32_t i = 0; i < rank; i++)
        put_number(tensor, 1, (uint64_t)dims[i]);
    put_number(tensor, 2, data_type);
    put_text(tensor, 8, name);
    if (data != NULL) put_bytes(tensor, 9, data, size);
}

static inline void put_initializer(message *graph, const char *name, uint32_t data_type,
                                   const int64_t *dims, uint32_t rank, const void *data,
                                   size_t size) {
    static message tensor;
    make_tensor(&tensor, name, data_type, dims, rank, data, size);
    put_message(graph, 5, &tensor);
}

/* The model around a graph, of opset `version`. */
static inline void make_model(message *model, const message *graph, uint64_t version) {
    static message opset;
    opset.size = model->size = 0;
    put_number(&opset, 2, version);
    put_number(model, 1, 8);
    put_message(model, 7, graph);
    put_message(model, 8, &opset);
}

#endif
