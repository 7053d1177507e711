#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sizes that only a run knows, in ops that want numbers. Each graph picks rows by NonZero of an input and goes on with
them; the same graph with the picked rows as a constant must give the same, when some, all and none are picked.

usage: sizes_test.py RLX [NAME..]
"""
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]
from contrib_test import Case, differs, run  # noqa: E402
from graphs import tensor  # noqa: E402

CASES = {}
ROWS = 9


def case(make):
    CASES[make.__name__] = make
    return make


def size(g, x, axis=0):
    return g.Gather(g.Shape(x), g.ints(axis), axis=0)


@case
def a_shape_of_sizes(g, rows, _):
    return [g.Reshape(rows, g.Concat(size(g, rows), g.ints(2), g.ints(3), axis=0)),
            g.Reshape(rows, g.Concat(g.ints(1), size(g, rows), g.ints(3), g.ints(2), axis=0), allowzero=1)]


@case
def a_constant_of_a_shape(g, rows, _):
    whole = g.ConstantOfShape(g.Shape(rows), value=tensor("f32", [1], [2.5]))
    ones = g.ConstantOfShape(size(g, rows), value=tensor("i64", [1], [3]))
    return [g.Mul(rows, whole), g.Cast(ones, to=1)]


@case
def an_expand(g, rows, places):
    wide = g.Expand(g.Unsqueeze(places, g.ints(1)), g.Shape(rows))
    return [g.Expand(g.weight(6), g.Shape(rows)), g.Cast(wide, to=1), g.Expand(rows, g.Concat(g.ints(2), g.Shape(rows), axis=0))]


@case
def a_range(g, rows, _):
    steps = g.Range(g.scalar(0, "i64"), g.Squeeze(size(g, rows)), g.scalar(1, "i64"))
    return [g.Mul(rows, g.Unsqueeze(g.Cast(steps, to=1), g.ints(1)))]


@case
def a_range_from_a_size(g, rows, _):
    count, one = g.Squeeze(size(g, rows)), g.scalar(1, "i64")
    return [g.Range(count, g.scalar(ROWS + 2, "i64"), one), g.Range(g.scalar(2, "i64"), count, one),
            g.Range(count, g.Add(g.Add(count, one), g.scalar(3, "i64")), one)]


@case
def pads_up_to_a_size(g, rows, _):
    missing = g.Max(g.Sub(g.ints(7), size(g, rows)), g.ints(0))
    rest = g.Mod(g.Sub(g.ints(4), g.Mod(size(g, rows), g.ints(4))), g.ints(4))
    end = g.Concat(g.ints(0), g.ints(0), missing, g.ints(0), axis=0)
    both = g.Concat(rest, g.ints(1), g.Min(size(g, rows), g.ints(2)), g.ints(2), axis=0)
    return [g.Pad(rows, end), g.Pad(rows, both, g.scalar(-1.0)), g.Cast(g.Shape(g.Pad(rows, both)), to=1)]


@case
def concats(g, rows, _):
    both = g.Concat(rows, g.weight(2, 6), g.Neg(rows), axis=0)
    turned = g.Transpose(rows, perm=[1, 0])
    return [both, g.Concat(turned, g.weight(6, 1), axis=1), g.Cast(g.Shape(both), to=1)]


@case
def slices_by_numbers(g, rows, _):
    def cut(start, end, step=1, axis=0):
        return g.Slice(rows, g.ints(start), g.ints(end), g.ints(axis), g.ints(step))
    return [cut(0, 3), cut(1, 1 << 62, 2), cut(-3, 1 << 62), cut(0, -1), cut(1, 5, axis=1)]


@case
def slices_by_sizes_meet_again(g, rows, places):
    most = g.Min(size(g, rows), g.ints(4))
    first = g.Slice(rows, g.ints(0, 1), g.Concat(most, g.ints(5), axis=0), g.ints(0, 1))
    which = g.Slice(places, g.ints(0), most, g.ints(0))
    return [g.Mul(first, g.Unsqueeze(g.Cast(which, to=1), g.ints(1)))]


@case
def the_best_of_them(g, rows, _):
    score = g.ReduceSum(rows, g.ints(1), keepdims=0)
    most = g.ReduceMin(g.Concat(g.ints(4), size(g, rows), axis=0), keepdims=1)
    best, which = g.node("TopK", [score, most], outputs=2, axis=0)
    least, _ = g.node("TopK", [score, most], outputs=2, axis=0, largest=0)
    return [best, g.Mul(g.Gather(rows, which), g.Unsqueeze(least, g.ints(1)))]


@case
def images(g, rows, _):
    x = g.Reshape(rows, g.ints(-1, 1, 2, 3))
    y = g.Relu(g.Conv(x, g.weight(4, 1, 2, 2), g.weight(4), pads=[1, 1, 0, 0]))
    return [g.ConvTranspose(y, g.weight(4, 2, 2, 2), strides=[2, 2])]


@case
def regions(g, rows, _):
    boxes = g.Slice(rows, g.ints(0), g.ints(4), g.ints(1))
    boxes = g.Concat(g.Mul(g.Slice(boxes, g.ints(0), g.ints(2), g.ints(1)), g.scalar(0.1)),
                     g.Add(g.Abs(g.Slice(boxes, g.ints(2), g.ints(4), g.ints(1))), g.scalar(2.0)), axis=1)
    batch = g.ConstantOfShape(size(g, rows), value=tensor("i64", [1], [0]))
    return [g.RoiAlign(g.weight(1, 3, 8, 8), boxes, batch, output_height=2, output_width=2, sampling_ratio=2)]


def build(make, picked, is_plain):
    g = Case()
    x = g.given("x", "f32", [ROWS], [1.0 if i in picked else -1.0 for i in range(ROWS)])
    places = g.Squeeze(g.NonZero(g.Greater(x, g.scalar(0.0))), g.ints(0))
    if is_plain:
        places = g.ints(*picked)
    outputs = [g.Cast(out, to=1) for out in make(g, g.Gather(g.weight(ROWS, 6), places), places)]
    for name in outputs:
        g.output(name, dims=None)
    return g, outputs


def check(rlx, folder, name, picked):
    found = []
    for is_plain in (False, True):
        g, outputs = build(CASES[name], picked, is_plain)
        part = name + ("-plain" if is_plain else "")
        with open(os.path.join(folder, part + ".onnx"), "wb") as file:
            file.write(g.model())
        problem, values = run(rlx, folder, part, g, outputs, ["--device", "cpu:scalar"] if is_plain else [])
        if problem:
            return "%s: %s" % (part, problem)
        found.append([item for value in values for item in value])
    return differs(found[0], found[1], 1e-6, 1e-5)


def main():
    rlx, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CASES)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for picked in ([0, 2, 3, 5, 8], list(range(ROWS)), [4], []):
                problem = check(rlx, folder, name, picked)
                failed += problem is not None
                if problem is not None:
                    print("%s, %d rows: %s" % (name, len(picked), problem.strip()))
    print("%d graphs, %d failed" % (len(names), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
