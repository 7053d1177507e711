/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    int64_t rows = kernel_pick(index, 0, 0, 5), columns = kernel_pick(index, 1, 1, 70);
    (void)snprintf(text, bytes, "rlx 1\ninput x : f32[%d, %d]\ny = softmax(x) axis=-1\noutput y\n",
                   (int)rows, (int)columns);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[4096, 1024]\ny = softmax(x) axis=-1\noutput y\n",
    NULL,
};

const kernel_family kernel_softmax = {"softmax", 1e-6, 40, write_case, timed};
