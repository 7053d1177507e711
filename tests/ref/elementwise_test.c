/* SPDX-License-Identifier: Apache-2.0 */
/* Elementwise kernels: shapes, strides, broadcasting, in place, splits, and the rules that a table
 * of numbers shows best. Values of every op and dtype are in tests/ops/cases/elementwise; chains
 * are in chain_test.c. */
#include "ref/elementwise_support.h"

#include "ir/op.h"

#include <math.h>

static void every_elementwise_op_has_a_kernel(void **state) {
    (void)state;
    for (int op = RLX_OP_NONE + 1; op < RLX_OP_COUNT; op++) {
        if ((rlx_op_info_of((rlx_op)op)->flags & RLX_OPF_ELEMENTWISE) == 0) continue;
        const rlx_kernel *kernel = rlx_ref_kernel((rlx_op)op);
        if (kernel == NULL) fail_msg("%s has no kernel", rlx_op_name((rlx_op)op));
        assert_text_has(kernel->name, rlx_op_name((rlx_op)op));
    }
}

static void lengths_around_tiles_and_items_are_right(void **state) {
    (void)state;
    static const int64_t lengths[] = {0, 1, 7, 255, 256, 257, 4095, 4096, 4097, 9001};
    rlx_test_random random = rlx_test_seed(1);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        rlx_tensor in[2] = {elementwise_plain(RLX_DTYPE_F32, 1, &lengths[k]),
                            elementwise_plain(RLX_DTYPE_F32, 1, &lengths[k])};
        rlx_tensor out = elementwise_plain(RLX_DTYPE_F32, 1, &lengths[k]);
        elementwise_fill(&random, &in[0]);
        elementwise_fill(&random, &in[1]);
        assert_int_equal(elementwise_run(RLX_OP_SUB, NULL, in, 2, &out), 0);
        const float *a = in[0].data, *b = in[1].data, *y = out.data;
        for (int64_t i = 0; i < lengths[k]; i++)
            assert_true(y[i] == a[i] - b[i]);
        elementwise_free(&in[0]);
        elementwise_free(&in[1]);
        elementwise_free(&out);
    }
}

/* What the op gives for one element, by plain C on doubles or integers. */
static void expect_one(rlx_op op, const rlx_tensor *in, const rlx_tensor *out, int64_t i) {
    int64_t to = elementwise_index(out, out, i);
    int64_t at[3] = {0, 0, 0};
    rlx_dtype dtype = in[op == RLX_OP_WHERE ? 1 : 0].dtype;
    for (int k = 0; k < (op == RLX_OP_WHERE ? 3 : 2); k++)
        at[k] = elementwise_index(&in[k], out, i);
    if (op == RLX_OP_WHERE) {
        bool yes = rlx_load_i64(RLX_DTYPE_BOOL, in[0].data, at[0]) != 0;
        const rlx_tensor *from = &in[yes ? 1 : 2];
        if (rlx_dtype_row_of(dtype)->class_ == RLX_CLASS_FLOAT) {
            rlx_store_f64(dtype, out->data, to, rlx_load_f64(dtype, from->data, at[yes ? 1 : 2]));
        } else {
            rlx_store_i64(dtype, out->data, to, rlx_load_i64(dtype, from->data, at[yes ? 1 : 2]));
        }
        return;
    }
    if (rlx_dtype_row_of(dtype)->class_ == RLX_CLASS_FLOAT) {
        double x = rlx_load_f64(dtype, in[0].data, at[0]);
        double y = rlx_load_f64(dtype, in[1].data, at[1]);
        if (op == RLX_OP_LESS) {
            rlx_store_i64(RLX_DTYPE_BOOL, out->data, to, x < y);
        } else if (dtype == RLX_DTYPE_F64) {
            rlx_store_f64(dtype, out->data, to, x + y);
        } else {
            rlx_store_f64(dtype, out->data, to, (double)((float)x + (float)y));
        }
        return;
    }
    int64_t x = rlx_load_i64(dtype, in[0].data, at[0]);
    int64_t y = rlx_load_i64(dtype, in[1].data, at[1]);
    bool is_less = dtype == RLX_DTYPE_U64 ? (uint64_t)x < (uint64_t)y : x < y;
    if (op == RLX_OP_LESS) {
        rlx_store_i64(RLX_DTYPE_BOOL, out->data, to, is_less);
    } else {
        rlx_store_i64(dtype, out->data, to, (int64_t)((uint64_t)x + (uint64_t)y));
    }
}

