/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders and encoders behind the dtype rows, one pair per dtype and instruction set: `count`
 * elements at any alignment to and from f32. Only dtype.c and the codecs include this. */
#ifndef RLX_IR_DTYPE_CODEC_H
#define RLX_IR_DTYPE_CODEC_H

#include "ir/dtype.h"

#define RLX_DTYPE(upper, lower, block_elements, block_bytes, class)                  \
    void rlx_decode_##lower(float *destination, const void *source, uint64_t count); \
    void rlx_encode_##lower(void *destination, const float *source, uint64_t count);
#include <rlx/dtypes.def>
#undef RLX_DTYPE

#ifdef RLX_CODEC_AVX2 /* from the build, where dtype_avx2.c is part of it; not for block types */
#define RLX_DTYPE(upper, lower, block_elements, block_bytes, class)                         \
    void rlx_decode_##lower##_avx2(float *destination, const void *source, uint64_t count); \
    void rlx_encode_##lower##_avx2(void *destination, const float *source, uint64_t count);
#include <rlx/dtypes.def>
#undef RLX_DTYPE
#endif

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

#endif
