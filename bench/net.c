/* SPDX-License-Identifier: Apache-2.0 */
/* Layers on top of the graph API. */
#include "net.h"

#include <math.h>

net net_begin(void) {
    net self = {.seed = 1};
    self.status = rlx_graph_create(NULL, &self.graph);
    return self;
}

rlx_status net_end(net *self, rlx_value_id output, rlx_graph **out_graph) {
    if (self->status == RLX_OK) self->status = rlx_graph_add_output(self->graph, output, "output");
    if (self->status != RLX_OK) {
        rlx_graph_destroy(self->graph);
        return self->status;
    }
    *out_graph = self->graph;
    return RLX_OK;
}

rlx_value_id net_input(net *self, const char *name, rlx_dtype dtype, rlx_shape shape) {
    rlx_value_id value = RLX_NONE;
    if (self->status != RLX_OK) return value;
    self->status = rlx_graph_add_input(self->graph, name, dtype, shape, &value);
    return value;
}

rlx_value_id net_weight(net *self, rlx_shape shape, double mean, double scale) {
    rlx_value_id value = RLX_NONE;
    rlx_source source = {
        .kind = RLX_SOURCE_SEEDED, .seed = self->seed++, .mean = mean, .scale = scale};
    if (self->status != RLX_OK) return value;
    self->status =
        rlx_graph_add_parameter(self->graph, NULL, RLX_DTYPE_F32, shape, &source, &value);
    return value;
}

rlx_value_id net_node(net *self, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                      uint32_t count) {
    rlx_value_id value = RLX_NONE;
    if (self->status != RLX_OK) return value;
    self->status = rlx_graph_add_node(self->graph, op, attrs, inputs, count, 1, &value);
    return value;
}

rlx_value_id net_unary(net *self, rlx_op op, rlx_value_id x) {
    return net_node(self, op, NULL, &x, 1);
}

rlx_value_id net_binary(net *self, rlx_op op, rlx_value_id a, rlx_value_id b) {
    const rlx_value_id inputs[] = {a, b};
    return net_node(self, op, NULL, inputs, 2);
}

rlx_value_id net_concat(net *self, int64_t axis, const rlx_value_id *parts, uint32_t count) {
    const rlx_axis_attrs attrs = {axis};
    return net_node(self, RLX_OP_CONCAT, &attrs, parts, count);
}

rlx_value_id net_reshape(net *self, rlx_value_id x, rlx_shape shape) {
    rlx_value_id value = RLX_NONE;
    if (self->status != RLX_OK) return value;
    self->status = rlx_graph_add_reshape(self->graph, x, shape, &value);
    return value;
}

rlx_value_id net_transpose(net *self, rlx_value_id x, const int64_t *perm, uint32_t rank) {
    rlx_value_id value = RLX_NONE;
    if (self->status != RLX_OK) return value;
    self->status = rlx_graph_add_transpose(self->graph, x, perm, rank, &value);
    return value;
}

int64_t net_dim(net *self, rlx_value_id x, uint32_t axis) {
    rlx_value_info info;
    if (self->status != RLX_OK) return 1;
    self->status = rlx_graph_value(self->graph, x, &info);
    return self->status == RLX_OK && axis < info.shape.rank ? info.shape.dims[axis] : 1;
}

static rlx_ints both(int64_t value) {
    return (rlx_ints){2, {value, value}};
}

rlx_value_id net_conv(net *self, rlx_value_id x, int64_t channels, int64_t kernel, int64_t stride,
                      int64_t pad, bool has_bias) {
    int64_t in = net_dim(self, x, 1);
    double scale = sqrt(3.0 / (double)(in * kernel * kernel));
    rlx_conv_attrs attrs = {.strides = both(stride), .pads = {4, {pad, pad, pad, pad}}};
    rlx_value_id inputs[3] = {x};
    inputs[1] = net_weight(self, (rlx_shape){4, {channels, in, kernel, kernel}}, 0, scale);
    if (has_bias) inputs[2] = net_weight(self, (rlx_shape){1, {channels}}, 0, 0.1);
    return net_node(self, RLX_OP_CONV, &attrs, inputs, has_bias ? 3 : 2);
}

rlx_value_id net_batch_norm(net *self, rlx_value_id x) {
    const rlx_shape shape = {1, {net_dim(self, x, 1)}};
    const rlx_norm_attrs attrs = {.epsilon = 1e-5};
    rlx_value_id inputs[5] = {x};
    inputs[1] = net_weight(self, shape, 1, 0.1);
    inputs[2] = net_weight(self, shape, 0, 0.1);
    inputs[3] = net_weight(self, shape, 0, 0.1);
    inputs[4] = net_weight(self, shape, 1, 0.1);
    return net_node(self, RLX_OP_BATCH_NORM, &attrs, inputs, 5);
}

rlx_value_id net_conv_bn_relu(net *self, rlx_value_id x, int64_t channels, int64_t kernel,
                              int64_t stride, int64_t pad) {
    x = net_conv(self, x, channels, kernel, stride, pad, false);
    return net_unary(self, RLX_OP_RELU, net_batch_norm(self, x));
}

static rlx_value_id pool(net *self, rlx_op op, rlx_value_id x, int64_t kernel, int64_t stride,
                         int64_t pad, bool ceil_mode) {
    rlx_pool_attrs attrs = {.kernel = both(kernel),
                            .strides = both(stride),
                            .pads = {4, {pad, pad, pad, pad}},
                            .ceil_mode = ceil_mode};
    return net_node(self, op, &attrs, &x, 1);
}

rlx_value_id net_max_pool(net *self, rlx_value_id x, int64_t kernel, int64_t stride, int64_t pad,
                          bool ceil_mode) {
    return pool(self, RLX_OP_MAX_POOL, x, kernel, stride, pad, ceil_mode);
}

rlx_value_id net_average_pool(net *self, rlx_value_id x, int64_t kernel, int64_t stride,
                              int64_t pad) {
    return pool(self, RLX_OP_AVERAGE_POOL, x, kernel, stride, pad, false);
}

rlx_value_id net_global_average(net *self, rlx_value_id x) {
    const rlx_reduce_attrs attrs = {.axes = {2, {2, 3}}};
    return net_node(self, RLX_OP_REDUCE_MEAN, &attrs, &x, 1);
}

rlx_value_id net_dense(net *self, rlx_value_id x, int64_t outputs, bool has_bias) {
    rlx_value_info info = {0};
    if (self->status == RLX_OK) self->status = rlx_graph_value(self->graph, x, &info);
    int64_t inputs = info.shape.rank == 0 ? 1 : info.shape.dims[info.shape.rank - 1];
    double scale = sqrt(3.0 / (double)inputs);
    rlx_value_id w = net_weight(self, (rlx_shape){2, {inputs, outputs}}, 0, scale);
    rlx_value_id y = net_binary(self, RLX_OP_MATMUL, x, w);
    if (!has_bias) return y;
    return net_binary(self, RLX_OP_ADD, y, net_weight(self, (rlx_shape){1, {outputs}}, 0, 0.1));
}
