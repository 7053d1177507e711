# SPDX-License-Identifier: Apache-2.0
"""Networks of integers and of f16, of sizes that only a run knows, and of ops that are rare elsewhere (arch_blocks.py).

Weights of 8 bits are small (Model.signed): ONNX Runtime saturates sums of two products where there is no VNNI.
"""
import math

from arch_blocks import image, network
from graphs import Graph, port, tensor  # arch_blocks knows where

SPREAD = 18  # standard deviation of Model.signed


def steps(g, scale, zero=0, dtype="u8"):
    """Scale and zero point."""
    return g.scalar(scale), g.scalar(zero, dtype)


def rounded(g, x, scale, zero=0):
    """To 8 bits and back, as QDQ models do between all layers."""
    return g.DequantizeLinear(g.QuantizeLinear(x, *steps(g, scale, zero)), *steps(g, scale, zero))


def int8_bias(g, outputs):
    numbers = [g.random.randrange(-500, 500) for _ in range(outputs)]
    return g.DequantizeLinear(g.const("i32", [outputs], numbers), g.const("f32", [outputs], [1e-4] * outputs),
                              g.const("i32", [outputs], [0] * outputs), axis=0)


def channel_scales(g, outputs, fan):
    usual = math.sqrt(2 / fan) / SPREAD
    return (g.const("f32", [outputs], [usual * (0.8 + 0.4 * g.random.random()) for _ in range(outputs)]),
            g.const("i8", [outputs], [0] * outputs))


