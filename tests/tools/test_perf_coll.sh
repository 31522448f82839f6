#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-perf's collectives: results, figures, JSON, bound, ranks of a launcher, and
# invalid command lines.
# Usage: test_perf_coll.sh <tryst-perf> <tryst-run> <topology of four ranks with 400
# Mbit/s each>
set -eu
perf=$1
run=$2
star=$3
unset TRYST_TOPOLOGY
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

bad() { echo "tryst-perf: $*"; cat "$dir/err" 2>/dev/null; fail=1; }

# field <name>: print its values in the last JSON, one a line
field() { grep -o "\"$1\": [^,}]*" "$dir/json" | sed 's/[^:]*: //'; }

# json_check: parse the JSON, if a parser is installed
json_check() {
    if command -v python3 >/dev/null; then
        python3 -m json.tool "$dir/json" >/dev/null 2>"$dir/err" || bad "$* writes no JSON"
    fi
}

# measure <kind> <options…>: run it, and check the common properties of all kinds
measure() {
    "$perf" "$@" --transport shm --iterations 4 --warmup 1 --json "$dir/json" >"$dir/out" 2>"$dir/err" ||
        bad "'$*' failed"
    json_check "$@"
    [ ! -s "$dir/err" ] || bad "'$*' writes to stderr"
    [ "$(field test | tr -d _)" = "\"$1\"" ] || bad "'$*': the JSON does not name the test"
    for name in seconds seconds_p99 seconds_min; do
        field "$name" | awk '!($1 > 0) { exit 1 }' || bad "'$*': $name is not above 0"
    done
    field seconds >"$dir/median"
    field seconds_p99 | paste "$dir/median" - | awk '$1 > $2 { exit 1 }' || bad "'$*': a median above its p99"
    field seconds_min | paste "$dir/median" - | awk '$1 < $2 { exit 1 }' || bad "'$*': a median below the least"
    [ "$(field iterations | sort -u)" = 4 ] || bad "'$*': not 4 iterations"
}

# results_right <sizes>: this many sizes, all checked
results_right() {
    [ "$(field bytes | wc -l)" -eq "$1" ] || bad "not $1 sizes"
    [ "$(field wrong | sort -u)" = 0 ] || bad "not all results were right, or checked"
}

# bus_is <factor>: bus bandwidth is algorithm bandwidth times this, and the latter is
# bytes by seconds
bus_is() {
    { field bytes; field seconds; field algorithm_bytes_per_s; field bus_bytes_per_s; } |
        awk -v factor="$1" '{ v[NR] = $1 }
            function is(a, b) { return a - b < 1e-6 * b + 1e-9 && b - a < 1e-6 * b + 1e-9 }
            END { n = NR / 4
                  for (i = 1; i <= n; i++)
                      if (!is(v[i] / v[n + i], v[2 * n + i]) || !is(v[2 * n + i] * factor, v[3 * n + i])) exit 1 }' ||
        bad "bandwidths are not bytes / seconds and $1 times that"
}

