/* SPDX-License-Identifier: Apache-2.0 */
/* Printing what belongs to one value or node: types, data, attributes and the code of chains. */
#include "ir/chain.h"
#include "ir/layout.h"
#include "ir/text_number.h"
#include "ir/text_print.h"

enum { PER_LINE = 16 }; /* elements of a long constant */

static void print_dim(rlx_printer *printer, const rlx_type *type, uint32_t axis) {
    int64_t dim = type->shape.dims[axis];
    if (type->extents[axis] != RLX_NONE) {
        rlx_print_value_name(printer, type->extents[axis]);
        rlx_text_append(&printer->text, "<=", 2);
    }
    if (dim == RLX_DIM_UNKNOWN) {
        rlx_text_append(&printer->text, "?", 1);
    } else if (rlx_dim_is_symbol(dim)) {
        rlx_print_name(&printer->text, printer->graph->symbols.items[rlx_dim_symbol(dim)]);
    } else {
        rlx_text_printf(&printer->text, "%" PRId64, dim);
    }
}

void rlx_print_type(rlx_printer *printer, const rlx_type *type) {
    rlx_text_printf(&printer->text, "%s[", rlx_dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->shape.rank; i++) {
        if (i > 0) rlx_text_append(&printer->text, ", ", 2);
        print_dim(printer, type, i);
    }
    rlx_text_append(&printer->text, "]", 1);
    if (type->layout == RLX_LAYOUT_PLAIN) return;
    rlx_text_printf(&printer->text, " %s", rlx_layout_name(type->layout));
}

static void print_hex(rlx_printer *printer, const uint8_t *data, uint64_t bytes) {
    static const char digits[] = "0123456789abcdef";
    bool is_short = (printer->flags & RLX_PRINT_SHORT) != 0 && bytes > PER_LINE;
    uint64_t shown = is_short ? PER_LINE : bytes;
    rlx_text_append(&printer->text, "hex(\"", 5);
    for (uint64_t i = 0; i < shown; i++) {
        char pair[2] = {digits[data[i] >> 4], digits[data[i] & 15]};
        rlx_text_append(&printer->text, pair, 2);
    }
    rlx_text_append(&printer->text, is_short ? "...\")" : "\")", is_short ? 5 : 2);
}

static void print_elements(rlx_printer *printer, rlx_dtype dtype, const void *data,
                           uint64_t count) {
    char number[RLX_NUMBER_BYTES];
    bool is_short = (printer->flags & RLX_PRINT_SHORT) != 0 && count > PER_LINE;
    uint64_t shown = is_short ? PER_LINE : count;
    rlx_text_append(&printer->text, "[", 1);
    for (uint64_t i = 0; i < shown; i++) {
        bool breaks = i % PER_LINE == 0 && shown > PER_LINE;
        if (i > 0) rlx_text_append(&printer->text, breaks ? "," : ", ", breaks ? 1 : 2);
        if (breaks) rlx_text_append(&printer->text, "\n    ", 5);
        rlx_number_print_element(dtype, data, (int64_t)i, number);
        rlx_text_append(&printer->text, number, strlen(number));
    }
    rlx_text_append(&printer->text, is_short ? ", ...]" : "]", is_short ? 6 : 1);
}

void rlx_print_data(rlx_printer *printer, const rlx_type *type, const void *data, uint64_t bytes) {
    uint64_t count = 0, expected = 0;
    if (rlx_dtype_block_elements(type->dtype) > 2 ||
        rlx_shape_elements(&type->shape, &count) != RLX_OK ||
        rlx_type_bytes(type, &expected) != RLX_OK || expected != bytes) {
        print_hex(printer, data, bytes);
    } else {
        print_elements(printer, type->dtype, data, count);
    }
}

void rlx_print_list(rlx_printer *printer, const int64_t *items, uint32_t count) {
    rlx_text_append(&printer->text, "[", 1);
    for (uint32_t i = 0; i < count; i++)
        rlx_text_printf(&printer->text, "%s%" PRId64, i > 0 ? ", " : "", items[i]);
    rlx_text_append(&printer->text, "]", 1);
}

/* Whether one instruction's words survive being decoded and encoded again. */
static bool is_readable(const int64_t *words, rlx_list code, uint32_t index) {
    int64_t again[RLX_CHAIN_WORDS];
    if (words[0] <= RLX_OP_NONE || words[0] >= RLX_OP_COUNT) return false;
    if (words[1] < 0 || words[1] >= RLX_DTYPE_COUNT) return false;
    rlx_chain_instruction instruction = rlx_chain_at(code, index);
    if (instruction.alpha != instruction.alpha || instruction.beta != instruction.beta)
        return false; /* a NaN may have a payload */
    rlx_chain_encode(&instruction, again);
    return memcmp(again, words, sizeof again) == 0;
}

static bool code_is_readable(rlx_list code) {
    if (code.count == 0 || code.count % RLX_CHAIN_WORDS != 0) return false;
    for (uint32_t i = 0; i < rlx_chain_count(code); i++) {
        if (!is_readable(code.items + (size_t)i * RLX_CHAIN_WORDS, code, i)) return false;
    }
    return true;
}

