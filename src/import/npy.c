/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the headers of .npy files. A header is a Python dict with three known keys; the small
 * parser here takes exactly that. Everything in it is from outside. */
#include "import/npy.h"

#include "base/file.h"
#include "base/size.h"

enum { MAX_HEADER_BYTES = 1 << 20 };

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

typedef struct npy_cursor {
    const char *at, *end;
} npy_cursor;

typedef struct npy_header {
    rlx_npy_info info;
    bool has_descr, has_order, has_shape;
    bool is_fortran;
    int64_t string_bytes; /* 0: no strings */
} npy_header;

static rlx_status broken(const char *what) {
    return RLX_FAIL(RLX_PARSE, "not a .npy header: %s", what);
}

static void skip_blank(npy_cursor *cursor) {
    while (cursor->at < cursor->end &&
           (*cursor->at == ' ' || *cursor->at == '\n' || *cursor->at == '\t'))
        cursor->at++;
}

static bool accept(npy_cursor *cursor, char c) {
    skip_blank(cursor);
    if (cursor->at >= cursor->end || *cursor->at != c) return false;
    cursor->at++;
    return true;
}

/* 'text' or "text", without escapes, into `out`. */
static rlx_status read_string(npy_cursor *cursor, char *out, size_t bytes) {
    size_t used = 0;
    skip_blank(cursor);
    char quote = cursor->at < cursor->end ? *cursor->at : 0;
    if (quote != '\'' && quote != '"') return broken("expected a string");
    for (cursor->at++; cursor->at < cursor->end && *cursor->at != quote; cursor->at++) {
        if (used + 1 == bytes || *cursor->at == '\\') return broken("an unknown string");
        out[used++] = *cursor->at;
    }
    if (cursor->at == cursor->end) return broken("a string without end");
    cursor->at++;
    out[used] = 0;
    return RLX_OK;
}

/* "S9": strings of 9 bytes, filled up with zeros: bytes in one more axis. */
static rlx_status read_string_bytes(const char *digits, npy_header *out) {
    out->info.dtype = RLX_DTYPE_U8;
    out->string_bytes = 0;
    for (; *digits >= '0' && *digits <= '9'; digits++)
        out->string_bytes = out->string_bytes * 10 + (*digits - '0'); /* 13 digits at most */
    if (*digits != 0 || out->string_bytes == 0) return broken("strings without a length");
    return RLX_OK;
}

static rlx_status read_dtype(npy_cursor *cursor, npy_header *out) {
    static const struct {
        const char *code;
        rlx_dtype dtype;
    } rows[] = {
        {"f8", RLX_DTYPE_F64}, {"f4", RLX_DTYPE_F32}, {"f2", RLX_DTYPE_F16}, {"i8", RLX_DTYPE_I64},
        {"i4", RLX_DTYPE_I32}, {"i2", RLX_DTYPE_I16}, {"i1", RLX_DTYPE_I8},  {"u8", RLX_DTYPE_U64},
        {"u4", RLX_DTYPE_U32}, {"u2", RLX_DTYPE_U16}, {"u1", RLX_DTYPE_U8},  {"b1", RLX_DTYPE_BOOL},
        {"V2", RLX_DTYPE_U16}, {"V1", RLX_DTYPE_U8}, /* bf16 and f8 as extensions of numpy write
                                                        them */
    };
    char descr[16];
    RLX_TRY(read_string(cursor, descr, sizeof descr));
    char order = descr[0];
    if (descr[0] != 0 && descr[1] == 'S') return read_string_bytes(descr + 2, out);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (order == 0 || strcmp(descr + 1, rows[i].code) != 0) continue;
        bool is_one_byte = rows[i].code[1] == '1';
        if (order == '>' && !is_one_byte)
            return RLX_FAIL(RLX_UNSUPPORTED, "dtype '%s' is big-endian", descr);
        if (order != '<' && order != '|' && order != '=' && order != '>') break;
        out->info.dtype = rows[i].dtype;
        return RLX_OK;
    }
    return RLX_FAIL(RLX_UNSUPPORTED, "dtype '%s' of a .npy file is not known", descr);
}

