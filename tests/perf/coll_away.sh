#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measure the time that rank 0 spends in an all-reduce of 8 bytes over shared memory, where both ranks compute for 2 ms
# after each one: the median of each run, in us. With the library of another build, both take turns; a ratio below 1:
# this build is faster. The figures are medians over the rounds, with the least and the most.
#
# usage: coll_away.sh <tryst-run> <perf_coll_away> [folder of the other libtryst] [rounds (15)]
set -euo pipefail
run=$1 program=$2 before=${3:-} rounds=${4:-15}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

wait_us() { timeout 60 "$run" -n 2 "$program" 200 | sed 's/.* //'; }

figure() { # <name> <file>
    sort -n "$2" | awk -v name="$1" '{ v[NR] = $1 } END { printf "%s: %.3g  (%.3g to %.3g)\n", name, v[int((NR + 1) / 2)], v[1], v[NR] }'
}

for _ in $(seq "$rounds"); do
    this=$(wait_us)
    echo "$this" >>"$dir/this"
    [ -n "$before" ] || continue
    other=$(LD_LIBRARY_PATH=$before wait_us)
    echo "$other" >>"$dir/other"
    echo "$this $other" | awk '{ print $1 / $2 }' >>"$dir/ratio"
done
echo "$(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg), $rounds rounds"
figure "wait of rank 0, us" "$dir/this"
[ -z "$before" ] || { figure "of the other build" "$dir/other"; figure "ratio" "$dir/ratio"; }
