# SPDX-License-Identifier: Apache-2.0
"""Kinds of cases for draw.py: each draws a name and a case as ops.py has them, a function that builds the graph and the
inputs. What is drawn is a shape; the names of values in it are those of ops.py."""
import math

from ops import conv, conv_transpose, f32, i64, unary

CHANNELS = [3, 8, 12, 16, 20, 24, 32, 40, 48, 64, 72, 96, 120, 128, 192, 256]
SIDES = [5, 7, 10, 13, 14, 20, 26, 28, 40, 52, 56, 80, 100, 112]
SIZES = [2, 3, 5, 8, 16, 33, 64, 100, 128, 256]
KINDS = {}


def kind(draw):
    KINDS[draw.__name__] = draw
    return draw


def drawn_dims(r, least, most, sizes, limit=2000000):
    dims = [r.choice(sizes) for _ in range(r.randint(least, most))]
    while math.prod(dims) > limit:
        dims[r.randrange(len(dims))] = 4
    return dims


@kind
def conv2d(r):
    while True:
        inputs, outputs, side, stride, apart = (r.choice(CHANNELS), r.choice(CHANNELS), r.choice(SIDES),
                r.choice([1, 1, 1, 2]), r.choice([1, 1, 1, 2, 3]))
        height, width = (r.choice([(1, 1), (1, 1), (3, 3), (3, 3), (5, 5), (7, 7), (1, 7), (7, 1), (3, 1), (2, 2),
                (4, 4)]))
        weights = inputs * outputs * height * width
        if weights <= 600000 and weights * side * side <= 3e8 and (max(height, width) - 1) * apart < side:
            break
    batch, padding = r.choice([1, 1, 1, 2, 4]), r.choice([0, 1])
    pads = [(height - 1) * apart // 2 * padding, (width - 1) * apart // 2 * padding] * 2
    name = "conv %dx%d, %d to %d of %d, batch %d, stride %d, apart %d, pads %s" % (height, width, inputs, outputs,
            side, batch, stride, apart, pads)
    return name, (conv(outputs, inputs, height, width, pads=pads, strides=[stride] * 2, dilations=[apart] * 2),
            {"x": f32(batch, inputs, side, side)})


@kind
def conv_chain(r):
    inputs, outputs, side, taps = (r.choice([16, 24, 32, 48, 64, 96, 128]), r.choice([16, 32, 64, 96]),
            r.choice(SIDES), r.choice([1, 3]))

    def build(g):
        y = g.Relu(g.Conv("x", g.weight(outputs, inputs, 1, 1), g.weight(outputs)))
        depthwise = taps == 3
        y = g.Relu(g.Conv(y, g.weight(outputs, 1 if depthwise else outputs, taps, taps), pads=[taps // 2] * 4,
                group=outputs if depthwise else 1))
        return g.Conv(y, g.weight(inputs, outputs, 1, 1))
    return "conv chain %d, %d, %d of %d, %d taps" % (inputs, outputs, inputs, side, taps), (build,
            {"x": f32(1, inputs, side, side)})


@kind
def conv_groups(r):
    while True:
        groups, inputs = r.choice([2, 3, 4, 6, 8, 12, 16, 24, 32, 40]), r.choice([1, 2, 3, 4, 6, 8, 16, 32, 64])
        outputs, side, taps = (r.choice([inputs, inputs, 2 * inputs, max(1, inputs // 2)]), r.choice(SIDES),
                r.choice([1, 3, 3, 5]))
        if groups * max(inputs, outputs) <= 512 and groups * outputs * inputs * taps * taps * side * side <= 2e8:
            break
    stride = r.choice([1, 1, 2])
    name = "conv %dx%d, %d groups of %d to %d, of %d, stride %d" % (taps, taps, groups, inputs, outputs, side, stride)
    return name, (conv(groups * outputs, inputs, taps, taps, pads=[taps // 2] * 4, strides=[stride] * 2,
            group=groups), {"x": f32(1, groups * inputs, side, side)})


@kind
def conv1d(r):
    while True:
        inputs, outputs, taps, length = (r.choice(CHANNELS), r.choice(CHANNELS), r.choice([1, 2, 3, 5, 7, 8, 11, 16]),
                r.choice([30, 50, 100, 200, 500, 1000, 3000]))
        if inputs * outputs * taps <= 400000 and inputs * outputs * taps * length <= 3e8:
            break
    stride, apart, batch, groups = (r.choice([1, 1, 2, taps]), r.choice([1, 1, 2, 4]), r.choice([1, 1, 4]),
            r.choice([1, 1, 1, inputs]))
    outputs = inputs if groups > 1 else outputs
    name = "conv 1d, %d taps, %d to %d of %d, stride %d, apart %d, batch %d, %d groups" % (taps, inputs, outputs,
            length, stride, apart, batch, groups)
    pads = [(taps - 1) * apart // 2] * 2
    return name, (conv(outputs, inputs // groups, taps, pads=pads, strides=[stride], dilations=[apart], group=groups),
            {"x": f32(batch, inputs, length)})


@kind
def conv3d(r):
    inputs, outputs, taps, side, stride = (r.choice([3, 8, 16, 32]), r.choice([8, 16, 32, 48]), r.choice([1, 3, 3]),
            r.choice([8, 14, 16, 24]), r.choice([1, 2]))
    name = "conv 3d, %d taps, %d to %d of %d, stride %d" % (taps, inputs, outputs, side, stride)
    return name, (conv(outputs, inputs, taps, taps, taps, pads=[taps // 2] * 6, strides=[stride] * 3),
            {"x": f32(1, inputs, side, side, side)})


@kind
def conv_transposed(r):
    while True:
        inputs, outputs, side = (r.choice([8, 16, 24, 32, 64, 128]), r.choice([1, 3, 8, 16, 32, 64]),
                r.choice([8, 13, 16, 20, 32, 40, 64]))
        taps, stride, pad = r.choice([(2, 2, 0), (3, 2, 1), (4, 2, 1), (4, 4, 0), (3, 1, 1), (5, 2, 2), (8, 4, 2)])
        groups = r.choice([1, 1, 1, 2, inputs])
        outputs = inputs if groups == inputs else outputs
        if outputs % groups == 0 and inputs * outputs * taps * taps * side * side <= 4e8:
            break
    name = "conv transposed %dx%d, %d to %d of %d, stride %d, %d groups" % (taps, taps, inputs, outputs, side, stride,
            groups)
    return name, (conv_transpose(inputs, outputs // groups, taps, taps, strides=[stride] * 2, pads=[pad] * 4,
            group=groups), {"x": f32(1, inputs, side, side)})


@kind
def matmul(r):
    m, k, n = (r.choice([1, 2, 3, 5, 8, 16, 17, 31, 50, 77, 128, 196, 400]),
            r.choice([16, 32, 64, 100, 192, 256, 300, 512, 768]),
            r.choice([1, 2, 8, 10, 32, 64, 96, 100, 192, 256, 384, 768, 1000]))
    return "matmul %d x %d x %d" % (m, k, n), (lambda g: g.Add(g.MatMul("x", g.weight(k, n)), g.weight(n)),
            {"x": f32(m, k)})


@kind
def matmul_batch(r):
    while True:
        b, m, k, n = (r.choice([1, 2, 4, 8, 12, 16, 48, 64, 256]), r.choice([1, 2, 4, 8, 16, 17, 32, 49, 100, 197]),
                r.choice([1, 4, 8, 16, 32, 49, 64, 80, 128]), r.choice([1, 3, 8, 16, 32, 49, 100, 128, 197]))
        if b * m * k * n <= 2e8:
            break
    if r.random() < 0.5:
        return "matmul %d of %d x %d x %d, turned" % (b, m, k,
                n), (lambda g: g.MatMul("x", g.Transpose("y", perm=[0, 2, 1])),
                {"x": f32(b, m, k), "y": f32(b, n, k)})
    return "matmul %d of %d x %d x %d" % (b, m, k, n), (lambda g: g.MatMul("x", "y"),
            {"x": f32(b, m, k), "y": f32(b, k, n)})


@kind
def attention(r):
    heads, queries, keys, depth = (r.choice([1, 2, 4, 6, 8, 12, 16]),
            r.choice([1, 4, 16, 33, 64, 100, 128, 197, 256]), r.choice([16, 33, 64, 100, 128, 197, 256]),
            r.choice([8, 16, 32, 40, 64, 80, 128]))

    def build(g):
        scores = g.Mul(g.MatMul("x", g.Transpose("y", perm=[0, 1, 3, 2])), g.scalar(depth ** -0.5))
        return g.MatMul(g.Softmax(scores, axis=-1), "z")
    return "attention, %d heads, %d x %d x %d" % (heads, queries, keys, depth), (build,
            {"x": f32(1, heads, queries, depth), "y": f32(1, heads, keys, depth), "z": f32(1, heads, keys, depth)})


@kind
def pool(r):
    channels, side, op, batch = (r.choice(CHANNELS), r.choice(SIDES), r.choice(["MaxPool", "AveragePool"]),
            r.choice([1, 1, 4]))
    taps, stride = r.choice([k for k in (2, 3, 3, 5, 7) if k <= side]), r.choice([1, 2, 3])
    attrs = {"kernel_shape": [taps] * 2, "strides": [stride] * 2, "pads": [r.choice([0, taps // 2])] * 4}
    if r.random() < 0.2:
        attrs["ceil_mode"] = 1
    name = "%s %dx%d, %d x %d of %d, stride %d, pads %d%s" % (op, taps, taps, batch, channels, side, stride,
            attrs["pads"][0], ", ceil" if "ceil_mode" in attrs else "")
    return name, (unary(op, **attrs), {"x": f32(batch, channels, side, side)})


@kind
def reduce(r):
    dims = drawn_dims(r, 2, 4, SIZES)
    axes = sorted(r.sample(range(len(dims)), r.randint(1, len(dims) - 1)))
    op = r.choice(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd", "ReduceL1", "ReduceSumSquare",
            "ReduceLogSumExp"])
    return "%s %s along %s" % (op, dims, axes), (unary(op, axes=axes), {"x": f32(*dims)})


@kind
def softmax(r):
    dims = drawn_dims(r, 2, 4, SIZES + [49, 197, 1000])
    axis, op = (r.choice([len(dims) - 1] * 3 + [r.randrange(len(dims))]),
            r.choice(["Softmax", "Softmax", "LogSoftmax"]))
    return "%s %s along %d" % (op, dims, axis), (unary(op, axis=axis), {"x": f32(*dims)})


@kind
def norm(r):
    rows, n = r.choice([1, 4, 16, 64, 197, 512, 1000]), r.choice([3, 8, 24, 64, 100, 128, 256, 384, 768, 1024])
    channels, side, form = (r.choice([8, 16, 32, 64, 128, 256]), r.choice(SIDES),
            r.choice(["layer", "layer", "rms", "instance", "batch", "lrn"]))
    forms = {"layer": lambda g: g.LayerNormalization("x", g.weight(n), g.weight(n), axis=-1),
             "rms": lambda g: g.Mul(g.Div("x", g.Sqrt(g.Add(g.ReduceMean(g.Mul("x", "x"), axes=[-1]), g.scalar(1e-5)))), g.weight(n)),
             "instance": lambda g: g.InstanceNormalization("x", g.weight(channels), g.weight(channels)),
             "batch": lambda g: g.BatchNormalization("x", g.weight(channels), g.weight(channels), g.weight(channels), g.positive(channels)),
             "lrn": lambda g: g.LRN("x", size=5)}
    dims = (rows, n) if form in ("layer", "rms") else (1, channels, side, side)
    return "%s norm of %s" % (form, list(dims)), (forms[form], {"x": f32(*dims)})


@kind
def elementwise(r):
    ops = ["Exp", "Tanh", "Sigmoid", "Relu", "Erf", "Neg", "Abs", "Softplus", "Elu", "Selu", "HardSwish",
            "HardSigmoid", "LeakyRelu", "Floor", "Round", "Sin", "Cos", "Softsign", "Mish", "Sign", "Atan"]
    if r.random() < 0.5:
        op, n = r.choice(ops), r.choice([100, 1000, 10000, 65536, 262144, 1000000])
        return "%s of %d" % (op, n), (unary(op), {"x": f32(n)})
    dims = drawn_dims(r, 2, 4, SIZES + [1])
    other, op = [d if r.random() < 0.6 else 1 for d in dims], r.choice(["Add", "Mul", "Div", "Sub", "Max"])
    return "%s of %s and %s" % (op, dims, other), (lambda g: g.node(op, ["x", "y"]),
            {"x": f32(*dims), "y": f32(*other)})


@kind
def integers(r):
    dims, op, to = (drawn_dims(r, 1, 3, [2, 5, 16, 33, 100, 256]),
            r.choice(["Add", "Mul", "Div", "Sub", "Max", "Less", "Mod"]), r.choice(["i32", "i64"]))

    def build(g):
        x, y = (g.Cast(v, to=6) if to == "i32" else v for v in ("x", "i"))
        if op in ("Div", "Mod"):
            y = g.Add(g.Abs(y), g.const(to, [1], [1]))
        return g.Cast(g.node(op, [x, y]), to=1)
    return "%s of %s %s" % (op, to, dims), (build, {"x": i64(*dims), "i": i64(*dims)})


@kind
def transpose(r):
    dims = drawn_dims(r, 2, 5, [2, 3, 4, 5, 8, 12, 16, 32, 33, 56, 64, 100, 128], 1500000)
    perm = list(range(len(dims)))
    r.shuffle(perm)
    if r.random() < 0.5:
        return "transpose %s by %s" % (dims, perm), (unary("Transpose", perm=perm), {"x": f32(*dims)})
    return "transpose %s by %s, relu" % (dims, perm), (lambda g: g.Relu(g.Transpose("x", perm=perm)),
            {"x": f32(*dims)})


@kind
def move(r):
    dims = [r.choice([2, 8, 16, 33, 64, 100]), r.choice([4, 16, 33, 64, 128]), r.choice([1, 4, 16, 33, 64, 100, 256])]
    axis, count, step, mode = (r.randrange(3), r.choice([1, 5, 32, 200]), r.choice([2, 3, -1]),
            r.choice(["constant", "reflect", "edge"]))
    size, x = dims[axis], {"x": f32(*dims)}
    rows = [r.randrange(size) for _ in range(count)]
    pads = [r.choice([0, 1, 3]) if d > 3 else 0 for d in dims] * 2
    places = [v for _ in range(500) for v in (r.randrange(dims[0]), r.randrange(dims[1]))]
    repeats = [3 if i == axis else 1 for i in range(3)]
    thin = [1 if i == axis else d for i, d in enumerate(dims)]
    forms = {"gather %d" % count: (lambda g: g.Gather("x", g.const("i64", [count], rows), axis=axis), x),
             "gather elements": (lambda g: g.GatherElements("x", g.Mod("i", g.scalar(size, "i64")), axis=axis), dict(x, i=i64(*dims))),
             "scatter elements": (lambda g: g.ScatterElements("x", g.Mod("i", g.scalar(size, "i64")), "x", axis=axis, reduction="add"), dict(x, i=i64(*dims))),
             "gather nd": (lambda g: g.GatherND("x", g.const("i64", [500, 2], places)), x),
             "slice": (lambda g: g.Slice("x", g.ints(size // 4), g.ints(max(size // 4 + 1, size * 3 // 4)), g.ints(axis)), x),
             "slice by %d" % step: (lambda g: g.Slice("x", g.ints(0 if step > 0 else -1), g.ints(100000 if step > 0 else -100000), g.ints(axis), g.ints(step)), x),
             "pad %s %s" % (mode, pads): (lambda g: g.Pad("x", g.ints(*pads), mode=mode), x),
             "concat": (lambda g: g.Concat("x", "x", "x", axis=axis), x),
             "expand": (lambda g: g.Expand("x", g.ints(*dims)), {"x": f32(*thin)}),
             "tile": (lambda g: g.Tile("x", g.ints(*repeats)), x),
             "cumsum": (lambda g: g.CumSum("x", g.scalar(axis, "i64")), x),
             "top k": (lambda g: g.node("TopK", ["x", g.ints(min(size, 5))], outputs=2, axis=axis)[0], x)}
    form = r.choice(list(forms))
    return "%s of %s along %d" % (form, dims, axis), forms[form]


@kind
def resize(r):
    channels, height, width = (r.choice([3, 16, 32, 64]), r.choice([10, 20, 40, 64, 100]),
            r.choice([10, 20, 40, 64, 100]))
    out = [r.choice([height * 2, height * 4, height // 2, 77]), r.choice([width * 2, width * 4, width // 2, 91])]
    mode, how = (r.choice(["nearest", "linear", "linear", "cubic"]),
            r.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]))
    name = "resize %s, %s, %d of %d x %d to %s" % (mode, how, channels, height, width, out)
    return name, (lambda g: g.Resize("x", "", "", g.ints(1, channels, *out), mode=mode,
            coordinate_transformation_mode=how), {"x": f32(1, channels, height, width)})


@kind
def recurrent(r):
    op, gates = r.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    hidden, inputs, steps, batch, ways = (r.choice([8, 20, 32, 64, 100, 128]), r.choice([8, 16, 40, 64, 128]),
            r.choice([1, 4, 16, 50]), r.choice([1, 1, 2, 4, 16]), r.choice([1, 1, 2]))
    attrs = {"direction": "bidirectional"} if ways == 2 else {}

    def build(g):
        weights = [g.weight(ways, gates * hidden, inputs), g.weight(ways, gates * hidden, hidden),
                g.weight(ways, 2 * gates * hidden)]
        return g.node(op, ["x"] + weights, hidden_size=hidden, **attrs)
    return "%s, %d steps of %d, batch %d, %d hidden, %d ways" % (op, steps, inputs, batch, hidden, ways), (build,
            {"x": f32(steps, batch, inputs)})
