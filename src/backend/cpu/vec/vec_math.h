/* SPDX-License-Identifier: Apache-2.0 */
/* Functions on vectors of f32: exp and its kin. Bounds are in units in the last place of the exact
 * result, over the whole range of f32, subnormal arguments and results included; NaN stays NaN
 * (tests/kernels/ulp.c measures them). Polynomials are our own fits, coefficients rounded to f32.
 * Nothing here depends on the lane or on the other lanes. */
#ifndef RLX_BACKEND_CPU_VEC_MATH_H
#define RLX_BACKEND_CPU_VEC_MATH_H

#include "backend/cpu/vec/vec.h"

/* x = h 2 ln 2 + r with a whole h and |r| <= ln 2; `power` is 2^h, so e^x = e^r power power: two
 * factors that are normal numbers for every h that we meet. NaN goes to r. */
typedef struct vec_reduced {
    vf r, power;
} vec_reduced;

VEC_INLINE vec_reduced vec_reduce(vf x) {
    /* 1.5 * 2^23 leaves no fraction bits; + 127 so that the sum's low bits are an exponent. */
    const float whole = 12582912.0f + 127.0f;
    vf t = vf_fma(x, vf_set(0x1.715476p-1f), vf_set(whole));
    vf h = t - whole;
    vf r = vf_fma(h, vf_set(-0x1.62e43p+0f), x); /* 2 ln 2 in two parts */
    r = vf_fma(h, vf_set(0x1.05c61p-28f), r);
    return (vec_reduced){r, (vf)((vi)t << 23)};
}

/* Polynomials are sums of their even and their odd powers: two short chains of instructions wait
 * for each other less than a long one. */

/* e^r for |r| <= ln 2. */
VEC_INLINE vf vec_exp_poly(vf r) {
    vf s = r * r;
    vf even = vf_fma(vf_set(0x1.71c6d6p-10f), s, vf_set(0x1.5549d6p-5f));
    vf odd = vf_fma(vf_set(0x1.9b7c02p-13f), s, vf_set(0x1.1127cep-7f));
    even = vf_fma(even, s, vf_set(0x1.00000cp-1f));
    odd = vf_fma(odd, s, vf_set(0x1.55551p-3f));
    return vf_fma(vf_fma(odd, r, even), s, r) + 1.0f;
}

/* e^r - 1 for |r| <= ln 2, relative to itself. */
VEC_INLINE vf vec_expm1_poly(vf r) {
    vf s = r * r;
    vf even = vf_fma(vf_set(0x1.a0bb4p-16f), s, vf_set(0x1.6c1c94p-10f));
    vf odd = vf_fma(vf_set(0x1.a5597ap-13f), s, vf_set(0x1.110b6cp-7f));
    even = vf_fma(even, s, vf_set(0x1.55554ap-5f));
    odd = vf_fma(odd, s, vf_set(0x1.55555cp-3f));
    even = vf_fma(even, s, vf_set(0.5f));
    return vf_fma(vf_fma(odd, r, even), s, r);
}

/* e^r - 1 for |r| <= ln 2 / 2, relative to e^r. */
VEC_INLINE vf vec_exp_near(vf r) {
    vf s = r * r;
    vf low = vf_fma(r, vf_set(0x1.555492p-3f), vf_set(0x1.fffffcp-2f));
    vf high = vf_fma(r, vf_set(0x1.1239a2p-7f), vf_set(0x1.5558b6p-5f));
    high = vf_fma(s, vf_set(0x1.6a4746p-10f), high);
    return vf_fma(vf_fma(high, s, low), s, r);
}

/* 1 / d of a normal number that is one, within 0.6 ulp. A division of 64 bytes keeps its unit for
 * 10 cycles on Ice Lake. */
#if defined(__AVX512F__) && RLX_VEC_BYTES == 64
VEC_INLINE vf vec_reciprocal(vf d) {
    vf r = (vf)_mm512_rcp14_ps((__m512)d);
    return vf_fma(r, vf_fnma(d, r, vf_set(1.0f)), r);
}
#else
VEC_INLINE vf vec_reciprocal(vf d) {
    return 1.0f / d;
}
#endif

