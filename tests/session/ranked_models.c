/* SPDX-License-Identifier: Apache-2.0 */
/* Models for ranks: see ranked_models.h. The first failure sticks, so that builders read as models
 * do. */
#include "session/ranked_models.h"

#include <math.h>
#include <stdio.h>

typedef struct builder {
    rlx_graph *graph;
    const ranked_config *config;
    rlx_status status;
    uint32_t weights;
    rlx_value_id positions, first;
} builder;

static rlx_value_id node(builder *b, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                         uint32_t count) {
    rlx_value_id value = RLX_NONE;
    if (b->status != RLX_OK) return RLX_NONE;
    b->status = rlx_graph_add_node(b->graph, op, attrs, inputs, count, 1, &value);
    return value;
}

static rlx_value_id binary(builder *b, rlx_op op, rlx_value_id x, rlx_value_id y) {
    const rlx_value_id inputs[] = {x, y};
    return node(b, op, NULL, inputs, 2);
}

static rlx_value_id weight(builder *b, rlx_dtype dtype, rlx_shape shape, double mean,
                           double scale) {
    rlx_source source = {
        .kind = RLX_SOURCE_SEEDED, .seed = 100 + b->weights, .mean = mean, .scale = scale};
    rlx_value_id value = RLX_NONE;
    char name[32];
    if (b->status != RLX_OK) return RLX_NONE;
    snprintf(name, sizeof name, "w%u", b->weights++);
    b->status = rlx_graph_add_parameter(b->graph, name, dtype, shape, &source, &value);
    return value;
}

static rlx_value_id constant(builder *b, int64_t count) {
    float data[512];
    rlx_value_id value = RLX_NONE;
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)sin((double)(i + b->weights));
    b->weights++;
    if (b->status != RLX_OK) return RLX_NONE;
    b->status = rlx_graph_add_constant(b->graph, NULL, RLX_DTYPE_F32, (rlx_shape){1, {count}}, data,
                                       (uint64_t)count * sizeof *data, &value);
    return value;
}

static rlx_value_id dense_with(builder *b, rlx_value_id x, int64_t inputs, int64_t outputs,
                               rlx_op activation) {
    bool turned = b->config->is_transposed;
    rlx_dtype dtype = b->config->is_small ? b->config->weights : RLX_DTYPE_F32;
    rlx_matmul_attrs attrs = {.transpose_b = turned, .activation = {.op = activation}};
    rlx_shape shape = {2, {turned ? outputs : inputs, turned ? inputs : outputs}};
    rlx_value_id operands[3] = {x, weight(b, dtype, shape, 0, sqrt(3.0 / (double)inputs)),
                                RLX_NONE};
    if (b->config->has_bias) {
        operands[2] = b->config->has_constants
                          ? constant(b, outputs)
                          : weight(b, RLX_DTYPE_F32, (rlx_shape){1, {outputs}}, 0, 0.5);
    }
    return node(b, RLX_OP_MATMUL, &attrs, operands, b->config->has_bias ? 3 : 2);
}

static rlx_value_id dense(builder *b, rlx_value_id x, int64_t inputs, int64_t outputs) {
    return dense_with(b, x, inputs, outputs, RLX_OP_NONE);
}

static rlx_value_id norm(builder *b, rlx_value_id x) {
    const rlx_norm_attrs attrs = {.axis = -1, .epsilon = 1e-5};
    rlx_value_id inputs[2] = {x};
    inputs[1] = weight(b, RLX_DTYPE_F32, (rlx_shape){1, {b->config->width}}, 1, 0.1);
    return node(b, RLX_OP_RMS_NORM, &attrs, inputs, 2);
}

static rlx_value_id reshape(builder *b, rlx_value_id x, rlx_shape shape) {
    rlx_value_id y = RLX_NONE;
    if (b->status == RLX_OK) b->status = rlx_graph_add_reshape(b->graph, x, shape, &y);
    return y;
}

static rlx_value_id swap_heads(builder *b, rlx_value_id x) {
    static const int64_t perm[] = {0, 2, 1, 3};
    rlx_value_id y = RLX_NONE;
    if (b->status == RLX_OK) b->status = rlx_graph_add_transpose(b->graph, x, perm, 4, &y);
    return y;
}

