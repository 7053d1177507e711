/* SPDX-License-Identifier: Apache-2.0 */
/* Sources of parameters: memory, files and seeds. Knows no graph and no importer. */
#include "ir/source.h"

#include "base/file.h"
#include "base/size.h"
#include "base/thread.h"
#include "ir/dtype.h"

enum { CHUNK = 256 }; /* a multiple of every block */

/* The finaliser of splitmix64: every bit of the input changes half of the output. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Uniform in [-1, 1), a multiple of 2^-52: exact in a double. */
static double uniform(uint64_t key, uint64_t index) {
    uint64_t bits = mix(key + (index + 1) * UINT64_C(0x9e3779b97f4a7c15));
    return (double)(bits >> 11) * 0x1p-52 - 1.0;
}

static void fill_by_element(uint64_t key, double mean, double scale, rlx_dtype dtype,
                            uint64_t first, uint64_t count, void *out) {
    for (uint64_t i = 0; i < count; i++)
        rlx_store_f64(dtype, out, (int64_t)i, mean + scale * uniform(key, first + i));
}

/* Through f32, which every small float and block type is encoded from. */
static void fill_by_chunk(uint64_t key, double mean, double scale, const rlx_dtype_row *row,
                          uint64_t first, uint64_t count, unsigned char *out) {
    float values[CHUNK];
    for (uint64_t done = 0; done < count;) {
        uint64_t part = count - done < CHUNK ? count - done : CHUNK;
        for (uint64_t i = 0; i < part; i++)
            values[i] = (float)(mean + scale * uniform(key, first + done + i));
        row->encode(out, values, part);
        out += part / row->block_elements * row->block_bytes;
        done += part;
    }
}

static rlx_status check_blocks(const rlx_dtype_row *row, uint64_t first, uint64_t count) {
    if (row == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "no dtype");
    /* A 4-bit type may end in the middle of a byte. */
    bool may_be_cut = row->class_ != RLX_CLASS_BLOCK;
    if (first % row->block_elements == 0 && (may_be_cut || count % row->block_elements == 0))
        return RLX_OK;
    return RLX_FAIL(RLX_INVALID_ARGUMENT,
                    "elements [%" PRIu64 ", +%" PRIu64 ") of %s are not whole blocks of %u", first,
                    count, row->name, row->block_elements);
}

rlx_status rlx_source_fill_seeded(uint64_t seed, double mean, double scale, rlx_dtype dtype,
                                  uint64_t first, uint64_t count, void *out) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    uint64_t key = mix(seed + UINT64_C(0x9e3779b97f4a7c15));
    if (row == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "no dtype");
    if (row->class_ == RLX_CLASS_BLOCK) RLX_TRY(check_blocks(row, first, count));
    bool is_small_float = row->class_ == RLX_CLASS_FLOAT && dtype != RLX_DTYPE_F64;
    rlx_fp_mode saved = rlx_fp_mode_enter(); /* the same numbers whatever the caller's rounding */
    if (is_small_float || row->class_ == RLX_CLASS_BLOCK) {
        fill_by_chunk(key, mean, scale, row, first, count, out);
    } else {
        fill_by_element(key, mean, scale, dtype, first, count, out);
    }
    rlx_fp_mode_leave(saved);
    return RLX_OK;
}

/* The byte range of the elements in the source, which ends at source->bytes. */
static rlx_status byte_range(const rlx_source *source, rlx_dtype dtype, uint64_t first,
                             uint64_t count, uint64_t *out_begin, uint64_t *out_bytes) {
    uint64_t end = 0;
    RLX_TRY(rlx_dtype_bytes(dtype, first, out_begin));
    RLX_TRY(rlx_dtype_bytes(dtype, count, out_bytes));
    if (rlx_add_u64(*out_begin, *out_bytes, &end) && end <= source->bytes) return RLX_OK;
    rlx_status status =
        RLX_FAIL(RLX_OUT_OF_BOUNDS, "offset %" PRIu64 " + bytes %" PRIu64 " > source %" PRIu64,
                 *out_begin, *out_bytes, source->bytes);
    rlx_error_detail_edit()->offset = *out_begin;
    rlx_error_detail_edit()->bytes = *out_bytes;
    rlx_error_detail_edit()->limit = source->bytes;
    return status;
}

