#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that make no sense: each is refused with a message that says where and why, by exit code 1 (or 3 where a
larger machine could not run it either), never by a signal.

usage: bad_input_test.py RLX
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from graphs import Graph, TYPES, field, port, tensor, varint  # noqa: E402

HUGE = 1 << 62


def one_node(op, inputs, output_dims, **attrs):
    """A model of one node: `inputs` are dims of inputs, or texts that name what is not there."""
    g = Graph()
    names = [text if isinstance(text, str) else g.input("x%d" % i, "f32", text) for i, text in enumerate(inputs)]
    g.output(g.node(op, names, **attrs), dims=output_dims)
    return g.model()


def with_weight(data):
    """A relu of an initializer that is these bytes."""
    g = Graph()
    g.initializers.append(data)
    g.output(g.Relu("w"), dims=[2])
    return g.model()


def deep(levels):
    """Ifs inside ifs."""
    inner = Graph()
    inner.count = 100 * levels
    if levels == 0:
        inner.output(inner.Identity("x"), dims=[2])
        return inner
    other = deep(0)
    inner.output(inner.If("go", then_branch=deep(levels - 1), else_branch=other), dims=[2])
    return inner


def nested(levels):
    g = Graph()
    g.input("x", "f32", [2])
    g.input("go", "bool", [])
    g.output(g.If("go", then_branch=deep(levels), else_branch=deep(0)), dims=[2])
    return g.model()


def loop_without_end():
    g = Graph()
    x = g.input("x", "f32", [2])
    body = Graph()
    body.count = 1000
    body.input("i", "i64", [])
    body.input("go", "bool", [])
    body.input("s", "f32", [2])
    body.output(body.Identity("go"), "bool", [])
    body.output(body.Relu("s"), dims=[2])
    g.output(g.Loop("", "", x, body=body), dims=[2])
    return g.model()


def calls_itself():
    """A function that calls itself."""
    call = field(1, "a") + field(2, "b") + field(3, "again") + field(4, "F") + field(7, "own")
    function = field(1, "F") + field(4, "a") + field(5, "b") + field(7, call) + field(10, "own")
    g = Graph()
    g.input("x", "f32", [2])
    g.nodes.append(field(1, "x") + field(2, "y") + field(3, "first") + field(4, "F") + field(7, "own"))
    g.output("y", dims=[2])
    return g.model() + field(8, field(1, "own") + field(2, 1)) + field(25, function)


def with_attribute(data):
    """A max pool with an attribute of these bytes."""
    g = Graph()
    g.input("x", "f32", [1, 1, 4, 4])
    node = field(1, "x") + field(2, "y") + field(3, "pool") + field(4, "MaxPool") + field(5, data)
    g.nodes.append(node)
    g.output("y", dims=[1, 1, 2, 2])
    return g.model()


def of_microsoft(op, inputs, **attrs):
    """A node of com.microsoft: inputs are dims of f32, or (dtype, dims)."""
    g = Graph()
    ports = [item if isinstance(item, tuple) else ("f32", item) for item in inputs]
    names = [g.input("x%d" % i, *port) if port[1] is not None else "" for i, port in enumerate(ports)]
    g.output(g.ms(op, *names, **attrs), dims=None)
    return g.model()


FLOATS = field(7, b"\0\0\0@\0\0\0@")  # two of them, packed

def wide(op, count):
    """An expand, or a constant, of `count` dims."""
    g = Graph()
    shape = g.ints(*[1] * count)
    g.output(g.node(op, [g.input("x", "f32", [2]), shape] if op == "Expand" else [shape]), dims=None)
    return g.model()


def shape_beyond():
    """A constant of a shape that is picked from outside another one."""
    g = Graph()
    sizes = g.Concat(g.Shape(g.NonZero(g.input("x", "f32", [4]))), g.ints(3), axis=0)
    g.output(g.ConstantOfShape(g.Gather(sizes, g.ints(7, 1 << 40), axis=0)), dims=None)
    return g.model()


