#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What README.md shows is true:

    readme_test.py SOURCE_DIR BUILD_DIR CC

Its C and .rlx blocks are the files of examples/; the C one compiles without warnings against the
static library; every `$ command` of its console blocks prints what stands below it. first is the
compiled example, rlx the command of the build.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def blocks(text, language):
    return [body for name, body in BLOCK.findall(text) if name == language]


def check_files(root, text):
    for language, path in (("c", "examples/first.c"), ("rlx", "examples/first.rlx")):
        if blocks(text, language) != [(root / path).read_text(encoding="utf-8")]:
            yield f"README.md: its {language} block is not {path}"


def compile_example(root, build, compiler, binary):
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{root}/include",
               str(root / "examples/first.c"), str(build / "librlx.a"), "-lm", "-pthread", "-o", str(binary)]
    done = subprocess.run(command, capture_output=True, text=True)
    return [] if done.returncode == 0 else ["examples/first.c does not compile:\n" + done.stderr]


def commands(block):
    """[(command, the lines it should print)]"""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def check_consoles(text, folder, environment):
    for block in blocks(text, "console"):
        for command, expected in commands(block):
            done = subprocess.run(shlex.split(command), cwd=folder, env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            got = done.stdout.rstrip("\n").splitlines()
            if done.returncode != 0 or got != expected:
                yield "\n".join([f"README.md: `{command}` (exit {done.returncode}) should print", *expected,
                                 "but prints", *got])


def main():
    root, build, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    text = (root / "README.md").read_text(encoding="utf-8")
    problems = list(check_files(root, text))
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "examples").symlink_to(root.resolve() / "examples")
        problems += compile_example(root, build, compiler, place / "first")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RLX_")}
        environment["RLX_DEVICE"] = "cpu:scalar"  # the same numbers on every machine
        environment["PATH"] = f"{place}:{build}:{environment.get('PATH', '')}"
        problems += check_consoles(text, folder, environment)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
