/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of com.microsoft that ONNX Runtime's optimiser makes of several: activations with a bias,
 * products and convolutions with what follows them, norms with what is added before. They are taken
 * apart again; the compiler fuses for the device at hand. */
#include "import/onnx/ops.h"

#include <math.h>
#include <string.h>

/* act(x + bias), the bias perhaps absent. */
void rlx_ox_bias_gelu(ox *o) {
    rlx_value_id x = ox_in(o, 0), bias = ox_maybe(o, 1);
    if (bias != RLX_NONE) x = ox_binary(o, RLX_OP_ADD, x, bias);
    ox_give(o, 0, ox_unary(o, o->op, x));
}

void rlx_ox_quick_gelu(ox *o) {
    rlx_value_id x = ox_in(o, 0);
    double alpha = ox_float(o, "alpha", 1.702F);
    if (alpha == 1) {
        ox_give(o, 0, ox_unary(o, RLX_OP_SILU, x));
        return;
    }
    rlx_value_id gate = ox_unary(o, RLX_OP_SIGMOID, ox_scaled(o, x, alpha));
    ox_give(o, 0, ox_binary(o, RLX_OP_MUL, x, gate));
}

/* The first half of the channels times gelu of the second. */
void rlx_ox_bias_split_gelu(ox *o) {
    rlx_value_id x = ox_binary(o, RLX_OP_ADD, ox_in(o, 0), ox_in(o, 1)), parts[2];
    uint32_t rank = ox_rank(o, x);
    if (ox_ok(o) && (rank == 0 || ox_dim(o, x, rank - 1) % 2 != 0))
        ox_invalid(o, "the last axis has no halves");
    if (!ox_ok(o)) return;
    int64_t half = ox_dim(o, x, rank - 1) / 2;
    const int64_t sizes[] = {half, half};
    ox_split(o, x, -1, sizes, 2, parts);
    ox_give(o, 0, ox_binary(o, RLX_OP_MUL, parts[0], ox_unary(o, RLX_OP_GELU, parts[1])));
}

/* softmax over the axes from `axis` on, which are one. The bias has 1 in some of the axes before:
 * the inner ones (as numpy broadcasts), or the outer ones. */
void rlx_ox_bias_softmax(ox *o) {
    rlx_value_id x = ox_in(o, 0), bias = ox_in(o, 1);
    const rlx_axis_attrs rows = {ox_int(o, "axis", 1)}, last = {1};
    bool is_inner = ox_int(o, "is_inner_broadcast", 1) != 0;
    if (ox_ok(o) && !is_inner && ox_rank(o, bias) != ox_rank(o, x))
        ox_unsupported(o, "a bias of rank %u for data of rank %u", ox_rank(o, bias), ox_rank(o, x));
    x = ox_binary(o, RLX_OP_ADD, x, bias);
    rlx_value_id y = ox_node(o, RLX_OP_FLATTEN, &rows, &x, 1);
    y = ox_node(o, RLX_OP_SOFTMAX, &last, &y, 1);
    ox_give(o, 0, ox_reshape_like(o, y, x));
}

/* What activations are called, with their defaults. */
static const struct {
    const char *name;
    rlx_op op;
    double alpha, beta;
} activations[] = {
    {"Relu", RLX_OP_RELU, 0, 0},
    {"Tanh", RLX_OP_TANH, 0, 0},
    {"Sigmoid", RLX_OP_SIGMOID, 0, 0},
    {"LeakyRelu", RLX_OP_LEAKY_RELU, 0.01F, 0},
    {"Clip", RLX_OP_CLIP, -INFINITY, INFINITY},
    {"HardSigmoid", RLX_OP_HARD_SIGMOID, 0.2F, 0.5F},
    {"HardSwish", RLX_OP_HARD_SWISH, 0, 0},
    {"Elu", RLX_OP_ELU, 1, 0},
    {"Gelu", RLX_OP_GELU, 0, 0},
    {"Softplus", RLX_OP_SOFTPLUS, 0, 0},
    {"Softsign", RLX_OP_SOFTSIGN, 0, 0},
    {"ThresholdedRelu", RLX_OP_THRESHOLDED_RELU, 1, 0},
};

