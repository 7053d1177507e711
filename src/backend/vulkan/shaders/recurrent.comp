// SPDX-License-Identifier: Apache-2.0
#version 450
#extension GL_GOOGLE_include_directive : require
// rnn, gru, lstm: a group per sequence and direction, lanes share the hidden values; steps follow each other.
// p: step; directions, batch, steps, inputs, hidden; then bases with their strides: 6 x (step, batch, k), 10 w and 14 r
// (direction, row, k), 18 b (direction, k), 21 lengths (batch), 23 h and 27 c (direction, batch, k), 31 peepholes
// (direction, k), 34 y (step, direction, batch, k), 39 last h and 43 last c (direction, batch, k); 47 clip; 48 alpha and
// beta of f, g, h of each direction. Last c is at binding 8, where peepholes are else: with both it is written by a
// second dispatch, in the place of last h.
// K0: 0 rnn, 1 gru, 2 lstm; K1: bits as below; K2: the first direction is reverse; K3, K4, K5: f, g, h, of the second
// direction from bit 8 on: rlx_gate_kind.
#include "common.glsl"
#include "math.glsl"
IN(1) IN(2) IN(3) IN(4) IN(5) IN(6) IN(7) IN(8)
OUT(9) OUT(10)
FAULTS
layout(std430, set = 0, binding = 8) buffer LastCell { uint last_c[]; };
const uint GRU = 1u, LSTM = 2u;
const uint BIAS = 1u, LENGTHS = 2u, FIRST_H = 4u, FIRST_C = 8u, PEEPHOLES = 16u, Y = 32u, LAST_H = 64u, LAST_C = 128u,
           LINEAR_FIRST = 256u, INPUT_FORGET = 512u, CELL_AS_H = 1024u;
const int MOST = 1024;
shared float h[MOST];
shared float c[MOST]; // the cell; of gru the reset gate times h
shared float next[MOST];

