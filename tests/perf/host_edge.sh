#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measure what an edge between two ranks of one host costs (topology/sized/tree_cost.h), from all-reduces over shared
# memory, in place. Topologies of slow links make the planner choose one tree, with slices of 16 or 32 KiB; without a
# topology, two ranks run two stars with slices of 128 KiB. Each figure is a difference within a round:
#   latency  8 bytes, one way (ping-pong)
#   flow     (4 bytes over one tree - 2 latencies) / 2: at each rank two flows, one after the other
#   slice    (16 MiB in slices of 16 KiB - in slices of 32 KiB) / slices more / 2 flows of each rank
#   rate     16 MiB / (time over two stars - their slices)
# Printed are the median over the rounds, the least and the most.
#
# usage: host_edge.sh <tryst-perf> [rounds (15)] [plain|mapped (plain)]
set -euo pipefail
perf=$1 rounds=${2:-15} memory=${3:-plain}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

topology() { # <gbit/s>: a slice takes a link at most 2 ms, so 0.066 gives slices of 16 KiB
    printf '{"ranks": ["a", "b"], "nodes": ["host"], "links": [%s, %s]}\n' \
        "{\"a\": \"a\", \"b\": \"host\", \"gbit_per_s\": $1}" "{\"a\": \"b\", \"b\": \"host\", \"gbit_per_s\": $1}" >"$dir/$1.json"
    echo "$dir/$1.json"
}

figures() { # <kind> <bytes> <iterations> [option …]: the median time in s, trees and slice
    timeout 120 "$perf" "$1" -n 2 --transport shm -s "$2" -i "$3" "${@:4}" --json - 2>"$dir/errors" |
        sed -n 's/.*"seconds": \([0-9.e+-]*\),.*"trees": \([0-9]*\), "slice_bytes": \([0-9]*\).*/\1 \2 \3/p;t
                s/.*"seconds": \([0-9.e+-]*\),.*/\1/p'
}

allreduce() { # <topology or empty> <bytes> <iterations> <trees> <slice>: the time in s
    local seconds trees slice
    read -r seconds trees slice < <(TRYST_TOPOLOGY=$1 TRYST_RAIL_WINDOW_BYTES=16M figures allreduce "$2" "$3" --inplace -m "$memory") || true
    [ "$trees $slice" = "$4 $5" ] || { echo "host_edge: $2 bytes: $trees trees, slices of $slice, not $4 and $5" >&2; fail; }
    echo "$seconds"
}

fail() { cat "$dir/errors" >&2; exit 1; }

spread() { # <name> <unit> <position>: of "$dir/rounds"
    cut -d' ' -f"$3" "$dir/rounds" | sort -g |
        awk -v name="$1" -v unit="$2" '{ v[NR] = $1 } END { printf "%-8s %6.2f (%.2f to %.2f) %s\n", name, v[int((NR + 1) / 2)], v[1], v[NR], unit }'
}

short=$(topology 0.066) long=$(topology 0.132)
for ((round = 0; round < rounds; round++)); do
    latency=$(figures pingpong 8 10000) || fail
    small=$(allreduce "$short" 4 2000 1 16384)
    fine=$(allreduce "$short" 16M 10 1 16384)
    coarse=$(allreduce "$long" 16M 10 1 32768)
    stars=$(allreduce "" 16M 10 2 131072)
    awk -v l="$latency" -v t="$small" -v fine="$fine" -v coarse="$coarse" -v stars="$stars" 'BEGIN {
        bytes = 16 * 2^20; slice = (fine - coarse) / (bytes / 16384 - bytes / 32768) / 2
        print l * 1e6, (t - 2 * l) / 2 * 1e6, slice * 1e6, bytes / (stars - 2 * slice * bytes / 131072) / 1e9
    }' >>"$dir/rounds"
done
echo "$memory memory, $rounds rounds"
spread latency us 1
spread flow us 2
spread slice us 3
spread rate GB/s 4
