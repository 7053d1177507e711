#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One model on several ranks through the rlx command: plan, run, compile, and under a launcher."""
import json
import os
import shutil
import subprocess
import unittest

import tool

MLP = """rlx 1
input x : f32[2, 8]
param a : f32[8, 48] = seeded(1, 0.5)
param b : f32[48, 8] = seeded(2, 0.5)
param c : f32[8] = seeded(3, 0.5)
h = matmul(x, a)
g = gelu(h)
s = matmul(g, b)
y = add(s, c)
output y
"""


class Ranks(tool.ToolTest):
    def outputs(self, folder):
        return tool.read_npy(self.path(folder + "/y.npy"))[2]

    def test_plan_says_what_is_split(self):
        model = self.write("m.rlx", MLP)
        self.rlx("plan", model, "--ranks", "3", prints=["ranks    3", "48 units of 1 column, by rank 16 + 16 + 16"])
        plan = json.loads(self.rlx("plan", model, "--ranks", "2", "--json"))
        self.assertEqual(plan["ranks"], 2)
        self.assertTrue(plan["splits"][0]["split"])
        self.rlx("plan", model, "--ranks", "2", "--disable", "shard", prints="0 B of weights split")
        self.rlx("plan", model, "--ranks", "1000", code=2, says="more than 256")

    def test_ranks_give_what_one_gives(self):
        model = self.write("m.rlx", MLP)
        self.rlx("run", model, "--output-dir", "one")
        for count in ("2", "3"):
            self.rlx("run", model, "--ranks", count, "--output-dir", "many")
            for one, many in zip(self.outputs("one"), self.outputs("many")):
                self.assertAlmostEqual(one, many, places=4)

    def test_programs_of_ranks_are_one_file_each(self):
        model = self.write("m.rlx", MLP)
        self.rlx("compile", model, "--ranks", "2", "-o", "p", prints=["p.0", "p.1"])
        self.rlx("run", model, "--ranks", "2", "--output-dir", "one")
        self.rlx("run", "p", "--ranks", "2", "--output-dir", "many")
        self.assertEqual(self.outputs("one"), self.outputs("many"))
        self.rlx("run", "p.0", code=1, says="is a program for 2 ranks, and there is 1")

    def test_a_device_with_memory_of_its_own_is_refused(self):
        if not any(line.startswith("vulkan:0") and "not available" not in line
                   for line in self.rlx("devices").splitlines()):
            self.skipTest("no Vulkan driver")
        self.rlx("run", self.write("m.rlx", MLP), "--ranks", "2", "--device", "vulkan:0", code=3,
                 says=["several ranks keep state and scratch in their heap", "'vulkan:0' has its own"])

    def mpirun(self, kind, *arguments, before=()):
        """Runs the command as two ranks of an MPI; skips the test where it is not installed."""
        launcher = shutil.which("mpirun." + kind)
        plugin = os.path.join(os.path.dirname(os.path.realpath(tool.RLX)), f"librlx_mpi_{kind}.so")
        if launcher is None or not os.path.exists(plugin):
            self.skipTest("no " + kind)
        extra = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if kind == "openmpi" else []
        return subprocess.run([launcher, *extra, "-n", "2", *before, tool.RLX, *arguments], cwd=self.path("."),
                              capture_output=True, text=True, timeout=60)

    def check_mpi(self, kind):
        model = self.write("m.rlx", MLP)
        self.rlx("run", model, "--ranks", "2", "--output-dir", "one")
        for way in ([], ["--network"]):
            done = self.mpirun(kind, "run", model, "--output-dir", "many", *way)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout.count("y : f32[2, 8]"), 1)
            self.assertEqual(self.outputs("one"), self.outputs("many"))

    def check_threads(self, kind, variable):
        """Ranks share the processors with those of their host, not with all."""
        model = self.write("m.rlx", MLP)
        threads = json.loads(self.rlx("devices", "--json").splitlines()[0])["threads"]
        done = self.mpirun(kind, "run", model, "-v", before=["env", f"{variable}=1"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"rank 1 of 2, {threads} CPU threads", done.stderr)

    def test_ranks_of_open_mpi_share_the_processors_of_their_host(self):
        self.check_threads("openmpi", "OMPI_COMM_WORLD_LOCAL_SIZE")

    def test_ranks_of_mpich_share_the_processors_of_their_host(self):
        self.check_threads("mpich", "MPI_LOCALNRANKS")

    def test_open_mpi_starts_ranks(self):
        self.check_mpi("openmpi")

    def test_mpich_starts_ranks(self):
        self.check_mpi("mpich")


if __name__ == "__main__":
    unittest.main()
