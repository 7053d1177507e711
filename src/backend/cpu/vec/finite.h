/* SPDX-License-Identifier: Apache-2.0 */
/* Where a fast way is right for finite numbers alone, kernels look whether they are. */
#ifndef RLX_BACKEND_CPU_VEC_FINITE_H
#define RLX_BACKEND_CPU_VEC_FINITE_H

#include "backend/cpu/vec/vec.h"

/* Whether all of `count` numbers side by side are finite: 0 times others is no number. */
static inline __attribute__((unused)) bool vec_is_finite(const float *x, int64_t count) {
    const vf zero = vf_set(0.0f);
    vf a = zero, b = zero, c = zero, d = zero;
    int64_t i = 0;
    for (; i + 4 * VF <= count; i += 4 * VF) {
        a = vf_fma(vf_load(x + i), zero, a);
        b = vf_fma(vf_load(x + i + VF), zero, b);
        c = vf_fma(vf_load(x + i + 2 * VF), zero, c);
        d = vf_fma(vf_load(x + i + 3 * VF), zero, d);
    }
    for (; i < count; i += VF)
        a = vf_fma(count - i >= VF ? vf_load(x + i) : vf_load_n(x + i, count - i), zero, a);
    a = (a + b) + (c + d);
    return vi_all((vi)(a == a));
}

#endif
