/* SPDX-License-Identifier: Apache-2.0 */
/* The generator of random graphs. Every activation has 128 elements, so that any can be seen in any
 * of the shapes below. */
#include "support/random_graph.h"

#include "support/support.h"

#include <stdio.h>

enum { MOST_VALUES = 64, ELEMENTS = 128 };

typedef struct maker {
    rlx_graph *graph;
    rlx_test_random random;
    rlx_value_id pool[MOST_VALUES]; /* f32, ELEMENTS each */
    uint32_t count;
    uint64_t next_seed;
} maker;

static const rlx_shape shapes[] = {
    {2, {16, 8}}, {3, {2, 8, 8}}, {4, {2, 4, 4, 4}}, {4, {2, 2, 8, 4}}, {1, {128}}};
enum { MATRIX, SEQUENCE, IMAGE, HEADS, SHAPES = 5 };

static uint32_t below(maker *self, uint32_t limit) {
    return (uint32_t)rlx_test_below(&self->random, limit);
}

static rlx_value_id node(maker *self, rlx_op op, const void *attrs, const rlx_value_id *inputs,
                         uint32_t count) {
    rlx_value_id value;
    assert_ok(rlx_graph_add_node(self->graph, op, attrs, inputs, count, 1, &value));
    return value;
}

static rlx_value_id unary(maker *self, rlx_op op, rlx_value_id x) {
    rlx_unary_attrs attrs = {0};
    return node(self, op, &attrs, &x, 1);
}

/* Either order where it does not matter. */
static rlx_value_id binary(maker *self, rlx_op op, rlx_value_id a, rlx_value_id b) {
    bool is_swapped = (op == RLX_OP_ADD || op == RLX_OP_MUL) && below(self, 2) == 0;
    rlx_value_id inputs[2] = {is_swapped ? b : a, is_swapped ? a : b};
    return node(self, op, NULL, inputs, 2);
}

static rlx_value_id number(maker *self, float value) {
    rlx_value_id id;
    assert_ok(rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_F32, (rlx_shape){0}, &value,
                                     sizeof value, &id));
    return id;
}

static rlx_value_id parameter(maker *self, rlx_shape shape, double mean, double scale) {
    rlx_source source = {
        .kind = RLX_SOURCE_SEEDED, .seed = self->next_seed++, .mean = mean, .scale = scale};
    rlx_value_id id;
    assert_ok(rlx_graph_add_parameter(self->graph, NULL, RLX_DTYPE_F32, shape, &source, &id));
    return id;
}

static rlx_value_id reshape(maker *self, rlx_value_id x, rlx_shape shape) {
    rlx_value_info info;
    assert_ok(rlx_graph_value(self->graph, x, &info));
    if (info.shape.rank == shape.rank &&
        memcmp(info.shape.dims, shape.dims, shape.rank * sizeof *shape.dims) == 0) {
        return x;
    }
    rlx_value_id y;
    assert_ok(rlx_graph_add_reshape(self->graph, x, shape, &y));
    return y;
}

/* Some value in this shape, the latest most often. */
static rlx_value_id pick(maker *self, uint32_t shape) {
    uint32_t back = below(self, 3) == 0 ? below(self, self->count) : 0;
    return reshape(self, self->pool[self->count - 1 - back], shapes[shape]);
}

static void put(maker *self, rlx_value_id value) {
    if (self->count < MOST_VALUES) self->pool[self->count++] = value;
}

static rlx_value_id tame(maker *self, rlx_value_id x) {
    static const rlx_op ops[] = {RLX_OP_TANH, RLX_OP_SIGMOID, RLX_OP_ATAN, RLX_OP_SOFTSIGN,
                                 RLX_OP_SIN,  RLX_OP_RELU,    RLX_OP_GELU, RLX_OP_SILU};
    return unary(self, ops[below(self, sizeof ops / sizeof *ops)], x);
}

