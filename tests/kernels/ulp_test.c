/* SPDX-License-Identifier: Apache-2.0 */
/* How far the vector functions are from the truth, in units in the last place: each level's own
 * kernel of an op against libm in double.
 *
 *     test_kernels_ulp              every op, samples from the whole range of f32
 *     test_kernels_ulp --full OP    one op at every f32
 *
 * The bounds are those of docs/performance.md. */
#include "backend/cpu/table.h"
#include "kernels/levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 4096, SAMPLE_STEP = 16411 };

static double sigmoid(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}
static double softplus(double x) {
    double tail = log1p(exp(-fabs(x)));
    return x > 0 ? x + tail : tail;
}
static double silu(double x) {
    return x * sigmoid(x);
}
static double gelu(double x) {
    return 0.5 * x * erfc(-x * M_SQRT1_2);
}
static double gelu_tanh(double x) {
    return x * sigmoid(2 * M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x));
}
static double mish(double x) {
    return x * tanh(softplus(x));
}
static double elu(double x) {
    return x > 0 ? x : 0.75 * expm1(x);
}
static double celu(double x) {
    double negative = 0.75 * expm1(x / 0.75);
    return (x > 0 ? x : 0.0) + (negative > 0 ? 0.0 : negative);
}
static double selu(double x) {
    return 1.25 * (x > 0 ? x : 0.75 * expm1(x));
}
static double hard_swish(double x) {
    double unit = x / 6.0 + 0.5;
    return x * (unit < 0 ? 0.0 : unit > 1 ? 1.0 : unit);
}
static double softsign(double x) {
    return x / (1.0 + fabs(x));
}
static double rsqrt(double x) {
    return 1.0 / sqrt(x);
}
static double hard_sigmoid(double x) {
    double y = x / 6.0 + 0.3;
    return y < 0 ? 0 : y > 1 ? 1 : y;
}
/* Of the ops with two operands; the second one is 1.7f. */
#define SECOND 1.7000000476837158
static double power(double x) {
    return pow(x, SECOND);
}
static double truncated_rest(double x) {
    return fmod(x, SECOND);
}
static double floored_rest(double x) {
    double rest = fmod(x, SECOND);
    return rest < 0 ? rest + SECOND : rest;
}

typedef struct function {
    const char *name;
    rlx_op op;
    double (*truth)(double);
    double bound;
    double alpha, beta; /* of the op; 0: 0.75 and 1.25 */
} function;

static const function functions[] = {
    {"exp", RLX_OP_EXP, exp, 2, 0, 0},
    {"log", RLX_OP_LOG, log, 1, 0, 0},
    {"sin", RLX_OP_SIN, sin, 2, 0, 0},
    {"cos", RLX_OP_COS, cos, 2, 0, 0},
    {"tanh", RLX_OP_TANH, tanh, 3, 0, 0},
    {"erf", RLX_OP_ERF, erf, 2, 0, 0},
    {"sigmoid", RLX_OP_SIGMOID, sigmoid, 3, 0, 0},
    {"silu", RLX_OP_SILU, silu, 3, 0, 0},
    {"gelu", RLX_OP_GELU, gelu, 8, 0, 0},
    {"gelu_tanh", RLX_OP_GELU_TANH, gelu_tanh, 3, 0, 0},
    {"softplus", RLX_OP_SOFTPLUS, softplus, 3, 0, 0},
    {"mish", RLX_OP_MISH, mish, 5, 0, 0},
    {"elu", RLX_OP_ELU, elu, 3, 0, 0},
    {"celu", RLX_OP_CELU, celu, 4, 0, 0},
    {"selu", RLX_OP_SELU, selu, 4, 0, 0},
    {"hard_swish", RLX_OP_HARD_SWISH, hard_swish, 3, 0, 0},
    {"softsign", RLX_OP_SOFTSIGN, softsign, 2, 0, 0},
    {"rsqrt", RLX_OP_RSQRT, rsqrt, 2, 0, 0},
    {"pow", RLX_OP_POW, power, 1, 0, 0},
    {"fmod", RLX_OP_FMOD, truncated_rest, 0, 0, 0},
    {"mod", RLX_OP_MOD, floored_rest, 1, 0, 0},
    {"hard_sigmoid", RLX_OP_HARD_SIGMOID, hard_sigmoid, 1, 1.0 / 6.0, 0.3},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

/* The distance in units of the last place that f32 has at `truth`. */
static double distance(float value, double truth) {
    float rounded = (float)truth;
    int exponent;
    if (isnan(rounded) || isnan(value)) return isnan(rounded) == isnan(value) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(value)) return rounded == value ? 0 : INFINITY;
    (void)frexp(truth, &exponent);
    return fabs((double)value - truth) / ldexp(1.0, (exponent < -125 ? -125 : exponent) - 24);
}

