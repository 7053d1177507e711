#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad input of every kind: the message names file, line or node and what was expected, the exit
code is right, and nothing half-written stays behind."""
import os
import resource
import struct
import unittest

import tool


def small_files(bytes_):
    """Before the command starts: no file may grow past so many bytes."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
    return limit


class Text(tool.ToolTest):
    def refuse(self, text, *says, code=1):
        self.write("m.rlx", text)
        for verb in ("inspect", "run", "plan"):
            self.rlx(verb, "m.rlx", code=code, says=["m.rlx", *says])
        self.rlx("compile", "m.rlx", "-o", "p", code=code, says=["m.rlx", *says])
        self.assertNotIn("p", self.names())

    def test_a_file_that_is_not_there_is_named(self):
        for verb in ("inspect", "run", "plan", "diff"):
            self.rlx(verb, "missing.rlx", code=1, says=["missing.rlx", "No such file"])
        self.rlx("run", ".", code=1, says=".")

    def test_what_is_no_model_is_refused(self):
        for data in (b"", b"\x7fELF" + bytes(range(256)), b"hello\n"):
            self.write("m.rlx", data)
            self.rlx("run", "m.rlx", code=1, says=["m.rlx", "line 1"])
            self.write("m.dat", data)
            self.rlx("run", "m.dat", code=3, says=["m.dat", "known are: rlx text"])

    def test_a_syntax_error_has_its_line(self):
        self.refuse("rlx 1\ninput x : f32[2\ny = neg(x)\noutput y\n", "line 3")
        self.refuse("rlx 1\ninput x : f32[2]\ny = neg(x))\noutput y\n", "line 3", "column")
        self.refuse("rlx 1\n\n\n$\n", "line 4")
        self.refuse('rlx 1\ninput "x : f32[2]\n', "line 2")

    def test_a_version_of_the_future_is_refused_with_both_numbers(self):
        self.refuse("rlx 99\ninput x : f32[2]\noutput x\n", "line 1", "version 99", "this is 1")

    def test_unknown_words_are_named_with_their_line(self):
        self.refuse("rlx 1\ninput x : f33[2]\noutput x\n", "line 2", "f33")
        self.refuse("rlx 1\ninput x : f32[2]\ny = negg(x)\noutput y\n", "line 3", "negg")
        self.refuse("rlx 1\ninput x : f32[2]\ny = neg(x) speed=9\noutput y\n", "line 3", "speed")
        self.refuse("rlx 1\ninput x : f32[2]\ny = neg(z)\noutput y\n", "line 3", "z")
        self.refuse("rlx 1\ninput x : f32[T]\ny = neg(x)\noutput y\n", "line 2", "T")
        self.refuse("rlx 1\ninput x : f32[2]\noutput y\n", "line 3", "y")

    def test_a_value_used_before_it_is_made_is_refused(self):
        self.refuse("rlx 1\ninput x : f32[2]\na = add(x, b)\nb = neg(a)\noutput b\n", "line 3", "b")
        self.refuse("rlx 1\ninput x : f32[2]\na = add(x, a)\noutput a\n", "line 3", "a")

    def test_a_name_given_twice_is_refused(self):
        self.refuse("rlx 1\ninput x : f32[2]\nx = neg(x)\noutput x\n", "line 3", "x")

    def test_an_ill_typed_graph_names_node_and_types(self):
        self.refuse("rlx 1\ninput a : f32[2, 3]\ninput b : f32[4, 5]\ny = matmul(a, b)\noutput y\n",
                    "line 4", "3", "4")
        self.refuse("rlx 1\ninput a : f32[2]\ninput b : i64[2]\ny = add(a, b)\noutput y\n", "line 4",
                    "f32", "i64")
        self.refuse("rlx 1\ninput x : f32[2]\ny = neg(x, x)\noutput y\n", "line 3", "neg")
        self.refuse("rlx 1\ninput x : f32[2, 2]\ny = softmax(x) axis=5\noutput y\n", "line 3", "5")

    def test_sizes_that_wrap_are_refused(self):
        self.refuse("rlx 1\ninput x : f32[9223372036854775807, 9]\ny = neg(x)\noutput y\n", "line 2")
        self.refuse("rlx 1\ninput x : f32[99999999999999999999]\noutput x\n", "line 2")
        self.refuse("rlx 1\ninput x : f32[-3]\noutput x\n", "line 2")

    def test_ill_typed_after_binding_names_the_node(self):
        self.write("m.rlx", "rlx 1\nsymbol A\nsymbol B\ninput a : f32[A]\ninput b : f32[B]\n"
                            "sum = add(a, b)\noutput sum\n")
        self.rlx("run", "m.rlx", "--bind", "A=3", "--bind", "B=4", code=1, says=["sum", "3", "4"])
        self.rlx("run", "m.rlx", "--bind", "A=3", "--bind", "B=3")

    def test_symbols_must_be_bound_and_known(self):
        self.write("m.rlx", tool.MLP)
        self.rlx("run", "m.rlx", code=1, says="'S'")
        self.rlx("run", "m.rlx", "--bind", "S=1", "--bind", "T=2", code=1, says="'T'")
        self.rlx("run", "m.rlx", "--bind", "S=1", "--bind", "S=2", code=1, says=["'S'", "1", "2"])

    def test_a_size_that_no_machine_has_fails_cleanly(self):
        self.write("m.rlx", tool.MLP)
        done = self.run_raw("run", "m.rlx", "--bind", "S=1000000000000000", "--output-dir", "out")
        self.assertIn(done.returncode, (1, 4), done.stderr)
        self.assertIn(b"rlx run: ", done.stderr)
        done = self.run_raw("run", "m.rlx", "--bind", "S=9223372036854775807")
        self.assertIn(done.returncode, (1, 4), done.stderr)
        self.assertEqual(self.names(), ["m.rlx"])


