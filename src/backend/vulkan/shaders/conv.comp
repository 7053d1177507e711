// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// One output per lane; three spatial axes, of which some may be 1. p: step; N, M, groups, C per group; out dims (5..7), in
// dims (8..10), kernel (11..13), strides (14..16), dilations (17..19), pads before (20..22); bases of y, x, w, bias, residual
// (23..27); bias stride; alpha, beta; 5 strides each of y, x, w, residual from 31 on.
// K0: activation; K1: 1 bias, 2 residual; K2: transposed.
#include "common.glsl"
#include "math.glsl"
IN(1) IN(2) IN(3) IN(4)
OUT(10)
int place(int base, int at, int a, int b, int c, int d, int e) {
    return p[base] + a * p[at] + b * p[at + 1] + c * p[at + 2] + d * p[at + 3] + e * p[at + 4];
}
// The input that meets output o at tap k; -1: none.
int source(int axis, int o, int k) {
    int at = K2 == 0u ? o * p[14 + axis] - p[20 + axis] + k * p[17 + axis] : o + p[20 + axis] - k * p[17 + axis];
    if (K2 != 0u) {
        if (at % p[14 + axis] != 0) return -1;
        at /= p[14 + axis];
    }
    return at < 0 || at >= p[8 + axis] ? -1 : at;
}
void main() {
    int index = item(), outputs = p[2];
    if (index >= p[1] * outputs * p[5] * p[6] * p[7]) return;
    int o2 = index % p[7], o1 = index / p[7] % p[6], o0 = index / p[7] / p[6] % p[5];
    int m = index / p[7] / p[6] / p[5] % outputs, n = index / p[7] / p[6] / p[5] / outputs;
    int per_group = outputs / p[3], g = m / per_group, channels = p[4];
    float sum = 0.0;
    for (int k0 = 0; k0 < p[11]; k0++) {
        int i0 = source(0, o0, k0);
        if (i0 < 0) continue;
        for (int k1 = 0; k1 < p[12]; k1++) {
            int i1 = source(1, o1, k1);
            if (i1 < 0) continue;
            for (int k2 = 0; k2 < p[13]; k2++) {
                int i2 = source(2, o2, k2);
                if (i2 < 0) continue;
                int x = place(24, 36, n, g * channels, i0, i1, i2);
                int w = K2 == 0u ? place(25, 41, m, 0, k0, k1, k2) : place(25, 41, g * channels, m % per_group, k0, k1, k2);
                int step_x = p[37], step_w = K2 == 0u ? p[42] : p[41];
                for (int c = 0; c < channels; c++) sum += float_1(x + c * step_x) * float_2(w + c * step_w);
            }
        }
    }
    if ((K1 & 1u) != 0u) sum += float_3(p[26] + m * p[28]);
    if ((K1 & 2u) != 0u) sum += float_4(place(27, 46, n, m, o0, o1, o2));
    if (K0 != NO_ACTIVATION) sum = activate(K0, sum, pf(29), pf(30));
    put_float_10(place(23, 31, n, m, o0, o1, o2), sum);
}