measure allreduce -n 3 --check --sizes 4:256K --factor 16
results_right 5
bus_is 1.3333333333
[ "$(field bound_seconds | sort -u)" = null ] || bad "a bound without a topology"
grep -q '256 KiB' "$dir/out" || bad "no row for 256 KiB"
grep -q '^# 3 ranks on 1 host over shm; f32 sum, plain memory$' "$dir/out" || bad "the table has no setup"
measure reduce -n 4 --check --sizes 8,300K --dtype f64 --op max --root 3 --memory mapped
results_right 2
bus_is 1
measure reduce -n 3 --check --sizes 64K --dtype bf16 --op premul --root 1 --inplace
results_right 1
measure broadcast -n 4 --check --sizes 1,1000,70001 --dtype u8 --root 2 --priority -3
results_right 3
bus_is 1
measure allreduce -n 4 --check --sizes 2,130K --dtype i16 --op xor --inplace --priority background
results_right 2
measure allreduce -n 3 --check --sizes 600 --dtype f16 --op avg
results_right 1
measure allgather -n 3 --check --sizes 4:300K --factor 24
results_right 4 # of 12 bytes at least, a multiple of 12
[ "$(field bytes | tr '\n' ' ')" = "12 96 2304 55296 " ] || bad "allgather: blocks are not whole elements"
bus_is 0.6666666667
measure allgather -n 4 --check --sizes 64,100K --dtype u16 --inplace
results_right 2
measure reducescatter -n 3 --check --sizes 12,300K --op min
results_right 2
bus_is 0.6666666667
measure reducescatter -n 4 --check --sizes 64K --dtype bf16 --op premul --inplace
results_right 1
measure alltoall -n 4 --check --sizes 16,100K --dtype u32 --memory mapped
results_right 2
bus_is 0.75
measure barrier -n 4
[ "$(field bytes)" = 0 ] || bad "a barrier has bytes"
[ "$(field ratio)" = null ] || bad "a barrier has a bound"
for kind in allreduce reduce broadcast allgather reducescatter alltoall; do
    measure $kind -n 1 --check --sizes 4,1M
    results_right 2
done
measure barrier -n 1

# The bound: 2 (n - 1) / n of the bytes at 50 MB/s.
export TRYST_TOPOLOGY="$star"
measure allreduce -n 4 --sizes 1M
[ "$(field bound_seconds | cut -c 1-8)" = 0.031457 ] || bad "the bound of a star is $(field bound_seconds)"
{ field seconds; field bound_seconds; field ratio; } |
    awk '{ v[NR] = $1 } END { r = v[1] / v[2] / v[3]; exit !(r > 0.99999 && r < 1.00001) }' || bad "the ratio is none"
for kind in reduce broadcast; do # all of the bytes
    measure $kind -n 4 --sizes 1M --root 2
    [ "$(field bound_seconds | cut -c 1-8)" = 0.020971 ] || bad "the bound of a $kind is $(field bound_seconds)"
done
for kind in allgather reducescatter; do # (n - 1) / n
    measure $kind -n 4 --sizes 1M
    [ "$(field bound_seconds | cut -c 1-8)" = 0.015728 ] || bad "the bound of $kind is $(field bound_seconds)"
done
# Results where large ones run a ring, with the ring's roots and with others.
for kind in allreduce reduce broadcast allgather reducescatter; do
    measure $kind -n 4 --check --sizes 300,5M --dtype u32
    results_right 2
done
measure reduce -n 4 --check --sizes 5M --root 2
results_right 1
measure alltoall -n 4 --sizes 1M
[ "$(field bound_seconds)" = null ] || bad "alltoall has a bound"
[ "$(field topology)" = "\"$star\"" ] || bad "the JSON does not name the topology"
grep -q "^# trees planned for TRYST_TOPOLOGY=$star$" "$dir/out" || bad "the table does not name the topology"
unset TRYST_TOPOLOGY

# As many iterations as fit, unless they are given; ranks of a launcher; with JSON nothing
# else on stdout.
"$run" -n 3 "$perf" allreduce --transport shm --sizes 4M --dtype u8 --json - >"$dir/lines" 2>"$dir/err" || bad "under tryst-run it failed"
sed 's/^\[0\] //' "$dir/lines" >"$dir/json"
json_check "under tryst-run it"
[ "$(field ranks)" = 3 ] || bad "under tryst-run there are not 3 ranks"
[ "$(field iterations)" -ge 10 ] || bad "under tryst-run there are not 10 iterations"
"$run" -n 2 "$perf" reduce --transport shm --root 2 --sizes 8 >"$dir/out" 2>"$dir/err" && bad "a root that is no rank passes"
grep -q 'root is not a rank of the group: 2' "$dir/err" || bad "a root that is no rank is refused without a reason"
"$run" -n 3 "$perf" pingpong --transport shm --sizes 8 >"$dir/out" 2>"$dir/err" && bad "pingpong of 3 ranks passes"
grep -q 'this job has 3 ranks, and pingpong takes an even number; start it' "$dir/err" || bad "pingpong of 3 ranks is refused without a reason"

