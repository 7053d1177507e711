/* SPDX-License-Identifier: Apache-2.0 */
/* rnn, gru and lstm by their definitions. An item is one sequence in one direction: its steps
 * follow each other, everything else is independent. Sums in f32, or f64 for f64. */
#include "ref/recurrent.h"

#include "ref/access.h"
#include "ref/dot.h"
#include "ref/unary.h"

#include <math.h>
#include <string.h>

static const rlx_tensor absent = {0};

static const rlx_tensor *input_or_absent(const rlx_kernel_args *args, uint32_t input) {
    return input < args->in_count ? &args->in[input] : &absent;
}

static const rlx_tensor *output_or_absent(const rlx_kernel_args *args, uint32_t output) {
    return output < args->out_count ? &args->out[output] : &absent;
}

rlx_recurrent rlx_ref_recurrent(const rlx_kernel_args *args) {
    const rlx_recurrent_attrs *attrs = args->attrs;
    uint32_t step_axis = attrs->batch_first ? 1 : 0;
    rlx_recurrent self = {.args = args,
                          .attrs = attrs,
                          .x = &args->in[0],
                          .w = &args->in[1],
                          .r = &args->in[2],
                          .b = input_or_absent(args, 3),
                          .lengths = input_or_absent(args, 4),
                          .first_h = input_or_absent(args, 5),
                          .first_c = input_or_absent(args, 6),
                          .peepholes = input_or_absent(args, 7),
                          .y = output_or_absent(args, 0),
                          .last_h = output_or_absent(args, 1),
                          .last_c = output_or_absent(args, 2)};
    self.gates = args->op == RLX_OP_LSTM ? 4 : args->op == RLX_OP_GRU ? 3 : 1;
    self.steps = self.x->dims[step_axis];
    self.batch = self.x->dims[1 - step_axis];
    self.x_step = self.x->strides[step_axis];
    self.x_batch = self.x->strides[1 - step_axis];
    self.inputs = self.x->dims[2];
    self.hidden = self.r->dims[2];
    self.directions = self.r->dims[0];
    self.y_step = self.y->strides[attrs->batch_first ? 1 : 0];
    self.y_direction = self.y->strides[attrs->batch_first ? 2 : 1];
    self.y_batch = self.y->strides[attrs->batch_first ? 0 : 2];
    return self;
}

int64_t rlx_ref_recurrent_state(const rlx_recurrent *self, const rlx_tensor *tensor,
                                int64_t direction, int64_t b) {
    uint32_t batch_axis = self->attrs->batch_first ? 0 : 1;
    return b * tensor->strides[batch_axis] + direction * tensor->strides[1 - batch_axis];
}

int64_t rlx_ref_recurrent_length(const rlx_recurrent *self, int64_t b) {
    int64_t length = self->steps;
    if (self->lengths->data == NULL) return length;
    int64_t at = b * self->lengths->strides[0];
    length = self->lengths->dtype == RLX_DTYPE_I32 ? ((const int32_t *)self->lengths->data)[at]
                                                   : ((const int64_t *)self->lengths->data)[at];
    if (length >= 0 && length <= self->steps) return length;
    rlx_fault_raise(self->args, RLX_FAULT_BOUND, length);
    return length < 0 ? 0 : self->steps;
}

rlx_gate rlx_ref_recurrent_gate(const rlx_recurrent *self, int64_t direction, int which) {
    const rlx_recurrent_attrs *attrs = self->attrs;
    const rlx_gate *gates[2][3] = {{&attrs->f, &attrs->g, &attrs->h},
                                   {&attrs->back_f, &attrs->back_g, &attrs->back_h}};
    rlx_gate gate = *gates[direction][which];
    if (gate.kind == RLX_GATE_DEFAULT) {
        gate.kind = which == 0 && self->gates > 1 ? RLX_GATE_SIGMOID : RLX_GATE_TANH;
    }
    return gate;
}

bool rlx_ref_recurrent_is_reverse(const rlx_recurrent *self, int64_t direction) {
    return direction == 1 || self->attrs->direction == RLX_DIRECTION_REVERSE;
}

