#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts of the models: model_begin, then searches that must find no error
# (whole), and searches of broken variants that must find one (broken), then model_end.
# MODEL_ONLY=quick leaves out broken variants and large searches, MODEL_ONLY=rest the others.

deep=200000
bits=22
store=-DCOLLAPSE # states are stored compressed
optimise=-O0 # for short searches, compiling takes longer than searching
fail=0

model_begin() { # <path of the model> <C compiler>
    model=$1
    cc=$2
    command -v spin >/dev/null 2>&1 || { echo "skipped: spin is not installed (package spin)"; exit 77; }
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    cd "$dir" || exit 1
}

model_end() { exit $fail; }

# errors <options…>: build and search; print the number of errors
errors() {
    rm -f pan pan.* ./*.trail
    spin "$@" -a "$model" >spin.log 2>&1 || { cat spin.log >&2; echo broken; return; }
    "$cc" $optimise -w -DSAFETY $store -o pan pan.c || { echo broken; return; }
    ./pan -m$deep -w$bits >pan.log 2>&1 || true
    if grep -qE 'max search depth too small|out of memory' pan.log; then
        echo unfinished
    else
        sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
    fi
}

whole() { # <name> <options…>
    [ "${MODEL_ONLY:-}" = rest ] || search "$@"
}

search() { # <name> <options…>: there must be no error
    name=$1
    shift
    found=$(errors "$@")
    echo "$name: errors: $found, $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' pan.log) states"
    [ "$found" = 0 ] && return 0
    cat pan.log
    spin "$@" -t -k "$(basename "$model").trail" -p "$model" 2>/dev/null | tail -n 60 || true
    fail=1
}

broken() { # <variant> <options…>: there must be at least one error
    [ "${MODEL_ONLY:-}" != quick ] || return 0
    variant=$1
    shift
    found=$(errors "-D$variant" "$@")
    case $found in
    0 | broken | unfinished | '') echo "$variant: was not found ($found)"; fail=1 ;;
    *) echo "$variant: found" ;;
    esac
}

# Optimised by the compiler, with a larger table.
whole_large() {
    [ "${MODEL_ONLY:-}" != quick ] || return 0
    optimise=-O1 bits=24; search "$@"; optimise=-O0 bits=22
}

# Tens of millions of states.
whole_huge() { optimise=-O2 bits=26; search "$@"; optimise=-O0 bits=22; }
