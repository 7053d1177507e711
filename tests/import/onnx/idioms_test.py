#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs as exporters write them: the idiom is recognised (the plan has the steps it should have) and the result is
that of the same graph without any pass on scalar C (`rlx diff`).

usage: idioms_test.py RLX [NAME..]
"""
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "..", "scripts")]
from graphs import Graph  # noqa: E402
import onnx_cases  # noqa: E402

CASES = {}


def case(**wanted):
    """`op=n`: the plan of main has n steps of that op; `steps=n`: so many at most."""
    def add(make):
        CASES[make.__name__] = (make, wanted)
        return make
    return add


def layer_norm_pieces(g, x, width, power=True, divide=True):
    mean = g.ReduceMean(x, axes=[-1], keepdims=1)
    centered = g.Sub(x, mean)
    square = g.Pow(centered, g.scalar(2.0)) if power else g.Mul(centered, centered)
    variance = g.ReduceMean(square, axes=[-1], keepdims=1)
    deviation = g.Sqrt(g.Add(variance, g.scalar(1e-5)))
    normal = g.Div(centered, deviation) if divide else g.Mul(centered, g.Reciprocal(deviation))
    return g.Add(g.Mul(normal, g.weight(width)), g.weight(width))


@case(layer_norm=1, steps=2)
def layer_norm_by_pow():
    g = Graph()
    g.output(layer_norm_pieces(g, g.input("x", "f32", [2, 5, 32]), 32), dims=[2, 5, 32])
    return g


@case(layer_norm=1, steps=2)
def layer_norm_by_mul_and_reciprocal():
    g = Graph()
    g.output(layer_norm_pieces(g, g.input("x", "f32", [2, 5, 32]), 32, False, False), dims=[2, 5, 32])
    return g


@case(layer_norm=1, steps=2)
def layer_norm_behind_casts_of_the_same_type():
    g = Graph()
    x = g.Cast(g.input("x", "f32", [2, 5, 32]), to=1)
    g.output(g.Cast(layer_norm_pieces(g, x, 32), to=1), dims=[2, 5, 32])
    return g


@case(layer_norm=1, steps=1)
def layer_norm_as_tensorflow_writes_it():
    """x r + (bias - mean r), r the scale over the deviation: the formula of its batch norm."""
    g = Graph()
    x = g.input("x", "f32", [2, 5, 32])
    mean = g.ReduceMean(x, axes=[-1], keepdims=1)
    centered = g.Sub(x, mean)
    variance = g.ReduceMean(g.Mul(centered, centered), axes=[-1], keepdims=1)
    r = g.Mul(g.Reciprocal(g.Sqrt(g.Add(variance, g.scalar(1e-5)))), g.weight(32))
    g.output(g.Add(g.Mul(x, r), g.Sub(g.weight(32), g.Mul(mean, r))), dims=[2, 5, 32])
    return g


@case(softmax=1, steps=1)
def softmax_in_pieces():
    g = Graph()
    x = g.input("x", "f32", [4, 32])
    e = g.Exp(g.Sub(x, g.ReduceMax(x, axes=[-1], keepdims=1)))
    g.output(g.Div(e, g.ReduceSum(e, g.ints(-1), keepdims=1)), dims=[4, 32])
    return g


@case(softmax=0)
def softmax_along_two_axes_stays():
    g = Graph()
    x = g.input("x", "f32", [4, 32])
    e = g.Exp(g.Sub(x, g.ReduceMax(x, axes=[0], keepdims=1)))
    g.output(g.Div(e, g.ReduceSum(e, g.ints(-1), keepdims=1)), dims=[4, 32])
    return g


@case(rms_norm=1, steps=2)
def rms_norm_as_llama_writes_it():
    g = Graph()
    x = g.input("x", "f32", [1, 7, 64])
    mean = g.ReduceMean(g.Pow(x, g.scalar(2.0)), axes=[-1], keepdims=1)
    normal = g.Mul(x, g.Div(g.scalar(1.0), g.Sqrt(g.Add(mean, g.scalar(1e-6)))))
    g.output(g.Mul(g.weight(64), normal), dims=[1, 7, 64])
    return g


@case(layer_norm=1, matmul=1, steps=4)
def residual_joins_the_norm():
    g = Graph()
    x = g.input("x", "f32", [4, 64])
    y = g.Add(g.Add(g.MatMul(x, g.weight(64, 64)), g.weight(64)), x)
    g.output(layer_norm_pieces(g, y, 64), dims=[4, 64])
    return g


@case(matmul=1, steps=1)
def gelu_by_erf_joins_the_product():
    g = Graph()
    x = g.Add(g.MatMul(g.input("x", "f32", [4, 32]), g.weight(32, 48)), g.weight(48))
    half = g.Mul(x, g.scalar(0.5))
    g.output(g.Mul(half, g.Add(g.Erf(g.Div(x, g.scalar(2.0 ** 0.5))), g.scalar(1.0))), dims=[4, 48])
    return g


@case(matmul=1, steps=1)
def gelu_by_erf_with_the_half_last():
    g = Graph()
    x = g.Add(g.MatMul(g.input("x", "f32", [4, 32]), g.weight(32, 48)), g.weight(48))
    erf = g.Add(g.Erf(g.Mul(x, g.scalar(0.5 ** 0.5))), g.scalar(1.0))
    g.output(g.Mul(g.Mul(x, erf), g.scalar(0.5)), dims=[4, 48])
    return g


@case(matmul=1, steps=1)
def gelu_by_tanh_joins_the_product():
    g = Graph()
    x = g.Add(g.MatMul(g.input("x", "f32", [4, 32]), g.weight(32, 48)), g.weight(48))
    cube = g.Mul(g.Pow(x, g.scalar(3.0)), g.scalar(0.044715))
    inner = g.Mul(g.Add(x, cube), g.scalar((2 / 3.14159265358979) ** 0.5))
    g.output(g.Mul(g.Mul(x, g.scalar(0.5)), g.Add(g.Tanh(inner), g.scalar(1.0))), dims=[4, 48])
    return g


@case(conv=1)
def silu_joins_the_conv():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 3, 3), g.weight(16), pads=[1, 1, 1, 1])
    g.output(g.Mul(y, g.Sigmoid(y)), dims=[1, 16, 10, 10])
    return g


@case(conv=1, chain=0)
def hard_swish_spelled_out_joins_the_conv():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 1, 1), g.weight(16))
    clipped = g.Clip(g.Add(y, g.scalar(3.0)), g.scalar(0.0), g.scalar(6.0))
    g.output(g.Div(g.Mul(y, clipped), g.scalar(6.0)), dims=[1, 16, 10, 10])
    return g


@case(conv=1, chain=0)
def hard_swish_by_hard_sigmoid_joins_the_conv():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 1, 1), g.weight(16))
    g.output(g.Mul(y, g.HardSigmoid(y, alpha=1 / 6.0, beta=0.5)), dims=[1, 16, 10, 10])
    return g


def batch_norm(g, x, channels):
    return g.BatchNormalization(x, g.positive(channels), g.weight(channels), g.weight(channels), g.positive(channels))


@case(conv=1, batch_norm=0, chain=0)
def batch_norm_behind_a_conv():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 3, 3), pads=[1, 1, 1, 1])
    g.output(g.Relu(batch_norm(g, y, 16)), dims=[1, 16, 10, 10])
    return g


@case(conv=1, batch_norm=0, chain=0)
def batch_norm_behind_a_bias_of_its_own():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 3, 3), pads=[1, 1, 1, 1])
    y = g.Add(y, g.weight(1, 16, 1, 1))
    g.output(g.Relu(batch_norm(g, y, 16)), dims=[1, 16, 10, 10])
    return g


@case(conv=1, batch_norm=0, chain=0)
def batch_norm_as_a_mul_and_an_add():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 3, 3), g.weight(16), pads=[1, 1, 1, 1])
    g.output(g.Relu(g.Add(g.Mul(y, g.weight(1, 16, 1, 1)), g.weight(16, 1, 1))), dims=[1, 16, 10, 10])
    return g


@case(conv=2, batch_norm=0)
def batch_norm_before_the_conv():
    g = Graph()
    y = g.Conv(g.input("x", "f32", [1, 8, 10, 10]), g.weight(16, 8, 1, 1))
    y = g.Conv(g.Relu(batch_norm(g, y, 16)), g.weight(16, 16, 3, 3), pads=[1, 1, 1, 1])
    g.output(y, dims=[1, 16, 10, 10])
    return g


def heads(g, x, count, width, rows=6):
    y = g.Add(g.MatMul(x, g.weight(64, count * width)), g.weight(count * width))
    return g.Transpose(g.Reshape(y, g.ints(1, rows, count, width)), perm=[0, 2, 1, 3])


def finish(g, scores, v):
    y = g.Transpose(g.MatMul(g.Softmax(scores, axis=-1), v), perm=[0, 2, 1, 3])
    g.output(g.Reshape(y, g.ints(1, 6, 64)), dims=[1, 6, 64])
    return g


@case(attention=1, softmax=0)
def attention_with_an_additive_mask():
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "f32", [1, 1, 6, 6])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    scores = g.Div(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(4.0))
    return finish(g, g.Add(scores, mask), v)


@case(attention=1, softmax=0)
def attention_with_a_mask_of_ints():
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "i64", [1, 6])
    m = g.Cast(g.Unsqueeze(g.Unsqueeze(mask, g.ints(1)), g.ints(2)), to=1)
    m = g.Mul(g.Sub(g.scalar(1.0), m), g.scalar(-10000.0))
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(0.25))
    return finish(g, g.Add(scores, m), v)


@case(attention=1, softmax=0)
def attention_with_a_where_mask():
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "bool", [1, 1, 6, 6])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(0.25))
    return finish(g, g.Where(mask, scores, g.scalar(-1e9)), v)


@case(attention=1, softmax=0)
def attention_with_both_sides_scaled():
    """Torch's scaled_dot_product_attention: the square root of the scale on q and on k."""
    g = Graph()
    x = g.input("x", "f32", [1, 6, 64])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    root = g.scalar(0.5)
    return finish(g, g.MatMul(g.Mul(q, root), g.Mul(g.Transpose(k, perm=[0, 1, 3, 2]), root)), v)


