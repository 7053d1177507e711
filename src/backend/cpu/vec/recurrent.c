/* SPDX-License-Identifier: Apache-2.0 */
/* rnn, gru and lstm of f32 weights. An item is a crew of up to CREW sequences in one direction that
 * walk side by side, so that r is read once for all of them in each step. The projections of
 * CHUNK_ROWS inputs are one product, so that w is read once for all of those; then the steps
 * follow, each a product of r with the states and one pass over the gates. Weights that are known
 * when a program is made lie in panels, as those of a matmul do; others are used as they lie: rows
 * of dot products, eight at a time, whose sums across lanes are taken in fours. */
#include "ref/recurrent.h"
#include "backend/cpu/vec/convert.h"
#include "backend/cpu/vec/matmul_tile.h"
#include "backend/cpu/vec/sum_four.h"
#include "backend/cpu/vec/vec_math.h"
#include "ref/access.h"

#include <math.h>

enum { CHUNK_ROWS = 16, CREW = 8, TILE_ROWS = 6 };

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

/* out[j] = bias[j] + row j of the matrix times the vector, for `rows` (8 or 1, a constant). */
VEC_INLINE void dot_block(const float *matrix, int64_t stride, const float *vector, int64_t depth,
                          const float *bias, float *out, const int rows) {
    vf sum[8] = {{0}};
    int64_t d = 0;
    for (; d + VF <= depth; d += VF) {
        vf x = vf_load(vector + d);
        VEC_UNROLLED for (int j = 0; j < rows; j++) {
            sum[j] = vf_fma(vf_load(matrix + j * stride + d), x, sum[j]);
        }
    }
    if (d < depth) {
        vf x = vf_load_n(vector + d, depth - d);
        VEC_UNROLLED for (int j = 0; j < rows; j++) {
            sum[j] = vf_fma(vf_load_n(matrix + j * stride + d, depth - d), x, sum[j]);
        }
    }
    float total[8];
    for (int j = 0; j < rows; j += 4)
        sum_four(sum + j, total + j);
    for (int j = 0; j < rows; j++)
        out[j] = total[j] + bias[j];
}

/* out[count][pitch] = bias + the rows of a matrix times `count` vectors. */
static void product(const float *matrix, int64_t stride, int64_t rows, const float *vectors,
                    int64_t depth, int64_t count, const float *bias, float *out, int64_t pitch) {
    int64_t j = 0;
    for (; j + 8 <= rows; j += 8) {
        for (int64_t i = 0; i < count; i++)
            dot_block(matrix + j * stride, stride, vectors + i * depth, depth, bias + j,
                      out + i * pitch + j, 8);
    }
    for (; j < rows; j++) {
        for (int64_t i = 0; i < count; i++)
            dot_block(matrix + j * stride, stride, vectors + i * depth, depth, bias + j,
                      out + i * pitch + j, 1);
    }
}

/* w or r of one direction: rows, or panels. */
typedef struct weights {
    const float *data;
    int64_t stride, depth;
    bool is_packed;
} weights;

static weights weights_of(const rlx_tensor *tensor, int64_t direction) {
    bool is_packed = tensor->layout != RLX_LAYOUT_PLAIN;
    int64_t depth = tensor->dims[2];
    int64_t matrix = is_packed ? matmul_up(tensor->dims[1], MATMUL_COLUMNS) * MATMUL_COLUMNS * depth
                               : tensor->strides[0];
    return (weights){(const float *)tensor->data + direction * matrix, tensor->strides[1], depth,
                     is_packed};
}

/* A panel times 2 to TILE_ROWS vectors; of one, its sums alone. */
static void multiply_panel(const float *panel, const float *vectors, int64_t depth, int64_t count,
                           const matmul_sums *c) {
    const uint8_t *b = (const uint8_t *)panel;
    switch (count) {
    case 1:
        matmul_few(1, 1, 4, false, PANEL_F32, vectors, depth, b, 0, depth, c->to);
        break;
    case 2:
        matmul_tile(2, vectors, depth, b, depth, c);
        break;
    case 3:
        matmul_tile(3, vectors, depth, b, depth, c);
        break;
    case 4:
        matmul_tile(4, vectors, depth, b, depth, c);
        break;
    case 5:
        matmul_tile(5, vectors, depth, b, depth, c);
        break;
    default:
        matmul_tile(TILE_ROWS, vectors, depth, b, depth, c);
    }
}

