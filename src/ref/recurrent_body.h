/* SPDX-License-Identifier: Apache-2.0 */
/* One sequence of a recurrent layer for one accumulator type. Included by recurrent.c once per
 * type, with TYPE, SUFFIX and NATIVE defined; not a header of its own. */
#define PASTE_(a, b)    a##b
#define PASTE(a, b)     PASTE_(a, b)
#define WITH_TYPE(name) PASTE(name, SUFFIX)

/* The rows that a sequence works on, G = gates, H = hidden. */
typedef struct WITH_TYPE(rows_) {
    TYPE *x;         /* [inputs] */
    TYPE *weight;    /* [inputs + H]: room to decode a row of w or r */
    TYPE *h, *c;     /* [H]: the state */
    TYPE *reset;     /* [H]: gru: reset gate * h */
    TYPE *gates;     /* [G][H] */
    TYPE *part;      /* [G][H]: r h + its bias, where it stands alone (gru) */
    TYPE *bias;      /* [2][G][H] */
    TYPE *peepholes; /* [3][H] */
} WITH_TYPE(rows_);

/* out[j] = bias[j] + row first + j of the matrix times the vector. */
static void WITH_TYPE(product_)(const rlx_tensor *matrix, int64_t direction, int64_t first,
                                int64_t count, const TYPE *vector, const TYPE *bias, TYPE *room,
                                TYPE *out) {
    int64_t depth = matrix->dims[2];
    for (int64_t j = 0; j < count; j++) {
        int64_t step, at = find_row(matrix, direction, first + j, &step);
        const TYPE *row = (const TYPE *)matrix->data + at;
        if (matrix->dtype != NATIVE || step != 1) {
            WITH_TYPE(rlx_ref_read_)(matrix, at, step, depth, room);
            row = room;
        }
        out[j] = WITH_TYPE(rlx_ref_dot_)(row, vector, depth) + bias[j];
    }
}

static void WITH_TYPE(activate_)(rlx_gate gate, double clip, TYPE *values, int64_t count) {
    TYPE most = (TYPE)clip;
    for (int64_t i = 0; clip > 0 && i < count; i++)
        values[i] = values[i] < -most ? -most : values[i] > most ? most : values[i];
    if (gate.kind == RLX_GATE_AFFINE) {
        for (int64_t i = 0; i < count; i++)
            values[i] = (TYPE)gate.alpha * values[i] + (TYPE)gate.beta;
    } else if (gate.kind == RLX_GATE_SCALED_TANH) {
        for (int64_t i = 0; i < count; i++)
            values[i] *= (TYPE)gate.beta;
        WITH_TYPE(rlx_ref_unary_run_)(RLX_OP_TANH, values, count, 0, 0);
        for (int64_t i = 0; i < count; i++)
            values[i] *= (TYPE)gate.alpha;
    } else {
        WITH_TYPE(rlx_ref_unary_run_)
        (unary_of(gate.kind), values, count, gate.alpha, gate.beta);
    }
}

/* gates += r h + its bias. */
static void WITH_TYPE(recur_)(const rlx_recurrent *self, const WITH_TYPE(rows_) * rows,
                              int64_t direction, int64_t first_gate, int64_t gate_count,
                              const TYPE *h) {
    int64_t first = first_gate * self->hidden, count = gate_count * self->hidden;
    const TYPE *bias = rows->bias + self->gates * self->hidden + first;
    WITH_TYPE(product_)
    (self->r, direction, first, count, h, bias, rows->weight, rows->part + first);
    for (int64_t j = first; j < first + count; j++)
        rows->gates[j] += rows->part[j];
}

static void WITH_TYPE(step_rnn_)(const rlx_recurrent *self, const WITH_TYPE(rows_) * rows,
                                 int64_t direction) {
    WITH_TYPE(recur_)(self, rows, direction, 0, 1, rows->h);
    WITH_TYPE(activate_)
    (rlx_ref_recurrent_gate(self, direction, 0), self->attrs->clip, rows->gates, self->hidden);
    memcpy(rows->h, rows->gates, (size_t)self->hidden * sizeof *rows->h);
}

static void WITH_TYPE(step_gru_)(const rlx_recurrent *self, const WITH_TYPE(rows_) * rows,
                                 int64_t direction) {
    int64_t hidden = self->hidden;
    double clip = self->attrs->clip;
    TYPE *z = rows->gates, *reset = z + hidden, *next = reset + hidden;
    WITH_TYPE(recur_)(self, rows, direction, 0, 2, rows->h);
    WITH_TYPE(activate_)(rlx_ref_recurrent_gate(self, direction, 0), clip, z, 2 * hidden);
    if (self->attrs->linear_before_reset) {
        TYPE *part = rows->part + 2 * hidden;
        WITH_TYPE(product_)
        (self->r, direction, 2 * hidden, hidden, rows->h, rows->bias + 5 * hidden, rows->weight,
         part);
        for (int64_t j = 0; j < hidden; j++)
            next[j] += reset[j] * part[j];
    } else {
        for (int64_t j = 0; j < hidden; j++)
            rows->reset[j] = reset[j] * rows->h[j];
        WITH_TYPE(recur_)(self, rows, direction, 2, 1, rows->reset);
    }
    WITH_TYPE(activate_)(rlx_ref_recurrent_gate(self, direction, 1), clip, next, hidden);
    for (int64_t j = 0; j < hidden; j++)
        rows->h[j] = (1 - z[j]) * next[j] + z[j] * rows->h[j];
}

