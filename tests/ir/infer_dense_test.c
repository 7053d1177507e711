/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of matmul, conv, pools, reductions, norms, attention and rope: output types, extents,
 * and what each refuses with which facts. Rules are called on types made by hand. */
#include "ir/infer.h"
#include "support/support.h"

enum { MOST = 6 };

typedef struct call {
    rlx_type types[MOST];
    const rlx_type *in[MOST];
    rlx_type out[2];
    uint32_t in_count, out_count;
} call;

static rlx_type typed(rlx_dtype dtype, uint32_t rank, const int64_t *dims) {
    return rlx_type_make(dtype, dims, rank);
}
#define T(dtype, ...)                                                            \
    typed(RLX_DTYPE_##dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
          (const int64_t[]){__VA_ARGS__})
#define SCALAR(dtype) rlx_type_make(RLX_DTYPE_##dtype, NULL, 0)

/* The type with an extent on one axis. */
static rlx_type extended(rlx_type type, uint32_t axis, rlx_value_id extent) {
    type.extents[axis] = extent;
    return type;
}

static void give(call *c, rlx_type type) {
    c->types[c->in_count] = type;
    c->in[c->in_count] = &c->types[c->in_count];
    c->in_count++;
}

static void give_none(call *c) {
    c->in[c->in_count++] = NULL;
}

static rlx_status run_rule(call *c, rlx_op op, const void *attrs) {
    rlx_infer infer = {.op = op,
                       .attrs = attrs,
                       .in_count = c->in_count,
                       .out_count = c->out_count == 0 ? 1 : c->out_count,
                       .in = c->in,
                       .out = c->out};
    c->out[0] = c->out[1] = SCALAR(F32);
    return rlx_op_info_of(op)->infer(&infer);
}

static rlx_status rule1(rlx_op op, const void *attrs, rlx_type a, rlx_type *out) {
    call c = {0};
    give(&c, a);
    rlx_status status = run_rule(&c, op, attrs);
    if (out != NULL) *out = c.out[0];
    return status;
}

static rlx_status rule2(rlx_op op, const void *attrs, rlx_type a, rlx_type b, rlx_type *out) {
    call c = {0};
    give(&c, a);
    give(&c, b);
    rlx_status status = run_rule(&c, op, attrs);
    if (out != NULL) *out = c.out[0];
    return status;
}

static void assert_type(const rlx_type *actual, rlx_type expected) {
    char a[160], b[160];
    assert_string_equal(rlx_type_text(NULL, actual, a, sizeof a),
                        rlx_type_text(NULL, &expected, b, sizeof b));
    for (uint32_t i = 0; i < expected.shape.rank; i++)
        assert_int_equal(actual->extents[i], expected.extents[i]);
}

