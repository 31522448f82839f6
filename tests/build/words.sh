#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Comments and messages name their subjects: a list of words that make a process, a queue or a byte act like a person, or
# whose subject is a pronoun, has a limit for each folder, and the limits may only fall (words.list, words.awk).
# usage: tests/build/words.sh [FOLDER]
#   FOLDER   list the lines of that folder
# From the environment: SOURCE (the repository), LIST (words.list).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "${SOURCE:-$here/../..}"
list=${LIST:-$here/words.list}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
folders=
sed -n 's/^limit \([a-z]*\) .*/\1/p' "$list" >"$dir/limits"
while read -r folder; do
    [ ! -d "$folder" ] || folders="$folders $folder"
done <"$dir/limits"
# shellcheck disable=SC2086 # a list of folders
find -L ${1:-$folders} -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \) |
    grep -v '^tests/api/abi/' | LC_ALL=C sort >"$dir/files"
LC_ALL=C awk -v list="$list" -v files="$dir/files" -v show="${1:-}" -f "$here/words.awk"
