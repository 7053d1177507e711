#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lets spirv-val judge the shaders of a build: the initialiser lists (*.inc) that are compiled into
the library, and whole modules (*.spv).

    check-shaders.py FOLDER..

Exit 77 where spirv-val is missing.
"""
import pathlib
import re
import shutil
import subprocess
import sys


def module_of(path):
    """The bytes of a module; None for a list of other files."""
    if path.suffix == ".spv":
        return path.read_bytes()
    words = re.findall(r"0x[0-9a-fA-F]+", path.read_text())
    if not words or int(words[0], 16) != 0x07230203:
        return None
    return b"".join(int(word, 16).to_bytes(4, "little") for word in words)


def main():
    if shutil.which("spirv-val") is None:
        print("skipped: no spirv-val")
        return 77
    judged = wrong = 0
    for folder in sys.argv[1:]:
        for path in sorted(pathlib.Path(folder).iterdir()):
            if path.suffix not in (".inc", ".spv"):
                continue
            module = module_of(path)
            if module is None:
                continue
            result = subprocess.run(["spirv-val", "--target-env", "vulkan1.2", "-"], input=module,
                                    capture_output=True, check=False)
            judged += 1
            if result.returncode != 0:
                wrong += 1
                print(f"{path.name}: {result.stdout.decode()}{result.stderr.decode()}".strip())
    print(f"{judged} modules, {wrong} not valid")
    return 1 if wrong or not judged else 0


sys.exit(main())