static void WITH_TYPE(step_lstm_)(const rlx_recurrent *self, const WITH_TYPE(rows_) * rows,
                                  int64_t direction) {
    int64_t hidden = self->hidden;
    double clip = self->attrs->clip;
    rlx_gate f = rlx_ref_recurrent_gate(self, direction, 0);
    TYPE *in = rows->gates, *out = in + hidden, *forget = out + hidden, *cell = forget + hidden;
    const TYPE *peep = rows->peepholes;
    WITH_TYPE(recur_)(self, rows, direction, 0, 4, rows->h);
    for (int64_t j = 0; j < hidden; j++) {
        in[j] += peep[j] * rows->c[j];
        forget[j] += peep[2 * hidden + j] * rows->c[j];
    }
    WITH_TYPE(activate_)(f, clip, in, hidden);
    WITH_TYPE(activate_)(f, clip, forget, hidden);
    WITH_TYPE(activate_)(rlx_ref_recurrent_gate(self, direction, 1), clip, cell, hidden);
    for (int64_t j = 0; j < hidden; j++) {
        TYPE keep = self->attrs->input_forget ? 1 - in[j] : forget[j];
        rows->c[j] = keep * rows->c[j] + in[j] * cell[j];
        out[j] += peep[hidden + j] * rows->c[j];
        rows->h[j] = rows->c[j];
    }
    WITH_TYPE(activate_)(f, clip, out, hidden);
    WITH_TYPE(activate_)(rlx_ref_recurrent_gate(self, direction, 2), clip, rows->h, hidden);
    for (int64_t j = 0; j < hidden; j++)
        rows->h[j] *= out[j];
}

/* A row of a tensor that may be absent: then zeros. */
static void WITH_TYPE(read_or_zero_)(const rlx_tensor *tensor, int64_t at, int64_t count,
                                     TYPE *out) {
    if (tensor->data == NULL) {
        memset(out, 0, (size_t)count * sizeof *out);
    } else {
        WITH_TYPE(rlx_ref_read_)(tensor, at, tensor->strides[tensor->rank - 1], count, out);
    }
}

static void WITH_TYPE(write_row_)(const rlx_tensor *tensor, int64_t at, int64_t count,
                                  const TYPE *values) {
    if (tensor->data == NULL) return;
    WITH_TYPE(rlx_ref_write_)(tensor, at, tensor->strides[tensor->rank - 1], count, values);
}

static WITH_TYPE(rows_)
    WITH_TYPE(begin_)(const rlx_recurrent *self, int64_t direction, int64_t b, TYPE *room) {
    int64_t hidden = self->hidden, all = self->gates * hidden;
    WITH_TYPE(rows_) rows = {.x = room, .weight = room + self->inputs};
    rows.h = rows.weight + self->inputs + hidden;
    rows.c = rows.h + hidden;
    rows.reset = rows.c + hidden;
    rows.peepholes = rows.reset + hidden;
    rows.gates = rows.peepholes + 3 * hidden;
    rows.part = rows.gates + all;
    rows.bias = rows.part + all;
    WITH_TYPE(read_or_zero_)(self->b, direction * self->b->strides[0], 2 * all, rows.bias);
    WITH_TYPE(read_or_zero_)
    (self->peepholes, direction * self->peepholes->strides[0], 3 * hidden, rows.peepholes);
    WITH_TYPE(read_or_zero_)
    (self->first_h, rlx_ref_recurrent_state(self, self->first_h, direction, b), hidden, rows.h);
    WITH_TYPE(read_or_zero_)
    (self->first_c, rlx_ref_recurrent_state(self, self->first_c, direction, b), hidden, rows.c);
    return rows;
}

static void WITH_TYPE(sequence_)(const rlx_recurrent *self, int64_t direction, int64_t b,
                                 TYPE *room) {
    WITH_TYPE(rows_) rows = WITH_TYPE(begin_)(self, direction, b, room);
    int64_t length = rlx_ref_recurrent_length(self, b);
    int64_t y_at = direction * self->y_direction + b * self->y_batch;
    bool is_reverse = rlx_ref_recurrent_is_reverse(self, direction);
    for (int64_t s = 0; s < length; s++) {
        int64_t t = is_reverse ? length - 1 - s : s;
        WITH_TYPE(rlx_ref_read_)
        (self->x, t * self->x_step + b * self->x_batch, self->x->strides[2], self->inputs, rows.x);
        WITH_TYPE(product_)
        (self->w, direction, 0, self->gates * self->hidden, rows.x, rows.bias, rows.weight,
         rows.gates);
        if (self->args->op == RLX_OP_LSTM) {
            WITH_TYPE(step_lstm_)(self, &rows, direction);
        } else if (self->args->op == RLX_OP_GRU) {
            WITH_TYPE(step_gru_)(self, &rows, direction);
        } else {
            WITH_TYPE(step_rnn_)(self, &rows, direction);
        }
        WITH_TYPE(write_row_)(self->y, y_at + t * self->y_step, self->hidden, rows.h);
    }
    WITH_TYPE(write_row_)
    (self->last_h, rlx_ref_recurrent_state(self, self->last_h, direction, b), self->hidden, rows.h);
    WITH_TYPE(write_row_)
    (self->last_c, rlx_ref_recurrent_state(self, self->last_c, direction, b), self->hidden, rows.c);
    memset(rows.gates, 0, (size_t)self->hidden * sizeof *rows.gates);
    for (int64_t t = length; t < self->steps; t++)
        WITH_TYPE(write_row_)(self->y, y_at + t * self->y_step, self->hidden, rows.gates);
}

#undef PASTE_
#undef PASTE
#undef WITH_TYPE
#undef TYPE
#undef SUFFIX
#undef NATIVE
