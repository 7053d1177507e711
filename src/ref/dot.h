/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products as attention and recurrent layers form them: eight partial sums, joined at the
 * end, a fixed order that vector units like. */
#ifndef RLX_REF_DOT_H
#define RLX_REF_DOT_H

#include <stdint.h>

#define RLX_REF_DOT(name, type)                                            \
    static inline type name(const type *a, const type *b, int64_t count) { \
        type part[8] = {0};                                                \
        int64_t i = 0;                                                     \
        for (; i + 8 <= count; i += 8) {                                   \
            for (int j = 0; j < 8; j++)                                    \
                part[j] += a[i + j] * b[i + j];                            \
        }                                                                  \
        for (; i < count; i++)                                             \
            part[i % 8] += a[i] * b[i];                                    \
        return ((part[0] + part[4]) + (part[1] + part[5])) +               \
               ((part[2] + part[6]) + (part[3] + part[7]));                \
    }
RLX_REF_DOT(rlx_ref_dot_f32, float)
RLX_REF_DOT(rlx_ref_dot_f64, double)
#undef RLX_REF_DOT

#endif
