// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// matmul of floats for GPUs: a group has a tile of 32 x 32 outputs, 4 x 4 per lane; 16 columns of a and 16 rows of b at a
// time lie in shared memory. Any strides and float dtypes. The record is that of matmul.comp.
// K0: activation; K1: 1 bias, 2 residual, 4 gated; K3: 1: b_k is 1, so that lanes side by side load along k.
#include "common.glsl"
#include "math.glsl"
IN(1) IN(2) IN(3) IN(4)
OUT(10)
const int SIDE = 32, DEPTH = 16, PITCH = 36;
shared float a_tile[DEPTH * PITCH];
shared float b_tile[DEPTH * PITCH];

void main() {
    int m = p[8], n = p[9], depth = p[10], across = (n + SIDE - 1) / SIDE, down = (m + SIDE - 1) / SIDE;
    int tile = group();
    if (tile >= across * down * product(2, p[1])) return;
    int batch = tile / (across * down), i = tile / across % down * SIDE, j = tile % across * SIDE;
    int a = p[12] + offset(2, 29, p[1], batch), b = p[13] + offset(2, 37, p[1], batch);
    int row = lane() / 8 * 4, column = lane() % 8 * 4;
    vec4 sums[4];
    [[unroll]] for (int r = 0; r < 4; r++) sums[r] = vec4(0.0);
    for (int k = 0; k < depth; k += DEPTH) {
        barrier();
        [[unroll]] for (int t = 0; t < 8; t++) {
            int at = lane() + 64 * t, ka = at % DEPTH, ra = at / DEPTH;
            int kb = K3 != 0u ? at % DEPTH : at / SIDE, cb = K3 != 0u ? at / DEPTH : at % SIDE;
            bool has_a = k + ka < depth && i + ra < m, has_b = k + kb < depth && j + cb < n;
            a_tile[ka * PITCH + ra] = has_a ? float_1(a + (i + ra) * p[27] + (k + ka) * p[28]) : 0.0;
            b_tile[kb * PITCH + cb] = has_b ? float_2(b + (k + kb) * p[35] + (j + cb) * p[36]) : 0.0;
        }
        barrier();
        for (int d = 0; d < DEPTH; d++) {
            int x = d * PITCH + row, y = d * PITCH + column;
            vec4 u = vec4(b_tile[y], b_tile[y + 1], b_tile[y + 2], b_tile[y + 3]);
            [[unroll]] for (int r = 0; r < 4; r++) sums[r] += a_tile[x + r] * u;
        }
    }
    int y = p[11] + offset(2, 21, p[1], batch), bias = p[14] + offset(2, 45, p[1], batch);
    int residual = p[15] + offset(2, 53, p[1], batch);
    for (int e = 0; e < 16; e++) {
        int r = i + row + e / 4, c = j + column + e % 4;
        if (r >= m || c >= n) continue;
        float sum = sums[e / 4][e % 4] * pf(16);
        if ((K1 & 1u) != 0u) sum += float_3(bias + r * p[43] + c * p[44]);
        float other = (K1 & 2u) != 0u ? float_4(residual + r * p[51] + c * p[52]) : 0.0;
        if ((K1 & 6u) == 2u) sum += other;
        if (K0 != NO_ACTIVATION) sum = activate(K0, sum, pf(17), pf(18));
        if ((K1 & 4u) != 0u) sum *= other;
        put_float_10(y + r * p[19] + c * p[20], sum);
    }
}