static void print_operands(rlx_printer *printer, const int64_t *operands) {
    uint32_t count = 3;
    while (count > 0 && operands[count - 1] == RLX_CHAIN_NONE)
        count--;
    rlx_text_append(&printer->text, "(", 1);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0) rlx_text_append(&printer->text, ", ", 2);
        if (operands[i] == RLX_CHAIN_NONE) {
            rlx_text_append(&printer->text, "_", 1);
        } else if (operands[i] >= 0) {
            rlx_text_printf(&printer->text, "$%" PRId64, operands[i]);
        } else {
            rlx_text_printf(&printer->text, "%%%" PRId64, -1 - operands[i]);
        }
    }
    rlx_text_append(&printer->text, ")", 1);
}

static void print_f64_attr(rlx_printer *printer, const char *name, double value) {
    char number[RLX_NUMBER_BYTES];
    rlx_number_print_f64(value, number);
    if (strcmp(number, "0") != 0) rlx_text_printf(&printer->text, " %s=%s", name, number);
}

/* "[f32 mul($0, $1), f32 clip(%0) beta=6]": $n is input n of the node, %n result n of the list. */
static void print_code(rlx_printer *printer, rlx_list code) {
    if (!code_is_readable(code)) {
        rlx_print_list(printer, code.items, code.count);
        return;
    }
    rlx_text_append(&printer->text, "[", 1);
    for (uint32_t i = 0; i < rlx_chain_count(code); i++) {
        rlx_chain_instruction instruction = rlx_chain_at(code, i);
        rlx_text_printf(&printer->text, "%s%s %s", i > 0 ? ", " : "",
                        rlx_dtype_name(instruction.dtype), rlx_op_name(instruction.op));
        print_operands(printer, instruction.operands);
        print_f64_attr(printer, "alpha", instruction.alpha);
        print_f64_attr(printer, "beta", instruction.beta);
    }
    rlx_text_append(&printer->text, "]", 1);
}

/* A field X with a partner has_X is printed when that is set, and otherwise not. */
static const rlx_field *partner_of(const rlx_op_info *info, const char *name) {
    for (uint32_t i = 0; i < info->field_count; i++) {
        const char *other = info->fields[i].name;
        if (strncmp(other, "has_", 4) == 0 && strcmp(other + 4, name) == 0) return &info->fields[i];
    }
    return NULL;
}

static void print_number_field(rlx_printer *printer, const rlx_field *field, const void *at) {
    uint32_t number, count = 0;
    const char *const *names = rlx_field_names(field->kind, &count);
    memcpy(&number, at, sizeof number);
    if (field->kind == RLX_FIELD_OP) {
        if (number != RLX_OP_NONE)
            rlx_text_printf(&printer->text, " %s=%s", field->name, rlx_op_name((rlx_op)number));
    } else if (number != 0 && names != NULL && number < count) {
        rlx_text_printf(&printer->text, " %s=%s", field->name, names[number]);
    }
}

static void print_field(rlx_printer *printer, const rlx_op_info *info, const rlx_field *field,
                        const char *attrs) {
    const void *at = attrs + field->offset;
    const rlx_field *partner = partner_of(info, field->name);
    switch (field->kind) {
    case RLX_FIELD_BOOL:
        if (strncmp(field->name, "has_", 4) != 0 && *(const bool *)at)
            rlx_text_printf(&printer->text, " %s=true", field->name);
        return;
    case RLX_FIELD_I64:
        if (*(const int64_t *)at != 0)
            rlx_text_printf(&printer->text, " %s=%" PRId64, field->name, *(const int64_t *)at);
        return;
    case RLX_FIELD_F64:
        print_f64_attr(printer, field->name, *(const double *)at);
        return;
    case RLX_FIELD_DTYPE:
        if (partner == NULL || *(const bool *)(const void *)(attrs + partner->offset))
            rlx_text_printf(&printer->text, " %s=%s", field->name,
                            rlx_dtype_name(*(const rlx_dtype *)at));
        return;
    case RLX_FIELD_INTS:
        if (((const rlx_ints *)at)->count == 0) return;
        rlx_text_printf(&printer->text, " %s=", field->name);
        rlx_print_list(printer, ((const rlx_ints *)at)->items, ((const rlx_ints *)at)->count);
        return;
    case RLX_FIELD_LIST:
        if (((const rlx_list *)at)->count == 0) return;
        rlx_text_printf(&printer->text, " %s=", field->name);
        if (strcmp(field->name, "code") == 0) {
            print_code(printer, *(const rlx_list *)at);
        } else {
            rlx_print_list(printer, ((const rlx_list *)at)->items, ((const rlx_list *)at)->count);
        }
        return;
    case RLX_FIELD_OP:
    case RLX_FIELD_AUTO_PAD:
    case RLX_FIELD_PAD_MODE:
    case RLX_FIELD_SCATTER_MODE:
    case RLX_FIELD_DIRECTION:
    case RLX_FIELD_GATE:
    case RLX_FIELD_LAYOUT:
    case RLX_FIELD_COMBINE:
        print_number_field(printer, field, at);
        return;
    }
}

void rlx_print_attrs(rlx_printer *printer, rlx_op op, const void *attrs) {
    const rlx_op_info *info = rlx_op_info_of(op);
    for (uint32_t i = 0; info != NULL && i < info->field_count; i++)
        print_field(printer, info, &info->fields[i], attrs);
}
