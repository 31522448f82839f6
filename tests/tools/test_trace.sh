#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The merged trace of pp_bench: all ranks on one clock, arrows that end after they begin.
# Once with the machine's clock for all, which must be exact, and once with one rank's
# clock a second ahead.
# Usage: test_trace.sh <pp_bench> <trace_check> <tryst-run> <tryst-info> <live_rank> <docs/slow-step.md>
set -eu
bench=$1 check=$2 run=$3 info=$4 rank=$5 page=$6
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

traced() { # <name> <arguments of trace_check…>
    name=$1
    shift
    "$bench" -n 3 --model mlp --layers 3 --hidden 16 --seq 8 --steps 2 --microbatches 3 \
        --transport shm --trace "$dir/$name.json" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
    "$check" "$dir/$name.json" 3 "$@" >"$dir/out" || { echo "trace: $name:"; fail=1; }
    cat "$dir/out"
}
traced same -1 0
says() { # <pattern>
    grep -q -- "$1" "$dir/same.json" || { echo "trace: no line matches $1"; fail=1; }
}
says '"name":"step 2",'
says '"name":"forward 2, stage 1",.*"arg":2}'
says '"name":"update, stage 0",'
says '"name":"wait for output . of stage 0",'
says '"name":"send",.*"key":"[^"]*;act0;[^"]*"'
says '"name":"receive",.*"key":"[^"]*;grad2;[^"]*"'
! grep -q 0xffffffffffffffff "$dir/same.json" || { echo "trace: a number that is none"; fail=1; }
# Tensors of many slices: bytes in flight and the window, for each lane that had any. Here
# a chain of three, so two lanes forward and two back.
"$bench" -n 3 --model mlp --layers 3 --hidden 1024 --seq 256 --steps 1 --microbatches 3 \
    --transport shm --trace "$dir/large.json" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"$check" "$dir/large.json" 3 -1 0 >"$dir/out" || { echo "trace: large:"; fail=1; }
grep -q '^4 counters$' "$dir/out" || { echo "trace: not four lanes:"; fail=1; }
cat "$dir/out"
grep -q '"name":"bytes in flight to rank 2",.*"args":{"in flight":[0-9]*,"window":[1-9][0-9]*,"slice":[1-9]' \
    "$dir/large.json" || { echo "trace: no counter of rank 2's lane"; fail=1; }
grep -q '"name":"slice",.*"slice":1,"peer":2,"key":"[^"]*;act1;[^"]*"' \
    "$dir/large.json" || { echo "trace: no second slice of rank 1's activations"; fail=1; }
TRYST_FAULT=rank=1,clock_us=1000000
export TRYST_FAULT
traced ahead 1 1000000
# trace_check itself detects a wrong clock
if "$check" "$dir/ahead.json" 3 2 1000000 >/dev/null; then
    echo "trace: trace_check accepts a wrong clock"
    fail=1
fi

# A program of the user: a file for each rank, merged.
TRYST_TRACE=1 "$run" -n 2 "$rank" "$dir" traced >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"$info" --merge-traces "$dir/trace.0" "$dir/trace.1" >"$dir/merged.json"
"$check" "$dir/merged.json" 2 1 1000000 || { echo "trace: merged:"; fail=1; }
# A collective is one span of each rank; its slices begin and end under its name.
for number in 0 1; do
    for pattern in '"name":"all-reduce",.*"bytes":400000,"trees":[1-9][0-9]*,"name":"gradient"' \
        '"name":"slice",.*"key":"[^"]*;~c/gradient/0/[ud];' \
        '"name":"slice arrived",.*"key":"[^"]*;~c/gradient/0/[ud];'; do
        grep -q -- "$pattern" "$dir/trace.$number" || { echo "trace: no line of rank $number matches $pattern"; fail=1; }
    done
