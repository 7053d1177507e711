/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs for x86 with AVX2 and F16C: f16 and bf16 by hand, the others as the compiler makes
 * them of the portable loops. Bit for bit what dtype_portable.c gives. Compiled with those
 * instructions switched on; dtype.c asks the processor before it calls anything here.
 *
 * Large results go past the caches: they would not stay there, and a store that has to fetch its
 * line first moves half as many bytes again (docs/decisions/0016-conversions.md).
 */
#define CODEC(name) name##_avx2
#define CODEC_HAS_HALVES
#include "ir/dtype_codecs.inc"

#include <immintrin.h>

enum {
    GROUP = 32,             /* elements of one round of a loop */
    LINE = 64,              /* bytes that memory moves at once */
    STREAM_BYTES = 8 << 20, /* results from this size on go past the caches */
    AHEAD_BYTES = 2048      /* how far ahead of itself a loop asks for its source */
};

static inline __m256i nan_lanes(__m256 value) {
    return _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

/* NaNs take a few instructions more, and are rare: whether any of 32 numbers is one. */
static inline bool has_nan(__m256 a, __m256 b, __m256 c, __m256 d) {
    __m256 unordered =
        _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q), _mm256_cmp_ps(c, d, _CMP_UNORD_Q));
    return __builtin_expect(_mm256_movemask_ps(unordered) != 0, 0);
}

static inline void store(void *to, __m256i value, bool streams) {
    if (streams) {
        _mm256_stream_si256((__m256i *)to, value);
    } else {
        _mm256_storeu_si256((__m256i *)to, value);
    }
}

static inline __m256i bf16_round(__m256 value, bool nans) {
    __m256i bits = _mm256_castps_si256(value), cut = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(cut, _mm256_set1_epi32(1));
    __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    if (!nans) return rounded;
    __m256i payload = _mm256_and_si256(cut, _mm256_set1_epi32(0x7f));
    __m256i lost = _mm256_cmpeq_epi32(payload, _mm256_setzero_si256());
    __m256i nan = _mm256_or_si256(cut, _mm256_and_si256(lost, _mm256_set1_epi32(0x40)));
    return _mm256_blendv_epi8(rounded, nan, nan_lanes(value));
}

/* Which lanes hardware makes quiet although their payload fits: 0x200 there, 0 elsewhere. */
static inline __m256i f16_quieted(__m256 value) {
    __m256i cut = _mm256_srli_epi32(_mm256_castps_si256(value), 13);
    __m256i payload = _mm256_and_si256(cut, _mm256_set1_epi32(0x3ff));
    __m256i fits = _mm256_cmpgt_epi32(payload, _mm256_setzero_si256());
    __m256i loud = _mm256_andnot_si256(payload, _mm256_set1_epi32(0x200));
    return _mm256_and_si256(_mm256_and_si256(fits, loud), nan_lanes(value));
}

/* Two vectors of 32-bit numbers as one of 16-bit numbers. */
static inline __m256i narrow(__m256i a, __m256i b) {
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8); /* quarters 0 2 1 3 */
}

