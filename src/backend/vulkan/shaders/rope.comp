// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// A lane per pair, then one per element that passes. The angle is position times frequency in whole turns, as a
// fraction of 2^64: exact for any position.
// p: step; B, H, S, D; rotary; pair step, pair distance; x base, 4 strides; y base, 4 strides; position base, stride of b,
// of s; then (low, high) of each frequency from 21 on.
#include "common.glsl"
#include "math.glsl"
IN(1) IN(2)
OUT(10)
void main() {
    int index = item(), half_ = p[5] / 2, per_row = half_ + p[4] - p[5];
    if (index >= p[1] * p[2] * p[3] * per_row) return;
    int i = index % per_row, s = index / per_row % p[3], h = index / per_row / p[3] % p[2], b = index / per_row / p[3] / p[2];
    int x = p[8] + b * p[9] + h * p[10] + s * p[11], y = p[13] + b * p[14] + h * p[15] + s * p[16];
    if (i >= half_) {
        int d = i + half_;
        put_raw_10(y + d * p[17], raw_1(x + d * p[12]));
        return;
    }
    uvec2 position = value_2(p[18] + b * p[19] + s * p[20]);
    uvec2 angle = mul64(position, uvec2(p[21 + 2 * i], p[22 + 2 * i]));
    vec2 t = turn(angle.y);
    int first = i * p[6], second = first + p[7];
    float u = float_1(x + first * p[12]), v = float_1(x + second * p[12]);
    put_float_10(y + first * p[17], u * t.y - v * t.x);
    put_float_10(y + second * p[17], u * t.x + v * t.y);
}