done
# Without code: each rank writes its file when its context closes.
(cd "$dir" && TRYST_TRACE=trace.%r.json "$run" -n 2 "$rank" "$dir" traced >"$dir/log" 2>&1) || { cat "$dir/log"; exit 1; }
merge=$(sed -n '/^<!-- test: traces -->/,/^```$/s/^tryst-info //p' "$page")
[ -n "$merge" ] || { echo "trace: $page joins no files"; fail=1; }
(cd "$dir" && eval "\"$info\" $merge") || { echo "trace: 'tryst-info $merge' fails"; fail=1; }
"$check" "$dir/all.json" 2 1 1000000 || { echo "trace: by TRYST_TRACE=trace.%r.json:"; fail=1; }
TRYST_TRACE=$dir/one "$run" -n 2 "$rank" "$dir" traced >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
grep -q '"rank":0' "$dir/one" || { echo "trace: without %r rank 0 has not written: $(head -c 300 "$dir/one")"; fail=1; }
TRYST_TRACE=$dir/none/%r.json "$run" -n 2 "$rank" "$dir" traced >"$dir/log" 2>&1 || { echo "trace: a file that cannot be written ends the program"; fail=1; }
for number in 0 1; do
    grep -q "rank $number.* warn: cannot write the trace to $dir/none/$number.json: No such file" "$dir/log" || { echo "trace: no reason of rank $number: $(cat "$dir/log")"; fail=1; }
done
TRYST_TRACE=$dir/idle.json "$info" --check >/dev/null 2>&1 || : # opens a context, and no group
[ ! -e "$dir/idle.json" ] || { echo "trace: tryst-info --check writes a trace"; fail=1; }
TRYST_TRACE=trace.jsn "$bench" -n 2 --model mlp --transport shm >"$dir/log" 2>&1 && { echo "trace: TRYST_TRACE=trace.jsn passes"; fail=1; }
grep -q "TRYST_TRACE=trace.jsn: must be 1 or 0, or a file" "$dir/log" || { echo "trace: TRYST_TRACE=trace.jsn has no reason: $(cat "$dir/log")"; fail=1; }
refused() { # <pattern> <file…>
    pattern=$1
    shift
    "$info" --merge-traces "$@" >"$dir/out" 2>"$dir/err" && { echo "trace: it merges $*"; fail=1; }
    grep -q "$pattern" "$dir/err" || { echo "trace: it does not say '$pattern': $(cat "$dir/err")"; fail=1; }
    [ ! -s "$dir/out" ] || [ "$pattern" = 'ends early' ] || { echo "trace: a refused merge writes: $*"; fail=1; }
}
refused 'not a trace of' "$check"
head -c 1000 "$dir/trace.0" >"$dir/half"
refused 'ends early' "$dir/half" "$dir/trace.1"
# Files of two runs, a rank twice, a missing rank, a file without an origin, a merged one.
mv "$dir/trace.1" "$dir/older.1"
rm "$dir/trace.0"
TRYST_TRACE=1 "$run" -n 2 "$rank" "$dir" traced >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
refused "older.1: the trace is of rank 1 of 2 in another run than .*trace.0 (rank 0 of 2)" "$dir/trace.0" "$dir/older.1"
refused "trace.1: the trace is of rank 1, and so is .*trace.1" "$dir/trace.1" "$dir/trace.0" "$dir/trace.1"
refused "no file of rank 1, but .*trace.0 is of a run of 2 ranks" "$dir/trace.0"
sed '1s/"otherData":{[^}]*},//' "$dir/trace.1" >"$dir/bare.1"
refused "bare.1: the trace has no run and rank" "$dir/trace.0" "$dir/bare.1"
refused "merged.json: not the trace of one rank" "$dir/merged.json"
mkfifo "$dir/pipe"
cat "$dir/trace.1" >"$dir/pipe" &
"$info" --merge-traces "$dir/trace.0" "$dir/pipe" >"$dir/merged.json" || { echo "trace: a pipe is not merged"; fail=1; }
"$check" "$dir/merged.json" 2 1 1000000 || { echo "trace: merged from a pipe:"; fail=1; }
refused 'No such file' "$dir/none"
exit $fail