def qdq_conv(g, x, inputs, outputs, size=1, stride=1, groups=1):
    weights = g.signed(outputs, inputs // groups, size, size)
    scales = channel_scales(g, outputs, inputs // groups * size * size)
    return g.Conv(x, g.DequantizeLinear(weights, *scales, axis=0), int8_bias(g, outputs), kernel_shape=[size] * 2,
                  strides=[stride] * 2, pads=[size // 2] * 4, group=groups)


def qdq_linear(g, x, inputs, outputs):
    weights = g.DequantizeLinear(g.signed(outputs, inputs), *steps(g, 1 / math.sqrt(inputs) / SPREAD, 0, "i8"))
    return g.Gemm(x, weights, int8_bias(g, outputs), transB=1)


@network(loose=0.05)
def mobilenetv2_qdq(g):
    """Inverted bottlenecks, quantised with scales per channel."""
    def conv(x, inputs, outputs, size=1, stride=1, groups=1, is_active=True):
        y = qdq_conv(g, x, inputs, outputs, size, stride, groups)
        return rounded(g, g.relu6(y), 6 / 255) if is_active else rounded(g, y, 10 / 255, 128)

    x = conv(rounded(g, image(g, 3, 224, 224), 2 / 255, 128), 3, 32, 3, 2)
    channels = 32
    for wide, outputs, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                         (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            inner = channels * wide
            y = conv(x, channels, inner) if wide > 1 else x
            y = conv(y, inner, inner, 3, 1 if i else stride, inner)
            y = conv(y, inner, outputs, is_active=False)
            x, channels = rounded(g, g.Add(x, y), 14 / 255, 128) if i else y, outputs
    x = rounded(g, g.GlobalAveragePool(conv(x, 320, 1280)), 3 / 255)
    g.result(qdq_linear(g, g.Flatten(x), 1280, 1000))


@network(loose=0.01)
def resnet_qlinear(g):
    """Residual blocks of QLinearConv, added in floats."""
    active, signed = (4 / 255, 0), (8 / 255, 128)

    def conv(x, before, inputs, outputs, size, stride, after):
        scales = channel_scales(g, outputs, inputs * size * size)
        bias = g.const("i32", [outputs], [g.random.randrange(-300, 300) for _ in range(outputs)])
        return g.QLinearConv(x, *steps(g, *before), g.signed(outputs, inputs, size, size), *scales, *steps(g, *after), bias,
                             kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)

    x = g.QuantizeLinear(image(g, 3, 112, 112), *steps(g, 2 / 255, 128))
    x, channels = g.max_pool(conv(x, (2 / 255, 128), 3, 64, 7, 2, active), 3, 2, 1), 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2)):
        y = conv(x, active, channels, outputs, 3, stride, active)
        y = g.DequantizeLinear(conv(y, active, outputs, outputs, 3, 1, signed), *steps(g, *signed))
        if stride > 1:
            short = g.DequantizeLinear(conv(x, active, channels, outputs, 1, stride, signed), *steps(g, *signed))
        else:
            short = g.DequantizeLinear(x, *steps(g, *active))
        x, channels = g.QuantizeLinear(g.Relu(g.Add(y, short)), *steps(g, *active)), outputs
    g.classify(g.DequantizeLinear(x, *steps(g, *active)), channels, 100)


@network(loose=0.01)
def resnet_qdq(g):
    """Residual blocks with QDQ everywhere, also around pools and a join."""
    def conv(x, inputs, outputs, size, stride):
        return rounded(g, g.Relu(qdq_conv(g, x, inputs, outputs, size, stride)), 4 / 255)

    x = conv(rounded(g, image(g, 3, 112, 112), 2 / 255, 128), 3, 64, 7, 2)
    x, channels = rounded(g, g.max_pool(x, 3, 2, 1), 4 / 255), 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2)):
        y = rounded(g, qdq_conv(g, conv(x, channels, outputs, 3, stride), outputs, outputs, 3), 8 / 255, 128)
        short = rounded(g, qdq_conv(g, x, channels, outputs, 1, stride), 8 / 255, 128) if stride > 1 else x
        x, channels = rounded(g, g.Relu(g.Add(y, short)), 4 / 255), outputs
    x = rounded(g, g.AveragePool(x, kernel_shape=[7, 7], strides=[7, 7]), 4 / 255)
    x = g.reshape(rounded(g, g.join(x, x), 4 / 255), 1, -1)
    g.result(qdq_linear(g, x, 512, 100))


@network(input=["ids=0:1000"], loose=0.01)
def bert_dynamic(g):
    """An encoder after dynamic quantisation: products of integers whose scales are found on the way."""
    width, length = 256, 64
    x = g.Gather(g.weight(1000, width, scale=0.5), g.input("ids", "i64", [1, length]))
    x = g.norm(g.Add(x, g.weight(length, width, scale=0.3)), width)

    def product(x, inputs, outputs):
        y, scale, zero = g.node("DynamicQuantizeLinear", [x], outputs=3)
        y = g.Cast(g.MatMulInteger(y, g.signed(inputs, outputs), zero, g.scalar(0, "i8")), to=1)
        return g.Add(g.Mul(y, g.Mul(scale, g.scalar(1 / math.sqrt(inputs) / SPREAD))), g.bias(outputs))

    for _ in range(3):
        q, k, v = (g.heads(product(x, width, width), length, 4, 64) for _ in range(3))
        y = g.weighted(g.Div(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), g.scalar(8.0)), v)
        x = g.norm(g.Add(x, product(g.unite(y, length, width), width, width)), width)
        y = product(g.gelu(product(x, width, 4 * width)), 4 * width, width)
        x = g.norm(g.Add(x, y), width)
    g.result(x)


@network(loose=0.01)
def int8_matmul(g):
    """QLinearMatMul with scales per column, then a product between QDQ pairs."""
    def product(x, inputs, outputs, scale, zero):
        weights = g.signed(inputs, outputs), *channel_scales(g, outputs, 2 * inputs)
        y = g.QLinearMatMul(g.QuantizeLinear(x, *steps(g, scale, zero)), *steps(g, scale, zero), *weights,
                            *steps(g, 6 / 255, 128))
        return g.DequantizeLinear(y, *steps(g, 6 / 255, 128))

    y = product(g.input("x", "f32", [1, 32, 128]), 128, 256, 2 / 255, 128)
    y = rounded(g, product(g.Relu(y), 256, 128, 3 / 255, 0), 6 / 255, 128)
    weights = g.DequantizeLinear(g.signed(128, 64), *channel_scales(g, 64, 256), axis=1)
    g.result(g.Add(g.MatMul(y, weights), g.bias(64)))


