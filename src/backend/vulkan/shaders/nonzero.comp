// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Where elements are not zero, in their order: one group, each lane has a part of them.
// p: step; rank, 8 dims; x base, 8 strides; y base, strides of axis and entry; base of the count; 1.
// K0, K1: the bits of an element that must not all be 0 (low and high word). K2: 1 y, 2 the count is wanted.
#include "common.glsl"
#include "scan.glsl"
IN(1)
OUT(9) OUT(10)
bool is_there(int i) {
    uvec2 raw = raw_1(p[10] + offset(2, 11, p[1], i));
    return ((raw.x & K0) | (raw.y & K1)) != 0u;
}
void put_place(int index, int entry) {
    for (int d = p[1] - 1; d >= 0; d--) {
        int rest = index / p[2 + d];
        put_10(p[19] + d * p[20] + entry * p[21], uvec2(uint(index - rest * p[2 + d]), 0u));
        index = rest;
    }
}
void main() {
    if (group() != 0 || p[23] == 0) return;
    int n = product(2, p[1]), part = (n + 63) / 64, first = min(lane() * part, n), end = min(first + part, n);
    int found = 0, all;
    for (int i = first; i < end; i++) found += int(is_there(i));
    int entry = sum_before(found, all);
    for (int i = first; i < end && (K2 & 1u) != 0u; i++) {
        if (is_there(i)) put_place(i, entry++);
    }
    if (lane() == 0 && (K2 & 2u) != 0u) put_9(p[22], uvec2(uint(all), 0u));
}