static rlx_status read_order(npy_cursor *cursor, npy_header *out) {
    skip_blank(cursor);
    size_t left = (size_t)(cursor->end - cursor->at);
    if (left >= 4 && memcmp(cursor->at, "True", 4) == 0) {
        out->is_fortran = true;
        cursor->at += 4;
        return RLX_OK;
    }
    if (left >= 5 && memcmp(cursor->at, "False", 5) == 0) {
        cursor->at += 5;
        return RLX_OK;
    }
    return broken("fortran_order is neither True nor False");
}

static rlx_status read_dim(npy_cursor *cursor, int64_t *out_dim) {
    int64_t dim = 0;
    const char *start = cursor->at;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        if (!rlx_mul_i64(dim, 10, &dim) || !rlx_add_i64(dim, *cursor->at - '0', &dim))
            return broken("a dim of more than 63 bits");
        cursor->at++;
    }
    if (cursor->at == start) return broken("a dim that is no number");
    if (cursor->at < cursor->end && *cursor->at == 'L') cursor->at++; /* Python 2 */
    *out_dim = dim;
    return RLX_OK;
}

/* (), (3,), (3, 4) */
static rlx_status read_shape(npy_cursor *cursor, npy_header *out) {
    rlx_shape *shape = &out->info.shape;
    if (!accept(cursor, '(')) return broken("the shape is no tuple");
    while (!accept(cursor, ')')) {
        if (shape->rank == RLX_MAX_RANK)
            return RLX_FAIL(RLX_UNSUPPORTED, "more than %d dims", RLX_MAX_RANK);
        RLX_TRY(read_dim(cursor, &shape->dims[shape->rank]));
        shape->rank++;
        if (accept(cursor, ',')) continue;
        if (!accept(cursor, ')')) return broken("the shape has no end");
        break;
    }
    return RLX_OK;
}

static rlx_status read_entry(npy_cursor *cursor, npy_header *out) {
    char key[24];
    RLX_TRY(read_string(cursor, key, sizeof key));
    if (!accept(cursor, ':')) return broken("a key without value");
    if (strcmp(key, "descr") == 0 && !out->has_descr) {
        out->has_descr = true;
        return read_dtype(cursor, out);
    }
    if (strcmp(key, "fortran_order") == 0 && !out->has_order) {
        out->has_order = true;
        return read_order(cursor, out);
    }
    if (strcmp(key, "shape") == 0 && !out->has_shape) {
        out->has_shape = true;
        return read_shape(cursor, out);
    }
    return RLX_FAIL(RLX_PARSE, "not a .npy header: key '%s' is unknown or comes twice", key);
}

static rlx_status read_dict(npy_cursor *cursor, npy_header *out) {
    if (!accept(cursor, '{')) return broken("no dict");
    while (!accept(cursor, '}')) {
        RLX_TRY(read_entry(cursor, out));
        if (accept(cursor, ',')) continue;
        if (!accept(cursor, '}')) return broken("the dict has no end");
        break;
    }
    if (!out->has_descr || !out->has_order || !out->has_shape)
        return broken("descr, fortran_order or shape is missing");
    return RLX_OK;
}

/* Column-major is the same as row-major while at most one dim is not 1. */
static rlx_status check_order(const npy_header *header) {
    uint32_t long_dims = 0;
    for (uint32_t i = 0; i < header->info.shape.rank; i++)
        long_dims += header->info.shape.dims[i] != 1;
    if (!header->is_fortran || long_dims <= 1) return RLX_OK;
    return RLX_FAIL(RLX_UNSUPPORTED, "the array is column-major (fortran_order); save it with "
                                     "numpy.ascontiguousarray");
}

static rlx_status add_bytes_axis(npy_header *header) {
    rlx_shape *shape = &header->info.shape;
    if (header->string_bytes == 0) return RLX_OK;
    if (shape->rank == RLX_MAX_RANK)
        return RLX_FAIL(RLX_UNSUPPORTED, "strings in %d dims", RLX_MAX_RANK);
    shape->dims[shape->rank++] = header->string_bytes;
    return RLX_OK;
}

static rlx_status check_size(const npy_header *header, uint64_t file_bytes) {
    uint64_t available = file_bytes - header->info.offset, bytes = header->info.bytes;
    if (bytes <= available) return RLX_OK;
    rlx_status status =
        RLX_FAIL(RLX_IO, "the file is cut: expected %" PRIu64 " bytes of data, got %" PRIu64, bytes,
                 available);
    rlx_error_detail_edit()->expected = bytes;
    rlx_error_detail_edit()->got = available;
    return status;
}