CASES = {
    "an attribute with lists of two kinds": (
        with_attribute(field(1, "kernel_shape") + field(8, 2) + field(8, 2) + FLOATS + field(20, 7)),
        ["'pool'", "'kernel_shape'", "two kinds"]),
    "an attribute whose type says what is not there": (
        with_attribute(field(1, "kernel_shape") + FLOATS + field(20, 7)), ["'pool'", "'kernel_shape'", "type 7"]),
    "a tensor attribute without a tensor": (
        with_attribute(field(1, "value") + field(20, 4)), ["'pool'", "'value'", "type 4"]),
    "an input has a negative size": (one_node("Relu", [[-3, 2]], [2]), ["x0"]),
    "an input is larger than any memory": (one_node("Relu", [[HUGE, HUGE]], [2]), ["'x0'", "2^63"]),
    "a weight has a negative size": (with_weight(tensor("f32", [-2], [1, 2], "w")), ["tensor", "dim 0 is -2"]),
    "a weight is smaller than its dims": (with_weight(tensor("f32", [HUGE], [1, 2], "w")), ["tensor 'w'", "bytes"]),
    "a weight has more dims than a tensor": (with_weight(tensor("f32", [1] * 40, [1], "w")), ["more than 8 dims"]),
    "a weight of an unknown type": (
        with_weight(field(1, 2) + field(2, 77) + field(8, "w") + field(9, b"12345678")), ["'w'", "UNKNOWN"]),
    "a product whose sides do not fit": (one_node("MatMul", [[2, 3], [4, 5]], [2, 5]), ["MatMul", "3", "4"]),
    "a sum whose sides do not fit": (one_node("Add", [[2, 3], [4, 3]], [2, 3]), ["Add", "2", "4"]),
    "an expand to more dims than a tensor has": (wide("Expand", 9), ["Expand", "9 dims"]),
    "a constant of more dims than a list has": (wide("ConstantOfShape", 40), ["ConstantOfShape", "40"]),
    "a shape of sizes that are not there": (shape_beyond(), ["ConstantOfShape", "run time"]),
    "an axis outside": (one_node("Softmax", [[2, 3]], [2, 3], axis=7), ["Softmax", "axis 7"]),
    "an attribute of the wrong type": (one_node("Softmax", [[2, 3]], [2, 3], axis=0.5), ["Softmax", "'axis'"]),
    "a kernel larger than its input": (
        one_node("MaxPool", [[1, 1, 2, 2]], [1, 1, 1, 1], kernel_shape=[5, 5]), ["MaxPool"]),
    "a stride of nothing": (
        one_node("MaxPool", [[1, 1, 2, 2]], [1, 1, 1, 1], kernel_shape=[1, 1], strides=[0, -1]), ["MaxPool"]),
    "pads without end": (
        one_node("Pad", [[2, 2]], [2, 2], pads=[HUGE, 0, HUGE, 0], mode="constant"), ["Pad"]),
    "an op that com.microsoft does not have": (of_microsoft("Relu", [[2]]), ["(com.microsoft.Relu)", "not supported"]),
    "an activation that is not known": (
        of_microsoft("FusedGemm", [[2, 3], [3, 4]], activation="Sinus"), ["(com.microsoft.FusedGemm)", "'Sinus'"]),
    "a list of bytes and scales that ends too early": (
        of_microsoft("QLinearConcat", [[], ("u8", []), ("u8", [2]), []], axis=0), ["QLinearConcat", "4 inputs"]),
    "halves of an odd number of channels": (of_microsoft("BiasSplitGelu", [[2, 5], [5]]), ["BiasSplitGelu", "halves"]),
    "a metric that is not known": (
        of_microsoft("CDist", [[2, 5], [3, 5]], metric="cosine"), ["CDist", "metric 'cosine'"]),
    "a quantised product of more than matrices": (
        of_microsoft("QGemm", [("u8", [2, 2, 2]), [], ("u8", []), ("u8", [2, 2]), [], ("u8", [])]),
        ["QGemm", "matrices"]),
    "more positions than there are rows": (
        of_microsoft("EmbedLayerNormalization", [("i32", [1, 9]), ("i32", None), [4, 8], [5, 8], ("f32", None), [8], [8]]),
        ["EmbedLayerNormalization", "9 positions of 5"]),
    "heads that do not divide the channels": (
        of_microsoft("MultiHeadAttention", [[1, 2, 10], [1, 2, 10], [1, 2, 10]], num_heads=3),
        ["MultiHeadAttention", "10 channels is not 3 heads"]),
    "attention without heads": (of_microsoft("Attention", [[1, 2, 4], [4, 12]]), ["Attention", "num_heads is 0"]),
    "a cache that shares its memory": (
        of_microsoft("Attention", [[1, 2, 4], [4, 12]], num_heads=2, past_present_share_buffer=1),
        ["(com.microsoft.Attention)", "past_present_share_buffer = 1"]),
    "a mask of another batch": (
        of_microsoft("Attention", [[1, 2, 4], [4, 12], [12], ("i32", [5])], num_heads=2),
        ["Attention", "a mask of rank 1 with 5 elements for 1 sequences"]),
    "a length that only a run knows": (
        of_microsoft("GroupQueryAttention", [[1, 2, 8], [1, 2, 4], [1, 2, 4], [1, 1, 0, 4], [1, 1, 0, 4], ("i32", [1]),
                                             ("i32", [])], num_heads=2, kv_num_heads=1), ["x6", "must be given"]),
    "more angles than channels": (
        of_microsoft("RotaryEmbedding", [[1, 2, 3, 4], ("i64", [1]), [9, 8], [9, 8]]),
        ["RotaryEmbedding", "8 angles for 4 channels"]),
    "weights of bits that are too few": (
        of_microsoft("MatMulNBits", [[2, 32], ("u8", [4, 1, 15]), [4]], K=32, N=4, bits=4, block_size=32),
        ["MatMulNBits", "weights: 60 elements instead of 64"]),
    "blocks of no size": (
        of_microsoft("MatMulNBits", [[2, 32], ("u8", [4, 1, 16]), [4]], K=32, N=4, bits=4, block_size=0),
        ["MatMulNBits", "block_size 0"]),
    "weights without end": (
        of_microsoft("MatMulNBits", [[2, 32], ("u8", [4, 1, 16]), [4]], K=HUGE, N=HUGE, bits=4, block_size=32),
        ["MatMulNBits"]),
    "blocks in another order": (
        of_microsoft("MatMulNBits", [[2, 32], ("u8", [4, 1, 16]), [4], ("u8", [4]), ("i32", [32])], K=32, N=4, bits=4,
                     block_size=32), ["(com.microsoft.MatMulNBits)", "g_idx"]),
    "an input that nobody defines": (one_node("Relu", ["nowhere"], [2]), ["Relu", "'nowhere'"]),
    "an op without its input": (one_node("Add", [[2]], [2]), ["Add", "input 1"]),
    "bodies inside bodies without end": (nested(60), ["nested"]),
    "a loop without end": (loop_without_end(), ["Loop"]),
    "a function that calls itself": (calls_itself(), ["nested"]),
    "nothing but zeros": (b"\0" * 100, ["m.onnx"]),
    "a length past the end": (field(1, 8) + varint(7 << 3 | 2) + varint(1 << 60), ["m.onnx"]),
    "a number without end": (field(1, 8) + b"\x38" + b"\xff" * 20, ["m.onnx"]),
    "a list of very many names": (
        field(1, 8) + field(7, field(1, field(4, "Relu") + field(1, "") * ((1 << 20) + 1))), ["1048576"]),
}


