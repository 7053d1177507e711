#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single ops beside ONNX Runtime: where a model of another kind would lose its time.

usage: ops.py BUILD [--only NAME[;NAME..]] [--rounds N] [--above RATIO]
BUILD is the build folder with rlx_onnx_runner; what install.sh fetches is in BUILD/bench-onnx (run bench.py once). Each
case is a model of one op or a few; both engines take turns of equal length. A ratio is our best time over theirs; --above
prints only cases where it is larger. Inputs are set once: ONNX Runtime reads them where they are. Outputs are compared.
"""
import argparse
import array
import glob
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "import", "onnx")]
import bench  # noqa: E402
from graphs import Graph, Numbers  # noqa: E402

CODES = {"f32": ("f", "float32"), "i64": ("q", "int64")}


def f32(*dims):
    return "f32", list(dims)


def i64(*dims):
    return "i64", list(dims)


def conv(*w, **attrs):
    return lambda g: g.Conv("x", g.weight(*w), **attrs)


def conv_transpose(*w, **attrs):
    return lambda g: g.ConvTranspose("x", g.weight(*w), **attrs)


def resize(factor, mode, **attrs):
    return lambda g: g.Resize("x", "", g.const("f32", [4], [1, 1, factor, factor]), mode=mode, **attrs)


def unary(op, **attrs):
    return lambda g: g.node(op, ["x"], **attrs)


def quantised(g):
    scale, zero = g.scalar(0.05), g.const("u8", [], [128])
    return g.DequantizeLinear(g.QuantizeLinear("x", scale, zero), scale, zero)


def recurrent(op, gates, directions, **attrs):
    return lambda g: g.node(op, ["x", g.weight(directions, gates * 128, 128), g.weight(directions, gates * 128, 128),
                                 g.weight(directions, 2 * gates * 128)], hidden_size=128, **attrs)


def gelu(g):
    inner = g.Add(g.Erf(g.Div("x", g.scalar(math.sqrt(2)))), g.scalar(1.0))
    return g.Mul(g.Mul("x", inner), g.scalar(0.5))


def compared(op):
    return lambda g: g.Where(g.node(op, ["x", "y"]), "x", g.scalar(0.0))


def integers(g):
    """A product of 8-bit numbers whose scales are found on the way, as dynamic quantisation writes it."""
    y, scale, zero = g.node("DynamicQuantizeLinear", ["x"], outputs=3)
    # Of 7 bits: ONNX Runtime saturates sums of two products where there is no VNNI.
    weights = g.const("i8", [768, 768], [int(v * 63) for v in g.numbers.floats(768 * 768)])
    return g.Mul(g.Cast(g.MatMulInteger(y, weights, zero), to=1), g.Mul(scale, g.scalar(0.01)))


def variance(g):
    mean = g.ReduceMean("x", axes=[-1])
    rest = g.Sub("x", mean)
    return g.Sqrt(g.Add(g.ReduceMean(g.Mul(rest, rest), axes=[-1]), g.scalar(1e-5)))


def one_hot(g):
    return g.OneHot("i", g.scalar(200, "i64"), g.const("f32", [2], [0.0, 1.0]))


def mish(g):
    return g.Mul("x", g.Tanh(g.Softplus("x")))


IMAGE = f32(1, 64, 112, 112)
ROWS = f32(512, 1024)
SMALL = f32(1, 64, 56, 56)
CASES = {
    "conv 1d, 3 taps": (conv(256, 256, 3, pads=[1, 1]), {"x": f32(1, 256, 500)}),
    "conv 3x3, 8 groups of 8": (conv(64, 8, 3, 3, pads=[1] * 4, group=8), {"x": SMALL}),
    "conv 3x3, 32 groups of 4": (conv(128, 4, 3, 3, pads=[1] * 4, group=32), {"x": f32(1, 128, 56, 56)}),
    "conv 3x3, dilation 2": (conv(64, 64, 3, 3, pads=[2] * 4, dilations=[2, 2]), {"x": SMALL}),
    "conv 3d": (conv(32, 16, 3, 3, 3, pads=[1] * 6), {"x": f32(1, 16, 32, 32, 32)}),
    "conv 3d, depthwise": (conv(32, 1, 3, 3, 3, pads=[1] * 6, group=32), {"x": f32(1, 32, 16, 32, 32)}),
    "conv 3d, 1x1x1": (conv(32, 32, 1, 1, 1), {"x": f32(1, 32, 16, 32, 32)}),
    "conv 3x3, no weights": (lambda g: g.Conv("x", "y", pads=[1] * 4), {"x": SMALL, "y": f32(64, 64, 3, 3)}),
    "conv 3x3, stride 2, first": (conv(16, 3, 3, 3, pads=[1] * 4, strides=[2, 2]), {"x": f32(1, 3, 640, 640)}),
    "conv 5x5, depthwise": (conv(32, 1, 5, 5, pads=[2] * 4, group=32), {"x": f32(1, 32, 112, 112)}),
    "conv 1x1, 16 channels": (conv(16, 16, 1, 1), {"x": f32(1, 16, 80, 80)}),
    "conv transposed 2x2": (conv_transpose(24, 24, 2, 2, strides=[2, 2]), {"x": f32(1, 24, 160, 160)}),
    "conv transposed 4x4": (conv_transpose(64, 32, 4, 4, strides=[2, 2], pads=[1] * 4), {"x": f32(1, 64, 64, 64)}),
    "conv transposed 1d": (conv_transpose(64, 32, 16, strides=[8], pads=[4, 4]), {"x": f32(1, 64, 2000)}),
    "resize nearest": (resize(2, "nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
                       {"x": f32(1, 64, 80, 80)}),
    "resize linear": (resize(2, "linear"), {"x": f32(1, 64, 80, 80)}),
    "resize cubic": (resize(2, "cubic"), {"x": f32(1, 3, 224, 224)}),
    "pad": (lambda g: g.Pad("x", g.ints(0, 0, 1, 1, 0, 0, 1, 1)), {"x": IMAGE}),
    "pad, reflected": (lambda g: g.Pad("x", g.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"), {"x": IMAGE}),
    "gather rows": (lambda g: g.Gather("x", "i", axis=0), {"x": f32(30000, 768), "i": i64(512)}),
    "gather columns": (lambda g: g.Gather("x", "i", axis=1), {"x": f32(1024, 1024), "i": i64(512)}),
    "gather elements": (lambda g: g.GatherElements("x", "i", axis=1), {"x": f32(1024, 1024), "i": i64(1024, 1024)}),
    "scatter elements": (lambda g: g.ScatterElements("x", "i", "u", axis=1, reduction="add"),
                         {"x": f32(1024, 1024), "i": i64(1024, 256), "u": f32(1024, 256)}),
    "top k": (lambda g: g.node("TopK", ["x", g.ints(100)], outputs=2)[0], {"x": f32(80, 8400)}),
    "arg max, rows": (unary("ArgMax", axis=-1), {"x": f32(8400, 80)}),
    "arg max, channels": (unary("ArgMax", axis=1), {"x": f32(1, 21, 256, 256)}),
    "cumsum": (lambda g: g.CumSum("x", g.scalar(1, "i64")), {"x": f32(1024, 1024)}),
    "instance norm": (lambda g: g.InstanceNormalization("x", g.weight(64), g.weight(64)), {"x": IMAGE}),
    "layer norm": (lambda g: g.LayerNormalization("x", g.weight(768), g.weight(768), axis=-1), {"x": f32(512, 768)}),
    "lrn": (unary("LRN", size=5), {"x": SMALL}),
    "softmax, rows": (unary("Softmax", axis=-1), {"x": f32(12, 512, 512)}),
    "softmax, channels": (unary("Softmax", axis=1), {"x": f32(1, 80, 8400)}),
    "third power": (lambda g: g.Pow("x", g.scalar(3.0)), {"x": f32(1024, 1024)}),
    "erf": (unary("Erf"), {"x": f32(512, 1024)}),
    "tanh": (unary("Tanh"), {"x": f32(512, 1024)}),
    "exp": (unary("Exp"), {"x": f32(512, 1024)}),
    "gelu": (gelu, {"x": f32(512, 3072)}),
    "silu": (lambda g: g.Mul("x", g.Sigmoid("x")), {"x": IMAGE}),
    "hard swish": (unary("HardSwish"), {"x": IMAGE}),
    "quantise and back": (quantised, {"x": f32(1024, 1024)}),
    "global average": (unary("GlobalAveragePool"), {"x": f32(1, 2048, 7, 7)}),
    "average pool": (unary("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), {"x": IMAGE}),
    "max pool 3x3": (unary("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), {"x": IMAGE}),
    "max pool 5x5": (unary("MaxPool", kernel_shape=[5, 5], strides=[1, 1], pads=[2] * 4), {"x": f32(1, 128, 20, 20)}),
    "mean of images": (unary("ReduceMean", axes=[2, 3]), {"x": f32(1, 512, 28, 28)}),
    "max of rows": (unary("ReduceMax", axes=[0]), {"x": f32(64, 128, 256)}),
    "grid sample": (lambda g: g.GridSample("x", "y"), {"x": f32(1, 64, 64, 64), "y": f32(1, 64, 64, 2)}),
    "matmul, batch": (lambda g: g.MatMul("x", "y"), {"x": f32(12, 512, 64), "y": f32(12, 64, 512)}),
    "matmul, weights": (lambda g: g.MatMul("x", g.weight(768, 1024)), {"x": f32(128, 768)}),
    "einsum": (lambda g: g.Einsum("x", "y", equation="bqhd,bkhd->bhqk"), {"x": f32(8, 64, 12, 32), "y": f32(8, 64, 12, 32)}),
    "transpose heads": (unary("Transpose", perm=[0, 2, 1, 3]), {"x": f32(1, 512, 12, 64)}),
    "transpose channels": (unary("Transpose", perm=[0, 2, 3, 1]), {"x": IMAGE}),
    "transpose": (unary("Transpose", perm=[1, 0]), {"x": f32(1024, 1024)}),
    "concat": (lambda g: g.Concat("x", "y", axis=1), {"x": f32(1, 64, 80, 80), "y": f32(1, 64, 80, 80)}),
    "every second pixel": (lambda g: g.Slice("x", g.ints(0, 0), g.ints(640, 640), g.ints(2, 3), g.ints(2, 2)),
                           {"x": f32(1, 3, 640, 640)}),
    "depth to space": (unary("DepthToSpace", blocksize=2), {"x": f32(1, 64, 80, 80)}),
    "space to depth": (unary("SpaceToDepth", blocksize=2), {"x": f32(1, 16, 160, 160)}),
    "expand": (lambda g: g.Expand("x", g.ints(1, 64, 112, 112)), {"x": f32(1, 64, 1, 1)}),
    "tile": (lambda g: g.Tile("x", g.ints(16, 4)), {"x": f32(64, 256)}),
    "add, per channel": (lambda g: g.Add("x", "y"), {"x": IMAGE, "y": f32(1, 64, 1, 1)}),
    "prelu": (lambda g: g.PRelu("x", g.weight(64, 1, 1)), {"x": IMAGE}),
    "lstm": (recurrent("LSTM", 4, 1), {"x": f32(64, 1, 128)}),
    "lstm, both ways, batch 8": (recurrent("LSTM", 4, 2, direction="bidirectional"), {"x": f32(64, 8, 128)}),
    "gru": (recurrent("GRU", 3, 1), {"x": f32(64, 1, 128)}),
    "nms": (lambda g: g.NonMaxSuppression("x", "y", g.ints(100), g.const("f32", [1], [0.5]), g.const("f32", [1], [0.1])),
            {"x": f32(1, 1000, 4), "y": f32(1, 1, 1000)}),
    "where": (lambda g: g.Where(g.Greater("x", "y"), "x", "y"), {"x": ROWS, "y": ROWS}),
    "compare": (compared("Less"), {"x": ROWS, "y": f32(1, 1024)}),
    "logic": (lambda g: g.Cast(g.And(g.Greater("x", g.scalar(0.0)), g.Not(g.Less("x", "y"))), to=1),
              {"x": ROWS, "y": ROWS}),
    "cast to i32 and back": (lambda g: g.Cast(g.Cast(g.Mul("x", g.scalar(100.0)), to=6), to=1), {"x": ROWS}),
    "cast to i64 and back": (lambda g: g.Cast(g.Cast(g.Mul("x", g.scalar(100.0)), to=7), to=1), {"x": ROWS}),
    "cast to f16 and back": (lambda g: g.Cast(g.Cast("x", to=10), to=1), {"x": ROWS}),
    "one hot": (one_hot, {"i": i64(64, 128)}),
    "lower triangle": (lambda g: g.Trilu("x", upper=0), {"x": f32(8, 512, 512)}),
    "scatter nd": (lambda g: g.ScatterND("x", g.const("i64", [256, 1], range(0, 512, 2)), "u"),
                   {"x": f32(512, 768), "u": f32(256, 768)}),
    "gather nd": (lambda g: g.GatherND("x", "i"), {"x": f32(200, 200, 64), "i": i64(4096, 2)}),
    "reverse sequence": (lambda g: g.ReverseSequence("x", g.const("i64", [8], [64] * 8)), {"x": f32(64, 8, 256)}),
    "split": (lambda g: g.Add(*g.node("Split", ["x"], outputs=2, axis=1)), {"x": f32(1, 128, 80, 80)}),
    "slice, rows": (lambda g: g.Slice("x", g.ints(1), g.ints(511), g.ints(0)), {"x": ROWS}),
    "slice, columns": (lambda g: g.Slice("x", g.ints(8), g.ints(1000), g.ints(1)), {"x": ROWS}),
    "sum, all": (unary("ReduceSum", keepdims=0), {"x": ROWS}),
    "mean of rows": (unary("ReduceMean", axes=[-1]), {"x": f32(4096, 256)}),
    "sum, middle": (lambda g: g.ReduceSum("x", g.ints(1)), {"x": f32(64, 128, 256)}),
    "max, first and last": (unary("ReduceMax", axes=[0, 2]), {"x": f32(64, 128, 256)}),
    "norm of rows": (unary("ReduceL2", axes=[-1]), {"x": f32(4096, 256)}),
    "log sum exp": (unary("ReduceLogSumExp", axes=[-1]), {"x": f32(1024, 512)}),
    "variance": (variance, {"x": f32(512, 768)}),
    "log softmax": (unary("LogSoftmax", axis=-1), {"x": f32(512, 1000)}),
    "mish": (mish, {"x": IMAGE}),
    "leaky relu": (unary("LeakyRelu", alpha=0.1), {"x": IMAGE}),
    "elu": (unary("Elu"), {"x": IMAGE}),
    "sigmoid": (unary("Sigmoid"), {"x": IMAGE}),
    "hard sigmoid": (unary("HardSigmoid"), {"x": IMAGE}),
    "clip": (lambda g: g.Clip("x", g.scalar(-0.5), g.scalar(0.5)), {"x": IMAGE}),
    "square root": (lambda g: g.Sqrt(g.Abs("x")), {"x": ROWS}),
    "power": (lambda g: g.Pow(g.Abs("x"), g.scalar(1.7)), {"x": ROWS}),
    "sine": (unary("Sin"), {"x": ROWS}),
    "log": (lambda g: g.Log(g.Abs("x")), {"x": ROWS}),
    "division": (lambda g: g.Div("x", "y"), {"x": ROWS, "y": ROWS}),
    "add, row": (lambda g: g.Add("x", "y"), {"x": ROWS, "y": f32(1024)}),
    "add, column": (lambda g: g.Add("x", "y"), {"x": ROWS, "y": f32(512, 1)}),
    "max of three": (lambda g: g.Max("x", "y", "z"), {"x": ROWS, "y": ROWS, "z": f32(1024)}),
    "modulo": (lambda g: g.Mod("x", "y", fmod=1), {"x": ROWS, "y": ROWS}),
    "matmul, shared": (lambda g: g.MatMul("x", "y"), {"x": f32(8, 12, 64, 64), "y": f32(1, 12, 64, 64)}),
    "matmul, vector": (lambda g: g.MatMul("x", g.weight(1024, 1024)), {"x": f32(1, 1024)}),
    "matmul, few columns": (lambda g: g.MatMul("x", g.weight(512, 5)), {"x": f32(1024, 512)}),
    "matmul, few inputs": (lambda g: g.MatMul("x", g.weight(8, 256)), {"x": f32(4096, 8)}),
    "gemm, both turned": (lambda g: g.Gemm("x", g.weight(512, 256), g.weight(512), transA=1, transB=1),
                          {"x": f32(256, 128)}),
    "gemm, no weights": (lambda g: g.Gemm("x", "y", transB=1), {"x": f32(256, 512), "y": f32(256, 512)}),
    "einsum, outer": (lambda g: g.Einsum("x", "y", equation="bij,bjk->bik"), {"x": f32(16, 64, 64), "y": f32(16, 64, 64)}),
    "einsum, diagonal sums": (lambda g: g.Einsum("x", "y", equation="bhi,bhj->bij"), {"x": f32(8, 12, 64), "y": f32(8, 12, 64)}),
    "matmul of integers": (integers, {"x": f32(128, 768)}),
    "conv 1d, depthwise": (conv(256, 1, 15, pads=[7, 7], group=256), {"x": f32(1, 256, 500)}),
    "conv 1d, 1 tap": (conv(512, 256, 1), {"x": f32(1, 256, 500)}),
    "rnn": (recurrent("RNN", 1, 1), {"x": f32(64, 1, 128)}),
    "gru, batch 4": (recurrent("GRU", 3, 1), {"x": f32(64, 4, 128)}),
    "batch norm": (lambda g: g.BatchNormalization("x", g.weight(64), g.weight(64), g.weight(64), g.positive(64)),
                   {"x": IMAGE}),
    "roi align": (lambda g: g.RoiAlign("x", g.Add(g.Abs("b"), g.const("f32", [1, 4], [1, 1, 30, 30])), g.const("i64", [50], [0] * 50),
                                       output_height=7, output_width=7), {"x": f32(1, 64, 50, 50), "b": f32(50, 4)}),
    "resize linear, any size": (lambda g: g.Resize("x", "", "", g.ints(1, 32, 100, 130), mode="linear"),
                                {"x": f32(1, 32, 64, 64)}),
    "resize nearest, any size": (lambda g: g.Resize("x", "", "", g.ints(1, 32, 100, 130), mode="nearest"),
                                 {"x": f32(1, 32, 64, 64)}),
    "stft": (lambda g: g.STFT(g.Unsqueeze("x", g.ints(2)), g.scalar(128, "i64"), "", g.scalar(256, "i64")),
             {"x": f32(1, 16000)}),
}
INTEGER_OUTPUT = ("arg max, rows", "arg max, channels", "nms")


def write_case(folder, name):
    """The model, its inputs and the case file of the runner."""
    build, inputs = CASES[name]
    base = os.path.join(folder, "op-" + "".join(c if c.isalnum() else "_" for c in name))
    graph, numbers, lines = Graph(), Numbers(7), ["model %s.onnx" % base]
    for port, (dtype, dims) in inputs.items():
        graph.input(port, dtype, dims)
        code, spelled = CODES[dtype]
        count = math.prod(dims)
        values = numbers.floats(count) if dtype == "f32" else [int((numbers.next() + 1) * 100) for _ in range(count)]
        with open("%s-%s.raw" % (base, port), "wb") as file:
            array.array(code, values).tofile(file)
        lines.append("in %s %s %s %s-%s.raw" % (port, spelled, ",".join(map(str, dims)), base, port))
    output = graph.output(build(graph), "i64" if name in INTEGER_OUTPUT else "f32", None)
    with open(base + ".onnx", "wb") as file:
        file.write(graph.model())
    with open(base + ".txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines + ["out " + output]) + "\n")
    return base + ".txt"


def differs(engines, base):
    """Numbers that are further apart than rounding explains."""
    ours, theirs = (bench.outputs_of(engine, "%s-%d.raw" % (base, i)) for i, engine in enumerate(engines))
    if len(ours) != len(theirs):
        return True
    scale = max([abs(v) for v in theirs if v == v] or [0])
    return any(abs(a - b) > 1e-3 * abs(b) + 1e-4 * scale for a, b in zip(ours, theirs))


def measure(runner, library, case, threads, rounds, is_integer):
    engines = [bench.Engine(runner, ["rlx", case, threads, "--set-once"]),
               bench.Engine(runner, ["ort", case, threads, "--level", "all", "--library", library])]
    turns = bench.take_turns(engines, rounds)
    is_wrong = not is_integer and differs(engines, case[:-4])
    for engine in engines:
        engine.close()
    return min(turn["best"] for turn in turns[0]), min(turn["best"] for turn in turns[1]), is_wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--above", type=float, default=0)
    return parser.parse_args()


def main():
    args = arguments()
    folder = os.path.abspath(os.path.join(args.build, "bench-onnx"))
    libraries = glob.glob(os.path.join(folder, "node_modules/onnxruntime-node/bin/napi-v*/linux/x64/libonnxruntime.so.1"))
    if not libraries:
        sys.exit("ops.py: no ONNX Runtime in %s; bench.py fetches it" % folder)
    runner, wrong = os.path.join(args.build, "bench", "onnx", "rlx_onnx_runner"), 0
    bench.TURN_MS = 15.0
    print("| op | 1 thread: rlx, ORT (ms) | ratio | 2 threads: rlx, ORT (ms) | ratio |\n|---|---|---|---|---|")
    for name in CASES:
        if args.only and name not in args.only.split(";"):
            continue
        case, cells, worst = write_case(folder, name), [], 0.0
        for threads in ("1", "2"):
            ours, theirs, is_wrong = measure(runner, libraries[0], case, threads, args.rounds, name in INTEGER_OUTPUT)
            worst = max(worst, ours / theirs)
            wrong += is_wrong
            cells += ["%.3f, %.3f%s" % (ours, theirs, " (DIFFERS)" if is_wrong else ""), "%.2f" % (ours / theirs)]
        if worst > args.above:
            print("| %s | %s |" % (name, " | ".join(cells)), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
