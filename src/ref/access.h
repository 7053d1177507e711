/* SPDX-License-Identifier: Apache-2.0 */
/* How scalar kernels reach elements: offsets from indices, and runs of elements as f32 or f64. */
#ifndef RLX_REF_ACCESS_H
#define RLX_REF_ACCESS_H

#include "base/size.h"
#include "ir/dtype.h"
#include "ir/tensor.h"

/* The strides of `tensor` when it is broadcast (numpy rules, right-aligned) to `rank` axes: 0 where
 * its dim is 1 or missing. A tensor without data has all strides 0. */
void rlx_ref_broadcast_strides(const rlx_tensor *tensor, uint32_t rank, int64_t *strides);

/* The offset, in elements, of the row-major number `index` among `dims`. */
static inline int64_t rlx_ref_offset(uint32_t rank, const int64_t *dims, const int64_t *strides,
                                     int64_t index) {
    int64_t offset = 0;
    for (uint32_t i = rank; i-- > 0;) {
        if (dims[i] == 0) return 0;
        offset += index % dims[i] * strides[i];
        index /= dims[i];
    }
    return offset;
}

/* `count` elements from element `offset` on, `stride` elements apart. Of block types offset and
 * count are whole blocks and the stride is 1. */
void rlx_ref_read_f32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      float *out);
void rlx_ref_read_f64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      double *out);
void rlx_ref_write_f32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const float *values);
void rlx_ref_write_f64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const double *values);

/* Rounds to a float dtype and back. */
double rlx_ref_round_to(rlx_dtype dtype, double value);

static inline int64_t rlx_ref_divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}
/* Bytes of a workspace. What wraps is UINT64_MAX, which no plan has room for. */
static inline uint64_t rlx_ref_bytes(uint64_t count, uint64_t size) {
    uint64_t bytes;
    return rlx_mul_u64(count, size, &bytes) ? bytes : UINT64_MAX;
}

/* The product, or a very large number where it would wrap: sizes of things that need not exist (an
 * empty tensor may have one huge dim). */
static inline int64_t rlx_ref_cost(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > INT64_MAX / 4 ? INT64_MAX / 4
                                                                             : product;
}
static inline int64_t rlx_ref_least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

#endif
