#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Keep the public headers as they are, without comments, in MAJOR.MINOR/tryst/ beside this script. README.md says
# when. Usage: tests/api/abi/freeze.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../../include/tryst
number() { sed -n "s/^#define TRYST_VERSION_$1 //p" "$include/tryst.h"; }
to=$here/$(number MAJOR).$(number MINOR)/tryst

# No string of these headers holds a comment's begin.
uncommented() {
    awk '{
        line = $0; kept = ""; had = inside
        while (line != "") {
            at = index(line, inside ? "*/" : "/*")
            had = had || at
            if (!at) { if (!inside) kept = kept line; break }
            if (!inside) kept = kept substr(line, 1, at - 1)
            line = substr(line, at + 2)
            inside = !inside
        }
        sub(/[ \t]+$/, "", kept)
        if (kept != "" || !had) print kept
    }' "$1" | cat -s
}

rm -rf "$to"
mkdir -p "$to"
for header in "$include"/*.h; do
    name=${header##*/}
    {
        echo "/* SPDX-License-Identifier: Apache-2.0 */"
        echo "/* Frozen by tests/api/abi/freeze.sh: do not edit. */"
        uncommented "$header"
    } >"$to/$name"
    ! command -v clang-format >/dev/null || clang-format -i --style=file "$to/$name"
done
echo "${to#"$here/"}: $(find "$to" -name '*.h' | wc -l) headers"
