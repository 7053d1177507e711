/* SPDX-License-Identifier: Apache-2.0 */
/* Block-quantised types: the byte layout by hand-made blocks, and round trips within the step of
 * the format. */
#include "support/support.h"

#include "ir/dtype.h"

#include <math.h>

static void q8_0_is_a_scale_and_32_signed_bytes(void **state) {
    (void)state;
    uint8_t block[34] = {0x00, 0x38}; /* 0.5 */
    float out[32];
    for (int i = 0; i < 32; i++)
        block[2 + i] = (uint8_t)(i * 8 - 128);
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_Q8_0, out, block, 32));
    for (int i = 0; i < 32; i++)
        assert_float_equal(out[i], 0.5f * (float)(i * 8 - 128), 0);
}

static void q4_0_pairs_elements_that_are_16_apart(void **state) {
    (void)state;
    uint8_t block[18] = {0x00, 0x40}; /* 2.0 */
    float out[32];
    for (int i = 0; i < 16; i++)
        block[2 + i] = (uint8_t)(i | (15 - i) << 4);
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_Q4_0, out, block, 32));
    for (int i = 0; i < 16; i++) {
        assert_float_equal(out[i], 2.0f * (float)(i - 8), 0);
        assert_float_equal(out[i + 16], 2.0f * (float)(7 - i), 0);
    }
}

/* Scales 1, 9, 17 .. 57 and minima 2, 10 .. 58: both the six-bit and the split form. */
static void q4_k_has_six_bit_scales_and_minima(void **state) {
    (void)state;
    uint8_t block[144] = {0x00, 0x3c, 0x00, 0x38}; /* d = 1, dmin = 0.5 */
    float out[256];
    for (int j = 0; j < 4; j++) {
        int scale = 1 + 8 * j, least = 2 + 8 * j;
        int scale_up = 1 + 8 * (j + 4), least_up = 2 + 8 * (j + 4);
        block[4 + j] = (uint8_t)(scale | (scale_up >> 4) << 6);
        block[8 + j] = (uint8_t)(least | (least_up >> 4) << 6);
        block[12 + j] = (uint8_t)((scale_up & 15) | (least_up & 15) << 4);
    }
    for (int i = 0; i < 128; i++)
        block[16 + i] = (uint8_t)((i % 16) | ((i / 16 + 3) % 16) << 4);
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_Q4_K, out, block, 256));
    for (int sub = 0; sub < 8; sub++) {
        for (int i = 0; i < 32; i++) {
            int byte = sub / 2 * 32 + i;
            int code = sub % 2 == 0 ? byte % 16 : (byte / 16 + 3) % 16;
            float expected = (float)((1 + 8 * sub) * code) - 0.5f * (float)(2 + 8 * sub);
            assert_float_equal(out[sub * 32 + i], expected, 0);
            assert_true(rlx_load_f64(RLX_DTYPE_Q4_K, block, sub * 32 + i) == (double)expected);
        }
    }
}

static void q6_k_splits_codes_into_nibbles_and_bit_pairs(void **state) {
    (void)state;
    uint8_t block[210] = {0};
    float out[256];
    for (int i = 0; i < 128; i++)
        block[i] = (uint8_t)(i * 37 + 11);
    for (int i = 0; i < 64; i++)
        block[128 + i] = (uint8_t)(i * 91 + 5);
    for (int i = 0; i < 16; i++)
        block[192 + i] = (uint8_t)(i * 9 - 60);
    block[208] = 0x00;
    block[209] = 0x34; /* 0.25 */
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_Q6_K, out, block, 256));
    for (int half = 0; half < 2; half++) {
        const uint8_t *low = block + 64 * half, *high = block + 128 + 32 * half;
        for (int l = 0; l < 32; l++) {
            int codes[4] = {
                (low[l] & 15) | (high[l] & 3) << 4, (low[l + 32] & 15) | (high[l] >> 2 & 3) << 4,
                low[l] >> 4 | (high[l] >> 4 & 3) << 4, low[l + 32] >> 4 | (high[l] >> 6) << 4};
            for (int r = 0; r < 4; r++) {
                int index = 128 * half + 32 * r + l;
                int scale = (8 * half + 2 * r + l / 16) * 9 - 60;
                float expected = 0.25f * (float)scale * (float)(codes[r] - 32);
                assert_float_equal(out[index], expected, 0);
                assert_true(rlx_load_f64(RLX_DTYPE_Q6_K, block, index) == (double)expected);
            }
        }
    }
}

