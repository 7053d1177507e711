/* SPDX-License-Identifier: Apache-2.0 */
/* Losses and the steps of optimisers. */
#include "import/onnx/ops.h"

#include <string.h>

/* The log-probability of each target, weighted; targets of ignore_index weigh nothing. */
static rlx_value_id nll(ox *o, rlx_value_id x, rlx_value_id target, rlx_value_id weight) {
    const rlx_axis_attrs axis = {1};
    const char *reduction = ox_text(o, "reduction", "mean");
    rlx_dtype dtype = ox_dtype(o, x);
    rlx_value_id weights = RLX_NONE, ignored = RLX_NONE, wanted = target;
    if (ox_attr(o, "ignore_index") != NULL) {
        rlx_value_id index =
            ox_scalar(o, ox_dtype(o, target), (double)ox_int(o, "ignore_index", 0));
        ignored = ox_binary(o, RLX_OP_EQUAL, target, index);
        wanted = ox_where(o, ignored, ox_scalar(o, ox_dtype(o, target), 0), target);
    }
    if (weight != RLX_NONE) weights = ox_gather(o, weight, wanted, 0);
    if (ignored != RLX_NONE) {
        rlx_value_id one = weights == RLX_NONE ? ox_scalar(o, dtype, 1) : weights;
        weights = ox_where(o, ignored, ox_scalar(o, dtype, 0), one);
    }
    const rlx_value_id inputs[] = {x, ox_unsqueeze(o, wanted, 1)};
    rlx_value_id loss = ox_node(o, RLX_OP_GATHER_ELEMENTS, &axis, inputs, 2);
    loss = ox_unary(o, RLX_OP_NEG, ox_squeeze(o, loss, 1));
    if (weights != RLX_NONE) loss = ox_binary(o, RLX_OP_MUL, loss, weights);
    if (strcmp(reduction, "none") == 0) return loss;
    if (strcmp(reduction, "sum") == 0) return ox_reduce(o, RLX_OP_REDUCE_SUM, loss, NULL, 0, false);
    if (strcmp(reduction, "mean") != 0) ox_invalid(o, "reduction '%s' is not known", reduction);
    if (weights == RLX_NONE) return ox_reduce(o, RLX_OP_REDUCE_MEAN, loss, NULL, 0, false);
    return ox_binary(o, RLX_OP_DIV, ox_reduce(o, RLX_OP_REDUCE_SUM, loss, NULL, 0, false),
                     ox_reduce(o, RLX_OP_REDUCE_SUM, weights, NULL, 0, false));
}

void rlx_ox_nll_loss(ox *o) {
    ox_give(o, 0, nll(o, ox_in(o, 0), ox_in(o, 1), ox_maybe(o, 2)));
}

void rlx_ox_cross_entropy(ox *o) {
    const rlx_axis_attrs attrs = {1};
    rlx_value_id x = ox_in(o, 0);
    rlx_value_id logs = ox_node(o, RLX_OP_LOG_SOFTMAX, &attrs, &x, 1);
    ox_give(o, 0, nll(o, logs, ox_in(o, 1), ox_maybe(o, 2)));
    if (ox_wants(o, 1)) ox_give(o, 1, logs);
}

/* Small formulae over one dtype. */
static rlx_value_id times(ox *o, rlx_value_id x, double number) {
    return ox_binary(o, RLX_OP_MUL, x, ox_scalar(o, ox_dtype(o, x), number));
}

static rlx_value_id plus(ox *o, rlx_value_id x, double number) {
    return ox_binary(o, RLX_OP_ADD, x, ox_scalar(o, ox_dtype(o, x), number));
}

static rlx_value_id sum_of(ox *o, rlx_value_id a, rlx_value_id b) {
    return ox_binary(o, RLX_OP_ADD, a, b);
}

/* How many tensors are trained: after rate and step come `kinds` tensors for each. */
static uint32_t trained(ox *o, uint32_t kinds) {
    uint32_t count = o->in_count < 2 ? 0 : (o->in_count - 2) / kinds;
    if (count == 0 || o->in_count != 2 + count * kinds)
        ox_invalid(o, "%u inputs; wanted 2 + %u for each tensor", o->in_count, kinds);
    return ox_ok(o) ? count : 0;
}

/* The gradient with weight decay. */
static rlx_value_id regular(ox *o, rlx_value_id x, rlx_value_id gradient) {
    return sum_of(o, times(o, x, ox_float(o, "norm_coefficient", 0)), gradient);
}

/* The step count as a scalar of the rate's dtype. */
static rlx_value_id step_count(ox *o, rlx_dtype dtype) {
    return ox_reshape(o, ox_cast(o, ox_in(o, 1), dtype), NULL, 0);
}

