/* SPDX-License-Identifier: Apache-2.0 */
/* Pools with every padding, stride and dilation, windows of padding alone, global pools. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    int h = (int)kernel_pick(index, 0, 3, 20), w = (int)kernel_pick(index, 1, 3, 50);
    int kh = (int)kernel_pick(index, 2, 1, 3), kw = (int)kernel_pick(index, 3, 1, 3);
    int dh = (int)kernel_pick(index, 4, 1, kh > 2 ? 1 : 2), dw = (int)kernel_pick(index, 5, 1, 2);
    if (index % 5 == 0) kh = h, kw = w, dh = dw = 1;
    if (dw == 2 && kw * 2 - 1 > w) dw = 1;
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : %s[%d, %d, %d, %d]\nr = relu(x)\nz = %s\n"
        "y = %s(z) kernel=[%d, %d] strides=[%d, %d] dilations=[%d, %d] "
        "pads=[%d, %d, %d, %d] ceil_mode=%s%s\noutput y\n",
        dtypes[index % 3], (int)kernel_pick(index, 6, 0, 2), (int)kernel_pick(index, 7, 1, 3), h, w,
        index % 4 == 3 ? "div(x, r)" : "neg(r)", index % 2 == 0 ? "max_pool" : "average_pool", kh,
        kw, (int)kernel_pick(index, 8, 1, 3), (int)kernel_pick(index, 9, 1, 3), dh, dw,
        (int)kernel_pick(index, 10, 0, kh - 1), (int)kernel_pick(index, 11, 0, kw - 1),
        (int)kernel_pick(index, 12, 0, kh - 1), (int)kernel_pick(index, 13, 0, kw - 1),
        index % 3 == 0 ? "true" : "false", index % 4 == 1 ? " count_include_pad=true" : "");
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[1, 64, 112, 112]\ny = max_pool(x) kernel=[3, 3] strides=[2, 2] "
    "pads=[1, 1, 1, 1]\noutput y\n",
    "rlx 1\ninput x : f32[1, 256, 28, 28]\ny = average_pool(x) kernel=[3, 3] strides=[1, 1] "
    "pads=[1, 1, 1, 1]\noutput y\n",
    "rlx 1\ninput x : f32[1, 2048, 7, 7]\ny = average_pool(x) kernel=[7, 7]\noutput y\n",
    NULL,
};

const kernel_family kernel_pool_plain = {"pool_plain", 2e-6, 120, write_case, timed};
