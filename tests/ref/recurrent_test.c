/* SPDX-License-Identifier: Apache-2.0 */
/* rnn, gru and lstm where the cases of tests/ops do not reach: strided memory, work in pieces,
 * outputs that nobody wants, empty layers, lengths that are none. Values: a loop of single steps.
 */
#include "ref/dense.h"

enum { STEPS = 4, BATCH = 3, INPUTS = 5, HIDDEN = 6 };

static const rlx_op OPS[] = {RLX_OP_RNN, RLX_OP_GRU, RLX_OP_LSTM};

static uint32_t input_count(rlx_op op) {
    return op == RLX_OP_LSTM ? 8 : 6;
}

static uint32_t output_count(rlx_op op) {
    return op == RLX_OP_LSTM ? 3 : 2;
}

static void make_layer(rlx_op op, int64_t directions, operand *in) {
    rlx_test_random random = rlx_test_seed(op);
    int64_t rows = (op == RLX_OP_LSTM ? 4 : op == RLX_OP_GRU ? 3 : 1) * HIDDEN;
    int64_t x[3] = {STEPS, BATCH, INPUTS}, w[3] = {directions, rows, INPUTS};
    int64_t r[3] = {directions, rows, HIDDEN}, b[2] = {directions, 2 * rows};
    int64_t h[3] = {directions, BATCH, HIDDEN}, p[2] = {directions, 3 * HIDDEN};
    in[0] = operand_random(&random, RLX_DTYPE_F32, 3, x, -2, 2);
    in[1] = operand_random(&random, RLX_DTYPE_F32, 3, w, -1, 1);
    in[2] = operand_random(&random, RLX_DTYPE_F32, 3, r, -1, 1);
    in[3] = operand_random(&random, RLX_DTYPE_F32, 2, b, -1, 1);
    in[4] = operand_absent();
    in[5] = operand_random(&random, RLX_DTYPE_F32, 3, h, -1, 1);
    in[6] = operand_random(&random, RLX_DTYPE_F32, 3, h, -1, 1);
    in[7] = operand_random(&random, RLX_DTYPE_F32, 2, p, -1, 1);
}

/* One step at a time, each from the states that the one before left. */
static void a_sequence_is_its_steps_one_after_the_other(void **state) {
    rlx_recurrent_attrs attrs = {0};
    (void)state;
    for (int i = 0; i < 3; i++) {
        operand in[8], whole[3], step[3];
        make_layer(OPS[i], 1, in);
        run_dense(OPS[i], &attrs, in, input_count(OPS[i]), whole, output_count(OPS[i]));
        operand one[8];
        memcpy(one, in, sizeof one);
        one[0].dims[0] = 1;
        one[0].count = BATCH * INPUTS;
        for (int64_t t = 0; t < STEPS; t++) {
            one[0].values = in[0].values + t * one[0].count;
            run_dense(OPS[i], &attrs, one, input_count(OPS[i]), step, output_count(OPS[i]));
            assert_near(whole[0].values + t * step[0].count, &step[0], 1e-6, 1e-5);
            if (t > 0) operand_free(&one[5]);
            if (t > 0 && OPS[i] == RLX_OP_LSTM) operand_free(&one[6]);
            one[5] = step[1];
            if (OPS[i] == RLX_OP_LSTM) one[6] = step[2];
            operand_free(&step[0]);
        }
        assert_near(whole[1].values, &one[5], 1e-6, 1e-5);
        operand_free(&one[5]);
        if (OPS[i] == RLX_OP_LSTM) operand_free(&one[6]);
        operands_free(in, 8);
        operands_free(whole, output_count(OPS[i]));
    }
}

static void outputs_without_interest_change_nothing(void **state) {
    rlx_recurrent_attrs attrs = {.direction = RLX_DIRECTION_BIDIRECTIONAL};
    static const bool wanted[3][3] = {
        {true, false, false}, {false, true, false}, {false, true, true}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        operand in[8], all[3], some[3];
        make_layer(OPS[i], 2, in);
        run_dense(OPS[i], &attrs, in, input_count(OPS[i]), all, output_count(OPS[i]));
        run_dense_wanted(OPS[i], &attrs, in, input_count(OPS[i]), some, output_count(OPS[i]),
                         wanted[i]);
        for (uint32_t o = 0; o < output_count(OPS[i]); o++) {
            if (wanted[i][o]) assert_near(all[o].values, &some[o], 0, 0);
        }
        operands_free(in, 8);
        operands_free(all, output_count(OPS[i]));
        operands_free(some, output_count(OPS[i]));
    }
}

