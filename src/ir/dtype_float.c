/* SPDX-License-Identifier: Apache-2.0 */
/* Floating-point codecs: f64, f16, bf16 and the four f8 kinds. The bodies are free of branches so
 * that compilers turn the loops into vector code. Knows nothing of tensors. */
#include "ir/dtype_codec.h"

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

/* By masks: a branch around the float sum in `yes` would keep compilers from vectorising. */
static inline uint32_t choose(bool condition, uint32_t yes, uint32_t no) {
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

/* Rebasing the exponent of a normal number from bias 15 to bias 127. */
#define F16_REBASE (112u << 23)

static inline float f16_decode(uint32_t half) {
    uint32_t magnitude = (half & 0x7fffu) << 13;
    uint32_t rebased = magnitude + F16_REBASE;
    /* Subnormals are counts of 2^-24; an int conversion also works where f32 subnormals are
     * flushed. */
    uint32_t tiny = bits_of((float)(int32_t)(half & 0x3ffu) * 0x1p-24f);
    uint32_t result = choose(magnitude < (1u << 23), tiny, rebased);
    result = choose(magnitude >= (31u << 23), rebased + F16_REBASE, result);
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
    uint32_t nan = 0x7c00u | choose(payload == 0, 0x200u, payload);
    uint32_t result = choose(magnitude < 0x38800000u, tiny, normal);
    result = choose(magnitude >= 0x47800000u, 0x7c00u, result);
    result = choose(magnitude > 0x7f800000u, nan, result);
    return result | sign;
}

static inline uint32_t bf16_encode(float value) {
    uint32_t bits = bits_of(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t nan = (bits >> 16) | choose((bits & 0x7f0000u) == 0, 0x40u, 0);
    return choose((bits & 0x7fffffffu) > 0x7f800000u, nan, rounded);
}

float rlx_f16_to_f32(uint16_t bits) {
    return f16_decode(bits);
}

uint16_t rlx_f32_to_f16(float value) {
    return (uint16_t)f16_encode(value);
}

uint16_t rlx_f32_to_bf16(float value) {
    return (uint16_t)bf16_encode(value);
}

void rlx_decode_f16(float *destination, const void *source, uint64_t count) {
    const unsigned char *bytes = source;
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, 2);
        rlx_put_f32(destination, i, f16_decode(half));
    }
}

void rlx_encode_f16(void *destination, const float *source, uint64_t count) {
    unsigned char *bytes = destination;
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half = (uint16_t)f16_encode(rlx_take_f32(source, i));
        memcpy(bytes + 2 * i, &half, 2);
    }
}

void rlx_decode_bf16(float *destination, const void *source, uint64_t count) {
    const unsigned char *bytes = source;
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half;
        memcpy(&half, bytes + 2 * i, 2);
        rlx_put_f32(destination, i, rlx_bf16_to_f32(half));
    }
}

void rlx_encode_bf16(void *destination, const float *source, uint64_t count) {
    unsigned char *bytes = destination;
    for (uint64_t i = 0; i < count; i++) {
        uint16_t half = (uint16_t)bf16_encode(rlx_take_f32(source, i));
        memcpy(bytes + 2 * i, &half, 2);
    }
}

void rlx_decode_f32(float *destination, const void *source, uint64_t count) {
    memmove(destination, source, (size_t)count * sizeof(float));
}

void rlx_encode_f32(void *destination, const float *source, uint64_t count) {
    memmove(destination, source, (size_t)count * sizeof(float));
}

void rlx_decode_f64(float *destination, const void *source, uint64_t count) {
    const unsigned char *bytes = source;
    for (uint64_t i = 0; i < count; i++) {
        double value;
        memcpy(&value, bytes + 8 * i, 8);
        rlx_put_f32(destination, i, (float)value);
    }
}

void rlx_encode_f64(void *destination, const float *source, uint64_t count) {
    unsigned char *bytes = destination;
    for (uint64_t i = 0; i < count; i++) {
        double value = (double)rlx_take_f32(source, i);
        memcpy(bytes + 8 * i, &value, 8);
    }
}

float rlx_f64_to_f32_odd(double value) {
    float nearest = (float)value;
    double back = (double)nearest;
    if (back == value || value != value) return nearest;
    uint32_t bits = bits_of(nearest);
    double magnitude = value < 0 ? -value : value;
    if ((back < 0 ? -back : back) > magnitude) bits -= 1; /* towards zero */
    return float_of(bits | 1u);
}