/* The unary op of a gate; NONE for those that have none. */
static rlx_op unary_of(rlx_gate_kind kind) {
    static const rlx_op ops[] = {
        [RLX_GATE_SIGMOID] = RLX_OP_SIGMOID,
        [RLX_GATE_TANH] = RLX_OP_TANH,
        [RLX_GATE_RELU] = RLX_OP_RELU,
        [RLX_GATE_LEAKY_RELU] = RLX_OP_LEAKY_RELU,
        [RLX_GATE_THRESHOLDED_RELU] = RLX_OP_THRESHOLDED_RELU,
        [RLX_GATE_HARD_SIGMOID] = RLX_OP_HARD_SIGMOID,
        [RLX_GATE_ELU] = RLX_OP_ELU,
        [RLX_GATE_SOFTSIGN] = RLX_OP_SOFTSIGN,
        [RLX_GATE_SOFTPLUS] = RLX_OP_SOFTPLUS,
    };
    return ops[kind];
}

/* Where a row of w or r begins, and how far apart its numbers are: panels hold rows side by side.
 */
static int64_t find_row(const rlx_tensor *matrix, int64_t direction, int64_t row,
                        int64_t *out_step) {
    int64_t width = matrix->layout == RLX_LAYOUT_ROWS16 ? 16 : 32, depth = matrix->dims[2];
    if (matrix->layout == RLX_LAYOUT_PLAIN) {
        *out_step = matrix->strides[2];
        return direction * matrix->strides[0] + row * matrix->strides[1];
    }
    *out_step = width;
    int64_t panel = direction * rlx_ref_divide_up(matrix->dims[1], width) + row / width;
    return panel * depth * width + row % width;
}

#define TYPE   float
#define SUFFIX f32
#define NATIVE RLX_DTYPE_F32
#include "ref/recurrent_body.h"

#define TYPE   double
#define SUFFIX f64
#define NATIVE RLX_DTYPE_F64
#include "ref/recurrent_body.h"

static void run_recurrent(const rlx_kernel_args *args, int64_t begin, int64_t end) {
    rlx_recurrent self = rlx_ref_recurrent(args);
    for (int64_t item = begin; item < end; item++) {
        int64_t direction = item / self.batch, b = item % self.batch;
        if (self.x->dtype == RLX_DTYPE_F64) {
            sequence_f64(&self, direction, b, args->workspace);
        } else {
            sequence_f32(&self, direction, b, args->workspace);
        }
    }
}

int64_t rlx_ref_recurrent_items(const rlx_kernel_args *args) {
    rlx_recurrent self = rlx_ref_recurrent(args);
    return self.directions * self.batch;
}

int64_t rlx_ref_recurrent_item_cost(const rlx_kernel_args *args) {
    rlx_recurrent self = rlx_ref_recurrent(args);
    int64_t row =
        rlx_ref_least(self.inputs, INT32_MAX) + rlx_ref_least(self.hidden, INT32_MAX) + 32;
    return rlx_ref_cost(rlx_ref_cost(row, self.gates * self.hidden), self.steps);
}

/* See the layout of `room` in recurrent_body.h. */
static uint64_t recurrent_workspace(const rlx_kernel_args *args) {
    rlx_recurrent self = rlx_ref_recurrent(args);
    uint64_t size = self.x->dtype == RLX_DTYPE_F64 ? sizeof(double) : sizeof(float);
    uint64_t rows = rlx_ref_bytes((uint64_t)self.inputs, 2);
    uint64_t states = rlx_ref_bytes((uint64_t)self.hidden, (uint64_t)(7 + 4 * self.gates));
    uint64_t count;
    if (rlx_ref_recurrent_items(args) == 0) return 0;
    return rlx_add_u64(rows, states, &count) ? rlx_ref_bytes(count, size) : UINT64_MAX;
}

const rlx_ref_row rlx_ref_recurrent_rows[] = {
    {RLX_OP_RNN,
     {"rnn_scalar", run_recurrent, rlx_ref_recurrent_items, rlx_ref_recurrent_item_cost,
      recurrent_workspace}},
    {RLX_OP_GRU,
     {"gru_scalar", run_recurrent, rlx_ref_recurrent_items, rlx_ref_recurrent_item_cost,
      recurrent_workspace}},
    {RLX_OP_LSTM,
     {"lstm_scalar", run_recurrent, rlx_ref_recurrent_items, rlx_ref_recurrent_item_cost,
      recurrent_workspace}},
};
const uint32_t rlx_ref_recurrent_count = 3;