@network(loose=0.01)
def conv_integer(g):
    """ConvInteger, a norm over neighbouring channels, a pool of roots of squares."""
    y, scale, zero = g.node("DynamicQuantizeLinear", [image(g, 8, 24, 24)], outputs=3)
    y = g.ConvInteger(y, g.signed(16, 8, 3, 3), zero, g.scalar(0, "i8"), kernel_shape=[3, 3], pads=[1] * 4)
    y = g.Relu(g.Add(g.Mul(g.Cast(y, to=1), g.Mul(scale, g.scalar(0.006))), g.bias(1, 16, 1, 1)))
    g.result(g.LRN(y, size=5), g.LpPool(y, kernel_shape=[2, 2], strides=[2, 2], p=2))


@network(loose=0.003)
def resnet_f16(g):
    """Residual blocks of f16."""
    x = g.Cast(image(g, 3, 64, 64), to=10)
    g.dtype = "f16"
    x, channels = g.max_pool(g.Relu(g.conv(x, 3, 32, 7, 2)), 3, 2, 1), 32
    for outputs, stride in ((32, 1), (64, 2)):
        y = g.conv(g.Relu(g.conv(x, channels, outputs, 3, stride)), outputs, outputs, 3)
        short = x if stride == 1 else g.conv(x, channels, outputs, 1, stride)
        x, channels = g.Relu(g.Add(y, short)), outputs
    g.result(g.Cast(g.linear(g.Flatten(g.GlobalAveragePool(x)), channels, 10), to=1))


@network(loose=0.003)
def vit_f16(g):
    """A transformer of f16."""
    width, length = 128, 64
    x = g.Cast(g.input("x", "f32", [1, length, width]), to=10)
    g.dtype = "f16"
    for _ in range(2):
        y = g.norm(x, width)
        q, k, v = (g.heads(g.product(y, width, width), length, 4, 32) for _ in range(3))
        y = g.weighted(g.Mul(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), g.number(32 ** -0.5)), v)
        x = g.Add(x, g.product(g.unite(y, length, width), width, width, False))
        x = g.Add(x, g.product(g.quick_gelu(g.product(x, width, 4 * width, False)), 4 * width, width, False))
    g.result(g.Cast(x, to=1))


@network()
def rcnn(g):
    """A detector of two stages: what NonMaxSuppression leaves is cut out by RoiAlign and judged again."""
    x, channels = image(g, 3, 128, 128), 3
    for outputs in (32, 64, 64):
        x, channels = g.Relu(g.conv(x, channels, outputs, 3, 2)), outputs
    found = g.reshape(g.turn(g.conv(x, 64, 3), 0, 2, 3, 1), 1, 768)
    moves = g.reshape(g.turn(g.conv(x, 64, 12), 0, 2, 3, 1), 768, 4)
    scores, best = g.node("TopK", [g.Sigmoid(found), g.ints(200)], outputs=2, axis=1)
    best, anchors = g.reshape(best, 200), []
    for row in range(0, 128, 8):
        for column in range(0, 128, 8):
            for more in (16, 24, 32):
                anchors += [column - 16.0, row - 16.0, float(column + more), float(row + more)]
    boxes = g.Add(g.Gather(g.const("f32", [768, 4], anchors), best, axis=0),
                  g.Mul(g.Gather(moves, best, axis=0), g.scalar(4.0)))
    boxes = g.Clip(boxes, g.scalar(0.0), g.scalar(128.0))
    kept = g.NonMaxSuppression(g.Unsqueeze(boxes, g.ints(0)), g.reshape(scores, 1, 1, 200), g.scalar(50, "i64"),
                               g.scalar(0.7))
    boxes = g.Gather(boxes, g.Squeeze(g.part(kept, 2, 3, 1), g.ints(1)), axis=0)
    images = g.ConstantOfShape(g.sizes(g.size_of(boxes, 0)), value=tensor("i64", [1], [0]))
    y = g.RoiAlign(x, boxes, images, output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.125)
    y = g.Relu(g.linear(g.Flatten(y), 64 * 49, 128))
    kinds = g.Softmax(g.linear(y, 128, 5), axis=1)
    objects = g.part(kinds, 1, 5, 1)
    sure = g.turn(g.NonZero(g.Greater(objects, g.scalar(0.25))), 1, 0)
    chosen = g.Gather(boxes, g.Squeeze(g.part(sure, 0, 1, 1), g.ints(1)), axis=0)
    g.result(kinds, g.GatherND(objects, sure), chosen)


