/* SPDX-License-Identifier: Apache-2.0 */
/* The shape rule of rnn, gru and lstm: output types, extents, and what it refuses with which facts.
 */
#include "ir/infer.h"
#include "support/support.h"

enum { MOST_IN = 8, MOST_OUT = 3 };

typedef struct call {
    rlx_type types[MOST_IN];
    const rlx_type *in[MOST_IN];
    rlx_type out[MOST_OUT];
} call;

static rlx_type typed(rlx_dtype dtype, uint32_t rank, const int64_t *dims) {
    return rlx_type_make(dtype, dims, rank);
}
#define T(dtype, ...)                                                            \
    typed(RLX_DTYPE_##dtype, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
          (const int64_t[]){__VA_ARGS__})

static void give(call *c, uint32_t input, rlx_type type) {
    c->types[input] = type;
    c->in[input] = &c->types[input];
}

static rlx_status run_rule(call *c, rlx_op op, const rlx_recurrent_attrs *attrs) {
    rlx_infer infer = {.op = op,
                       .attrs = attrs,
                       .in_count = op == RLX_OP_LSTM ? 8 : 6,
                       .out_count = op == RLX_OP_LSTM ? 3 : 2,
                       .in = c->in,
                       .out = c->out};
    for (int i = 0; i < MOST_OUT; i++)
        c->out[i] = rlx_type_make(RLX_DTYPE_F32, NULL, 0);
    return rlx_op_info_of(op)->infer(&infer);
}

static void assert_shape(const rlx_type *type, rlx_type expected) {
    assert_int_equal(expected.dtype, type->dtype);
    assert_true(rlx_shape_equal(&expected.shape, &type->shape));
}

/* A bidirectional lstm with everything: 7 steps, batch 3, 5 inputs, 4 hidden. */
static void give_lstm(call *c) {
    give(c, 0, T(F32, 7, 3, 5));
    give(c, 1, T(F16, 2, 16, 5));
    give(c, 2, T(F32, 2, 16, 4));
    give(c, 3, T(F32, 2, 32));
    give(c, 4, T(I32, 3));
    give(c, 5, T(F32, 2, 3, 4));
    give(c, 6, T(F32, 2, 3, 4));
    give(c, 7, T(F32, 2, 12));
}

static const rlx_recurrent_attrs both = {.direction = RLX_DIRECTION_BIDIRECTIONAL};

static void layers_give_all_steps_and_the_last_states(void **state) {
    call c = {0};
    (void)state;
    give_lstm(&c);
    c.types[0].extents[0] = 9;
    assert_ok(run_rule(&c, RLX_OP_LSTM, &both));
    assert_shape(&c.out[0], T(F32, 7, 2, 3, 4));
    assert_int_equal(9, c.out[0].extents[0]);
    assert_shape(&c.out[1], T(F32, 2, 3, 4));
    assert_shape(&c.out[2], T(F32, 2, 3, 4));
    assert_int_equal(RLX_NONE, c.out[1].extents[0]);
}

static void batch_first_moves_the_batch(void **state) {
    rlx_recurrent_attrs attrs = {.batch_first = true};
    call c = {0};
    (void)state;
    give(&c, 0, T(F16, 3, 7, 5));
    give(&c, 1, T(F16, 1, 12, 5));
    give(&c, 2, T(F16, 1, 12, 4));
    give(&c, 5, T(F16, 3, 1, 4));
    assert_ok(run_rule(&c, RLX_OP_GRU, &attrs));
    assert_shape(&c.out[0], T(F16, 3, 7, 1, 4));
    assert_shape(&c.out[1], T(F16, 3, 1, 4));
    c.types[0].extents[0] = 2; /* the batch */
    assert_status(RLX_UNSUPPORTED, run_rule(&c, RLX_OP_GRU, &attrs));
}

static void what_does_not_fit_is_named(void **state) {
    static const struct {
        uint32_t input;
        rlx_dtype dtype;
        uint32_t rank;
        int64_t dims[3];
        const char *fact;
    } wrong[] = {
        {0, RLX_DTYPE_F32, 2, {7, 3}, "x has rank 2, needs [S, B, I]"},
        {0, RLX_DTYPE_I32, 3, {7, 3, 5}, "x"},
        {1, RLX_DTYPE_F32, 3, {2, 16, 6}, "w is f32[2, 16, 6], needs f32[2, 16, 5]"},
        {1, RLX_DTYPE_F32, 3, {1, 16, 5}, "w is f32[1, 16, 5]"},
        {2, RLX_DTYPE_F32, 3, {2, 16, 5}, "r is f32[2, 16, 5], needs [2, 4 H, H]"},
        {2, RLX_DTYPE_F32, 2, {16, 4}, "r is f32[16, 4]"},
        {3, RLX_DTYPE_F32, 2, {2, 16}, "b is f32[2, 16], needs [2, 2 x 16]"},
        {4, RLX_DTYPE_F32, 1, {3}, "lengths are f32"},
        {4, RLX_DTYPE_I64, 1, {4}, "lengths"},
        {5, RLX_DTYPE_F32, 3, {3, 2, 4}, "h is f32[3, 2, 4], needs f32[2, 3, 4]"},
        {6, RLX_DTYPE_F32, 3, {2, 3, 5}, "c is f32[2, 3, 5]"},
        {7, RLX_DTYPE_F32, 2, {2, 16}, "peepholes is f32[2, 16], needs [2, 3 x 4]"},
        {7, RLX_DTYPE_F64, 2, {2, 12}, "lstm of x f32 and peepholes f64"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        call c = {0};
        give_lstm(&c);
        c.types[wrong[i].input] = typed(wrong[i].dtype, wrong[i].rank, wrong[i].dims);
        assert_true(run_rule(&c, RLX_OP_LSTM, &both) != RLX_OK);
        assert_error_has(wrong[i].fact);
    }
}

static void numbers_are_checked(void **state) {
    rlx_recurrent_attrs attrs = both;
    call c = {0};
    (void)state;
    give_lstm(&c);
    attrs.clip = -1;
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_LSTM, &attrs));
    attrs.clip = 0;
    attrs.back_g.beta = 0.0 / 0.0;
    assert_status(RLX_INVALID_GRAPH, run_rule(&c, RLX_OP_LSTM, &attrs));
    assert_error_has("back_g");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_give_all_steps_and_the_last_states),
        cmocka_unit_test(batch_first_moves_the_batch),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(numbers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
