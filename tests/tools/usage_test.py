#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the rlx command is called: help, version, wrong arguments, streams, settings."""
import json
import os
import re
import socket
import subprocess
import unittest

import tool

# Each verb with arguments that are one too few and one too many.
NEEDS_A_FILE = ["inspect", "plan", "place", "run", "diff"]
ALL = NEEDS_A_FILE + ["compile", "devices", "ops"]


class Usage(tool.ToolTest):
    def test_no_arguments_is_a_usage_error_with_the_list_of_verbs(self):
        self.rlx(code=2, says=["rlx VERB", "inspect", "compile", "run"])

    def test_help_lists_every_verb_and_every_verb_has_help(self):
        text = self.rlx("--help")
        self.assertEqual(text, self.rlx("-h"))
        self.assertEqual(text, self.rlx("help"))
        verbs = re.findall(r"^  (\w+) ", text, re.M)
        self.assertEqual([verb for verb in ALL if verb not in verbs], [])
        for verb in verbs:
            shown = self.rlx(verb, "--help", prints=[f"usage: rlx {verb}", "Exit: 0 ok"])
            self.assertEqual(shown, self.rlx(verb, "-h"))
            self.assertEqual(shown, self.rlx("help", verb))
            self.assertEqual(self.last_error, "")

    def test_help_wins_over_other_arguments_and_reads_no_file(self):
        self.rlx("run", "no such file", "--help", prints="usage: rlx run")
        self.rlx("help", "nothing", code=2, says="no verb 'nothing'")
        self.rlx("help", "run", "plan", code=2)

    def test_a_message_is_written_as_whole_lines(self):
        # Each write to this socket is a packet. Ranks share a stderr: parts of lines would mix.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for arguments in (["run", "no such file"], ["plan", self.write("m", "rlx 1\nx = y\n")],
                          ["plan", self.write("m.rlx", "rlx 1\n"), "--disable", "nothing"]):
            subprocess.run([tool.RLX, *arguments], stderr=theirs, stdout=subprocess.DEVNULL,
                           cwd=self.folder, env=self.environment, check=False, timeout=240)
            packet = ours.recv(65536)
            self.assertRegex(packet, rb"^rlx \w+: .*\n$")
        ours.close()
        theirs.close()

    def test_version_is_one_line(self):
        self.assertRegex(self.rlx("--version"), r"^rlx \d+\.\d+\.\d+\n$")

    def test_an_unknown_verb_is_named(self):
        self.rlx("runn", "x", code=2, says="'runn'")
        self.rlx("--verbose", code=2, says="'--verbose'")
        self.rlx("", code=2, says="''")

    def test_unknown_options_are_named(self):
        for verb in ALL:
            self.rlx(verb, "--no-such-option", code=2, says=[f"rlx {verb}:", "'--no-such-option'"])
            self.rlx(verb, "-z", code=2, says="'-z'")

    def test_too_few_and_too_many_arguments_are_usage_errors(self):
        for verb in NEEDS_A_FILE:
            self.rlx(verb, code=2, says=f"usage: rlx {verb}")
            self.rlx(verb, "a", "b", code=2, says="'b'")
        for verb in ("devices", "ops"):
            self.rlx(verb, "a", code=2, says="'a'")
        self.rlx("compile", "-o", "out", code=2, says="usage: rlx compile")
        self.rlx("compile", "a", code=2, says="-o OUT is missing")

    def test_options_without_their_value_are_usage_errors(self):
        for verb, option in (("run", "--bind"), ("run", "--input"), ("plan", "--html"),
                             ("compile", "-o"), ("diff", "--ref"), ("place", "--capacity")):
            self.rlx(verb, "x", option, code=2, says=["needs a value", option])
        self.rlx("run", "x", "--poison=1", code=2, says="takes no value")

    def test_values_that_make_no_sense_are_usage_errors(self):
        model = self.write("m.rlx", tool.MLP)
        for arguments in (["--threads", "two"], ["--threads", "-1"], ["--threads", "4097"],
                          ["--threads", "99999999999999999999"], ["--repeat", "0"],
                          ["--bind", "S"], ["--bind", "S="], ["--bind", "=3"],
                          ["--bind", "S=-1"], ["--bind", "S=3x"], ["--bind", "S=0x10"],
                          ["--bind", "S=9999999999999999999999"],
                          ["--input", "x"], ["--input", "x="], ["--fill", "ones"],
                          ["--fill", "random:"], ["--fill", "random:x"], ["--fill", "random:-1"],
                          ["--disable", "everything"], ["--memory-limit", "1T"]):
            self.rlx("run", model, *arguments, code=2)
        self.rlx("diff", model, "--rtol", "-1", code=2, says="'-1'")
        self.rlx("diff", model, "--atol", "much", code=2, says="'much'")
        self.rlx("inspect", model, "--text", "--json", code=2)
        for entry in ("", ":S=1", "a:S", "a:S=x", "a:S=1,,"):
            self.rlx("plan", model, "--entry", entry, code=2, says="--entry")
        self.rlx("plan", model, "--entry", "a:S=1", "--entry", "a:S=2", code=2, says="'a'")
        many = [argument for i in range(65) for argument in ("--bind", f"S{i}=1")]
        self.rlx("run", model, *many, code=2, says="--bind")
        self.assertEqual(self.names(), ["m.rlx"])

    def test_a_file_whose_name_begins_with_a_dash_follows_two_dashes(self):
        self.write("-m.rlx", tool.MLP)
        self.rlx("inspect", "-m.rlx", code=2)
        self.rlx("inspect", "--", "-m.rlx", prints="nodes 5")

    def test_a_device_that_does_not_exist_is_named(self):
        model = self.write("m.rlx", tool.MLP)
        for verb in ("run", "plan", "diff"):
            self.rlx(verb, model, "--bind", "S=1", "--device", "tpu", code=1, says="'tpu'")

    def test_a_device_that_is_not_there_is_unsupported(self):
        model = self.write("m.rlx", tool.MLP)
        missing = [row for row in self.json_lines("devices", "--json") if not row["available"]]
        for row in missing:
            self.rlx("run", model, "--bind", "S=1", "--device", row["name"], code=3,
                     says=row["missing"])

    def test_settings_come_from_the_environment_and_bad_ones_are_named(self):
        model = self.write("m.rlx", tool.MLP)
        self.environment["RLX_THREADS"] = "many"
        self.rlx("run", model, "--bind", "S=1", code=2, says="RLX_THREADS")
        self.environment["RLX_THREADS"] = "1"
        self.environment["RLX_DEVICE"] = "tpu"
        self.rlx("run", model, "--bind", "S=1", code=1, says="'tpu'")
        self.rlx("run", model, "--bind", "S=1", "--device", "cpu")
        self.environment["RLX_DEVICE"] = "cpu:scalar"
        self.assertIn("cpu/scalar", self.rlx("plan", model, "--bind", "S=1"))

    def test_results_go_to_stdout_and_messages_to_stderr(self):
        model = self.write("m.rlx", tool.MLP)
        for arguments in (["devices"], ["ops"], ["inspect", model],
                          ["plan", model, "--bind", "S=2"], ["run", model, "--bind", "S=2"],
                          ["diff", model, "--bind", "S=2"]):
            out = self.rlx(*arguments)
            self.assertNotEqual(out, "")
            self.assertEqual(self.last_error, "")
        self.assertEqual(self.rlx("run", model, code=1), "")
        self.rlx("run", model, "--bind", "S=2", "-v", says="rlx: info:")
        self.rlx("run", model, "--bind", "S=2", "-q", "--output-dir", "out")
        self.assertEqual(self.last_error, "")

    def test_tables_are_complete_and_json_says_the_same(self):
        devices = self.json_lines("devices", "--json")
        self.assertEqual(devices[0]["name"], "cpu")
        self.assertGreater(devices[0]["memory_bytes"], 0)
        self.assertEqual(len(devices), len(self.rlx("devices").splitlines()))
        rows = self.json_lines("ops", "--json")
        ops = {row["op"] for row in rows if "op" in row}
        onnx = {row["onnx"]: row["versions"] for row in rows if "onnx" in row}
        self.assertEqual(onnx["NonMaxSuppression"], "10, 11")
        self.assertTrue({"matmul", "conv", "attention", "loop", "state_write"} <= ops)
        self.assertEqual(len(rows) + 5, len(self.rlx("ops").splitlines()))