/* Adds the columns of a panel that are wanted: rows [row, row + rows) of the matrix. */
static void store_panel(const float *sums, int64_t count, int64_t panel, int64_t row, int64_t rows,
                        const float *bias, float *out, int64_t pitch) {
    int64_t first = panel * MATMUL_COLUMNS - row, from = first < 0 ? -first : 0;
    int64_t to = rlx_ref_least(MATMUL_COLUMNS, rows - first);
    for (int64_t i = 0; i < count; i++, sums += MATMUL_COLUMNS, out += pitch) {
        int64_t j = from;
        for (; j + VF <= to; j += VF)
            vf_store(out + first + j, vf_load(sums + j) + vf_load(bias + first + j));
        for (; j < to; j++)
            out[first + j] = sums[j] + bias[first + j];
    }
}

/* Like product, of rows [row, row + rows); bias and out are those of the first. Panels that are
 * wanted as a whole start with the bias and end where they belong. */
static void product_of_panels(const weights *w, int64_t row, int64_t rows, const float *vectors,
                              int64_t count, const float *bias, float *out, int64_t pitch) {
    enum { SIDE = 4 };
    float sums[CHUNK_ROWS * MATMUL_COLUMNS];
    int64_t end = matmul_up(row + rows, MATMUL_COLUMNS), step = w->depth * MATMUL_COLUMNS;
    int64_t tiles = rlx_ref_divide_up(count, TILE_ROWS);
    for (int64_t p = row / MATMUL_COLUMNS; p < end; p++) {
        const float *panel = w->data + p * step;
        if (count == 1 && p + SIDE <= end) {
            matmul_few(1, SIDE, 1, false, PANEL_F32, vectors, w->depth, (const uint8_t *)panel,
                       step * (int64_t)sizeof *panel, w->depth, sums);
            for (int64_t i = 0; i < SIDE; i++)
                store_panel(sums + i * MATMUL_COLUMNS, 1, p + i, row, rows, bias, out, pitch);
            p += SIDE - 1;
            continue;
        }
        int64_t first = p * MATMUL_COLUMNS - row;
        bool is_whole = count > 1 && first >= 0 && first + MATMUL_COLUMNS <= rows;
        for (int64_t t = 0; t < tiles; t++) {
            int64_t i = count * t / tiles, now = count * (t + 1) / tiles - i;
            matmul_sums c = {.to = sums + i * MATMUL_COLUMNS,
                             .to_row = MATMUL_COLUMNS,
                             .next = (const uint8_t *)panel,
                             .count = 1};
            if (is_whole) c.from = bias + first, c.to = out + i * pitch + first, c.to_row = pitch;
            multiply_panel(panel, vectors + i * w->depth, w->depth, now, &c);
        }
        if (!is_whole) store_panel(sums, count, p, row, rows, bias, out, pitch);
    }
}

/* out[count][pitch] = bias + rows [row, row + rows) times `count` vectors. */
static void multiply(const weights *w, int64_t row, int64_t rows, const float *vectors,
                     int64_t count, const float *bias, float *out, int64_t pitch) {
    if (w->is_packed) {
        product_of_panels(w, row, rows, vectors, count, bias, out, pitch);
    } else {
        product(w->data + row * w->stride, w->stride, rows, vectors, w->depth, count, bias, out,
                pitch);
    }
}

/* Where a crew works; N = count, H = hidden, G = gates. */
typedef struct crew {
    const rlx_recurrent *layer;
    int64_t direction, first, count; /* sequences [first, first + count) of the batch */
    int64_t lengths[CREW], longest;
    weights w, r; /* of this direction */
    rlx_gate_kind f, g, h;
    float *inputs;    /* [steps of a chunk][N][inputs] */
    float *projected; /* [steps of a chunk][N][G][H] */
    float *gates;     /* [N][G][H] */
    float *w_bias;    /* [G][H]: all that can be added before the product with the state */
    float *r_bias;    /* [G][H]: the rest: gru's last gate; otherwise zero */
    float *peepholes; /* [3][H] */
    float *state, *cell, *reset; /* [N][H] */
} crew;

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

/* Rows [row, row + rows) of r times the vectors of the crew, into the same rows of its gates. */
static void multiply_r(const crew *self, const float *vectors, int64_t row, int64_t rows) {
    int64_t all = self->layer->gates * self->layer->hidden;
    multiply(&self->r, row, rows, vectors, self->count, self->r_bias + row, self->gates + row, all);
}

static void gate_rnn(const crew *self, int64_t n, const float *from_x) {
    int64_t hidden = self->layer->hidden;
    float clip = (float)self->layer->attrs->clip;
    const float *gates = self->gates + n * hidden;
    for (int64_t j = 0; j < hidden; j += VF) {
        vf sum = load_up_to(gates + j, hidden - j) + load_up_to(from_x + j, hidden - j);
        store_up_to(self->state + n * hidden + j, activated(sum, self->f, clip), hidden - j);
    }
}

