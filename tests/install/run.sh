#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs into a temporary prefix and uses the result as a stranger would: every header alone, a
# program in C and in C++, through pkg-config (shared and static) and through the CMake package.
#
#     tests/install/run.sh BUILD_DIR CMAKE
set -eu
build=$1 cmake=$2
consumer=$(cd "$(dirname "$0")" && pwd)/consumer
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/first
step() { echo "-- $*"; }

# Files of the build folder that would be installed: `make` builds rlx_product alone.
if [ -e "$build/build.ninja" ]; then
    step "the product has every library that is installed"
    commands=$(ninja -C "$build" -t commands rlx_product)
    for plugin in $(grep -rhoE 'librlx_[a-z_]+\.so' "$build"/src --include=cmake_install.cmake | sort -u); do
        grep -q "$plugin" <<<"$commands" || { echo "rlx_product does not build $plugin" && exit 1; }
    done
fi

step "install, then move the prefix"
env -u DESTDIR "$cmake" --install "$build" --prefix "$prefix" >/dev/null
mv "$prefix" "$work/prefix" && prefix=$work/prefix
[ ! -e "$build/rlx" ] || [ -x "$prefix/bin/rlx" ]

strict=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)
step "each header alone, in C11 and C++11"
for header in $(cd "$prefix/include" && find rlx -name '*.h'); do
    echo "#include <$header>" >"$work/one.c"
    cc -std=c11 "${strict[@]}" -I"$prefix/include" "$work/one.c"
    c++ -std=c++11 "${strict[@]}" -I"$prefix/include" -x c++ "$work/one.c"
done

pkgconfig=$(dirname "$(find "$prefix" -name rlx.pc)")
export PKG_CONFIG_PATH=$pkgconfig
libdir=$(pkg-config --variable=libdir rlx)
version=$(pkg-config --modversion rlx)
expect() { # PROGRAM...: prints the version it was linked with
    local said
    said=$("$@")
    [ "$said" = "rlx $version" ] || { echo "expected \"rlx $version\", got \"$said\"" && exit 1; }
}

step "pkg-config, shared, C and C++"
# shellcheck disable=SC2046
cc -std=c11 "$consumer/consumer.c" -o "$work/c" $(pkg-config --cflags --libs rlx)
# shellcheck disable=SC2046
c++ -std=c++11 "$consumer/consumer.cpp" -o "$work/cpp" $(pkg-config --cflags --libs rlx)
expect env LD_LIBRARY_PATH="$libdir" "$work/c"
expect env LD_LIBRARY_PATH="$libdir" "$work/cpp"
readelf -d "$work/c" | grep -q 'NEEDED.*librlx\.so\.[0-9]'

step "pkg-config, static"
# shellcheck disable=SC2046
cc -std=c11 "$consumer/consumer.c" -o "$work/static" $(pkg-config --cflags rlx) \
    "$libdir/librlx.a" -lm -pthread
expect "$work/static"

step "CMake package"
"$cmake" -S "$consumer" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" \
    -Drlx_wanted="$version" >/dev/null
"$cmake" --build "$work/build" >/dev/null
for program in consumer_c consumer_cpp consumer_static; do expect "$work/build/$program"; done
echo "all consumers run"
