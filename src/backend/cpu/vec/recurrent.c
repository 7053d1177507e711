/* SPDX-License-Identifier: Apache-2.0 */
/* rnn, gru and lstm of f32 weights. An item is one sequence in one direction, walked by one call.
 * The projections of CHUNK_STEPS inputs are one product, so that w is read once for all of them;
 * then the steps follow, each a product of r with the state and one pass over the gates. Weights
 * are used as they lie: rows of dot products, eight at a time, whose sums across lanes are taken in
 * fours. */
#include "ref/recurrent.h"
#include "backend/cpu/vec/sum_four.h"
#include "backend/cpu/vec/vec_math.h"
#include "ref/access.h"

#include <math.h>

enum { CHUNK_STEPS = 16 };

VEC_INLINE vf load_up_to(const float *from, int64_t n) {
    return n >= VF ? vf_load(from) : vf_load_n(from, n);
}
VEC_INLINE void store_up_to(float *to, vf x, int64_t n) {
    if (n >= VF) {
        vf_store(to, x);
    } else {
        vf_store_n(to, x, n);
    }
}

/* out[i][j] = bias[j] + row j of the matrix times vector i, for `rows` (8, 4 or 1) by `count` (1 or
 * 2), both constants of the caller. Vectors lie `depth` apart, results `pitch`. */
VEC_INLINE void dot_block(const float *matrix, int64_t stride, const float *vector, int64_t depth,
                          const float *bias, float *out, int64_t pitch, const int rows,
                          const int count) {
    vf sum[2][8];
    for (int i = 0; i < count; i++)
        for (int j = 0; j < 8; j++)
            sum[i][j] = vf_set(0);
    int64_t d = 0;
    for (; d + VF <= depth; d += VF) {
        for (int j = 0; j < rows; j++) {
            vf weight = vf_load(matrix + j * stride + d);
            for (int i = 0; i < count; i++)
                sum[i][j] = vf_fma(weight, vf_load(vector + i * depth + d), sum[i][j]);
        }
    }
    for (int j = 0; d < depth && j < rows; j++) {
        vf weight = vf_load_n(matrix + j * stride + d, depth - d);
        for (int i = 0; i < count; i++)
            sum[i][j] = vf_fma(weight, vf_load_n(vector + i * depth + d, depth - d), sum[i][j]);
    }
    for (int i = 0; i < count; i++) {
        float total[8];
        for (int j = 0; j < rows; j += 4)
            sum_four(sum[i] + j, total + j);
        for (int j = 0; j < rows; j++)
            out[i * pitch + j] = total[j] + bias[j];
    }
}

/* out[count][pitch] = bias + the rows of a matrix times `count` vectors. */
static void product(const float *matrix, int64_t stride, int64_t rows, const float *vectors,
                    int64_t depth, int64_t count, const float *bias, float *out, int64_t pitch) {
    int64_t j = 0;
    for (; j + 4 <= rows && count > 1; j += 4) {
        int64_t i = 0;
        for (; i + 2 <= count; i += 2)
            dot_block(matrix + j * stride, stride, vectors + i * depth, depth, bias + j,
                      out + i * pitch + j, pitch, 4, 2);
        if (i < count)
            dot_block(matrix + j * stride, stride, vectors + i * depth, depth, bias + j,
                      out + i * pitch + j, pitch, 4, 1);
    }
    for (; j + 8 <= rows; j += 8) /* one vector */
        dot_block(matrix + j * stride, stride, vectors, depth, bias + j, out + j, pitch, 8, 1);
    for (; j < rows; j++) {
        for (int64_t i = 0; i < count; i++)
            dot_block(matrix + j * stride, stride, vectors + i * depth, depth, bias + j,
                      out + i * pitch + j, pitch, 1, 1);
    }
}

/* Where one sequence works; H = hidden, G = gates. */
typedef struct sequence {
    const rlx_recurrent *layer;
    const float *r; /* of this direction */
    rlx_gate_kind f, g, h;
    float *inputs;    /* [CHUNK_STEPS][inputs] */
    float *projected; /* [CHUNK_STEPS][G][H] */
    float *gates;     /* [G][H] */
    float *w_bias;    /* [G][H]: all that can be added before the product with the state */
    float *r_bias;    /* [G][H]: the rest: gru's last gate; otherwise zero */
    float *peepholes; /* [3][H] */
    float *state, *cell, *reset;
} sequence;

