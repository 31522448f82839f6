#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the instructions per 8-byte message from a rank to itself (loopback.c) or between
# two ranks (pingpong.c), by valgrind's callgrind. With a bound, the least of up to three
# runs counts: hash seeds differ, and two keys in one bucket cost more.
# usage: loopback.sh <perf_loopback|perf_pingpong> [most]
#        (exit status 1: each run takes more than `most`)
set -eu
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed (package valgrind)"; exit 77; }

instructions() { # <messages>
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" 2>&1 |
        sed -n 's/.*Collected : //p'
}
program=$1
for _ in 1 2 3; do
    few=$(instructions 2000)
    many=$(instructions 22000)
    count=$(((many - few) / 20000))
    echo "$count instructions per message"
    [ "$count" -gt "${2:-$count}" ] || exit 0
done
echo "loopback: more than $2"
exit 1