static void matmul_broadcasts_batches_and_drops_vectors(void **state) {
    rlx_matmul_attrs plain = {0}, both = {.transpose_a = true, .transpose_b = true};
    rlx_type out;
    (void)state;
    assert_ok(rule2(RLX_OP_MATMUL, &plain, T(F32, 2, 1, 3, 4), T(F32, 5, 4, 6), &out));
    assert_type(&out, T(F32, 2, 5, 3, 6));
    assert_ok(rule2(RLX_OP_MATMUL, &both, T(F32, 4, 3), T(F32, 6, 4), &out));
    assert_type(&out, T(F32, 3, 6));
    assert_ok(rule2(RLX_OP_MATMUL, &plain, T(F32, 4), T(F32, 4), &out));
    assert_type(&out, SCALAR(F32));
    assert_ok(rule2(RLX_OP_MATMUL, &plain, T(F32, 2, 3, 4), T(F32, 4), &out));
    assert_type(&out, T(F32, 2, 3));
    assert_status(RLX_INVALID_GRAPH,
                  rule2(RLX_OP_MATMUL, &plain, T(F32, 3, 4), T(F32, 5, 6), NULL));
    assert_error_has("a f32[3, 4] has k 4, b f32[5, 6] has k 5");
    assert_status(RLX_INVALID_GRAPH,
                  rule2(RLX_OP_MATMUL, &plain, T(F32, 2, 3, 4), T(F32, 3, 4, 6), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(RLX_OP_MATMUL, &plain, SCALAR(F32), T(F32, 1), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(RLX_OP_MATMUL, &both, T(F32, 4), T(F32, 4, 4), NULL));
}

static void matmul_knows_which_dtypes_go_together(void **state) {
    rlx_matmul_attrs plain = {0}, to_i32 = {.has_to = true, .to = RLX_DTYPE_I32};
    rlx_matmul_attrs rows = {.transpose_b = true}, scaled = {.alpha = 2};
    rlx_matmul_attrs active = {.activation = {RLX_OP_RELU, 0, 0}};
    rlx_matmul_attrs odd = {.activation = {RLX_OP_CONV, 0, 0}};
    rlx_type out;
    (void)state;
    assert_ok(rule2(RLX_OP_MATMUL, &to_i32, T(U8, 2, 3), T(I8, 3, 4), &out));
    assert_type(&out, T(I32, 2, 4));
    assert_ok(rule2(RLX_OP_MATMUL, &rows, T(F16, 2, 32), T(Q8_0, 4, 32), &out));
    assert_type(&out, T(F16, 2, 4));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &plain, T(U8, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &plain, T(F32, 2, 3), T(F64, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &plain, T(F64, 2, 3), T(F32, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &plain, T(I32, 2, 3), T(I64, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &plain, T(I4, 2, 2), T(I4, 2, 4), NULL));
    assert_status(RLX_UNSUPPORTED,
                  rule2(RLX_OP_MATMUL, &plain, T(BOOL, 2, 2), T(BOOL, 2, 4), NULL));
    assert_status(RLX_UNSUPPORTED,
                  rule2(RLX_OP_MATMUL, &plain, T(F32, 2, 32), T(Q8_0, 32, 32), NULL));
    assert_error_has("transpose_b");
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &scaled, T(I32, 2, 3), T(I32, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &active, T(I32, 2, 3), T(I32, 3, 4), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(RLX_OP_MATMUL, &odd, T(F32, 2, 3), T(F32, 3, 4), NULL));
}

static void matmul_checks_bias_and_residual(void **state) {
    rlx_matmul_attrs attrs = {0};
    static const int64_t good[][2] = {{1, 4}, {3, 1}, {1, 1}, {3, 4}};
    static const int64_t bad[][2] = {{1, 3}, {2, 4}, {4, 1}};
    (void)state;
    for (unsigned i = 0; i < 7; i++) {
        call c = {0};
        give(&c, T(F16, 3, 5));
        give(&c, T(F16, 5, 4));
        give(&c, typed(RLX_DTYPE_F32, 2, i < 4 ? good[i] : bad[i - 4]));
        assert_status(i < 4 ? RLX_OK : RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_MATMUL, &attrs));
    }
    assert_error_has("does not broadcast to f16[3, 4]");
    call c = {0};
    give(&c, T(F16, 3, 5));
    give(&c, T(F16, 5, 4));
    give_none(&c);
    give(&c, T(F32, 3, 4));
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_MATMUL, &attrs));
    assert_error_has("residual is f32, needs f16");
}

static void matmul_quantised_makes_numbers_or_bytes(void **state) {
    rlx_matmul_attrs plain = {0}, to_u8 = {.has_to = true, .to = RLX_DTYPE_U8, .zero = 255};
    rlx_matmul_attrs to_i8 = {.has_to = true, .to = RLX_DTYPE_I8, .zero = 128};
    rlx_matmul_attrs to_i32 = {.has_to = true, .to = RLX_DTYPE_I32}, scaled = {.alpha = 2};
    rlx_matmul_attrs gated = {.gated = true}, moved = {.zero = 1};
    const rlx_op op = RLX_OP_MATMUL_QUANTISED;
    rlx_type out;
    (void)state;
    assert_ok(rule2(op, &plain, T(U8, 2, 3), T(I8, 3, 4), &out));
    assert_int_equal(out.dtype, RLX_DTYPE_F32);
    assert_ok(rule2(op, &to_u8, T(I8, 2, 3), T(I8, 3, 4), &out));
    assert_int_equal(out.dtype, RLX_DTYPE_U8);
    assert_status(RLX_INVALID_GRAPH, rule2(op, &to_i8, T(I8, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(op, &moved, T(I8, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(op, &scaled, T(I8, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(op, &to_i32, T(I8, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_UNSUPPORTED, rule2(op, &plain, T(F32, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(op, &gated, T(I8, 2, 3), T(I8, 3, 4), NULL));
    assert_status(RLX_INVALID_GRAPH,
                  rule2(RLX_OP_MATMUL, &gated, T(F32, 2, 3), T(F32, 3, 4), NULL));
    assert_status(RLX_INVALID_GRAPH,
                  rule2(RLX_OP_MATMUL, &moved, T(F32, 2, 3), T(F32, 3, 4), NULL));
}

static void matmul_quantised_checks_what_is_added(void **state) {
    rlx_matmul_attrs to_u8 = {.has_to = true, .to = RLX_DTYPE_U8};
    const rlx_type added[] = {T(F32, 4), T(F32, 2, 4), T(F32, 2, 1), T(I32, 4)};
    const rlx_type odd[] = {T(U8, 4), T(U8, 2, 4), T(I32, 2, 1), T(F32, 4)};
    (void)state;
    for (uint32_t bad = 0; bad <= 4; bad++) {
        call c = {0};
        give(&c, T(U8, 2, 3));
        give(&c, T(U8, 3, 4));
        for (uint32_t i = 0; i < 4; i++)
            give(&c, i == bad ? odd[i] : added[i]);
        assert_status(bad == 4 ? RLX_OK : RLX_INVALID_GRAPH,
                      run_rule(&c, RLX_OP_MATMUL_QUANTISED, &to_u8));
    }
}

static void matmul_carries_extents(void **state) {
    rlx_matmul_attrs rows = {.transpose_b = true}, plain = {0};
    rlx_type a = extended(extended(T(F32, 2, 8, 4), 0, 7), 1, 5), out;
    (void)state;
    assert_ok(rule2(RLX_OP_MATMUL, &rows, a, extended(T(F32, 16, 4), 0, 9), &out));
    assert_type(&out, extended(extended(extended(T(F32, 2, 8, 16), 0, 7), 1, 5), 2, 9));
    assert_ok(rule2(RLX_OP_MATMUL, &plain, extended(T(F32, 3, 8), 1, 5),
                    extended(T(F32, 8, 2), 0, 5), &out));
    assert_type(&out, T(F32, 3, 2));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_MATMUL, &plain, extended(T(F32, 3, 8), 1, 5),
                                         extended(T(F32, 8, 2), 0, 6), NULL));
    assert_status(RLX_UNSUPPORTED,
                  rule2(RLX_OP_MATMUL, &plain, extended(T(F32, 3, 8), 1, 5), T(F32, 8, 2), NULL));
    call c = {0};
    give(&c, extended(T(F32, 8, 4), 0, 5));
    give(&c, T(F32, 4, 2));
    give_none(&c);
    give(&c, T(F32, 8, 2));
    assert_status(RLX_UNSUPPORTED, run_rule(&c, RLX_OP_MATMUL, &plain));
}

static void conv_counts_its_outputs(void **state) {
    rlx_conv_attrs attrs = {
        .strides = {2, {2, 3}}, .dilations = {2, {1, 2}}, .pads = {4, {1, 0, 2, 1}}, .groups = 2};
    rlx_type out;
    (void)state;
    assert_ok(rule2(RLX_OP_CONV, &attrs, T(F32, 1, 4, 9, 12), T(F32, 6, 2, 3, 3), &out));
    assert_type(&out, T(F32, 1, 6, 5, 3));
    attrs = (rlx_conv_attrs){.auto_pad = RLX_AUTO_PAD_SAME_UPPER, .strides = {1, {4}}};
    assert_ok(rule2(RLX_OP_CONV, &attrs, T(F32, 1, 4, 9), T(F32, 6, 4, 3), &out));
    assert_type(&out, T(F32, 1, 6, 3));
    attrs = (rlx_conv_attrs){.strides = {1, {3}}, .output_padding = {1, {2}}, .groups = 2};
    assert_ok(rule2(RLX_OP_CONV_TRANSPOSE, &attrs, T(F32, 1, 4, 5), T(F32, 4, 3, 2), &out));
    assert_type(&out, T(F32, 1, 6, 16));
}

static void conv_refuses(const char *fact, rlx_conv_attrs attrs, rlx_op op, rlx_type x,
                         rlx_type w) {
    rlx_status status = rule2(op, &attrs, x, w, NULL);
    assert_true(status == RLX_INVALID_GRAPH || status == RLX_UNSUPPORTED ||
                status == RLX_OUT_OF_BOUNDS);
    assert_error_has(fact);
}

static void conv_refuses_what_does_not_fit(void **state) {
    rlx_type x = T(F32, 1, 4, 9, 9), w = T(F32, 6, 4, 3, 3);
    rlx_conv_attrs none = {0};
    (void)state;
    conv_refuses("strides has 1 items, needs 2", (rlx_conv_attrs){.strides = {1, {1}}}, RLX_OP_CONV,
                 x, w);
    conv_refuses("strides[1] is -1", (rlx_conv_attrs){.strides = {2, {1, -1}}}, RLX_OP_CONV, x, w);
    conv_refuses("dilations[0] is 4611686018427387904",
                 (rlx_conv_attrs){.dilations = {2, {INT64_C(1) << 62, 1}}}, RLX_OP_CONV, x, w);
    conv_refuses("pads[2] is -1", (rlx_conv_attrs){.pads = {4, {0, 0, -1, 0}}}, RLX_OP_CONV, x, w);
    conv_refuses("pads has 2 items, needs 4", (rlx_conv_attrs){.pads = {2, {0, 0}}}, RLX_OP_CONV, x,
                 w);
    conv_refuses("4 channels in -2 groups", (rlx_conv_attrs){.groups = -2}, RLX_OP_CONV, x, w);
    conv_refuses("4 channels in 3 groups", (rlx_conv_attrs){.groups = 3}, RLX_OP_CONV, x, w);
    conv_refuses("w takes 4 per group", (rlx_conv_attrs){.groups = 2}, RLX_OP_CONV, x, w);
    conv_refuses("-2 merged groups", (rlx_conv_attrs){.merged = -2}, RLX_OP_CONV, x, w);
    conv_refuses("4 merged groups", (rlx_conv_attrs){.merged = 4}, RLX_OP_CONV, x, w); /* of 6 */
    conv_refuses("3 merged groups", (rlx_conv_attrs){.merged = 3}, RLX_OP_CONV, x, w); /* of 4 */
    conv_refuses("2 merged groups", (rlx_conv_attrs){.merged = 2}, RLX_OP_CONV_TRANSPOSE, x,
                 T(F32, 4, 6, 3, 3));
    conv_refuses("auto_pad is 9", (rlx_conv_attrs){.auto_pad = (rlx_auto_pad)9}, RLX_OP_CONV, x, w);
    conv_refuses("spans 21 does not fit an input of 9", (rlx_conv_attrs){.dilations = {2, {10, 1}}},
                 RLX_OP_CONV, x, w);
    conv_refuses("rank 2", none, RLX_OP_CONV, T(F32, 3, 4), T(F32, 3, 4));
    conv_refuses("rank 6", none, RLX_OP_CONV, T(F32, 1, 1, 1, 1, 1, 1), T(F32, 1, 1, 1, 1, 1, 1));
    conv_refuses("x is i32", none, RLX_OP_CONV, T(I32, 1, 4, 9, 9), w);
    conv_refuses("the kernel is 0 wide", none, RLX_OP_CONV, x, T(F32, 6, 4, 0, 3));
    conv_refuses("no output_padding", (rlx_conv_attrs){.output_padding = {2, {1, 1}}}, RLX_OP_CONV,
                 x, w);
    conv_refuses("known only at run time", none, RLX_OP_CONV, extended(x, 0, 3), w);
    conv_refuses("w takes 6", none, RLX_OP_CONV_TRANSPOSE, x, w);
    conv_refuses("output_padding[0] is 2",
                 (rlx_conv_attrs){.output_padding = {2, {2, 0}}, .strides = {2, {2, 2}}},
                 RLX_OP_CONV_TRANSPOSE, x, T(F32, 4, 6, 3, 3));
    conv_refuses("leave nothing", (rlx_conv_attrs){.pads = {4, {9, 0, 9, 0}}},
                 RLX_OP_CONV_TRANSPOSE, x, T(F32, 4, 6, 3, 3));
}

static void conv_checks_bias_and_residual(void **state) {
    rlx_conv_attrs attrs = {0};
    call c = {0};
    (void)state;
    give(&c, T(F32, 1, 4, 9));
    give(&c, T(F32, 6, 4, 3));
    give(&c, T(F32, 5));
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_CONV, &attrs));
    assert_error_has("bias is f32[5], needs [6]");
    c.in_count = 2;
    give_none(&c);
    give(&c, T(F32, 1, 6, 1));
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_CONV, &attrs));
    assert_error_has("residual is f32[1, 6, 1], needs f32[1, 6, 7]");
}

static void pools_count_outputs_and_refuse_odd_kernels(void **state) {
    rlx_pool_attrs attrs = {.kernel = {2, {3, 3}}, .strides = {2, {2, 2}}, .ceil_mode = true};
    rlx_type x = T(F32, 1, 2, 8, 9), out;
    call c = {.out_count = 2};
    (void)state;
    give(&c, x);
    assert_ok(run_rule(&c, RLX_OP_MAX_POOL, &attrs));
    assert_type(&c.out[0], T(F32, 1, 2, 4, 4));
    assert_type(&c.out[1], T(I64, 1, 2, 4, 4));
    assert_ok(rule1(RLX_OP_MAX_POOL, &attrs, T(U8, 1, 2, 8, 9), &out));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_AVERAGE_POOL, &attrs, T(U8, 1, 2, 8, 9), NULL));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_MAX_POOL, &attrs, T(I4, 1, 2, 8, 9), NULL));
    attrs.kernel = (rlx_ints){1, {3}};
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_MAX_POOL, &attrs, x, NULL));
    assert_error_has("kernel has 1 items, needs 2");
    attrs.kernel = (rlx_ints){2, {0, 3}};
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_MAX_POOL, &attrs, x, NULL));
    attrs = (rlx_pool_attrs){.kernel = {2, {INT32_MAX, INT32_MAX}},
                             .auto_pad = RLX_AUTO_PAD_SAME_LOWER};
    assert_status(RLX_OUT_OF_BOUNDS, rule1(RLX_OP_AVERAGE_POOL, &attrs, x, NULL));
    assert_error_has("2^31 taps");
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_MAX_POOL, &attrs, T(F32, 2, 3), NULL));
}

