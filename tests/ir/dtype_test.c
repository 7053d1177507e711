/* SPDX-License-Identifier: Apache-2.0 */
/* Float, integer and bool dtypes: every pattern both ways against a computation in double that
 * shares no code with the codecs. Block types are in dtype_block_test.c. */
#include "support/support.h"

#include "ir/dtype.h"

#include <math.h>
#include <stdlib.h>

/* A small float format, as its definition says. */
typedef struct format {
    rlx_dtype dtype;
    int bits, mantissa, bias;
    double top; /* largest finite number */
    bool has_infinity, is_fnuz;
} format;

static const format formats[] = {
    {RLX_DTYPE_F16, 16, 10, 15, 65504.0, true, false},
    {RLX_DTYPE_BF16, 16, 7, 127, 0x1.fep127, true, false},
    {RLX_DTYPE_F8E4M3FN, 8, 3, 7, 448.0, false, false},
    {RLX_DTYPE_F8E4M3FNUZ, 8, 3, 8, 240.0, false, true},
    {RLX_DTYPE_F8E5M2, 8, 2, 15, 57344.0, true, false},
    {RLX_DTYPE_F8E5M2FNUZ, 8, 2, 16, 57344.0, false, true},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static double expected_decode(const format *f, uint32_t code) {
    uint32_t sign_bit = 1u << (f->bits - 1);
    uint32_t magnitude = code & (sign_bit - 1);
    int exponent = (int)(magnitude >> f->mantissa);
    double fraction = ldexp((double)(magnitude & ((1u << f->mantissa) - 1)), -f->mantissa);
    double value =
        exponent == 0 ? ldexp(fraction, 1 - f->bias) : ldexp(1.0 + fraction, exponent - f->bias);
    if (f->is_fnuz && code == sign_bit) return NAN;
    if (value > f->top) value = f->has_infinity && fraction == 0.0 ? INFINITY : NAN;
    return (code & sign_bit) != 0 ? -value : value;
}

static double expected_round(const format *f, double value) {
    if (isnan(value)) return value;
    double over = f->has_infinity ? INFINITY : f->top;
    if (isinf(value)) return copysign(over, value);
    int exponent;
    (void)frexp(value, &exponent);
    exponent -= 1; /* 1 <= |value| / 2^exponent < 2 */
    if (value == 0.0 || exponent < 1 - f->bias) exponent = 1 - f->bias;
    double rounded = ldexp(nearbyint(ldexp(value, f->mantissa - exponent)), exponent - f->mantissa);
    if (fabs(rounded) > f->top) rounded = copysign(over, value);
    if (f->is_fnuz && rounded == 0.0) return 0.0;
    return rounded;
}

static uint32_t encode_one(rlx_dtype dtype, float value) {
    uint16_t code = 0;
    assert_ok(rlx_convert_from_f32(dtype, &code, &value, 1));
    return code;
}

static float decode_one(rlx_dtype dtype, uint32_t code) {
    uint16_t narrow = (uint16_t)code;
    float value = 0;
    assert_ok(rlx_convert_to_f32(dtype, &value, &narrow, 1));
    return value;
}

static bool same(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void every_pattern_decodes_exactly(void **state) {
    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        for (uint32_t code = 0; code < 1u << formats[k].bits; code++) {
            double expected = expected_decode(&formats[k], code);
            double actual = (double)decode_one(formats[k].dtype, code);
            if (!same(expected, actual))
                fail_msg("%s 0x%x: expected %a, got %a", rlx_dtype_name(formats[k].dtype), code,
                         expected, actual);
        }
    }
}

static void every_pattern_encodes_back_to_itself(void **state) {
    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        for (uint32_t code = 0; code < 1u << formats[k].bits; code++) {
            float value = decode_one(formats[k].dtype, code);
            uint32_t back = encode_one(formats[k].dtype, value);
            if (back != code)
                fail_msg("%s 0x%x became 0x%x", rlx_dtype_name(formats[k].dtype), code, back);
        }
    }
}

static void check_rounding(const format *f, float value) {
    double expected = expected_round(f, (double)value);
    double actual = (double)decode_one(f->dtype, encode_one(f->dtype, value));
    if (!same(expected, actual))
        fail_msg("%s of %a: expected %a, got %a", rlx_dtype_name(f->dtype), (double)value, expected,
                 actual);
}

