# SPDX-License-Identifier: Apache-2.0
"""Networks for text and sound, as exporters write them, with random weights (arch_blocks.py)."""
import math

from arch_blocks import network


@network(input=["ids=0:1000"])
def t5_encoder(g):
    """Scores with a bias per distance and no scaling, root mean square norms, a gated feed."""
    width, heads, length = 512, 8, 64
    x = g.Gather(g.weight(1000, width, scale=1.0), g.input("ids", "i64", [1, length]))
    away = g.const("i64", [length, length], [min(31, abs(i - j)) for i in range(length) for j in range(length)])
    bias = g.Unsqueeze(g.turn(g.Gather(g.weight(32, heads, scale=0.5), away), 2, 0, 1), g.ints(0))
    for _ in range(3):
        y = g.rms_norm(x, width)
        q, k, v = (g.heads(g.product(y, width, width, False), length, heads, 64) for _ in range(3))
        scores = g.Add(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), bias)
        x = g.Add(x, g.product(g.unite(g.weighted(scores, v), length, width), width, width, False))
        y = g.rms_norm(x, width)
        y = g.Mul(g.gelu_tanh(g.product(y, width, 1024, False)), g.product(y, width, 1024, False))
        x = g.Add(x, g.product(y, 1024, width, False))
    g.result(g.rms_norm(x, width))