class Streams(tool.ToolTest):
    def test_a_reader_that_leaves_early_is_no_reason_to_complain(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([tool.RLX, "ops"], stdout=writer, stderr=subprocess.PIPE, check=False)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (1, b""))

    def test_results_that_cannot_be_written_fail_with_a_message(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([tool.RLX, "ops"], stdout=full, stderr=subprocess.PIPE,
                                  check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write the results", done.stderr)

    def test_a_closed_stdout_does_not_end_up_in_a_file_we_write(self):
        model = self.write("m.rlx", tool.MLP)
        script = '"$0" compile "$1" --bind S=2 -o p.rlxp >&-; echo $?'
        done = subprocess.run(["bash", "-c", script, tool.RLX, model], capture_output=True,
                              cwd=self.folder, check=False)
        self.assertEqual(done.stdout, b"1\n")
        self.assertIn(b"cannot write the results", done.stderr)
        self.rlx("run", "p.rlxp")  # whole all the same

    def test_closed_stdin_and_stderr_are_harmless(self):
        model = self.write("m.rlx", tool.MLP)
        script = '"$0" compile "$1" --bind S=2 -o p.rlxp -v <&- 2>&-; echo $?'
        done = subprocess.run(["bash", "-c", script, tool.RLX, model], capture_output=True,
                              cwd=self.folder, check=False)
        self.assertTrue(done.stdout.endswith(b"\n0\n"), done.stdout)
        self.rlx("run", "p.rlxp")

    def test_names_cannot_steer_a_terminal_or_break_json(self):
        model = self.write("m.rlx", 'rlx 1\ninput "a\\x1b[31m\\xff\\"" : f32[2]\n'
                                    'b = neg("a\\x1b[31m\\xff\\"")\noutput b as "\\x1b[2J/\\x07"\n')
        shown = self.run_raw("inspect", model)
        self.assertNotIn(b"\033", shown.stdout)
        self.assertNotIn(b"\033", self.run_raw("run", model).stdout)
        shown = json.loads(self.run_raw("inspect", model, "--json").stdout)
        self.assertEqual(shown["inputs"][0]["name"], 'a\033[31m\ufffd"')
        self.assertEqual(shown["outputs"], ["\033[2J/\a"])
        error = self.run_raw("run", model, "--input", "a\033[31m=x.npy").stderr
        self.assertNotIn(b"\033", error)


if __name__ == "__main__":
    unittest.main()
