/* SPDX-License-Identifier: Apache-2.0 */
/* Memory through the hook, and the scratch arena. */
#include "support/support.h"

static bool is_zero(const unsigned char *data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
        if (data[i] != 0) return false;
    }
    return true;
}

static void zero_bytes_give_null(void **state) {
    void *memory = &memory;
    (void)state;
    assert_ok(rlx_alloc(NULL, 0, &memory));
    assert_null(memory);
    memory = &memory;
    assert_ok(rlx_alloc_zero(NULL, 0, &memory));
    assert_null(memory);
    rlx_free(NULL, NULL);
}

static void aligned_memory_is_aligned(void **state) {
    rlx_test_failing_allocator counting;
    (void)state;
    rlx_test_failing_allocator_init(&counting, UINT64_MAX);
    for (uint64_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *a = NULL, *b = NULL;
        assert_ok(rlx_alloc_aligned(NULL, 100, alignment, &a));
        assert_ok(rlx_alloc_aligned(&counting.allocator, 100, alignment, &b));
        assert_int_equal((uintptr_t)a % alignment, 0);
        assert_int_equal((uintptr_t)b % alignment, 0);
        rlx_free(NULL, a);
        rlx_free(&counting.allocator, b);
    }
    assert_int_equal(counting.live_count, 0);
}

static void zeroed_memory_is_zero_with_any_allocator(void **state) {
    rlx_test_failing_allocator counting;
    void *a = NULL, *b = NULL;
    (void)state;
    rlx_test_failing_allocator_init(&counting, UINT64_MAX);
    assert_ok(rlx_alloc_zero(&counting.allocator, 1000, &a));
    assert_ok(rlx_alloc_array(NULL, 125, 8, &b));
    assert_true(is_zero(a, 1000));
    assert_true(is_zero(b, 1000));
    rlx_free(&counting.allocator, a);
    rlx_free(NULL, b);
    assert_int_equal(counting.live_count, 0);
}

static void a_failure_names_the_bytes_and_writes_nothing(void **state) {
    rlx_test_failing_allocator failing;
    void *memory = &failing;
    (void)state;
    rlx_test_failing_allocator_init(&failing, 0);
    assert_status(RLX_OUT_OF_MEMORY, rlx_alloc(&failing.allocator, 12345, &memory));
    assert_error_has("12345 bytes");
    assert_int_equal(rlx_last_error_detail()->bytes, 12345);
    assert_ptr_equal(memory, &failing);
}

static void sizes_beyond_the_address_space_are_refused(void **state) {
    void *memory = NULL;
    (void)state;
    assert_status(RLX_OUT_OF_MEMORY, rlx_alloc(NULL, UINT64_MAX, &memory));
    assert_error_has("18446744073709551615 bytes");
    assert_status(RLX_OUT_OF_MEMORY, rlx_alloc_zero(NULL, UINT64_MAX - 8, &memory));
    assert_status(RLX_OUT_OF_MEMORY, rlx_alloc_array(NULL, UINT64_MAX / 4, 8, &memory));
    assert_error_has("elements of 8 bytes");
    assert_null(memory);
}

static void scratch_pieces_are_zeroed_aligned_and_apart(void **state) {
    rlx_test_failing_allocator counting;
    rlx_scratch scratch = {0};
    rlx_test_random random = rlx_test_seed(1);
    (void)state;
    rlx_test_failing_allocator_init(&counting, UINT64_MAX);
    scratch.allocator = &counting.allocator;
    for (int i = 0; i < 1000; ++i) {
        uint64_t bytes = 1 + rlx_test_below(&random, 3000);
        void *piece = NULL;
        assert_ok(rlx_scratch_alloc(&scratch, bytes, &piece));
        assert_int_equal((uintptr_t)piece % 16, 0);
        assert_true(is_zero(piece, bytes)); /* also: not inside an older piece */
        memset(piece, 0xff, bytes);
    }
    assert_true(counting.call_count < 20);
    rlx_scratch_reset(&scratch);
    assert_int_equal(counting.live_count, 0);
    rlx_scratch_reset(&scratch);
}

