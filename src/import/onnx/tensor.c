/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor messages. Raw bytes and packed floats are used where they stand in the file; numbers that
 * are written as varints are decoded into scratch. Data in other files must lie in the model's
 * folder. */
#include "base/size.h"
#include "import/onnx/proto.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int dtype; /* -1: none */
} types[] = {
    {"UNDEFINED", -1},
    {"FLOAT", RLX_DTYPE_F32},
    {"UINT8", RLX_DTYPE_U8},
    {"INT8", RLX_DTYPE_I8},
    {"UINT16", RLX_DTYPE_U16},
    {"INT16", RLX_DTYPE_I16},
    {"INT32", RLX_DTYPE_I32},
    {"INT64", RLX_DTYPE_I64},
    {"STRING", -1},
    {"BOOL", RLX_DTYPE_BOOL},
    {"FLOAT16", RLX_DTYPE_F16},
    {"DOUBLE", RLX_DTYPE_F64},
    {"UINT32", RLX_DTYPE_U32},
    {"UINT64", RLX_DTYPE_U64},
    {"COMPLEX64", -1},
    {"COMPLEX128", -1},
    {"BFLOAT16", RLX_DTYPE_BF16},
    {"FLOAT8E4M3FN", RLX_DTYPE_F8E4M3FN},
    {"FLOAT8E4M3FNUZ", RLX_DTYPE_F8E4M3FNUZ},
    {"FLOAT8E5M2", RLX_DTYPE_F8E5M2},
    {"FLOAT8E5M2FNUZ", RLX_DTYPE_F8E5M2FNUZ},
    {"UINT4", RLX_DTYPE_U4},
    {"INT4", RLX_DTYPE_I4},
};
enum { TYPE_COUNT = sizeof types / sizeof *types, MOST_STRING_BYTES = 1 << 28 };

bool rlx_onnx_dtype(int64_t data_type, rlx_dtype *out_dtype) {
    if (data_type < 0 || data_type >= TYPE_COUNT || types[data_type].dtype < 0) return false;
    *out_dtype = (rlx_dtype)types[data_type].dtype;
    return true;
}

const char *rlx_onnx_type_name(int64_t data_type) {
    return data_type < 0 || data_type >= TYPE_COUNT ? "UNKNOWN" : types[data_type].name;
}

/* What the typed fields of a message hold, before it is clear how it is to be read. */
typedef struct typed_data {
    uint64_t varints;     /* numbers in int32_data, int64_data, uint64_data */
    uint64_t fixed_bytes; /* bytes in float_data, double_data */
    uint32_t chunks;
    const uint8_t *fixed;
} typed_data;

static uint64_t count_varints(const rlx_wire_field *field) {
    uint64_t count = 0;
    if (field->kind != RLX_WIRE_BYTES) return 1;
    for (uint64_t i = 0; i < field->bytes; i++)
        count += field->data[i] < 128;
    return count;
}

static rlx_status add_dims(const rlx_wire_field *field, rlx_onnx_tensor *tensor) {
    rlx_wire wire = rlx_wire_of(field);
    uint64_t count = count_varints(field), value = field->value;
    if (field->kind != RLX_WIRE_BYTES) RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
    for (uint64_t i = 0; i < count; i++) {
        if (field->kind == RLX_WIRE_BYTES) RLX_TRY(rlx_wire_varint(&wire, &value));
        if (tensor->shape.rank == RLX_MAX_RANK)
            return RLX_FAIL(RLX_UNSUPPORTED, "more than %d dims", RLX_MAX_RANK);
        if ((int64_t)value < 0)
            return RLX_FAIL(RLX_PARSE, "dim %u is %" PRId64, tensor->shape.rank, (int64_t)value);
        tensor->shape.dims[tensor->shape.rank++] = (int64_t)value;
    }
    return RLX_OK;
}

