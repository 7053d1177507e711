#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the cases of matmul, conv, pools, reductions, norms, attention and rope:
CASES/<family>/<case>/{model.rlx,in_N.npy,out_N.npy}.

Expected values come from plain loops in double precision, by the definitions in ops.def; nothing is
shared with the library. Seeded: the same files on every machine.
usage: gen_nn.py [CASES]   (default: cases beside this file)
"""
import itertools
import math
import os
import random
import struct
import sys

NPY = {"f64": ("<f8", "d"), "f32": ("<f4", "f"), "f16": ("<f2", "e"), "i64": ("<i8", "q"),
       "i32": ("<i4", "i"), "i16": ("<i2", "h"), "i8": ("|i1", "b"), "u8": ("|u1", "B")}
RANDOM = random.Random(7)


def product(numbers):
    return math.prod(numbers)


def rounded(dtype, value):
    if dtype[0] != "f":
        return int(value)
    try:
        return struct.unpack("<" + NPY[dtype][1], struct.pack("<" + NPY[dtype][1], value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


class Array:
    """Row-major numbers with a shape."""

    def __init__(self, dtype, shape, values):
        self.dtype, self.shape = dtype, tuple(shape)
        self.values = [rounded(dtype, v) for v in values]
        assert len(self.values) == product(self.shape), (len(self.values), self.shape)

    def index(self, place):
        at = 0
        for dim, i in zip(self.shape, place):
            at = at * dim + i
        return at

    def __getitem__(self, place):
        return self.values[self.index(place)]

    def near(self, place):
        """Numpy broadcasting: the element for a place of a larger shape."""
        tail = place[len(place) - len(self.shape):]
        return self[[0 if dim == 1 else i for dim, i in zip(self.shape, tail)]]

    def type(self):
        return "%s[%s]" % (self.dtype, ", ".join(str(dim) for dim in self.shape))

    def npy(self):
        descr, code = NPY[self.dtype]
        shape = "(%s)" % "".join("%d, " % dim for dim in self.shape).rstrip()
        header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
        header += " " * (-(len(header) + 11) % 64) + "\n"
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        return start + struct.pack("<%d%s" % (len(self.values), code), *self.values)


def places(shape):
    return itertools.product(*(range(dim) for dim in shape))


def made(dtype, shape, function):
    return Array(dtype, shape, [function(p) for p in places(shape)])


def filled(dtype, *shape, low=-1.0, high=1.0):
    if dtype[0] != "f":
        low, high = (0, 200) if dtype[0] == "u" else (-100, 100)
    return Array(dtype, shape, [RANDOM.uniform(low, high) for _ in range(product(shape))])


def word(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(word(item) for item in value)
    return repr(value) if isinstance(value, float) else str(value)


class Cases:
    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def write(self, family, name, op, inputs, attrs, outputs, params=()):
        """inputs: Array, None (absent) or a string (a parameter's name). outputs: Array, or None (not wanted). params: (name, type,
        bytes) of weights that no .npy can hold."""
        folder = os.path.join(self.folder, family, name)
        os.makedirs(folder, exist_ok=True)
        arrays = [x for x in inputs if isinstance(x, Array)]
        lines = ["rlx 1"]
        lines += ["input x%d : %s" % (i, x.type()) for i, x in enumerate(arrays)]
        for label, text, data in params:
            lines.append('param %s : %s = file("%s.bin", 0)' % (label, text, label))
            self.save(folder, label + ".bin", data)
        number = itertools.count()
        args = ["_" if x is None else x if isinstance(x, str) else "x%d" % next(number)
                for x in inputs]
        results = ["_" if y is None else "y%d" % i for i, y in enumerate(outputs)]
        outputs = [y for y in outputs if y is not None]
        line = "%s = %s(%s)" % (", ".join(results), op, ", ".join(args))
        line += "".join(" %s=%s" % (key, word(value)) for key, value in attrs.items())
        lines += [line] + ["output %s" % name for name in results if name != "_"]
        self.save(folder, "model.rlx", ("\n".join(lines) + "\n").encode())
        for i, array in enumerate(arrays):
            self.save(folder, "in_%d.npy" % i, array.npy())
        for i, array in enumerate(outputs):
            self.save(folder, "out_%d.npy" % i, array.npy())
        self.count += 1

    @staticmethod
    def save(folder, name, data):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)


def activation(name, x, alpha=0.0, beta=0.0):
    return {None: lambda: x,
            "relu": lambda: max(x, 0.0),
            "gelu": lambda: 0.5 * x * math.erfc(-x / math.sqrt(2)),
            "silu": lambda: x / (1 + math.exp(-x)),
            "tanh": lambda: math.tanh(x),
            "leaky_relu": lambda: x if x >= 0 else alpha * x,
            "clip": lambda: min(max(x, alpha), beta)}[name]()


def wrapped(dtype, value):
    bits = {"i8": 8, "i32": 32, "i64": 64}[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


# Matmul.

def matmul(a, b, ta=False, tb=False):
    """A function from an output place [batch.., i, j] to the sum, and the output's shape."""
    m, k = a.shape[-2:][::-1] if ta else a.shape[-2:]
    n = b.shape[-2] if tb else b.shape[-1]
    batches = [max(pair) for pair in itertools.zip_longest(
        a.shape[:-2][::-1], b.shape[:-2][::-1], fillvalue=1)][::-1]

    def at(x, batch, row, column, swap):
        tail = batch[len(batch) - (len(x.shape) - 2):]
        front = [0 if dim == 1 else i for dim, i in zip(x.shape, tail)]
        return x[front + ([column, row] if swap else [row, column])]

    def dot(place):
        batch, i, j = place[:-2], place[-2], place[-1]
        return sum(at(a, batch, i, t, ta) * at(b, batch, t, j, tb) for t in range(k))
    return dot, batches + [m, n]


