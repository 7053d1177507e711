/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules of elementwise ops: which dtypes each takes, broadcasting, texts; and the checks of
 * chain code. */
#include "support/support.h"

#include "ir/chain.h"
#include "ir/dtype.h"
#include "ir/infer.h"

/* Applies the rule of `op` to types; the first output's type. */
static rlx_status infer(rlx_op op, const void *attrs, const rlx_type *types, uint32_t count,
                        rlx_type *out_type) {
    static const rlx_cast_attrs no_attrs = {RLX_DTYPE_F64};
    const rlx_type *in[8];
    for (uint32_t i = 0; i < count; i++)
        in[i] = &types[i];
    rlx_infer infer = {.op = op,
                       .attrs = attrs != NULL ? attrs : &no_attrs,
                       .in_count = count,
                       .out_count = 1,
                       .in = in,
                       .out = out_type};
    return rlx_op_info_of(op)->infer(&infer);
}

static rlx_type type_of(rlx_dtype dtype, uint32_t rank, int64_t a, int64_t b) {
    int64_t dims[2] = {a, b};
    return rlx_type_make(dtype, dims, rank);
}

/* The dtypes an op takes on all its inputs, as a string of f, i, u, b, q (first letters of the
 * classes). */
static void dtypes_are_taken_by_class(void **state) {
    (void)state;
    static const struct {
        rlx_op op;
        uint32_t count;
        const char *classes;
    } rows[] = {
        {RLX_OP_IDENTITY, 1, "fiubq"}, {RLX_OP_COPY, 1, "fiubq"},    {RLX_OP_CAST, 1, "fiubq"},
        {RLX_OP_NEG, 1, "fi"},         {RLX_OP_ABS, 1, "fiu"},       {RLX_OP_SQRT, 1, "f"},
        {RLX_OP_GELU, 1, "f"},         {RLX_OP_FLOOR, 1, "f"},       {RLX_OP_RELU, 1, "fiu"},
        {RLX_OP_CLIP, 1, "fiu"},       {RLX_OP_SIGN, 1, "fiu"},      {RLX_OP_NOT, 1, "b"},
        {RLX_OP_BIT_NOT, 1, "iu"},     {RLX_OP_IS_NAN, 1, "f"},      {RLX_OP_ADD, 2, "fiu"},
        {RLX_OP_MOD, 2, "fiu"},        {RLX_OP_POW, 2, "fiu"},       {RLX_OP_AND, 2, "b"},
        {RLX_OP_BIT_OR, 2, "iu"},      {RLX_OP_SHIFT_LEFT, 2, "iu"}, {RLX_OP_EQUAL, 2, "fiub"},
        {RLX_OP_LESS, 2, "fiub"},
    };
    static const char letters[] = "fiubq";
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        for (int d = 0; d < RLX_DTYPE_COUNT; d++) {
            rlx_type in[2] = {type_of((rlx_dtype)d, 1, 256, 0), type_of((rlx_dtype)d, 1, 256, 0)};
            rlx_type out;
            char letter = letters[rlx_dtype_row_of((rlx_dtype)d)->class_];
            bool is_taken = strchr(rows[k].classes, letter) != NULL;
            rlx_status status = infer(rows[k].op, NULL, in, rows[k].count, &out);
            if (status != (is_taken ? RLX_OK : RLX_INVALID_GRAPH))
                fail_msg("%s of %s", rlx_op_name(rows[k].op), rlx_dtype_name((rlx_dtype)d));
        }
    }
}

