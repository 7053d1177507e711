/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of resnet50, squeezenet 1.1, inception v2 (batch-normalised), densenet121, and a
 * decoder of 16 layers of width 2048. */
#include "graphs.h"
#include "net.h"

static rlx_value_id image(net *self) {
    return net_input(self, "image", RLX_DTYPE_F32, (rlx_shape){4, {1, 3, 224, 224}});
}

static rlx_value_id bottleneck(net *self, rlx_value_id x, int64_t width, int64_t stride,
                               bool has_projection) {
    rlx_value_id y = net_conv_bn_relu(self, x, width, 1, stride, 0);
    y = net_conv_bn_relu(self, y, width, 3, 1, 1);
    y = net_batch_norm(self, net_conv(self, y, 4 * width, 1, 1, 0, false));
    if (has_projection) {
        x = net_batch_norm(self, net_conv(self, x, 4 * width, 1, stride, 0, false));
    }
    return net_unary(self, RLX_OP_RELU, net_binary(self, RLX_OP_ADD, y, x));
}

static rlx_status build_resnet50(rlx_graph **out_graph) {
    static const int64_t blocks[] = {3, 4, 6, 3};
    net self = net_begin();
    rlx_value_id x = net_conv_bn_relu(&self, image(&self), 64, 7, 2, 3);
    x = net_max_pool(&self, x, 3, 2, 1, false);
    for (int64_t stage = 0; stage < 4; stage++) {
        for (int64_t block = 0; block < blocks[stage]; block++) {
            int64_t stride = stage != 0 && block == 0 ? 2 : 1;
            x = bottleneck(&self, x, 64 << stage, stride, block == 0);
        }
    }
    x = net_dense(&self, net_global_average(&self, x), 1000, true);
    const rlx_axis_attrs last = {-1};
    return net_end(&self, net_node(&self, RLX_OP_SOFTMAX, &last, &x, 1), out_graph);
}

static rlx_value_id conv_relu(net *self, rlx_value_id x, int64_t channels, int64_t kernel,
                              int64_t stride, int64_t pad) {
    return net_unary(self, RLX_OP_RELU, net_conv(self, x, channels, kernel, stride, pad, true));
}

static rlx_value_id fire(net *self, rlx_value_id x, int64_t squeeze, int64_t expand) {
    rlx_value_id parts[2];
    x = conv_relu(self, x, squeeze, 1, 1, 0);
    parts[0] = conv_relu(self, x, expand, 1, 1, 0);
    parts[1] = conv_relu(self, x, expand, 3, 1, 1);
    return net_concat(self, 1, parts, 2);
}

static rlx_status build_squeezenet(rlx_graph **out_graph) {
    static const int64_t widths[][2] = {{16, 64},  {16, 64},  {32, 128}, {32, 128},
                                        {48, 192}, {48, 192}, {64, 256}, {64, 256}};
    net self = net_begin();
    rlx_value_id x = conv_relu(&self, image(&self), 64, 3, 2, 0);
    x = net_max_pool(&self, x, 3, 2, 0, false);
    for (int i = 0; i < 8; i++) {
        if (i == 2 || i == 4) x = net_max_pool(&self, x, 3, 2, 0, false);
        x = fire(&self, x, widths[i][0], widths[i][1]);
    }
    x = net_global_average(&self, conv_relu(&self, x, 1000, 1, 1, 0));
    const rlx_axis_attrs last = {-1};
    return net_end(&self, net_node(&self, RLX_OP_SOFTMAX, &last, &x, 1), out_graph);
}

/* Widths of one inception block: 1x1; 3x3 after its reduction; two 3x3 after theirs; after the pool
 * (0: the pool's output itself). stride 2: no 1x1 branch. */
typedef struct inception_widths {
    int64_t one, reduce3, three, reduce33, three3, pool;
    bool is_average;
    int64_t stride;
} inception_widths;

static rlx_value_id inception(net *self, rlx_value_id x, const inception_widths *w) {
    rlx_value_id parts[4], y;
    uint32_t count = 0;
    if (w->one != 0) parts[count++] = net_conv_bn_relu(self, x, w->one, 1, 1, 0);
    y = net_conv_bn_relu(self, x, w->reduce3, 1, 1, 0);
    parts[count++] = net_conv_bn_relu(self, y, w->three, 3, w->stride, 1);
    y = net_conv_bn_relu(self, x, w->reduce33, 1, 1, 0);
    y = net_conv_bn_relu(self, y, w->three3, 3, 1, 1);
    parts[count++] = net_conv_bn_relu(self, y, w->three3, 3, w->stride, 1);
    y = w->is_average ? net_average_pool(self, x, 3, w->stride, 1)
                      : net_max_pool(self, x, 3, w->stride, 1, false);
    parts[count++] = w->pool == 0 ? y : net_conv_bn_relu(self, y, w->pool, 1, 1, 0);
    return net_concat(self, 1, parts, count);
}

