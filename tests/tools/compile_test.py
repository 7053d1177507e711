#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlx compile`, `plan`, `inspect` and `diff` as a user meets them."""
import os
import pathlib
import unittest

import tool

# One row a run is appended to a cache; S rows at once or one by one give the same cache.
CACHE = """rlx 1
symbol S
input x : f32[S, 4]
input at : i64[]
param w : f32[4, 4] = seeded(3, 0.5)
state k : f32[8, 4]
y = matmul(x, w)
k2, n = state_write(k, y, at) axis=0
s = reduce_sum(k2) axes=[0]
output s
"""

# Batch norm folded into the weights of a conv rounds differently.
FOLDED = """rlx 1
input x : f32[1, 3, 8, 8]
param w : f32[4, 3, 3, 3] = seeded(1, 0.5)
param scale : f32[4] = seeded(2, 0.3, 1)
param bias : f32[4] = seeded(3, 0.3)
param mean : f32[4] = seeded(4, 0.3)
param variance : f32[4] = seeded(5, 0.3, 1)
c = conv(x, w) pads=[1, 1, 1, 1]
y = batch_norm(c, scale, bias, mean, variance) epsilon=1e-5
r = relu(y)
output r
"""


class Compile(tool.ToolTest):
    def test_a_saved_program_gives_the_same_bits_as_its_model(self):
        self.write("m.rlx", tool.MLP)
        self.write("w.rlx", FOLDED)
        for name, bind in (("m", ["--bind", "S=5"]), ("w", [])):
            self.rlx("compile", f"{name}.rlx", "-o", f"{name}.rlxp", *bind, prints=f"{name}.rlxp: ")
            expected = self.outputs(f"{name}.rlx", *bind)
            self.assertEqual(self.outputs(f"{name}.rlxp"), expected)
            self.assert_close(self.outputs(f"{name}.rlxp", "--device", "cpu:scalar"), expected)
        self.assertEqual(self.names(), ["m.rlx", "m.rlxp", "w.rlx", "w.rlxp"])

    def test_plan_compile_and_inspect_tell_the_same_bytes(self):
        self.write("m.rlx", tool.MLP)
        how = ("m.rlx", "--bind", "S=5", "--device", "cpu:scalar", "--json")
        plan, = self.json_lines("plan", *how)
        made, = self.json_lines("compile", *how, "-o", "p")
        seen, = self.json_lines("inspect", "p", "--json")
        again, = self.json_lines("plan", "p", "--json")
        for key in ("weights", "state", "scratch"):
            self.assertEqual(plan[key], made[key])
        self.assertEqual((plan["weights"], plan["scratch"]),
                         (seen["weight_bytes"], seen["scratch_bytes"]))
        self.assertEqual(plan["arena"], plan["weights"] + plan["state"] + plan["scratch"])
        self.assertEqual(plan["entries"], again["entries"])
        self.assertGreaterEqual(os.path.getsize(self.path("p")), plan["weights"])
        self.assertEqual(plan["weights"], 4 * (16 * 32 + 32 + 32 * 8))

    def test_entries_share_weights_and_state(self):
        self.write("m.rlx", CACHE)
        self.rlx("compile", "m.rlx", "-o", "p", "--entry", "prefill:S=3", "--entry", "decode:S=1",
                 "--device", "cpu:scalar")
        seen, = self.json_lines("inspect", "p", "--json")
        self.assertEqual([entry["name"] for entry in seen["entries"]], ["prefill", "decode"])
        self.assertEqual((seen["weight_bytes"], seen["state_bytes"]), (64, 128))
        one, = self.json_lines("plan", "m.rlx", "--bind", "S=3", "--json")
        both, = self.json_lines("plan", "m.rlx", "--json", "--entry", "a:S=3", "--entry", "b:S=1")
        self.assertEqual((one["weights"], one["state"]), (both["weights"], both["state"]))
        self.assertEqual(both["scratch"], max(entry["scratch"] for entry in both["entries"]))

        values = [0.5 * i for i in range(12)]
        self.write_npy("all.npy", "<f4", (3, 4), values)
        self.write_npy("0.npy", "<i8", (), [0])
        self.rlx("run", "p", "--input", "x=all.npy", "--input", "at=0.npy", "--output-dir", "a")
        state = []
        for i in range(3):
            self.write_npy("x.npy", "<f4", (1, 4), values[4 * i:4 * i + 4])
            self.write_npy("at.npy", "<i8", (), [i])
            self.rlx("run", "p", "--entry", "decode", "--input", "x=x.npy", "--input", "at=at.npy",
                     *state, "--save-state", "s", "--output-dir", "b")
            state = ["--load-state", "s"]
        # One row and three may be summed in another order.
        states = [{"s.npy": pathlib.Path(self.path(f"{run}/s.npy")).read_bytes()} for run in "ab"]
        self.assert_close(*states)

    def test_binds_apply_to_all_entries(self):
        self.write("m.rlx", CACHE.replace("symbol S", "symbol S\nsymbol R")
                   .replace("f32[8, 4]", "f32[R, 4]"))
        self.rlx("plan", "m.rlx", "--entry", "a:S=3", "--entry", "b:S=1", "--bind", "R=8",
                 prints=["entry a:", "entry b:", "state    128 B"])
        self.rlx("plan", "m.rlx", "--entry", "a:S=3,R=8", "--entry", "b:R=8,S=1")
        self.rlx("plan", "m.rlx", "--entry", "a:S=3", "--bind", "R=8", "--bind", "S=2", code=1,
                 says=["'S'", "3", "2"])
        self.rlx("plan", "m.rlx", "--entry", "a:S=3", code=1, says="'R'")
        # A state is one for all entries, so it cannot have two sizes.
        self.rlx("plan", "m.rlx", "--entry", "a:S=3,R=8", "--entry", "b:S=1,R=9", code=1, says="'k'")

    def test_a_program_lists_its_entries_when_asked_for_another(self):
        self.write("m.rlx", CACHE)
        self.rlx("compile", "m.rlx", "-o", "p", "--entry", "prefill:S=3", "--entry", "decode:S=1")
        self.rlx("run", "p", "--entry", "encode", code=1, says=["'encode'", "prefill", "decode"])
        self.rlx("run", "m.rlx", "--bind", "S=1", "--entry", "encode", code=1, says="main")

    def test_compile_options_come_too_late_for_a_program(self):
        self.write("m.rlx", tool.MLP)
        self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2")
        for option in (["--bind", "S=3"], ["--disable", "fold"], ["--without-reuse"],
                       ["--keep-inputs"], ["--search-ms", "1"]):
            for verb in ("run", "plan", "diff"):
                self.rlx(verb, "p", *option, code=2, says=[option[0], "'p'"])
        self.rlx("plan", "p", "--entry", "a:S=3", code=2, says="--entry")
        self.rlx("diff", "p", "--ref-disable", "all", code=2)
        self.rlx("run", "p", "--memory-limit", "10", code=4, says="limit is 10")

    def test_an_existing_program_is_replaced_whole_and_a_device_is_not(self):
        self.write("m.rlx", tool.MLP)
        self.write("p", "something else")
        self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2")
        self.rlx("run", "p")
        self.rlx("compile", "p", "-o", "p")  # a program can be saved again, also over itself
        self.rlx("run", "p")
        self.rlx("compile", "m.rlx", "-o", "/dev/null", "--bind", "S=2", code=1, says="/dev/null")
        self.rlx("compile", "m.rlx", "-o", ".", "--bind", "S=2", code=1, says="directory")
        self.rlx("compile", "m.rlx", "-o", "no/p", "--bind", "S=2", code=1, says="no/p")
        self.assertEqual(self.names(), ["m.rlx", "p"])

    def test_compile_says_nothing_with_q(self):
        self.write("m.rlx", tool.MLP)
        self.assertEqual(self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2", "-q"), "")


class Plan(tool.ToolTest):
    def test_a_plan_needs_no_weight(self):
        self.write("m.rlx", tool.MLP.replace(" = seeded(7, 0.2)", ""))
        self.rlx("plan", "m.rlx", "--bind", "S=4", "--device", "cpu:scalar",
                 prints=["weights  3200 B", "ratio", "matmul"])
        self.rlx("run", "m.rlx", "--bind", "S=4", code=1, says=["'w1'", "no data"])
        self.rlx("compile", "m.rlx", "--bind", "S=4", "-o", "p", code=1, says="'w1'")
        self.assertEqual(self.names(), ["m.rlx"])

    def test_a_plan_can_be_drawn(self):
        self.write("m.rlx", tool.MLP)
        self.rlx("plan", "m.rlx", "--bind", "S=4", "--html", "plan.html")
        page = (self.folder / "plan.html").read_text(encoding="utf-8")
        self.assertIn("<svg", page)
        self.assertNotIn("http://", page.replace("http://www.w3.org/", ""))
        self.assertNotIn("https://", page)
        self.rlx("plan", "m.rlx", "--bind", "S=4", "--html", "no/plan.html", code=1, says="no/plan")
        self.rlx("plan", "m.rlx", "--bind", "S=4", "--html", ".", code=1, says="'.'")
        self.assertEqual(self.names(), ["m.rlx", "plan.html"])

    def test_more_detail_shows_slots_and_steps(self):
        self.write("m.rlx", tool.MLP)
        self.rlx("plan", "m.rlx", "--bind", "S=4", "-v", prints=["at scratch+", "at weights+"])

    def test_without_reuse_is_the_sum(self):
        self.write("m.rlx", tool.MLP)
        plan, = self.json_lines("plan", "m.rlx", "--bind", "S=4", "--json")
        plain, = self.json_lines("plan", "m.rlx", "--bind", "S=4", "--json", "--without-reuse")
        self.assertLess(plan["scratch"], plain["scratch"])
        self.assertGreaterEqual(plan["entries"][0]["scratch"], plan["entries"][0]["lower_bound"])


class Inspect(tool.ToolTest):
    def test_a_model_shows_what_it_holds(self):
        self.write("m.rlx", CACHE)
        self.rlx("inspect", "m.rlx", prints=["symbol S", "input  x : f32[S, 4]", "state  k : f32[8, 4]",
                                             "weights 1, 64 B", "nodes 3:", "state_write 1"])
        seen, = self.json_lines("inspect", "m.rlx", "--json")
        self.assertEqual((seen["kind"], seen["nodes"], seen["weight_bytes"]), ("model", 3, 64))
        self.assertEqual([row["name"] for row in seen["inputs"]], ["x", "at"])

    def test_weights_are_listed_with_bytes_and_source(self):
        self.write_npy("data/w.npy", "<f4", (2, 2), [1, 2, 3, 4])
        self.write("m.rlx", "rlx 1\ninput x : f32[2, 2]\n"
                            'param w : f32[2, 2] = npy("data/w.npy")\nparam v : f16[2] = seeded(7, 0.5)\n'
                            "param t : f32[2]\nparam u : f32[2] = [1, 2]\n"
                            "y = matmul(x, w)\noutput y\n")
        self.rlx("inspect", "m.rlx", "-v", prints=[
            "weight w : f32[2, 2], 16 B, 'data/w.npy' at ", "weight v : f16[2], 4 B, seeded(7, 0.5, 0)",
            "weight t : f32[2], 8 B, no source", "weight u : f32[2], 8 B, in the file"])
        seen, = self.json_lines("inspect", "m.rlx", "-v", "--json")
        self.assertEqual([row["bytes"] for row in seen["weight_list"]], [16, 4, 8, 8])

    def test_the_text_of_a_model_is_a_model(self):
        for name, text in (("mlp", tool.MLP), ("cache", CACHE), ("endless", tool.ENDLESS)):
            self.write("a.rlx", text)
            once = self.rlx("inspect", "a.rlx", "--text")
            self.write("b.rlx", once)
            self.assertEqual(self.rlx("inspect", "b.rlx", "--text"), once, name)

    def test_a_program_shows_its_entries(self):
        self.write("m.rlx", tool.MLP)
        self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2", "--device", "cpu:scalar")
        self.rlx("inspect", "p", prints=["program for cpu/", "1 entry", "weights 3200 B",
                                         "input  x : f32[2, 16]", "output probs : f32[2, 8]"])
        self.rlx("inspect", "p", "-v", prints="at scratch+")
        seen, = self.json_lines("inspect", "p", "--json", "-v")
        self.assertEqual(seen["entries"][0]["name"], "main")


CONVS = """rlx 1
input x : f32[1, 3, 33, 33]
param w : f32[20, 3, 3, 3] = seeded(1, 0.3)
param k : f32[20, 1, 3, 3] = seeded(2, 0.3)
param v : f32[12, 20, 3, 3] = seeded(3, 0.1)
c = conv(x, w) pads=[1, 1, 1, 1] activation=relu
d = conv(c, k) pads=[1, 1, 1, 1] groups=20 activation=relu
e = conv(d, v) pads=[1, 1, 1, 1]
y = reduce_mean(e) axes=[2, 3]
output y
"""


class Diff(tool.ToolTest):
    def test_equal_devices_are_equal(self):
        self.write("m.rlx", tool.MLP)
        self.rlx("diff", "m.rlx", "--bind", "S=3", "--ref", "cpu", "--device", "cpu", prints="equal")
        row, = self.json_lines("diff", "m.rlx", "--bind", "S=3", "--json", "--ref", "cpu",
                               "--device", "cpu", "--rtol", "0", "--atol", "0")
        self.assertEqual((row["differs"], row["largest"], row["first"]), (False, 0, ""))
        self.assertEqual(row["compared"], 3 * (32 + 8 + 8))

    def test_the_first_step_that_differs_is_named_and_the_exit_is_5(self):
        self.write("m.rlx", FOLDED)
        exact = ("--ref-disable", "all", "--rtol", "0", "--atol", "0")
        self.rlx("diff", "m.rlx", *exact, code=5,
                 prints=["first difference: '", "expected", "they differ"])
        row, = self.json_lines("diff", "m.rlx", *exact, "--json", code=5)
        self.assertTrue(row["differs"])
        self.assertGreater(row["largest"], 0)
        self.rlx("diff", "m.rlx", "--ref-disable", "all", prints="equal")

    def test_values_in_blocks_are_compared_with_plain_ones(self):
        """Vector kernels have channels in blocks, of which the last is not full; the reference has not."""
        self.write("m.rlx", CONVS)
        values = 20 * 33 * 33 + 20 * 33 * 33 + 12 * 33 * 33 + 12
        for device in ("cpu", "cpu:scalar"):
            for more in ((), ("--each",)):
                row, = self.json_lines("diff", "m.rlx", "--device", device, "--json", *more)
                self.assertEqual((row["differs"], row["compared"]), (False, values))
        row, = self.json_lines("diff", "m.rlx", "--device", "cpu", "--json", "--rtol", "0", "--atol", "0",
                               "--fill", "random:7", code=5)
        self.assertTrue(row["differs"])

    def test_inputs_and_programs_can_be_compared(self):
        self.write("m.rlx", tool.MLP)
        self.write_npy("x.npy", "<f4", (2, 16), [float("nan")] * 16 + [float("inf")] * 16)
        self.rlx("diff", "m.rlx", "--input", "x=x.npy", prints="equal")
        self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2")
        self.rlx("diff", "p", prints="equal")
        self.rlx("diff", "p", "--input", "z=x.npy", code=1, says=["'z'", "x"])


if __name__ == "__main__":
    unittest.main()
