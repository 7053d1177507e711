/* SPDX-License-Identifier: Apache-2.0 */
/* e^x for x <= 0, as softmax and attention need it: they spend their time here, so ln 2 has one
 * part only and the polynomial five terms. Within 2.5 ulp down to -20, 6 ulp at -100. */
#ifndef RLX_BACKEND_CPU_VEC_EXP_H
#define RLX_BACKEND_CPU_VEC_EXP_H

#include "backend/cpu/vec/vec.h"

/* Two halves: instructions of one exponential wait for each other and the processor looks only so
 * far ahead, so callers do the first half of several vectors before the second of any. */
typedef struct exp_parts {
    vf r, scale;
} exp_parts;

/* Of e^x 2^bias; arguments below `least` count as that. NaN stays NaN. */
VEC_INLINE exp_parts exp_begin(vf x, float least, int bias) {
    const float magic =
        12582912.0f + 127 + (float)bias; /* a sum with it is rounded to an integer */
    vf bounded = vf_max(vf_set(least), x);
    vf n = vf_fma(bounded, vf_set(1.44269504088896341f), vf_set(magic)), k = n - magic;
    return (exp_parts){vf_fnma(k, vf_set(0.693147180559945309f), bounded), (vf)((vi)n << 23)};
}
VEC_INLINE vf exp_end(vf r, vf scale) {
    vf r2 = r * r;
    vf low = vf_fma(r, vf_set(1.6667115389e-1f), vf_set(4.9999230310e-1f));
    vf high = vf_fma(r, vf_set(8.3125012506e-3f), vf_set(4.1890331504e-2f));
    vf q = vf_fma(high, r2, low);
    return vf_fma(vf_fma(q, r2, r), scale, scale);
}

/* Without a bias what is below 2^-126 is 0: the exponent of -88 is that of 0. */
#define EXP_ZERO (-88.0f)
VEC_INLINE vf exp_or_zero(vf x) {
    exp_parts parts = exp_begin(x, EXP_ZERO, 0);
    return exp_end(parts.r, parts.scale);
}

/* Weights of attention, e^(score - most); what would be below 2^-126 is 0. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
/* As powers of two, with two instructions that do most of the rest: ten in all. Within 2.5 ulp. */
VEC_INLINE vf vec_power_or_zero(vf x) {
    __mmask16 is_large = _mm512_cmp_ps_mask((__m512)x, (__m512)vf_set(-126.0f), _CMP_NLT_UQ);
    vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf p = vf_fma(r, vf_set(1.877576695e-3f), vf_set(8.989339694e-3f));
    p = vf_fma(p, r, vf_set(5.582631752e-2f));
    p = vf_fma(p, r, vf_set(2.401536107e-1f));
    p = vf_fma(p, r, vf_set(6.931530833e-1f));
    p = vf_fma(p, r, vf_set(9.999999404e-1f));
    return (vf)_mm512_maskz_scalef_ps(is_large, (__m512)p, (__m512)x);
}
/* Not score log2(e) - most log2(e) in one instruction: masks are as large as -1e10, where rounding
 * a product moves it by hundreds, and as the largest number there is. */
VEC_INLINE vf weight_of(vf score, vf most) {
    return vec_power_or_zero((score - most) * 1.44269504088896341f);
}
#else
VEC_INLINE vf weight_of(vf score, vf most) {
    return exp_or_zero(score - most);
}
#endif

#endif
