#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoders whose keys and values stay in the program (--grow): each graph is fed a few tokens, then one at a time. The
same model with its past as an ordinary input, given back by the caller, must say the same on scalar C without any pass.

usage: growth_test.py RLX [NAME..]
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "..", "scripts")]
from contrib_test import differs  # noqa: E402
from graphs import Graph, Numbers, tensor  # noqa: E402
import onnx_cases  # noqa: E402

CASES = {}
HEADS, WIDTH, MOST = 2, 4, 8


def case(make):
    CASES[make.__name__] = make
    return make


def size(g, x, axis):
    return g.Gather(g.Shape(x), g.ints(axis), axis=0)


def number(g, x, axis):
    return g.Gather(g.Shape(x), g.scalar(axis, "i64"), axis=0)


def heads(g, x):
    """[1, S, 8] to [1, heads, S, 4]."""
    return g.Transpose(g.Reshape(g.MatMul(x, g.weight(8, 8)), g.ints(0, 0, HEADS, WIDTH)), perm=[0, 2, 1, 3])


def joined(g, x):
    return g.Reshape(g.Transpose(x, perm=[0, 2, 1, 3]), g.ints(0, 0, 8))


def attend(g, q, keys_turned, values, mask):
    scores = g.Mul(g.MatMul(q, keys_turned), g.scalar(0.5))
    return joined(g, g.MatMul(g.Softmax(g.Add(scores, mask), axis=-1), values))


def causal(g, x, total):
    """0 where a key is not behind its query, else a very low number: [S, total]. Its sizes are computed."""
    length = number(g, x, 1)
    places = g.Range(g.scalar(0, "i64"), total, g.scalar(1, "i64"))
    own = g.Range(g.Sub(total, length), total, g.scalar(1, "i64"))
    later = g.Greater(g.Unsqueeze(places, g.ints(0)), g.Unsqueeze(own, g.ints(1)))
    return g.Where(later, g.scalar(-1e9), g.scalar(0.0))


def expanded(g, x, shape):
    """Expand as PyTorch writes it: sizes of -1 become 1 first."""
    ones = g.ConstantOfShape(g.Shape(shape), value=g.numbers_tensor(1))
    return g.Expand(x, g.Where(g.Equal(shape, g.Mul(ones, g.scalar(-1, "i64"))), ones, shape))


@case
def keys_and_values(g, x):
    """Two layers; the second one takes its positions from the first one's past."""
    pasts = []
    for layer in range(2):
        past = [g.input("past.%d.%s" % (layer, kind), "f32", [1, HEADS, "P", WIDTH]) for kind in "kv"]
        pasts += past
        keys, values = [g.Concat(old, heads(g, x), axis=2) for old in past]
        total = g.Add(number(g, pasts[0], 2), number(g, x, 1))
        mask = causal(g, x, total)
        x = g.Add(x, attend(g, heads(g, x), g.Transpose(keys, perm=[0, 1, 3, 2]), values, mask))
        g.caches += [("past.%d.k" % layer, keys, 2), ("past.%d.v" % layer, values, 2)]
    return x


@case
def a_mask_that_grows(g, x):
    """The mask is an input, as long as all keys; positions are its sums."""
    past = [g.input("past." + kind, "f32", [1, HEADS, "P", WIDTH]) for kind in "kv"]
    seen = g.input("mask", "i64", [1, "P + S"])
    g.extra.append("mask")
    keys, values = [g.Concat(old, heads(g, x), axis=2) for old in past]
    g.caches += [("past.k", keys, 2), ("past.v", values, 2)]
    places = g.Sub(g.CumSum(seen, g.scalar(1, "i64")), g.scalar(1, "i64"))
    own = g.Slice(places, size(g, past[0], 2), size(g, keys, 2), g.ints(1))
    x = g.Add(x, g.Gather(g.weight(MOST, 8), own))
    shape = g.Concat(g.ints(1), g.ints(1), size(g, x, 1), size(g, keys, 2), axis=0)
    wide = expanded(g, g.Unsqueeze(g.Unsqueeze(seen, g.ints(1)), g.ints(1)), shape)
    hidden = g.Where(g.Equal(wide, g.scalar(0, "i64")), g.scalar(-1e9), g.scalar(0.0))
    hidden = g.Add(hidden, causal(g, x, number(g, keys, 2)))
    return g.Add(x, attend(g, heads(g, x), g.Transpose(keys, perm=[0, 1, 3, 2]), values, hidden))


