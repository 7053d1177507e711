/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of message needs: how many items a list has, texts, names. Where it stands in a
 * model is not known here. */
#include "import/onnx/proto.h"

#include <string.h>

rlx_status rlx_onnx_count(rlx_wire wire, uint32_t number, uint32_t *out_count) {
    rlx_wire_field field;
    bool has = false;
    uint32_t count = 0;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == number && ++count > RLX_ONNX_MOST_ITEMS)
            return RLX_FAIL(RLX_PARSE, "a list of more than %d items", RLX_ONNX_MOST_ITEMS);
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    *out_count = count;
    return RLX_OK;
}

rlx_status rlx_onnx_text_of(rlx_onnx_reader *reader, const rlx_wire_field *field,
                            rlx_onnx_text *out_text) {
    RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
    out_text->length = field->bytes;
    return rlx_scratch_text(reader->memory, (const char *)field->data, (size_t)field->bytes,
                            &out_text->data);
}

rlx_status rlx_onnx_name_of(rlx_onnx_reader *reader, const rlx_wire_field *field,
                            const char **out_name) {
    rlx_onnx_text text = {0};
    RLX_TRY(rlx_onnx_text_of(reader, field, &text));
    if (strlen(text.data) != text.length) return RLX_FAIL(RLX_PARSE, "a name with a zero in it");
    *out_name = text.data;
    return RLX_OK;
}
