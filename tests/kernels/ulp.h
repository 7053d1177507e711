/* SPDX-License-Identifier: Apache-2.0 */
/* The functions whose distance from the truth ulp_test.c measures. */
#ifndef RLX_TESTS_KERNELS_ULP_H
#define RLX_TESTS_KERNELS_ULP_H

#include <rlx/ops.h>

#include <stdbool.h>
#include <stdint.h>

/* The second operand of the ops with two. */
#define ULP_SECOND 1.7000000476837158

typedef enum ulp_symmetry { ULP_NEITHER, ULP_ODD, ULP_EVEN } ulp_symmetry;

/* What a function is where that is plain: there its truth costs no call. A polynomial of degree 2
 * for |x| <= near, one of degree 1 for finite x > above and for finite x < below. Samples compare
 * them with the truth. */
typedef struct ulp_rule {
    double near, near_by[3], above, above_by[2], below, below_by[2];
} ulp_rule;

typedef struct ulp_function {
    const char *name;
    rlx_op op;
    double (*truth)(double);
    double bound;
    double alpha, beta;    /* of the op; 0: 0.75 and 1.25 */
    ulp_symmetry symmetry; /* of the truth; kernels are tried on both sides */
    const ulp_rule *rule;  /* NULL: none */
} ulp_function;

extern const ulp_function ulp_functions[];
extern const uint32_t ulp_function_count;

/* Whether a rule tells all of [low, high] (magnitudes) on one side of 0. */
bool ulp_rule_tells(const ulp_rule *rule, double low, double high, bool is_negative);

/* The truth of x by the rule that tells [low, high]. */
void ulp_by_rule(const ulp_rule *rule, double high, bool is_negative, const float *x, double *truth,
                 int64_t count);

/* The largest distance in units of the last place that f32 has at the truth, and where. */
double ulp_worst(const float *values, const double *truth, int64_t count, int64_t *out_at);
/* How far apart two truths are, in the same units. */
double ulp_between(double value, double truth);

#endif
