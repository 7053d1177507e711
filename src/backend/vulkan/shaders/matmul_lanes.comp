// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_ballot : require
// f32 matmul for devices where a load costs much more than arithmetic (software): the record is that of matmul.comp.
// A subgroup has K4 rows of a; each lane loads another row and hands its elements to all, and sums 4 columns of a
// row-major b. Rows of a, b and y begin at multiples of 4 elements; k and n are multiples of 4.
// K0: activation; K1: 1 bias, 2 residual, 4 gated; K5: lanes of a subgroup, which divide 16 or are 16.
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

void main() {
    // Columns are padded so that all lanes of a subgroup have the same rows; those too many store nothing.
    int index = item(), m = p[8], columns = p[9] / 4, padded = (columns + 15) / 16 * 16, depth = p[10] / 4;
    int tiles = (m + int(K4) - 1) / int(K4) * padded;
    if (index >= tiles * product(2, p[1])) return;
    int batch = index / tiles, tile = index % tiles;
    int i = tile / padded * int(K4), column = tile % padded, j = 4 * min(column, columns - 1);
    int lane_ = int(gl_SubgroupInvocationID);
    int a = p[12] + offset(2, 29, p[1], batch), b = (p[13] + offset(2, 37, p[1], batch) + j) / 4, b_k = p[35] / 4;
    int rows[4];
    vec4 sums[16];
    [[unroll]] for (int t = 0; t < (int(K4) + int(K5) - 1) / int(K5); t++) {
        rows[t] = (a + min(i + t * int(K5) + lane_ % int(K4), m - 1) * p[27]) / 4;
    }
    [[unroll]] for (int r = 0; r < int(K4); r++) sums[r] = vec4(0.0);
    for (int k = 0; k < depth; k++) {
        vec4 x[4];
        [[unroll]] for (int t = 0; t < (int(K4) + int(K5) - 1) / int(K5); t++) x[t] = a4[rows[t] + k];
        [[unroll]] for (int e = 0; e < 4; e++) {
            vec4 u = b4[b];
            b += b_k;
            [[unroll]] for (int r = 0; r < int(K4); r++) {
                sums[r] += subgroupBroadcast(x[r / int(K5)][e], uint(r % int(K5))) * u;
            }
        }
    }
    if (column >= columns) return;
    int y = p[11] + offset(2, 21, p[1], batch) + j, bias = p[14] + offset(2, 45, p[1], batch);
    int residual = p[15] + offset(2, 53, p[1], batch);
    [[unroll]] for (int r = 0; r < int(K4); r++) {
        if (i + r < m) y4[(y + (i + r) * p[19]) / 4] = finish(sums[r], i + r, j, bias, residual);
    }
}
