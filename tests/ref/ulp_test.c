/* SPDX-License-Identifier: Apache-2.0 */
/* How far the float unary ops are from the true value, against formulas of our own in a wider type.
 * As it stands, a sample of all exponents and the special values; `test_ref_ulp whole [op..]` tries
 * every f32 there is, on all processors (about five minutes per op on two). The table holds what
 * was seen, rounded up: a kernel may only become better without a change here. */
#include "base/thread.h"
#include "ir/op.h"
#include "ref/unary.h"
#include "support/support.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* Wider than double where the processor has it. Quad precision in software would take days; double
 * is wide enough for f32. */
#if LDBL_MANT_DIG == 64
typedef long double wide;
#define W(name) name##l
#else
typedef double wide;
#define W(name) name
#endif

typedef struct ulp_row {
    rlx_op op;
    double alpha, beta;
    wide (*truth)(wide x, wide alpha, wide beta);
    double f32, f64; /* most units in the last place from the truth: 0.5 is rounded exactly */
} ulp_row;

#define TRUTH(name, expression)                              \
    static wide true_##name(wide x, wide alpha, wide beta) { \
        (void)alpha;                                         \
        (void)beta;                                          \
        return (expression);                                 \
    }

static wide true_tanh_of_softplus(wide x) {
    wide e = W(exp)(x);
    return x > 60 ? 1 : e * (e + 2) / (e * (e + 2) + 2);
}

