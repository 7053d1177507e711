/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier: accepts what is right, refuses every kind of wrong, and agrees with a comparison of
 * all pairs on random plans. */
#include "instances.h"

static const rlx_place_item two[] = {{0, 10, 100}, {5, 15, 50}};

static void neighbours_that_touch_are_fine(void **state) {
    (void)state;
    const uint64_t offsets[] = {0, 100}, below[] = {50, 0};
    assert_ok(rlx_place_verify(NULL, two, 2, offsets, 0, 150));
    assert_ok(rlx_place_verify(NULL, two, 2, below, 0, 0));
}

static void an_overlap_names_both_buffers(void **state) {
    (void)state;
    const uint64_t offsets[] = {0, 99}, inside[] = {0, 25}, same[] = {7, 7};
    assert_status(RLX_INVALID_PLAN, rlx_place_verify(NULL, two, 2, offsets, 1, 0));
    assert_error_has("buffers 0 at [0, 100) and 1 at [99, 149) overlap at time 5");
    assert_status(RLX_INVALID_PLAN, rlx_place_verify(NULL, two, 2, inside, 1, 0));
    assert_status(RLX_INVALID_PLAN, rlx_place_verify(NULL, two, 2, same, 1, 0));
}

static void half_open_lives_may_share_memory(void **state) {
    (void)state;
    const rlx_place_item items[] = {{0, 5, 100}, {5, 9, 100}};
    const uint64_t offsets[] = {0, 0};
    assert_ok(rlx_place_verify(NULL, items, 2, offsets, 1, 100));
}

static void bounds_and_alignment_are_checked(void **state) {
    (void)state;
    const uint64_t offsets[] = {0, 128}, odd[] = {0, 100}, wraps[] = {0, UINT64_MAX - 10};
    assert_ok(rlx_place_verify(NULL, two, 2, offsets, 64, 178));
    assert_status(RLX_OUT_OF_BOUNDS, rlx_place_verify(NULL, two, 2, offsets, 64, 177));
    assert_error_has("buffer 1: offset 128 + bytes 50 > capacity 177");
    assert_status(RLX_INVALID_PLAN, rlx_place_verify(NULL, two, 2, odd, 64, 0));
    assert_error_has("offset 100 is no multiple of 64");
    assert_status(RLX_OUT_OF_BOUNDS, rlx_place_verify(NULL, two, 2, wraps, 1, 0));
    assert_error_has("wraps");
    assert_status(RLX_INVALID_ARGUMENT, rlx_place_verify(NULL, two, 2, offsets, 48, 0));
    assert_status(RLX_INVALID_ARGUMENT, rlx_place_verify(NULL, two, 2, NULL, 1, 0));
    assert_ok(rlx_place_verify(NULL, NULL, 0, NULL, 1, 0));
}

static void empty_buffers_may_lie_anywhere(void **state) {
    (void)state;
    const rlx_place_item items[] = {{0, 10, 100}, {0, 10, 0}, {5, 5, 10}, {9, 2, 10}};
    const uint64_t offsets[] = {0, 50, 50, 50};
    assert_ok(rlx_place_verify(NULL, items, 4, offsets, 1, 100));
}

static bool all_pairs_agree(const rlx_place_item *items, const uint64_t *offsets, uint32_t count) {
    for (uint32_t a = 0; a < count; ++a) {
        for (uint32_t b = 0; b < a; ++b) {
            bool in_time = items[a].lower < items[b].upper && items[b].lower < items[a].upper;
            bool in_space = offsets[a] < offsets[b] + items[b].bytes &&
                            offsets[b] < offsets[a] + items[a].bytes;
            if (in_time && in_space) return false;
        }
    }
    return true;
}

static void random_plans_are_judged_like_all_pairs(void **state) {
    (void)state;
    enum { COUNT = 12 };
    rlx_place_item items[COUNT];
    uint64_t offsets[COUNT];
    uint32_t right = 0, rounds = 20000;
    rlx_test_random random = rlx_test_seed(5);
    for (uint32_t round = 0; round < rounds; ++round) {
        random_items(&random, items, COUNT, 30, 6, 12);
        for (uint32_t i = 0; i < COUNT; ++i)
            offsets[i] = rlx_test_below(&random, 40);
        bool expected = all_pairs_agree(items, offsets, COUNT);
        right += expected;
        assert_status(expected ? RLX_OK : RLX_INVALID_PLAN,
                      rlx_place_verify(NULL, items, COUNT, offsets, 1, 0));
    }
    assert_true(right > rounds / 50 && right < rounds - rounds / 50); /* both kinds were seen */
}

/* Moves one buffer of a good plan onto another one alive at the same time. */
static void every_mutation_of_a_plan_is_found(void **state) {
    (void)state;
    enum { COUNT = 200 };
    static rlx_place_item items[COUNT];
    static uint64_t offsets[COUNT];
    rlx_test_random random = rlx_test_seed(6);
    random_items(&random, items, COUNT, 300, 40, 1000);
    assert_ok(rlx_place(NULL, items, COUNT, NULL, offsets, NULL));
    assert_ok(rlx_place_verify(NULL, items, COUNT, offsets, 1, 0));
    for (uint32_t a = 0; a < COUNT; ++a) {
        for (uint32_t b = 0; b < COUNT; ++b) {
            bool in_time = items[a].lower < items[b].upper && items[b].lower < items[a].upper;
            if (a == b || !in_time) continue;
            uint64_t kept = offsets[a];
            offsets[a] = offsets[b] + rlx_test_below(&random, items[b].bytes);
            assert_status(RLX_INVALID_PLAN, rlx_place_verify(NULL, items, COUNT, offsets, 1, 0));
            offsets[a] = kept;
        }
    }
}

static rlx_status verify_two(const rlx_allocator *allocator, void *argument) {
    const uint64_t offsets[] = {0, 100};
    (void)argument;
    return rlx_place_verify(allocator, two, 2, offsets, 1, 0);
}

static void each_allocation_of_the_verifier_may_fail(void **state) {
    (void)state;
    assert_int_equal(2, rlx_test_every_allocation_fails(verify_two, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_that_touch_are_fine),
        cmocka_unit_test(an_overlap_names_both_buffers),
        cmocka_unit_test(half_open_lives_may_share_memory),
        cmocka_unit_test(bounds_and_alignment_are_checked),
        cmocka_unit_test(empty_buffers_may_lie_anywhere),
        cmocka_unit_test(random_plans_are_judged_like_all_pairs),
        cmocka_unit_test(every_mutation_of_a_plan_is_found),
        cmocka_unit_test(each_allocation_of_the_verifier_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