/* Dims of an operand: those of the output, some of them 1, some leading ones missing. */
static uint32_t operand_dims(rlx_test_random *random, uint32_t rank, const int64_t *dims,
                             int64_t *out_dims) {
    uint32_t missing =
        rlx_test_below(random, 3) == 0 ? (uint32_t)rlx_test_below(random, rank + 1) : 0;
    for (uint32_t i = missing; i < rank; i++)
        out_dims[i - missing] = rlx_test_below(random, 4) == 0 ? 1 : dims[i];
    return rank - missing;
}

static void random_broadcast(rlx_test_random *random, rlx_op op, rlx_dtype dtype) {
    int64_t dims[RLX_MAX_RANK], narrow[RLX_MAX_RANK];
    uint32_t rank = (uint32_t)rlx_test_below(random, 6), count = op == RLX_OP_WHERE ? 3 : 2;
    rlx_tensor in[3];
    for (uint32_t i = 0; i < rank; i++)
        dims[i] =
            (int64_t)rlx_test_below(random, 12) == 0 ? 0 : 1 + (int64_t)rlx_test_below(random, 7);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t own = operand_dims(random, rank, dims, narrow);
        rlx_dtype own_dtype = op == RLX_OP_WHERE && k == 0 ? RLX_DTYPE_BOOL : dtype;
        in[k] = elementwise_odd(random, own_dtype, own, narrow);
        elementwise_fill(random, &in[k]);
    }
    rlx_dtype out_dtype = op == RLX_OP_LESS ? RLX_DTYPE_BOOL : dtype;
    rlx_tensor out = elementwise_odd(random, out_dtype, rank, dims);
    rlx_tensor expected = elementwise_plain(out_dtype, rank, dims);
    int64_t elements = rlx_tensor_elements(&out);
    for (int64_t i = 0; i < elements; i++)
        expect_one(op, in, &expected, i);
    assert_int_equal(elementwise_run(op, NULL, in, count, &out), 0);
    elementwise_assert_equal(&expected, &out, rlx_op_name(op));
    for (uint32_t k = 0; k < count; k++)
        elementwise_free(&in[k]);
    elementwise_free(&out);
    elementwise_free(&expected);
}

static void any_strides_and_broadcasts_give_what_plain_loops_give(void **state) {
    (void)state;
    static const rlx_op ops[] = {RLX_OP_ADD, RLX_OP_LESS, RLX_OP_WHERE};
    rlx_test_random random = rlx_test_seed(2);
    for (int dtype = 0; dtype <= RLX_DTYPE_U4; dtype++) {
        for (size_t k = 0; k < 3; k++) {
            if (dtype == RLX_DTYPE_BOOL && ops[k] == RLX_OP_ADD) continue;
            for (int i = 0; i < 60; i++)
                random_broadcast(&random, ops[k], (rlx_dtype)dtype);
        }
    }
}

static void an_output_may_be_an_input(void **state) {
    (void)state;
    static const int64_t dims[] = {3, 700};
    rlx_test_random random = rlx_test_seed(3);
    for (int dtype = 0; dtype <= RLX_DTYPE_U4; dtype++) {
        if (dtype == RLX_DTYPE_BOOL) continue;
        rlx_tensor in[2] = {elementwise_odd(&random, (rlx_dtype)dtype, 2, dims),
                            elementwise_plain((rlx_dtype)dtype, 2, dims)};
        rlx_tensor out = elementwise_plain((rlx_dtype)dtype, 2, dims);
        elementwise_fill(&random, &in[0]);
        elementwise_fill(&random, &in[1]);
        (void)elementwise_run(RLX_OP_MUL, NULL, in, 2, &out);
        (void)elementwise_run(RLX_OP_MUL, NULL, in, 2, &in[0]);
        elementwise_assert_equal(&out, &in[0], "in place");
        elementwise_free(&in[0]);
        elementwise_free(&in[1]);
        elementwise_free(&out);
    }
}

