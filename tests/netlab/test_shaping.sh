#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measure the lab itself with a plain TCP stream. Each direction of a link must carry its
# configured rate, less the headers, within 4 %. So must a trunk that two flows share, and
# each flow must get its half within 30 %.
# usage: test_shaping.sh <netlab.sh> <netlab_stream>
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
failed=0
wrong=0

# Payload per configured rate: 1448 (IPv6: 1428) of the 1514 bytes that tbf counts for a
# packet.
judge() { # <what> <measured Mbit/s> <rate> <6 or 4> <tolerance>
    awk -v what="$1" -v got="$2" -v rate="$3" -v family="$4" -v most="$5" 'BEGIN {
        want = rate * (family == 6 ? 1428 : 1448) / 1514
        off = got / want - 1
        printf "%-24s %7.1f of %6.1f Mbit/s payload: %+.1f %%\n", what, got, want, 100 * off
        exit off > most || off < -most }' || wrong=1
}

# Run streams between pairs of hosts at once; print each receiver's rate, in order of the
# pairs.
streams() { # <seconds> <from> <to> [<from> <to>…]
    local seconds=$1 from to pids=() files=() n=0
    shift
    while [ $# -gt 0 ]; do
        from=$1 to=$2
        shift 2
        files+=("$(mktemp)")
        "$NETLAB" on "$to" "$STREAM" receive 5000 1 "$seconds" >"${files[n]}" &
        pids+=($!)
        local at
        at=$("$NETLAB" address "$to" "$from")
        at=${at#[} at=${at%]}
        "$NETLAB" on "$from" "$STREAM" send "$at" 5000 "$(awk "BEGIN { print $seconds + 2 }")" &
        n=$((n + 1))
    done
    wait "${pids[@]}"
    cat "${files[@]}"
    rm "${files[@]}"
}

# Other load on the machine may spoil a measurement, but not ten.
one() { # <what> <rate> <family> <from> <to>
    for try in {1..10}; do
        wrong=0
        judge "$1" "$(streams 1.2 "$4" "$5")" "$2" "$3" 0.04
        [ $wrong -ne 0 ] || return 0
        echo "try $try of 10 is wrong"
    done
    failed=1
}

shared() { # <what> <rate> <from> <to> <from> <to>
    local got
    for try in {1..10}; do
        wrong=0
        mapfile -t got < <(streams 2 "${@:3}")
        judge "$1" "$(awk "BEGIN { print ${got[0]} + ${got[1]} }")" "$2" 4 0.04
        judge "$1, first" "${got[0]}" $(($2 / 2)) 4 0.3
        judge "$1, second" "${got[1]}" $(($2 / 2)) 4 0.3
        [ $wrong -ne 0 ] || return 0
        echo "try $try of 10 is wrong"
    done
    failed=1
}

case $1 in
--up_down)
    one "h0 up" 200 4 h0 h1
    one "h0 down" 80 4 h1 h0
    ;;
--racks)
    shared "trunk, there" 200 h0 h2 h1 h3
    shared "trunk, back" 120 h2 h0 h3 h1
    ;;
--mesh6)
    one "mesh, fast link" 200 6 h0 h1
    one "mesh, slow link" 100 6 h2 h0
    ;;
*)
    export STREAM=$2
    for lab in up_down racks mesh6; do
        "$1" "$here/labs/$lab.lab" "$0" --$lab || { failed=$?; break; }
    done
    ;;
esac
exit $failed
