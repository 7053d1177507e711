// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// f32 matmul in registers with 128-bit loads, no shared memory: the record is that of matmul.comp. A lane has K4
// rows of 4 K5 columns of a row-major b (K3 0: b_n is 1), or K4 rows of 4 columns of one that is turned (K3 1: b_k is
// 1). Rows of a, b and y begin at multiples of 4 elements; k is a multiple of 4, and n of the columns.
// K0: activation; K1: 1 bias, 2 residual, 4 gated.
#include "common.glsl"
#include "math.glsl"
layout(std430, set = 0, binding = 1) readonly buffer A { vec4 a4[]; };
layout(std430, set = 0, binding = 2) readonly buffer B { vec4 b4[]; };
IN(3) IN(4)
layout(std430, set = 0, binding = 10) writeonly buffer Y { vec4 y4[]; };

vec4 finish(vec4 sum, int i, int j, int bias, int residual) {
    sum *= pf(16);
    for (int c = 0; c < 4; c++) {
        float x = sum[c];
        if ((K1 & 1u) != 0u) x += float_3(bias + i * p[43] + (j + c) * p[44]);
        float r = (K1 & 2u) != 0u ? float_4(residual + i * p[51] + (j + c) * p[52]) : 0.0;
        if ((K1 & 6u) == 2u) x += r;
        if (K0 != NO_ACTIVATION) x = activate(K0, x, pf(17), pf(18));
        if ((K1 & 4u) != 0u) x *= r;
        sum[c] = x;
    }
    return sum;
}

void by_rows(int tile, int batch) {
    int m = p[8], width = 4 * int(K5), columns = p[9] / width, depth = p[10] / 4;
    int i = tile / columns * int(K4), j = tile % columns * width;
    int a = p[12] + offset(2, 29, p[1], batch), b = (p[13] + offset(2, 37, p[1], batch) + j) / 4, b_k = p[35] / 4;
    int rows[8];
    vec4 low[8], high[8];
    [[unroll]] for (int r = 0; r < int(K4); r++) {
        rows[r] = (a + min(i + r, m - 1) * p[27]) / 4;
        low[r] = high[r] = vec4(0.0);
    }
    for (int k = 0; k < depth; k++) {
        vec4 x[8];
        [[unroll]] for (int r = 0; r < int(K4); r++) x[r] = a4[rows[r] + k];
        [[unroll]] for (int e = 0; e < 4; e++) {
            vec4 u = b4[b], v = K5 > 1u ? b4[b + 1] : vec4(0.0);
            b += b_k;
            [[unroll]] for (int r = 0; r < int(K4); r++) {
                low[r] += x[r][e] * u;
                if (K5 > 1u) high[r] += x[r][e] * v;
            }
        }
    }
    int y = p[11] + offset(2, 21, p[1], batch) + j, bias = p[14] + offset(2, 45, p[1], batch);
    int residual = p[15] + offset(2, 53, p[1], batch);
    [[unroll]] for (int r = 0; r < int(K4); r++) {
        if (i + r < m) {
            int at = (y + (i + r) * p[19]) / 4;
            y4[at] = finish(low[r], i + r, j, bias, residual);
            if (K5 > 1u) y4[at + 1] = finish(high[r], i + r, j + 4, bias, residual);
        }
    }
}

void by_dots(int tile, int batch) {
    int m = p[8], columns = p[9] / 4, depth = p[10] / 4;
    int i = tile / columns * int(K4), j = tile % columns * 4;
    int a = p[12] + offset(2, 29, p[1], batch), b = p[13] + offset(2, 37, p[1], batch);
    int rows[8], lines[4];
    vec4 sums[8];
    [[unroll]] for (int c = 0; c < 4; c++) lines[c] = (b + (j + c) * p[36]) / 4;
    [[unroll]] for (int r = 0; r < int(K4); r++) {
        rows[r] = (a + min(i + r, m - 1) * p[27]) / 4;
        sums[r] = vec4(0.0);
    }
    for (int k = 0; k < depth; k++) {
        vec4 u[4];
        [[unroll]] for (int c = 0; c < 4; c++) u[c] = b4[lines[c] + k];
        [[unroll]] for (int r = 0; r < int(K4); r++) {
            vec4 x = a4[rows[r] + k];
            sums[r] += vec4(dot(x, u[0]), dot(x, u[1]), dot(x, u[2]), dot(x, u[3]));
        }
    }
    int y = p[11] + offset(2, 21, p[1], batch) + j, bias = p[14] + offset(2, 45, p[1], batch);
    int residual = p[15] + offset(2, 53, p[1], batch);
    [[unroll]] for (int r = 0; r < int(K4); r++) {
        if (i + r < m) y4[(y + (i + r) * p[19]) / 4] = finish(sums[r], i + r, j, bias, residual);
    }
}

void main() {
    int columns = K3 == 0u ? 4 * int(K5) : 4, index = item();
    int tiles = (p[8] + int(K4) - 1) / int(K4) * (p[9] / columns);
    if (index >= tiles * product(2, p[1])) return;
    if (K3 == 0u) {
        by_rows(index % tiles, index / tiles);
    } else {
        by_dots(index % tiles, index / tiles);
    }
}