VEC_INLINE vf clipped(vf x, float clip) {
    if (clip <= 0) return x;
    return vf_max(vf_set(-clip), vf_min(vf_set(clip), x)); /* NaN is the second: it stays */
}

VEC_INLINE vf activated(vf x, rlx_gate_kind kind, float clip) {
    x = clipped(x, clip);
    if (kind == RLX_GATE_SIGMOID) return vf_sigmoid(x);
    if (kind == RLX_GATE_TANH) return vf_tanh(x);
    return vf_max(vf_set(0), x); /* relu */
}

static void step_rnn(const sequence *self, const float *from_x) {
    int64_t hidden = self->layer->hidden;
    float clip = (float)self->layer->attrs->clip;
    product(self->r, self->layer->r->strides[1], hidden, self->state, hidden, 1, self->r_bias,
            self->gates, 0);
    for (int64_t j = 0; j < hidden; j += VF) {
        int64_t n = hidden - j;
        vf sum = load_up_to(self->gates + j, n) + load_up_to(from_x + j, n);
        store_up_to(self->state + j, activated(sum, self->f, clip), n);
    }
}

static void step_gru(const sequence *self, const float *from_x) {
    const rlx_recurrent *layer = self->layer;
    int64_t hidden = layer->hidden, stride = layer->r->strides[1];
    bool is_linear = layer->attrs->linear_before_reset;
    float clip = (float)layer->attrs->clip, *gates = self->gates, *last = gates + 2 * hidden;
    product(self->r, stride, (is_linear ? 3 : 2) * hidden, self->state, hidden, 1, self->r_bias,
            gates, 0);
    for (int64_t j = 0; j < 2 * hidden; j += VF) {
        int64_t n = 2 * hidden - j;
        vf sum = load_up_to(gates + j, n) + load_up_to(from_x + j, n);
        store_up_to(gates + j, activated(sum, self->f, clip), n);
    }
    for (int64_t j = 0; j < hidden && !is_linear; j += VF) {
        int64_t n = hidden - j;
        vf reset = load_up_to(gates + hidden + j, n) * load_up_to(self->state + j, n);
        store_up_to(self->reset + j, reset, n);
    }
    if (!is_linear) {
        product(self->r + 2 * hidden * stride, stride, hidden, self->reset, hidden, 1,
                self->r_bias + 2 * hidden, last, 0);
    }
    for (int64_t j = 0; j < hidden; j += VF) {
        int64_t n = hidden - j;
        vf z = load_up_to(gates + j, n), inner = load_up_to(last + j, n);
        if (is_linear) inner *= load_up_to(gates + hidden + j, n);
        vf next = activated(inner + load_up_to(from_x + 2 * hidden + j, n), self->g, clip);
        store_up_to(self->state + j, (1.0f - z) * next + z * load_up_to(self->state + j, n), n);
    }
}

static void step_lstm(const sequence *self, const float *from_x) {
    const rlx_recurrent *layer = self->layer;
    int64_t hidden = layer->hidden;
    bool is_coupled = layer->attrs->input_forget;
    float clip = (float)layer->attrs->clip;
    const float *gates = self->gates, *peep = self->peepholes;
    product(self->r, layer->r->strides[1], 4 * hidden, self->state, hidden, 1, self->r_bias,
            self->gates, 0);
    for (int64_t j = 0; j < hidden; j += VF) {
        int64_t n = hidden - j, h = hidden;
        vf cell = load_up_to(self->cell + j, n);
        vf in = load_up_to(gates + j, n) + load_up_to(from_x + j, n);
        vf out = load_up_to(gates + h + j, n) + load_up_to(from_x + h + j, n);
        vf keep = load_up_to(gates + 2 * h + j, n) + load_up_to(from_x + 2 * h + j, n);
        vf next = load_up_to(gates + 3 * h + j, n) + load_up_to(from_x + 3 * h + j, n);
        in = activated(in + load_up_to(peep + j, n) * cell, self->f, clip);
        keep = activated(keep + load_up_to(peep + 2 * h + j, n) * cell, self->f, clip);
        if (is_coupled) keep = 1.0f - in;
        cell = keep * cell + in * activated(next, self->g, clip);
        out = activated(out + load_up_to(peep + h + j, n) * cell, self->f, clip);
        store_up_to(self->cell + j, cell, n);
        store_up_to(self->state + j, out * activated(cell, self->h, clip), n);
    }
}

