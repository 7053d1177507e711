/* SPDX-License-Identifier: Apache-2.0 */
/* Block-quantised weights in the data layout of GGUF files. Decoding is exact (each product and
 * difference rounded to f32 as written); encoding takes the scales from the extremes of each
 * sub-block. Every multi-byte field is little-endian.
 *
 *   q8_0  32 elements: f16 d, i8 q[32]                        x = d q
 *   q4_0  32 elements: f16 d, 16 bytes of nibbles             x = d (q - 8)
 *         byte j holds elements j (low nibble) and j + 16 (high nibble)
 *   q4_k  256 elements: f16 d, f16 dmin, 12 bytes of 6-bit scales s and minima m of the eight
 *         sub-blocks of 32, 128 bytes of nibbles              x = d s q - dmin m
 *         bytes 32 p .. 32 p + 31 hold sub-blocks 2 p (low nibbles) and 2 p + 1 (high nibbles)
 *   q6_k  256 elements: 128 bytes of low nibbles, 64 bytes of upper bit pairs, i8 scales s of the
 *         sixteen sub-blocks of 16, f16 d                     x = d s (q - 32)
 *         halves of 128: element 32 r + l has its low nibble in byte l + 32 (r & 1) of the half's
 * 64, the upper nibble for r >= 2, and its bit pair r in byte l of the half's 32 */
#include "ir/dtype_codec.h"

#include <math.h>

enum {
    SMALL_BLOCK = 32,
    Q8_0_BYTES = 34,
    Q4_0_BYTES = 18,
    SUPER_BLOCK = 256,
    Q4_K_BYTES = 144,
    Q4_K_SUB = 32,
    Q6_K_BYTES = 210,
    Q6_K_SUB = 16
};

static float load_f16(const uint8_t *bytes) {
    return rlx_f16_to_f32((uint16_t)(bytes[0] | bytes[1] << 8));
}

/* Stores `value` as f16 and returns what was stored, in f32. */
static float store_f16(uint8_t *bytes, float value) {
    uint16_t half = rlx_f32_to_f16(value);
    bytes[0] = (uint8_t)(half & 0xff);
    bytes[1] = (uint8_t)(half >> 8);
    return rlx_f16_to_f32(half);
}

/* Truncates into [least, most]; NaN gives `least`. */
static int32_t clamp_int(float value, int32_t least, int32_t most) {
    if (!(value > (float)least)) return least;
    return value >= (float)most ? most : (int32_t)value;
}

static int32_t round_clamp(float value, int32_t least, int32_t most) {
    return clamp_int(roundf(value), least, most);
}

static float inverse(float value) {
    return value != 0.0f ? 1.0f / value : 0.0f;
}

/* The element of largest magnitude, with its sign; 0 for none. */
static float extreme(const float *source, uint32_t count) {
    float found = 0, most = 0;
    for (uint32_t i = 0; i < count; i++) {
        float magnitude = fabsf(source[i]);
        found = magnitude > most ? source[i] : found;
        most = magnitude > most ? magnitude : most;
    }
    return found;
}

static void q8_0_decode(float *destination, const uint8_t *block) {
    float d = load_f16(block);
    for (uint32_t i = 0; i < SMALL_BLOCK; i++)
        destination[i] = d * (float)(int8_t)block[2 + i];
}

static void q8_0_encode(uint8_t *block, const float *source) {
    float d = fabsf(extreme(source, SMALL_BLOCK)) / 127.0f;
    float factor = inverse(d);
    (void)store_f16(block, d);
    for (uint32_t i = 0; i < SMALL_BLOCK; i++)
        block[2 + i] = (uint8_t)round_clamp(source[i] * factor, -127, 127);
}

static void q4_0_decode(float *destination, const uint8_t *block) {
    float d = load_f16(block);
    for (uint32_t i = 0; i < SMALL_BLOCK / 2; i++) {
        destination[i] = d * (float)((block[2 + i] & 0xf) - 8);
        destination[i + SMALL_BLOCK / 2] = d * (float)((block[2 + i] >> 4) - 8);
    }
}

static void q4_0_encode(uint8_t *block, const float *source) {
    /* The extreme becomes code 0, that is -8: the longer side of the range. */
    float d = extreme(source, SMALL_BLOCK) / -8.0f;
    float factor = inverse(d);
    (void)store_f16(block, d);
    for (uint32_t i = 0; i < SMALL_BLOCK / 2; i++) {
        int32_t low = clamp_int(source[i] * factor + 8.5f, 0, 15);
        int32_t high = clamp_int(source[i + SMALL_BLOCK / 2] * factor + 8.5f, 0, 15);
        block[2 + i] = (uint8_t)(low | high << 4);
    }
}

