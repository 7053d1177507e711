/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders and encoders behind the dtype rows, one pair per dtype: `count` elements at any
 * alignment to and from f32. Only dtype.c and the codecs include this. */
#ifndef RLX_IR_DTYPE_CODEC_H
#define RLX_IR_DTYPE_CODEC_H

#include "ir/dtype.h"

#define RLX_DTYPE(upper, lower, block_elements, block_bytes, class)                  \
    void rlx_decode_##lower(float *destination, const void *source, uint64_t count); \
    void rlx_encode_##lower(void *destination, const float *source, uint64_t count);
#include <rlx/dtypes.def>
#undef RLX_DTYPE

/* The f32 side may be unaligned too. */
static inline float rlx_take_f32(const float *source, uint64_t index) {
    float value;
    memcpy(&value, (const char *)source + sizeof value * index, sizeof value);
    return value;
}

static inline void rlx_put_f32(float *destination, uint64_t index, float value) {
    memcpy((char *)destination + sizeof value * index, &value, sizeof value);
}

/* One element of a block type. */
float rlx_block_element(rlx_dtype dtype, const void *data, int64_t index);

/* Half to even for |value| < 2^51. Adding and subtracting 1.5 * 2^52 leaves no fraction bits;
 * unlike rint this becomes two vector instructions on every machine. */
static inline double rlx_round_even(double value) {
    return (value + 0x1.8p52) - 0x1.8p52;
}

#endif
