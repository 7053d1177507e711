/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the elementwise cases on the scalar kernels and measures them in steps of the dtype, much
 * closer than the tolerances that the cases grant every backend: what is rounded once is exact, the
 * rest within one step (f64: 4e-12, as the argument of a
 * tail is itself rounded). */
#include "ir/dtype.h"
#include "ops/case.h"
#include "support/support.h"

#include <dirent.h>
#include <stdio.h>

#define CASES "../ops/cases/elementwise"

/* Ops that are a single rounding of an exact result, or none. */
static bool is_exact(const char *name) {
    static const char *const rounded_once[] = {
        "abs_",    "add_",  "cast_", "ceil_",  "clip_",  "div_",    "equal_",      "floor_",
        "fmod_",   "great", "int",   "less_",  "logic",  "max_",    "min_",        "mod_",
        "mul_",    "neg_",  "not_",  "predi",  "prelu_", "relu_",   "reciprocal_", "round_",
        "shrink_", "sign_", "sqrt_", "square", "sub_",   "thresho", "where_"};
    if (strstr(name, "_integer") != NULL) return true;
    for (size_t i = 0; i < sizeof rounded_once / sizeof rounded_once[0]; i++) {
        if (strncmp(name, rounded_once[i], strlen(rounded_once[i])) == 0) return true;
    }
    return false;
}

/* The place of a float on the number line of its dtype; both zeros are one place. */
static int64_t place_of(rlx_dtype dtype, const void *data, uint64_t index) {
    uint32_t bytes = rlx_dtype_block_bytes(dtype);
    uint64_t bits = 0, sign = UINT64_C(1) << (8 * bytes - 1);
    memcpy(&bits, (const char *)data + index * bytes, bytes); /* little-endian */
    return (bits & sign) != 0 ? -(int64_t)(bits & ~sign) : (int64_t)bits;
}

static uint64_t steps_between(const rlx_test_array *a, const rlx_test_array *b, uint64_t i) {
    double x = rlx_load_f64(a->dtype, a->data, (int64_t)i);
    double y = rlx_load_f64(b->dtype, b->data, (int64_t)i);
    if (x != x || y != y) return x != x && y != y ? 0 : UINT64_MAX;
    if (x == y) return 0;
    int64_t from = place_of(a->dtype, a->data, i), to = place_of(b->dtype, b->data, i);
    return from < to ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
}

static void compare_steps(const char *name, uint32_t output, const rlx_test_array *expected,
                          const rlx_test_array *actual) {
    bool is_float = rlx_dtype_row_of(expected->dtype)->class_ == RLX_CLASS_FLOAT;
    uint64_t count = 0, allowed = is_exact(name)                     ? 0
                                  : expected->dtype == RLX_DTYPE_F64 ? 1 << 14
                                                                     : 1;
    assert_int_equal(expected->dtype, actual->dtype);
    assert_ok(rlx_shape_elements(&expected->shape, &count));
    for (uint64_t i = 0; i < count; i++) {
        double wanted = rlx_load_f64(expected->dtype, expected->data, (int64_t)i);
        double got = rlx_load_f64(actual->dtype, actual->data, (int64_t)i);
        uint64_t steps = is_float ? steps_between(expected, actual, i) : wanted != got;
        if (steps > allowed)
            fail_msg("%s, output %u (%s), element %u: expected %.17g, got %.17g", name, output,
                     rlx_dtype_name(expected->dtype), (unsigned)i, wanted, got);
    }
}

static void run_case(const char *name) {
    static rlx_test_array inputs[RLX_CASE_MAX_ARRAYS], outputs[RLX_CASE_MAX_ARRAYS],
        expected[RLX_CASE_MAX_ARRAYS];
    static rlx_type types[RLX_CASE_MAX_ARRAYS];
    char folder[512];
    rlx_case self;
    rlx_test_oracle *oracle = NULL;
    uint32_t in_count = 0;
    snprintf(folder, sizeof folder, CASES "/%s", name);
    assert_ok(rlx_case_open(folder, &self));
    uint32_t out_count = self.model->outputs.count;
    for (uint32_t i = 0; i < self.model->values.count; i++) {
        if (self.model->values.items[i].kind == RLX_VALUE_INPUT)
            types[in_count++] = self.model->values.items[i].type;
    }
    assert_ok(rlx_case_arrays(&self, true, 0, types, in_count, inputs));
    assert_ok(rlx_test_oracle_create(self.model, inputs, in_count, &oracle));
    if (self.error[0] == 0) {
        assert_ok(rlx_test_oracle_run(oracle, inputs, in_count, outputs));
        for (uint32_t i = 0; i < out_count; i++)
            types[i] =
                rlx_type_make(outputs[i].dtype, outputs[i].shape.dims, outputs[i].shape.rank);
        assert_ok(rlx_case_arrays(&self, false, 0, types, out_count, expected));
        for (uint32_t i = 0; i < out_count; i++)
            compare_steps(name, i, &expected[i], &outputs[i]);
        rlx_case_free_arrays(outputs, out_count);
        rlx_case_free_arrays(expected, out_count);
    }
    rlx_case_free_arrays(inputs, in_count);
    rlx_test_oracle_destroy(oracle);
    rlx_case_close(&self);
}

static void every_case_is_exact_or_one_step_off(void **state) {
    (void)state;
    DIR *folder = opendir(CASES);
    struct dirent *entry;
    unsigned count = 0;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, "onnx_", 5) == 0) continue;
        run_case(entry->d_name);
        count++;
    }
    closedir(folder);
    assert_true(count > 100);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_exact_or_one_step_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
