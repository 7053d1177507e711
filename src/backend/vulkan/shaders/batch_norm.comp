// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// p: step; rank, 8 dims; y base, 8 strides; x base, 8 strides; epsilon; scale, bias, mean, variance as (base, stride).
#include "common.glsl"
IN(1) IN(2) IN(3) IN(4) IN(5)
OUT(10)
void main() {
    int index = item();
    if (index >= product(2, p[1])) return;
    int spatial = product(4, p[1] - 2), c = index / spatial % p[3];
    float x = float_1(p[19] + offset(2, 20, p[1], index)), scale = float_2(p[29] + c * p[30]);
    float mean = float_4(p[33] + c * p[34]), variance = float_5(p[35] + c * p[36]);
    float y = (x - mean) * (scale / sqrt(variance + pf(28))) + float_3(p[31] + c * p[32]);
    put_float_10(p[10] + offset(2, 11, p[1], index), y);
}