static void a_view_may_run_backwards(void **state) {
    (void)state;
    static const int64_t dims[] = {300};
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F16, RLX_DTYPE_I4, RLX_DTYPE_BOOL};
    for (size_t k = 0; k < 4; k++) {
        rlx_test_random random = rlx_test_seed(k);
        rlx_tensor in = elementwise_plain(dtypes[k], 1, dims),
                   out = elementwise_plain(dtypes[k], 1, dims);
        rlx_tensor view = in;
        elementwise_fill(&random, &in);
        uint64_t bytes = 0;
        assert_ok(rlx_dtype_bytes(dtypes[k], 299, &bytes));
        view.data = (char *)in.data + (dtypes[k] == RLX_DTYPE_I4 ? 149 : bytes);
        view.strides[0] = -1;
        rlx_tensor operands[3] = {view, view, view};
        if (dtypes[k] == RLX_DTYPE_BOOL) {
            (void)elementwise_run(RLX_OP_AND, NULL, operands, 2, &out);
        } else {
            (void)elementwise_run(RLX_OP_MAX, NULL, operands, 2, &out);
        }
        /* Of the nibbles, byte 149 holds elements 298 and 299: the view starts at 298. */
        int64_t last = dtypes[k] == RLX_DTYPE_I4 ? 298 : 299;
        for (int64_t i = 0; i < last; i++) {
            assert_true(rlx_load_f64(dtypes[k], out.data, i) ==
                        rlx_load_f64(dtypes[k], in.data, last - i));
        }
        elementwise_free(&in);
        elementwise_free(&out);
    }
}

static void any_split_into_items_gives_the_same_bits(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 20000}, {5, 7, 300}, {3, 5000, 1}, {900, 2, 5}};
    rlx_test_random random = rlx_test_seed(4);
    for (size_t k = 0; k < 4; k++) {
        rlx_tensor in = elementwise_odd(&random, RLX_DTYPE_F16, 3, shapes[k]);
        rlx_tensor whole = elementwise_odd(&random, RLX_DTYPE_F16, 3, shapes[k]);
        rlx_tensor pieces = elementwise_plain(RLX_DTYPE_F16, 3, shapes[k]);
        elementwise_fill(&random, &in);
        (void)elementwise_run(RLX_OP_TANH, NULL, &in, 1, &whole);
        rlx_kernel_args args = {
            .op = RLX_OP_TANH, .in = &in, .out = &pieces, .in_count = 1, .out_count = 1};
        const rlx_kernel *kernel = rlx_ref_kernel(RLX_OP_TANH);
        int64_t items = kernel->items(&args);
        assert_true(items > 1);
        assert_true(kernel->item_cost(&args) > 0);
        for (int64_t i = items; i-- > 0;)
            kernel->run(&args, i, i + 1);
        elementwise_assert_equal(&whole, &pieces, "tanh");
        elementwise_free(&in);
        elementwise_free(&whole);
        elementwise_free(&pieces);
    }
}

/* One integer op on scalars (rank 0). */
static int64_t integer_op(rlx_op op, rlx_dtype dtype, int64_t x, int64_t y, uint32_t *out_fault) {
    uint64_t a = 0, b = 0, d = 0;
    rlx_tensor in[2] = {{.data = &a, .dtype = dtype}, {.data = &b, .dtype = dtype}};
    rlx_tensor out = {.data = &d, .dtype = dtype};
    rlx_store_i64(dtype, &a, 0, x);
    rlx_store_i64(dtype, &b, 0, y);
    *out_fault = elementwise_run(op, NULL, in, 2, &out);
    return rlx_load_i64(dtype, &d, 0);
}

