#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Mutations: faults put into the code, one at a time, to see that a test fails. The lists are tests/mutate/*.list.
set -eu

usage() {
    cat <<TEXT
usage: tests/mutate/mutate.sh [options]
    --list FILE      blocks of this list (again for more; default: all of tests/mutate/*.list)
    --only N|REGEX   the N-th block of the lists, or blocks whose "list:N: file: why" has REGEX (an awk regex)
    --check          only read the lists, and see that each block applies to the sources and that there are at least as
                     many as tests/mutate/score says
    --repeat N       run the tests N times; a block is found if they fail in each run (1)
    --limit SECONDS  the time limit of each test, where its own is longer (120)
    --jobs N         processors for builds and tests (all)
    --scratch DIR    where the copy of the sources and its build are kept (build/mutate)
    --help

A block of a list is, with an empty line between blocks and comments (#) outside of them:

    why: what a user would see, in a sentence
    file: path of the source
    old:
    lines that this file has exactly once
    new:
    the lines in their place, or none
    tests: names of ctest's tests, as regular expressions for whole names; one test of each must fail

The sources, changes that are not committed included, are copied into the scratch folder and built there, one mutation
after the other, and of the build only what the tests need. First the tests run without a mutation: those must pass.
For each block, one line says:

    found            the tests fail, or exceed their time limit
    SURVIVED         a test passes
    does not apply   the file has the old lines never or more than once
    does not build   the compiler rejects the mutation
    says nothing     no such test, or the test does not pass (or skips) without the mutation

The exit status is 0 if all were found. A run of all lists also compares with tests/mutate/score, the number of
mutations that were found at least; that number may only rise.
From the environment: SOURCE (the repository), CMAKE, CTEST, NINJA.
TEXT
}

say() { printf '%s\n' "$*"; }
die() { echo "mutate: $*" >&2; exit 1; }

here=$(cd "$(dirname "$0")" && pwd)
source=$(readlink -f "${SOURCE:-$here/../..}")
cmake=${CMAKE:-cmake}
ctest=${CTEST:-$(dirname "$(command -v "$cmake")")/ctest}
ninja=${NINJA:-ninja}
lists=
only=
check=
repeat=1
limit=120
jobs=$(nproc)
scratch=$source/build/mutate
newline='
'
while [ $# -gt 0 ]; do
    case $1 in
    --check) check=yes ;;
    --help | -h) usage; exit 0 ;;
    --list | --only | --repeat | --limit | --jobs | --scratch)
        [ $# -ge 2 ] || die "$1 needs a value; see --help"
        case $1 in
        --list) lists=$lists$(readlink -f "$2")$newline ;;
        --only) only=$2 ;;
        --repeat) repeat=$2 ;;
        --limit) limit=$2 ;;
        --jobs) jobs=$2 ;;
        --scratch) scratch=$(readlink -m "$2") ;;
        esac
        shift
        ;;
    *) die "not an option: $1; see --help" ;;
    esac
    shift
done
complete=
if [ -z "$lists" ]; then
    lists=$(find "$source/tests/mutate" -name '*.list' | LC_ALL=C sort)$newline
    [ -n "$only" ] || complete=yes
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$scratch/tree
build=$scratch/build

# --- blocks -----------------------------------------------------------------------------------

# Write $work/<block>.why, .file, .old, .new and .tests, and $work/blocks: one line "block label" for each block chosen.
blocks_read() {
    number=0
    printf '%s' "$lists" >"$work/lists"
    : >"$work/all"
    while read -r list; do
        name=$(basename "$list")
        mkdir -p "$work/part"
        awk -v dir="$work/part" -v name="$name" -f "$here/blocks.awk" "$list" || die "$name is malformed"
        count=$(cat "$work/part/count")
        i=0
        while [ "$i" -lt "$count" ]; do
            i=$((i + 1))
            number=$((number + 1))
            for field in why file old new tests; do
                mv "$work/part/$i.$field" "$work/$number.$field"
            done
            printf '%s %s:%s: %s: %s\n' "$number" "$name" "$i" "$(cat "$work/$number.file")" \
                "$(tr '\n' ' ' <"$work/$number.why")" >>"$work/all"
        done
    done <"$work/lists"
    case $only in
    '') cp "$work/all" "$work/blocks" ;;
    *[!0-9]*) awk -v only="$only" '{ line = $0; sub(/^[0-9]+ /, "", line) } line ~ only' "$work/all" >"$work/blocks" ;;
    *) awk -v only="$only" '$1 == only' "$work/all" >"$work/blocks" ;;
    esac
    [ -s "$work/blocks" ] || die "no such block"
}

# verdict <word> <label> [<detail>]: one line of the result, and its count.
verdict() {
    printf '%-15s %s%s\n' "$1" "$2" "${3:+ ($3)}"
    total=$((total + 1))
    [ "$1" != found ] || found=$((found + 1))
}

# block_apply <block> <folder>: print the mutated file.
block_apply() {
    file=$2/$(cat "$work/$1.file")
    [ -f "$file" ] || { echo "no such file" >"$work/said"; return 1; }
    awk -v old="$work/$1.old" -v new="$work/$1.new" -f "$here/apply.awk" "$file" 2>"$work/said"
}

# score: the number that tests/mutate/score has.
score() {
    [ ! -f "$source/tests/mutate/score" ] || cat "$source/tests/mutate/score"
}

check_all() {
    while read -r block label; do
        if block_apply "$block" "$source" >"$work/mutated"; then
            found=$((found + 1))
        else
            say "does not apply  $label($(cat "$work/said"))"
        fi
        total=$((total + 1))
    done <"$work/blocks"
    say "$found of $total blocks apply"
    [ "$found" -eq "$total" ] || exit 1
    [ -z "$complete" ] || [ "$total" -ge "$(score)" ] ||
        die "tests/mutate/score says $(score), and the lists have fewer blocks"
}

# --- the copy ---------------------------------------------------------------------------------

# sources: the files of the repository, with new ones that git would take.
sources() {
    cd "$source"
    if [ -e .git ]; then
        git ls-files --cached --others --exclude-standard
    else
        find . -path ./build -prune -o -type f -print | sed 's|^\./||'
    fi | while read -r file; do
        [ ! -f "$file" ] || printf '%s\n' "$file"
    done | LC_ALL=C sort
}

# Bring the copy up to date. What differs gets a new time, since a mutated file was built after its original was written.
tree_copy() {
    mkdir -p "$tree"
    sources >"$work/sources"
    (cd "$tree" && find . -type f | sed 's|^\./||' | LC_ALL=C sort) >"$work/copied"
    LC_ALL=C comm -13 "$work/sources" "$work/copied" | while read -r file; do
        rm -f "${tree:?}/$file"
    done
    while read -r file; do
        cmp -s "$source/$file" "$tree/$file" && continue
        mkdir -p "$tree/$(dirname "$file")"
        cp "$source/$file" "$tree/$file"
    done <"$work/sources"
}

tree_configure() {
    "$cmake" -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >"$work/configured" 2>&1 ||
        { cat "$work/configured"; die "cannot configure $tree"; }
    find "$build" -name CTestTestfile.cmake -exec awk -v limit="$limit" -f "$here/limits.awk" {} + >"$work/limits"
    while read -r file seconds; do
        sed -i "s/TIMEOUT \"$seconds\"/TIMEOUT \"$limit\"/" "$file"
    done <"$work/limits"
    "$ninja" -C "$build" -t targets all | sed -n 's/: .*//p' >"$work/outputs"
    "$ctest" --test-dir "$build" -N | sed -nE 's/^ *Test +#([0-9]+): ([^ ]+).*/\1 \2/p' >"$work/tests"
}

# --- building and running ---------------------------------------------------------------------

# test_names <block>: the regular expressions of its tests, one a line.
test_names() {
    tr -s '[:space:]' '\n' <"$work/$1.tests"
}

# test_numbers <block…>: ctest's numbers of their tests, as a value of ctest's -I (a long -R exceeds ctest's limits).
test_numbers() {
    for block in "$@"; do test_names "$block"; done | awk -v tests="$work/tests" '
        BEGIN { while ((getline line <tests) > 0) { split(line, part, " "); number[part[2]] = part[1] } }
        { for (name in number) if (name ~ "^(" $0 ")$") chosen[number[name]] = 1 }
        END { printf "0,0,0"; for (n in chosen) printf ",%d", n }'
}

# targets <numbers>: what those tests need: each output of the build that their commands or environments name, the
# modules beside libtryst, and everything if they name the build folder itself.
targets() {
    "$ctest" --test-dir "$build" -N -V -I "$1" |
        awk -v build="$build" -v outputs="$work/outputs" -f "$here/targets.awk"
}

# tests_build <numbers>
tests_build() {
    targets "$1" >"$work/targets"
    xargs -d '\n' "$ninja" -C "$build" -j "$jobs" <"$work/targets" >"$work/built" 2>&1
}

# tests_run <numbers> <output>: one line "name status" for each test.
tests_run() {
    "$ctest" --test-dir "$build" -j "$jobs" -I "$1" >"$work/ran" 2>&1 </dev/null || true
    sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) [ .]*(\*\*\*)?([A-Z][a-z]+( Run)?).*/\1 \3/p' \
        "$work/ran" >"$2"
}

