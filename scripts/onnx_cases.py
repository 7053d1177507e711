# SPDX-License-Identifier: Apache-2.0
"""Models with reference outputs, as tests and benchmarks read them.

A folder holds *.onnx and refs/REFS.txt: per model its inputs (a rule, or "all N") and outputs; refs/MODEL/out_K.npy
are the references, out_K_strideS.npy every S-th element of them.
"""
import array
import os
import re
import struct

CODES = {"float32": ("<f4", "f"), "int64": ("<i8", "q"), "int32": ("<i4", "i"), "bool": ("|b1", "b")}
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


class Input:
    """One input: name, dtype, dims, and the rule of its values."""

    def __init__(self, groups):
        self.number, self.name, self.dtype, dims, self.seed, self.low, self.high, self.constant = groups
        self.dims = [int(d) for d in dims.split(",") if d]

    def values(self):
        count = 1
        for dim in self.dims:
            count *= dim
        is_float = self.dtype == "float32"
        if self.constant is not None:
            found = [float(self.constant) if is_float else int(self.constant)] * count
        else:
            found = lcg(int(self.seed), int(self.low), int(self.high), count, is_float)
        return array.array(CODES[self.dtype][1], found)


def references(path):
    """Model: ([Input], [name of output]) of REFS.txt."""
    models, current = {}, None
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("- **"):
                name = line.split("**")[1]
                current = models.setdefault(name, ([], [])) if "(" not in name else ([], [])
            elif INPUT.match(line.strip()):
                current[0].append(Input(INPUT.match(line.strip()).groups()))
            elif OUTPUT.match(line.strip()):
                current[1].append(OUTPUT.match(line.strip()).group(2))
    return models


def write_npy(path, dtype, dims, values):
    shape = "(%s)" % "".join("%d, " % dim for dim in dims)
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (CODES[dtype][0], shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(array.array(CODES[dtype][1], values).tobytes())


def read_npy(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    code = {"f4": "f", "i8": "q", "i4": "i"}[re.search(r"'[<|](\w+)'", data[:10 + size].decode("latin1")).group(1)]
    return array.array(code, data[10 + size:])


def far_apart(got, expected, loose):
    """The same for values that were rounded to few bits on the way: the root mean square of all errors counts."""
    error = sum((a - b) ** 2 for a, b in zip(got, expected))
    size = sum(b * b for b in expected)
    return None if error <= loose * loose * size else "rms of errors is %.2g of the outputs'" % (error / (size or 1)) ** 0.5


def differs(name, got, expected, loose=None):
    """None, or how two lists of numbers differ."""
    if len(got) != len(expected):
        return "%d elements instead of %d" % (len(got), len(expected))
    if loose is not None:
        return far_apart(got, expected, loose)
    off = [i for i in range(len(got)) if not abs(got[i] - expected[i]) <= 1e-4 + 1e-3 * abs(expected[i])]
    if name.startswith("qdq"):  # quantisation steps may fall on the other side
        rms = (sum((a - b) ** 2 for a, b in zip(got, expected)) / len(got)) ** 0.5
        return None if rms <= 0.04 and len(off) <= 0.01 * len(got) else "rms %g, %d off" % (rms, len(off))
    if not off:
        return None
    return "element %d is %g instead of %g (%d off)" % (off[0], got[off[0]], expected[off[0]], len(off))


def reference(folder, number):
    """(values, stride) of output `number`."""
    path = os.path.join(folder, "out_%d.npy" % number)
    if os.path.exists(path):
        return read_npy(path), 1
    found = [f for f in os.listdir(folder) if f.startswith("out_%d_stride" % number)][0]
    return read_npy(os.path.join(folder, found)), int(re.search(r"stride(\d+)", found).group(1))