static rlx_value_id split_heads(builder *b, rlx_value_id x, int64_t heads) {
    return swap_heads(b, reshape(b, x, (rlx_shape){4, {1, 0, heads, b->config->head}}));
}

static rlx_value_id append(builder *b, char kind, uint32_t layer, rlx_value_id rows) {
    static const rlx_state_write_attrs along = {.axis = 2};
    const rlx_shape shape = {4, {1, b->config->kv_heads, RANKED_CAPACITY, b->config->head}};
    rlx_value_id inputs[3] = {RLX_NONE, rows, b->first}, outputs[2];
    char name[32];
    if (b->status != RLX_OK) return RLX_NONE;
    snprintf(name, sizeof name, "%c%u", kind, layer);
    b->status = rlx_graph_add_state(b->graph, name, RLX_DTYPE_F32, shape, &inputs[0]);
    if (b->status != RLX_OK) return RLX_NONE;
    b->status = rlx_graph_add_node(b->graph, RLX_OP_STATE_WRITE, &along, inputs, 3, 2, outputs);
    return outputs[0];
}

/* q, k and v of x, each [1][S][heads * head]. */
static void project(builder *b, rlx_value_id x, rlx_value_id *qkv) {
    const ranked_config *c = b->config;
    int64_t q = c->heads * c->head, kv = c->kv_heads * c->head;
    const int64_t sizes[] = {q, kv, kv};
    if (!c->is_fused) {
        qkv[0] = dense(b, x, c->width, q);
        qkv[1] = dense(b, x, c->width, kv);
        qkv[2] = dense(b, x, c->width, kv);
        return;
    }
    rlx_split_attrs attrs = {.axis = -1, .sizes = {3, sizes}};
    x = dense(b, x, c->width, q + 2 * kv);
    if (b->status != RLX_OK) return;
    b->status = rlx_graph_add_node(b->graph, RLX_OP_SPLIT, &attrs, &x, 1, 3, qkv);
}

static rlx_value_id attend(builder *b, rlx_value_id x, uint32_t layer) {
    const ranked_config *c = b->config;
    const rlx_attention_attrs causal = {.causal = true};
    rlx_value_id qkv[3] = {RLX_NONE, RLX_NONE, RLX_NONE};
    project(b, x, qkv);
    qkv[0] = split_heads(b, qkv[0], c->heads);
    qkv[1] = split_heads(b, qkv[1], c->kv_heads);
    qkv[2] = split_heads(b, qkv[2], c->kv_heads);
    if (c->has_rope) {
        qkv[0] = binary(b, RLX_OP_ROPE, qkv[0], b->positions);
        qkv[1] = binary(b, RLX_OP_ROPE, qkv[1], b->positions);
    }
    if (c->has_cache) {
        qkv[1] = append(b, 'k', layer, qkv[1]);
        qkv[2] = append(b, 'v', layer, qkv[2]);
    }
    x = swap_heads(b, node(b, RLX_OP_ATTENTION, &causal, qkv, 3));
    return dense(b, reshape(b, x, (rlx_shape){3, {1, 0, c->heads * c->head}}), c->heads * c->head,
                 c->width);
}

static rlx_value_id mlp(builder *b, rlx_value_id x) {
    const ranked_config *c = b->config;
    rlx_value_id up = dense(b, x, c->width, c->hidden);
    up = node(b, c->is_gated ? RLX_OP_SILU : RLX_OP_GELU, NULL, &up, 1);
    if (c->is_gated) up = binary(b, RLX_OP_MUL, up, dense(b, x, c->width, c->hidden));
    return dense_with(b, up, c->hidden, c->width, c->is_activated ? RLX_OP_TANH : RLX_OP_NONE);
}

