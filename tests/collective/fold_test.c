/* SPDX-License-Identifier: Apache-2.0 */
/* Folds of every level give the bits of the plain one: odd counts, any number of sources, targets
 * in place, specials. */
#include "collective/fold.h"

#include "base/cpu.h"
#include "support/support.h"

#include <stdlib.h>

enum { MOST = 3333, FEW = 333, SOURCES = 5 };

static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16, RLX_DTYPE_BF16,
                                   RLX_DTYPE_I32, RLX_DTYPE_I64, RLX_DTYPE_U8};

/* Bits at random; floats among them are of every kind, NaN and infinity included. Of f32 and f64
 * with NaN only some are kept: which payload a sum of two has is the processor's choice. */
static void fill(rlx_test_random *random, rlx_dtype dtype, uint8_t *out, uint64_t count) {
    uint32_t bytes = rlx_dtype_block_bytes(dtype);
    for (uint64_t i = 0; i < count * bytes; ++i)
        out[i] = (uint8_t)rlx_test_next(random);
    bool is_finite = rlx_test_below(random, 2) == 0; /* of halves */
    for (uint64_t i = 0; i < count; ++i) {
        float f;
        double d;
        if (is_finite && (dtype == RLX_DTYPE_F16 || dtype == RLX_DTYPE_BF16)) {
            out[i * bytes + 1] &= 0xbf;
        } else if (dtype == RLX_DTYPE_F32) {
            memcpy(&f, out + i * bytes, sizeof f);
            f = f == f ? f : 1.0f;
            memcpy(out + i * bytes, &f, sizeof f);
        } else if (dtype == RLX_DTYPE_F64) {
            memcpy(&d, out + i * bytes, sizeof d);
            d = d == d ? d : 1.0;
            memcpy(out + i * bytes, &d, sizeof d);
        }
    }
}

static void fold_case(rlx_test_random *random, const rlx_fold_table *table, rlx_dtype dtype,
                      rlx_reduction reduction) {
    uint32_t bytes = rlx_dtype_block_bytes(dtype);
    uint32_t source_count = 1 + (uint32_t)rlx_test_below(random, SOURCES);
    uint64_t count = rlx_test_below(random, rlx_test_below(random, 8) == 0 ? MOST : FEW);
    uint8_t *inputs[SOURCES], *plain = rlx_test_guarded(MOST * 8), *other;
    const void *sources[SOURCES];
    void *targets[SOURCES];
    for (uint32_t i = 0; i < source_count; ++i) {
        inputs[i] = rlx_test_guarded(count * bytes);
        fill(random, dtype, inputs[i], count);
        sources[i] = targets[i] = inputs[i];
    }
    targets[0] = plain;
    rlx_fold_with(&rlx_fold_plain, dtype, reduction, sources, source_count, targets, 1, count);
    other = rlx_test_guarded(count * bytes);
    targets[0] = other;
    rlx_fold_with(table, dtype, reduction, sources, source_count, targets, source_count, count);
    for (uint32_t i = 0; i < source_count; ++i) {
        if (count != 0) assert_memory_equal(targets[i], plain, count * bytes);
    }
    for (uint32_t i = 0; i < source_count; ++i)
        rlx_test_guarded_free(inputs[i]);
    rlx_test_guarded_free(plain);
    rlx_test_guarded_free(other);
}

static void every_level_folds_to_the_same_bits(void **state) {
    rlx_test_random random = rlx_test_seed(5);
    (void)state;
    for (uint32_t i = 0; i < 3000; ++i) {
        fold_case(&random, rlx_fold_best(), dtypes[i % 7], (rlx_reduction)(i / 7 % 5));
    }
}

static void means_of_integers_round_toward_zero(void **state) {
    const int32_t a[] = {INT32_MAX, -3, 7}, b[] = {INT32_MAX, -4, 0};
    const uint8_t c[] = {255, 1}, d[] = {254, 0};
    const void *wide[] = {a, b}, *narrow[] = {c, d};
    int32_t wide_out[3];
    uint8_t narrow_out[2];
    void *wide_target[] = {wide_out}, *narrow_target[] = {narrow_out};
    (void)state;
    rlx_fold_with(rlx_fold_best(), RLX_DTYPE_I32, RLX_REDUCTION_MEAN, wide, 2, wide_target, 1, 3);
    rlx_fold_with(rlx_fold_best(), RLX_DTYPE_U8, RLX_REDUCTION_MEAN, narrow, 2, narrow_target, 1,
                  2);
    assert_int_equal(wide_out[0], INT32_MAX);
    assert_int_equal(wide_out[1], -3);
    assert_int_equal(wide_out[2], 3);
    assert_int_equal(narrow_out[0], 254);
    assert_int_equal(narrow_out[1], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_folds_to_the_same_bits),
        cmocka_unit_test(means_of_integers_round_toward_zero),
    };
    return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
