#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Calls inside rendezvous/protocol go one way: by the symbols of its objects, a file calls only files in rows above its own in
# the table of the folder's README. The same check with the rows turned round must fail.
set -eu
folder=rendezvous/protocol
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2016 # Markdown
sed -n 's/^| `.*`\([a-z_]*\)\.c` .*/\1/p' "$SOURCE/$folder/README.md" >"$dir/rows"
for file in "$SOURCE/$folder"/*.c; do
    name=$(basename "$file" .c)
    "$NM" -g "$BUILD/$folder"/CMakeFiles/*.dir/"$name.c.o" | sed "s/^/$name /"
done >"$dir/symbols"

check() { # <rows>
    awk '
        FNR == NR { row[$1] = ++rows; next }
        !($1 in row) { if (!said[$1]++) print "calls: " $1 ".c is in no row of the table"; failed = 1 }
        $(NF - 1) == "T" { home[$NF] = $1 }
        $(NF - 1) == "U" { users[$NF] = users[$NF] " " $1 }
        END {
            for (symbol in users) {
                if (!(symbol in home)) continue
                count = split(users[symbol], list, " ")
                for (i = 1; i <= count; i++) {
                    calls++
                    if (row[home[symbol]] < row[list[i]]) continue
                    print "calls: " list[i] ".c calls " symbol " of " home[symbol] ".c, which is in a row below"
                    failed = 1
                }
            }
            if (calls < 50) { print "calls: only " calls + 0 " calls found"; failed = 1 }
            exit failed
        }' "$1" "$dir/symbols"
}

check "$dir/rows"
sed -n '1!G;h;$p' "$dir/rows" >"$dir/turned"
! check "$dir/turned" >/dev/null || { echo "calls: the turned table passes"; exit 1; }
