/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder as models have them today: rms norm, grouped-query attention with rope, gated silu. The
 * weights are made in the order of the code, so both graphs get the same seeds. */
#include "demo_model.h"

#include "net.h"

#include <math.h>
#include <stdio.h>

enum { WIDTH = 128, LAYERS = 4, HEADS = 8, KV_HEADS = 2, HEAD = 16, HIDDEN = 384 };

typedef struct demo_inputs {
    rlx_value_id positions; /* i64 [S] */
    rlx_value_id first;     /* i64 []: the first of them, where a cache is written */
    bool has_cache;
} demo_inputs;

/* net_dense reads the width from x, which has no shape before S is bound. */
static rlx_value_id dense(net *self, rlx_value_id x, int64_t inputs, int64_t outputs) {
    double scale = sqrt(3.0 / (double)inputs); /* outputs as large as inputs */
    return net_binary(self, RLX_OP_MATMUL, x,
                      net_weight(self, (rlx_shape){2, {inputs, outputs}}, 0, scale));
}

static rlx_value_id rms_norm(net *self, rlx_value_id x) {
    const rlx_norm_attrs attrs = {.axis = -1, .epsilon = 1e-5};
    rlx_value_id inputs[2] = {x};
    inputs[1] = net_weight(self, (rlx_shape){1, {WIDTH}}, 1, 0.1);
    return net_node(self, RLX_OP_RMS_NORM, &attrs, inputs, 2);
}

/* [1][S][count * HEAD] to [1][count][S][HEAD]. A 0 keeps the dim, whatever S is. */
static rlx_value_id split_heads(net *self, rlx_value_id x, int64_t count) {
    static const int64_t perm[] = {0, 2, 1, 3};
    x = net_reshape(self, x, (rlx_shape){4, {1, 0, count, HEAD}});
    return net_transpose(self, x, perm, 4);
}

static rlx_value_id join_heads(net *self, rlx_value_id x) {
    static const int64_t perm[] = {0, 2, 1, 3};
    return net_reshape(self, net_transpose(self, x, perm, 4), (rlx_shape){3, {1, 0, WIDTH}});
}

static rlx_value_id rope(net *self, rlx_value_id x, rlx_value_id positions) {
    return net_binary(self, RLX_OP_ROPE, x, positions);
}

/* Appends rows [1][KV_HEADS][S][HEAD] at the first position; gives the cache as far as written. */
static rlx_value_id append(net *self, const char *name, int layer, rlx_value_id rows,
                           rlx_value_id first) {
    static const rlx_state_write_attrs along_tokens = {.axis = 2};
    const rlx_shape shape = {4, {1, KV_HEADS, DEMO_CAPACITY, HEAD}};
    rlx_value_id inputs[3] = {RLX_NONE, rows, first}, outputs[2] = {RLX_NONE, RLX_NONE};
    char full_name[32];
    snprintf(full_name, sizeof full_name, "layer%d.%s", layer, name);
    if (self->status != RLX_OK) return RLX_NONE;
    self->status = rlx_graph_add_state(self->graph, full_name, RLX_DTYPE_F32, shape, &inputs[0]);
    if (self->status != RLX_OK) return RLX_NONE;
    self->status =
        rlx_graph_add_node(self->graph, RLX_OP_STATE_WRITE, &along_tokens, inputs, 3, 2, outputs);
    return outputs[0];
}

static rlx_value_id attend(net *self, rlx_value_id x, int layer, const demo_inputs *given) {
    static const rlx_attention_attrs causal = {.causal = true};
    rlx_value_id qkv[3];
    qkv[0] = split_heads(self, dense(self, x, WIDTH, HEADS * HEAD), HEADS);
    qkv[1] = split_heads(self, dense(self, x, WIDTH, KV_HEADS * HEAD), KV_HEADS);
    qkv[2] = split_heads(self, dense(self, x, WIDTH, KV_HEADS * HEAD), KV_HEADS);
    qkv[0] = rope(self, qkv[0], given->positions);
    qkv[1] = rope(self, qkv[1], given->positions);
    if (given->has_cache) {
        qkv[1] = append(self, "keys", layer, qkv[1], given->first);
        qkv[2] = append(self, "values", layer, qkv[2], given->first);
    }
    return join_heads(self, net_node(self, RLX_OP_ATTENTION, &causal, qkv, 3));
}

