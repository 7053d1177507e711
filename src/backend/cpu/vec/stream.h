/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes past the caches, for results that are far larger than them (VEC_STREAM_BYTES). Where they
 * go is aligned to what is written. vec_stream_end comes before the results are handed over. */
#ifndef RLX_BACKEND_CPU_VEC_STREAM_H
#define RLX_BACKEND_CPU_VEC_STREAM_H

#include "backend/cpu/vec/rows.h"

VEC_INLINE void vec_stream_half_line(uint8_t *to, const uint8_t *from) {
#if defined(__AVX2__)
    __m256i x;
    memcpy(&x, from, sizeof x);
    _mm256_stream_si256((__m256i *)(void *)to, x);
#else
    memcpy(to, from, 32);
#endif
}

/* Whole lines of 64 bytes. */
VEC_INLINE void vec_stream_lines(uint8_t *to, const uint8_t *from, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += 64) {
        vec_stream_half_line(to + at, from + at);
        vec_stream_half_line(to + at + 32, from + at + 32);
    }
}

#endif
