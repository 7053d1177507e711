#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlx place` as a user meets it: exit codes, messages, files. command_test.py RLX_BINARY"""
import json
import pathlib
import subprocess
import sys
import tempfile

GOOD = "id,lower,upper,size\na,0,5,100\nb,5,9,70\nc,2,7,30\n"
failures = 0


def check(name, folder, text, arguments, code, message="", output=""):
    """Runs the command on a table and compares exit code, stderr and stdout."""
    global failures
    table = folder / "in.csv"
    if text is not None:
        table.write_bytes(text if isinstance(text, bytes) else text.encode())
    result = subprocess.run([sys.argv[1], "place", str(table), *arguments], capture_output=True,
                            text=True, check=False)
    right = result.returncode == code and message in result.stderr and output in result.stdout
    if not right:
        failures += 1
        print(f"FAIL {name}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        out = folder / "out.csv"
        check("a good table", folder, GOOD, ["-o", str(out)], 0, output="peak         130 bytes")
        rows = out.read_text().splitlines()
        if rows[0] != "id,lower,upper,size,offset" or len(rows) != 4 or rows[1][:9] != "a,0,5,100":
            check("the table that was written", folder, GOOD, [], -1)
        out.unlink()
        result = check("json", folder, GOOD, ["--json", "--capacity", "130"], 0)
        if json.loads(result.stdout)["fits"] is not True:
            check("json says that it fits", folder, GOOD, [], -1)
        check("too small", folder, GOOD, ["--capacity", "129", "-o", str(out)], 4,
              "no plan can fit: peak 130 is 1 bytes over the capacity 129")
        check("other column order", folder, "size,upper,id,lower\r\n8,2,x,1\r\n", [], 0, "", "8 byt")
        check("no rows", folder, "id,lower,upper,size\n", [], 0, output="peak         0 bytes")
        check("empty file", folder, "", [], 1, "in.csv:1: empty")
        check("missing column", folder, "id,lower,size\n", [], 1, "in.csv:1: the header lacks")
        check("foreign column", folder, "id,lower,upper,size,gaps\n", [], 1, "got 'gaps'")
        check("no number", folder, "id,lower,upper,size\n1,2,3,4\n1,2,x,4\n", [], 1, "in.csv:3:")
        check("negative", folder, "id,lower,upper,size\n1,2,3,-4\n", [], 1, "in.csv:2:")
        check("too large", folder, "id,lower,upper,size\n1,2,3,99999999999999999999\n", [], 1, ":2:")
        check("sum too large", folder, f"id,lower,upper,size\n1,2,3,{2**63}\n", [], 1, "63 bits")
        check("backwards", folder, "id,lower,upper,size\n1,5,3,1\n", [], 1, "lower is above upper")
        check("few cells", folder, "id,lower,upper,size\n1,2,3\n", [], 1, "in.csv:2: fewer cells")
        check("many cells", folder, "id,lower,upper,size\n1,2,3,4,5\n", [], 1, "in.csv:2: more")
        check("zero byte", folder, b"id,lower\0,upper,size\n", [], 1, "not a text file")
        check("unwritable", folder, GOOD, ["-o", str(folder / "no" / "x")], 1, "No such file")
        check("bad capacity", folder, GOOD, ["--capacity", "many"], 2)
        check("bad seconds", folder, GOOD, ["--seconds", "0"], 2, "--seconds")
        check("bad alignment", folder, GOOD, ["--alignment", "48"], 2, "power of two")
        (folder / "in.csv").unlink()
        check("no file", folder, None, [], 1, "No such file")
        if list(folder.iterdir()):
            check("nothing is left behind", folder, GOOD, [], -1)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
