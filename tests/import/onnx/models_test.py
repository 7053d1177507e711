#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real models against reference outputs, through `rlx run`.

The folder (RLX_ONNX_MODELS) holds *.onnx and refs/REFS.txt: per model its inputs (a rule, or "all N") and
outputs; refs/MODEL/out_K.npy are the references, out_K_strideS.npy every S-th element. Without the
folder the test is skipped (77).
usage: models_test.py RLX [MODEL..]
"""
import array
import os
import re
import struct
import subprocess
import sys
import tempfile

CODES = {"float32": ("<f4", "f"), "int64": ("<i8", "q"), "int32": ("<i4", "i")}
INPUT = re.compile(r"in_(\d+) `(.*)` (\w+)\[([\d,]*)\] (?:lcg\((\d+)\) in \[([-\d]+),(\d+)\)|all ([-\d]+))")
OUTPUT = re.compile(r"out_(\d+) `(.*)` (\w+)\[")


def lcg(index, low, high, count, is_float):
    """The input rule: a 32-bit congruence, scaled in double."""
    x = 12345 + 777 * index
    out = []
    for _ in range(count):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        value = low + (high - low) * ((x >> 8) / 16777216.0)
        out.append(value if is_float else int(value // 1))
    return out


def write_npy(path, descr, code, dims, values):
    shape = "(%s)" % "".join("%d, " % dim for dim in dims)
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(array.array(code, values).tobytes())


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    code = {"f4": "f", "i8": "q", "i4": "i"}[re.search(r"'[<|](\w+)'", data[:10 + size].decode("latin1")).group(1)]
    return array.array(code, data[10 + size:])


def references(path):
    """Model: ([inputs], [outputs]) of REFS.txt."""
    models, current = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("- **"):
                name = line.split("**")[1]
                current = models.setdefault(name, ([], []))
                if "(" in name:
                    current = ([], [])
            elif INPUT.match(line.strip()):
                current[0].append(INPUT.match(line.strip()).groups())
            elif OUTPUT.match(line.strip()):
                current[1].append(OUTPUT.match(line.strip()).groups())
    return models


def file_name(port):
    """As `rlx run` writes it: what a path would trip over is %XX."""
    return "".join("%%%02X" % ord(c) if c in "/%" else c for c in port) + ".npy"


def find_model(folder, name):
    for path in (name + ".onnx", os.path.join("expanded", name + ".onnx")):
        if os.path.exists(os.path.join(folder, path)):
            return os.path.join(folder, path)
    return None


def compare(name, got, folder, number):
    """None, or what is wrong with output `number`."""
    stride, path = 1, os.path.join(folder, "out_%d.npy" % number)
    if not os.path.exists(path):
        found = [f for f in os.listdir(folder) if f.startswith("out_%d_stride" % number)]
        stride = int(re.search(r"stride(\d+)", found[0]).group(1))
        path = os.path.join(folder, found[0])
    expected = read_npy(path)
    got = got[::stride]
    if len(got) != len(expected):
        return "%d elements instead of %d" % (len(got), len(expected))
    off = [i for i in range(len(got)) if not abs(got[i] - expected[i]) <= 1e-4 + 1e-3 * abs(expected[i])]
    if name.startswith("qdq"):  # quantisation steps may fall on the other side
        rms = (sum((a - b) ** 2 for a, b in zip(got, expected)) / len(got)) ** 0.5
        return None if rms <= 0.04 and len(off) <= 0.01 * len(got) else "rms %g, %d off" % (rms, len(off))
    if not off:
        return None
    return "element %d is %g instead of %g (%d off)" % (off[0], got[off[0]], expected[off[0]], len(off))


def check(rlx, model, folder, name, inputs, outputs):
    with tempfile.TemporaryDirectory() as temp:
        args = []
        for number, port, dtype, dims, seed, low, high, constant in inputs:
            dims = [int(d) for d in dims.split(",") if d]
            count = 1
            for dim in dims:
                count *= dim
            is_float = dtype == "float32"
            values = [float(constant) if is_float else int(constant)] * count if constant is not None \
                else lcg(int(seed), int(low), int(high), count, is_float)
            path = os.path.join(temp, "in_%s.npy" % number)
            write_npy(path, *CODES[dtype], dims, values)
            args += ["--input", "%s=%s" % (port, path)]
        target = os.path.join(temp, "out")
        done = subprocess.run([rlx, "run", model, "--output-dir", target] + args,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            return done.stderr.decode().strip()
        for number, port, _ in outputs:
            path = os.path.join(target, file_name(port))
            wrong = compare(name, read_npy(path), folder, int(number))
            if wrong:
                return "output '%s': %s" % (port, wrong)
    return None


def main():
    folder = os.environ.get("RLX_ONNX_MODELS", "")
    if not os.path.exists(os.path.join(folder, "refs", "REFS.txt")):
        print("skipped: RLX_ONNX_MODELS names no folder with models and refs/REFS.txt")
        return 77
    failed = count = 0
    for name, (inputs, outputs) in references(os.path.join(folder, "refs", "REFS.txt")).items():
        model = find_model(folder, name)
        if model is None or not inputs or (len(sys.argv) > 2 and name not in sys.argv[2:]):
            continue
        wrong = check(sys.argv[1], model, os.path.join(folder, "refs", name), name, inputs, outputs)
        count += 1
        failed += wrong is not None
        print("%s: %s" % (name, wrong or "ok"))
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
