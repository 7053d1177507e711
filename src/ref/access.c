/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of elements to and from f32 and f64, with the common dtypes inline. Knows nothing of ops. */
#include "ref/access.h"

void rlx_ref_broadcast_strides(const rlx_tensor *tensor, uint32_t rank, int64_t *strides) {
    for (uint32_t i = 0; i < rank; i++)
        strides[i] = 0;
    if (tensor->data == NULL) return;
    for (uint32_t i = 0; i < tensor->rank && i < rank; i++) {
        uint32_t from = tensor->rank - 1 - i;
        strides[rank - 1 - i] = tensor->dims[from] == 1 ? 0 : tensor->strides[from];
    }
}

static const void *block_address(const rlx_tensor *tensor, int64_t offset) {
    const rlx_dtype_row *row = rlx_dtype_row_of(tensor->dtype);
    return (const char *)tensor->data + offset / row->block_elements * row->block_bytes;
}

void rlx_ref_read_f32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      float *out) {
    if (count == 0) return; /* there may be no memory for nothing */
    if (tensor->dtype == RLX_DTYPE_F32) {
        const float *from = (const float *)tensor->data + offset;
        if (stride == 1) {
            memcpy(out, from, (size_t)count * sizeof *out);
            return;
        }
        for (int64_t i = 0; i < count; i++)
            out[i] = from[i * stride];
    } else if (stride == 1 && tensor->dtype != RLX_DTYPE_F64) {
        rlx_dtype_row_of(tensor->dtype)
            ->decode(out, block_address(tensor, offset), (uint64_t)count);
    } else {
        for (int64_t i = 0; i < count; i++)
            out[i] = (float)rlx_load_f64(tensor->dtype, tensor->data, offset + i * stride);
    }
}

void rlx_ref_read_f64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                      double *out) {
    if (tensor->dtype == RLX_DTYPE_F32) {
        const float *from = (const float *)tensor->data + offset;
        for (int64_t i = 0; i < count; i++)
            out[i] = from[i * stride];
    } else if (tensor->dtype == RLX_DTYPE_F64) {
        const double *from = (const double *)tensor->data + offset;
        for (int64_t i = 0; i < count; i++)
            out[i] = from[i * stride];
    } else {
        for (int64_t i = 0; i < count; i++)
            out[i] = rlx_load_f64(tensor->dtype, tensor->data, offset + i * stride);
    }
}

void rlx_ref_write_f32(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const float *values) {
    if (tensor->dtype == RLX_DTYPE_F32) {
        float *to = (float *)tensor->data + offset;
        for (int64_t i = 0; i < count; i++)
            to[i * stride] = values[i];
    } else if (stride == 1 && (tensor->dtype == RLX_DTYPE_F16 || tensor->dtype == RLX_DTYPE_BF16)) {
        uint16_t *to = (uint16_t *)tensor->data + offset;
        rlx_dtype_row_of(tensor->dtype)->encode(to, values, (uint64_t)count);
    } else {
        for (int64_t i = 0; i < count; i++)
            rlx_store_f64(tensor->dtype, tensor->data, offset + i * stride, values[i]);
    }
}

void rlx_ref_write_f64(const rlx_tensor *tensor, int64_t offset, int64_t stride, int64_t count,
                       const double *values) {
    if (tensor->dtype == RLX_DTYPE_F32) {
        float *to = (float *)tensor->data + offset;
        for (int64_t i = 0; i < count; i++)
            to[i * stride] = (float)values[i];
    } else {
        for (int64_t i = 0; i < count; i++)
            rlx_store_f64(tensor->dtype, tensor->data, offset + i * stride, values[i]);
    }
}

double rlx_ref_round_to(rlx_dtype dtype, double value) {
    double room = 0;
    if (dtype == RLX_DTYPE_F64) return value;
    if (dtype == RLX_DTYPE_F32) return (float)value;
    rlx_store_f64(dtype, &room, 0, value);
    return rlx_load_f64(dtype, &room, 0);
}
