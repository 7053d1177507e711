/* SPDX-License-Identifier: Apache-2.0 */
/* attention against a full score matrix in double, and rope against complex rotation. */
#include "ref/dense.h"

typedef struct attention_case {
    int64_t b, hq, hk, s, t, d, dv;
    bool causal;
    int64_t window;
    double scale, softcap;
    uint32_t mask_rank; /* 0: none */
    int64_t mask[4];
} attention_case;

static const attention_case CASES[] = {
    {1, 1, 1, 1, 1, 4, 4, false, 0, 0, 0, 0, {0}},
    {2, 4, 4, 5, 5, 8, 8, true, 0, 0, 0, 0, {0}},
    {1, 8, 2, 1, 70, 16, 16, true, 0, 0, 0, 0, {0}},
    {2, 6, 2, 7, 40, 9, 13, true, 0, 0.3, 0, 0, {0}},
    {1, 4, 2, 40, 40, 8, 8, true, 6, 0, 0, 0, {0}},
    {1, 4, 1, 13, 33, 8, 8, false, 0, 0, 5, 2, {13, 33}},
    {2, 2, 2, 3, 65, 8, 8, false, 0, 0, 0, 4, {2, 1, 1, 65}},
    {2, 2, 1, 3, 9, 8, 8, true, 4, 0, 2, 3, {2, 3, 9}},
    {1, 2, 1, 9, 4, 8, 8, true, 0, 0, 0, 0, {0}},
    {1, 2, 2, 3, 0, 8, 8, false, 0, 0, 0, 0, {0}},
    {1, 2, 2, 0, 5, 8, 8, true, 0, 0, 0, 0, {0}},
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

static double mask_at(const operand *mask, int64_t b, int64_t h, int64_t s, int64_t t) {
    int64_t at[4] = {b, h, s, t}, index = 0;
    for (uint32_t i = 0; i < mask->rank; i++) {
        int64_t dim = mask->dims[i];
        index = index * dim + (dim == 1 ? 0 : at[4 - mask->rank + i]);
    }
    return mask->values[index];
}

static double score(const attention_case *ac, const operand *in, int64_t b, int64_t h, int64_t s,
                    int64_t t) {
    int64_t hk = h / (ac->hq / ac->hk), end = ac->causal ? ac->t - ac->s + s + 1 : ac->t;
    const double *q = in[0].values + ((b * ac->hq + h) * ac->s + s) * ac->d;
    const double *k = in[1].values + ((b * ac->hk + hk) * ac->t + t) * ac->d;
    double sum = 0;
    if (t >= end || (ac->window > 0 && t < end - ac->window)) return -INFINITY;
    for (int64_t i = 0; i < ac->d; i++)
        sum += q[i] * k[i];
    sum *= ac->scale == 0 ? 1 / sqrt((double)ac->d) : ac->scale;
    if (ac->softcap > 0) sum = ac->softcap * tanh(sum / ac->softcap);
    return ac->mask_rank == 0 ? sum : sum + mask_at(&in[3], b, h, s, t);
}

static void naive_row(const attention_case *ac, const operand *in, int64_t row, double *y) {
    int64_t s = row % ac->s, h = row / ac->s % ac->hq, b = row / ac->s / ac->hq;
    int64_t hk = h / (ac->hq / ac->hk);
    double sum = 0;
    for (int64_t t = 0; t < ac->t; t++) {
        double weight = exp(score(ac, in, b, h, s, t));
        sum += weight;
        for (int64_t i = 0; i < ac->dv; i++)
            y[i] += weight * in[2].values[((b * ac->hk + hk) * ac->t + t) * ac->dv + i];
    }
    for (int64_t i = 0; i < ac->dv; i++)
        y[i] = sum == 0 ? 0 : y[i] / sum;
}

static void check_attention(const attention_case *ac, rlx_dtype q, rlx_dtype kv, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    rlx_attention_attrs attrs = {
        .scale = ac->scale, .softcap = ac->softcap, .window = ac->window, .causal = ac->causal};
    int64_t qd[4] = {ac->b, ac->hq, ac->s, ac->d}, kd[4] = {ac->b, ac->hk, ac->t, ac->d};
    int64_t vd[4] = {ac->b, ac->hk, ac->t, ac->dv};
    operand in[4] = {operand_random(&random, q, 4, qd, -2, 2),
                     operand_random(&random, kv, 4, kd, -2, 2),
                     operand_random(&random, kv, 4, vd, -2, 2), operand_absent()};
    if (ac->mask_rank != 0) {
        in[3] = operand_random(&random, q, ac->mask_rank, ac->mask, -3, 3);
        for (int64_t i = 0; i < in[3].count; i += 5)
            in[3].values[i] = -INFINITY;
    }
    operand out;
    run_dense(RLX_OP_ATTENTION, &attrs, in, ac->mask_rank == 0 ? 3 : 4, &out, 1);
    double *expected = calloc((size_t)out.count + 1, sizeof *expected);
    for (int64_t row = 0; row < ac->b * ac->hq * ac->s; row++)
        naive_row(ac, in, row, expected + row * ac->dv);
    double tolerance = tolerance_of(q) * 4;
    assert_near(expected, &out, tolerance, tolerance);
    free(expected);
    operands_free(in, 4);
    operand_free(&out);
}

static void attention_agrees_with_a_full_score_matrix(void **state) {
    (void)state;
    for (unsigned i = 0; i < CASE_COUNT; i++) {
        check_attention(&CASES[i], RLX_DTYPE_F32, RLX_DTYPE_F32, i);
        check_attention(&CASES[i], RLX_DTYPE_F64, RLX_DTYPE_F64, i);
        check_attention(&CASES[i], RLX_DTYPE_F16, RLX_DTYPE_F16, i);
        check_attention(&CASES[i], RLX_DTYPE_F32, RLX_DTYPE_BF16, i);
    }
}

static void a_row_that_sees_nothing_is_zero_and_nan_is_not_lost(void **state) {
    double q[2] = {1, 1}, k[2] = {1, 2}, v[2] = {3, 4}, mask[4] = {-INFINITY, -INFINITY, 0, 0};
    double expected[2] = {0, 0};
    int64_t dims[4] = {1, 1, 2, 1}, mask_dims[2] = {2, 2};
    rlx_attention_attrs attrs = {0};
    operand in[4] = {operand_of(RLX_DTYPE_F32, 4, dims, q), operand_of(RLX_DTYPE_F32, 4, dims, k),
                     operand_of(RLX_DTYPE_F32, 4, dims, v),
                     operand_of(RLX_DTYPE_F32, 2, mask_dims, mask)};
    operand out;
    (void)state;
    run_dense(RLX_OP_ATTENTION, &attrs, in, 4, &out, 1);
    expected[1] = (3 * exp(1) + 4 * exp(2)) / (exp(1) + exp(2));
    assert_near(expected, &out, 1e-6, 0);
    operand_free(&out);
    in[1].values[0] = NAN;
    run_dense(RLX_OP_ATTENTION, &attrs, in, 4, &out, 1);
    assert_true(isnan(out.values[1]));
    operand_free(&out);
    operands_free(in, 4);
}

static void rope_turns_pairs_by_their_position(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16};
    int64_t dims[4] = {2, 3, 5, 10}, one[1] = {5}, two[2] = {2, 5};
    (void)state;
    for (unsigned c = 0; c < 16; c++) {
        rlx_test_random random = rlx_test_seed(c);
        rlx_rope_attrs attrs = {
            .theta = c & 1 ? 500 : 0, .rotary_dim = c & 2 ? 6 : 0, .interleaved = c & 4};
        int64_t rotary = c & 2 ? 6 : 10;
        operand in[2] = {operand_random(&random, dtypes[c % 4], 4, dims, -2, 2),
                         c & 8 ? operand_random(&random, RLX_DTYPE_I64, 1, one, 0, 900)
                               : operand_random(&random, RLX_DTYPE_I64, 2, two, 0, 900)};
        operand out;
        run_dense(RLX_OP_ROPE, &attrs, in, 2, &out, 1);
        double *expected = malloc((size_t)out.count * sizeof *expected);
        memcpy(expected, in[0].values, (size_t)out.count * sizeof *expected);
        for (int64_t row = 0; row < 30; row++) {
            int64_t b = row / 15, s = row % 5;
            double position = in[1].values[c & 8 ? s : b * 5 + s];
            for (int64_t i = 0; i < rotary / 2; i++) {
                int64_t u = row * 10 + (c & 4 ? 2 * i : i), v = c & 4 ? u + 1 : u + rotary / 2;
                double f = pow(c & 1 ? 500 : 10000, -(double)(2 * i) / (double)rotary);
                double x = in[0].values[u], y = in[0].values[v];
                expected[u] = x * cos(position * f) - y * sin(position * f);
                expected[v] = x * sin(position * f) + y * cos(position * f);
            }
        }
        double tolerance = tolerance_of(dtypes[c % 4]);
        assert_near(expected, &out, tolerance * 4, tolerance);
        free(expected);
        operands_free(in, 2);
        operand_free(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_agrees_with_a_full_score_matrix),
        cmocka_unit_test(a_row_that_sees_nothing_is_zero_and_nan_is_not_lost),
        cmocka_unit_test(rope_turns_pairs_by_their_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