static rlx_value_id add_layer(builder *b, rlx_value_id x, uint32_t layer) {
    const ranked_config *c = b->config;
    if (c->heads != 0) {
        rlx_value_id y = attend(b, c->is_post_norm ? x : norm(b, x), layer);
        x = binary(b, RLX_OP_ADD, x, y);
        if (c->is_post_norm) x = norm(b, x);
    }
    rlx_value_id y = mlp(b, c->is_post_norm ? x : norm(b, x));
    x = binary(b, RLX_OP_ADD, x, y);
    return c->is_post_norm ? norm(b, x) : x;
}

static void add_inputs(builder *b, rlx_value_id *x) {
    int64_t count = 0;
    b->status = rlx_graph_symbol(b->graph, "S", &count);
    if (b->status == RLX_OK) {
        b->status = rlx_graph_add_input(b->graph, "x", RLX_DTYPE_F32,
                                        (rlx_shape){3, {1, count, b->config->width}}, x);
    }
    if (b->status == RLX_OK && b->config->has_cache) {
        b->status =
            rlx_graph_add_input(b->graph, "first", RLX_DTYPE_I64, (rlx_shape){0}, &b->first);
    }
    if (b->status == RLX_OK && b->config->has_rope) {
        b->status = rlx_graph_add_input(b->graph, "positions", RLX_DTYPE_I64,
                                        (rlx_shape){1, {count}}, &b->positions);
    }
}

rlx_status ranked_build(const void *config, rlx_graph **out_graph) {
    builder b = {.config = config, .positions = RLX_NONE, .first = RLX_NONE};
    rlx_value_id x = RLX_NONE;
    RLX_TRY(rlx_graph_create(NULL, &b.graph));
    add_inputs(&b, &x);
    for (uint32_t i = 0; i < b.config->layers; i++)
        x = add_layer(&b, x, i);
    if (b.status == RLX_OK) b.status = rlx_graph_add_output(b.graph, x, "y");
    if (b.status != RLX_OK) {
        rlx_graph_destroy(b.graph);
        return b.status;
    }
    *out_graph = b.graph;
    return RLX_OK;
}

static rlx_status run_entry(const ranked_config *config, rlx_exec *exec, uint32_t entry,
                            int64_t first, int64_t count, float *out) {
    float x[RANKED_PROMPT * 512];
    int64_t positions[RANKED_PROMPT];
    uint64_t elements = (uint64_t)(count * config->width);
    for (int64_t i = 0; i < count * config->width; i++)
        x[i] = (float)sin(0.37 * (double)(i + first * config->width));
    for (int64_t i = 0; i < count; i++)
        positions[i] = first + i;
    RLX_TRY(rlx_exec_set_f32(exec, entry, "x", x, elements));
    if (config->has_cache) RLX_TRY(rlx_exec_set(exec, entry, "first", &first, sizeof first));
    if (config->has_rope) {
        RLX_TRY(
            rlx_exec_set(exec, entry, "positions", positions, (uint64_t)count * sizeof *positions));
    }
    RLX_TRY(rlx_exec_run(exec, entry));
    return rlx_exec_read_f32(exec, entry, "y", out, elements, NULL);
}

rlx_status ranked_run(const void *user, rlx_exec *exec, uint32_t rank, float *out,
                      uint32_t *out_count) {
    const ranked_config *config = user;
    (void)rank;
    RLX_TRY(run_entry(config, exec, 0, 0, RANKED_PROMPT, out));
    out += RANKED_PROMPT * config->width;
    for (int64_t i = 0; i < RANKED_STEPS; i++, out += config->width)
        RLX_TRY(run_entry(config, exec, 1, RANKED_PROMPT + i, 1, out));
    *out_count = (uint32_t)((RANKED_PROMPT + RANKED_STEPS) * config->width);
    return RLX_OK;
}

ranked_model ranked_of(const ranked_config *config) {
    static const rlx_binding sizes[] = {{"S", RANKED_PROMPT}, {"S", 1}};
    static const rlx_entry_spec entries[] = {
        {.name = "prefill", .bindings = &sizes[0], .binding_count = 1},
        {.name = "decode", .bindings = &sizes[1], .binding_count = 1}};
    return (ranked_model){.build = ranked_build,
                          .run = ranked_run,
                          .user = config,
                          .options = {.entries = entries, .entry_count = 2}};
}