static void run_batch(const rlx_cpu_level *level, const function *self, const float *x, float *y,
                      int64_t count) {
    float second = (float)SECOND;
    bool is_default = self->alpha == 0;
    rlx_unary_attrs attrs = {.alpha = is_default ? 0.75 : self->alpha,
                             .beta = is_default ? 1.25 : self->beta};
    rlx_tensor in[2] = {{.data = (void *)(uintptr_t)x,
                         .dtype = RLX_DTYPE_F32,
                         .rank = 1,
                         .dims = {count},
                         .strides = {1}},
                        {.data = &second, .dtype = RLX_DTYPE_F32}};
    rlx_tensor out = {
        .data = y, .dtype = RLX_DTYPE_F32, .rank = 1, .dims = {count}, .strides = {1}};
    bool is_binary = self->op == RLX_OP_POW || self->op == RLX_OP_MOD || self->op == RLX_OP_FMOD;
    uint32_t in_count = is_binary ? 2 : 1;
    rlx_target_query query = {.op = self->op,
                              .attrs = &attrs,
                              .in = in,
                              .out = &out,
                              .in_count = in_count,
                              .out_count = 1};
    rlx_kernel_args args = {.op = self->op,
                            .attrs = &attrs,
                            .in = in,
                            .out = &out,
                            .in_count = in_count,
                            .out_count = 1};
    const rlx_kernel *kernel = rlx_cpu_choose(level, &query);
    kernel->run(&args, 0, kernel->items(&args));
}

/* Every step-th f32, from another first one in each batch. Returns whether the bound holds. */
static bool check(const rlx_cpu_level *level, const function *self, uint64_t step) {
    static float x[BATCH], y[BATCH];
    double worst = 0;
    float worst_at = 0;
    for (uint64_t base = 0; base < UINT64_C(1) << 32; base += BATCH * step) {
        uint64_t shift = base / BATCH * 2654435761u % step;
        int64_t count = 0;
        for (; count < BATCH && base + (uint64_t)count * step + shift < UINT64_C(1) << 32;
             count++) {
            uint32_t bits = (uint32_t)(base + (uint64_t)count * step + shift);
            memcpy(&x[count], &bits, sizeof bits);
        }
        run_batch(level, self, x, y, count);
        for (int64_t i = 0; i < count; i++) {
            double far = distance(y[i], self->truth((double)x[i]));
            if (far > worst) worst = far, worst_at = x[i];
        }
    }
    bool holds = worst <= self->bound;
    printf("%-12s %-7s worst %.3f ulp of %.0f at %.9g%s\n", self->name, level->name, worst,
           self->bound, (double)worst_at, holds ? "" : "  TOO FAR");
    return holds;
}

int main(int argc, char **argv) {
    const rlx_cpu_level *levels[KERNEL_LEVELS];
    uint32_t count = kernel_levels(levels), bad = 0, checked = 0;
    bool is_full = argc == 3 && strcmp(argv[1], "--full") == 0;
    for (uint32_t f = 0; f < FUNCTIONS; f++) {
        if (is_full && strcmp(argv[2], functions[f].name) != 0) continue;
        for (uint32_t i = 0; i < count; i++) {
            bad += !check(levels[i], &functions[f], is_full ? 1 : SAMPLE_STEP);
            checked++;
        }
    }
    if (checked == 0 && count != 0) fprintf(stderr, "no such function\n");
    return bad != 0 || (checked == 0 && count != 0);
}