static void empty_layers_do_nothing(void **state) {
    rlx_recurrent_attrs attrs = {0};
    /* steps, batch, inputs, hidden */
    static const int64_t sizes[][4] = {{0, 2, 3, 2}, {2, 0, 3, 2}, {2, 2, 0, 2}, {2, 2, 3, 0}};
    (void)state;
    for (int i = 0; i < 4; i++) {
        rlx_test_random random = rlx_test_seed(7);
        const int64_t *n = sizes[i];
        int64_t x[3] = {n[0], n[1], n[2]}, w[3] = {1, 4 * n[3], n[2]}, r[3] = {1, 4 * n[3], n[3]};
        operand out[3];
        operand in[3] = {operand_random(&random, RLX_DTYPE_F32, 3, x, -1, 1),
                         operand_random(&random, RLX_DTYPE_F32, 3, w, -1, 1),
                         operand_random(&random, RLX_DTYPE_F32, 3, r, -1, 1)};
        run_dense(RLX_OP_LSTM, &attrs, in, 3, out, 3);
        for (int64_t k = 0; i == 0 && k < out[1].count; k++)
            assert_true(out[1].values[k] == 0); /* the first state, which is absent */
        operands_free(in, 3);
        operands_free(out, 3);
    }
}

/* A length that is none is a fault; the kernel cuts it. */
static void lengths_outside_the_sequence_are_faults(void **state) {
    float x[2] = {1, 2}, w[1] = {1}, r[1] = {0}, y[2] = {7, 7}, h[1] = {7};
    int32_t lengths[1] = {3};
    float room[64];
    rlx_fault fault = {0};
    rlx_recurrent_attrs attrs = {.f = {.kind = RLX_GATE_RELU}};
    rlx_tensor in[5] = {{x, RLX_DTYPE_F32, 3, {2, 1, 1}, {1, 1, 1}, RLX_LAYOUT_PLAIN},
                        {w, RLX_DTYPE_F32, 3, {1, 1, 1}, {1, 1, 1}, RLX_LAYOUT_PLAIN},
                        {r, RLX_DTYPE_F32, 3, {1, 1, 1}, {1, 1, 1}, RLX_LAYOUT_PLAIN},
                        {0},
                        {lengths, RLX_DTYPE_I32, 1, {1}, {1}, RLX_LAYOUT_PLAIN}};
    rlx_tensor out[2] = {{y, RLX_DTYPE_F32, 4, {2, 1, 1, 1}, {1, 1, 1, 1}, RLX_LAYOUT_PLAIN},
                         {h, RLX_DTYPE_F32, 3, {1, 1, 1}, {1, 1, 1}, RLX_LAYOUT_PLAIN}};
    rlx_kernel_args args = {.op = RLX_OP_RNN,
                            .step = 5,
                            .attrs = &attrs,
                            .in = in,
                            .out = out,
                            .in_count = 5,
                            .out_count = 2,
                            .fault = &fault,
                            .workspace = room};
    const rlx_kernel *kernel = rlx_ref_kernel(RLX_OP_RNN);
    (void)state;
    assert_true(kernel->workspace_bytes(&args) <= sizeof room);
    kernel->run(&args, 0, 1);
    assert_int_equal(RLX_FAULT_BOUND, fault.code);
    assert_int_equal(3, fault.value);
    assert_true(y[0] == 1 && y[1] == 2 && h[0] == 2);
    lengths[0] = -1;
    fault = (rlx_fault){0};
    kernel->run(&args, 0, 1);
    assert_int_equal(-1, fault.value);
    assert_true(y[0] == 0 && y[1] == 0 && h[0] == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_is_its_steps_one_after_the_other),
        cmocka_unit_test(outputs_without_interest_change_nothing),
        cmocka_unit_test(empty_layers_do_nothing),
        cmocka_unit_test(lengths_outside_the_sequence_are_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
