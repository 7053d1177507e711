#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend suite through `rlx check`: what fails is exactly what known_failures.txt lists.

usage: conformance_test.py RLX [DEVICE [EVERY [SUITE]]]
DEVICE: cpu; where it is another one, at least 1030 of all tests must run wholly on it. EVERY: one test of so many (1).
SUITE: Debian's libonnx-testdata. 77 = skipped: the suite or the device is not there.
"""
import json
import os
import subprocess
import sys

PARTS = ("node", "simple", "pytorch-converted", "pytorch-operator")


def known(path):
    """Test name: expected outcome."""
    rows = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                outcome, name = line.split()[:2]
                rows[name.rstrip(":")] = outcome
    return rows


MOST_FOLDERS = 60  # of one rlx check


def find_tests(suite, every):
    """Folders: whole parts, or one test of `every`."""
    parts = [os.path.join(suite, part) for part in PARTS]
    if every == 1:
        return [parts]
    tests = sorted(os.path.join(part, name) for part in parts for name in os.listdir(part))[::every]
    return [tests[i:i + MOST_FOLDERS] for i in range(0, len(tests), MOST_FOLDERS)]


def run(rlx, device, groups):
    rows = []
    for folders in groups:
        done = subprocess.run([rlx, "check", "--json", "--device", device] + folders,
                              stdout=subprocess.PIPE, check=False)
        rows += [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith("{")]
    return rows


def is_there(rlx, device):
    done = subprocess.run([rlx, "devices", "--json"], stdout=subprocess.PIPE, check=True)
    devices = [json.loads(line) for line in done.stdout.decode().splitlines()]
    return any(row["available"] and (device == row["name"] or device.split(":")[-1].lower() in
                                     (row["name"] + row["description"]).lower()) for row in devices)


def main():
    rlx = sys.argv[1]
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    suite = sys.argv[4] if len(sys.argv) > 4 else "/usr/share/libonnx-testdata/data"
    if not all(os.path.isdir(os.path.join(suite, part)) for part in PARTS):
        print("skipped: libonnx-testdata is not installed (%s)" % suite)
        return 77
    if not is_there(rlx, device):
        print("skipped: no device %s" % device)
        return 77
    rows = run(rlx, device, find_tests(suite, every))
    expected = known(os.path.join(os.path.dirname(os.path.abspath(__file__)), "known_failures.txt"))
    wrong = 0
    for row in rows:
        wanted = expected.get(row["test"], "ok")
        if row["outcome"] != wanted:
            wrong += 1
            print("%s: %s instead of %s: %s" % (row["test"], row["outcome"], wanted, row["reason"]))
    passed = [row for row in rows if row["outcome"] == "ok"]
    whole = sum(row["host_steps"] == 0 for row in passed)
    print("%d passed, %d failed, %d wholly on %s" % (len(passed), len(rows) - len(passed), whole, device))
    if device != "cpu" and every == 1 and whole < 1030:
        wrong += 1
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