# The union of the blocks' tests, without a mutation.
baseline() {
    # shellcheck disable=SC2046 # a list of numbers
    numbers=$(test_numbers $(cut -d ' ' -f 1 "$work/blocks"))
    [ "$numbers" != 0,0,0 ] || die "ctest has none of the blocks' tests"
    say "building without a mutation"
    tests_build "$numbers" || { cat "$work/built"; die "the sources do not build without a mutation"; }
    tests_run "$numbers" "$work/baseline"
    awk '$2 != "Passed" { print "without a mutation: " $1 ": " $2 }' "$work/baseline"
}

# is_sound <block>: true if each of the block's regular expressions names a test, and those pass without a mutation;
# else $work/said has the reason.
is_sound() {
    test_names "$1" >"$work/names"
    while read -r name; do
        awk -v name="^($name)\$" '$1 ~ name { seen = 1; if ($2 != "Passed") { print $1 " does not pass without"; bad = 1; exit } }
            END { if (!bad && !seen) print "no test is named so"; exit bad || !seen }' "$work/baseline" >"$work/said" ||
            { [ "$(cat "$work/said")" != "no test is named so" ] || echo "no test is named $name" >"$work/said"; return 1; }
    done <"$work/names"
}

# passing <block>: print the block's regular expressions of which no test failed in the last run.
passing() {
    test_names "$1" >"$work/names"
    while read -r name; do
        awk -v name="^($name)\$" '$1 ~ name && $2 !~ /^(Passed|Skipped|Not)/ { failed = 1 } END { exit !failed }' \
            "$work/after" || printf '%s ' "$name"
    done <"$work/names"
}