static void scratch_holds_pieces_larger_than_a_chunk(void **state) {
    rlx_scratch scratch = {0};
    void *piece = NULL, *none = &piece;
    (void)state;
    assert_ok(rlx_scratch_alloc(&scratch, 5 << 20, &piece));
    assert_true(is_zero(piece, 5 << 20));
    assert_ok(rlx_scratch_array(&scratch, 3, 7, &piece));
    assert_true(is_zero(piece, 21));
    assert_ok(rlx_scratch_alloc(&scratch, 0, &none));
    assert_null(none);
    rlx_scratch_reset(&scratch);
}

static void scratch_refuses_sizes_that_wrap(void **state) {
    rlx_scratch scratch = {0};
    void *piece = NULL;
    (void)state;
    assert_status(RLX_OUT_OF_MEMORY, rlx_scratch_alloc(&scratch, UINT64_MAX, &piece));
    assert_status(RLX_OUT_OF_MEMORY, rlx_scratch_alloc(&scratch, UINT64_MAX - 15, &piece));
    assert_status(RLX_OUT_OF_MEMORY, rlx_scratch_array(&scratch, UINT64_MAX, 2, &piece));
    assert_error_has("elements of 2 bytes");
    rlx_scratch_reset(&scratch);
}

static void scratch_texts_are_copies(void **state) {
    rlx_scratch scratch = {0};
    const char *text = NULL, *empty = NULL, *printed = NULL;
    (void)state;
    assert_ok(rlx_scratch_text(&scratch, "abcdef", 3, &text));
    assert_ok(rlx_scratch_text(&scratch, NULL, 0, &empty));
    assert_ok(rlx_scratch_printf(&scratch, &printed, "%s-%d", text, 7));
    assert_string_equal(text, "abc");
    assert_string_equal(empty, "");
    assert_string_equal(printed, "abc-7");
    rlx_scratch_reset(&scratch);
}

static rlx_status use_scratch(rlx_scratch *scratch) {
    const char *text;
    void *piece;
    for (int i = 0; i < 8; ++i) {
        RLX_TRY(rlx_scratch_alloc(scratch, 3000, &piece));
        RLX_TRY(rlx_scratch_printf(scratch, &text, "piece %d", i));
    }
    return RLX_OK;
}

static rlx_status scratch_body(const rlx_allocator *allocator, void *argument) {
    rlx_scratch scratch = {.allocator = allocator};
    rlx_status status = use_scratch(&scratch);
    (void)argument;
    rlx_scratch_reset(&scratch);
    return status;
}

static void scratch_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(rlx_test_every_allocation_fails(scratch_body, NULL) >= 3);
}

static void trimming_leaves_what_is_in_use(void **state) {
    (void)state;
    unsigned char *kept = NULL, *large = NULL;
    rlx_test_failing_allocator failing;
    assert_ok(rlx_alloc_zero(NULL, 1 << 16, (void **)&large));
    assert_ok(rlx_alloc_zero(NULL, 1 << 16, (void **)&kept));
    kept[77] = 5;
    rlx_free(NULL, large);
    rlx_alloc_trim(NULL);
    assert_int_equal(kept[77], 5);
    rlx_free(NULL, kept);
    rlx_test_failing_allocator_init(&failing, UINT64_MAX);
    rlx_alloc_trim(&failing.allocator); /* not ours: nothing happens */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trimming_leaves_what_is_in_use),
        cmocka_unit_test(zero_bytes_give_null),
        cmocka_unit_test(aligned_memory_is_aligned),
        cmocka_unit_test(zeroed_memory_is_zero_with_any_allocator),
        cmocka_unit_test(a_failure_names_the_bytes_and_writes_nothing),
        cmocka_unit_test(sizes_beyond_the_address_space_are_refused),
        cmocka_unit_test(scratch_pieces_are_zeroed_aligned_and_apart),
        cmocka_unit_test(scratch_holds_pieces_larger_than_a_chunk),
        cmocka_unit_test(scratch_refuses_sizes_that_wrap),
        cmocka_unit_test(scratch_texts_are_copies),
        cmocka_unit_test(scratch_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("base/alloc", tests, NULL, NULL);
}
