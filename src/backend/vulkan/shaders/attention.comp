// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// A group per query row: keys in tiles of 64, a score per lane, a running softmax, then each lane sums columns of v.
// p: step; B, Hq, S, D; Hk, T of k, T of v, Dv; scale, softcap, window; then bases and 4 strides of q, k, v, mask, y from
// 12 on. K0: causal; K1: there is a mask; K2: columns per lane.
#include "common.glsl"
#include "math.glsl"
IN(1) IN(2) IN(3) IN(4)
OUT(10)
shared float scores[64];
int place(int at, int b, int h, int s, int d) { return p[at] + b * p[at + 1] + h * p[at + 2] + s * p[at + 3] + d * p[at + 4]; }
void main() {
    int row = group(), queries = p[3], heads = p[2];
    if (row >= p[1] * heads * queries) return;
    int s = row % queries, h = row / queries % heads, b = row / queries / heads, hk = h / (heads / p[5]);
    int keys = min(p[6], p[7]), end = keys, first = 0, depth = p[4], width = p[8];
    if (K0 != 0u) end = clamp(keys - queries + s + 1, 0, keys);
    if (p[11] > 0 && end > p[11]) first = end - p[11];
    int q = place(12, b, h, s, 0), mask = place(27, b, h, s, 0), y = place(32, b, h, s, 0);
    float sums[8];
    for (int c = 0; c < 8; c++) sums[c] = 0.0;
    float most = -INF, total = 0.0;
    for (int tile = first; tile < end; tile += 64) {
        int t = tile + lane();
        float score = -INF;
        if (t < end) {
            int k = place(17, b, hk, t, 0);
            score = 0.0;
            for (int d = 0; d < depth; d++) score += float_1(q + d * p[16]) * float_2(k + d * p[21]);
            score *= pf(9);
            if (pf(10) != 0.0) score = pf(10) * tanh_(score / pf(10));
            if (K1 != 0u) score += float_4(mask + t * p[31]);
        }
        float top = nan_max(group_max(score), most);
        float base = top == -INF ? 0.0 : top, old = exp_(most - base);
        if (most == -INF) old = 0.0;
        float part = t < end ? exp_(score - base) : 0.0;
        barrier();
        scores[lane()] = part;
        total = total * old + group_sum(part);
        int count = min(64, end - tile);
        for (int c = 0; c < int(K2); c++) {
            int d = lane() + 64 * c;
            float sum = sums[c] * old;
            if (d < width) {
                int v = place(22, b, hk, tile, d);
                for (int i = 0; i < count; i++) sum += scores[i] * float_3(v + i * p[25]);
            }
            sums[c] = sum;
        }
        most = top;
    }
    for (int c = 0; c < int(K2); c++) {
        int d = lane() + 64 * c;
        if (d < width) put_float_10(y + d * p[36], total == 0.0 ? 0.0 : sums[c] / total);
    }
}
