#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# unused.sh reports faults: ninja builds a small product, and a function that no other
# file uses must be reported, also a public one that no tool and no page uses; a function
# that is used, listed, or used in a source that this build leaves out must not. A line of
# the list that no longer applies must be reported too.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/core" "$dir/tools" "$dir/docs" "$dir/tests" "$dir/build/tests"
fail=0

# check <description> <yes or no> <part of the output, "" for anything>: does unused.sh
# accept the product?
check() {
    {
        # shellcheck disable=SC2016 # ninja expands them
        printf 'rule cc\n  command = %s -I%s -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\n' "$CC" "$dir"
        for name in core/a core/b tools/c tests/t; do
            echo "build $name.o: cc $dir/$name.c"
        done
    } >"$dir/build/build.ninja"
    rm -rf "$dir/build/.ninja_deps" "$dir/build/.ninja_log"
    mkdir -p "$dir/build/core" "$dir/build/tools"
    "$NINJA" -C "$dir/build" >"$dir/said" || { cat "$dir/said"; exit 1; }
    if SOURCE="$dir" BUILD="$dir/build" LIST="$dir/list" sh "$here/unused.sh" >"$dir/said" 2>&1; then
        said=yes
    else
        said=no
    fi
    [ "$said" = "$2" ] && grep -qF "$3" "$dir/said" && return 0
    echo "planted: $1: accepted: $said; expected: $2, with '$3'; the output is:"
    cat "$dir/said"
    fail=1
}

here=$SOURCE/tests/build
echo 'add_subdirectory(core)
add_subdirectory(tools)
add_subdirectory(tests)' >"$dir/CMakeLists.txt"
echo 'int used(void); int tryst_public(void); int tryst_public(void) { return used(); }' >"$dir/core/a.c"
echo 'int used(void); int used(void) { return 1; }' >"$dir/core/b.c"
echo 'int tryst_public(void); int main(void) { return tryst_public(); }' >"$dir/tools/c.c"
echo 'int spare(void); int t(void); int t(void) { return spare(); }' >"$dir/tests/t.c"
: >"$dir/list"
check "all used" yes "functions"
echo 'int spare(void); int spare(void) { return 2; }' >>"$dir/core/b.c"
check "used by a test alone" no "spare in core/b.c"
echo 'spare core' >"$dir/list"
check "listed without a reason" no "without a reason"
echo 'spare core a test looks inside with it' >"$dir/list"
check "listed" yes "functions"
echo 'spare other a test looks inside with it' >"$dir/list"
check "listed in another folder" no "the list says"
echo 'spare core a test looks inside with it' >"$dir/list"
echo 'int spare(void); int tryst_more(void); int tryst_more(void) { return spare(); }' >>"$dir/core/a.c"
check "listed and used" no "not so any more"
: >"$dir/list"
check "public, used by its own library alone" no "tryst_more in core/a.c"
echo 'call tryst_more()' >"$dir/docs/page.md"
check "used" yes "functions"
echo 'int own(void); int own(void) { return 3; } int tryst_own(void); int tryst_own(void) { return own(); }' >>"$dir/core/b.c"
echo 'tryst_own core for programs that embed it' >"$dir/list"
check "used by its own file alone" no "own in core/b.c"
echo 'int own(void);  int left_out(void) { return own(); }' >"$dir/core/left_out.c"
check "used by a source that this build leaves out" yes "functions"
exit $fail
