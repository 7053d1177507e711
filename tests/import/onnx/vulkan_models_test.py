#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real models on a Vulkan device against the CPU, every step compared, through `rlx diff`.

The models and their inputs are those of models_test.py. Each step is judged on the reference's inputs (--each):
differences do not add up, and what rounds cannot tip over because of what came before. Some models are
compared without passes: every node is a step of its own.
usage: vulkan_models_test.py RLX FOLDER DEVICE small|all|MODEL..
"""
import os
import subprocess
import sys
import tempfile
import time

import models_test
import onnx_cases

SMALL = ("bert_toy_opt", "dtln_1", "gpt2_past", "gtcrn_simple", "silero_vad_16k_op15")
UNFUSED = ("qdq_multi", "ultraface_rfb320")  # rounding, and sums of small differences of many fused layers
ONLY_LIGHT = ("bvlc_alexnet", "shufflenet")  # weights as they are; no reference outputs are needed here


def diff(rlx, device, model, inputs, more):
    """None, or what rlx said."""
    with tempfile.TemporaryDirectory() as temp:
        args = [rlx, "diff", model, "--ref", "cpu", "--device", device, "--each"] + more
        for number, given in enumerate(inputs):
            path = os.path.join(temp, "in_%d.npy" % number)
            onnx_cases.write_npy(path, given.dtype, given.dims, given.values())
            args += ["--input", "%s=%s" % (given.name, path)]
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode == 0:
        return None
    return (done.stdout + done.stderr).decode().strip()


def cases(models, folder, wanted):
    """(name, path, inputs) of the models asked for."""
    references = onnx_cases.references(os.path.join(models, "refs", "REFS.txt"))
    for name, (inputs, _) in references.items():
        if inputs and (wanted == ["all"] or name in wanted or (wanted == ["small"] and name in SMALL)):
            yield name, models_test.find_model(models, folder, name), inputs
    for name in ONLY_LIGHT:
        if wanted == ["all"] or name in wanted:
            yield name, os.path.join(models, "light", "light_%s.onnx" % name), []


def main():
    rlx, folder, device, wanted = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    models = os.path.join(os.environ.get("RLX_TEST_DATA", ""), "models")
    if not os.path.exists(os.path.join(models, "refs", "REFS.txt")):
        print("skipped: RLX_TEST_DATA names no folder with models/refs/REFS.txt")
        return 77
    listed = subprocess.run([rlx, "devices"], stdout=subprocess.PIPE, check=True).stdout.decode()
    if device.split(":")[0] + ":" not in listed:
        print("skipped: no Vulkan device")
        return 77
    failed = compared = 0
    for name, path, inputs in cases(models, folder, wanted):
        if path is None:
            print("%s: skipped, node writes its weights and is not installed" % name)
            continue
        start = time.monotonic()
        wrong = diff(rlx, device, path, inputs, ["--disable", "all"] if name in UNFUSED else [])
        print("%s: %s (%.1f s)" % (name, wrong or "ok", time.monotonic() - start), flush=True)
        failed += wrong is not None
        compared += 1
    return 1 if failed or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
