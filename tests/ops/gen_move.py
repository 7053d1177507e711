#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the movement, state and control-flow cases: CASES/<family>/<case>/{model.rlx,in_N.npy,out_N.npy}.

Expected values come from plain loops over coordinates on nested indices, by the definitions in
ops.def; nothing is shared with the library. Seeded: the same files on every machine.
usage: gen_move.py [CASES]   (default: cases beside this file)
"""
import itertools
import os
import random
import struct
import sys

NPY = {"f64": ("<f8", "d"), "f32": ("<f4", "f"), "f16": ("<f2", "e"), "i64": ("<i8", "q"),
       "i32": ("<i4", "i"), "i16": ("<i2", "h"), "i8": ("|i1", "b"), "u8": ("|u1", "B"),
       "u16": ("<u2", "H"), "u32": ("<u4", "I"), "u64": ("<u8", "Q"), "bool": ("|b1", "?")}


class Array:
    """A dense array: dtype, shape, and a dict from coordinates to numbers."""

    def __init__(self, dtype, shape, function):
        self.dtype, self.shape = dtype, tuple(shape)
        self.at = {place: function(*place) for place in self.places()}

    def places(self):
        return itertools.product(*(range(dim) for dim in self.shape))

    def __getitem__(self, place):
        return self.at[tuple(place)]

    def type(self):
        return "%s[%s]" % (self.dtype, ", ".join(str(dim) for dim in self.shape))

    def bytes(self):
        descr, code = NPY[self.dtype]
        shape = "(%s)" % "".join("%d, " % dim for dim in self.shape).rstrip()
        header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
        header += " " * (-(len(header) + 11) % 64) + "\n"
        start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
        return start + b"".join(struct.pack("<" + code, self.at[p]) for p in self.places())


RANDOM = random.Random(20)


def filled(dtype, *shape):
    """Numbers that every dtype holds exactly."""
    if dtype == "bool":
        return Array(dtype, shape, lambda *p: RANDOM.random() < 0.5)
    low = 0 if dtype[0] == "u" else -50
    scale = 0.25 if dtype[0] == "f" else 1
    return Array(dtype, shape, lambda *p: RANDOM.randint(low, 50) * scale)


def listed(dtype, shape, numbers):
    source = iter(numbers)
    return Array(dtype, shape, lambda *p: next(source))


def ints(items):
    return "[%s]" % ", ".join(str(item) for item in items)


class Cases:
    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def write(self, family, name, inputs, body, outputs):
        """`body` uses x0, x1, .. and names its results y0, y1, ..; `outputs` are expected."""
        folder = os.path.join(self.folder, family, name)
        os.makedirs(folder, exist_ok=True)
        lines = ["rlx 1"]
        lines += ["input x%d : %s" % (i, x.type()) for i, x in enumerate(inputs)]
        lines += [body]
        lines += ["output y%d" % i for i in range(len(outputs))]
        with open(os.path.join(folder, "model.rlx"), "w") as file:
            file.write("\n".join(lines) + "\n")
        for prefix, arrays in (("in", inputs), ("out", outputs)):
            for i, array in enumerate(arrays):
                with open(os.path.join(folder, "%s_%d.npy" % (prefix, i)), "wb") as file:
                    file.write(array.bytes())
        self.count += 1


def slices(cases):
    def case(name, x, **axes):
        """axes: letter of the axis (a = 0) to (start, end, step)."""
        cut = {ord(letter) - ord("a"): value for letter, value in axes.items()}
        kept = []
        for axis, dim in enumerate(x.shape):
            start, end, step = cut.get(axis, (0, dim, 1))
            kept.append(list(range(dim))[start:end:step])
        y = Array(x.dtype, [len(k) for k in kept],
                  lambda *p: x[[kept[i][at] for i, at in enumerate(p)]])
        body = "y0 = slice(x0) starts=%s ends=%s axes=%s steps=%s" % tuple(
            ints(row) for row in ([v[0] for v in cut.values()], [v[1] for v in cut.values()],
                                  list(cut), [v[2] for v in cut.values()]))
        cases.write("move", "slice_" + name, [x], body, [y])

    case("rows", filled("f32", 5, 4), a=(1, 4, 1))
    case("steps", filled("i64", 7, 5, 2), a=(0, 7, 3), b=(1, 5, 2))
    case("backwards", filled("f32", 4, 6), b=(5, 0, -2))
    case("from_the_end", filled("u8", 6, 3), a=(-3, -1, 1))
    case("past_the_end", filled("f16", 4, 3), a=(2, 1000, 1))
    case("empty", filled("f32", 4, 3), a=(3, 1, 1))


def joins(cases):
    def concat(name, axis, *inputs):
        place = axis % len(inputs[0].shape)
        shape, owner = list(inputs[0].shape), []
        for k, x in enumerate(inputs):
            owner += [(k, i) for i in range(x.shape[place])]
        shape[place] = len(owner)

        def take(*p):
            k, i = owner[p[place]]
            return inputs[k][p[:place] + (i,) + p[place + 1:]]

        body = "y0 = concat(%s) axis=%d" % (", ".join("x%d" % k for k in range(len(inputs))), axis)
        cases.write("move", "concat_" + name, list(inputs), body,
                    [Array(inputs[0].dtype, shape, take)])

    concat("rows", 0, filled("f32", 2, 3), filled("f32", 1, 3), filled("f32", 4, 3))
    concat("columns", -1, filled("bool", 2, 3), filled("bool", 2, 2))
    concat("middle", 1, filled("i16", 2, 3, 2), filled("i16", 2, 1, 2))
    concat("with_empty", 0, filled("f32", 0, 2), filled("f32", 3, 2))

    def split(name, axis, x, sizes, attribute):
        outputs, start = [], 0
        for size in sizes:
            shape = list(x.shape)
            shape[axis] = size
            outputs.append(Array(x.dtype, shape, lambda *p, s=start: x[
                [at + (s if i == axis else 0) for i, at in enumerate(p)]]))
            start += size
        body = "%s = split(x0) axis=%d%s" % (
            ", ".join("y%d" % k for k in range(len(sizes))), axis,
            " sizes=" + ints(sizes) if attribute else "")
        cases.write("move", "split_" + name, [x], body, outputs)

    split("sizes", 1, filled("f32", 2, 7), [1, 4, 2], True)
    split("equal", 0, filled("i32", 6, 2), [2, 2, 2], False)
    split("last_is_smaller", 0, filled("f32", 7, 2), [3, 3, 1], False)
    split("an_empty_part", 1, filled("f64", 2, 3), [3, 0], True)


def pads(cases):
    def source(mode, size, at):
        line = list(range(size))
        if mode == "wrap":
            return (line * 40)[at + 20 * size]
        if mode == "edge":
            return ([0] * 20 * size + line + [size - 1] * 20 * size)[at + 20 * size]
        if mode == "reflect":
            wave = line + line[-2:0:-1]
            return (wave * 40)[at + 20 * len(wave)]
        return at if 0 <= at < size else None

    def case(name, x, pads_of, mode="constant", value=0):
        rank = len(x.shape)
        begins, ends = pads_of[:rank], pads_of[rank:]
        shape = [dim + begins[i] + ends[i] for i, dim in enumerate(x.shape)]

        def take(*p):
            places = []
            for i, at in enumerate(p):
                crop, lead = max(-begins[i], 0), max(begins[i], 0)
                size = x.shape[i] - crop - max(-ends[i], 0)
                at = source(mode, size, at - lead)
                if at is None:
                    return value
                places.append(at + crop)
            return x[places]

        body = "y0 = pad(x0) pads=%s mode=%s value=%s" % (ints(pads_of), mode, value)
        cases.write("move", "pad_" + name, [x], body, [Array(x.dtype, shape, take)])

    case("constant", filled("f32", 2, 3), [1, 0, 0, 2], value=1.5)
    case("integers", filled("i64", 2, 3), [0, 1, 1, 1], value=-7)
    case("reflect", filled("f32", 3, 4), [2, 3, 1, 2], mode="reflect")
    case("reflect_twice", filled("f32", 3), [5, 6], mode="reflect")
    case("edge", filled("u8", 2, 3), [1, 2, 3, 1], mode="edge")
    case("wrap", filled("f32", 3, 2), [2, 3, 1, 5], mode="wrap")
    case("crop", filled("f32", 4, 5), [-1, 1, 2, -2], value=3)
    case("crop_and_wrap", filled("f32", 6), [-2, 3], mode="wrap")


def shapes(cases):
    def reorder(name, op, x, shape, attrs):
        order = iter([x[p] for p in x.places()])
        y = Array(x.dtype, shape, lambda *p: next(order))
        cases.write("move", name, [x], "y0 = %s(x0) %s" % (op, attrs), [y])

    reorder("reshape_infer", "reshape", filled("f32", 2, 6), [3, 4], "shape=[3, -1]")
    reorder("reshape_copy_dim", "reshape", filled("i8", 2, 3, 4), [2, 12], "shape=[0, -1]")
    reorder("reshape_to_scalar", "reshape", filled("f32", 1, 1), [], "shape=[]")
    reorder("squeeze_all", "squeeze", filled("f32", 1, 3, 1), [3], "")
    reorder("squeeze_one", "squeeze", filled("f32", 1, 3, 1), [1, 3], "axes=[-1]")
    reorder("unsqueeze", "unsqueeze", filled("bool", 3), [1, 3, 1], "axes=[0, -1]")
    reorder("flatten", "flatten", filled("f32", 2, 3, 4), [6, 4], "axis=2")
    reorder("flatten_at_0", "flatten", filled("f32", 2, 3), [1, 6], "axis=0")

    x = filled("f32", 2, 3, 4)
    cases.write("move", "transpose", [x], "y0 = transpose(x0) perm=[1, 2, 0]",
                [Array("f32", [3, 4, 2], lambda a, b, c: x[c, a, b])])
    m = filled("u16", 3, 5)
    cases.write("move", "transpose_reversed", [m], "y0 = transpose(x0)",
                [Array("u16", [5, 3], lambda a, b: m[b, a])])
    e = filled("f32", 3, 1)
    cases.write("move", "expand", [e], "y0 = expand(x0) shape=[2, 1, 4]",
                [Array("f32", [2, 3, 4], lambda a, b, c: e[b, 0])])
    t = filled("f16", 2, 3)
    cases.write("move", "tile", [t], "y0 = tile(x0) shape=[2, 3]",
                [Array("f16", [4, 9], lambda a, b: t[a % 2, b % 3])])
    n = listed("f32", [2, 4], [0, 1.5, 0, -2, 3, 0, 0, -0.0])
    places = [p for p in n.places() if n[p] != 0]
    cases.write("move", "nonzero", [n], "y0, y1 = nonzero(x0)",
                [Array("i64", [2, len(places)], lambda a, b: places[b][a]),
                 Array("i64", [], lambda: len(places))])
    # What one view gives another, down to a copy.
    cases.write("move", "views_of_views", [x],
                "a = transpose(x0) perm=[2, 0, 1]\n"
                "b = slice(a) starts=[3] ends=[-100] axes=[0] steps=[-2]\n"
                "y0 = reshape(b) shape=[-1]",
                [listed("f32", [12], [x[j, k, i] for i in (3, 1) for j in range(2)
                                      for k in range(3)])])


def gathers(cases):
    x = filled("f32", 4, 3)
    i = listed("i64", [2, 2], [0, -1, 2, 2])
    cases.write("gather", "gather_rows", [x, i], "y0 = gather(x0, x1) axis=0",
                [Array("f32", [2, 2, 3], lambda a, b, c: x[i[a, b] % 4, c])])
    j = listed("i32", [2], [-3, 1])
    cases.write("gather", "gather_columns", [x, j], "y0 = gather(x0, x1) axis=-1",
                [Array("f32", [4, 2], lambda a, b: x[a, j[b,] % 3])])
    s = listed("i64", [], [-2])
    u = filled("u8", 5)
    cases.write("gather", "gather_one", [u, s], "y0 = gather(x0, x1)",
                [Array("u8", [], lambda: u[3,])])
    g = listed("i64", [2, 3], [0, 3, -1, -4, 1, 2])
    cases.write("gather", "gather_elements", [x, g], "y0 = gather_elements(x0, x1) axis=0",
                [Array("f32", [2, 3], lambda a, b: x[g[a, b] % 4, b])])
    z = filled("i16", 2, 3, 4)
    n = listed("i64", [2, 2], [1, -1, 0, 2])
    cases.write("gather", "gather_nd_rows", [z, n], "y0 = gather_nd(x0, x1)",
                [Array("i16", [2, 4], lambda a, b: z[n[a, 0] % 2, n[a, 1] % 3, b])])
    b = listed("i32", [2, 1], [-1, 0])
    cases.write("gather", "gather_nd_batch", [z, b], "y0 = gather_nd(x0, x1) batch_dims=1",
                [Array("i16", [2, 4], lambda a, c: z[a, b[a, 0] % 3, c])])


def scatters(cases):
    modes = {"set": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b,
             "min": min, "max": max}
    for mode, combine in modes.items():
        x = listed("f32", [3, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9])
        i = listed("i64", [3, 2], [0, 0, 2, 0, -1, 1])
        u = listed("f32", [3, 2], [2, 3, 0.5, -4, 10, 1])
        y = Array("f32", x.shape, lambda *p: x[p])
        for p in i.places():
            place = (i[p] % 3, p[1])
            y.at[place] = combine(y.at[place], u[p])
        cases.write("scatter", "scatter_elements_" + mode, [x, i, u],
                    "y0 = scatter_elements(x0, x1, x2) axis=0 mode=" + mode, [y])
        d = filled("i32", 4, 2)
        n = listed("i64", [3, 1], [1, -1, 1])
        v = filled("i32", 3, 2)
        w = Array("i32", d.shape, lambda *p: d[p])
        for p in v.places():
            place = (n[p[0], 0] % 4, p[1])
            w.at[place] = combine(w.at[place], v[p])
        cases.write("scatter", "scatter_nd_" + mode, [d, n, v],
                    "y0 = scatter_nd(x0, x1, x2) mode=" + mode, [w])


def states(cases):
    rows = filled("f32", 1, 2, 3)
    at = listed("i64", [], [2])
    cases.write("state", "write", [rows, at],
                "state s : f32[1, 6, 3]\ny0, y1 = state_write(s, x0, x1) axis=1",
                [Array("f32", [1, 4, 3], lambda a, b, c: rows[a, b - 2, c] if b >= 2 else 0),
                 Array("i64", [], lambda: 4)])
    late = listed("i64", [], [9])
    cases.write("state", "write_wraps", [rows, late],
                "state s : f32[1, 5, 3]\ny0, y1 = state_write(s, x0, x1) axis=1 wrap=true",
                [Array("f32", [1, 5, 3], lambda a, b, c: {4: rows[a, 0, c], 0: rows[a, 1, c]}.get(
                    b, 0)), Array("i64", [], lambda: 5)])
    third = Array("f32", [2, 2], lambda a, b: struct.unpack("<f", struct.pack(
        "<f", (1 + a + 2 * b) / 3))[0])
    first = listed("i64", [], [0])
    half = Array("f16", [2, 2], lambda a, b: third[a, b])  # packing as f16 rounds to even
    cases.write("state", "write_rounds_to_f16", [third, first],
                "state s : f16[2, 2]\ny0, y1 = state_write(s, x0, x1) axis=0 wrap=true",
                [half, Array("i64", [], lambda: 2)])


def flows(cases):
    x, y = filled("f32", 3), filled("f32", 3)
    for name, flag in (("then", True), ("else", False)):
        c = listed("bool", [], [flag])
        cases.write("flow", "if_" + name, [c, x, y],
                    "y0, y1 = if(x0) {\n    t = add(x1, x2)\n    yield t, x1\n} else {\n"
                    "    t2 = sub(x1, x2)\n    yield t2, x2\n}",
                    [Array("f32", [3], lambda a: x[a,] + y[a,] if flag else x[a,] - y[a,]),
                     Array("f32", [3], lambda a: x[a,] if flag else y[a,])])
    for name, trips in (("some", 3), ("none", 0), ("all", 4)):
        n = listed("i64", [], [trips])
        start = filled("i64", 2)
        sums = [[start[a,] + i * (i + 1) // 2 for a in range(2)] for i in range(5)]
        cases.write("flow", "loop_" + name, [n, start],
                    "const go : bool[] = [true]\nconst unit : i64[] = [1]\n"
                    "y0, y1, y2 = loop(x0, go, x1) bound=4 (i, sum) {\n"
                    "    plus = add(i, unit)\n    next = add(sum, plus)\n"
                    "    yield go, next, sum\n}",
                    [Array("i64", [2], lambda a: sums[trips][a]),
                     Array("i64", [trips, 2], lambda i, a: sums[i][a]),
                     Array("i64", [], lambda: trips)])


def packs(cases):
    """There and back; and as an operand, where a packed value means what the plain one does."""
    layouts = ["columns16", "columns32", "columns16x2", "columns32x2", "columns32x4", "rows16",
               "rows32", "rows16x2", "rows32x2", "rows32x4", "channels8", "channels16"]
    for i, layout in enumerate(layouts):
        x = filled(["f32", "f16", "u8", "i64"][i % 4], 2, 11, 5, 37)
        cases.write("move", "pack_" + layout, [x],
                    "t = pack(x0) layout=%s\ny0 = pack(t) layout=plain" % layout, [x])
    x = filled("f32", 3, 9, 7)
    cases.write("move", "pack_again", [x],
                "s = pack(x0) layout=channels8\nt = pack(s) layout=rows16\n"
                "y0 = pack(t) layout=plain", [x])
    for layout in layouts[:10]:
        turned, dtype = layout.startswith("rows"), "f32" if "x" not in layout else "i8"
        a, b = filled(dtype, 2, 3, 13), filled(dtype, 2, *([37, 13] if turned else [13, 37]))
        y = Array("f32" if dtype == "f32" else "i32", [2, 3, 37], lambda g, m, n: sum(
            a[g, m, k] * (b[g, n, k] if turned else b[g, k, n]) for k in range(13)))
        cases.write("matmul", "packed_" + layout, [a, b],
                    "p = pack(x1) layout=%s\ny0 = matmul(x0, p)%s%s" % (
                        layout, " transpose_b=true" if turned else "",
                        "" if dtype == "f32" else " to=i32"), [y])


def sums(cases):
    taps = [0, 4, 2, 1, 1, 5, 3, -1, 4, 4, 0, 0, 3, 2, 2, 9, 4, 1, -7, 0, 0, 0, 1, 4]
    for dtype, places in (("f32", "i32"), ("f16", "i64")):
        p, w, k = filled(dtype, 2, 3, 5), filled(dtype, 2, 3, 4), listed(places, [2, 3, 4], taps)
        cases.write("gather", "gather_sum_" + dtype, [p, k, w], "y0 = gather_sum(x0, x1, x2)",
                    [Array(dtype, [2, 3, 4], lambda n, c, i: sum(
                        w[n, t, i] * p[n, c, k[n, t, i]] for t in range(3) if 0 <= k[n, t, i] < 5))])
    for dtype, n in (("f32", 2), ("f16", 1)):
        p, w, k = filled(dtype, n, 3, 5, 9), filled(dtype, n, 3, 4), listed("i32", [n, 3, 4], taps[:12 * n])
        cases.write("gather", "gather_sum_rows_" + dtype, [p, k, w], "y0 = gather_sum(x0, x1, x2)",
                    [Array(dtype, [n, 3, 4, 9], lambda n, c, i, e: sum(
                        w[n, t, i] * p[n, c, k[n, t, i], e] for t in range(3) if 0 <= k[n, t, i] < 5))])


def main():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")
    cases = Cases(sys.argv[1] if len(sys.argv) > 1 else folder)
    for family in (slices, joins, pads, shapes, gathers, scatters, states, flows,
                   packs, sums):
        family(cases)
    print("%d cases" % cases.count)


main()
