/* SPDX-License-Identifier: Apache-2.0 */
/* The codecs for any machine, and single elements of the small floats. Knows nothing of tensors. */
#define CODEC(name) name
#include "ir/dtype_codecs.inc"

float rlx_f16_to_f32(uint16_t bits) {
    return f16_decode(bits);
}

uint16_t rlx_f32_to_f16(float value) {
    return (uint16_t)f16_encode(value);
}

uint16_t rlx_f32_to_bf16(float value) {
    return (uint16_t)bf16_encode(value);
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
