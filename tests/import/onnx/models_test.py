#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real models against reference outputs, through `rlx run`.

The folder RLX_TEST_DATA/models holds them (scripts/onnx_cases.py says how). Models whose weights are made by rule are
written to FOLDER by the models' own expand.js, if node is there. Without RLX_TEST_DATA the test is skipped (77).
On another device than the CPU every step must run there, none on the host (whose kernels are named *_scalar).
usage: models_test.py RLX FOLDER [--device NAME] small|all|MODEL..
"""
import array
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "scripts"))
import onnx_cases  # noqa: E402

LARGE = ("resnet50", "inception_v1", "minilm_l6")
QUICK = ("bert_toy_opt", "ch_ppocr_mobile_v2.0_cls_infer", "dtln_1", "gpt2_past", "gtcrn_simple", "silero_vad_16k_op15")  # on software
TRANSFORMERS = ("bert_toy_opt", "gpt2_past", "minilm_l6")  # also split over ranks


def file_name(port):
    """As `rlx run` writes it: what a path would trip over is %XX."""
    return "".join("%%%02X" % ord(c) if c in "/%" else c for c in port) + ".npy"


def expand(models, folder, name):
    """A model with weights by rule, written once."""
    light = os.path.join(models, "light", "light_%s.onnx" % name)
    graph = os.path.join(models, name + "_graph.onnx")
    target = os.path.join(folder, name + ".onnx")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(target) and os.path.exists(light):
        command = ["node", os.path.join(models, "expand.js"), "light", light, target + ".part"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        os.rename(target + ".part", target)
    elif not os.path.exists(target):
        shutil.copyfile(graph, target + ".part")
        command = ["node", os.path.join(models, "expand.js"), "extern", target + ".part"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        os.rename(target + ".part", target)
    return target


def find_model(models, folder, name):
    path = os.path.join(models, name + ".onnx")
    if os.path.exists(path):
        return path
    return expand(models, folder, name) if shutil.which("node") else None


def host_steps(text):
    """Kernels of the host in a profile."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith('{"step"')]
    names = [row["step"] for row in rows if row["kernel"].endswith("_scalar")]
    return "%d of %d steps on the host, first '%s'" % (len(names), len(rows), names[0]) if names or not rows else None


def run(rlx, model, temp, inputs, ranks=1, device="cpu"):
    """Runs with [(name, dtype, dims, values)]; None, or what rlx said."""
    args = ["--ranks", str(ranks)] if device == "cpu" else ["--device", device, "--profile", "--json"]
    for number, (port, dtype, dims, values) in enumerate(inputs):
        path = os.path.join(temp, "in_%d.npy" % number)
        onnx_cases.write_npy(path, dtype, dims, values)
        args += ["--input", "%s=%s" % (port, path)]
    done = subprocess.run([rlx, "run", model, "--output-dir", temp] + args,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != 0:
        return done.stderr.decode().strip()
    return None if device == "cpu" else host_steps(done.stdout.decode())


def check(rlx, model, folder, name, inputs, outputs, ranks=1, device="cpu"):
    with tempfile.TemporaryDirectory() as temp:
        wrong = run(rlx, model, temp, [(i.name, i.dtype, i.dims, i.values()) for i in inputs], ranks, device)
        if wrong:
            return wrong
        for number, port in enumerate(outputs):
            expected, stride = onnx_cases.reference(folder, number)
            wrong = onnx_cases.differs(name, onnx_cases.read_npy(os.path.join(temp, file_name(port)))[::stride], expected)
            if wrong:
                return "output '%s': %s" % (port, wrong)
    return None


def check_stream(rlx, models):
    """Chunks of sound one after the other; the state of one is the input of the next."""
    model = os.path.join(models, "silero_vad_16k_op15.onnx")
    folder = os.path.join(models, "refs", "silero_vad_16k_op15")
    audio = onnx_cases.read_npy(os.path.join(folder, "stream_audio.npy"))
    expected = onnx_cases.read_npy(os.path.join(folder, "stream_prob.npy"))
    state, before, found = array.array("f", [0.0] * 256), array.array("f", [0.0] * 64), []
    for k in range(len(expected)):
        chunk = audio[k * 512:(k + 1) * 512]
        with tempfile.TemporaryDirectory() as temp:
            wrong = run(rlx, model, temp, [("input", "float32", [1, 576], before + chunk),
                                           ("state", "float32", [2, 1, 128], state), ("sr", "int64", [], [16000])])
            if wrong:
                return wrong
            found.append(onnx_cases.read_npy(os.path.join(temp, "output.npy"))[0])
            state = onnx_cases.read_npy(os.path.join(temp, "stateN.npy"))
        before = chunk[-64:]
    return onnx_cases.differs("stream", found, expected) or onnx_cases.differs(
        "stream", state, onnx_cases.read_npy(os.path.join(folder, "stream_state_final.npy")))


def main():
    rlx, folder, wanted, device = sys.argv[1], sys.argv[2], sys.argv[3:], "cpu"
    if wanted[0] == "--device":
        device, wanted = wanted[1], wanted[2:]
    models = os.path.join(os.environ.get("RLX_TEST_DATA", ""), "models")
    if not os.path.exists(os.path.join(models, "refs", "REFS.txt")):
        print("skipped: RLX_TEST_DATA names no folder with models/refs/REFS.txt")
        return 77
    listed = subprocess.run([rlx, "devices"], stdout=subprocess.PIPE, check=True).stdout.decode()
    if device.split(":")[0] not in listed:
        print("skipped: no device " + device)
        return 77
    wrong = {}
    for name, (inputs, outputs) in onnx_cases.references(os.path.join(models, "refs", "REFS.txt")).items():
        if not inputs or (name in LARGE and wanted == ["small"]) or (wanted not in (["small"], ["all"]) and name not in wanted):
            continue
        if device != "cpu" and wanted == ["small"] and name not in QUICK:
            continue
        model = find_model(models, folder, name)
        if model is None:
            print("%s: skipped, node writes its weights and is not installed" % name)
            continue
        for ranks in (1, 2, 3) if name in TRANSFORMERS and device == "cpu" else (1,):
            what, start = name if ranks == 1 else "%s on %d ranks" % (name, ranks), time.monotonic()
            wrong[what] = check(rlx, model, os.path.join(models, "refs", name), name, inputs, outputs, ranks, device)
            if device != "cpu":
                print("%s: %.1f s" % (name, time.monotonic() - start), flush=True)
    if wanted in (["small"], ["all"]) and device == "cpu":
        wrong["silero stream"] = check_stream(rlx, models)
    for name, reason in wrong.items():
        print("%s: %s" % (name, reason or "ok"))
    return 1 if any(wrong.values()) or not wrong else 0


if __name__ == "__main__":
    sys.exit(main())
