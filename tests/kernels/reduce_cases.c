/* SPDX-License-Identifier: Apache-2.0 */
/* Every reduction over every choice of axes of a tensor with four; some rows are shorter than a
 * vector. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const ops[] = {"sum", "mean", "max",        "min",     "prod",
                                      "l1",  "l2",   "sum_square", "log_sum", "log_sum_exp"};
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    static const char *const axes[] = {"3",    "0",       "1",    "2",       "2, 3", "0, 1",
                                       "1, 3", "0, 2, 3", "0, 2", "1, 2, 3", ""};
    const char *dtype = dtypes[index % 3];
    bool is_log = index % 10 == 8;
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d, %d]\nz = %s(x)\nr = relu(x)\n"
                   "n = div(x, r)\ny = reduce_%s(z) axes=[%s] keep_dims=%s\n"
                   "w = reduce_%s(r) axes=[%s]\nv = reduce_%s(n) axes=[%s]\n"
                   "output y\noutput w\noutput v\n",
                   dtype, (int)kernel_pick(index, 0, 0, 4),
                   (int)kernel_pick(index, 1, 1, index % 5 == 1 ? 40 : 5),
                   (int)kernel_pick(index, 2, 1, 9),
                   (int)kernel_pick(index, 3, 1, index % 5 == 1 ? 9 : 100), is_log ? "abs" : "neg",
                   ops[index % 10], axes[index / 3 % 11], index % 2 == 0 ? "true" : "false",
                   index % 4 < 2 ? "max" : "min", axes[index / 3 % 11],
                   index % 4 < 2 ? "min" : "max", axes[index % 11]);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[4096, 1024]\ny = reduce_sum(x) axes=[1]\noutput y\n",
    "rlx 1\ninput x : f32[4096, 1024]\ny = reduce_sum(x) axes=[0]\noutput y\n",
    "rlx 1\ninput x : f32[4096, 1024]\ny = reduce_max(x) axes=[1]\noutput y\n",
    "rlx 1\ninput x : f32[64, 64, 1024]\ny = reduce_mean(x) axes=[1]\noutput y\n",
    NULL,
};

const kernel_family kernel_reduce = {"reduce", 2e-6, 198, write_case, timed};
