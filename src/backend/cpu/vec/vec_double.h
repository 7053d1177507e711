/* SPDX-License-Identifier: Apache-2.0 */
/* The VF lanes of a vector of f32 as f64, in two vectors: for the few functions that are simplest
 * or only good enough in double. */
#ifndef RLX_BACKEND_CPU_VEC_DOUBLE_H
#define RLX_BACKEND_CPU_VEC_DOUBLE_H

#include "backend/cpu/vec/vec.h"

typedef double vd_half __attribute__((vector_size(RLX_VEC_BYTES))); /* VF / 2 lanes */
typedef int64_t vl_half __attribute__((vector_size(RLX_VEC_BYTES)));
typedef uint64_t vlu_half __attribute__((vector_size(RLX_VEC_BYTES)));
typedef struct vd {
    vd_half low, high;
} vd;

#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vd vd_of(vf x) {
    __m512 all = (__m512)x;
    return (vd){(vd_half)_mm512_cvtps_pd(_mm512_castps512_ps256(all)),
                (vd_half)_mm512_cvtps_pd(_mm512_extractf32x8_ps(all, 1))};
}
VEC_INLINE vf vf_of_vd(vd x) {
    __m512 low = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)x.low));
    return (vf)_mm512_insertf32x8(low, _mm512_cvtpd_ps((__m512d)x.high), 1);
}
VEC_INLINE vd_half vd_fma(vd_half a, vd_half b, vd_half c) {
    return (vd_half)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(__AVX2__)
typedef union vec_double_parts {
    vd v;
    __m256d n[RLX_VEC_BYTES / 16];
} vec_double_parts;
VEC_INLINE vd vd_of(vf x) {
    vec_parts from = {x};
    vec_double_parts to;
    for (int p = 0; p < VEC_PIECES; p++) {
        to.n[2 * p] = _mm256_cvtps_pd(_mm256_castps256_ps128(from.n[p]));
        to.n[2 * p + 1] = _mm256_cvtps_pd(_mm256_extractf128_ps(from.n[p], 1));
    }
    return to.v;
}
VEC_INLINE vf vf_of_vd(vd x) {
    vec_double_parts from = {x};
    vec_parts to;
    for (int p = 0; p < VEC_PIECES; p++) {
        to.n[p] =
            _mm256_set_m128(_mm256_cvtpd_ps(from.n[2 * p + 1]), _mm256_cvtpd_ps(from.n[2 * p]));
    }
    return to.v;
}
VEC_INLINE vd_half vd_fma(vd_half a, vd_half b, vd_half c) {
    union {
        vd_half v;
        __m256d n[RLX_VEC_BYTES / 32];
    } x = {a}, y = {b}, z = {c};
    for (int p = 0; p < VEC_PIECES; p++)
        z.n[p] = _mm256_fmadd_pd(x.n[p], y.n[p], z.n[p]);
    return z.v;
}
#else
VEC_INLINE vd vd_of(vf x) {
    return (vd){(vd_half)vcvt_f64_f32(vget_low_f32((float32x4_t)x)),
                (vd_half)vcvt_high_f64_f32((float32x4_t)x)};
}
VEC_INLINE vf vf_of_vd(vd x) {
    return (vf)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)x.low), (float64x2_t)x.high);
}
VEC_INLINE vd_half vd_fma(vd_half a, vd_half b, vd_half c) {
    return (vd_half)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#endif
VEC_INLINE vd_half vd_set(double x) {
    return x - (vd_half){0};
}

/* mask lanes are all ones or all zeros. */
VEC_INLINE vd_half vd_select(vl_half mask, vd_half yes, vd_half no) {
    return (vd_half)(((vl_half)yes & mask) | ((vl_half)no & ~mask));
}

#endif