static void make_linear(maker *self) {
    rlx_value_id x = pick(self, below(self, 2) == 0 ? MATRIX : SEQUENCE);
    rlx_value_id w = parameter(self, (rlx_shape){2, {8, 8}}, 0, 0.4);
    rlx_matmul_attrs attrs = {.transpose_b = below(self, 2) == 0};
    rlx_value_id inputs[2] = {x, w};
    if (below(self, 4) == 0) inputs[1] = node(self, RLX_OP_TRANSPOSE, NULL, &w, 1);
    rlx_value_id y = node(self, RLX_OP_MATMUL, &attrs, inputs, 2);
    if (below(self, 4) == 0) y = binary(self, RLX_OP_MUL, y, number(self, 0.5f));
    if (below(self, 2) == 0) {
        y = binary(self, RLX_OP_ADD, y, parameter(self, (rlx_shape){1, {8}}, 0, 0.5));
    }
    if (below(self, 2) == 0) put(self, y);
    if (below(self, 2) == 0) y = binary(self, RLX_OP_ADD, y, x);
    if (below(self, 2) == 0) y = tame(self, y);
    if (below(self, 3) == 0) y = binary(self, RLX_OP_MUL, y, x);
    put(self, y);
}

static void make_conv(maker *self) {
    rlx_value_id x = pick(self, IMAGE), y;
    bool is_grouped = below(self, 2) == 0, is_turned = below(self, 3) == 0;
    rlx_conv_attrs attrs = {.groups = is_grouped ? 2 : 0, .pads = {4, {1, 1, 1, 1}}};
    rlx_shape shape = {4, {4, is_grouped ? 2 : 4, 3, 3}};
    rlx_value_id inputs[2] = {x, parameter(self, shape, 0, 0.3)};
    y = node(self, is_turned ? RLX_OP_CONV_TRANSPOSE : RLX_OP_CONV, &attrs, inputs, 2);
    if (below(self, 3) == 0) put(self, y);
    if (below(self, 3) != 0) {
        rlx_shape vector = {1, {4}};
        rlx_norm_attrs norm = {.epsilon = 1e-3};
        rlx_value_id all[5] = {y, parameter(self, vector, 1, 0.5), parameter(self, vector, 0, 0.5),
                               parameter(self, vector, 0, 0.5), parameter(self, vector, 1, 0.5)};
        y = node(self, RLX_OP_BATCH_NORM, &norm, all, 5);
    }
    if (below(self, 3) == 0) {
        rlx_shape bias = {3, {4, 1, 1}};
        y = binary(self, RLX_OP_ADD, y, parameter(self, bias, 0, 0.5));
    }
    if (below(self, 2) == 0) y = binary(self, RLX_OP_ADD, y, pick(self, IMAGE));
    if (below(self, 3) != 0) y = tame(self, y);
    put(self, y);
}

static void make_norm(maker *self) {
    rlx_value_id x = pick(self, SEQUENCE), d = x, y;
    bool is_layer = below(self, 2) == 0;
    if (below(self, 2) == 0) {
        x = binary(self, RLX_OP_ADD, x, pick(self, SEQUENCE));
        if (below(self, 2) == 0) put(self, x);
        d = x;
    }
    if (below(self, 3) == 0) {
        rlx_norm_attrs attrs = {.axis = -1, .epsilon = 1e-3};
        put(self, node(self, is_layer ? RLX_OP_LAYER_NORM : RLX_OP_RMS_NORM, &attrs, &x, 1));
        return;
    }
    rlx_reduce_attrs mean = {.axes = {1, {-1}}, .keep_dims = true};
    if (is_layer) {
        d = binary(self, RLX_OP_SUB, x, node(self, RLX_OP_REDUCE_MEAN, &mean, &x, 1));
    }
    rlx_value_id q = below(self, 2) == 0 ? binary(self, RLX_OP_MUL, d, d)
                                         : binary(self, RLX_OP_POW, d, number(self, 2));
    rlx_value_id v = node(self, RLX_OP_REDUCE_MEAN, &mean, &q, 1);
    rlx_value_id s = unary(self, RLX_OP_SQRT, binary(self, RLX_OP_ADD, v, number(self, 1e-2f)));
    y = below(self, 2) == 0 ? binary(self, RLX_OP_DIV, d, s)
                            : binary(self, RLX_OP_MUL, d, unary(self, RLX_OP_RECIPROCAL, s));
    rlx_shape vector = {1, {8}};
    if (below(self, 2) == 0) y = binary(self, RLX_OP_MUL, y, parameter(self, vector, 1, 0.3));
    if (below(self, 2) == 0) y = binary(self, RLX_OP_ADD, y, parameter(self, vector, 0, 0.3));
    put(self, y);
}

