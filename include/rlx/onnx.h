/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX beside the models themselves: what a model's inputs and outputs are called, and values from
 * .pb files (TensorProto, SequenceProto, OptionalProto), as the ONNX backend tests have them.
 * Models are opened with rlx_session_open. */
#ifndef RLX_ONNX_H
#define RLX_ONNX_H

#include <rlx/value.h>

RLX_BEGIN_DECLS

/* The names of a model file, and the memory of the values read for it. One thread at a time. */
typedef struct rlx_onnx_ports rlx_onnx_ports;

typedef enum rlx_onnx_kind {
    RLX_ONNX_KIND_TENSOR = 0,
    RLX_ONNX_KIND_SEQUENCE, /* `count` items */
    RLX_ONNX_KIND_EMPTY,    /* an optional that holds nothing */
    RLX_ONNX_KIND_STRINGS   /* a tensor of strings: u8, with the bytes of each, filled up with
                             * zeros, in one more axis */
} rlx_onnx_kind;

typedef struct rlx_onnx_data {
    rlx_onnx_kind kind;
    rlx_dtype dtype;
    rlx_shape shape;
    const void *data; /* row-major */
    uint64_t bytes;
    const struct rlx_onnx_data *items;
    uint32_t count;
    bool contradicts; /* its shape is not the one that the model declares for the port */
} rlx_onnx_data;

/* Reads a model's names; weights are not touched. `allocator` may be NULL. RLX_IO, RLX_PARSE. */
RLX_CALL rlx_status rlx_onnx_ports_open(const rlx_allocator *allocator, const char *path,
                                        rlx_onnx_ports **out_ports);
RLX_API void rlx_onnx_ports_destroy(rlx_onnx_ports *ports); /* NULL is allowed */

/* Inputs without those that have a default in the file. Names are borrowed; NULL past the end. */
RLX_API uint32_t rlx_onnx_input_count(const rlx_onnx_ports *ports);
RLX_API uint32_t rlx_onnx_output_count(const rlx_onnx_ports *ports);
RLX_API const char *rlx_onnx_input_name(const rlx_onnx_ports *ports, uint32_t index);
RLX_API const char *rlx_onnx_output_name(const rlx_onnx_ports *ports, uint32_t index);

/* The opset of the standard operators, 0 when the file names none; and who wrote the file ("" when
 * it does not say). */
RLX_API int64_t rlx_onnx_opset_version(const rlx_onnx_ports *ports);
RLX_API const char *rlx_onnx_producer(const rlx_onnx_ports *ports);
/* The ops of the file's nodes by name, those of bodies and functions included: the one at `index`
 * and how many nodes have it. NULL past the end. */
RLX_API const char *rlx_onnx_used_op(const rlx_onnx_ports *ports, uint32_t index,
                                     uint32_t *out_nodes);

/* Reads a .pb file as a value of the type that the model declares for the port. Borrowed as long as
 * `ports`. RLX_IO, RLX_PARSE, RLX_UNSUPPORTED (complex numbers, maps). */
RLX_CALL rlx_status rlx_onnx_read_input(rlx_onnx_ports *ports, uint32_t index, const char *path,
                                        rlx_onnx_data *out_data);
RLX_CALL rlx_status rlx_onnx_read_output(rlx_onnx_ports *ports, uint32_t index, const char *path,
                                         rlx_onnx_data *out_data);

/* The ONNX ops that can be imported, in the order of the table; NULL past the end. */
RLX_API const char *rlx_onnx_op(uint32_t index);
/* The opsets in which op `index` changed, rising, as many as are known: version `nth` of them, or 0
 * past the end. */
RLX_API uint32_t rlx_onnx_op_version(uint32_t index, uint32_t nth);

RLX_END_DECLS

#endif
