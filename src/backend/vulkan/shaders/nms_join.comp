// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Rows that nms.comp took, one behind the other: one group, 64 rows at a time. No row moves to a higher place, so
// nothing is overwritten before it was read. p: as nms.comp; 22 is not 0. K0: the count is wanted.
#include "common.glsl"
#include "scan.glsl"
OUT(9) OUT(10)
void main() {
    if (group() != 0 || p[22] == 0) return;
    int rows = p[1] * p[2] * p[4], found = 0;
    for (int first = 0; first < rows; first += 64) {
        int row = first + lane(), from = p[16] + row * p[17], all;
        bool inside = row < rows;
        uvec2 a = inside ? get_raw_10(from) : uvec2(0xffffffffu);
        uvec2 b = inside ? get_raw_10(from + p[18]) : uvec2(0u), c = inside ? get_raw_10(from + 2 * p[18]) : uvec2(0u);
        bool taken = !is_negative(a);
        int to = p[16] + (found + sum_before(int(taken), all)) * p[17];
        if (taken) {
            put_raw_10(to, a);
            put_raw_10(to + p[18], b);
            put_raw_10(to + 2 * p[18], c);
        }
        found += all;
    }
    if (lane() == 0 && K0 != 0u) put_9(p[19], uvec2(uint(found), 0u));
}