# block_run <block> <label>
block_run() {
    path=$(cat "$work/$1.file")
    is_sound "$1" || { verdict "says nothing" "$2" "$(cat "$work/said")"; return 0; }
    block_apply "$1" "$tree" >"$work/mutated" || { verdict "does not apply" "$2" "$(cat "$work/said")"; return 0; }
    cp "$tree/$path" "$work/original"
    cp "$work/mutated" "$tree/$path"
    numbers=$(test_numbers "$1")
    if tests_build "$numbers"; then
        block_judge "$1" "$2"
    else
        verdict "does not build" "$2" "$(grep -m 1 'error' "$work/built" || echo "see ninja")"
    fi
    cp "$work/original" "$tree/$path"
}

# block_judge <block> <label>: run the tests of a mutation that is built.
block_judge() {
    run=0
    while [ "$run" -lt "$repeat" ]; do
        run=$((run + 1))
        tests_run "$numbers" "$work/after"
        missed=$(passing "$1")
        [ -z "$missed" ] || { verdict SURVIVED "$2" "run $run: ${missed% } passes"; return 0; }
    done
    verdict found "$2" "$(awk '$2 == "Timeout" { print $1 " by its time limit"; exit }' "$work/after")"
}

blocks_read
total=0
found=0
[ -z "$check" ] || { check_all; exit 0; }
mkdir -p "$scratch"
exec 9>"$scratch/lock"
flock -n 9 || die "another run uses $scratch; see --scratch"
tree_copy
tree_configure
baseline
while read -r block label; do
    block_run "$block" "$label"
done <"$work/blocks"
say "score: $found of $total"
[ "$found" -eq "$total" ] || exit 1
[ -n "$complete" ] || exit 0
[ "$found" -ge "$(score)" ] || die "tests/mutate/score says $(score): the score may only rise"
[ "$found" -eq "$(score)" ] || say "write $found into tests/mutate/score"
