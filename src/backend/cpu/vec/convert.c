/* SPDX-License-Identifier: Apache-2.0 */
/* See convert.h. */
#include "backend/cpu/vec/convert.h"

#include "backend/cpu/vec/rows.h"

VEC_INLINE void read_half(rlx_dtype dtype, const void *from, int64_t count, float *out) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        vf_store(out + i, vec_get(dtype, from, i));
    if (i < count) vf_store_n(out + i, vec_get_n(dtype, from, i, count - i), count - i);
}

VEC_INLINE void write_half(rlx_dtype dtype, void *to, int64_t count, const float *values) {
    int64_t i = 0;
    for (; i + VF <= count; i += VF)
        vec_put(dtype, to, i, vf_load(values + i));
    if (i < count) vec_put_n(dtype, to, i, vf_load_n(values + i, count - i), count - i);
}

void VEC_SYMBOL(read_f32)(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                          float *out) {
    const uint16_t *from = (const uint16_t *)tensor->data + offset;
    if (stride == 1 && tensor->dtype == RLX_DTYPE_F16) {
        read_half(RLX_DTYPE_F16, from, count, out);
    } else if (stride == 1 && tensor->dtype == RLX_DTYPE_BF16) {
        read_half(RLX_DTYPE_BF16, from, count, out);
    } else {
        rlx_ref_read_f32(tensor, offset, stride, count, out);
    }
}

void VEC_SYMBOL(write_f32)(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                           const float *values) {
    uint16_t *to = (uint16_t *)tensor->data + offset;
    if (stride == 1 && tensor->dtype == RLX_DTYPE_F16) {
        write_half(RLX_DTYPE_F16, to, count, values);
    } else if (stride == 1 && tensor->dtype == RLX_DTYPE_BF16) {
        write_half(RLX_DTYPE_BF16, to, count, values);
    } else {
        rlx_ref_write_f32(tensor, offset, stride, count, values);
    }
}