@case(attention=1, softmax=0)
def attention_with_two_masks_added():
    """T5: a bias per head from a table, and the mask of the caller."""
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "f32", [1, 1, 1, 6])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    scores = g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2]))
    return finish(g, g.Add(g.Add(scores, g.weight(1, 4, 6, 6)), mask), v)


@case(attention=1, softmax=0)
def attention_with_a_chosen_and_an_added_mask():
    """GPT-2: the triangle chooses, the mask of the caller is added."""
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "f32", [1, 1, 1, 6])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    seen = g.const("bool", [1, 1, 6, 6], [column <= row for row in range(6) for column in range(6)])
    scores = g.Div(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(4.0))
    return finish(g, g.Add(g.Where(seen, scores, g.scalar(-3.4e38)), mask), v)


@case(attention=0, softmax=1)
def attention_whose_low_number_swallows_nothing_stays():
    """In a row that both masks hide the scores still count: not the same as adding -10000."""
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "f32", [1, 1, 1, 6])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    seen = g.const("bool", [1, 1, 6, 6], [column <= row for row in range(6) for column in range(6)])
    scores = g.Div(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(4.0))
    return finish(g, g.Add(g.Where(seen, scores, g.scalar(-1e4)), mask), v)


@case(attention=1, softmax=0)
def attention_with_zeros_for_rows_that_see_nothing():
    """Torch since 2.5: where(isnan(softmax), 0, softmax); row 2 is hidden as a whole."""
    g = Graph()
    x = g.input("x", "f32", [1, 6, 64])
    hidden = g.const("f32", [1, 1, 6, 6], [-math.inf if row == 2 else 0.0 for row in range(6) for _ in range(6)])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(0.25))
    weights = g.Softmax(g.Add(scores, hidden), axis=-1)
    weights = g.Where(g.IsNaN(weights), g.scalar(0.0), weights)
    y = g.Transpose(g.MatMul(weights, v), perm=[0, 2, 1, 3])
    g.output(g.Reshape(y, g.ints(1, 6, 64)), dims=[1, 6, 64])
    return g


