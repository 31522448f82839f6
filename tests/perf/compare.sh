#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compare tryst-perf with ucx_perftest on this machine: 8-byte latency, and bandwidth at 1
# MiB and 16 MiB; shm against UCX's shared memory, ucx-shm (ucx with UCX_TLS=sm,self) and
# ucx-tcp against the same UCX transports with error handling (-e). Runs are alternating
# pairs with equal outstanding sends; the output is the median and spread of the ratios.
# table.sh has more sizes and fabrics.
#
# usage: compare.sh <tryst-perf> [pairs (11)] [shm|ucx-shm|ucx-tcp …]
#
# Ratios are time by time for latency (target: at most 2) and rate by rate for bandwidth
# (target: at least 0.95). The exit status is nonzero only if the measurement failed; with
# TRYST_COMPARE_STRICT=1 it is also 1 if a target is missed.
# shellcheck disable=SC1091,SC2034,SC2154 # variables of lib.sh
set -eu
perf=$1
pairs=${2:-11}
shift
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- shm ucx-shm
command -v ucx_perftest >/dev/null 2>&1 || { echo "skipped: ucx_perftest is not installed (ucx-utils)"; exit 77; }
. "$(dirname "$0")/lib.sh"
short=0

# compare <shm|ucx-shm|ucx-tcp> <pingpong|bandwidth> <bytes> <iterations>
compare() {
    pairs_measure "$pairs" "$@"
    awk -v name="$1 $2 $3" -v kind="$2" '
        { ratio[NR] = $1; our[NR] = $2; their[NR] = $3 }
        END {
            at = int((NR + 1) / 2)
            good = kind == "pingpong" ? ratio[at] <= 2 : ratio[at] >= 0.95
            scale = kind == "pingpong" ? 1e6 : 1e-6
            printf "%-24s n %d  median ratio %.3f  spread %.3f..%.3f  there %.4g, ucx_perftest %.4g %s  %s\n",
                name, NR, ratio[at], ratio[1], ratio[NR], our[at] * scale, their[at] * scale,
                kind == "pingpong" ? "us" : "MB/s", good ? "reached" : "short"
            exit good ? 0 : 1
        }' "$dir/ratios" || short=1
}

host_print
for transport in "$@"; do
    compare "$transport" pingpong 8 20000
    compare "$transport" bandwidth 1048576 2000
    compare "$transport" bandwidth 16777216 200
done
[ -z "${TRYST_COMPARE_STRICT:-}" ] || exit $short