static void integer_rules_hold(void **state) {
    (void)state;
    static const struct {
        rlx_op op;
        rlx_dtype dtype;
        int64_t x, y, expected;
    } rows[] = {
        {RLX_OP_DIV, RLX_DTYPE_I32, -7, 2, -3},
        {RLX_OP_DIV, RLX_DTYPE_I8, -128, -1, -128},
        {RLX_OP_DIV, RLX_DTYPE_I64, INT64_MIN, -1, INT64_MIN},
        {RLX_OP_DIV, RLX_DTYPE_U64, -1, 2, INT64_MAX},
        {RLX_OP_MOD, RLX_DTYPE_I32, -7, 3, 2},
        {RLX_OP_MOD, RLX_DTYPE_I32, 7, -3, -2},
        {RLX_OP_MOD, RLX_DTYPE_I64, INT64_MIN, -1, 0},
        {RLX_OP_FMOD, RLX_DTYPE_I32, -7, 3, -1},
        {RLX_OP_FMOD, RLX_DTYPE_I32, 7, -3, 1},
        {RLX_OP_FMOD, RLX_DTYPE_I64, INT64_MIN, -1, 0},
        {RLX_OP_ADD, RLX_DTYPE_I8, 100, 100, -56},
        {RLX_OP_MUL, RLX_DTYPE_U16, 300, 300, 90000 - 65536},
        {RLX_OP_SUB, RLX_DTYPE_U32, 0, 1, UINT32_MAX},
        {RLX_OP_ADD, RLX_DTYPE_I4, 7, 1, -8},
        {RLX_OP_MAX, RLX_DTYPE_U64, -1, 1, -1},
        {RLX_OP_MIN, RLX_DTYPE_I64, -1, 1, -1},
        {RLX_OP_SHIFT_LEFT, RLX_DTYPE_U8, 3, 7, 128},
        {RLX_OP_SHIFT_LEFT, RLX_DTYPE_U8, 3, 8, 0},
        {RLX_OP_SHIFT_LEFT, RLX_DTYPE_I64, 1, 64, 0},
        {RLX_OP_SHIFT_RIGHT, RLX_DTYPE_I16, -256, 4, -16},
        {RLX_OP_SHIFT_RIGHT, RLX_DTYPE_I16, -256, 16, 0},
        {RLX_OP_SHIFT_RIGHT, RLX_DTYPE_U64, -1, 63, 1},
        {RLX_OP_SHIFT_RIGHT, RLX_DTYPE_I32, 8, -1, 0},
        {RLX_OP_POW, RLX_DTYPE_I64, 3, 39, 4052555153018976267},
        {RLX_OP_POW, RLX_DTYPE_U8, 3, 6, 729 - 512},
        {RLX_OP_POW, RLX_DTYPE_I32, -1, -3, -1},
        {RLX_OP_POW, RLX_DTYPE_I32, 2, -1, 0},
        {RLX_OP_POW, RLX_DTYPE_I32, 0, 0, 1},
        {RLX_OP_PRELU, RLX_DTYPE_I32, -5, 3, -15},
        {RLX_OP_BIT_XOR, RLX_DTYPE_I8, -1, 15, -16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t fault = 0;
        int64_t actual = integer_op(rows[i].op, rows[i].dtype, rows[i].x, rows[i].y, &fault);
        if (actual != rows[i].expected || fault != 0)
            fail_msg("%s %s %lld, %lld: expected %lld, got %lld (fault %u)",
                     rlx_op_name(rows[i].op), rlx_dtype_name(rows[i].dtype), (long long)rows[i].x,
                     (long long)rows[i].y, (long long)rows[i].expected, (long long)actual, fault);
    }
}

static void integer_division_by_zero_faults_and_gives_zero(void **state) {
    (void)state;
    static const rlx_op ops[] = {RLX_OP_DIV, RLX_OP_MOD, RLX_OP_FMOD};
    for (int dtype = RLX_DTYPE_I8; dtype <= RLX_DTYPE_U4; dtype++) {
        if (dtype == RLX_DTYPE_BOOL) continue;
        for (size_t k = 0; k < 3; k++) {
            uint32_t fault = 0;
            assert_int_equal(integer_op(ops[k], (rlx_dtype)dtype, 5, 0, &fault), 0);
            assert_int_equal(fault, RLX_FAULT_DIVISION);
        }
    }
    int64_t x[3] = {1, -9, 4}, y[3] = {1, 0, 0}, d[3] = {7, 7, 7};
    rlx_fault fault = {0};
    rlx_tensor in[2] = {
        {.data = x, .dtype = RLX_DTYPE_I64, .rank = 1, .dims = {3}, .strides = {1}},
        {.data = y, .dtype = RLX_DTYPE_I64, .rank = 1, .dims = {3}, .strides = {1}}};
    rlx_tensor out = {.data = d, .dtype = RLX_DTYPE_I64, .rank = 1, .dims = {3}, .strides = {1}};
    rlx_kernel_args args = {.op = RLX_OP_DIV,
                            .step = 12,
                            .in = in,
                            .out = &out,
                            .in_count = 2,
                            .out_count = 1,
                            .fault = &fault};
    rlx_ref_kernel(RLX_OP_DIV)->run(&args, 0, 1);
    assert_int_equal(fault.step, 12);
    assert_int_equal(fault.value, -9);
    assert_int_equal(d[0], 1);
    assert_int_equal(d[1], 0);
}

static double float_op(rlx_op op, rlx_dtype dtype, double x, double y, double alpha, double beta) {
    double a = 0, b = 0, d = 0;
    rlx_unary_attrs attrs = {alpha, beta};
    rlx_tensor in[2] = {{.data = &a, .dtype = dtype}, {.data = &b, .dtype = dtype}};
    rlx_tensor out = {.data = &d, .dtype = dtype};
    bool is_unary = rlx_op_info_of(op)->in_most == 1;
    rlx_store_f64(dtype, &a, 0, x);
    rlx_store_f64(dtype, &b, 0, y);
    (void)elementwise_run(op, is_unary ? &attrs : NULL, in, is_unary ? 1 : 2, &out);
    return rlx_load_f64(dtype, &d, 0);
}

static void float_rules_hold(void **state) {
    (void)state;
    static const struct {
        rlx_op op;
        double x, y, alpha, beta, expected;
    } rows[] = {
        {RLX_OP_MIN, NAN, 1, 0, 0, NAN},
        {RLX_OP_MIN, 1, NAN, 0, 0, NAN},
        {RLX_OP_MAX, NAN, 1, 0, 0, NAN},
        {RLX_OP_MAX, 1, NAN, 0, 0, NAN},
        {RLX_OP_MAX, -INFINITY, 2, 0, 0, 2},
        {RLX_OP_CLIP, NAN, 0, -1, 1, NAN},
        {RLX_OP_CLIP, 7, 0, -1, 1, 1},
        {RLX_OP_CLIP, -INFINITY, 0, -1, 1, -1},
        {RLX_OP_CLIP, 0, 0, 5, 2, 2},
        {RLX_OP_RELU, NAN, 0, 0, 0, NAN},
        {RLX_OP_SIGN, NAN, 0, 0, 0, NAN},
        {RLX_OP_SIGN, -INFINITY, 0, 0, 0, -1},
        {RLX_OP_ROUND, 2.5, 0, 0, 0, 2},
        {RLX_OP_ROUND, 3.5, 0, 0, 0, 4},
        {RLX_OP_ROUND, -0.5, 0, 0, 0, -0.0},
        {RLX_OP_MOD, -7, 3, 0, 0, 2},
        {RLX_OP_MOD, 7, -3, 0, 0, -2},
        {RLX_OP_MOD, -6, 3, 0, 0, 0},
        {RLX_OP_MOD, 1, 0, 0, 0, NAN},
        {RLX_OP_FMOD, -7, 3, 0, 0, -1},
        {RLX_OP_DIV, 1, 0, 0, 0, INFINITY},
        {RLX_OP_SOFTPLUS, 1000, 0, 0, 0, 1000},
        {RLX_OP_SOFTPLUS, -1000, 0, 0, 0, 0},
        {RLX_OP_SIGMOID, -1000, 0, 0, 0, 0},
        {RLX_OP_SIGMOID, 1000, 0, 0, 0, 1},
        {RLX_OP_SILU, -1000, 0, 0, 0, -0.0},
        {RLX_OP_GELU, -1000, 0, 0, 0, -0.0},
        {RLX_OP_GELU_TANH, -1000, 0, 0, 0, -0.0},
        {RLX_OP_GELU_TANH, 1000, 0, 0, 0, 1000},
        {RLX_OP_MISH, 1000, 0, 0, 0, 1000},
        {RLX_OP_ELU, -1000, 0, 2, 0, -2},
        {RLX_OP_HARD_SIGMOID, 9, 0, 0.2, 0.5, 1},
        {RLX_OP_POW, 0, 0, 0, 0, 1},
        {RLX_OP_POW, -2, 3, 0, 0, -8},
        {RLX_OP_PRELU, -2, 0.25, 0, 0, -0.5},
    };
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_BF16};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            double actual =
                float_op(rows[i].op, dtypes[k], rows[i].x, rows[i].y, rows[i].alpha, rows[i].beta);
            bool is_same = isnan(rows[i].expected)
                               ? isnan(actual)
                               : actual == rows[i].expected || rows[i].expected == 1000;
            if (!is_same)
                fail_msg("%s %s %g, %g: expected %g, got %g", rlx_op_name(rows[i].op),
                         rlx_dtype_name(dtypes[k]), rows[i].x, rows[i].y, rows[i].expected, actual);
        }
    }
}

