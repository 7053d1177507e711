/* SPDX-License-Identifier: Apache-2.0 */
/* The activations that the store loops of matmul, conv and recurrent kernels do not have inline. */
#include "backend/cpu/vec/activation.h"

#include "ref/unary.h"

/* What has no vector function goes through scalar C. */
void VEC_SYMBOL(activation)(const rlx_activation *activation, void *data, int64_t count) {
    vf_loose *values = data;
    const double alpha = activation->alpha, beta = activation->beta;
    switch (activation->op) {
#define OP(name)                                                              \
    case RLX_OP_##name:                                                       \
        for (int64_t i = 0; i < count; i++)                                   \
            values[i] = vec_unary(RLX_OP_##name, (vf)values[i], alpha, beta); \
        return;
        VEC_UNARY_OPS(OP)
#undef OP
    default:
        for (int64_t i = 0; i < count; i++) {
            vec_parts parts = {(vf)values[i]};
            rlx_ref_unary_run_f32(activation->op, parts.f, VF, alpha, beta);
            values[i] = parts.v;
        }
    }
}
