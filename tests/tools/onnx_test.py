#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every verb that takes a model takes .onnx files; a model that cannot run lists all that is in the way."""
import json
import struct
import unittest

import tool


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    """A protobuf field: a number, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def port(name, dims):
    shape = b"".join(field(1, field(1, dim) if isinstance(dim, int) else field(2, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


def node(op, inputs, output):
    return b"".join(field(1, name) for name in inputs) + field(2, output) + field(3, output) + field(4, op)


def model(nodes, inputs, outputs, weights=()):
    graph = b"".join(field(1, item) for item in nodes)
    for name, dims, values in weights:
        raw = struct.pack("<%df" % len(values), *values)
        graph += field(5, b"".join(field(1, dim) for dim in dims) + field(2, 1) + field(8, name) + field(9, raw))
    graph += b"".join(field(11, item) for item in inputs) + b"".join(field(12, item) for item in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(2, 13))


def layer(rows):
    return model([node("MatMul", ["x", "w"], "h"), node("Relu", ["h"], "y")], [port("x", [rows, 2])],
                 [port("y", [rows, 2])], [("w", [2, 2], [1, -1, 2, 3])])


class Verbs(tool.ToolTest):
    def test_inspect_shows_what_a_file_holds_that_cannot_run(self):
        self.write("m.onnx", model([node("NoSuchOp", ["x"], "h"), node("Relu", ["h"], "y")], [port("x", [2])], [port("y", [2])]))
        self.rlx("inspect", "m.onnx", code=3, says=["NoSuchOp"],
                 prints=["input  x", "output y", "nodes 2: NoSuchOp 1 Relu 1"])

    def test_a_model_goes_through_every_verb(self):
        self.write("m.onnx", layer("N"))
        self.write_npy("x.npy", "<f4", (1, 2), [1, 1])
        self.rlx("inspect", "m.onnx", prints=["symbol N", "onnx opset 13, by '', nodes 2: MatMul 1 Relu 1"])
        seen, = self.json_lines("inspect", "m.onnx", "--json")
        self.assertEqual((seen["onnx_nodes"], seen["onnx_ops"]), (2, {"MatMul": 1, "Relu": 1}))
        self.rlx("plan", "m.onnx", "--bind", "N=4")
        self.rlx("run", "m.onnx", "--input", "x=x.npy", "--output-dir", "out")
        self.assertEqual(struct.unpack("<2f", (self.folder / "out/y.npy").read_bytes()[-8:]), (3, 2))
        self.rlx("compile", "m.onnx", "--bind", "N=1", "-o", "m.rlxp")
        self.rlx("run", "m.rlxp", "--input", "x=x.npy", "--output-dir", "again")
        self.assertEqual((self.folder / "again/y.npy").read_bytes(), (self.folder / "out/y.npy").read_bytes())
        self.rlx("diff", "m.onnx", "--bind", "N=3", "--ref", "cpu:scalar", "--device", "cpu")
        self.rlx("bench", "m.onnx", "--bind", "N=3", "--runs", "3")

    def test_check_runs_a_backend_test(self):
        tensor = field(1, 1) + field(1, 2) + field(2, 1)
        for number, (expected, code) in enumerate((((3, 2), 0), ((3, 7), 5))):
            case = f"case_{number}"
            (self.folder / case / "test_data_set_0").mkdir(parents=True)
            self.write(f"{case}/model.onnx", layer(1))
            self.write(f"{case}/test_data_set_0/input_0.pb", tensor + field(8, "x") + field(9, struct.pack("<2f", 1, 1)))
            self.write(f"{case}/test_data_set_0/output_0.pb",
                       tensor + field(8, "y") + field(9, struct.pack("<2f", *expected)))
            done = self.run_raw("check", "--json", case)
            rows = [json.loads(line) for line in done.stdout.decode().splitlines()[:1]]
            self.assertEqual(rows[0]["outcome"], "ok" if code == 0 else "differs")

    def check_file_of(self, content, inputs, dims, values, **expect):
        """One case whose input_0.pb has the given shape; output_0.pb is [3, 2]."""
        (self.folder / "case/test_data_set_0").mkdir(parents=True)
        self.write("case/model.onnx", content)
        for number, name in enumerate(inputs):
            head = b"".join(field(1, dim) for dim in dims[number]) + field(2, 1) + field(8, name)
            self.write(f"case/test_data_set_0/input_{number}.pb",
                       head + field(9, struct.pack("<%df" % len(values[number]), *values[number])))
        self.write("case/test_data_set_0/output_0.pb",
                   field(1, 1) + field(1, 2) + field(2, 1) + field(8, "y") + field(9, struct.pack("<2f", 3, 2)))
        self.rlx("check", "case", **expect)

    def test_check_refuses_a_file_of_another_shape(self):
        self.check_file_of(layer(1), ["x"], [[2, 2]], [[1, 1, 0, 0]], code=5,
                           prints=["failed case: input 'x' is f32[1, 2] in the model, its file holds f32[2, 2]"])

    def test_check_takes_a_file_that_nothing_reads(self):
        content = model([node("MatMul", ["x", "w"], "h"), node("CastLike", ["h", "like"], "y")],
                        [port("x", [1, 2]), port("like", [3])], [port("y", [1, 2])], [("w", [2, 2], [1, -1, 2, 3])])
        content = content.replace(field(8, field(2, 13)), field(8, field(2, 15)))
        self.check_file_of(content, ["x", "like"], [[1, 2], [4]], [[1, 1], [0, 0, 0, 0]], prints=["1 passed, 0 failed"])

    def test_a_model_of_strings_runs_like_any_other(self):
        words = field(5, field(1, "stopwords") + field(9, "monday") + field(9, "a_word_that_is_too_long") + field(20, 8))
        words += field(5, field(1, "case_change_action") + field(4, "UPPER") + field(20, 3))
        text = field(1, field(1, 8) + field(2, field(1, field(2, "C"))))
        graph = field(1, node("StringNormalizer", ["x"], "kept") + words) + field(1, node("Equal", ["kept", "w"], "is"))
        graph += field(5, field(1, 1) + field(2, 8) + field(6, "FRIDAY") + field(8, "w"))
        graph += field(11, field(1, "x") + field(2, text)) + field(12, field(1, "kept") + field(2, text)) + field(12, field(1, "is"))
        self.write("m.onnx", field(1, 8) + field(7, graph) + field(8, field(2, 13)))
        days = [b"Monday", b"friday", b"sunday"]
        self.write("x.npy", tool.npy_bytes("|u1", (3,), []).replace(b"|u1", b"|S6") + b"".join(days))
        self.rlx("inspect", "m.onnx", prints=["symbol C", "symbol x.bytes"])
        self.rlx("plan", "m.onnx", "--bind", "C=3", "--bind", "x.bytes=6")
        self.rlx("run", "m.onnx", "--input", "x=x.npy", "--output-dir", "out", prints=["kept : u8[2, 6]", "is : bool[2]"])
        self.assertEqual((self.folder / "out/kept.npy").read_bytes()[-12:], b"FRIDAYSUNDAY")
        self.assertEqual((self.folder / "out/is.npy").read_bytes()[-2:], b"\x01\x00")

    def test_a_symbol_that_is_not_bound_is_named(self):
        self.write("m.onnx", layer("N"))
        self.rlx("run", "m.onnx", code=1, says=["'N'"])

    def test_every_node_that_is_not_supported_is_listed(self):
        count = 300
        names = ["x"] + [f"a_node_with_a_name_that_is_long_{i}" for i in range(count)]
        nodes = [node("Frobnicate", [names[i]], names[i + 1]) for i in range(count)]
        self.write("m.onnx", model(nodes, [port("x", [2])], [port(names[-1], [2])]))
        for verb in ("inspect", "plan", "run"):
            done = self.run_raw(verb, "m.onnx")
            lines = done.stderr.decode().splitlines()
            self.assertEqual(done.returncode, 3)
            self.assertIn("m.onnx: 300 nodes are not supported", lines[0])
            self.assertEqual(lines[1:], [f"  node '{name}' (Frobnicate): the op is not supported" for name in names[1:]])


if __name__ == "__main__":
    unittest.main()