/* The tails, where the plain formulas lose all digits. */
static void activations_keep_their_digits_far_out(void **state) {
    (void)state;
    static const struct {
        rlx_op op;
        double x, expected;
    } rows[] = {
        {RLX_OP_GELU, -8.0, -4.976768459417427e-15},
        {RLX_OP_SIGMOID, -80.0, 1.8048513878454153e-35},
        {RLX_OP_SILU, -80.0, -1.4438811102763322e-33},
        {RLX_OP_SOFTPLUS, -50.0, 1.9287498479639178e-22},
        {RLX_OP_MISH, -50.0, -9.643749239819589e-21},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double narrow = float_op(rows[i].op, RLX_DTYPE_F32, rows[i].x, 0, 0, 0);
        double wide = float_op(rows[i].op, RLX_DTYPE_F64, rows[i].x, 0, 0, 0);
        assert_true(fabs(narrow / rows[i].expected - 1) < 1.2e-7);
        assert_true(fabs(wide / rows[i].expected - 1) < 1e-12);
    }
}

static void cast_one(rlx_dtype from, const void *in, rlx_dtype to, void *out) {
    rlx_tensor a = {.dtype = from, .rank = 0}, b = {.data = out, .dtype = to, .rank = 0};
    rlx_cast_attrs attrs = {to};
    uint64_t copy = 0;
    memcpy(&copy, in, rlx_dtype_block_bytes(from));
    a.data = &copy;
    (void)elementwise_run(RLX_OP_CAST, &attrs, &a, 1, &b);
}

