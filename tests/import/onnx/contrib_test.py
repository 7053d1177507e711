#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ops of the domain com.microsoft, as ONNX Runtime's tools write them: each graph is written twice, with the op and
with standard ops that say what it means. The first must give what the second gives on scalar C without any pass.

usage: contrib_test.py RLX [NAME..]
       contrib_test.py RLX --ort RUNNER LIBRARY [NAME..]   (also against ONNX Runtime; RUNNER is rlx_onnx_runner)
"""
import array
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "..", "scripts")]
from graphs import Graph, Numbers, field  # noqa: E402
import onnx_cases  # noqa: E402

CASES = {}
DTYPES = {"f32": "float32", "i64": "int64", "i32": "int32", "bool": "bool"}


def case(**options):
    """make(g, is_plain) -> outputs (f32). Options: atol, rtol, opset, ort=False (ONNX Runtime has no kernel for f32 on CPUs)."""
    def add(make):
        CASES[make.__name__] = (make, options)
        return make
    return add


class Case(Graph):
    """A graph that knows the values of its inputs."""

    def __init__(self):
        super().__init__(7)
        self.data = []

    def given(self, name, dtype, dims, values=None, scale=1.0):
        count = math.prod(dims)
        if values is None:
            values = Numbers(len(self.data) + 3).floats(count, scale)
        self.data.append((name, dtype, dims, values))
        return self.input(name, dtype, dims)

    def hide(self, names):
        """Takes the names of outputs of the last node away: nobody wants them."""
        for name in names:
            self.nodes[-1] = self.nodes[-1].replace(field(2, name), field(2, ""))

    def quant(self, dtype, dims, name="x", scale=0.03, zero=None):
        """(bytes, scale, zero point) of a random input."""
        zero = (118 if dtype == "u8" else -7) if zero is None else zero
        s, z = self.scalar(scale), self.scalar(zero, dtype)
        return self.QuantizeLinear(self.given(name, "f32", dims, scale=3.0), s, z), s, z


def deq(g, q):
    return g.DequantizeLinear(*q)


def out_quant(g, dtype="u8", scale=0.05, zero=None):
    zero = (120 if dtype == "u8" else 5) if zero is None else zero
    return g.scalar(scale), g.scalar(zero, dtype)


def as_f32(g, x):
    return g.Cast(x, to=1)


def binary(op, dtype, other=(2, 5, 7)):
    def make(g, is_plain):
        a, b, y = g.quant(dtype, [2, 5, 7]), g.quant(dtype, list(other), "b", 0.02), out_quant(g, dtype, 0.04)
        if is_plain:
            return [as_f32(g, g.QuantizeLinear(g.node(op, [deq(g, a), deq(g, b)]), *y))]
        return [as_f32(g, g.ms("QLinear" + op, *a, *b, *y))]
    make.__name__ = "qlinear_%s_%s_%d" % (op.lower(), dtype, math.prod(other))
    return case(atol=1)(make)


for _op in ("Add", "Mul"):
    binary(_op, "u8")
    binary(_op, "i8")
    binary(_op, "u8", (5, 1))
    binary(_op, "u8", (1,))


@case(atol=1)
def qlinear_conv_and_add_are_one_step(g, is_plain):
    x, y, z = g.quant("u8", [1, 16, 9, 9]), out_quant(g, "u8", 0.09), out_quant(g, "u8", 0.1)
    w = (g.bytes_weight("i8", 32, 16, 3, 3), g.scalar(0.002), g.scalar(0, "i8"))
    r = g.quant("u8", [1, 32, 9, 9], "r")
    conv = g.QLinearConv(*x, *w, *y, pads=[1, 1, 1, 1])
    if is_plain:
        return [as_f32(g, g.QuantizeLinear(g.Add(g.DequantizeLinear(conv, *y), deq(g, r)), *z))]
    return [as_f32(g, g.ms("QLinearAdd", conv, *y, *r, *z))]


@case(atol=1)
def qlinear_conv_with_channels_last(g, is_plain):
    x, y = g.quant("u8", [1, 7, 6, 8]), out_quant(g, "u8", 0.09)
    w = (g.bytes_weight("i8", 12, 8, 3, 3), g.scalar(0.002), g.scalar(0, "i8"))
    if is_plain:
        conv = g.QLinearConv(g.Transpose(x[0], perm=[0, 3, 1, 2]), *x[1:], *w, *y, pads=[1, 1, 1, 1])
        return [as_f32(g, g.Transpose(conv, perm=[0, 2, 3, 1]))]
    return [as_f32(g, g.ms("QLinearConv", *x, *w, *y, pads=[1, 1, 1, 1], channels_last=1))]


@case(atol=1)
def qlinear_concat_of_different_scales(g, is_plain):
    a, b, y = g.quant("u8", [2, 3, 4]), g.quant("u8", [2, 5, 4], "b", 0.02), out_quant(g, "u8", 0.03, 118)
    if is_plain:
        return [as_f32(g, g.QuantizeLinear(g.Concat(deq(g, a), deq(g, b), axis=1), *y))]
    return [as_f32(g, g.ms("QLinearConcat", *y, *a, *b, axis=1))]


def pool(name, dims, attrs, plain):
    def make(g, is_plain):
        x, y = g.quant("u8", dims), out_quant(g, "u8", 0.02)
        is_last = attrs.get("channels_last", 0)
        if not is_plain:
            return [as_f32(g, g.ms(name, *x, *y, **attrs))]
        d = deq(g, x)
        d = g.Transpose(d, perm=[0, 3, 1, 2]) if is_last else d
        d = plain(g, d, {k: v for k, v in attrs.items() if k != "channels_last"})
        d = g.Transpose(d, perm=[0, 2, 3, 1]) if is_last else d
        return [as_f32(g, g.QuantizeLinear(d, *y))]
    make.__name__ = "%s_%d" % (name, len(CASES))
    return CASES[case(atol=1)(make).__name__]


for _last in (0, 1):
    pool("QLinearGlobalAveragePool", [2, 6, 7, 5], {"channels_last": _last},
         lambda g, x, attrs: g.GlobalAveragePool(x))
    pool("QLinearAveragePool", [1, 9, 8, 7], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1],
                                              "channels_last": _last},
         lambda g, x, attrs: g.AveragePool(x, **attrs))
pool("QLinearAveragePool", [1, 4, 8, 7], {"kernel_shape": [3, 2], "count_include_pad": 1, "pads": [1, 0, 1, 1]},
     lambda g, x, attrs: g.AveragePool(x, **attrs))
pool("QLinearReduceMean", [2, 6, 7, 5], {"axes": [2, 3], "keepdims": 1},
     lambda g, x, attrs: g.ReduceMean(x, **attrs))[1]["ort"] = False


def unary(name, dtype, attrs, plain):
    def make(g, is_plain):
        x, y = g.quant(dtype, [3, 41]), out_quant(g, dtype, 0.01)
        if is_plain:
            return [as_f32(g, g.QuantizeLinear(plain(g, deq(g, x)), *y))]
        return [as_f32(g, g.ms(name, *x, *y, **attrs))]
    make.__name__ = "%s_%d" % (name, len(CASES))
    return case(atol=1)(make)


unary("QLinearLeakyRelu", "u8", {"alpha": 0.2}, lambda g, x: g.LeakyRelu(x, alpha=0.2))
unary("QLinearLeakyRelu", "i8", {}, lambda g, x: g.LeakyRelu(x, alpha=0.01))
unary("QLinearSigmoid", "u8", {}, lambda g, x: g.Sigmoid(x))
unary("QLinearSoftmax", "u8", {"axis": -1, "opset": 13}, lambda g, x: g.Softmax(x, axis=-1))


@case(atol=1)
def qlinear_where(g, is_plain):
    c = g.given("c", "bool", [4, 1], [True, False, False, True])
    a, b, y = g.quant("u8", [4, 6]), g.quant("u8", [4, 6], "b", 0.02), out_quant(g)
    if is_plain:
        return [as_f32(g, g.QuantizeLinear(g.Where(c, deq(g, a), deq(g, b)), *y))]
    return [as_f32(g, g.ms("QLinearWhere", c, *a, *b, *y))]


def qgemm(trans_a, trans_b, has_y, per_column):
    def make(g, is_plain):
        a = g.quant("u8", [16, 6] if trans_a else [6, 16])
        n = 8
        b = (g.bytes_weight("i8", *([n, 16] if trans_b else [16, n])),
             g.const("f32", [n], [0.001 * (i + 1) for i in range(n)]) if per_column else g.scalar(0.004),
             g.const("i8", [n], [0] * n) if per_column else g.scalar(0, "i8"))
        c = g.const("i32", [n], [100 * i - 300 for i in range(n)])
        y = out_quant(g, "u8", 0.1)
        if not is_plain:
            made = g.ms("QGemm", *a, *b, c, *(y if has_y else ()), transA=trans_a, transB=trans_b, alpha=0.5)
            return [as_f32(g, made) if has_y else made]
        x, w = deq(g, a), g.DequantizeLinear(*b, axis=0 if trans_b else 1)
        x, w = g.Transpose(x) if trans_a else x, g.Transpose(w) if trans_b else w
        bias = g.Mul(as_f32(g, c), g.Mul(a[1], b[1]))
        made = g.Mul(g.Add(g.MatMul(x, w), bias), g.scalar(0.5))
        return [as_f32(g, g.QuantizeLinear(made, *y)) if has_y else made]
    make.__name__ = "qgemm_%d%d%d%d" % (trans_a, trans_b, has_y, per_column)
    return case(atol=1 if has_y else 1e-4)(make)


qgemm(0, 1, 1, 1)
qgemm(1, 0, 1, 0)
qgemm(0, 0, 0, 1)


@case(atol=1e-4)
def matmul_integer_to_float(g, is_plain):
    a = g.quant("u8", [2, 5, 16])
    b = (g.bytes_weight("i8", 16, 12), g.const("f32", [12], [0.001 * (i + 1) for i in range(12)]),
         g.const("i8", [12], [i - 6 for i in range(12)]))
    bias = g.weight(12)
    if is_plain:
        return [g.Add(g.MatMul(deq(g, a), g.DequantizeLinear(*b, axis=1)), bias)]
    return [g.ms("MatMulIntegerToFloat", a[0], b[0], a[1], b[1], a[2], b[2], bias)]


@case(atol=1e-4)
def dynamic_quantize_matmul(g, is_plain):
    x, b, s, bias = g.given("x", "f32", [3, 16]), g.bytes_weight("u8", 16, 12), g.scalar(0.01), g.weight(12)
    z = g.scalar(128, "u8")
    if is_plain:
        q = g.node("DynamicQuantizeLinear", [x], 3)
        return [g.Add(g.MatMul(g.DequantizeLinear(*q), g.DequantizeLinear(b, s, z)), bias)]
    return [g.ms("DynamicQuantizeMatMul", x, b, s, z, bias)]


@case(atol=2e-2)
def dynamic_quantize_lstm(g, is_plain):
    """ONNX Runtime quantises inputs and states too, hence the tolerance."""
    x = g.given("x", "f32", [5, 2, 8])
    w, r, b = g.bytes_weight("i8", 2, 8, 24), g.bytes_weight("i8", 2, 6, 24), g.weight(2, 48)
    ws, rs = g.const("f32", [2], [0.004, 0.005]), g.const("f32", [2], [0.003, 0.004])
    z = g.const("i8", [2], [0, 0])
    if not is_plain:
        return g.ms("DynamicQuantizeLSTM", x, w, r, b, "", "", "", "", ws, z, rs, z, outputs=3, hidden_size=6,
                    direction="bidirectional")
    w, r = (g.Transpose(g.DequantizeLinear(q, s, z, axis=0), perm=[0, 2, 1]) for q, s in ((w, ws), (r, rs)))
    return g.node("LSTM", [x, w, r, b], 3, hidden_size=6, direction="bidirectional")


def gelu(g, x):
    return g.Mul(g.Mul(x, g.scalar(0.5)), g.Add(g.Erf(g.Mul(x, g.scalar(0.5 ** 0.5))), g.scalar(1.0)))


def fast_gelu(g, x):
    inner = g.Add(g.Mul(g.Mul(g.Mul(x, x), x), g.scalar(0.044715)), x)
    return g.Mul(g.Mul(x, g.scalar(0.5)), g.Add(g.Tanh(g.Mul(inner, g.scalar((2 / math.pi) ** 0.5))), g.scalar(1.0)))


@case(atol=1e-5)
def gelus(g, is_plain):
    x, b = g.given("x", "f32", [3, 4, 20], scale=4.0), g.weight(20)
    if is_plain:
        s = g.Add(x, b)
        quick = [g.Mul(x, g.Sigmoid(g.Mul(x, g.scalar(a)))) for a in (1.702, 1.0)]
        return [gelu(g, x), gelu(g, s), fast_gelu(g, x), fast_gelu(g, s)] + quick
    return [g.ms("Gelu", x), g.ms("BiasGelu", x, b), g.ms("FastGelu", x), g.ms("FastGelu", x, b),
            g.ms("QuickGelu", x, alpha=1.702), g.ms("QuickGelu", x, alpha=1.0)]


@case(atol=1e-5, ort=False)
def biases(g, is_plain):
    x, b, r = g.given("x", "f32", [2, 4, 20]), g.weight(20), g.given("r", "f32", [2, 4, 20])
    if is_plain:
        s = g.Add(x, b)
        left, right = g.node("Split", [s], 2, axis=-1)
        product = g.Add(g.MatMul(x, g.weight(20, 8)), g.weight(8))
        return [g.Add(s, r), g.Mul(left, gelu(g, right)), fast_gelu(g, product)]
    return [g.ms("BiasAdd", x, b, r), g.ms("BiasSplitGelu", x, b),
            g.ms("GemmFastGelu", x, g.weight(20, 8), g.weight(8))]


@case(atol=1e-5, ort=False)
def bias_softmax(g, is_plain):
    x, b = g.given("x", "f32", [2, 3, 4, 10]), g.given("b", "f32", [2, 1, 1, 10])
    if is_plain:
        return [g.Softmax(g.Add(x, b), axis=3)]
    return [g.ms("BiasSoftmax", x, b, axis=3, is_inner_broadcast=1)]


def fused_matmul(a, b, perm_a, perm_b, attrs):
    def make(g, is_plain):
        x, y = g.given("x", "f32", a), g.given("y", "f32", b)
        if not is_plain:
            return [g.ms("FusedMatMul", x, y, **attrs)]
        product = g.MatMul(g.Transpose(x, perm=perm_a), g.Transpose(y, perm=perm_b))
        return [g.Mul(product, g.scalar(attrs.get("alpha", 1.0)))]
    make.__name__ = "fused_matmul_%d" % len(CASES)
    return case(atol=1e-5)(make)


fused_matmul([2, 3, 8, 5], [2, 3, 8, 6], [0, 1, 3, 2], [0, 1, 2, 3], {"transA": 1, "alpha": 0.125})
fused_matmul([2, 3, 5, 8], [2, 3, 6, 8], [0, 1, 2, 3], [0, 1, 3, 2], {"transB": 1, "alpha": 0.5})
fused_matmul([5, 3, 8], [3, 8, 6], [1, 0, 2], [0, 1, 2], {"transBatchA": 1})
fused_matmul([5, 3, 8], [6, 3, 8], [1, 0, 2], [1, 2, 0], {"transBatchA": 1, "transBatchB": 1, "transB": 1})
fused_matmul([8, 3, 5], [3, 8, 6], [1, 2, 0], [0, 1, 2], {"transBatchA": 1, "transA": 1})


@case(atol=1e-5)
def fused_gemm(g, is_plain):
    x, w, b = g.given("x", "f32", [4, 10]), g.weight(6, 10), g.weight(6)
    if is_plain:
        y = g.Gemm(x, w, b, transB=1, alpha=0.5)
        return [g.Relu(y), g.LeakyRelu(y, alpha=0.25)]
    return [g.ms("FusedGemm", x, w, b, transB=1, alpha=0.5, activation="Relu"),
            g.ms("FusedGemm", x, w, b, transB=1, alpha=0.5, activation="LeakyRelu", activation_alpha=0.25)]


@case(atol=1e-5)
def fused_conv(g, is_plain):
    x, w, b, z = g.given("x", "f32", [1, 4, 8, 8]), g.weight(8, 4, 3, 3), g.weight(8), g.given("z", "f32", [1, 8, 8, 8])
    if is_plain:
        y = g.Conv(x, w, b, pads=[1, 1, 1, 1])
        return [g.Relu(g.Add(y, z)), g.Clip(y, g.scalar(-0.25), g.scalar(0.5)), g.LeakyRelu(y, alpha=0.25),
                g.HardSigmoid(y, alpha=0.25, beta=0.5), g.Tanh(y), g.Sigmoid(y)]
    def conv(activation, *more, **attrs):
        return g.ms("FusedConv", x, w, b, *more, pads=[1, 1, 1, 1], activation=activation, **attrs)
    return [conv("Relu", z), conv("Clip", activation_params=[-0.25, 0.5]), conv("LeakyRelu", activation_params=[0.25]),
            conv("HardSigmoid", activation_params=[0.25, 0.5]), conv("Tanh"), conv("Sigmoid")]


@case(atol=1e-5, ort=False)
def nhwc_fused_conv(g, is_plain):
    x, w, b = g.given("x", "f32", [1, 8, 7, 4]), g.weight(8, 4, 3, 3), g.weight(8)
    if is_plain:
        y = g.Relu(g.Conv(g.Transpose(x, perm=[0, 3, 1, 2]), w, b, pads=[1, 1, 1, 1]))
        return [g.Transpose(y, perm=[0, 2, 3, 1])]
    return [g.ms("NhwcFusedConv", x, w, b, pads=[1, 1, 1, 1], activation="Relu")]


@case(atol=1)
def nhwc_max_pool(g, is_plain):
    x = g.quant("u8", [1, 8, 7, 4])[0]
    if is_plain:
        y = g.MaxPool(g.Transpose(x, perm=[0, 3, 1, 2]), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        return [as_f32(g, g.Transpose(y, perm=[0, 2, 3, 1]))]
    return [as_f32(g, g.ms("NhwcMaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))]


def layer_norm(g, x, scale, bias, epsilon):
    mean = g.ReduceMean(x, axes=[-1], keepdims=1)
    centred = g.Sub(x, mean)
    variance = g.ReduceMean(g.Mul(centred, centred), axes=[-1], keepdims=1)
    y = g.Mul(g.Div(centred, g.Sqrt(g.Add(variance, g.scalar(epsilon)))), scale)
    return g.Add(y, bias) if bias else y


def rms_norm(g, x, scale, epsilon):
    mean = g.ReduceMean(g.Mul(x, x), axes=[-1], keepdims=1)
    return g.Mul(g.Div(x, g.Sqrt(g.Add(mean, g.scalar(epsilon)))), scale)


def skip_norm(has_beta, has_bias, is_rms):
    def make(g, is_plain):
        x, r = g.given("x", "f32", [2, 5, 32]), g.given("r", "f32", [2, 5, 32])
        gamma, beta, bias = g.weight(32), g.weight(32) if has_beta else "", g.weight(32) if has_bias else ""
        if not is_plain:
            inputs = [x, r, gamma] + ([] if is_rms else [beta]) + [bias]
            while inputs[-1] == "":
                inputs.pop()
            op = "SkipSimplifiedLayerNormalization" if is_rms else "SkipLayerNormalization"
            made = g.node(op, inputs, 4, domain="com.microsoft", epsilon=1e-5)
            if has_bias:
                g.hide(made[1:3])  # or named, and nobody reads them
            return [made[0], made[3]]
        s = g.Add(x, r)
        s = g.Add(s, bias) if has_bias else s
        return [rms_norm(g, s, gamma, 1e-5) if is_rms else layer_norm(g, s, gamma, beta, 1e-5), s]
    make.__name__ = "skip_norm_%d%d%d" % (has_beta, has_bias, is_rms)
    return case(atol=1e-4)(make)


skip_norm(1, 0, 0)
skip_norm(1, 1, 0)
skip_norm(0, 0, 0)
skip_norm(0, 0, 1)
skip_norm(0, 1, 1)


@case(atol=1e-4, opset=12)
def norms_before_they_were_standard(g, is_plain):
    x, gamma, beta = g.given("x", "f32", [2, 5, 32]), g.weight(32), g.weight(32)
    if is_plain:
        return [layer_norm(g, x, gamma, beta, 1e-5), rms_norm(g, x, gamma, 1e-6)]
    return [g.LayerNormalization(x, gamma, beta, epsilon=1e-5),
            g.SimplifiedLayerNormalization(x, gamma, epsilon=1e-6, axis=-1, stash_type=1)]


def group_norm(name, last, silu, is_skip):
    def make(g, is_plain):
        x = g.given("x", "f32", [2, 3, 4, 12] if last else [2, 12, 3, 4])
        scale, bias = g.positive(12), g.weight(12)
        skip, more = (g.given("skip", "f32", [2, 3, 4, 12]), g.weight(12)) if is_skip else (None, None)
        if not is_plain:
            inputs = [x, scale, bias] + ([skip, more] if is_skip else [])
            made = g.node("SkipGroupNorm" if is_skip else "GroupNorm", inputs, outputs=2 if is_skip else 1, domain="com.microsoft",
                          groups=3, epsilon=1e-4, activation=int(silu), channels_last=int(last))
            return made if is_skip else [made]
        total = g.Add(g.Add(x, more), skip) if is_skip else x
        first = g.Transpose(total, perm=[0, 3, 1, 2]) if last else total
        rows = g.Reshape(first, g.ints(2, 3, 48))
        rest = g.Sub(rows, g.ReduceMean(rows, axes=[2]))
        deviation = g.Sqrt(g.Add(g.ReduceMean(g.Mul(rest, rest), axes=[2]), g.scalar(1e-4)))
        y = g.Reshape(g.Div(rest, deviation), g.ints(2, 12, 3, 4))
        y = g.Add(g.Mul(y, g.Reshape(scale, g.ints(12, 1, 1))), g.Reshape(bias, g.ints(12, 1, 1)))
        y = g.Mul(y, g.Sigmoid(y)) if silu else y
        return [g.Transpose(y, perm=[0, 2, 3, 1]) if last else y] + ([total] if is_skip else [])
    CASES[name] = (make, {"atol": 1e-5, "ort": False})


group_norm("group_norm_with_silu", True, True, False)
group_norm("group_norm_with_channels_first", False, False, False)
group_norm("skip_group_norm", True, False, True)


@case(atol=1e-5)
def inverses(g, is_plain):
    """A matrix times its inverse."""
    outputs = []
    for size in (1, 2, 3, 4):
        eye = [2.0 if i % (size + 1) == 0 else 0.0 for i in range(size * size)]
        one = g.const("f32", [1, size, size], [v / 2 for v in eye])
        x = g.Add(g.given("x%d" % size, "f32", [2, size, size]), g.const("f32", [size, size], eye))
        outputs.append(g.Expand(one, g.ints(2, size, size)) if is_plain else g.MatMul(x, g.ms("Inverse", x)))
    return outputs


@case(atol=1e-4)
def embed_layer_normalization(g, is_plain):
    ids = g.given("ids", "i32", [2, 6], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8])
    segments = g.given("segments", "i32", [2, 6], [0, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1])
    mask = g.given("mask", "i32", [2, 6], [1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1])
    words, places, kinds, gamma, beta = g.weight(10, 16), g.weight(8, 16), g.weight(2, 16), g.weight(16), g.weight(16)
    if is_plain:
        s = g.Add(g.Gather(words, ids), g.Slice(places, g.ints(0), g.ints(6), g.ints(0)))
        s = g.Add(s, g.Gather(kinds, segments))
        count = g.ReduceSum(mask, g.ints(1), keepdims=0)
        return [layer_norm(g, s, gamma, beta, 1e-5), as_f32(g, count), s]
    made = g.ms("EmbedLayerNormalization", ids, segments, words, places, kinds, gamma, beta, mask, outputs=3,
                epsilon=1e-5, mask_index_type=1)
    return [made[0], as_f32(g, made[1]), made[2]]


@case(atol=1e-4)
def embed_layer_normalization_with_places(g, is_plain):
    ids = g.given("ids", "i32", [2, 3], [3, 1, 4, 9, 2, 6])
    at = g.given("at", "i32", [2, 3], [2, 3, 4, 0, 1, 2])
    words, places, gamma, beta = g.weight(10, 16), g.weight(8, 16), g.weight(16), g.weight(16)
    if is_plain:
        return [layer_norm(g, g.Add(g.Gather(words, ids), g.Gather(places, at)), gamma, beta, 1e-12)]
    made = g.ms("EmbedLayerNormalization", ids, "", words, places, "", gamma, beta, "", at, outputs=2)
    g.hide(made[1:])
    return [made[0]]


@case(atol=1e-5)
def old_names(g, is_plain):
    x, k = g.given("x", "f32", [4, 5]), g.const("i64", [], [1])
    y = g.given("y", "f32", [3, 5])
    if is_plain:
        d = g.Sub(g.Unsqueeze(x, g.ints(1)), g.Unsqueeze(y, g.ints(0)))
        d = g.ReduceSum(g.Mul(d, d), g.ints(-1), keepdims=0)
        return [g.Trilu(x, k, upper=0), g.Unsqueeze(x, g.ints(1)), g.Pad(x, g.ints(1, 0, 0, 2), g.scalar(0.5)), d,
                g.Sqrt(d)]
    return [g.ms("Trilu", x, k, upper=0), g.ms("ExpandDims", x, g.scalar(1, "i32")),
            g.ms("Pad", x, g.ints(1, 0, 0, 2), g.scalar(0.5)), g.ms("CDist", x, y, metric="sqeuclidean"),
            g.ms("CDist", x, y, metric="euclidean")]


@case(atol=1e-5)
def unique_in_order(g, is_plain):
    x = g.given("x", "f32", [8], [4.0, 1.0, 4.0, 3.0, 1.0, 9.0, 3.0, 4.0])
    if is_plain:
        made = g.node("Unique", [x], 4, sorted=0)
        made = [made[0], made[2], made[3]]
    else:
        made = g.ms("Unique", x, outputs=3)
    return [made[0], as_f32(g, made[1]), as_f32(g, made[2])]


def heads(g, x, count, size):
    return g.Transpose(g.Reshape(x, g.ints(0, 0, count, size)), perm=[0, 2, 1, 3])


def attend(g, q, k, v, mask, scale, softcap=0.0):
    """[B][S][N H] of heads; k and v have as many heads as q."""
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(scale))
    if softcap:
        scores = g.Mul(g.Tanh(g.Div(scores, g.scalar(softcap))), g.scalar(softcap))
    scores = g.Add(scores, mask) if mask else scores
    y = g.MatMul(g.Softmax(scores, axis=-1), v)
    return g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.ints(0, 0, -1))


def seen(g, rows):
    """An additive mask [B][1][S][T] from a function of nested lists of booleans."""
    flat = [0.0 if item else -10000.0 for batch in rows for row in batch for item in row]
    return g.const("f32", [len(rows), 1, len(rows[0]), len(rows[0][0])], flat)


def causal(batches, length, total):
    return [[[t <= total - length + i for t in range(total)] for i in range(length)] for _ in range(batches)]


B, S, N, H, D = 2, 5, 4, 16, 64


def attention(name, mask=None, past=0, unidirectional=0, sizes=None, bias=False, quantised=False, ort=True):
    """mask: (dims, numbers, sees(b, i, t))."""
    def make(g, is_plain):
        total, widths = S + past, sizes or [D, D, D]
        x = g.quant("u8", [B, S, D], scale=0.02) if quantised else g.given("x", "f32", [B, S, D])
        if quantised:
            w = (g.bytes_weight("i8", D, sum(widths)), g.scalar(0.004), g.scalar(0, "i8"))
        else:
            w = g.weight(D, sum(widths))
        b = g.weight(sum(widths))
        m = g.given("m", "i32", mask[0], mask[1]) if mask else ""
        p = g.given("past", "f32", [2, B, N, past, H]) if past else ""
        extra = g.given("extra", "f32", [1, N, S, total]) if bias else ""
        attrs = {"num_heads": N, "unidirectional": unidirectional}
        if sizes:
            attrs["qkv_hidden_sizes"] = sizes
        if not is_plain:
            if quantised:
                made = g.ms("QAttention", x[0], w[0], b, x[1], w[1], m, x[2], w[2], p, outputs=2 if past else 1, **attrs)
            else:
                made = g.ms("Attention", x, w, b, m, p, extra, outputs=2 if past else 1, **attrs)
            return made if past else [made]
        if quantised:
            x, w = deq(g, x), deq(g, w)
        q, k, v = g.node("Split", [g.Add(g.MatMul(x, w), b), g.ints(*widths)], 3, axis=2)
        q, k, v = (heads(g, part, N, width // N) for part, width in zip((q, k, v), widths))
        if past:
            old = [g.Squeeze(part, g.ints(0)) for part in g.node("Split", [p, g.ints(1, 1)], 2, axis=0)]
            k, v = g.Concat(old[0], k, axis=2), g.Concat(old[1], v, axis=2)
        sees = mask[2] if mask else lambda b, i, t: True
        late = causal(B, S, total) if unidirectional else None
        rows = [[[sees(b, i, t) and (late is None or late[b][i][t]) for t in range(total)] for i in range(S)]
                for b in range(B)]
        added = seen(g, rows)
        added = g.Add(added, extra) if bias else added
        y = attend(g, q, k, v, added, (widths[0] // N) ** -0.5)
        present = [g.Concat(g.Unsqueeze(k, g.ints(0)), g.Unsqueeze(v, g.ints(0)), axis=0)] if past else []
        return [y] + present
    make.__name__ = "attention_" + name
    return case(atol=1e-3 if quantised else 1e-4, ort=ort)(make)


KEEP = [1, 1, 1, 0, 0, 1, 1, 1, 1, 1]
attention("plain")
attention("causal", unidirectional=1)
attention("raw_mask", ([B, S], KEEP, lambda b, i, t: KEEP[b * S + t] == 1))
attention("mask_per_query", ([B, S, S], [int((b + i + t) % 3 != 0) for b in range(B) for i in range(S) for t in range(S)],
                             lambda b, i, t: (b + i + t) % 3 != 0))
attention("lengths", ([B], [3, 5], lambda b, i, t: t < (3, 5)[b]))
attention("ends_and_starts", ([2 * B], [4, 5, 1, 2], lambda b, i, t: (1, 2)[b] <= t < (4, 5)[b]))
attention("past", past=3)
attention("past_causal_masked", ([B, S + 3], [1] * 8 + [0] + [1] * 7, lambda b, i, t: b == 0 or t > 0), past=3,
          unidirectional=1)
attention("mask_of_the_longest", ([B, 1, 12, 12], [int((i * t) % 5 != 4) for _ in range(B) for i in range(12) for t in range(12)],
                                  lambda b, i, t: ((i + 2) * t) % 5 != 4), past=2, ort=False)
attention("other_values", sizes=[D, D, 2 * D])
attention("bias", bias=True)
attention("bytes", ([B, S], KEEP, lambda b, i, t: KEEP[b * S + t] == 1), quantised=True)
attention("bytes_past", past=3, unidirectional=1, quantised=True)


def multi_head(name, form="apart", mask=None, past=0, length=7, has_bias=False, extra=False, unidirectional=0, ort=True):
    def make(g, is_plain):
        total = past + (S if form == "packed" else length)
        if form == "packed":
            inputs = [g.given("x", "f32", [B, S, N, 3, H]), "", ""]
        elif form == "pairs":
            inputs = [g.given("x", "f32", [B, S, D]), g.given("kv", "f32", [B, length, N, 2, H]), ""]
        elif form == "heads":
            inputs = [g.given("x", "f32", [B, S, D])] + [g.given(n, "f32", [B, N, length, H]) for n in "kv"]
        else:
            inputs = [g.given("x", "f32", [B, S, D])] + [g.given(n, "f32", [B, length, D]) for n in "kv"]
        bias = g.weight(3 * D) if has_bias else ""
        m = g.given("m", "i32", mask[0], mask[1]) if mask else ""
        more = g.given("extra", "f32", [1, 1, S, total]) if extra else ""
        old = [g.given(n, "f32", [B, N, past, H]) for n in ("pk", "pv")] if past else ["", ""]
        if not is_plain:
            made = g.ms("MultiHeadAttention", *inputs, bias, m, more, *old, outputs=3 if past else 1, num_heads=N,
                        unidirectional=unidirectional)
            return made if past else [made]
        if form in ("packed", "pairs"):
            parts = g.node("Split", [inputs[0 if form == "packed" else 1]], 3 if form == "packed" else 2, axis=3)
            parts = [g.Transpose(g.Squeeze(part, g.ints(3)), perm=[0, 2, 1, 3]) for part in parts]
            q, k, v = parts if form == "packed" else [heads(g, inputs[0], N, H)] + parts
        else:
            biases = g.node("Split", [bias], 3, axis=0) if has_bias else None
            parts = [g.Add(x, b) for x, b in zip(inputs, biases)] if has_bias else inputs
            q = heads(g, parts[0], N, H)
            k, v = inputs[1:] if form == "heads" else (heads(g, part, N, H) for part in parts[1:])
        if past:
            k, v = g.Concat(old[0], k, axis=2), g.Concat(old[1], v, axis=2)
        late = causal(B, S, total)
        sees = mask[2] if mask else lambda b, i, t: True
        rows = [[[sees(b, i, t) and (not unidirectional or late[b][i][t]) for t in range(total)] for i in range(S)]
                for b in range(B)]
        added = seen(g, rows)
        y = attend(g, q, k, v, g.Add(added, more) if extra else added, H ** -0.5)
        return [y, k, v] if past else [y]
    make.__name__ = "multi_head_attention_" + name
    return case(atol=1e-4, ort=ort)(make)


multi_head("cross")
multi_head("cross_biased", has_bias=True)
multi_head("packed", "packed", ort=False)
multi_head("pairs", "pairs", ort=False)
multi_head("heads", "heads")
multi_head("masked", mask=([B, 7], [1] * 5 + [0] * 2 + [1] * 7, lambda b, i, t: b == 1 or t < 5))
multi_head("mask_per_query", mask=([B, S, 7], [int((b + i + t) % 3 != 0) for b in range(B) for i in range(S) for t in range(7)],
                                   lambda b, i, t: (b + i + t) % 3 != 0))
multi_head("past", past=4, length=S, extra=True)
multi_head("past_causal", past=4, length=S, unidirectional=1)


def rotate(g, x, cosine, sine, half, interleaved, size=H):
    """x [B][N][S][H]; cosine and sine broadcast to [B][N][S][half]."""
    turning, rest = (x, None) if 2 * half == size else g.node("Split", [x, g.ints(2 * half, size - 2 * half)], 2, axis=3)
    if interleaved:
        first = g.Slice(turning, g.ints(0), g.ints(2 * half), g.ints(3), g.ints(2))
        second = g.Slice(turning, g.ints(1), g.ints(2 * half), g.ints(3), g.ints(2))
    else:
        first, second = g.node("Split", [turning], 2, axis=3)
    a = g.Sub(g.Mul(first, cosine), g.Mul(second, sine))
    b = g.Add(g.Mul(second, cosine), g.Mul(first, sine))
    if interleaved:
        y = g.Reshape(g.Concat(g.Unsqueeze(a, g.ints(4)), g.Unsqueeze(b, g.ints(4)), axis=4), g.ints(0, 0, 0, 2 * half))
    else:
        y = g.Concat(a, b, axis=3)
    return g.Concat(y, rest, axis=3) if rest else y


def tables(g, half, places=16):
    angles = [p * 10.0 ** (-2.0 * i / half) for p in range(places) for i in range(half)]
    return tuple(g.const("f32", [places, half], [turn(a) for a in angles]) for turn in (math.cos, math.sin))


def rotary(name, rank, positions, half, interleaved, **attrs):
    def make(g, is_plain):
        x = g.given("x", "f32", [B, S, D] if rank == 3 else [B, N, S, H])
        at = g.given("at", "i64", *positions)
        cosine, sine = tables(g, half)
        if not is_plain:
            return [g.ms("RotaryEmbedding", x, at, cosine, sine, interleaved=interleaved, **attrs)]
        if len(positions[0]) == 1:
            at = g.Add(at, g.ints(*range(S)))
        cosine, sine = (g.Gather(table, at) for table in (cosine, sine))
        if len(positions[0]) == 2:
            cosine, sine = (g.Unsqueeze(table, g.ints(1)) for table in (cosine, sine))
        y = rotate(g, heads(g, x, N, H) if rank == 3 else x, cosine, sine, half, interleaved)
        return [g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.ints(0, 0, -1)) if rank == 3 else y]
    make.__name__ = "rotary_embedding_" + name
    return case(atol=1e-4)(make)


PLACES = ([B, S], [3, 4, 5, 6, 7, 0, 1, 2, 3, 4])
rotary("halves", 3, PLACES, 8, 0)
rotary("pairs", 3, PLACES, 8, 1)
rotary("offset", 4, ([1], [6]), 8, 0)
rotary("part", 3, PLACES, 4, 0, rotary_embedding_dim=8, num_heads=N)
rotary("part_of_pairs", 3, PLACES, 4, 1, rotary_embedding_dim=8, num_heads=N)


def group_query(name, batch=1, length=1, past=0, room=None, lengths=None, packed=False, rotary_half=0, interleaved=0,
                window=-1, softcap=0.0, bias=False, places=False, seqlens=None):
    """lengths: how much of the past each sequence has; room: of the cache, where it is larger than the past."""
    groups = 2

    def make(g, is_plain):
        total = past + length
        old = room or past
        pasts = lengths or [past] * batch
        if packed:
            x = g.given("x", "f32", [batch, length, (N + 2 * groups) * H])
            inputs = [x, "", ""]
        else:
            inputs = [g.given("x", "f32", [batch, length, N * H])]
            inputs += [g.given(n, "f32", [batch, length, groups * H]) for n in "kv"]
        caches = [g.given(n, "f32", [batch, groups, old, H]) for n in ("pk", "pv")] if old else ["", ""]
        counts = g.given("counts", "i32", [batch], [p + length - 1 for p in pasts])
        cosine, sine = tables(g, rotary_half) if rotary_half else ("", "")
        at = [p + i for p in pasts for i in range(length)]
        given_at = g.given("at", "i64", [batch, length], at) if places else ""
        extra = g.given("extra", "f32", [1, 1, length, total]) if bias else ""
        if not is_plain:
            attrs = {"num_heads": N, "kv_num_heads": groups, "do_rotary": int(rotary_half > 0),
                     "rotary_interleaved": interleaved, "local_window_size": window}
            if softcap:
                attrs["softcap"] = softcap
            return g.ms("GroupQueryAttention", *inputs, *caches, counts, g.scalar(total, "i32"), cosine, sine, given_at,
                        extra, outputs=3, **attrs)
        if packed:
            inputs = g.node("Split", [x, g.ints(N * H, groups * H, groups * H)], 3, axis=2)
        q, k, v = heads(g, inputs[0], N, H), heads(g, inputs[1], groups, H), heads(g, inputs[2], groups, H)
        if rotary_half:
            index = g.const("i64", [batch, 1, length], at)
            cosine, sine = g.Gather(cosine, index), g.Gather(sine, index)
            q, k = (rotate(g, part, cosine, sine, rotary_half, interleaved) for part in (q, k))
        full = max(total, old)
        rows = []
        for part, cache in ((k, caches[0]), (v, caches[1])):
            each = []
            for b in range(batch):
                new = g.Slice(part, g.ints(b), g.ints(b + 1), g.ints(0))
                if pasts[b]:
                    before = g.Slice(cache, g.ints(b, 0), g.ints(b + 1, pasts[b]), g.ints(0, 2))
                    new = g.Concat(before, new, axis=2)
                each.append(g.Pad(new, g.ints(0, 0, 0, 0, 0, 0, full - pasts[b] - length, 0)))
            rows.append(g.Concat(*each, axis=0) if batch > 1 else each[0])
        sees = [[[t <= p + i and (window <= 0 or t > p + i - window) for t in range(full)] for i in range(length)]
                for p in pasts]
        mask = seen(g, sees)
        if bias:
            mask = g.Add(mask, g.Pad(extra, g.ints(0, 0, 0, 0, 0, 0, 0, full - total)))
        wide = [g.Reshape(g.Expand(g.Unsqueeze(part, g.ints(2)), g.ints(batch, groups, N // groups, full, H)),
                          g.ints(batch, N, full, H)) for part in rows]
        return [attend(g, q, wide[0], wide[1], mask, H ** -0.5, softcap)] + rows
    make.__name__ = "group_query_attention_" + name
    return case(atol=1e-4)(make)


group_query("prompt", length=6)
group_query("prompt_of_two", batch=2, length=6, rotary_half=8)
group_query("step", past=5, rotary_half=8)
group_query("step_packed", past=5, packed=True, rotary_half=8, interleaved=1)
group_query("step_with_room", past=5, room=9, rotary_half=8)
group_query("steps", past=5, length=3, rotary_half=8, places=True)
group_query("step_of_two_lengths", batch=2, past=5, lengths=[3, 5], rotary_half=8)
group_query("step_of_two_lengths_with_room", batch=2, past=5, room=9, lengths=[5, 2])
group_query("window", length=9, window=4)
group_query("window_step", past=7, window=4)
group_query("window_of_two_lengths", batch=2, past=7, lengths=[7, 5], window=4)
group_query("softcap", length=6, softcap=2.0)
group_query("bias", past=4, length=2, bias=True)


def nbits(name, bits=4, size=32, k=64, n=48, zeros=None, flat=False, bias=False, exact=True, tiny=1.0):
    """zeros: None, "bytes" or "floats"; exact: scales that 16 bits hold."""
    def make(g, is_plain):
        x = g.given("x", "f32", [2, 3, k])
        blocks = (k + size - 1) // size
        top = (1 << bits) - 1
        numbers = Numbers(5)
        q = [[int((numbers.next() + 1) / 2 * (top + 0.999)) for _ in range(blocks * size)] for _ in range(n)]
        scales = [[(1 + int(9 * abs(numbers.next()))) / 64.0 * (tiny if exact else 1.0009) for _ in range(blocks)]
                  for _ in range(n)]
        middle = 1 << (bits - 1)
        points = [[middle if zeros is None else max(0, min(top, middle + (i + b) % 3 - 1)) for b in range(blocks)]
                  for i in range(n)]
        b = g.weight(n) if bias else ""
        if is_plain:
            w = [(q[i][j] - points[i][j // size]) * scales[i][j // size] for i in range(n) for j in range(k)]
            y = g.MatMul(x, g.Transpose(g.const("f32", [n, k], w)))
            return [g.Add(y, b) if bias else y]
        def pack(row):
            per = 8 // bits
            row = row + [0] * (-len(row) % per)
            return [sum(v << (bits * j) for j, v in enumerate(row[i:i + per])) for i in range(0, len(row), per)]
        data = [byte for row in q for byte in pack(row)]
        inputs = [x, g.const("u8", [n, blocks, size * bits // 8], data),
                  g.const("f32", [n * blocks] if flat else [n, blocks], [v for row in scales for v in row])]
        if zeros == "bytes":
            packed = [byte for row in points for byte in pack(row)]
            inputs.append(g.const("u8", [len(packed)] if flat else [n, len(packed) // n], packed))
        elif zeros == "floats":
            inputs.append(g.const("f32", [n, blocks], [float(v) for row in points for v in row]))
        if bias:
            inputs += [""] * (5 - len(inputs)) + [b]
        return [g.ms("MatMulNBits", *inputs, K=k, N=n, bits=bits, block_size=size)]
    make.__name__ = "matmul_nbits_" + name
    return case(atol=1e-3 * tiny if exact else 5e-3, rtol=1e-4 if exact else 1e-3)(make)


nbits("symmetric")
nbits("long_blocks", size=128, k=256, flat=True)
nbits("short_blocks", size=16)
nbits("zero_points", zeros="bytes")
nbits("zero_points_of_three", zeros="bytes", k=96, flat=True)
nbits("zero_points_as_floats", zeros="floats")
nbits("bias", bias=True, k=128, size=64)
nbits("last_block_cut", k=80)
nbits("eight_bits", bits=8)
nbits("eight_bits_with_zero_points", bits=8, zeros="bytes")
nbits("large_enough_for_a_file", k=256, n=640)
nbits("scales_of_more_digits", exact=False)
nbits("tiny_scales", tiny=1e-6)
nbits("two_bits", bits=2)


def build(make, options, is_plain):
    g = Case()
    outputs = make(g, is_plain)
    for name in outputs:
        g.output(name, dims=None)
    return g, outputs, g.model(options.get("opset", 17))


def run(rlx, folder, name, g, outputs, options):
    path = os.path.join(folder, name + ".onnx")
    command = [rlx, "run", path, "-q", "--output-dir", folder] + options
    for port, dtype, dims, values in g.data:
        file = os.path.join(folder, "in-%s.npy" % port)
        onnx_cases.write_npy(file, DTYPES[dtype], dims, values)
        command += ["--input", "%s=%s" % (port, file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stdout + done.stderr, None
    return None, [onnx_cases.read_npy(os.path.join(folder, output + ".npy")) for output in outputs]


def run_ort(runner, library, folder, name, g, outputs):
    case_file = os.path.join(folder, name + ".txt")
    lines = ["model " + os.path.join(folder, name + ".onnx")]
    for port, dtype, dims, values in g.data:
        raw = os.path.join(folder, "in-%s.raw" % port)
        with open(raw, "wb") as file:
            file.write(array.array(onnx_cases.CODES[DTYPES[dtype]][1], values).tobytes())
        lines.append("in %s %s %s %s" % (port, DTYPES[dtype], ",".join(map(str, dims)) or "-", raw))
    with open(case_file, "w", encoding="utf-8") as file:
        file.write("\n".join(lines + ["out " + output for output in outputs]) + "\n")
    out = os.path.join(folder, "ort.raw")
    done = subprocess.run([runner, "ort", case_file, "1", "--level", "basic", "--library", library],
                          input="write %s\n" % out, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not os.path.exists(out):
        return done.stdout + done.stderr, None
    with open(out, "rb") as file:
        found = array.array("f", file.read())
    os.remove(out)
    return None, found


def differs(got, wanted, atol, rtol):
    if len(got) != len(wanted):
        return "%d numbers instead of %d" % (len(got), len(wanted))
    for i, (a, b) in enumerate(zip(got, wanted)):
        if not abs(a - b) <= atol + rtol * abs(b):
            worst = max(abs(x - y) for x, y in zip(got, wanted))
            return "[%d] is %g instead of %g; at most %g off" % (i, a, b, worst)
    return None


def check(rlx, ort, folder, name):
    make, options = CASES[name]
    found = []
    for is_plain in (False, True):
        g, outputs, model = build(make, options, is_plain)
        part = name + ("-plain" if is_plain else "")
        with open(os.path.join(folder, part + ".onnx"), "wb") as file:
            file.write(model)
        more = ["--device", "cpu:scalar", "--disable", "all"] if is_plain else []
        problem, values = run(rlx, folder, part, g, outputs, more)
        if problem:
            return "%s: %s" % (part, problem)
        found.append([item for value in values for item in value])
        if ort and not is_plain and options.get("ort", True):
            problem, theirs = run_ort(*ort, folder, part, g, outputs)
            problem = problem or differs(found[0], theirs, options["atol"], options.get("rtol", 1e-4))
            if problem:
                return "ONNX Runtime: " + problem
    return differs(found[0], found[1], options["atol"], options.get("rtol", 1e-4))


def main():
    rlx, rest, ort = os.path.abspath(sys.argv[1]), sys.argv[2:], None
    if rest[:1] == ["--ort"]:
        ort, rest = rest[1:3], rest[3:]
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in rest or CASES:
            problem = check(rlx, ort, folder, name)
            failed += problem is not None
            if problem is not None:
                print("%s: %s" % (name, problem.strip()))
    print("%d graphs, %d failed" % (len(rest or CASES), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
