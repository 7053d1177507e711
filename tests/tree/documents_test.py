#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the documents show is true:

    documents_test.py SOURCE_DIR BUILD_DIR readme CC     README.md and examples/
    documents_test.py SOURCE_DIR BUILD_DIR docs          docs/*.md, and the links of every document

The C and .rlx blocks of the README are the files of examples/, and those in C compile without
warnings against the static library; its table has the verbs of the command. Each .rlx block of docs/ begins with a comment that names its
file, parses, and prints to a text that parses to the same. Every `$ command` of a console block
prints what stands below it.
"""
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def run(command, folder, environment):
    """(exit code, what it prints)"""
    done = subprocess.run(command, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def compile_examples(root, build, compiler, folder, environment):
    for name in ("onnx", "first"):
        command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{root}/include",
                   f"{root}/examples/{name}.c", f"{build}/librlx.a", "-lm", "-pthread", "-o", name]
        code, text = run(command, folder, environment)
        if code != 0:
            yield f"examples/{name}.c does not compile:\n{text}"


def run_model(folder, environment):
    """The first example runs a model of the ONNX backend tests, where they are installed."""
    model = pathlib.Path("/usr/share/libonnx-testdata/data/node/test_relu/model.onnx")
    if model.exists():
        code, text = run(["onnx", str(model)], folder, environment)
        if code != 0 or text != "x -> y: sum 0\n":
            yield f"examples/onnx.c on {model}: {text}"


def check_example_files(root, document):
    text = document.read_text(encoding="utf-8")
    for language, paths in (("c", ("examples/onnx.c", "examples/first.c")), ("rlx", ("examples/first.rlx",))):
        found = [body for name, body in BLOCK.findall(text) if name == language]
        if found != [(root / path).read_text(encoding="utf-8") for path in paths]:
            yield f"{document.name}: its {language} blocks are not {', '.join(paths)}"


def check_links(root):
    """Every file that a document of the tree links to is there."""
    for document in sorted(root.rglob("*.md")):
        if any(part.startswith((".", "build")) for part in document.relative_to(root).parts):
            continue
        for target in re.findall(r"\]\(([^)#:\s]+)\)", document.read_text(encoding="utf-8")):
            if not (document.parent / target).exists():
                yield f"{document.relative_to(root)}: {target} is not there"


def check_verbs(document, folder, environment):
    """The table of commands has every verb that the command has, and no other."""
    shown = re.findall(r"^\| `rlx (\w+)", document.read_text(encoding="utf-8"), flags=re.M)
    _, words = run(["rlx", "--help"], folder, environment)
    verbs = re.findall(r"^  (\w+) ", words, flags=re.M)
    return [] if shown == verbs else [f"{document.name} lists the commands {shown}, rlx has {verbs}"]


def check_model(body, where, folder, environment):
    """Writes a .rlx block to the file that it names; prints and parses it."""
    match = re.match(r"# (\w+\.rlx)\n", body)
    if not match:
        return [f"{where}: a .rlx block does not begin with its file name:\n{body}"]
    path = folder / match.group(1)
    path.write_text(body, encoding="utf-8")
    code, printed = run(["rlx", "inspect", "--text", path.name], folder, environment)
    if code != 0:
        return [f"{where}: {path.name}: {printed}"]
    (folder / "printed.rlx").write_text(printed, encoding="utf-8")
    _, again = run(["rlx", "inspect", "--text", "printed.rlx"], folder, environment)
    return [] if again == printed else [f"{where}: {path.name} prints as\n{printed}and then as\n{again}"]


def check_console(body, where, folder, environment):
    shown = re.split(r"^\$ ", body, flags=re.M)[1:]
    for part in shown:
        command, _, expected = part.partition("\n")
        _, got = run(shlex.split(command), folder, environment)
        if got.rstrip("\n") != expected.rstrip("\n"):
            yield f"{where}: `{command}` should print\n{expected}but prints\n{got}"


def check_document(document, folder, environment):
    problems = []
    for language, body in BLOCK.findall(document.read_text(encoding="utf-8")):
        if language == "rlx" and document.name != "README.md":
            problems += check_model(body, document.name, folder, environment)
        if language == "console":
            problems += check_console(body, document.name, folder, environment)
    return problems


def make_data(folder):
    """The files that models of the documents refer to."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (64, 64), }".ljust(117) + "\n"
    (folder / "w.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                                   bytes(64 * 64 * 4))
    (folder / "u.bin").write_bytes(bytes(128 + 64 * 68))


def check_named_tests(root):
    """The tests that memory.md holds its clauses by."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (root / "tests").rglob("*.c"))
    for name in re.findall(r"`(\w+(?:_\w+){2,})`", (root / "docs/memory.md").read_text(encoding="utf-8")):
        if f"cmocka_unit_test({name})" not in sources and f"CASE({name})" not in sources:
            yield f"memory.md: there is no test {name}"


def main():
    root, build, mode = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve(), sys.argv[3]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RLX_")}
    environment["RLX_DEVICE"] = "cpu:scalar"  # the same numbers on every machine
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment["PATH"] = f"{folder}:{build}:{environment.get('PATH', '')}"
        (folder / "examples").symlink_to(root / "examples")
        make_data(folder)
        documents = [root / "README.md"] if mode == "readme" else sorted((root / "docs").glob("*.md"))
        if mode == "readme":
            problems += check_example_files(root, documents[0])
            problems += check_verbs(documents[0], folder, environment)
            problems += compile_examples(root, build, sys.argv[4], folder, environment)
            problems += run_model(folder, environment)
        else:
            problems += check_links(root)
            problems += check_named_tests(root)
        for document in documents:
            problems += check_document(document, folder, environment)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
