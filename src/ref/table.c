/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the scalar kernel of an op among the families' tables. */
#include "ref/kernel.h"

/* clang-format off */
#define FAMILIES(X)                                                                              \
    X(elementwise) X(matmul) X(conv) X(conv_quantised) X(pool) X(reduce) X(softmax) X(norm)       \
    X(attention) X(gather) X(scatter) X(move) X(pack) X(sort) X(state) X(recurrent) X(detect) X(unique)
/* clang-format on */

const rlx_kernel *rlx_ref_kernel(rlx_op op) {
#define X(family)                                                                           \
    for (uint32_t i = 0; i < rlx_ref_##family##_count; i++) {                               \
        if (rlx_ref_##family##_rows[i].op == op) return &rlx_ref_##family##_rows[i].kernel; \
    }
    FAMILIES(X)
#undef X
    return NULL;
}

void rlx_fault_raise(const rlx_kernel_args *args, rlx_fault_code code, int64_t value) {
    uint32_t unclaimed = 0;
    if (args->fault == NULL ||
        !atomic_compare_exchange_strong(&args->fault->claim, &unclaimed, 1)) {
        return;
    }
    args->fault->code = (uint32_t)code;
    args->fault->step = args->step;
    args->fault->value = value;
}