def matmul_cases(cases):
    def case(name, a, b, bias=None, residual=None, to=None, **attrs):
        dot, shape = matmul(a, b, attrs.get("transpose_a", False), attrs.get("transpose_b", False))
        dtype = to or a.dtype
        if to:
            attrs.update(to=to)

        def value(place):
            sum_ = dot(place) * attrs.get("alpha", 1)
            sum_ += bias.near(place) if bias else 0
            sum_ += residual.near(place) if residual else 0
            if dtype[0] != "f":
                return wrapped(dtype, sum_)
            return activation(attrs.get("activation"), sum_, attrs.get("activation_alpha", 0.0),
                              attrs.get("activation_beta", 0.0))
        inputs = [a, b, bias, residual]
        while inputs[-1] is None:
            inputs.pop()
        cases.write("matmul", name, "matmul", inputs, attrs, [made(dtype, shape, value)])

    f = filled
    case("odd_sizes", f("f32", 5, 37), f("f32", 37, 41))
    case("deep", f("f32", 3, 300), f("f32", 300, 5))
    case("one_row_transposed_weights", f("f32", 1, 64), f("f32", 70, 64), transpose_b=True)
    case("both_transposed", f("f32", 9, 4), f("f32", 6, 9), transpose_a=True, transpose_b=True)
    case("batches_broadcast", f("f32", 2, 1, 3, 4), f("f32", 3, 4, 5))
    case("one_matrix_for_all", f("f32", 3, 2, 4, 5), f("f32", 5, 6))
    case("nothing_to_sum", f("f32", 2, 0), f("f32", 0, 3))
    case("no_rows", f("f32", 0, 4), f("f32", 4, 3))
    case("f64", f("f64", 4, 9), f("f64", 9, 7))
    case("f16", f("f16", 7, 33), f("f16", 33, 9))
    case("f16_weights", f("f32", 3, 40), f("f16", 34, 40), transpose_b=True)
    case("i8_to_i32", f("i8", 5, 40), f("i8", 40, 6), to="i32")
    case("u8_and_i8_to_i32", f("u8", 4, 33), f("i8", 7, 33), to="i32", transpose_b=True)
    case("i64", f("i64", 3, 4), f("i64", 4, 5))
    case("i32_wraps", Array("i32", [1, 2], [2**31 - 1, 2**30]), Array("i32", [2, 1], [3, 4]))
    case("bias_of_columns", f("f32", 5, 8), f("f32", 8, 33), bias=f("f32", 33))
    case("bias_of_rows", f("f32", 5, 8), f("f32", 8, 3), bias=f("f32", 5, 1))
    case("bias_of_one", f("f32", 5, 8), f("f32", 8, 3), bias=f("f32", 1), alpha=0.5)
    case("residual_alone", f("f32", 4, 8), f("f32", 8, 5), residual=f("f32", 4, 5))
    for name, alpha, beta in (("relu", 0, 0), ("gelu", 0, 0), ("silu", 0, 0), ("tanh", 0, 0),
                              ("leaky_relu", 0.1, 0), ("clip", -0.5, 0.75)):
        more = dict(activation_alpha=alpha, activation_beta=beta) if alpha else {}
        case("all_and_" + name, f("f32", 2, 3, 20), f("f32", 20, 6), f("f32", 6),
             f("f32", 2, 3, 6), alpha=0.75, activation=name, **more)
    block_cases(cases)


def tile_cases(cases):
    """Products of more than one tile of 32 x 32 of a GPU, and rows of 128-bit words."""
    def case(name, a, b, bias=None, **attrs):
        dot, shape = matmul(a, b, False, attrs.get("transpose_b", False))
        inputs = [a, b] if bias is None else [a, b, bias]

        def value(place):
            return activation(attrs.get("activation"), dot(place) + (bias.near(place) if bias else 0))
        cases.write("matmul", name, "matmul", inputs, attrs, [made(a.dtype, shape, value)])
    f = filled
    case("tiles", f("f32", 45, 50), f("f32", 50, 67))
    case("tiles_f16", f("f16", 33, 40), f("f16", 40, 35))
    case("tiles_transposed_bias", f("f32", 40, 33), f("f32", 39, 33), bias=f("f32", 39), transpose_b=True, activation="relu")
    case("tiles_in_batches", f("f32", 2, 1, 20, 36), f("f32", 3, 36, 34))
    case("fours", f("f32", 11, 36), f("f32", 36, 68), bias=f("f32", 68))
    case("fours_transposed", f("f32", 6, 48), f("f32", 72, 48), transpose_b=True)
    case("fours_in_batches", f("f32", 3, 5, 16), f("f32", 3, 16, 24))
    case("fours_of_a_row", f("f32", 1, 64), f("f32", 64, 40), activation="gelu")


# Weights in blocks, as GGML lays them out: made from random bytes, read by the definitions.

def half(data, at):
    return struct.unpack_from("<e", data, at)[0]


def q8_0(block):
    return [half(block, 0) * v for v in struct.unpack_from("<32b", block, 2)]


def q4_0(block):
    low = [(byte & 15) - 8 for byte in block[2:]]
    high = [(byte >> 4) - 8 for byte in block[2:]]
    return [half(block, 0) * v for v in low + high]


