# SPDX-License-Identifier: Apache-2.0
"""ONNX files for tests, written by hand: just enough protocol buffers."""
import struct

TYPES = {"f32": (1, "f"), "u8": (2, "B"), "i8": (3, "b"), "i32": (6, "i"), "i64": (7, "q"), "bool": (9, "?"),
         "f16": (10, "e")}


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """A number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor(dtype, dims, values, name=None):
    number, code = TYPES[dtype]
    raw = struct.pack("<%d%s" % (len(values), code), *values)
    head = b"".join(field(1, dim) for dim in dims) + field(2, number)
    return head + (field(8, name) if name else b"") + field(9, raw)


def port(name, dtype, dims):
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, TYPES[dtype][0]) + field(2, shape)))


def attribute(name, value):
    head = field(1, name)
    if isinstance(value, bool) or isinstance(value, int):
        return head + field(3, int(value)) + field(20, 2)
    if isinstance(value, float):
        return head + varint(2 << 3 | 5) + struct.pack("<f", value) + field(20, 1)
    if isinstance(value, str):
        return head + field(4, value) + field(20, 3)
    if isinstance(value, Graph):
        return head + field(6, value.bytes()) + field(20, 5)
    if isinstance(value, bytes):
        return head + field(5, value) + field(20, 4)
    if value and isinstance(value[0], float):
        return head + b"".join(varint(7 << 3 | 5) + struct.pack("<f", item) for item in value) + field(20, 6)
    return head + b"".join(field(8, item) for item in value) + field(20, 7)


class Numbers:
    """The same numbers on every machine."""

    def __init__(self, seed):
        self.state = seed * 2654435761 + 1

    def next(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        return (self.state >> 33) / float(1 << 31) * 2 - 1

    def floats(self, count, scale=1.0):
        return [self.next() * scale for _ in range(count)]


class Graph:
    """Nodes are added by calling the op: y = g.Add(x, c). Constants: g.const(..), weights: g.weight(..)."""

    def __init__(self, seed=1):
        self.nodes, self.inputs, self.outputs, self.initializers = [], [], [], []
        self.numbers, self.count = Numbers(seed), 0

    def name(self):
        self.count += 1
        return "v%d" % self.count

    def input(self, name, dtype, dims):
        self.inputs.append(port(name, dtype, dims))
        return name

    def output(self, name, dtype="f32", dims=()):
        self.outputs.append(port(name, dtype, dims) if dims is not None else field(1, name))
        return name

    def const(self, dtype, dims, values):
        name = self.name() + "_c"
        self.initializers.append(tensor(dtype, dims, values, name))
        return name

    def scalar(self, value, dtype="f32"):
        return self.const(dtype, [], [value])

    def ints(self, *values):
        return self.const("i64", [len(values)], values)

    def weight(self, *dims, scale=0.3):
        count = 1
        for dim in dims:
            count *= dim
        return self.const("f32", list(dims), self.numbers.floats(count, scale))

    def positive(self, count):
        return self.const("f32", [count], [abs(v) + 0.5 for v in self.numbers.floats(count)])

    def bytes_weight(self, dtype, *dims):
        """Random integers of 8 bits, so small that no sum of two products with bytes passes 16."""
        count = 1
        for dim in dims:
            count *= dim
        base = 128 if dtype == "u8" else 0
        return self.const(dtype, list(dims), [int(v) + base for v in self.numbers.floats(count, 60)])

    def ms(self, op, *inputs, **attrs):
        """A node of ONNX Runtime's own domain."""
        return self.node(op, inputs, domain="com.microsoft", **attrs)

    def node(self, op, inputs, outputs=1, domain=None, **attrs):
        names = [self.name() for _ in range(outputs)]
        data = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in names)
        data += field(3, names[0] + "_" + op) + field(4, op) + (field(7, domain) if domain else b"")
        data += b"".join(field(5, attribute(key, value)) for key, value in attrs.items())
        self.nodes.append(data)
        return names[0] if outputs == 1 else names

    def __getattr__(self, op):
        if not op[0].isupper():
            raise AttributeError(op)
        return lambda *inputs, **attrs: self.node(op, inputs, **attrs)

    def bytes(self):
        data = b"".join(field(1, item) for item in self.nodes) + field(2, "g")
        data += b"".join(field(5, item) for item in self.initializers)
        data += b"".join(field(11, item) for item in self.inputs)
        return data + b"".join(field(12, item) for item in self.outputs)

    def model(self, opset=17):
        own = field(8, field(1, "com.microsoft") + field(2, 1))
        return field(1, 8) + field(7, self.bytes()) + field(8, field(2, opset)) + own
