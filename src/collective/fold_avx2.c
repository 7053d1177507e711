/* SPDX-License-Identifier: Apache-2.0 */
/* Folds for x86 with AVX2 and F16C. fold.c asks the processor before it calls anything here. */
#include "collective/fold.h"

#include <immintrin.h>

#define FOLD_TABLE rlx_fold_avx2
#define FOLD_BYTES 32

static inline __m256 decode_f16(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline void encode_f16(uint16_t *to, __m256 value) {
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT));
}

#include "collective/fold.inc"