static void results_have_the_right_dtype_and_shape(void **state) {
    (void)state;
    rlx_type in[3] = {type_of(RLX_DTYPE_F16, 2, 4, 1), type_of(RLX_DTYPE_F16, 1, 5, 0)}, out;
    assert_ok(infer(RLX_OP_ADD, NULL, in, 2, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_F16);
    assert_int_equal(out.shape.rank, 2);
    assert_int_equal(out.shape.dims[0], 4);
    assert_int_equal(out.shape.dims[1], 5);
    assert_ok(infer(RLX_OP_LESS, NULL, in, 2, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_BOOL);
    assert_ok(infer(RLX_OP_IS_INF, NULL, in, 1, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_BOOL);
    in[1].dtype = RLX_DTYPE_I64;
    assert_ok(infer(RLX_OP_POW, NULL, in, 2, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_F16);
    rlx_cast_attrs to = {RLX_DTYPE_U8};
    assert_ok(infer(RLX_OP_CAST, &to, in, 1, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_U8);
    rlx_type select[3] = {type_of(RLX_DTYPE_BOOL, 1, 3, 0), type_of(RLX_DTYPE_I32, 0, 0, 0),
                          type_of(RLX_DTYPE_I32, 2, 2, 1)};
    assert_ok(infer(RLX_OP_WHERE, NULL, select, 3, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_I32);
    assert_int_equal(out.shape.dims[0], 2);
    assert_int_equal(out.shape.dims[1], 3);
}

static void extents_are_carried_along(void **state) {
    (void)state;
    rlx_type in[2] = {type_of(RLX_DTYPE_F32, 2, 8, 4), type_of(RLX_DTYPE_F32, 1, 4, 0)}, out;
    in[0].extents[0] = 7;
    assert_ok(infer(RLX_OP_MUL, NULL, in, 2, &out));
    assert_int_equal(out.extents[0], 7);
    assert_int_equal(out.extents[1], RLX_NONE);
}

static void texts_name_dtypes_and_shapes(void **state) {
    (void)state;
    rlx_type in[3] = {type_of(RLX_DTYPE_F32, 2, 2, 3), type_of(RLX_DTYPE_I64, 1, 3, 0)}, out;
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_ADD, NULL, in, 2, &out));
    assert_error_has("add(f32[2, 3], i64[3])");
    assert_error_has("got f32 and i64");
    in[1] = type_of(RLX_DTYPE_F32, 1, 4, 0);
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_ADD, NULL, in, 2, &out));
    assert_error_has("do not broadcast");
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_BIT_AND, NULL, in, 2, &out));
    assert_error_has("it takes integers, input 0 is f32");
    in[2] = in[0];
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_WHERE, NULL, in, 3, &out));
    assert_error_has("condition must be bool, got f32");
    rlx_cast_attrs nowhere = {(rlx_dtype)91};
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_CAST, &nowhere, in, 1, &out));
    assert_error_has("91 is no dtype");
}

enum { NO = -1000 }; /* an absent operand in the tables below */

static void encode(int64_t *words, uint32_t index, rlx_op op, rlx_dtype dtype, int64_t a,
                   int64_t b) {
    rlx_chain_instruction instruction = {
        .op = op,
        .dtype = dtype,
        .operands = {a, b == NO ? RLX_CHAIN_NONE : b, RLX_CHAIN_NONE},
        .alpha = 0.25,
        .beta = -2};
    rlx_chain_encode(&instruction, words + (size_t)index * RLX_CHAIN_WORDS);
}

static void chain_code_decodes_to_what_was_encoded(void **state) {
    (void)state;
    int64_t words[2 * RLX_CHAIN_WORDS];
    encode(words, 0, RLX_OP_ADD, RLX_DTYPE_F32, 0, 1);
    encode(words, 1, RLX_OP_CLIP, RLX_DTYPE_F32, -1, NO);
    rlx_list code = {2 * RLX_CHAIN_WORDS, words};
    rlx_chain_instruction second = rlx_chain_at(code, 1);
    assert_int_equal(rlx_chain_count(code), 2);
    assert_int_equal(second.op, RLX_OP_CLIP);
    assert_int_equal(second.operands[0], -1);
    assert_true(second.operands[1] == RLX_CHAIN_NONE);
    assert_true(second.alpha == 0.25 && second.beta == -2);
    assert_ok(rlx_chain_verify(code, 2));
}