static int64_t cast_float_to(rlx_dtype to, double value) {
    float narrow = (float)value;
    int64_t first = 0, second = 0;
    cast_one(RLX_DTYPE_F64, &value, to, &first);
    cast_one(RLX_DTYPE_F32, &narrow, to, &second);
    assert_true(rlx_load_i64(to, &first, 0) == rlx_load_i64(to, &second, 0));
    return rlx_load_i64(to, &first, 0);
}

static void casts_truncate_saturate_and_wrap(void **state) {
    (void)state;
    assert_int_equal(cast_float_to(RLX_DTYPE_I32, -3.75), -3);
    assert_int_equal(cast_float_to(RLX_DTYPE_I8, 300), 127);
    assert_int_equal(cast_float_to(RLX_DTYPE_I8, -128.75), -128);
    assert_int_equal(cast_float_to(RLX_DTYPE_U8, -1), 0);
    assert_int_equal(cast_float_to(RLX_DTYPE_U4, 99), 15);
    assert_int_equal(cast_float_to(RLX_DTYPE_I4, -99), -8);
    assert_int_equal(cast_float_to(RLX_DTYPE_I64, (double)NAN), 0);
    assert_true(cast_float_to(RLX_DTYPE_I64, 1e30) == INT64_MAX);
    assert_true(cast_float_to(RLX_DTYPE_I64, -1e30) == INT64_MIN);
    assert_true((uint64_t)cast_float_to(RLX_DTYPE_U64, 1e30) == UINT64_MAX);
    assert_int_equal(cast_float_to(RLX_DTYPE_BOOL, 0.25), 1);
    assert_int_equal(cast_float_to(RLX_DTYPE_BOOL, -0.0), 0);
    assert_int_equal(cast_float_to(RLX_DTYPE_BOOL, (double)NAN), 1);

    int64_t wide = 0x1234567890, narrow = 0;
    cast_one(RLX_DTYPE_I64, &wide, RLX_DTYPE_I16, &narrow);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_I16, &narrow, 0), 0x7890);
    wide = -1;
    cast_one(RLX_DTYPE_I64, &wide, RLX_DTYPE_U32, &narrow);
    assert_true(rlx_load_i64(RLX_DTYPE_U32, &narrow, 0) == UINT32_MAX);
    wide = 256;
    cast_one(RLX_DTYPE_I64, &wide, RLX_DTYPE_BOOL, &narrow);
    assert_int_equal(rlx_load_i64(RLX_DTYPE_BOOL, &narrow, 0), 1);

    /* Ties of the target that one step in between would lose. */
    double tie = 1.0 + 0x1p-11 + 0x1p-40;
    cast_one(RLX_DTYPE_F64, &tie, RLX_DTYPE_F16, &narrow);
    assert_true(rlx_load_f64(RLX_DTYPE_F16, &narrow, 0) == 1.0 + 0x1p-10);
    wide = (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1;
    cast_one(RLX_DTYPE_I64, &wide, RLX_DTYPE_BF16, &narrow);
    assert_true(rlx_load_f64(RLX_DTYPE_BF16, &narrow, 0) == 0x1p60 + 0x1p53);
    wide = (INT64_C(1) << 24) + 1;
    cast_one(RLX_DTYPE_I64, &wide, RLX_DTYPE_F32, &narrow);
    assert_true(rlx_load_f64(RLX_DTYPE_F32, &narrow, 0) == 0x1p24);
}

