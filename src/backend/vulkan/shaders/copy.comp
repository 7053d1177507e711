// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Elements from one place to another by their bytes: views made plain, parts of a concat, tiles.
// p: step; 8 dims of the walk; out base, 8 strides; in base, 8 strides; 8 dims of the input; its rank.
// K0: rank; K1: 0 by strides, 1 the input counts on by itself (reshape), 2 it repeats (tile).
#include "common.glsl"
IN(1)
OUT(10)
void main() {
    int index = item();
    if (index >= product(1, int(K0))) return;
    int to = p[9] + offset(1, 10, int(K0), index), from = p[18];
    if (K1 == 0u) {
        from += offset(1, 19, int(K0), index);
    } else if (K1 == 1u) {
        from += offset(27, 19, p[35], index);
    } else {
        for (int d = int(K0) - 1; d >= 0; d--) {
            int rest = index / p[1 + d];
            from += (index - rest * p[1 + d]) % p[27 + d] * p[19 + d];
            index = rest;
        }
    }
    put_raw_10(to, raw_1(from));
}