static rlx_status build_inception_v2(rlx_graph **out_graph) {
    static const inception_widths widths[] = {
        {64, 64, 64, 64, 96, 32, true, 1},       {64, 64, 96, 64, 96, 64, true, 1},
        {0, 128, 160, 64, 96, 0, false, 2},      {224, 64, 96, 96, 128, 128, true, 1},
        {192, 96, 128, 96, 128, 128, true, 1},   {160, 128, 160, 128, 160, 128, true, 1},
        {96, 128, 192, 160, 192, 128, true, 1},  {0, 128, 192, 192, 256, 0, false, 2},
        {352, 192, 320, 160, 224, 128, true, 1}, {352, 192, 320, 192, 224, 128, false, 1}};
    net self = net_begin();
    rlx_value_id x = net_conv_bn_relu(&self, image(&self), 64, 7, 2, 3);
    x = net_max_pool(&self, x, 3, 2, 1, false);
    x = net_conv_bn_relu(&self, x, 64, 1, 1, 0);
    x = net_conv_bn_relu(&self, x, 192, 3, 1, 1);
    x = net_max_pool(&self, x, 3, 2, 1, false);
    for (int i = 0; i < 10; i++)
        x = inception(&self, x, &widths[i]);
    x = net_dense(&self, net_global_average(&self, x), 1000, true);
    const rlx_axis_attrs last = {-1};
    return net_end(&self, net_node(&self, RLX_OP_SOFTMAX, &last, &x, 1), out_graph);
}

static rlx_value_id bn_relu(net *self, rlx_value_id x) {
    return net_unary(self, RLX_OP_RELU, net_batch_norm(self, x));
}

static rlx_status build_densenet121(rlx_graph **out_graph) {
    static const int layers[] = {6, 12, 24, 16};
    net self = net_begin();
    rlx_value_id x = net_conv_bn_relu(&self, image(&self), 64, 7, 2, 3);
    x = net_max_pool(&self, x, 3, 2, 1, false);
    for (int block = 0; block < 4; block++) {
        for (int layer = 0; layer < layers[block]; layer++) {
            rlx_value_id parts[2] = {x};
            rlx_value_id y = net_conv(&self, bn_relu(&self, x), 128, 1, 1, 0, false);
            parts[1] = net_conv(&self, bn_relu(&self, y), 32, 3, 1, 1, false);
            x = net_concat(&self, 1, parts, 2);
        }
        x = bn_relu(&self, x);
        if (block == 3) break;
        x = net_conv(&self, x, net_dim(&self, x, 1) / 2, 1, 1, 0, false);
        x = net_average_pool(&self, x, 2, 2, 0);
    }
    x = net_dense(&self, net_global_average(&self, x), 1000, true);
    return net_end(&self, x, out_graph);
}

enum {
    TOKENS = 512,
    WIDTH = 2048,
    HEADS = 32,
    KV_HEADS = 8,
    HEAD = 64,
    HIDDEN = 8192,
    LAYERS = 16
};

static rlx_value_id rms_norm(net *self, rlx_value_id x) {
    const rlx_norm_attrs attrs = {.axis = -1, .epsilon = 1e-5};
    rlx_value_id inputs[2] = {x};
    inputs[1] = net_weight(self, (rlx_shape){1, {WIDTH}}, 1, 0.1);
    return net_node(self, RLX_OP_RMS_NORM, &attrs, inputs, 2);
}

/* [1][tokens][heads * 64] to [1][heads][tokens][64]. */
static rlx_value_id heads(net *self, rlx_value_id x, int64_t count) {
    static const int64_t perm[] = {0, 2, 1, 3};
    x = net_reshape(self, x, (rlx_shape){4, {1, TOKENS, count, HEAD}});
    return net_transpose(self, x, perm, 4);
}

static rlx_value_id decoder_layer(net *self, rlx_value_id x, rlx_value_id positions) {
    static const int64_t perm[] = {0, 2, 1, 3};
    const rlx_attention_attrs causal = {.causal = true};
    rlx_value_id n = rms_norm(self, x), qkv[3], rope[2];
    qkv[0] = heads(self, net_dense(self, n, HEADS * HEAD, false), HEADS);
    qkv[1] = heads(self, net_dense(self, n, KV_HEADS * HEAD, false), KV_HEADS);
    qkv[2] = heads(self, net_dense(self, n, KV_HEADS * HEAD, false), KV_HEADS);
    rope[1] = positions;
    for (int i = 0; i < 2; i++) {
        rope[0] = qkv[i];
        qkv[i] = net_node(self, RLX_OP_ROPE, NULL, rope, 2);
    }
    rlx_value_id y = net_node(self, RLX_OP_ATTENTION, &causal, qkv, 3);
    y = net_reshape(self, net_transpose(self, y, perm, 4), (rlx_shape){3, {1, TOKENS, WIDTH}});
    x = net_binary(self, RLX_OP_ADD, x, net_dense(self, y, WIDTH, false));
    n = rms_norm(self, x);
    rlx_value_id gate = net_unary(self, RLX_OP_SILU, net_dense(self, n, HIDDEN, false));
    y = net_binary(self, RLX_OP_MUL, gate, net_dense(self, n, HIDDEN, false));
    return net_binary(self, RLX_OP_ADD, x, net_dense(self, y, WIDTH, false));
}

static rlx_status build_decoder(rlx_graph **out_graph) {
    net self = net_begin();
    rlx_value_id x = net_input(&self, "x", RLX_DTYPE_F32, (rlx_shape){3, {1, TOKENS, WIDTH}});
    rlx_value_id positions = net_input(&self, "positions", RLX_DTYPE_I64, (rlx_shape){1, {TOKENS}});
    for (int i = 0; i < LAYERS; i++)
        x = decoder_layer(&self, x, positions);
    return net_end(&self, rms_norm(&self, x), out_graph);
}

const rlx_bench_graph rlx_bench_graphs[] = {
    {"resnet50", build_resnet50, 7230000},         {"squeezenet", build_squeezenet, 3930000},
    {"inception_v2", build_inception_v2, 4020000}, {"densenet121", build_densenet121, 7230000},
    {"decoder_16x2048", build_decoder, 41900000},
};
const uint32_t rlx_bench_graph_count = sizeof rlx_bench_graphs / sizeof *rlx_bench_graphs;
