#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its licence in its first two lines.
set -eu
cd "${1:-.}"
failed=0
while IFS= read -r file; do
    head -n 2 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' && continue
    echo "$file: no SPDX line"
    failed=1
done < <(find include src tools bench examples tests scripts cmake .ci Makefile CMakeLists.txt -type f \( \
    -name '*.[ch]' -o -name '*.def' -o -name '*.inc' -o -name '*.cpp' -o -name '*.py' -o -name '*.sh' \
    -o -name '*.cmake' -o -name '*.in' -o -name '*.comp' -o -name CMakeLists.txt -o -name Makefile \
    -o -path '.ci/run' \) 2>/dev/null | sort)
exit $failed