@case(attention=1, softmax=0)
def attention_with_heads_in_the_batch():
    """BART, OPT, Whisper: three dims, and four for the mask alone."""
    g = Graph()
    x, mask = g.input("x", "f32", [2, 6, 64]), g.input("mask", "f32", [2, 1, 6, 6])
    q, k, v = (g.Reshape(g.Transpose(g.Reshape(g.MatMul(x, g.weight(64, 64)), g.ints(2, 6, 4, 16)),
                                     perm=[0, 2, 1, 3]), g.ints(8, 6, 16)) for _ in range(3))
    scores = g.MatMul(g.Mul(q, g.scalar(0.25)), g.Transpose(k, perm=[0, 2, 1]))
    scores = g.Reshape(g.Add(g.Reshape(scores, g.ints(2, 4, 6, 6)), mask), g.ints(8, 6, 6))
    y = g.Reshape(g.MatMul(g.Softmax(scores, axis=-1), v), g.ints(2, 4, 6, 16))
    g.output(g.Reshape(g.Transpose(y, perm=[0, 2, 1, 3]), g.ints(2, 6, 64)), dims=[2, 6, 64])
    return g


@case(attention=1, softmax=0)
def attention_by_einsum():
    g = Graph()
    x, mask = g.input("x", "f32", [2, 6, 64]), g.input("mask", "f32", [2, 1, 1, 6])
    q, k, v = (g.Reshape(g.MatMul(x, g.weight(64, 64)), g.ints(2, 6, 4, 16)) for _ in range(3))
    scores = g.Mul(g.Einsum(q, k, equation="bqhd,bkhd->bhqk"), g.scalar(0.25))
    y = g.Einsum(g.Softmax(g.Add(scores, mask), axis=-1), v, equation="bhqk,bkhd->bqhd")
    g.output(g.Reshape(y, g.ints(2, 6, 64)), dims=[2, 6, 64])
    return g


