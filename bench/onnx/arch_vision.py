# SPDX-License-Identifier: Apache-2.0
"""Networks for images, video and point clouds, as exporters write them, with random weights (arch_blocks.py)."""
from arch_blocks import END, image, network


@network()
def yolov8n(g):
    """A detector: split and joined bottlenecks, a pyramid both ways, boxes as expected values of distributions."""
    def conv(x, inputs, outputs, size=1, stride=1):
        return g.silu(g.conv(x, inputs, outputs, size, stride))

    def stage(x, inputs, outputs, count, is_residual=True):
        half = outputs // 2
        parts = g.split(conv(x, inputs, outputs), [half, half], 1)
        for _ in range(count):
            y = conv(conv(parts[-1], half, half, 3), half, half, 3)
            parts.append(g.Add(parts[-1], y) if is_residual else y)
        return conv(g.join(*parts), half * (count + 2), outputs)

    x = conv(conv(image(g, 3, 320, 320), 3, 16, 3, 2), 16, 32, 3, 2)
    p3 = stage(conv(stage(x, 32, 32, 1), 32, 64, 3, 2), 64, 64, 2)
    p4 = stage(conv(p3, 64, 128, 3, 2), 128, 128, 2)
    pools = [conv(stage(conv(p4, 128, 256, 3, 2), 256, 256, 1), 256, 128)]
    for _ in range(3):
        pools.append(g.max_pool(pools[-1], 5, 1, 2))
    p5 = conv(g.join(*pools), 512, 256)
    n4 = stage(g.join(g.twice(p5), p4), 384, 128, 1, False)
    n3 = stage(g.join(g.twice(n4), p3), 192, 64, 1, False)
    o4 = stage(g.join(conv(n3, 64, 64, 3, 2), n4), 192, 128, 1, False)
    o5 = stage(g.join(conv(o4, 128, 128, 3, 2), p5), 384, 256, 1, False)
    levels, total = [], 40 * 40 + 20 * 20 + 10 * 10
    for x, channels in ((n3, 64), (o4, 128), (o5, 256)):
        box = g.conv(conv(conv(x, channels, 64, 3), 64, 64, 3), 64, 64)
        kind = g.conv(conv(conv(x, channels, 80, 3), 80, 80, 3), 80, 80)
        levels.append(g.reshape(g.join(box, kind), 1, 144, -1))
    box, kind = g.split(g.join(*levels, axis=2), [64, 80], 1)
    box = g.Softmax(g.turn(g.reshape(box, 1, 4, 16, total), 0, 2, 1, 3), axis=1)
    box = g.Conv(box, g.const("f32", [1, 16, 1, 1], [float(i) for i in range(16)]), kernel_shape=[1, 1])
    box, anchors = g.reshape(box, 1, 4, total), g.weight(1, 2, total, scale=10.0)
    low, high = g.Sub(anchors, g.part(box, 0, 2, 1)), g.Add(anchors, g.part(box, 2, 4, 1))
    box = g.join(g.Div(g.Add(low, high), g.scalar(2.0)), g.Sub(high, low))
    g.result(g.join(g.Mul(box, g.weight(1, total, mean=16.0)), g.Sigmoid(kind)))


@network()
def yolov5n(g):
    """A detector whose first layer gathers every second pixel, with sigmoid boxes and anchors."""
    def conv(x, inputs, outputs, size=1, stride=1):
        return g.silu(g.conv(x, inputs, outputs, size, stride))

    x = conv(g.join(*g.corners(image(g, 3, 320, 320), 2, 3)), 12, 16, 3)
    channels = 16
    for count in (1, 2, 3, 1):
        x, channels = conv(x, channels, 2 * channels, 3, 2), 2 * channels
        half = channels // 2
        y = conv(x, channels, half)
        for _ in range(count):
            y = g.Add(y, conv(conv(y, half, half), half, half, 3))
        x = conv(g.join(y, conv(x, channels, half)), channels, channels)
    y = g.turn(g.reshape(g.conv(x, 256, 255), 1, 3, 85, 10, 10), 0, 1, 3, 4, 2)
    y = g.Sigmoid(y)
    place, size, rest = g.part(y, 0, 2, 4), g.part(y, 2, 4, 4), g.part(y, 4, 85, 4)
    place = g.Add(g.Sub(g.Mul(place, g.scalar(2.0)), g.scalar(0.5)), g.weight(1, 3, 10, 10, 2, scale=3.0))
    size = g.Mul(g.Pow(g.Mul(size, g.scalar(2.0)), g.scalar(2.0)), g.weight(1, 3, 1, 1, 2, scale=3.0))
    g.result(g.reshape(g.join(g.Mul(place, g.scalar(32.0)), size, rest, axis=4), 1, 300, 85))