static void reductions_drop_or_keep_axes_with_their_extents(void **state) {
    rlx_reduce_attrs attrs = {.axes = {2, {0, -1}}};
    rlx_type x = extended(T(F32, 2, 3, 4), 1, 5), out;
    (void)state;
    assert_ok(rule1(RLX_OP_REDUCE_SUM, &attrs, x, &out));
    assert_type(&out, extended(T(F32, 3), 0, 5));
    attrs.keep_dims = true;
    assert_ok(rule1(RLX_OP_REDUCE_SUM, &attrs, extended(x, 2, 6), &out));
    assert_type(&out, extended(T(F32, 1, 3, 1), 1, 5));
    attrs.axes.count = 0;
    assert_ok(rule1(RLX_OP_REDUCE_MAX, &attrs, T(BOOL, 2, 3), &out));
    assert_type(&out, T(BOOL, 1, 1));
    attrs.axes = (rlx_ints){2, {1, -2}};
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_REDUCE_SUM, &attrs, x, NULL));
    assert_error_has("axis 1 is named twice");
    attrs.axes = (rlx_ints){1, {3}};
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_REDUCE_SUM, &attrs, x, NULL));
    attrs.axes = (rlx_ints){0};
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_REDUCE_L2, &attrs, T(I32, 2), NULL));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_REDUCE_SUM, &attrs, T(BOOL, 2), NULL));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_REDUCE_SUM, &attrs, T(I4, 2), NULL));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_REDUCE_SUM, &attrs, T(Q8_0, 32), NULL));
}