@network()
def greedy_loop(g):
    """Words one after the other in a Loop: a GRU, a product, ArgMax."""
    table, product = g.weight(30, 32, scale=1.0), g.weight(32, 30)
    weights = g.weight(1, 96, 32, scale=0.2), g.weight(1, 96, 32, scale=0.2)
    body = Graph()
    body.count = 5000  # names are shared with the graph around
    body.inputs = [port("step", "i64", []), port("go", "bool", []), port("word", "i64", [1, 1]),
                   port("state", "f32", [1, 1, 32])]
    _, state = body.node("GRU", [body.Gather(table, "word"), *weights, "", "", "state"], outputs=2, hidden_size=32)
    scores = body.MatMul(body.Squeeze(state, body.ints(0)), product)
    word = body.ArgMax(scores, axis=1, keepdims=1)
    body.outputs = [port(body.Identity("go"), "bool", []), port(word, "i64", [1, 1]), port(state, "f32", [1, 1, 32]),
                    port(scores, "f32", [1, 30])]
    first = [g.scalar(12, "i64"), g.const("bool", [], [True]), g.const("i64", [1, 1], [0]),
             g.input("state0", "f32", [1, 1, 32])]
    word, _, scores = g.node("Loop", first, outputs=3, body=body)
    g.result(g.Cast(word, to=1), scores)


@network()
def stn(g):
    """An image turned by a matrix that the network finds: GridSample in two ways."""
    x = image(g, 1, 40, 40)
    y = g.Flatten(g.GlobalAveragePool(g.Relu(g.conv(x, 1, 16, 7))))
    y = g.Gemm(y, g.weight(6, 16, scale=0.05), g.const("f32", [6], [1.0, 0, 0, 0, 1, 0]), transB=1)
    points = [v for i in range(40) for j in range(40) for v in ((2 * j + 1) / 40 - 1, (2 * i + 1) / 40 - 1, 1.0)]
    grid = g.MatMul(g.const("f32", [1600, 3], points), g.turn(g.reshape(y, 1, 2, 3), 0, 2, 1))
    grid = g.reshape(grid, 1, 40, 40, 2)
    g.result(g.GridSample(x, grid, mode="bilinear", padding_mode="border", align_corners=0),
             g.GridSample(x, grid, mode="bicubic", padding_mode="zeros", align_corners=1))


@network(input=["pos=5"])
def static_cache(g):
    """A cache of fixed length that is written at a position by scatters and masked by it."""
    new, cache = g.input("new", "f32", [1, 2, 1, 16]), g.input("cache", "f32", [1, 2, 32, 16])
    pos, query = g.input("pos", "i64", [1]), g.input("query", "f32", [1, 2, 1, 16])
    place = g.reshape(pos, 1, 1, 1, 1)
    cached = g.ScatterElements(cache, g.Expand(place, g.ints(1, 2, 1, 16)), new, axis=2)
    columns = g.reshape(g.Range(g.scalar(0, "i64"), g.scalar(32, "i64"), g.scalar(1, "i64")), 1, 1, 1, 32)
    scores = g.MatMul(query, g.turn(cached, 0, 1, 3, 2))
    scores = g.Where(g.LessOrEqual(columns, place), scores, g.scalar(-1e9))
    row = g.join(g.const("i64", [1, 1], [1]), g.reshape(pos, 1, 1))
    g.result(g.weighted(scores, cached), cached,
             g.ScatterND(g.Squeeze(cache, g.ints(0)), row, g.const("f32", [1, 16], [1.0] * 16)))


