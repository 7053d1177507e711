/* SPDX-License-Identifier: Apache-2.0 */
/* One element of each type to and from f32, as straight-line code: without branches compilers turn
 * the loops of dtype_codecs.inc into vector code. Everything stands on IEEE arithmetic in the
 * default mode. Only the codecs include this. */
#ifndef RLX_IR_DTYPE_ELEMENT_H
#define RLX_IR_DTYPE_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Conditions are masks, all ones or all zeros: bools and branches become poor vector code, or none.
 * Both numbers are below 2^31. */
static inline uint32_t less(uint32_t a, uint32_t b) {
    return (uint32_t)((int32_t)(a - b) >> 31);
}

static inline uint32_t choose(uint32_t mask, uint32_t yes, uint32_t no) {
    return no ^ ((yes ^ no) & mask);
}

/* For conditions on floats. */
static inline uint32_t mask_of(bool condition) {
    return 0u - (uint32_t)condition;
}

static inline float pick(bool condition, float yes, float no) {
    return float_of(choose(mask_of(condition), bits_of(yes), bits_of(no)));
}

/* Rebasing the exponent of a normal number from bias 15 to bias 127. */
#define F16_REBASE (112u << 23)

static inline float f16_decode(uint32_t half) {
    uint32_t magnitude = (half & 0x7fffu) << 13;
    uint32_t rebased = magnitude + F16_REBASE;
    /* Subnormals are counts of 2^-24; an int conversion also works where f32 subnormals are
     * flushed. */
    uint32_t tiny = bits_of((float)(int32_t)(half & 0x3ffu) * 0x1p-24f);
    uint32_t result = choose(less(magnitude, 1u << 23), tiny, rebased);
    result += ~less(magnitude, 31u << 23) & F16_REBASE;
    return float_of(result | ((half & 0x8000u) << 16));
}

static inline uint32_t f16_encode(float value) {
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t rebased = magnitude - F16_REBASE;
    uint32_t normal = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
    /* Below 2^-14 the sum with 0.5 has an ulp of 2^-24: the adder does the rounding. */
    uint32_t tiny = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    /* A NaN keeps the payload bits that fit, so that patterns survive a round trip. */
    uint32_t payload = (magnitude >> 13) & 0x3ffu;
    uint32_t nan = 0x7c00u | payload | (less(payload, 1) & 0x200u);
    uint32_t result = choose(less(magnitude, 0x38800000u), tiny, normal);
    result = choose(less(magnitude, 0x47800000u), result, 0x7c00u);
    result = choose(less(0x7f800000u, magnitude), nan, result);
    return result | sign;
}

static inline float bf16_decode(uint32_t half) {
    return float_of(half << 16);
}

