// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Rows to their place in a state, and the length after it.
// p: step; rank and 8 dims of the rows; state base, 8 strides; rows base, 8 strides; axis; capacity;
// position base; length base. K0: wraps; K1: somebody wants the length.
#include "common.glsl"
IN(1) IN(2)
OUT(9) OUT(10)
FAULTS
void main() {
    int index = item(), rank = p[1], axis = p[28], capacity = p[29];
    uvec2 wide = raw_2(p[30]);
    int rows = p[2 + axis], position = int(wide.x);
    bool narrow = int(wide.y) == position >> 31, negative = is_negative(wide);
    bool inside = narrow && position >= 0 && position <= capacity - rows;
    bool fits = inside || (K0 != 0u && !negative);
    if (index == 0) {
        int length_ = inside ? position + rows : negative ? 0 : capacity;
        if (!fits && narrow && position >= 0 && position < capacity) length_ = position;
        if (K1 != 0u) put_9(p[31], uvec2(uint(length_), 0u));
        if (!fits) raise(FAULT_CAPACITY, wide);
    }
    if (!fits || index >= product(2, rank)) return;
    uvec2 quotient, start = uvec2(uint(position), 0u);
    if (!inside) divide64(wide, uvec2(uint(capacity), 0u), quotient, start);
    int to = p[10], from = p[19] + offset(2, 20, rank, index), rest = index;
    for (int d = rank - 1; d >= 0; d--) {
        int size = p[2 + d], next = rest / size, i = rest - next * size;
        if (d == axis) {
            i += int(start.x);
            if (i >= capacity) i -= capacity;
        }
        to += i * p[11 + d];
        rest = next;
    }
    if (DT1 == DT10) {
        put_raw_10(to, raw_1(from));
    } else {
        put_10(to, value_1(from));
    }
}
