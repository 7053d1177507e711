// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// Non-maximum suppression, a group per class of a batch: the best box is taken and those that overlap it are
// struck out, until none or enough are left. The rows of a class begin where they would if every class took as
// many as are planned for; rows that are not taken are -1. nms_join.comp puts the rows together.
// p: step; batches, classes, boxes; rows per class; boxes: base, strides of batch, box, number; scores: base, strides
// of batch, class, box; bases of most, overlap, score; rows: base, 2 strides; base of the count.
// K0: 1 centre and size, 2 most, 4 overlap, 8 score are given.
#include "common.glsl"
IN(1) IN(2) IN(3) IN(4) IN(5)
OUT(10)
const int MOST_BOXES = 32768;
shared uint struck[MOST_BOXES / 32]; // a bit per box; a lane has words of its own
shared float scores[64];
shared int places[64];
// Boxes, scores and thresholds are f32.
float f32_1(int i) { return uintBitsToFloat(w1[i]); }
struct Box { float x0, y0, x1, y1; };
Box box(int batch, int i) {
    int at = p[5] + batch * p[6] + i * p[7], next = p[8];
    float a = f32_1(at), b = f32_1(at + next), c = f32_1(at + 2 * next), d = f32_1(at + 3 * next);
    if ((K0 & 1u) != 0u) return Box(a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0);
    return Box(b < d ? b : d, a < c ? a : c, b > d ? b : d, a > c ? a : c);
}
bool overlap(Box a, Box b, float most) {
    precise float width = (a.x1 < b.x1 ? a.x1 : b.x1) - (a.x0 > b.x0 ? a.x0 : b.x0);
    precise float height = (a.y1 < b.y1 ? a.y1 : b.y1) - (a.y0 > b.y0 ? a.y0 : b.y0);
    if (!(width > 0.0 && height > 0.0)) return false;
    precise float common_ = width * height, first = (a.x1 - a.x0) * (a.y1 - a.y0), second = (b.x1 - b.x0) * (b.y1 - b.y0);
    precise float all = first + second - common_;
    return all > 0.0 && common_ / all > most;
}
int most_rows() {
    if ((K0 & 2u) == 0u) return 0;
    uvec2 most = value_3(p[13]);
    if (is_negative(most)) return 0;
    return most.y != 0u || most.x > uint(p[4]) ? p[4] : int(most.x);
}
// The best of all lanes; of equals the first.
int choose(float score, int at) {
    barrier();
    scores[lane()] = score;
    places[lane()] = at;
    barrier();
    for (int n = 32; n > 0; n >>= 1) {
        if (lane() < n && places[lane() + n] >= 0) {
            float mine = scores[lane()], other = scores[lane() + n];
            int here = places[lane()], there = places[lane() + n];
            if (here < 0 || other > mine || (other == mine && there < here)) {
                scores[lane()] = other;
                places[lane()] = there;
            }
        }
        barrier();
    }
    return places[0];
}
void main() {
    int which = group();
    if (which >= p[1] * p[2]) return;
    int batch = which / p[2], n = p[3], rows = p[4], taken = 0, most = most_rows();
    int score_at = p[9] + batch * p[10] + which % p[2] * p[11], row = p[16] + which * rows * p[17];
    float overlap_most = (K0 & 4u) != 0u ? uintBitsToFloat(w4[p[14]]) : 0.0, least = (K0 & 8u) != 0u ? uintBitsToFloat(w5[p[15]]) : 0.0;
    Box last;
    int last_at = -1;
    for (int w = 0; w * 2048 < n; w++) struck[w * 64 + lane()] = 0u;
    while (taken < most) {
        float best = 0.0;
        int found = -1;
        for (int k = 0, i = lane(); i < n; k++, i += 64) {
            int word = k / 32 * 64 + lane();
            uint bit = 1u << (k & 31);
            if ((struck[word] & bit) != 0u) continue;
            float score = uintBitsToFloat(w2[score_at + i * p[12]]);
            bool out_ = last_at < 0 ? score != score || ((K0 & 8u) != 0u && !(score > least))
                                    : i == last_at || overlap(box(batch, i), last, overlap_most);
            if (out_) {
                struck[word] |= bit;
            } else if (found < 0 || score > best) {
                best = score;
                found = i;
            }
        }
        last_at = choose(best, found);
        if (last_at < 0) break;
        last = box(batch, last_at);
        if (lane() < 3) put_10(row + taken * p[17] + lane() * p[18], uvec2(uint(lane() == 0 ? batch : lane() == 1 ? which % p[2] : last_at), 0u));
        taken++;
    }
    for (int r = taken + lane(); r < rows; r += 64) put_10(row + r * p[17], uvec2(0xffffffffu));
}