/* The node's `activation` of x. Its numbers are a list, or activation_alpha and activation_beta. */
static rlx_value_id activated(ox *o, rlx_value_id x) {
    const char *name = ox_text(o, "activation", "");
    const rlx_onnx_attr *list = ox_attr(o, "activation_params");
    bool has_list = list != NULL && list->floats != NULL;
    if (name[0] == 0 || !ox_ok(o)) return x;
    for (uint32_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        if (strcmp(name, activations[i].name) != 0) continue;
        rlx_unary_attrs attrs = {ox_float(o, "activation_alpha", activations[i].alpha),
                                 ox_float(o, "activation_beta", activations[i].beta)};
        if (has_list && list->count > 0) attrs.alpha = (double)list->floats[0];
        if (has_list && list->count > 1) attrs.beta = (double)list->floats[1];
        return ox_node(o, activations[i].op, &attrs, &x, 1);
    }
    ox_unsupported(o, "activation '%s'", name);
    return RLX_NONE;
}

/* transBatch: the axis before the last moves in front of the batch. */
static rlx_value_id batch_first(ox *o, rlx_value_id x, bool is_asked) {
    int64_t perm[RLX_MAX_RANK];
    uint32_t rank = ox_rank(o, x);
    if (!is_asked || !ox_ok(o)) return x;
    if (rank < 3) ox_invalid(o, "transBatch of rank %u", rank);
    for (uint32_t i = 0; i + 2 < rank; i++)
        perm[i] = i + 1;
    if (rank >= 3) perm[rank - 2] = 0, perm[rank - 1] = rank - 1;
    return ox_ok(o) ? ox_transpose(o, x, perm, rank) : RLX_NONE;
}

void rlx_ox_fused_matmul(ox *o) {
    rlx_matmul_attrs attrs = {.transpose_a = ox_int(o, "transA", 0) != 0,
                              .transpose_b = ox_int(o, "transB", 0) != 0};
    double alpha = ox_float(o, "alpha", 1);
    const rlx_value_id inputs[] = {batch_first(o, ox_in(o, 0), ox_int(o, "transBatchA", 0) != 0),
                                   batch_first(o, ox_in(o, 1), ox_int(o, "transBatchB", 0) != 0)};
    if (alpha != 0) attrs.alpha = alpha; /* 0 in the struct means 1 */
    rlx_value_id y = ox_node(o, RLX_OP_MATMUL, &attrs, inputs, 2);
    if (alpha == 0) y = ox_scaled(o, y, 0);
    ox_give(o, 0, activated(o, y));
}

void rlx_ox_fused_gemm(ox *o) {
    ox_give(o, 0, activated(o, ox_gemm(o)));
}

void rlx_ox_gemm_fast_gelu(ox *o) {
    rlx_value_id y = ox_matmul(o, ox_in(o, 0), ox_in(o, 1)), bias = ox_maybe(o, 2);
    if (bias != RLX_NONE) y = ox_binary(o, RLX_OP_ADD, y, bias);
    ox_give(o, 0, ox_unary(o, RLX_OP_GELU_TANH, y));
}

/* act(conv + sum); Nhwc: the channels of x, sum and y are last. */
void rlx_ox_fused_conv(ox *o) {
    rlx_conv_attrs attrs = {0};
    bool is_last = strncmp(o->node->op, "Nhwc", 4) == 0;
    rlx_value_id inputs[] = {ox_in(o, 0), ox_in(o, 1), ox_maybe(o, 2)}, sum = ox_maybe(o, 3);
    ox_conv_attrs(o, inputs[1], &attrs);
    if (is_last) inputs[0] = ox_channels_first(o, inputs[0]);
    if (is_last && sum != RLX_NONE) sum = ox_channels_first(o, sum);
    rlx_value_id y = ox_node(o, RLX_OP_CONV, &attrs, inputs, inputs[2] == RLX_NONE ? 2 : 3);
    if (sum != RLX_NONE) y = ox_binary(o, RLX_OP_ADD, y, sum);
    y = activated(o, y);
    ox_give(o, 0, is_last ? ox_channels_last(o, y) : y);
}

