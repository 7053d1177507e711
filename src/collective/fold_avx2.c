/* SPDX-License-Identifier: Apache-2.0 */
/* Folds for x86 with AVX2 and F16C. fold.c asks the processor before it calls anything here. */
#include "collective/fold.h"

#include <immintrin.h>

#define FOLD_TABLE rlx_fold_avx2
#define FOLD_BYTES 32

typedef __m256i v_half;

static inline v_half load_halves(const uint16_t *from) {
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

static inline __m256 widen_f16(const uint16_t *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline void decode_f16(const uint16_t *from, __m256 *a, __m256 *b, __m256 *c, __m256 *d) {
    *a = widen_f16(from), *b = widen_f16(from + 8);
    *c = widen_f16(from + 16), *d = widen_f16(from + 24);
}

static inline v_half narrow_f16(__m256 a, __m256 b) {
    return _mm256_set_m128i(_mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

static inline void encode_f16(__m256 a, __m256 b, __m256 c, __m256 d, v_half *x, v_half *y) {
    *x = narrow_f16(a, b), *y = narrow_f16(c, d);
}

/* A bf16 is the upper half of an f32. Those at even places are shifted up, those at odd places are
 * there already: no element leaves its lane, here and on the way back. */
static inline __m256 even_bf16(v_half halves) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(halves, 16));
}

static inline __m256 odd_bf16(v_half halves) {
    const __m256i upper = _mm256_set1_epi32((int)0xffff0000u);
    return _mm256_castsi256_ps(_mm256_and_si256(halves, upper));
}

static inline void decode_bf16(const uint16_t *from, __m256 *a, __m256 *b, __m256 *c, __m256 *d) {
    v_half x = load_halves(from), y = load_halves(from + 16);
    *a = even_bf16(x), *b = odd_bf16(x);
    *c = even_bf16(y), *d = odd_bf16(y);
}

/* To the nearest, even on a tie; the result is in the upper half. */
static inline __m256i round_bf16(__m256 value) {
    __m256i bits = _mm256_castps_si256(value);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
}

static inline v_half narrow_bf16(__m256 even, __m256 odd) {
    return _mm256_blend_epi16(_mm256_srli_epi32(round_bf16(even), 16), round_bf16(odd), 0xaa);
}

static inline void encode_bf16(__m256 a, __m256 b, __m256 c, __m256 d, v_half *x, v_half *y) {
    *x = narrow_bf16(a, b), *y = narrow_bf16(c, d);
}

static inline int has_nan(__m256 a, __m256 b, __m256 c, __m256 d) {
    return _mm256_movemask_ps(
        _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q), _mm256_cmp_ps(c, d, _CMP_UNORD_Q)));
}

static inline __m256 one_nan(__m256 value) {
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

/* Two ranks: no loops over sources and targets, and NaN are looked for once per block, in what was
 * written. A NaN stays one when it is rounded: the operands' low bits are zero. */
enum { PAIR_RUN = 32, PAIR_BLOCK = 1024 };
static void mend_nans(uint16_t *halves, uint64_t count, uint16_t infinity, uint16_t nan) {
    for (uint64_t i = 0; i < count; ++i)
        if ((halves[i] & 0x7fff) > infinity) halves[i] = nan;
}

/* Lines of another rank take their time, and the work on one leaves no room for the next: they are
 * asked for a kibibyte ahead. */
static inline void ask_ahead(const uint16_t *from) {
    _mm_prefetch((const char *)((uintptr_t)from + 1024), _MM_HINT_T0);
}

#define PAIR_SUM(type, infinity, nan)                                                     \
    static uint64_t pair_sum_##type(const void *const *sources, void *const *targets,     \
                                    uint32_t target_count, uint64_t count, float scale) { \
        const uint16_t *p = sources[0], *q = sources[1];                                  \
        uint16_t *to = targets[0], *also = targets[target_count - 1];                     \
        uint64_t whole = count - count % PAIR_RUN, at = 0;                                \
        while (at < whole) {                                                              \
            uint64_t first = at, end = whole - at < PAIR_BLOCK ? whole : at + PAIR_BLOCK; \
            __m256 nans = _mm256_setzero_ps();                                            \
            for (; at < end; at += PAIR_RUN) {                                            \
                __m256 a, b, c, d, e, f, g, h;                                            \
                v_half x, y;                                                              \
                decode_##type(p + at, &a, &b, &c, &d);                                    \
                decode_##type(q + at, &e, &f, &g, &h);                                    \
                ask_ahead(p + at), ask_ahead(q + at);                                     \
                a = _mm256_add_ps(a, e), b = _mm256_add_ps(b, f);                         \
                c = _mm256_add_ps(c, g), d = _mm256_add_ps(d, h);                         \
                if (scale != 1.0f) {                                                      \
                    const __m256 by = _mm256_set1_ps(scale);                              \
                    a = _mm256_div_ps(a, by), b = _mm256_div_ps(b, by);                   \
                    c = _mm256_div_ps(c, by), d = _mm256_div_ps(d, by);                   \
                }                                                                         \
                nans = _mm256_or_ps(nans, _mm256_cmp_ps(a, b, _CMP_UNORD_Q));             \
                nans = _mm256_or_ps(nans, _mm256_cmp_ps(c, d, _CMP_UNORD_Q));             \
                encode_##type(a, b, c, d, &x, &y);                                        \
                _mm256_storeu_si256((v_half *)(void *)(to + at), x);                      \
                _mm256_storeu_si256((v_half *)(void *)(to + at + 16), y);                 \
                _mm256_storeu_si256((v_half *)(void *)(also + at), x);                    \
                _mm256_storeu_si256((v_half *)(void *)(also + at + 16), y);               \
            }                                                                             \
            if (_mm256_movemask_ps(nans) == 0) continue;                                  \
            mend_nans(to + first, end - first, infinity, nan);                            \
            mend_nans(also + first, end - first, infinity, nan);                          \
        }                                                                                 \
        return at;                                                                        \
    }
PAIR_SUM(f16, 0x7c00, 0x7e00)
PAIR_SUM(bf16, 0x7f80, 0x7fc0)
#define FOLD_HAS_PAIRS 1

#include "collective/fold.inc"
