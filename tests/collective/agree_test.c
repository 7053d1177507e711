/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that all transports share. */
#include "collective/agree.h"
#include "support/support.h"

static bool compares(uint64_t word, rlx_compare compare, uint64_t value) {
    switch (compare) {
    case RLX_COMPARE_EQ:
        return word == value;
    case RLX_COMPARE_NE:
        return word != value;
    case RLX_COMPARE_GT:
        return word > value;
    case RLX_COMPARE_GE:
        return word >= value;
    case RLX_COMPARE_LT:
        return word < value;
    default:
        return word <= value;
    }
}

static void a_range_holds_the_words_of_its_comparison(void **state) {
    static const uint64_t words[] = {
        0, 1, 2, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 1, UINT64_MAX};
    enum { WORDS = sizeof words / sizeof *words };
    (void)state;
    for (int compare = RLX_COMPARE_EQ; compare <= RLX_COMPARE_LE; ++compare) {
        for (int i = 0; i < WORDS * WORDS; ++i) {
            uint64_t word = words[i / WORDS], value = words[i % WORDS];
            rlx_word_range range = rlx_word_range_of((rlx_compare)compare, value);
            assert_int_equal(rlx_word_is_in(range, word),
                             compares(word, (rlx_compare)compare, value));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_holds_the_words_of_its_comparison),
    };
    return cmocka_run_group_tests_name("agree", tests, NULL, NULL);
}
