#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole networks of many kinds beside ONNX Runtime, with random weights: no file is needed but this folder's.

usage: architectures.py BUILD [--only NAME[,NAME..]] [--threads N[,N..]] [--rounds N] [--list]
BUILD is the build folder with rlx and rlx_onnx_runner. The models are written to BUILD/bench-onnx/arch and measured as
bench.py does: processes in turns, outputs compared. --list says what there is and measures nothing. A network that one
of the engines refuses has the reason in its row.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import bench  # noqa: E402
import arch_vision  # noqa: E402,F401
import arch_sequence  # noqa: E402,F401
import arch_mixed  # noqa: E402,F401
from arch_blocks import NETWORKS, Network  # noqa: E402


def write_network(build, folder, name):
    """The model and the runner's case."""
    path, graph = os.path.join(folder, name + ".onnx"), Network()
    facts = NETWORKS[name]
    facts["build"](graph)
    with open(path, "wb") as file:
        file.write(graph.model(graph.opset))
    options = argparse.Namespace(model=path, bind=facts["bind"], input=facts["input"], output=[])
    return bench.write_case(folder, name, path, *bench.own_case(build, options))


def measure(args, folder, library, name):
    row = {"name": name}
    runner = os.path.join(args.build, "bench", "onnx", "rlx_onnx_runner")
    try:
        case = write_network(args.build, folder, name)
        for threads in args.threads:
            bench.latency(runner, case, folder, name, library, args.rounds, threads, row, NETWORKS[name]["loose"])
    except (RuntimeError, subprocess.CalledProcessError) as wrong:
        row["differs"] = "refused (%s)" % str(wrong).split(":")[0]
    return row


def print_row(row, threads):
    cells = [row["name"]]
    for key in ("t%d_" % count for count in threads):
        if key + "ratio" not in row:
            cells += ["-", "-"]
            continue
        cells.append("%.3f, %.3f (%s)" % (row[key + "rlx"], row[key + "ort"], row[key + "level"]))
        cells.append("%.2f (%.2f)" % (row[key + "ratio"], row[key + "paired"]))
    print("| " + " | ".join(cells + [row["differs"] or "agree"]) + " |")


def print_table(rows, threads):
    heads = ["%d thread%s: rlx, ORT (ms) | ratio (paired)" % (count, "s" if count > 1 else "") for count in threads]
    print("| network | " + " | ".join(heads) + " | outputs |\n" + "|---" * (2 + 2 * len(threads)) + "|")
    for row in rows:
        print_row(row, threads)
    for key in ("t%d_ratio" % count for count in threads):
        part = [row for row in rows if key in row]
        print("\ngeometric mean of %d, %s: %.2f" % (len(part), key.replace("_", " "), bench.mean(part, key)))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=lambda text: [int(count) for count in text.split(",")], default=[1, 2])
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main():
    args = arguments()
    names = args.only.split(",") if args.only else list(NETWORKS)
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        sys.exit("architectures.py: no network '%s'; --list says which there are" % unknown[0])
    if args.list:
        print("\n".join("%-18s %s" % (name, NETWORKS[name]["build"].__doc__) for name in names))
        return 0
    tools = os.path.abspath(os.path.join(args.build, "bench-onnx"))
    folder = os.path.join(tools, "arch")
    os.makedirs(folder, exist_ok=True)
    subprocess.run([os.path.join(HERE, "install.sh"), tools, folder], check=True)  # only the peer: no models are there
    rows = []
    for name in names:
        rows.append(measure(args, folder, bench.find_library(tools), name))
        print(name, rows[-1].get("differs") or "agrees", file=sys.stderr)
    print_table(rows, args.threads)
    return 1 if any(row["differs"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