@network()
def resizes(g):
    """Ways to resize, to sizes and by factors."""
    x = image(g, 4, 20, 24)
    for mode, place in (("cubic", "half_pixel"), ("cubic", "align_corners"), ("linear", "pytorch_half_pixel"),
                        ("linear", "asymmetric"), ("nearest", "half_pixel")):
        attrs = {"mode": mode, "coordinate_transformation_mode": place, "nearest_mode": "round_prefer_floor"}
        factors = g.const("f32", [4], [1, 1, 0.5, 0.75])
        g.result(g.resize_to(x, 1, 4, 33, 50, **attrs), g.Resize(x, "", factors, **attrs))


@network()
def rnns(g):
    """Recurrent layers with lengths, first states, peepholes, reversed and both ways."""
    x, lengths = g.input("x", "f32", [7, 3, 16]), g.const("i32", [3], [7, 4, 6])

    def weights(directions, gates):
        return (g.weight(directions, gates * 24, 16, scale=0.2), g.weight(directions, gates * 24, 24, scale=0.2),
                g.bias(directions, 2 * gates * 24))

    first = [g.weight(2, 3, 24, scale=0.3) for _ in range(2)]
    g.result(*g.node("LSTM", [x, *weights(2, 4), lengths, *first, g.bias(2, 72)], outputs=3, hidden_size=24,
                     direction="bidirectional"))
    g.result(*g.node("GRU", [x, *weights(1, 3), lengths], outputs=2, hidden_size=24, direction="reverse"))
    g.result(*g.node("RNN", [x, *weights(2, 1)], outputs=2, hidden_size=24, direction="bidirectional"))


@network()
def sequences(g):
    """A tensor split into a sequence, some of it put together again."""
    parts = g.SplitToSequence(g.input("x", "f32", [6, 10]), g.ints(1, 2, 3), axis=0)
    a, b = g.SequenceAt(parts, g.scalar(1, "i64")), g.SequenceAt(parts, g.scalar(-1, "i64"))
    g.result(g.ConcatFromSequence(g.SequenceConstruct(g.Mul(a, g.scalar(2.0)), b), axis=0),
             g.Cast(g.SequenceLength(parts), to=1))


@network(input=["kinds=0:10"])
def tabular(g):
    """Rows of a table: embeddings, OneHot, a norm, Selu and PRelu, the best two."""
    x, kinds = g.input("x", "f32", [8, 12]), g.input("kinds", "i64", [8, 3])
    columns = [g.Squeeze(g.part(kinds, i, i + 1, 1), g.ints(1)) for i in range(3)]
    parts = [g.batch_norm(x, 12), g.OneHot(columns[0], g.scalar(10, "i64"), g.const("f32", [2], [0.0, 1.0]))]
    parts += [g.Gather(g.weight(10, 4, scale=0.5), column) for column in columns]
    y = g.Selu(g.linear(g.join(*parts), 34, 32))
    y = g.linear(g.PRelu(g.linear(y, 32, 16), g.const("f32", [16], [0.2] * 16)), 16, 3)
    best, _ = g.node("TopK", [y, g.ints(2)], outputs=2)
    g.result(g.Softmax(y, axis=1), g.ReduceLogSumExp(y, axes=[1], keepdims=0), best)


@network()
def opset11(g):
    """An older opset: axes and sizes as attributes, a softmax over all that follows."""
    g.opset = 11
    y = g.relu6(g.batch_norm(g.conv(image(g, 3, 33, 33), 3, 8, 3, 2), 8))
    flat = g.Squeeze(g.ReduceMean(y, axes=[2], keepdims=1), axes=[2])
    few, many = g.node("Split", [y], outputs=2, axis=1, split=[3, 5])
    wide = g.Resize(few, g.const("f32", [0], []), g.const("f32", [4], [1, 1, 2, 2]), mode="linear",
                    coordinate_transformation_mode="pytorch_half_pixel")
    g.result(g.Softmax(flat, axis=1), g.Unsqueeze(flat, axes=[3]), wide,
             g.Pad(many, g.ints(0, 0, 1, 2, 0, 0, 3, 4), mode="edge"))
