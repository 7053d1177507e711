/* SPDX-License-Identifier: Apache-2.0 */
/* Nms, roi_align and unique against slow code that says the same otherwise. */
#include "ref/dense.h"

static double area_of(const double *b) {
    return fabs(b[2] - b[0]) * fabs(b[3] - b[1]);
}

static double overlap_of(const double *a, const double *b) {
    double sides[2];
    for (int i = 0; i < 2; i++) {
        double low = fmax(fmin(a[i], a[i + 2]), fmin(b[i], b[i + 2]));
        double high = fmin(fmax(a[i], a[i + 2]), fmax(b[i], b[i + 2]));
        sides[i] = high > low ? high - low : 0;
    }
    double common = sides[0] * sides[1];
    return common <= 0 ? 0 : common / (area_of(a) + area_of(b) - common);
}

enum { BATCHES = 2, CLASSES = 3, BOXES = 40 };

/* Takes the best of what is left, and drops what overlaps it, until nothing is left. */
static int64_t slow_nms(const double *boxes, const double *scores, int64_t most, double overlap,
                        double least, double *rows) {
    int64_t found = 0;
    for (int64_t group = 0; group < BATCHES * CLASSES; group++) {
        const double *at = boxes + group / CLASSES * BOXES * 4;
        const double *score = scores + group * BOXES;
        bool is_left[BOXES];
        for (int64_t i = 0; i < BOXES; i++)
            is_left[i] = score[i] > least;
        for (int64_t taken = 0; taken < most; taken++) {
            int64_t best = -1;
            for (int64_t i = 0; i < BOXES; i++) {
                if (is_left[i] && (best < 0 || score[i] > score[best])) best = i;
            }
            if (best < 0) break;
            const double row[] = {(double)(group / CLASSES), (double)(group % CLASSES),
                                  (double)best};
            memcpy(rows + 3 * found++, row, sizeof row);
            for (int64_t i = 0; i < BOXES; i++)
                is_left[i] &= i != best && overlap_of(at + 4 * best, at + 4 * i) <= overlap;
        }
    }
    return found;
}

static void nms_takes_what_the_slow_one_takes(void **state) {
    (void)state;
    rlx_test_random random = rlx_test_seed(7);
    for (int64_t most = 0; most < 9; most += 4) {
        rlx_nms_attrs attrs = {.bound = most == 8 ? 6 : 0};
        operand in[5] = {
            operand_random(&random, RLX_DTYPE_F32, 3, (int64_t[]){BATCHES, BOXES, 4}, 0, 1),
            operand_random(&random, RLX_DTYPE_F32, 3, (int64_t[]){BATCHES, CLASSES, BOXES}, 0, 1),
            operand_of(RLX_DTYPE_I64, 0, NULL, &(double){(double)most}),
            operand_of(RLX_DTYPE_F32, 1, (int64_t[]){1}, &(double){0.25}),
            operand_of(RLX_DTYPE_F32, 0, NULL, &(double){0.125})};
        for (int64_t i = 0; i < in[1].count; i += 3) /* ties */
            in[1].values[i] = 0.5;
        operand out[2];
        double rows[3 * BATCHES * CLASSES * BOXES];
        run_dense(RLX_OP_NMS, &attrs, in, 5, out, 2);
        int64_t found =
            slow_nms(in[0].values, in[1].values, most == 8 ? 6 : most, 0.25, 0.125, rows);
        assert_int_equal(found, (int64_t)out[1].values[0]);
        for (int64_t i = 0; i < 3 * found; i++)
            assert_int_equal((int64_t)rows[i], (int64_t)out[0].values[i]);
        operands_free(in, 5);
        operands_free(out, 2);
    }
}