/* 6-bit scale and minimum of sub-block `sub` among the 12 packed bytes: the first four of each lie
 * in the low six bits of bytes 0-3 and 4-7; of the last four, the low nibbles share bytes 8-11 and
 * the top pairs sit above the first four. */
static void q4_k_scales(const uint8_t *packed, uint32_t sub, uint32_t *scale, uint32_t *least) {
    if (sub < 4) {
        *scale = packed[sub] & 63u;
        *least = packed[sub + 4] & 63u;
    } else {
        *scale = (packed[sub + 4] & 0xfu) | (uint32_t)(packed[sub - 4] >> 6) << 4;
        *least = (uint32_t)(packed[sub + 4] >> 4) | (uint32_t)(packed[sub] >> 6) << 4;
    }
}

static void q4_k_pack(uint8_t *packed, uint32_t sub, uint32_t scale, uint32_t least) {
    if (sub < 4) {
        packed[sub] = (uint8_t)(packed[sub] | scale);
        packed[sub + 4] = (uint8_t)(packed[sub + 4] | least);
    } else {
        packed[sub + 4] = (uint8_t)((scale & 0xfu) | (least & 0xfu) << 4);
        packed[sub - 4] = (uint8_t)(packed[sub - 4] | (scale >> 4) << 6);
        packed[sub] = (uint8_t)(packed[sub] | (least >> 4) << 6);
    }
}

static void q4_k_decode(float *destination, const uint8_t *block) {
    float d = load_f16(block), dmin = load_f16(block + 2);
    for (uint32_t sub = 0; sub < SUPER_BLOCK / Q4_K_SUB; sub++) {
        const uint8_t *nibbles = block + 16 + sub / 2 * Q4_K_SUB;
        uint32_t shift = 4 * (sub % 2), scale, least;
        q4_k_scales(block + 4, sub, &scale, &least);
        float step = d * (float)scale, base = dmin * (float)least;
        for (uint32_t i = 0; i < Q4_K_SUB; i++) {
            float product = step * (float)((nibbles[i] >> shift) & 0xf);
            *destination++ = product - base;
        }
    }
}

/* Step and base (minus the minimum, at least 0) of one sub-block for codes 0 to 15. */
static void q4_k_fit(const float *source, float *out_step, float *out_base) {
    float least = 0, most = source[0];
    for (uint32_t i = 0; i < Q4_K_SUB; i++) {
        least = source[i] < least ? source[i] : least;
        most = source[i] > most ? source[i] : most;
    }
    *out_step = most > least ? (most - least) / 15.0f : 0.0f;
    *out_base = -least;
}

static void q4_k_encode(uint8_t *block, const float *source) {
    enum { SUBS = SUPER_BLOCK / Q4_K_SUB };
    float steps[SUBS], bases[SUBS], step_most = 0, base_most = 0;
    memset(block, 0, Q4_K_BYTES);
    for (uint32_t sub = 0; sub < SUBS; sub++) {
        q4_k_fit(source + sub * Q4_K_SUB, &steps[sub], &bases[sub]);
        step_most = fmaxf(step_most, steps[sub]);
        base_most = fmaxf(base_most, bases[sub]);
    }
    float d = store_f16(block, step_most / 63.0f);
    float dmin = store_f16(block + 2, base_most / 63.0f);
    for (uint32_t sub = 0; sub < SUBS; sub++) {
        uint8_t *nibbles = block + 16 + sub / 2 * Q4_K_SUB;
        uint32_t scale = (uint32_t)round_clamp(steps[sub] * inverse(d), 0, 63);
        uint32_t least = (uint32_t)round_clamp(bases[sub] * inverse(dmin), 0, 63);
        q4_k_pack(block + 4, sub, scale, least);
        float factor = inverse(d * (float)scale), base = dmin * (float)least;
        for (uint32_t i = 0; i < Q4_K_SUB; i++) {
            int32_t code = round_clamp((source[sub * Q4_K_SUB + i] + base) * factor, 0, 15);
            nibbles[i] = (uint8_t)(nibbles[i] | code << (4 * (sub % 2)));
        }
    }
}

/* The code of element `index` of a q6_k block, -32 to 31. */
static int32_t q6_k_code(const uint8_t *block, uint32_t index) {
    uint32_t half = index / 128, row = index % 128 / 32, lane = index % 32;
    uint32_t low = block[64 * half + 32 * (row & 1) + lane] >> (4 * (row >> 1));
    uint32_t high = block[128 + 32 * half + lane] >> (2 * row);
    return (int32_t)((low & 0xfu) | (high & 3u) << 4) - 32;
}