/* The first two gates, and the state behind the reset gate. */
static void gate_gru_early(const crew *self, int64_t n, const float *from_x) {
    int64_t hidden = self->layer->hidden;
    float clip = (float)self->layer->attrs->clip, *gates = self->gates + n * 3 * hidden;
    for (int64_t j = 0; j < 2 * hidden; j += VF) {
        int64_t left = 2 * hidden - j;
        vf sum = load_up_to(gates + j, left) + load_up_to(from_x + j, left);
        store_up_to(gates + j, activated(sum, self->f, clip), left);
    }
    for (int64_t j = 0; j < hidden && !self->layer->attrs->linear_before_reset; j += VF) {
        int64_t left = hidden - j, at = n * hidden + j;
        vf reset = load_up_to(gates + hidden + j, left) * load_up_to(self->state + at, left);
        store_up_to(self->reset + at, reset, left);
    }
}

static void gate_gru_late(const crew *self, int64_t n, const float *from_x) {
    const rlx_recurrent *layer = self->layer;
    int64_t hidden = layer->hidden;
    float clip = (float)layer->attrs->clip, *state = self->state + n * hidden;
    const float *gates = self->gates + n * 3 * hidden, *last = gates + 2 * hidden;
    for (int64_t j = 0; j < hidden; j += VF) {
        int64_t left = hidden - j;
        vf z = load_up_to(gates + j, left), inner = load_up_to(last + j, left);
        if (layer->attrs->linear_before_reset) inner *= load_up_to(gates + hidden + j, left);
        vf next = activated(inner + load_up_to(from_x + 2 * hidden + j, left), self->g, clip);
        store_up_to(state + j, (1.0f - z) * next + z * load_up_to(state + j, left), left);
    }
}

static void gate_lstm(const crew *self, int64_t n, const float *from_x) {
    int64_t h = self->layer->hidden;
    bool is_coupled = self->layer->attrs->input_forget;
    float clip = (float)self->layer->attrs->clip;
    const float *gates = self->gates + n * 4 * h, *peep = self->peepholes;
    for (int64_t j = 0; j < h; j += VF) {
        int64_t left = h - j, at = n * h + j;
        vf cell = load_up_to(self->cell + at, left);
        vf in = load_up_to(gates + j, left) + load_up_to(from_x + j, left);
        vf out = load_up_to(gates + h + j, left) + load_up_to(from_x + h + j, left);
        vf keep = load_up_to(gates + 2 * h + j, left) + load_up_to(from_x + 2 * h + j, left);
        vf next = load_up_to(gates + 3 * h + j, left) + load_up_to(from_x + 3 * h + j, left);
        in = activated(in + load_up_to(peep + j, left) * cell, self->f, clip);
        keep = activated(keep + load_up_to(peep + 2 * h + j, left) * cell, self->f, clip);
        if (is_coupled) keep = 1.0f - in;
        cell = keep * cell + in * activated(next, self->g, clip);
        out = activated(out + load_up_to(peep + h + j, left) * cell, self->f, clip);
        store_up_to(self->cell + at, cell, left);
        store_up_to(self->state + at, out * activated(cell, self->h, clip), left);
    }
}

static void read_or_zero(const rlx_tensor *tensor, int64_t at, int64_t count, float *out) {
    if (tensor->data == NULL) {
        memset(out, 0, (size_t)count * sizeof *out);
    } else {
        vec_read_f32(tensor, at, tensor->strides[tensor->rank - 1], count, out);
    }
}

static void write_row(const rlx_tensor *tensor, int64_t at, int64_t count, const float *values) {
    if (tensor->data == NULL) return;
    vec_write_f32(tensor, at, tensor->strides[tensor->rank - 1], count, values);
}

/* Biases: what need not wait for the reset gate is added once, with that of w. */
static void begin_bias(crew *self) {
    const rlx_recurrent *layer = self->layer;
    int64_t all = layer->gates * layer->hidden, early = all;
    int64_t base = self->direction * layer->b->strides[0], stride = layer->b->strides[1];
    read_or_zero(layer->b, base, all, self->w_bias);
    read_or_zero(layer->b, base + all * stride, all, self->r_bias);
    if (layer->args->op == RLX_OP_GRU) early = 2 * layer->hidden;
    for (int64_t j = 0; j < early; j++) {
        self->w_bias[j] += self->r_bias[j];
        self->r_bias[j] = 0;
    }
}

