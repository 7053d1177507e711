/* SPDX-License-Identifier: Apache-2.0 */
/* Random models that are hard on the planner, compiled in every manner, against the oracle.
 *
 *     test_session_random [FIRST COUNT]     other seeds, to look for more
 */
#include "session/random_model.h"
#include "session/subject.h"
#include "support/agree.h"

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

/* Infinities, NaN and subnormal numbers in one input, on scalar C and on the best level. */
static bool check_special(rlx_device *const *on, uint64_t seed) {
    subject self;
    outcome first, second;
    char name[32];
    char *text = seed % 2 == 0 ? random_images(seed) : random_model(seed);
    snprintf(name, sizeof name, "special %u", (unsigned)seed);
    subject_open_text(&self, name, text);
    for (uint32_t run = 0; run < self.run_count && self.input_count != 0; run++)
        rlx_test_make_special(&self.inputs[run][(seed + run) % self.input_count], seed + run);
    subject_run(&self, &(manner){.device = on[0]}, &first);
    subject_run(&self, &(manner){.device = on[1]}, &second);
    bool is_good = outcomes_close(&self, &first, &second, "scalar C and the best level");
    if (!is_good) fprintf(stderr, "%s\n", text);
    outcome_free(&first);
    outcome_free(&second);
    subject_close(&self);
    free(text);
    return is_good;
}

static void special_numbers_agree_with_scalar_c(void **state) {
    rlx_device *on[2] = {subject_device("cpu:scalar", 1), subject_device("cpu", 2)};
    unsigned bad = 0;
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seed_count / SMALLER; seed++)
        bad += !check_special(on, seed);
    rlx_device_release(on[0]);
    rlx_device_release(on[1]);
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_models_agree_with_the_oracle),
        cmocka_unit_test(random_networks_of_images_agree_with_the_oracle),
        cmocka_unit_test(special_numbers_agree_with_scalar_c)};
    if (argc > 2) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = strtoull(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