void put_last_c(int i, float value) {
    uvec2 raw = raw_of(DT1, uvec2(floatBitsToUint(value), 0u));
    if (DT1 == F32) {
        last_c[i] = raw.x;
    } else {
        int shift = (i & 1) * 16;
        atomicAnd(last_c[i >> 1], ~(0xffffu << shift));
        atomicOr(last_c[i >> 1], raw.x << shift);
    }
}
float apply(uint kind, float x, float a, float b) {
    if (kind == 1u) return sigmoid_(x);
    if (kind == 2u) return tanh_(x);
    if (kind == 3u) return f_relu(x, a, b);
    if (kind == 4u) return a * x + b;
    if (kind == 5u) return f_leaky_relu(x, a, b);
    if (kind == 6u) return f_thresholded_relu(x, a, b);
    if (kind == 7u) return a * tanh_(b * x);
    if (kind == 8u) return f_hard_sigmoid(x, a, b);
    if (kind == 9u) return f_elu(x, a, b);
    return kind == 10u ? f_softsign(x, a, b) : softplus_(x);
}
float gate(uint which, int direction, float x) {
    uint kinds = which == 0u ? K3 : which == 1u ? K4 : K5;
    float most = pf(47), a = pf(48 + 6 * direction + 2 * int(which)), b = pf(49 + 6 * direction + 2 * int(which));
    if (most > 0.0) x = x < -most ? -most : x > most ? most : x;
    return direction == 0 ? apply(kinds & 255u, x, a, b) : apply(kinds >> 8, x, a, b);
}
float bias(int direction, int row) { return (K1 & BIAS) != 0u ? float_4(p[18] + direction * p[19] + row * p[20]) : 0.0; }
float peephole(int direction, int row) { return (K1 & PEEPHOLES) != 0u ? float_8(p[31] + direction * p[32] + row * p[33]) : 0.0; }
int length_of(int b) {
    int steps = p[3];
    if ((K1 & LENGTHS) == 0u) return steps;
    uvec2 value = value_5(p[21] + b * p[22]);
    int count = int(value.x);
    if (value.y == uint(count >> 31) && count >= 0 && count <= steps) return count;
    if (lane() == 0) raise(FAULT_BOUND, value);
    return int(value.y) < 0 ? 0 : steps;
}
// x w + its bias, for as many gates as there are.
vec4 from_input(int direction, int j, int x) {
    int hidden = p[5], depth = p[4], w = p[10] + direction * p[11] + j * p[12], apart = hidden * p[12];
    vec4 sum = vec4(0.0);
    for (int k = 0; k < depth; k++) {
        float value = float_1(x + k * p[9]);
        int at = w + k * p[13];
        sum.x += value * float_2(at);
        if (K0 != 0u) sum.y += value * float_2(at + apart);
        if (K0 != 0u) sum.z += value * float_2(at + 2 * apart);
        if (K0 == LSTM) sum.w += value * float_2(at + 3 * apart);
    }
    sum.x += bias(direction, j);
    if (K0 != 0u) sum.y += bias(direction, hidden + j);
    if (K0 != 0u) sum.z += bias(direction, 2 * hidden + j);
    if (K0 == LSTM) sum.w += bias(direction, 3 * hidden + j);
    return sum;
}
// The same of h and r.
vec4 from_state(int direction, int j) {
    int hidden = p[5], r = p[14] + direction * p[15] + j * p[16], apart = hidden * p[16];
    int first = (K0 == LSTM ? 4 : K0 == GRU ? 3 : 1) * hidden;
    vec4 sum = vec4(0.0);
    for (int k = 0; k < hidden; k++) {
        float value = h[k];
        int at = r + k * p[17];
        sum.x += value * float_3(at);
        if (K0 != 0u) sum.y += value * float_3(at + apart);
        if (K0 != 0u) sum.z += value * float_3(at + 2 * apart);
        if (K0 == LSTM) sum.w += value * float_3(at + 3 * apart);
    }
    sum.x += bias(direction, first + j);
    if (K0 != 0u) sum.y += bias(direction, first + hidden + j);
    if (K0 != 0u) sum.z += bias(direction, first + 2 * hidden + j);
    if (K0 == LSTM) sum.w += bias(direction, first + 3 * hidden + j);
    return sum;
}
// Gates of lstm: i o f c.
float step_lstm(int direction, int j, vec4 sum) {
    int hidden = p[5];
    float old = c[j];
    float i = gate(0u, direction, sum.x + peephole(direction, j) * old);
    float f = gate(0u, direction, sum.z + peephole(direction, 2 * hidden + j) * old);
    float cell = ((K1 & INPUT_FORGET) != 0u ? 1.0 - i : f) * old + i * gate(1u, direction, sum.w);
    c[j] = cell;
    return gate(0u, direction, sum.y + peephole(direction, hidden + j) * cell) * gate(2u, direction, cell);
}
void main() {
    int sequence = group(), batch = p[2], hidden = p[5];
    if (sequence >= p[1] * batch) return;
    int direction = sequence / batch, b = sequence % batch, length = length_of(b);
    bool reverse = direction == 1 || K2 != 0u;
    for (int j = lane(); j < hidden; j += 64) {
        h[j] = (K1 & FIRST_H) != 0u ? float_6(p[23] + direction * p[24] + b * p[25] + j * p[26]) : 0.0;
        c[j] = (K1 & FIRST_C) != 0u ? float_7(p[27] + direction * p[28] + b * p[29] + j * p[30]) : 0.0;
    }
    int y = p[34] + direction * p[36] + b * p[37];
    for (int s = 0; s < length; s++) {
        int t = reverse ? length - 1 - s : s, x = p[6] + t * p[7] + b * p[8];
        barrier();
        for (int j = lane(); j < hidden; j += 64) {
            vec4 in_ = from_input(direction, j, x), state = from_state(direction, j);
            if (K0 == 0u) next[j] = gate(0u, direction, in_.x + state.x);
            if (K0 == LSTM) next[j] = step_lstm(direction, j, in_ + state);
            if (K0 == GRU) {
                float z = gate(0u, direction, in_.x + state.x), reset = gate(0u, direction, in_.y + state.y);
                if ((K1 & LINEAR_FIRST) != 0u) {
                    next[j] = (1.0 - z) * gate(1u, direction, in_.z + reset * state.z) + z * h[j];
                } else {
                    next[j] = z;
                    c[j] = reset * h[j];
                }
            }
        }
        if (K0 == GRU && (K1 & LINEAR_FIRST) == 0u) {
            barrier();
            for (int j = lane(); j < hidden; j += 64) {
                int w = p[10] + direction * p[11] + (2 * hidden + j) * p[12], r = p[14] + direction * p[15] + (2 * hidden + j) * p[16];
                float sum = 0.0, part = 0.0, z = next[j];
                for (int k = 0; k < p[4]; k++) sum += float_1(x + k * p[9]) * float_2(w + k * p[13]);
                for (int k = 0; k < hidden; k++) part += c[k] * float_3(r + k * p[17]);
                sum = (sum + bias(direction, 2 * hidden + j)) + (part + bias(direction, 5 * hidden + j));
                next[j] = (1.0 - z) * gate(1u, direction, sum) + z * h[j];
            }
        }
        barrier();
        for (int j = lane(); j < hidden; j += 64) {
            h[j] = next[j];
            if ((K1 & Y) != 0u) put_float_10(y + t * p[35] + j * p[38], next[j]);
        }
    }
    for (int j = lane(); j < hidden; j += 64) {
        if ((K1 & LAST_H) != 0u) put_float_9(p[39] + direction * p[40] + b * p[41] + j * p[42], (K1 & CELL_AS_H) != 0u ? c[j] : h[j]);
        if ((K1 & LAST_C) != 0u) put_last_c(p[43] + direction * p[44] + b * p[45] + j * p[46], c[j]);
        for (int t = length; (K1 & Y) != 0u && t < p[3]; t++) put_float_10(y + t * p[35] + j * p[38], 0.0);
    }
}