static void make_attention(maker *self) {
    rlx_value_id q = pick(self, HEADS), k = pick(self, HEADS), v = pick(self, HEADS);
    rlx_transpose_attrs swap = {.perm = {4, {0, 1, 3, 2}}};
    rlx_matmul_attrs attrs = {.transpose_b = below(self, 2) == 0};
    rlx_axis_attrs axis = {.axis = below(self, 6) == 0 ? 2 : -1};
    if (below(self, 3) == 0) q = binary(self, RLX_OP_MUL, q, number(self, 0.5f));
    if (!attrs.transpose_b) k = node(self, RLX_OP_TRANSPOSE, &swap, &k, 1);
    rlx_value_id product[2] = {q, k};
    rlx_value_id s = node(self, RLX_OP_MATMUL, &attrs, product, 2);
    if (below(self, 3) == 0) s = binary(self, RLX_OP_DIV, s, number(self, 2));
    if (below(self, 2) == 0) {
        rlx_shape mask = {2, {8, 8}};
        s = binary(self, RLX_OP_ADD, s, parameter(self, mask, 0, 2));
    }
    rlx_value_id p = node(self, RLX_OP_SOFTMAX, &axis, &s, 1);
    rlx_value_id last[2] = {p, v};
    put(self, node(self, RLX_OP_MATMUL, NULL, last, 2));
    if (below(self, 8) == 0) {
        assert_ok(rlx_graph_add_output(self->graph, p, NULL));
    }
}

static void make_activation(maker *self) {
    rlx_value_id x = pick(self, below(self, SHAPES)), y, u;
    switch (below(self, 4)) {
    case 0:
        y = binary(self, RLX_OP_MUL, x, unary(self, RLX_OP_SIGMOID, x));
        break;
    case 1:
        u = unary(self, RLX_OP_ERF, binary(self, RLX_OP_DIV, x, number(self, 1.4142135f)));
        u = binary(self, RLX_OP_ADD, u, number(self, 1));
        y = binary(self, RLX_OP_MUL, binary(self, RLX_OP_MUL, x, u), number(self, 0.5f));
        break;
    case 2:
        u = binary(self, RLX_OP_POW, x, number(self, 3));
        u = binary(self, RLX_OP_ADD, x, binary(self, RLX_OP_MUL, u, number(self, 0.044715f)));
        u = unary(self, RLX_OP_TANH, binary(self, RLX_OP_MUL, u, number(self, 0.7978846f)));
        u = binary(self, RLX_OP_ADD, u, number(self, 1));
        y = binary(self, RLX_OP_MUL, binary(self, RLX_OP_MUL, x, number(self, 0.5f)), u);
        break;
    default: {
        rlx_unary_attrs attrs = {.alpha = 0, .beta = 6};
        u = binary(self, RLX_OP_ADD, x, number(self, 3));
        u = node(self, RLX_OP_CLIP, &attrs, &u, 1);
        y = binary(self, RLX_OP_DIV, binary(self, RLX_OP_MUL, x, u), number(self, 6));
    }
    }
    put(self, y);
}

