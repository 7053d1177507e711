#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The symbols that librlx.so exports are exactly the functions that the public headers declare:
#
#     scripts/check-exports.sh SOURCE_DIR LIBRLX_SO
set -eu
source=$1 library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The compiler expands the headers, so declarations made by tables count too. RLX_API becomes a
# visibility attribute, and the name stands before the first parenthesis after it.
(cd "$source/include" && find rlx -name '*.h' | sort | sed 's/.*/#include <&>/') |
    cc -E -P -I"$source/include" - | tr '\n' ' ' | tr ';' '\n' |
    awk '{ at = index($0, "visibility(\"default\")"); if (!at) next
           text = substr($0, at); if (match(text, /rlx_[a-z0-9_]+ *\(/))
           print substr(text, RSTART, RLENGTH - 1) }' |
    tr -d ' ' | sort -u >"$work/declared"
nm -D --defined-only "$library" | awk '{ print $NF }' | sort -u >"$work/exported"

missing=$(comm -23 "$work/declared" "$work/exported")
extra=$(comm -13 "$work/declared" "$work/exported")
[ -z "$missing" ] || printf 'declared but not exported: %s\n' $missing
[ -z "$extra" ] || printf 'exported but not declared: %s\n' $extra
[ -z "$missing$extra" ] || exit 1
echo "$(wc -l <"$work/exported") functions, all declared"
