/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the protobuf wire format. Every length is compared with what is left before it is used.
 */
#include "import/onnx/wire.h"

rlx_status rlx_wire_varint(rlx_wire *wire, uint64_t *out_value) {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (wire->at == wire->end) return RLX_FAIL(RLX_PARSE, "the file ends inside a number");
        uint8_t byte = *wire->at++;
        if (shift == 63 && byte > 1) break;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out_value = value;
            return RLX_OK;
        }
    }
    return RLX_FAIL(RLX_PARSE, "a number of more than 64 bits");
}

static rlx_status read_fixed(rlx_wire *wire, uint32_t bytes, uint64_t *out_value) {
    uint64_t value = 0;
    if ((uint64_t)(wire->end - wire->at) < bytes)
        return RLX_FAIL(RLX_PARSE, "the file ends inside a number");
    for (uint32_t i = 0; i < bytes; i++)
        value |= (uint64_t)wire->at[i] << (8 * i);
    wire->at += bytes;
    *out_value = value;
    return RLX_OK;
}

static rlx_status read_bytes(rlx_wire *wire, rlx_wire_field *field) {
    RLX_TRY(rlx_wire_varint(wire, &field->bytes));
    uint64_t left = (uint64_t)(wire->end - wire->at);
    if (field->bytes > left)
        return RLX_FAIL(RLX_PARSE, "field %u has %" PRIu64 " bytes, only %" PRIu64 " are left",
                        field->number, field->bytes, left);
    field->data = wire->at;
    wire->at += field->bytes;
    return RLX_OK;
}

rlx_status rlx_wire_next(rlx_wire *wire, rlx_wire_field *out_field, bool *out_has) {
    rlx_wire_field field = {0};
    uint64_t key = 0;
    *out_has = wire->at < wire->end;
    if (!*out_has) return RLX_OK;
    RLX_TRY(rlx_wire_varint(wire, &key));
    if (key >> 3 == 0 || key >> 3 > 0x1FFFFFFF)
        return RLX_FAIL(RLX_PARSE, "field number %" PRIu64 " cannot be", key >> 3);
    field.number = (uint32_t)(key >> 3);
    field.kind = (rlx_wire_kind)(key & 7);
    switch (field.kind) {
    case RLX_WIRE_VARINT:
        RLX_TRY(rlx_wire_varint(wire, &field.value));
        break;
    case RLX_WIRE_FIXED64:
        RLX_TRY(read_fixed(wire, 8, &field.value));
        break;
    case RLX_WIRE_BYTES:
        RLX_TRY(read_bytes(wire, &field));
        break;
    case RLX_WIRE_FIXED32:
        RLX_TRY(read_fixed(wire, 4, &field.value));
        break;
    default:
        return RLX_FAIL(RLX_PARSE, "field %u has wire type %u", field.number, (unsigned)(key & 7));
    }
    *out_field = field;
    return RLX_OK;
}

rlx_status rlx_wire_expect(const rlx_wire_field *field, rlx_wire_kind kind) {
    if (field->kind == kind) return RLX_OK;
    return RLX_FAIL(RLX_PARSE, "field %u has wire type %d instead of %d", field->number,
                    (int)field->kind, (int)kind);
}
