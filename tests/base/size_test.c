/* SPDX-License-Identifier: Apache-2.0 */
/* Checked size arithmetic at its edges. */
#include "support/support.h"

#include "base/size.h"

static void sums_and_products_that_fit_are_exact(void **state) {
    uint64_t u = 0;
    int64_t i = 0;
    (void)state;
    assert_true(rlx_add_u64(UINT64_MAX - 1, 1, &u) && u == UINT64_MAX);
    assert_true(rlx_mul_u64(UINT64_MAX / 3, 3, &u) && u == UINT64_MAX);
    assert_true(rlx_add_i64(INT64_MIN, INT64_MAX, &i) && i == -1);
    assert_true(rlx_mul_i64(INT64_MIN / 2, 2, &i) && i == INT64_MIN);
}

static void results_that_wrap_are_refused_and_not_written(void **state) {
    uint64_t u = 7;
    int64_t i = 7;
    (void)state;
    assert_false(rlx_add_u64(UINT64_MAX, 1, &u));
    assert_false(rlx_mul_u64(UINT64_MAX / 2, 3, &u));
    assert_false(rlx_add_i64(INT64_MAX, 1, &i));
    assert_false(rlx_mul_i64(INT64_MIN, -1, &i));
    assert_false(rlx_align_u64(UINT64_MAX, 2, &u));
    assert_int_equal(u, 7);
    assert_int_equal(i, 7);
}

static void alignment_rounds_up_to_the_next_multiple(void **state) {
    uint64_t u = 1;
    (void)state;
    assert_true(rlx_align_u64(0, 64, &u) && u == 0);
    assert_true(rlx_align_u64(1, 64, &u) && u == 64);
    assert_true(rlx_align_u64(64, 64, &u) && u == 64);
    assert_true(rlx_align_u64(UINT64_MAX - 1, 1, &u) && u == UINT64_MAX - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_that_fit_are_exact),
        cmocka_unit_test(results_that_wrap_are_refused_and_not_written),
        cmocka_unit_test(alignment_rounds_up_to_the_next_multiple),
    };
    return cmocka_run_group_tests_name("base/size", tests, NULL, NULL);
}
