#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The include checker itself: made-up trees with and without a breach."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECKER = sys.argv.pop(1)

GOOD = {
    "src/base/status.h": "#include <rlx/base.h>\n",
    "src/ir/graph.h": '#include "base/status.h"\n#include <rlx/graph.h>\n',
    "src/plan/plan.h": '#include "base/status.h"\n',
    "src/driver/device.h": '#include "plan/plan.h"\n',
    "src/backend/registry.c": '#include "backend/cpu/cpu.h"\n',
    "src/backend/cpu/cpu.h": '#include "driver/device.h"\n#include "table.def"\n',
    "src/backend/cpu/table.def": "ROW(1)\n",
    "src/import/text/parse.c": '#include "ir/graph.h"\n',
    "tools/main.c": '#include <rlx/graph.h>\n#include "options.h"\n',
    "tools/options.h": "\n",
}


class IncludeChecker(unittest.TestCase):
    def run_on(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **changes}.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, CHECKER, folder], capture_output=True, text=True, check=False
            )
        return done.returncode, done.stdout

    def refused(self, changes, message):
        code, text = self.run_on(changes)
        self.assertEqual(code, 1)
        self.assertIn(message, text)
        self.assertEqual(text.count("\n"), 1)

    def test_a_tree_that_follows_the_table_passes(self):
        self.assertEqual(self.run_on({}), (0, ""))

    def test_the_reverse_direction_is_a_breach(self):
        self.refused({"src/base/b.c": '#include "ir/graph.h"\n'}, "base may not use ir")

    def test_importers_do_not_know_backends(self):
        breach = {"src/import/x.c": '#include "backend/cpu/cpu.h"\n'}
        self.refused(breach, "import may not use backend/cpu")

    def test_backends_do_not_know_importers(self):
        breach = {"src/import/i.h": "\n", "src/backend/cpu/x.c": '#include "import/i.h"\n'}
        self.refused(breach, "backend/cpu may not use import")

    def test_backends_do_not_know_each_other(self):
        breach = {"src/backend/vulkan/x.c": '#include "backend/cpu/cpu.h"\n'}
        self.refused(breach, "backend/vulkan may not use backend/cpu")

    def test_a_relative_path_does_not_hide_a_breach(self):
        breach = {"src/base/b.c": '#include "../ir/graph.h"\n'}
        self.refused(breach, "base may not use ir")

    def test_right_of_the_plan_nobody_sees_a_graph(self):
        self.refused({"src/driver/d.c": "#include <rlx/graph.h>\n"}, "a graph is not known")

    def test_tools_use_public_headers_only(self):
        breach = {"tools/run.c": '#include "base/status.h"\n'}
        self.refused(breach, "tools uses the public headers only")

    def test_a_folder_outside_the_table_is_a_breach(self):
        self.refused({"src/misc/x.c": "\n"}, "not in a folder of the table")


if __name__ == "__main__":
    unittest.main()