@case(attention=1, softmax=0)
def attention_with_a_softcap():
    """Gemma 2: 50 tanh(scores / 50) before the mask."""
    g = Graph()
    x, mask = g.input("x", "f32", [1, 6, 64]), g.input("mask", "f32", [1, 1, 6, 6])
    q, k, v = (heads(g, x, 4, 16) for _ in range(3))
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(0.25))
    capped = g.Mul(g.Tanh(g.Div(scores, g.scalar(50.0))), g.scalar(50.0))
    return finish(g, g.Add(capped, mask), v)


@case(attention=1, softmax=0)
def attention_of_groups_repeated_by_expand():
    g = Graph()
    x = g.input("x", "f32", [1, 6, 64])
    q = heads(g, x, 4, 16)
    pair = []
    for _ in range(2):
        few = g.Unsqueeze(heads(g, x, 2, 16), g.ints(2))
        pair.append(g.Reshape(g.Expand(few, g.ints(1, 2, 2, 6, 16)), g.ints(1, 4, 6, 16)))
    scores = g.Mul(g.MatMul(q, g.Transpose(pair[0], perm=[0, 1, 3, 2])), g.scalar(0.25))
    return finish(g, scores, pair[1])


@case(attention=1, softmax=0)
def attention_with_past_keys_and_values():
    g = Graph()
    x = g.input("x", "f32", [1, 1, 64])
    past = [g.input(name, "f32", [1, 4, 5, 16]) for name in ("past_k", "past_v")]
    q, k, v = (heads(g, x, 4, 16, 1) for _ in range(3))
    k, v = (g.Concat(old, new, axis=2) for old, new in zip(past, (k, v)))
    scores = g.Mul(g.MatMul(q, g.Transpose(k, perm=[0, 1, 3, 2])), g.scalar(0.25))
    y = g.Transpose(g.MatMul(g.Softmax(scores, axis=-1), v), perm=[0, 2, 1, 3])
    g.output(g.Reshape(y, g.ints(1, 1, 64)), dims=[1, 1, 64])
    g.output(k, dims=[1, 4, 6, 16])
    g.output(v, dims=[1, 4, 6, 16])
    return g


def quantised(g, x, scale, zero, dtype="u8", axis=None):
    attrs = {} if axis is None else {"axis": axis}
    return g.DequantizeLinear(x, scale, zero, **attrs)


def requantise(g, x, scale, zero):
    s, z = g.scalar(scale), g.scalar(zero, "u8")
    return g.DequantizeLinear(g.QuantizeLinear(x, s, z), s, z)