static rlx_status read_entry(rlx_onnx_reader *reader, rlx_wire wire, rlx_onnx_tensor *tensor,
                             uint64_t *length) {
    const char *key = "", *value = "";
    rlx_wire_field field;
    bool has = false;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        if (field.number == 1) RLX_TRY(rlx_onnx_name_of(reader, &field, &key));
        if (field.number == 2) RLX_TRY(rlx_onnx_name_of(reader, &field, &value));
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    if (strcmp(key, "location") == 0) {
        tensor->location = value;
    } else if (strcmp(key, "offset") == 0 || strcmp(key, "length") == 0) {
        char *end = NULL;
        unsigned long long number = strtoull(value, &end, 10);
        if (value[0] < '0' || value[0] > '9' || *end != 0 || number > INT64_MAX)
            return RLX_FAIL(RLX_PARSE, "external data: '%s' is no %s", value, key);
        *(key[0] == 'o' ? &tensor->location_offset : length) = number;
    }
    return RLX_OK;
}

static rlx_status scan_typed(const rlx_wire_field *field, typed_data *typed) {
    if (field->number == 4 || field->number == 10) {
        bool is_packed = field->kind == RLX_WIRE_BYTES;
        if (!is_packed)
            RLX_TRY(
                rlx_wire_expect(field, field->number == 4 ? RLX_WIRE_FIXED32 : RLX_WIRE_FIXED64));
        typed->fixed_bytes += is_packed ? field->bytes : field->number == 4 ? 4u : 8u;
        typed->chunks += is_packed ? 1 : 2; /* one by one is never a range of the file */
        typed->fixed = field->data;
        return RLX_OK;
    }
    if (field->kind != RLX_WIRE_BYTES) RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
    typed->varints += count_varints(field);
    return RLX_OK;
}

static rlx_status read_field(rlx_onnx_reader *reader, const rlx_wire_field *field,
                             rlx_onnx_tensor *tensor, typed_data *typed, uint64_t *length) {
    switch (field->number) {
    case 1:
        return add_dims(field, tensor);
    case 2:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_VARINT));
        tensor->data_type = (int32_t)field->value;
        return RLX_OK;
    case 4:
    case 5:
    case 7:
    case 10:
    case 11:
        return scan_typed(field, typed);
    case 6: {
        rlx_onnx_text *strings = NULL;
        if (tensor->string_count % 64 == 0) {
            RLX_TRY(rlx_scratch_array(reader->memory, tensor->string_count + 64u, sizeof *strings,
                                      (void **)&strings));
            if (tensor->string_count != 0)
                memcpy(strings, tensor->strings, tensor->string_count * sizeof *strings);
            tensor->strings = strings;
        }
        rlx_onnx_text text = {0};
        RLX_TRY(rlx_onnx_text_of(reader, field, &text));
        memcpy((char *)(uintptr_t)tensor->strings + tensor->string_count * sizeof text, &text,
               sizeof text);
        tensor->string_count++;
        return RLX_OK;
    }
    case 8:
        return rlx_onnx_name_of(reader, field, &tensor->name);
    case 9:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        tensor->data = field->data;
        tensor->bytes = field->bytes;
        tensor->file_offset = (uint64_t)(field->data - reader->base);
        return RLX_OK;
    case 13:
        RLX_TRY(rlx_wire_expect(field, RLX_WIRE_BYTES));
        return read_entry(reader, rlx_wire_of(field), tensor, length);
    default:
        return RLX_OK;
    }
}

/* Stores the low bytes of a number, as a little-endian machine has them. */
static void store(uint8_t *out, uint64_t value, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(value >> (8 * i));
}

/* Second pass: the numbers of fields 4, 5, 7, 10, 11 into memory of their own. */
static rlx_status copy_typed(rlx_wire wire, uint32_t element_bytes, uint8_t *out, uint64_t room) {
    rlx_wire_field field;
    bool has = false;
    uint64_t used = 0;
    RLX_TRY(rlx_wire_next(&wire, &field, &has));
    while (has) {
        bool is_fixed = field.number == 4 || field.number == 10;
        bool is_varint = field.number == 5 || field.number == 7 || field.number == 11;
        if (is_fixed && field.kind == RLX_WIRE_BYTES) {
            if (field.bytes > room - used) break;
            if (field.bytes != 0) memcpy(out + used, field.data, field.bytes);
            used += field.bytes;
        } else if (is_fixed || is_varint) {
            rlx_wire inner = rlx_wire_of(&field);
            uint64_t count = is_varint ? count_varints(&field) : 1, value = field.value;
            for (uint64_t i = 0; i < count && element_bytes <= room - used; i++) {
                if (field.kind == RLX_WIRE_BYTES) RLX_TRY(rlx_wire_varint(&inner, &value));
                store(out + used, value, element_bytes);
                used += element_bytes;
            }
        }
        RLX_TRY(rlx_wire_next(&wire, &field, &has));
    }
    return RLX_OK;
}

