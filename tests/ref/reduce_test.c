/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions, arg_max and arg_min, top_k and cumsum against loops in double. */
#include "ref/dense.h"

static rlx_ints ints(const int64_t *items, uint32_t count) {
    rlx_ints list = {.count = count};
    memcpy(list.items, items, count * sizeof *items);
    return list;
}

typedef struct reduce_case {
    uint32_t rank;
    int64_t dims[8];
    uint32_t axis_count;
    int64_t axes[8];
} reduce_case;

static const reduce_case CASES[] = {
    {0, {0}, 0, {0}},          {1, {7}, 0, {0}},
    {1, {300}, 1, {0}},        {2, {5, 9}, 1, {0}},
    {2, {5, 9}, 1, {-1}},      {3, {4, 5, 6}, 2, {0, 2}},
    {3, {4, 1, 6}, 1, {1}},    {4, {2, 3, 4, 5}, 2, {-3, 3}},
    {4, {2, 3, 4, 5}, 0, {0}}, {8, {2, 1, 3, 2, 1, 2, 3, 2}, 4, {0, 3, -1, 6}},
    {2, {3, 0}, 1, {1}},       {2, {0, 3}, 1, {1}},
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

static bool is_reduced(const reduce_case *rc, uint32_t axis) {
    if (rc->axis_count == 0) return true;
    for (uint32_t i = 0; i < rc->axis_count; i++) {
        int64_t named = rc->axes[i] < 0 ? rc->axes[i] + rc->rank : rc->axes[i];
        if (named == (int64_t)axis) return true;
    }
    return false;
}

/* The number of the output that element `index` of x belongs to. */
static int64_t target_of(const reduce_case *rc, int64_t index) {
    int64_t at[8] = {0}, target = 0;
    for (uint32_t i = rc->rank; i-- > 0;) {
        at[i] = index % rc->dims[i];
        index /= rc->dims[i];
    }
    for (uint32_t i = 0; i < rc->rank; i++) {
        if (!is_reduced(rc, i)) target = target * rc->dims[i] + at[i];
    }
    return target;
}

static double start_of(rlx_op op) {
    switch (op) {
    case RLX_OP_REDUCE_PROD:
        return 1;
    case RLX_OP_REDUCE_MAX:
        return -INFINITY;
    case RLX_OP_REDUCE_MIN:
        return INFINITY;
    default:
        return 0;
    }
}

static double joined(rlx_op op, double sum, double x) {
    switch (op) {
    case RLX_OP_REDUCE_PROD:
        return sum * x;
    case RLX_OP_REDUCE_MAX:
        return fmax(sum, x);
    case RLX_OP_REDUCE_MIN:
        return fmin(sum, x);
    case RLX_OP_REDUCE_L1:
        return sum + fabs(x);
    case RLX_OP_REDUCE_L2:
    case RLX_OP_REDUCE_SUM_SQUARE:
        return sum + x * x;
    case RLX_OP_REDUCE_LOG_SUM_EXP:
        return sum + exp(x);
    default:
        return sum + x;
    }
}

static double finished(rlx_op op, double sum, int64_t count) {
    switch (op) {
    case RLX_OP_REDUCE_MEAN:
        return sum / (double)count;
    case RLX_OP_REDUCE_L2:
        return sqrt(sum);
    case RLX_OP_REDUCE_LOG_SUM:
    case RLX_OP_REDUCE_LOG_SUM_EXP:
        return log(sum);
    default:
        return sum;
    }
}

static void check_reduce(rlx_op op, rlx_dtype dtype, const reduce_case *rc, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    rlx_reduce_attrs attrs = {.axes = ints(rc->axes, rc->axis_count), .keep_dims = seed & 1};
    bool is_float = rlx_dtype_is_float(dtype);
    double low = op == RLX_OP_REDUCE_LOG_SUM ? 0.1 : -2;
    operand x =
        operand_random(&random, dtype, rc->rank, rc->dims, is_float ? low : -5, is_float ? 2 : 6);
    operand out;
    int64_t reduced = 1;
    for (uint32_t i = 0; i < rc->rank; i++)
        reduced *= is_reduced(rc, i) ? rc->dims[i] : 1;
    run_dense(op, &attrs, &x, 1, &out, 1);
    double *expected = malloc((size_t)(out.count + 1) * sizeof *expected);
    for (int64_t i = 0; i < out.count; i++)
        expected[i] = start_of(op);
    for (int64_t i = 0; i < x.count; i++)
        expected[target_of(rc, i)] = joined(op, expected[target_of(rc, i)], x.values[i]);
    for (int64_t i = 0; i < out.count; i++)
        expected[i] = finished(op, expected[i], reduced);
    double tolerance = tolerance_of(dtype) * (dtype == RLX_DTYPE_F64 ? 10 : 1);
    assert_near(expected, &out, tolerance, tolerance);
    free(expected);
    operand_free(&x);
    operand_free(&out);
}

static void float_reductions_agree_with_loops(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16};
    (void)state;
    for (int op = RLX_OP_REDUCE_SUM; op <= RLX_OP_REDUCE_SUM_SQUARE; op++) {
        for (unsigned i = 0; i < CASE_COUNT; i++) {
            /* A product of many f16 values leaves its range. */
            bool is_long = op == RLX_OP_REDUCE_PROD && i == 2;
            check_reduce((rlx_op)op, is_long ? RLX_DTYPE_F64 : dtypes[(i + (unsigned)op) % 4],
                         &CASES[i], i);
        }
    }
}

