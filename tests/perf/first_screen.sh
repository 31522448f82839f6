#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The table of the README's first screen, all of it from one run: Tryst beside gloo, MPI and first come, first served.
# Of each row both sides take turns over the same network; a ratio below 1: Tryst is faster.
#
# usage: first_screen.sh <build> [rounds (5)] [row …]
#   rows: torch (all-reduces of torch.distributed beside gloo) and ddp (steps of DDP), which need TRYST_TORCH_VENV and the
#   test torch_build; mpich (all-reduces over networks beside MPICH), host (one host beside Open MPI and MPICH), urgent.
#   All, where none is named. What a row needs and is missing: it is left out, with the reason. Networks are namespaces
#   (root).
#   FIRST_SCREEN_BYTES   of all-reduces over networks (25M)
#   FIRST_SCREEN_SLOWER  divide the rates of all networks by this (1): for a busy machine
set -euo pipefail
if [ "${1:-}" = --within ]; then
    shift
    exec "${NETLAB:?}" ranks "$@"
fi
[ $# -gt 0 ] || { sed -n 's/^# \{0,1\}//; 2d; 3,14p' "$0" >&2; exit 2; }
build=$(cd "$1" && pwd)
rounds=${2:-5}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- torch ddp mpich host urgent
here=$(dirname "$(readlink -f "$0")")
perf=$build/bin/tryst-perf netlab=$here/../netlab/netlab.sh
bytes=${FIRST_SCREEN_BYTES:-25M} slower=${FIRST_SCREEN_SLOWER:-1}
package=$build/torch/package python=${TRYST_TORCH_VENV:+$TRYST_TORCH_VENV/bin/python3}
unset TRYST_TORCH_VENV # the library warns of settings that it does not have
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
declare -A title=([star]="4 hosts × 400 Mbit/s" [uneven]="hosts of 800, 800, 400, 200 Mbit/s" [racks]="two racks behind a trunk")

two='function two(x) { return sprintf(x < 0.095 ? "%.2g" : "%.2f", x) }' # digits of a ratio, for awk

words() { # <25M>: 25 MiB
    numfmt --to=iec "$(numfmt --from=iec "$1")" | sed 's/[KMG]$/ &iB/; /[0-9]$/s/$/ bytes/; s/\.0 / /'
}

row() { # <what> <beside> <ratio> <spread> <times>
    printf '| %s | %s | %s | %s | %s |\n' "$@" | tee -a "$dir/table"
}

left_out() {
    echo "left out: $*" | tee -a "$dir/notes"
}

# medians <file with a line "theirs ours" for each round> <scale> <unit>: "ratio|least to most|theirs, ours"
medians() {
    awk -v scale="$2" -v unit="$3" '
        function median(values, n, i, j, v) {
            for (i = 2; i <= n; i++) {
                v = values[i]
                for (j = i - 1; j && values[j] > v; j--) values[j + 1] = values[j]
                values[j + 1] = v
            }
            return (values[int((n + 1) / 2)] + values[int((n + 2) / 2)]) / 2
        }
        { theirs[NR] = $1; ours[NR] = $2; ratios[NR] = $2 / $1 }
        END {
            ratio = median(ratios, NR)
            printf "%s|%s|%.4g, %.4g %s\n", two(ratio), NR < 2 ? "-" : two(ratios[1]) " to " two(ratios[NR]),
                median(theirs, NR) * scale, median(ours, NR) * scale, unit
        }
        '"$two" "$1"
}

row_of() { # <what> <beside> <file> <scale> <unit>
    local ratio spread times
    [ -s "$3" ] || { left_out "$1: no figures"; return; }
    IFS='|' read -r ratio spread times < <(medians "$3" "$4" "$5")
    row "$1" "$2" "$ratio" "$spread" "$times"
}

lab() { # <network>: into $dir/lab and $dir/graph.json
    network "$1" | awk -v slower="$slower" '$1 == "link" { $4 = $4 / slower "mbit" } { print }' >"$dir/lab"
    graph 1 <"$dir/lab" >"$dir/graph.json"
}

torch_is_there() {
    [ -z "$python" ] || [ ! -d "$package" ] || return 0
    left_out "$1: set TRYST_TORCH_VENV, and run ctest -R torch_build"
    return 1
}

torch_rows() {
    local name
    torch_is_there torch || return 0
    for name in star uneven racks; do
        TORCH_LAB_TRYST=$package "$here/torch_lab.sh" "$netlab" $name "$python" "$here/allreduce_torch.py" --sizes "$bytes" \
            --tries "$rounds" >"$dir/out" 2>&1 || { left_out "torch, $name: $(tail -n 1 "$dir/out")"; continue; }
        awk -v size="$bytes" '$1 == size { print two($4) "|" two($5) " to " two($6) "|" $2 ", " $3 " ms" }
            '"$two" "$dir/out" >"$dir/row"
        IFS='|' read -r ratio spread times <"$dir/row"
        row "all-reduce of $(words "$bytes") by torch.distributed, ${title[$name]}" gloo "$ratio" "$spread" "$times"
    done
}

ddp_rows() {
    local name
    torch_is_there ddp || return 0
    for name in star racks; do
        SCHED_LAB_GLOO=$python SCHED_LAB_TRYST=$package SCHED_LAB_MODELS=ddp SCHED_LAB_STEPS=$rounds SCHED_LAB_SLOWER=$slower \
            SCHED_LAB_KINDS=gloo:25,gloo:4,cross:1 "$here/sched_lab.sh" "$netlab" "$perf" ucx $name >"$dir/out" 2>&1 ||
            { left_out "DDP, $name: $(tail -n 1 "$dir/out")"; continue; }
        ddp_row "$name"
    done
}

# The better of gloo's buckets, and CrossBarrier, by the medians that ddp_torch.py prints.
ddp_row() { # <network>
    awk '
        /^DDP, / && / median / { sub(/.* median /, "&\n"); split($0, part, "\n"); split(part[2], word, " ") }
        /^DDP, .* gloo, / && (!best || word[1] < best) { best = word[1] }
        /^DDP, .* cross, / { ours = word[1] }
        END { if (best && ours) print best, ours }' "$dir/out" >"$dir/row"
    row_of "step of DDP with CrossBarrier, ${title[$1]}" "gloo, its better buckets" "$dir/row" 1 s
}

mpich_rows() {
    local name
    for name in star uneven racks; do
        COLL_LAB_BYTES=$bytes COLL_LAB_ITERS=3 COLL_LAB_ROUNDS=$rounds COLL_LAB_BESIDE=mpich COLL_LAB_SLOWER=$slower \
            "$here/coll_lab.sh" "$netlab" "$perf" ucx $name >"$dir/out" 2>&1 ||
            { left_out "mpich, $name: $(tail -n 1 "$dir/out")"; continue; }
        awk '/ ucx: median/ { ours = $4 } / mpich: median/ { print $4, ours }' "$dir/out" >"$dir/row"
        row_of "all-reduce of $(words "$bytes"), ${title[$name]}" MPICH "$dir/row" 1e3 ms
    done
}

host_rows() {
    local size
    "$here/one_host.sh" "$perf" "$rounds" 4 1048576 67108864 >"$dir/out" 2>&1 ||
        { left_out "host: $(tail -n 1 "$dir/out")"; return; }
    for size in 4 1048576 67108864; do
        awk -v size=$size '
            $2 == "bytes:" { now = $1 }
            now == size && /^ *plain, us/ { ours = $3 }
            now == size && /^ *(openmpi|mpich), us/ && (!theirs || $3 < theirs) { theirs = $3 }
            now == size && /^ *plain by better MPI/ { gsub(/[()]/, ""); print theirs, ours, $8, $6 }' "$dir/out" >"$dir/row"
        # its ratios are theirs by ours, and have two digits
        awk '{ print two($2 / $1) "|" ($3 >= 0.1 ? two(1 / $3) " to " two(1 / $4) : "-") "|" $1 ", " $2 " us" }
            '"$two" "$dir/row" >"$dir/row2"
        IFS='|' read -r ratio spread times <"$dir/row2"
        row "all-reduce of $(words "$size"), 2 ranks of one host" "the better of Open MPI and MPICH" "$ratio" "$spread" "$times"
    done
}

urgent_rows() {
    local order
    lab pair
    for order in "" --fifo; do
        # shellcheck disable=SC2086 # none or one word
        TRYST_TOPOLOGY=$dir/graph.json "$netlab" "$dir/lab" "$0" --within "$perf" preempt --transport ucx -s 64K -w 1 \
            -i $((${#order} > 0 ? 2 : 25)) $order --json "$dir/urgent$order" >"$dir/out" 2>&1 ||
            { left_out "urgent: $(tail -n 1 "$dir/out")"; return; }
    done
    for order in --fifo ""; do sed -n 's/.*"unloaded_seconds.*"seconds": \([0-9.e+-]*\).*/\1/p' "$dir/urgent$order"; done |
        paste -sd' ' >"$dir/row"
    row_of "an urgent 64 KiB behind 1 GiB, 2 hosts at 400 Mbit/s" "first come, first served (\`--fifo\`)" "$dir/row" 1e3 ms
}

# shellcheck source=tests/perf/networks.sh
. "$here/networks.sh"
echo "$(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +'%F %H:%M') UTC, $rounds rounds;" \
    "$("$perf" --version | head -n 1)"
printf '| what | beside | ratio | least to most | theirs, ours |\n|---|---|---|---|---|\n' | tee "$dir/table"
for rows; do
    case $rows in
    torch | ddp | mpich | host | urgent) "${rows}_rows" ;;
    *) echo "first_screen.sh: no rows '$rows': choose of torch, ddp, mpich, host, urgent" >&2; exit 2 ;;
    esac
done