/* Smaller ones where two threads would not have one each. */
static int64_t crews_of(const rlx_recurrent *layer) {
    int64_t crews = rlx_ref_divide_up(layer->batch, CREW);
    return layer->directions * crews < 2 ? rlx_ref_divide_up(layer->batch, CREW / 2) : crews;
}

/* Member n's row of a first or last state. */
static int64_t state_at(const crew *self, const rlx_tensor *tensor, int64_t n) {
    return rlx_ref_recurrent_state(self->layer, tensor, self->direction, self->first + n);
}

static void begin_member(crew *self, int64_t n) {
    const rlx_recurrent *layer = self->layer;
    int64_t hidden = layer->hidden;
    self->lengths[n] = rlx_ref_recurrent_length(layer, self->first + n);
    if (self->lengths[n] > self->longest) self->longest = self->lengths[n];
    read_or_zero(layer->first_h, state_at(self, layer->first_h, n), hidden,
                 self->state + n * hidden);
    read_or_zero(layer->first_c, state_at(self, layer->first_c, n), hidden,
                 self->cell + n * hidden);
}

/* Room for every part, whatever the number of members: see workspace_bytes. */
static crew begin_crew(const rlx_recurrent *layer, int64_t item, float *room) {
    int64_t hidden = layer->hidden, all = layer->gates * hidden, crews = crews_of(layer);
    int64_t number = item % crews;
    crew self = {.layer = layer, .direction = item / crews, .inputs = room};
    self.first = layer->batch * number / crews;
    self.count = layer->batch * (number + 1) / crews - self.first;
    self.w = weights_of(layer->w, self.direction);
    self.r = weights_of(layer->r, self.direction);
    self.f = rlx_ref_recurrent_gate(layer, self.direction, 0).kind;
    self.g = rlx_ref_recurrent_gate(layer, self.direction, 1).kind;
    self.h = rlx_ref_recurrent_gate(layer, self.direction, 2).kind;
    self.projected = self.inputs + CHUNK_ROWS * layer->inputs;
    self.gates = self.projected + CHUNK_ROWS * all;
    self.w_bias = self.gates + CREW * all;
    self.r_bias = self.w_bias + all;
    self.peepholes = self.r_bias + all;
    self.state = self.peepholes + 3 * hidden;
    self.cell = self.state + CREW * hidden;
    self.reset = self.cell + CREW * hidden;
    begin_bias(&self);
    read_or_zero(layer->peepholes, self.direction * layer->peepholes->strides[0], 3 * hidden,
                 self.peepholes);
    for (int64_t n = 0; n < self.count; n++)
        begin_member(&self, n);
    return self;
}

/* Where member n is in step s of the walk; -1: it has arrived. */
static int64_t time_of(const crew *self, int64_t n, int64_t s) {
    if (s >= self->lengths[n]) return -1;
    return rlx_ref_recurrent_is_reverse(self->layer, self->direction) ? self->lengths[n] - 1 - s
                                                                      : s;
}

static void write_y(const crew *self, int64_t n, int64_t t, const float *values) {
    const rlx_recurrent *layer = self->layer;
    write_row(layer->y,
              self->direction * layer->y_direction + (self->first + n) * layer->y_batch +
                  t * layer->y_step,
              layer->hidden, values);
}

/* Step s of all members; those that have arrived keep their state. */
static void one_step(const crew *self, int64_t s, const float *from_x) {
    const rlx_recurrent *layer = self->layer;
    int64_t hidden = layer->hidden, all = layer->gates * hidden;
    bool is_gru = layer->args->op == RLX_OP_GRU, is_lstm = layer->args->op == RLX_OP_LSTM;
    bool is_late = is_gru && !layer->attrs->linear_before_reset;
    multiply_r(self, self->state, 0, is_late ? 2 * hidden : all);
    for (int64_t n = 0; n < self->count && is_gru; n++)
        gate_gru_early(self, n, from_x + n * all);
    if (is_late) multiply_r(self, self->reset, 2 * hidden, hidden);
    for (int64_t n = 0; n < self->count; n++) {
        int64_t t = time_of(self, n, s);
        if (t < 0) continue;
        (is_lstm ? gate_lstm : is_gru ? gate_gru_late : gate_rnn)(self, n, from_x + n * all);
        write_y(self, n, t, self->state + n * hidden);
    }
}

