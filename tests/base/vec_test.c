/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays. */
#include "support/support.h"

#include "base/vec.h"

typedef struct {
    uint64_t a;
    char b;
} pair;

static rlx_status push_many(const rlx_allocator *allocator, void *argument) {
    RLX_VEC(pair) pairs = {0};
    rlx_status status = RLX_OK;
    (void)argument;
    for (uint32_t i = 0; i < 100 && status == RLX_OK; ++i) {
        status = rlx_vec_push(allocator, &pairs, (pair){.a = i, .b = 'x'});
    }
    rlx_vec_free(allocator, &pairs);
    return status;
}

static void items_stay_in_order_while_it_grows(void **state) {
    RLX_VEC(uint32_t) ids = {0};
    (void)state;
    for (uint32_t i = 0; i < 10000; ++i)
        assert_ok(rlx_vec_push(NULL, &ids, i * 3));
    assert_int_equal(ids.count, 10000);
    for (uint32_t i = 0; i < 10000; ++i)
        assert_int_equal(ids.items[i], i * 3);
    rlx_vec_free(NULL, &ids);
    assert_null(ids.items);
    assert_int_equal(ids.capacity, 0);
}

static void reserve_makes_room_once(void **state) {
    rlx_test_failing_allocator counting;
    RLX_VEC(pair) pairs = {0};
    (void)state;
    rlx_test_failing_allocator_init(&counting, UINT64_MAX);
    assert_ok(rlx_vec_reserve(&counting.allocator, &pairs, 1000));
    for (uint32_t i = 0; i < 1000; ++i) {
        assert_ok(rlx_vec_push(&counting.allocator, &pairs, (pair){i, 'y'}));
    }
    assert_int_equal(counting.call_count, 1);
    rlx_vec_free(&counting.allocator, &pairs);
    assert_int_equal(counting.live_count, 0);
}

static void a_failed_push_keeps_the_items(void **state) {
    rlx_test_failing_allocator failing;
    RLX_VEC(uint32_t) ids = {0};
    (void)state;
    rlx_test_failing_allocator_init(&failing, 1);
    while (ids.count < 8)
        assert_ok(rlx_vec_push(&failing.allocator, &ids, ids.count));
    assert_status(RLX_OUT_OF_MEMORY, rlx_vec_push(&failing.allocator, &ids, 8));
    assert_error_has("a list of 9 items of 4 bytes");
    assert_int_equal(ids.count, 8);
    assert_int_equal(ids.items[7], 7);
    rlx_vec_free(&failing.allocator, &ids);
}

static void a_list_never_counts_past_its_index_type(void **state) {
    void *items = NULL;
    uint32_t capacity = 0;
    (void)state;
    assert_status(RLX_OUT_OF_MEMORY, rlx_vec_grow(NULL, &items, &capacity, 0, UINT32_MAX, 1));
    assert_error_has("4294967295 items");
    assert_status(RLX_OUT_OF_MEMORY,
                  rlx_vec_grow(NULL, &items, &capacity, 0, UINT32_MAX - 1, SIZE_MAX));
    assert_null(items);
}

static void pushing_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(rlx_test_every_allocation_fails(push_many, NULL) >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_stay_in_order_while_it_grows),
        cmocka_unit_test(reserve_makes_room_once),
        cmocka_unit_test(a_failed_push_keeps_the_items),
        cmocka_unit_test(a_list_never_counts_past_its_index_type),
        cmocka_unit_test(pushing_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("base/vec", tests, NULL, NULL);
}
