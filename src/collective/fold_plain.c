/* SPDX-License-Identifier: Apache-2.0 */
/* Folds on any processor: vectors of 16 bytes, which every compiler can take apart. */
#include "collective/fold.h"

#include "ir/dtype.h"

#include <string.h>

#define FOLD_TABLE rlx_fold_plain
#define FOLD_BYTES 16

typedef float plain_f32 __attribute__((vector_size(16)));
typedef uint32_t plain_u32 __attribute__((vector_size(16)));
typedef uint16_t v_half __attribute__((vector_size(16)));

static inline plain_f32 widen_f16(const uint16_t *from) {
    return (plain_f32){rlx_f16_to_f32(from[0]), rlx_f16_to_f32(from[1]), rlx_f16_to_f32(from[2]),
                       rlx_f16_to_f32(from[3])};
}

static inline plain_f32 widen_bf16(const uint16_t *from) {
    plain_u32 bits = {from[0], from[1], from[2], from[3]};
    return (plain_f32)(bits << 16);
}

static inline v_half narrow_f16(plain_f32 a, plain_f32 b) {
    v_half half = {0};
    for (int i = 0; i < 4; ++i) {
        half[i] = rlx_f32_to_f16(a[i]);
        half[i + 4] = rlx_f32_to_f16(b[i]);
    }
    return half;
}

static inline v_half narrow_bf16(plain_f32 a, plain_f32 b) {
    plain_u32 x = (plain_u32)a, y = (plain_u32)b;
    v_half half = {0};
    x = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    y = (y + 0x7fff + (y >> 16 & 1)) >> 16;
    for (int i = 0; i < 4; ++i) {
        half[i] = (uint16_t)x[i];
        half[i + 4] = (uint16_t)y[i];
    }
    return half;
}

/* Not inlined: eight loops use each. */
#define CODE(type)                                                                             \
    static __attribute__((noinline)) void decode_##type(                                       \
        const uint16_t *from, plain_f32 *a, plain_f32 *b, plain_f32 *c, plain_f32 *d) {        \
        *a = widen_##type(from), *b = widen_##type(from + 4);                                  \
        *c = widen_##type(from + 8), *d = widen_##type(from + 12);                             \
    }                                                                                          \
    static __attribute__((noinline)) void encode_##type(plain_f32 a, plain_f32 b, plain_f32 c, \
                                                        plain_f32 d, v_half *x, v_half *y) {   \
        *x = narrow_##type(a, b), *y = narrow_##type(c, d);                                    \
    }
CODE(f16)
CODE(bf16)

static inline int has_nan(plain_f32 a, plain_f32 b, plain_f32 c, plain_f32 d) {
    plain_u32 numbers =
        (plain_u32)(a == a) & (plain_u32)(b == b) & (plain_u32)(c == c) & (plain_u32)(d == d);
    return (numbers[0] & numbers[1] & numbers[2] & numbers[3]) == 0;
}

static inline plain_f32 one_nan(plain_f32 value) {
    const plain_u32 nan = {0x7fc00000, 0x7fc00000, 0x7fc00000, 0x7fc00000};
    plain_u32 is_number = (plain_u32)(value == value);
    return (plain_f32)((is_number & (plain_u32)value) | (~is_number & nan));
}

#include "collective/fold.inc"
