/* SPDX-License-Identifier: Apache-2.0 */
/* Chains: random programs over every elementwise op and dtype give the bits of their ops one by
 * one; lengths up to the limit; results that are all alive at once. */
#include "ref/elementwise_support.h"

#include "ir/chain.h"

enum { INPUTS = 6, INSTRUCTIONS = 24 };

/* Inputs, then results: an operand of the code is its index, or -1 - (index - INPUTS). */
typedef struct chain_program {
    uint32_t count;
    int64_t words[RLX_CHAIN_MOST * RLX_CHAIN_WORDS];
    rlx_tensor values[INPUTS + INSTRUCTIONS];
} chain_program;

static int64_t operand_of(uint32_t value) {
    return value < INPUTS ? (int64_t)value : -1 - (int64_t)(value - INPUTS);
}

/* A random op on random values that the dtype rules allow. */
static void random_instruction(rlx_test_random *random, const chain_program *program,
                               rlx_chain_instruction *out, uint32_t *out_values,
                               uint32_t *out_count) {
    for (;;) {
        rlx_op op = (rlx_op)(1 + rlx_test_below(random, RLX_OP_CHAIN - 1));
        uint32_t count = rlx_op_info_of(op)->in_least;
        rlx_dtype operands[3], to = (rlx_dtype)rlx_test_below(random, RLX_DTYPE_Q8_0), result;
        rlx_chain_instruction instruction = {.op = op};
        for (uint32_t i = 0; i < 3; i++) {
            instruction.operands[i] = RLX_CHAIN_NONE;
            if (i >= count) continue;
            /* Often a recent value, so that results are used. */
            uint64_t all = INPUTS + program->count;
            uint64_t recent = all < 4 ? all : 4;
            out_values[i] = (uint32_t)(rlx_test_below(random, 2) == 0
                                           ? rlx_test_below(random, all)
                                           : all - 1 - rlx_test_below(random, recent));
            operands[i] = program->values[out_values[i]].dtype;
            instruction.operands[i] = operand_of(out_values[i]);
        }
        if (rlx_elementwise_dtype(op, operands, count, to, &result) != RLX_OK) continue;
        instruction.dtype = result;
        instruction.alpha = (double)rlx_test_uniform(random, -2, 2);
        instruction.beta = (double)rlx_test_uniform(random, -2, 2);
        *out = instruction;
        *out_count = count;
        return;
    }
}

static void add_instruction(rlx_test_random *random, chain_program *program, uint32_t rank,
                            const int64_t *dims) {
    rlx_chain_instruction instruction;
    uint32_t values[3] = {0, 0, 0}, count = 0;
    random_instruction(random, program, &instruction, values, &count);
    rlx_chain_encode(&instruction, program->words + (size_t)program->count * RLX_CHAIN_WORDS);
    rlx_tensor in[3], out = elementwise_plain(instruction.dtype, rank, dims);
    for (uint32_t i = 0; i < count; i++)
        in[i] = program->values[values[i]];
    rlx_unary_attrs unary = {instruction.alpha, instruction.beta};
    rlx_cast_attrs cast = {instruction.dtype};
    const void *attrs = instruction.op == RLX_OP_CAST ? (const void *)&cast : (const void *)&unary;
    (void)elementwise_run(instruction.op, attrs, in, count, &out);
    program->values[INPUTS + program->count++] = out;
}

/* Inputs of any plain dtype; the first has all dims, the others repeat here and there. */
static void add_inputs(rlx_test_random *random, chain_program *program, uint32_t rank,
                       const int64_t *dims) {
    for (uint32_t i = 0; i < INPUTS; i++) {
        int64_t own[RLX_MAX_RANK];
        rlx_dtype dtype = i < 2 ? RLX_DTYPE_F32 : (rlx_dtype)rlx_test_below(random, RLX_DTYPE_Q8_0);
        for (uint32_t k = 0; k < rank; k++)
            own[k] = i > 0 && rlx_test_below(random, 4) == 0 ? 1 : dims[k];
        program->values[i] = elementwise_odd(random, dtype, rank, own);
        elementwise_fill(random, &program->values[i]);
    }
}

