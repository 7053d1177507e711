/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on vectors: exp and its kin. Bounds are in units in the last place of the exact result,
 * over the whole range of f32 (tests/kernels samples them). */
#ifndef RLX_BACKEND_CPU_VEC_MATH_H
#define RLX_BACKEND_CPU_VEC_MATH_H

#include "backend/cpu/vec/vec.h"

/* 2^k for lanes -252 <= k <= 254, as a product of two powers so that each is a normal number. */
VEC_INLINE vf vf_scale(vf x, vi k) {
    vi half = k >> 1;
    vf first = (vf)((half + 127) << 23), second = (vf)((k - half + 127) << 23);
    return x * first * second;
}

/* e^x, at most 1 ulp for normal results. Overflow gives infinity, underflow goes through the
 * subnormals to 0, NaN stays NaN. */
VEC_INLINE vf vf_exp(vf x) {
    /* Beyond these the result is 0 or infinity anyway. NaN comes through: it is the second. */
    vf bounded = vf_max(vf_set(-104.0f), vf_min(vf_set(89.0f), x));
    vf k = vf_round(bounded * 1.44269504088896341f);
    /* r = x - k ln 2, with ln 2 in two parts. */
    vf r = vf_fma(k, vf_set(-0.693359375f), bounded);
    r = vf_fma(k, vf_set(2.12194440054690583e-4f), r);
    /* e^r = 1 + r + r^2 q(r) on |r| <= ln 2 / 2. */
    vf q = vf_set(1.9875691500e-4f);
    q = vf_fma(q, r, vf_set(1.3981999507e-3f));
    q = vf_fma(q, r, vf_set(8.3334519073e-3f));
    q = vf_fma(q, r, vf_set(4.1665795894e-2f));
    q = vf_fma(q, r, vf_set(1.6666665459e-1f));
    q = vf_fma(q, r, vf_set(5.0000001201e-1f));
    vf e = vf_fma(q, r * r, r) + 1.0f;
    vf result = vf_scale(e, vi_of(vf_select(k == k, k, vf_set(0.0f))));
    return vf_select(x == x, result, x);
}

#endif
