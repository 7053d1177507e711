/* SPDX-License-Identifier: Apache-2.0 */
/* The helpers that other tests lean on. */
#include "support/support.h"

#include <math.h>

static void ulp_distance_counts_steps_on_the_number_line(void **state) {
    (void)state;
    assert_int_equal(rlx_test_ulp_f32(1.0f, nextafterf(1.0f, 2.0f)), 1);
    assert_int_equal(rlx_test_ulp_f32(0.0f, -0.0f), 0);
    assert_int_equal(rlx_test_ulp_f32(-0x1p-149f, 0x1p-149f), 2);
    assert_int_equal(rlx_test_ulp_f32(NAN, NAN), 0);
    assert_int_equal(rlx_test_ulp_f32(NAN, 1.0f), UINT64_MAX);
    assert_int_equal(rlx_test_ulp_f64(1.0, nextafter(1.0, 0.0)), 1);
    assert_int_equal(rlx_test_ulp_f64(-INFINITY, INFINITY), 2 * 0x7ff0000000000000u);
}

static void guards_notice_a_write_on_either_side(void **state) {
    unsigned char *memory = rlx_test_guarded(13);
    (void)state;
    memset(memory, 0, 13);
    assert_true(rlx_test_guards_intact(memory));
    memory[13] = 0;
    assert_false(rlx_test_guards_intact(memory));
    memory[13] = 0x5a;
    memory[-1] = 0;
    assert_false(rlx_test_guards_intact(memory));
    memory[-1] = 0x5a;
    rlx_test_guarded_free(memory);
}

static void seeded_numbers_repeat_and_stay_in_range(void **state) {
    rlx_test_random a = rlx_test_seed(5), b = rlx_test_seed(5);
    float values[1000];
    (void)state;
    assert_int_equal(rlx_test_next(&a), rlx_test_next(&b));
    rlx_test_fill_f32(&a, values, 1000, -2.0f, 3.0f);
    for (int i = 0; i < 1000; ++i)
        assert_true(values[i] >= -2.0f && values[i] < 3.0f);
    assert_close_f32(values, values, 1000, 0, 0);
    assert_ulp_f32(values, values, 1000, 0);
}

static rlx_status three_blocks(const rlx_allocator *allocator, void *argument) {
    void *blocks[3] = {0};
    rlx_status status = RLX_OK;
    (void)argument;
    for (int i = 0; i < 3 && status == RLX_OK; ++i)
        status = rlx_alloc(allocator, 10, &blocks[i]);
    for (int i = 0; i < 3; ++i)
        rlx_free(allocator, blocks[i]);
    return status;
}

static void the_failing_allocator_walks_every_allocation(void **state) {
    (void)state;
    assert_int_equal(rlx_test_every_allocation_fails(three_blocks, NULL), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ulp_distance_counts_steps_on_the_number_line),
        cmocka_unit_test(guards_notice_a_write_on_either_side),
        cmocka_unit_test(seeded_numbers_repeat_and_stay_in_range),
        cmocka_unit_test(the_failing_allocator_walks_every_allocation),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