/* Beyond these e^x is 0 or infinity. NaN comes through: it is the second operand. */
VEC_INLINE vf vec_exp_bound(vf x) {
    return vf_max(vf_set(-104.0f), vf_min(vf_set(89.0f), x));
}

/* e^x, at most 2 ulp. */
VEC_INLINE vec_reduced vec_exp_begin(vf x) {
    return vec_reduce(vec_exp_bound(x));
}
VEC_INLINE vf vec_exp_end(vf x, vec_reduced z) {
    (void)x;
    return vec_exp_poly(z.r) * z.power * z.power;
}
VEC_INLINE vf vf_exp(vf x) {
    return vec_exp_end(x, vec_exp_begin(x));
}

/* e^x - 1, at most 2 ulp. */
VEC_INLINE vf vf_expm1(vf x) {
    vec_reduced z = vec_reduce(vf_max(vf_set(-18.0f), vf_min(vf_set(89.0f), x)));
    /* 4^h (p + 1) - 1 without losing the 1; 4^64 is not a number, so a factor stays outside. */
    vf p = vec_expm1_poly(z.r), scale = z.power * z.power;
    vf near = vf_fma(scale, p, scale - 1.0f);
    vf far = vf_fma(z.power, p, z.power) * z.power;
    return vf_select(x > 60.0f, far, vf_select(x == 0.0f, x, near));
}

/* (1 + e^z) 2^-VEC_BIAS, for z between -60 and 112 (`z` is reduced with that bias): normal numbers
 * all over, so the tails of quotients are as good as the rest. */
enum { VEC_BIAS = 36 };
#define VEC_BIAS_POWER 0x1p-36f
VEC_INLINE vf vec_one_and_exp(vec_reduced z) {
    return vf_fma(vec_exp_near(z.r), z.power, z.power + VEC_BIAS_POWER);
}

/* -x = k ln 2 + r for vec_one_and_exp, with a whole k and |r| <= ln 2 / 2; `power` is 2^(k -
 * VEC_BIAS). The sign is taken into the constants. */
#define VEC_NEGATIVE_WHOLE (12582912.0f + 127.0f - (float)VEC_BIAS)
VEC_INLINE vec_reduced vec_reduce_negative(vf x) {
    vf t = vf_fma(x, vf_set(-0x1.715476p+0f), vf_set(VEC_NEGATIVE_WHOLE));
    vf k = t - VEC_NEGATIVE_WHOLE;
    vf r = vf_fma(k, vf_set(-0x1.62e43p-1f), -x); /* ln 2 in two parts */
    r = vf_fma(k, vf_set(0x1.05c61p-29f), r);
    return (vec_reduced){r, (vf)((vi)t << 23)};
}

/* An even q so that 2^r is (q + r) / (q - r), for |r| <= 1/2: cheaper than a polynomial where there
 * is a division anyway. */
VEC_INLINE vf vec_power_quotient(vf r) {
    vf s = r * r;
    vf q = vf_fma(s, vf_set(-0x1.e4be22p-11f), vf_set(0x1.d930e2p-4f));
    return vf_fma(q, s, vf_set(0x1.715476p+1f));
}

/* `done` is worked out before `next` is used: then `next` need not be copied. */
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
#define VEC_FIRST(done, next) __asm__("" : "+x"(done), "+x"(next))
#else
#define VEC_FIRST(done, next) (void)0
#endif

/* The logistic function 1 / (1 + e^-x), at most 3 ulp.
 *
 * -x log2(e) = k - r / 119 with |r| <= 119 / 2. 119 log2(e) happens to be a number of f32 within
 * 2^-32, so it needs no second part, and `whole` has few enough digits for 119 k to be exact. Top
 * and bottom of the quotient are times 2^-63, so they are normal numbers for every x that is left.
 */
VEC_INLINE vec_reduced vec_sigmoid_begin(vf x) {
    const float whole = 8388608.0f + 512.0f + 64.0f; /* + 64: an exponent less 63 */
    const vf scale = vf_set(-119.0f);                /* and the lower bound: a register less */
    x = vf_max(scale, vf_min(vf_set(40.0f), x));
    vf t = vf_fma(x, vf_set(-0x1.715476p+0f), vf_set(whole)), power = (vf)((vi)t << 23);
    VEC_FIRST(power, t);
    t = vf_fma(t, scale, vf_set(119.0f * whole));
    return (vec_reduced){vf_fma(x, vf_set(0x1.575c86p+7f), -t), power};
}
/* 2^(-r / 119) is (q - r) / (q + r): so the function is b / (b + (q - r) 2^k) with b = q + r. One
 * quotient for both; with an approximate reciprocal it would come too close to the bound. q is
 * vec_power_quotient of r / 119, times 119. */
