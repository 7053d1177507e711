/* SPDX-License-Identifier: Apache-2.0 */
/* Strides of views: where they exist, where they do not, and that 4-bit views begin at a byte. That
 * the strides read the right elements is tested with the kernels (tests/ref/view_test.c). */
#include "support/support.h"

#include "ir/view.h"

static rlx_tensor tensor(rlx_dtype dtype, uint32_t rank, const int64_t *dims,
                         const int64_t *strides) {
    rlx_tensor result = {.dtype = dtype, .rank = rank};
    memcpy(result.dims, dims, rank * sizeof *dims);
    if (strides != NULL) memcpy(result.strides, strides, rank * sizeof *strides);
    return result;
}
#define I64S(...) ((int64_t[]){__VA_ARGS__})

static void reshape_joins_dims_without_holes(void **state) {
    rlx_tensor in = tensor(RLX_DTYPE_F32, 3, I64S(2, 3, 4), I64S(100, 4, 1));
    rlx_tensor joined = tensor(RLX_DTYPE_F32, 2, I64S(2, 12), NULL);
    rlx_tensor across = tensor(RLX_DTYPE_F32, 2, I64S(6, 4), NULL);
    rlx_tensor cut = tensor(RLX_DTYPE_F32, 5, I64S(2, 1, 6, 2, 1), NULL);
    int64_t offset;
    (void)state;
    assert_true(rlx_view_of(RLX_OP_RESHAPE, NULL, 0, 1, &in, &joined, &offset));
    assert_int_equal(100, joined.strides[0]);
    assert_int_equal(1, joined.strides[1]);
    assert_false(rlx_view_of(RLX_OP_RESHAPE, NULL, 0, 1, &in, &across, &offset));
    assert_true(rlx_view_of(RLX_OP_RESHAPE, NULL, 0, 1, &in, &cut, &offset));
    assert_int_equal(100, cut.strides[0]);
    assert_int_equal(2, cut.strides[2]);
    assert_int_equal(1, cut.strides[3]);
}

static void a_reshape_of_a_transposed_matrix_is_no_view(void **state) {
    rlx_tensor in = tensor(RLX_DTYPE_F32, 2, I64S(3, 4), I64S(1, 3));
    rlx_tensor line = tensor(RLX_DTYPE_F32, 1, I64S(12), NULL);
    rlx_tensor apart = tensor(RLX_DTYPE_F32, 3, I64S(3, 2, 2), NULL);
    int64_t offset;
    (void)state;
    assert_false(rlx_view_of(RLX_OP_RESHAPE, NULL, 0, 1, &in, &line, &offset));
    assert_true(rlx_view_of(RLX_OP_RESHAPE, NULL, 0, 1, &in, &apart, &offset));
    assert_int_equal(1, apart.strides[0]);
    assert_int_equal(6, apart.strides[1]);
    assert_int_equal(3, apart.strides[2]);
}

static void slices_start_where_they_start(void **state) {
    rlx_tensor in = tensor(RLX_DTYPE_F32, 2, I64S(5, 4), I64S(4, 1));
    rlx_tensor out = tensor(RLX_DTYPE_F32, 2, I64S(2, 4), NULL);
    rlx_slice_attrs attrs = {
        .starts = {1, {-2}}, .ends = {1, {0}}, .axes = {1, {0}}, .steps = {1, {-2}}};
    int64_t offset;
    (void)state;
    assert_true(rlx_view_of(RLX_OP_SLICE, &attrs, 0, 1, &in, &out, &offset));
    assert_int_equal(12, offset);
    assert_int_equal(-8, out.strides[0]);
}

static void four_bit_views_begin_at_a_byte(void **state) {
    rlx_tensor in = tensor(RLX_DTYPE_I4, 1, I64S(8), I64S(1));
    rlx_tensor out = tensor(RLX_DTYPE_I4, 1, I64S(4), NULL);
    rlx_slice_attrs even = {.starts = {1, {2}}, .ends = {1, {6}}};
    rlx_slice_attrs odd = {.starts = {1, {3}}, .ends = {1, {7}}};
    rlx_slice_attrs back = {.starts = {1, {4}}, .ends = {1, {0}}, .steps = {1, {-1}}};
    int64_t offset;
    (void)state;
    assert_true(rlx_view_of(RLX_OP_SLICE, &even, 0, 1, &in, &out, &offset));
    assert_false(rlx_view_of(RLX_OP_SLICE, &odd, 0, 1, &in, &out, &offset));
    assert_false(rlx_view_of(RLX_OP_SLICE, &back, 0, 1, &in, &out, &offset));
    assert_true(rlx_view_map(RLX_OP_SLICE, &odd, 0, 1, &in, &out, &offset));
    assert_int_equal(3, offset);
}

static void other_ops_are_no_views(void **state) {
    rlx_tensor in = tensor(RLX_DTYPE_F32, 1, I64S(8), I64S(1)), out = in;
    rlx_axis_attrs attrs = {0};
    int64_t offset;
    (void)state;
    assert_false(rlx_view_of(RLX_OP_CONCAT, &attrs, 0, 1, &in, &out, &offset));
    assert_false(rlx_view_of(RLX_OP_COPY, &attrs, 0, 1, &in, &out, &offset));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshape_joins_dims_without_holes),
        cmocka_unit_test(a_reshape_of_a_transposed_matrix_is_no_view),
        cmocka_unit_test(slices_start_where_they_start),
        cmocka_unit_test(four_bit_views_begin_at_a_byte),
        cmocka_unit_test(other_ops_are_no_views),
    };
    return cmocka_run_group_tests_name("ir_view", tests, NULL, NULL);
}