void rlx_ox_adagrad(ox *o) {
    uint32_t count = trained(o, 3);
    double decay = ox_float(o, "decay_factor", 0), epsilon = ox_float(o, "epsilon", 1e-6F);
    rlx_value_id rate = ox_reshape(o, ox_in(o, 0), NULL, 0);
    rlx_value_id slower = plus(o, times(o, step_count(o, ox_dtype(o, rate)), decay), 1);
    rate = ox_binary(o, RLX_OP_DIV, rate, slower);
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        rlx_value_id x = ox_in(o, 2 + i), squares = ox_in(o, 2 + 2 * count + i);
        rlx_value_id g = regular(o, x, ox_in(o, 2 + count + i));
        squares = sum_of(o, squares, ox_unary(o, RLX_OP_SQUARE, g));
        rlx_value_id size = plus(o, ox_unary(o, RLX_OP_SQRT, squares), epsilon);
        rlx_value_id step = ox_binary(o, RLX_OP_DIV, ox_binary(o, RLX_OP_MUL, rate, g), size);
        ox_give(o, i, ox_binary(o, RLX_OP_SUB, x, step));
        ox_give(o, count + i, squares);
    }
}

/* rate sqrt(1 - beta^t) / (1 - alpha^t), or the rate itself at step 0. */
static rlx_value_id adam_rate(ox *o, double alpha, double beta) {
    rlx_value_id rate = ox_reshape(o, ox_in(o, 0), NULL, 0);
    rlx_dtype dtype = ox_dtype(o, rate);
    rlx_value_id t = step_count(o, dtype), one = ox_scalar(o, dtype, 1);
    rlx_value_id is_later = ox_binary(o, RLX_OP_GREATER, t, ox_scalar(o, dtype, 0));
    rlx_value_id safe = ox_where(o, is_later, t, one);
    rlx_value_id a = ox_binary(o, RLX_OP_POW, ox_scalar(o, dtype, alpha), safe);
    rlx_value_id b = ox_binary(o, RLX_OP_POW, ox_scalar(o, dtype, beta), safe);
    rlx_value_id corrected =
        ox_binary(o, RLX_OP_DIV, ox_unary(o, RLX_OP_SQRT, ox_binary(o, RLX_OP_SUB, one, b)),
                  ox_binary(o, RLX_OP_SUB, one, a));
    return ox_where(o, is_later, ox_binary(o, RLX_OP_MUL, rate, corrected), rate);
}

void rlx_ox_adam(ox *o) {
    uint32_t n = trained(o, 4);
    double alpha = ox_float(o, "alpha", 0.9F), beta = ox_float(o, "beta", 0.999F);
    double epsilon = ox_float(o, "epsilon", 1e-6F);
    double post = ox_float(o, "norm_coefficient_post", 0);
    rlx_value_id rate = adam_rate(o, alpha, beta);
    for (uint32_t i = 0; i < n && ox_ok(o); i++) {
        rlx_value_id x = ox_in(o, 2 + i), g = regular(o, x, ox_in(o, 2 + n + i));
        rlx_value_id v =
            sum_of(o, times(o, ox_in(o, 2 + 2 * n + i), alpha), times(o, g, 1 - alpha));
        rlx_value_id h = sum_of(o, times(o, ox_in(o, 2 + 3 * n + i), beta),
                                times(o, ox_unary(o, RLX_OP_SQUARE, g), 1 - beta));
        rlx_value_id size = plus(o, ox_unary(o, RLX_OP_SQRT, h), epsilon);
        rlx_value_id step = ox_binary(o, RLX_OP_DIV, ox_binary(o, RLX_OP_MUL, rate, v), size);
        x = ox_binary(o, RLX_OP_SUB, x, step);
        ox_give(o, i, post == 0 ? x : times(o, x, 1 - post));
        ox_give(o, n + i, v);
        ox_give(o, 2 * n + i, h);
    }
}

void rlx_ox_momentum(ox *o) {
    uint32_t count = trained(o, 3);
    double alpha = ox_float(o, "alpha", 0.9F), beta = ox_float(o, "beta", 0.9F);
    bool is_nesterov = strcmp(ox_text(o, "mode", "standard"), "nesterov") == 0;
    rlx_value_id rate = ox_reshape(o, ox_in(o, 0), NULL, 0);
    rlx_dtype dtype = ox_dtype(o, rate);
    rlx_value_id is_later =
        ox_binary(o, RLX_OP_GREATER, step_count(o, dtype), ox_scalar(o, dtype, 0));
    rlx_value_id keep = ox_where(o, is_later, ox_scalar(o, dtype, beta), ox_scalar(o, dtype, 1));
    for (uint32_t i = 0; i < count && ox_ok(o); i++) {
        rlx_value_id x = ox_in(o, 2 + i), g = regular(o, x, ox_in(o, 2 + count + i));
        rlx_value_id v = sum_of(o, times(o, ox_in(o, 2 + 2 * count + i), alpha),
                                ox_binary(o, RLX_OP_MUL, keep, g));
        rlx_value_id step = is_nesterov ? sum_of(o, g, times(o, v, alpha)) : v;
        ox_give(o, i, ox_binary(o, RLX_OP_SUB, x, ox_binary(o, RLX_OP_MUL, rate, step)));
        ox_give(o, count + i, v);
    }
}