/* Many outputs side by side are summed together; f64 shows every change of order. */
static void sums_over_an_outer_axis_do_not_hang_on_the_split(void **state) {
    static const reduce_case tall = {2, {37, 70}, 1, {0}}, box = {3, {3, 11, 5}, 2, {0, 1}};
    (void)state;
    for (int op = RLX_OP_REDUCE_SUM; op <= RLX_OP_REDUCE_SUM_SQUARE; op++) {
        check_reduce((rlx_op)op, RLX_DTYPE_F64, &tall, 1);
        check_reduce((rlx_op)op, RLX_DTYPE_F64, &box, 2);
    }
}

static void integer_reductions_agree_with_loops(void **state) {
    static const rlx_op ops[] = {RLX_OP_REDUCE_SUM, RLX_OP_REDUCE_MAX,        RLX_OP_REDUCE_MIN,
                                 RLX_OP_REDUCE_L1,  RLX_OP_REDUCE_SUM_SQUARE, RLX_OP_REDUCE_PROD};
    (void)state;
    for (unsigned i = 0; i < 6 * (CASE_COUNT - 2); i++) {
        const reduce_case *rc = &CASES[i / 6];
        if (ops[i % 6] == RLX_OP_REDUCE_PROD && i / 6 != 3 && i / 6 != 4) continue;
        check_reduce(ops[i % 6], i & 1 ? RLX_DTYPE_I32 : RLX_DTYPE_I64, rc, i);
    }
}

static void integers_wrap_and_know_their_limits(void **state) {
    double values[3] = {100, 100, -128};
    int64_t dims[1] = {3}, none[2] = {2, 0}, axis[1] = {1};
    rlx_reduce_attrs all = {0}, last = {.axes = ints(axis, 1)};
    operand x = operand_of(RLX_DTYPE_I8, 1, dims, values), out;
    (void)state;
    run_dense(RLX_OP_REDUCE_SUM, &all, &x, 1, &out, 1);
    assert_true(out.values[0] == 72);
    operand_free(&out);
    double two[2] = {100, 100};
    int64_t two_dims[1] = {2};
    operand pair = operand_of(RLX_DTYPE_I8, 1, two_dims, two);
    run_dense(RLX_OP_REDUCE_SUM, &all, &pair, 1, &out, 1);
    assert_true(out.values[0] == -56);
    operand_free(&out);
    operand_free(&pair);
    run_dense(RLX_OP_REDUCE_MEAN, &all, &x, 1, &out, 1);
    assert_true(out.values[0] == 24);
    operand_free(&out);
    operand_free(&x);
    x = operand_of(RLX_DTYPE_I16, 2, none, NULL);
    run_dense(RLX_OP_REDUCE_MAX, &last, &x, 1, &out, 1);
    assert_true(out.count == 2 && out.values[1] == -32768);
    operand_free(&out);
    run_dense(RLX_OP_REDUCE_MIN, &last, &x, 1, &out, 1);
    assert_true(out.values[1] == 32767);
    operand_free(&out);
    operand_free(&x);
}

static void nan_wins_in_max_and_min(void **state) {
    double values[4] = {1, NAN, -INFINITY, INFINITY};
    int64_t dims[1] = {4};
    rlx_reduce_attrs all = {0};
    rlx_arg_attrs arg = {0};
    operand x = operand_of(RLX_DTYPE_F32, 1, dims, values), out;
    static const rlx_op ops[] = {RLX_OP_REDUCE_MAX, RLX_OP_REDUCE_MIN};
    (void)state;
    for (int i = 0; i < 2; i++) {
        run_dense(ops[i], &all, &x, 1, &out, 1);
        assert_true(isnan(out.values[0]));
        operand_free(&out);
        run_dense(i == 0 ? RLX_OP_ARG_MAX : RLX_OP_ARG_MIN, &arg, &x, 1, &out, 1);
        assert_true(out.values[0] == 1);
        operand_free(&out);
    }
    run_dense(RLX_OP_REDUCE_LOG_SUM_EXP, &all, &x, 1, &out, 1);
    assert_true(isnan(out.values[0]));
    operand_free(&out);
    operand_free(&x);
}

/* dims [outer][length][inner], work along axis 1. */
enum { OUTER = 3, LENGTH = 37, INNER = 2 };
static const int64_t BOX[3] = {OUTER, LENGTH, INNER};

static double line_value(const operand *x, int64_t line, int64_t i) {
    return x->values[(line / INNER * LENGTH + i) * INNER + line % INNER];
}