@case(conv_quantised=1, conv=0)
def conv_between_quantise_and_dequantise_per_channel():
    g = Graph()
    x = requantise(g, g.input("x", "f32", [1, 8, 10, 10]), 0.02, 128)
    weights = [int(v * 127) for v in g.numbers.floats(16 * 8 * 9)]
    w = g.DequantizeLinear(g.const("i8", [16, 8, 3, 3], weights), g.positive(16),
                           g.const("i8", [16], [0] * 16), axis=0)
    y = g.Relu(g.Conv(x, w, g.weight(16), pads=[1, 1, 1, 1]))
    g.output(requantise(g, y, 0.3, 0), dims=[1, 16, 10, 10])
    return g


def byte_weights(g, dtype, *dims):
    count = 1
    for dim in dims:
        count *= dim
    middle = 128 if dtype == "u8" else 0
    return g.const(dtype, list(dims), [middle + int(v * 127) for v in g.numbers.floats(count)])


def dequantised_conv(g, x, dims, **attrs):
    w = g.DequantizeLinear(byte_weights(g, "u8", *dims), g.scalar(0.015625), g.scalar(128, "u8"))
    bias = g.DequantizeLinear(g.const("i32", [dims[0]], range(dims[0])), g.scalar(0.015625 * 0.03125))
    return g.Conv(x, w, bias, **attrs)


@case(conv_quantised=3, conv=0, steps=8)
def inverted_residual_in_bytes():
    """Expand, depthwise, project and the sum with the block's input, as MobileNets are exported with QDQ; relu6 by Clip."""
    g = Graph()

    def relu6(x):
        return g.Clip(x, g.scalar(0.0), g.scalar(6.0))
    x = requantise(g, g.input("x", "f32", [1, 16, 9, 9]), 0.03125, 120)
    y = requantise(g, relu6(dequantised_conv(g, x, [32, 16, 1, 1])), 0.03125, 0)
    y = requantise(g, relu6(dequantised_conv(g, y, [32, 1, 3, 3], group=32, pads=[1, 1, 1, 1])), 0.03125, 0)
    z = requantise(g, dequantised_conv(g, y, [16, 32, 1, 1]), 0.0625, 130)
    g.output(requantise(g, g.Add(x, z), 0.0625, 100), dims=[1, 16, 9, 9])
    return g


@case(conv_quantised=1, conv=0)
def qlinear_conv_with_zero_points():
    g = Graph()
    s, z = g.scalar(0.0625), g.scalar(100, "u8")
    x = g.QuantizeLinear(g.input("x", "f32", [1, 8, 7, 7]), s, z)
    w = byte_weights(g, "u8", 12, 8, 3, 3)
    bias = g.const("i32", [12], [i * 100 for i in range(12)])
    y = g.QLinearConv(x, s, z, w, g.scalar(0.125), g.scalar(128, "u8"), g.scalar(16.0), g.scalar(90, "u8"), bias,
                      strides=[2, 2], pads=[1, 1, 1, 1])
    g.output(g.DequantizeLinear(y, g.scalar(16.0), g.scalar(90, "u8")), dims=[1, 12, 4, 4])
    return g


@case(conv_quantised=1, conv=0)
def conv_quantised_while_it_runs():
    g = Graph()
    q, scale, zero = g.node("DynamicQuantizeLinear", [g.input("x", "f32", [1, 8, 7, 7])], 3)
    y = g.ConvInteger(q, byte_weights(g, "i8", 12, 8, 3, 3), zero, pads=[1, 1, 1, 1])
    g.output(g.Mul(g.Cast(y, to=1), g.Mul(scale, g.scalar(0.01))), dims=[1, 12, 7, 7])
    return g


@case(matmul_quantised=2, matmul=0, reduce_sum=0, steps=8)
def qlinear_products_with_scales_per_column():
    """Zero points of weights are written per column, all of them 0: rows need no sums."""
    g = Graph()
    x, s, z = g.input("x", "f32", [3, 32]), g.scalar(0.0625), g.scalar(100, "u8")
    y = g.QuantizeLinear(x, s, z)
    for inputs, outputs in ((32, 48), (48, 16)):
        y = g.QLinearMatMul(y, s, z, byte_weights(g, "i8", inputs, outputs), g.positive(outputs),
                            g.const("i8", [outputs], [0] * outputs), g.scalar(40.0), g.scalar(90, "u8"))
    g.output(g.DequantizeLinear(y, g.scalar(40.0), g.scalar(90, "u8")), dims=[3, 16])
    return g