/* Between each two neighbours: the tie, and the f32 on either side of it. */
static void ties_go_to_even_and_their_neighbours_to_the_nearest(void **state) {
    (void)state;
    for (size_t k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        for (uint32_t code = 0; code + 1 < 1u << (f->bits - 1); code++) {
            double low = expected_decode(f, code), high = expected_decode(f, code + 1);
            if (isnan(low) || isinf(low)) continue;
            if (isnan(high) || isinf(high)) high = low + (low - expected_decode(f, code - 1));
            float middle = (float)((low + high) / 2);
            float around[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
            for (size_t i = 0; i < 3; i++) {
                check_rounding(f, around[i]);
                check_rounding(f, -around[i]);
            }
        }
    }
}

static void random_floats_round_to_nearest(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(11);
    for (size_t k = 0; k < FORMATS; k++) {
        for (size_t i = 0; i < 50000; i++) {
            uint32_t bits = (uint32_t)rlx_test_next(&random);
            float value;
            memcpy(&value, &bits, 4);
            check_rounding(&formats[k], value);
        }
    }
}

static void too_large_is_infinity_where_there_is_one(void **state) {
    (void)state;
    assert_int_equal(rlx_f32_to_f16(65504.0f), 0x7bff);
    assert_int_equal(rlx_f32_to_f16(nextafterf(65520.0f, 0)), 0x7bff);
    assert_int_equal(rlx_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(rlx_f32_to_f16(-INFINITY), 0xfc00);
    assert_int_equal(rlx_f32_to_f16(0x1p-24f), 1);
    assert_int_equal(rlx_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(rlx_f32_to_f16(nextafterf(0x1p-25f, 1)), 1);
    assert_int_equal(rlx_f32_to_bf16(INFINITY), 0x7f80);
    assert_int_equal(rlx_f32_to_bf16(0x1.fffffep127f), 0x7f80);
    assert_int_equal(rlx_f32_to_f8(RLX_DTYPE_F8E5M2, 1e9f), 0x7c);
    assert_int_equal(rlx_f32_to_f8(RLX_DTYPE_F8E4M3FN, -INFINITY), 0xfe);
    assert_int_equal(rlx_f32_to_f8(RLX_DTYPE_F8E4M3FNUZ, INFINITY), 0x7f);
    assert_int_equal(rlx_f32_to_f8(RLX_DTYPE_F8E5M2FNUZ, -1e9f), 0xff);
    assert_int_equal(rlx_f32_to_f8(RLX_DTYPE_F8E5M2FNUZ, -0.0f), 0);
    assert_int_equal(rlx_f32_to_f8(RLX_DTYPE_F8E4M3FNUZ, -NAN), 0x80);
    assert_float_equal(rlx_f8_to_f32(RLX_DTYPE_F8E4M3FN, 0x7e), 448.0f, 0);
    assert_float_equal(rlx_f16_to_f32(0x0001), 0x1p-24f, 0);
    assert_float_equal(rlx_bf16_to_f32(0x3f80), 1.0f, 0);
}

/* 1 + 2^-11 is a tie of f16; the bit far below it must not be lost on the way through f32. */
static void f64_stores_round_once(void **state) {
    (void)state;
    uint16_t half[2] = {0, 0};
    uint8_t small = 0;
    rlx_store_f64(RLX_DTYPE_F16, half, 1, 1.0 + 0x1p-11 + 0x1p-50);
    assert_int_equal(half[1], 0x3c01);
    assert_int_equal(half[0], 0);
    rlx_store_f64(RLX_DTYPE_F16, half, 0, 1.0 + 0x1p-11 - 0x1p-50);
    assert_int_equal(half[0], 0x3c00);
    rlx_store_f64(RLX_DTYPE_BF16, half, 0, -(1.0 + 0x1p-8 + 0x1p-52));
    assert_int_equal(half[0], 0xbf81);
    rlx_store_f64(RLX_DTYPE_F16, half, 0, 1e300);
    assert_int_equal(half[0], 0x7c00);
    rlx_store_f64(RLX_DTYPE_F16, half, 0, 0x1p-25 + 0x1p-76);
    assert_int_equal(half[0], 1);
    rlx_store_f64(RLX_DTYPE_F8E4M3FN, &small, 0, 0x1p-10 + 0x1p-60);
    assert_int_equal(small, 1);
    rlx_store_f64(RLX_DTYPE_F8E4M3FN, &small, 0, 0x1p-10);
    assert_int_equal(small, 0);
}

static void integers_saturate_and_round_half_to_even(void **state) {
    (void)state;
    static const float in[] = {0.5f,   1.5f, 2.5f,   -0.5f,    -1.5f,     1e30f,
                               -1e30f, NAN,  126.5f, INFINITY, -INFINITY, 3.7f};
    enum { N = sizeof in / sizeof in[0] };
    static const int64_t narrow[N] = {0, 2, 2, 0, -2, 127, -128, 0, 126, 127, -128, 4};
    static const int64_t wide[N] = {0,         2, 2,   0,         -2,        INT64_MAX,
                                    INT64_MIN, 0, 126, INT64_MAX, INT64_MIN, 4};
    int8_t i8[N];
    int16_t i16[N];
    int32_t i32[N];
    int64_t i64[N];
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_I8, i8, in, N));
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_I16, i16, in, N));
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_I32, i32, in, N));
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_I64, i64, in, N));
    for (size_t i = 0; i < N; i++) {
        bool is_huge = wide[i] == INT64_MAX || wide[i] == INT64_MIN;
        assert_int_equal(i8[i], narrow[i]);
        assert_int_equal(i16[i], !is_huge ? wide[i] : wide[i] > 0 ? INT16_MAX : INT16_MIN);
        assert_int_equal(i32[i], !is_huge ? wide[i] : wide[i] > 0 ? INT32_MAX : INT32_MIN);
        assert_true(i64[i] == wide[i]);
    }
}

