/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels over rows share: floats of 16 or 32 bits as lanes of f32, dims merged into as few as
 * possible, and the way back to scalar C.
 *
 * Strides are those of the planned bound, dims those of this run: what lay without holes when the
 * plan was made may have some now. So kernels look again (their `fits`), and where a run does not
 * fit they hand it to the scalar kernel, items and all. */
#ifndef RLX_BACKEND_CPU_VEC_ROWS_H
#define RLX_BACKEND_CPU_VEC_ROWS_H

#include "backend/cpu/vec/vec.h"
#include "ref/access.h"

/* Results of this many bytes go past the caches: nobody could find them there anyway. */
enum { VEC_STREAM_BYTES = 16 << 20 };

/* Floats in memory. `dtype` is a constant where these are called, so nothing is left of the choice.
 */
VEC_INLINE bool vec_is_float(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 || dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16;
}
VEC_INLINE vf vec_get(rlx_dtype dtype, const void *from, int64_t at) {
    if (dtype == RLX_DTYPE_F32) return vf_load((const float *)from + at);
    vh x = vh_load((const uint16_t *)from + at);
    return dtype == RLX_DTYPE_F16 ? vf_of_f16(x) : vf_of_bf16(x);
}
VEC_INLINE vf vec_get_n(rlx_dtype dtype, const void *from, int64_t at, int64_t n) {
    if (dtype == RLX_DTYPE_F32) return vf_load_n((const float *)from + at, n);
    vh x = vh_load_n((const uint16_t *)from + at, n);
    return dtype == RLX_DTYPE_F16 ? vf_of_f16(x) : vf_of_bf16(x);
}
VEC_INLINE void vec_put(rlx_dtype dtype, void *to, int64_t at, vf x) {
    if (dtype == RLX_DTYPE_F32) {
        vf_store((float *)to + at, x);
    } else {
        vh_store((uint16_t *)to + at, dtype == RLX_DTYPE_F16 ? f16_of_vf(x) : bf16_of_vf(x));
    }
}
VEC_INLINE void vec_put_n(rlx_dtype dtype, void *to, int64_t at, vf x, int64_t n) {
    if (dtype == RLX_DTYPE_F32) {
        vf_store_n((float *)to + at, x, n);
    } else {
        vh_store_n((uint16_t *)to + at, dtype == RLX_DTYPE_F16 ? f16_of_vf(x) : bf16_of_vf(x), n);
    }
}
/* `count` vectors side by side, an even constant. */
VEC_INLINE void vec_put_all(rlx_dtype dtype, void *to, int64_t at, const vf *x, const int count) {
    if (dtype != RLX_DTYPE_BF16) {
        VEC_UNROLLED for (int k = 0; k < count; k++) vec_put(dtype, to, at + k * VF, x[k]);
        return;
    }
    vi are_numbers = vf_are_numbers(x[0], x[1]);
    VEC_UNROLLED for (int k = 2; k < count; k += 2) are_numbers &= vf_are_numbers(x[k], x[k + 1]);
    bool is_tame = vi_all(are_numbers);
    VEC_UNROLLED for (int k = 0; k < count; k += 2) {
        vf low = x[k], high = x[k + 1];
        if (__builtin_expect(!is_tame, 0)) low = bf16_harmless(low), high = bf16_harmless(high);
        vf both = vec_upper_halves(bf16_rounded(low), bf16_rounded(high));
        memcpy((uint16_t *)to + at + k * VF, &both, sizeof both);
    }
}
VEC_INLINE int64_t vec_bytes(rlx_dtype dtype) {
    return dtype == RLX_DTYPE_F32 ? 4 : 2;
}

/* Calls `function` with the dtype as a constant first argument. */
#define VEC_BY_DTYPE(dtype, function, ...)         \
    do {                                           \
        switch (dtype) {                           \
        case RLX_DTYPE_F16:                        \
            function(RLX_DTYPE_F16, __VA_ARGS__);  \
            break;                                 \
        case RLX_DTYPE_BF16:                       \
            function(RLX_DTYPE_BF16, __VA_ARGS__); \
            break;                                 \
        default:                                   \
            function(RLX_DTYPE_F32, __VA_ARGS__);  \
            break;                                 \
        }                                          \
    } while (0)

