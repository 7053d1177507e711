/* SPDX-License-Identifier: Apache-2.0 */
/* The f32 patterns that round to each f16 or bf16, from the definition alone: the numbers between
 * two ties, found with doubles that hold them exactly. Both signs and NaN included, every pattern
 * of f32 is in exactly one range. */
#ifndef RLX_TESTS_DTYPE_RANGES_H
#define RLX_TESTS_DTYPE_RANGES_H

#include "ir/dtype.h"

#include <math.h>

/* A format of 16 bits. */
typedef struct half_format {
    rlx_dtype dtype;
    int mantissa, bias;
} half_format;

static const half_format half_formats[2] = {{RLX_DTYPE_F16, 10, 15}, {RLX_DTYPE_BF16, 7, 127}};

/* Codes without sign: 0 up to infinity, and one more that stands for every NaN. */
static inline uint32_t half_infinity(const half_format *f) {
    return (uint32_t)(2 * f->bias + 1) << f->mantissa;
}

/* As if exponents went on: what stands in infinity's place is the tie partner of the largest. */
static inline double half_number(const half_format *f, uint32_t code) {
    int exponent = (int)(code >> f->mantissa);
    double fraction = (double)(code & ((1u << f->mantissa) - 1));
    if (exponent == 0) return ldexp(fraction, 1 - f->bias - f->mantissa);
    return ldexp(fraction + ldexp(1, f->mantissa), exponent - f->bias - f->mantissa);
}

static inline uint32_t half_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Patterns without sign that are above everything which rounds to `code`. */
static inline uint32_t half_end(const half_format *f, uint32_t code) {
    if (code > half_infinity(f)) return 0x80000000u;
    if (code == half_infinity(f)) return 0x7f800001u;
    double tie = (half_number(f, code) + half_number(f, code + 1)) / 2;
    return half_bits((float)tie) + (code % 2 == 0); /* ties go to even */
}

static inline uint32_t half_begin(const half_format *f, uint32_t code) {
    return code == 0 ? 0 : half_end(f, code - 1);
}

/* Whether `got` is right for the f32 `pattern`, which lies in the range of `code`. */
static inline bool half_is_right(const half_format *f, uint32_t code, uint32_t pattern,
                                 uint32_t got) {
    uint32_t sign = (pattern >> 16) & 0x8000u;
    if (code <= half_infinity(f)) return got == (code | sign);
    return (got & 0x8000u) == sign && (got & 0x7fffu) > half_infinity(f);
}

#endif
