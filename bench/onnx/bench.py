#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rlx beside ONNX Runtime: latency, peak memory and start-up of ONNX models, same inputs, outputs compared.

usage: bench.py BUILD [--models FOLDER] [--only NAME[,NAME..]] [--rounds N] [--table]
       bench.py BUILD --model FILE [--bind SYM=N].. [--input NAME=VALUE or LOW:HIGH].. [--output NAME].. [--rounds N]
BUILD is the build folder with rlx_onnx_runner; what install.sh fetches goes to BUILD/bench-onnx. FOLDER (RLX_TEST_DATA/models)
holds the models; --model takes any other instead, with inputs made by rule (numbers in [-1, 1), integers 0, unless --input
says otherwise) and its f32 outputs compared (all, or those that --output names). Results are kept in BUILD/bench-onnx/results.json; --table prints them all and measures nothing.

Per model and number of threads: three processes (rlx; ONNX Runtime with the levels "basic" and "all") are made ready,
then take turns of equal length. The faster level counts. A ratio is ours over theirs: of the best times, and the
median of the ratios of each round.
"""
import argparse
import array
import glob
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "scripts"))
import onnx_cases  # noqa: E402

TURN_MS = 60.0
LEAST_RUNS = 4  # the first run of a turn finds the caches full of what the other engines left
CNN = ("resnet50", "inception_v1", "shufflenet", "squeezenet", "bvlc_alexnet", "minilm_l6", "minilm_l6#32")
IMAGE = "in_0 `%s` float32[1,3,224,224] lcg(0) in [-1,1)"


def more_cases(cases):
    """Cases that have no reference outputs."""
    def image(port):
        return onnx_cases.Input(onnx_cases.INPUT.match(IMAGE % port).groups())
    cases["shufflenet"] = ([image("gpu_0/data_0")], ["gpu_0/softmax_1"])
    cases["bvlc_alexnet"] = ([image("data_0")], ["prob_1"])
    if "minilm_l6" in cases:
        lines = ("in_0 `input_ids` int64[1,32] lcg(0) in [0,30000)", "in_1 `attention_mask` int64[1,32] all 1")
        cases["minilm_l6#32"] = ([onnx_cases.Input(onnx_cases.INPUT.match(line).groups()) for line in lines],
                                 cases["minilm_l6"][1])
    return cases


def own_case(build, args):
    """(inputs, outputs) of a file that nobody has a reference for."""
    done = subprocess.run([os.path.join(build, "rlx"), "inspect", args.model, "--json"], stdout=subprocess.PIPE, check=True)
    facts = json.loads(done.stdout)
    sizes = dict(bind.rsplit("=", 1) for bind in args.bind)
    rules = dict(rule.rsplit("=", 1) for rule in args.input)
    inputs = []
    for number, port in enumerate(facts["inputs"]):
        dtype, dims = port["type"].rstrip("]").split("[")
        dtype = {"f32": "float32", "i64": "int64", "i32": "int32", "bool": "bool"}[dtype]
        dims = [sizes.get(dim, dim) for dim in dims.split(", ") if dim]
        unknown = [dim for dim in dims if not dim.isdigit()]
        if unknown:
            sys.exit("bench.py: input '%s' needs --bind %s=N" % (port["name"], unknown[0]))
        rule = rules.get(port["name"], "-1:1" if dtype == "float32" else "0")
        low, high = rule.split(":") if ":" in rule else (None, None)
        inputs.append(onnx_cases.Input((str(number), port["name"], dtype, ",".join(dims), str(number), low, high,
                                        None if low else rule)))
    return inputs, args.output or facts["outputs"]


def find_model(models, folder, name):
    for path in (os.path.join(models, name.split("#")[0] + ".onnx"), os.path.join(folder, name.split("#")[0] + ".onnx")):
        if os.path.exists(path):
            return path
    return None


def find_library(folder):
    return glob.glob(os.path.join(folder, "node_modules/onnxruntime-node/bin/napi-v*/linux/x64/libonnxruntime.so.1"))[0]


def write_case(folder, name, model, inputs, outputs):
    """The case file of the runner."""
    base = os.path.join(folder, "case-" + name.replace("#", "-"))
    lines = ["model " + model]
    for port in inputs:
        path = "%s-in%s.raw" % (base, port.number)
        with open(path, "wb") as file:
            file.write(port.values().tobytes())
        lines.append("in %s %s %s %s" % (port.name, port.dtype, ",".join(map(str, port.dims)) or "-", path))
    lines += ["out " + port for port in outputs]
    with open(base + ".txt", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return base + ".txt"


class Engine:
    """A runner process."""

    def __init__(self, runner, args):
        self.child = subprocess.Popen([runner] + args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.facts = self.answer()

    def answer(self):
        line = self.child.stdout.readline()
        if not line:
            raise RuntimeError("the runner ended: %s" % " ".join(self.child.args))
        return json.loads(line)

    def ask(self, command):
        self.child.stdin.write(command + "\n")
        self.child.stdin.flush()
        return self.answer()

    def turn(self, runs):
        time.sleep(0.06)  # ONNX Runtime's workers go on spinning for 40 ms
        return self.ask("run %d" % runs)

    def close(self):
        self.child.stdin.close()
        self.child.wait()


def take_turns(engines, rounds):
    """Per engine the list of its turns: {best, median}."""
    runs = []
    for engine in engines:
        once = engine.turn(2)["best"]
        runs.append(max(LEAST_RUNS, min(2000, int(TURN_MS / max(once, 1e-3)))))
    turns = [[] for _ in engines]
    for _ in range(rounds):
        for i, engine in enumerate(engines):
            turns[i].append(engine.turn(runs[i]))
    return turns


def outputs_of(engine, path):
    engine.ask("write " + path)
    with open(path, "rb") as file:
        return array.array("f", file.read())


def cold(runner, args):
    done = subprocess.run([runner, "cold", "5"] + args + ["--once"], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)["cold"]


def start_up(runner, case, folder, name, library, row):
    """Fresh processes: from the model and from a compiled program, beside the peer."""
    program = os.path.join(folder, name.replace("#", "-") + ".rlxp")
    compiled = case.replace(".txt", "-program.txt")
    engine = Engine(runner, ["rlx", case, "1"])
    engine.ask("save " + program)
    engine.close()
    with open(case, encoding="utf-8") as file:
        lines = file.read().splitlines()
    with open(compiled, "w", encoding="utf-8") as file:
        file.write("\n".join(["model " + program] + lines[1:]) + "\n")
    row["cold_onnx"] = cold(runner, ["rlx", case, "1"])
    row["cold_program"] = cold(runner, ["rlx", compiled, "1"])
    row["cold_ort"] = min(cold(runner, ["ort", case, "1", "--level", level, "--library", library]) for level in ("basic", "all"))
    engine = Engine(runner, ["rlx", compiled, "1"])
    row["kib_program"] = engine.facts["kib"]
    engine.close()


def latency(runner, case, folder, name, library, rounds, threads, row, loose=None):
    """Three processes in turns on `threads` threads; the first time also memory, start and outputs."""
    levels = ("basic", "all")
    engines = [Engine(runner, ["rlx", case, str(threads)])]
    engines += [Engine(runner, ["ort", case, str(threads), "--level", level, "--library", library]) for level in levels]
    ours, basic, full = take_turns(engines, rounds)
    best = [min(t["best"] for t in turns) for turns in (ours, basic, full)]
    peer = full if best[2] <= best[1] else basic
    key = "t%d_" % threads
    row[key + "rlx"], row[key + "ort"] = best[0], min(best[1:])
    row[key + "level"] = levels[1] if best[2] <= best[1] else levels[0]
    row[key + "ratio"] = best[0] / min(best[1:])
    row[key + "paired"] = statistics.median(a["median"] / b["median"] for a, b in zip(ours, peer))
    if "differs" not in row:
        row["kib_rlx"], row["kib_ort"] = engines[0].facts["kib"], min(e.facts["kib"] for e in engines[1:])
        row["ready_rlx"], row["ready_ort"] = engines[0].facts["ready"], min(e.facts["ready"] for e in engines[1:])
        found = [outputs_of(e, os.path.join(folder, "out.raw")) for e in engines[:2]]
        row["differs"] = onnx_cases.differs(name, found[0], found[1], loose)
    for engine in engines:
        engine.close()


def measure(runner, case, folder, name, library, rounds):
    row = {"name": name, "date": time.strftime("%Y-%m-%d")}
    for threads in (1, 2):
        latency(runner, case, folder, name, library, rounds, threads, row)
    start_up(runner, case, folder, name, library, row)
    return row


def mean(rows, key):
    return statistics.geometric_mean([row[key] for row in rows]) if rows else float("nan")


def print_table(rows):
    print("| model | 1 thread: rlx, ORT (ms) | ratio (paired) | 2 threads: rlx, ORT (ms) | ratio (paired) "
          "| peak RSS MB: rlx, from program, ORT | first result, cold, ms: .onnx, program, ORT | outputs |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        cells = [row["name"]]
        for key in ("t1_", "t2_"):
            cells.append("%.3f, %.3f (%s)" % (row[key + "rlx"], row[key + "ort"], row[key + "level"]))
            cells.append("%.2f (%.2f)" % (row[key + "ratio"], row[key + "paired"]))
        cells.append("%.1f, %.1f, %.1f" % tuple(row[k] / 1024 for k in ("kib_rlx", "kib_program", "kib_ort")))
        cells.append("%.1f, %.1f, %.1f" % tuple(row[k] for k in ("cold_onnx", "cold_program", "cold_ort")))
        cells.append(row["differs"] or "agree")
        print("| " + " | ".join(cells) + " |")
    for title, part in (("CNNs and MiniLM", [r for r in rows if r["name"] in CNN]),
                        ("the rest", [r for r in rows if r["name"] not in CNN])):
        if not part:
            continue
        print("\ngeometric mean, %s: %.2f (1 thread), %.2f (2 threads)" % (title, mean(part, "t1_ratio"), mean(part, "t2_ratio")))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--models", default=os.path.join(os.environ.get("RLX_TEST_DATA", os.path.join(HERE, "../../../shared")), "models"))
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--model")
    for option in ("--bind", "--input", "--output"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("--table", action="store_true")
    return parser.parse_args()


def bench_file(args, folder):
    subprocess.run([os.path.join(HERE, "install.sh"), folder, args.models], check=True)
    inputs, outputs = own_case(args.build, args)
    case = write_case(folder, "own", os.path.abspath(args.model), inputs, outputs)
    runner = os.path.join(args.build, "bench", "onnx", "rlx_onnx_runner")
    row = measure(runner, case, folder, "own", find_library(folder), args.rounds)
    row["name"] = os.path.basename(args.model)
    print_table([row])
    return 1 if row["differs"] else 0


def main():
    args = arguments()
    folder = os.path.abspath(os.path.join(args.build, "bench-onnx"))
    if args.model:
        return bench_file(args, folder)
    kept = os.path.join(folder, "results.json")
    results = {}
    if os.path.exists(kept):
        with open(kept, encoding="utf-8") as file:
            results = json.load(file)
    if not args.table:
        subprocess.run([os.path.join(HERE, "install.sh"), folder, args.models], check=True)
        library = find_library(folder)
        runner = os.path.join(args.build, "bench", "onnx", "rlx_onnx_runner")
        cases = more_cases(onnx_cases.references(os.path.join(args.models, "refs", "REFS.txt")))
        for name, (inputs, outputs) in cases.items():
            model = find_model(args.models, folder, name)
            if model is None or not inputs or (args.only and name not in args.only.split(",")):
                continue
            case = write_case(folder, name, os.path.abspath(model), inputs, outputs)
            results[name] = measure(runner, case, folder, name, library, args.rounds)
            print(json.dumps(results[name]), file=sys.stderr)
            with open(kept, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    print_table(list(results.values()))
    return 1 if any(row["differs"] for row in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
