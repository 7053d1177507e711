/* SPDX-License-Identifier: Apache-2.0 */
/* rnn, gru and lstm as one dispatch: the layout of the record stands at the top of
 * shaders/recurrent.comp. */
#include "backend/vulkan/lower.h"
#include "ir/dtype.h"

#include <string.h>

enum {
    LAST_C = 8, /* bindings of outputs; that of last c is else that of peepholes */
    LAST_H = 9,
    OUTPUT = 10,
    MOST_HIDDEN = 1024 /* what shared memory holds */
};

static bool has_input(const rlx_target_query *query, uint32_t input) {
    return input < query->in_count && query->in[input].data != NULL;
}

static bool has_output(const rlx_target_query *query, uint32_t output) {
    return output < query->out_count && query->out[output].data != NULL;
}

static void set_gates(rlx_vk_lowering *self, const rlx_recurrent_attrs *attrs) {
    const rlx_gate *gates[2][3] = {{&attrs->f, &attrs->g, &attrs->h},
                                   {&attrs->back_f, &attrs->back_g, &attrs->back_h}};
    for (uint32_t direction = 0; direction < 2; direction++) {
        for (uint32_t which = 0; which < 3; which++) {
            rlx_gate gate = *gates[direction][which];
            uint32_t word = 48 + 6 * direction + 2 * which;
            if (gate.kind == RLX_GATE_DEFAULT) {
                gate.kind =
                    which == 0 && self->query->op != RLX_OP_RNN ? RLX_GATE_SIGMOID : RLX_GATE_TANH;
            }
            self->now.constants[3 + which] |= (uint32_t)gate.kind << (8 * direction);
            rlx_vk_set_float(self, word, gate.alpha);
            rlx_vk_set_float(self, word + 1, gate.beta);
        }
    }
}
_Static_assert(RLX_GATE_SIGMOID == 1 && RLX_GATE_SOFTPLUS == 11, "recurrent.comp has numbers");

/* An operand's base and the strides of some of its axes, from `word` on; bound where it stands. */
static void set_operand(rlx_vk_lowering *self, uint32_t word, uint32_t binding, uint32_t operand,
                        const uint32_t *axes, uint32_t count) {
    const rlx_tensor *tensor = rlx_vk_operand(self, operand);
    rlx_vk_set_base(self, word, operand, 0);
    for (uint32_t i = 0; i < count; i++)
        rlx_vk_set(self, word + 1 + i, tensor->strides[axes[i]]);
    rlx_vk_bind(self, binding, operand, operand >= self->query->in_count);
    rlx_vk_cover(self, operand);
}

static void set_inputs(rlx_vk_lowering *self, const rlx_recurrent_attrs *attrs) {
    const uint32_t step = attrs->batch_first ? 1 : 0, batch = 1 - step;
    const uint32_t words[] = {6, 10, 14, 18, 21, 23, 27, 31};
    const uint32_t axes[8][3] = {{step, batch, 2},
                                 {0, 1, 2},
                                 {0, 1, 2},
                                 {0, 1, 0},
                                 {0, 0, 0},
                                 {batch == 0 ? 1 : 0, batch == 0 ? 0 : 1, 2},
                                 {batch == 0 ? 1 : 0, batch == 0 ? 0 : 1, 2},
                                 {0, 1, 0}};
    const uint32_t counts[] = {3, 3, 3, 2, 1, 3, 3, 2};
    for (uint32_t i = 0; i < 8; i++) {
        if (!has_input(self->query, i)) continue;
        set_operand(self, words[i], 1 + i, i, axes[i], counts[i]);
        if (i > 2) self->now.constants[1] |= 1u << (i - 3);
    }
    rlx_vk_set_dim(self, 2, 0, batch);
    rlx_vk_set_dim(self, 3, 0, step);
}

