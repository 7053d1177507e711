/* SPDX-License-Identifier: Apache-2.0 */
/* The growing text buffer. */
#include "support/support.h"

#include "base/text.h"

static rlx_status print_many(const rlx_allocator *allocator, char **out) {
    rlx_text text = {.allocator = allocator};
    for (int i = 0; i < 300; ++i)
        rlx_text_printf(&text, "line %d\n", i);
    rlx_text_append(&text, "end!", 3);
    return rlx_text_finish(&text, out);
}

static void pieces_of_any_size_are_joined(void **state) {
    char *string = NULL, wide[1500];
    rlx_text text = {0};
    (void)state;
    memset(wide, 'w', sizeof wide - 1);
    wide[sizeof wide - 1] = '\0';
    rlx_text_printf(&text, "%d", 1);
    rlx_text_printf(&text, "%s", wide); /* does not fit the first room */
    rlx_text_append(&text, "\0z", 2);
    assert_int_equal(text.length, 1 + 1499 + 2);
    assert_ok(rlx_text_finish(&text, &string));
    assert_null(text.data);
    assert_int_equal(string[0], '1');
    assert_int_equal(string[1499], 'w');
    assert_memory_equal(string + 1500, "\0z", 3);
    rlx_free(NULL, string);
}

static void an_empty_text_is_an_empty_string(void **state) {
    rlx_text text = {0};
    char *string = NULL;
    (void)state;
    assert_ok(rlx_text_finish(&text, &string));
    assert_string_equal(string, "");
    rlx_free(NULL, string);
    rlx_text_free(&text);
}

static void a_text_can_be_used_again_after_finish(void **state) {
    rlx_text text = {0};
    char *first = NULL, *second = NULL;
    (void)state;
    rlx_text_printf(&text, "first");
    assert_ok(rlx_text_finish(&text, &first));
    rlx_text_printf(&text, "second");
    assert_ok(rlx_text_finish(&text, &second));
    assert_string_equal(first, "first");
    assert_string_equal(second, "second");
    rlx_free(NULL, first);
    rlx_free(NULL, second);
}

static void a_failure_sticks_until_finish(void **state) {
    rlx_test_failing_allocator failing;
    char *string = NULL;
    rlx_text text = {0};
    (void)state;
    rlx_test_failing_allocator_init(&failing, 0);
    text.allocator = &failing.allocator;
    rlx_text_printf(&text, "lost");
    rlx_text_append(&text, "lost", 4);
    assert_status(RLX_OUT_OF_MEMORY, rlx_text_finish(&text, &string));
    assert_error_has("a text of more than 0 bytes");
    assert_null(string);
    assert_int_equal(failing.call_count, 1);
}

static rlx_status print_body(const rlx_allocator *allocator, void *argument) {
    char *string = NULL;
    (void)argument;
    RLX_TRY(print_many(allocator, &string));
    rlx_free(allocator, string);
    return RLX_OK;
}

static void printing_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_true(rlx_test_every_allocation_fails(print_body, NULL) >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_size_are_joined),
        cmocka_unit_test(an_empty_text_is_an_empty_string),
        cmocka_unit_test(a_text_can_be_used_again_after_finish),
        cmocka_unit_test(a_failure_sticks_until_finish),
        cmocka_unit_test(printing_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("base/text", tests, NULL, NULL);
}