static void ops_along_an_axis_check_it(void **state) {
    rlx_arg_attrs arg = {.axis = -1, .keep_dims = true};
    rlx_top_k_attrs top = {.k = 2, .axis = 1};
    rlx_cumsum_attrs sum = {.axis = 1};
    rlx_axis_attrs axis = {.axis = 2};
    rlx_type x = extended(T(F16, 2, 3), 0, 4), out;
    (void)state;
    assert_ok(rule1(RLX_OP_ARG_MAX, &arg, x, &out));
    assert_type(&out, extended(T(I64, 2, 1), 0, 4));
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_ARG_MAX, &arg, T(F32, 2, 0), NULL));
    assert_ok(rule1(RLX_OP_TOP_K, &top, x, &out));
    assert_type(&out, extended(T(F16, 2, 2), 0, 4));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_TOP_K, &top, extended(x, 1, 5), NULL));
    top.k = 4;
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_TOP_K, &top, x, NULL));
    assert_error_has("k is 4, axis 1 has 3 elements");
    top.k = -1;
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_TOP_K, &top, x, NULL));
    assert_ok(rule1(RLX_OP_CUMSUM, &sum, extended(x, 1, 5), &out));
    assert_type(&out, extended(extended(T(F16, 2, 3), 0, 4), 1, 5));
    assert_status(RLX_UNSUPPORTED, rule1(RLX_OP_CUMSUM, &sum, T(BOOL, 2, 3), NULL));
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_SOFTMAX, &axis, x, NULL));
    assert_error_has("axis 2 is outside a rank of 2");
    axis.axis = -1;
    assert_ok(rule1(RLX_OP_SOFTMAX, &axis, extended(x, 1, 5), &out));
    assert_type(&out, extended(extended(T(F16, 2, 3), 0, 4), 1, 5));
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_SOFTMAX, &axis, T(I32, 2), NULL));
}

