// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// The different slices of x, a lane per slice, three times (K0): which is the first equal one (into the workspace);
// where each first one goes, with its values, its place and how many it stands for; the place of every slice.
// p: step; elements of a slice: rank; slices; 8 dims; x base, distance of slices, 8 strides; y base, distance, 8
// strides; bases and strides of indices, inverse, counts; base of the count; where x is walked flat: rank, 8 dims and 8
// strides from 39 on. K1: in the order of first occurrence; K2: slices are elements of x, walked flat; K3: which
// outputs are wanted.
#include "common.glsl"
IN(1)
OUT(5) OUT(6) OUT(7) OUT(8) OUT(9) OUT(10)
int slice_at(int i) { return p[11] + (K2 != 0u ? offset(40, 48, p[39], i) : i * p[12]); }
int compare(uvec2 a, uvec2 b) {
    if (is_float(DT1)) {
        float x = uintBitsToFloat(a.x), y = uintBitsToFloat(b.x);
        if (x != x || y != y) return int(x != x) - int(y != y);
        return int(x > y) - int(x < y);
    }
    if (a == b) return 0;
    return (is_signed(DT1) ? less_s64(a, b) : less_u64(a, b)) ? -1 : 1;
}
int compare_slices(int a, int b) {
    int n = product(3, p[1]), x = slice_at(a), y = slice_at(b), order = 0;
    for (int i = 0; i < n && order == 0; i++) {
        int at = offset(3, 13, p[1], i);
        order = compare(value_1(x + at), value_1(y + at));
    }
    return order;
}
int first_of(int i) { return int(w5[i]); }
void main() {
    int i = item(), n = p[2];
    if (i >= n) return;
    if (K0 == 0u) {
        int found = i;
        for (int j = 0; j < i && found == i; j++) found = compare_slices(i, j) == 0 ? j : i;
        w5[i] = uint(found);
        return;
    }
    if (K0 == 2u) {
        if ((K3 & 4u) != 0u) put_8(p[33] + i * p[34], uvec2(w5[n + first_of(i)], 0u));
        if (i != 0 || (K3 & 16u) == 0u) return;
        uint groups = 0u;
        for (int j = 0; j < n; j++) groups += uint(first_of(j) == j);
        put_6(p[37], uvec2(groups, 0u));
        return;
    }
    if (first_of(i) != i) return;
    int to = 0, count = 0;
    for (int j = 0; j < n; j++) {
        count += int(first_of(j) == i);
        if (first_of(j) != j) continue;
        to += int(K1 != 0u ? j < i : compare_slices(j, i) < 0);
    }
    w5[n + i] = uint(to);
    if ((K3 & 2u) != 0u) put_9(p[31] + to * p[32], uvec2(uint(i), 0u));
    if ((K3 & 8u) != 0u) put_7(p[35] + to * p[36], uvec2(uint(count), 0u));
    int elements = (K3 & 1u) != 0u ? product(3, p[1]) : 0;
    for (int e = 0; e < elements; e++) put_raw_10(p[21] + to * p[22] + offset(3, 23, p[1], e), raw_1(slice_at(i) + offset(3, 13, p[1], e)));
}