/* What tells the f8 kinds apart. `top` is the magnitude of the largest finite number, `over` what a
 * larger one becomes (the same where the kind has no infinity). */
typedef struct f8_kind {
    uint32_t mantissa_bits;
    int32_t bias;
    uint32_t top, over, nan;
    bool is_unsigned_zero; /* "fnuz": no -0; its code 0x80 is the only NaN */
} f8_kind;

static const f8_kind f8_e4m3fn = {3, 7, 0x7e, 0x7e, 0x7f, false};
static const f8_kind f8_e4m3fnuz = {3, 8, 0x7f, 0x7f, 0x80, true};
static const f8_kind f8_e5m2 = {2, 15, 0x7b, 0x7c, 0x7e, false};
static const f8_kind f8_e5m2fnuz = {2, 16, 0x7f, 0x7f, 0x80, true};

static inline float f8_decode(f8_kind kind, uint32_t code) {
    uint32_t magnitude = code & 0x7fu;
    uint32_t sign = (code & 0x80u) << 24;
    if (kind.is_unsigned_zero && code == 0x80u) return float_of(0x7fc00000u);
    if (magnitude > kind.top) {
        /* Infinity has no fraction bits, NaN has; they keep their place. */
        return float_of(sign | 0x7f800000u | (magnitude << (23 - kind.mantissa_bits) & 0x7fffffu));
    }
    uint32_t fraction = magnitude & ((1u << kind.mantissa_bits) - 1u);
    uint32_t exponent = magnitude >> kind.mantissa_bits;
    uint32_t rebase = (uint32_t)(127 - kind.bias);
    if (exponent == 0) { /* counts of the smallest subnormal */
        float unit = float_of((rebase + 1u - kind.mantissa_bits) << 23);
        return float_of(sign | bits_of((float)(int32_t)fraction * unit));
    }
    return float_of(sign | ((exponent + rebase) << 23) | (fraction << (23 - kind.mantissa_bits)));
}

static inline uint32_t f8_encode(f8_kind kind, float value) {
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 24) & 0x80u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t rebase = (uint32_t)(127 - kind.bias) << 23;
    uint32_t cut = 23 - kind.mantissa_bits;
    if (magnitude > 0x7f800000u) {
        uint32_t payload = (magnitude & 0x7fffffu) >> cut;
        if (kind.over == kind.top || payload == 0) return sign | kind.nan;
        return sign | kind.over | payload;
    }
    uint32_t result;
    if (magnitude < rebase + (1u << 23)) {
        /* Subnormal: add a power of two whose ulp is the smallest subnormal. */
        float anchor = float_of(((uint32_t)(127 - kind.bias) + 1u + cut) << 23);
        result = bits_of(float_of(magnitude) + anchor) - bits_of(anchor);
    } else {
        uint32_t rebased = magnitude - rebase;
        result = (rebased + (1u << (cut - 1)) - 1u + ((rebased >> cut) & 1u)) >> cut;
    }
    if (result > kind.top) result = kind.over;
    if (kind.is_unsigned_zero && result == 0) return 0;
    return result | sign;
}

#define F8_CODECS(name)                                                                \
    void rlx_decode_f8##name(float *destination, const void *source, uint64_t count) { \
        const uint8_t *codes = source;                                                 \
        for (uint64_t i = 0; i < count; i++)                                           \
            rlx_put_f32(destination, i, f8_decode(f8_##name, codes[i]));               \
    }                                                                                  \
    void rlx_encode_f8##name(void *destination, const float *source, uint64_t count) { \
        uint8_t *codes = destination;                                                  \
        for (uint64_t i = 0; i < count; i++)                                           \
            codes[i] = (uint8_t)f8_encode(f8_##name, rlx_take_f32(source, i));         \
    }
F8_CODECS(e4m3fn)
F8_CODECS(e4m3fnuz)
F8_CODECS(e5m2)
F8_CODECS(e5m2fnuz)
#undef F8_CODECS

float rlx_f8_to_f32(rlx_dtype dtype, uint8_t bits) {
    float value = 0;
    rlx_dtype_row_of(dtype)->decode(&value, &bits, 1);
    return value;
}

uint8_t rlx_f32_to_f8(rlx_dtype dtype, float value) {
    uint8_t bits = 0;
    rlx_dtype_row_of(dtype)->encode(&bits, &value, 1);
    return bits;
}
