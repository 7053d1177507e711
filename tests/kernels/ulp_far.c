/* SPDX-License-Identifier: Apache-2.0 */
/* Distances in units in the last place: loops that compilers make vectors of, so that trying every
 * f32 costs little more than the functions. */
#include "kernels/ulp.h"

#include <float.h>
#include <math.h>
#include <string.h>

bool ulp_rule_tells(const ulp_rule *rule, double low, double high, bool is_negative) {
    if (rule == NULL || !(high <= (double)FLT_MAX)) return false;
    return high <= rule->near || (is_negative ? -low < rule->below : low > rule->above);
}

void ulp_by_rule(const ulp_rule *rule, double high, bool is_negative, const float *x, double *truth,
                 int64_t count) {
    const double *line = is_negative ? rule->below_by : rule->above_by;
    double by[3] = {line[0], line[1], 0};
    bool is_near = high <= rule->near && !(rule->above == 0 && !is_negative);
    if (is_near) memcpy(by, rule->near_by, sizeof by);
    if (by[1] == 0 && by[2] == 0) { /* infinity times 0 is none */
        for (int64_t i = 0; i < count; i++)
            truth[i] = by[0];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        truth[i] = by[0] + (double)x[i] * (by[1] + (double)x[i] * by[2]);
}

/* 1 / ulp of f32 at `truth`, from its exponent; subnormal numbers have the ulp of 2^-126. */
static inline double steps_at(double truth) {
    int64_t bits;
    memcpy(&bits, &truth, sizeof bits);
    int64_t exponent = (bits >> 52 & 0x7ff) - 1022;
    exponent = exponent < -125 ? -125 : exponent;
    bits = (int64_t)((uint64_t)(1023 + 24 - exponent) << 52);
    double steps;
    memcpy(&steps, &bits, sizeof steps);
    return steps;
}

static inline double distance(float value, double truth) {
    float rounded = (float)truth;
    double far = fabs((double)value - truth) * steps_at(truth);
    bool is_finite = fabsf(value) <= FLT_MAX && fabsf(rounded) <= FLT_MAX;
    bool is_same = value == rounded || (value != value && rounded != rounded);
    return is_finite ? far : is_same ? 0 : (double)INFINITY;
}

double ulp_worst(const float *values, const double *truth, int64_t count, int64_t *out_at) {
    int64_t worst = 0; /* the bits of a number that is not negative: in the same order */
    for (int64_t i = 0; i < count; i++) {
        double far = distance(values[i], truth[i]);
        int64_t bits;
        memcpy(&bits, &far, sizeof bits);
        worst = bits > worst ? bits : worst;
    }
    double far;
    memcpy(&far, &worst, sizeof far);
    *out_at = 0;
    while (*out_at < count - 1 && distance(values[*out_at], truth[*out_at]) != far)
        (*out_at)++;
    return far;
}

double ulp_between(double value, double truth) {
    int64_t at;
    float rounded = (float)value;
    if (isfinite(rounded) && isfinite((float)truth)) return fabs(value - truth) * steps_at(truth);
    return ulp_worst(&rounded, &truth, 1, &at);
}
