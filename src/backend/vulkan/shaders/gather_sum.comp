// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Elements of a row that an index names, weighted and summed: a lane per result. An index outside adds nothing.
// p: step; batches, channels, points of y; taps of a point; elements of a row of x; x: base, 3 strides; index: base,
// 3 strides; weights: base, 3 strides; y: base, 3 strides.
#include "common.glsl"
IN(1) IN(2) IN(3)
OUT(10)
void main() {
    int index = item();
    if (index >= product(1, 3)) return;
    int point = index % p[3], channel = index / p[3] % p[2], batch = index / p[3] / p[2];
    int from = p[6] + batch * p[7] + channel * p[8];
    int at = p[10] + batch * p[11] + point * p[13];
    int weight = p[14] + batch * p[15] + point * p[17];
    float sum = 0.0;
    for (int k = 0; k < p[4]; k++) {
        uvec2 wide = value_2(at + k * p[12]);
        int place = int(wide.x);
        bool inside = int(wide.y) == place >> 31 && place >= 0 && place < p[5];
        if (inside) sum += float_3(weight + k * p[16]) * float_1(from + place * p[9]);
    }
    put_float_10(p[18] + batch * p[19] + channel * p[20] + point * p[21], sum);
}
