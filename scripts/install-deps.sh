#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian packages that a group of work needs and the machine misses:
#
#     scripts/install-deps.sh build [test] [mpi] [bench] [ci]
#
# Looks first; with everything present it does and prints nothing. RLX_NO_INSTALL=1 lists the
# missing packages and exits 1 instead of installing them.
set -eu

has() { command -v "$1" >/dev/null 2>&1; }
header() { echo "#include <$1>" | cc -E - >/dev/null 2>&1; }

missing=()
# need PACKAGE WHY PROBE...: the package is missing when the probe fails.
need() {
    local package=$1 why=$2
    shift 2
    "$@" && return
    missing+=("$package")
    echo "rlx needs $package: $why" >&2
}

need_build() {
    need gcc "the C compiler" has cc
    need libc6-dev "the headers of the C library" header stdio.h
    need cmake "configures the build" has cmake
    need ninja-build "runs the build" has ninja
    need glslc "compiles the shaders of the Vulkan backend" has glslc
    need libvulkan-dev "the headers of the Vulkan backend" header vulkan/vulkan_core.h
}

need_test() {
    need libcmocka-dev "the test framework" header cmocka.h
    need python3 "checks of the source tree" has python3
    need pkg-config "the test of the installed library" has pkg-config
    need g++ "the test of the installed library from C++" has c++
    need mesa-vulkan-drivers "Vulkan tests on a software driver" \
        test -e /usr/share/vulkan/icd.d/lvp_icd.x86_64.json -o "$(uname -m)" != x86_64
    need libonnx-testdata "the ONNX backend tests" test -d /usr/share/libonnx-testdata
}

# The plugins of the mpi transport, their tests, and the peer of `rlx bench collective`. Without them
# everything else is built and tested.
need_mpi() {
    need openmpi-bin "mpirun of Open MPI" has mpirun.openmpi
    need libopenmpi-dev "the mpi transport over Open MPI" has mpicc.openmpi
    need mpich "mpirun of MPICH" has mpirun.mpich
    need libmpich-dev "the mpi transport over MPICH" has mpicc.mpich
}

# Other libraries that `rlx bench matmul` compares with.
need_bench() {
    need libopenblas-dev "a peer of the products" has_library openblas
    need libdnnl-dev "a peer of the products" has_library dnnl
}
has_library() { echo 'int main(void) { return 0; }' | cc -x c - -o /dev/null "-l$1" >/dev/null 2>&1; }

need_ci() {
    need spirv-tools "checks the shaders" has spirv-val
    need vulkan-validationlayers "Vulkan tests under validation" \
        test -e /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json
    need chromium-common "a second software driver for Vulkan tests" \
        test -e /usr/lib/chromium/vk_swiftshader_icd.json -o "$(uname -m)" != x86_64
    need clang "the second compiler" has clang
    need libclang-rt-14-dev "clang's sanitizer runtimes" has_clang_rt
    need clang-format "the format check" has clang-format
    need gcc-aarch64-linux-gnu "the aarch64 cross build" has aarch64-linux-gnu-gcc
    need libc6-dev-arm64-cross "the aarch64 cross build" test -e /usr/aarch64-linux-gnu/include/stdio.h
    need qemu-user "runs the aarch64 tests" has qemu-aarch64
}
has_clang_rt() { compgen -G '/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.a' >/dev/null; }

for group in "$@"; do
    case $group in
    build | test | mpi | bench | ci) "need_$group" ;;
    *) echo "usage: scripts/install-deps.sh build [test] [mpi] [bench] [ci]" >&2 && exit 2 ;;
    esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ -n "${RLX_NO_INSTALL:-}" ] || ! has apt-get; then
    echo "missing packages: ${missing[*]}" >&2
    echo "install them (Debian: apt-get install ${missing[*]}) and start again" >&2
    exit 1
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    has sudo || { echo "not root and no sudo: cannot install ${missing[*]}" >&2 && exit 1; }
    as_root=(sudo)
fi
echo "installing with apt-get: ${missing[*]} (RLX_NO_INSTALL=1 turns this off)" >&2
install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q
    --no-install-recommends "${missing[@]}")
# The package lists may be absent or old: refresh them only when the first try fails.
"${install[@]}" >&2 || { "${as_root[@]}" apt-get update -q >&2 && "${install[@]}" >&2; }
