/* SPDX-License-Identifier: Apache-2.0 */
/* gather_sum: neighbours, places anywhere, outside and twice the same, more points than are done at
 * a time, few points of many channels, elements and rows. roi_align: regions inside, across the
 * border and outside, one point and many per bin, more channels than are done together, planes with
 * holes between their columns. */
#include "kernels/families.h"

#include <stdio.h>

/* Every second tap is that before it, the one beside it, or one further. */
static void write_sum(uint32_t index, char *text, uint32_t bytes) {
    int channels = (int)kernel_pick(index, 0, 1, 70), length = (int)kernel_pick(index, 1, 1, 40);
    int points = (int)kernel_pick(index, 2, 1, 40), taps = (int)kernel_pick(index, 3, 1, 9);
    int from = (int)kernel_pick(index, 4, -3, length), times = index % 4 == 1 ? 30 : 1;
    char row[16] = "";
    if (index % 3 == 2) (void)snprintf(row, sizeof row, ", %d", (int)kernel_pick(index, 7, 1, 40));
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : f32[2, %d, %d%s]\ninput w : f32[2, %d, %d]\ninput r : f32[2, 1, %d]\n"
        "const k : f32[] = %d\nconst o : f32[] = %d\nconst s : f32[] = %d\nm = mul(r, k)\n"
        "q = add(m, o)\nf = floor(q)\nlong = tile(f) shape=[1, 1, %d]\nnext = add(long, s)\n"
        "both = concat(long, next) axis=1\nall = tile(both) shape=[1, %d, 1]\n"
        "some = slice(all) starts=[0] ends=[%d] axes=[1]\nplaces = cast(some) to=%s\n"
        "y = gather_sum(x, places, w)\noutput y\n",
        channels, length, row, taps, points * times, points, (int)kernel_pick(index, 5, 0, 9), from,
        (int)kernel_pick(index, 6, 0, 2), times, (taps + 1) / 2, taps,
        index % 2 == 0 ? "i32" : "i64");
}

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    int channels = (int)kernel_pick(index, 0, 1, 70), rows = (int)kernel_pick(index, 1, 1, 20);
    int columns = (int)kernel_pick(index, 2, 1, 20);
    bool is_turned = index % 3 == 1;
    if (index % 2 == 1) {
        write_sum(index / 2, text, bytes);
        return;
    }
    index /= 2;
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : f32[2, %d, %d, %d]\ninput r : f32[3, 4]\nconst k : f32[] = %d\n"
        "const o : f32[4] = [%d, 2, 12, 15]\nconst b : i64[3] = [0, 1, 0]\nm = mul(r, k)\n"
        "q = add(m, o)\nt = transpose(x) perm=[0, 1, %d, %d]\n"
        "y = roi_align(t, q, b) height=%d width=%d samples=%d scale=0.75 half_pixel=%s\noutput y\n",
        channels, rows, columns, (int)(index % 4) * 4, (int)kernel_pick(index, 3, -9, 9),
        is_turned ? 3 : 2, is_turned ? 2 : 3, (int)kernel_pick(index, 4, 1, 7),
        (int)kernel_pick(index, 5, 1, 9), (int)kernel_pick(index, 6, 0, 4),
        index % 2 == 0 ? "true" : "false");
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[1, 64, 50, 50]\ninput r : f32[50, 4]\nconst k : f32[] = 10\n"
    "const o : f32[4] = [10, 10, 30, 30]\nconst z : i64[1] = [0]\nb = expand(z) shape=[50]\n"
    "m = mul(r, k)\nq = add(m, o)\n"
    "y = roi_align(x, q, b) height=7 width=7 samples=2 scale=1 half_pixel=true\noutput y\n",
    NULL,
};

const kernel_family kernel_region = {"region", 1e-5, 160, write_case, timed};
