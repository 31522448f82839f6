#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/features.md has a row for each folder of the product: its feature, its lines, who uses it, how it is measured. The
# lines are right within 15 %, no folder is missing, no row is left over, and paths in the rows exist.
# usage: features.sh            the check
#        features.sh --lines    lines and folder, for the page
# $1: another tree (features_planted.sh)
# shellcheck disable=SC2016,SC2038 # backquotes of Markdown, an awk program; no file has a blank in its name
set -eu
mode=check
[ "${1:-}" != --lines ] || { mode=lines; shift; }
cd "${1:-$SOURCE}"
page=docs/features.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# A file counts for the first two folders of its path, or for the one that it is in.
find bindings collectives commsched context core include pipeline rendezvous tools topology transports -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cc' -o -name '*.py' \) 2>/dev/null | xargs wc -l | awk '
    $2 == "total" { next }
    {
        n = split($2, part, "/")
        lines[n > 2 ? part[1] "/" part[2] : part[1]] += $1
    }
    END { for (folder in lines) print lines[folder], folder }' | sort -k 2 >"$dir/lines"
[ $mode = check ] || { cat "$dir/lines"; exit 0; }

fail=0
awk -F' *[|] *' -v page=$page '
    NR == FNR { split($0, is, " "); lines[is[2]] = is[1]; next }
    $2 ~ /^`.*`$/ && NF >= 7 {
        folder = $2
        gsub(/`/, "", folder)
        stated = $4
        gsub(/,/, "", stated)
        rows[folder] = 1
        if (!(folder in lines)) { print "features: " page " has a row for " folder ", which has no sources"; failed = 1; next }
        if (stated * 100 < lines[folder] * 85 || stated * 100 > lines[folder] * 115) {
            print "features: " folder " has " lines[folder] " lines; " page " states " $4
            failed = 1
        }
        if ($3 == "" || $5 == "" || $6 == "") { print "features: " folder ": a cell is empty"; failed = 1 }
    }
    END {
        for (folder in lines) if (!(folder in rows)) { print "features: " folder " has no row in " page; failed = 1 }
        exit failed
    }' "$dir/lines" $page || fail=1
grep -oE '`[a-z][a-zA-Z0-9_/-]*/[a-zA-Z0-9_-]+\.[a-z]+`' $page | tr -d '`' | sort -u >"$dir/paths"
while read -r path; do
    [ -e "$path" ] || { echo "features: $page names $path, which is not there"; fail=1; }
done <"$dir/paths"
exit $fail