static void a_chain_is_typed_by_its_instructions(void **state) {
    (void)state;
    int64_t words[3 * RLX_CHAIN_WORDS];
    rlx_type in[2] = {type_of(RLX_DTYPE_F16, 2, 2, 3), type_of(RLX_DTYPE_F16, 1, 3, 0)}, out;
    encode(words, 0, RLX_OP_ADD, RLX_DTYPE_F16, 0, 1);
    encode(words, 1, RLX_OP_CAST, RLX_DTYPE_I32, -1, NO);
    encode(words, 2, RLX_OP_LESS, RLX_DTYPE_BOOL, -2, -2);
    rlx_chain_attrs attrs = {{3 * RLX_CHAIN_WORDS, words}};
    assert_ok(infer(RLX_OP_CHAIN, &attrs, in, 2, &out));
    assert_int_equal(out.dtype, RLX_DTYPE_BOOL);
    assert_int_equal(out.shape.rank, 2);
    encode(words, 0, RLX_OP_ADD, RLX_DTYPE_F32, 0, 1);
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_CHAIN, &attrs, in, 2, &out));
    assert_error_has("instruction 0 (add): it gives f16, the code says f32");
    encode(words, 0, RLX_OP_ADD, RLX_DTYPE_F16, 0, 1);
    in[1] = type_of(RLX_DTYPE_F16, 1, 7, 0);
    assert_status(RLX_INVALID_GRAPH, infer(RLX_OP_CHAIN, &attrs, in, 2, &out));
    assert_error_has("do not broadcast");
}

static void broken_chain_code_is_refused(void **state) {
    (void)state;
    int64_t words[2 * RLX_CHAIN_WORDS];
    rlx_list code = {2 * RLX_CHAIN_WORDS, words};
    static const struct {
        int64_t op, dtype, a, b;
        const char *text;
    } rows[] = {
        {RLX_OP_MATMUL, RLX_DTYPE_F32, 0, 1, "not elementwise"},
        {RLX_OP_CHAIN, RLX_DTYPE_F32, 0, NO, "not elementwise"},
        {-5, RLX_DTYPE_F32, 0, NO, "not elementwise"},
        {INT64_C(1) << 40, RLX_DTYPE_F32, 0, NO, "not elementwise"},
        {RLX_OP_ADD, 99, 0, 1, "cannot be a result"},
        {RLX_OP_CAST, RLX_DTYPE_Q8_0, 0, NO, "q8_0) cannot be a result"},
        {RLX_OP_ADD, RLX_DTYPE_F32, 0, NO, "operand 1 is missing"},
        {RLX_OP_NEG, RLX_DTYPE_F32, 0, 1, "operand 1 is given"},
        {RLX_OP_ADD, RLX_DTYPE_F32, 0, 2, "input 2 of 2"},
        {RLX_OP_ADD, RLX_DTYPE_F32, -2, 0, "not before it"},
        {RLX_OP_ADD, RLX_DTYPE_F32, INT64_MIN + 1, 0, "not before it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        encode(words, 0, RLX_OP_ADD, RLX_DTYPE_F32, 0, 1);
        encode(words, 1, RLX_OP_ADD, RLX_DTYPE_F32, rows[i].a, rows[i].b);
        words[RLX_CHAIN_WORDS] = rows[i].op;
        words[RLX_CHAIN_WORDS + 1] = rows[i].dtype;
        assert_status(RLX_INVALID_GRAPH, rlx_chain_verify(code, 2));
        assert_error_has("instruction 1");
        assert_error_has(rows[i].text);
    }
    assert_status(RLX_INVALID_GRAPH, rlx_chain_verify((rlx_list){0, words}, 2));
    assert_status(RLX_INVALID_GRAPH, rlx_chain_verify((rlx_list){8, words}, 2));
    assert_status(RLX_INVALID_GRAPH,
                  rlx_chain_verify((rlx_list){(RLX_CHAIN_MOST + 1) * RLX_CHAIN_WORDS, words}, 2));
    assert_error_has("1 to 256 instructions");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_are_taken_by_class),
        cmocka_unit_test(results_have_the_right_dtype_and_shape),
        cmocka_unit_test(extents_are_carried_along),
        cmocka_unit_test(texts_name_dtypes_and_shapes),
        cmocka_unit_test(chain_code_decodes_to_what_was_encoded),
        cmocka_unit_test(a_chain_is_typed_by_its_instructions),
        cmocka_unit_test(broken_chain_code_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
