/* SPDX-License-Identifier: Apache-2.0 */
/* Every test graph in every manner: as the oracle says, with each pass left out, with all left out,
 * with and without reuse of memory, with what is dead poisoned.
 *
 *     test_session_passes [FILE..]     these files only
 */
#include "session/subject.h"

#include <stdio.h>

typedef struct tally {
    rlx_device *device;
    unsigned count, bad;
} tally;

static bool agrees(subject *self, const outcome *expected, const manner *how, const char *what,
                   bool (*compare)(const subject *, const outcome *, const outcome *,
                                   const char *)) {
    outcome actual;
    subject_run(self, how, &actual);
    bool is_good = compare(self, expected, &actual, what);
    outcome_free(&actual);
    return is_good;
}

/* Poison stays on: what the memory plan would break without the pass shows as NaN. */
static bool agrees_without_passes(subject *self, const outcome *expected, rlx_device *device) {
    manner how = {.device = device, .poison = true};
    bool is_good = true;
    for (uint32_t pass = 0; pass < rlx_pass_count(); pass++) {
        char what[64];
        snprintf(what, sizeof what, "without pass %s", rlx_pass_name(pass));
        how.disabled_passes = UINT64_C(1) << pass;
        is_good &= agrees(self, expected, &how, what, outcomes_close);
    }
    how.disabled_passes = subject_all_passes();
    return is_good & agrees(self, expected, &how, "without any pass", outcomes_close);
}

static void check(subject *self, void *user) {
    tally *all = user;
    manner how = {.device = all->device};
    outcome oracle, plain;
    subject_run_oracle(self, &oracle);
    subject_run(self, &how, &plain);
    bool is_good = outcomes_close(self, &oracle, &plain, "oracle and program");
    how.without_reuse = true;
    is_good &= agrees(self, &plain, &how, "without reuse", outcomes_equal);
    how = (manner){.device = all->device, .poison = true};
    is_good &= agrees(self, &plain, &how, "poison", outcomes_equal);
    is_good &= agrees_without_passes(self, &plain, all->device);
    outcome_free(&plain);
    outcome_free(&oracle);
    all->count++;
    all->bad += !is_good;
}

static void every_manner_gives_the_same(void **state) {
    tally all = {.device = subject_device("cpu", 2)};
    (void)state;
    subject_for_each(check, &all);
    rlx_device_release(all.device);
    if (all.bad != 0) fail_msg("%u of %u graphs", all.bad, all.count);
    assert_true(all.count > 600);
}

static int check_files(int count, char **paths) {
    tally all = {.device = subject_device("cpu", 2)};
    for (int i = 0; i < count; i++) {
        subject self;
        subject_open_file(&self, paths[i]);
        check(&self, &all);
        subject_close(&self);
    }
    rlx_device_release(all.device);
    return all.bad != 0;
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_manner_gives_the_same)};
    if (argc > 1) return check_files(argc - 1, argv + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
