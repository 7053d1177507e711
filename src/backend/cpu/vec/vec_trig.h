/* SPDX-License-Identifier: Apache-2.0 */
/* sin and cos on vectors of f32. */
#ifndef RLX_BACKEND_CPU_VEC_TRIG_H
#define RLX_BACKEND_CPU_VEC_TRIG_H

#include "backend/cpu/vec/vec.h"

#include <math.h>

/* Up to here pi / 2 in three parts of f32 takes a whole number of quarters off without loss. */
#define VEC_TRIG_FAR 30000.0f

/* sin (phase 0) or cos (phase 1): x = k pi / 2 + r, |r| <= pi / 4; k + phase chooses. */
VEC_INLINE vf vec_trig_near(vf x, int32_t phase) {
    vf k = vf_round(x * 0x1.45f306p-1f);
    vi quarter = vi_of(k) + phase;
    vf r = vf_fma(k, vf_set(-0x1.921fb6p+0f), x);
    r = vf_fma(k, vf_set(0x1.777a5cp-25f), r);
    r = vf_fma(k, vf_set(0x1.ee59dap-50f), r);
    vf z = r * r;
    vf s = vf_set(-0x1.991e08p-13f);
    s = vf_fma(s, z, vf_set(0x1.1106cap-7f));
    s = vf_fma(s, z, vf_set(-0x1.555544p-3f));
    s = vf_fma(s, z * r, r);
    vf c = vf_set(0x1.99de6ep-16f);
    c = vf_fma(c, z, vf_set(-0x1.6c0c14p-10f));
    c = vf_fma(c, z, vf_set(0x1.55554ap-5f));
    c = vf_fma(c, z, vf_set(-0.5f));
    c = vf_fma(c, z, vf_set(1.0f));
    vf y = vf_select((quarter & 1) != 0, c, s);
    return (vf)((vi)y ^ ((quarter & 2) << 30));
}

/* Lanes that are far out, one by one: in double, as scalar C does it. */
static __attribute__((noinline, unused)) vf vec_trig_far(vf x, vf near, int32_t phase) {
    vec_parts from = {x}, to = {near};
    for (int i = 0; i < VF; i++) {
        if (!(fabsf(from.f[i]) <= VEC_TRIG_FAR))
            to.f[i] = (float)(phase == 0 ? sin((double)from.f[i]) : cos((double)from.f[i]));
    }
    return to.v;
}

VEC_INLINE vf vec_trig(vf x, int32_t phase) {
    vi is_near = vf_abs(x) <= VEC_TRIG_FAR;
    vf y = vec_trig_near(vf_select(is_near, x, vf_set(0.0f)), phase);
    return vi_all(is_near) ? y : vec_trig_far(x, y, phase);
}

/* At most 2 ulp, however large x is. */
VEC_INLINE vf vf_sin(vf x) {
    return vf_select(x == 0.0f, x, vec_trig(x, 0));
}
VEC_INLINE vf vf_cos(vf x) {
    return vec_trig(x, 1);
}

#endif
