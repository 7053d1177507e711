/* SPDX-License-Identifier: Apache-2.0 */
/* Element types and the conversions between them and f32 on raw memory. */
#ifndef RLX_DTYPE_H
#define RLX_DTYPE_H

#include <rlx/base.h>

RLX_BEGIN_DECLS

typedef enum rlx_dtype {
#define RLX_DTYPE(upper, lower, block_elements, block_bytes, class) RLX_DTYPE_##upper,
#include <rlx/dtypes.def>
#undef RLX_DTYPE
    RLX_DTYPE_COUNT
} rlx_dtype;

/* "f32", or "?" for a number that is no dtype. */
RLX_API const char *rlx_dtype_name(rlx_dtype dtype);

/* The dtype of that name; RLX_NOT_FOUND. */
RLX_CALL rlx_status rlx_dtype_from_name(const char *name, rlx_dtype *out_dtype);

/* Elements and bytes of one block: (1, 4) for f32, (2, 1) for i4, (32, 34) for q8_0; 0 for a number
 * that is no dtype. */
RLX_API uint32_t rlx_dtype_block_elements(rlx_dtype dtype);
RLX_API uint32_t rlx_dtype_block_bytes(rlx_dtype dtype);

/* Bytes of `count` elements; the last block counts whole. RLX_OUT_OF_BOUNDS when it would wrap. */
RLX_CALL rlx_status rlx_dtype_bytes(rlx_dtype dtype, uint64_t count, uint64_t *out_bytes);

/* Converts `count` elements from f32 into `dtype`, and back. Any alignment; the two ranges do not
 * overlap. The same bits on every processor, whatever instructions it has. Round to nearest even;
 * NaN stays NaN (integers: 0; bool: 1); integer targets saturate; bool is 0/1, x != 0. Too large
 * for f16, bf16 or f8e5m2 gives infinity; the f8 kinds without infinity (fn, fnuz) saturate to
 * their largest number, infinity included; fnuz has one NaN (0x80) and no -0. Of a block type,
 * `count` is a multiple of the block, except for 4-bit types (low nibble first), whose last nibble
 * may be missing (it is left alone). RLX_INVALID_ARGUMENT otherwise, and nothing is written. */
RLX_CALL rlx_status rlx_convert_from_f32(rlx_dtype dtype, void *destination, const float *source,
                                         uint64_t count);
RLX_CALL rlx_status rlx_convert_to_f32(rlx_dtype dtype, float *destination, const void *source,
                                       uint64_t count);

RLX_END_DECLS

#endif