/* The cell's last value is written by a dispatch of its own where peepholes have its binding. */
static void set_outputs(rlx_vk_lowering *self, const rlx_recurrent_attrs *attrs, bool is_cell) {
    const uint32_t first = self->query->in_count;
    const uint32_t y_axes[2][4] = {{0, 1, 2, 3}, {1, 2, 0, 3}}; /* step, direction, batch, k */
    const uint32_t last_axes[2][3] = {{0, 1, 2}, {1, 0, 2}};
    const uint32_t *last = last_axes[attrs->batch_first];
    if (is_cell) {
        set_operand(self, 39, LAST_H, first + 2, last, 3);
        self->now.constants[1] |= 64 | 1024;
        return;
    }
    if (has_output(self->query, 0)) {
        set_operand(self, 34, OUTPUT, first, y_axes[attrs->batch_first], 4);
        self->now.constants[1] |= 32;
    }
    if (has_output(self->query, 1)) {
        set_operand(self, 39, LAST_H, first + 1, last, 3);
        self->now.constants[1] |= 64;
    }
    if (has_output(self->query, 2) && !has_input(self->query, 7)) {
        set_operand(self, 43, LAST_C, first + 2, last, 3);
        self->now.constants[1] |= 128;
    }
}

static bool are_floats(const rlx_target_query *query) {
    for (uint32_t i = 0; i < query->in_count; i++) {
        if (i != 4 && has_input(query, i) && !rlx_vk_is_float(query->in[i].dtype)) return false;
    }
    return true;
}

/* What a lane goes through: its hidden values, each over all inputs and hidden ones. */
static int64_t count_rounds(const rlx_target_query *query, const rlx_recurrent_attrs *attrs) {
    int64_t hidden = query->in[2].dims[2], inputs = query->in[0].dims[2];
    int64_t steps = query->in[0].dims[attrs->batch_first ? 1 : 0];
    int64_t per_lane = (hidden + RLX_VK_LANES - 1) / RLX_VK_LANES;
    bool is_twice = query->op == RLX_OP_GRU && !attrs->linear_before_reset;
    int64_t row = (inputs + hidden + 4) * (is_twice ? 2 : 1) + 4;
    if (steps > INT32_MAX || row > INT32_MAX) return INT64_MAX;
    return steps * row > INT64_MAX / (per_lane + 1) ? INT64_MAX : (per_lane + 1) * steps * row;
}

static void emit_layer(rlx_vk_lowering *self, const rlx_recurrent_attrs *attrs, uint64_t sequences,
                       bool is_cell) {
    const rlx_target_query *query = self->query;
    rlx_vk_begin(self, RLX_VK_RECURRENT);
    rlx_vk_set(self, 1, query->in[2].dims[0]);
    rlx_vk_set(self, 4, query->in[0].dims[2]);
    rlx_vk_set(self, 5, query->in[2].dims[2]);
    set_inputs(self, attrs);
    set_outputs(self, attrs, is_cell);
    rlx_vk_set_float(self, 47, attrs->clip);
    set_gates(self, attrs);
    self->now.constants[0] = query->op == RLX_OP_LSTM ? 2 : query->op == RLX_OP_GRU ? 1 : 0;
    self->now.constants[1] |=
        (attrs->linear_before_reset ? 256u : 0) | (attrs->input_forget ? 512u : 0);
    self->now.constants[2] = attrs->direction == RLX_DIRECTION_REVERSE;
    self->now.faults = has_input(query, 4);
    rlx_vk_emit(self, sequences);
}

void rlx_vk_lower_recurrent(rlx_vk_lowering *self) {
    const rlx_target_query *query = self->query;
    const rlx_recurrent_attrs *attrs = query->attrs;
    int64_t directions = query->in[2].dims[0], hidden = query->in[2].dims[2];
    int64_t batch = query->in[0].dims[attrs->batch_first ? 0 : 1];
    if (!are_floats(query)) RLX_VK_REFUSE(self, "no shader for this dtype");
    if (hidden > MOST_HIDDEN) RLX_VK_REFUSE(self, "no shader for more than 1024 hidden values");
    rlx_vk_limit_rounds(self, count_rounds(query, attrs));
    emit_layer(self, attrs, (uint64_t)(directions * batch), false);
    if (has_input(query, 7) && has_output(query, 2)) {
        emit_layer(self, attrs, (uint64_t)(directions * batch), true);
    }
}
