// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// A group per result. p: step; outer rank, 8 dims; inner rank, 8 dims; y base, 8 outer strides; x base, 8 outer
// strides, 8 inner strides. K0: op, numbered from reduce_sum.
#include "common.glsl"
#include "math.glsl"
#ifdef DOUBLE
#include "math64.glsl"
#endif
IN(1)
OUT(10)
shared uvec2 wide[64];
const uint SUM = 0u, MEAN = 1u, MAX = 2u, MIN = 3u, PROD = 4u, L1 = 5u, L2 = 6u, LOG_SUM = 7u, LOG_SUM_EXP = 8u, SUM_SQUARE = 9u;
uvec2 bits(real x) { return value_of_real(x); }
uvec2 first() {
    if (is_float(DT1)) return bits(K0 == PROD ? 1.0 : K0 == MAX ? -INF : K0 == MIN ? INF : 0.0);
    if (K0 == PROD) return uvec2(1u, 0u);
    if (K0 != MAX && K0 != MIN) return uvec2(0u);
    if (DT1 == BOOL) return uvec2(uint(K0 == MIN), 0u);
    uint n = bits_of(DT1);
    uvec2 all = uvec2(0xffffffffu), low = is_signed(DT1) ? shl64(all, n - 1u) : uvec2(0u);
    uvec2 high = is_signed(DT1) ? uvec2(~low.x, ~low.y) : shr64(all, 64u - n, false);
    return K0 == MAX ? low : high;
}
uvec2 merge(uvec2 a, uvec2 b) {
    if (is_float(DT1)) {
        real x = real_of(a), y = real_of(b);
        if (K0 == PROD) return bits(x * y);
        if (K0 == MAX) return bits(x > y || x != x ? x : y);
        if (K0 == MIN) return bits(x < y || x != x ? x : y);
        return bits(x + y);
    }
    if (K0 == PROD) return mul64(a, b);
    bool less = is_signed(DT1) ? less_s64(a, b) : less_u64(a, b);
    if (K0 == MAX) return less ? b : a;
    if (K0 == MIN) return less ? a : b;
    return add64(a, b);
}
void main() {
    int line = group();
    if (line >= product(2, p[1])) return;
    int x = p[28] + offset(2, 29, p[1], line), n = product(11, p[10]);
    real shift = 0.0;
    if (K0 == LOG_SUM_EXP) {
        real most = -INF;
        for (int i = lane(); i < n; i += 64) most = nan_max(float_1(x + offset(11, 37, p[10], i)), most);
        shift = group_max(most);
        if (abs(shift) == INF) shift = 0.0;
    }
    uvec2 value = first();
    for (int i = lane(); i < n; i += 64) {
        uvec2 v = value_1(x + offset(11, 37, p[10], i));
        if (is_float(DT1)) {
            real f = real_of(v);
            if (K0 == L1) v = bits(abs(f));
            if (K0 == L2 || K0 == SUM_SQUARE) v = bits(f * f);
            if (K0 == LOG_SUM_EXP) v = bits(exp_(f - shift));
        } else {
            if (K0 == L1 && is_signed(DT1) && is_negative(v)) v = neg64(v);
            if (K0 == SUM_SQUARE) v = mul64(v, v);
        }
        value = merge(value, v);
    }
    wide[lane()] = value;
    barrier();
    for (int k = 32; k > 0; k >>= 1) {
        if (lane() < k) wide[lane()] = merge(wide[lane()], wide[lane() + k]);
        barrier();
    }
    if (lane() != 0) return;
    value = wide[0];
    if (is_float(DT1)) {
        real f = real_of(value);
        if (K0 == MEAN) f /= float(n);
        if (K0 == L2) f = sqrt(f);
        if (K0 == LOG_SUM) f = log_(f);
        if (K0 == LOG_SUM_EXP) f = shift + log_(f);
        value = bits(f);
    } else if (K0 == MEAN && n > 0) {
        uvec2 quotient, rest;
        bool minus = is_signed(DT1) && is_negative(value);
        divide64(minus ? neg64(value) : value, uvec2(uint(n), 0u), quotient, rest);
        value = minus ? neg64(quotient) : quotient;
    }
    put_10(p[19] + offset(2, 20, p[1], line), value);
}