static void norms_check_their_parameters(void **state) {
    rlx_norm_attrs attrs = {.axis = -1, .epsilon = 1e-5};
    rlx_type x = extended(T(F16, 2, 3, 8), 1, 4);
    call c = {.out_count = 2};
    (void)state;
    give(&c, x);
    give(&c, T(F32, 8));
    give_none(&c);
    give(&c, x);
    assert_ok(run_rule(&c, RLX_OP_RMS_NORM, &attrs));
    assert_type(&c.out[0], x);
    assert_type(&c.out[1], x);
    c.types[3] = T(F16, 2, 3, 8);
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_RMS_NORM, &attrs));
    c.in_count = 1;
    give(&c, T(F32, 3, 8));
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_LAYER_NORM, &attrs));
    assert_error_has("scale f32[3, 8] does not broadcast to f16[8]");
    c.types[1] = T(I32, 8);
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_LAYER_NORM, &attrs));
    attrs.epsilon = -1;
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_LAYER_NORM, &attrs, x, NULL));
    assert_error_has("epsilon is -1");
    attrs = (rlx_norm_attrs){.axis = 3};
    assert_status(RLX_INVALID_GRAPH, rule1(RLX_OP_LAYER_NORM, &attrs, x, NULL));
}

static void channel_norms_check_channels_and_groups(void **state) {
    rlx_norm_attrs attrs = {.groups = 3};
    call c = {0};
    (void)state;
    give(&c, T(F32, 2, 6, 5));
    give(&c, T(F32, 6));
    give(&c, T(F32, 6));
    assert_ok(run_rule(&c, RLX_OP_GROUP_NORM, &attrs));
    c.types[0].extents[2] = 7;
    assert_ok(run_rule(&c, RLX_OP_INSTANCE_NORM, &attrs));
    assert_type(&c.out[0], extended(T(F32, 2, 6, 5), 2, 7));
    c.types[0].extents[1] = 7;
    assert_status(RLX_UNSUPPORTED, run_rule(&c, RLX_OP_INSTANCE_NORM, &attrs));
    c.types[0].extents[1] = RLX_NONE;
    attrs.groups = 4;
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_GROUP_NORM, &attrs));
    assert_error_has("6 channels in 4 groups");
    attrs.groups = -3;
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_GROUP_NORM, &attrs));
    c.types[2] = T(F32, 5);
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_INSTANCE_NORM, &attrs));
    assert_error_has("bias is f32[5], needs [6]");
    c.types[0] = T(F32, 6);
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_INSTANCE_NORM, &attrs));
}

