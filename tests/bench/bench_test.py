#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlx bench`: memory against its limits, a file, and the rows of the machine's limits."""
import os
import tempfile
import unittest

from command import rows_of_json, rows_of_table, run

MODEL = """rlx 1
symbol N
input x : f32[N, 16]
param w : f32[16, 8] = seeded(1, 0.1)
"a|b" = matmul(x, w)
y = softmax("a|b") axis=-1
output y
"""


class Memory(unittest.TestCase):
    def test_scratch_stays_within_its_limits(self):
        code, out, err = run("bench", "memory", "--json")
        self.assertEqual((code, err), (0, ""), out)
        rows = {row["name"]: row for row in rows_of_json(out)}
        for network in ("resnet50", "squeezenet", "inception_v2", "densenet121", "decoder_16x2048"):
            scratch = rows[network + " scratch"]
            bound = rows[network + " scratch against the lower bound"]
            self.assertEqual(scratch["unit"], "bytes")
            self.assertGreater(scratch["value"], 0)
            self.assertLessEqual(scratch["value"], scratch["limit"], network)
            self.assertEqual((scratch["bar"], scratch["verdict"]), ("at most 1", "met"))
            self.assertEqual(bound["value"], scratch["value"])
            self.assertGreaterEqual(bound["value"], bound["limit"], network)

    def test_the_table_has_the_same_rows(self):
        _, table, _ = run("bench", "memory")
        _, lines, _ = run("bench", "memory", "--json")
        self.assertEqual([row["name"] for row in rows_of_table(table)],
                         [row["name"] for row in rows_of_json(lines)])


class Collective(unittest.TestCase):
    """That it measures and judges; how fast this machine is, is no test's matter."""

    def rows(self, part):
        code, out, err = run("bench", "collective:" + part, "--json")
        if "needs two processors" in err:
            self.skipTest(err)
        self.assertIn(code, (0, 1), err)
        return {row["name"]: row for row in rows_of_json(out)}

    def test_small_calls_have_a_limit_of_the_same_run(self):
        rows = self.rows("small")
        for name in ("all-reduce, 8 B", "all-reduce, 1 KiB"):
            self.assertGreater(rows[name]["limit"], 0)
            self.assertGreater(rows[name]["value"], 0)
            self.assertIn(name + ", median of pairs", rows)
            self.assertRegex(rows[name]["bar"], "^at most 1")
            self.assertIn(rows[name]["verdict"], ("met", "missed", "not judged"))
        self.assertIn("limit: a cache line, one way", rows)


class File(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = os.path.join(folder.name, "model.rlx")
        self.program = os.path.join(folder.name, "program")
        with open(self.model, "w", encoding="utf-8") as file:
            file.write(MODEL)

    def check_rows(self, *arguments):
        code, out, err = run("bench", *arguments, "--json", "--runs", "9")
        self.assertEqual((code, err), (0, ""))
        rows = rows_of_json(out)
        self.assertEqual([row["name"] for row in rows[:2]], ["run, best", "run, median"])
        self.assertLessEqual(rows[0]["value"], rows[1]["value"])
        steps = rows[2:]
        self.assertGreater(len(steps), 0)
        self.assertAlmostEqual(sum(row["ratio"] for row in steps), 1, places=2)

    def test_a_model_shows_its_runs_and_the_share_of_its_steps(self):
        self.check_rows(self.model, "--bind", "N=4")

    def test_a_program_does_too(self):
        self.assertEqual(run("compile", self.model, "--bind", "N=4", "-o", self.program)[0], 0)
        self.check_rows(self.program)

    def test_what_cannot_be_run_is_said(self):
        code, out, err = run("bench", self.model)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("'N'", err)
        code, out, err = run("bench", "no-such-topic")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("no-such-topic", err)
        self.assertEqual(run("bench", self.model, "--bind", "N=4", "--runs", "0")[0], 2)


class Limits(unittest.TestCase):
    def test_every_limit_has_a_row(self):
        code, out, _ = run("bench", "limits", "--json")
        names = [row["name"] for row in rows_of_json(out)]
        self.assertEqual(code, 0)
        for what in ("busy", "cycles, 1 thread", "f32 multiply-add", "read, 1 thread", "copy"):
            self.assertTrue(any(name.startswith(what) for name in names), what)
        self.assertTrue(all(row["value"] > 0 for row in rows_of_json(out)[1:]))


if __name__ == "__main__":
    unittest.main()