/* Of a ramp, a bin's mean is the ramp at the bin's middle, as long as no point is at the edge. */
static void roi_align_of_a_ramp_is_the_ramp(void **state) {
    (void)state;
    enum { SIDE = 12, REGIONS = 2, BINS = 3 };
    static const rlx_dtype dtypes[] = {RLX_DTYPE_F32, RLX_DTYPE_F64, RLX_DTYPE_F16};
    double ramp[2 * SIDE * SIDE];
    const double regions[REGIONS * 4] = {2, 3, 8, 6, 4, 4, 10, 10}, batch[] = {1, 0};
    for (int i = 0; i < 2 * SIDE * SIDE; i++)
        ramp[i] = (double)(i / SIDE % SIDE) * 2 + i % SIDE + (i >= SIDE * SIDE ? 64 : 0);
    for (int64_t samples = 0; samples < 9; samples++) {
        rlx_roi_align_attrs attrs = {
            .height = BINS, .width = BINS, .samples = samples % 3, .half_pixel = true};
        rlx_dtype dtype = dtypes[samples / 3];
        operand in[3] = {operand_of(dtype, 4, (int64_t[]){2, 1, SIDE, SIDE}, ramp),
                         operand_of(dtype, 2, (int64_t[]){REGIONS, 4}, regions),
                         operand_of(RLX_DTYPE_I64, 1, (int64_t[]){REGIONS}, batch)};
        operand out;
        double expected[REGIONS * BINS * BINS];
        for (int i = 0; i < REGIONS * BINS * BINS; i++) {
            const double *r = regions + i / (BINS * BINS) * 4;
            double x = r[0] - 0.5 + (i % BINS + 0.5) * (r[2] - r[0]) / BINS;
            double y = r[1] - 0.5 + (i / BINS % BINS + 0.5) * (r[3] - r[1]) / BINS;
            expected[i] = 2 * y + x + (batch[i / (BINS * BINS)] != 0 ? 64 : 0);
        }
        run_dense(RLX_OP_ROI_ALIGN, &attrs, in, 3, &out, 1);
        assert_near(expected, &out, 1e-4, tolerance_of(dtype));
        operands_free(in, 3);
        operand_free(&out);
    }
}

static void unique_elements_are_sorted_and_counted(void **state) {
    (void)state;
    const double x[] = {3, 1, NAN, 1, -0.0, 0, NAN, 3, 3};
    const double sorted[] = {0, 1, 3, NAN}, first[] = {4, 1, 0, 2}, counts[] = {2, 2, 3, 2};
    const double inverse[] = {2, 1, 3, 1, 0, 0, 3, 2, 2};
    const double unsorted[] = {3, 1, NAN, 0};
    operand in = operand_of(RLX_DTYPE_F32, 2, (int64_t[]){3, 3}, x), out[5];
    rlx_unique_attrs attrs = {0};
    run_dense(RLX_OP_UNIQUE, &attrs, &in, 1, out, 5);
    assert_int_equal(4, (int)out[4].values[0]);
    for (int i = 0; i < 4; i++) {
        assert_true(sorted[i] == out[0].values[i] || (isnan(sorted[i]) && isnan(out[0].values[i])));
        assert_int_equal((int)first[i], (int)out[1].values[i]);
        assert_int_equal((int)counts[i], (int)out[3].values[i]);
    }
    assert_near(inverse, &out[2], 0, 0);
    operands_free(out, 5);
    attrs.unsorted = true;
    run_dense(RLX_OP_UNIQUE, &attrs, &in, 1, out, 5);
    for (int i = 0; i < 4; i++)
        assert_true(unsorted[i] == out[0].values[i] ||
                    (isnan(unsorted[i]) && isnan(out[0].values[i])));
    operands_free(out, 5);
    operand_free(&in);
}

static void unique_of_nothing_is_nothing(void **state) {
    (void)state;
    operand in = operand_of(RLX_DTYPE_I32, 2, (int64_t[]){3, 0}, NULL), out[5];
    rlx_unique_attrs attrs = {0};
    run_dense(RLX_OP_UNIQUE, &attrs, &in, 1, out, 5);
    assert_int_equal(0, (int)out[4].values[0]);
    operands_free(out, 5);
    operand_free(&in);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nms_takes_what_the_slow_one_takes),
        cmocka_unit_test(roi_align_of_a_ramp_is_the_ramp),
        cmocka_unit_test(unique_elements_are_sorted_and_counted),
        cmocka_unit_test(unique_of_nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