def q4_k(block):
    d, least, packed, quants = half(block, 0), half(block, 2), block[4:16], block[16:]
    out = []
    for j in range(8):
        if j < 4:
            scale, minimum = packed[j] & 63, packed[j + 4] & 63
        else:
            scale = packed[j + 4] & 15 | packed[j - 4] >> 6 << 4
            minimum = packed[j + 4] >> 4 | packed[j] >> 6 << 4
        part = quants[j // 2 * 32:j // 2 * 32 + 32]
        out += [d * scale * (q >> 4 if j % 2 else q & 15) - least * minimum for q in part]
    return out


def q6_k(block):
    low, high = block[:128], block[128:192]
    scales, d = struct.unpack_from("<16b", block, 192), half(block, 208)
    out = []
    for i in range(256):
        part, at, column = i // 128, i % 128, i % 32
        row = at // 32
        byte = low[part * 64 + column + 32 * (row % 2)]
        q = byte >> 4 if row >= 2 else byte & 15
        q |= (high[part * 32 + column] >> 2 * row & 3) << 4
        out.append(d * scales[i // 16] * (q - 32))
    return out


def random_block(kind, size):
    data = bytearray(RANDOM.randrange(256) for _ in range(size))
    places_ = {"q8_0": (0,), "q4_0": (0,), "q4_k": (0, 2), "q6_k": (208,)}[kind]
    for at in places_:
        struct.pack_into("<e", data, at, RANDOM.uniform(0.0005, 0.002))
    return bytes(data)


def block_cases(cases):
    for kind, elements, size, decode in (("q8_0", 32, 34, q8_0), ("q4_0", 32, 18, q4_0),
                                         ("q4_k", 256, 144, q4_k), ("q6_k", 256, 210, q6_k)):
        m, n, k = 3, 5, 2 * elements
        blocks = [random_block(kind, size) for _ in range(n * k // elements)]
        values = [v for block in blocks for v in decode(block)]
        a, b = filled("f32", m, k), Array("f64", [n, k], values)
        dot, shape = matmul(a, b, False, True)
        cases.write("matmul", kind + "_weights", "matmul", [a, "w"], {"transpose_b": True},
                    [made("f32", shape, dot)],
                    [("w", "%s[%d, %d]" % (kind, n, k), b"".join(blocks))])
    # Numbers whose sum over a block, times eight, is no number any more.
    blocks = [struct.pack("<e16B", 2.0 ** -10, *[byte] * 16) for byte in (0x99, 0x97, 0xb9)]
    b = Array("f64", [3, 32], [v for block in blocks for v in q4_0(block)])
    a = Array("f32", [2, 32], [math.inf] + [0.5] * 31 + [2.0 ** 124] * 32)
    dot, shape = matmul(a, b, False, True)
    cases.write("matmul", "q4_0_infinite", "matmul", [a, "w"], {"transpose_b": True},
                [made("f32", shape, dot)], [("w", "q4_0[3, 32]", b"".join(blocks))])


# Conv, conv_transpose and pools.

def conv(x, w, strides, dilations, begins, groups, out, transposed):
    """Sums over every pair of input place and tap that meets."""
    n, m, gc = x.shape[0], out[1], x.shape[1] // groups
    gm = m // groups
    sums = {}
    for b, o, i in itertools.product(range(n), range(m), range(gc)):
        c = o // gm * gc + i
        for place in places(x.shape[2:] if transposed else out[2:]):
            for tap in places(w.shape[2:]):
                other = [p * s - e + t * d for p, s, e, t, d in
                         zip(place, strides, begins, tap, dilations)]
                limits = out[2:] if transposed else x.shape[2:]
                if any(q < 0 or q >= limit for q, limit in zip(other, limits)):
                    continue
                source, target = (place, other) if transposed else (other, place)
                kernel = [c, o % gm] if transposed else [o, i]
                key = (b, o) + tuple(target)
                sums[key] = (sums.get(key, 0.0) +
                             x[[b, c] + list(source)] * w[kernel + list(tap)])
    return sums


def conv_cases(cases):
    def case(name, x, w, bias=None, residual=None, transposed=False, **attrs):
        axes = len(x.shape) - 2
        strides, dilations = attrs.get("strides", [1] * axes), attrs.get("dilations", [1] * axes)
        pads, groups = attrs.get("pads", [0] * 2 * axes), attrs.get("groups", 1)
        extra = attrs.get("output_padding", [0] * axes)
        spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
        out = [x.shape[0], w.shape[1] * groups if transposed else w.shape[0]]
        for i in range(axes):
            both = pads[i] + pads[i + axes]
            if transposed:
                out.append((x.shape[2 + i] - 1) * strides[i] + extra[i] + spans[i] - both)
            else:
                out.append((x.shape[2 + i] + both - spans[i]) // strides[i] + 1)
        if residual == "like":
            residual = filled(x.dtype, *out)
        sums = conv(x, w, strides, dilations, pads, groups, out, transposed)

        def value(place):
            sum_ = sums.get(tuple(place), 0.0) + (bias[[place[1]]] if bias else 0)
            return activation(attrs.get("activation"), sum_ + (residual[place] if residual else 0))
        inputs = [x, w, bias, residual]
        while inputs[-1] is None:
            inputs.pop()
        cases.write("conv", name, "conv_transpose" if transposed else "conv", inputs, attrs,
                    [made(x.dtype, out, value)])

    f = filled
    case("line", f("f32", 2, 3, 11), f("f32", 4, 3, 3), f("f32", 4), pads=[1, 1])
    case("line_strided_dilated", f("f32", 1, 4, 17), f("f32", 6, 2, 4), strides=[3],
         dilations=[2], pads=[2, 0], groups=2)
    case("plane", f("f32", 1, 3, 9, 13), f("f32", 5, 3, 3, 5), f("f32", 5), pads=[1, 2, 1, 2])
    case("plane_uneven_pads", f("f32", 2, 2, 7, 6), f("f32", 3, 2, 3, 2), strides=[2, 1],
         pads=[0, 1, 2, 0])
    case("pointwise", f("f32", 2, 20, 5, 7), f("f32", 9, 20, 1, 1), f("f32", 9))
    case("pointwise_strided", f("f32", 1, 6, 7, 7), f("f32", 4, 6, 1, 1), strides=[2, 2])
    case("depthwise", f("f32", 1, 5, 9, 8), f("f32", 5, 1, 3, 3), f("f32", 5), strides=[2, 2],
         pads=[1, 1, 1, 1], groups=5)
    case("depthwise_double", f("f32", 1, 3, 6, 6), f("f32", 6, 1, 3, 3), groups=3,
         pads=[1, 1, 1, 1])
    case("grouped_dilated", f("f32", 1, 4, 10, 9), f("f32", 6, 2, 3, 2), groups=2,
         dilations=[2, 3], pads=[2, 0, 1, 3])
    case("box", f("f32", 1, 2, 4, 5, 6), f("f32", 3, 2, 2, 3, 2), f("f32", 3),
         strides=[1, 2, 1], pads=[0, 1, 1, 1, 1, 0])
    case("f16", f("f16", 1, 3, 6, 6), f("f16", 4, 3, 3, 3), f("f16", 4), pads=[1, 1, 1, 1])
    case("f64", f("f64", 1, 2, 5, 5), f("f64", 2, 2, 3, 3))
    case("fused", f("f32", 1, 3, 6, 7), f("f32", 5, 3, 3, 3), f("f32", 5), "like",
         pads=[1, 1, 1, 1], activation="relu")
    case("fused_silu", f("f32", 1, 4, 4, 4), f("f32", 4, 4, 1, 1), None, "like",
         activation="silu")
    t = dict(transposed=True)
    case("transpose_line", f("f32", 2, 3, 7), f("f32", 3, 4, 3), f("f32", 4), strides=[2],
         pads=[1, 0], **t)
    case("transpose_plane", f("f32", 1, 3, 5, 4), f("f32", 3, 2, 3, 3), f("f32", 2),
         strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1], **t)
    case("transpose_grouped", f("f32", 1, 4, 4, 5), f("f32", 4, 3, 2, 3), groups=2,
         strides=[1, 3], dilations=[2, 1], **t)
    case("transpose_box", f("f32", 1, 2, 3, 2, 3), f("f32", 2, 2, 2, 2, 2), strides=[2, 1, 2],
         **t)
    case("transpose_doubling", f("f32", 1, 6, 4, 4), f("f32", 6, 3, 2, 2), strides=[2, 2], **t)


def pool_cases(cases):
    def case(name, x, **attrs):
        axes, kernel = len(x.shape) - 2, attrs["kernel"]
        strides, dilations = attrs.get("strides", [1] * axes), attrs.get("dilations", [1] * axes)
        pads = attrs.get("pads", [0] * 2 * axes)
        out = list(x.shape[:2])
        for i in range(axes):
            room = x.shape[2 + i] + pads[i] + pads[i + axes] - (kernel[i] - 1) * dilations[i] - 1
            count = room // strides[i] + 1
            if (attrs.get("ceil_mode") and room % strides[i] and
                    count * strides[i] < x.shape[2 + i] + pads[i]):
                count += 1
            out.append(count)
        most, where, mean = [], [], []
        for place in places(out):
            seen, padded = [], 0
            for tap in places(kernel):
                at = [p * s - b + t * d for p, s, b, t, d in
                      zip(place[2:], strides, pads, tap, dilations)]
                if all(a < dim + e for a, dim, e in zip(at, x.shape[2:], pads[axes:])):
                    padded += 1
                if all(0 <= a < dim for a, dim in zip(at, x.shape[2:])):
                    seen.append(x.index(list(place[:2]) + at))
            best = max(seen, key=lambda at: (x.values[at], -at))
            most.append(x.values[best])
            where.append(best)
            mean.append(math.fsum(x.values[at] for at in seen) /
                        (padded if attrs.get("count_include_pad") else len(seen)))
        cases.write("pool", "max_" + name, "max_pool", [x],
                    {k: v for k, v in attrs.items() if k != "count_include_pad"},
                    [Array(x.dtype, out, most), Array("i64", out, where)])
        if x.dtype[0] == "f":
            cases.write("pool", "average_" + name, "average_pool", [x], attrs,
                        [Array(x.dtype, out, mean)])

    f = filled
    case("line", f("f32", 2, 3, 10), kernel=[3], strides=[2], pads=[1, 0])
    case("plane", f("f32", 1, 3, 7, 9), kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
         count_include_pad=True)
    case("ceil", f("f32", 1, 2, 8, 7), kernel=[3, 3], strides=[2, 3], pads=[1, 0, 1, 0],
         ceil_mode=True, count_include_pad=True)
    case("dilated", f("f32", 1, 2, 9, 9), kernel=[2, 3], dilations=[3, 2], strides=[1, 2])
    case("whole_plane", f("f32", 2, 5, 4, 6), kernel=[4, 6])
    case("box", f("f32", 1, 2, 4, 3, 5), kernel=[2, 2, 2], strides=[2, 1, 1])
    case("f16", f("f16", 1, 2, 6, 6), kernel=[2, 2], strides=[2, 2])
    case("i8", f("i8", 1, 2, 6, 6), kernel=[2, 2], strides=[2, 2])
    case("u8", f("u8", 1, 2, 6, 6), kernel=[3, 3])


# Reductions and what runs along an axis.

def reduce_cases(cases):
    def fold(op, values):
        if op == "log_sum_exp":
            top = max(values)
            return top + math.log(math.fsum(math.exp(v - top) for v in values))
        exact = sum if isinstance(values[0] if values else 0.0, int) else math.fsum
        return {"sum": lambda: exact(values), "max": lambda: max(values),
                "min": lambda: min(values), "prod": lambda: product(values),
                "mean": lambda: exact(values) / len(values) if values else math.nan,
                "l1": lambda: exact(abs(v) for v in values),
                "l2": lambda: math.sqrt(exact(v * v for v in values)),
                "log_sum": lambda: math.log(exact(values)),
                "sum_square": lambda: exact(v * v for v in values)}[op]()

    def case(name, op, x, axes, keep=False):
        rank = len(x.shape)
        picked = [a % rank for a in axes] if axes else list(range(rank))
        parts = {}
        for place in places([1 if i in picked else d for i, d in enumerate(x.shape)]):
            parts[place] = []
        for place in places(x.shape):
            parts[tuple(0 if i in picked else p for i, p in enumerate(place))].append(x[place])
        shape = [1 if i in picked else d for i, d in enumerate(x.shape) if keep or i not in picked]
        attrs = dict(axes=axes) if axes else {}
        if keep:
            attrs["keep_dims"] = True
        cases.write("reduce", name, "reduce_" + op, [x], attrs,
                    [Array(x.dtype, shape, [fold(op, part) for part in parts.values()])])

    f = filled
    for i, op in enumerate(("sum", "mean", "max", "min", "prod", "l1", "l2", "log_sum",
                            "log_sum_exp", "sum_square")):
        low = 0.1 if op == "log_sum" else -1.5
        case(op + "_inner", op, f("f32", 3, 4, 19, low=low), [-1], i % 2 == 0)
        case(op + "_outer_and_inner", op, f("f32", 3, 5, 4, low=low), [0, 2], i % 2 == 1)
        case(op + "_all", op, f("f32", 2, 9, 3, low=low), [], i % 3 == 0)
    case("sum_f16", "sum", f("f16", 5, 40), [1])
    case("mean_f64", "mean", f("f64", 4, 33), [0])
    case("sum_i32", "sum", f("i32", 4, 5, 6), [1])
    case("max_i8", "max", f("i8", 4, 9), [1])
    case("min_u8", "min", f("u8", 3, 7), [0], True)
    case("prod_i64", "prod", f("i64", 5, 3), [1])
    case("l1_i32", "l1", f("i32", 5, 3), [1])
    case("sum_square_i64", "sum_square", f("i64", 5, 3), [0])
    case("sum_of_nothing", "sum", f("f32", 3, 0), [1])
    case("prod_of_nothing", "prod", f("f32", 0, 2), [0])
    case("mean_of_nothing", "mean", f("f32", 2, 0), [1])
    case("mean_six_axes", "mean", f("f32", 2, 3, 1, 2, 2, 3), [1, 3, 5])


def sort_cases(cases):
    def lines(x, axis):
        """(outer places with a hole) -> values along the axis."""
        shape = x.shape[:axis] + x.shape[axis + 1:]
        return shape, [[x[list(p[:axis]) + [i] + list(p[axis:])] for i in range(x.shape[axis])]
                       for p in places(shape)]

    def spread(dtype, shape, axis, rows):
        """Lines back into an array whose axis has the rows' length."""
        full = list(shape[:axis]) + [len(rows[0])] + list(shape[axis:])
        lookup = {p: row for p, row in zip(places(shape), rows)}
        return made(dtype, full, lambda p: lookup[tuple(p[:axis]) + tuple(p[axis + 1:])][p[axis]])

    def top_k(name, x, k, axis, smallest=False):
        shape, rows = lines(x, axis % len(x.shape))
        orders = [sorted(range(len(r)), key=lambda i: (r[i] if smallest else -r[i], i))[:k]
                  for r in rows]
        attrs = dict(k=k, axis=axis)
        if smallest:
            attrs["smallest"] = True
        axis %= len(x.shape)
        cases.write("sort", name, "top_k", [x], attrs, [
            spread(x.dtype, shape, axis, [[r[i] for i in o] for r, o in zip(rows, orders)]),
            spread("i64", shape, axis, orders)])

    def arg(name, op, x, axis, keep=False, last=False):
        shape, rows = lines(x, axis % len(x.shape))
        best = []
        for row in rows:
            goal = max(row) if op == "arg_max" else min(row)
            found = [i for i, v in enumerate(row) if v == goal]
            best.append(found[-1] if last else found[0])
        attrs = dict(axis=axis)
        if keep:
            attrs["keep_dims"] = True
            shape = x.shape[:axis % len(x.shape)] + (1,) + x.shape[axis % len(x.shape) + 1:]
        if last:
            attrs["select_last"] = True
        cases.write("sort", name, op, [x], attrs, [Array("i64", shape, best)])

    def cumsum(name, x, axis, exclusive=False, reverse=False):
        shape, rows = lines(x, axis % len(x.shape))
        sums = []
        for row in rows:
            row = row[::-1] if reverse else row
            out = [sum(row[:i + (0 if exclusive else 1)]) for i in range(len(row))]
            sums.append(out[::-1] if reverse else out)
        attrs = dict(axis=axis)
        attrs.update(**({"exclusive": True} if exclusive else {}))
        attrs.update(**({"reverse": True} if reverse else {}))
        cases.write("sort", name, "cumsum", [x], attrs,
                    [spread(x.dtype, shape, axis % len(x.shape), sums)])

    f = filled
    few = Array("i32", [3, 20, 2], [RANDOM.randrange(6) for _ in range(120)])
    top_k("top_k_middle_axis_with_ties", few, 7, 1)
    top_k("top_k_smallest_with_ties", few, 5, 1, True)
    top_k("top_k_whole_line", f("f32", 2, 9), 9, -1)
    top_k("top_k_f16", f("f16", 3, 8), 3, 1)
    top_k("top_k_u8", f("u8", 8), 4, 0)
    arg("arg_max_ties", "arg_max", few, 1)
    arg("arg_max_last_of_ties", "arg_max", few, 1, True, True)
    arg("arg_min_ties", "arg_min", few, -2, True)
    arg("arg_min_f32", "arg_min", f("f32", 4, 33), 1)
    arg("arg_max_i8_outer", "arg_max", f("i8", 6, 5), 0, False, True)
    cumsum("cumsum_middle", f("f32", 2, 9, 3), 1)
    cumsum("cumsum_backwards_exclusive", f("f32", 2, 9), -1, True, True)
    cumsum("cumsum_i64", f("i64", 5, 4), 0, True)


def softmax_cases(cases):
    def case(name, op, x, axis):
        def value(place):
            line = [x[list(place[:axis]) + [i] + list(place[axis + 1:])]
                    for i in range(x.shape[axis])]
            top = max(line)
            total = math.fsum(math.exp(v - top) for v in line)
            shifted = x[place] - top
            return shifted - math.log(total) if op == "log_softmax" else math.exp(shifted) / total
        cases.write("softmax", name, op, [x], dict(axis=axis), [made(x.dtype, x.shape, value)])

    f = filled
    for op in ("softmax", "log_softmax"):
        case(op + "_long", op, f("f32", 2, 300, low=-8, high=8), 1)
        case(op + "_middle", op, f("f32", 2, 7, 3, low=-3, high=3), 1)
        case(op + "_first", op, f("f32", 5, 4, low=-90, high=90), 0)
        case(op + "_f16", op, f("f16", 3, 17, low=-4, high=4), 1)
        case(op + "_f64", op, f("f64", 3, 17, low=-4, high=4), 1)


# Norms.

def norm_cases(cases):
    def moments(values, rms=False):
        mean = 0.0 if rms else math.fsum(values) / len(values)
        return mean, math.fsum((v - mean) ** 2 for v in values) / len(values)

    def rows(name, op, x, axis, scale=None, bias=None, residual=None, with_sum=False, eps=1e-5):
        total = Array(x.dtype, x.shape, [a + (residual.values[i] if residual else 0.0)
                                         for i, a in enumerate(x.values)])
        size = product(x.shape[axis:])
        out = []
        for start in range(0, len(total.values), size):
            part = total.values[start:start + size]
            mean, variance = moments(part, op == "rms_norm")
            out += [(v - mean) / math.sqrt(variance + eps) for v in part]
        y = Array("f64", x.shape, out)
        y = made(x.dtype, x.shape, lambda p: y[p] * (scale.near(p) if scale else 1.0) +
                 (bias.near(p) if bias else 0.0))
        inputs = [x, scale, bias, residual]
        while inputs[-1] is None:
            inputs.pop()
        cases.write("norm", name, op, inputs, dict(axis=axis, epsilon=eps),
                    [y, total] if with_sum else [y])

    def channels(name, op, x, scale, bias, mean=None, variance=None, groups=0, eps=1e-5):
        n, c = x.shape[:2]
        plane = product(x.shape[2:])
        block = plane * (c // groups if groups else 1)
        out = []
        for start in range(0, len(x.values), block):
            part = x.values[start:start + block]
            mu, var = moments(part)
            for i, v in enumerate(part):
                ch = (start + i) // plane % c
                if mean:
                    mu, var = mean.values[ch], variance.values[ch]
                out.append((v - mu) / math.sqrt(var + eps) * scale.values[ch] + bias.values[ch])
        inputs = [x, scale, bias] + ([mean, variance] if mean else [])
        attrs = dict(epsilon=eps)
        if groups:
            attrs["groups"] = groups
        cases.write("norm", name, op, inputs, attrs, [Array(x.dtype, x.shape, out)])

    f = filled
    for op in ("layer_norm", "rms_norm"):
        rows(op + "_plain", op, f("f32", 3, 37), 1)
        rows(op + "_scale", op, f("f32", 2, 3, 16), 2, f("f32", 16))
        rows(op + "_two_axes", op, f("f32", 2, 3, 8), 1, f("f32", 3, 8), f("f32", 3, 8))
        rows(op + "_broadcast_scale", op, f("f32", 2, 3, 8), 1, f("f32", 3, 1), f("f32", 8))
        rows(op + "_residual", op, f("f32", 4, 20), 1, f("f32", 20), f("f32", 20),
             f("f32", 4, 20), True, 1e-3)
        rows(op + "_residual_alone", op, f("f32", 4, 20), 1, None, None, f("f32", 4, 20))
        rows(op + "_f16_residual", op, f("f16", 3, 24), 1, f("f32", 24), None, f("f16", 3, 24),
             True)
        rows(op + "_f64", op, f("f64", 3, 24), 1, f("f64", 24))
    s = lambda c: f("f32", c, low=0.5, high=2)
    channels("batch_norm_plane", "batch_norm", f("f32", 2, 5, 4, 3), s(5), f("f32", 5),
             f("f32", 5), s(5), eps=1e-3)
    channels("batch_norm_vectors", "batch_norm", f("f32", 3, 7), s(7), f("f32", 7), f("f32", 7),
             s(7))
    channels("group_norm", "group_norm", f("f32", 2, 6, 3, 4), s(6), f("f32", 6), groups=3)
    channels("group_norm_one_group", "group_norm", f("f32", 2, 4, 9), s(4), f("f32", 4), groups=1)
    channels("instance_norm_line", "instance_norm", f("f32", 2, 3, 11), s(3), f("f32", 3))
    channels("instance_norm_box", "instance_norm", f("f32", 1, 2, 2, 3, 4), s(2), f("f32", 2))


# Attention and rope.

def attention_cases(cases):
    def case(name, q, k, v, mask=None, **attrs):
        batch, heads, s, d = q.shape
        t, group = k.shape[2], heads // k.shape[1]
        scale = attrs.get("scale", 1 / math.sqrt(d))
        cap, window = attrs.get("softcap", 0), attrs.get("window", 0)

        def weights(b, h, i):
            end = t - s + i + 1 if attrs.get("causal") else t
            start = max(end - window, 0) if window else 0
            scores = {}
            for j in range(start, end):
                dot = math.fsum(q[b, h, i, e] * k[b, h // group, j, e] for e in range(d)) * scale
                dot = cap * math.tanh(dot / cap) if cap else dot
                scores[j] = dot + (mask.near((b, h, i, j)) if mask else 0.0)
            top = max(scores.values(), default=-math.inf)
            if top == -math.inf:
                return {}
            powers = {j: math.exp(x - top) for j, x in scores.items()}
            total = math.fsum(powers.values())
            return {j: p / total for j, p in powers.items()}

        table = {(b, h, i): weights(b, h, i) for b, h, i in places((batch, heads, s))}
        y = made(q.dtype, (batch, heads, s, v.shape[3]), lambda p: math.fsum(
            w * v[p[0], p[1] // group, j, p[3]] for j, w in table[p[:3]].items()))
        inputs = [q, k, v] + ([mask] if mask else [])
        cases.write("attention", name, "attention", inputs, attrs, [y])

    f = filled

    def qkv(b, hq, hk, s, t, d, dv=None, dtype="f32", kv=None):
        kv = kv or dtype
        return (f(dtype, b, hq, s, d, low=-2, high=2), f(kv, b, hk, t, d, low=-2, high=2),
                f(kv, b, hk, t, dv or d))
    case("all_keys", *qkv(2, 2, 2, 3, 5, 8))
    case("causal", *qkv(1, 2, 2, 7, 7, 8), causal=True)
    case("decode_grouped", *qkv(1, 8, 2, 1, 45, 16), causal=True)
    case("prefill_after_cache", *qkv(1, 4, 2, 5, 40, 8), causal=True)
    case("window", *qkv(1, 2, 1, 20, 20, 8), causal=True, window=6)
    case("softcap", *qkv(1, 2, 2, 4, 9, 8), softcap=1.5, scale=0.8)
    case("wide_values", *qkv(1, 2, 1, 3, 6, 5, 11))
    case("more_queries_than_keys", *qkv(1, 1, 1, 6, 4, 8), causal=True)
    case("f16", *qkv(1, 2, 2, 4, 9, 8, dtype="f16"), causal=True)
    case("f16_cache", *qkv(1, 4, 2, 2, 33, 8, kv="f16"), causal=True)
    case("f64", *qkv(1, 1, 1, 3, 4, 4, dtype="f64"))
    masked = made("f32", (4, 9), lambda p: -math.inf if p[1] > p[0] + 3 or p[0] == 2 else 0.25 * p[1])
    case("mask_rows_and_keys", *qkv(2, 2, 2, 4, 9, 8), mask=masked)
    case("mask_per_batch", *qkv(2, 2, 1, 3, 5, 8), mask=f("f32", 2, 1, 1, 5, low=-2))
    case("mask_per_head", *qkv(1, 3, 3, 2, 5, 8), mask=f("f32", 3, 1, 5, low=-2), causal=True)


def rope_cases(cases):
    def case(name, x, positions, **attrs):
        d = x.shape[3]
        rotary, theta = attrs.get("rotary_dim", d), attrs.get("theta", 10000)
        half_ = rotary // 2

        def value(place):
            b, _, s, e = place
            if e >= rotary:
                return x[place]
            at = positions[[s]] if len(positions.shape) == 1 else positions[[b, s]]
            if attrs.get("interleaved"):
                pair, second = e // 2, e % 2 == 1
                first_at, second_at = 2 * pair, 2 * pair + 1
            else:
                pair, second = e % half_, e >= half_
                first_at, second_at = pair, pair + half_
            angle = at * theta ** (-2.0 * pair / rotary)
            u, v = x[place[:3] + (first_at,)], x[place[:3] + (second_at,)]
            return (v * math.cos(angle) + u * math.sin(angle) if second
                    else u * math.cos(angle) - v * math.sin(angle))
        cases.write("attention", name, "rope", [x, positions], attrs,
                    [made(x.dtype, x.shape, value)])

    f = filled
    line = Array("i64", [5], [0, 1, 2, 3, 700])
    table = Array("i64", [2, 5], [0, 1, 2, 3, 4, 90, 91, 92, 93, 94])
    case("rope_halves", f("f32", 1, 2, 5, 8), line)
    case("rope_interleaved", f("f32", 1, 2, 5, 8), line, interleaved=True)
    case("rope_partial", f("f32", 2, 3, 5, 10), table, rotary_dim=6, theta=500.0)
    case("rope_f16", f("f16", 1, 2, 5, 8), line)


# Quantised convolutions. Factors are powers of two: nothing but the results is rounded.

def conv_quantised_cases(cases):
    def integers(dtype, low, high, *shape):
        return Array(dtype, shape, [RANDOM.randint(low, high) for _ in range(product(shape))])

    def powers(count, low, high):
        return Array("f32", [count], [2.0 ** RANDOM.randint(low, high) for _ in range(count)])

    def bounded(value, low, high):
        return min(max(value, low), high)

    def case(name, x, w, out, to, scale=None, bias=None, zero=None, residual=None, **attrs):
        axes = len(x.shape) - 2
        start = zero[[]] if zero else 0
        sums = conv(Array("i32", x.shape, [v - start for v in x.values]), w, attrs.get("strides", [1] * axes),
                    attrs.get("dilations", [1] * axes), attrs.get("pads", [0] * 2 * axes),
                    attrs.get("groups", 1), out, False)

        def value(place):
            v = sums.get(tuple(place), 0.0)
            if to == "i32":
                return v
            v = v * (scale.near([place[1]]) if scale else 1) + (bias.near([place[1]]) if bias else 0)
            if to != "f32" or residual:
                v = round(v)
            v = bounded(v, attrs["least"], attrs["most"])
            if residual:
                v = (v * attrs["inner_scale"] +
                     (residual[place] - attrs["residual_zero"]) * attrs["residual_scale"])
                v = v if to == "f32" else round(v / attrs["y_scale"])
                v = bounded(v, attrs["y_least"], attrs["y_most"])
            return v if to == "f32" else v + attrs.get("y_zero", 0)
        inputs = [x, w, scale, bias, zero, residual]
        while inputs[-1] is None:
            inputs.pop()
        attrs["to"] = to
        cases.write("conv_quantised", name, "conv_quantised", inputs, attrs, [made(to, out, value)])

    f = filled
    case("line", integers("u8", 0, 255, 2, 3, 11), integers("i16", -255, 255, 4, 3, 3), [2, 4, 11], "u8",
         powers(4, -11, -7), f("f32", 4), integers("u8", 100, 140), pads=[1, 1], least=-120.0, most=135.0,
         y_zero=120)
    case("plane_signed", integers("i8", -128, 127, 1, 5, 6, 7), integers("i16", -127, 127, 9, 5, 3, 3),
         [1, 9, 3, 7], "i8", Array("f32", [], [2.0 ** -9]), f("f32", 9), integers("i8", -5, 5),
         strides=[2, 1], pads=[1, 1, 1, 1], least=-123.0, most=132.0, y_zero=-5)
    case("grouped_floats", integers("u8", 0, 255, 1, 4, 6, 5), integers("i16", -255, 255, 6, 2, 3, 2),
         [1, 6, 4, 2], "f32", powers(6, -9, -3), groups=2, dilations=[1, 3], least=-60.0, most=1000.0)
    case("box_sums", integers("u8", 0, 255, 1, 2, 3, 4, 3), integers("i16", -255, 255, 3, 2, 2, 2, 2),
         [1, 3, 4, 5, 4], "i32", zero=integers("u8", 7, 7), pads=[1, 1, 1, 1, 1, 1])
    case("residual", integers("u8", 0, 255, 1, 6, 4, 4), integers("i16", -128, 127, 6, 1, 3, 3),
         [1, 6, 4, 4], "u8", powers(6, -10, -6), f("f32", 6), integers("u8", 120, 130),
         integers("i8", -128, 127, 1, 6, 4, 4), groups=6, pads=[1, 1, 1, 1], least=-128.0, most=127.0,
         inner_scale=0.5, residual_scale=0.25, y_scale=0.5, residual_zero=-3, y_least=0.0, y_most=135.0,
         y_zero=120)
    case("residual_floats", integers("u8", 0, 255, 1, 4, 3, 3), integers("i16", -128, 127, 4, 4, 1, 1),
         [1, 4, 3, 3], "f32", powers(4, -10, -6), None, None, integers("u8", 0, 255, 1, 4, 3, 3),
         least=0.0, most=255.0, inner_scale=0.5, residual_scale=0.25, residual_zero=9, y_least=-1000.0,
         y_most=1000.0)


def matmul_quantised_cases(cases):
    def integers(dtype, low, high, *shape):
        return Array(dtype, shape, [RANDOM.randint(low, high) for _ in range(product(shape))])

    def powers(low, high, *shape):
        return Array("f32", shape, [2.0 ** RANDOM.randint(low, high) for _ in range(product(shape))])

    def case(name, a, b, to=None, bias=None, residual=None, scale=None, offset=None, **attrs):
        dot, shape = matmul(a, b, attrs.get("transpose_a", False), attrs.get("transpose_b", False))

        def value(place):
            v = float(wrapped("i32", dot(place) + (offset.near(place) if offset else 0)))
            v = v * (scale.near(place) if scale else 1) + (bias.near(place) if bias else 0)
            gate = residual.near(place) if residual else 0
            v = activation(attrs.get("activation"), v + (0 if attrs.get("gated") else gate))
            if attrs.get("gated"):
                v *= gate
            if to is None:
                return v
            least = -128 if to == "i8" else 0
            return min(max(round(v) + attrs.get("zero", 0), least), least + 255)
        inputs = [a, b, bias, residual, scale, offset]
        while inputs[-1] is None:
            inputs.pop()
        if to:
            attrs["to"] = to
        cases.write("matmul_quantised", name, "matmul_quantised", inputs, attrs, [made(to or "f32", shape, value)])

    f = filled
    u8, i8 = (lambda *shape: integers("u8", 0, 255, *shape)), (lambda *shape: integers("i8", -128, 127, *shape))
    case("bare", u8(3, 17), i8(17, 19))
    case("columns", u8(7, 40), i8(40, 33), None, f("f32", 33), None, powers(-12, -8, 33),
         integers("i32", -9000, 9000, 1, 33), activation="relu")
    case("to_u8", u8(9, 24), i8(24, 21), "u8", None, None, powers(-9, -6, 21), integers("i32", -9000, 9000, 21),
         zero=131)
    case("to_i8", i8(5, 30), i8(30, 18), "i8", f("f32", 18), f("f32", 5, 18), powers(-10, -10), zero=-3)
    case("rows", i8(6, 12), u8(12, 8), None, f("f32", 6, 1), None, powers(-9, -4, 6, 1), integers("i32", -99, 99, 6, 1))
    case("gated", u8(4, 12), u8(16, 12), None, f("f32", 16), f("f32", 4, 16), powers(-9, -9), transpose_b=True,
         gated=True, activation="relu")
    case("in_batches", u8(2, 1, 3, 9), i8(3, 9, 5), "u8", None, None, powers(-8, -6, 3, 1, 5),
         integers("i32", -999, 999, 2, 1, 3, 1), zero=100)
    case("one_matrix_for_all", u8(3, 2, 4, 20), i8(20, 17), None, f("f32", 17), f("f32", 3, 2, 4, 17),
         powers(-9, -6, 17), integers("i32", -999, 999, 17))
    case("nothing_to_sum", u8(2, 0), i8(0, 17), "u8", f("f32", 17), None, None, integers("i32", -99, 99, 17), zero=50)
    case("no_rows", u8(0, 5), i8(5, 4))
    case("wraps", Array("u8", [1, 2], [255, 1]), Array("i8", [2, 1], [127, 0]), None, None, None, None,
         Array("i32", [1], [2**31 - 1]))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    cases = Cases(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "cases"))
    for make in (matmul_cases, conv_cases, pool_cases, reduce_cases, sort_cases, softmax_cases,
                 norm_cases, attention_cases, rope_cases, conv_quantised_cases, tile_cases,
                 matmul_quantised_cases):
        make(cases)
    print("%d cases" % cases.count)


if __name__ == "__main__":
    main()
