#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compare two builds of tryst-perf, each pair of runs one after the other: 8-byte
# ping-pong (seconds), the rate of 8-byte messages with 256 outstanding, and the bandwidth
# at 1 and 16 MiB (bytes per second). Print the median and the spread of new / old.
#
# usage: versus.sh <old tryst-perf> <new tryst-perf> [pairs (31)] [path …]   (paths: lib.sh)
# shellcheck disable=SC1091,SC2034,SC2154 # variables of lib.sh
set -eu
old=$1 new=$2 pairs=${3:-31}
shift 2
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- shm ucx-shm ucx-tcp ofi-tcp ofi-rxm ofi-shm
perf=$new
. "$(dirname "$0")/lib.sh"

# versus <path> <kind> <bytes> <iterations>
versus() {
    : >"$dir/versus"
    for _ in $(seq "$pairs"); do
        perf=$old
        before=$(ours "$1" "$2" "$3" "$4")
        perf=$new
        after=$(ours "$1" "$2" "$3" "$4")
        [ -z "$before" ] || [ -z "$after" ] || echo "$after $before" >>"$dir/versus"
    done
    awk '{ printf "%.4f %s %s\n", $1 / $2, $1, $2 }' "$dir/versus" | sort -g | awk -v name="$1 $2 $3" '
        { ratio[NR] = $1; after[NR] = $2; before[NR] = $3 }
        END {
            at = int((NR + 1) / 2)
            printf "%-24s n %d  new / old: median %.3f  quartiles %.3f..%.3f  spread %.3f..%.3f  (%.4g, %.4g)\n",
                name, NR, ratio[at], ratio[int((NR + 3) / 4)], ratio[int((3 * NR + 1) / 4)],
                ratio[1], ratio[NR], after[at], before[at]
        }'
}

for path in "$@"; do
    versus "$path" pingpong 8 20000
    versus "$path" rate 8 200000
    versus "$path" bandwidth 1048576 1000
    versus "$path" bandwidth 16777216 60
done
