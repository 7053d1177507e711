/* SPDX-License-Identifier: Apache-2.0 */
/* The promise of the verifier: whatever passes it runs inside its buffers. Plans with every op are
 * damaged at random, as a hostile file would be, and those that still pass are run on the scalar
 * kernels. Meant for the address sanitizer; elsewhere it shows that nothing crashes. */
#include "build.h"
#include "execute.h"
#include "support/support.h"

#include "plan/file.h"

#include <stdlib.h>

static void every_op_verifies_and_runs(void **state) {
    (void)state;
    for (uint32_t i = 0; i < family_count(); i++) {
        rlx_plan *plan = NULL;
        assert_ok(build_family(NULL, i, &plan));
        assert_ok(rlx_plan_verify(plan));
        uint32_t jumps = plan->steps.items[plan->steps.count - 1].kind == RLX_STEP_JUMP;
        assert_int_equal(execute_plan(plan, i), plan->steps.count - jumps);
        rlx_plan_destroy(plan);
    }
}

static void damage(rlx_test_random *random, uint8_t *data, size_t bytes) {
    static const uint8_t telling[] = {0, 1, 2, 3, 7, 8, 0x7f, 0x80, 0xfe, 0xff};
    for (uint64_t n = 1 + rlx_test_below(random, 3); n > 0; n--) {
        size_t at = (size_t)rlx_test_below(random, bytes);
        switch (rlx_test_below(random, 4)) {
        case 0:
            data[at] = (uint8_t)rlx_test_next(random);
            break;
        case 1:
            data[at] = telling[rlx_test_below(random, sizeof telling)];
            break;
        case 2:
            data[at] = (uint8_t)(data[at] + 1 - 2 * rlx_test_below(random, 2));
            break;
        default:
            data[at] = (uint8_t)(data[at] ^ (1u << rlx_test_below(random, 8)));
        }
    }
}

/* Damages the encoded plan `trials` times; returns how many of them still passed. */
static uint32_t try_damaged(const rlx_plan *good, uint32_t trials, rlx_test_random *random) {
    rlx_text section = {0};
    uint32_t passed = 0;
    rlx_plan_encode(good, &section);
    uint8_t *copy = malloc(section.length);
    for (uint32_t i = 0; i < trials; i++) {
        rlx_plan *plan = NULL;
        memcpy(copy, section.data, section.length);
        damage(random, copy, section.length);
        rlx_status status = rlx_plan_decode(NULL, copy, section.length, &plan);
        if (status == RLX_OK) status = rlx_plan_verify(plan);
        if (status == RLX_OK) {
            passed++;
            execute_plan(plan, i);
        } else {
            assert_true(status == RLX_PARSE || status == RLX_INVALID_PLAN);
        }
        rlx_plan_destroy(plan);
    }
    free(copy);
    rlx_text_free(&section);
    return passed;
}

static void damaged_plans_are_refused_or_run_inside_their_buffers(void **state) {
    (void)state;
    const char *wanted = getenv("RLX_HOSTILE_TRIALS"); /* more, by hand */
    uint32_t trials = wanted == NULL ? 3000 : (uint32_t)strtoul(wanted, NULL, 10);
    rlx_test_random random = rlx_test_seed(3);
    for (uint32_t i = 0; i < family_count(); i++) {
        rlx_plan *plan = NULL;
        assert_ok(build_family(NULL, i, &plan));
        uint32_t passed = try_damaged(plan, trials, &random);
        assert_true(passed > trials / 100 && passed < trials);
        rlx_plan_destroy(plan);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_verifies_and_runs),
        cmocka_unit_test(damaged_plans_are_refused_or_run_inside_their_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