/* Largest error of a round trip of 4096 uniform numbers in [-1, 1), in units of 1. */
static float round_trip_error(rlx_dtype dtype, float low, float high) {
    enum { COUNT = 4096 };
    static float in[COUNT], out[COUNT];
    static uint8_t blocks[COUNT * 2];
    rlx_test_random random = rlx_test_seed(3);
    float worst = 0;
    rlx_test_fill_f32(&random, in, COUNT, low, high);
    assert_ok(rlx_convert_from_f32(dtype, blocks, in, COUNT));
    assert_ok(rlx_convert_to_f32(dtype, out, blocks, COUNT));
    for (int i = 0; i < COUNT; i++)
        worst = fmaxf(worst, fabsf(out[i] - in[i]));
    return worst;
}

static void round_trips_stay_within_the_step(void **state) {
    (void)state;
    assert_true(round_trip_error(RLX_DTYPE_Q8_0, -1, 1) < 0.6f / 127);
    assert_true(round_trip_error(RLX_DTYPE_Q4_0, -1, 1) <= 1.01f / 8);
    assert_true(round_trip_error(RLX_DTYPE_Q4_K, -1, 1) < 0.7f * 2 / 15);
    assert_true(round_trip_error(RLX_DTYPE_Q4_K, 3, 5) < 0.7f * 5 / 15);
    assert_true(round_trip_error(RLX_DTYPE_Q6_K, -1, 1) <= 1.1f / 32);
}

static void zeros_come_back_as_zeros(void **state) {
    (void)state;
    static const rlx_dtype kinds[] = {RLX_DTYPE_Q8_0, RLX_DTYPE_Q4_0, RLX_DTYPE_Q4_K,
                                      RLX_DTYPE_Q6_K};
    for (size_t k = 0; k < 4; k++) {
        float in[256] = {0}, out[256];
        uint8_t blocks[512];
        assert_ok(rlx_convert_from_f32(kinds[k], blocks, in, 256));
        assert_ok(rlx_convert_to_f32(kinds[k], out, blocks, 256));
        for (int i = 0; i < 256; i++)
            assert_true(out[i] == 0.0f);
    }
}

/* Nothing sensible comes out, but nothing undefined happens either (sanitizers watch). */
static void nan_and_infinity_do_no_harm(void **state) {
    (void)state;
    static const rlx_dtype kinds[] = {RLX_DTYPE_Q8_0, RLX_DTYPE_Q4_0, RLX_DTYPE_Q4_K,
                                      RLX_DTYPE_Q6_K};
    static const float odd[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-45f};
    for (size_t k = 0; k < 4; k++) {
        for (size_t j = 0; j < 6; j++) {
            float in[256], out[256];
            uint8_t blocks[512];
            for (int i = 0; i < 256; i++)
                in[i] = i % 7 == 0 ? odd[j] : (float)i;
            assert_ok(rlx_convert_from_f32(kinds[k], blocks, in, 256));
            assert_ok(rlx_convert_to_f32(kinds[k], out, blocks, 256));
        }
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(q8_0_is_a_scale_and_32_signed_bytes),
        cmocka_unit_test(q4_0_pairs_elements_that_are_16_apart),
        cmocka_unit_test(q4_k_has_six_bit_scales_and_minima),
        cmocka_unit_test(q6_k_splits_codes_into_nibbles_and_bit_pairs),
        cmocka_unit_test(round_trips_stay_within_the_step),
        cmocka_unit_test(zeros_come_back_as_zeros),
        cmocka_unit_test(nan_and_infinity_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
