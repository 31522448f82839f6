#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Exported but unused: functions that are not static, and that no object of the product
# needs except their own. Such a function is dead, or used by tests alone, or should be
# static. A public function (tryst_*) must have a user outside of its library: the
# pipeline, a tool, a binding, the README or a page of docs/; main and the entries of
# modules are exempt. Sources that this build leaves out (a missing fabric) are read as
# text: a name in them counts as a use. unused.list has the known ones, each with its
# reason; a line whose function is not found any more must be removed.
# usage: tests/build/unused.sh
# From the environment: SOURCE, BUILD (build/release), NINJA, NM, LIST (unused.list).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
source=$(readlink -f "${SOURCE:-$here/../..}")
build=$(readlink -f "${BUILD:-$source/build/release}")
list=${LIST:-$here/unused.list}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# The product: the folders that the first CMakeLists.txt names, without the tests.
cd "$source"
folders=$(sed -n 's/^ *add_subdirectory(\([^ )]*\).*/\1/p' CMakeLists.txt | grep -vx tests)
# shellcheck disable=SC2086 # a list of folders
find $folders -name '*.c' -o -name '*.cu' | sort -u >"$dir/sources"

# Print the objects and their sources, from the compiler's dependencies: the source comes
# first.
cd "$build"
if [ -f build.ninja ]; then
    "${NINJA:-ninja}" -t deps | awk '/^[^ ]/ { sub(/: #deps .*/, ""); object = $0; next }
        NF && object != "" { print object "\t" $1; object = "" }'
else
    find . -name '*.o.d' -exec awk '{ sub(/^[^ ]*: */, "") }
        { for (i = 1; i <= NF; i++) if ($i != "\\") {
            print substr(FILENAME, 3, length(FILENAME) - 4) "\t" $i; nextfile } }' {} +
fi | grep -v '^tests/' | while IFS="$(printf '\t')" read -r object path; do
    path=$(readlink -m "$path")
    case $path in
    "$source"/*) [ ! -f "$object" ] || printf '%s\t%s\n' "$object" "${path#"$source"/}" ;;
    esac
done >"$dir/objects"

# Print "object type name" for each global symbol that an object defines or needs.
cut -f1 "$dir/objects" | xargs -r -d '\n' "${NM:-nm}" -A -g 2>/dev/null |
    sed -n 's/^\(.*\):[0-9a-f ]* \([A-Za-z]\) \([A-Za-z0-9_]*\)$/\1 \2 \3/p' >"$dir/symbols"
cut -f2 "$dir/objects" | sort -u | comm -13 - "$dir/sources" >"$dir/left_out"
cd "$source"
tr '\n' '\0' <"$dir/left_out" | xargs -0 -r cat | grep -oE '[A-Za-z_][A-Za-z0-9_]*' |
    sort -u >"$dir/words" || true

# Public functions are also used in languages and texts that leave no objects.
find bindings docs README.md -name tests -prune -o -type f -print 2>/dev/null |
    grep -E '\.(cc|h|py|md)$' | tr '\n' '\0' | xargs -0 -r cat |
    grep -oE 'tryst_[A-Za-z0-9_]*' | sort -u >"$dir/public" || true

awk -v dir="$dir" -v list="$list" '
# The library or program of an object.
function part(path) {
    return path ~ /^(topology|pipeline|tools)\// ? substr(path, 1, index(path, "/")) : "tryst/"
}
function complain(text) {
    print "unused: " text
    failed = 1
}
BEGIN {
    while ((getline <(dir "/objects")) > 0) source[$1] = $2
    while ((getline <(dir "/words")) > 0) needed[$1] = public[$1] = 1
    while ((getline <(dir "/public")) > 0) public[$1] = 1
    while ((getline <(dir "/symbols")) > 0) {
        if ($2 == "U") needed[$3] = user[$3, part(source[$1])] = 1
        else if ($2 == "T" && $3 !~ /^(main|tryst_(stage_)?module_v1)$/) place[$3] = source[$1]
        if ($2 == "T") functions++
    }
    for (name in place) {
        if (name !~ /^tryst_/) continue
        own = part(place[name])
        used = name in public || (name, "tools/") in user || \
            (own == "tryst/" && ((name, "pipeline/") in user || (name, "topology/") in user))
        if (used) needed[name] = 1
        else delete needed[name]
    }
    if (!functions) complain("no function found: build first")
    while ((getline line <list) > 0) {
        sub(/#.*/, "", line)
        count = split(line, field, " ")
        if (!count) continue
        if (count < 3 || field[1] in listed) complain("the list has a line without a reason or there twice: " line)
        listed[field[1]] = field[2]
    }
    for (name in place) {
        if (name in needed) continue
        found[name] = 1
        if (!(name in listed))
            complain(name " in " place[name] ": nothing of the product uses it; delete it, or make it static" \
                (name ~ /^tryst_/ ? ", or say in the list why users need it" : ""))
        else if (index(place[name], listed[name] "/") != 1)
            complain(name ": the list says that it is in " listed[name])
    }
    # Functions of sources that this build leaves out were not checked.
    while ((getline line <(dir "/left_out")) > 0) folder[line] = 1
    for (name in listed)
        if (!(name in found) && (name in place || !(name in needed)))
            complain(name ": not so any more: take its line out of the list")
    if (!failed) print functions " functions: each is used or in the list"
    exit failed + 0
}'