static void read_or_zero(const rlx_tensor *tensor, int64_t at, int64_t count, float *out) {
    if (tensor->data == NULL) {
        memset(out, 0, (size_t)count * sizeof *out);
    } else {
        rlx_ref_read_f32(tensor, at, tensor->strides[tensor->rank - 1], count, out);
    }
}

static void write_row(const rlx_tensor *tensor, int64_t at, int64_t count, const float *values) {
    if (tensor->data == NULL) return;
    rlx_ref_write_f32(tensor, at, tensor->strides[tensor->rank - 1], count, values);
}

/* Biases: what need not wait for the reset gate is added once, with that of w. */
static void begin_bias(sequence *self, int64_t direction) {
    const rlx_recurrent *layer = self->layer;
    int64_t all = layer->gates * layer->hidden, early = all;
    int64_t base = direction * layer->b->strides[0], stride = layer->b->strides[1];
    read_or_zero(layer->b, base, all, self->w_bias);
    read_or_zero(layer->b, base + all * stride, all, self->r_bias);
    if (layer->args->op == RLX_OP_GRU) early = 2 * layer->hidden;
    for (int64_t j = 0; j < early; j++) {
        self->w_bias[j] += self->r_bias[j];
        self->r_bias[j] = 0;
    }
}

static sequence begin_sequence(const rlx_recurrent *layer, int64_t direction, int64_t b,
                               float *room) {
    int64_t hidden = layer->hidden, all = layer->gates * hidden;
    sequence self = {.layer = layer, .inputs = room};
    self.r = (const float *)layer->r->data + direction * layer->r->strides[0];
    self.f = rlx_ref_recurrent_gate(layer, direction, 0).kind;
    self.g = rlx_ref_recurrent_gate(layer, direction, 1).kind;
    self.h = rlx_ref_recurrent_gate(layer, direction, 2).kind;
    self.projected = self.inputs + CHUNK_STEPS * layer->inputs;
    self.gates = self.projected + CHUNK_STEPS * all;
    self.w_bias = self.gates + all;
    self.r_bias = self.w_bias + all;
    self.peepholes = self.r_bias + all;
    self.state = self.peepholes + 3 * hidden;
    self.cell = self.state + hidden;
    self.reset = self.cell + hidden;
    begin_bias(&self, direction);
    read_or_zero(layer->peepholes, direction * layer->peepholes->strides[0], 3 * hidden,
                 self.peepholes);
    read_or_zero(layer->first_h, rlx_ref_recurrent_state(layer, layer->first_h, direction, b),
                 hidden, self.state);
    read_or_zero(layer->first_c, rlx_ref_recurrent_state(layer, layer->first_c, direction, b),
                 hidden, self.cell);
    return self;
}

static void one_step(const sequence *self, const float *from_x) {
    if (self->layer->args->op == RLX_OP_LSTM) {
        step_lstm(self, from_x);
    } else if (self->layer->args->op == RLX_OP_GRU) {
        step_gru(self, from_x);
    } else {
        step_rnn(self, from_x);
    }
}

