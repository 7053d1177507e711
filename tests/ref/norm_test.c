/* SPDX-License-Identifier: Apache-2.0 */
/* softmax, log_softmax and the norms against loops in double. */
#include "ref/dense.h"

static const rlx_dtype FLOATS[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16,
                                   RLX_DTYPE_F8E4M3FN};
enum { FLOAT_COUNT = 5 };

static double *doubles(int64_t count) {
    double *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    return values;
}

/* x as [outer][length][inner]. */
static void naive_softmax(const operand *x, int64_t outer, int64_t length, int64_t inner,
                          bool is_log, double *out) {
    for (int64_t o = 0; o < outer * inner; o++) {
        const double *line = x->values + o / inner * length * inner + o % inner;
        double *to = out + o / inner * length * inner + o % inner, sum = 0;
        for (int64_t i = 0; i < length; i++)
            sum += exp(line[i * inner]);
        for (int64_t i = 0; i < length; i++)
            to[i * inner] = is_log ? line[i * inner] - log(sum) : exp(line[i * inner]) / sum;
    }
}

static void softmax_agrees_with_loops_on_every_axis(void **state) {
    int64_t dims[4] = {3, 5, 2, 300};
    (void)state;
    for (unsigned c = 0; c < 8 * FLOAT_COUNT; c++) {
        rlx_test_random random = rlx_test_seed(c);
        rlx_dtype dtype = FLOATS[c / 8];
        int64_t axis = c % 4, outer = 1, inner = 1;
        rlx_axis_attrs attrs = {.axis = c & 1 ? axis - 4 : axis};
        for (int64_t i = 0; i < 4; i++) {
            if (i < axis) outer *= dims[i];
            if (i > axis) inner *= dims[i];
        }
        operand x = operand_random(&random, dtype, 4, dims, -4, 4), out;
        double *expected = doubles(x.count);
        naive_softmax(&x, outer, dims[axis], inner, c & 4, expected);
        run_dense(c & 4 ? RLX_OP_LOG_SOFTMAX : RLX_OP_SOFTMAX, &attrs, &x, 1, &out, 1);
        double tolerance = tolerance_of(dtype);
        assert_near(expected, &out, tolerance * 0.1, tolerance);
        free(expected);
        operand_free(&x);
        operand_free(&out);
    }
}

static void softmax_survives_large_and_infinite_values(void **state) {
    double values[6] = {1000, 1000, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    double expected[6] = {0.5, 0.5, 0, NAN, NAN, NAN};
    int64_t dims[2] = {2, 3}, none[2] = {2, 0};
    rlx_axis_attrs attrs = {.axis = 1};
    operand x = operand_of(RLX_DTYPE_F32, 2, dims, values), out;
    (void)state;
    run_dense(RLX_OP_SOFTMAX, &attrs, &x, 1, &out, 1);
    assert_near(expected, &out, 0, 1e-7);
    operand_free(&x);
    operand_free(&out);
    x = operand_of(RLX_DTYPE_F32, 2, none, NULL);
    run_dense(RLX_OP_SOFTMAX, &attrs, &x, 1, &out, 1);
    assert_int_equal(out.count, 0);
    operand_free(&x);
    operand_free(&out);
}

/* y of one row of `length`; scale and bias NULL or `length` values. */
static void naive_row(const double *x, int64_t length, const double *scale, const double *bias,
                      bool is_rms, double epsilon, double *y) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < length && !is_rms; i++)
        mean += x[i] / (double)length;
    for (int64_t i = 0; i < length; i++)
        variance += (x[i] - mean) * (x[i] - mean) / (double)length;
    for (int64_t i = 0; i < length; i++) {
        y[i] = (x[i] - mean) / sqrt(variance + epsilon);
        if (scale != NULL) y[i] *= scale[i];
        if (bias != NULL) y[i] += bias[i];
    }
}

