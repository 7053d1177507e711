#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models as ONNX Runtime's own tools write them, with random weights, for bench.py --model:

    contrib.py FOLDER     writes FOLDER/{int8_blocks,bert_fused,bert_int8,decoder_4bit}.onnx

int8_blocks: residual blocks of QLinearConv and QLinearAdd. bert_fused: Attention, SkipLayerNormalization, BiasGelu.
bert_int8: the same after dynamic quantisation (QAttention, DynamicQuantizeMatMul). decoder_4bit: one token
(GroupQueryAttention with a cache of 256, MatMulNBits, SkipSimplifiedLayerNormalization).
"""
import array
import math
import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests", "import", "onnx"))
from graphs import Graph, TYPES, field  # noqa: E402


class Model(Graph):
    """A graph whose weights are made fast."""

    def __init__(self):
        super().__init__()
        self.random = random.Random(1)

    def raw(self, dtype, dims, data):
        name = self.name() + "_w"
        head = b"".join(field(1, dim) for dim in dims) + field(2, TYPES[dtype][0])
        self.initializers.append(head + field(8, name) + field(9, data))
        return name

    def floats(self, *dims, scale=None):
        scale = scale or 1 / math.sqrt(dims[0])
        numbers = array.array("B", self.random.randbytes(math.prod(dims)))
        return self.raw("f32", dims, array.array("f", ((v - 127.5) / 127.5 * scale for v in numbers)).tobytes())

    def signed(self, *dims):
        """Bytes in -31 .. 32: sums of products stay below 16 bits in pairs."""
        data = self.random.randbytes(math.prod(dims)).translate(bytes((v // 4 - 31) & 255 for v in range(256)))
        return self.raw("i8", dims, data)

    def ones(self, count):
        return self.const("f32", [count], [1.0] * count)

    def zeros(self, count):
        return self.const("f32", [count], [0.0] * count)


def int8_blocks():
    g = Model()
    scale, zero, none = g.scalar(0.02), g.scalar(128, "u8"), g.scalar(0, "i8")

    def conv(x, channels, out, size, stride=1):
        w = g.signed(out, channels, size, size)
        step = g.const("f32", [out], [0.9 / (math.sqrt(channels * size * size) * 18)] * out)
        bias = g.const("i32", [out], [0] * out)
        return g.QLinearConv(x, scale, zero, w, step, g.const("i8", [out], [0] * out), scale, zero, bias,
                             pads=[size // 2] * 4, strides=[stride] * 2)

    x = g.QuantizeLinear(g.input("x", "f32", [1, 3, 224, 224]), scale, zero)
    x = g.MaxPool(conv(x, 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for inner, blocks, stride in ((64, 2, 1), (128, 2, 2), (256, 2, 2)):
        for block in range(blocks):
            step = stride if block == 0 else 1
            y = conv(conv(conv(x, channels, inner, 1), inner, inner, 3, step), inner, 4 * inner, 1)
            x = conv(x, channels, 4 * inner, 1, step) if block == 0 else x
            channels = 4 * inner
            x = g.ms("QLinearAdd", y, scale, zero, x, scale, zero, scale, zero)
    x = g.ms("QLinearGlobalAveragePool", x, scale, zero, scale, zero, channels_last=0)
    x = g.Flatten(x)
    bias = g.const("i32", [1000], [0] * 1000)
    x = g.ms("QGemm", x, scale, zero, g.signed(1000, channels), g.scalar(0.002), none, bias, scale, zero, transB=1)
    g.output(g.DequantizeLinear(x, scale, zero), dims=[1, 1000])
    return g


def bert(layers=4, width=384, heads=12, inner=1536, length=128, is_int8=False):
    g = Model()
    x = g.input("x", "f32", [1, length, width])
    mask = g.input("mask", "i32", [1, length])

    def product(value, rows, columns):
        if not is_int8:
            return g.MatMul(value, g.floats(rows, columns))
        return g.ms("DynamicQuantizeMatMul", value, g.signed(rows, columns), g.scalar(0.05 / math.sqrt(rows)),
                    g.scalar(0, "i8"))

    for _ in range(layers):
        bias = g.floats(3 * width)
        if is_int8:
            q, s, z = g.node("DynamicQuantizeLinear", [x], 3)
            a = g.ms("QAttention", q, g.signed(width, 3 * width), bias, s, g.scalar(0.05 / math.sqrt(width)), mask, z,
                     g.scalar(0, "i8"), num_heads=heads)
        else:
            a = g.ms("Attention", x, g.floats(width, 3 * width), bias, mask, num_heads=heads)
        x = g.ms("SkipLayerNormalization", product(a, width, width), x, g.ones(width), g.zeros(width), g.floats(width),
                 epsilon=1e-12)
        h = g.ms("BiasGelu", product(x, width, inner), g.floats(inner))
        x = g.ms("SkipLayerNormalization", product(h, inner, width), x, g.ones(width), g.zeros(width), g.floats(width),
                 epsilon=1e-12)
    g.output(x, dims=[1, length, width])
    return g


def decoder(layers=4, width=1024, heads=16, groups=4, inner=2816, past=256, words=8192):
    g = Model()
    size = width // heads
    angles = [p * 10000.0 ** (-2.0 * i / size) for p in range(1024) for i in range(size // 2)]
    tables = [g.raw("f32", [1024, size // 2], array.array("f", map(turn, angles)).tobytes()) for turn in (math.cos, math.sin)]
    counts, total = g.const("i32", [1], [past]), g.scalar(past + 1, "i32")

    def product(value, k, n):
        blocks = k // 32
        data = g.raw("u8", [n, blocks, 16], g.random.randbytes(n * blocks * 16))
        scales = g.raw("f32", [n * blocks], array.array("f", [0.2 / math.sqrt(k)] * (n * blocks)).tobytes())
        return g.ms("MatMulNBits", value, data, scales, K=k, N=n, bits=4, block_size=32, accuracy_level=4)

    x = g.input("x", "f32", [1, 1, width])
    h = g.SimplifiedLayerNormalization(x, g.ones(width), epsilon=1e-6, axis=-1, stash_type=1)
    for layer in range(layers):
        caches = [g.input("past_%d_%s" % (layer, n), "f32", [1, groups, past, size]) for n in "kv"]
        q, k, v = product(h, width, width), product(h, width, groups * size), product(h, width, groups * size)
        a, *present = g.ms("GroupQueryAttention", q, k, v, *caches, counts, total, *tables, outputs=3, num_heads=heads,
                           kv_num_heads=groups, do_rotary=1)
        for item in present:
            g.output(item, dims=[1, groups, past + 1, size])
        made = g.node("SkipSimplifiedLayerNormalization", [x, product(a, width, width), g.ones(width)], 4,
                      domain="com.microsoft", epsilon=1e-6)
        h, x = made[0], made[3]
        gate, up = product(h, width, inner), product(h, width, inner)
        down = product(g.Mul(g.Mul(gate, g.Sigmoid(gate)), up), inner, width)
        made = g.node("SkipSimplifiedLayerNormalization", [x, down, g.ones(width)], 4, domain="com.microsoft", epsilon=1e-6)
        h, x = made[0], made[3]
    g.output(product(h, width, words), dims=[1, 1, words])
    return g


def main():
    models = {"int8_blocks": int8_blocks, "bert_fused": bert, "bert_int8": lambda: bert(is_int8=True),
              "decoder_4bit": decoder}
    for name, make in models.items():
        with open(os.path.join(sys.argv[1], name + ".onnx"), "wb") as file:
            file.write(make().model())


if __name__ == "__main__":
    sys.exit(main())
