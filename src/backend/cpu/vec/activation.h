/* SPDX-License-Identifier: Apache-2.0 */
/* Activations for the store loops of matmul, conv and recurrent kernels: the unary ops abs .. clip
 * by their number, on a vector of f32. The same functions as the elementwise kernels of this level,
 * so a fused activation gives the bits of one that stands alone. */
#ifndef RLX_BACKEND_CPU_VEC_ACTIVATION_H
#define RLX_BACKEND_CPU_VEC_ACTIVATION_H

#include "backend/cpu/vec/vec_unary.h"

/* Any activation, in place on `count` vectors of f32 at any address; one function per level, for it
 * is large. Many at once: what a vector waits for the next one need not. */
void VEC_SYMBOL(activation)(const rlx_activation *activation, void *data, int64_t count);

/* act(x). The op is RLX_OP_NONE for none; the cheap ones are inline, the others one call. */
VEC_INLINE vf vf_activation(const rlx_activation *activation, vf x) {
    switch (activation->op) {
    case RLX_OP_NONE:
        return x;
    case RLX_OP_RELU:
        return vec_unary(RLX_OP_RELU, x, 0, 0);
    case RLX_OP_CLIP:
        return vec_unary(RLX_OP_CLIP, x, activation->alpha, activation->beta);
    default:
        VEC_SYMBOL(activation)(activation, &x, 1);
        return x;
    }
}

/* In place on `count` numbers side by side. */
static inline __attribute__((unused)) void vec_activation_run(const rlx_activation *activation,
                                                              float *values, int64_t count) {
    int64_t whole = count / VF * VF;
    vf rest = {0};
    if (activation->op == RLX_OP_NONE) return;
    VEC_SYMBOL(activation)(activation, values, whole / VF);
    if (whole == count) return;
    memcpy(&rest, values + whole, (size_t)(count - whole) * sizeof *values);
    VEC_SYMBOL(activation)(activation, &rest, 1);
    memcpy(values + whole, &rest, (size_t)(count - whole) * sizeof *values);
}

#endif