rlx_status rlx_source_read(const rlx_source *source, rlx_dtype dtype, uint64_t first,
                           uint64_t count, void *out) {
    uint64_t begin = 0, bytes = 0, offset = 0;
    RLX_TRY(check_blocks(rlx_dtype_row_of(dtype), first, count));
    switch (source->kind) {
    case RLX_SOURCE_MEMORY:
        RLX_TRY(byte_range(source, dtype, first, count, &begin, &bytes));
        if (bytes != 0) memcpy(out, (const char *)source->memory + begin, bytes);
        return RLX_OK;
    case RLX_SOURCE_FILE:
        RLX_TRY(byte_range(source, dtype, first, count, &begin, &bytes));
        if (!rlx_add_u64(source->offset, begin, &offset))
            return RLX_FAIL(RLX_OUT_OF_BOUNDS, "offset %" PRIu64 " + %" PRIu64 " wraps",
                            source->offset, begin);
        return rlx_file_read_range(source->path, offset, bytes, out);
    case RLX_SOURCE_SEEDED:
        return rlx_source_fill_seeded(source->seed, source->mean, source->scale, dtype, first,
                                      count, out);
    case RLX_SOURCE_NONE:
        break;
    }
    return RLX_FAIL(RLX_INVALID_ARGUMENT, "the source has no data yet");
}

/* `map`: the file behind the source; its pages are given back on the way, or those of a large file
 * would be memory of ours. */
enum { FORGET_BYTES = 4 << 20 };
static rlx_status read_rows(const rlx_source *source, rlx_dtype dtype,
                            const rlx_source_window *window, uint64_t row_bytes,
                            const rlx_file_map *map, uint8_t *out) {
    uint64_t passed = 0, step_bytes = 0;
    RLX_TRY(rlx_dtype_bytes(dtype, window->row, &step_bytes));
    for (uint64_t i = 0; window->count != 0 && i < window->rows; i++) {
        RLX_TRY(rlx_source_read(source, dtype, i * window->row + window->first, window->count,
                                out + i * row_bytes));
        passed += step_bytes;
        if (map == NULL || passed < FORGET_BYTES) continue;
        rlx_file_map_forget(map);
        passed = 0;
    }
    return RLX_OK;
}

static rlx_status check_window(const rlx_source_window *window) {
    uint64_t elements;
    if (window->count <= window->width && window->first <= window->row &&
        window->count <= window->row - window->first &&
        rlx_mul_u64(window->rows, window->row, &elements) &&
        rlx_mul_u64(window->rows, window->width, &elements)) {
        return RLX_OK;
    }
    return RLX_FAIL(RLX_INVALID_ARGUMENT,
                    "elements [%" PRIu64 ", +%" PRIu64 ") of rows of %" PRIu64
                    " do not fit rows of %" PRIu64,
                    window->first, window->count, window->row, window->width);
}

rlx_status rlx_source_read_window(const rlx_source *source, rlx_dtype dtype,
                                  const rlx_source_window *window, void *out) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    uint64_t row_bytes = 0;
    RLX_TRY(check_window(window));
    RLX_TRY(check_blocks(row, window->row, window->width));
    RLX_TRY(check_blocks(row, window->first, window->count));
    RLX_TRY(rlx_dtype_bytes(dtype, window->width, &row_bytes));
    if (window->rows * row_bytes != 0) memset(out, 0, (size_t)(window->rows * row_bytes));
    if (source->kind != RLX_SOURCE_FILE || window->rows == 1)
        return read_rows(source, dtype, window, row_bytes, NULL, out);
    /* Mapped, so that many short rows are no system calls, and only their pages are read. */
    rlx_file_map map = {0};
    RLX_TRY(rlx_file_map_open(source->path, &map));
    rlx_source mapped = {.kind = RLX_SOURCE_MEMORY, .bytes = source->bytes};
    rlx_status status = RLX_OK;
    if (source->offset > map.bytes || source->bytes > map.bytes - source->offset) {
        status =
            RLX_FAIL(RLX_IO, "%s: %" PRIu64 " bytes at %" PRIu64 " end past the file's %" PRIu64,
                     source->path, source->bytes, source->offset, map.bytes);
    } else {
        mapped.memory = map.data == NULL ? NULL : map.data + source->offset;
        status = read_rows(&mapped, dtype, window, row_bytes, &map, out);
    }
    rlx_file_map_close(&map);
    return status;
}