static void a_chain_has_the_bits_of_its_ops_one_by_one(void **state) {
    (void)state;
    static chain_program program;
    rlx_test_random random = rlx_test_seed(21);
    for (int round = 0; round < 250; round++) {
        int64_t dims[3] = {1 + (int64_t)rlx_test_below(&random, 5),
                           1 + (int64_t)rlx_test_below(&random, 9),
                           1 + (int64_t)rlx_test_below(&random, 40)};
        uint32_t rank = (uint32_t)rlx_test_below(&random, 4),
                 length = 1 + (uint32_t)rlx_test_below(&random, INSTRUCTIONS);
        program.count = 0;
        add_inputs(&random, &program, rank, dims);
        while (program.count < length)
            add_instruction(&random, &program, rank, dims);
        rlx_chain_attrs attrs = {{length * RLX_CHAIN_WORDS, program.words}};
        assert_ok(rlx_chain_verify(attrs.code, INPUTS));
        const rlx_tensor *expected = &program.values[INPUTS + length - 1];
        rlx_tensor out = elementwise_odd(&random, expected->dtype, rank, dims);
        (void)elementwise_run(RLX_OP_CHAIN, &attrs, program.values, INPUTS, &out);
        elementwise_assert_equal(expected, &out, "chain");
        elementwise_free(&out);
        for (uint32_t i = 0; i < INPUTS + length; i++)
            elementwise_free(&program.values[i]);
    }
}

static void push(int64_t *words, uint32_t *count, rlx_op op, int64_t a, int64_t b) {
    rlx_chain_instruction instruction = {
        .op = op, .dtype = RLX_DTYPE_F64, .operands = {a, b, RLX_CHAIN_NONE}};
    rlx_chain_encode(&instruction, words + (size_t)(*count)++ * RLX_CHAIN_WORDS);
}

/* Half the instructions make x + 1, x + 2, ..; the other half adds them up from the first on. */
static void as_many_results_as_allowed_may_be_alive(void **state) {
    (void)state;
    enum { HALF = RLX_CHAIN_MOST / 2 };
    static int64_t words[RLX_CHAIN_MOST * RLX_CHAIN_WORDS];
    static const int64_t dims[] = {777}, one[] = {1};
    uint32_t count = 0;
    rlx_tensor in[HALF], out = elementwise_plain(RLX_DTYPE_F64, 1, dims);
    in[0] = elementwise_plain(RLX_DTYPE_F64, 1, dims);
    for (int64_t i = 0; i < 777; i++)
        ((double *)in[0].data)[i] = (double)i;
    for (int i = 1; i < HALF; i++) {
        in[i] = elementwise_plain(RLX_DTYPE_F64, 1, one);
        *(double *)in[i].data = (double)i;
        push(words, &count, RLX_OP_ADD, 0, i);
    }
    for (int i = 1; i < HALF; i++)
        push(words, &count, RLX_OP_ADD, i == 1 ? 0 : -(int64_t)count, -i);
    rlx_chain_attrs attrs = {{count * RLX_CHAIN_WORDS, words}};
    assert_ok(rlx_chain_verify(attrs.code, HALF));
    (void)elementwise_run(RLX_OP_CHAIN, &attrs, in, HALF, &out);
    for (int64_t i = 0; i < 777; i++)
        assert_true(((double *)out.data)[i] == (double)(HALF * i + HALF * (HALF - 1) / 2));
    for (int i = 0; i < HALF; i++)
        elementwise_free(&in[i]);
    elementwise_free(&out);
}

static void a_chain_may_write_over_its_input(void **state) {
    (void)state;
    static const int64_t dims[] = {5000};
    int64_t words[3 * RLX_CHAIN_WORDS];
    uint32_t count = 0;
    rlx_tensor x = elementwise_plain(RLX_DTYPE_F64, 1, dims);
    for (int64_t i = 0; i < 5000; i++)
        ((double *)x.data)[i] = (double)i;
    push(words, &count, RLX_OP_ADD, 0, 0);
    push(words, &count, RLX_OP_MUL, -1, 0);
    push(words, &count, RLX_OP_SUB, -2, 0);
    rlx_chain_attrs attrs = {{count * RLX_CHAIN_WORDS, words}};
    (void)elementwise_run(RLX_OP_CHAIN, &attrs, &x, 1, &x);
    for (int64_t i = 0; i < 5000; i++)
        assert_true(((double *)x.data)[i] == (double)(2 * i * i - i));
    elementwise_free(&x);
}

