/* SPDX-License-Identifier: Apache-2.0 */
/* Pools against loops over every output and tap. */
#include "ref/dense.h"

typedef struct pool_case {
    int64_t in[2], kernel[2], stride[2], dilation[2], pads[4];
    bool ceil_mode, count_pad;
} pool_case;

static const pool_case CASES[] = {
    {{7, 9}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, false, false},
    {{7, 9}, {3, 2}, {2, 3}, {1, 1}, {1, 1, 1, 0}, false, true},
    {{8, 8}, {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, true, false},
    {{8, 7}, {3, 3}, {2, 3}, {1, 1}, {1, 1, 1, 1}, true, true},
    {{9, 9}, {2, 3}, {1, 2}, {3, 2}, {0, 2, 1, 1}, true, true},
    {{5, 6}, {5, 6}, {1, 1}, {1, 1}, {0, 0, 0, 0}, false, false},
    {{4, 4}, {2, 2}, {2, 2}, {1, 1}, {1, 1, 1, 1}, true, false},
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

static rlx_ints ints(const int64_t *items, uint32_t count) {
    rlx_ints list = {.count = count};
    memcpy(list.items, items, count * sizeof *items);
    return list;
}

static rlx_pool_attrs attrs_of(const pool_case *pc) {
    return (rlx_pool_attrs){.kernel = ints(pc->kernel, 2),
                            .strides = ints(pc->stride, 2),
                            .dilations = ints(pc->dilation, 2),
                            .pads = ints(pc->pads, 4),
                            .ceil_mode = pc->ceil_mode,
                            .count_include_pad = pc->count_pad};
}

static int64_t out_dim(const pool_case *pc, int axis) {
    int64_t padded = pc->in[axis] + pc->pads[axis] + pc->pads[axis + 2];
    int64_t room = padded - (pc->kernel[axis] - 1) * pc->dilation[axis] - 1;
    int64_t out = room / pc->stride[axis] + 1;
    if (pc->ceil_mode && room % pc->stride[axis] != 0 &&
        out * pc->stride[axis] < pc->in[axis] + pc->pads[axis])
        out++;
    return out;
}

/* One window: the largest with its index in the plane, the sum and the two counts. */
typedef struct window_sums {
    double most, sum;
    int64_t index, inside, padded;
} window_sums;

static window_sums look(const pool_case *pc, const double *plane, int64_t oy, int64_t ox) {
    window_sums w = {-INFINITY, 0, -1, 0, 0};
    for (int64_t ky = 0; ky < pc->kernel[0]; ky++) {
        for (int64_t kx = 0; kx < pc->kernel[1]; kx++) {
            int64_t y = oy * pc->stride[0] - pc->pads[0] + ky * pc->dilation[0];
            int64_t x = ox * pc->stride[1] - pc->pads[1] + kx * pc->dilation[1];
            if (y < pc->in[0] + pc->pads[2] && x < pc->in[1] + pc->pads[3]) w.padded++;
            if (y < 0 || x < 0 || y >= pc->in[0] || x >= pc->in[1]) continue;
            double value = plane[y * pc->in[1] + x];
            w.inside++;
            w.sum += value;
            if (w.index < 0 || value > w.most) {
                w.most = value;
                w.index = y * pc->in[1] + x;
            }
        }
    }
    return w;
}

static void check_pool(const pool_case *pc, rlx_dtype dtype, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    rlx_pool_attrs attrs = attrs_of(pc);
    bool is_float = rlx_dtype_is_float(dtype);
    int64_t dims[4] = {2, 3, pc->in[0], pc->in[1]}, oh = out_dim(pc, 0), ow = out_dim(pc, 1);
    operand x = operand_random(&random, dtype, 4, dims, is_float ? -1 : 0, is_float ? 1 : 100);
    operand out[2], mean;
    run_dense(RLX_OP_MAX_POOL, &attrs, &x, 1, out, 2);
    if (is_float) run_dense(RLX_OP_AVERAGE_POOL, &attrs, &x, 1, &mean, 1);
    assert_dims(&out[0], 4, (int64_t[]){2, 3, oh, ow});
    assert_int_equal(out[1].dtype, RLX_DTYPE_I64);
    for (int64_t i = 0; i < out[0].count; i++) {
        int64_t plane = i / (oh * ow), size = pc->in[0] * pc->in[1];
        window_sums w = look(pc, x.values + plane * size, i / ow % oh, i % ow);
        assert_true(out[0].values[i] == w.most);
        assert_true(out[1].values[i] == (double)(plane * size + w.index));
        if (!is_float) continue;
        double expected = w.sum / (double)(pc->count_pad ? w.padded : w.inside);
        assert_true(fabs(expected - mean.values[i]) <= tolerance_of(dtype));
    }
    operand_free(&x);
    operands_free(out, 2);
    if (is_float) operand_free(&mean);
}

static void pools_agree_with_loops(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_I8,
                                       RLX_DTYPE_U8};
    (void)state;
    for (unsigned i = 0; i < CASE_COUNT * 5; i++)
        check_pool(&CASES[i / 5], dtypes[i % 5], i);
}

static void one_and_three_axes_pool_too(void **state) {
    rlx_test_random random = rlx_test_seed(1);
    int64_t line[3] = {1, 2, 7}, box[5] = {1, 1, 2, 3, 4};
    int64_t two[3] = {2, 2, 2};
    rlx_pool_attrs attrs = {.kernel = ints(two, 1)};
    operand x = operand_random(&random, RLX_DTYPE_F32, 3, line, -1, 1), out;
    (void)state;
    run_dense(RLX_OP_AVERAGE_POOL, &attrs, &x, 1, &out, 1);
    assert_dims(&out, 3, (int64_t[]){1, 2, 6});
    for (int64_t i = 0; i < 12; i++) {
        int64_t from = i / 6 * 7 + i % 6;
        assert_true(fabs(out.values[i] - (x.values[from] + x.values[from + 1]) / 2) < 1e-6);
    }
    operand_free(&x);
    operand_free(&out);

    attrs.kernel = ints(two, 3);
    x = operand_random(&random, RLX_DTYPE_F32, 5, box, -1, 1);
    run_dense(RLX_OP_MAX_POOL, &attrs, &x, 1, &out, 1);
    assert_dims(&out, 5, (int64_t[]){1, 1, 1, 2, 3});
    for (int64_t i = 0; i < 6; i++) {
        double most = -9;
        for (int t = 0; t < 8; t++)
            most =
                fmax(most, x.values[((t >> 2) * 3 + i / 3 + (t >> 1 & 1)) * 4 + i % 3 + (t & 1)]);
        assert_true(out.values[i] == most);
    }
    operand_free(&x);
    operand_free(&out);
}

static void nan_is_the_largest_and_padding_alone_is_the_least(void **state) {
    double values[4] = {1, NAN, 3, 2};
    int64_t dims[3] = {1, 1, 4}, kernel[1] = {2}, stride[1] = {2}, pads[2] = {2, 0};
    rlx_pool_attrs attrs = {
        .kernel = ints(kernel, 1), .strides = ints(stride, 1), .pads = ints(pads, 2)};
    double expected[3] = {-INFINITY, NAN, 3}, indices[3] = {-1, 1, 2}, zero[1] = {0};
    operand x = operand_of(RLX_DTYPE_F32, 3, dims, values), out[2];
    (void)state;
    run_dense(RLX_OP_MAX_POOL, &attrs, &x, 1, out, 2);
    assert_near(expected, &out[0], 0, 0);
    assert_near(indices, &out[1], 0, 0);
    operands_free(out, 2);
    run_dense(RLX_OP_AVERAGE_POOL, &attrs, &x, 1, out, 1);
    assert_true(out[0].values[0] == zero[0]);
    operand_free(&x);
    operand_free(&out[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pools_agree_with_loops),
        cmocka_unit_test(one_and_three_axes_pool_too),
        cmocka_unit_test(nan_is_the_largest_and_padding_alone_is_the_least),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
