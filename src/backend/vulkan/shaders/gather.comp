// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// gather, gather_elements and gather_nd: an element of the output is the element of the data whose place is
// the sum of strides over the output's axes, and of k indices times their own strides.
// p: step; 8 dims of the output; out base, 8 strides; data base, 8 strides; index base, 8 strides; k; the
// distance between the k indices; k times (size, stride) of the axis that an index counts in. K0: rank.
#include "common.glsl"
IN(1) IN(2)
OUT(10)
FAULTS
void main() {
    int index = item();
    if (index >= product(1, int(K0))) return;
    int to = p[9] + offset(1, 10, int(K0), index);
    int from = p[18] + offset(1, 19, int(K0), index);
    int at = p[27] + offset(1, 28, int(K0), index);
    bool inside = true;
    for (int j = 0; j < p[36]; j++) {
        uvec2 wide = value_2(at + j * p[37]);
        int i = int(wide.x), size = p[38 + 2 * j];
        bool fits = int(wide.y) == i >> 31 && i >= -size && i < size;
        if (!fits) {
            raise(FAULT_INDEX, wide);
            inside = false;
        }
        from += (i < 0 ? i + size : i) * p[39 + 2 * j];
    }
    if (inside) {
        put_raw_10(to, raw_1(from));
    } else {
        put_raw_10(to, uvec2(0u));
    }
}
