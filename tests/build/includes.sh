#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each include in quotes names a file: its path from the repository's root, from include/ or from tests/, or from the
# folder of the file that includes it. So editors and web pages find a header without the build.
# $1: another tree (includes_planted.sh).
set -eu
cd "${1:-$SOURCE}"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sh "$SOURCE/tests/build/sources.sh" >"$dir/files"
[ -s "$dir/files" ] || { echo "includes: no source found"; exit 1; }
xargs grep -n '^ *# *include "' <"$dir/files" /dev/null >"$dir/includes" || true
awk -v files="$dir/files" '
    function plain(path) {
        while (match(path, /[^\/.][^\/]*\/\.\.\//))
            path = substr(path, 1, RSTART - 1) substr(path, RSTART + RLENGTH)
        return path
    }
    BEGIN { while ((getline file <files) > 0) is[file] = 1 }
    {
        split($0, part, ":")
        folder = part[1]
        sub(/[^\/]*$/, "", folder)
        name = $0
        sub(/^[^"]*"/, "", name)
        sub(/".*/, "", name)
        if (plain(folder name) in is || name in is || "include/" name in is || "tests/" name in is) next
        printf "includes: %s:%s: no file %s\n", part[1], part[2], name
        failed = 1
    }
    END { exit failed }' "$dir/includes"
