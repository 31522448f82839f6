#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-perf as users of OSU's benchmarks, nccl-tests and perftest call it: begin, end and
# factor of a sweep, time instead of iterations, CSV, both ways, several pairs, processors,
# names of collectives, and the help of each sort of kinds.
# Usage: test_perf_habits.sh <tryst-perf> <tryst-run>
set -eu
perf=$1
run=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
export TRYST_TRANSPORT=shm

bad() { echo "tryst-perf: $*"; cat "$dir/err" 2>/dev/null; fail=1; }

# csv <options…>: run it with --csv; the lines without the header go to $dir/rows
csv() {
    "$perf" "$@" --csv >"$dir/out" 2>"$dir/err" || bad "'$*' fails"
    head -n 1 "$dir/out" >"$dir/head"
    tail -n +2 "$dir/out" >"$dir/rows"
}

# sizes_are <sizes>: those of the last rows
sizes_are() { [ "$(cut -d, -f1 "$dir/rows" | tr '\n' ' ')" = "$1 " ] || bad "the sizes are not $1: $(cut -d, -f1 "$dir/rows")"; }

# times_rise: of each row min ≤ p50 ≤ p99 ≤ p99.9, and min ≤ mean ≤ p99.9
times_rise() {
    awk -F, '!($3 > 0 && $3 <= $5 && $5 <= $6 && $6 <= $7 && $3 <= $4 && $4 <= $7 * 1.001) { exit 1 }' "$dir/rows" ||
        bad "$1: the times of a row do not rise: $(cat "$dir/rows")"
}

csv pingpong -b 8 -e 2K -f 16 -i 2000
sizes_are "8 128 2048"
[ "$(cat "$dir/head")" = size_bytes,transfers,min_us,mean_us,p50_us,p99_us,p99.9_us,MB_per_s ] || bad "pingpong: the header is $(cat "$dir/head")"
times_rise pingpong
awk -F, '{ r = $1 / $5 / $8; if (r < 0.999 || r > 1.001 || $2 != 2000) exit 1 }' "$dir/rows" || bad "pingpong: MB/s is not size / p50"
csv bandwidth -b 1K -e 1K -i 2000
sizes_are 1024
[ "$(cut -d, -f9 "$dir/head")" = messages_per_s ] || bad "bandwidth: the header is $(cat "$dir/head")"
awk -F, '{ r = $1 * $9 / $8 / 1e6; s = 1e6 / $4 / $9; if (r < 0.999 || r > 1.001 || s < 0.999 || s > 1.001) exit 1 }' "$dir/rows" ||
    bad "bandwidth: MB/s is not size x messages/s, or those are not 1 / mean"
csv all_reduce -n 3 -b 12 -e 48K -f 64 -i 50 --check
sizes_are "12 768 49152"
[ "$(cat "$dir/head")" = size_bytes,iterations,min_us,mean_us,p50_us,p99_us,p99.9_us,alg_MB_per_s,bus_MB_per_s,trees,bound_us,ratio,wrong_elements ] ||
    bad "allreduce: the header is $(cat "$dir/head")"
times_rise allreduce
awk -F, '$2 != 50 || $13 != 0 || NF != 13 { exit 1 }' "$dir/rows" || bad "allreduce: not 50 right iterations"
csv pingpong -e 16 -i 20
sizes_are "8 16"
csv pingpong -b 32M -f 2 -i 1 -w 0
sizes_are "33554432 67108864"
csv barrier -i 20
sizes_are 0

# Time: a run that counts lasts half of it at least. The upper bound is wide: the machine has other load.
for kind in pingpong bandwidth all_reduce; do
    csv $kind -s 1K -t 400ms
    awk -F, -v kind=$kind '{ s = $2 * $4 * (kind == "pingpong" ? 2 : 1) / 1e6; if (s < 0.19 || s > 8) exit 1 }' "$dir/rows" ||
        bad "$kind -t 400ms does not measure for about 0.4 s: $(cat "$dir/rows")"
done

# Both ways and several pairs: rates are of all pairs, in both directions.
"$perf" bandwidth -n 4 --bidirectional -s 64K -i 300 --json "$dir/json" >"$dir/out" 2>"$dir/err" || bad "two pairs, both ways, fail"
grep -q '"pairs": 2, "bidirectional": true' "$dir/json" || bad "the JSON does not name pairs and directions"
grep -q 'both ways, 2 pairs' "$dir/out" || bad "the table does not name pairs and directions"
grep -o '"seconds_mean": [0-9.e-]*\|"messages_per_s": [0-9.e+]*' "$dir/json" | sed 's/.* //' | paste -s - >"$dir/two"
# mean is the slowest pair's, so two pairs make at least 2 / mean
awk '{ if (!($1 * $2 >= 1.999)) exit 1 }' "$dir/two" || bad "rates of two pairs are not added: $(cat "$dir/two")"
"$run" -n 4 "$perf" pingpong -s 8 -i 50 --csv >"$dir/out" 2>"$dir/err" || bad "two pairs under a launcher fail"
[ "$(grep -c '^\[0\] ' "$dir/out")" = "$(wc -l <"$dir/out")" ] || bad "not rank 0 alone prints"

# Names: with and without '_', and those of before.
for kind in all_reduce allreduce all_gather allgather reduce_scatter reducescatter all_to_all alltoall; do
    csv $kind -b 8 -e 8 -i 2
done
"$perf" preempt --op all_reduce -s 4K -i 1 -w 0 --every 1 --background 64K >"$dir/out" 2>"$dir/err" || bad "preempt --op all_reduce fails"

# Processors: the one that this shell has, for both ranks; one that is none.
mine=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
csv pingpong -s 8 -i 20 --cores "$mine"
"$perf" pingpong -s 8 -i 20 --cores 1023 >"$dir/out" 2>"$dir/err" && bad "a processor that does not exist passes"
grep -q 'cannot bind a rank to processor 1023' "$dir/err" || bad "a processor that does not exist is refused without a reason"

refused() {
    "$perf" "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq 2 ] || bad "'$*' ends with $status, not 2"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || bad "'$*' is not refused with one line"
    [ ! -s "$dir/out" ] || bad "'$*' writes to stdout"
}
refused pingpong -b 8 -e 4
refused pingpong -b 0
refused pingpong -b 8 -s 8
refused pingpong -t 1s -i 5
refused pingpong -t soon
refused pingpong -t 0
refused pingpong --csv --json -
refused pingpong --cores 1-
refused pingpong --cores 3-1
refused pingpong --cores a
refused pingpong --bidirectional
refused pingpong --port 4711
refused allreduce --csv --explain
refused allreduce --bidirectional
refused preempt --csv
refused preempt -t 1s
refused bandwidth -n 5
refused barrier -b 8

# The help of each sort of kinds names its own options.
# helps <kind> <pattern>
helps() {
    "$perf" "$1" --help >"$dir/out" || bad "$1 --help fails"
    grep -q -e "$2" "$dir/out" || bad "$1 --help has no $2"
}
helps bandwidth '^      --bidirectional '
helps pingpong 'osu_latency'
helps all_reduce 'algbw'
helps preempt '^      --fifo '
helps sched '^      --bucket '
"$perf" --help >"$dir/out" || bad "--help fails"
for option in begin end factor time csv cores port; do
    grep -q -e "--$option " "$dir/out" || bad "--help has no --$option"
done
exit $fail
