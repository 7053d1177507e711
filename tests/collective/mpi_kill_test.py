#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A rank is killed under mpirun: `mpi_kill_test.py PROGRAM MAPPED|NETWORK ENDS|LIVES COMMAND ..`.

ENDS: the launcher ends the whole job with an exit code of its own. LIVES: it was told not to, and
every survivor gets an error that names the rank, long before its timeout. Either way nobody is
left, and what a survivor says is right."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

RANKS, VICTIM, TRANSPORT = 3, 1, 19  # RLX_TRANSPORT


def alive(process):
    """Not counting one that has ended and waits for its parent."""
    return os.path.exists(f"/proc/{process}/fd/0") or os.path.exists(f"/proc/{process}/fd/1")


def wait_for_the_end(folder):
    processes = [int(path.read_text()) for path in folder.glob("process.?")]
    assert len(processes) == RANKS, processes
    for _ in range(1000):
        if not any(alive(process) for process in processes):
            return
        time.sleep(0.02)
    raise AssertionError(f"still there: {[p for p in processes if alive(p)]}")


def check_survivor(path, killed_ns):
    seen_ns, status, rank, text = path.read_text().split(" ", 3)
    assert int(status) == TRANSPORT and int(rank) == VICTIM, text
    assert f"rank {VICTIM} has died" in text, text
    print(f"{path.name}: {(int(seen_ns) - killed_ns) / 1e6:.1f} ms after it: {text}")


def main():
    program, way, fate, *command = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        done = subprocess.run([*command, "-n", str(RANKS), program, way, str(VICTIM), name],
                              capture_output=True, text=True, timeout=60)
        print(done.stdout, done.stderr, f"exit code {done.returncode}", sep="\n")
        wait_for_the_end(folder)
        killed_ns = int((folder / f"killed.{VICTIM}").read_text())
        survivors = sorted(folder.glob("seen.?"))
        for path in survivors:
            check_survivor(path, killed_ns)
        if fate == "ends":
            assert done.returncode != 0
        else:
            assert len(survivors) == RANKS - 1, survivors


main()
