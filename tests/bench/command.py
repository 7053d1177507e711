# SPDX-License-Identifier: Apache-2.0
"""Runs the rlx command for the tests of this folder, each started as `x_test.py RLX [CLASS]`."""
import json
import os
import subprocess
import sys

RLX = os.path.abspath(sys.argv.pop(1))


def run(*arguments, **environment):
    """(exit code, stdout, stderr)"""
    done = subprocess.run([RLX, *arguments], env={**os.environ, **environment}, text=True,
                          capture_output=True, timeout=170)
    return done.returncode, done.stdout, done.stderr


def rows_of_json(text):
    return [json.loads(line) for line in text.splitlines()]


def rows_of_table(text):
    """The rows of the markdown table in a text, as dictionaries by column."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    return [dict(zip(lines[0], line)) for line in lines[2:]]