@case
def one_tensor_of_both(g, x):
    """As GPT-2 was exported: keys and values in one past, keys turned before the concat, a table of masks."""
    past = g.input("past", "f32", [2, 1, HEADS, "P", WIDTH])
    old = [g.Squeeze(g.Slice(past, g.ints(i), g.ints(i + 1), g.ints(0)), g.ints(0)) for i in range(2)]
    keys = g.Concat(g.Transpose(old[0], perm=[0, 1, 3, 2]), g.Transpose(heads(g, x), perm=[0, 1, 3, 2]), axis=-1)
    values = g.Concat(old[1], heads(g, x), axis=-2)
    back = [g.Unsqueeze(g.Transpose(keys, perm=[0, 1, 3, 2]), g.ints(0)), g.Unsqueeze(values, g.ints(0))]
    g.caches.append(("past", g.Concat(*back, axis=0), 3))
    total = size(g, values, 2)
    start = g.Sub(total, size(g, x, 1))
    table = g.const("f32", [1, 1, MOST, MOST], [0.0 if j <= i else -1e9 for i in range(MOST) for j in range(MOST)])
    mask = g.Slice(g.Slice(table, start, total, g.ints(2)), g.ints(0), total, g.ints(3))
    return g.Add(x, attend(g, heads(g, x), keys, values, mask))


@case
def turned_keys(g, x):
    """Keys are kept as [heads, width, rows]; a lower triangle hides what comes later."""
    old = g.input("past.k", "f32", [1, HEADS, WIDTH, "P"])
    keys = g.Concat(old, g.Transpose(heads(g, x), perm=[0, 1, 3, 2]), axis=3)
    values = g.Concat(g.input("past.v", "f32", [1, HEADS, "P", WIDTH]), heads(g, x), axis=2)
    g.caches += [("past.k", keys, 3), ("past.v", values, 2)]
    shape = g.Concat(size(g, keys, 3), size(g, keys, 3), axis=0)
    low = g.Trilu(g.ConstantOfShape(shape, value=g.numbers_tensor(1)), upper=0)
    rows = g.Slice(low, size(g, old, 3), size(g, keys, 3), g.ints(0))
    mask = g.Where(g.Equal(rows, g.scalar(0, "i64")), g.scalar(-1e9), g.scalar(0.0))
    return g.Add(x, attend(g, heads(g, x), keys, values, mask))


@case
def attention_of_many_heads(g, x):
    """MultiHeadAttention of com.microsoft with a past of its own."""
    q, k, v = [g.MatMul(x, g.weight(8, 8)) for _ in range(3)]
    past = [g.input("past." + kind, "f32", [1, HEADS, "P", WIDTH]) for kind in "kv"]
    y, keys, values = g.node("MultiHeadAttention", [q, k, v, "", "", "", *past], outputs=3, domain="com.microsoft",
                             num_heads=HEADS, unidirectional=1)
    g.caches += [("past.k", keys, 2), ("past.v", values, 2)]
    return g.Add(x, y)


@case
def attention_of_groups(g, x):
    """GroupQueryAttention; positions turn queries and keys. Lengths are inputs that a cache of its own does not need."""
    q, k, v = [g.MatMul(x, g.weight(8, 8)) for _ in range(3)]
    past = [g.input("past." + kind, "f32", [1, HEADS, "P", WIDTH]) for kind in "kv"]
    lengths, total = g.input("lengths", "i32", [1]), g.input("total", "i32", [])
    g.lengths += ["lengths", "total"]
    y, keys, values = g.node("GroupQueryAttention", [q, k, v, *past, lengths, total, g.weight(MOST, 2), g.weight(MOST, 2)],
                             outputs=3, domain="com.microsoft", num_heads=HEADS, kv_num_heads=HEADS, do_rotary=1)
    g.caches += [("past.k", keys, 2), ("past.v", values, 2)]
    return g.Add(x, y)


def summed(g, x, axis):
    return g.ReduceSum(x, g.ints(axis), keepdims=1)


@case
def all_but_the_last(g, x):
    """Sizes less a number, which are below 0 at first: nothing is there then, or all there is."""
    old = g.input("past.k", "f32", [1, HEADS, "P", WIDTH])
    keys = g.Concat(old, heads(g, x), axis=2)
    g.caches.append(("past.k", keys, 2))
    less = g.Sub(size(g, old, 2), g.ints(1))
    older = g.Add(summed(g, g.Slice(old, g.ints(0), g.ints(-1), g.ints(2)), 2),
                  summed(g, g.Slice(old, g.ints(0), less, g.ints(2)), 2))
    last = summed(g, g.Slice(keys, g.ints(-4), g.ints(1 << 62), g.ints(2)), 2)
    table = summed(g, g.Slice(g.weight(1, HEADS, MOST, WIDTH), g.ints(2), size(g, old, 2), g.ints(2)), 2)
    ranges = [g.Range(first, g.Squeeze(less, g.ints(0)), g.scalar(1, "i64"))
              for first in (g.scalar(0, "i64"), g.Sub(number(g, old, 2), g.scalar(3, "i64")))]
    numbers = [summed(g, g.Cast(places, to=1), 0) for places in ranges]
    return g.Add(g.Add(x, joined(g, g.Add(g.Add(older, last), table))), g.Add(*numbers))


