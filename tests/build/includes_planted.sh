#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# includes.sh accepts the four ways to name a header, and reports an include that names no file.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/core/memory" "$dir/include/tryst" "$dir/tests/support"
for header in core/memory/pool.h core/memory/own.h include/tryst/tryst.h tests/support/unit.h; do
    : >"$dir/$header"
done
printf '#include "%s"\n' own.h core/memory/pool.h tryst/tryst.h support/unit.h ../memory/own.h \
    >"$dir/core/memory/good.c"
sh "$SOURCE/tests/build/includes.sh" "$dir" || { echo "planted: includes.sh refuses what is right"; exit 1; }

printf '#include <stdio.h>\n#include "core/pool.h"\n' >"$dir/core/memory/bad.c"
if sh "$SOURCE/tests/build/includes.sh" "$dir" >"$dir/said"; then
    echo "planted: includes.sh accepts an include that names no file"
    exit 1
fi
[ "$(cat "$dir/said")" = "includes: core/memory/bad.c:2: no file core/pool.h" ] ||
    { echo "planted: includes.sh reports:"; cat "$dir/said"; exit 1; }
