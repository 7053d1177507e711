#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`rlx launch` as its users meet it."""
import os
import signal
import subprocess
import time
import unittest

import tool


class Launch(tool.ToolTest):
    def launch(self, *arguments, **options):
        return subprocess.run([tool.RLX, "launch", *arguments], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, timeout=100,
                              **options)

    def test_every_rank_is_told_who_it_is(self):
        done = self.launch("-n", "3", "--", "sh", "-c", "echo $RLX_RANK of $RLX_RANK_COUNT")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 of 3", "1 of 3", "2 of 3"])

    def test_lines_get_their_rank_on_request(self):
        done = self.launch("-n", "2", "--prefix", "--", "sh", "-c",
                           "echo out; echo err >&2; printf end")
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["[0] end", "[0] out", "[1] end", "[1] out"])
        self.assertEqual(sorted(done.stderr.splitlines()), ["[0] err", "[1] err"])

    def test_only_rank_0_reads_stdin(self):
        done = self.launch("-n", "2", "--", "sh", "-c", "echo $RLX_RANK $(cat)", input="hello")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0 hello", "1"])

    def test_the_rank_that_fails_is_named_and_its_code_is_ours(self):
        done = self.launch("-n", "3", "--", "sh", "-c", "[ $RLX_RANK != 1 ] || exit 7")
        self.assertEqual(done.returncode, 7)
        self.assertEqual(done.stderr, "rlx launch: rank 1 of 3 ended with exit code 7\n")

    def test_the_rank_that_is_killed_is_named(self):
        done = self.launch("-n", "2", "--grace", "0", "--", "sh", "-c",
                           "[ $RLX_RANK = 0 ] && kill -9 $$; exec sleep 100")
        self.assertEqual(done.returncode, 128 + 9)
        self.assertIn("rank 0 of 2 was killed by signal 9 (Killed)", done.stderr)

    def test_a_command_that_is_not_there_is_127(self):
        done = self.launch("-n", "1", "--", "./nowhere")
        self.assertEqual(done.returncode, 127)
        self.assertIn("./nowhere: No such file or directory", done.stderr)

    def test_signals_reach_the_ranks(self):
        process = subprocess.Popen([tool.RLX, "launch", "-n", "2", "--", "sh", "-c",
                                    "echo ready; exec sleep 100"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=self.environment, text=True)
        lines = [process.stdout.readline() for _ in range(2)]
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=100)
        self.assertEqual(lines, ["ready\n", "ready\n"])
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_ranks_end_with_their_launcher(self):
        process = subprocess.Popen([tool.RLX, "launch", "-n", "2", "--", "sh", "-c",
                                    "echo $$; exec sleep 100"], stdout=subprocess.PIPE,
                                   env=self.environment, text=True)
        ranks = [int(process.stdout.readline()) for _ in range(2)]
        process.kill()
        process.communicate()
        for _ in range(500):
            if not any(os.path.exists(f"/proc/{rank}/fd/1") for rank in ranks):
                return
            time.sleep(0.02)
        self.fail("a rank is still there")

    def test_wrong_usage_is_2(self):
        for arguments in (["-n", "2"], ["--", "true"], ["-n", "0", "--", "true"],
                          ["-n", "257", "--", "true"], ["-n", "2", "--"]):
            self.assertEqual(self.launch(*arguments).returncode, 2, arguments)


if __name__ == "__main__":
    unittest.main()