static inline __m256i pack(__m256 a, __m256 b, bool is_bf16, bool nans) {
    if (is_bf16) return narrow(bf16_round(a, nans), bf16_round(b, nans));
    __m256i halves = _mm256_set_m128i(_mm256_cvtps_ph(b, _MM_FROUND_TO_NEAREST_INT),
                                      _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
    if (!nans) return halves;
    return _mm256_andnot_si256(narrow(f16_quieted(a), f16_quieted(b)), halves);
}

static inline void encode_few(uint8_t *to, const float *source, uint64_t count, bool is_bf16) {
    if (is_bf16) {
        rlx_encode_bf16(to, source, count);
    } else {
        rlx_encode_f16(to, source, count);
    }
}

static inline void encode_group(uint8_t *to, const float *source, bool is_bf16, bool streams) {
    __m256 a = _mm256_loadu_ps(source), b = _mm256_loadu_ps(source + 8);
    __m256 c = _mm256_loadu_ps(source + 16), d = _mm256_loadu_ps(source + 24);
    if (has_nan(a, b, c, d)) {
        store(to, pack(a, b, is_bf16, true), streams);
        store(to + 32, pack(c, d, is_bf16, true), streams);
        return;
    }
    store(to, pack(a, b, is_bf16, false), streams);
    store(to + 32, pack(c, d, is_bf16, false), streams);
}

/* How many elements of `size` bytes lie before the next line; 0 also where none begins on one. */
static uint64_t elements_to_line(const void *address, uint64_t size) {
    uint64_t bytes = (LINE - (uintptr_t)address % LINE) % LINE;
    return bytes % size == 0 ? bytes / size : 0;
}

static bool is_streamed(const void *address, uint64_t count, uint64_t size) {
    return count >= STREAM_BYTES / size && (uintptr_t)address % size == 0;
}

static inline void encode_halves(uint8_t *to, const float *source, uint64_t count, bool is_bf16) {
    uint64_t done = 0;
    if (is_streamed(to, count, 2)) {
        done = elements_to_line(to, 2);
        encode_few(to, source, done, is_bf16);
        for (; done + GROUP <= count; done += GROUP) {
            const char *ahead = (const char *)(source + done) + AHEAD_BYTES;
            _mm_prefetch(ahead, _MM_HINT_NTA);
            _mm_prefetch(ahead + LINE, _MM_HINT_NTA);
            encode_group(to + 2 * done, source + done, is_bf16, true);
        }
        _mm_sfence();
    }
    for (; done + GROUP <= count; done += GROUP)
        encode_group(to + 2 * done, source + done, is_bf16, false);
    encode_few(to + 2 * done, source + done, count - done, is_bf16);
}

void rlx_encode_f16_avx2(void *destination, const float *source, uint64_t count) {
    encode_halves(destination, source, count, false);
}

void rlx_encode_bf16_avx2(void *destination, const float *source, uint64_t count) {
    encode_halves(destination, source, count, true);
}

static inline void decode_few(float *to, const uint8_t *from, uint64_t count, bool is_bf16) {
    if (is_bf16) {
        rlx_decode_bf16(to, from, count);
    } else {
        rlx_decode_f16(to, from, count);
    }
}

static inline __m256 unpack(const uint8_t *from, bool is_bf16) {
    __m128i halves = _mm_loadu_si128((const __m128i *)from);
    if (!is_bf16) return _mm256_cvtph_ps(halves);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

/* Hardware makes every NaN quiet, ours keep their payload: takes the bit away where `from` did not
 * have it. */
static inline __m256 keep_payload(__m256 value, const uint8_t *from) {
    __m256i halves = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)from));
    __m256i loud = _mm256_andnot_si256(_mm256_slli_epi32(halves, 13), _mm256_set1_epi32(1 << 22));
    __m256i wrong = _mm256_and_si256(loud, nan_lanes(value));
    return _mm256_andnot_ps(_mm256_castsi256_ps(wrong), value);
}

static inline void decode_group(float *to, const uint8_t *from, bool is_bf16, bool streams) {
    __m256 a = unpack(from, is_bf16), b = unpack(from + 16, is_bf16);
    __m256 c = unpack(from + 32, is_bf16), d = unpack(from + 48, is_bf16);
    if (!is_bf16 && has_nan(a, b, c, d)) {
        a = keep_payload(a, from);
        b = keep_payload(b, from + 16);
        c = keep_payload(c, from + 32);
        d = keep_payload(d, from + 48);
    }
    store(to, _mm256_castps_si256(a), streams);
    store(to + 8, _mm256_castps_si256(b), streams);
    store(to + 16, _mm256_castps_si256(c), streams);
    store(to + 24, _mm256_castps_si256(d), streams);
}

static inline void decode_halves(float *to, const uint8_t *from, uint64_t count, bool is_bf16) {
    uint64_t done = 0;
    if (is_streamed(to, count, 4)) {
        done = elements_to_line(to, 4);
        decode_few(to, from, done, is_bf16);
        for (; done + GROUP <= count; done += GROUP) {
            _mm_prefetch((const char *)(from + 2 * done) + AHEAD_BYTES, _MM_HINT_NTA);
            decode_group(to + done, from + 2 * done, is_bf16, true);
        }
        _mm_sfence();
    }
    for (; done + GROUP <= count; done += GROUP)
        decode_group(to + done, from + 2 * done, is_bf16, false);
    decode_few(to + done, from + 2 * done, count - done, is_bf16);
}

void rlx_decode_f16_avx2(float *destination, const void *source, uint64_t count) {
    decode_halves(destination, source, count, false);
}

void rlx_decode_bf16_avx2(float *destination, const void *source, uint64_t count) {
    decode_halves(destination, source, count, true);
}