void rlx_ox_nhwc_max_pool(ox *o) {
    rlx_pool_attrs attrs = {0};
    rlx_value_id x = ox_channels_first(o, ox_in(o, 0));
    ox_pool_attrs(o, &attrs);
    ox_give(o, 0, ox_channels_last(o, ox_node(o, RLX_OP_MAX_POOL, &attrs, &x, 1)));
}

/* norm(x + skip + bias), with the sum itself for those who ask. */
void rlx_ox_skip_norm(ox *o) {
    bool is_layer = o->op == RLX_OP_LAYER_NORM;
    const rlx_norm_attrs attrs = {.axis = -1, .epsilon = ox_float(o, "epsilon", 1e-12F)};
    rlx_value_id sum = ox_in(o, 0), bias = ox_maybe(o, is_layer ? 4 : 3);
    if (bias != RLX_NONE) sum = ox_binary(o, RLX_OP_ADD, sum, bias);
    sum = ox_binary(o, RLX_OP_ADD, sum, ox_in(o, 1));
    const rlx_value_id inputs[] = {sum, ox_in(o, 2), is_layer ? ox_maybe(o, 3) : RLX_NONE};
    if (ox_ok(o) && (ox_wants(o, 1) || ox_wants(o, 2)))
        ox_give_statistics(o, sum, ox_rank(o, sum) - 1, attrs.epsilon, is_layer);
    ox_give(o, 0, ox_node(o, o->op, &attrs, inputs, inputs[2] == RLX_NONE ? 2 : 3));
    ox_give(o, 3, sum);
}

/* Channels last unless channels_last says otherwise; activation 1 is silu. SkipGroupNorm adds
 * another image and a bias before, and gives the sum as well. */
void rlx_ox_skip_group_norm(ox *o) {
    bool is_last = ox_int(o, "channels_last", 1) != 0, is_skip = ox_has(o, 3);
    const rlx_norm_attrs attrs = {.epsilon = ox_float(o, "epsilon", 1e-5F),
                                  .groups = ox_int(o, "groups", 0)};
    rlx_value_id x = ox_in(o, 0), bias = ox_maybe(o, 4);
    int64_t activation = ox_int(o, "activation", 0);
    if (activation != 0 && activation != 1) ox_unsupported(o, "activation %" PRId64, activation);
    if (bias != RLX_NONE && !is_last) ox_unsupported(o, "a bias with channels first");
    if (bias != RLX_NONE) x = ox_binary(o, RLX_OP_ADD, x, bias);
    if (is_skip) x = ox_binary(o, RLX_OP_ADD, x, ox_in(o, 3));
    if (is_skip) ox_give(o, 1, x);
    rlx_dtype dtype = ox_dtype(o, x);
    const rlx_value_id inputs[] = {is_last ? ox_channels_first(o, x) : x,
                                   ox_cast(o, ox_in(o, 1), dtype), ox_cast(o, ox_in(o, 2), dtype)};
    rlx_value_id y = ox_node(o, RLX_OP_GROUP_NORM, &attrs, inputs, 3);
    if (activation == 1) y = ox_unary(o, RLX_OP_SILU, y);
    ox_give(o, 0, is_last ? ox_channels_last(o, y) : y);
}

