#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the cases of rnn, gru and lstm: CASES/recurrent/<case>/{model.rlx,in_N.npy,out_N.npy}.

Expected values come from the equations of the ONNX operators in double precision; nothing is shared
with the library. Seeded: the same files on every machine.
usage: gen_recurrent.py [CASES]   (default: cases beside this file)
"""
import math
import os
import sys

import gen_nn
from gen_nn import Array, Cases, filled, made

GATES = {"lstm": 4, "gru": 3, "rnn": 1}
APPLY = {
    "sigmoid": lambda x, a, b: 1 / (1 + math.exp(-x)),
    "tanh": lambda x, a, b: math.tanh(x),
    "relu": lambda x, a, b: max(x, 0.0),
    "affine": lambda x, a, b: a * x + b,
    "leaky_relu": lambda x, a, b: x if x >= 0 else a * x,
    "thresholded_relu": lambda x, a, b: x if x > a else 0.0,
    "scaled_tanh": lambda x, a, b: a * math.tanh(b * x),
    "hard_sigmoid": lambda x, a, b: min(max(a * x + b, 0.0), 1.0),
    "elu": lambda x, a, b: x if x >= 0 else a * (math.exp(x) - 1),
    "softsign": lambda x, a, b: x / (1 + abs(x)),
    "softplus": lambda x, a, b: math.log(1 + math.exp(x)),
}


class Layer:
    """The inputs of one case, with what is absent as zeros, and its equations."""

    def __init__(self, op, sizes, dtype="f32", weights=None, bias=False, lengths=None, states=False,
                 peepholes=False, **attrs):
        self.op, self.attrs, self.dtype = op, attrs, dtype
        self.steps, self.batch, self.inputs, self.hidden = sizes
        self.first = attrs.get("batch_first", False)
        self.ways = 2 if attrs.get("direction") == "bidirectional" else 1
        rows, weights = GATES[op] * self.hidden, weights or dtype
        x = (self.batch, self.steps) if self.first else (self.steps, self.batch)
        state = (self.batch, self.ways) if self.first else (self.ways, self.batch)
        self.x = filled(dtype, *x, self.inputs, low=-2, high=2)
        self.w = filled(weights, self.ways, rows, self.inputs)
        self.r = filled(weights, self.ways, rows, self.hidden)
        self.b = filled(weights, self.ways, 2 * rows) if bias else None
        self.lengths = lengths
        self.h = filled(dtype, *state, self.hidden) if states else None
        self.c = filled(dtype, *state, self.hidden) if states and op == "lstm" else None
        self.p = filled(weights, self.ways, 3 * self.hidden) if peepholes else None

    def gate(self, way, name, value):
        """f, g or h of direction `way` on a clipped value."""
        clip = self.attrs.get("clip", 0)
        if clip:
            value = min(max(value, -clip), clip)
        key = ("back_" if way else "") + name
        kind = self.attrs.get(key, "sigmoid" if name == "f" and self.op != "rnn" else "tanh")
        return APPLY[kind](value, self.attrs.get(key + "_alpha", 0.0),
                           self.attrs.get(key + "_beta", 0.0))

    def bias(self, way, part, row):
        return self.b[way, part * GATES[self.op] * self.hidden + row] if self.b else 0.0

    def from_x(self, way, row, x):
        return math.fsum(self.w[way, row, k] * x[k] for k in range(self.inputs)) + \
            self.bias(way, 0, row)

    def from_h(self, way, row, h):
        return math.fsum(self.r[way, row, k] * h[k] for k in range(self.hidden)) + \
            self.bias(way, 1, row)

    def peep(self, way, part, j, c):
        return self.p[way, part * self.hidden + j] * c[j] if self.p else 0.0

    def step(self, way, x, h, c):
        n, both = self.hidden, lambda row: self.from_x(way, row, x) + self.from_h(way, row, h)
        if self.op == "rnn":
            return [self.gate(way, "f", both(j)) for j in range(n)], c
        if self.op == "gru":
            return self.step_gru(way, x, h, both), c
        i = [self.gate(way, "f", both(j) + self.peep(way, 0, j, c)) for j in range(n)]
        keep = [self.gate(way, "f", both(2 * n + j) + self.peep(way, 2, j, c)) for j in range(n)]
        if self.attrs.get("input_forget"):
            keep = [1 - value for value in i]
        cell = [keep[j] * c[j] + i[j] * self.gate(way, "g", both(3 * n + j)) for j in range(n)]
        out = [self.gate(way, "f", both(n + j) + self.peep(way, 1, j, cell)) for j in range(n)]
        return [out[j] * self.gate(way, "h", cell[j]) for j in range(n)], cell

    def step_gru(self, way, x, h, both):
        n = self.hidden
        z = [self.gate(way, "f", both(j)) for j in range(n)]
        reset = [self.gate(way, "f", both(n + j)) for j in range(n)]
        if self.attrs.get("linear_before_reset"):
            inner = [reset[j] * self.from_h(way, 2 * n + j, h) for j in range(n)]
        else:
            held = [reset[j] * h[j] for j in range(n)]
            inner = [self.from_h(way, 2 * n + j, held) for j in range(n)]
        new = [self.gate(way, "g", self.from_x(way, 2 * n + j, x) + inner[j]) for j in range(n)]
        return [(1 - z[j]) * new[j] + z[j] * h[j] for j in range(n)]

    def state(self, tensor, way, b):
        if tensor is None:
            return [0.0] * self.hidden
        return [tensor[(b, way, j) if self.first else (way, b, j)] for j in range(self.hidden)]

    def run(self):
        y, last = {}, {}
        for way in range(self.ways):
            backwards = way == 1 or self.attrs.get("direction") == "reverse"
            for b in range(self.batch):
                h, c = self.state(self.h, way, b), self.state(self.c, way, b)
                length = self.lengths.values[b] if self.lengths else self.steps
                for s in range(length):
                    t = length - 1 - s if backwards else s
                    x = [self.x[(b, t, k) if self.first else (t, b, k)]
                         for k in range(self.inputs)]
                    h, c = self.step(way, x, h, c)
                    y[t, way, b] = h
                last[way, b] = h, c
        return y, last

    def outputs(self):
        y, last = self.run()
        zero = [0.0] * self.hidden
        state = (self.batch, self.ways) if self.first else (self.ways, self.batch)

        def all_steps(place):
            t, way, b = (place[1], place[2], place[0]) if self.first else place[:3]
            return y.get((t, way, b), zero)[place[3]]

        def of_last(which):
            return made(self.dtype, state + (self.hidden,), lambda p: last[
                (p[1], p[0]) if self.first else (p[0], p[1])][which][p[2]])
        shape = ((self.batch, self.steps, self.ways) if self.first
                 else (self.steps, self.ways, self.batch))
        found = [made(self.dtype, shape + (self.hidden,), all_steps), of_last(0)]
        return found + ([of_last(1)] if self.op == "lstm" else [])

    def arrays(self):
        found = [self.x, self.w, self.r, self.b, self.lengths, self.h]
        found += [self.c, self.p] if self.op == "lstm" else []
        while found[-1] is None:
            found.pop()
        return found


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    cases = Cases(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "cases"))
    gen_nn.RANDOM.seed(11)

    def case(name, *args, **more):
        layer = Layer(*args, **more)
        cases.write("recurrent", name, layer.op, layer.arrays(), layer.attrs, layer.outputs())

    lengths = Array("i32", [3], [2, 5, 0])
    wide = Array("i64", [2], [1, 3])
    for op in ("rnn", "gru", "lstm"):
        case(op + "_reverse", op, (4, 2, 3, 5), bias=True, direction="reverse")
        case(op + "_bidirectional", op, (3, 2, 4, 3), bias=True, states=True,
             direction="bidirectional")
        case(op + "_lengths", op, (5, 3, 2, 4), bias=True, states=True, lengths=lengths,
             direction="bidirectional")
        case(op + "_batch_first", op, (3, 2, 3, 4), bias=True, states=True, lengths=wide,
             batch_first=True, direction="bidirectional")
        case(op + "_clip", op, (4, 1, 3, 9), bias=True, states=True, clip=0.4)
        case(op + "_f16", op, (3, 2, 3, 4), dtype="f16", bias=True, states=True)
        case(op + "_f16_weights", op, (3, 1, 9, 8), weights="f16", bias=True)
        case(op + "_f64", op, (3, 2, 3, 4), dtype="f64", bias=True, states=True)
        case(op + "_wide", op, (3, 2, 37, 41), bias=True, states=True)
        case(op + "_relu", op, (3, 1, 3, 5), bias=True, f="relu" if op == "rnn" else "softsign",
             **({} if op == "rnn" else {"g": "relu"}))
    case("gru_linear_before_reset", "gru", (4, 2, 3, 5), bias=True, states=True,
         linear_before_reset=True, direction="bidirectional")
    case("lstm_input_forget", "lstm", (4, 2, 3, 5), bias=True, states=True, input_forget=True)
    case("lstm_peepholes", "lstm", (4, 2, 3, 5), bias=True, states=True, peepholes=True,
         direction="bidirectional", clip=1.5)
    case("lstm_gates", "lstm", (3, 2, 3, 4), bias=True, direction="bidirectional",
         f="hard_sigmoid", f_alpha=0.2, f_beta=0.5, g="scaled_tanh", g_alpha=1.5, g_beta=0.5,
         h="affine", h_alpha=0.5, h_beta=-0.25, back_f="sigmoid", back_g="leaky_relu",
         back_g_alpha=0.25, back_h="elu", back_h_alpha=0.5)
    case("gru_gates", "gru", (3, 1, 3, 4), bias=True, direction="bidirectional", f="hard_sigmoid",
         f_alpha=0.5, f_beta=0.25, g="softplus", back_f="sigmoid", back_g="thresholded_relu",
         back_g_alpha=0.1)
    layer = Layer("lstm", (3, 2, 3, 4), dtype="f16", bias=True, states=True)
    cases.write("recurrent", "lstm_f16_last_cell_alone", "lstm", layer.arrays(), layer.attrs, [None, None] + layer.outputs()[2:])
    print("%d cases" % cases.count)


if __name__ == "__main__":
    main()