/* A q4_k weight is dequantised, scaled and rounded to f16 in one step. */
static void a_chain_reads_block_types(void **state) {
    (void)state;
    static const int64_t dims[] = {3, 256};
    static float values[768], decoded[768];
    rlx_test_random random = rlx_test_seed(6);
    rlx_tensor in[2] = {elementwise_plain(RLX_DTYPE_Q4_K, 2, dims),
                        elementwise_plain(RLX_DTYPE_F32, 0, NULL)};
    rlx_tensor out = elementwise_plain(RLX_DTYPE_F16, 2, dims);
    rlx_test_fill_f32(&random, values, 768, -1, 1);
    assert_ok(rlx_convert_from_f32(RLX_DTYPE_Q4_K, in[0].data, values, 768));
    assert_ok(rlx_convert_to_f32(RLX_DTYPE_Q4_K, decoded, in[0].data, 768));
    *(float *)in[1].data = 0.3f;
    rlx_chain_instruction code[] = {
        {.op = RLX_OP_CAST,
         .dtype = RLX_DTYPE_F32,
         .operands = {0, RLX_CHAIN_NONE, RLX_CHAIN_NONE}},
        {.op = RLX_OP_MUL, .dtype = RLX_DTYPE_F32, .operands = {-1, 1, RLX_CHAIN_NONE}},
        {.op = RLX_OP_CAST,
         .dtype = RLX_DTYPE_F16,
         .operands = {-2, RLX_CHAIN_NONE, RLX_CHAIN_NONE}}};
    int64_t words[3 * RLX_CHAIN_WORDS];
    for (int i = 0; i < 3; i++)
        rlx_chain_encode(&code[i], words + (size_t)i * RLX_CHAIN_WORDS);
    rlx_chain_attrs attrs = {{3 * RLX_CHAIN_WORDS, words}};
    assert_ok(rlx_chain_verify(attrs.code, 2));
    (void)elementwise_run(RLX_OP_CHAIN, &attrs, in, 2, &out);
    for (size_t i = 0; i < 768; i++)
        assert_int_equal(((uint16_t *)out.data)[i], rlx_f32_to_f16(decoded[i] * 0.3f));
    elementwise_free(&in[0]);
    elementwise_free(&in[1]);
    elementwise_free(&out);
}

static void a_fault_inside_a_chain_is_recorded(void **state) {
    (void)state;
    int64_t x = 5, zero = 0, d = 1;
    rlx_tensor in[2] = {{.data = &x, .dtype = RLX_DTYPE_I64},
                        {.data = &zero, .dtype = RLX_DTYPE_I64}};
    rlx_tensor out = {.data = &d, .dtype = RLX_DTYPE_I64};
    rlx_chain_instruction code[] = {
        {.op = RLX_OP_DIV, .dtype = RLX_DTYPE_I64, .operands = {0, 1, RLX_CHAIN_NONE}},
        {.op = RLX_OP_ADD, .dtype = RLX_DTYPE_I64, .operands = {-1, 0, RLX_CHAIN_NONE}}};
    int64_t words[2 * RLX_CHAIN_WORDS];
    rlx_chain_encode(&code[0], words);
    rlx_chain_encode(&code[1], words + RLX_CHAIN_WORDS);
    rlx_chain_attrs attrs = {{2 * RLX_CHAIN_WORDS, words}};
    assert_int_equal(elementwise_run(RLX_OP_CHAIN, &attrs, in, 2, &out), RLX_FAULT_DIVISION);
    assert_int_equal(d, 5);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_has_the_bits_of_its_ops_one_by_one),
        cmocka_unit_test(as_many_results_as_allowed_may_be_alive),
        cmocka_unit_test(a_chain_may_write_over_its_input),
        cmocka_unit_test(a_chain_reads_block_types),
        cmocka_unit_test(a_fault_inside_a_chain_is_recorded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