static void pow_takes_an_exponent_of_another_dtype(void **state) {
    (void)state;
    float x = 1.5f, y = 0.5f, d = 0;
    int64_t n = 3, e = 0;
    rlx_tensor in[2] = {{.data = &x, .dtype = RLX_DTYPE_F32}, {.data = &n, .dtype = RLX_DTYPE_I64}};
    rlx_tensor out = {.data = &d, .dtype = RLX_DTYPE_F32};
    (void)elementwise_run(RLX_OP_POW, NULL, in, 2, &out);
    assert_float_equal(d, 3.375f, 0);
    n = 10;
    rlx_tensor roots[2] = {{.data = &n, .dtype = RLX_DTYPE_I64},
                           {.data = &y, .dtype = RLX_DTYPE_F32}};
    rlx_tensor whole = {.data = &e, .dtype = RLX_DTYPE_I64};
    (void)elementwise_run(RLX_OP_POW, NULL, roots, 2, &whole);
    assert_int_equal(e, 3);
}

static void clip_of_integers_rounds_its_bounds_inwards(void **state) {
    (void)state;
    int8_t x[5] = {-128, -3, 0, 4, 127}, d[5];
    rlx_unary_attrs attrs = {-2.5, 1000};
    rlx_tensor in = {.data = x, .dtype = RLX_DTYPE_I8, .rank = 1, .dims = {5}, .strides = {1}};
    rlx_tensor out = {.data = d, .dtype = RLX_DTYPE_I8, .rank = 1, .dims = {5}, .strides = {1}};
    (void)elementwise_run(RLX_OP_CLIP, &attrs, &in, 1, &out);
    assert_memory_equal(d, ((const int8_t[5]){-2, -2, 0, 4, 127}), 5);
}