/* The rows of three tables are added up and normalised. */
void rlx_ox_embed_norm(ox *o) {
    const rlx_norm_attrs attrs = {.axis = -1, .epsilon = ox_float(o, "epsilon", 1e-12F)};
    rlx_value_id ids = ox_in(o, 0), segments = ox_maybe(o, 1), table = ox_in(o, 3);
    rlx_value_id segment_table = ox_maybe(o, 4), mask = ox_maybe(o, 7), places = ox_maybe(o, 8);
    if (ox_ok(o) && (ox_rank(o, ids) != 2 || ox_rank(o, table) != 2))
        ox_invalid(o, "input_ids has rank %u", ox_rank(o, ids));
    if (!ox_ok(o)) return;
    int64_t batch = ox_dim(o, ids, 0), length = ox_dim(o, ids, 1);
    if (places == RLX_NONE && length > ox_dim(o, table, 0))
        ox_invalid(o, "%" PRId64 " positions of %" PRId64, length, ox_dim(o, table, 0));
    rlx_value_id sum = ox_gather(o, ox_in(o, 2), ids, 0);
    rlx_value_id rows =
        places == RLX_NONE ? ox_slice(o, table, 0, 0, length, 1) : ox_gather(o, table, places, 0);
    sum = ox_binary(o, RLX_OP_ADD, sum, rows);
    if (segments != RLX_NONE && segment_table != RLX_NONE)
        sum = ox_binary(o, RLX_OP_ADD, sum, ox_gather(o, segment_table, segments, 0));
    const rlx_value_id inputs[] = {sum, ox_in(o, 5), ox_in(o, 6)};
    ox_give(o, 0, ox_node(o, RLX_OP_LAYER_NORM, &attrs, inputs, 3));
    ox_give(o, 2, sum);
    if (!ox_wants(o, 1)) return;
    const int64_t axis = 1;
    rlx_value_id counts = ox_scalar(o, RLX_DTYPE_I32, 0);
    counts = mask == RLX_NONE ? ox_expand(o, counts, &batch, 1)
                              : ox_reduce(o, RLX_OP_REDUCE_SUM, ox_cast(o, mask, RLX_DTYPE_I32),
                                          &axis, 1, false);
    ox_give(o, 1, counts);
}

void rlx_ox_expand_dims(ox *o) {
    ox_give(o, 0, ox_unsqueeze(o, ox_in(o, 0), ox_need_int(o, ox_in(o, 1))));
}

/* Values in the order in which they first occur, the place of each element among them, counts. */
void rlx_ox_unique_unsorted(ox *o) {
    const rlx_unique_attrs attrs = {.unsorted = true};
    rlx_value_id x = ox_in(o, 0), out[5];
    if (ox_ok(o) && ox_rank(o, x) != 1) ox_invalid(o, "input has rank %u", ox_rank(o, x));
    ox_nodes(o, RLX_OP_UNIQUE, &attrs, &x, 1, out, 5);
    ox_give(o, 0, out[0]);
    ox_give(o, 1, out[2]);
    ox_give(o, 2, out[3]);
}

/* Distances between the rows of two matrices, by |a|^2 - 2 a b + |b|^2. */
void rlx_ox_cdist(ox *o) {
    const char *metric = ox_text(o, "metric", "sqeuclidean");
    const rlx_matmul_attrs attrs = {.transpose_b = true, .alpha = -2};
    const rlx_value_id in[] = {ox_in(o, 0), ox_in(o, 1)};
    const int64_t axis = 1;
    bool is_square = strcmp(metric, "sqeuclidean") == 0;
    if (!is_square && strcmp(metric, "euclidean") != 0) ox_unsupported(o, "metric '%s'", metric);
    if (ox_ok(o) && (ox_rank(o, in[0]) != 2 || ox_rank(o, in[1]) != 2))
        ox_invalid(o, "it measures rows of matrices");
    if (!ox_ok(o)) return;
    const int64_t row[] = {1, ox_dim(o, in[1], 0)};
    rlx_value_id a = ox_reduce(o, RLX_OP_REDUCE_SUM_SQUARE, in[0], &axis, 1, true);
    rlx_value_id b = ox_reduce(o, RLX_OP_REDUCE_SUM_SQUARE, in[1], &axis, 1, false);
    rlx_value_id y = ox_node(o, RLX_OP_MATMUL, &attrs, in, 2);
    y = ox_binary(o, RLX_OP_ADD, ox_binary(o, RLX_OP_ADD, y, a), ox_reshape(o, b, row, 2));
    y = ox_unary(o, RLX_OP_RELU, y);
    ox_give(o, 0, is_square ? y : ox_unary(o, RLX_OP_SQRT, y));
}
