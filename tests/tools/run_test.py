#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlx run` as a user meets it: inputs, outputs, state, profiles, passes."""
import json
import math
import unittest

import tool

PASSES = ["bind", "fold", "remove_dead", "compact", "merge_duplicates", "canonicalise", "fuse_batch_norm",
          "split_strides", "fold_depth", "widen_conv", "split_groups", "fuse_attention", "fuse_epilogue", "fuse_norm", "fuse_quantised", "fuse_chain", "reorder", "views",
          "in_place", "concat_in_place"]

DOUBLE = "rlx 1\nsymbol N\ninput x : f32[N, 2]\ny = add(x, x)\noutput y\n"


class Inputs(tool.ToolTest):
    def test_an_input_comes_from_a_file_and_binds_its_symbols(self):
        model = self.write("m.rlx", DOUBLE)
        self.write_npy("x.npy", "<f4", (3, 2), [1, 2, 3, 4, 5, 6.5])
        self.rlx("run", model, "--input", "x=x.npy", "--output-dir", "out",
                 prints="y : f32[3, 2]  min 2  max 13", says="wrote out/y.npy")
        self.assertEqual(tool.read_npy(self.path("out/y.npy")),
                         ("<f4", (3, 2), [2, 4, 6, 8, 10, 13]))
        self.rlx("run", model, "--input", "x=x.npy", "--bind", "N=3")
        self.rlx("run", model, "--input", "x=x.npy", "--bind", "N=4", code=1,
                 says=["input 'x'", "expected f32[4, 2]", "'x.npy' holds f32[3, 2]"])

    def test_what_is_written_can_be_fed_back(self):
        model = self.write("m.rlx", DOUBLE)
        self.rlx("run", model, "--bind", "N=5", "--output-dir", "out")
        once = tool.read_npy(self.path("out/y.npy"))[2]
        self.rlx("run", model, "--input", "x=out/y.npy", "--output-dir", "out")
        self.assertEqual(tool.read_npy(self.path("out/y.npy"))[2], [2 * value for value in once])
        self.assertEqual(self.names(), ["m.rlx", "out", "out/y.npy"])

    def test_every_dtype_goes_through_a_file(self):
        for descr, dtype, values in (("<f8", "f64", [0.1, -2, 3]), ("<i8", "i64", [2**53 + 1, 0, -5]),
                                     ("<i4", "i32", [-7, 2**31 - 1, 0]), ("|u1", "u8", [0, 255, 3])):
            model = self.write("m.rlx", f"rlx 1\ninput x : {dtype}[3]\ny = max(x, x)\noutput y\n")
            self.write_npy("x.npy", descr, (3,), values)
            self.rlx("run", model, "--input", "x=x.npy", "--output-dir", ".")
            self.assertEqual(tool.read_npy(self.path("y.npy")), (descr, (3,), values))

    def test_sizes_that_a_run_makes_zero_give_empty_results(self):
        self.write_npy("n.npy", "<i8", (), [0])
        for text in ("input x : f32[3, n<=5]\ninput c : f32[3, 1]\ny = add(x, c)\n",
                     "input x : f32[0, 16, 7, 7]\nparam w : f32[48, 16, 3, 3] = seeded(1, 0.1)\n"
                     "y = conv(x, w) pads=[1, 1, 1, 1]\n",
                     "input x : f32[1, 3, 7, 7]\nparam w : f32[0, 3, 3, 3] = seeded(1, 0.1)\ny = conv(x, w)\n",
                     "input x : f32[n<=64, 64]\nparam w : f32[64, 64] = seeded(1, 0.1)\ny = matmul(x, w)\n"):
            model = self.write("m.rlx", f"rlx 1\ninput n : i64[]\n{text}output y\n")
            for device in ("cpu", "cpu:scalar"):
                self.rlx("run", model, "--device", device, "--input", "n=n.npy", prints="empty")

    def test_infinite_values_stay_infinite_where_blocks_have_channels_to_spare(self):
        model = self.write("m.rlx", "rlx 1\ninput x : f32[1, 64, 16, 16]\n"
            "param v : f32[65, 64, 1, 1] = seeded(1, 0.1, 0.2)\nparam w : f32[64, 65, 1, 1] = seeded(2, 0.1, 0.2)\n"
            "const f : f32[16] = [1, 1, 1, inf, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\nconst c : f32[] = 3\n"
            "a = add(x, c)\nb = mul(a, f)\nd = conv(b, v)\ny = conv(d, w)\noutput y\n")
        for device in ("cpu", "cpu:scalar"):
            self.assertNotIn("NaN", self.rlx("run", model, "--device", device, prints="max inf"))

    def test_raw_bits_stand_for_types_that_numpy_does_not_have(self):
        model = self.write("m.rlx", "rlx 1\ninput x : bf16[2]\ny = cast(x) to=f32\noutput y\n")
        self.write_npy("x.npy", "<u2", (2,), [0x3F80, 0xC000])
        self.rlx("run", model, "--input", "x=x.npy", prints="[1, -2]")
        self.write_npy("x.npy", "<f4", (2,), [1, -2])
        self.rlx("run", model, "--input", "x=x.npy", code=1, says="expected bf16[2]")

    def test_fills_are_what_they_say_and_the_same_every_time(self):
        model = self.write("m.rlx", DOUBLE)
        bind = ("--bind", "N=9")
        self.rlx("run", model, *bind, "--fill", "zeros", prints="min 0  max 0  mean 0")
        self.rlx("run", model, *bind, "--fill", "ramp", prints="[0, 0.125, 0.25, ")
        default = self.rlx("run", model, *bind)
        self.assertEqual(default, self.rlx("run", model, *bind, "--fill", "random"))
        self.assertEqual(default, self.rlx("run", model, *bind, "--fill=random:1"))
        self.assertNotEqual(default, self.rlx("run", model, *bind, "--fill", "random:2"))

    def test_an_input_of_no_element_is_fine(self):
        model = self.write("m.rlx", DOUBLE)
        self.rlx("run", model, "--bind", "N=0", prints="y : f32[0, 2]  empty")
        row, = self.json_lines("run", model, "--bind", "N=0", "--json")
        self.assertEqual((row["type"], row["min"], row["mean"]), ("f32[0, 2]", None, None))


