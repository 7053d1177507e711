// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// True sizes into the record of a step. The record is p here; the step's is binding 10.
// p: step; count; per extent: place in the record, bound, base of the i64, binding (1 to 8).
#include "common.glsl"
IN(1) IN(2) IN(3) IN(4) IN(5) IN(6) IN(7) IN(8)
OUT(10)
FAULTS
uvec2 read(int binding, int i) {
    if (binding == 1) return raw_1(i);
    if (binding == 2) return raw_2(i);
    if (binding == 3) return raw_3(i);
    if (binding == 4) return raw_4(i);
    if (binding == 5) return raw_5(i);
    if (binding == 6) return raw_6(i);
    if (binding == 7) return raw_7(i);
    return raw_8(i);
}
void main() {
    int i = item();
    if (i >= p[1]) return;
    uvec2 wide = read(p[5 + 4 * i], p[4 + 4 * i]);
    int value = int(wide.x), bound = p[3 + 4 * i];
    if (wide.y != 0u || value < 0 || value > bound) {
        raise(FAULT_BOUND, wide);
        value = bound;
    }
    w10[p[2 + 4 * i]] = uint(value);
}
