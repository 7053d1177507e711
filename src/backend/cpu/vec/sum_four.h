/* SPDX-License-Identifier: Apache-2.0 */
/* Sums across lanes for dot products: four at once cost little more than one. */
#ifndef RLX_BACKEND_CPU_VEC_SUM_FOUR_H
#define RLX_BACKEND_CPU_VEC_SUM_FOUR_H

#include "backend/cpu/vec/vec.h"

/* The sums of four vectors, each over its lanes in a fixed order. */
#if defined(__AVX2__)
VEC_INLINE __m256 fold(vf x) {
#if RLX_VEC_BYTES == 64
    union {
        vf v;
        __m256 half[2];
    } parts = {x};
    return _mm256_add_ps(parts.half[0], parts.half[1]);
#else
    return (__m256)x;
#endif
}
VEC_INLINE void sum_four(const vf *x, float *out) {
    __m256 a = _mm256_hadd_ps(fold(x[0]), fold(x[1])), b = _mm256_hadd_ps(fold(x[2]), fold(x[3]));
    __m256 c = _mm256_hadd_ps(a, b);
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1)));
}
/* The same of eight vectors. */
VEC_INLINE void sum_eight(const vf *x, float *out) {
    __m256 c[4], d[2];
    VEC_UNROLLED for (int i = 0; i < 4; i++) {
        __m256 a = fold(x[i]), b = fold(x[i + 4]);
        c[i] = _mm256_add_ps(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
    }
    VEC_UNROLLED for (int i = 0; i < 2; i++) {
        __m256 a = c[2 * i], b = c[2 * i + 1];
        d[i] = _mm256_add_ps(_mm256_blend_ps(a, b, 0xcc), _mm256_shuffle_ps(a, b, 0x4e));
    }
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_shuffle_ps(d[0], d[1], 0x88),
                                        _mm256_shuffle_ps(d[0], d[1], 0xdd)));
}
#else
VEC_INLINE void sum_eight(const vf *x, float *out) {
    for (int i = 0; i < 8; i++)
        out[i] = vf_sum(x[i]);
}
VEC_INLINE void sum_four(const vf *x, float *out) {
    for (int i = 0; i < 4; i++)
        out[i] = vf_sum(x[i]);
}
#endif

#endif
