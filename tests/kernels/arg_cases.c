/* SPDX-License-Identifier: Apache-2.0 */
/* arg_max and arg_min along every axis. Values are few, so that there are equals; some are NaN. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    int rank = 1 + (int)(index % 3), axis = (int)kernel_pick(index, 0, 0, rank - 1);
    char dims[64];
    uint32_t at = 0;
    for (int i = 0; i < rank; i++) {
        int dim = (int)kernel_pick(index, 1 + (uint32_t)i, 1, i == axis ? 60 : 300 / (rank * rank));
        at += (uint32_t)snprintf(dims + at, sizeof dims - at, "%s%d", i == 0 ? "" : ", ", dim);
    }
    (void)snprintf(
        text, bytes,
        "rlx 1\ninput x : f32[%s]\nconst two : f32[] = [2]\nm = mul(x, two)\n"
        "n = round(m)\nr = %s(n)\ny = %s(r) axis=%d keep_dims=%s select_last=%s\noutput y\n",
        dims, index % 5 == 0 ? "sqrt" : "abs", index % 2 == 0 ? "arg_max" : "arg_min", axis,
        index % 7 < 3 ? "true" : "false", index / 2 % 2 == 0 ? "true" : "false");
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[8400, 80]\ny = arg_max(x) axis=1\noutput y\n",
    "rlx 1\ninput x : f32[1, 21, 256, 256]\ny = arg_max(x) axis=1\noutput y\n",
    NULL,
};

const kernel_family kernel_arg = {"arg", 0, 120, write_case, timed};
