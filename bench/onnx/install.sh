#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gets what the ONNX benchmark compares with into FOLDER (of the build tree, never committed): the npm package
# onnxruntime-node, and the models whose weights are made by rule.
# usage: install.sh FOLDER MODELS
set -eu
folder=$1
models=$2
version=1.30.0
mkdir -p "$folder"
if [ ! -d "$folder/node_modules/onnxruntime-node" ]; then
    # CPU only: without its script the package fetches nothing further.
    ONNXRUNTIME_NODE_INSTALL=skip npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "onnxruntime-node@$version"
fi
for light in "$models"/light/light_*.onnx; do
    [ -e "$light" ] || continue # without the models only the peer is needed
    name=$(basename "$light" .onnx)
    name=${name#light_}
    [ -e "$folder/$name.onnx" ] || node "$models/expand.js" light "$light" "$folder/$name.onnx" >/dev/null
done
if [ -e "$models/minilm_l6_graph.onnx" ] && [ ! -e "$folder/minilm_l6.onnx" ]; then
    cp "$models/minilm_l6_graph.onnx" "$folder/minilm_l6.onnx"
    chmod u+w "$folder/minilm_l6.onnx"
    node "$models/expand.js" extern "$folder/minilm_l6.onnx" >/dev/null
fi
