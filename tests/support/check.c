/* SPDX-License-Identifier: Apache-2.0 */
/* Checks on statuses and texts that print what a reader of a failed test wants to know. */
#include "support/support.h"

void rlx_test_assert_status(rlx_status expected, rlx_status actual, const char *file, int line) {
    if (expected == actual) return;
    print_error("expected status \"%s\", got \"%s\"; last error: %s\n", rlx_status_text(expected),
                rlx_status_text(actual), rlx_last_error());
    _fail(file, line);
}

void rlx_test_assert_text_has(const char *text, const char *part, const char *file, int line) {
    if (text != NULL && strstr(text, part) != NULL) return;
    print_error("expected \"%s\" in \"%s\"\n", part, text == NULL ? "(null)" : text);
    _fail(file, line);
}

void rlx_test_assert_error_has(const char *part, const char *file, int line) {
    rlx_test_assert_text_has(rlx_last_error(), part, file, line);
}
