/* SPDX-License-Identifier: Apache-2.0 */
/* The activations that the store loops of matmul, conv and recurrent kernels do not have inline. */
#include "backend/cpu/vec/activation.h"

#include "ref/unary.h"

/* What has no vector function goes through scalar C. */
vf VEC_SYMBOL(activation)(const rlx_activation *activation, vf x) {
    switch (activation->op) {
#define OP(name)        \
    case RLX_OP_##name: \
        return vec_unary(RLX_OP_##name, x, activation->alpha, activation->beta);
        VEC_UNARY_OPS(OP)
#undef OP
    default: {
        vec_parts values = {x};
        rlx_ref_unary_run_f32(activation->op, values.f, VF, activation->alpha, activation->beta);
        return values.v;
    }
    }
}
