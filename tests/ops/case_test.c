/* SPDX-License-Identifier: Apache-2.0 */
/* The case runner itself: it must see differences where there are some. */
#include "ops/case.h"
#include "support/support.h"

#include <math.h>

static void differences_are_seen(void **state) {
    (void)state;
    float wanted[3] = {1, NAN, INFINITY}, got[3] = {1.00005f, NAN, INFINITY};
    rlx_case self = {0};
    rlx_test_array expected = {RLX_DTYPE_F32, {1, {3}}, 12, wanted};
    rlx_test_array actual = {RLX_DTYPE_F32, {1, {3}}, 12, got};
    assert_ok(rlx_case_compare(&self, &expected, &actual));
    got[0] = 1.001f;
    assert_status(RLX_DIFFERS, rlx_case_compare(&self, &expected, &actual));
    assert_error_has("element 0: expected 1, got 1.00");
    self = (rlx_case){.relative = 0.01, .has_tolerance = true};
    assert_ok(rlx_case_compare(&self, &expected, &actual));
    got[1] = 0;
    assert_status(RLX_DIFFERS, rlx_case_compare(&self, &expected, &actual));
    got[1] = NAN;
    got[2] = -INFINITY;
    assert_status(RLX_DIFFERS, rlx_case_compare(&self, &expected, &actual));
    actual.shape.dims[0] = 2;
    assert_status(RLX_DIFFERS, rlx_case_compare(&self, &expected, &actual));
    assert_error_has("expected f32[3], got f32[2]");
}

static void integers_are_exact(void **state) {
    (void)state;
    int64_t wanted = INT64_MAX, got = INT64_MAX - 1;
    rlx_case self = {.relative = 1, .has_tolerance = true};
    rlx_test_array expected = {RLX_DTYPE_I64, {0, {0}}, 8, &wanted};
    rlx_test_array actual = {RLX_DTYPE_I64, {0, {0}}, 8, &got};
    assert_status(RLX_DIFFERS, rlx_case_compare(&self, &expected, &actual));
}

static void evaluate(const char *text, const rlx_test_array *inputs, uint32_t count,
                     rlx_status expected) {
    rlx_graph *graph = NULL;
    rlx_test_oracle *oracle = NULL;
    rlx_test_array output = {0};
    assert_ok(rlx_graph_parse(NULL, text, strlen(text), &graph));
    rlx_status status = rlx_test_oracle_create(graph, inputs, count, &oracle);
    if (status == RLX_OK) status = rlx_test_oracle_run(oracle, inputs, count, &output);
    assert_status(expected, status);
    rlx_test_array_free(&output);
    rlx_test_oracle_destroy(oracle);
    rlx_graph_destroy(graph);
}

static void inputs_that_do_not_fit_are_refused(void **state) {
    (void)state;
    float data[4] = {0};
    rlx_test_array two[2] = {{RLX_DTYPE_F32, {1, {2}}, 8, data},
                             {RLX_DTYPE_F32, {1, {4}}, 16, data}};
    const char *text = "rlx 1\nsymbol N\ninput a : f32[N]\ninput b : f32[N]\n"
                       "y = add(a, b)\noutput y\n";
    evaluate(text, two, 1, RLX_INVALID_ARGUMENT);
    evaluate(text, two, 2, RLX_MISMATCH);
    assert_error_has("symbol 'N' is 2 and 4");
    two[1] = two[0];
    evaluate(text, two, 2, RLX_OK);
    two[1].dtype = RLX_DTYPE_I32;
    evaluate(text, two, 2, RLX_MISMATCH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_seen),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(inputs_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
