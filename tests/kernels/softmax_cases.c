/* SPDX-License-Identifier: Apache-2.0 */
/* Rows, lines side by side, also of turned axes, and lines longer than what is kept; infinities
 * make rows of NaN. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    int64_t a = kernel_pick(index, 0, 0, 5), b = kernel_pick(index, 1, 1, 70);
    int64_t c = kernel_pick(index, 2, 1, 40), axis = kernel_pick(index, 3, 0, 2);
    if (index % 4 == 2) b = kernel_pick(index, 4, 60, 130), axis = 2; /* more rows than a strip */
    if (index % 16 == 3) a = 1, b = 2, c = 4096 + kernel_pick(index, 4, 1, 90), axis = 2;
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d]\nconst k : %s[] = %d\nz = mul(x, k)\n"
                   "o = reshape(z) shape=[%d, 1, %d, %d]\np = transpose(o) perm=[%s]\n"
                   "q = softmax(p) axis=%d\noutput q\n"
                   "y = %s(z) axis=%d\nw = div(z, x)\nv = softmax(w) axis=%d\noutput y\noutput v\n",
                   dtypes[index % 3], (int)a, (int)b, (int)c, dtypes[index % 3],
                   index % 4 == 0 ? 100 : 3, (int)a, (int)b, (int)c,
                   index % 2 == 0 ? "2, 1, 0, 3" : "2, 0, 3, 1", (int)(axis % 2),
                   index % 2 == 0 ? "softmax" : "log_softmax", (int)axis, (int)axis);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[4096, 1024]\ny = softmax(x) axis=-1\noutput y\n",
    "rlx 1\ninput x : f16[4096, 1024]\ny = softmax(x) axis=-1\noutput y\n",
    "rlx 1\ninput x : f32[64, 64, 1024]\ny = log_softmax(x) axis=1\noutput y\n",
    NULL,
};

const kernel_family kernel_softmax = {"softmax", 2e-6, 96, write_case, timed};
