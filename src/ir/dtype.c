/* SPDX-License-Identifier: Apache-2.0 */
/* The table of dtype rows, the public conversions on raw memory, and access to single elements.
 * Stands at the bottom of the first waist; knows nothing of tensors or graphs. */
#include "base/cpu.h"
#include "base/size.h"
#include "base/thread.h"
#include "ir/dtype_codec.h"

#include <math.h>

static const rlx_dtype_row rows[RLX_DTYPE_COUNT] = {
#define RLX_DTYPE(upper, lower, block_elements, block_bytes, class) \
    {#lower,                                                        \
     block_elements,                                                \
     block_bytes,                                                   \
     RLX_CLASS_##class,                                             \
     rlx_decode_##lower,                                            \
     rlx_encode_##lower},
#include <rlx/dtypes.def>
#undef RLX_DTYPE
};

const rlx_dtype_row *rlx_dtype_row_of(rlx_dtype dtype) {
    return (uint32_t)dtype < RLX_DTYPE_COUNT ? &rows[dtype] : NULL;
}

#ifdef RLX_CODEC_AVX2
/* Block types have no codecs of their own. */
#define AVX2_FLOAT    _avx2
#define AVX2_SIGNED   _avx2
#define AVX2_UNSIGNED _avx2
#define AVX2_BOOL     _avx2
#define AVX2_BLOCK
#define JOIN_EXPANDED(a, b) a##b
#define JOIN(a, b)          JOIN_EXPANDED(a, b)
static const rlx_dtype_codec avx2_codecs[RLX_DTYPE_COUNT] = {
#define RLX_DTYPE(upper, lower, block_elements, block_bytes, class) \
    {JOIN(rlx_decode_##lower, AVX2_##class), JOIN(rlx_encode_##lower, AVX2_##class)},
#include <rlx/dtypes.def>
#undef RLX_DTYPE
};
#endif

rlx_dtype_codec rlx_dtype_codec_for(rlx_dtype dtype, uint32_t cpu_flags) {
#ifdef RLX_CODEC_AVX2
    const uint32_t needed = RLX_CPU_AVX2 | RLX_CPU_F16C;
    if ((cpu_flags & needed) == needed) return avx2_codecs[dtype];
#endif
    (void)cpu_flags;
    return (rlx_dtype_codec){rows[dtype].decode, rows[dtype].encode};
}

const char *rlx_dtype_name(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL ? row->name : "?";
}

rlx_status rlx_dtype_from_name(const char *name, rlx_dtype *out_dtype) {
    if (name == NULL || out_dtype == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    for (uint32_t i = 0; i < RLX_DTYPE_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out_dtype = (rlx_dtype)i;
            return RLX_OK;
        }
    }
    return RLX_FAIL(RLX_NOT_FOUND, "no dtype is named '%s'", name);
}

uint32_t rlx_dtype_block_elements(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL ? row->block_elements : 0;
}

uint32_t rlx_dtype_block_bytes(rlx_dtype dtype) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    return row != NULL ? row->block_bytes : 0;
}

static rlx_status row_checked(rlx_dtype dtype, const rlx_dtype_row **out_row) {
    *out_row = rlx_dtype_row_of(dtype);
    if (*out_row == NULL)
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "no dtype has number %d", (int)dtype);
    return RLX_OK;
}

rlx_status rlx_dtype_bytes(rlx_dtype dtype, uint64_t count, uint64_t *out_bytes) {
    const rlx_dtype_row *row;
    uint64_t bytes;
    if (out_bytes == NULL) return RLX_FAIL(RLX_INVALID_ARGUMENT, "null");
    RLX_TRY(row_checked(dtype, &row));
    uint64_t blocks = count / row->block_elements + (count % row->block_elements != 0);
    if (!rlx_mul_u64(blocks, row->block_bytes, &bytes)) {
        return RLX_FAIL(RLX_OUT_OF_BOUNDS, "%" PRIu64 " elements of %s have more than 2^64 bytes",
                        count, row->name);
    }
    *out_bytes = bytes;
    return RLX_OK;
}

/* Common to both directions: a dtype, memory unless nothing is to be done, whole blocks. */
static rlx_status check_conversion(rlx_dtype dtype, const void *destination, const void *source,
                                   uint64_t count, const rlx_dtype_row **out_row) {
    RLX_TRY(row_checked(dtype, out_row));
    if (count != 0 && (destination == NULL || source == NULL)) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT, "null memory for %" PRIu64 " elements", count);
    }
    const rlx_dtype_row *row = *out_row;
    if (row->class_ == RLX_CLASS_BLOCK && count % row->block_elements != 0) {
        return RLX_FAIL(RLX_INVALID_ARGUMENT,
                        "%" PRIu64 " elements are not whole %s blocks of %" PRIu32, count,
                        row->name, row->block_elements);
    }
    return RLX_OK;
}

rlx_status rlx_convert_from_f32(rlx_dtype dtype, void *destination, const float *source,
                                uint64_t count) {
    const rlx_dtype_row *row;
    RLX_TRY(check_conversion(dtype, destination, source, count, &row));
    rlx_fp_mode saved = rlx_fp_mode_enter(); /* to nearest even, whatever the caller's rounding */
    if (count != 0) rlx_dtype_codec_for(dtype, rlx_cpu_flags()).encode(destination, source, count);
    rlx_fp_mode_leave(saved);
    return RLX_OK;
}

rlx_status rlx_convert_to_f32(rlx_dtype dtype, float *destination, const void *source,
                              uint64_t count) {
    const rlx_dtype_row *row;
    RLX_TRY(check_conversion(dtype, destination, source, count, &row));
    rlx_fp_mode saved = rlx_fp_mode_enter();
    if (count != 0) rlx_dtype_codec_for(dtype, rlx_cpu_flags()).decode(destination, source, count);
    rlx_fp_mode_leave(saved);
    return RLX_OK;
}

