// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// A group per row: layer, rms, group and instance norm, of x + residual. p: step; outer rank, 4 dims, inner rank,
// 8 dims; elements as f32 are counted; epsilon; then for x, residual, scale, bias, y, sum from 17 on 13 words
// each: base, 4 outer strides, 8 inner strides; then epsilon as f64. K0: 1 for rms; K1: 1 residual, 2 scale, 4 bias, 8 sum is wanted.
#include "common.glsl"
IN(1) IN(2) IN(3) IN(4)
OUT(9) OUT(10)
int row;
#ifdef DOUBLE
real epsilon() { return packDouble2x32(uvec2(p[95], p[96])); }
#else
real epsilon() { return pf(16); }
#endif
int place(int at, int i) { return p[at] + offset(2, at + 1, p[1], row) + offset(7, at + 5, p[6], i); }
real element(int i) {
    real x = float_1(place(17, i));
    if ((K1 & 1u) != 0u) x = round_to(DT1, x + float_2(place(30, i)));
    return x;
}
void main() {
    row = group();
    if (row >= product(2, p[1])) return;
    int n = product(7, p[6]);
    real mean = 0.0, square = 0.0;
    if (K0 == 0u) {
        for (int i = lane(); i < n; i += 64) mean += element(i);
        mean = group_sum(mean) / float(n);
    }
    for (int i = lane(); i < n; i += 64) {
        real d = element(i) - mean;
        square += d * d;
    }
    real factor = 1.0 / sqrt(group_sum(square) / float(n) + epsilon());
    for (int i = lane(); i < n; i += 64) {
        real x = element(i), y = (x - mean) * factor;
        if ((K1 & 8u) != 0u) put_float_9(place(82, i), x);
        if ((K1 & 2u) != 0u) y *= float_3(place(43, i));
        if ((K1 & 4u) != 0u) y += float_4(place(56, i));
        put_float_10(place(69, i), y);
    }
}