static void unsigned_integers_saturate_at_zero(void **state) {
    (void)state;
    static const float in[] = {-1.0f, NAN, 254.5f, 255.5f, 65535.5f, 4294967296.0f, 1e30f, 7.5f};
    enum { N = sizeof in / sizeof in[0] };
    static const uint64_t exact[N] = {0, 0, 254, 256, 65536, 4294967296, UINT64_MAX, 8};
    static const struct {
        rlx_dtype dtype;
        uint64_t most;
    } kinds[] = {{RLX_DTYPE_U4, 15},
                 {RLX_DTYPE_U8, UINT8_MAX},
                 {RLX_DTYPE_U16, UINT16_MAX},
                 {RLX_DTYPE_U32, UINT32_MAX},
                 {RLX_DTYPE_U64, UINT64_MAX}};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uint64_t memory[N] = {0};
        assert_ok(rlx_convert_from_f32(kinds[k].dtype, memory, in, N));
        for (size_t i = 0; i < N; i++) {
            uint64_t expected = exact[i] < kinds[k].most ? exact[i] : kinds[k].most;
            assert_true((uint64_t)rlx_load_i64(kinds[k].dtype, memory, (int64_t)i) == expected);
        }
    }
}

static void double_stores_saturate_too(void **state) {
    (void)state;
    for (int d = RLX_DTYPE_I8; d <= RLX_DTYPE_U4; d++) {
        rlx_dtype dtype = (rlx_dtype)d;
        const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
        if (row->class_ == RLX_CLASS_BOOL) continue;
        uint64_t memory = 0;
        unsigned bits = 8 * row->block_bytes / row->block_elements;
        bool is_signed = row->class_ == RLX_CLASS_SIGNED;
        uint64_t most = UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0));
        rlx_store_f64(dtype, &memory, 0, 1e30);
        assert_true((uint64_t)rlx_load_i64(dtype, &memory, 0) == most);
        rlx_store_f64(dtype, &memory, 0, -1e30);
        assert_true(rlx_load_i64(dtype, &memory, 0) == (is_signed ? -(int64_t)most - 1 : 0));
        rlx_store_f64(dtype, &memory, 0, NAN);
        assert_true(rlx_load_i64(dtype, &memory, 0) == 0);
        rlx_store_f64(dtype, &memory, 0, 2.5);
        assert_true(rlx_load_f64(dtype, &memory, 0) == 2.0);
        rlx_store_f64(dtype, &memory, 0, 5.5);
        assert_true(rlx_load_f64(dtype, &memory, 0) == 6.0);
    }
}