class Outputs(tool.ToolTest):
    def test_json_has_one_object_a_line(self):
        model = self.write("m.rlx", tool.MLP)
        rows = self.json_lines("run", model, "--bind", "S=3", "--json")
        self.assertEqual([row["output"] for row in rows], ["probs", "y"])
        self.assertEqual(rows[0]["type"], "f32[3, 8]")
        self.assertTrue(math.isclose(rows[0]["mean"], 0.125, rel_tol=1e-5))

    def test_infinities_and_nans_are_counted_and_json_stays_json(self):
        model = self.write("m.rlx", "rlx 1\ninput x : f32[3]\ny = log(x)\noutput y\n")
        self.write_npy("x.npy", "<f4", (3,), [-1, 0, 1])
        row, = self.json_lines("run", model, "--input", "x=x.npy", "--json")
        self.assertEqual((row["min"], row["max"], row["nan"]), (None, 0, 1))
        self.rlx("run", model, "--input", "x=x.npy", prints=["min -inf  max 0", "1 NaN"])

    def test_large_integers_are_shown_exactly(self):
        model = self.write("m.rlx", "rlx 1\ninput x : i64[1]\ny = neg(x)\noutput y\n")
        self.write_npy("x.npy", "<i8", (1,), [-123457])
        self.rlx("run", model, "--input", "x=x.npy", prints="min 123457 ")
        self.write_npy("x.npy", "<i8", (1,), [-16777217])
        row, = self.json_lines("run", model, "--input", "x=x.npy", "--json")
        self.assertEqual(row["max"], 16777217)

    def test_odd_output_names_become_file_names_that_stay_apart(self):
        model = self.write("m.rlx", 'rlx 1\ninput x : f32[1]\na = neg(x)\nb = exp(x)\nc = sin(x)\n'
                                    'output a as "../up"\noutput b as "a/b"\noutput c as "a%2Fb"\n')
        self.rlx("run", model, "--output-dir", "out")
        self.assertEqual(self.names(), ["m.rlx", "out", "out/%2E.%2Fup.npy", "out/a%252Fb.npy",
                                        "out/a%2Fb.npy"])

    def test_an_output_folder_may_exist_already(self):
        model = self.write("m.rlx", DOUBLE)
        for _ in range(2):
            self.rlx("run", model, "--bind", "N=1", "--output-dir", "out")
        self.assertEqual(self.names(), ["m.rlx", "out", "out/y.npy"])


