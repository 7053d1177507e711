/* SPDX-License-Identifier: Apache-2.0 */
/* An ONNX file as structs: what decode.c reads and build.c turns into a graph. Names, lists and
 * small data live in the model's scratch memory; weights stay where they are in the mapped file. */
#ifndef RLX_IMPORT_ONNX_PROTO_H
#define RLX_IMPORT_ONNX_PROTO_H

#include "base/alloc.h"
#include "base/file.h"
#include "import/onnx/wire.h"
#include "ir/type.h"

/* What files may ask for at most; a real model is far below. */
enum {
    RLX_ONNX_MOST_ITEMS = 1 << 20, /* of one list: nodes, inputs, attributes */
    RLX_ONNX_MOST_DEPTH = 32,      /* graphs inside graphs, types inside types */
    RLX_ONNX_NEWEST_OPSET = 21
};

/* Numbers of TensorProto.DataType that are asked for by name. */
enum { RLX_ONNX_DATA_BYTE = 2, RLX_ONNX_DATA_STRING = 8 };

typedef struct rlx_onnx_graph rlx_onnx_graph;

typedef struct rlx_onnx_text {
    const char *data; /* zero-terminated; length also counts zeros inside */
    uint64_t length;
} rlx_onnx_text;

typedef struct rlx_onnx_tensor {
    const char *name; /* never NULL */
    int32_t data_type;
    bool is_string, is_known; /* is_known: dtype has an rlx dtype; strings: u8 [..][bytes] */
    rlx_dtype dtype;
    rlx_shape shape;
    const void *data; /* row-major, little-endian; in the file's map or in scratch */
    uint64_t bytes;
    uint64_t file_offset; /* of data in the model file; UINT64_MAX: not there */
    const char *location; /* external data: path beside the model, else NULL */
    uint64_t location_offset;
    const rlx_onnx_text *strings;
    uint32_t string_count;
} rlx_onnx_tensor;

typedef enum rlx_onnx_attr_type {
    RLX_ONNX_FLOAT = 1,
    RLX_ONNX_INT = 2,
    RLX_ONNX_STRING = 3,
    RLX_ONNX_TENSOR = 4,
    RLX_ONNX_GRAPH = 5,
    RLX_ONNX_FLOATS = 6,
    RLX_ONNX_INTS = 7,
    RLX_ONNX_STRINGS = 8
} rlx_onnx_attr_type;

typedef struct rlx_onnx_attr {
    const char *name;
    const char *reference; /* inside functions: the attribute of the call that it stands for */
    rlx_onnx_attr_type type;
    float f;
    int64_t i;
    rlx_onnx_text s;
    const rlx_onnx_tensor *tensor;
    const rlx_onnx_graph *graph;
    const float *floats;
    const int64_t *ints;
    const rlx_onnx_text *strings;
    uint32_t count; /* of floats, ints or strings */
} rlx_onnx_attr;

typedef struct rlx_onnx_node {
    const char *name, *op, *domain;
    const char **inputs, **outputs; /* "" is an absent one */
    rlx_onnx_attr *attrs;
    uint32_t input_count, output_count, attr_count;
} rlx_onnx_node;

typedef enum rlx_onnx_type_kind {
    RLX_ONNX_TYPE_UNKNOWN = 0,
    RLX_ONNX_TYPE_TENSOR,
    RLX_ONNX_TYPE_SEQUENCE,
    RLX_ONNX_TYPE_OPTIONAL
} rlx_onnx_type_kind;

/* A declared type. Dims: a number, -1 with a name, or -1 without. */
typedef struct rlx_onnx_type {
    rlx_onnx_type_kind kind;
    int32_t data_type;
    bool has_shape;
    uint32_t rank;
    int64_t dims[RLX_MAX_RANK];
    const char *symbols[RLX_MAX_RANK]; /* NULL: none */
    const struct rlx_onnx_type *element;
} rlx_onnx_type;

