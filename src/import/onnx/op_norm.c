/* SPDX-License-Identifier: Apache-2.0 */
/* Norms. */
#include "import/onnx/ops.h"

/* Axes of a rank without some, as a list. */
static uint32_t axes_but(uint32_t rank, uint32_t skipped, int64_t *axes) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (i != skipped) axes[count++] = i;
    }
    return count;
}

static rlx_value_id scale_by(ox *o, rlx_value_id x, double number) {
    return ox_binary(o, RLX_OP_MUL, x, ox_scalar(o, ox_dtype(o, x), number));
}

/* old * momentum + now * (1 - momentum) */
static rlx_value_id running(ox *o, rlx_value_id old, rlx_value_id now, double momentum) {
    now = ox_cast(o, now, ox_dtype(o, old));
    return ox_binary(o, RLX_OP_ADD, scale_by(o, old, momentum), scale_by(o, now, 1 - momentum));
}

/* Mean and variance of what is there, instead of the given ones. */
static void train_batch_norm(ox *o, rlx_value_id *inputs) {
    int64_t axes[RLX_MAX_RANK], channels[RLX_MAX_RANK];
    double momentum = ox_float(o, "momentum", 0.9F);
    uint32_t rank = ox_rank(o, inputs[0]), count = axes_but(rank, 1, axes);
    rlx_value_id mean = ox_reduce(o, RLX_OP_REDUCE_MEAN, inputs[0], axes, count, false);
    for (uint32_t i = 0; i < rank; i++)
        channels[i] = i == 1 ? ox_dim(o, inputs[0], 1) : 1;
    rlx_value_id centred = ox_binary(o, RLX_OP_SUB, inputs[0], ox_reshape(o, mean, channels, rank));
    rlx_value_id variance =
        ox_reduce(o, RLX_OP_REDUCE_MEAN, ox_unary(o, RLX_OP_SQUARE, centred), axes, count, false);
    ox_give(o, 1, running(o, inputs[3], mean, momentum));
    ox_give(o, 2, running(o, inputs[4], variance, momentum));
    inputs[3] = mean;
    inputs[4] = variance;
}

void rlx_ox_batch_norm(ox *o) {
    const rlx_norm_attrs attrs = {.epsilon = ox_float(o, "epsilon", 1e-5F)};
    rlx_value_id inputs[5];
    for (uint32_t i = 0; i < 5; i++)
        inputs[i] = ox_in(o, i);
    if (!ox_ok(o)) return;
    if (o->since < 9 && ox_int(o, "spatial", 1) == 0 && ox_rank(o, inputs[0]) > 2)
        ox_unsupported(o, "spatial = 0");
    bool is_training = o->since >= 14 && ox_int(o, "training_mode", 0) != 0;
    if (o->since < 14 && (ox_wants(o, 1) || ox_wants(o, 2)))
        ox_unsupported(o, "training mode of version %" PRId64, o->since);
    if (is_training) train_batch_norm(o, inputs);
    ox_give(o, 0, ox_node(o, RLX_OP_BATCH_NORM, &attrs, inputs, 5));
}

void rlx_ox_instance_norm(ox *o) {
    const rlx_norm_attrs attrs = {.epsilon = ox_float(o, "epsilon", 1e-5F)};
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_in(o, 2)};
    ox_give(o, 0, ox_node(o, RLX_OP_INSTANCE_NORM, &attrs, inputs, 3));
}

/* One number per group becomes one per channel. */
static rlx_value_id per_channel(ox *o, rlx_value_id x, int64_t groups, int64_t channels) {
    const int64_t down[] = {groups, 1}, flat[] = {channels};
    const int64_t wide[] = {groups, groups == 0 ? 0 : channels / groups};
    return ox_reshape(o, ox_expand(o, ox_reshape(o, x, down, 2), wide, 2), flat, 1);
}

void rlx_ox_group_norm(ox *o) {
    const rlx_norm_attrs attrs = {.epsilon = ox_float(o, "epsilon", 1e-5F),
                                  .groups = ox_int(o, "num_groups", 0)};
    rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_in(o, 2)};
    int64_t channels = ox_dim(o, inputs[0], 1);
    if (ox_ok(o) && (attrs.groups <= 0 || channels % attrs.groups != 0))
        ox_invalid(o, "%" PRId64 " channels in %" PRId64 " groups", channels, attrs.groups);
    if (!ox_ok(o)) return;
    for (uint32_t i = 1; i < 3 && o->since < 21; i++)
        inputs[i] = per_channel(o, inputs[i], attrs.groups, channels);
    ox_give(o, 0, ox_node(o, RLX_OP_GROUP_NORM, &attrs, inputs, 3));
}