static void integer_stores_wrap_to_their_width(void **state) {
    (void)state;
    uint64_t memory = 0;
    rlx_store_i64(RLX_DTYPE_I8, &memory, 1, 0x1ff);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_I8, &memory, 1), -1);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_U8, &memory, 1), 255);
    rlx_store_i64(RLX_DTYPE_I16, &memory, 1, 0x18000);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_I16, &memory, 1), -32768);
    rlx_store_i64(RLX_DTYPE_U32, &memory, 1, -1);
    assert_true(rlx_load_i64(RLX_DTYPE_U32, &memory, 1) == UINT32_MAX);
    rlx_store_i64(RLX_DTYPE_I4, &memory, 0, 9);
    rlx_store_i64(RLX_DTYPE_U4, &memory, 1, 25);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_I4, &memory, 0), -7);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_U4, &memory, 1), 9);
    rlx_store_i64(RLX_DTYPE_BOOL, &memory, 0, 256);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_BOOL, &memory, 0), 1);
    rlx_store_i64(RLX_DTYPE_U64, &memory, 0, -1);
    assert_true(rlx_load_f64(RLX_DTYPE_U64, &memory, 0) == 0x1p64);
}

static void bool_is_zero_or_one(void **state) {
    (void)state;
    static const float in[] = {0.0f, -0.0f, 0.25f, -3.0f, NAN, INFINITY};
    static const uint8_t expected[] = {0, 0, 1, 1, 1, 1};
    uint8_t bytes[6] = {9, 9, 9, 9, 9, 9};
    float back[6];
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_BOOL, bytes, in, 6));
    assert_memory_equal(bytes, expected, 6);
    bytes[2] = 200;
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_BOOL, back, bytes, 6));
    assert_float_equal(back[2], 1.0f, 0);
}

static void an_odd_count_of_nibbles_leaves_the_last_one_alone(void **state) {
    (void)state;
    static const float in[] = {1, -8, 7, 3, -1};
    uint8_t bytes[3] = {0xff, 0xff, 0xa5};
    float back[5];
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_I4, bytes, in, 5));
    assert_int_equal(bytes[0], 0x81);
    assert_int_equal(bytes[1], 0x37);
    assert_int_equal(bytes[2], 0xaf);
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_I4, back, bytes, 5));
    assert_memory_equal(back, in, sizeof in);
    static const float positive[] = {15, 0, 9};
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_U4, bytes, positive, 3));
    assert_int_equal(bytes[0], 0x0f);
    assert_int_equal(bytes[1], 0x39);
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_U4, back, bytes, 3));
    assert_memory_equal(back, positive, sizeof positive);
}

/* Long odd counts, both sides one byte off any alignment, guards around. */
static void any_alignment_gives_the_same_bytes(void **state) {
    (void)state;
    enum { COUNT = 515 };
    float values[COUNT];
    rlx_test_random random = rlx_test_seed(5);
    rlx_test_fill_f32(&random, values, COUNT, -100.0f, 100.0f);
    for (int d = 0; d < RLX_DTYPE_COUNT; d++) {
        rlx_dtype dtype = (rlx_dtype)d;
        const rlx_dtype_row *row = rlx_dtype_row_of(dtype);
        uint64_t count = row->class_ == RLX_CLASS_BLOCK ? 512 : COUNT, bytes = 0;
        assert_ok(rlx_dtype_bytes(dtype, count, &bytes));
        char *plain = rlx_test_guarded(bytes);
        char *odd = rlx_test_guarded(bytes + 1);
        char *odd_floats = rlx_test_guarded(sizeof values + 1);
        char *decoded = rlx_test_guarded(count * sizeof(float));
        memset(plain, 0, bytes);
        memset(odd, 0, bytes + 1);
        memcpy(odd_floats + 1, values, sizeof values);
        assert_ok(rlx_convert_from_f32(dtype, plain, values, count));
        assert_ok(
            rlx_convert_from_f32(dtype, odd + 1, (const float *)(void *)(odd_floats + 1), count));
        assert_memory_equal(plain, odd + 1, bytes);
        assert_ok(rlx_convert_to_f32(dtype, (float *)(void *)decoded, plain, count));
        assert_ok(rlx_convert_to_f32(dtype, (float *)(void *)(odd_floats + 1), odd + 1, count));
        assert_memory_equal(decoded, odd_floats + 1, count * sizeof(float));
        for (uint64_t i = 0; i < count; i++) {
            float one;
            memcpy(&one, decoded + 4 * i, 4);
            assert_true((double)one == rlx_load_f64(dtype, odd + 1, (int64_t)i) ||
                        dtype == RLX_DTYPE_F64);
        }
        rlx_test_guarded_free(plain);
        rlx_test_guarded_free(odd);
        rlx_test_guarded_free(odd_floats);
        rlx_test_guarded_free(decoded);
    }
}

