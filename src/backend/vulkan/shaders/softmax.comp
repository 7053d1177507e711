// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// A group per line. p: step; rank and 8 dims of the lines; x base, 8 strides; y base, 8 strides; length of a
// line; x stride, y stride along it. K0: 1 for log_softmax.
#include "common.glsl"
#include "math.glsl"
#ifdef DOUBLE
#include "math64.glsl"
#endif
IN(1)
OUT(10)
void main() {
    int line = group();
    if (line >= product(2, p[1])) return;
    int x = p[10] + offset(2, 11, p[1], line), y = p[19] + offset(2, 20, p[1], line), n = p[28];
    real most = -INF, sum = 0.0;
    for (int i = lane(); i < n; i += 64) most = nan_max(float_1(x + i * p[29]), most);
    most = group_max(most);
    real base = most == -INF ? 0.0 : most;
    for (int i = lane(); i < n; i += 64) sum += exp_(float_1(x + i * p[29]) - base);
    sum = group_sum(sum);
    for (int i = lane(); i < n; i += 64) {
        real value = float_1(x + i * p[29]) - base;
        put_float_10(y + i * p[30], K0 != 0u ? value - log_(sum) : exp_(value) / sum);
    }
}