@case(matmul_quantised=1, matmul=0)
def product_quantised_while_it_runs():
    """What onnxruntime's dynamic quantisation writes."""
    g = Graph()
    q, scale, zero = g.node("DynamicQuantizeLinear", [g.input("x", "f32", [5, 64])], 3)
    weights = g.const("i8", [64, 32], [int(v * 127) for v in g.numbers.floats(64 * 32)])
    y = g.MatMulInteger(q, weights, zero, g.scalar(0, "i8"))
    g.output(g.Add(g.Mul(g.Cast(y, to=1), g.Mul(scale, g.scalar(0.01))), g.weight(32)), dims=[5, 32])
    return g


@case(nms=1)
def detector_that_ends_in_nms():
    """Boxes and scores by convs, then NonMaxSuppression and a gather of what it took."""
    g = Graph()
    x = g.input("x", "f32", [1, 8, 6, 6])
    boxes = g.Transpose(g.Reshape(g.Conv(x, g.weight(4, 8, 1, 1)), g.ints(1, 4, 36)), perm=[0, 2, 1])
    scores = g.Sigmoid(g.Reshape(g.Conv(x, g.weight(3, 8, 1, 1)), g.ints(1, 3, 36)))
    chosen = g.NonMaxSuppression(boxes, scores, g.ints(10), g.const("f32", [1], [0.5]), g.const("f32", [1], [0.4]))
    rows = g.Squeeze(g.Slice(chosen, g.ints(2), g.ints(3), g.ints(1)), g.ints(1))
    g.output(chosen, "i64", ["n", 3])
    g.output(g.Gather(g.Squeeze(boxes, g.ints(0)), rows, axis=0), dims=["n", 4])
    return g


@case()
def top_k_then_gather():
    """How detectors without NMS choose their boxes."""
    g = Graph()
    scores, boxes = g.input("scores", "f32", [1, 100]), g.input("boxes", "f32", [1, 100, 4])
    _, places = g.node("TopK", [scores, g.ints(10)], 2)
    index = g.Expand(g.Unsqueeze(places, g.ints(2)), g.ints(1, 10, 4))
    g.output(g.GatherElements(boxes, index, axis=1), dims=[1, 10, 4])
    return g


@case()
def if_with_captured_values():
    g = Graph()
    x, go = g.input("x", "f32", [4, 8]), g.input("go", "bool", [])
    w = g.weight(8, 8)
    branches = []
    for op in ("Relu", "Tanh"):
        b = Graph()
        b.count = 1000 * (len(branches) + 1)
        y = b.node("MatMul", [x, w])
        b.output(b.node(op, [y]), dims=[4, 8])
        branches.append(b)
    g.output(g.If(go, then_branch=branches[0], else_branch=branches[1]), dims=[4, 8])
    return g


@case()
def if_whose_branches_use_the_names_of_its_results():
    """Merged decoders: a branch's own name hides one outside, that of the If itself included."""
    g = Graph()
    x, go = g.input("x", "f32", [4, 8]), g.input("go", "bool", [])
    branches = []
    for op in ("Relu", "Tanh"):
        b = Graph()
        b.count = g.count
        y = b.node(op, [x])
        b.output(b.Add(y, x), dims=[4, 8])
        b.output(y, dims=[4, 8])
        branches.append(b)
    sums, parts = g.node("If", [go], 2, then_branch=branches[0], else_branch=branches[1])
    g.output(g.Mul(sums, parts), dims=[4, 8])
    return g


@case(**{"if": 0, "steps": 1})
def if_with_a_branch_for_other_shapes():
    """The branch that is not taken cannot be built: 64 numbers do not make rows of 24."""
    g = Graph()
    x, rate = g.input("x", "f32", [4, 16]), g.input("rate", "i64", [])
    branches = []
    for width, op in ((8, "Relu"), (24, "Tanh")):
        b = Graph()
        b.count = 1000 * (len(branches) + 1)
        b.output(b.node(op, [b.Reshape(x, b.ints(1, -1, width))]), dims=None)
        branches.append(b)
    g.output(g.If(g.Equal(rate, g.scalar(16000, "i64")), then_branch=branches[0], else_branch=branches[1]), dims=None)
    return g


