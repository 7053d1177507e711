/* SPDX-License-Identifier: Apache-2.0 */
/* layer_norm and rms_norm: with and without scale, bias, residual and sum; rows with a large common
 * offset, rows of zeros, rows whose squares f32 cannot hold, rows with holes (also in the
 * residual), weights with a number for each run of a row. */
#include "kernels/families.h"

#include <stdio.h>

static void write_case(uint32_t index, char *text, uint32_t bytes) {
    static const char *const dtypes[] = {"f32", "f16", "bf16"};
    static const char *const offsets[] = {"0", "1000", "-3", "0"};
    static const char *const factors[] = {"1", "1", "0.5", "0"};
    const char *dtype = dtypes[index % 3], *weights = index % 2 == 0 ? "f32" : dtype;
    int64_t a = kernel_pick(index, 0, 0, 3), b = kernel_pick(index, 1, 1, 9);
    int64_t c = kernel_pick(index, 2, 1, 100), axis = kernel_pick(index, 3, 1, 2);
    uint32_t kind = index / 3 % 4;
    bool is_huge = index % 21 == 9; /* of f32 */
    bool is_turned = index % 8 == 5, is_added_turned = index % 9 == 5;
    bool has_runs = axis == 1 && index % 4 == 2;
    char row[32];
    (void)snprintf(row, sizeof row, axis == 1 ? "%d, %d" : "%.0d%d", axis == 1 ? (int)b : 0,
                   has_runs ? 1 : (int)c);
    (void)snprintf(text, bytes,
                   "rlx 1\ninput x : %s[%d, %d, %d]\ninput r : %s[%d, %d, %d]\n"
                   "param s : %s[%s] = seeded(1, 1)\nparam b : %s[%s] = seeded(2, 1)\n"
                   "const o : %s[] = %s\nconst f : %s[] = %s\nm = mul(x, f)\nw = add(m, o)\n"
                   "z = transpose(w) perm=[0, %d, %d]\ne = transpose(r) perm=[0, %d, %d]\n"
                   "y, t = %s(z, %s, %s, %s) axis=%d epsilon=1e-5\noutput y\noutput t\n",
                   dtype, (int)a, (int)(is_turned ? c : b), (int)(is_turned ? b : c), dtype, (int)a,
                   (int)(is_added_turned ? c : b), (int)(is_added_turned ? b : c), weights, row,
                   weights, row, dtype, offsets[kind], dtype, is_huge ? "1e25" : factors[kind],
                   is_turned ? 2 : 1, is_turned ? 1 : 2, is_added_turned ? 2 : 1,
                   is_added_turned ? 1 : 2, index % 5 < 2 ? "rms_norm" : "layer_norm",
                   index % 7 == 0 ? "_" : "s", index % 4 == 0 ? "_" : "b",
                   index % 6 < 3 ? "_" : "e", (int)axis);
}

static const char *const timed[] = {
    "rlx 1\ninput x : f32[4096, 1024]\nparam s : f32[1024] = seeded(1, 1)\n"
    "y = rms_norm(x, s) axis=-1 epsilon=1e-5\noutput y\n",
    "rlx 1\ninput x : f32[4096, 1024]\nparam s : f32[1024] = seeded(1, 1)\n"
    "param b : f32[1024] = seeded(2, 1)\ny = layer_norm(x, s, b) axis=-1 epsilon=1e-5\noutput y\n",
    "rlx 1\ninput x : bf16[4096, 1024]\nparam s : f32[1024] = seeded(1, 1)\n"
    "y = rms_norm(x, s) axis=-1 epsilon=1e-5\noutput y\n",
    NULL,
};

const kernel_family kernel_norm = {"norm", 2e-5, 252, write_case, timed};