static rlx_status attend(rlx_attention_attrs attrs, rlx_type q, rlx_type k, rlx_type v,
                         const rlx_type *mask, rlx_type *out) {
    call c = {0};
    give(&c, q);
    give(&c, k);
    give(&c, v);
    if (mask != NULL) give(&c, *mask);
    rlx_status status = run_rule(&c, RLX_OP_ATTENTION, &attrs);
    if (out != NULL) *out = c.out[0];
    return status;
}

static void attention_takes_the_length_of_its_keys(void **state) {
    rlx_attention_attrs attrs = {.causal = true, .window = 3};
    rlx_type q = extended(T(F32, 1, 4, 8, 6), 2, 9), k = extended(T(F16, 1, 2, 64, 6), 2, 5);
    rlx_type v = extended(T(F16, 1, 2, 64, 7), 2, 5), out;
    rlx_type mask = T(F32, 8, 64), long_mask = T(F32, 1, 1, 1, 64), odd = T(F32, 63);
    (void)state;
    assert_ok(attend(attrs, q, k, v, &mask, &out));
    assert_type(&out, extended(T(F32, 1, 4, 8, 7), 2, 9));
    assert_ok(attend(attrs, q, k, v, &long_mask, &out));
    assert_status(RLX_INVALID_GRAPH, attend(attrs, q, k, v, &odd, NULL));
    assert_error_has("mask f32[63] does not broadcast to [1, 4, 8, 64]");
    mask.extents[1] = 6;
    assert_status(RLX_UNSUPPORTED, attend(attrs, q, k, v, &mask, NULL));
    v.extents[2] = 6; /* a cache of its own */
    assert_ok(attend(attrs, q, k, v, NULL, &out));
}

