#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks rendezvous.pml with spin: as it is, small and large, and that each broken variant is found.
# Usage: rendezvous.sh <folder of the model> <C compiler>
set -eu
model=$1/rendezvous.pml
cc=$2
command -v spin >/dev/null 2>&1 || { echo "skipped: spin is not installed (package spin)"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail=0

# errors <options…>: builds and searches; prints how many errors were found
errors() {
    rm -f pan pan.* ./*.trail
    spin "$@" -a "$model" >spin.log 2>&1 || { cat spin.log >&2; echo broken; return; }
    # compiling takes longer than searching
    "$cc" -O0 -w -DSAFETY -DCOLLAPSE -o pan pan.c || { echo broken; return; }
    ./pan -m200000 -w22 >pan.log 2>&1 || true
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

broken() { # <variant> [option]: at least one error
    found=$(errors "-D$1" "${2:--DSMALL}")
    case $found in
    0 | broken | unfinished | '') echo "$1: was not found ($found)"; fail=1 ;;
    *) echo "$1: found" ;;
    esac
}

whole "small tensors" -DSMALL
whole "large tensors" -DLARGE
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
exit $fail