VEC_INLINE vf vec_sigmoid_quotient_end(vf x, vec_reduced z) {
    vf s = z.r * z.r, q = vf_fma(s, vf_set(-0x1.2da088p-31f), vf_set(0x1.fcfa7ep-11f));
    q = vf_fma(q, s, vf_set(0x1.575c86p+8f));
    vf b = (vf)((vi)(q + z.r) - (63 << 23));
    (void)x;
    return b / vf_fma(q - z.r, z.power, b);
}
#if RLX_VEC_BYTES == 64
/* 2^(-r / 119) as a polynomial, one term after the other: instructions count, not how long they
 * wait for each other. For processors that divide slowly, as Intel's do. */
VEC_INLINE vf vec_sigmoid_end(vf x, vec_reduced z) {
    vf p = vf_fma(z.r, vf_set(0x1.f26b74p-55f), vf_set(-0x1.f9c77ap-45f));
    p = vf_fma(p, z.r, vf_set(0x1.a5e63cp-35f));
    p = vf_fma(p, z.r, vf_set(-0x1.1aec3p-25f));
    p = vf_fma(p, z.r, vf_set(0x1.1c9b9ap-16f));
    p = vf_fma(p, z.r, vf_set(-0x1.7dbb5ep-8f));
    p = vf_fma(p, z.r, vf_set(1.0f));
    (void)x;
    return vec_reciprocal(vf_fma(p, z.power, vf_set(0x1p-63f))) * 0x1p-63f;
}
#define vec_sigmoid_quotient_begin vec_sigmoid_begin
#else
#define vec_sigmoid_end vec_sigmoid_quotient_end
#endif
VEC_INLINE vf vf_sigmoid(vf x) {
    return vec_sigmoid_end(x, vec_sigmoid_begin(x));
}

/* For gates, functions x s(x) with s from 0 to 1: x is bounded from above first. What is cut off
 * comes back as it is, since s is 1 there, and the difference keeps -0 and makes NaN of -infinity:
 * what x times a vanishing factor gives. `y` is the value times 2^VEC_BIAS. */
VEC_INLINE vf vec_gated(vf x, float most, vf y) {
    return vf_fma(y, vf_set(VEC_BIAS_POWER), -(vf_min(vf_set(most), x) - x));
}

/* x / (1 + e^-x), at most 3 ulp. */
#define VEC_SILU_MOST 60.0f
VEC_INLINE vf vec_silu_bound(vf x) {
    return vf_max(vf_set(-110.0f), vf_min(vf_set(VEC_SILU_MOST), x));
}
VEC_INLINE vec_reduced vec_silu_begin(vf x) {
    return vec_reduce_negative(vec_silu_bound(x));
}
VEC_INLINE vf vec_silu_end(vf x, vec_reduced z) {
    return vec_gated(x, VEC_SILU_MOST, vec_silu_bound(x) / vec_one_and_exp(z));
}
VEC_INLINE vf vf_silu(vf x) {
    return vec_silu_end(x, vec_silu_begin(x));
}

/* x / (1 + e^-z), z = 2 sqrt(2 / pi) (x + 0.044715 x^3), at most 3 ulp. An error of z counts |z|
 * times, so -z log2(e) is x times a sum of two numbers: a + b x^2 with a, b and x^2 in two parts
 * each. The first part of a has as few digits as it takes for the rest of the sum to be exact. */
