#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libfuzzer.sh TARGET BUILD_FOLDER SECONDS CORPUS...: builds one fuzz target with clang, libFuzzer
# and the sanitizers, and runs it for a while. Exit code 77 (skipped) without clang.
set -eu
target=$1 build=$2 seconds=$3
shift 3
root=$(cd "$(dirname "$0")/../.." && pwd)
command -v clang >/dev/null || { echo "no clang"; exit 77; }
mkdir -p "$build"
flags=(-std=c11 -D_GNU_SOURCE -O1 -g -ffp-contract=off -I"$root/include" -I"$root/src" -I"$root/tests"
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -DRLX_ENABLE_ASSERT)
echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d == 0 && n; }' \
    >"$build/probe.c"
clang -fsanitize=fuzzer "$build/probe.c" -o "$build/probe" 2>/dev/null || { echo "no libFuzzer"; exit 77; }
# The library as it is built elsewhere, with clang and what libFuzzer looks at; one for all targets.
library=$(dirname "$build")/clang-library
(
    flock 9
    cmake -S "$root" -B "$library" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang \
        -DRLX_BUILD_TESTS=OFF -DRLX_BUILD_TOOLS=OFF -DRLX_AVX512=OFF \
        -DRLX_SANITIZE=address,undefined,fuzzer-no-link >/dev/null
    cmake --build "$library" --target rlx_static >/dev/null
) 9>"$library.lock"
sources=("$library/librlx.a")
[ "$target" != program ] || sources=("$root/tests/plan/execute.c" "${sources[@]}")
clang "${flags[@]}" "$root/tests/fuzz/fuzz_$target.c" "${sources[@]}" -lm -lpthread -o "$build/fuzz_$target"
mkdir -p "$build/found-$target" "$build/seeds-$target"
# libFuzzer takes folders: files are seeds by a link.
corpus=("$build/found-$target" "$build/seeds-$target")
for seed in "$@"; do
    if [ -d "$seed" ]; then corpus+=("$seed"); else ln -sf "$seed" "$build/seeds-$target/"; fi
done
"$build/fuzz_$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -print_final_stats=1 \
    -artifact_prefix="$build/" "${corpus[@]}" 2>&1 | tail -25
exit "${PIPESTATUS[0]}"
