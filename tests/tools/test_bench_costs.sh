#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# pp_bench schedules --costs: lines with known figures, costs from a file, schedules that are not defined, refusals.
# Usage: test_bench_costs.sh <pp_bench>
set -eu
bench=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
bad() { echo "bench_costs: $*"; fail=1; }

# line <schedule> <figures>: the last table has this line
line() {
    found=$(awk -v name="$1" '$1 == name { $1 = ""; print }' "$dir/out")
    [ "$found" = " $2" ] || bad "$1: '$found' instead of ' $2'"
}
costs() { "$bench" schedules --costs "$@" >"$dir/out" 2>&1 || bad "--costs $*: $(cat "$dir/out")"; }

"$bench" schedules | grep -v '^ ' | sed '/^$/,$d' >"$dir/names" # the list without --costs has each name alone in a line
[ "$(wc -l <"$dir/names")" -ge 13 ] || bad "found too few schedules: $(cat "$dir/names")"

# 4 ranks, 8 micro-batches, F = I = W: a rank computes 24 ms; the bubble of 1f1b is 9 ms, with two chunks a half of it.
costs 1,1,1 -n 4 -m 8
while read -r name; do
    grep -q "^$name " "$dir/out" || bad "--costs has no line of $name"
done <"$dir/names"
line naive '96.000 75.0 75.0 1.0 48'
line gpipe '33.000 27.3 27.3 8.0 48'
line 1f1b '33.000 27.3 27.3 4.0 48'
line interleaved '28.500 15.8 15.8 5.5 112'
line pipedream-2bw '24.000 27.3 0.0 4.0 48'

# The same from a file, a line for each stage; parts that a chunk covers in part; a slow part bounds the step.
printf '1 1 1\n1, 1, 1\n1\t1\t1\n1 1 1\n' >"$dir/four"
costs "$dir/four" -n 4 -m 8
line 1f1b '33.000 27.3 27.3 4.0 48'
line interleaved '28.500 15.8 15.8 5.5 112'
printf '2 2 2\n2 2 2\n' >"$dir/two"
costs "$dir/two" -n 4 --microbatches 8
line interleaved '28.500 15.8 15.8 5.5 112'
printf '4 4 4\n' >"$dir/one"
costs "$dir/one" -n 4 -m 8
line 1f1b '33.000 27.3 27.3 4.0 48'
printf '1 1 1\n1 1 1\n3 2 3\n1 1 1\n' >"$dir/slow"
costs "$dir/slow" -n 4 -m 8
# 8 × 8 ms; the three others compute 24 ms of them, and the first step fills in 2 ms and drains in 4
line pipedream-2bw '64.000 51.4 46.9 4.0 48'

# Fewer micro-batches than the ranks need.
costs 10,10,10 -n 5 -m 3
line 1f1b '210.000 57.1 57.1 3.0 24'
grep -q '^pipedream-2bw .*5 ranks and 3 micro-batches: .*at least ranks - 1' "$dir/out" || bad "no reason: $(cat "$dir/out")"
[ "$(grep -c . "$dir/out")" -eq $(($(wc -l <"$dir/names") + 3)) ] || bad "a schedule has no line or two: $(cat "$dir/out")"

# refused <words> <option…>
refused() {
    words=$1 status=0
    shift
    "$bench" schedules "$@" >"$dir/out" 2>&1 || status=$?
    [ $status -eq 2 ] || bad "$*: exit status $status"
    grep -qF -e "$words" "$dir/out" || bad "$*: no '$words' in $(cat "$dir/out")"
}
for wrong in 1,2 1,2,3,4 1,-1,1 nan,1,1 1,x,1; do
    refused "as 10,10,10, or a file" --costs "$wrong"
done
printf '1 1 1\n1 1\n' >"$dir/short"
refused 'line 2 must be three numbers' --costs "$dir/short"
: >"$dir/empty"
refused 'the file has no line' --costs "$dir/empty"
refused 'cannot read the file' --costs "$dir"
refused 'leave out --trace' --costs 1,1,1 --trace 1f1b
exit $fail