# An urgent all-reduce under others. (Its duration is left to the lab.)
"$perf" preempt --op allreduce -n 3 --transport shm --sizes 4K,64K --iterations 5 --warmup 1 --every 20 \
    --background 1M --json "$dir/json" >"$dir/out" 2>"$dir/err" || bad "preempt --op allreduce failed"
json_check preempt
[ "$(field bytes | tr '\n' ' ')" = "4096 65536 " ] || bad "preempt: not two sizes"
for name in unloaded_seconds seconds seconds_p95 seconds_p99 bound_seconds hops_seconds bytes_per_s \
    background_alone_bytes_per_s together ratio; do
    field "$name" | awk '!($1 > 0) { exit 1 }' || bad "preempt: $name is not above 0"
done
{ field unloaded_seconds; field hops_seconds; field bound_seconds; } |
    awk '{ v[NR] = $1 } END { d = v[1] + v[3] - v[5]; exit !(d < 1e-9 && d > -1e-9) }' || bad "preempt: the bound is not the sum"
grep -q 'background: 1 MiB of all-reduces' "$dir/out" || bad "preempt: the table has no setup"

# Where the time of each edge went. Pieces of JSON: entry <name> prints it for each edge.
entry() { grep -o '{"from": [^}]*}' "$dir/json" | grep -o "\"$1\": [^,}]*" | sed 's/[^:]*: //'; }
edges() { entry from >"$dir/from"; entry to >"$dir/to"; entry bytes | paste "$dir/from" "$dir/to" -; }

# explained <kind> <edges, at least> <bytes of all edges in 4 operations> <options…>: run it, and check the table and the JSON
explained() {
    kind=$1 least=$2 bytes=$3
    shift 3
    measure "$kind" --explain "$@"
    awk '$1 == "from" { table = 1; next } /^#/ { table = 0 }
        table { lines++; sum = $5 + $6 + $7 + $8 + $9; if (NF != 9 || sum < 99 || sum > 101) wrong = 1 }
        END { exit wrong || !lines }' "$dir/out" || bad "explain $kind: the shares of an edge are not 100 %"
    edges >"$dir/edges"
    awk -v least="$least" -v bytes="$bytes" '{ sum += $3; if ($1 == $2 || ($1, $2) in seen) exit 1; seen[$1, $2] }
        END { exit NR < least || sum != bytes }' "$dir/edges" || bad "explain $kind: not $least edges with $bytes bytes: $(cat "$dir/edges")"
    for name in measured_s moving_s ungranted_s unready_s held_s idle_s; do entry $name >"$dir/$name"; done
    paste "$dir/measured_s" "$dir/moving_s" "$dir/ungranted_s" "$dir/unready_s" "$dir/held_s" "$dir/idle_s" |
        awk '{ d = $1 - $2 - $3 - $4 - $5 - $6; if (!($1 > 0) || d > 1e-4 || d < -1e-4) exit 1 } END { exit !NR }' ||
        bad "explain $kind: the times of an edge are not the measured time"
}

explained allreduce 12 $((4 * 12 * 4096)) -n 4 --sizes 4K
[ "$(wc -l <"$dir/edges")" -eq 12 ] || bad "explain: an exchange of 4 ranks does not have 12 edges"
explained allreduce 6 $((4 * 6 * 8192)) -n 4 --sizes 8K
[ "$(wc -l <"$dir/edges")" -eq 6 ] || bad "explain: one tree of 4 ranks does not have 6 edges"
explained allreduce 6 $((4 * 6 * 4 << 20)) -n 4 --sizes 4M
awk '{ b[$1, $2] = $3; out[$1]; into[$2] } END { for (e in b) { split(e, ends, SUBSEP); if (b[ends[2], ends[1]] != b[e]) exit 1 }
    for (r = 0; r < 4; r++) if (!(r in out) || !(r in into)) exit 1 }' "$dir/edges" || bad "explain: the edges of an all-reduce do not go both ways"
