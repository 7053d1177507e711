/* SPDX-License-Identifier: Apache-2.0 */
/* The protobuf wire format: one field after the other, bounds checked. Knows no message of ONNX. */
#ifndef RLX_IMPORT_ONNX_WIRE_H
#define RLX_IMPORT_ONNX_WIRE_H

#include "base/status.h"

typedef enum rlx_wire_kind {
    RLX_WIRE_VARINT = 0,
    RLX_WIRE_FIXED64 = 1,
    RLX_WIRE_BYTES = 2,
    RLX_WIRE_FIXED32 = 5
} rlx_wire_kind;

/* What is left of a message. */
typedef struct rlx_wire {
    const uint8_t *at, *end;
} rlx_wire;

typedef struct rlx_wire_field {
    uint32_t number;
    rlx_wire_kind kind;
    uint64_t value;      /* VARINT, FIXED64, FIXED32 */
    const uint8_t *data; /* BYTES: inside the message */
    uint64_t bytes;
} rlx_wire_field;

/* The next field; *out_has is false at the end of the message. RLX_PARSE: cut, or a wire type that
 * is none. */
RLX_WARN_UNUSED rlx_status rlx_wire_next(rlx_wire *wire, rlx_wire_field *out_field, bool *out_has);
/* One varint of at most 10 bytes. */
RLX_WARN_UNUSED rlx_status rlx_wire_varint(rlx_wire *wire, uint64_t *out_value);
/* The field must have this wire type. */
RLX_WARN_UNUSED rlx_status rlx_wire_expect(const rlx_wire_field *field, rlx_wire_kind kind);

/* What a field of bytes holds; nothing in one of another kind. */
static inline rlx_wire rlx_wire_of(const rlx_wire_field *field) {
    if (field->data == NULL) return (rlx_wire){NULL, NULL};
    return (rlx_wire){field->data, field->data + field->bytes};
}

#endif
