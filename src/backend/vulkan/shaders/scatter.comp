// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// The updates of scatter_elements and scatter_nd on data that is already in the output. A lane has a line of
// the output to itself and takes its updates one after the other, so that their order is kept.
// p: step; rank and 8 dims of the lanes; out base, 8 strides; update base, 8 strides; index base, 8 strides
// (all by lane); rank and 8 dims of the walk over the updates; 8 strides of updates, 8 of indices; k; distance
// between the k indices; k times (size, stride in the output); from 80 the first update and the end. K0: rlx_scatter_mode.
#include "common.glsl"
IN(2) IN(3)
OUT(10)
FAULTS
uvec2 merge(uvec2 old, uvec2 new) {
    if (is_float(DT10)) {
        float x = uintBitsToFloat(old.x), y = uintBitsToFloat(new.x), z = y;
        if (K0 == 1u) z = x + y;
        if (K0 == 2u) z = x * y;
        if (K0 == 3u) z = x < y || x != x ? x : y;
        if (K0 == 4u) z = x > y || x != x ? x : y;
        return K0 == 0u ? new : uvec2(floatBitsToUint(z), 0u);
    }
    bool less = is_signed(DT10) ? less_s64(old, new) : less_u64(old, new);
    if (K0 == 1u) return add64(old, new);
    if (K0 == 2u) return mul64(old, new);
    if (K0 == 3u) return less ? old : new;
    if (K0 == 4u) return less ? new : old;
    return new;
}
void main() {
    int line = item();
    if (line >= product(2, p[1])) return;
    int to = p[10] + offset(2, 11, p[1], line);
    int update = p[19] + offset(2, 20, p[1], line), first = p[28] + offset(2, 29, p[1], line);
    for (int u = p[80]; u < p[81]; u++) {
        int at = first + offset(38, 54, p[37], u), place = to;
        bool inside = true;
        for (int j = 0; j < p[62]; j++) {
            uvec2 wide = value_2(at + j * p[63]);
            int i = int(wide.x), size = p[64 + 2 * j];
            if (int(wide.y) != i >> 31 || i < -size || i >= size) {
                raise(FAULT_INDEX, wide);
                inside = false;
            }
            place += (i < 0 ? i + size : i) * p[65 + 2 * j];
        }
        if (!inside) continue;
        int from = update + offset(38, 46, p[37], u);
        if (K0 == 0u) {
            put_raw_10(place, raw_3(from));
        } else {
            put_10(place, merge(value_of(DT10, get_raw_10(place)), value_3(from)));
        }
    }
}
