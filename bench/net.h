/* SPDX-License-Identifier: Apache-2.0 */
/* A few layers on top of the graph API. A failure sticks: later calls do nothing, and the status is
 * looked at once, at the end. */
#ifndef RLX_BENCH_NET_H
#define RLX_BENCH_NET_H

#include <rlx/rlx.h>

typedef struct net {
    rlx_graph *graph;
    rlx_status status;
    uint64_t seed; /* of the next parameter */
} net;

net net_begin(void);
/* Adds the output and hands the graph over, or destroys it and gives the failure. */
rlx_status net_end(net *self, rlx_value_id output, rlx_graph **out_graph);

rlx_value_id net_input(net *self, const char *name, rlx_dtype dtype, rlx_shape shape);
rlx_value_id net_weight(net *self, rlx_shape shape, double mean, double scale);
rlx_value_id net_node(net *self, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                      uint32_t count);
rlx_value_id net_unary(net *self, rlx_op op, rlx_value_id x);
rlx_value_id net_binary(net *self, rlx_op op, rlx_value_id a, rlx_value_id b);
rlx_value_id net_concat(net *self, int64_t axis, const rlx_value_id *parts, uint32_t count);
rlx_value_id net_reshape(net *self, rlx_value_id x, rlx_shape shape);
rlx_value_id net_transpose(net *self, rlx_value_id x, const int64_t *perm, uint32_t rank);

/* 2-D convolution, square kernel, the same padding on all sides; channels are read from x. */
rlx_value_id net_conv(net *self, rlx_value_id x, int64_t channels, int64_t kernel, int64_t stride,
                      int64_t pad, bool has_bias);
rlx_value_id net_batch_norm(net *self, rlx_value_id x);
rlx_value_id net_conv_bn_relu(net *self, rlx_value_id x, int64_t channels, int64_t kernel,
                              int64_t stride, int64_t pad);
rlx_value_id net_max_pool(net *self, rlx_value_id x, int64_t kernel, int64_t stride, int64_t pad,
                          bool ceil_mode);
rlx_value_id net_average_pool(net *self, rlx_value_id x, int64_t kernel, int64_t stride,
                              int64_t pad);
rlx_value_id net_global_average(net *self, rlx_value_id x); /* [N][C][H][W] to [N][C] */
rlx_value_id net_dense(net *self, rlx_value_id x, int64_t outputs, bool has_bias);
int64_t net_dim(net *self, rlx_value_id x, uint32_t axis);

#endif