def check(rlx, folder, data, says):
    path = os.path.join(folder, "m.onnx")
    with open(path, "wb") as file:
        file.write(data)
    done = subprocess.run([rlx, "plan", path], capture_output=True, text=True, errors="replace", check=False, timeout=60)
    if done.returncode not in (1, 3, 4):
        return "exit code %d: %s" % (done.returncode, done.stderr)
    missing = [word for word in says if word not in done.stderr]
    return "'%s' is not in: %s" % (missing[0], done.stderr) if missing else None


def check_links(rlx, folder):
    """External data behind a link that leads out of the model's folder."""
    inside = os.path.join(folder, "inside")
    os.mkdir(inside)
    with open(os.path.join(folder, "secret"), "wb") as file:
        file.write(b"\0" * 4096)
    os.symlink(os.path.join(folder, "secret"), os.path.join(inside, "w.bin"))
    g = Graph()
    location = field(1, "location") + field(2, "w.bin")
    g.initializers.append(field(1, 1024) + field(2, TYPES["f32"][0]) + field(8, "w") + field(13, location) + field(14, 1))
    g.inputs.append(port("x", "f32", [1024]))
    g.output(g.Add("x", "w"), dims=[1024])
    return check(rlx, inside, g.model(), ["'w.bin'", "leads out of the model's folder"])


def main():
    rlx, failed = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (data, says) in CASES.items():
            problem = check(rlx, folder, data, says)
            failed += problem is not None
            if problem is not None:
                print("%s: %s" % (name, problem.strip()))
        problem = check_links(rlx, folder)
        failed += problem is not None
        if problem is not None:
            print("links: " + problem)
    print("%d models, %d failed" % (len(CASES) + 1, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