@case(matmul=2, steps=32)
def bytes_quantised_as_they_come():
    """Zero points of activations are known in a run, those of weights are not 0: products stay products of bytes."""
    g = Graph()
    x = g.input("x", "f32", [7, 40])
    for depth, width in ((40, 48), (48, 20)):
        y, scale, zero = g.node("DynamicQuantizeLinear", [x], 3)
        values = [int((v + 1) * 127) for v in g.numbers.floats(depth * width)]
        weight, middle = g.const("u8", [depth, width], values), g.const("u8", [], [113])
        x = g.Mul(g.Cast(g.MatMulInteger(y, weight, zero, middle), to=1), g.Mul(scale, g.scalar(0.01)))
    g.output(x, dims=[7, 20])
    return g


@case(loop=0)
def loop_with_captured_values():
    g = Graph()
    x = g.input("x", "f32", [4, 8])
    b = Graph()
    b.count = 1000
    b.input("i", "i64", [])
    b.input("go", "bool", [])
    b.input("state", "f32", [4, 8])
    b.output(b.Identity("go"), "bool", [])
    y = b.output(b.Tanh(b.Add("state", x)), dims=[4, 8])
    b.output(b.Mul(y, b.scalar(2.0)), dims=[4, 8])
    last, all_ = g.node("Loop", [g.scalar(3, "i64"), "", x], 2, body=b)
    g.output(last, dims=[4, 8])
    g.output(all_, dims=[3, 4, 8])
    return g


@case(steps=1)
def shape_arithmetic_is_gone():
    g = Graph()
    x = g.input("x", "f32", ["b", "s", 64])
    shape = g.Shape(x)
    b, s = (g.Gather(shape, g.scalar(i, "i64"), axis=0) for i in (0, 1))
    dims = [g.Unsqueeze(v, g.ints(0)) for v in (b, s)]
    y = g.Reshape(x, g.Concat(dims[0], dims[1], g.ints(4), g.ints(16), axis=0))
    half = g.Cast(g.Floor(g.Div(g.Cast(s, to=1), g.scalar(2.0))), to=7)
    y = g.Slice(y, g.ints(0), g.Unsqueeze(half, g.ints(0)), g.ints(1))
    g.output(g.Relu(y), dims=["b", "h", 4, 16])
    return g


BINDINGS = {"shape_arithmetic_is_gone": ["--bind", "b=2", "--bind", "s=6"],
            "if_with_a_branch_for_other_shapes": ["--given", "rate=rate.npy"]}


def count_steps(text):
    """{op: steps} of the entry, prepare steps aside."""
    counts = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 2 and words[1] == "x" and words[0].isdigit():
            counts[words[2]] = counts.get(words[2], 0) + int(words[0])
    return counts


def check(rlx, path, name, wanted):
    options = BINDINGS.get(name, [])
    folder = os.path.dirname(path)
    done = subprocess.run([rlx, "plan", path] + options, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode != 0:
        return done.stderr
    counts = count_steps(done.stdout)
    for op, number in wanted.items():
        found = sum(v for k, v in counts.items() if k != "pack") if op == "steps" else counts.get(op, 0)
        if found > number if op == "steps" else found != number:
            return "%d steps of %s instead of %d: %s" % (found, op, number, counts)
    done = subprocess.run([rlx, "diff", path, "--ref", "cpu:scalar", "--device", "cpu", "--rtol", "1e-3"] + options,
                          capture_output=True, text=True, check=False, cwd=folder)
    return None if done.returncode == 0 else "differs: " + done.stdout + done.stderr


def main():
    rlx, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CASES)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        onnx_cases.write_npy(os.path.join(folder, "rate.npy"), "int64", [], [16000])
        for name in names:
            make, wanted = CASES[name]
            path = os.path.join(folder, name + ".onnx")
            with open(path, "wb") as file:
                file.write(make().model())
            problem = check(rlx, path, name, wanted)
            failed += problem is not None
            if problem is not None:
                print("%s: %s" % (name, problem.strip()))
    print("%d graphs, %d failed" % (len(names), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