#define VEC_GELU_TANH_MOST 8.5f
VEC_INLINE vf vec_gelu_tanh_bound(vf x) {
    return vf_max(vf_set(-11.0f), vf_min(vf_set(VEC_GELU_TANH_MOST), x));
}
VEC_INLINE vec_reduced vec_gelu_tanh_begin(vf x) {
    const float whole = VEC_NEGATIVE_WHOLE;
    const vf a = vf_set(-0x1.26aecp+1f), b = vf_set(-0x1.a5a7dp-4f);
    x = vec_gelu_tanh_bound(x);
    vf square = x * x, square_low = vf_fma(x, x, -square);
    vf sum = vf_fma(square, b, a);
    vf low = vf_fma(square, vf_set(0x1.151aaep-29f), vf_set(-0x1.0de73ap-22f));
    low = vf_fma(square_low, b, low);
    low += vf_fma(square, b, a - sum);
    vf t = vf_fma(x, sum, vf_set(whole));
    vf r = vf_fma(x, sum, whole - t);
    return (vec_reduced){vf_fma(x, low, r), (vf)((vi)t << 23)};
}
VEC_INLINE vf vec_gelu_tanh_end(vf x, vec_reduced z) {
    vf s = z.r * z.r;
    vf low = vf_fma(z.r, vf_set(0x1.ebfbdcp-3f), vf_set(0x1.62e43p-1f));
    vf high = vf_fma(z.r, vf_set(0x1.3b2dd6p-7f), vf_set(0x1.c6af8ap-5f));
    vf p = vf_fma(vf_fma(z.r, vf_set(0x1.416ddap-13f), vf_set(0x1.5f039ap-10f)), s,
                  high); /* of (2^r - 1) / r */
    p = vf_fma(p, s, low);
    vf d = vf_fma(p, z.r * z.power, z.power + VEC_BIAS_POWER);
    return vec_gated(x, VEC_GELU_TANH_MOST, vec_gelu_tanh_bound(x) / d);
}
VEC_INLINE vf vf_gelu_tanh(vf x) {
    return vec_gelu_tanh_end(x, vec_gelu_tanh_begin(x));
}

/* The same two for results of 16 bits, within a hundredth of their last place: the product keeps
 * fewer bits where the sigmoid is subnormal and z is one number, but that is more than they have.
 */
VEC_INLINE vec_reduced vec_silu_half_begin(vf x) {
    return vec_sigmoid_begin(x);
}
VEC_INLINE vf vec_silu_half_end(vf x, vec_reduced z) {
    return x * vec_sigmoid_end(x, z);
}
VEC_INLINE vec_reduced vec_gelu_tanh_half_begin(vf x) {
    return vec_sigmoid_begin(x * vf_fma(x * x, vf_set(0x1.2444f2p-4f), vf_set(0x1.988454p+0f)));
}
VEC_INLINE vf vec_gelu_tanh_half_end(vf x, vec_reduced z) {
    return x * vec_sigmoid_end(x, z);
}

/* x where it is positive, else 0; NaN where x is -infinity, as above. */
VEC_INLINE vf vec_ramp(vf x) {
    return x - vf_min(x, vf_set(0.0f));
}

/* x (1 + erf(x / sqrt 2)) / 2 = ramp(x) - t e^(-t^2 / 2) H(t) with t = |x|, at most 8 ulp. H is
 * half the scaled erfc, which falls slowly: a quotient of polynomials. With 2^r as (q + r) / (q -
 * r) there is one division for both. */