static void make_elementwise(maker *self) {
    static const rlx_op ops[] = {RLX_OP_ADD, RLX_OP_SUB, RLX_OP_MUL, RLX_OP_MIN, RLX_OP_MAX};
    uint32_t shape = below(self, SHAPES), length = 1 + below(self, 5);
    rlx_value_id y = pick(self, shape);
    for (uint32_t i = 0; i < length; i++) {
        rlx_op op = ops[below(self, sizeof ops / sizeof *ops)];
        uint32_t kind = below(self, 6);
        if (kind == 0) {
            y = binary(self, op, y, number(self, rlx_test_uniform(&self->random, -1, 1)));
        } else if (kind == 1) {
            rlx_shape row = {1, {shapes[shape].dims[shapes[shape].rank - 1]}};
            y = binary(self, op, y, parameter(self, row, 0, 1));
        } else if (kind == 2) {
            y = binary(self, op, y, pick(self, shape));
        } else if (kind == 3) { /* a condition on the input, whose bits no pass changes */
            rlx_value_id three[3] = {0, y, pick(self, shape)};
            three[0] = binary(self, RLX_OP_LESS, reshape(self, self->pool[0], shapes[shape]),
                              number(self, 0));
            y = node(self, RLX_OP_WHERE, NULL, three, 3);
        } else {
            y = tame(self, y);
        }
    }
    put(self, tame(self, y));
}

static void make_views(maker *self) {
    rlx_value_id x = pick(self, IMAGE);
    rlx_transpose_attrs perm = {.perm = {4, {0, 2, 3, 1}}};
    rlx_transpose_attrs back = {.perm = {4, {0, 3, 1, 2}}};
    rlx_axes_attrs first = {.axes = {1, {0}}};
    rlx_slice_attrs all = {.starts = {1, {0}}, .ends = {1, {99}}, .axes = {1, {1}}};
    rlx_slice_attrs reversed = {
        .starts = {1, {-1}}, .ends = {1, {-99}}, .axes = {1, {2}}, .steps = {1, {-1}}};
    rlx_reshape_attrs same = {.shape = {4, {2, 4, 4, 4}}};
    rlx_split_attrs split = {.axis = 1};
    rlx_axis_attrs axis = {.axis = 1};
    rlx_value_id halves[2];
    for (uint32_t i = 1 + below(self, 4); i > 0; i--) {
        switch (below(self, 7)) {
        case 0:
            x = node(self, RLX_OP_TRANSPOSE, &perm, &x, 1);
            break;
        case 1:
            x = node(self, RLX_OP_TRANSPOSE, &back, &x, 1);
            break;
        case 2:
            x = node(self, RLX_OP_UNSQUEEZE, &first, &x, 1);
            x = node(self, RLX_OP_SQUEEZE, &first, &x, 1);
            break;
        case 3:
            x = node(self, RLX_OP_SLICE, below(self, 2) == 0 ? &all : &reversed, &x, 1);
            break;
        case 4:
            x = node(self, RLX_OP_EXPAND, &same, &x, 1);
            break;
        case 5:
            assert_ok(rlx_graph_add_node(self->graph, RLX_OP_SPLIT, &split, &x, 1, 2, halves));
            x = node(self, RLX_OP_CONCAT, &axis, halves, 2);
            break;
        default:
            x = unary(self, RLX_OP_IDENTITY, x);
        }
    }
    put(self, x);
}

/* A state that is read, written and read again, around the work of others. */
static void make_state(maker *self) {
    rlx_state_write_attrs attrs = {.axis = 1, .wrap = true}; /* no extent */
    rlx_slice_attrs rows = {.starts = {1, {0}}, .ends = {1, {3}}, .axes = {1, {1}}};
    rlx_value_id state, x = pick(self, SEQUENCE), written[2];
    int64_t position = below(self, 5);
    rlx_value_id inputs[3];
    assert_ok(rlx_graph_add_state(self->graph, NULL, RLX_DTYPE_F32, shapes[SEQUENCE], &state));
    rlx_value_id early = tame(self, state);
    inputs[0] = state;
    inputs[1] = node(self, RLX_OP_SLICE, &rows, &x, 1);
    assert_ok(rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_I64, (rlx_shape){0}, &position,
                                     sizeof position, &inputs[2]));
    assert_ok(rlx_graph_add_node(self->graph, RLX_OP_STATE_WRITE, &attrs, inputs, 3, 2, written));
    rlx_value_id late = tame(self, written[0]);
    put(self, binary(self, RLX_OP_ADD, tame(self, early), binary(self, RLX_OP_MUL, late, x)));
}