/* Finds or makes the bytes of a tensor whose numbers are in typed fields. */
static rlx_status take_typed(rlx_onnx_reader *reader, rlx_wire wire, const typed_data *typed,
                             uint64_t expected, rlx_onnx_tensor *tensor) {
    uint8_t *data = NULL;
    uint64_t bytes = typed->fixed_bytes;
    uint32_t element_bytes = rlx_dtype_block_bytes(tensor->dtype);
    if (typed->chunks == 1 && typed->varints == 0) {
        tensor->data = typed->fixed;
        tensor->bytes = typed->fixed_bytes;
        tensor->file_offset = (uint64_t)(typed->fixed - reader->base);
        return RLX_OK;
    }
    if (typed->varints > 0) bytes = typed->varints * element_bytes;
    if (bytes != expected) {
        tensor->bytes = bytes;
        return RLX_OK; /* refused by the caller, with both numbers */
    }
    RLX_TRY(rlx_scratch_alloc(reader->memory, bytes, (void **)&data));
    RLX_TRY(copy_typed(wire, element_bytes, data, bytes));
    tensor->data = data;
    tensor->bytes = bytes;
    return RLX_OK;
}

/* Strings become rows of bytes as long as the longest, filled up with zeros: u8 [..][bytes]. Where
 * that cannot be told apart (a zero inside) or is absurdly large, the type stays unknown. */
static rlx_status take_strings(rlx_onnx_reader *reader, rlx_onnx_tensor *tensor) {
    uint64_t longest = 1;
    uint8_t *rows = NULL;
    for (uint32_t i = 0; i < tensor->string_count; i++) {
        const rlx_onnx_text *text = &tensor->strings[i];
        if (strlen(text->data) != text->length) return RLX_OK;
        if (longest < text->length) longest = text->length;
    }
    if (tensor->shape.rank == RLX_MAX_RANK || longest > MOST_STRING_BYTES ||
        longest * tensor->string_count > MOST_STRING_BYTES) {
        return RLX_OK;
    }
    RLX_TRY(rlx_scratch_array(reader->memory, tensor->string_count + 1u, longest, (void **)&rows));
    for (uint32_t i = 0; i < tensor->string_count; i++)
        memcpy(rows + i * longest, tensor->strings[i].data, tensor->strings[i].length);
    tensor->shape.dims[tensor->shape.rank++] = (int64_t)longest;
    tensor->dtype = RLX_DTYPE_U8;
    tensor->is_known = true;
    tensor->data = rows;
    tensor->bytes = longest * tensor->string_count;
    return RLX_OK;
}

static rlx_status finish(rlx_onnx_reader *reader, rlx_wire wire, const typed_data *typed,
                         uint64_t length, rlx_onnx_tensor *tensor) {
    uint64_t expected = 0, elements = 0;
    tensor->is_string = rlx_onnx_is_string(tensor->data_type);
    tensor->is_known = rlx_onnx_dtype(tensor->data_type, &tensor->dtype);
    RLX_TRY(rlx_shape_elements(&tensor->shape, &elements));
    if (tensor->is_string) {
        if (tensor->string_count == elements) return take_strings(reader, tensor);
        return RLX_FAIL(RLX_PARSE, "%u strings for %" PRIu64 " elements", tensor->string_count,
                        elements);
    }
    if (!tensor->is_known) return RLX_OK; /* said where it is used */
    rlx_type type = rlx_type_make(tensor->dtype, tensor->shape.dims, tensor->shape.rank);
    RLX_TRY(rlx_type_bytes(&type, &expected));
    if (tensor->location != NULL) {
        tensor->bytes = length == UINT64_MAX ? expected : length;
    } else if (tensor->data == NULL) {
        RLX_TRY(take_typed(reader, wire, typed, expected, tensor));
    }
    if (tensor->bytes == expected) return RLX_OK;
    return RLX_FAIL(RLX_PARSE, "expected %" PRIu64 " bytes of data, got %" PRIu64, expected,
                    tensor->bytes);
}

