// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// One output per lane. p: step; N, C; padding (unused); out dims (4..6), in dims (7..9), kernel (10..12), strides (13..15),
// dilations (16..18), pads before (19..21), pads after (22..24); bases of y, x, z (25..27); 5 strides each of y, x, z from
// 28 on. K0: 0 max, 1 average; K1: padding counts; K2: indices are wanted.
#include "common.glsl"
#include "math.glsl"
IN(1)
OUT(9) OUT(10)
int place(int base, int at, int a, int b, int c, int d, int e) {
    return p[base] + a * p[at] + b * p[at + 1] + c * p[at + 2] + d * p[at + 3] + e * p[at + 4];
}
bool above(uvec2 a, uvec2 b) {
    if (is_float(DT1)) {
        float x = uintBitsToFloat(a.x), y = uintBitsToFloat(b.x);
        return (x != x && y == y) || x > y;
    }
    return is_signed(DT1) ? less_s64(b, a) : less_u64(b, a);
}
void main() {
    int index = item();
    if (index >= p[1] * p[2] * p[4] * p[5] * p[6]) return;
    int o2 = index % p[6], o1 = index / p[6] % p[5], o0 = index / p[6] / p[5] % p[4];
    int c = index / p[6] / p[5] / p[4] % p[2], n = index / p[6] / p[5] / p[4] / p[2];
    int found = -1, inside = 0, padded = 0;
    uvec2 best = uvec2(0u);
    float sum = 0.0;
    for (int k0 = 0; k0 < p[10]; k0++) {
        int i0 = o0 * p[13] - p[19] + k0 * p[16];
        for (int k1 = 0; k1 < p[11]; k1++) {
            int i1 = o1 * p[14] - p[20] + k1 * p[17];
            for (int k2 = 0; k2 < p[12]; k2++) {
                int i2 = o2 * p[15] - p[21] + k2 * p[18];
                padded += int(i0 < p[7] + p[22] && i1 < p[8] + p[23] && i2 < p[9] + p[24]);
                if (i0 < 0 || i1 < 0 || i2 < 0 || i0 >= p[7] || i1 >= p[8] || i2 >= p[9]) continue;
                uvec2 v = value_1(place(26, 33, n, c, i0, i1, i2));
                inside++;
                if (K0 == 1u) {
                    sum += uintBitsToFloat(v.x);
                } else if (found < 0 || above(v, best)) {
                    best = v;
                    found = (((n * p[2] + c) * p[7] + i0) * p[8] + i1) * p[9] + i2;
                }
            }
        }
    }
    int to = place(25, 28, n, c, o0, o1, o2);
    if (K0 == 1u) {
        int count = K1 != 0u ? padded : inside;
        put_float_10(to, count > 0 ? sum / float(count) : 0.0);
        return;
    }
    if (found < 0) {
        if (is_float(DT1)) {
            best = uvec2(floatBitsToUint(-INF), 0u);
        } else {
            best = is_signed(DT1) ? shl64(uvec2(0xffffffffu), bits_of(DT1) - 1u) : uvec2(0u);
        }
    }
    put_10(to, best);
    if (K2 != 0u) put_9(place(27, 38, n, c, o0, o1, o2), found < 0 ? uvec2(0xffffffffu) : uvec2(uint(found), 0u));
}
