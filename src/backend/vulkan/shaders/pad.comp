// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// p: step; 8 dims of the output; out base, 8 strides; in base, 8 strides; 8 dims of what is left of the
// input; 8 pads before it; the raw bits of the number outside (2 words). K0: rank; K1: rlx_pad_mode.
#include "common.glsl"
IN(1)
OUT(10)
void main() {
    int index = item();
    if (index >= product(1, int(K0))) return;
    int to = p[9] + offset(1, 10, int(K0), index), from = p[18];
    bool outside = false;
    for (int d = int(K0) - 1; d >= 0; d--) {
        int rest = index / p[1 + d], size = p[27 + d];
        int i = index - rest * p[1 + d] - p[35 + d];
        index = rest;
        if (i < 0 || i >= size) {
            if (K1 == 0u) outside = true;
            if (K1 == 1u) {
                int period = max(2 * (size - 1), 1);
                i = ((i % period) + period) % period;
                i = i >= size ? period - i : i;
            }
            if (K1 == 2u) i = clamp(i, 0, size - 1);
            if (K1 == 3u) i = ((i % size) + size) % size;
        }
        from += i * p[19 + d];
    }
    if (outside) {
        put_raw_10(to, uvec2(p[43], p[44]));
    } else {
        put_raw_10(to, raw_1(from));
    }
}
