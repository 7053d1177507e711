/* SPDX-License-Identifier: Apache-2.0 */
/* Checked size arithmetic. Each returns false, and leaves *out alone, when the result would wrap.
 */
#ifndef RLX_BASE_SIZE_H
#define RLX_BASE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool rlx_add_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

static inline bool rlx_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    uint64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

static inline bool rlx_add_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

static inline bool rlx_mul_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

/* Rounds up to a multiple of `alignment`, a power of two. */
static inline bool rlx_align_u64(uint64_t value, uint64_t alignment, uint64_t *out) {
    uint64_t padded;
    if (!rlx_add_u64(value, alignment - 1, &padded)) return false;
    *out = padded & ~(alignment - 1);
    return true;
}

#endif
