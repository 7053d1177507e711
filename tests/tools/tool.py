# SPDX-License-Identifier: Apache-2.0
"""What the tests of the rlx command share: a folder per test, running the binary, .npy files.

Each test file is started as `python3 -B x_test.py RLX_BINARY`. Every run of the command is checked
for what holds for all verbs: failures say something on stderr, usage errors print nothing on
stdout, and no escape code leaves a command whose stderr is no terminal.
"""
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

RLX = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else "rlx"

MLP = """rlx 1
symbol S
input x : f32[S, 16]
param w1 : f32[16, 32] = seeded(7, 0.2)
param b1 : f32[32] = seeded(8, 0.1)
param w2 : f32[32, 8] = seeded(9, 0.2)
h = matmul(x, w1)
hb = add(h, b1)
g = gelu(hb)
y = matmul(g, w2)
p = softmax(y) axis=-1
output p as "probs"
output y
"""

# Adds a row to a state at a position, and sums what is there.
ROWS = """rlx 1
input row : f32[1, 4]
input at : i64[]
state k : f32[3, 4]
k2, n = state_write(k, row, at) axis=0
s = reduce_sum(k2) axes=[0]
output s
"""

# Runs for minutes, if nobody stops it.
ENDLESS = """rlx 1
input x : f32[64, 64]
const n : i64[] = 100000000
const go : bool[] = true
y = loop(n, go, x) bound=100000000 (i, acc) {
    z = matmul(acc, x)
    t = tanh(z)
    yield go, t
}
output y
"""

_FORMATS = {"<f4": "f", "<f8": "d", "<i8": "q", "<i4": "i", "|u1": "B", "<u2": "H", "|b1": "?"}


def npy_bytes(descr, shape, values):
    """A .npy file, written by hand so that numpy is not needed."""
    dims = "".join(f"{dim}, " for dim in shape)
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({dims}), }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = struct.pack(f"<{len(values)}{_FORMATS[descr]}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data


def read_npy(path):
    """(descr, shape, values) of a .npy file."""
    data = pathlib.Path(path).read_bytes()
    assert data[:8] == b"\x93NUMPY\x01\x00", data[:8]
    length = struct.unpack("<H", data[8:10])[0]
    head = eval(data[10:10 + length].decode(), {})  # our own file: a plain dict
    body = data[10 + length:]
    code = _FORMATS[head["descr"]]
    count = len(body) // struct.calcsize(code)
    return head["descr"], head["shape"], list(struct.unpack(f"<{count}{code}", body))


def end_on_signals():
    """In the child: signals do what they do by default, also when CTest runs in the background."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class ToolTest(unittest.TestCase):
    """A fresh folder per test; it must hold exactly the files that `expect_files` lists."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rlx-tools-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("RLX_")}

    def path(self, name):
        return str(self.folder / name)

    def write(self, name, data):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return str(path)

    def write_npy(self, name, descr, shape, values):
        return self.write(name, npy_bytes(descr, shape, values))

    def names(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))

    def run_raw(self, *arguments, before=end_on_signals, **options):
        return subprocess.run([RLX, *map(str, arguments)], capture_output=True, check=False,
                              cwd=self.folder, env=self.environment, preexec_fn=before,
                              stdin=subprocess.DEVNULL, timeout=240, **options)

    def rlx(self, *arguments, code=0, says=(), prints=(), **options):
        """Runs the command; `says` must be on stderr, `prints` on stdout. Gives stdout."""
        done = self.run_raw(*arguments, **options)
        out, err = done.stdout.decode(), done.stderr.decode()
        shown = f"\nrlx {' '.join(map(str, arguments))}: exit {done.returncode}\n{out}\n{err}"
        self.assertEqual(done.returncode, code, shown)
        for text in (says,) if isinstance(says, str) else says:
            self.assertIn(text, err, shown)
        for text in (prints,) if isinstance(prints, str) else prints:
            self.assertIn(text, out, shown)
        self.assertNotIn("\033", out + err, shown)
        if code not in (0, 5):
            self.assertRegex(err, r"(^|\n)(rlx|usage: rlx)[ :][^\0]*\n$", shown)
        if code == 2:
            self.assertEqual(out, "", shown)
        self.last_error = err
        return out

    def json_lines(self, *arguments, **options):
        return [json.loads(line) for line in self.rlx(*arguments, **options).splitlines()]

    def assert_close(self, made, expected, tolerance=1e-5):
        """Outputs of two instruction sets: f32 arrays that agree but for rounding."""
        self.assertEqual(sorted(made), sorted(expected))
        for name, data in expected.items():
            start = 10 + int.from_bytes(data[8:10], "little")
            self.assertEqual(made[name][:start], data[:start])
            self.assertIn(b"'<f4'", data[:start])
            pairs = zip(struct.iter_unpack("<f", made[name][start:]),
                        struct.iter_unpack("<f", data[start:]))
            for (a,), (b,) in pairs:
                self.assertLessEqual(abs(a - b), tolerance * (1 + abs(b)), name)

    def outputs(self, *arguments):
        """Runs into a folder of its own; gives {file name: bytes}."""
        folder = tempfile.mkdtemp(dir=self.folder)
        self.rlx("run", *arguments, "-q", "--output-dir", folder)
        files = {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}
        shutil.rmtree(folder)
        return files