/* Steps [first, first + count) in the order of the walk. */
static void do_chunk(const crew *self, int64_t first, int64_t count) {
    const rlx_recurrent *layer = self->layer;
    int64_t all = layer->gates * layer->hidden, inputs = layer->inputs;
    for (int64_t i = 0; i < count * self->count; i++) {
        int64_t n = i % self->count, t = time_of(self, n, first + i / self->count);
        if (t < 0) { /* multiplied all the same */
            memset(self->inputs + i * inputs, 0, (size_t)inputs * sizeof(float));
            continue;
        }
        vec_read_f32(layer->x, t * layer->x_step + (self->first + n) * layer->x_batch,
                     layer->x->strides[2], inputs, self->inputs + i * inputs);
    }
    multiply(&self->w, 0, all, self->inputs, count * self->count, self->w_bias, self->projected,
             all);
    for (int64_t s = 0; s < count; s++)
        one_step(self, first + s, self->projected + s * self->count * all);
}

static void end_member(const crew *self, int64_t n) {
    const rlx_recurrent *layer = self->layer;
    int64_t hidden = layer->hidden;
    write_row(layer->last_h, state_at(self, layer->last_h, n), hidden, self->state + n * hidden);
    write_row(layer->last_c, state_at(self, layer->last_c, n), hidden, self->cell + n * hidden);
    memset(self->reset, 0, (size_t)hidden * sizeof *self->reset);
    for (int64_t t = self->lengths[n]; t < layer->steps; t++)
        write_y(self, n, t, self->reset);
}

static void run(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    rlx_recurrent layer = rlx_ref_recurrent(args);
    for (int64_t item = begin; item < end; item++) {
        crew self = begin_crew(&layer, item, args->workspace);
        int64_t steps = CHUNK_ROWS / self.count;
        for (int64_t s = 0; s < self.longest; s += steps)
            do_chunk(&self, s, rlx_ref_least(steps, self.longest - s));
        for (int64_t n = 0; n < self.count; n++)
            end_member(&self, n);
    }
}

static int64_t items(const rlx_kernel_args *args) {
    rlx_recurrent layer = rlx_ref_recurrent(args);
    return layer.directions * crews_of(&layer);
}

static int64_t item_cost(const rlx_kernel_args *args) {
    rlx_recurrent layer = rlx_ref_recurrent(args);
    return rlx_ref_cost(rlx_ref_recurrent_item_cost(args), rlx_ref_least(layer.batch, CREW));
}

static uint64_t workspace_bytes(const rlx_kernel_args *args) {
    rlx_recurrent layer = rlx_ref_recurrent(args);
    uint64_t hidden = (uint64_t)layer.hidden, a, b, count;
    uint64_t states = 3 + 3 * CREW + (CHUNK_ROWS + CREW + 2) * (uint64_t)layer.gates;
    if (items(args) == 0) return 0;
    if (!rlx_mul_u64((uint64_t)layer.inputs, CHUNK_ROWS, &a) || !rlx_mul_u64(hidden, states, &b) ||
        !rlx_add_u64(a, b, &count)) {
        return UINT64_MAX;
    }
    return rlx_ref_bytes(count, sizeof(float));
}

static bool is_vector_gate(rlx_gate_kind kind) {
    return kind == RLX_GATE_DEFAULT || kind == RLX_GATE_SIGMOID || kind == RLX_GATE_TANH ||
           kind == RLX_GATE_RELU;
}

static bool fits(const rlx_tensor *weight) {
    rlx_layout panels = VF < 16 ? RLX_LAYOUT_ROWS16 : RLX_LAYOUT_ROWS32;
    if (weight->dtype != RLX_DTYPE_F32) return false;
    if (weight->layout != RLX_LAYOUT_PLAIN) return VF >= 8 && weight->layout == panels;
    return weight->strides[2] == 1 || weight->dims[2] < 2;
}

static bool takes(const rlx_target_query *query) {
    const rlx_recurrent_attrs *attrs = query->attrs;
    return query->in[0].dtype != RLX_DTYPE_F64 && fits(&query->in[1]) && fits(&query->in[2]) &&
           is_vector_gate(attrs->f.kind) && is_vector_gate(attrs->g.kind) &&
           is_vector_gate(attrs->h.kind) && is_vector_gate(attrs->back_f.kind) &&
           is_vector_gate(attrs->back_g.kind) && is_vector_gate(attrs->back_h.kind);
}

#define ROW(upper, name)                                           \
    {                                                              \
        RLX_OP_##upper, 0, takes, {                                \
            VEC_NAME(name), run, items, item_cost, workspace_bytes \
        }                                                          \
    }
const rlx_cpu_override VEC_SYMBOL(recurrent)[] = {
    ROW(RNN, "rnn"),
    ROW(GRU, "gru"),
    ROW(LSTM, "lstm"),
    {RLX_OP_NONE, 0, NULL, {NULL, NULL, NULL, NULL, NULL}},
};