class Arrays(tool.ToolTest):
    MODEL = "rlx 1\ninput x : f32[2, 2]\ny = neg(x)\noutput y\n"

    def refuse(self, data, *says, code=1):
        self.write("m.rlx", self.MODEL)
        if data is not None:
            self.write("x.npy", data)
        self.rlx("run", "m.rlx", "--input", "x=x.npy", "--output-dir", "out", code=code,
                 says=["'x'", "x.npy", *says])
        self.assertNotIn("out", self.names())

    def test_input_files_that_are_missing_or_wrong_are_named(self):
        self.refuse(None, "No such file")
        self.refuse(tool.npy_bytes("<f4", (2, 3), [0] * 6), "f32[2, 2]", "f32[2, 3]")
        self.refuse(tool.npy_bytes("<f4", (4,), [0] * 4), "f32[2, 2]", "f32[4]")
        self.refuse(tool.npy_bytes("<f8", (2, 2), [0] * 4), "f32[2, 2]", "f64[2, 2]")
        self.refuse(tool.npy_bytes("<i4", (2, 2), [0] * 4), "f32[2, 2]", "i32[2, 2]")
        self.refuse(tool.npy_bytes("<f4", (2, 2), [0] * 4)[:-1], "bytes")
        self.refuse(b"", "x.npy")
        self.refuse(b"\x93NUMPY", "x.npy")
        self.refuse(b"PK\x03\x04 an archive, not an array", "x.npy")
        good = tool.npy_bytes("<f4", (2, 2), [0] * 4)
        self.refuse(good.replace(b"'<f4'", b"'>f4'"), code=3)
        self.refuse(good.replace(b"'<f4'", b"'<c8'"), code=3)
        self.refuse(good.replace(b"False", b"True "), code=3)

    def test_a_folder_is_no_array(self):
        self.write("m.rlx", self.MODEL)
        self.rlx("run", "m.rlx", "--input", "x=.", code=1, says="'x'")

    def test_an_input_that_the_model_does_not_have_is_named(self):
        self.write("m.rlx", self.MODEL)
        self.write_npy("x.npy", "<f4", (2, 2), [0] * 4)
        self.rlx("run", "m.rlx", "--input", "z=x.npy", code=1, says=["'z'", "x"])

    def test_weight_files_that_are_missing_or_wrong_are_named_with_their_line(self):
        model = 'rlx 1\ninput x : f32[2, 2]\nparam w : f32[2, 2] = npy("w.npy")\ny = matmul(x, w)\noutput y\n'
        self.write("m.rlx", model)
        self.rlx("run", "m.rlx", code=1, says=["m.rlx", "line 3", "w.npy", "No such file"])
        self.write_npy("w.npy", "<f4", (2, 3), [0] * 6)
        self.rlx("run", "m.rlx", code=1, says=["m.rlx", "line 3", "w.npy", "f32[2, 2]", "f32[2, 3]"])
        self.write_npy("w.npy", "<i4", (2, 2), [0] * 4)
        self.rlx("run", "m.rlx", code=1, says=["line 3", "f32[2, 2]", "i32[2, 2]"])
        self.write_npy("w.npy", "<f4", (2, 2), [0] * 4)
        self.rlx("run", "m.rlx")
        self.write("w.bin", b"\0" * 20)
        self.write("m.rlx", model.replace('npy("w.npy")', 'file("w.bin", 4)'))
        self.rlx("run", "m.rlx")
        self.write("m.rlx", model.replace('npy("w.npy")', 'file("w.bin", 5)'))
        self.rlx("run", "m.rlx", code=1, says=["m.rlx", "line 3", "w.bin"])


