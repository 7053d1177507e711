/* SPDX-License-Identifier: Apache-2.0 */
/* matmul against a triple loop in double. */
#include "ref/dense.h"

#include "ref/unary.h"

typedef struct sizes {
    int64_t batch_a, batch_b, m, n, k; /* batch 0: no batch axis */
} sizes;

/* [batch][rows][columns], or transposed. */
static operand make_matrix(rlx_test_random *random, rlx_dtype dtype, int64_t batch, int64_t rows,
                           int64_t columns, bool transpose, double reach) {
    int64_t dims[3] = {batch, transpose ? columns : rows, transpose ? rows : columns};
    double low = dtype >= RLX_DTYPE_U8 && dtype <= RLX_DTYPE_U64 ? 0 : -reach;
    return operand_random(random, dtype, batch == 0 ? 2 : 3, batch == 0 ? dims + 1 : dims, low,
                          reach);
}

static double element(const operand *x, int64_t batch, int64_t row, int64_t column,
                      bool transpose) {
    int64_t rows = x->dims[x->rank - 2], columns = x->dims[x->rank - 1];
    int64_t at = x->rank == 3 && x->dims[0] > 1 ? batch * rows * columns : 0;
    return x->values[at + (transpose ? column * columns + row : row * columns + column)];
}

/* out[batch][m][n] = a b, without epilogue. */
static double *naive_product(const operand *a, const operand *b, const rlx_matmul_attrs *attrs,
                             sizes s) {
    int64_t batch = s.batch_a > s.batch_b ? s.batch_a : s.batch_b, at = 0;
    if (batch == 0) batch = 1;
    double *out = malloc((size_t)(batch * s.m * s.n + 1) * sizeof *out);
    for (int64_t x = 0; x < batch; x++) {
        for (int64_t i = 0; i < s.m; i++) {
            for (int64_t j = 0; j < s.n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < s.k; k++)
                    sum += element(a, x, i, k, attrs->transpose_a) *
                           element(b, x, k, j, attrs->transpose_b);
                out[at++] = sum;
            }
        }
    }
    return out;
}

static void check_product(rlx_dtype a_dtype, rlx_dtype b_dtype, rlx_matmul_attrs attrs, sizes s,
                          uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    double reach = rlx_dtype_is_integer(a_dtype) ? 100 : 1;
    operand in[2] = {make_matrix(&random, a_dtype, s.batch_a, s.m, s.k, attrs.transpose_a, reach),
                     make_matrix(&random, b_dtype, s.batch_b, s.k, s.n, attrs.transpose_b, reach)};
    operand out;
    run_dense(RLX_OP_MATMUL, &attrs, in, 2, &out, 1);
    double *expected = naive_product(&in[0], &in[1], &attrs, s);
    double tolerance = tolerance_of(out.dtype);
    assert_near(expected, &out, tolerance * 4 * sqrt((double)s.k + 1), tolerance);
    free(expected);
    operands_free(in, 2);
    operand_free(&out);
}

static const sizes SIZES[] = {{0, 0, 1, 1, 1},    {0, 0, 5, 7, 3},  {0, 0, 33, 65, 130},
                              {0, 0, 1, 70, 257}, {3, 3, 4, 9, 17}, {2, 1, 35, 3, 5},
                              {1, 2, 2, 33, 129}, {0, 2, 3, 4, 5},  {0, 0, 4, 5, 0},
                              {0, 0, 0, 5, 3},    {2, 2, 3, 0, 4}};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

static void products_of_floats_agree_with_a_triple_loop(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16,
                                       RLX_DTYPE_F8E4M3FN};
    (void)state;
    for (unsigned d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        for (unsigned i = 0; i < SIZE_COUNT; i++) {
            rlx_matmul_attrs attrs = {.transpose_a = i & 1, .transpose_b = i & 2};
            check_product(dtypes[d], dtypes[d], attrs, SIZES[i], 100 * d + i);
        }
    }
}