rlx_status rlx_onnx_decode_tensor(rlx_onnx_reader *reader, rlx_wire wire,
                                  rlx_onnx_tensor *out_tensor) {
    rlx_onnx_tensor tensor = {.name = "", .file_offset = UINT64_MAX};
    typed_data typed = {0};
    uint64_t length = UINT64_MAX;
    rlx_wire rest = wire;
    rlx_wire_field field;
    bool has = false;
    RLX_TRY(rlx_wire_next(&rest, &field, &has));
    while (has) {
        RLX_TRY_WITH(read_field(reader, &field, &tensor, &typed, &length), "tensor '%s'",
                     tensor.name);
        RLX_TRY(rlx_wire_next(&rest, &field, &has));
    }
    RLX_TRY_WITH(finish(reader, wire, &typed, length, &tensor), "tensor '%s'", tensor.name);
    *out_tensor = tensor;
    return RLX_OK;
}

/* Plain components only: no root, no "..", nothing that other systems read as a separator. */
static bool stays_inside(const char *location) {
    if (location[0] == 0 || location[0] == '/' || strchr(location, '\\') != NULL) return false;
    for (const char *at = location; at != NULL;) {
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || at[2] == 0)) return false;
        at = strchr(at, '/');
        if (at != NULL) at++;
    }
    return true;
}

/* Links may lead out of the folder even where the path does not. */
static rlx_status check_links(const char *folder, const char *path, const char *location) {
    char real_folder[PATH_MAX], real_path[PATH_MAX];
    if (realpath(folder, real_folder) == NULL || realpath(path, real_path) == NULL)
        return RLX_FAIL(RLX_IO, "external data '%s' cannot be found", location);
    size_t length = strlen(real_folder);
    bool is_root = strcmp(real_folder, "/") == 0;
    if (is_root || (strncmp(real_path, real_folder, length) == 0 && real_path[length] == '/'))
        return RLX_OK;
    return RLX_FAIL(RLX_INVALID_GRAPH, "external data '%s' leads out of the model's folder",
                    location);
}

static rlx_status external_source(const rlx_onnx_model *model, const rlx_onnx_tensor *tensor,
                                  rlx_scratch *memory, rlx_source *out_source) {
    const char *slash = strrchr(model->path, '/'), *folder = NULL, *path = NULL;
    rlx_file_map map = {0};
    uint64_t end = 0;
    if (!stays_inside(tensor->location))
        return RLX_FAIL(RLX_INVALID_GRAPH, "external data '%s' is outside the model's folder",
                        tensor->location);
    RLX_TRY(rlx_scratch_printf(memory, &folder, "%.*s",
                               slash == NULL ? 1 : (int)(slash - model->path + 1),
                               slash == NULL ? "." : model->path));
    RLX_TRY(rlx_scratch_printf(memory, &path, "%s/%s", folder, tensor->location));
    RLX_TRY(check_links(folder, path, tensor->location));
    RLX_TRY(rlx_file_map_open(path, &map));
    uint64_t size = map.bytes;
    rlx_file_map_close(&map);
    if (!rlx_add_u64(tensor->location_offset, tensor->bytes, &end) || end > size)
        return RLX_FAIL(RLX_OUT_OF_BOUNDS,
                        "external data '%s': offset %" PRIu64 " + bytes %" PRIu64
                        " > file %" PRIu64,
                        tensor->location, tensor->location_offset, tensor->bytes, size);
    *out_source = (rlx_source){.kind = RLX_SOURCE_FILE,
                               .path = path,
                               .offset = tensor->location_offset,
                               .bytes = tensor->bytes};
    return RLX_OK;
}

rlx_status rlx_onnx_tensor_source(const rlx_onnx_model *model, const rlx_onnx_tensor *tensor,
                                  rlx_scratch *memory, rlx_source *out_source) {
    if (tensor->location != NULL) return external_source(model, tensor, memory, out_source);
    *out_source = tensor->file_offset == UINT64_MAX ? (rlx_source){.kind = RLX_SOURCE_MEMORY,
                                                                   .memory = tensor->data,
                                                                   .bytes = tensor->bytes}
                                                    : (rlx_source){.kind = RLX_SOURCE_FILE,
                                                                   .path = model->path,
                                                                   .offset = tensor->file_offset,
                                                                   .bytes = tensor->bytes};
    return RLX_OK;
}