static void attention_refuses_what_does_not_fit(void **state) {
    rlx_attention_attrs attrs = {0};
    rlx_type q = T(F32, 1, 4, 8, 6), k = T(F32, 1, 2, 9, 6), v = T(F32, 1, 2, 9, 6);
    (void)state;
    assert_ok(attend(attrs, q, k, v, NULL, NULL));
    assert_status(RLX_INVALID_GRAPH,
                  attend(attrs, q, T(F32, 1, 3, 9, 6), T(F32, 1, 3, 9, 6), NULL, NULL));
    assert_status(RLX_INVALID_GRAPH, attend(attrs, q, T(F32, 1, 2, 9, 5), v, NULL, NULL));
    assert_status(RLX_INVALID_GRAPH, attend(attrs, q, k, T(F32, 1, 2, 8, 6), NULL, NULL));
    assert_status(RLX_INVALID_GRAPH, attend(attrs, T(F32, 4, 8, 6), k, v, NULL, NULL));
    assert_status(RLX_INVALID_GRAPH, attend(attrs, q, T(I32, 1, 2, 9, 6), v, NULL, NULL));
    assert_status(RLX_UNSUPPORTED, attend(attrs, q, T(F64, 1, 2, 9, 6), v, NULL, NULL));
    assert_status(RLX_UNSUPPORTED, attend(attrs, extended(q, 1, 3), k, v, NULL, NULL));
    attrs.window = 4;
    assert_status(RLX_UNSUPPORTED, attend(attrs, q, k, v, NULL, NULL));
    attrs.window = -4;
    assert_status(RLX_INVALID_GRAPH, attend(attrs, q, k, v, NULL, NULL));
}