static void integers_wrap_in_their_own_width(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_I32, RLX_DTYPE_I64, RLX_DTYPE_U32, RLX_DTYPE_U64,
                                       RLX_DTYPE_I16};
    (void)state;
    for (unsigned d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        rlx_matmul_attrs attrs = {.transpose_b = d & 1};
        sizes small = {0, 0, 6, 5, 3};
        check_product(dtypes[d], dtypes[d], attrs, d == 4 ? small : SIZES[d + 2], d);
    }
    double a[1] = {200}, b[1] = {2}, expected[1] = {-112};
    int64_t dims[2] = {1, 1};
    operand in[2] = {operand_of(RLX_DTYPE_I8, 2, dims, a), operand_of(RLX_DTYPE_I8, 2, dims, b)};
    operand out;
    rlx_matmul_attrs attrs = {0};
    run_dense(RLX_OP_MATMUL, &attrs, in, 2, &out, 1);
    assert_near(expected, &out, 0, 0);
    operands_free(in, 2);
    operand_free(&out);
}

static void bytes_multiply_into_i32(void **state) {
    rlx_matmul_attrs attrs = {.has_to = true, .to = RLX_DTYPE_I32};
    (void)state;
    for (unsigned i = 0; i < SIZE_COUNT; i++) {
        attrs.transpose_b = i & 1;
        check_product(i & 1 ? RLX_DTYPE_I8 : RLX_DTYPE_U8, i & 2 ? RLX_DTYPE_I8 : RLX_DTYPE_U8,
                      attrs, SIZES[i], i);
    }
}

static void weights_may_be_narrower_than_activations(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F16,    RLX_DTYPE_BF16, RLX_DTYPE_F8E4M3FN,
                                       RLX_DTYPE_F8E5M2, RLX_DTYPE_Q8_0, RLX_DTYPE_Q4_0,
                                       RLX_DTYPE_Q4_K,   RLX_DTYPE_Q6_K};
    (void)state;
    for (unsigned d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        rlx_matmul_attrs attrs = {.transpose_b = true};
        int64_t block = rlx_dtype_block_elements(dtypes[d]);
        sizes cases[] = {{0, 0, 1, 37, 3 * block}, {0, 0, 19, 33, block}, {2, 1, 3, 5, 2 * block}};
        for (unsigned i = 0; i < 3; i++) {
            check_product(RLX_DTYPE_F32, dtypes[d], attrs, cases[i], 10 * d + i);
            check_product(RLX_DTYPE_F16, dtypes[d], attrs, cases[i], 10 * d + i);
        }
    }
}

static void vectors_multiply_like_numpy(void **state) {
    rlx_test_random random = rlx_test_seed(5);
    rlx_matmul_attrs attrs = {0};
    int64_t k[1] = {6}, matrix[3] = {2, 4, 6}, columns[2] = {6, 3};
    operand v = operand_random(&random, RLX_DTYPE_F32, 1, k, -1, 1);
    operand m = operand_random(&random, RLX_DTYPE_F32, 3, matrix, -1, 1);
    operand w = operand_random(&random, RLX_DTYPE_F32, 2, columns, -1, 1);
    operand out;
    (void)state;

    run_dense(RLX_OP_MATMUL, &attrs, (operand[]){v, v}, 2, &out, 1);
    assert_int_equal(out.rank, 0);
    operand_free(&out);

    run_dense(RLX_OP_MATMUL, &attrs, (operand[]){m, v}, 2, &out, 1);
    assert_dims(&out, 2, (int64_t[]){2, 4});
    double sum = 0;
    for (int i = 0; i < 6; i++)
        sum += m.values[7 * 6 + i] * v.values[i];
    assert_true(fabs(sum - out.values[7]) < 1e-5);
    operand_free(&out);

    run_dense(RLX_OP_MATMUL, &attrs, (operand[]){v, w}, 2, &out, 1);
    assert_dims(&out, 1, (int64_t[]){3});
    sum = 0;
    for (int i = 0; i < 6; i++)
        sum += v.values[i] * w.values[i * 3 + 1];
    assert_true(fabs(sum - out.values[1]) < 1e-5);
    operand_free(&out);
    operand_free(&v);
    operand_free(&m);
    operand_free(&w);
}

