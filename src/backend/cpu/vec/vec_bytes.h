/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as lanes of 32 bits and back, and lanes of integers from memory. */
#ifndef RLX_BACKEND_CPU_VEC_VEC_BYTES_H
#define RLX_BACKEND_CPU_VEC_VEC_BYTES_H

#include "backend/cpu/vec/vec.h"

typedef uint8_t vb __attribute__((vector_size(RLX_VEC_BYTES / 4))); /* VF bytes */

/* VF bytes as lanes. Named on x86: gcc 12 converts such vectors number by number. */
VEC_INLINE vi vi_of_bytes(const uint8_t *from) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from));
#elif defined(__AVX512F__) && RLX_VEC_BYTES == 64
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
#else
    vb bytes;
    memcpy(&bytes, from, sizeof bytes);
    return __builtin_convertvector(bytes, vi);
#endif
}
/* The low bytes of lanes between 0 and 255. */
VEC_INLINE void vi_store_bytes(uint8_t *to, vi x) {
#if defined(__AVX2__) && RLX_VEC_BYTES == 32
    __m128i low = _mm256_castsi256_si128((__m256i)x);
    low = _mm_packus_epi32(low, _mm256_extracti128_si256((__m256i)x, 1));
    _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(low, low));
#else
    vb bytes = __builtin_convertvector(x, vb);
    memcpy(to, &bytes, sizeof bytes);
#endif
}
VEC_INLINE vi vi_load(const int32_t *from) {
    vi x;
    memcpy(&x, from, sizeof x);
    return x;
}
VEC_INLINE void vi_store(int32_t *to, vi x) {
    memcpy(to, &x, sizeof x);
}

#endif