static void make_branch(maker *self) {
    rlx_value_id x = pick(self, MATRIX), y = pick(self, MATRIX), condition, inside[2], out;
    rlx_block_id blocks[2];
    rlx_reduce_attrs all = {0};
    rlx_value_id mean = node(self, RLX_OP_REDUCE_MEAN, &all, &self->pool[0], 1);
    condition = binary(self, RLX_OP_LESS, mean, number(self, 0));
    for (uint32_t b = 0; b < 2; b++) {
        assert_ok(rlx_graph_begin_block(self->graph, NULL, 0, NULL, &blocks[b]));
        inside[b] = tame(self, binary(self, RLX_OP_ADD, x, y));
        if (b == 0) inside[b] = unary(self, RLX_OP_NEG, inside[b]);
        assert_ok(rlx_graph_end_block(self->graph, blocks[b], &inside[b], 1));
    }
    assert_ok(rlx_graph_add_flow(self->graph, RLX_OP_IF, NULL, &condition, 1, blocks, 2, 1, &out));
    put(self, out);
}

static void make_loop(maker *self) {
    rlx_value_id x = pick(self, MATRIX), y = pick(self, MATRIX), inside[2], out;
    rlx_loop_attrs attrs = {.bound = 4};
    rlx_block_id body;
    int64_t trips = 1 + below(self, 3);
    uint8_t truth = 1;
    rlx_value_id inputs[3] = {0, 0, x}, like[2] = {RLX_NONE, x}, yields[2];
    assert_ok(rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_I64, (rlx_shape){0}, &trips,
                                     sizeof trips, &inputs[0]));
    assert_ok(rlx_graph_add_constant(self->graph, NULL, RLX_DTYPE_BOOL, (rlx_shape){0}, &truth, 1,
                                     &inputs[1]));
    assert_ok(rlx_graph_begin_block(self->graph, like, 2, inside, &body));
    yields[0] = inputs[1];
    yields[1] = tame(self, binary(self, RLX_OP_ADD, tame(self, inside[1]), y));
    assert_ok(rlx_graph_end_block(self->graph, body, yields, 2));
    assert_ok(rlx_graph_add_flow(self->graph, RLX_OP_LOOP, &attrs, inputs, 3, &body, 1, 1, &out));
    put(self, out);
}

rlx_graph *rlx_test_random_graph(uint64_t seed) {
    static void (*const motifs[])(maker *) = {
        make_linear, make_conv,  make_norm,   make_attention,   make_activation, make_elementwise,
        make_views,  make_state, make_branch, make_elementwise, make_loop,
    };
    maker self = {.random = rlx_test_seed(seed), .next_seed = seed * 100};
    char name[16];
    assert_ok(rlx_graph_create(NULL, &self.graph));
    for (uint32_t i = 0; i < 2; i++) {
        assert_ok(rlx_graph_add_input(self.graph, NULL, RLX_DTYPE_F32, shapes[i],
                                      &self.pool[self.count++]));
    }
    for (uint32_t i = 2 + below(&self, 8); i > 0; i--)
        motifs[below(&self, sizeof motifs / sizeof *motifs)](&self);
    for (uint32_t i = 0; i < 3 && i < self.count; i++) {
        rlx_value_id value = self.pool[self.count - 1 - (i == 0 ? 0 : below(&self, self.count))];
        snprintf(name, sizeof name, "out%u", i);
        assert_ok(rlx_graph_add_output(self.graph, value, name));
    }
    return self.graph;
}
