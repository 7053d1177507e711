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
    return (vf_fma(q, r2, r) + 1.0f) * scale;
}

/* Without a bias what is below 2^-126 is 0: the exponent of -88 is that of 0. */
#define EXP_ZERO (-88.0f)
VEC_INLINE vf exp_or_zero(vf x) {
    exp_parts parts = exp_begin(x, EXP_ZERO, 0);
    return exp_end(parts.r, parts.scale);
}

#endif
