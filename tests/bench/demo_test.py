#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlx demo`: its table, its exit codes, and that it leaves nothing behind."""
import os
import tempfile
import unittest

from command import rows_of_json, rows_of_table, run


class Demo(unittest.TestCase):
    def test_every_device_agrees_and_maps_what_was_planned(self):
        with tempfile.TemporaryDirectory() as folder:
            code, out, err = run("demo", TMPDIR=folder)
            self.assertEqual((code, err), (0, ""), out)
            self.assertEqual(os.listdir(folder), [])
        rows = rows_of_table(out)
        devices = [row["device"] for row in rows]
        self.assertIn("cpu", devices)
        self.assertIn("cpu:scalar", devices)
        self.assertEqual(out.rstrip().splitlines()[-1].split(" | ")[0], "| " + devices[-1])
        for row in rows:
            self.assertGreater(int(row["bytes planned"]), 0)
            self.assertEqual(row["bytes planned"], row["bytes mapped"])
            self.assertLessEqual(float(row["largest difference"]), 1e-3)

    def test_json_has_one_object_per_device(self):
        code, out, _ = run("demo", "--json", "--tokens", "5")
        rows = rows_of_json(out)
        self.assertEqual(code, 0)
        self.assertGreaterEqual(len(rows), 2)
        for row in rows:
            self.assertEqual(row["planned_bytes"], row["mapped_bytes"])
            self.assertTrue(row["agrees"])
            self.assertLessEqual(row["difference"], row["tolerance"])

    def test_quiet_prints_the_table_alone(self):
        code, out, _ = run("demo", "-q", "--tokens", "1")
        self.assertEqual(code, 0)
        self.assertTrue(all(line.startswith("|") for line in out.splitlines()), out)

    def test_tokens_that_do_not_fit_are_a_usage_error(self):
        for tokens in ("0", "46", "-1", "many"):
            code, out, err = run("demo", "--tokens", tokens)
            self.assertEqual((code, out), (2, ""), tokens)
            self.assertIn(tokens, err)

    def test_a_folder_that_cannot_be_made_is_named(self):
        code, _, err = run("demo", TMPDIR="/nonexistent/folder")
        self.assertEqual(code, 1)
        self.assertIn("/nonexistent/folder", err)


if __name__ == "__main__":
    unittest.main()
