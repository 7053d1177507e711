/* SPDX-License-Identifier: Apache-2.0 */
/* x^y on vectors of f32, through 2^(y log2 x) in double. */
#ifndef RLX_BACKEND_CPU_VEC_POW_H
#define RLX_BACKEND_CPU_VEC_POW_H

#include "backend/cpu/vec/vec_double.h"

/* log2 of |x|, a relative error of 2^-45; x is a normal double, as every f32 but 0 is. */
VEC_INLINE vd_half vec_log2_half(vd_half x) {
    vlu_half bits = (vlu_half)x & INT64_MAX;
    /* The biased exponent of a mantissa from sqrt(1/2) on, as an integer and as a number. */
    vlu_half biased = (bits + 0x00095f619980c433) >> 52;
    vd_half n = (vd_half)(biased + 0x4330000000000000) - (0x1p52 + 1023.0);
    vd_half m = (vd_half)(bits - (biased << 52) + 0x3ff0000000000000);
    vd_half s = (m - 1.0) / (m + 1.0), z = s * s;
    vd_half p = vd_set(0x1.21b0c437d1b1dp-2);
    p = vd_fma(p, z, vd_set(0x1.479558b014311p-2));
    p = vd_fma(p, z, vd_set(0x1.a61a2ebc3e20cp-2));
    p = vd_fma(p, z, vd_set(0x1.2776c2934beacp-1));
    p = vd_fma(p, z, vd_set(0x1.ec709dc53c608p-1));
    p = vd_fma(p, z, vd_set(0x1.71547652b8251p+1));
    return vd_fma(s, p, n);
}

/* 2^t for |t| < 1000, a relative error of 2^-40. */
VEC_INLINE vd_half vec_exp2_half(vd_half t) {
    vd_half whole = t + 0x1.8p52; /* its low bits are the integer */
    vd_half f = t - (whole - 0x1.8p52);
    vd_half p = vd_set(0x1.61c208a71b94fp-20);
    p = vd_fma(p, f, vd_set(0x1.00d85faa18a2ap-16));
    p = vd_fma(p, f, vd_set(0x1.430aab325b383p-13));
    p = vd_fma(p, f, vd_set(0x1.5d874cf695db1p-10));
    p = vd_fma(p, f, vd_set(0x1.3b2ab5ec0aa93p-7));
    p = vd_fma(p, f, vd_set(0x1.c6b08dcee0781p-5));
    p = vd_fma(p, f, vd_set(0x1.ebfbdff8ee9a9p-3));
    p = vd_fma(p, f, vd_set(0x1.62e42fef89c87p-1));
    p = vd_fma(p, f, vd_set(1.0));
    return p * (vd_half)(((vlu_half)whole + 1023) << 52);
}

/* |x|^y, for |x| neither 0 nor infinite nor NaN. What is beyond f32 stays beyond it. */
VEC_INLINE vd_half vec_power_half(vd_half x, vd_half y) {
    vd_half t = y * vec_log2_half(x);
    t = vd_select(t > 200.0, vd_set(200.0), t);
    return vec_exp2_half(vd_select(t < -200.0, vd_set(-200.0), t));
}

/* As C's pow, at most 1 ulp. */
VEC_INLINE vf vf_pow(vf x, vf y) {
    vd wide = vd_of(x), exponent = vd_of(y);
    vf size = vf_of_vd(
        (vd){vec_power_half(wide.low, exponent.low), vec_power_half(wide.high, exponent.high)});
    const vf zero = vf_set(0.0f), one = vf_set(1.0f), infinite = vf_set(VEC_INFINITY);
    /* Odd, even, or no integer: numbers from 2^24 on are even. */
    vf half = y * 0.5f;
    vi is_whole = vf_floor(y) == y, is_odd = is_whole & (vf_floor(half) != half);
    vf a = vf_abs(x);
    /* 0 and infinity: one of them again, by the sign of y. */
    vi is_end = (a == 0.0f) | (a == infinite), is_small = (a < 1.0f) ^ (y < 0.0f);
    size = vf_select(is_end, vf_select(is_small, zero, infinite), size);
    /* An infinite y. */
    size = vf_select(vf_abs(y) == infinite,
                     vf_select(a == 1.0f, one, vf_select(is_small, zero, infinite)), size);
    vf result = vf_select(((vi)x < 0) & is_odd, -size, size);
    vi is_nan = (x != x) | (y != y) | ((x < 0.0f) & (a != infinite) & ~is_whole);
    result = vf_select(is_nan, vf_set(VEC_NAN), result);
    return vf_select((y == 0.0f) | (x == 1.0f), one, result);
}

#endif