static wide logistic(wide x) {
    wide e = W(exp)(-W(fabs)(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

static wide gelu_slope(wide x) {
    const wide root = W(sqrt)(2 / W(acos)(-1));
    return 2 * root * x * (1 + (wide)0.044715 * x * x);
}

static wide between(wide x, wide least, wide most) {
    if (x < least) return least;
    return x > most ? most : x;
}

TRUTH(identity, x)
TRUTH(abs, W(fabs)(x))
TRUTH(neg, 0 - x)
TRUTH(sign, x > 0 ? 1 : x < 0 ? -1 : x)
TRUTH(floor, W(floor)(x))
TRUTH(ceil, W(ceil)(x))
TRUTH(round, W(nearbyint)(x))
TRUTH(sqrt, W(sqrt)(x))
TRUTH(rsqrt, 1 / W(sqrt)(x))
TRUTH(reciprocal, 1 / x)
TRUTH(square, x *x)
TRUTH(exp, W(exp)(x))
TRUTH(log, W(log)(x))
TRUTH(sin, W(sin)(x))
TRUTH(cos, W(cos)(x))
TRUTH(tan, W(tan)(x))
TRUTH(asin, W(asin)(x))
TRUTH(acos, W(acos)(x))
TRUTH(atan, W(atan)(x))
TRUTH(sinh, W(sinh)(x))
TRUTH(cosh, W(cosh)(x))
TRUTH(tanh, W(tanh)(x))
TRUTH(asinh, W(asinh)(x))
TRUTH(acosh, W(acosh)(x))
TRUTH(atanh, W(atanh)(x))
TRUTH(erf, W(erf)(x))
TRUTH(sigmoid, logistic(x))
TRUTH(relu, x > 0 ? x : 0)
TRUTH(leaky_relu, x > 0 ? x : alpha * x)
TRUTH(elu, x > 0 ? x : alpha * W(expm1)(x))
TRUTH(celu, x > 0 ? x : alpha * W(expm1)(x / alpha))
TRUTH(selu, x > 0 ? beta * x : beta * alpha * W(expm1)(x))
/* At the infinities the formulas below are inf / inf or 0 inf: NaN, as elsewhere. */
TRUTH(gelu, x *W(erfc)(-x *W(sqrt)(0.5)) / 2)
TRUTH(gelu_tanh, x *logistic(gelu_slope(x)))
TRUTH(silu, x *logistic(x))
TRUTH(mish, x *true_tanh_of_softplus(x))
TRUTH(hard_sigmoid, between(alpha *x + beta, 0, 1))
TRUTH(hard_swish, x *between(x / 6 + (wide)0.5, 0, 1))
TRUTH(softplus, x > 0 ? x + W(log1p)(W(exp)(-x)) : W(log1p)(W(exp)(x)))
TRUTH(softsign, x / (1 + W(fabs)(x)))
TRUTH(thresholded_relu, x > alpha ? x : 0)
TRUTH(shrink, x<-alpha ? x + beta : x> alpha ? x - beta : 0)
TRUTH(clip, between(x, alpha, beta))

/* Done in double and rounded to f32: what double is off by shows far behind the point. In f64 the
 * large figures are where the result is subnormal, close to a root or far out in a tail. */
#define DOUBLE_ROUNDED 0.500001
#define ROW(upper, lower, alpha, beta, f32, f64) \
    { RLX_OP_##upper, alpha, beta, true_##lower, f32, f64 }
static const ulp_row rows[] = {
    ROW(IDENTITY, identity, 0, 0, 0, 0),
    ROW(ABS, abs, 0, 0, 0, 0),
    ROW(NEG, neg, 0, 0, 0, 0),
    ROW(SIGN, sign, 0, 0, 0, 0),
    ROW(FLOOR, floor, 0, 0, 0, 0),
    ROW(CEIL, ceil, 0, 0, 0, 0),
    ROW(ROUND, round, 0, 0, 0, 0),
    ROW(SQRT, sqrt, 0, 0, 0.5, 0.5),
    ROW(RSQRT, rsqrt, 0, 0, DOUBLE_ROUNDED, 1.5),
    ROW(RECIPROCAL, reciprocal, 0, 0, 0.5, 0.5),
    ROW(SQUARE, square, 0, 0, 0.5, 0.5),
    ROW(EXP, exp, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(LOG, log, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(SIN, sin, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(COS, cos, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(TAN, tan, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(ASIN, asin, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(ACOS, acos, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(ATAN, atan, 0, 0, DOUBLE_ROUNDED, 0.6),
    ROW(SINH, sinh, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(COSH, cosh, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(TANH, tanh, 0, 0, DOUBLE_ROUNDED, 2.5),
    ROW(ASINH, asinh, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(ACOSH, acosh, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(ATANH, atanh, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(ERF, erf, 0, 0, DOUBLE_ROUNDED, 1),
    ROW(SIGMOID, sigmoid, 0, 0, DOUBLE_ROUNDED, 2.5),
    ROW(RELU, relu, 0, 0, 0, 0),
    ROW(LEAKY_RELU, leaky_relu, 0.01, 0, DOUBLE_ROUNDED, 0.5),
    ROW(ELU, elu, 1.25, 0, DOUBLE_ROUNDED, 2),
    ROW(CELU, celu, 1.25, 0, DOUBLE_ROUNDED, 2.5),
    ROW(SELU, selu, 1.67326319217681884765625, 1.05070102214813232421875, DOUBLE_ROUNDED, 2.5),
    ROW(GELU, gelu, 0, 0, DOUBLE_ROUNDED, 1500),
    ROW(GELU_TANH, gelu_tanh, 0, 0, DOUBLE_ROUNDED, 1500),
    ROW(SILU, silu, 0, 0, DOUBLE_ROUNDED, 400),
    ROW(MISH, mish, 0, 0, DOUBLE_ROUNDED, 400),
    ROW(HARD_SIGMOID, hard_sigmoid, 0.2, 0.5, DOUBLE_ROUNDED, 400),
    ROW(HARD_SWISH, hard_swish, 0, 0, DOUBLE_ROUNDED, 5000),
    ROW(SOFTPLUS, softplus, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(SOFTSIGN, softsign, 0, 0, DOUBLE_ROUNDED, 2),
    ROW(THRESHOLDED_RELU, thresholded_relu, 1, 0, 0, 0),
    ROW(SHRINK, shrink, 0.5, 0.25, DOUBLE_ROUNDED, 0.5),
    ROW(CLIP, clip, -1.5, 2.5, 0, 0),
};
enum { ROWS = sizeof rows / sizeof *rows, BATCH = 4096 };

/* The worst of some inputs. */
typedef struct ulp_worst {
    double ulps, x;
} ulp_worst;

static void worse(ulp_worst *worst, double ulps, double x) {
    if (ulps > worst->ulps) *worst = (ulp_worst){ulps, x};
}

/* |got - truth| in units of the last place that the truth would have with `digits` bits and least
 * and most exponent. Infinity stands one step past the largest number. */
static double distance(wide truth, wide got, int digits, int least, int most) {
    const wide end = W(ldexp)(1, most);
    if (isnan(truth) || isnan(got)) return isnan(truth) && isnan(got) ? 0 : INFINITY;
    truth = between(truth, -end, end);
    got = between(got, -end, end);
    if (truth == got) return 0;
    int exponent = truth == 0 ? least : W(ilogb)(truth);
    if (exponent < least) exponent = least;
    if (exponent > most - 1) exponent = most - 1;
    return (double)(W(ldexp)(W(fabs)(truth - got), digits - 1 - exponent));
}

static wide truth_of(const ulp_row *row, wide x) {
    return isnan(x) ? x : row->truth(x, row->alpha, row->beta);
}

static void try_f32(const ulp_row *row, const float *x, uint32_t count, ulp_worst *worst) {
    float y[BATCH];
    memcpy(y, x, count * sizeof *x);
    rlx_ref_unary_run_f32(row->op, y, count, row->alpha, row->beta);
    for (uint32_t i = 0; i < count; i++) {
        wide truth = truth_of(row, (wide)x[i]);
        if ((float)truth == y[i] && isfinite(y[i])) {
            worse(worst, truth == (wide)y[i] ? 0 : 0.5, (double)x[i]); /* at most */
            continue;
        }
        worse(worst, distance(truth, (wide)y[i], FLT_MANT_DIG, FLT_MIN_EXP - 1, FLT_MAX_EXP),
              (double)x[i]);
    }
}

static void try_f64(const ulp_row *row, const double *x, uint32_t count, ulp_worst *worst) {
    double y[BATCH];
    memcpy(y, x, count * sizeof *x);
    rlx_ref_unary_run_f64(row->op, y, count, row->alpha, row->beta);
    for (uint32_t i = 0; i < count; i++) {
        wide truth = truth_of(row, (wide)x[i]);
        worse(worst, distance(truth, (wide)y[i], DBL_MANT_DIG, DBL_MIN_EXP - 1, DBL_MAX_EXP), x[i]);
    }
}

/* f32 inputs by their bits: first, first + step, .. */
static void try_bits(const ulp_row *row, uint64_t first, uint64_t step, uint64_t count,
                     ulp_worst *worst) {
    float x[BATCH];
    while (count != 0) {
        uint32_t n = count < BATCH ? (uint32_t)count : BATCH;
        for (uint32_t i = 0; i < n; i++, first += step) {
            uint32_t bits = (uint32_t)first;
            memcpy(&x[i], &bits, sizeof bits);
        }
        try_f32(row, x, n, worst);
        count -= n;
    }
}

static const double special[] = {
    0.0,           0.5,           1.0,          1.5,          2.0,
    2.5,           3.0,           6.0,          0.25,         1.25,
    NAN,           INFINITY,      0x1p-149,     0x1p-126,     0x1.fffffep127,
    0x1.fffffep-1, 0x1.000002p0,  0x1.921fb6p0, 0x1.921fb6p1, 0x1.2d97c8p2,
    88.0,          88.75,         103.0,        104.0,        0x1p23,
    0x1p24,        0x1.000002p23, 12.0,         13.5,         37.0,
    0x1p-1074,     0x1p-1022,     DBL_MAX,      709.0,        710.0,
    745.0,         746.0,         1e154,        1e-154,       26.5,
    38.25,         0x1p53,
};

static void assert_bounds(const ulp_row *row, const char *type, double bound, ulp_worst worst) {
    if (worst.ulps <= bound) return;
    fail_msg("%s %s(%a): %.9g ulp from the true value, stated are %.9g", type, rlx_op_name(row->op),
             worst.x, worst.ulps, bound);
}

static void sampled_f32_results_are_as_near_as_stated(void **state) {
    enum { STEP = 21467 };
    (void)state;
    for (uint32_t r = 0; r < ROWS; r++) {
        ulp_worst worst = {0};
        for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
            float x[2] = {(float)special[i], -(float)special[i]};
            try_f32(&rows[r], x, 2, &worst);
        }
        try_bits(&rows[r], 0, STEP, (UINT64_C(1) << 32) / STEP + 1, &worst);
        assert_bounds(&rows[r], "f32", rows[r].f32, worst);
    }
}

static double double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Half of them of any exponent, half of those that networks see. */
static void sampled_f64_results_are_as_near_as_stated(void **state) {
    rlx_test_random random = rlx_test_seed(64);
    double x[BATCH];
    (void)state;
    if (sizeof(wide) == sizeof(double)) skip();
    for (uint32_t r = 0; r < ROWS; r++) {
        ulp_worst worst = {0};
        for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
            try_f64(&rows[r], (double[]){special[i], -special[i]}, 2, &worst);
        }
        for (uint32_t k = 0; k < 16; k++) {
            for (uint32_t i = 0; i < BATCH; i++) {
                uint64_t bits = rlx_test_next(&random);
                if (i % 2 == 0)
                    bits = (bits & ~(UINT64_C(0x7ff) << 52)) | ((1016 + bits % 17) << 52);
                x[i] = double_of(bits);
            }
            try_f64(&rows[r], x, BATCH, &worst);
        }
        assert_bounds(&rows[r], "f64", rows[r].f64, worst);
    }
}

static void every_float_unary_op_is_in_the_table(void **state) {
    (void)state;
    assert_int_equal(ROWS, RLX_OP_CLIP - RLX_OP_IDENTITY + 1);
    for (uint32_t r = 0; r < ROWS; r++)
        assert_int_equal(rows[r].op, RLX_OP_IDENTITY + r);
}

/* The whole range: workers take blocks of bits until none is left. */
typedef struct sweep {
    const ulp_row *row;
    _Atomic uint64_t *next;
    ulp_worst worst;
} sweep;

static void *sweep_blocks(void *argument) {
    const uint64_t block = UINT64_C(1) << 20;
    sweep *self = argument;
    for (;;) {
        uint64_t first = atomic_fetch_add(self->next, block);
        if (first >> 32 != 0) return NULL;
        try_bits(self->row, first, 1, block, &self->worst);
    }
}

static ulp_worst sweep_whole_range(const ulp_row *row) {
    enum { MOST = 64 };
    _Atomic uint64_t next = 0;
    sweep sweeps[MOST];
    pthread_t threads[MOST];
    uint32_t count = rlx_cpu_count() < MOST ? rlx_cpu_count() : MOST;
    ulp_worst worst = {0};
    for (uint32_t i = 0; i < count; i++) {
        sweeps[i] = (sweep){.row = row, .next = &next};
        assert_ok(rlx_thread_start(&threads[i], sweep_blocks, &sweeps[i]));
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        worse(&worst, sweeps[i].worst.ulps, sweeps[i].worst.x);
    }
    return worst;
}

/* What `whole` was asked for: op names, none meaning all. */
static char *const *asked;

static bool is_asked(rlx_op op) {
    for (char *const *name = asked; *name != NULL; name++) {
        if (strcmp(*name, rlx_op_name(op)) == 0) return true;
    }
    return *asked == NULL;
}

static void every_f32_result_is_as_near_as_stated(void **state) {
    (void)state;
    for (uint32_t r = 0; r < ROWS; r++) {
        if (!is_asked(rows[r].op)) continue;
        ulp_worst worst = sweep_whole_range(&rows[r]);
        print_message("%-16s %.9f ulp at %a\n", rlx_op_name(rows[r].op), worst.ulps, worst.x);
        assert_bounds(&rows[r], "f32", rows[r].f32, worst);
    }
}

int main(int count, char **arguments) {
    const struct CMUnitTest sampled[] = {
        cmocka_unit_test(every_float_unary_op_is_in_the_table),
        cmocka_unit_test(sampled_f32_results_are_as_near_as_stated),
        cmocka_unit_test(sampled_f64_results_are_as_near_as_stated),
    };
    const struct CMUnitTest whole[] = {
        cmocka_unit_test(every_f32_result_is_as_near_as_stated),
    };
    if (count > 1 && strcmp(arguments[1], "whole") == 0) {
        asked = arguments + 2;
        return cmocka_run_group_tests(whole, NULL, NULL);
    }
    return cmocka_run_group_tests(sampled, NULL, NULL);
}
