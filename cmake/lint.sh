#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# ./run lint: all that can be said about the sources without running them.
# usage: cmake/lint.sh <build folder with compile_commands.json> <jobs>
#
# clang-tidy is the slow one, so each file that passes leaves a stamp in the build folder and is
# read again only when it, any header or the list of checks is newer.
set -u
build=$1
jobs=$2
failed=0

# Tracked files and new ones that git would take, by pattern.
sources() {
    git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
        [ -f "$file" ] && printf '%s\n' "$file"
    done
}

verdict() { # <what> <exit status>
    if [ "$2" -eq 0 ]; then
        echo "lint: $1: ok"
    else
        echo "lint: $1: FAILED"
        failed=1
    fi
}

lint_format() {
    sources '*.c' '*.h' '*.cu' '*.cc' | xargs clang-format --dry-run -Werror
    verdict "clang-format (mend with clang-format -i)" $?
}

lint_licence() {
    bare=$(sources '*.c' '*.h' '*.cu' '*.cc' '*.sh' '*.cmake' '*.map' '*.awk' '*CMakeLists.txt' '*.pml' \
        '*.in' '*.supp' run .ci/run .clang-format .clang-tidy | while read -r file; do
        head -n 3 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || echo "$file"
    done)
    [ -z "$bare" ] || printf '%s\n' "no SPDX line in the first three:" "$bare"
    [ -z "$bare" ]
    verdict "licence lines" $?
}

lint_words() {
    # TSan does not see fences, and what is left open belongs into an issue.
    ! git grep -nE 'atomic_thread_fence *\(|\b(TODO|FIXME|XXX)\b' -- '*.c' '*.h' '*.cu' '*.cc' '*.cmake' run
    verdict "forbidden words" $?
}

lint_shell() {
    sources '*.sh' run .ci/run | xargs shellcheck
    verdict shellcheck $?
}

# shellcheck disable=SC2317 # called by xargs
# One file that is compiled: silent and stamped, or what clang-tidy says.
tidy_one() { # <file> <build>
    local stamp=$2/lint/$1 said
    [[ $stamp -nt $1 && $stamp -nt $2/lint/headers ]] && return 0
    # As old as the text that was read, should the file change meanwhile.
    mkdir -p "${stamp%/*}" && touch "$stamp.new"
    if said=$(clang-tidy --quiet -p "$2" "$1" 2>&1); then
        mv "$stamp.new" "$stamp"
    else
        printf '%s\n' "$said"
        return 1
    fi
}
export -f tidy_one

lint_tidy() {
    local headers=$build/lint/headers newest
    mkdir -p "$build/lint"
    newest=$(sources '*.h' .clang-tidy | tr '\n' '\0' | xargs -0 stat -c '%Y %n' | sort -n |
        tail -n 1)
    newest=${newest#* }
    [[ $headers -nt $newest ]] || touch "$headers"
    # Files that this configuration does not compile have no flags to be read with.
    sources '*.c' | while read -r file; do
        grep -qF "\"file\": \"$PWD/$file\"" "$build/compile_commands.json" && echo "$file"
    done | xargs -P "$jobs" -I '{}' bash -c 'tidy_one "$@"' tidy_one '{}' "$build"
    verdict clang-tidy $?
}

lint_format
lint_licence
lint_words
lint_shell
lint_tidy
exit $failed
