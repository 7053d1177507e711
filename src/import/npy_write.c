/* SPDX-License-Identifier: Apache-2.0 */
/* Writing .npy files: a header of format 1, padded so that the data begins at a multiple of 64. */
#include "base/file.h"
#include "base/text.h"
#include "import/npy.h"

static const char *descr_of(rlx_dtype dtype) {
    switch (dtype) {
    case RLX_DTYPE_F64:
        return "<f8";
    case RLX_DTYPE_F32:
        return "<f4";
    case RLX_DTYPE_F16:
        return "<f2";
    case RLX_DTYPE_BF16:
    case RLX_DTYPE_U16:
        return "<u2";
    case RLX_DTYPE_I8:
        return "|i1";
    case RLX_DTYPE_I16:
        return "<i2";
    case RLX_DTYPE_I32:
        return "<i4";
    case RLX_DTYPE_I64:
        return "<i8";
    case RLX_DTYPE_U32:
        return "<u4";
    case RLX_DTYPE_U64:
        return "<u8";
    case RLX_DTYPE_BOOL:
        return "|b1";
    default: /* u8, and the raw bytes of everything that numpy does not have */
        return "|u1";
    }
}

/* Magic, version, length and dict in one text. */
static rlx_status make_header(const rlx_type *type, uint64_t bytes, rlx_text *text) {
    static const char start[10] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    rlx_text_append(text, start, sizeof start);
    rlx_text_printf(text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                    descr_of(type->dtype));
    if (rlx_dtype_block_elements(type->dtype) > 1) {
        rlx_text_printf(text, "%" PRIu64 ",", bytes);
    } else {
        for (uint32_t i = 0; i < type->shape.rank; i++)
            rlx_text_printf(text, "%s%" PRId64 "%s", i > 0 ? " " : "", type->shape.dims[i],
                            i + 1 < type->shape.rank || i == 0 ? "," : "");
    }
    rlx_text_append(text, "), }", 4);
    while (text->status == RLX_OK && (text->length + 1) % 64 != 0)
        rlx_text_append(text, " ", 1);
    rlx_text_append(text, "\n", 1);
    if (text->status != RLX_OK) return text->status;
    size_t length = text->length - sizeof start;
    text->data[8] = (char)(length & 0xff);
    text->data[9] = (char)(length >> 8);
    return RLX_OK;
}

static rlx_status write_file(const char *path, const rlx_text *header, const void *data,
                             uint64_t bytes) {
    rlx_file_writer *writer = NULL;
    RLX_TRY(rlx_file_writer_open(NULL, path, &writer));
    rlx_status status = rlx_file_writer_append(writer, header->data, header->length);
    if (status == RLX_OK) status = rlx_file_writer_append(writer, data, bytes);
    if (status == RLX_OK) return rlx_file_writer_commit(writer);
    rlx_file_writer_abandon(writer);
    return status;
}

rlx_status rlx_npy_write(const char *path, rlx_dtype dtype, const rlx_shape *shape,
                         const void *data, uint64_t bytes) {
    uint64_t expected = 0;
    rlx_text header = {0};
    if (path == NULL || shape == NULL || (data == NULL && bytes != 0))
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    if (shape->rank > RLX_MAX_RANK)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "%s: rank %u is more than %d", path, shape->rank,
                        RLX_MAX_RANK);
    rlx_type type = rlx_type_make(dtype, shape->dims, shape->rank);
    RLX_TRY_WITH(rlx_type_bytes(&type, &expected), "%s", path);
    if (bytes != expected)
        return RLX_FAIL(RLX_LENGTH_MISMATCH, "%s: expected %" PRIu64 " bytes, got %" PRIu64, path,
                        expected, bytes);
    rlx_status status = make_header(&type, bytes, &header);
    if (status == RLX_OK) status = write_file(path, &header, data, bytes);
    rlx_text_free(&header);
    return status;
}
