// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// A lane per line: arg_max, arg_min, cumsum, top_k. p: step; rank and 8 dims of the lines; x base, 8 strides; y base,
// 8 strides; z base, 8 strides (indices); length; x, y, z stride along the line; k.
// K0: 0 arg_max, 1 arg_min, 2 cumsum, 3 top_k; K1: 1 last of equals (arg), 1 exclusive, 2 reverse (cumsum), 1 smallest
// (top_k).
#include "common.glsl"
IN(1)
OUT(9) OUT(10)
// Whether a stands before b when the largest comes first; NaN is largest.
bool before(uvec2 a, uvec2 b) {
    if (is_float(DT1)) {
        real x = real_of(a), y = real_of(b);
        return (x != x && y == y) || x > y;
    }
    return is_signed(DT1) ? less_s64(b, a) : less_u64(b, a);
}
bool better(uvec2 a, uvec2 b, bool smallest) { return smallest ? before(b, a) : before(a, b); }
void main() {
    int line = item();
    if (line >= product(2, p[1])) return;
    int x = p[10] + offset(2, 11, p[1], line), y = p[19] + offset(2, 20, p[1], line), z = p[28] + offset(2, 29, p[1], line);
    int n = p[37], dx = p[38], dy = p[39], dz = p[40];
    if (K0 <= 1u) {
        int found = 0;
        uvec2 best = n > 0 ? value_1(x) : uvec2(0u);
        for (int i = 1; i < n; i++) {
            uvec2 v = value_1(x + i * dx);
            bool is_nan = false, was_nan = false;
            if (is_float(DT1)) {
                is_nan = real_of(v) != real_of(v);
                was_nan = real_of(best) != real_of(best);
            }
            // NaN wins in both.
            bool wins = was_nan ? is_nan && K1 != 0u : is_nan || better(v, best, K0 == 1u) || (K1 != 0u && !better(best, v, K0 == 1u));
            if (wins) {
                best = v;
                found = i;
            }
        }
        put_9(z, uvec2(uint(found), 0u));
        return;
    }
    if (K0 == 2u) {
        real sum = 0.0;
        uvec2 whole = uvec2(0u);
        for (int j = 0; j < n; j++) {
            int i = (K1 & 2u) != 0u ? n - 1 - j : j;
            uvec2 v = value_1(x + i * dx);
            uvec2 old = is_float(DT1) ? value_of_real(sum) : whole;
            sum += real_of(v);
            whole = add64(whole, v);
            uvec2 now = is_float(DT1) ? value_of_real(sum) : whole;
            put_10(y + i * dy, (K1 & 1u) != 0u ? old : now);
        }
        return;
    }
    // The best after the one before: of equals the lower index.
    uvec2 last = uvec2(0u);
    int last_at = -1;
    for (int j = 0; j < p[41]; j++) {
        uvec2 best = uvec2(0u);
        int found = -1;
        for (int i = 0; i < n; i++) {
            uvec2 v = value_1(x + i * dx);
            bool after = last_at < 0 || better(last, v, K1 != 0u) || (!better(v, last, K1 != 0u) && i > last_at);
            if (after && (found < 0 || better(v, best, K1 != 0u))) {
                best = v;
                found = i;
            }
        }
        last = best;
        last_at = found;
        put_10(y + j * dy, best);
        put_9(z + j * dz, uvec2(uint(found), 0u));
    }
}