/* Steps [first, first + count) in the order of the walk. */
static void do_chunk(const sequence *self, int64_t direction, int64_t b, int64_t first,
                     int64_t count, int64_t length) {
    const rlx_recurrent *layer = self->layer;
    const float *w = (const float *)layer->w->data + direction * layer->w->strides[0];
    int64_t all = layer->gates * layer->hidden;
    bool is_reverse = rlx_ref_recurrent_is_reverse(layer, direction);
    for (int64_t s = 0; s < count; s++) {
        int64_t t = is_reverse ? length - 1 - first - s : first + s;
        rlx_ref_read_f32(layer->x, t * layer->x_step + b * layer->x_batch, layer->x->strides[2],
                         layer->inputs, self->inputs + s * layer->inputs);
    }
    product(w, layer->w->strides[1], all, self->inputs, layer->inputs, count, self->w_bias,
            self->projected, all);
    for (int64_t s = 0; s < count; s++) {
        int64_t t = is_reverse ? length - 1 - first - s : first + s;
        one_step(self, self->projected + s * all);
        write_row(layer->y, direction * layer->y_direction + b * layer->y_batch + t * layer->y_step,
                  layer->hidden, self->state);
    }
}

static void do_sequence(const rlx_recurrent *layer, int64_t direction, int64_t b, float *room) {
    sequence self = begin_sequence(layer, direction, b, room);
    int64_t length = rlx_ref_recurrent_length(layer, b);
    for (int64_t s = 0; s < length; s += CHUNK_STEPS)
        do_chunk(&self, direction, b, s, rlx_ref_least(CHUNK_STEPS, length - s), length);
    write_row(layer->last_h, rlx_ref_recurrent_state(layer, layer->last_h, direction, b),
              layer->hidden, self.state);
    write_row(layer->last_c, rlx_ref_recurrent_state(layer, layer->last_c, direction, b),
              layer->hidden, self.cell);
    memset(self.gates, 0, (size_t)layer->hidden * sizeof *self.gates);
    for (int64_t t = length; t < layer->steps; t++)
        write_row(layer->y, direction * layer->y_direction + b * layer->y_batch + t * layer->y_step,
                  layer->hidden, self.gates);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    rlx_recurrent layer = rlx_ref_recurrent(args);
    for (int64_t item = begin; item < end; item++)
        do_sequence(&layer, item / layer.batch, item % layer.batch, args->workspace);
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    rlx_recurrent layer = rlx_ref_recurrent(args);
    uint64_t hidden = (uint64_t)layer.hidden, a, b, count;
    uint64_t states = 6 + (CHUNK_STEPS + 3) * (uint64_t)layer.gates;
    if (rlx_ref_recurrent_items(args) == 0) return 0;
    if (!rlx_mul_u64((uint64_t)layer.inputs, CHUNK_STEPS, &a) || !rlx_mul_u64(hidden, states, &b) ||
        !rlx_add_u64(a, b, &count)) {
        return UINT64_MAX;
    }
    return rlx_ref_bytes(count, sizeof(float));
}

static bool is_vector_gate(rlx_gate_kind kind) {
    return kind == RLX_GATE_DEFAULT || kind == RLX_GATE_SIGMOID || kind == RLX_GATE_TANH ||
           kind == RLX_GATE_RELU;
}

static bool takes(const rlx_target_query *query) {
    const rlx_recurrent_attrs *attrs = query->attrs;
    const rlx_tensor *w = &query->in[1], *r = &query->in[2];
    return query->in[0].dtype != RLX_DTYPE_F64 && w->dtype == RLX_DTYPE_F32 &&
           r->dtype == RLX_DTYPE_F32 && (w->strides[2] == 1 || w->dims[2] < 2) &&
           (r->strides[2] == 1 || r->dims[2] < 2) && is_vector_gate(attrs->f.kind) &&
           is_vector_gate(attrs->g.kind) && is_vector_gate(attrs->h.kind) &&
           is_vector_gate(attrs->back_f.kind) && is_vector_gate(attrs->back_g.kind) &&
           is_vector_gate(attrs->back_h.kind);
}

#define ROW(upper, name)                                                               \
    {                                                                                  \
        RLX_OP_##upper, 0, takes, {                                                    \
            VEC_NAME(name), run, rlx_ref_recurrent_items, rlx_ref_recurrent_item_cost, \
                workspace_bytes                                                        \
        }                                                                              \
    }
const rlx_cpu_override VEC_SYMBOL(recurrent)[] = {
    ROW(RNN, "rnn"),
    ROW(GRU, "gru"),
    ROW(LSTM, "lstm"),
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
