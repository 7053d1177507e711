#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The ONNX backend suite through `rlx check`: what fails is exactly what known_failures.txt lists.

usage: conformance_test.py RLX [SUITE]   (SUITE: Debian's libonnx-testdata; 77 = skipped, not there)
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


def main():
    rlx = sys.argv[1]
    suite = sys.argv[2] if len(sys.argv) > 2 else "/usr/share/libonnx-testdata/data"
    folders = [os.path.join(suite, part) for part in PARTS]
    if not all(os.path.isdir(folder) for folder in folders):
        print("skipped: libonnx-testdata is not installed (%s)" % suite)
        return 77
    done = subprocess.run([rlx, "check", "--json"] + folders, stdout=subprocess.PIPE, check=False)
    lines = done.stdout.decode().splitlines()
    rows = [json.loads(line) for line in lines[:-1]]
    expected = known(os.path.join(os.path.dirname(os.path.abspath(__file__)), "known_failures.txt"))
    wrong = 0
    for row in rows:
        wanted = expected.get(row["test"], "ok")
        if row["outcome"] != wanted:
            wrong += 1
            print("%s: %s instead of %s: %s" % (row["test"], row["outcome"], wanted, row["reason"]))
    print(lines[-1])
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
