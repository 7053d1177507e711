#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Single ops of drawn shapes beside ONNX Runtime: shapes that nobody chose show what a kernel does not cover.

usage: draw.py BUILD [--seed N] [--count N] [--only KIND[,KIND..]] [--threads N[,N..]] [--above RATIO] [--list]
Draws COUNT cases of each kind (draw_kinds.py), runs them as ops.py does and prints those whose ratio of our best time
over theirs is above RATIO, and the geometric mean of each kind. One figure is one measurement: repeat a case before you
believe it. Another seed draws other cases. Exit 1 if outputs differ.
"""
import argparse
import glob
import math
import os
import random
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import bench  # noqa: E402
import draw_kinds  # noqa: E402
import ops  # noqa: E402


def measure(args, library, folder, name, case):
    """The cells of a row, the ratios, and whether outputs differ."""
    runner = os.path.join(args.build, "bench", "onnx", "rlx_onnx_runner")
    ops.CASES = {name: case}
    path, cells, ratios, is_wrong = ops.write_case(folder, name), [], [], False
    for threads in args.threads.split(","):
        ours, theirs, differs = ops.measure(runner, library, path, threads, 2, False)
        ratios.append(ours / theirs)
        is_wrong |= differs
        cells += ["%.4f, %.4f%s" % (ours, theirs, " (DIFFERS)" if differs else ""), "%.2f" % (ours / theirs)]
    for file in glob.glob(path[:-4] + "*"):
        os.unlink(file)
    return cells, ratios, is_wrong


def measure_kind(args, library, folder, draw):
    random_numbers, ratios, wrong = random.Random("%s %d" % (draw.__name__, args.seed)), [], 0
    for _ in range(args.count):
        name, case = draw(random_numbers)
        try:
            cells, more, is_wrong = measure(args, library, folder, name, case)
        except (RuntimeError, OSError, ValueError) as fault:
            print("| %s | failed: %s |" % (name, fault), flush=True)
            wrong += 1
            continue
        ratios += more
        wrong += is_wrong
        if max(more) > args.above or is_wrong:
            print("| %s | %s |" % (name, " | ".join(cells)), flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print("| all of %s | mean %.2f | largest %.2f |" % (draw.__name__, mean, max(ratios)), flush=True)
    return wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--above", type=float, default=1.25)
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main():
    args = arguments()
    if args.list:
        print("\n".join(draw_kinds.KINDS))
        return 0
    unknown = [kind for kind in args.only.split(",") if kind and kind not in draw_kinds.KINDS]
    if unknown:
        sys.exit("draw.py: no kind '%s'; --list says which there are" % unknown[0])
    tools = os.path.abspath(os.path.join(args.build, "bench-onnx"))
    libraries = glob.glob(os.path.join(tools, "node_modules/onnxruntime-node/bin/napi-v*/linux/x64/libonnxruntime.so.1"))
    if not libraries:
        sys.exit("draw.py: no ONNX Runtime in %s; bench.py fetches it" % tools)
    bench.TURN_MS = 8.0
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, draw in draw_kinds.KINDS.items():
            if not args.only or name in args.only.split(","):
                wrong += measure_kind(args, libraries[0], folder, draw)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