class Options(tool.ToolTest):
    def test_a_profile_names_every_step(self):
        model = self.write("m.rlx", tool.MLP)
        text = self.rlx("run", model, "--bind", "S=3", "--profile", "--repeat", "3")
        self.assertRegex(text, r"us +share +GB/s +GFLOP/s +step")
        self.assertEqual(text.count("matmul"), 2)
        rows = self.json_lines("run", model, "--bind", "S=3", "--profile", "--json")
        steps = [row for row in rows if "step" in row]
        self.assertEqual(sorted(row["op"] for row in steps), ["matmul", "matmul", "softmax"])
        self.assertTrue(math.isclose(sum(row["share"] for row in steps), 1, abs_tol=1e-3))

    def test_a_trace_is_json_with_one_event_per_step_and_run(self):
        model = self.write("m.rlx", tool.MLP)
        self.rlx("run", model, "--bind", "S=3", "--trace", "t.json", "--repeat", "4")
        with open(self.path("t.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        self.assertEqual(len([event for event in events if event["ph"] == "X"]), 12)
        self.assertEqual(self.names(), ["m.rlx", "t.json"])

    def test_a_trace_may_go_to_a_device(self):
        model = self.write("m.rlx", tool.MLP)
        self.rlx("run", model, "--bind", "S=3", "--trace", "/dev/null")

    def test_threads_do_not_change_a_bit(self):
        model = self.write("m.rlx", tool.MLP)
        results = [self.outputs(model, "--bind", "S=64", "--threads", count) for count in (1, 2, 3, 8)]
        self.assertEqual(results.count(results[0]), 4)

    def test_memory_modes_do_not_change_a_bit(self):
        model = self.write("m.rlx", tool.MLP)
        expected = self.outputs(model, "--bind", "S=7")
        for mode in (["--poison"], ["--without-reuse"], ["--keep-inputs"], ["--search-ms", "5"],
                     ["--without-reuse", "--poison"], ["--keep-inputs", "--repeat", "3"]):
            self.assertEqual(self.outputs(model, "--bind", "S=7", *mode), expected, mode)

    def test_scalar_kernels_agree_with_those_of_this_machine(self):
        model = self.write("m.rlx", tool.MLP)
        scalar = self.outputs(model, "--bind", "S=7", "--device", "cpu:scalar")
        self.assert_close(self.outputs(model, "--bind", "S=7"), scalar)

    def test_every_pass_can_be_left_out(self):
        model = self.write("m.rlx", tool.MLP)
        expected = self.json_lines("run", model, "--bind", "S=7", "--json")
        shown = self.run_raw("run", model, "--disable", "nothing").stderr.decode()
        passes = shown.split("there are: ")[1].split()
        self.assertEqual([name for name in PASSES if name not in passes], [])
        for name in passes:
            rows = self.json_lines("run", model, "--bind", "S=7", "--json", "--disable", name)
            for row, wanted in zip(rows, expected):
                self.assertEqual(row["type"], wanted["type"])
                self.assertTrue(math.isclose(row["max"], wanted["max"], rel_tol=1e-5), name)
        everything = [argument for name in passes for argument in ("--disable", name)]
        self.rlx("run", model, "--bind", "S=7", *everything)

    def test_the_memory_limit_is_the_arena_to_the_byte(self):
        model = self.write("m.rlx", tool.MLP)
        plan, = self.json_lines("plan", model, "--bind", "S=7", "--json")
        self.rlx("run", model, "--bind", "S=7", "--memory-limit", plan["arena"])
        for verb in ("run", "plan"):
            self.rlx(verb, model, "--bind", "S=7", "--memory-limit", plan["arena"] - 1, code=4,
                     says=[str(plan["arena"]), str(plan["arena"] - 1), "m.rlx"])
        self.rlx("run", model, "--bind", "S=7", "--memory-limit", "1", "--output-dir", "out", code=4)
        self.assertEqual(self.names(), ["m.rlx"])


class State(tool.ToolTest):
    def setUp(self):
        super().setUp()
        self.write("m.rlx", tool.ROWS)
        self.write_npy("row.npy", "<f4", (1, 4), [1, 2, 3, 4])
        for position in range(4):
            self.write_npy(f"at{position}.npy", "<i8", (), [position])

    def run_at(self, position, *options, **wanted):
        return self.rlx("run", "m.rlx", "--input", "row=row.npy", "--input",
                        f"at=at{position}.npy", *options, **wanted)

    def test_state_is_carried_from_run_to_run_by_a_file(self):
        self.run_at(0, "--save-state", "s", prints="[1, 2, 3, 4]")
        self.run_at(1, "--load-state", "s", "--save-state", "s", prints="[2, 4, 6, 8]")
        self.run_at(2, "--load-state", "s", prints="[3, 6, 9, 12]")
        self.run_at(2, prints="[1, 2, 3, 4]")  # without the file it begins with zeros

    def test_state_lives_through_repeated_runs(self):
        self.run_at(1, "--repeat", "3", prints="[1, 2, 3, 4]")

    def test_state_past_its_end_is_a_fault_that_names_the_node(self):
        self.run_at(3, "--save-state", "s", "--output-dir", "out", code=1,
                    says=["'k2'", "state_write", "past its end", "3"])
        self.assertNotIn("s", self.names())
        self.assertNotIn("out", self.names())

    def test_state_of_another_model_is_refused(self):
        self.run_at(0, "--save-state", "s")
        self.write("other.rlx", tool.ROWS.replace("3, 4]", "5, 4]"))
        self.rlx("run", "other.rlx", "--fill", "zeros", "--load-state", "s", code=1, says="s")
        self.write("junk", b"rlxstate" + b"\xff" * 40)
        self.run_at(0, "--load-state", "junk", code=1, says="junk")
        self.run_at(0, "--load-state", "row.npy", code=1, says="row.npy")
        self.run_at(0, "--load-state", "missing", code=1, says="missing")


if __name__ == "__main__":
    unittest.main()