/* act(alpha a b + bias + residual) with each step rounded to f32: what the unfused ops give. */
static void a_fused_epilogue_has_the_bits_of_the_separate_ops(void **state) {
    static const rlx_op acts[] = {RLX_OP_NONE, RLX_OP_RELU,       RLX_OP_GELU,
                                  RLX_OP_SILU, RLX_OP_LEAKY_RELU, RLX_OP_CLIP};
    static const int64_t bias_dims[][2] = {{1, 9}, {35, 1}, {1, 1}, {35, 9}};
    rlx_test_random random = rlx_test_seed(6);
    int64_t a_dims[2] = {35, 40}, b_dims[2] = {40, 9}, out_dims[2] = {35, 9};
    operand a = operand_random(&random, RLX_DTYPE_F32, 2, a_dims, -1, 1);
    operand b = operand_random(&random, RLX_DTYPE_F32, 2, b_dims, -1, 1);
    (void)state;
    for (unsigned i = 0; i < 6 * 4; i++) {
        rlx_matmul_attrs plain = {.alpha = i & 1 ? 0.3 : 0}, fused = plain;
        const int64_t *bd = bias_dims[i % 4];
        fused.activation = (rlx_activation){acts[i / 4], i & 1 ? -0.2 : 0.1, 0.7};
        operand bias = bd[0] == 1 && i & 1
                           ? operand_random(&random, RLX_DTYPE_F32, 1, bd + 1, -1, 1)
                           : operand_random(&random, RLX_DTYPE_F32, 2, bd, -1, 1);
        operand residual = operand_random(&random, RLX_DTYPE_F32, 2, out_dims, -1, 1);
        operand product, out;
        run_dense(RLX_OP_MATMUL, &plain, (operand[]){a, b}, 2, &product, 1);
        run_dense(RLX_OP_MATMUL, &fused, (operand[]){a, b, bias, residual}, 4, &out, 1);
        for (int64_t j = 0; j < product.count; j++) {
            int64_t row = bd[0] == 1 ? 0 : j / 9, column = bd[1] == 1 ? 0 : j % 9;
            float x = (float)product.values[j];
            x += (float)bias.values[row * bd[1] + column];
            x += (float)residual.values[j];
            if (fused.activation.op != RLX_OP_NONE)
                x = rlx_ref_unary_f32(fused.activation.op, x, fused.activation.alpha,
                                      fused.activation.beta);
            assert_true(x == (float)out.values[j]);
        }
        operand_free(&bias);
        operand_free(&residual);
        operand_free(&product);
        operand_free(&out);
    }
    operand_free(&a);
    operand_free(&b);
}

static void a_residual_may_come_without_a_bias(void **state) {
    rlx_test_random random = rlx_test_seed(7);
    rlx_matmul_attrs attrs = {.has_to = true, .to = RLX_DTYPE_I32};
    int64_t dims[2] = {2, 2};
    operand in[4] = {operand_random(&random, RLX_DTYPE_I8, 2, dims, -9, 9),
                     operand_random(&random, RLX_DTYPE_U8, 2, dims, 0, 9), operand_absent(),
                     operand_random(&random, RLX_DTYPE_I32, 2, dims, -999, 999)};
    operand out;
    (void)state;
    run_dense(RLX_OP_MATMUL, &attrs, in, 4, &out, 1);
    const double *a = in[0].values, *b = in[1].values;
    assert_true(out.values[0] == a[0] * b[0] + a[1] * b[2] + in[3].values[0]);
    operands_free(in, 4);
    operand_free(&out);
}

/* Such a product has no elements, but its sizes must not wrap anywhere. */
static void an_empty_product_may_have_a_huge_inner_dim(void **state) {
    int64_t huge = INT64_C(1) << 61;
    rlx_tensor in[2] = {{.data = &huge, .dtype = RLX_DTYPE_F32, .rank = 2, .dims = {0, huge}},
                        {.data = &huge, .dtype = RLX_DTYPE_F32, .rank = 2, .dims = {huge, 0}}};
    rlx_tensor out = {.data = &huge, .dtype = RLX_DTYPE_F32, .rank = 2, .dims = {0, 0}};
    rlx_matmul_attrs attrs = {0};
    rlx_kernel_args args = {
        .op = RLX_OP_MATMUL, .attrs = &attrs, .in = in, .out = &out, .in_count = 2, .out_count = 1};
    const rlx_kernel *kernel = rlx_ref_kernel(RLX_OP_MATMUL);
    (void)state;
    assert_int_equal(kernel->items(&args), 0);
    assert_true(kernel->item_cost(&args) >= 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_of_floats_agree_with_a_triple_loop),
        cmocka_unit_test(integers_wrap_in_their_own_width),
        cmocka_unit_test(bytes_multiply_into_i32),
        cmocka_unit_test(weights_may_be_narrower_than_activations),
        cmocka_unit_test(vectors_multiply_like_numpy),
        cmocka_unit_test(a_fused_epilogue_has_the_bits_of_the_separate_ops),
        cmocka_unit_test(a_residual_may_come_without_a_bias),
        cmocka_unit_test(an_empty_product_may_have_a_huge_inner_dim),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