VEC_INLINE vf vec_gelu_bound(vf x) {
    return vf_min(vf_set(14.5f), vf_abs(x));
}
VEC_INLINE vec_reduced vec_gelu_begin(vf x) {
    const float whole = 12582912.0f + 127.0f + (float)VEC_BIAS;
    const vf octaves = vf_set(-0x1.715476p-1f); /* log2(e) / 2 in two parts */
    vf t = vec_gelu_bound(x), square = t * t, square_low = vf_fma(t, t, -square);
    vf n = vf_fma(square, octaves, vf_set(whole));
    vf r = vf_fma(square, octaves, whole - n);
    r = vf_fma(square, vf_set(-0x1.4ae0cp-27f), r);
    return (vec_reduced){vf_fma(square_low, octaves, r), (vf)((vi)n << 23)};
}
VEC_INLINE vf vec_gelu_end(vf x, vec_reduced z) {
    vf t = vec_gelu_bound(x);
    vf top = vf_fma(t, vf_set(0x1.0dc44ap-8f), vf_set(0x1.4cde1ep-5f));
    vf bottom = vf_fma(t, vf_set(0x1.52193cp-7f), vf_set(0x1.a136d0p-4f));
    top = vf_fma(top, t, vf_set(0x1.774408p-3f));
    bottom = vf_fma(bottom, t, vf_set(0x1.e0bcf8p-2f));
    top = vf_fma(top, t, vf_set(0x1.c0d06cp-2f));
    bottom = vf_fma(bottom, t, vf_set(0x1.33d744p+0f));
    top = vf_fma(top, t, vf_set(0.5f)) * t;
    bottom = vf_fma(bottom, t, vf_set(0x1.acaa66p+0f));
    bottom = vf_fma(bottom, t, vf_set(1.0f));
    vf q = vec_power_quotient(z.r);
    top *= z.power; /* 2^36 times too much */
    vf tail = vf_fma(top, q, top * z.r) / vf_fma(bottom, q, -(bottom * z.r));
    return vf_fnma(tail, vf_set(VEC_BIAS_POWER), vec_ramp(x));
}
VEC_INLINE vf vf_gelu(vf x) {
    return vec_gelu_end(x, vec_gelu_begin(x));
}

/* The hyperbolic tangent, at most 3 ulp. x = k ln 2 / 2 + r; with p = 2^k and t = tanh r it is
 * (p - 1 + t (p + 1)) / (p + 1 + t (p - 1)): exact where k is 0, and 1 from 9 on. */
VEC_INLINE vec_reduced vec_tanh_begin(vf x) {
    const float whole = 12582912.0f + 127.0f;
    vf bounded = vf_max(vf_set(-10.0f), vf_min(vf_set(10.0f), x));
    vf t = vf_fma(bounded, vf_set(0x1.715476p+1f), vf_set(whole));
    /* One part of ln 2 / 2 will do: it is within 2^-30. */
    return (vec_reduced){vf_fma(t - whole, vf_set(-0x1.62e43p-2f), bounded), (vf)((vi)t << 23)};
}
VEC_INLINE vf vec_tanh_end(vf x, vec_reduced z) {
    vf s = z.r * z.r, less = 1.0f - z.power, more = 1.0f + z.power;
    vf t = vf_fma(s, vf_set(0x1.0c25fap-3f), vf_set(-0x1.554f0cp-2f));
    t = vf_fma(t, s, vf_set(1.0f)) * z.r;
    (void)x;
    return vf_fma(t, more, -less) / vf_fnma(t, less, more); /* keeps -0 */
}
VEC_INLINE vf vf_tanh(vf x) {
    return vec_tanh_end(x, vec_tanh_begin(x));
}

/* The error function, at most 2 ulp. Below VEC_ERF_NEAR odd powers, from there 1 - 2^g with a
 * polynomial g of t = |x| that has no constant: 2^g is small, so it need not be very good. */
#define VEC_ERF_NEAR 0.68f
VEC_INLINE vec_reduced vec_erf_begin(vf x) {
    const float whole = 12582912.0f + 127.0f;
    vf t = vf_min(vf_set(4.0f), vf_abs(x));
    vf g = vf_fma(t, vf_set(0x1.469e22p-12f), vf_set(-0x1.31766ap-8f));
    g = vf_fma(g, t, vf_set(0x1.0f203ep-5f));
    g = vf_fma(g, t, vf_set(-0x1.373edp-3f));
    g = vf_fma(g, t, vf_set(-0x1.d588f2p-1f));
    g = vf_fma(g, t, vf_set(-0x1.a0ccfep+0f));
    vf n = vf_fma(g, t, vf_set(whole));
    return (vec_reduced){vf_fma(g, t, whole - n), (vf)((vi)n << 23)};
}
VEC_INLINE vf vec_erf_end(vf x, vec_reduced z) {
    vf s = x * x, near = vf_fma(s, vf_set(0x1.1bbf88p-8f), vf_set(-0x1.b26aa6p-6f));
    near = vf_fma(near, s, vf_set(0x1.cdf2c8p-4f));
    near = vf_fma(near, s, vf_set(-0x1.812666p-2f));
    near = vf_fma(near, s, vf_set(0x1.06eba4p-3f));
    near = vf_fma(near, x, x);
    vf p = vf_fma(z.r, vf_set(0x1.5f7698p-10f), vf_set(0x1.3ced92p-7f)); /* 2^r */
    p = vf_fma(p, z.r, vf_set(0x1.c6ae68p-5f));
    p = vf_fma(p, z.r, vf_set(0x1.ebf9b2p-3f));
    p = vf_fma(p, z.r, vf_set(0x1.62e432p-1f));
    p = vf_fma(p, z.r, vf_set(1.0f));
    vf far = vf_fnma(p, z.power, vf_set(1.0f));
    far = (vf)((vi)far | ((vi)x & INT32_MIN)); /* it was positive */
    return vf_select(s < VEC_ERF_NEAR * VEC_ERF_NEAR, near, far);
}
VEC_INLINE vf vf_erf(vf x) {
    return vec_erf_end(x, vec_erf_begin(x));
}