void ox_give_statistics(ox *o, rlx_value_id x, uint32_t axis, double epsilon, bool has_mean) {
    int64_t axes[RLX_MAX_RANK];
    uint32_t count = 0, rank = ox_rank(o, x);
    for (uint32_t i = axis; i < rank; i++)
        axes[count++] = i;
    if (ox_dtype(o, x) != RLX_DTYPE_F64) x = ox_cast(o, x, RLX_DTYPE_F32);
    rlx_value_id mean = ox_reduce(o, RLX_OP_REDUCE_MEAN, x, axes, count, true);
    if (has_mean) x = ox_binary(o, RLX_OP_SUB, x, mean);
    rlx_value_id squares = ox_unary(o, RLX_OP_SQUARE, x);
    rlx_value_id variance = ox_reduce(o, RLX_OP_REDUCE_MEAN, squares, axes, count, true);
    variance = ox_binary(o, RLX_OP_ADD, variance, ox_scalar(o, ox_dtype(o, x), epsilon));
    ox_give(o, 1, mean);
    ox_give(o, 2, ox_unary(o, RLX_OP_RSQRT, variance));
}

void rlx_ox_layer_norm(ox *o) {
    const rlx_norm_attrs attrs = {.axis = ox_int(o, "axis", -1),
                                  .epsilon = ox_float(o, "epsilon", 1e-5F)};
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_maybe(o, 2)};
    uint32_t axis = ox_axis(o, attrs.axis, ox_rank(o, inputs[0]));
    ox_give(o, 0, ox_node(o, RLX_OP_LAYER_NORM, &attrs, inputs, inputs[2] == RLX_NONE ? 2 : 3));
    if (ox_ok(o) && (ox_wants(o, 1) || ox_wants(o, 2)))
        ox_give_statistics(o, inputs[0], axis, attrs.epsilon, true);
}

void rlx_ox_rms_norm(ox *o) {
    const rlx_norm_attrs attrs = {.axis = ox_int(o, "axis", -1),
                                  .epsilon = ox_float(o, "epsilon", 1e-5F)};
    const rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1)};
    if (ox_wants(o, 1)) ox_unsupported(o, "the deviations as an output");
    ox_give(o, 0, ox_node(o, RLX_OP_RMS_NORM, &attrs, inputs, 2));
}

void rlx_ox_mean_variance(ox *o) {
    rlx_ints axes = {.count = 3, .items = {0, 2, 3}};
    rlx_value_id x = ox_in(o, 0);
    ox_ints(o, "axes", &axes);
    rlx_value_id mean = ox_reduce(o, RLX_OP_REDUCE_MEAN, x, axes.items, axes.count, true);
    rlx_value_id centred = ox_binary(o, RLX_OP_SUB, x, mean);
    rlx_value_id variance = ox_reduce(o, RLX_OP_REDUCE_MEAN, ox_unary(o, RLX_OP_SQUARE, centred),
                                      axes.items, axes.count, true);
    rlx_value_id deviation = ox_unary(o, RLX_OP_SQRT, variance);
    deviation = ox_binary(o, RLX_OP_ADD, deviation, ox_scalar(o, ox_dtype(o, x), 1e-9));
    ox_give(o, 0, ox_binary(o, RLX_OP_DIV, centred, deviation));
}

/* x / (bias + alpha mean of squares over near channels)^beta: the mean is a pool over channels. */
void rlx_ox_lrn(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    int64_t size = ox_int(o, "size", 0);
    double alpha = ox_float(o, "alpha", 0.0001F), beta = ox_float(o, "beta", 0.75),
           bias = ox_float(o, "bias", 1);
    if (ox_ok(o) && (size <= 0 || ox_rank(o, x) < 2)) ox_invalid(o, "size %" PRId64, size);
    if (!ox_ok(o)) return;
    int64_t n = ox_dim(o, x, 0), c = ox_dim(o, x, 1), planes = ox_times(o, n, c);
    const int64_t dims[] = {n, 1, c, planes == 0 ? 0 : ox_elements(o, x) / planes};
    const rlx_pool_attrs attrs = {.kernel = {2, {size, 1}},
                                  .pads = {4, {(size - 1) / 2, 0, size / 2, 0}},
                                  .count_include_pad = true};
    rlx_dtype dtype = ox_dtype(o, x);
    rlx_value_id squares = ox_reshape(o, ox_unary(o, RLX_OP_SQUARE, x), dims, 4);
    rlx_value_id mean = ox_node(o, RLX_OP_AVERAGE_POOL, &attrs, &squares, 1);
    mean = ox_reshape_like(o, mean, x);
    rlx_value_id base =
        ox_binary(o, RLX_OP_ADD, scale_by(o, mean, alpha), ox_scalar(o, dtype, bias));
    ox_give(
        o, 0,
        ox_binary(o, RLX_OP_MUL, x, ox_binary(o, RLX_OP_POW, base, ox_scalar(o, dtype, -beta))));
}

void rlx_ox_lp_norm(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    int64_t axis = ox_int(o, "axis", -1), p = ox_int(o, "p", 2);
    if (p != 1 && p != 2) ox_invalid(o, "p = %" PRId64, p);
    rlx_op op = p == 1 ? RLX_OP_REDUCE_L1 : RLX_OP_REDUCE_L2;
    ox_give(o, 0, ox_binary(o, RLX_OP_DIV, x, ox_reduce(o, op, x, &axis, 1, true)));
}