/* Lanes beyond the first n take the value of `other`. */
VEC_INLINE vf vec_lanes_or(vf x, int64_t n, float other) {
    vec_parts r = {x};
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
    r.n[0] = _mm512_mask_mov_ps(_mm512_set1_ps(other), (__mmask16)((1u << n) - 1u), r.n[0]);
#elif defined(__AVX2__)
    for (int p = 0; p < VEC_PIECES; p++)
        r.n[p] = _mm256_blendv_ps(_mm256_set1_ps(other), r.n[p], (__m256)vec_mask8(n - 8 * p));
#else
    for (int64_t i = n; i < VF; i++)
        r.f[i] = other;
#endif
    return r.v;
}

/* Some dims of a tensor, merged where two make one. Numbers go to offsets in elements. */
typedef struct vec_index {
    uint32_t rank;
    int64_t dims[RLX_MAX_RANK], strides[RLX_MAX_RANK];
} vec_index;

VEC_INLINE void vec_index_push(vec_index *index, int64_t dim, int64_t stride) {
    if (dim == 1) return;
    if (index->rank > 0 && index->strides[index->rank - 1] == dim * stride) {
        index->dims[index->rank - 1] *= dim;
        index->strides[index->rank - 1] = stride;
        return;
    }
    index->dims[index->rank] = dim;
    index->strides[index->rank++] = stride;
}
/* All but the axes [from, to). */
VEC_INLINE vec_index vec_index_without(const rlx_tensor *tensor, uint32_t from, uint32_t to) {
    vec_index index = {.rank = 0};
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (i < from || i >= to) vec_index_push(&index, tensor->dims[i], tensor->strides[i]);
    }
    return index;
}
VEC_INLINE int64_t vec_index_at(const vec_index *index, int64_t number) {
    int64_t offset = 0;
    for (uint32_t i = index->rank; i-- > 0;) {
        if (i == 0) return offset + number * index->strides[0];
        offset += number % index->dims[i] * index->strides[i];
        number /= index->dims[i];
    }
    return offset;
}

/* The axes [from, rank) lie without holes. */
VEC_INLINE bool vec_is_dense(const rlx_tensor *tensor, uint32_t from) {
    int64_t expected = 1;
    for (uint32_t i = tensor->rank; i-- > from;) {
        if (tensor->dims[i] != 1 && tensor->strides[i] != expected) return false;
        expected *= tensor->dims[i];
    }
    return true;
}
/* f32 of that rank whose planes, the axes behind the second, lie without holes; or absent. */
VEC_INLINE bool vec_is_plane(const rlx_tensor *tensor, uint32_t rank) {
    if (tensor->data == NULL) return true;
    return tensor->dtype == RLX_DTYPE_F32 && tensor->layout == RLX_LAYOUT_PLAIN &&
           tensor->rank == rank && vec_is_dense(tensor, 2);
}
VEC_INLINE int64_t vec_product(const int64_t *dims, uint32_t from, uint32_t to) {
    int64_t product = 1;
    for (uint32_t i = from; i < to; i++)
        product *= dims[i];
    return product;
}
VEC_INLINE uint32_t vec_axis(int64_t axis, uint32_t rank) {
    return (uint32_t)(axis < 0 ? axis + (int64_t)rank : axis);
}
VEC_INLINE const void *vec_at(const rlx_tensor *tensor, int64_t bytes, int64_t offset) {
    return (const char *)tensor->data + offset * bytes;
}
VEC_INLINE void *vec_to(const rlx_tensor *tensor, int64_t bytes, int64_t offset) {
    return (char *)tensor->data + offset * bytes;
}

/* What a target asks, as the arguments that a kernel sees. */
VEC_INLINE rlx_kernel_args vec_args_of(const rlx_target_query *query) {
    return (rlx_kernel_args){.op = query->op,
                             .attrs = query->attrs,
                             .in = query->in,
                             .out = query->out,
                             .in_count = query->in_count,
                             .out_count = query->out_count};
}
VEC_INLINE void vec_scalar_run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    rlx_ref_kernel(args->op)->run(args, begin, end);
}
VEC_INLINE int64_t vec_scalar_items(const rlx_kernel_args *args) {
    return rlx_ref_kernel(args->op)->items(args);
}

#endif
