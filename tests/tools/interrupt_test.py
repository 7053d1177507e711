#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Interrupts, terminals, and files that change while they are used."""
import os
import pty
import random
import signal
import subprocess
import time
import unittest

import tool


def hard_rows():
    """3000 pieces of a rectangle of time and memory: without gaps they fit only as it was cut.
    Of 600 some are solved within a quarter of a second, of 1500 none within twelve."""
    dice = random.Random(1)
    parts = [(0, 1000, 0, 10000000)]
    while len(parts) < 3000:
        lower, upper, low, high = parts.pop(dice.randrange(len(parts)))
        if dice.random() < 0.5 and upper - lower > 1:
            middle = dice.randrange(lower + 1, upper)
            parts += [(lower, middle, low, high), (middle, upper, low, high)]
        elif high - low > 1:
            middle = dice.randrange(low + 1, high)
            parts += [(lower, upper, low, middle), (lower, upper, middle, high)]
        else:
            parts.append((lower, upper, low, high))
    dice.shuffle(parts)
    return "".join(f"{i},{lower},{upper},{high - low}\n"
                   for i, (lower, upper, low, high) in enumerate(parts))


class Process(tool.ToolTest):
    def start(self, *arguments, before=tool.end_on_signals, stderr=subprocess.PIPE):
        process = subprocess.Popen([tool.RLX, *arguments], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                                   preexec_fn=before)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def wait_for(self, what, process):
        """Until `what()` is true; a process that ends before that is a failure."""
        for _ in range(2000):
            if what():
                return
            self.assertIsNone(process.poll(), "ended too early")
            time.sleep(0.02)
        self.fail("never happened")

    def interrupt(self, process, number=signal.SIGINT):
        """Gives (exit code, stdout, stderr) after the signal."""
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
        return process.returncode, out.decode(), err.decode() if err is not None else ""

    def is_running(self, process, ticks=30):
        """Whether it has used the processor for a while: it is in the middle of its work."""
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12]) > ticks


class Interrupt(Process):
    def test_a_long_run_ends_with_130_and_leaves_nothing(self):
        self.write("m.rlx", tool.ENDLESS)
        process = self.start("run", "m.rlx", "--output-dir", "out", "--trace", "t", "--save-state", "s")
        self.wait_for(lambda: self.is_running(process) and "out" in self.names(), process)
        code, out, err = self.interrupt(process)
        self.assertEqual((code, out, err), (130, "", "rlx run: interrupted\n"))
        self.assertEqual(self.names(), ["m.rlx"])

    def test_a_termination_ends_with_143(self):
        self.write("m.rlx", tool.ENDLESS)
        process = self.start("run", "m.rlx", "--output-dir", "out")
        self.wait_for(lambda: self.is_running(process) and "out" in self.names(), process)
        self.assertEqual(self.interrupt(process, signal.SIGTERM)[0], 143)
        self.assertEqual(self.names(), ["m.rlx"])

    def test_a_caller_that_ignores_interrupts_is_obeyed(self):
        self.write("m.rlx", tool.ENDLESS)
        process = self.start("run", "m.rlx",
                             before=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        self.wait_for(lambda: self.is_running(process), process)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(process.poll())

    def test_reading_weights_can_be_interrupted(self):
        self.write("m.rlx", "rlx 1\ninput x : f32[1, 65536]\n"
                            "param w : f16[65536, 4096] = seeded(1, 0.1)\n"
                            "y = cast(x) to=f16\nz = matmul(y, w)\noutput z\n")
        process = self.start("compile", "m.rlx", "-o", "p")
        self.wait_for(lambda: self.is_running(process, 10), process)
        code, out, err = self.interrupt(process)
        self.assertEqual((code, out, err), (130, "", "rlx compile: interrupted\n"))
        self.assertEqual(self.names(), ["m.rlx"])

    def test_a_search_ends_with_the_best_so_far(self):
        self.write("in.csv", "id,lower,upper,size\n" + hard_rows())
        process = self.start("place", "in.csv", "--seconds", "100000", "-o", "out.csv", "--json")
        self.wait_for(lambda: self.is_running(process), process)
        code, out, _ = self.interrupt(process)
        self.assertEqual(code, 130)
        self.assertIn('"peak"', out)
        self.assertEqual(self.names(), ["in.csv", "out.csv"])

    def test_a_comparison_can_be_interrupted(self):
        self.write("m.rlx", tool.ENDLESS)
        process = self.start("diff", "m.rlx")
        self.wait_for(lambda: self.is_running(process), process)
        self.assertEqual(self.interrupt(process)[0], 130)


class Terminal(Process):
    def open_terminal(self):
        try:
            return pty.openpty()
        except OSError as error:
            self.skipTest(f"this machine has no terminals to give: {error}")

    def read_terminal(self, *arguments, environment=None):
        """Runs with stderr on a terminal; gives what the terminal saw while it ran and the exit."""
        self.environment.update(environment or {})
        ours, theirs = self.open_terminal()
        process = self.start(*arguments, stderr=theirs)
        os.close(theirs)
        seen = b""
        while b"%" not in seen and process.poll() is None:
            try:
                seen += os.read(ours, 4096)
            except OSError:
                break
        code = self.interrupt(process)[0]
        try:
            while True:
                seen += os.read(ours, 4096)
        except OSError:
            os.close(ours)
        return code, seen.decode()

    def test_a_terminal_sees_a_bar_without_escape_codes(self):
        self.write("m.rlx", tool.ENDLESS)
        code, seen = self.read_terminal("run", "m.rlx", environment={"NO_COLOR": "1"})
        self.assertEqual(code, 130)
        self.assertRegex(seen, r"\rrunning \[#*-*\] +\d+%  step \d+ of \d+")
        self.assertIn("rlx run: interrupted", seen)
        self.assertNotIn("\033", seen)

    def test_quiet_shows_no_bar(self):
        self.write("m.rlx", tool.MLP)
        ours, theirs = self.open_terminal()
        process = self.start("run", "m.rlx", "--bind", "S=1", "-q", stderr=theirs)
        os.close(theirs)
        out, _ = process.communicate(timeout=100)
        self.assertTrue(out.startswith(b"probs : f32[1, 8]"))
        with self.assertRaises(OSError):  # nothing was written before the end
            os.read(ours, 1)
        os.close(ours)


class MappedFile(Process):
    def test_a_program_that_shrinks_under_a_run_is_said_and_fails(self):
        self.write("m.rlx", tool.ENDLESS.replace(
            "input x : f32[64, 64]\n", "input x : f32[64, 64]\nparam w : f32[64, 64] = seeded(1, 0.1)\n"
        ).replace("matmul(acc, x)", "matmul(acc, w)"))
        self.rlx("compile", "m.rlx", "-o", "p")
        process = self.start("run", "p")
        self.wait_for(lambda: self.is_running(process), process)
        os.truncate(self.path("p"), 4096)
        _, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, 1)
        self.assertIn(b"rlx: a mapped program file was cut short", err)


if __name__ == "__main__":
    unittest.main()
