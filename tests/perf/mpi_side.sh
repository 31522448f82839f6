#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-perf pingpong and allreduce beside MPICH and Open MPI on this host, two ranks over shared memory: the same sizes,
# iterations and columns. Each round runs all sides once, one after the other; the figures are medians over the rounds of
# the median time, and in brackets of the 99th percentile, in microseconds: of one way, or of an all-reduce of fp32.
#
# usage: mpi_side.sh <tryst-perf> [rounds (7)] [iterations (1000)] [bytes …]    (8 1024 65536 1048576)
# Ends with 77 where neither MPICH nor Open MPI can be compiled for.
set -euo pipefail
perf=$1
rounds=${2:-7}
iterations=${3:-1000}
shift $(($# < 3 ? $# : 3))
[ $# -gt 0 ] || set -- 8 1024 65536 1048576
here=$(dirname "$(readlink -f "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

mpis=
for mpi in mpich openmpi; do
    if ! command -v "mpicc.$mpi" >/dev/null || ! command -v "mpiexec.$mpi" >/dev/null; then
        echo "without $mpi: not installed"
    elif "mpicc.$mpi" -O2 -o "$dir/$mpi" "$here/mpi_side.c" 2>"$dir/errors"; then
        mpis="$mpis $mpi"
    else
        echo "without $mpi: mpi_side.c does not compile (lib$mpi-dev): $(head -n 1 "$dir/errors")"
    fi
done
[ -n "$mpis" ] || { echo "skipped: there is no MPI"; exit 77; }

# ours <bytes,…>: lines "kind bytes median p99" in seconds
ours() {
    for kind in allreduce pingpong; do
        timeout 120 "$perf" $kind -n 2 --transport shm -s "$1" -i "$iterations" --json - |
            sed -n "s/.*{\"bytes\": \([0-9]*\),.*\"seconds\": \([^,]*\), \"seconds_p99\": \([^,]*\),.*/$kind \1 \2 \3/p"
    done
}

# theirs <mpich|openmpi> <bytes>…: the same. Ranks are bound where there are two processors, as tryst-perf's are.
theirs() {
    local options=(-bind-to core) mpi=$1
    [ "$(nproc)" -ge 2 ] || options=()
    if [ "$mpi" = openmpi ]; then
        options=(--allow-run-as-root --oversubscribe --bind-to core)
        [ "$(nproc)" -ge 2 ] || options=(--allow-run-as-root --oversubscribe --bind-to none)
    fi
    shift
    timeout 120 "mpiexec.$mpi" "${options[@]}" -n 2 "$dir/$mpi" "$iterations" "$@"
}

# note <side> <lines>: each kind and size has a line
note() {
    [ "$(printf '%s\n' "$2" | grep -cE '^(pingpong|allreduce) [0-9]+ [0-9.e+-]+ [0-9.e+-]+$')" -eq $((2 * sizes)) ] ||
        { echo "mpi_side: $1 failed: $2" >&2; cat "$dir/errors" >&2; exit 1; }
    printf '%s\n' "$2" | sed "s/^/$1 /" >>"$dir/figures"
}

sizes=$#
list=$(IFS=, && echo "$*")
awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo
echo "$(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg); $rounds rounds of $iterations"
for _ in $(seq "$rounds"); do
    note tryst "$(ours "$list" 2>"$dir/errors")"
    for mpi in $mpis; do
        note "$mpi" "$(theirs "$mpi" "$@" 2>"$dir/errors")"
    done
done
awk -v sides="tryst$mpis" -v list="$list" '
    function median(key, values, n, i, j, v) {
        n = count[key]
        for (i = 1; i <= n; i++) values[i] = figure[key, i]
        for (i = 2; i <= n; i++) {
            v = values[i]
            for (j = i - 1; j && values[j] > v; j--) values[j + 1] = values[j]
            values[j + 1] = v
        }
        return (values[int((n + 1) / 2)] + values[int((n + 2) / 2)]) / 2 * 1e6
    }
    {
        figure[$1 $2 $3, ++count[$1 $2 $3]] = $4
        figure[$1 $2 $3 "p99", ++count[$1 $2 $3 "p99"]] = $5
    }
    END {
        sides_count = split(sides, side, " ")
        sizes_count = split(list, size, ",")
        split("pingpong allreduce", kind, " ")
        printf "%-10s %9s", "us", "bytes"
        for (s = 1; s <= sides_count; s++) printf " %12s %12s", side[s], "(p99)"
        for (s = 2; s <= sides_count; s++) printf " %16s", side[s] " / tryst"
        printf "\n"
        for (k = 1; k <= 2; k++)
            for (b = 1; b <= sizes_count; b++) {
                printf "%-10s %9d", kind[k], size[b]
                for (s = 1; s <= sides_count; s++)
                    printf " %12.2f %12s", median(side[s] kind[k] size[b]),
                        sprintf("(%.2f)", median(side[s] kind[k] size[b] "p99"))
                for (s = 2; s <= sides_count; s++)
                    printf " %16.2f", median(side[s] kind[k] size[b]) / median("tryst" kind[k] size[b])
                printf "\n"
            }
    }' "$dir/figures"
