#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""--weights-budget of rlx plan and rlx run: the split, the same bits, and what is refused."""
import json
import os
import unittest

import tool

LAYERS = 8
MODEL = "rlx 1\ninput x0 : f32[2, 128]\n" + "".join(
    f"param w{i} : f32[128, 128] = seeded({i}, 0.1)\n" for i in range(LAYERS)) + "".join(
    f"m{i} = matmul(x{i}, w{i})\nx{i + 1} = tanh(m{i})\n" for i in range(LAYERS)
) + f"again = matmul(x{LAYERS}, w0)\noutput again\n"
WEIGHT = 128 * 128 * 4


class Budget(tool.ToolTest):
    def setUp(self):
        super().setUp()
        self.write("m.rlx", MODEL)
        self.rlx("compile", "m.rlx", "--device", "cpu:scalar", "-o", "p")

    def plan(self, budget, *more):
        return json.loads(self.rlx("plan", "p", "--weights-budget", str(budget), "--json", *more))

    def test_the_split_is_within_the_budget(self):
        for budget in (2 * WEIGHT, 4 * WEIGHT, 6 * WEIGHT):
            plan = self.plan(budget)
            split = plan["stream"]
            self.assertLessEqual(split["resident"] + split["tiles"], budget)
            self.assertEqual(plan["arena"],
                             split["resident"] + split["tiles"] + plan["state"] + plan["scratch"])
            read = sum(tile["bytes"] for tile in split["reads"])
            self.assertEqual(split["entries"][0]["read_bytes"], read)
            self.assertGreaterEqual(read + split["resident"], LAYERS * WEIGHT)
            self.assertEqual(len(split["tensors"]), LAYERS)

    def test_a_tensor_used_twice_is_pinned_or_read_twice(self):
        self.assertIn("w0: 65536 B, used by 2 steps, read 2 times per run",
                      self.rlx("plan", "p", "--weights-budget", str(2 * WEIGHT)))
        self.assertIn("w0: 65536 B, used by 2 steps, pinned",
                      self.rlx("plan", "p", "--weights-budget", str(6 * WEIGHT)))
        self.assertIn("all weights stay resident", self.rlx("plan", "p", "--weights-budget", "1G"))

    def test_a_streamed_run_has_the_bits_of_the_resident_one(self):
        self.rlx("run", "p", "--fill", "random:3", "--output-dir", "all")
        for budget in (WEIGHT, 3 * WEIGHT, 1 << 30):
            self.rlx("run", "p", "--fill", "random:3", "--weights-budget", str(budget), "--repeat", "3",
                     "--output-dir", "some")
            with open(self.path("all/again.npy"), "rb") as a, open(self.path("some/again.npy"), "rb") as b:
                self.assertEqual(a.read(), b.read(), budget)

    def test_a_budget_below_the_largest_tile_does_not_fit(self):
        for verb in ("plan", "run"):
            self.rlx(verb, "p", "--weights-budget", str(WEIGHT - 1), code=4,
                     says=[f"budget of {WEIGHT - 1} bytes", "largest tile", f"has {WEIGHT}"])

    def test_the_limit_is_for_what_is_in_memory(self):
        self.rlx("run", "p", "--memory-limit", str(4 * WEIGHT), code=4)
        self.rlx("run", "p", "--memory-limit", str(4 * WEIGHT), "--weights-budget", str(3 * WEIGHT))

    def test_a_model_is_planned_but_not_run_under_a_budget(self):
        self.assertIn("reads    entry main", self.rlx("plan", "m.rlx", "--weights-budget", "200000"))
        self.rlx("run", "m.rlx", "--weights-budget", "200000", code=1,
                 says=["needs a saved program", "rlx compile"])

    def test_a_file_cut_short_is_refused(self):
        os.truncate(self.path("p"), os.path.getsize(self.path("p")) - 1)
        self.rlx("run", "p", "--weights-budget", "200000", code=1, says="cut short")

    def test_the_timeline_is_a_picture_of_reads_and_steps(self):
        self.rlx("run", "p", "--weights-budget", str(3 * WEIGHT), "--timeline", "t.svg")
        with open(self.path("t.svg"), encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("<svg") and text.endswith("</svg>\n"))
        for part in ('class="read"', 'class="tile"', "--weights-budget 196608"):
            self.assertIn(part, text)


if __name__ == "__main__":
    unittest.main()
