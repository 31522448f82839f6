#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All-reduce of 64 MiB of fp32 over uneven networks (network namespaces of this machine),
# compared with the lower bound of its plan, in goodput: a frame of 1,514 bytes carries
# 1,448.
#
# networks.sh has the networks.
#
# usage: coll_lab.sh <netlab.sh> <tryst-perf> [ucx|ofi|auto] [network…]
#   COLL_LAB_ITERS   counted all-reduces of each run (5)
#   COLL_LAB_BYTES   bytes of each (64M)
#   COLL_LAB_SLOWER  divide the rates of all links by this, in the network and in the graph
#                    (1): for a busy machine
#   COLL_LAB_WRONG   factor of all rates in the graph, not in the network (1)
#   COLL_LAB_CHECK   compare each result with a computed one (no)
#   COLL_LAB_MAX     fail above this ratio of Tryst (none)
#   COLL_LAB_BESIDE  after each run of Tryst another one over the same network, with the ratio
#                    to the same bound (no): mpich, an MPI_Allreduce of as many bytes, to which
#                    MPIR_CVAR_* and UCX_RNDV_THRESH of the environment apply; or the path of
#                    the tryst-perf of another build
#   COLL_LAB_ROUNDS  run each network so often, alternating with what runs beside (1)
set -euo pipefail
if [ "$1" = --within ]; then
    shift
    exec "${NETLAB:?}" ranks "$@"
fi
netlab=$1 perf=$2 transport=${3:-ucx}
networks=("${@:4}")
[ ${#networks[@]} -gt 0 ] || networks=(star uneven racks mesh eight)
iters=${COLL_LAB_ITERS:-5} size=${COLL_LAB_BYTES:-64M}
slower=${COLL_LAB_SLOWER:-1} check=${COLL_LAB_CHECK:+--check} wrong=${COLL_LAB_WRONG:-1} most=${COLL_LAB_MAX:-}
rounds=${COLL_LAB_ROUNDS:-1}
beside=${COLL_LAB_BESIDE:-} mpi=$(dirname "$perf")/tests/perf_mpi_allreduce
mpi_most_s=120
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# shellcheck source=tests/perf/networks.sh
. "$(dirname "$0")/networks.sh"

# Print one line of a table from the figures of rank 0; those of a later file replace
# those of an earlier one.
judge() { # <network> <who> <highest ratio, or nothing> <json file>…
    awk -v is="$1" -v who="$2" -v wrong="$wrong" -v most="$3" '
        { for (i = 1; i <= split($0, part, /[,{}\[\]]/); i++)
              if (part[i] ~ /:/) { key = part[i]; value = part[i]; gsub(/[" ]|:.*/, "", key)
                                   sub(/.*: */, "", value); f[key] = value } }
        END {
            goodput = f["bound_seconds"] * wrong * 1514 / 1448
            if (!goodput) { print is ": no bound: no measurement, or no graph"; exit 1 }
            ratio = f["seconds"] / goodput
            printf "%-8s %s: median %.3f s (p99 %.3f), bound %.3f s, in goodput %.3f s: ratio %.3f, load %s\n", is,
                who, f["seconds"], f["seconds_p99"], f["bound_seconds"] * wrong, goodput, ratio, load
            if (most && ratio > most) { print is ": the ratio is above " most; exit 1 }
        }' load="$(cut -d' ' -f1 /proc/loadavg)" "${@:4}"
}

# Clear $beside, with the reason, where its program is missing.
beside_check() {
    case $beside in
    '') ;;
    mpich)
        [ ! -x "$mpi" ] || return 0
        echo "mpich: skipped: no mpicc, install libmpich-dev and build again (no $mpi)"
        beside=
        ;;
    *)
        [ ! -x "$beside" ] || return 0
        echo "cannot run '$beside' beside ours: choose mpich or the path of a tryst-perf" >&2
        return 2
        ;;
    esac
}

# Run an all-reduce over the network of $dir/lab, planned from $dir/graph.json; its figures go to <file>.
tryst_run() { # <tryst-perf> <file>
    TRYST_TOPOLOGY=$dir/graph.json "$netlab" "$dir/lab" "$0" --within "$1" allreduce --transport "$transport" \
        --sizes "$size" --iters "$iters" --warmup 1 ${check:+"$check"} --json "$2" >"$dir/out" 2>&1
}

# Run what runs beside over the network that Tryst has just used.
beside_run() { # <network>
    local code=0
    if [ "$beside" != mpich ]; then
        tryst_run "$beside" "$dir/beside" || { cat "$dir/out"; return 1; }
        judge "$1" beside "" "$dir/beside"
        return
    fi
    timeout --foreground -k 10 $mpi_most_s "$netlab" "$dir/lab" "$(dirname "$0")/mpich_lab.sh" "$mpi" \
        "$(numfmt --from=iec "$size")" "$iters" </dev/null >"$dir/beside" 2>"$dir/errors" || code=$?
    if [ $code -ne 0 ] || [ ! -s "$dir/beside" ]; then
        cat "$dir/errors" "$dir/beside"
        echo "$1: $beside failed with status $code (124 is the time-out of $mpi_most_s s)"
        return 1
    fi
    judge "$1" "$beside" "" "$dir/figures" "$dir/beside"
}

beside_check
status=0
for name in "${networks[@]}"; do
    network "$name" | awk -v slower="$slower" \
        '$1 == "link" { $4 = $4 / slower "mbit" } { print }' >"$dir/lab"
    graph "$wrong" <"$dir/lab" >"$dir/graph.json"
    for ((round = 0; round < rounds; round++)); do
        tryst_run "$perf" "$dir/figures" || {
            status=$?
            cat "$dir/out"
            [ $status -ne 77 ] || exit 77 # skipped: no network namespaces
            continue
        }
        judge "$name" "$transport" "$most" "$dir/figures" || status=1
        [ -z "$beside" ] || beside_run "$name" || status=1
        [ -z "${COLL_LAB_SHOW:-}" ] || cat "$dir/out" "$dir/figures"
    done
done
exit $status
