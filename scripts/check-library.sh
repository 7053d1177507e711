#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a release librlx must be: small, with no needs but the C library, silent, and with one reader
# of the environment:
#
#     scripts/check-library.sh LIBRLX_SO LIBRLX_A LIMIT-BYTES
set -eu
shared=$1 static=$2 limit_bytes=$3 failed=0
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
complain() { echo "$*" && failed=1; }

strip -o "$stripped" "$shared"
bytes=$(stat -c %s "$stripped")
echo "stripped: $bytes bytes"
# The words of the shaders are counted apart.
shader_limit_bytes=2000000
shader_bytes=0
while read -r _ size _ name; do
    [[ $name == *_words ]] && shader_bytes=$((shader_bytes + 16#$size))
done < <(nm -S "$static" 2>/dev/null)
echo "of that shaders: $shader_bytes bytes"
[ "$shader_bytes" -lt "$shader_limit_bytes" ] || complain "shaders larger than $shader_limit_bytes bytes"
bytes=$((bytes - shader_bytes))
[ "$bytes" -lt "$limit_bytes" ] || complain "larger than $limit_bytes bytes"

for needed in $(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $needed in
    libc.so.6 | libm.so.6 | ld-linux*) ;;
    *) complain "needs $needed" ;;
    esac
done
readelf -d "$shared" | grep -q 'SONAME.*\[librlx\.so\.[0-9]*\]' || complain "no SONAME librlx.so.N"
readelf -W -d "$shared" | grep -q TEXTREL && complain "has text relocations"

# calls OBJECT-FILE-PATTERN: "object symbol" of each undefined symbol in the static library.
undefined=$(nm -A --undefined-only "$static" | awk -F: '{ split($NF, s, " "); print $(NF - 1), s[2] }')
banned='^(printf|vprintf|puts|putchar|perror|stdout|stderr|exit|_exit|abort|system|__printf_chk)$'
while read -r object symbol; do
    [[ $symbol =~ $banned ]] && complain "$object uses $symbol: the library is silent and never exits"
    [[ $symbol =~ ^(secure_)?getenv$ && $object != env.c.o ]] &&
        complain "$object reads the environment; only base/env.c does"
done <<<"$undefined"
exit $failed
