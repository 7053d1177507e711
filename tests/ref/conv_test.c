/* SPDX-License-Identifier: Apache-2.0 */
/* conv and conv_transpose against loops over every output, channel and tap in double. The loops
 * always have three spatial axes; missing ones are 1 wide. */
#include "ref/dense.h"

#include "ref/unary.h"

typedef struct conv_case {
    uint32_t axes;
    int64_t n, c, m, groups;
    int64_t in[3], kernel[3], stride[3], dilation[3], begin[3], end[3], extra[3];
} conv_case;

static const conv_case CASES[] = {
    {1, 2, 3, 5, 1, {11}, {3}, {1}, {1}, {1}, {1}, {0}},
    {1, 1, 4, 6, 2, {17}, {4}, {3}, {2}, {2}, {0}, {1}},
    {2, 1, 1, 1, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
    {2, 2, 3, 40, 1, {9, 13}, {3, 5}, {1, 1}, {1, 1}, {1, 2}, {1, 2}, {0, 0}},
    {2, 1, 6, 6, 6, {14, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {2, 1, 8, 12, 4, {10, 11}, {3, 2}, {2, 3}, {2, 1}, {0, 1}, {3, 0}, {1, 2}},
    {2, 2, 70, 33, 1, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
    {2, 1, 5, 3, 1, {8, 7}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, {0, 0}, {0, 1}},
    {2, 1, 150, 2, 1, {3, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 0}, {0, 1}, {0, 0}},
    {3, 1, 2, 3, 1, {4, 5, 6}, {2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 1}, {1, 1, 0}, {0, 1, 0}},
    {3, 2, 4, 4, 2, {5, 3, 4}, {3, 1, 2}, {2, 1, 2}, {1, 1, 1}, {1, 0, 0}, {1, 0, 0}, {1, 0, 1}},
    {2, 0, 2, 3, 1, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, {0, 0}},
};
enum { CASE_COUNT = sizeof CASES / sizeof CASES[0] };

static rlx_ints ints(const int64_t *items, uint32_t count) {
    rlx_ints list = {.count = count};
    memcpy(list.items, items, count * sizeof *items);
    return list;
}

static rlx_conv_attrs attrs_of(const conv_case *cc, bool transposed) {
    rlx_conv_attrs attrs = {.groups = cc->groups};
    attrs.strides = ints(cc->stride, cc->axes);
    attrs.dilations = ints(cc->dilation, cc->axes);
    attrs.pads = ints(cc->begin, cc->axes);
    memcpy(attrs.pads.items + cc->axes, cc->end, cc->axes * sizeof(int64_t));
    attrs.pads.count = 2 * cc->axes;
    if (transposed) attrs.output_padding = ints(cc->extra, cc->axes);
    return attrs;
}

/* The case with three axes. */
static conv_case widen(const conv_case *cc) {
    conv_case wide = *cc;
    for (uint32_t i = 0; i < 3; i++) {
        bool is_real = i >= 3 - cc->axes;
        uint32_t from = is_real ? i - (3 - cc->axes) : 0;
        wide.in[i] = is_real ? cc->in[from] : 1;
        wide.kernel[i] = is_real ? cc->kernel[from] : 1;
        wide.stride[i] = is_real ? cc->stride[from] : 1;
        wide.dilation[i] = is_real ? cc->dilation[from] : 1;
        wide.begin[i] = is_real ? cc->begin[from] : 0;
        wide.end[i] = is_real ? cc->end[from] : 0;
        wide.extra[i] = is_real ? cc->extra[from] : 0;
    }
    return wide;
}

static int64_t at3(const int64_t *dims, int64_t z, int64_t y, int64_t x) {
    return (z * dims[1] + y) * dims[2] + x;
}

static int64_t volume(const int64_t *dims) {
    return dims[0] * dims[1] * dims[2];
}

/* Adds what x brings to y through w: scatter for the transposed form, gather otherwise; both walk
 * all (input, tap) pairs. */
static void spread(const conv_case *cc, bool transposed, const double *x, const double *w,
                   double *y, const int64_t *out) {
    const int64_t *from = transposed ? cc->in : out, *to = transposed ? out : cc->in;
    for (int64_t p = 0; p < volume(from); p++) {
        int64_t a[3] = {p / from[2] / from[1], p / from[2] % from[1], p % from[2]};
        for (int64_t t = 0; t < volume(cc->kernel); t++) {
            int64_t k[3] = {t / cc->kernel[2] / cc->kernel[1], t / cc->kernel[2] % cc->kernel[1],
                            t % cc->kernel[2]};
            int64_t b[3];
            bool inside = true;
            for (int i = 0; i < 3; i++) {
                b[i] = a[i] * cc->stride[i] - cc->begin[i] + k[i] * cc->dilation[i];
                inside = inside && b[i] >= 0 && b[i] < to[i];
            }
            if (!inside) continue;
            int64_t q = at3(to, b[0], b[1], b[2]);
            if (transposed) {
                y[q] += x[p] * w[t];
            } else {
                y[p] += x[q] * w[t];
            }
        }
    }
}

static double *naive_conv(const conv_case *cc, bool transposed, const operand *x, const operand *w,
                          const int64_t *out) {
    int64_t gc = cc->c / cc->groups, gm = cc->m / cc->groups;
    double *y = calloc((size_t)(cc->n * cc->m * volume(out)) + 1, sizeof *y);
    for (int64_t n = 0; n < cc->n; n++) {
        for (int64_t m = 0; m < cc->m; m++) {
            for (int64_t i = 0; i < gc; i++) {
                int64_t c = m / gm * gc + i;
                int64_t kernel = transposed ? c * gm + m % gm : m * gc + i;
                spread(cc, transposed, x->values + (n * cc->c + c) * volume(cc->in),
                       w->values + kernel * volume(cc->kernel), y + (n * cc->m + m) * volume(out),
                       out);
            }
        }
    }
    return y;
}

static void out_dims(const conv_case *cc, bool transposed, int64_t *out) {
    for (int i = 0; i < 3; i++) {
        int64_t span = (cc->kernel[i] - 1) * cc->dilation[i] + 1;
        int64_t pads = cc->begin[i] + cc->end[i];
        out[i] = transposed ? (cc->in[i] - 1) * cc->stride[i] + cc->extra[i] + span - pads
                            : (cc->in[i] + pads - span) / cc->stride[i] + 1;
    }
}

static operand spatial(rlx_test_random *random, rlx_dtype dtype, int64_t first, int64_t second,
                       const int64_t *dims, uint32_t axes) {
    int64_t all[5] = {first, second};
    memcpy(all + 2, dims, axes * sizeof *dims);
    return operand_random(random, dtype, 2 + axes, all, -1, 1);
}

static void check_conv(const conv_case *cc, bool transposed, rlx_dtype dtype, uint64_t seed) {
    rlx_test_random random = rlx_test_seed(seed);
    conv_case wide = widen(cc);
    rlx_conv_attrs attrs = attrs_of(cc, transposed);
    int64_t out3[3], bias_dims[1] = {cc->m};
    operand in[3] = {spatial(&random, dtype, cc->n, cc->c, cc->in, cc->axes),
                     transposed
                         ? spatial(&random, dtype, cc->c, cc->m / cc->groups, cc->kernel, cc->axes)
                         : spatial(&random, dtype, cc->m, cc->c / cc->groups, cc->kernel, cc->axes),
                     operand_random(&random, dtype, 1, bias_dims, -1, 1)};
    operand out;
    out_dims(&wide, transposed, out3);
    run_dense(transposed ? RLX_OP_CONV_TRANSPOSE : RLX_OP_CONV, &attrs, in, seed & 1 ? 3 : 2, &out,
              1);
    assert_int_equal(out.dims[1], cc->m);
    for (uint32_t i = 0; i < cc->axes; i++)
        assert_int_equal(out.dims[2 + i], out3[3 - cc->axes + i]);
    double *expected = naive_conv(&wide, transposed, &in[0], &in[1], out3);
    for (int64_t i = 0; seed & 1 && i < out.count; i++)
        expected[i] += in[2].values[i / volume(out3) % cc->m];
    double tolerance = tolerance_of(dtype);
    assert_near(expected, &out, tolerance * 20, tolerance);
    free(expected);
    operands_free(in, 3);
    operand_free(&out);
}

static void conv_agrees_with_loops(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16};
    (void)state;
    for (unsigned i = 0; i < CASE_COUNT * 4; i++)
        check_conv(&CASES[i / 4], false, dtypes[i % 4], i);
}

static void conv_transpose_agrees_with_loops(void **state) {
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16};
    (void)state;
    for (unsigned i = 0; i < CASE_COUNT * 4; i++)
        check_conv(&CASES[i / 4], true, dtypes[i % 4], i);
}

/* The automatic pads, written out. */
static void automatic_pads_are_those_of_onnx(void **state) {
    rlx_test_random random = rlx_test_seed(3);
    int64_t in[2] = {7, 6}, kernel[2] = {4, 3}, stride[2] = {2, 1};
    operand args[2] = {spatial(&random, RLX_DTYPE_F32, 1, 2, in, 2),
                       spatial(&random, RLX_DTYPE_F32, 3, 2, kernel, 2)};
    /* Rows: 4 outputs need 2 * 3 + 4 - 7 = 3; columns: 6 outputs need 5 + 3 - 6 = 2. */
    static const int64_t pads[4][4] = {{0}, {1, 1, 2, 1}, {2, 1, 1, 1}, {0, 0, 0, 0}};
    (void)state;
    for (int mode = RLX_AUTO_PAD_SAME_UPPER; mode <= RLX_AUTO_PAD_VALID; mode++) {
        rlx_conv_attrs automatic = {.auto_pad = (rlx_auto_pad)mode, .strides = ints(stride, 2)};
        rlx_conv_attrs written = {.pads = ints(pads[mode], 4), .strides = ints(stride, 2)};
        operand a, b;
        run_dense(RLX_OP_CONV, &automatic, args, 2, &a, 1);
        run_dense(RLX_OP_CONV, &written, args, 2, &b, 1);
        assert_dims(&a, b.rank, b.dims);
        assert_near(b.values, &a, 0, 0);
        operand_free(&a);
        operand_free(&b);
    }
    operands_free(args, 2);
}

static void same_pads_make_conv_transpose_a_multiple_of_its_input(void **state) {
    rlx_test_random random = rlx_test_seed(4);
    int64_t in[2] = {3, 4}, kernel[2] = {3, 3}, stride[2] = {2, 2};
    /* 2 * 2 + 3 - 6 = 1 to remove: after (upper) or before (lower). */
    static const int64_t pads[3][4] = {{0}, {0, 0, 1, 1}, {1, 1, 0, 0}};
    operand args[2] = {spatial(&random, RLX_DTYPE_F32, 1, 2, in, 2),
                       spatial(&random, RLX_DTYPE_F32, 2, 2, kernel, 2)};
    (void)state;
    for (int mode = RLX_AUTO_PAD_SAME_UPPER; mode <= RLX_AUTO_PAD_SAME_LOWER; mode++) {
        rlx_conv_attrs automatic = {.auto_pad = (rlx_auto_pad)mode, .strides = ints(stride, 2)};
        rlx_conv_attrs written = {.pads = ints(pads[mode], 4), .strides = ints(stride, 2)};
        operand a, b;
        run_dense(RLX_OP_CONV_TRANSPOSE, &automatic, args, 2, &a, 1);
        run_dense(RLX_OP_CONV_TRANSPOSE, &written, args, 2, &b, 1);
        assert_dims(&a, 4, (int64_t[]){1, 2, 6, 8});
        assert_near(b.values, &a, 0, 0);
        operand_free(&a);
        operand_free(&b);
    }
    operands_free(args, 2);
}

static void a_fused_conv_has_the_bits_of_the_separate_ops(void **state) {
    rlx_test_random random = rlx_test_seed(9);
    int64_t in[2] = {6, 7}, kernel[2] = {3, 3}, pads[4] = {1, 1, 1, 1}, bias_dims[1] = {5};
    rlx_conv_attrs plain = {.pads = ints(pads, 4)}, fused = plain;
    operand args[4] = {spatial(&random, RLX_DTYPE_F32, 2, 3, in, 2),
                       spatial(&random, RLX_DTYPE_F32, 5, 3, kernel, 2),
                       operand_random(&random, RLX_DTYPE_F32, 1, bias_dims, -1, 1),
                       spatial(&random, RLX_DTYPE_F32, 2, 5, in, 2)};
    operand product, out;
    (void)state;
    fused.activation = (rlx_activation){RLX_OP_HARD_SWISH, 0, 0};
    run_dense(RLX_OP_CONV, &plain, args, 2, &product, 1);
    run_dense(RLX_OP_CONV, &fused, args, 4, &out, 1);
    for (int64_t i = 0; i < out.count; i++) {
        float x = (float)product.values[i] + (float)args[2].values[i / 42 % 5];
        x = rlx_ref_unary_f32(RLX_OP_HARD_SWISH, x + (float)args[3].values[i], 0, 0);
        assert_true(x == (float)out.values[i]);
    }
    operands_free(args, 4);
    operand_free(&product);
    operand_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_agrees_with_loops),
        cmocka_unit_test(conv_transpose_agrees_with_loops),
        cmocka_unit_test(automatic_pads_are_those_of_onnx),
        cmocka_unit_test(same_pads_make_conv_transpose_a_multiple_of_its_input),
        cmocka_unit_test(a_fused_conv_has_the_bits_of_the_separate_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
