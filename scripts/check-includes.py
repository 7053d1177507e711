#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the #include lines of the tree with the table of who may use whom.

A folder may include itself, the folders of its row, what those may include in turn, and the public
headers. Prints one line per breach; exit 1 when there is one.
"""
import pathlib
import re
import sys

# The order of the story. backend itself holds the registry, the only code that names backends.
MAY_INCLUDE = {
    "base": [],
    "ir": ["base"],
    "ref": ["ir"],
    "import": ["ir"],
    "plan": ["ir"],
    "compile": ["ir", "ref", "plan"],
    "driver": ["plan"],
    "backend": ["driver", "backend/cpu", "backend/vulkan"],
    "backend/cpu": ["driver", "ref"],
    "backend/vulkan": ["driver", "ref"],
    "collective": ["driver"],
    "runtime": ["driver", "ref", "collective"],
    "session": ["import", "compile", "runtime"],
}
# Right of the plan nobody has seen a graph.
NO_GRAPH = {"plan", "driver", "backend", "backend/cpu", "backend/vulkan", "collective", "runtime"}
GRAPH_HEADERS = {"rlx/graph.h", "ir/graph.h"}
# Programs use the installed interface, their own headers, and those of the folders named here.
PUBLIC_ONLY = {"tools": ["bench"], "bench": []}
SOURCES = {".c", ".h", ".def", ".inc"}

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(rlx/[^>]+)>)')


def reachable(folder):
    """The folder and everything its row leads to."""
    seen, todo = set(), [folder]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += MAY_INCLUDE[name]
    return seen


def folder_of(relative):
    """The row that a path below src/ belongs to, or None."""
    parts = pathlib.PurePosixPath(relative).parts
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in MAY_INCLUDE:
            return name
    return None


def includes(path):
    """(line number, quoted name or None, public name or None) of each include."""
    text = path.read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def sources(folder):
    return sorted(p for p in folder.rglob("*") if p.suffix in SOURCES) if folder.is_dir() else []


def breach_in_src(root, path, quoted, public, own, allowed):
    """What is wrong with one include of a file below src/, or None."""
    if (quoted or public) in GRAPH_HEADERS and own in NO_GRAPH:
        return "a graph is not known right of the plan"
    if quoted is None:
        return None
    if not (root / "src" / quoted).is_file():
        near = path.parent / quoted
        if not near.is_file():
            return "no such file below src/ or beside this one"
        quoted = near.resolve().relative_to((root / "src").resolve()).as_posix()
    target = folder_of(quoted)
    if target is None:
        return "not in a folder of the table"
    return None if target in allowed else f"{own} may not use {target}"


def check_src(root):
    for path in sources(root / "src"):
        relative = path.relative_to(root / "src").as_posix()
        own = folder_of(relative)
        if own is None:
            yield f"src/{relative}: not in a folder of the table"
            continue
        allowed = reachable(own)
        for number, quoted, public in includes(path):
            reason = breach_in_src(root, path, quoted, public, own, allowed)
            if reason:
                yield f"src/{relative}:{number}: {quoted or public}: {reason}"


def check_public_only(root):
    for folder, others in PUBLIC_ONLY.items():
        for path in sources(root / folder):
            for number, quoted, _ in includes(path):
                near = (path.parent / quoted).is_file() if quoted else True
                if not near and not any((root / f / quoted).is_file() for f in [folder, *others]):
                    where = path.relative_to(root).as_posix()
                    yield f"{where}:{number}: {quoted}: {folder} uses the public headers only"


def check_headers(root):
    for path in sources(root / "include"):
        for number, quoted, _ in includes(path):
            if quoted:
                where = path.relative_to(root).as_posix()
                yield f"{where}:{number}: {quoted}: public headers include <rlx/...> only"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    breaches = [*check_src(root), *check_public_only(root), *check_headers(root)]
    for breach in breaches:
        print(breach)
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
