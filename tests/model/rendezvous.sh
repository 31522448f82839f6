#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks rendezvous.pml with spin: as it is, small and large, and that each broken variant is found.
# Usage: rendezvous.sh <folder of the model> <C compiler> [long]
# long: the one search that takes 2 GB and most of a minute.
set -eu
model=$1/rendezvous.pml
cc=$2
command -v spin >/dev/null 2>&1 || { echo "skipped: spin is not installed (package spin)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail=0

deep=200000
bits=22
optimise=-O0 # for short searches, compiling takes longer than searching

# errors <options…>: builds and searches; prints how many errors were found
errors() {
    rm -f pan pan.* ./*.trail
    spin "$@" -a "$model" >spin.log 2>&1 || { cat spin.log >&2; echo broken; return; }
    "$cc" $optimise -w -DSAFETY -DCOLLAPSE -o pan pan.c || { echo broken; return; }
    ./pan -m$deep -w$bits >pan.log 2>&1 || true
    if grep -qE 'max search depth too small|out of memory' pan.log; then
        echo unfinished
    else
        sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log
    fi
}

whole() { # <name> <options…>
    name=$1
    shift
    found=$(errors "$@")
    echo "$name: errors: $found, $(sed -n 's/^ *\([0-9]*\) states, stored.*/\1/p' pan.log) states"
    [ "$found" = 0 ] && return 0
    cat pan.log
    spin "$@" -t -k rendezvous.pml.trail -p "$model" 2>/dev/null | tail -n 60 || true
    fail=1
}

broken() { # <variant> [options…]: at least one error
    variant=$1
    shift
    [ $# -gt 0 ] || set -- -DSMALL
    found=$(errors "-D$variant" "$@")
    case $found in
    0 | broken | unfinished | '') echo "$variant: was not found ($found)"; fail=1 ;;
    *) echo "$variant: found" ;;
    esac
}

whole_large() { optimise=-O1 bits=24; whole "$@"; optimise=-O0 bits=22; }

if [ "${3:-}" = long ]; then
    whole_large "large tensors, a death" -DLARGE -DDEATH
    exit $fail
fi
whole "small tensors" -DSMALL
whole "small tensors, two ahead" -DNAMES
whole "large tensors" -DLARGE
whole_large "small tensors, a death" -DSMALL -DDEATH
broken BREAK_CANCEL_PARKED
broken BREAK_OFFER -DLARGE
broken BREAK_OFFER_CANCEL -DLARGE
broken BREAK_VOID
broken BREAK_CLOSED_DATA
broken BREAK_CLOSED_DEFERRED
broken BREAK_CLOSED_DEFERRAL
broken BREAK_CREDIT
broken BREAK_QUOTA
broken BREAK_EARLY_REPORT -DLARGE
broken BREAK_LAZY
broken BREAK_ASK -DLARGE
broken BREAK_ASK_NOTE -DLARGE
broken BREAK_ASK_EARLY -DLARGE
broken BREAK_TAKE_BACK
broken BREAK_TAKE_BACK_BYTES
broken BREAK_TAKE_BACK_CREDIT
broken BREAK_NAME -DNAMES
broken BREAK_DEATH -DSMALL -DDEATH
broken BREAK_DEATH_WANT -DSMALL -DDEATH
broken BREAK_DEATH_READ -DSMALL -DDEATH
exit $fail