static rlx_value_id add_layer(net *self, rlx_value_id x, int layer, const demo_inputs *given) {
    rlx_value_id y = attend(self, rms_norm(self, x), layer, given);
    x = net_binary(self, RLX_OP_ADD, x, dense(self, y, HEADS * HEAD, WIDTH));
    y = rms_norm(self, x);
    rlx_value_id gate = net_unary(self, RLX_OP_SILU, dense(self, y, WIDTH, HIDDEN));
    y = net_binary(self, RLX_OP_MUL, gate, dense(self, y, WIDTH, HIDDEN));
    return net_binary(self, RLX_OP_ADD, x, dense(self, y, HIDDEN, WIDTH));
}

static rlx_value_id first_of(net *self, rlx_value_id positions) {
    static const rlx_axis_attrs rows = {0};
    const int64_t zero = 0;
    rlx_value_id inputs[2] = {positions, RLX_NONE};
    if (self->status != RLX_OK) return RLX_NONE;
    self->status = rlx_graph_add_constant(self->graph, "zero", RLX_DTYPE_I64, (rlx_shape){0}, &zero,
                                          sizeof zero, &inputs[1]);
    return net_node(self, RLX_OP_GATHER, &rows, inputs, 2);
}

static rlx_value_id embed(net *self, rlx_value_id tokens) {
    static const rlx_axis_attrs rows = {0};
    rlx_value_id inputs[2] = {RLX_NONE, tokens};
    inputs[0] = net_weight(self, (rlx_shape){2, {DEMO_VOCABULARY, WIDTH}}, 0, 1);
    return net_reshape(self, net_node(self, RLX_OP_GATHER, &rows, inputs, 2),
                       (rlx_shape){3, {1, -1, WIDTH}});
}

rlx_status demo_model_build(bool has_cache, rlx_graph **out_graph) {
    net self = net_begin();
    demo_inputs given = {RLX_NONE, RLX_NONE, has_cache};
    int64_t count = 0;
    if (self.status == RLX_OK) self.status = rlx_graph_symbol(self.graph, "S", &count);
    rlx_value_id tokens = net_input(&self, "tokens", RLX_DTYPE_I64, (rlx_shape){1, {count}});
    given.positions = net_input(&self, "positions", RLX_DTYPE_I64, (rlx_shape){1, {count}});
    if (has_cache) given.first = first_of(&self, given.positions);
    rlx_value_id x = embed(&self, tokens);
    for (int i = 0; i < LAYERS; i++)
        x = add_layer(&self, x, i, &given);
    x = dense(&self, rms_norm(&self, x), WIDTH, DEMO_VOCABULARY);
    if (self.status == RLX_OK) self.status = rlx_graph_add_output(self.graph, x, "logits");
    if (self.status == RLX_OK) {
        *out_graph = self.graph;
    } else {
        rlx_graph_destroy(self.graph);
    }
    return self.status;
}

const char *demo_model_text(void) {
    static char text[160];
    int per_layer = WIDTH * HEAD * (2 * HEADS + 2 * KV_HEADS) + 3 * WIDTH * HIDDEN + 2 * WIDTH;
    int parameters = LAYERS * per_layer + 2 * DEMO_VOCABULARY * WIDTH + WIDTH;
    snprintf(text, sizeof text,
             "%d layers of width %d, %d heads over %d K/V heads of %d, hidden %d, "
             "%d parameters, %d tokens at most",
             LAYERS, WIDTH, HEADS, KV_HEADS, HEAD, HIDDEN, parameters, DEMO_CAPACITY);
    return text;
}