entry moving_s | awk '!($1 > 0) { exit 1 }' || bad "explain: an edge of slices has never moved"
grep -q '^# where the time of each edge went: 4 operations in ' "$dir/out" || bad "explain: the table has no heading"
for column in moving 'no grant' 'no data' held idle; do
    grep -q "^# $column  " "$dir/out" || bad "explain: the column '$column' is not explained"
done
explained broadcast 3 $((4 * 3 << 20)) -n 4 --sizes 1M --root 2
awk '{ b[$2] += $3 } END { for (r = 0; r < 4; r++) if (b[r] != (r == 2 ? 0 : 4194304)) exit 1 }' "$dir/edges" ||
    bad "explain: not every rank but the root receives the broadcast once"
explained alltoall 72 $((4 * 8 * 9216)) -n 9 --sizes 9K
grep -q '^# 8 edges that moved less are left out$' "$dir/out" || bad "explain: 72 edges, and none is left out"
measure allreduce -n 1 --sizes 8 --explain
grep -q '^# no rank has sent bytes to another$' "$dir/out" || bad "explain: one rank has edges"
measure allreduce -n 3 --sizes 4K,1M
grep -q explain "$dir/json" && bad "the JSON has edges without --explain"
grep -q 'no grant' "$dir/out" && bad "the table has edges without --explain"

refused() {
    "$perf" "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq 2 ] || bad "'$*' ends with $status, not 2"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || bad "'$*' is not refused with one line"
    [ ! -s "$dir/out" ] || bad "'$*' writes to stdout"
}
refused allreduce -n 0
refused allreduce -n 4097
refused allreduce -n x
refused allreduce --dtype f8
refused allreduce --op mean
refused allreduce --op and
refused allreduce --op premul --dtype i32
refused allreduce --sizes 4:1M:2
refused allreduce --sizes 1M:4
refused allreduce --sizes 6
refused allreduce --sizes 2:1M
refused allreduce --sizes ,
refused allreduce --sizes 1:4T --factor 1
refused allreduce --factor x
refused allreduce --memory host
refused allreduce --priority high
refused allreduce --priority 2147483648
refused allreduce --root 0
refused allreduce --window 4
refused allreduce --background 1G
refused allreduce --fifo
refused allreduce --transport tcp
refused allreduce --iterations 0
refused allreduce --warmup -1
refused allreduce --json
refused allreduce reduce
refused allgatherv
refused reduce --root 2
refused reduce --root -1
refused broadcast --op sum
refused broadcast --inplace
refused allgather --op sum
refused alltoall --inplace
refused reducescatter --root 1
refused barrier --sizes 4
refused barrier --check
refused barrier --dtype f32
for kind in barrier pingpong bandwidth preempt sched 'preempt --op allreduce'; do
    # shellcheck disable=SC2086 # words of a command line
    refused $kind --explain
    grep -q -e '--explain is not allowed here' "$dir/err" || bad "$kind --explain is refused without a reason"
done
refused pingpong --op sum
refused pingpong --dtype f32
refused pingpong --check
refused pingpong --priority 1
refused bandwidth --fifo
refused preempt -n 3
refused preempt --op reduce
refused preempt --dtype f32
refused preempt --op allreduce -n 513
refused preempt --op allreduce --priority 3
refused preempt --op allreduce --check
refused preempt --op allreduce --memory pinned
refused allreduce --check --memory cuda
"$perf" allreduce -n 2 --sizes 8 --iterations 1 --json "$dir/none/json" >"$dir/out" 2>"$dir/err" && bad "a file that cannot be written passes"
grep -q "$dir/none/json" "$dir/err" || bad "a file that cannot be written is not named"
exit $fail
