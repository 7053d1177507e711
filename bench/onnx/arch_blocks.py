# SPDX-License-Identifier: Apache-2.0
"""What networks are made of: an ONNX graph with random weights and the layers that exporters write again and again.

Knows nothing of whole networks (arch_vision.py, arch_sequence.py, arch_mixed.py) or of who runs them (architectures.py).
"""
import math
import struct

from contrib import Model

NETWORKS = {}
END = 2 ** 31


def network(input=(), bind=(), loose=None):
    """Registers the function that builds a network. `input` and `bind` are options of bench.py; `loose`: how far outputs
    may be apart where values are rounded to few bits on the way (root mean square over that of the outputs)."""
    def keep(build):
        NETWORKS[build.__name__] = {"build": build, "input": list(input), "bind": list(bind), "loose": loose}
        return build
    return keep


class Network(Model):
    """Layers, activations and the usual moves. Weights have the type `dtype` and are so scaled that values stay near 1."""

    def __init__(self, opset=17):
        super().__init__()
        self.opset, self.dtype = opset, "f32"

    def result(self, *values):
        for value in values:
            self.output(value, dims=None)

    def weight(self, *dims, scale=None, mean=0.0):
        """Random numbers around `mean`; `scale` is their standard deviation."""
        if scale is None:
            scale = math.sqrt(2.0 / max(1, math.prod(dims[1:])))
        code = {"f32": "<f", "f16": "<e"}[self.dtype]
        table = [struct.pack(code, mean + scale * (byte - 127.5) / 73.9) for byte in range(256)]
        data = b"".join(map(table.__getitem__, self.random.randbytes(math.prod(dims))))
        return self.raw(self.dtype, dims, data)

    def bias(self, *dims):
        return self.weight(*dims, scale=0.1)

    def gain(self, *dims):
        return self.weight(*dims, scale=0.1, mean=1.0)

    def number(self, value):
        return self.const(self.dtype, [], [value])

    # Moves

    def reshape(self, x, *dims):
        return self.Reshape(x, self.ints(*dims))

    def turn(self, x, *perm):
        return self.Transpose(x, perm=list(perm))

    def part(self, x, start, end, axis, step=1):
        return self.Slice(x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step))

    def corners(self, x, first, second):
        """Every second row and column of two axes: the four ways to start."""
        return [self.Slice(x, self.ints(i, j), self.ints(END, END), self.ints(first, second), self.ints(2, 2))
                for j in (0, 1) for i in (0, 1)]

    def split(self, x, sizes, axis):
        return self.node("Split", [x, self.ints(*sizes)], outputs=len(sizes), axis=axis)

    def join(self, *values, axis=1):
        return self.Concat(*values, axis=axis)

    def size_of(self, x, axis):
        """A size as exporters ask for it: a scalar at run time."""
        return self.Gather(self.Shape(x), self.scalar(axis, "i64"), axis=0)

    def sizes(self, *items):
        """A shape of numbers and of scalars of the graph."""
        parts = [self.ints(item) if isinstance(item, int) else self.Unsqueeze(item, self.ints(0)) for item in items]
        return self.join(*parts, axis=0)

    # Layers

    def product(self, x, inputs, outputs, is_biased=True):
        y = self.MatMul(x, self.weight(inputs, outputs, scale=1 / math.sqrt(inputs)))
        return self.Add(y, self.bias(outputs)) if is_biased else y

    def linear(self, x, inputs, outputs):
        return self.Gemm(x, self.weight(outputs, inputs), self.bias(outputs), transB=1)

    def conv(self, x, inputs, outputs, size=1, stride=1, axes=2, groups=1, dilation=1, pads=None, is_biased=True):
        sizes = size if isinstance(size, list) else [size] * axes
        strides = stride if isinstance(stride, list) else [stride] * len(sizes)
        if pads is None:
            pads = [dilation * (one - 1) // 2 for one in sizes] * 2
        values = [x, self.weight(outputs, inputs // groups, *sizes)] + ([self.bias(outputs)] if is_biased else [])
        return self.node("Conv", values, kernel_shape=sizes, strides=strides, pads=pads, group=groups,
                         dilations=[dilation] * len(sizes))

    def patches(self, x, inputs, outputs, size):
        """A convolution whose windows lie side by side."""
        return self.conv(x, inputs, outputs, size, size, pads=[0] * 4)

    def conv_transposed(self, x, inputs, outputs, size, stride, is_biased=True, **attrs):
        values = [x, self.weight(inputs, outputs, *size, scale=1 / math.sqrt(inputs * math.prod(size) / math.prod(stride)))]
        values += [self.bias(outputs)] if is_biased else []
        return self.node("ConvTranspose", values, kernel_shape=size, strides=stride, **attrs)

    def batch_norm(self, x, channels):
        return self.BatchNormalization(x, self.gain(channels), self.bias(channels), self.bias(channels), self.ones(channels))

    def conv_bn(self, x, inputs, outputs, *args, **options):
        return self.batch_norm(self.conv(x, inputs, outputs, *args, is_biased=False, **options), outputs)

    def max_pool(self, x, size, stride, pad=0):
        return self.MaxPool(x, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[pad] * 4)

    def twice(self, x):
        """Nearest neighbours, as feature pyramids are joined."""
        return self.Resize(x, "", self.const("f32", [4], [1, 1, 2, 2]), mode="nearest", nearest_mode="floor",
                           coordinate_transformation_mode="asymmetric")

    def resize_to(self, x, *dims, **attrs):
        return self.Resize(x, "", "", self.ints(*dims), **attrs)

    def classify(self, x, channels, classes):
        self.result(self.linear(self.Flatten(self.GlobalAveragePool(x)), channels, classes))

    # Activations

    def silu(self, x):
        return self.Mul(x, self.Sigmoid(x))

    def quick_gelu(self, x):
        return self.Mul(x, self.Sigmoid(self.Mul(x, self.number(1.702))))

    def gelu(self, x):
        inner = self.Add(self.Erf(self.Div(x, self.scalar(math.sqrt(2)))), self.scalar(1.0))
        return self.Mul(self.Mul(x, inner), self.scalar(0.5))

    def gelu_tanh(self, x):
        cube = self.Mul(self.Pow(x, self.scalar(3.0)), self.scalar(0.044715))
        inner = self.Tanh(self.Mul(self.Add(x, cube), self.scalar(math.sqrt(2 / math.pi))))
        return self.Mul(self.Mul(x, self.Add(inner, self.scalar(1.0))), self.scalar(0.5))

    def relu6(self, x):
        return self.Clip(x, self.scalar(0.0), self.scalar(6.0))

    # Norms

    def norm(self, x, width):
        return self.LayerNormalization(x, self.gain(width), self.bias(width), axis=-1, epsilon=1e-5)

    def norm_in_pieces(self, x, width):
        """As opsets before 17 have to write it."""
        rest = self.Sub(x, self.ReduceMean(x, axes=[-1], keepdims=1))
        square = self.ReduceMean(self.Pow(rest, self.scalar(2.0)), axes=[-1], keepdims=1)
        y = self.Div(rest, self.Sqrt(self.Add(square, self.scalar(1e-5))))
        return self.Add(self.Mul(y, self.gain(width)), self.bias(width))

    def rms_norm(self, x, width):
        square = self.ReduceMean(self.Pow(x, self.scalar(2.0)), axes=[-1], keepdims=1)
        y = self.Mul(x, self.Reciprocal(self.Sqrt(self.Add(square, self.scalar(1e-6)))))
        return self.Mul(self.gain(width), y)

    # Attention

    def heads(self, x, length, count, size):
        return self.turn(self.reshape(x, 1, length, count, size), 0, 2, 1, 3)

    def unite(self, x, length, width):
        return self.reshape(self.turn(x, 0, 2, 1, 3), 1, length, width)

    def weighted(self, scores, values):
        return self.MatMul(self.Softmax(scores, axis=-1), values)

    def attention(self, x, length, width, heads, mask=None, scaling="query"):
        """Self-attention with its four products. `scaling`: what is scaled, the query, both sides or the scores."""
        size = width // heads
        q, k, v = (self.heads(self.product(x, width, width), length, heads, size) for _ in range(3))
        k = self.turn(k, 0, 1, 3, 2)
        if scaling == "query":
            scores = self.MatMul(self.Mul(q, self.scalar(size ** -0.5)), k)
        elif scaling == "both":
            root = self.scalar(size ** -0.25)
            scores = self.MatMul(self.Mul(q, root), self.Mul(k, root))
        else:
            scores = self.Div(self.MatMul(q, k), self.scalar(math.sqrt(size)))
        if mask:
            scores = self.Add(scores, mask)
        return self.product(self.unite(self.weighted(scores, v), length, width), width, width)

    def packed_heads(self, x, dims, perm, width):
        """Query, key and value of one product, taken apart by Gather."""
        packed = self.turn(self.reshape(self.product(x, width, 3 * width), *dims), *perm)
        return [self.Gather(packed, self.scalar(i, "i64"), axis=0) for i in range(3)]

    def feed(self, x, width, inner, activation):
        return self.product(activation(self.product(x, width, inner)), inner, width)

    def causal(self, rows, columns, low):
        """A mask: row i sees columns up to i and whatever came before the first row."""
        past = columns - rows
        return self.const("f32", [1, 1, rows, columns],
                          [0.0 if j <= i + past else low for i in range(rows) for j in range(columns)])


def image(g, channels, height, width):
    return g.input("x", "f32", [1, channels, height, width])