def llama(g, length, past):
    width, heads, groups, size = 512, 8, 2, 64
    total = past + length
    x = g.Gather(g.weight(2000, width, scale=1.0), g.input("ids", "i64", [1, length]))
    cos, sin = (g.weight(1, 1, length, size, scale=0.5) for _ in range(2))
    mask = g.causal(length, total, -3.4e38)

    def rotate(x):
        turned = g.join(g.Neg(g.part(x, size // 2, 2 ** 62, 3)), g.part(x, 0, size // 2, 3), axis=-1)
        return g.Add(g.Mul(x, cos), g.Mul(turned, sin))

    def repeat(x):
        x = g.Expand(g.Unsqueeze(x, g.ints(2)), g.ints(1, groups, heads // groups, total, size))
        return g.reshape(x, 1, heads, total, size)

    for layer in range(3):
        y = g.rms_norm(x, width)
        q, k, v = (g.heads(g.product(y, width, count * size, False), length, count, size)
                   for count in (heads, groups, groups))
        q, k = rotate(q), rotate(k)
        if past:
            k = g.join(g.input("past_k%d" % layer, "f32", [1, groups, past, size]), k, axis=2)
            v = g.join(g.input("past_v%d" % layer, "f32", [1, groups, past, size]), v, axis=2)
            g.result(k, v)
        k, v = repeat(k), repeat(v)
        scores = g.Add(g.Div(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), g.scalar(8.0)), mask)
        x = g.Add(x, g.product(g.unite(g.weighted(scores, v), length, width), width, width, False))
        y = g.rms_norm(x, width)
        y = g.Mul(g.silu(g.product(y, width, 1408, False)), g.product(y, width, 1408, False))
        x = g.Add(x, g.product(y, 1408, width, False))
    g.result(g.product(g.rms_norm(x, width), width, 2000, False))


@network(input=["ids=0:2000"])
def llama_prefill(g):
    """A decoder with rotary positions and shared keys, 128 words at once."""
    llama(g, 128, 0)


@network(input=["ids=0:2000"])
def llama_decode(g):
    """The same for one word behind 255 in a cache that goes in and comes out."""
    llama(g, 1, 255)


@network()
def whisper_encoder(g):
    """Convolutions over time, then attention whose scale is shared by both sides and norms in pieces."""
    width = 384
    x = g.gelu(g.conv(g.input("mel", "f32", [1, 80, 1000]), 80, width, 3, axes=1))
    x = g.gelu(g.conv(x, width, width, 3, 2, axes=1))
    x = g.Add(g.turn(x, 0, 2, 1), g.weight(500, width, scale=0.3))
    for _ in range(2):
        x = g.Add(x, g.attention(g.norm_in_pieces(x, width), 500, width, 6, scaling="both"))
        x = g.Add(x, g.feed(g.norm_in_pieces(x, width), width, 4 * width, g.gelu))
    g.result(g.norm_in_pieces(x, width))


@network(input=["ids=0:300", "offset=4"], bind=["past=9"])
def whisper_dec(g):
    """A decoder's step: a cache of free length, attention to an encoder's output."""
    width, heads, size = 128, 4, 32
    ids, memory = g.input("ids", "i64", [1, 1]), g.input("memory", "f32", [1, 50, width])
    place = g.Gather(g.weight(64, width, scale=0.3), g.input("offset", "i64", [1]))
    x = g.Add(g.Gather(g.weight(300, width, scale=0.5), ids), place)

    def split(y, is_biased=True):
        return g.heads(g.product(y, width, width, is_biased), -1, heads, size)

    def query(y):
        return g.heads(g.Mul(g.product(y, width, width), g.scalar(size ** -0.5)), -1, heads, size)

    def attend(q, k, v):
        y = g.weighted(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), v)
        return g.product(g.unite(y, 1, width), width, width)

    for layer in range(2):
        y = g.norm(x, width)
        past = [g.input("past_%s%d" % (kind, layer), "f32", [1, heads, "past", size]) for kind in "kv"]
        k, v = g.join(past[0], split(y, False), axis=2), g.join(past[1], split(y), axis=2)
        g.result(k, v)
        x = g.Add(x, attend(query(y), k, v))
        x = g.Add(x, attend(query(g.norm(x, width)), split(memory, False), split(memory)))
        x = g.Add(x, g.feed(g.norm(x, width), width, 4 * width, g.gelu))
    g.result(g.MatMul(g.norm(x, width), g.weight(width, 300, scale=0.09)))


@network()
def wav2vec2(g):
    """Samples through strided convolutions, a grouped convolution as positions, norms behind the sums."""
    width = 256
    x, channels = g.Unsqueeze(g.input("wave", "f32", [1, 8000]), g.ints(1)), 1
    for i, (size, stride) in enumerate(((10, 5), (3, 2), (3, 2), (3, 2), (3, 2), (2, 2))):
        x, channels = g.conv(x, channels, width, size, stride, axes=1, pads=[0, 0], is_biased=False), width
        if i == 0:  # a group norm of one channel per group
            x = g.InstanceNormalization(g.reshape(x, 0, width, -1), g.ones(width), g.zeros(width), epsilon=1e-5)
            x = g.Add(g.Mul(g.reshape(x, 1, width, -1), g.gain(width, 1)), g.bias(width, 1))
        x = g.gelu(x)
    x = g.norm(g.turn(x, 0, 2, 1), width)
    place = g.conv(g.turn(x, 0, 2, 1), width, width, 16, axes=1, groups=16, pads=[8, 8])
    x = g.Add(x, g.turn(g.gelu(g.part(place, 0, -1, 2)), 0, 2, 1))
    for _ in range(2):
        x = g.norm(g.Add(x, g.attention(x, 49, width, 4)), width)
        x = g.norm(g.Add(x, g.feed(x, width, 1024, g.gelu)), width)
    g.result(g.product(x, width, 32))


@network()
def crnn(g):
    """Letters of a line: convolutions that keep columns, LSTMs both ways with products between."""
    def pool(x, is_wide):
        strides, pads = ([2, 1], [0, 1, 0, 1]) if is_wide else ([2, 2], [0] * 4)
        return g.MaxPool(x, kernel_shape=[2, 2], strides=strides, pads=pads)

    x = pool(g.Relu(g.conv(g.input("x", "f32", [1, 1, 32, 160]), 1, 64, 3)), False)
    x = pool(g.Relu(g.conv(x, 64, 128, 3)), False)
    x = g.Relu(g.conv_bn(x, 128, 256, 3))
    x = pool(g.Relu(g.conv(x, 256, 256, 3)), True)
    x = pool(g.Relu(g.conv_bn(x, 256, 256, 3)), True)
    x = g.turn(g.Squeeze(g.Relu(g.conv(x, 256, 256, 2, pads=[0] * 4)), g.ints(2)), 2, 0, 1)
    for _ in range(2):
        weights = g.weight(2, 512, 256, scale=0.06), g.weight(2, 512, 128, scale=0.09), g.bias(2, 1024)
        y = g.node("LSTM", [x, *weights], outputs=3, hidden_size=128, direction="bidirectional")
        x = g.reshape(g.linear(g.reshape(g.turn(y[0], 0, 2, 1, 3), 41, 256), 256, 256), 41, 1, 256)
    g.result(g.LogSoftmax(g.product(x, 256, 97), axis=2))


@network()
def hifigan(g):
    """A vocoder: transposed convolutions over time and sums of dilated branches."""
    def leaky(x):
        return g.LeakyRelu(x, alpha=0.1)

    x, channels = g.conv(g.input("mel", "f32", [1, 80, 60]), 80, 128, 7, axes=1), 128
    for stride, size in ((8, 16), (8, 16), (2, 4)):
        half, branches = channels // 2, []
        x = g.conv_transposed(leaky(x), channels, half, [size], [stride], pads=[(size - stride) // 2] * 2)
        channels = half
        for taps in (3, 7, 11):
            y = x
            for dilation in (1, 3, 5):
                part = g.conv(leaky(y), channels, channels, taps, axes=1, dilation=dilation)
                y = g.Add(y, g.Mul(g.conv(leaky(part), channels, channels, taps, axes=1), g.scalar(0.3)))
            branches.append(y)
        x = g.Div(g.Add(g.Add(branches[0], branches[1]), branches[2]), g.scalar(3.0))
    g.result(g.Tanh(g.conv(g.LeakyRelu(x, alpha=0.01), channels, 1, 7, axes=1)))


@network()
def wavenet_flow(g):
    """Gated dilated convolutions with skips, undone as a flow; channels reversed at the end."""
    left, right = g.split(g.input("z", "f32", [1, 192, 120]), [96, 96], 1)
    x, total = g.conv(left, 96, 192, axes=1), None
    for dilation in (1, 2, 4, 1):
        a, b = g.split(g.conv(x, 192, 384, 5, axes=1, dilation=dilation), [192, 192], 1)
        y = g.conv(g.Mul(g.Tanh(a), g.Sigmoid(b)), 192, 384, axes=1)
        rest, skip = g.split(y, [192, 192], 1)
        x, total = g.Add(x, rest), skip if total is None else g.Add(total, skip)
    mean, spread = g.split(g.Mul(g.conv(total, 192, 192, axes=1), g.scalar(0.3)), [96, 96], 1)
    y = g.join(left, g.Mul(g.Sub(right, mean), g.Exp(g.Neg(spread))))
    g.result(g.Slice(y, g.ints(-1), g.ints(-2 ** 62), g.ints(1), g.ints(-1)))


@network()
def conformer(g):
    """Attention between two halved feeds, a depthwise convolution of 31 taps behind a gate."""
    width, length = 144, 200
    x = g.input("x", "f32", [1, length, width])

    def half_feed(x):
        return g.Add(x, g.Mul(g.feed(g.norm(x, width), width, 4 * width, g.silu), g.scalar(0.5)))

    for _ in range(2):
        x = half_feed(x)
        x = g.Add(x, g.attention(g.norm(x, width), length, width, 4, scaling="scores"))
        y = g.conv(g.turn(g.norm(x, width), 0, 2, 1), width, 2 * width, axes=1)
        a, b = g.split(y, [width, width], 1)
        y = g.silu(g.conv_bn(g.Mul(a, g.Sigmoid(b)), width, width, 31, axes=1, groups=width))
        x = g.Add(x, g.turn(g.conv(y, width, width, axes=1), 0, 2, 1))
        x = g.norm(half_feed(x), width)
    g.result(x)


@network()
def tasnet(g):
    """Voices taken apart: norms over everything in pieces, PRelu, dilated depthwise convolutions."""
    def norm(x, channels):
        rest = g.Sub(x, g.ReduceMean(x, axes=[1, 2], keepdims=1))
        square = g.ReduceMean(g.Mul(rest, rest), axes=[1, 2], keepdims=1)
        y = g.Div(rest, g.Sqrt(g.Add(square, g.scalar(1e-8))))
        return g.Add(g.Mul(y, g.gain(channels, 1)), g.bias(channels, 1))

    def active(x):
        return norm(g.PRelu(x, g.const("f32", [1], [0.25])), 128)

    wave = g.input("wave", "f32", [1, 1, 4000])
    code = g.Relu(g.conv(wave, 1, 128, 16, 8, axes=1, pads=[0, 0], is_biased=False))
    x = g.conv(norm(code, 128), 128, 64, axes=1)
    for i in range(6):
        y = active(g.conv(x, 64, 128, axes=1))
        y = active(g.conv(y, 128, 128, 3, axes=1, groups=128, dilation=2 ** i))
        x = g.Add(x, g.conv(y, 128, 64, axes=1))
    mask = g.Sigmoid(g.conv(x, 64, 128, axes=1))
    g.result(g.conv_transposed(g.Mul(code, mask), 128, 1, [16], [8], False))


@network(input=["ids=0:1000"])
def gru_text(g):
    """Words through GRUs both ways, the largest of each column."""
    x = g.turn(g.Gather(g.weight(1000, 128, scale=0.5), g.input("ids", "i64", [1, 64])), 1, 0, 2)
    for inputs in (128, 256):
        weights = g.weight(2, 384, inputs, scale=0.08), g.weight(2, 384, 128, scale=0.08), g.bias(2, 768)
        y = g.node("GRU", [x, *weights], outputs=2, hidden_size=128, direction="bidirectional", linear_before_reset=1)
        x = g.reshape(g.turn(y[0], 0, 2, 1, 3), 64, 1, 256)
    g.result(g.Softmax(g.linear(g.ReduceMax(x, axes=[0], keepdims=0), 256, 10), axis=1))


@network()
def deepfilter(g):
    """Noise suppression: linear layers in groups by Einsum, a GRU over frames, convolutions that look back only."""
    def grouped(x, *dims):
        return g.Einsum(x, g.weight(8, *dims, scale=1 / math.sqrt(dims[0])), equation="btgi,gih->btgh")

    x = g.Relu(g.conv_bn(g.input("frames", "f32", [1, 2, 20, 96]), 2, 16, [1, 3]))
    x = g.conv(x, 16, 16, [3, 3], [1, 2], groups=16, pads=[2, 1, 0, 1], is_biased=False)
    x = g.Relu(g.conv_bn(x, 16, 16))
    y = g.reshape(g.reshape(g.turn(x, 0, 2, 1, 3), 1, 20, 768), 1, 20, 8, 96)
    y = g.Relu(g.reshape(grouped(y, 96, 32), 20, 1, 256))
    weights = g.weight(1, 768, 256, scale=0.05), g.weight(1, 768, 256, scale=0.05), g.bias(1, 1536)
    y, _ = g.node("GRU", [y, *weights], outputs=2, hidden_size=256, linear_before_reset=1)
    y = grouped(g.reshape(g.Squeeze(y, g.ints(1)), 1, 20, 8, 32), 32, 96)
    y = g.Add(g.turn(g.reshape(y, 1, 20, 16, 48), 0, 2, 1, 3), x)
    y = g.ConvTranspose(y, g.weight(16, 1, 1, 3, scale=0.4), kernel_shape=[1, 3], strides=[1, 2], pads=[0, 1, 0, 1],
                        output_padding=[0, 1], group=16)
    g.result(g.Sigmoid(g.conv(g.Relu(g.conv_bn(y, 16, 16)), 16, 1, [1, 3])))


@network(input=["ids=0:100", "mask=1"], bind=["batch=2", "seq=37"])
def bert_sym(g):
    """An encoder of free batch and length: shapes come from Shape, the mean of all words comes out."""
    width, heads, size = 128, 4, 32
    ids, mask = (g.input(name, "i64", ["batch", "seq"]) for name in ("ids", "mask"))
    place = g.Slice(g.const("i64", [1, 512], range(512)), g.ints(0), g.sizes(g.size_of(ids, 1)), g.ints(1))
    x = g.Add(g.Gather(g.weight(100, width, scale=0.5), ids), g.Gather(g.weight(512, width, scale=0.3), place))
    x = g.norm(x, width)
    hidden = g.Cast(g.Unsqueeze(g.Unsqueeze(mask, g.ints(1)), g.ints(2)), to=1)
    hidden = g.Mul(g.Sub(g.scalar(1.0), hidden), g.scalar(-10000.0))

    def split(y, *perm):
        return g.turn(g.Reshape(y, g.sizes(g.size_of(y, 0), g.size_of(y, 1), heads, size)), *perm)

    for _ in range(2):
        q, k, v = (split(g.product(x, width, width), *perm) for perm in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
        scores = g.Add(g.Div(g.MatMul(q, k), g.scalar(math.sqrt(size))), hidden)
        y = g.turn(g.weighted(scores, v), 0, 2, 1, 3)
        y = g.Reshape(y, g.sizes(g.size_of(y, 0), g.size_of(y, 1), width))
        x = g.norm(g.Add(x, g.product(y, width, width)), width)
        x = g.norm(g.Add(x, g.feed(x, width, 512, g.gelu)), width)
    seen = g.Cast(g.Unsqueeze(mask, g.ints(2)), to=1)
    count = g.Clip(g.ReduceSum(seen, g.ints(1), keepdims=0), g.scalar(1e-9))
    mean = g.Div(g.ReduceSum(g.Mul(x, seen), g.ints(1), keepdims=0), count)
    g.result(g.Div(mean, g.Clip(g.ReduceL2(mean, axes=[1], keepdims=1), g.scalar(1e-12))), x)


@network(input=["ids=0:200"], bind=["batch=1", "length=23"])
def gpt2_prefill(g):
    """A decoder of free length: positions by Range, a mask that is cut from a table and applied by Where."""
    width, heads = 256, 4
    ids = g.input("ids", "i64", ["batch", "length"])
    place = g.Range(g.scalar(0, "i64"), g.size_of(ids, 1), g.scalar(1, "i64"))
    x = g.Add(g.Gather(g.weight(200, width, scale=0.5), ids), g.Gather(g.weight(128, width, scale=0.3), place))
    table = g.const("bool", [1, 1, 128, 128], [j <= i for i in range(128) for j in range(128)])

    def shaped(y, like, *rest):
        return g.Reshape(y, g.sizes(g.size_of(like, 0), g.size_of(like, 1), *rest))

    for _ in range(2):
        y = g.reshape(g.norm_in_pieces(x, width), -1, width)
        y = g.Gemm(y, g.weight(width, 3 * width, scale=0.06), g.bias(3 * width))
        q, k, v = (g.turn(shaped(part, part, heads, width // heads), 0, 2, 1, 3)
                   for part in g.split(shaped(y, x, 3 * width), [width] * 3, 2))
        keys, queries = g.size_of(k, 2), g.size_of(q, 2)
        mask = g.Slice(table, g.sizes(g.Sub(keys, queries)), g.sizes(keys), g.ints(2))
        mask = g.Slice(mask, g.ints(0), g.sizes(keys), g.ints(3))
        scores = g.Where(mask, g.Div(g.MatMul(q, g.turn(k, 0, 1, 3, 2)), g.scalar(8.0)), g.scalar(-3.4028235e38))
        y = g.turn(g.weighted(scores, v), 0, 2, 1, 3)
        x = g.Add(x, g.product(shaped(y, y, width), width, width))
        x = g.Add(x, g.feed(g.norm_in_pieces(x, width), width, 4 * width, g.gelu_tanh))
    g.result(g.MatMul(g.norm_in_pieces(x, width), g.weight(width, 200, scale=0.06)))


@network(input=["ids=0:300"])
def clip_text(g):
    """A causal mask of infinities, the quick gelu, and the word that ArgMax finds."""
    width, length = 128, 32
    ids = g.input("ids", "i64", [1, length])
    x = g.Add(g.Gather(g.weight(300, width, scale=0.5), ids), g.weight(length, width, scale=0.3))
    mask = g.causal(length, length, -math.inf)
    for _ in range(2):
        x = g.Add(x, g.attention(g.norm(x, width), length, width, 4, mask))
        x = g.Add(x, g.feed(g.norm(x, width), width, 4 * width, g.quick_gelu))
    last = g.Unsqueeze(g.ArgMax(ids, axis=-1, keepdims=0), g.ints(1))
    x = g.GatherND(g.norm(x, width), g.join(g.const("i64", [1, 1], [0]), last))
    g.result(g.MatMul(x, g.weight(width, 64, scale=0.09)))


@network()
def einsum_attn(g):
    """Attention of nothing but Einsum."""
    x = g.input("x", "f32", [2, 50, 128])
    q, k, v = (g.Einsum(x, g.weight(128, 4, 32, scale=0.09), equation="btc,chd->bthd") for _ in range(3))
    scores = g.Mul(g.Einsum(q, k, equation="bihd,bjhd->bhij"), g.scalar(32 ** -0.5))
    y = g.Einsum(g.Softmax(scores, axis=-1), v, equation="bhij,bjhd->bihd")
    g.result(g.Einsum(y, g.weight(4, 32, 128, scale=0.09), equation="bthd,hdc->btc"))


@network()
def mel_front(g):
    """Samples to a mel spectrum: STFT, a product, a logarithm, clipped below the loudest."""
    window = g.const("f32", [400], [0.5 - 0.5 * math.cos(2 * math.pi * i / 400) for i in range(400)])
    wave = g.input("wave", "f32", [1, 4000])
    spectrum = g.STFT(wave, g.scalar(160, "i64"), window, g.scalar(400, "i64"), onesided=1)
    power = g.ReduceSumSquare(spectrum, axes=[3], keepdims=0)
    mel = g.Abs(g.MatMul(power, g.weight(201, 40, scale=0.05, mean=0.05)))
    level = g.Log(g.Clip(mel, g.scalar(1e-6)))
    g.result(g.Max(level, g.Sub(g.ReduceMax(level, axes=[1, 2], keepdims=1), g.scalar(8.0))))