static void q6_k_put(uint8_t *block, uint32_t index, int32_t code) {
    uint32_t half = index / 128, row = index % 128 / 32, lane = index % 32;
    uint32_t bits = (uint32_t)(code + 32);
    uint8_t *low = block + 64 * half + 32 * (row & 1) + lane;
    uint8_t *high = block + 128 + 32 * half + lane;
    *low = (uint8_t)(*low | (bits & 0xfu) << (4 * (row >> 1)));
    *high = (uint8_t)(*high | (bits >> 4) << (2 * row));
}

static void q6_k_decode(float *destination, const uint8_t *block) {
    float d = load_f16(block + 208);
    for (uint32_t sub = 0; sub < SUPER_BLOCK / Q6_K_SUB; sub++) {
        float step = d * (float)(int8_t)block[192 + sub];
        for (uint32_t i = 0; i < Q6_K_SUB; i++)
            *destination++ = step * (float)q6_k_code(block, sub * Q6_K_SUB + i);
    }
}

static void q6_k_encode(uint8_t *block, const float *source) {
    enum { SUBS = SUPER_BLOCK / Q6_K_SUB };
    float steps[SUBS];
    memset(block, 0, Q6_K_BYTES);
    for (uint32_t sub = 0; sub < SUBS; sub++)
        steps[sub] = extreme(source + sub * Q6_K_SUB, Q6_K_SUB) / -32.0f;
    float d = store_f16(block + 208, fabsf(extreme(steps, SUBS)) / 127.0f);
    for (uint32_t sub = 0; sub < SUBS; sub++) {
        int32_t scale = round_clamp(steps[sub] * inverse(d), -127, 127);
        float factor = inverse(d * (float)scale);
        block[192 + sub] = (uint8_t)scale;
        for (uint32_t i = 0; i < Q6_K_SUB; i++) {
            uint32_t index = sub * Q6_K_SUB + i;
            q6_k_put(block, index, round_clamp(source[index] * factor, -32, 31));
        }
    }
}

/* Whole blocks, by way of an aligned buffer: the f32 side may lie anywhere. */
#define BLOCK_CODECS(name, elements, bytes)                                          \
    void rlx_decode_##name(float *destination, const void *source, uint64_t count) { \
        float values[elements];                                                      \
        for (uint64_t i = 0; i < count / (elements); i++) {                          \
            name##_decode(values, (const uint8_t *)source + (bytes)*i);              \
            memcpy((char *)destination + sizeof values * i, values, sizeof values);  \
        }                                                                            \
    }                                                                                \
    void rlx_encode_##name(void *destination, const float *source, uint64_t count) { \
        float values[elements];                                                      \
        for (uint64_t i = 0; i < count / (elements); i++) {                          \
            memcpy(values, (const char *)source + sizeof values * i, sizeof values); \
            name##_encode((uint8_t *)destination + (bytes)*i, values);               \
        }                                                                            \
    }
BLOCK_CODECS(q8_0, SMALL_BLOCK, Q8_0_BYTES)
BLOCK_CODECS(q4_0, SMALL_BLOCK, Q4_0_BYTES)
BLOCK_CODECS(q4_k, SUPER_BLOCK, Q4_K_BYTES)
BLOCK_CODECS(q6_k, SUPER_BLOCK, Q6_K_BYTES)
#undef BLOCK_CODECS

static float q4_k_element(const uint8_t *block, uint32_t index) {
    uint32_t sub = index / Q4_K_SUB, scale, least;
    q4_k_scales(block + 4, sub, &scale, &least);
    uint8_t pair = block[16 + sub / 2 * Q4_K_SUB + index % Q4_K_SUB];
    float step = load_f16(block) * (float)scale;
    float base = load_f16(block + 2) * (float)least;
    float product = step * (float)((pair >> (4 * (sub % 2))) & 0xf);
    return product - base;
}

float rlx_block_element(rlx_dtype dtype, const void *data, int64_t index) {
    const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
    const uint8_t *block = data;
    uint32_t i = (uint32_t)((uint64_t)index % row->block_elements);
    block += (uint64_t)index / row->block_elements * row->block_bytes;
    switch (dtype) {
    case RLX_DTYPE_Q8_0:
        return load_f16(block) * (float)(int8_t)block[2 + i];
    case RLX_DTYPE_Q4_0:
        return load_f16(block) * (float)(((block[2 + i % 16] >> (4 * (i / 16))) & 0xf) - 8);
    case RLX_DTYPE_Q4_K:
        return q4_k_element(block, i);
    case RLX_DTYPE_Q6_K: {
        float step = load_f16(block + 208) * (float)(int8_t)block[192 + i / Q6_K_SUB];
        return step * (float)q6_k_code(block, i);
    }
    default:
        return 0.0f;
    }
}