static void arg_max_and_arg_min_take_the_first_or_last_of_equals(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F16, RLX_DTYPE_I8, RLX_DTYPE_U64};
    (void)state;
    for (unsigned c = 0; c < 32; c++) {
        rlx_test_random random = rlx_test_seed(c);
        rlx_arg_attrs attrs = {.axis = c & 1 ? 1 : -2, .keep_dims = c & 2, .select_last = c & 4};
        bool largest = c & 8;
        operand x = operand_random(&random, dtypes[c % 4], 3, BOX, 0, 5), out;
        for (int64_t i = 0; i < x.count; i++)
            x.values[i] = floor(x.values[i]);
        run_dense(largest ? RLX_OP_ARG_MAX : RLX_OP_ARG_MIN, &attrs, &x, 1, &out, 1);
        assert_int_equal(out.rank, attrs.keep_dims ? 3 : 2);
        for (int64_t line = 0; line < OUTER * INNER; line++) {
            int64_t best = 0;
            for (int64_t i = 1; i < LENGTH; i++) {
                double a = line_value(&x, line, i), b = line_value(&x, line, best);
                if (largest ? a > b : a < b) best = i;
                if (attrs.select_last && a == b) best = i;
            }
            assert_true(out.values[line] == (double)best);
        }
        operand_free(&x);
        operand_free(&out);
    }
}

static void top_k_sorts_and_keeps_the_order_of_equals(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_I32, RLX_DTYPE_U8};
    static const int64_t ks[] = {0, 1, 2, 5, 36, LENGTH};
    (void)state;
    for (unsigned c = 0; c < 24; c++) {
        rlx_test_random random = rlx_test_seed(c);
        rlx_top_k_attrs attrs = {.k = ks[c % 6], .axis = 1, .smallest = c & 1};
        operand x = operand_random(&random, dtypes[c % 4], 3, BOX, 0, 9), out[2];
        for (int64_t i = 0; i < x.count; i++)
            x.values[i] = floor(x.values[i]);
        run_dense(RLX_OP_TOP_K, &attrs, &x, 1, out, 2);
        assert_dims(&out[0], 3, (int64_t[]){OUTER, attrs.k, INNER});
        for (int64_t line = 0; line < OUTER * INNER; line++) {
            bool taken[LENGTH] = {false};
            for (int64_t rank = 0; rank < attrs.k; rank++) {
                int64_t best = -1, at = (line / INNER * attrs.k + rank) * INNER + line % INNER;
                for (int64_t i = 0; i < LENGTH; i++) {
                    if (taken[i]) continue;
                    double a = line_value(&x, line, i);
                    double b = best < 0 ? 0 : line_value(&x, line, best);
                    if (best < 0 || (attrs.smallest ? a < b : a > b)) best = i;
                }
                taken[best] = true;
                assert_true(out[1].values[at] == (double)best);
                assert_true(out[0].values[at] == line_value(&x, line, best));
            }
        }
        operand_free(&x);
        operands_free(out, 2);
    }
}

static void top_k_counts_nan_as_largest(void **state) {
    double values[4] = {1, NAN, INFINITY, -1};
    double down[4] = {1, 2, 0, 3}, up[4] = {3, 0, 2, 1};
    int64_t dims[1] = {4};
    operand x = operand_of(RLX_DTYPE_F32, 1, dims, values), out[2];
    (void)state;
    for (int smallest = 0; smallest < 2; smallest++) {
        rlx_top_k_attrs attrs = {.k = 4, .smallest = smallest};
        run_dense(RLX_OP_TOP_K, &attrs, &x, 1, out, 2);
        assert_near(smallest ? up : down, &out[1], 0, 0);
        operands_free(out, 2);
    }
    operand_free(&x);
}

static void cumsum_runs_both_ways(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_I32, RLX_DTYPE_I64};
    (void)state;
    for (unsigned c = 0; c < 16; c++) {
        rlx_test_random random = rlx_test_seed(c);
        rlx_cumsum_attrs attrs = {.axis = 1, .exclusive = c & 1, .reverse = c & 2};
        operand x = operand_random(&random, dtypes[c / 4], 3, BOX, -9, 9), out;
        run_dense(RLX_OP_CUMSUM, &attrs, &x, 1, &out, 1);
        for (int64_t line = 0; line < OUTER * INNER; line++) {
            double sum = 0;
            for (int64_t j = 0; j < LENGTH; j++) {
                int64_t i = attrs.reverse ? LENGTH - 1 - j : j;
                double next = sum + line_value(&x, line, i);
                double expected = attrs.exclusive ? sum : next;
                assert_true(fabs(expected - line_value(&out, line, i)) < 1e-4);
                sum = next;
            }
        }
        operand_free(&x);
        operand_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float_reductions_agree_with_loops),
        cmocka_unit_test(sums_over_an_outer_axis_do_not_hang_on_the_split),
        cmocka_unit_test(integer_reductions_agree_with_loops),
        cmocka_unit_test(integers_wrap_and_know_their_limits),
        cmocka_unit_test(nan_wins_in_max_and_min),
        cmocka_unit_test(arg_max_and_arg_min_take_the_first_or_last_of_equals),
        cmocka_unit_test(top_k_sorts_and_keeps_the_order_of_equals),
        cmocka_unit_test(top_k_counts_nan_as_largest),
        cmocka_unit_test(cumsum_runs_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
