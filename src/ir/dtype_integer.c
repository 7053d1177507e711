/* SPDX-License-Identifier: Apache-2.0 */
/* Integer and bool codecs: f32 rounds half to even and saturates, NaN gives 0; bool is value != 0,
 * so NaN is true. 4-bit types lie two per byte, the low nibble first. */
#include "ir/dtype_codec.h"

/* Saturating first keeps the rounding in range; f64 holds every bound of up to 32 bits. */
static inline double saturate(float value, double least, double most) {
    double wide = (double)value;
    wide = wide != wide ? 0.0 : wide;
    wide = wide < least ? least : wide;
    wide = wide > most ? most : wide;
    return rlx_round_even(wide);
}

#define INTEGER_CODECS(name, type, least, most)                                      \
    void rlx_decode_##name(float *destination, const void *source, uint64_t count) { \
        const unsigned char *bytes = source;                                         \
        for (uint64_t i = 0; i < count; i++) {                                       \
            type value;                                                              \
            memcpy(&value, bytes + sizeof value * i, sizeof value);                  \
            rlx_put_f32(destination, i, (float)value);                               \
        }                                                                            \
    }                                                                                \
    void rlx_encode_##name(void *destination, const float *source, uint64_t count) { \
        unsigned char *bytes = destination;                                          \
        for (uint64_t i = 0; i < count; i++) {                                       \
            type value = (type)saturate(rlx_take_f32(source, i), least, most);       \
            memcpy(bytes + sizeof value * i, &value, sizeof value);                  \
        }                                                                            \
    }
INTEGER_CODECS(i8, int8_t, INT8_MIN, INT8_MAX)
INTEGER_CODECS(i16, int16_t, INT16_MIN, INT16_MAX)
INTEGER_CODECS(i32, int32_t, INT32_MIN, INT32_MAX)
INTEGER_CODECS(u8, uint8_t, 0, UINT8_MAX)
INTEGER_CODECS(u16, uint16_t, 0, UINT16_MAX)
INTEGER_CODECS(u32, uint32_t, 0, UINT32_MAX)
#undef INTEGER_CODECS

/* An f32 of 2^24 or more has no fraction: only smaller ones need rounding. */
static inline float round_f32(float value) {
    float magnitude = value < 0 ? -value : value;
    return magnitude < 0x1p24f ? (float)rlx_round_even((double)value) : value;
}

static inline int64_t to_i64(float value) {
    if (value != value) return 0;
    if (value >= 0x1p63f) return INT64_MAX;
    if (value < -0x1p63f) return INT64_MIN;
    return (int64_t)round_f32(value);
}

static inline uint64_t to_u64(float value) {
    if (!(value > 0)) return 0;
    if (value >= 0x1p64f) return UINT64_MAX;
    return (uint64_t)round_f32(value);
}

#define WIDE_CODECS(name, type)                                                      \
    void rlx_decode_##name(float *destination, const void *source, uint64_t count) { \
        const unsigned char *bytes = source;                                         \
        for (uint64_t i = 0; i < count; i++) {                                       \
            type value;                                                              \
            memcpy(&value, bytes + 8 * i, 8);                                        \
            rlx_put_f32(destination, i, (float)value);                               \
        }                                                                            \
    }                                                                                \
    void rlx_encode_##name(void *destination, const float *source, uint64_t count) { \
        unsigned char *bytes = destination;                                          \
        for (uint64_t i = 0; i < count; i++) {                                       \
            type value = to_##name(rlx_take_f32(source, i));                         \
            memcpy(bytes + 8 * i, &value, 8);                                        \
        }                                                                            \
    }
WIDE_CODECS(i64, int64_t)
WIDE_CODECS(u64, uint64_t)
#undef WIDE_CODECS

void rlx_decode_bool(float *destination, const void *source, uint64_t count) {
    const uint8_t *bytes = source;
    for (uint64_t i = 0; i < count; i++)
        rlx_put_f32(destination, i, bytes[i] != 0 ? 1.0f : 0.0f);
}

void rlx_encode_bool(void *destination, const float *source, uint64_t count) {
    uint8_t *bytes = destination;
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = rlx_take_f32(source, i) != 0.0f;
}

static inline uint8_t nibble_at(const uint8_t *bytes, uint64_t index) {
    return (uint8_t)((bytes[index / 2] >> (4 * (index % 2))) & 0xf);
}

/* Writes one nibble and leaves its neighbour alone. */
static inline void nibble_put(uint8_t *bytes, uint64_t index, uint32_t nibble) {
    uint32_t shift = (uint32_t)(4 * (index % 2));
    uint32_t kept = bytes[index / 2] & (0xf0u >> shift);
    bytes[index / 2] = (uint8_t)(kept | ((nibble & 0xfu) << shift));
}

void rlx_decode_i4(float *destination, const void *source, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        int32_t nibble = nibble_at(source, i);
        rlx_put_f32(destination, i, (float)(nibble < 8 ? nibble : nibble - 16));
    }
}

void rlx_encode_i4(void *destination, const float *source, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        nibble_put(destination, i, (uint32_t)(int32_t)saturate(rlx_take_f32(source, i), -8, 7));
}

void rlx_decode_u4(float *destination, const void *source, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        rlx_put_f32(destination, i, (float)nibble_at(source, i));
}

void rlx_encode_u4(void *destination, const float *source, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        nibble_put(destination, i, (uint32_t)saturate(rlx_take_f32(source, i), 0, 15));
}
