/* SPDX-License-Identifier: Apache-2.0 */
/* Pools with channels in blocks of 8 or 16, over one and two axes. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    int block = index % 2 == 0 ? 8 : 16;
    int kh = (int)kernel_pick(index, 0, 1, 3), kw = (int)kernel_pick(index, 1, 1, 4);
    int dh = (int)kernel_pick(index, 2, 1, 2), dw = (int)kernel_pick(index, 3, 1, 2);
    int height = (kh - 1) * dh + (int)kernel_pick(index, 4, 1, 9);
    int width = (kw - 1) * dw + (int)kernel_pick(index, 5, 1, 20);
    int pads[4], strides[2];
    for (uint32_t i = 0; i < 4; i++)
        pads[i] = (int)kernel_pick(index, 6 + i, 0, 2);
    for (uint32_t i = 0; i < 2; i++)
        strides[i] = (int)kernel_pick(index, 10 + i, 1, 3);
    const char *op = index % 4 < 2 ? "max_pool" : "average_pool";
    const char *mode = index % 3 == 0 ? " ceil_mode=true" : "";
    const char *counts = index % 5 == 0 ? " count_include_pad=true" : "";
    int batch = (int)kernel_pick(index, 12, 1, 2), blocks = (int)kernel_pick(index, 13, 1, 3);
    if (index % 7 == 0) {
        (void)snprintf(text, bytes,
                       "rlx 1\ninput x : f32[%d, %d, %d, %d]\ny = %s(x) kernel=[%d] strides=[%d] "
                       "dilations=[%d] pads=[%d, %d]%s%s is_blocked=true\noutput y\n",
                       batch, blocks, width, block, op, kw, strides[1], dw, pads[1], pads[3], mode,
                       counts);
        return;
    }
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : f32[%d, %d, %d, %d, %d]\ny = %s(x) kernel=[%d, %d] "
                   "strides=[%d, %d] dilations=[%d, %d] pads=[%d, %d, %d, %d]%s%s "
                   "is_blocked=true\noutput y\n",
                   batch, blocks, height, width, block, op, kh, kw, strides[0], strides[1], dh, dw,
                   pads[0], pads[1], pads[2], pads[3], mode, counts);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[1, 8, 112, 112, 8]\ny = max_pool(x) kernel=[3, 3] strides=[2, 2] "
    "pads=[1, 1, 1, 1] is_blocked=true\noutput y\n",
    NULL,
};

const kernel_family kernel_pool = {"pool", 1e-6, 60, write_case, timed};
