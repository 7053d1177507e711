/* SPDX-License-Identifier: Apache-2.0 */
/* Largest bytes, plain and with channels in blocks of 8 or 16, with every padding, stride and
 * dilation, windows of padding alone, windows as large as the input. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const tails[] = {"", ", 8", ", 16"};
    const char *tail = tails[index % 3], *type = index % 2 == 0 ? "u8" : "i8";
    const char *blocked = index % 3 == 0 ? "" : " is_blocked=true";
    int kh = (int)kernel_pick(index, 0, 1, 3), kw = (int)kernel_pick(index, 1, 1, 5);
    int dh = (int)kernel_pick(index, 2, 1, 2), dw = (int)kernel_pick(index, 3, 1, 2);
    int height = (kh - 1) * dh + (int)kernel_pick(index, 4, 1, 9);
    int width = (kw - 1) * dw + (int)kernel_pick(index, 5, 1, 70);
    int pads[4], strides[2];
    for (uint32_t i = 0; i < 4; i++)
        pads[i] = (int)kernel_pick(index, 6 + i, 0, 4);
    for (uint32_t i = 0; i < 2; i++)
        strides[i] = (int)kernel_pick(index, 10 + i, 1, 3);
    const char *mode = index % 5 == 0 ? " ceil_mode=true" : "";
    int batch = (int)kernel_pick(index, 12, 1, 2), planes = (int)kernel_pick(index, 13, 1, 3);
    if (index % 7 == 0) {
        (void)snprintf(text, bytes,
                       "rlx 1\ninput x : %s[%d, %d, %d%s]\ny = max_pool(x) kernel=[%d] "
                       "strides=[%d] dilations=[%d] pads=[%d, %d]%s%s\noutput y\n",
                       type, batch, planes, width, tail, kw, strides[1], dw, pads[1], pads[3], mode,
                       blocked);
        return;
    }
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d, %d%s]\ny = max_pool(x) kernel=[%d, %d] "
                   "strides=[%d, %d] dilations=[%d, %d] pads=[%d, %d, %d, %d]%s%s\noutput y\n",
                   type, batch, planes, height, width, tail, kh, kw, strides[0], strides[1], dh, dw,
                   pads[0], pads[1], pads[2], pads[3], mode, blocked);
}

static const char *const timed[] = {
    "rlx 1\ninput x : u8[1, 8, 112, 112, 8]\ny = max_pool(x) kernel=[3, 3] strides=[2, 2] "
    "pads=[1, 1, 1, 1] is_blocked=true\noutput y\n",
    "rlx 1\ninput x : u8[1, 64, 112, 112]\ny = max_pool(x) kernel=[3, 3] strides=[2, 2] "
    "pads=[1, 1, 1, 1]\noutput y\n",
    NULL,
};

const kernel_family kernel_pool_bytes = {"pool_bytes", 0, 90, write_case, timed};
