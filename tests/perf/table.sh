#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the first table of RESULTS.md as Markdown: tryst-perf by prepared key beside the
# raw fabric (ucx_perftest, raw_fi), each figure the median of alternating pairs, each
# ratio with its least and most.
#
# usage: table.sh <tryst-perf> <raw_fi> [pairs (3)] [shm|ucx-shm|ucx-tcp|ofi-tcp|ofi-rxm|ofi-shm|rate …]
#
# lib.sh describes the paths; `rate`: messages of 8 bytes, 256 outstanding to one peer,
# beside `ucx_perftest -t tag_bw -s 8`. Three pairs of all take some eight minutes.
# TRYST_TABLE_ROWS: only rows whose text matches (grep -E). The exit status is nonzero
# only if a figure could not be measured.
# shellcheck disable=SC1091,SC2034,SC2154 # variables of lib.sh
set -eu
perf=$1 raw_fi=$2
pairs=${3:-3}
shift 2
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- shm ucx-shm ucx-tcp ofi-tcp ofi-rxm ofi-shm rate
command -v ucx_perftest >/dev/null 2>&1 || { echo "skipped: ucx_perftest is not installed (ucx-utils)"; exit 77; }
. "$(dirname "$0")/lib.sh"
missing=0
only=${TRYST_TABLE_ROWS:-.}
unset TRYST_TABLE_ROWS # not a setting of the library

# row <text> <path> <kind> <bytes> <iterations>
row() {
    text=$1
    shift
    echo "$text" | grep -Eq "$only" || return 0
    if ! pairs_measure "$pairs" "$@"; then
        echo "| $text | not measured | | |"
        missing=1
        return 0
    fi
    awk -v text="$text" -v kind="$2" -v bytes="$3" '
        function figure(x) {
            if (kind == "pingpong") return sprintf("%.3g µs", x * 1e6)
            if (kind == "rate") return sprintf("%.3g million/s", x / bytes * 1e-6)
            return x >= 1e9 ? sprintf("%.3g GB/s", x * 1e-9) : sprintf("%.3g MB/s", x * 1e-6)
        }
        { ratio[NR] = $1; our[NR] = $2; their[NR] = $3 }
        END {
            at = int((NR + 1) / 2)
            printf "| %s | %s | %s | %.2f (%.2f to %.2f) |\n", text, figure(our[at]),
                figure(their[at]), ratio[at], ratio[1], ratio[NR]
        }' "$dir/ratios"
}

# name <path>: print the name of its row
name() {
    case $1 in
    shm) echo 'shm' ;;
    ucx-*) echo "ucx, ${1#ucx-}" ;;
    ofi-tcp) echo 'ofi, net' ;;
    ofi-*) echo "ofi, ${1#ofi-}" ;;
    esac
}

rows_of() {
    row "$(name "$1"), 1 B one way" "$1" pingpong 1 5000
    row "$(name "$1"), 8 B" "$1" pingpong 8 5000
    row "$(name "$1"), 64 B" "$1" pingpong 64 5000
    row "$(name "$1"), 512 B" "$1" pingpong 512 5000
    row "$(name "$1"), 4 KiB" "$1" pingpong 4096 5000
    row "$(name "$1"), 64 KiB" "$1" pingpong 65536 2000
    row "$(name "$1"), 4 KiB, bandwidth" "$1" bandwidth 4096 20000
    row "$(name "$1"), 64 KiB, bandwidth" "$1" bandwidth 65536 4000
    row "$(name "$1"), 1 MiB, bandwidth" "$1" bandwidth 1048576 2000
    row "$(name "$1"), 16 MiB, bandwidth" "$1" bandwidth 16777216 100
    row "$(name "$1"), 64 MiB, bandwidth" "$1" bandwidth 67108864 16
}

host_print
date -u +%Y-%m-%d
echo "n = $pairs alternating pairs, each process bound to one of two processors, $window transfers outstanding in bandwidth"
echo
echo '| | Tryst | raw fabric | ratio: median (least to most) |'
echo '|---|---|---|---|'
for path in "$@"; do
    if [ "$path" != rate ]; then
        rows_of "$path"
        continue
    fi
    for fabric in shm ucx-shm ucx-tcp; do
        row "$(name $fabric), 8 B messages, $deep waiting" $fabric rate 8 200000
    done
done
exit $missing
