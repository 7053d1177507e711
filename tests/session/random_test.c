/* SPDX-License-Identifier: Apache-2.0 */
/* Random models that are hard on the planner, compiled in every manner, against the oracle.
 *
 *     test_session_random [FIRST COUNT]     other seeds, to look for more
 */
#include "session/random_model.h"
#include "session/subject.h"

#include <stdio.h>
#include <stdlib.h>

static rlx_test_folder folder;
static uint64_t first_seed = 1, seed_count = 700;
enum { SMALLER = 6 }; /* networks of images are larger, and so many times fewer */

static bool agrees(subject *self, const outcome *expected, const manner *how) {
    outcome actual;
    char what[96];
    snprintf(what, sizeof what, "oracle and passes off %llx%s%s",
             (unsigned long long)how->disabled_passes, how->without_reuse ? ", no reuse" : "",
             how->poison ? ", poison" : "");
    subject_run(self, how, &actual);
    bool is_good = outcomes_close(self, expected, &actual, what);
    outcome_free(&actual);
    return is_good;
}

static bool check_model(rlx_device *device, uint64_t seed, char *(*make)(uint64_t seed)) {
    char name[32];
    char *text = make(seed);
    rlx_test_random random = rlx_test_seed(seed ^ 0x5eed);
    uint64_t all = subject_all_passes();
    const char *path = rlx_test_path(&folder, "program");
    const manner manners[] = {
        {.device = device, .poison = true},
        {.device = device, .without_reuse = true},
        {.device = device, .disabled_passes = all},
        {.device = device, .poison = true, .keep_inputs = true},
        {.device = device, .through_file = path},
        {.device = device, .poison = true, .disabled_passes = rlx_test_next(&random) & all},
        {.device = device,
         .poison = true,
         .disabled_passes = UINT64_C(1) << rlx_test_below(&random, rlx_pass_count())},
    };
    subject self;
    outcome expected;
    bool is_good = true;
    snprintf(name, sizeof name, "random %u", (unsigned)seed);
    subject_open_text(&self, name, text);
    subject_run_oracle(&self, &expected);
    for (size_t i = 0; i < sizeof manners / sizeof *manners && is_good; i++)
        is_good = agrees(&self, &expected, &manners[i]);
    if (!is_good) fprintf(stderr, "%s\n", text); /* longer than cmocka prints */
    outcome_free(&expected);
    subject_close(&self);
    free(text);
    return is_good;
}

static void check_models(uint64_t count, char *(*make)(uint64_t seed)) {
    rlx_device *device = subject_device("cpu", 2);
    unsigned bad = 0;
    rlx_test_folder_create(&folder);
    for (uint64_t seed = first_seed; seed < first_seed + count && bad < 3; seed++)
        bad += !check_model(device, seed, make);
    rlx_test_folder_remove(&folder);
    rlx_device_release(device);
    assert_int_equal(bad, 0);
}

static void random_models_agree_with_the_oracle(void **state) {
    (void)state;
    check_models(seed_count, random_model);
}

static void random_networks_of_images_agree_with_the_oracle(void **state) {
    (void)state;
    check_models(seed_count / SMALLER + 1, random_images);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models_agree_with_the_oracle),
        cmocka_unit_test(random_networks_of_images_agree_with_the_oracle)};
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
