/* SPDX-License-Identifier: Apache-2.0 */
/* Folds on any processor: vectors of 16 bytes, which every compiler can take apart. */
#include "collective/fold.h"

#include "ir/dtype.h"

#define FOLD_TABLE rlx_fold_plain
#define FOLD_BYTES 16

typedef float plain_f32 __attribute__((vector_size(16)));

static inline plain_f32 decode_f16(const uint16_t *from) {
    return (plain_f32){rlx_f16_to_f32(from[0]), rlx_f16_to_f32(from[1]), rlx_f16_to_f32(from[2]),
                       rlx_f16_to_f32(from[3])};
}

static inline void encode_f16(uint16_t *to, plain_f32 value) {
    for (int i = 0; i < 4; ++i)
        to[i] = rlx_f32_to_f16(value[i]);
}

#include "collective/fold.inc"