class Decoder(Graph):
    def __init__(self, make):
        super().__init__(7)
        # (input, output, axis that grows); inputs that grow beside them; inputs that say how long they are
        self.caches, self.extra, self.lengths = [], [], []
        x = self.input("x", "f32", [1, "S", 8])
        self.y = self.output(make(self, x), dims=None)
        for _, output, _ in self.caches:
            self.output(output, dims=None)

    def numbers_tensor(self, value):
        return tensor("i64", [1], [value])

    def dims(self, cache, rows):
        """Of a cache with so many rows."""
        name, _, axis = cache
        dims = [2] if name == "past" else []
        dims += [1, HEADS, WIDTH, WIDTH]
        return dims[:axis] + [rows] + dims[axis + 1:]


def run(rlx, folder, model, options, inputs):
    command = [rlx, "run", model, "-q", "--output-dir", folder] + options
    for name, (dtype, dims, values) in inputs.items():
        path = os.path.join(folder, "in-%s.npy" % name)
        onnx_cases.write_npy(path, dtype, dims, values)
        command += ["--input", "%s=%s" % (name, path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError("%s\n%s" % (" ".join(command[1:]), done.stdout + done.stderr))


def read(folder, name):
    return onnx_cases.read_npy(os.path.join(folder, name + ".npy"))


TOKENS = (3, 1, 1, 2)


def decode(rlx, folder, model, g, is_grown, program=None):
    """The outputs of all tokens: with states, or with pasts that go round by hand. A program has an entry for each count."""
    outputs, held, numbers = [], 0, Numbers(5)
    pasts = {name: [] for name, _, _ in g.caches}
    state = os.path.join(folder, "state")
    for count in TOKENS:
        inputs = {"x": ("float32", [1, count, 8], numbers.floats(8 * count))}
        if is_grown:
            options = ["--entry", "of%d" % count] if program else ["--bind", "S=%d" % count, "--grow", "P=%d" % MOST]
            options += ["--save-state", state]
            options += ["--load-state", state] if held else []
        else:
            options = ["--bind", "P=%d" % held, "--device", "cpu:scalar", "--disable", "all"]
            options += ["--bind", "P + S=%d" % (held + count)] if g.extra else []
            for cache in g.caches:
                inputs[cache[0]] = ("float32", g.dims(cache, held), pasts[cache[0]])
        for name in g.extra:
            rows = MOST if is_grown else held + count
            inputs[name] = ("int64", [1, rows], [0 if i == 1 else 1 for i in range(rows)])
        for name in g.lengths:
            is_total = name == "total"
            inputs[name] = ("int32", [] if is_total else [1], [held + count - (0 if is_total else 1)])
        run(rlx, folder, program or model, options, inputs)
        outputs += read(folder, g.y)
        held += count
        for name, output, _ in [] if is_grown else g.caches:
            pasts[name] = read(folder, output)
    return outputs


def check(rlx, folder, name):
    g = Decoder(CASES[name])
    model = os.path.join(folder, name + ".onnx")
    with open(model, "wb") as file:
        file.write(g.model())
    return differs(decode(rlx, folder, model, g, True), decode(rlx, folder, model, g, False), 1e-5, 1e-4)


def check_entries(rlx, folder, name):
    """One program whose entries take different numbers of tokens shares its caches."""
    g = Decoder(CASES[name])
    model, program = os.path.join(folder, name + ".onnx"), os.path.join(folder, name + ".p")
    entries = [option for count in sorted(set(TOKENS)) for option in ("--entry", "of%d:S=%d" % (count, count))]
    command = [rlx, "compile", model, "-q", "--grow", "P=%d" % MOST, "-o", program] + entries
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return done.stdout + done.stderr
    return differs(decode(rlx, folder, model, g, True, program), decode(rlx, folder, model, g, True), 1e-5, 1e-4)


def check_full(rlx, folder, name):
    """A run that has no room left fails and says so; a size that nothing gives back is refused."""
    g = Decoder(CASES[name])
    model = os.path.join(folder, name + ".onnx")
    inputs = {"x": ("float32", [1, MOST, 8], [0.1] * (8 * MOST))}
    options = ["--bind", "S=%d" % MOST, "--grow", "P=%d" % MOST]
    run(rlx, folder, model, options, inputs)
    try:
        run(rlx, folder, model, options + ["--repeat", "2"], inputs)
        return "a full cache took more rows"
    except RuntimeError as error:
        return None if "past" in str(error) and "state" in str(error) else str(error)


def main():
    rlx, names = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(CASES)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            try:
                problem = check(rlx, folder, name)
                if problem is None and name == "keys_and_values":
                    problem = check_full(rlx, folder, name) or check_entries(rlx, folder, name)
            except RuntimeError as error:
                problem = str(error)
            failed += problem is not None
            if problem is not None:
                print("%s: %s" % (name, problem.strip()))
    print("%d graphs, %d failed" % (len(names), failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
