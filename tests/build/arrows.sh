#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Arrows between the product's folders and between the files of each, from the compiler's
# dependency files; files in each folder; headers that declare functions of several .c
# files. The public headers (include/) belong to no folder. arrows.awk describes the
# measurement; arrows.list has the known deviations.
# usage: tests/build/arrows.sh [--all | --check | --files FOLDER]
#   --all           print all tables and check (the same as no option)
#   --check         print values that are worse than arrows.list allows, or better
#   --files FOLDER  print the arrows between the files of one folder
# From the environment: SOURCE, BUILD (build/release), NINJA, NM, LIST (arrows.list).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(readlink -f "${SOURCE:-$here/../..}")
build=$(readlink -f "${BUILD:-$source/build/release}")
list=${LIST:-$here/arrows.list}
mode=${1:---all}
folder=${2:-}
case $mode in
--all | --check) [ $# -le 1 ] || mode=usage ;;
--files) [ $# -eq 2 ] || mode=usage ;;
*) mode=usage ;;
esac
if [ "$mode" = usage ]; then
    sed -n 's/^# \(usage:.*\)/\1/p; s/^#   \(--.*\)/  \1/p' "$0" >&2
    exit 2
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The product: the folders that the first CMakeLists.txt names, without the tests.
cd "$source"
# shellcheck disable=SC2046 # a list of folders
find $(sed -n 's/^ *add_subdirectory(\([^ )]*\).*/\1/p' CMakeLists.txt | grep -vx tests) \
    -name '*.[ch]' -o -name '*.cu' | sort -u >"$dir/files"

# The compiler's dependencies: a line with the object, then the source and each file it
# read, indented. Ninja keeps them itself; make writes them beside the objects.
if [ -f "$build/build.ninja" ]; then
    "${NINJA:-ninja}" -C "$build" -t deps | sed '/^ninja: /d; s/: #deps .*//' >"$dir/deps"
else
    (cd "$build" && find . -name '*.o.d' -exec awk '
        FNR == 1 { print substr(FILENAME, 3, length(FILENAME) - 4) }
        { sub(/^[^ ]*: */, "") }
        { for (i = 1; i <= NF; i++) if ($i != "\\") print "    " $i }' {} +) >"$dir/deps"
fi

# The build reads headers through links to folders (cmake/TrystLayers.cmake): print the
# real paths.
sed -n 's/^    //p' "$dir/deps" | sort -u | grep -v '^/usr/' >"$dir/read" || true
(cd "$build" && xargs -r -d '\n' readlink -m) <"$dir/read" >"$dir/real"
paste "$dir/read" "$dir/real" >"$dir/places"

# Functions that are not static: "object:address T name".
(cd "$build" && sed '/^ /d' "$dir/deps" | while read -r object; do
    [ ! -f "$object" ] || printf '%s\n' "$object"
done | xargs -r -d '\n' "${NM:-nm}" -A --defined-only) 2>/dev/null |
    sed -n 's/^\(.*\):[0-9a-f]* [TW] \([A-Za-z0-9_]*\)$/\1 \2/p' >"$dir/symbols"

awk -v root="$source/" -v dir="$dir" -v list="$list" -v mode="$mode" -v only="$folder" \
    -f "$here/arrows.awk"