/* Where the dict begins and how long it is. */
static rlx_status read_lengths(const uint8_t *data, uint64_t bytes, uint64_t *out_begin,
                               uint64_t *out_length) {
    if (bytes < 10 || memcmp(data, magic, sizeof magic) != 0) return broken("no magic number");
    if (data[6] < 1 || data[6] > 3)
        return RLX_FAIL(RLX_UNSUPPORTED, "version %u of the .npy format is not known", data[6]);
    *out_begin = data[6] == 1 ? 10 : 12;
    *out_length = (uint64_t)data[8] | (uint64_t)data[9] << 8;
    if (data[6] != 1) {
        if (bytes < 12) return broken("it ends before its length");
        *out_length |= (uint64_t)data[10] << 16 | (uint64_t)data[11] << 24;
    }
    if (*out_length > MAX_HEADER_BYTES)
        return RLX_FAIL(RLX_PARSE, "a .npy header of %" PRIu64 " bytes; at most %d", *out_length,
                        MAX_HEADER_BYTES);
    if (*out_length > bytes - *out_begin) return broken("it ends before its length");
    return RLX_OK;
}

rlx_status rlx_npy_parse(const uint8_t *data, uint64_t bytes, uint64_t file_bytes,
                         rlx_npy_info *out_info) {
    npy_header header = {0};
    uint64_t begin = 0, length = 0;
    RLX_TRY(read_lengths(data, bytes, &begin, &length));
    const char *text = (const char *)data + begin;
    npy_cursor cursor = {text, text + length};
    RLX_TRY(read_dict(&cursor, &header));
    RLX_TRY(check_order(&header));
    RLX_TRY(add_bytes_axis(&header));
    rlx_type type =
        rlx_type_make(header.info.dtype, header.info.shape.dims, header.info.shape.rank);
    RLX_TRY(rlx_type_bytes(&type, &header.info.bytes));
    header.info.offset = begin + length;
    RLX_TRY(check_size(&header, file_bytes));
    *out_info = header.info;
    return RLX_OK;
}

rlx_status rlx_npy_read_header(const char *path, rlx_npy_info *out_info) {
    rlx_file_map map = {0};
    if (path == NULL || out_info == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(rlx_file_map_open(path, &map));
    rlx_status status = rlx_npy_parse(map.data, map.bytes, map.bytes, out_info);
    rlx_file_map_close(&map);
    return status == RLX_OK ? RLX_OK : rlx_fail_context(status, "%s", path);
}

rlx_status rlx_npy_holds(const rlx_npy_info *info, const rlx_type *type) {
    uint32_t block = rlx_dtype_block_elements(type->dtype);
    uint64_t bytes = 0;
    RLX_TRY(rlx_type_bytes(type, &bytes));
    bool is_same = info->dtype == type->dtype && rlx_shape_equal(&info->shape, &type->shape);
    bool is_raw = false;
    if (block > 1) { /* packed: any u8 array of as many bytes */
        is_raw = info->dtype == RLX_DTYPE_U8;
    } else if (type->dtype == RLX_DTYPE_BF16) {
        is_raw = info->dtype == RLX_DTYPE_U16 && rlx_shape_equal(&info->shape, &type->shape);
    } else if (type->dtype >= RLX_DTYPE_F8E4M3FN && type->dtype <= RLX_DTYPE_F8E5M2FNUZ) {
        is_raw = info->dtype == RLX_DTYPE_U8 && rlx_shape_equal(&info->shape, &type->shape);
    }
    if ((is_same || is_raw) && info->bytes == bytes) return RLX_OK;
    char expected[128], got[128];
    rlx_type file = rlx_type_make(info->dtype, info->shape.dims, info->shape.rank);
    rlx_status status = RLX_FAIL(RLX_MISMATCH, "expected %s (%" PRIu64 " bytes), the file has %s",
                                 rlx_type_text(NULL, type, expected, sizeof expected), bytes,
                                 rlx_type_text(NULL, &file, got, sizeof got));
    rlx_error_detail_edit()->expected = bytes;
    rlx_error_detail_edit()->got = info->bytes;
    return status;
}
