/* SPDX-License-Identifier: Apache-2.0 */
/* Dtype rows: how elements of each type are read and written. */
#ifndef RLX_IR_DTYPE_H
#define RLX_IR_DTYPE_H

#include "base/status.h"

#include <rlx/dtype.h>

#include <string.h>

typedef enum rlx_dtype_class {
    RLX_CLASS_FLOAT,
    RLX_CLASS_SIGNED,
    RLX_CLASS_UNSIGNED,
    RLX_CLASS_BOOL,
    RLX_CLASS_BLOCK
} rlx_dtype_class;

typedef struct rlx_dtype_row {
    const char *name;
    uint32_t block_elements, block_bytes;
    rlx_dtype_class class_;
    /* `count` elements (whole blocks) at any alignment, to and from f32, on any processor. */
    void (*decode)(float *destination, const void *source, uint64_t count);
    void (*encode)(void *destination, const float *source, uint64_t count);
} rlx_dtype_row;

/* NULL for a number that is no dtype. */
const rlx_dtype_row *rlx_dtype_row_of(rlx_dtype dtype);

/* The same pair for a processor with these rlx_cpu_flag bits: faster, the same bits. */
typedef struct rlx_dtype_codec {
    void (*decode)(float *destination, const void *source, uint64_t count);
    void (*encode)(void *destination, const float *source, uint64_t count);
} rlx_dtype_codec;
rlx_dtype_codec rlx_dtype_codec_for(rlx_dtype dtype, uint32_t cpu_flags);

/* Scalar conversions, exact or round to nearest even. */
float rlx_f16_to_f32(uint16_t bits);
uint16_t rlx_f32_to_f16(float value);
static inline float rlx_bf16_to_f32(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}
uint16_t rlx_f32_to_bf16(float value);
float rlx_f8_to_f32(rlx_dtype dtype, uint8_t bits);
uint8_t rlx_f32_to_f8(rlx_dtype dtype, float value);

/* f64 to f32 in round-to-odd: rounding the result once more, to a type at least two bits narrower,
 * gives the same as rounding the f64 directly. */
float rlx_f64_to_f32_odd(double value);

/* One element by its index, for scalar code. Floats and blocks load as double (exact), signed as
 * i64, unsigned and bool as u64. Stores round to nearest even and wrap integers to their width. */
double rlx_load_f64(rlx_dtype dtype, const void *data, int64_t index);  /* any dtype */
int64_t rlx_load_i64(rlx_dtype dtype, const void *data, int64_t index); /* integers, bool */
void rlx_store_f64(rlx_dtype dtype, void *data, int64_t index,
                   double value); /* floats; integers saturate */
void rlx_store_i64(rlx_dtype dtype, void *data, int64_t index,
                   int64_t value); /* integers, bool: wraps */

#endif