static void rope_checks_positions_and_the_turned_part(void **state) {
    rlx_rope_attrs attrs = {0};
    rlx_type x = extended(T(F32, 2, 4, 8, 6), 2, 9), out;
    (void)state;
    assert_ok(rule2(RLX_OP_ROPE, &attrs, x, extended(T(I64, 8), 0, 9), &out));
    assert_type(&out, x);
    assert_ok(rule2(RLX_OP_ROPE, &attrs, x, extended(T(I64, 2, 8), 1, 9), &out));
    assert_status(RLX_UNSUPPORTED, rule2(RLX_OP_ROPE, &attrs, x, T(I64, 8), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(RLX_OP_ROPE, &attrs, x, T(I32, 8), NULL));
    assert_status(RLX_INVALID_GRAPH, rule2(RLX_OP_ROPE, &attrs, x, T(I64, 7), NULL));
    assert_error_has("needs i64[8] or i64[2, 8]");
    static const int64_t bad[] = {3, 8, -2};
    for (unsigned i = 0; i < 3; i++) {
        attrs.rotary_dim = bad[i];
        assert_status(RLX_INVALID_GRAPH,
                      rule2(RLX_OP_ROPE, &attrs, x, extended(T(I64, 8), 0, 9), NULL));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_broadcasts_batches_and_drops_vectors),
        cmocka_unit_test(matmul_knows_which_dtypes_go_together),
        cmocka_unit_test(matmul_checks_bias_and_residual),
        cmocka_unit_test(matmul_quantised_makes_numbers_or_bytes),
        cmocka_unit_test(matmul_quantised_checks_what_is_added),
        cmocka_unit_test(matmul_carries_extents),
        cmocka_unit_test(conv_counts_its_outputs),
        cmocka_unit_test(conv_refuses_what_does_not_fit),
        cmocka_unit_test(conv_checks_bias_and_residual),
        cmocka_unit_test(pools_count_outputs_and_refuse_odd_kernels),
        cmocka_unit_test(reductions_drop_or_keep_axes_with_their_extents),
        cmocka_unit_test(ops_along_an_axis_check_it),
        cmocka_unit_test(norms_check_their_parameters),
        cmocka_unit_test(channel_norms_check_channels_and_groups),
        cmocka_unit_test(attention_takes_the_length_of_its_keys),
        cmocka_unit_test(attention_refuses_what_does_not_fit),
        cmocka_unit_test(rope_checks_positions_and_the_turned_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