@network()
def efficientnet_b0(g):
    """Depthwise convolutions, silu and gates per channel."""
    x, channels = g.silu(g.conv(image(g, 3, 224, 224), 3, 32, 3, 2)), 32
    for wide, size, stride, outputs, count in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                               (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for i in range(count):
            inner, few = channels * wide, max(1, channels // 4)
            y = g.silu(g.conv(x, channels, inner)) if wide > 1 else x
            y = g.silu(g.conv(y, inner, inner, size, 1 if i else stride, groups=inner))
            gate = g.conv(g.silu(g.conv(g.GlobalAveragePool(y), inner, few)), few, inner)
            y = g.conv(g.Mul(y, g.Sigmoid(gate)), inner, outputs)
            x, channels = g.Add(y, x) if i else y, outputs
    g.classify(g.silu(g.conv(x, 320, 1280)), 1280, 1000)


@network()
def mobilenetv3(g):
    """Hard activations, as one op and in pieces; gates by ReduceMean."""
    def pieces(x):
        return g.Div(g.Mul(x, g.relu6(g.Add(x, g.scalar(3.0)))), g.scalar(6.0))

    x, channels = pieces(g.conv(image(g, 3, 224, 224), 3, 16, 3, 2)), 16
    for size, inner, outputs, is_gated, is_hard, stride in (
            (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
            (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 480, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2),
            (5, 960, 160, 1, 1, 1)):
        activation = g.HardSwish if is_hard else g.Relu
        y = activation(g.conv(x, channels, inner)) if inner != channels else x
        y = activation(g.conv(y, inner, inner, size, stride, groups=inner))
        if is_gated:
            gate = g.Relu(g.conv(g.ReduceMean(y, axes=[2, 3], keepdims=1), inner, inner // 4))
            y = g.Mul(g.HardSigmoid(g.conv(gate, inner // 4, inner), alpha=1 / 6, beta=0.5), y)
        y = g.conv(y, inner, outputs)
        x, channels = g.Add(x, y) if stride == 1 and channels == outputs else y, outputs
    x = g.Flatten(g.GlobalAveragePool(g.HardSwish(g.conv(x, 160, 960))))
    g.result(g.linear(g.HardSwish(g.linear(x, 960, 1280)), 1280, 1000))


@network()
def convnext(g):
    """Depthwise 7 x 7, layer norm in pieces over channels and products between two transposes."""
    def norm(x):
        return g.turn(g.norm_in_pieces(g.turn(x, 0, 2, 3, 1), width), 0, 3, 1, 2)

    width = 64
    x = norm(g.patches(image(g, 3, 224, 224), 3, width, 4))
    for stage, count in enumerate((2, 2, 3)):
        if stage:
            x = g.patches(norm(x), width, 2 * width, 2)
            width *= 2
        for _ in range(count):
            y = g.norm_in_pieces(g.turn(g.conv(x, width, width, 7, groups=width), 0, 2, 3, 1), width)
            y = g.Mul(g.feed(y, width, 4 * width, g.gelu), g.weight(width, scale=0.3))
            x = g.Add(x, g.turn(y, 0, 3, 1, 2))
    g.classify(x, width, 1000)


@network()
def vit_tiny(g):
    """A transformer of image patches: query, key and value in one product."""
    width, length = 192, 197
    x = g.turn(g.reshape(g.patches(image(g, 3, 224, 224), 3, width, 16), 1, width, 196), 0, 2, 1)
    x = g.Add(g.join(g.weight(1, 1, width, scale=0.2), x), g.weight(1, length, width, scale=0.2))
    for _ in range(4):
        q, k, v = g.packed_heads(g.norm(x, width), (1, length, 3, 3, 64), (2, 0, 3, 1, 4), width)
        y = g.weighted(g.Mul(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), g.scalar(0.125)), v)
        x = g.Add(x, g.product(g.unite(y, length, width), width, width))
        x = g.Add(x, g.feed(g.norm(x, width), width, 4 * width, g.gelu))
    g.result(g.linear(g.Gather(g.norm(x, width), g.scalar(0, "i64"), axis=1), width, 1000))


@network()
def swin(g):
    """Attention in windows of 7 x 7, every second time rolled by 3, with a bias per pair and a mask."""
    def roll(x, by):
        for axis in (1, 2):
            x = g.join(g.part(x, by, END, axis), g.part(x, 0, by, axis), axis=axis)
        return x

    width = 96
    x = g.patches(image(g, 3, 224, 224), 3, width, 4)
    x = g.norm(g.turn(g.reshape(x, 1, width, 3136), 0, 2, 1), width)
    for i in range(4):
        y = g.reshape(g.norm(x, width), 1, 56, 56, width)
        y = roll(y, 3) if i % 2 else y
        y = g.reshape(g.turn(g.reshape(y, 1, 8, 7, 8, 7, width), 0, 1, 3, 2, 4, 5), 64, 49, width)
        q, k, v = g.packed_heads(y, (64, 49, 3, 3, 32), (2, 0, 3, 1, 4), width)
        scores = g.MatMul(g.Mul(q, g.scalar(32 ** -0.5)), g.turn(k, 0, 1, 3, 2))
        scores = g.Add(scores, g.weight(1, 3, 49, 49, scale=0.5))
        if i % 2:
            mask = g.weight(1, 64, 1, 49, 49, scale=1.0)
            scores = g.reshape(g.Add(g.reshape(scores, 1, 64, 3, 49, 49), mask), 64, 3, 49, 49)
        y = g.reshape(g.turn(g.weighted(scores, v), 0, 2, 1, 3), 64, 49, width)
        y = g.reshape(g.product(y, width, width), 1, 8, 8, 7, 7, width)
        y = g.reshape(g.turn(y, 0, 1, 3, 2, 4, 5), 1, 56, 56, width)
        y = roll(y, -3) if i % 2 else y
        x = g.Add(x, g.reshape(y, 1, 3136, width))
        x = g.Add(x, g.feed(g.norm(x, width), width, 4 * width, g.gelu))
    parts = g.corners(g.reshape(x, 1, 56, 56, width), 1, 2)
    y = g.norm(g.reshape(g.join(*parts, axis=-1), 1, 784, 4 * width), 4 * width)
    g.result(g.ReduceMean(g.product(y, 4 * width, 2 * width, False), axes=[1], keepdims=0))


@network()
def detr(g):
    """Encoder and decoder of a detector: the batch is the second axis, queries are weights."""
    width, heads, size = 256, 8, 32
    memory = g.input("memory", "f32", [400, 1, width])
    queries, place, target = (g.weight(n, 1, width, scale=0.5) for n in (100, 400, 100))

    def attention(query, key, value, rows, columns):
        q = g.Mul(g.product(query, width, width), g.scalar(size ** -0.5))
        q = g.turn(g.reshape(q, rows, heads, size), 1, 0, 2)
        k, v = (g.turn(g.reshape(g.product(x, width, width), columns, heads, size), 1, 0, 2) for x in (key, value))
        y = g.weighted(g.MatMul(q, g.turn(k, 0, 2, 1)), v)
        return g.product(g.reshape(g.turn(y, 1, 0, 2), rows, 1, width), width, width)

    def add_norm(x, y):
        return g.norm(g.Add(x, y), width)

    for _ in range(2):
        key = g.Add(memory, place)
        memory = add_norm(memory, attention(key, key, memory, 400, 400))
        memory = add_norm(memory, g.feed(memory, width, 1024, g.Relu))
    for _ in range(2):
        key = g.Add(target, queries)
        target = add_norm(target, attention(key, key, target, 100, 100))
        target = add_norm(target, attention(g.Add(target, queries), g.Add(memory, place), memory, 100, 400))
        target = add_norm(target, g.feed(target, width, 1024, g.Relu))
    target = g.turn(target, 1, 0, 2)
    box = g.Relu(g.feed(target, width, width, g.Relu))
    g.result(g.product(target, width, 92), g.Sigmoid(g.product(box, width, 4)))


def unet(g, widen):
    def twice(x, inputs, outputs):
        return g.Relu(g.conv_bn(g.Relu(g.conv_bn(x, inputs, outputs, 3)), outputs, outputs, 3))

    x, channels, kept = image(g, 3, 128, 128), 3, []
    for outputs in (16, 32, 64):
        x, channels = twice(x, channels, outputs), outputs
        kept.append((x, outputs))
        x = g.max_pool(x, 2, 2)
    x, channels = twice(x, 64, 128), 128
    for before, outputs in reversed(kept):
        x, channels = twice(g.join(before, widen(x, channels, outputs)), 2 * outputs, outputs), outputs
    g.result(g.Sigmoid(g.conv(x, 16, 1)))


def resized_unet(g, mode):
    def widen(x, inputs, outputs):
        x = g.Resize(x, "", g.const("f32", [4], [1, 1, 2, 2]), mode="linear", coordinate_transformation_mode=mode)
        return g.conv(x, inputs, outputs)
    unet(g, widen)


@network()
def unet_transposed(g):
    """A U-Net that widens by transposed convolutions."""
    unet(g, lambda x, inputs, outputs: g.conv_transposed(x, inputs, outputs, [2, 2], [2, 2]))


@network()
def unet_linear(g):
    """A U-Net that widens linearly between the centres of pixels."""
    resized_unet(g, "half_pixel")


@network()
def unet_corners(g):
    """A U-Net that widens linearly between corners."""
    resized_unet(g, "align_corners")


@network()
def deeplab(g):
    """Dilated convolutions, a pooled branch that is widened from one pixel, classes by ArgMax."""
    def resize(x, channels, size):
        return g.resize_to(x, 1, channels, size, size, mode="linear", coordinate_transformation_mode="half_pixel")

    x, channels = image(g, 3, 257, 257), 3
    for outputs in (32, 64, 128):
        x, channels = g.Relu(g.conv(x, channels, outputs, 3, 2)), outputs
    for dilation in (1, 2, 4):
        y = g.Relu(g.conv(x, 128, 128, 3, dilation=dilation))
        x = g.Relu(g.Add(x, g.conv(y, 128, 128)))
    branches = [g.Relu(g.conv(x, 128, 64))]
    branches += [g.Relu(g.conv(x, 128, 64, 3, dilation=dilation)) for dilation in (6, 12, 18)]
    branches.append(resize(g.Relu(g.conv(g.GlobalAveragePool(x), 128, 64)), 64, 33))
    x = resize(g.conv(g.Relu(g.conv(g.join(*branches), 320, 64)), 64, 21), 21, 257)
    g.result(x, g.Cast(g.ArgMax(x, axis=1, keepdims=0), to=1))


@network()
def style(g):
    """Style transfer: reflected edges, instance norms, nearest neighbours."""
    def conv(x, inputs, outputs, size, stride=1):
        edge = size // 2
        x = g.Pad(x, g.ints(0, 0, edge, edge, 0, 0, edge, edge), mode="reflect")
        return g.conv(x, inputs, outputs, size, stride, pads=[0] * 4)

    def block(x, inputs, outputs, size, stride=1):
        return g.InstanceNormalization(conv(x, inputs, outputs, size, stride), g.gain(outputs), g.bias(outputs))

    x = g.Relu(block(image(g, 3, 128, 128), 3, 32, 9))
    x = g.Relu(block(g.Relu(block(x, 32, 64, 3, 2)), 64, 128, 3, 2))
    for _ in range(3):
        x = g.Add(x, block(g.Relu(block(x, 128, 128, 3)), 128, 128, 3))
    x = g.Relu(block(g.twice(x), 128, 64, 3))
    g.result(conv(g.Relu(block(g.twice(x), 64, 32, 3)), 32, 3, 9))


@network()
def edsr(g):
    """Super-resolution: no norms, depth to space at the end."""
    first = x = g.conv(image(g, 3, 96, 96), 3, 64, 3)
    for _ in range(4):
        y = g.conv(g.Relu(g.conv(x, 64, 64, 3)), 64, 64, 3)
        x = g.Add(x, g.Mul(y, g.scalar(0.1)))
    x = g.conv(g.Add(first, g.conv(x, 64, 64, 3)), 64, 256, 3)
    g.result(g.conv(g.DepthToSpace(x, blocksize=2, mode="CRD"), 64, 3, 3))


@network()
def dcgan(g):
    """An image from one pixel of 100 channels: transposed convolutions 4 x 4 with batch norms."""
    x, channels = g.input("z", "f32", [1, 100, 1, 1]), 100
    for outputs, stride, pad in ((256, 1, 0), (128, 2, 1), (64, 2, 1), (32, 2, 1)):
        x = g.conv_transposed(x, channels, outputs, [4, 4], [stride] * 2, False, pads=[pad] * 4)
        x, channels = g.Relu(g.batch_norm(x, outputs)), outputs
    g.result(g.Tanh(g.conv_transposed(x, 32, 3, [4, 4], [2, 2], False, pads=[1] * 4)))


@network()
def densenet(g):
    """Norms before convolutions, over values that are joined again and again."""
    def active(x, channels):
        return g.Relu(g.batch_norm(x, channels))

    x = g.max_pool(g.Relu(g.conv_bn(image(g, 3, 112, 112), 3, 64, 7, 2)), 3, 2, 1)
    channels = 64
    for count in (4, 6):
        parts = [x]
        for _ in range(count):
            y = g.join(*parts) if len(parts) > 1 else x
            y = g.conv(active(y, channels), channels, 128, is_biased=False)
            parts.append(g.conv(active(y, 128), 128, 32, 3, is_biased=False))
            channels += 32
        x = g.conv(active(g.join(*parts), channels), channels, channels // 2, is_biased=False)
        x, channels = g.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2]), channels // 2
    g.classify(active(x, channels), channels, 100)


@network()
def resnext(g):
    """Residual blocks of 32 groups."""
    x, channels = g.Relu(g.conv(image(g, 3, 112, 112), 3, 64, 7, 2)), 64
    for outputs, stride in ((128, 1), (256, 2), (512, 2)):
        for i in range(2):
            y = g.Relu(g.conv(x, channels, outputs))
            y = g.Relu(g.conv(y, outputs, outputs, 3, 1 if i else stride, groups=32))
            short = x if i else g.conv(x, channels, outputs, 1, stride)
            x, channels = g.Relu(g.Add(g.conv(y, outputs, outputs), short)), outputs
    g.classify(x, channels, 100)


@network()
def shufflev2(g):
    """Halves of channels that go apart and are shuffled."""
    x = g.max_pool(g.Relu(g.conv(image(g, 3, 224, 224), 3, 24, 3, 2)), 3, 2, 1)
    channels = 24
    for outputs, size in ((116, 28), (232, 14)):
        half = outputs // 2
        for i in range(4):
            if i == 0:
                left = g.Relu(g.conv(g.conv(x, channels, channels, 3, 2, groups=channels), channels, half))
                right = g.Relu(g.conv(x, channels, half))
            else:
                left, right = g.split(x, [half, half], 1)
                right = g.Relu(g.conv(right, half, half))
            right = g.conv(right, half, half, 3, 1 if i else 2, groups=half)
            x = g.reshape(g.join(left, g.Relu(g.conv(right, half, half))), 1, 2, half, size, size)
            x = g.reshape(g.turn(x, 0, 2, 1, 3, 4), 1, outputs, size, size)
        channels = outputs
    g.result(g.linear(g.Flatten(g.ReduceMean(x, axes=[2, 3])), 232, 100))


@network()
def pointnet(g):
    """Points: convolutions of one tap, maxima over all points, a transform that the network finds itself."""
    def layer(x, inputs, outputs):
        return g.Relu(g.conv_bn(x, inputs, outputs, axes=1))

    points = g.input("points", "f32", [1, 1024, 3])
    y = layer(layer(layer(g.turn(points, 0, 2, 1), 3, 64), 64, 128), 128, 512)
    y = g.Gemm(g.ReduceMax(y, axes=[2], keepdims=0), g.weight(9, 512, scale=0.01), g.weight(9, scale=0.01), transB=1)
    matrix = g.Add(g.reshape(y, 1, 3, 3), g.const("f32", [1, 3, 3], [1.0, 0, 0, 0, 1, 0, 0, 0, 1]))
    local = layer(g.turn(g.MatMul(points, matrix), 0, 2, 1), 3, 64)
    y = g.ReduceMax(layer(layer(local, 64, 128), 128, 512), axes=[2], keepdims=1)
    y = layer(g.join(g.Expand(y, g.ints(1, 512, 1024)), local), 576, 128)
    g.result(g.LogSoftmax(g.conv(y, 128, 20, axes=1), axis=1))


@network()
def ssd(g):
    """A detector with anchors of two levels and non-maximum suppression in the graph."""
    x, channels, levels = g.Relu(g.conv(image(g, 3, 160, 160), 3, 32, 3, 2)), 32, []
    for outputs in (64, 128, 128):
        y = g.relu6(g.conv(x, channels, channels, 3, 2, groups=channels))
        x, channels = g.relu6(g.conv(y, channels, outputs)), outputs
        levels.append(x)

    def head(outputs, columns):
        parts = [g.turn(g.conv(x, 128, outputs, 3), 0, 2, 3, 1) for x in levels[1:]]
        return g.join(*[g.reshape(part, 1, -1, columns) for part in parts])

    boxes, scores = head(24, 4), g.turn(g.Softmax(head(126, 21), axis=2), 0, 2, 1)
    anchors = g.weight(1, (20 * 20 + 10 * 10) * 6, 2, scale=0.5, mean=0.5)
    place = g.Add(g.Mul(g.part(boxes, 0, 2, 2), g.scalar(0.1)), anchors)
    size = g.Mul(g.Exp(g.Mul(g.part(boxes, 2, 4, 2), g.scalar(0.05))), g.scalar(0.15))
    boxes = g.join(g.Sub(place, size), g.Add(place, size), axis=2)
    chosen = g.NonMaxSuppression(boxes, scores, g.scalar(20, "i64"), g.scalar(0.45), g.scalar(0.08))
    g.result(boxes, scores, g.Cast(chosen, to=1))


@network()
def fpn_retina(g):
    """A feature pyramid whose heads share their weights over levels, and the best scores of all."""
    x, channels, levels = g.Relu(g.conv(image(g, 3, 256, 256), 3, 32, 3, 2)), 32, []
    for outputs in (64, 128, 256):
        x, channels = g.Relu(g.conv(x, channels, outputs, 3, 2)), outputs
        levels.append(x)
    pyramid = [g.conv(levels[2], 256, 64)]
    for x, channels, size in ((levels[1], 128, 32), (levels[0], 64, 64)):
        wide = g.resize_to(pyramid[-1], 1, 64, size, size, mode="nearest", nearest_mode="floor",
                           coordinate_transformation_mode="asymmetric")
        pyramid.append(g.Add(g.conv(x, channels, 64), wide))
    shared = [(g.weight(outputs, 64, 3, 3), g.bias(outputs)) for outputs in (64, 36)]
    parts = []
    for x in pyramid:
        x = g.Relu(g.Conv(x, *shared[0], kernel_shape=[3, 3], pads=[1] * 4))
        x = g.Conv(x, *shared[1], kernel_shape=[3, 3], pads=[1] * 4)
        parts.append(g.reshape(g.turn(x, 0, 2, 3, 1), 1, -1, 4))
    boxes = g.join(*parts)
    best, _ = g.node("TopK", [g.ReduceMax(boxes, axes=[2], keepdims=0), g.ints(50)], outputs=2, axis=1)
    g.result(boxes, best)


@network()
def resnet3d(g):
    """Video: convolutions and pools over three axes."""
    x = g.input("video", "f32", [1, 3, 8, 56, 56])
    x = g.Relu(g.conv(x, 3, 32, [3, 7, 7], [1, 2, 2]))
    x = g.MaxPool(x, kernel_shape=[1, 3, 3], strides=[1, 2, 2], pads=[0, 1, 1, 0, 1, 1])
    for _ in range(2):
        x = g.Relu(g.Add(x, g.conv(g.Relu(g.conv(x, 32, 32, 3, axes=3)), 32, 32, 3, axes=3)))
    g.classify(g.Relu(g.conv(x, 32, 64, 3, 2, axes=3)), 64, 10)


@network()
def mlp_mixer(g):
    """Products over channels and, between transposes, over patches."""
    width = 128
    x = g.turn(g.reshape(g.patches(image(g, 3, 112, 112), 3, width, 16), 1, width, 49), 0, 2, 1)
    for _ in range(3):
        y = g.feed(g.turn(g.norm(x, width), 0, 2, 1), 49, 64, g.gelu)
        x = g.Add(x, g.turn(y, 0, 2, 1))
        x = g.Add(x, g.feed(g.norm(x, width), width, 4 * width, g.gelu))
    g.result(g.ReduceMean(x, axes=[1], keepdims=0))


@network()
def channel_attn(g):
    """Gates of many vision networks in a row: by coordinates, by channels, by pixels, by a global context."""
    def few(x):
        return g.conv(g.Relu(g.conv(x, 32, 4)), 4, 32)

    x = g.Relu(g.conv(image(g, 3, 64, 64), 3, 32, 3))
    rows, columns = g.ReduceMean(x, axes=[3], keepdims=1), g.ReduceMean(x, axes=[2], keepdims=1)
    y = g.HardSwish(g.conv(g.join(rows, g.turn(columns, 0, 1, 3, 2), axis=2), 32, 8))
    rows, columns = g.split(y, [64, 64], 2)
    x = g.Mul(x, g.Sigmoid(g.conv(rows, 8, 32)))
    x = g.Mul(x, g.Sigmoid(g.conv(g.turn(columns, 0, 1, 3, 2), 8, 32)))
    both = g.join(g.ReduceMax(x, axes=[1], keepdims=1), g.ReduceMean(x, axes=[1], keepdims=1))
    x = g.Mul(x, g.Sigmoid(g.conv(both, 2, 1, 7)))
    x = g.Mul(x, g.Sigmoid(g.Add(few(g.GlobalAveragePool(x)), few(g.GlobalMaxPool(x)))))
    share = g.Softmax(g.reshape(g.conv(x, 32, 1), 1, 1, 4096), axis=2)
    context = g.MatMul(g.reshape(x, 1, 32, 4096), g.turn(share, 0, 2, 1))
    x = g.Add(x, g.reshape(context, 1, 32, 1, 1))
    x = g.Mul(g.Elu(g.conv(x, 32, 32, 3)), g.Sigmoid(g.conv(x, 32, 32, 3)))
    g.result(g.Div(x, g.Max(g.ReduceL2(x, axes=[1], keepdims=1), g.scalar(1e-12))))
