#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compare all-reduces of fp32, in place, on one host over shared memory with Debian's Open MPI and MPICH. Each round runs
# all of them once, one after the other; the figures are medians over the rounds, with the least and the most, and
# ratios within a round. A ratio above 1: Tryst is faster.
#
# usage: one_host.sh <tryst-perf> [rounds (15)] [bytes …]    (4 65536 1048576 16777216 67108864)
#        ONE_HOST_RANKS=2        ranks, a processor each as far as there are enough
#        ONE_HOST_BEFORE=FILE    another tryst-perf, which takes its turn too: "before"
#        ONE_HOST_MPI="openmpi mpich"    fewer of them, or none: ""
#        ONE_HOST_REDUCE=FILE    perf_reduce, for this machine's speed of copies and sums
set -euo pipefail
perf=$1
rounds=${2:-15}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- 4 65536 1048576 16777216 67108864
ranks=${ONE_HOST_RANKS:-2}
before=${ONE_HOST_BEFORE:-}
here=$(dirname "$(readlink -f "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

mpis=
for mpi in ${ONE_HOST_MPI-openmpi mpich}; do
    if ! command -v "mpicc.$mpi" >/dev/null || ! command -v "mpiexec.$mpi" >/dev/null; then
        echo "without $mpi: not installed"
    elif "mpicc.$mpi" -O2 -o "$dir/$mpi" "$here/mpi_allreduce.c" 2>"$dir/errors"; then
        mpis="$mpis $mpi"
    else
        echo "without $mpi: mpi_allreduce.c does not compile (lib$mpi-dev): $(head -n 1 "$dir/errors")"
    fi
done

# Operations of one run: half a second of them or so.
count() { # <bytes>
    local count=$((500000 / ($1 / 4000 + 50)))
    echo $((count < 8 ? 8 : count))
}

seconds() { sed -n 's/.*"seconds": \([0-9.e+-]*\).*/\1/p'; }

ours() { # <tryst-perf> <plain|mapped> <bytes>
    timeout 120 "$1" allreduce -n "$ranks" --transport shm --inplace -m "$2" -s "$3" -i "$(count "$3")" --json - 2>"$dir/errors" | seconds
}

theirs() { # <openmpi|mpich> <bytes>
    local options=(-bind-to core)
    [ "$ranks" -le "$(nproc)" ] || options=()
    if [ "$1" = openmpi ]; then
        options=(--allow-run-as-root --oversubscribe --bind-to core)
        [ "$ranks" -le "$(nproc)" ] || options=(--allow-run-as-root --oversubscribe --bind-to none)
    fi
    timeout 120 "mpiexec.$1" "${options[@]}" -n "$ranks" "$dir/$1" "$2" "$(count "$2")" inplace 2>"$dir/errors" | seconds
}

note() { # <bytes> <who> <seconds>
    [ -n "$3" ] || { echo "one_host: $2 failed at $1 bytes" >&2; cat "$dir/errors" >&2 || true; exit 1; }
    echo "$1 $2 $3" >>"$dir/figures.$1"
}

# Medians, and the ratio of each round: mapped and plain by the better MPI, and by the build before.
table() { # <bytes>
    awk '
    function sorted(values, n, i, j, v) {
        for (i = 2; i <= n; i++) {
            v = values[i]
            for (j = i - 1; j && values[j] > v; j--) values[j + 1] = values[j]
            values[j + 1] = v
        }
    }
    function line(name, values, n, scale, digits) {
        sorted(values, n)
        printf "  %-24s %.*f  (%.*f to %.*f)\n", name, digits, (values[int((n + 1) / 2)] + values[int((n + 2) / 2)]) / 2 * scale,
            digits, values[1] * scale, digits, values[n] * scale
    }
    function ratios(name, of, by, i, values, found) {
        if (!(of in count) || !(by in count)) return
        for (i = 1; i <= count[of]; i++) values[i] = time[by, i] / time[of, i]
        line(name, values, count[of], 1, 2)
    }
    { time[$2, ++count[$2]] = $3; if (count[$2] == 1) names[++names_count] = $2 }
    END {
        printf "%d bytes:\n", $1
        for (k = 1; k <= names_count; k++) {
            for (i = 1; i <= count[names[k]]; i++) one[i] = time[names[k], i]
            line(names[k] ", us", one, count[names[k]], 1e6, 1)
        }
        for (i = 1; i <= count["plain"]; i++) {
            best = 0
            for (name in count)
                if (name ~ /mpi/ && (!best || time[name, i] < best)) best = time[name, i]
            if (best) time["better", i] = best
        }
        if (best) count["better"] = count["plain"]
        ratios("plain by better MPI", "plain", "better")
        ratios("mapped by better MPI", "mapped", "better")
        ratios("plain by before", "plain", "before_plain")
        ratios("mapped by before", "mapped", "before_mapped")
    }' "$dir/figures.$1"
}

awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo
echo "$(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg); $ranks ranks, $rounds rounds"
[ -z "${ONE_HOST_REDUCE:-}" ] || "$ONE_HOST_REDUCE" | grep -E 'kernel|memcpy|f32 sum'
for bytes in "$@"; do
    for _ in $(seq "$rounds"); do
        for memory in plain mapped; do
            note "$bytes" $memory "$(ours "$perf" $memory "$bytes")"
            [ -z "$before" ] || note "$bytes" before_$memory "$(ours "$before" $memory "$bytes")"
        done
        for mpi in $mpis; do
            note "$bytes" "$mpi" "$(theirs "$mpi" "$bytes")"
        done
    done
    table "$bytes"
done
