/* SPDX-License-Identifier: Apache-2.0 */
/* Folds for x86 with AVX2 and F16C. fold.c asks the processor before it calls anything here. */
#include "collective/fold.h"

#include <immintrin.h>

#define FOLD_TABLE rlx_fold_avx2
#define FOLD_BYTES 32

typedef __m256i v_half;

static inline __m128i load_half(const uint16_t *from) {
    return _mm_loadu_si128((const __m128i *)(const void *)from);
}

static inline __m256 decode_f16(const uint16_t *from) {
    return _mm256_cvtph_ps(load_half(from));
}

static inline v_half encode_f16(__m256 a, __m256 b) {
    return _mm256_set_m128i(_mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline __m256 decode_bf16(const uint16_t *from) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(from)), 16));
}

static inline __m256i round_bf16(__m256 value) {
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    bits = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    return _mm256_srli_epi32(bits, 16);
}

static inline v_half encode_bf16(__m256 a, __m256 b) {
    /* Packing goes by halves of a register: the middle quarters change places. */
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(round_bf16(a), round_bf16(b)), 0xd8);
}

static inline __m256 one_nan(__m256 value) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

#include "collective/fold.inc"
