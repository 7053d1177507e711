/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of any dtype as keys: unsigned numbers in the same order. One comparison then serves
 * max pools, max and min reductions, arg_max, arg_min and top_k for all dtypes. */
#ifndef RLX_REF_ORDER_H
#define RLX_REF_ORDER_H

#include "ref/access.h"

/* NaN as given; -0 and +0 are equal. */
static inline uint64_t rlx_ref_key_f64(double value, uint64_t nan_key) {
    uint64_t bits;
    if (value != value) return nan_key;
    value += 0.0; /* -0 becomes +0 */
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | (UINT64_C(1) << 63);
}

static inline uint64_t rlx_ref_key(const rlx_tensor *tensor, int64_t offset, uint64_t nan_key) {
    if (tensor->dtype == RLX_DTYPE_F32)
        return rlx_ref_key_f64(((const float *)tensor->data)[offset], nan_key);
    switch (rlx_dtype_row_of(tensor->dtype)->class_) {
    case RLX_CLASS_SIGNED:
        return (uint64_t)rlx_load_i64(tensor->dtype, tensor->data, offset) ^ (UINT64_C(1) << 63);
    case RLX_CLASS_UNSIGNED:
    case RLX_CLASS_BOOL:
        return (uint64_t)rlx_load_i64(tensor->dtype, tensor->data, offset);
    default:
        return rlx_ref_key_f64(rlx_load_f64(tensor->dtype, tensor->data, offset), nan_key);
    }
}

/* Copies one element between tensors of the same dtype (whole bytes). */
static inline void rlx_ref_copy_element(const rlx_tensor *to, int64_t to_offset,
                                        const rlx_tensor *from, int64_t from_offset) {
    if (to->dtype == RLX_DTYPE_F32) {
        memcpy((float *)to->data + to_offset, (const float *)from->data + from_offset, 4);
        return;
    }
    size_t bytes = rlx_dtype_row_of(to->dtype)->block_bytes;
    memcpy((char *)to->data + to_offset * (int64_t)bytes,
           (const char *)from->data + from_offset * (int64_t)bytes, bytes);
}

/* Stores the least (or largest) value of the dtype: what max (or min) gives of nothing. */
void rlx_ref_store_limit(const rlx_tensor *tensor, int64_t offset, bool largest);

#endif
