/* SPDX-License-Identifier: Apache-2.0 */
/* The error record: texts, context, details, cutting, and one record per thread. */
#include "support/support.h"

#include "base/thread.h"

#include <stdio.h>

static rlx_status refuse(void) {
    rlx_status status = RLX_FAIL(RLX_OUT_OF_BOUNDS, "offset %d + bytes %d > heap %d", 60, 8, 64);
    rlx_error_detail_edit()->limit = 64;
    return status;
}

static rlx_status refuse_with_context(void) {
    RLX_TRY_WITH(refuse(), "put %d -> %d", 0, 1);
    return RLX_OK;
}

static rlx_status hand_on(void) {
    RLX_TRY(refuse_with_context());
    return RLX_OK;
}

static void every_status_has_a_text(void **state) {
    (void)state;
    for (int i = 0; i < RLX_STATUS_COUNT; ++i) {
        assert_true(strlen(rlx_status_text((rlx_status)i)) > 1);
    }
    assert_string_equal(rlx_status_text(RLX_OUT_OF_MEMORY), "out of memory");
    assert_string_equal(rlx_status_text((rlx_status)9999), "unknown status");
}

static void a_failure_carries_fact_context_and_details(void **state) {
    (void)state;
    assert_status(RLX_OUT_OF_BOUNDS, hand_on());
    assert_string_equal(rlx_last_error(), "put 0 -> 1: offset 60 + bytes 8 > heap 64");
    assert_int_equal(rlx_last_error_detail()->limit, 64);
}

static void a_new_failure_clears_the_old_details(void **state) {
    (void)state;
    assert_status(RLX_OUT_OF_BOUNDS, refuse());
    assert_status(RLX_IO, RLX_FAIL(RLX_IO, "other"));
    assert_string_equal(rlx_last_error(), "other");
    assert_int_equal(rlx_last_error_detail()->limit, 0);
}

static void a_failure_may_quote_the_one_before(void **state) {
    (void)state;
    assert_status(RLX_IO, RLX_FAIL(RLX_IO, "inner"));
    assert_status(RLX_PARSE, RLX_FAIL(RLX_PARSE, "outer (%s)", rlx_last_error()));
    assert_string_equal(rlx_last_error(), "outer (inner)");
}

static void a_text_that_is_too_long_ends_in_dots(void **state) {
    char text[2 * RLX_ERROR_TEXT_BYTES];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_status(RLX_IO, RLX_FAIL(RLX_IO, "%s", text));
    assert_int_equal(strlen(rlx_last_error()), RLX_ERROR_TEXT_BYTES - 1);
    assert_string_equal(rlx_last_error() + RLX_ERROR_TEXT_BYTES - 4, "...");
    assert_status(RLX_IO, rlx_fail_context(RLX_IO, "where"));
    assert_int_equal(strlen(rlx_last_error()), RLX_ERROR_TEXT_BYTES - 1);
    assert_memory_equal(rlx_last_error(), "where: xxx", 10);
    assert_string_equal(rlx_last_error() + RLX_ERROR_TEXT_BYTES - 4, "...");
}

typedef struct {
    bool was_empty;
    rlx_error_record record;
} other_thread;

static void *fail_elsewhere(void *argument) {
    other_thread *other = argument;
    other->was_empty = rlx_last_error()[0] == '\0';
    (void)RLX_FAIL(RLX_TRANSPORT, "peer 3 is gone");
    rlx_error_detail_edit()->rank = 3;
    rlx_error_save(&other->record);
    return NULL;
}

static void each_thread_has_its_record_and_can_hand_it_over(void **state) {
    other_thread other = {0};
    pthread_t thread;
    (void)state;
    assert_status(RLX_IO, RLX_FAIL(RLX_IO, "mine"));
    assert_ok(rlx_thread_start(&thread, fail_elsewhere, &other));
    pthread_join(thread, NULL);
    assert_true(other.was_empty);
    assert_string_equal(rlx_last_error(), "mine");
    rlx_error_restore(&other.record);
    assert_string_equal(rlx_last_error(), "peer 3 is gone");
    assert_int_equal(rlx_last_error_detail()->rank, 3);
}

static void the_version_is_the_one_of_the_header(void **state) {
    char text[32];
    (void)state;
    (void)snprintf(text, sizeof text, "%d.%d.%d", RLX_VERSION_MAJOR, RLX_VERSION_MINOR,
                   RLX_VERSION_PATCH);
    assert_string_equal(rlx_version(), text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_text),
        cmocka_unit_test(a_failure_carries_fact_context_and_details),
        cmocka_unit_test(a_new_failure_clears_the_old_details),
        cmocka_unit_test(a_failure_may_quote_the_one_before),
        cmocka_unit_test(a_text_that_is_too_long_ends_in_dots),
        cmocka_unit_test(each_thread_has_its_record_and_can_hand_it_over),
        cmocka_unit_test(the_version_is_the_one_of_the_header),
    };
    return cmocka_run_group_tests_name("base/status", tests, NULL, NULL);
}