/* log(1 + f) for sqrt(1/2) <= 1 + f <= sqrt 2. */
VEC_INLINE vf vec_log1p_poly(vf f) {
    vf p = vf_set(0x1.13c224p-4f);
    p = vf_fma(p, f, vf_set(-0x1.dda0bp-4f));
    p = vf_fma(p, f, vf_set(0x1.e6df6ap-4f));
    p = vf_fma(p, f, vf_set(-0x1.fc3d3ap-4f));
    p = vf_fma(p, f, vf_set(0x1.233ac2p-3f));
    p = vf_fma(p, f, vf_set(-0x1.555b9p-3f));
    p = vf_fma(p, f, vf_set(0x1.99a47ap-3f));
    p = vf_fma(p, f, vf_set(-0x1.000008p-2f));
    p = vf_fma(p, f, vf_set(0x1.555548p-2f));
    p = vf_fma(p, f, vf_set(-0.5f));
    return vf_fma(p, f * f, f);
}

/* The natural logarithm, at most 1 ulp; -infinity of 0, NaN below. */
VEC_INLINE vf vf_log(vf x) {
    vi is_small = x < 0x1p-126f;
    vf y = vf_select(is_small, x * 0x1p23f, x);
    vi k = ((vi)y - 0x3f3504f3) >> 23; /* of a mantissa from sqrt(1/2) on */
    vf f = (vf)((vi)y - (k << 23)) - 1.0f, n = vf_of(k - (is_small & 23));
    vf low = vf_fma(n, vf_set(-0x1.05c61p-29f), vec_log1p_poly(f));
    vf result = vf_fma(n, vf_set(0x1.62e43p-1f), low);
    vf special =
        vf_select(x == 0.0f, vf_set(-VEC_INFINITY), vf_select(x < 0.0f, vf_set(VEC_NAN), x));
    return vf_select((x > 0.0f) & (x < VEC_INFINITY), result, special);
}

/* log(1 + e^x), at most 3 ulp. */
VEC_INLINE vf vf_softplus(vf x) {
    vf e = vf_exp(-vf_abs(x));
    vi is_large = e > 0.41421354f;
    vf tail = vec_log1p_poly(vf_select(is_large, 0.5f * (e - 1.0f), e));
    tail += vf_select(is_large, vf_set(0x1.62e43p-1f), vf_set(0.0f));
    return vf_max(vf_set(0.0f), x) + tail;
}

/* x tanh(log(1 + e^x)), at most 6 ulp: x n / (n + 2) with n = e^x (e^x + 2), and for positive x the
 * same in e^-x. */
VEC_INLINE vf vf_mish(vf x) {
    vf bounded = vf_max(vf_set(-110.0f), x);
    vec_reduced z = vec_reduce(vf_max(vf_set(-110.0f), -vf_abs(x)));
    vf m = vec_exp_poly(z.r) * z.power, e = m * z.power, one = vf_set(1.0f);
    vi below = x < 0.0f;
    vf top = vf_select(below, e + 2.0f, e * 2.0f + 1.0f);
    vf bottom = vf_select(below, vf_fma(e, e + 2.0f, vf_set(2.0f)), vf_fma(e, e * 2.0f, top));
    vf y = bounded * vf_select(below, m, one) * top / bottom * vf_select(below, z.power, one);
    return vf_select(x == -VEC_INFINITY, vf_set(VEC_NAN), y);
}

#endif
