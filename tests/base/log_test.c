/* SPDX-License-Identifier: Apache-2.0 */
/* The log callback. */
#include "support/support.h"

#include "base/log.h"

typedef struct {
    unsigned count;
    rlx_log_level level;
    char text[2048];
} heard;

static void listen(void *user, rlx_log_level level, const char *message) {
    heard *ear = user;
    ++ear->count;
    ear->level = level;
    (void)strncpy(ear->text, message, sizeof ear->text - 1);
}

static int silence(void **state) {
    (void)state;
    rlx_log_set(NULL, NULL, RLX_LOG_ERROR);
    return 0;
}

static void without_a_callback_nothing_is_wanted(void **state) {
    (void)state;
    assert_false(rlx_log_wants(RLX_LOG_ERROR));
    rlx_log(RLX_LOG_ERROR, "nobody hears %d", 1);
}

static void only_wanted_levels_arrive(void **state) {
    heard ear = {0};
    (void)state;
    rlx_log_set(listen, &ear, RLX_LOG_INFO);
    assert_true(rlx_log_wants(RLX_LOG_INFO));
    assert_false(rlx_log_wants(RLX_LOG_DEBUG));
    rlx_log(RLX_LOG_DEBUG, "hidden");
    assert_int_equal(ear.count, 0);
    rlx_log(RLX_LOG_WARN, "%u bytes", 7u);
    assert_int_equal(ear.count, 1);
    assert_int_equal(ear.level, RLX_LOG_WARN);
    assert_string_equal(ear.text, "7 bytes");
}

static void a_long_message_ends_in_dots(void **state) {
    heard ear = {0};
    char text[3000];
    (void)state;
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    rlx_log_set(listen, &ear, RLX_LOG_TRACE);
    rlx_log(RLX_LOG_TRACE, "%s", text);
    assert_int_equal(strlen(ear.text), 1023);
    assert_string_equal(ear.text + 1020, "...");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(without_a_callback_nothing_is_wanted, silence),
        cmocka_unit_test_teardown(only_wanted_levels_arrive, silence),
        cmocka_unit_test_teardown(a_long_message_ends_in_dots, silence),
    };
    return cmocka_run_group_tests_name("base/log", tests, NULL, NULL);
}
