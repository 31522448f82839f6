#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compare all-reduces from Python (bindings/python) with those of the C program tryst-perf: fp32, in place, over shared
# memory. Each round runs all once, one after the other; the figures are medians over the rounds, and of the differences
# and ratios to the C program's time in the same round.
#
# usage: python.sh <build tree> [rounds (15)] [bytes …]    (8 1048576)
#        PYTHON_RANKS=2            ranks, a processor each as far as there are enough
#        TRYST_PYTHON_VENV=FOLDER  an environment with NumPy and cffi (bindings/python/test.sh)
set -euo pipefail
build=$(cd "$1" && pwd)
rounds=${2:-15}
shift $(($# < 2 ? $# : 2))
[ $# -gt 0 ] || set -- 8 1048576
ranks=${PYTHON_RANKS:-2}
here=$(dirname "$(readlink -f "$0")")
test=$here/../../bindings/python/test.sh
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

count() { # <bytes>: operations of one run
    local count=$((2000000 / ($1 / 1000 + 50)))
    echo $((count < 50 ? 50 : count))
}

seconds() { sed -n 's/.*"seconds": \([0-9.e+-]*\).*/\1/p'; }

ours() { # <bytes>
    timeout 120 "$build/bin/tryst-perf" allreduce -n "$ranks" --transport shm --inplace -s "$1" -i "$(count "$1")" \
        --json - 2>"$dir/errors" | seconds
}

python() { # <prepared|plain> <bytes>
    TRYST_TRANSPORT=shm timeout 120 "$test" run "$build" "$ranks" ../../../tests/perf/python_allreduce "$1" "$2" \
        "$(count "$2")" 2>"$dir/errors" | seconds
}

median() { sort -g | awk '{ v[NR] = $1 } END { printf "%.6g", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

"$test" build "$build" >"$dir/errors" 2>&1 || { cat "$dir/errors"; exit 1; }
echo "$ranks ranks, $rounds rounds, load $(cut -d' ' -f1-3 /proc/loadavg); microseconds"
for bytes; do
    for ((round = 0; round < rounds; round++)); do
        c=$(ours "$bytes") prepared=$(python prepared "$bytes") plain=$(python plain "$bytes")
        [ "$(echo "$c $prepared $plain" | wc -w)" -eq 3 ] || { cat "$dir/errors" >&2; exit 1; }
        echo "$c $prepared $plain"
    done >"$dir/figures"
    echo "$bytes bytes: C $(awk '{ print $1 * 1e6 }' "$dir/figures" | median)"
    for column in 2 3; do
        name=$([ $column = 2 ] && echo "prepared collective and Tensor" || echo "group.allreduce(array)")
        echo "    $name: $(awk "{ print \$$column * 1e6 }" "$dir/figures" | median)," \
            "$(awk "{ print (\$$column - \$1) * 1e6 }" "$dir/figures" | median) more," \
            "ratio $(awk "{ print \$$column / \$1 }" "$dir/figures" | median)"
    done
done