static void names_and_sizes_come_from_the_table(void **state) {
    (void)state;
    rlx_dtype dtype = RLX_DTYPE_F64;
    uint64_t bytes = 0;
    for (int d = 0; d < RLX_DTYPE_COUNT; d++) {
        assert_ok(rlx_dtype_from_name(rlx_dtype_name((rlx_dtype)d), &dtype));
        assert_int_equal(dtype, d);
    }
    assert_string_equal(rlx_dtype_name((rlx_dtype)RLX_DTYPE_COUNT), "?");
    assert_status(RLX_NOT_FOUND, rlx_dtype_from_name("f33", &dtype));
    assert_error_has("f33");
    assert_int_equal(rlx_dtype_block_elements(RLX_DTYPE_Q4_K), 256);
    assert_int_equal(rlx_dtype_block_bytes(RLX_DTYPE_Q6_K), 210);
    assert_int_equal(rlx_dtype_block_bytes((rlx_dtype)77), 0);
    assert_null(rlx_dtype_row_of((rlx_dtype)-1));
    assert_ok(rlx_dtype_bytes(RLX_DTYPE_I4, 7, &bytes));
    assert_int_equal(bytes, 4);
    assert_ok(rlx_dtype_bytes(RLX_DTYPE_Q8_0, 33, &bytes));
    assert_int_equal(bytes, 68);
    assert_ok(rlx_dtype_bytes(RLX_DTYPE_U4, UINT64_MAX, &bytes));
    assert_true(bytes == UINT64_C(1) << 63);
    assert_status(RLX_OUT_OF_BOUNDS, rlx_dtype_bytes(RLX_DTYPE_F16, UINT64_MAX / 2 + 1, &bytes));
}

static void a_wrong_call_writes_nothing(void **state) {
    (void)state;
    float in[33] = {1, 2, 3};
    uint8_t bytes[80];
    memset(bytes, 0x5a, sizeof bytes);
    assert_status(RLX_INVALID_ARGUMENT, rlx_convert_from_f32(RLX_DTYPE_Q8_0, bytes, in, 33));
    assert_error_has("33 elements are not whole q8_0 blocks of 32");
    assert_status(RLX_INVALID_ARGUMENT, rlx_convert_from_f32((rlx_dtype)99, bytes, in, 3));
    assert_status(RLX_INVALID_ARGUMENT, rlx_convert_from_f32(RLX_DTYPE_F16, NULL, in, 3));
    assert_status(RLX_INVALID_ARGUMENT, rlx_convert_to_f32(RLX_DTYPE_F16, NULL, bytes, 3));
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_F16, NULL, NULL, 0));
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0x5a);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pattern_decodes_exactly),
        cmocka_unit_test(every_pattern_encodes_back_to_itself),
        cmocka_unit_test(ties_go_to_even_and_their_neighbours_to_the_nearest),
        cmocka_unit_test(random_floats_round_to_nearest),
        cmocka_unit_test(too_large_is_infinity_where_there_is_one),
        cmocka_unit_test(f64_stores_round_once),
        cmocka_unit_test(integers_saturate_and_round_half_to_even),
        cmocka_unit_test(unsigned_integers_saturate_at_zero),
        cmocka_unit_test(double_stores_saturate_too),
        cmocka_unit_test(integer_stores_wrap_to_their_width),
        cmocka_unit_test(bool_is_zero_or_one),
        cmocka_unit_test(an_odd_count_of_nibbles_leaves_the_last_one_alone),
        cmocka_unit_test(any_alignment_gives_the_same_bytes),
        cmocka_unit_test(names_and_sizes_come_from_the_table),
        cmocka_unit_test(a_wrong_call_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