static inline uint32_t bf16_encode(float value) {
    uint32_t bits = bits_of(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | (less(bits & 0x7f0000u, 1) & 0x40u);
    return choose(less(0x7f800000u, bits & 0x7fffffffu), nan, rounded);
}

/* What tells the f8 kinds apart. `top` is the magnitude of the largest finite number, `over` what a
 * larger one becomes (the same where the kind has no infinity). */
typedef struct f8_kind {
    uint32_t mantissa_bits, bias;
    uint32_t top, over, nan;
    bool is_unsigned_zero; /* "fnuz": no -0; its code 0x80 is the only NaN */
} f8_kind;

static const f8_kind f8_e4m3fn = {3, 7, 0x7e, 0x7e, 0x7f, false};
static const f8_kind f8_e4m3fnuz = {3, 8, 0x7f, 0x7f, 0x80, true};
static const f8_kind f8_e5m2 = {2, 15, 0x7b, 0x7c, 0x7e, false};
static const f8_kind f8_e5m2fnuz = {2, 16, 0x7f, 0x7f, 0x80, true};

static inline float f8_decode(f8_kind kind, uint32_t code) {
    uint32_t magnitude = code & 0x7fu;
    uint32_t cut = 23 - kind.mantissa_bits, rebase = 127 - kind.bias;
    uint32_t sign = (code & 0x80u) << 24;
    uint32_t fraction = magnitude & ((1u << kind.mantissa_bits) - 1u);
    /* Counts of the smallest subnormal. */
    float unit = float_of((rebase + 1u - kind.mantissa_bits) << 23);
    uint32_t tiny = bits_of((float)(int32_t)fraction * unit);
    uint32_t result = choose(less(magnitude, 1u << kind.mantissa_bits), tiny,
                             (magnitude << cut) + (rebase << 23));
    /* Infinity has no fraction bits, NaN has; they keep their place. */
    uint32_t special = 0x7f800000u | (magnitude << cut & 0x7fffffu);
    result = sign | choose(less(kind.top, magnitude), special, result);
    uint32_t is_nan = mask_of(kind.is_unsigned_zero) & less(code ^ 0x80u, 1);
    return float_of(choose(is_nan, 0x7fc00000u, result));
}

static inline uint32_t f8_encode(f8_kind kind, float value) {
    uint32_t bits = bits_of(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t cut = 23 - kind.mantissa_bits, rebase = (127 - kind.bias) << 23;
    uint32_t sign = (bits >> 24) & 0x80u;
    uint32_t rebased = magnitude - rebase;
    uint32_t normal = (rebased + (1u << (cut - 1)) - 1u + ((rebased >> cut) & 1u)) >> cut;
    /* Subnormal: add a power of two whose ulp is the smallest subnormal. */
    uint32_t anchor = (127 - kind.bias + 1u + cut) << 23;
    uint32_t tiny = bits_of(float_of(magnitude) + float_of(anchor)) - anchor;
    uint32_t result = choose(less(magnitude, rebase + (1u << 23)), tiny, normal);
    result = choose(less(kind.top, result), kind.over, result);
    uint32_t payload = (magnitude & 0x7fffffu) >> cut;
    uint32_t has_payload = mask_of(kind.over != kind.top) & less(0, payload);
    uint32_t nan = choose(has_payload, kind.over | payload, kind.nan);
    uint32_t kept = sign & (less(0, result) | ~mask_of(kind.is_unsigned_zero));
    return choose(less(0x7f800000u, magnitude), nan | sign, result | kept);
}

/* Half to even, for up to 16 bits: saturating first keeps the rounding in range, and adding and
 * subtracting 1.5 * 2^23 leaves no fraction bits. Unlike rint it is two vector instructions on
 * every machine. */
static inline float saturate(float value, float least, float most) {
    value = pick(value == value, value, 0.0f);
    value = pick(value < least, least, value);
    value = pick(value > most, most, value);
    return (value + 0x1.8p23f) - 0x1.8p23f;
}

static inline float magnitude_of(float value) {
    return float_of(bits_of(value) & 0x7fffffffu);
}

/* Half to even, not negative: an f32 of 2^23 or more has no fraction. NaN stays. */
static inline float round_magnitude(float magnitude) {
    float rounded = (magnitude + 0x1p23f) - 0x1p23f;
    return pick(magnitude < 0x1p23f, rounded, magnitude);
}

/* The sign of a float, as a mask. */
static inline uint32_t sign_of(float value) {
    return (uint32_t)((int32_t)bits_of(value) >> 31);
}

static inline int32_t i32_encode(float value) {
    float magnitude = magnitude_of(value);
    uint32_t fits = mask_of(magnitude < 0x1p31f), sign = sign_of(value);
    int32_t count = (int32_t)round_magnitude(float_of(bits_of(magnitude) & fits));
    uint32_t over = mask_of(value == value) & 0x7fffffffu;
    return (int32_t)((choose(fits, (uint32_t)count, over) ^ sign) - (sign & fits));
}

static inline uint32_t u32_encode(float value) {
    uint32_t over = mask_of(value >= 0x1p32f);
    uint32_t positive = mask_of(value > 0.0f) & ~over;
    float rounded = round_magnitude(float_of(bits_of(value) & positive));
    uint32_t upper = mask_of(rounded >= 0x1p31f);
    uint32_t count = (uint32_t)(int32_t)(rounded - float_of(bits_of(0x1p31f) & upper));
    return (count + (upper & 0x80000000u)) | over;
}

/* Not negative, below 2^64: up to 2^23 as a rounded number, from there on as a shifted fraction. */
static inline uint64_t count_of(float magnitude) {
    uint32_t bits = bits_of(magnitude);
    uint32_t is_small = less(bits, bits_of(0x1p23f));
    uint32_t small = (uint32_t)(int32_t)round_magnitude(float_of(bits & is_small));
    uint64_t large = (uint64_t)((bits & 0x7fffffu) | 0x800000u) << (((bits >> 23) - 150) & 63);
    uint64_t wide_mask = (uint64_t)(int64_t)(int32_t)is_small;
    return large ^ ((large ^ small) & wide_mask);
}

static inline int64_t i64_encode(float value) {
    uint64_t sign = (uint64_t)(int64_t)(int32_t)sign_of(value);
    uint64_t fits = 0u - (uint64_t)(magnitude_of(value) < 0x1p63f);
    uint64_t over = (0u - (uint64_t)(value == value)) & INT64_MAX;
    uint64_t count = (count_of(magnitude_of(value)) & fits) | (over & ~fits);
    return (int64_t)((count ^ sign) - (sign & fits));
}

static inline uint64_t u64_encode(float value) {
    uint64_t positive = 0u - (uint64_t)(value > 0.0f);
    uint64_t over = 0u - (uint64_t)(value >= 0x1p64f);
    return (count_of(magnitude_of(value)) & positive) | over;
}

#endif
