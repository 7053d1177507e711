/* SPDX-License-Identifier: Apache-2.0 */
/* LSTM, GRU and RNN. */
#include "import/onnx/ops.h"

#include <string.h>

typedef struct gate_row {
    const char *name;
    rlx_gate_kind kind;
    bool has_alpha, has_beta;
    double alpha, beta; /* defaults */
} gate_row;

static const gate_row gates[] = {
    {"Sigmoid", RLX_GATE_SIGMOID, false, false, 0, 0},
    {"Tanh", RLX_GATE_TANH, false, false, 0, 0},
    {"Relu", RLX_GATE_RELU, false, false, 0, 0},
    {"Affine", RLX_GATE_AFFINE, true, true, 1, 0},
    {"LeakyRelu", RLX_GATE_LEAKY_RELU, true, false, 0.01, 0},
    {"ThresholdedRelu", RLX_GATE_THRESHOLDED_RELU, true, false, 1, 0},
    {"ScaledTanh", RLX_GATE_SCALED_TANH, true, true, 1, 1},
    {"HardSigmoid", RLX_GATE_HARD_SIGMOID, true, true, 0.2, 0.5},
    {"Elu", RLX_GATE_ELU, true, false, 1, 0},
    {"Softsign", RLX_GATE_SOFTSIGN, false, false, 0, 0},
    {"Softplus", RLX_GATE_SOFTPLUS, false, false, 0, 0},
};

static bool same_name(const char *a, const char *b) {
    for (; *a != 0 && *b != 0; a++, b++) {
        if ((*a | 32) != (*b | 32)) return false;
    }
    return *a == *b;
}

/* Alphas and betas are consumed in order by the functions that take one. */
static double next_of(const rlx_onnx_attr *list, uint32_t *at, double otherwise) {
    if (list == NULL || *at >= list->count || list->floats == NULL) return otherwise;
    return (double)list->floats[(*at)++];
}

static void read_gates(ox *o, uint32_t per_direction, uint32_t directions,
                       rlx_recurrent_attrs *attrs) {
    const rlx_onnx_attr *names = ox_attr(o, "activations");
    const rlx_onnx_attr *alphas = ox_attr(o, "activation_alpha"),
                        *betas = ox_attr(o, "activation_beta");
    rlx_gate *targets[] = {&attrs->f,      &attrs->g,      &attrs->h,
                           &attrs->back_f, &attrs->back_g, &attrs->back_h};
    uint32_t alpha = 0, beta = 0;
    if (names == NULL || names->strings == NULL) return;
    if (names->count != per_direction * directions)
        ox_invalid(o, "%u activations instead of %u", names->count, per_direction * directions);
    for (uint32_t i = 0; i < names->count && ox_ok(o); i++) {
        const gate_row *row = NULL;
        for (uint32_t g = 0; g < sizeof gates / sizeof *gates; g++) {
            if (same_name(gates[g].name, names->strings[i].data)) row = &gates[g];
        }
        if (row == NULL) {
            ox_unsupported(o, "activation '%s'", names->strings[i].data);
            return;
        }
        rlx_gate *gate = targets[i / per_direction * 3 + i % per_direction];
        gate->kind = row->kind;
        if (row->has_alpha) gate->alpha = next_of(alphas, &alpha, row->alpha);
        if (row->has_beta) gate->beta = next_of(betas, &beta, row->beta);
    }
}

void ox_recurrent(ox *o, const rlx_value_id *inputs) {
    rlx_recurrent_attrs attrs = {.batch_first = ox_int(o, "layout", 0) != 0,
                                 .linear_before_reset = ox_int(o, "linear_before_reset", 0) != 0,
                                 .input_forget = ox_int(o, "input_forget", 0) != 0,
                                 .clip = ox_float(o, "clip", 0)};
    const char *direction = ox_text(o, "direction", "forward");
    uint32_t most = o->op == RLX_OP_LSTM ? 8 : 6, outputs = o->op == RLX_OP_LSTM ? 3 : 2;
    rlx_value_id out[3] = {RLX_NONE, RLX_NONE, RLX_NONE};
    attrs.direction = strcmp(direction, "reverse") == 0         ? RLX_DIRECTION_REVERSE
                      : strcmp(direction, "bidirectional") == 0 ? RLX_DIRECTION_BIDIRECTIONAL
                                                                : RLX_DIRECTION_FORWARD;
    if (attrs.direction == RLX_DIRECTION_FORWARD && strcmp(direction, "forward") != 0)
        ox_invalid(o, "direction '%s' is not known", direction);
    uint32_t gate_count = o->op == RLX_OP_LSTM ? 3 : o->op == RLX_OP_GRU ? 2 : 1;
    read_gates(o, gate_count, attrs.direction == RLX_DIRECTION_BIDIRECTIONAL ? 2 : 1, &attrs);
    while (most > 3 && inputs[most - 1] == RLX_NONE)
        most--;
    while (outputs > 1 && !ox_wants(o, outputs - 1))
        outputs--;
    ox_nodes(o, o->op, &attrs, inputs, most, out, outputs);
    for (uint32_t i = 0; i < outputs; i++)
        ox_give(o, i, out[i]);
}

void rlx_ox_recurrent(ox *o) {
    rlx_value_id in[8];
    for (uint32_t i = 0; i < 8; i++)
        in[i] = i < 3 ? ox_in(o, i) : ox_maybe(o, i);
    ox_recurrent(o, in);
}