/* q8_0 [2][64] seen as [3][2][64]: rows repeat, and the result is strided. */
static void blocks_are_cast_to_floats_and_back(void **state) {
    (void)state;
    static const int64_t dims[] = {3, 2, 512};
    static const rlx_dtype kinds[] = {RLX_DTYPE_Q8_0, RLX_DTYPE_Q4_0, RLX_DTYPE_Q4_K,
                                      RLX_DTYPE_Q6_K};
    rlx_test_random random = rlx_test_seed(9);
    for (size_t k = 0; k < 4; k++) {
        static float values[1024], decoded[1024];
        rlx_tensor blocks = elementwise_plain(kinds[k], 2, dims + 1);
        rlx_tensor again = elementwise_plain(kinds[k], 2, dims + 1);
        rlx_tensor out = elementwise_odd(&random, RLX_DTYPE_F64, 3, dims);
        rlx_cast_attrs to_f64 = {RLX_DTYPE_F64}, to_blocks = {kinds[k]};
        uint64_t bytes = 0;
        assert_ok(rlx_dtype_bytes(kinds[k], 1024, &bytes));
        rlx_test_fill_f32(&random, values, 1024, -2, 2);
        assert_ok(rlx_convert_from_f32(kinds[k], blocks.data, values, 1024));
        assert_ok(rlx_convert_to_f32(kinds[k], decoded, blocks.data, 1024));
        (void)elementwise_run(RLX_OP_CAST, &to_f64, &blocks, 1, &out);
        for (int64_t i = 0; i < 3 * 1024; i++) {
            double actual = rlx_load_f64(RLX_DTYPE_F64, out.data, elementwise_index(&out, &out, i));
            assert_true(actual == (double)decoded[i % 1024]);
        }
        rlx_tensor plain = {.data = values,
                            .dtype = RLX_DTYPE_F32,
                            .rank = 2,
                            .dims = {2, 512},
                            .strides = {512, 1}};
        (void)elementwise_run(RLX_OP_CAST, &to_blocks, &plain, 1, &again);
        assert_memory_equal(again.data, blocks.data, bytes);
        memset(again.data, 0, bytes);
        (void)elementwise_run(RLX_OP_IDENTITY, NULL, &blocks, 1, &again);
        assert_memory_equal(again.data, blocks.data, bytes);
        elementwise_free(&blocks);
        elementwise_free(&again);
        elementwise_free(&out);
    }
}

static void identity_moves_bits_of_every_dtype(void **state) {
    (void)state;
    static const int64_t dims[] = {3, 5, 61};
    rlx_test_random random = rlx_test_seed(12);
    for (int dtype = 0; dtype <= RLX_DTYPE_U4; dtype++) {
        rlx_tensor in = elementwise_odd(&random, (rlx_dtype)dtype, 3, dims);
        rlx_tensor out = elementwise_odd(&random, (rlx_dtype)dtype, 3, dims);
        elementwise_fill(&random, &in);
        (void)elementwise_run(RLX_OP_IDENTITY, NULL, &in, 1, &out);
        elementwise_assert_equal(&in, &out, "identity");
        (void)elementwise_run(RLX_OP_IDENTITY, NULL, &out, 1, &out);
        elementwise_assert_equal(&in, &out, "identity in place");
        elementwise_free(&in);
        elementwise_free(&out);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_elementwise_op_has_a_kernel),
        cmocka_unit_test(lengths_around_tiles_and_items_are_right),
        cmocka_unit_test(any_strides_and_broadcasts_give_what_plain_loops_give),
        cmocka_unit_test(an_output_may_be_an_input),
        cmocka_unit_test(a_view_may_run_backwards),
        cmocka_unit_test(any_split_into_items_gives_the_same_bits),
        cmocka_unit_test(integer_rules_hold),
        cmocka_unit_test(integer_division_by_zero_faults_and_gives_zero),
        cmocka_unit_test(float_rules_hold),
        cmocka_unit_test(activations_keep_their_digits_far_out),
        cmocka_unit_test(casts_truncate_saturate_and_wrap),
        cmocka_unit_test(pow_takes_an_exponent_of_another_dtype),
        cmocka_unit_test(clip_of_integers_rounds_its_bounds_inwards),
        cmocka_unit_test(blocks_are_cast_to_floats_and_back),
        cmocka_unit_test(identity_moves_bits_of_every_dtype),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