/* Address of an element of a type with one element per block. */
static const unsigned char *at(const void *data, int64_t index, uint32_t bytes) {
    return (const unsigned char *)data + index * (int64_t)bytes;
}

#define LOAD(type)                                                      \
    do {                                                                \
        type value_;                                                    \
        memcpy(&value_, at(data, index, sizeof value_), sizeof value_); \
        return (int64_t)value_;                                         \
    } while (0)

/* Shifts, not divisions: a view that runs backwards has negative indices. */
static int64_t load_nibble(const void *data, int64_t index, bool is_signed) {
    uint8_t pair = ((const uint8_t *)data)[index >> 1];
    int64_t nibble = (pair >> (4 * (index & 1))) & 0xf;
    return is_signed && nibble >= 8 ? nibble - 16 : nibble;
}

int64_t rlx_load_i64(rlx_dtype dtype, const void *data, int64_t index) {
    switch (dtype) {
    case RLX_DTYPE_I8:
        LOAD(int8_t);
    case RLX_DTYPE_I16:
        LOAD(int16_t);
    case RLX_DTYPE_I32:
        LOAD(int32_t);
    case RLX_DTYPE_I64:
        LOAD(int64_t);
    case RLX_DTYPE_U8:
        LOAD(uint8_t);
    case RLX_DTYPE_U16:
        LOAD(uint16_t);
    case RLX_DTYPE_U32:
        LOAD(uint32_t);
    case RLX_DTYPE_U64:
        LOAD(uint64_t);
    case RLX_DTYPE_BOOL:
        return *at(data, index, 1) != 0;
    case RLX_DTYPE_I4:
        return load_nibble(data, index, true);
    case RLX_DTYPE_U4:
        return load_nibble(data, index, false);
    default:
        return 0;
    }
}
#undef LOAD

double rlx_load_f64(rlx_dtype dtype, const void *data, int64_t index) {
    const rlx_dtype_row *row = &rows[dtype];
    double wide;
    float value;
    switch (row->class_) {
    case RLX_CLASS_FLOAT:
        if (dtype == RLX_DTYPE_F64) {
            memcpy(&wide, at(data, index, 8), 8);
            return wide;
        }
        row->decode(&value, at(data, index, row->block_bytes), 1);
        return (double)value;
    case RLX_CLASS_BLOCK:
        return (double)rlx_block_element(dtype, data, index);
    default:
        if (dtype == RLX_DTYPE_U64) return (double)(uint64_t)rlx_load_i64(dtype, data, index);
        return (double)rlx_load_i64(dtype, data, index);
    }
}

void rlx_store_i64(rlx_dtype dtype, void *data, int64_t index, int64_t value) {
    unsigned char *bytes = data;
    uint64_t bits = (uint64_t)value;
    if (dtype == RLX_DTYPE_I4 || dtype == RLX_DTYPE_U4) {
        uint32_t shift = (uint32_t)(4 * (index & 1));
        uint32_t kept = bytes[index >> 1] & (0xf0u >> shift);
        bytes[index >> 1] = (uint8_t)(kept | (uint32_t)(bits & 0xf) << shift);
        return;
    }
    if (dtype == RLX_DTYPE_BOOL) bits = bits != 0;
    switch (rows[dtype].block_bytes) {
    case 1:
        bytes[index] = (uint8_t)bits;
        return;
    case 2:
        memcpy(bytes + 2 * index, &(uint16_t){(uint16_t)bits}, 2);
        return;
    case 4:
        memcpy(bytes + 4 * index, &(uint32_t){(uint32_t)bits}, 4);
        return;
    default:
        memcpy(bytes + 8 * index, &bits, 8);
        return;
    }
}

/* Rounds half to even and saturates to the range of an integer type; NaN gives 0. */
static int64_t round_to_integer(rlx_dtype dtype, double value) {
    const rlx_dtype_row *row = &rows[dtype];
    uint32_t bits = 8 * row->block_bytes / row->block_elements;
    bool is_signed = row->class_ == RLX_CLASS_SIGNED;
    if (value != value) return 0;
    double rounded = rint(value);
    if (is_signed) {
        double limit = (double)(UINT64_C(1) << (bits - 1));
        if (rounded >= limit) return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
        if (rounded < -limit) return -(int64_t)((UINT64_C(1) << (bits - 1)) - 1) - 1;
        return (int64_t)rounded;
    }
    uint64_t most = UINT64_MAX >> (64 - bits);
    if (!(rounded > 0)) return 0;
    if (rounded >= (double)(most / 2 + 1) * 2) return (int64_t)most;
    return (int64_t)(uint64_t)rounded;
}

void rlx_store_f64(rlx_dtype dtype, void *data, int64_t index, double value) {
    const rlx_dtype_row *row = &rows[dtype];
    unsigned char *bytes = data;
    float narrow;
    switch (row->class_) {
    case RLX_CLASS_FLOAT:
        bytes += index * (int64_t)row->block_bytes;
        if (dtype == RLX_DTYPE_F64) {
            memcpy(bytes, &value, 8);
            return;
        }
        narrow = dtype == RLX_DTYPE_F32 ? (float)value : rlx_f64_to_f32_odd(value);
        row->encode(bytes, &narrow, 1);
        return;
    case RLX_CLASS_BOOL:
        bytes[index] = value != 0;
        return;
    case RLX_CLASS_BLOCK:
        RLX_ASSERT(false && "single elements of a block type cannot be written");
        return;
    default:
        rlx_store_i64(dtype, data, index, round_to_integer(dtype, value));
    }
}
