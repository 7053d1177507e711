#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Judges `rlx place` from outside: greedy planners and a validator that share nothing with it.

  place_baselines.py IN.csv OUT.csv [--capacity BYTES]   judge one table that was already placed
  place_baselines.py --rlx BINARY --data FOLDER          place every NAME.CAPACITY.csv of a folder:
                                                         it must fit, and without a capacity be at
                                                         most each baseline
  place_baselines.py --rlx BINARY --generate [--count N] the same without capacity on seeded tables
  place_baselines.py --show IN.csv                       print the baselines of a table

The baselines are {size, breadth, length, conflicts, time order} x {first fit, best fit}. Exit 0 when
all holds, 1 when something does not, 77 when the folder is not there.
"""
import argparse
import csv
import math
import pathlib
import random
import subprocess
import sys
import tempfile

SKIPPED = 77


def read_table(path):
    """Rows as (id, lower, upper, size, offset or None)."""
    with open(path, newline="", encoding="utf-8") as file:
        return [(row["id"], int(row["lower"]), int(row["upper"]), int(row["size"]),
                 int(row["offset"]) if "offset" in row else None) for row in csv.DictReader(file)]


def write_table(path, buffers):
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,lower,upper,size\n")
        for index, (lower, upper, size) in enumerate(buffers):
            file.write(f"{index},{lower},{upper},{size}\n")


def neighbours(buffers):
    """For each buffer the others that are alive at some same time, by a sweep over starts."""
    near = [[] for _ in buffers]
    alive = []
    for i in sorted(range(len(buffers)), key=lambda k: buffers[k][0]):
        lower, upper, size = buffers[i]
        if lower >= upper or size == 0:
            continue
        alive = [j for j in alive if buffers[j][1] > lower]
        for j in alive:
            near[i].append(j)
            near[j].append(i)
        alive.append(i)
    return near


def live_bytes(buffers):
    """(time, bytes alive from then on), by time."""
    change = {}
    for lower, upper, size in buffers:
        if lower < upper:
            change[lower] = change.get(lower, 0) + size
            change[upper] = change.get(upper, 0) - size
    total, profile = 0, []
    for time in sorted(change):
        total += change[time]
        profile.append((time, total))
    return profile


def breadth_order(buffers):
    """Times by falling bytes alive; at each, those not taken yet by falling size."""
    order, taken = [], set()
    for time, _ in sorted(live_bytes(buffers), key=lambda entry: -entry[1]):
        here = [i for i, (lower, upper, _) in enumerate(buffers)
                if i not in taken and lower <= time < upper]
        here.sort(key=lambda i: -buffers[i][2])
        order += here
        taken.update(here)
        if len(taken) == len(buffers):
            break
    return order


def orders(buffers, near):
    index = range(len(buffers))
    return {
        "size": sorted(index, key=lambda i: -buffers[i][2]),
        "breadth": breadth_order(buffers),
        "length": sorted(index, key=lambda i: (buffers[i][0] - buffers[i][1], -buffers[i][2])),
        "conflicts": sorted(index, key=lambda i: (-len(near[i]), -buffers[i][2])),
        "time": sorted(index, key=lambda i: buffers[i][0]),
    }


def greedy_peak(buffers, near, order, best_fit):
    offsets, peak = {}, 0
    for i in order:
        lower, upper, size = buffers[i]
        if lower >= upper or size == 0:
            continue
        placed = sorted((offsets[j], offsets[j] + buffers[j][2]) for j in near[i] if j in offsets)
        top, chosen, smallest = 0, None, None
        for begin, end in placed:
            gap = begin - top
            if gap >= size and (chosen is None or (best_fit and gap < smallest)):
                chosen, smallest = top, gap
                if not best_fit:
                    break
            top = max(top, end)
        offsets[i] = top if chosen is None else chosen
        peak = max(peak, offsets[i] + size)
    return peak


def baselines(buffers):
    near = neighbours(buffers)
    return {f"{name}/{'best' if best else 'first'}-fit": greedy_peak(buffers, near, order, best)
            for name, order in orders(buffers, near).items() for best in (False, True)}


def validate(rows, capacity):
    """The peak of a placed table, or an error text. Compares all neighbours."""
    buffers = [row[1:4] for row in rows]
    near = neighbours(buffers)
    peak = 0
    for i, (name, lower, upper, size, offset) in enumerate(rows):
        if offset is None or offset < 0:
            return None, f"buffer {name} has no offset"
        if lower >= upper or size == 0:
            continue
        peak = max(peak, offset + size)
        for j in near[i]:
            if offset < rows[j][4] + rows[j][3] and rows[j][4] < offset + size:
                return None, f"buffers {name} and {rows[j][0]} overlap"
    if capacity and peak > capacity:
        return peak, f"peak {peak} is above the capacity {capacity}"
    return peak, None


def judge(source, placed, capacity, label):
    """Prints one line; True when the placed table is right and, without capacity, good."""
    rows, given = read_table(placed), read_table(source)
    if [row[:4] for row in rows] != [row[:4] for row in given]:
        print(f"FAIL {label}: the rows are not those of the input")
        return False
    peak, error = validate(rows, capacity)
    if error:
        print(f"FAIL {label}: {error}")
        return False
    if capacity:
        print(f"ok   {label}: peak {peak} within {capacity}")
        return True
    peaks = baselines([row[1:4] for row in given])
    best = min(peaks, key=peaks.get)
    bound = max((total for _, total in live_bytes([row[1:4] for row in given])), default=0)
    worse = [name for name, value in peaks.items() if value < peak]
    verdict = "FAIL" if worse or peak < bound else "ok  "
    print(f"{verdict} {label}: peak {peak} ({peak / max(bound, 1):.4f} of the lower bound), "
          f"best baseline {best} {peaks[best]} ({peaks[best] / max(bound, 1):.4f})")
    return not worse and peak >= bound


def run_rlx(binary, source, placed, arguments, label):
    result = subprocess.run([binary, "place", str(source), "-o", str(placed), *arguments],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(f"FAIL {label}: exit {result.returncode}: {result.stderr.strip()}")
    return result.returncode == 0


def uniform_table(rng, count, times):
    """Uniform start, geometric length of mean 50, log-uniform size."""
    buffers = []
    for _ in range(count):
        lower = rng.randrange(times)
        length = 1 + int(math.log(1.0 - rng.random()) / math.log(1.0 - 1.0 / 50))
        buffers.append((lower, lower + length, int(math.exp(rng.uniform(math.log(64), 14)))))
    return buffers


def cut_table(rng, count, keep):
    """Pieces of a rectangle cut at random; some are thrown away."""
    pieces = [(0, 1024, 0, 1024)]
    while len(pieces) < count:
        at = rng.randrange(len(pieces))
        left, right, low, high = pieces[at]
        if rng.random() < 0.5 and right - left > 1:
            cut = rng.randrange(left + 1, right)
            pieces[at:at + 1] = [(left, cut, low, high), (cut, right, low, high)]
        elif high - low > 1:
            cut = rng.randrange(low + 1, high)
            pieces[at:at + 1] = [(left, right, low, cut), (left, right, cut, high)]
    rng.shuffle(pieces)
    return [(a * 1024, b * 1024, (d - c) * 1024) for a, b, c, d in pieces if rng.random() < keep]


def layered_table(rng, count):
    """Like a network: each buffer lives to the next step or two, a few much longer."""
    buffers = []
    for step in range(count):
        life = 2 if rng.random() < 0.8 else rng.randrange(3, 40)
        buffers.append((step, step + life, 256 * rng.choice([1, 2, 4, 8, 16, 49, 196, 784])))
    return buffers


def generated(count):
    """Names and tables, the same on every machine."""
    rng = random.Random(20240607)
    for k in range(count):
        yield f"uniform-{k}", uniform_table(rng, 40 * 2 ** (k % 6), 20 * 2 ** (k % 7))
        yield f"cut-{k}", cut_table(rng, 50 + 40 * (k % 6), 1.0 - 0.1 * (k % 4))
        yield f"layered-{k}", layered_table(rng, 60 + 100 * (k % 5))


def judge_generated(binary, count, folder):
    good = True
    for name, buffers in generated(count):
        source, placed = folder / f"{name}.csv", folder / f"{name}.out.csv"
        write_table(source, buffers)
        good &= run_rlx(binary, source, placed, [], name) and judge(source, placed, 0, name)
    return good


def judge_folder(binary, data, folder):
    good = True
    for source in data:
        capacity = int(source.name.split(".")[-2])
        placed = folder / f"{source.stem}.out.csv"
        arguments = ["--capacity", str(capacity), "--seconds", "60"]
        good &= (run_rlx(binary, source, placed, arguments, source.name)
                 and judge(source, placed, capacity, source.name))
        good &= (run_rlx(binary, source, placed, [], source.name)
                 and judge(source, placed, 0, source.name))
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="CSV", help="input and placed table")
    parser.add_argument("--capacity", type=int, default=0)
    parser.add_argument("--rlx", help="the rlx command")
    parser.add_argument("--data", type=pathlib.Path, help="folder of NAME.CAPACITY.csv")
    parser.add_argument("--generate", action="store_true")
    parser.add_argument("--count", type=int, default=8, help="rounds of --generate")
    parser.add_argument("--show", help="print the baselines of this table")
    options = parser.parse_args()
    if options.show:
        for name, peak in baselines([row[1:4] for row in read_table(options.show)]).items():
            print(f"{peak:14d} {name}")
        return 0
    if len(options.tables) == 2:
        return 0 if judge(*options.tables, options.capacity, options.tables[0]) else 1
    if not options.rlx or options.tables or not (options.data or options.generate):
        parser.error("give two tables, or --rlx with --data or --generate")
    with tempfile.TemporaryDirectory() as folder:
        if options.generate:
            return 0 if judge_generated(options.rlx, options.count, pathlib.Path(folder)) else 1
        data = sorted(options.data.glob("*.[0-9]*.csv"))
        if not data:
            print(f"skipped: no NAME.CAPACITY.csv in {options.data}")
            return SKIPPED
        return 0 if judge_folder(options.rlx, data, pathlib.Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