static void check_row_norm(rlx_dtype dtype, uint32_t axis, unsigned parts, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    int64_t dims[3] = {4, 3, 270};
    rlx_dtype parameter = seed & 1 && dtype != RLX_DTYPE_F64 ? RLX_DTYPE_F32 : dtype;
    rlx_norm_attrs attrs = {.axis = seed & 2 ? (int64_t)axis : (int64_t)axis - 3, .epsilon = 1e-3};
    operand in[4] = {operand_random(&random, dtype, 3, dims, -2, 3), operand_absent(),
                     operand_absent(), operand_absent()};
    if (parts & 1) in[1] = operand_random(&random, parameter, 3 - axis, dims + axis, -2, 2);
    if (parts & 2) in[2] = operand_random(&random, parameter, 3 - axis, dims + axis, -2, 2);
    if (parts & 4) in[3] = operand_random(&random, dtype, 3, dims, -1, 1);
    operand out[2];
    rlx_op op = seed & 4 ? RLX_OP_RMS_NORM : RLX_OP_LAYER_NORM;
    run_dense(op, &attrs, in, 4, out, 2);

    int64_t length = 1;
    for (uint32_t i = axis; i < 3; i++)
        length *= dims[i];
    double *sum = doubles(in[0].count), *expected = doubles(in[0].count), *more = NULL;
    for (int64_t i = 0; i < in[0].count; i++)
        sum[i] = in[0].values[i] + (parts & 4 ? in[3].values[i] : 0);
    operand rounded = operand_of(dtype, 3, dims, sum);
    assert_near(rounded.values, &out[1], 0, 0); /* the sum is that of a separate add */
    for (int64_t at = 0; at < in[0].count; at += length)
        naive_row(rounded.values + at, length, in[1].values, in[2].values, seed & 4, 1e-3,
                  expected + at);
    double tolerance = tolerance_of(dtype);
    assert_near(expected, &out[0], tolerance, tolerance);
    free(sum);
    free(expected);
    free(more);
    operand_free(&rounded);
    operands_free(in, 4);
    operands_free(out, 2);
}

static void layer_and_rms_norm_agree_with_loops(void **state) {
    (void)state;
    for (unsigned c = 0; c < 8 * FLOAT_COUNT; c++)
        check_row_norm(FLOATS[c / 8], c % 3, c % 8, c);
}

static void a_sum_that_nobody_wants_is_not_written(void **state) {
    rlx_test_random random = rlx_test_seed(2);
    int64_t dims[2] = {2, 8};
    bool wanted[2] = {true, false};
    rlx_norm_attrs attrs = {.axis = -1, .epsilon = 1e-5};
    operand x = operand_random(&random, RLX_DTYPE_F32, 2, dims, -1, 1), both[2], one[2];
    (void)state;
    run_dense(RLX_OP_RMS_NORM, &attrs, &x, 1, both, 2);
    run_dense_wanted(RLX_OP_RMS_NORM, &attrs, &x, 1, one, 2, wanted);
    assert_near(both[0].values, &one[0], 0, 0);
    operand_free(&x);
    operands_free(both, 2);
    operands_free(one, 2);
}

static void channel_norms_agree_with_loops(void **state) {
    static const rlx_op ops[] = {RLX_OP_BATCH_NORM, RLX_OP_GROUP_NORM, RLX_OP_INSTANCE_NORM};
    int64_t dims[4] = {2, 6, 5, 7}, channels[1] = {6};
    (void)state;
    for (unsigned c = 0; c < 3 * 8; c++) {
        rlx_test_random random = rlx_test_seed(c);
        rlx_dtype dtype = FLOATS[c / 3 % 4];
        uint32_t rank = c & 4 ? 2 : 4;
        int64_t plane = rank == 2 ? 1 : 35;
        rlx_norm_attrs attrs = {.epsilon = 1e-2, .groups = c % 3 == 1 ? 3 : 0};
        operand in[5] = {operand_random(&random, dtype, rank, dims, -2, 3)};
        for (int i = 1; i < 5; i++)
            in[i] = operand_random(&random, dtype, 1, channels, 0.2, 2);
        operand out;
        run_dense(ops[c % 3], &attrs, in, c % 3 == 0 ? 5 : 3, &out, 1);
        double *expected = doubles(out.count);
        int64_t group = (c % 3 == 1 ? 2 : 1) * plane;
        for (int64_t at = 0; at < out.count; at += group)
            naive_row(in[0].values + at, group, NULL, NULL, false, 1e-2, expected + at);
        for (int64_t i = 0; i < out.count; i++) {
            int64_t ch = i / plane % 6;
            if (c % 3 == 0)
                expected[i] = (in[0].values[i] - in[3].values[ch]) / sqrt(in[4].values[ch] + 1e-2);
            expected[i] = expected[i] * in[1].values[ch] + in[2].values[ch];
        }
        double tolerance = tolerance_of(dtype);
        assert_near(expected, &out, tolerance * 2, tolerance);
        free(expected);
        operands_free(in, 5);
        operand_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_agrees_with_loops_on_every_axis),
        cmocka_unit_test(softmax_survives_large_and_infinite_values),
        cmocka_unit_test(layer_and_rms_norm_agree_with_loops),
        cmocka_unit_test(a_sum_that_nobody_wants_is_not_written),
        cmocka_unit_test(channel_norms_agree_with_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