class Programs(tool.ToolTest):
    def setUp(self):
        super().setUp()
        self.write("m.rlx", tool.MLP)
        self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2")
        self.data = (self.folder / "p").read_bytes()

    def refuse(self, data, *says, code=1):
        self.write("q", data)
        for verb in ("run", "inspect", "plan"):
            self.rlx(verb, "q", code=code, says=["q", *says])

    def test_a_cut_program_is_refused_at_every_length(self):
        for length in (9, 64, 255, 256, 300, len(self.data) // 2, len(self.data) - 1):
            self.refuse(self.data[:length])
        self.rlx("run", "p")

    def test_a_damaged_program_is_refused(self):
        for at in (16, 30, 50, 80, 250, 260, 300, 700):
            data = bytearray(self.data)
            data[at] ^= 0x40
            self.write("q", bytes(data))
            done = self.run_raw("run", "q")
            self.assertIn(done.returncode, (1, 3), at)
            self.assertIn(b"rlx run: q: ", done.stderr)

    def test_a_program_of_another_version_is_unsupported(self):
        data = self.data[:8] + struct.pack("<I", 77) + self.data[12:]
        self.refuse(data, "77", code=3)

    def test_a_file_that_only_begins_like_a_program_is_refused(self):
        self.refuse(self.data[:8] + os.urandom(500).replace(b"\x01\0\0\0", b"\x02\0\0\0"), code=3)


class Faults(tool.ToolTest):
    def run_with(self, text, name, descr, shape, values, *says):
        self.write("m.rlx", text)
        self.write_npy("i.npy", descr, shape, values)
        self.rlx("run", "m.rlx", "--input", f"{name}=i.npy", "--output-dir", "out", "--trace", "t",
                 "--save-state", "s", code=1, says=says)
        self.assertEqual(self.names(), ["i.npy", "m.rlx"])

    def test_an_index_out_of_range_names_the_node_and_the_index(self):
        text = "rlx 1\ninput x : f32[4, 2]\ninput i : i64[2]\nrows = gather(x, i) axis=0\noutput rows\n"
        self.run_with(text, "i", "<i8", (2,), [1, 4], "'rows'", "gather", "out of range", "4")
        self.run_with(text, "i", "<i8", (2,), [-5, 0], "'rows'", "-5")

    def test_integer_division_by_zero_names_the_node(self):
        text = "rlx 1\ninput a : i32[3]\ninput b : i32[3]\nq = div(a, b)\noutput q\n"
        self.run_with(text, "b", "<i4", (3,), [1, 0, 2], "'q'", "div", "division by zero")

    def test_a_loop_past_its_bound_names_the_node(self):
        text = ("rlx 1\ninput n : i64[]\ninput x : f32[2]\nconst go : bool[] = true\n"
                "y = loop(n, go, x) bound=3 (i, acc) {\n    z = add(acc, x)\n    yield go, z\n}\noutput y\n")
        self.run_with(text, "n", "<i8", (), [4], "'y'", "loop", "past its bound")


class Disk(tool.ToolTest):
    def setUp(self):
        super().setUp()
        self.write("m.rlx", tool.MLP)
        self.write("rows.rlx", tool.ROWS.replace("[3, 4]", "[4096, 4]"))
        self.before = self.names()

    def refuse(self, *arguments, bytes_=1024):
        self.rlx(*arguments, code=1, says="File too large", before=small_files(bytes_))
        self.assertEqual(self.names(), self.before)

    def test_a_full_disk_leaves_nothing(self):
        self.refuse("compile", "m.rlx", "-o", "p", "--bind", "S=2")
        self.refuse("plan", "m.rlx", "--bind", "S=2", "--html", "plan.html")
        self.refuse("run", "m.rlx", "--bind", "S=200", "--output-dir", "out")
        self.refuse("run", "m.rlx", "--bind", "S=2", "--trace", "t.json", "--repeat", "20")
        self.refuse("run", "rows.rlx", "--fill", "zeros", "--save-state", "s")
        self.write("in.csv", "id,lower,upper,size\n" + "1,2,3,4\n" * 500)
        self.before = self.names()
        self.refuse("place", "in.csv", "-o", "out.csv")

    def test_a_full_disk_keeps_what_was_there(self):
        self.rlx("compile", "m.rlx", "-o", "p", "--bind", "S=2")
        data = (self.folder / "p").read_bytes()
        self.before = self.names()
        self.refuse("compile", "m.rlx", "-o", "p", "--bind", "S=3")
        self.assertEqual((self.folder / "p").read_bytes(), data)

    def test_outputs_that_were_whole_stay_when_a_later_one_fails(self):
        self.write("two.rlx", "rlx 1\ninput x : f32[500]\na = reduce_sum(x) axes=[0]\nb = neg(x)\n"
                              "output a\noutput b\n")
        self.rlx("run", "two.rlx", "--output-dir", "out", code=1, says="b.npy",
                 before=small_files(1024))
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["a.npy"])

    def test_places_that_cannot_be_written_are_named(self):
        self.write("file", "x")
        self.before = self.names()
        for arguments in (["--output-dir", "file"], ["--output-dir", "file/out"],
                          ["--output-dir", "no/such/folder"], ["--trace", "no/t.json"],
                          ["--save-state", "no/s"]):
            self.rlx("run", "m.rlx", "--bind", "S=2", *arguments, code=1, says=arguments[1])
        self.assertEqual(self.names(), self.before)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_a_folder_without_permission_is_named(self):
        os.mkdir(self.path("locked"), 0o500)
        self.rlx("run", "m.rlx", "--bind", "S=2", "--output-dir", "locked", code=1,
                 says=["locked", "Permission denied"])
        self.rlx("compile", "m.rlx", "--bind", "S=2", "-o", "locked/p", code=1, says="locked/p")


if __name__ == "__main__":
    unittest.main()