typedef struct rlx_onnx_value_info {
    const char *name;
    rlx_onnx_type type;
} rlx_onnx_value_info;

struct rlx_onnx_graph {
    const char *name;
    rlx_onnx_node *nodes;
    rlx_onnx_tensor *initializers;
    rlx_onnx_value_info *inputs, *outputs;
    uint32_t node_count, initializer_count, input_count, output_count, sparse_count;
};

typedef struct rlx_onnx_opset {
    const char *domain;
    int64_t version;
} rlx_onnx_opset;

typedef struct rlx_onnx_function {
    const char *name, *domain;
    const char **inputs, **outputs, **attr_names;
    rlx_onnx_attr *attrs; /* with defaults */
    rlx_onnx_node *nodes;
    rlx_onnx_opset *opsets;
    uint32_t input_count, output_count, attr_name_count, attr_count, node_count, opset_count;
} rlx_onnx_function;

/* Weights that were put into a block type, and where in a file they and their scales are from (path
 * NULL: not from one). */
typedef struct rlx_onnx_blocks {
    const char *path;
    uint64_t offset, scale_offset;
    rlx_dtype dtype;
    void *data;
    uint64_t bytes;
    const struct rlx_onnx_blocks *next;
} rlx_onnx_blocks;

typedef struct rlx_onnx_model {
    const rlx_allocator *allocator;
    const char *path;
    rlx_file_map map;
    rlx_scratch memory;
    int64_t ir_version;
    const char *producer;
    rlx_onnx_graph graph;
    rlx_onnx_opset *opsets;
    rlx_onnx_function *functions;
    uint32_t opset_count, function_count;
    const rlx_onnx_blocks *blocks; /* made by builds, in `memory` */
} rlx_onnx_model;

/* One message being read: where its texts go, and what offsets in the file are relative to. */
typedef struct rlx_onnx_reader {
    rlx_scratch *memory;
    const uint8_t *base; /* of the file */
    uint32_t depth;
} rlx_onnx_reader;

/* Decodes a mapped file. The model keeps the map. */
RLX_WARN_UNUSED rlx_status rlx_onnx_decode(rlx_onnx_model *model);
RLX_WARN_UNUSED rlx_status rlx_onnx_decode_tensor(rlx_onnx_reader *reader, rlx_wire wire,
                                                  rlx_onnx_tensor *out_tensor);
RLX_WARN_UNUSED rlx_status rlx_onnx_decode_type(rlx_onnx_reader *reader, rlx_wire wire,
                                                rlx_onnx_type *out_type);
/* Messages of field `number` in a message; at most RLX_ONNX_MOST_ITEMS. */
RLX_WARN_UNUSED rlx_status rlx_onnx_count(rlx_wire wire, uint32_t number, uint32_t *out_count);
RLX_WARN_UNUSED rlx_status rlx_onnx_text_of(rlx_onnx_reader *reader, const rlx_wire_field *field,
                                            rlx_onnx_text *out_text);
/* The same where a zero inside makes no sense: names. */
RLX_WARN_UNUSED rlx_status rlx_onnx_name_of(rlx_onnx_reader *reader, const rlx_wire_field *field,
                                            const char **out_name);
/* The rlx dtype of an ONNX number; false: string, complex, none. */
bool rlx_onnx_dtype(int64_t data_type, rlx_dtype *out_dtype);
const char *rlx_onnx_type_name(int64_t data_type); /* "FLOAT", for messages */
static inline bool rlx_onnx_is_string(int64_t data_type) {
    return data_type == RLX_ONNX_DATA_STRING;
}

/* Where a tensor's bytes are, as a source. External files are looked up beside `model_path`:
 * RLX_INVALID_GRAPH for a path that leaves its folder. Texts go to `memory`. */
RLX_WARN_UNUSED rlx_status rlx_onnx_tensor_source(const rlx_onnx_model *model,
                                                  const rlx_onnx_tensor *tensor,
                                                  rlx_scratch *memory, rlx_source *out_source);

#endif
