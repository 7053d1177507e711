/* SPDX-License-Identifier: Apache-2.0 */
/* A million random sequences over all copy engines against the model of the conformance suite. */
#include "copy_makers.h"
#include "support/support.h"

static void a_million_random_sequences_agree_with_the_model(void **state) {
    (void)state;
    for (int i = 0; i < COPY_MAKER_COUNT; ++i) {
        assert_true(copy_suite_random(&copy_makers[i], 100 + (uint64_t)i,
                                      1000000 / COPY_MAKER_COUNT + 1) > 1000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_random_sequences_agree_with_the_model)};
    return cmocka_run_group_tests_name("random copies", tests, NULL, NULL);
}
