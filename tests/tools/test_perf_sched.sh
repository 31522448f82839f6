#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-perf sched --simulate: times that were computed by hand, JSON, picture, and invalid
# command lines and profiles.
# Usage: test_perf_sched.sh <tryst-perf>
set -eu
perf=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

bad() { echo "tryst-perf sched: $*"; cat "$dir/err" 2>/dev/null; fail=1; }

# field <name>: print its values in the last JSON, one a line
field() { grep -o "\"$1\": [^,}]*" "$dir/json" | sed 's/[^:]*: //'; }

# is <name> <values>: the JSON has these
is() { [ "$(field "$1" | tr '\n' ' ')" = "$2 " ] || bad "$1: $(field "$1" | tr '\n' ' '), not $2"; }

# The step of test_order_replay.c: three layers, gradients of 3, 1 and 1 s.
cat >"$dir/step.json" <<'END'
{"tryst_profile": 1, "nodes": [
 {"name": "b<2>&", "seconds": 1}, {"name": "g2", "bytes": 3000, "after": ["b<2>&"]},
 {"name": "b1", "seconds": 1, "after": ["b<2>&"]}, {"name": "g1", "bytes": 1000, "after": ["b1"]},
 {"name": "b0", "seconds": 1, "after": ["b1"]}, {"name": "g0", "bytes": 1000, "after": ["b0"]},
 {"name": "f0", "seconds": 2, "after": ["b0", "g0"]}, {"name": "f1", "seconds": 2, "after": ["f0", "g1"]},
 {"name": "f2", "seconds": 2, "after": ["f1", "g2"]}]}
END
# simulate <profile> <options…>: at 1,000 bytes a second
simulate() {
    profile=$1
    shift
    "$perf" sched --simulate --profile "$profile" --gbit 8e-6 --json "$dir/json" "$@" >"$dir/out" 2>"$dir/err" ||
        bad "'$*' failed"
    [ ! -s "$dir/err" ] || bad "'$*' writes to stderr"
}

simulate "$dir/step.json" --draw "$dir/step.svg"
is order '"fifo" "buckets" "priority" "preempt"'
is step_seconds '12 14 11 10'
is gap_order '0.2 0.4 0.1 0'
is optimum_seconds 10
is possible_gain 0.166666667
is operations_bytes 5000
is actions_seconds 9
is bytes_per_s 1000
[ "$(grep -c '^ *\(fifo\|buckets\|priority\|preempt\) ' "$dir/out")" = 4 ] || bad "the table has not four orders"
grep -q 'possible gain over fifo: 16.7 %' "$dir/out" || bad "the table has no possible gain"
# a last byte 0.5 s before the end: f0 begins at 4.5
simulate "$dir/step.json" --latency 500000
is step_seconds '12.5 14.5 11.5 10.5'
is latency_seconds 0.5
# {g2}, {g1, g0}
simulate "$dir/step.json" --bucket 2000
is step_seconds '12 12 11 10'
# an operation after another one: there are no buckets
echo '{"tryst_profile": 1, "nodes": [{"name": "a", "bytes": 1000}, {"name": "b", "bytes": 1000, "after": ["a"]}]}' >"$dir/two.json"
simulate "$dir/two.json"
is step_seconds '2 null 2 2'
grep -q '^ *buckets *- *-$' "$dir/out" || bad "the table has buckets that are none"
# no operation; nothing that takes time; no node
echo '{"tryst_profile": 1, "nodes": [{"name": "a", "seconds": 2}]}' >"$dir/one.json"
simulate "$dir/one.json" --draw "$dir/one.svg"
is step_seconds '2 2 2 2'
is possible_gain 0
echo '{"tryst_profile": 1, "nodes": [{"name": "a", "bytes": 0}, {"name": "b", "seconds": 0, "after": ["a"]}]}' >"$dir/zero.json"
simulate "$dir/zero.json" --draw "$dir/zero.svg"
is gap_order 'null null null null'
is possible_gain null
# of standard input; JSON alone on stdout
"$perf" sched --simulate --profile - --gbit 1 --json - <"$dir/step.json" >"$dir/json" 2>"$dir/err" || bad "standard input fails"
[ "$(head -c 1 "$dir/json")" = '{' ] || bad "--json - writes more than JSON"
is operations 3
if command -v python3 >/dev/null; then
    python3 -m json.tool "$dir/json" >/dev/null 2>"$dir/err" || bad "no JSON"
fi

# Profiles of ranks: the slowest one decides when a gradient is ready, and what is left.
# recorded <run> <rank> <size>: the profile on stdin with this origin
recorded() { sed "1s/{\"tryst_profile\": 1,/{\"tryst_profile\": 2, \"run\": \"$1\", \"rank\": $2, \"size\": $3,/"; }
run=9f86d081884c7d65
sed 's/"b1", "seconds": 1/"b1", "seconds": 3/' "$dir/step.json" | recorded $run 1 2 >"$dir/rank.1.json"
sed 's/"f1", "seconds": 2/"f1", "seconds": 7/' "$dir/step.json" | recorded $run 0 2 >"$dir/rank.0.json"
simulate "$dir/rank.%r.json"
is actions_seconds 16
is optimum_seconds 17
is profile_run "\"$run\""
is profile_ranks 2
grep -q "^# recorded by ranks 0 to 1, run $run$" "$dir/out" || bad "the table does not name the ranks"
simulate "$dir/rank.1.json"
grep -q "^# recorded by rank 1 of 2, run $run$" "$dir/out" || bad "the table does not name the rank"
# Files of which a merge would be wrong: each is named.
unmerged() { # <pattern> <what>
    "$perf" sched --simulate --profile "$dir/rank.%r.json" --gbit 1 >"$dir/out" 2>"$dir/err" && bad "$2 is no error"
    grep -q "$1" "$dir/err" || bad "$2: not '$1'"
    [ "$(wc -l <"$dir/err")" = 1 ] || bad "$2: not one line"
    [ ! -s "$dir/out" ] || bad "$2: writes to stdout"
}
recorded 1111111111111111 2 4 <"$dir/step.json" >"$dir/rank.2.json"
unmerged 'rank.2.json with .*rank.0.json: the run of .*rank.0.json has 2 ranks' 'a file of a larger run'
rm "$dir/rank.2.json"
recorded 1111111111111111 1 2 <"$dir/step.json" >"$dir/rank.1.json"
unmerged 'rank.1.json (rank 1 of 2) with .*rank.0.json (rank 0 of 2): the files are of two runs' 'a file of another run'
recorded $run 0 2 <"$dir/step.json" >"$dir/rank.1.json"
unmerged 'rank.1.json with .*rank.0.json: both are of rank 0' 'a rank twice'
cp "$dir/step.json" "$dir/rank.1.json"
unmerged 'rank.1.json has no "run" and "rank"' 'a file without a run'
recorded $run 0 9 <"$dir/step.json" >"$dir/rank.0.json"
recorded $run 2 9 <"$dir/step.json" >"$dir/rank.2.json"
rm "$dir/rank.1.json"
unmerged 'cannot find .*rank.1.json, .*rank.3.json.* and 3 more: .*rank.0.json is of a run of 9 ranks' 'a missing rank'
cp "$dir/step.json" "$dir/rank.0.json"
unmerged 'rank.0.json has no "run"' 'a first file without a run'
sed 's/"run": "9/"run": "x/' "$dir/rank.2.json" >"$dir/rank.0.json"
unmerged 'rank.0.json:1:.*16 digits' 'a run that is no number'
recorded $run 9 9 <"$dir/step.json" >"$dir/rank.0.json"
unmerged 'rank.0.json:1:.*from 0 to 8' 'a rank beyond the last one'
"$perf" sched --simulate --profile "$dir/other.%r.json" --gbit 1 >"$dir/out" 2>"$dir/err" && bad "no profile is no error"
grep -q "other.0.json" "$dir/err" || bad "the error does not name the file of rank 0"

# The picture: each order's red strips add up to its step, 1000 pixels for 14 s; a time in
# which no action runs is drawn in each order.
[ "$(grep -c "class='order'" "$dir/step.svg")" = 4 ] || bad "the picture has not four orders"
[ "$(grep -c '<title>wait' "$dir/step.svg")" -ge 4 ] || bad "the picture has no waits"
grep -q 'b&lt;2&gt;&amp;' "$dir/step.svg" || bad "the picture has names that are no XML"
awk -F"'" '
    /class=.order/ { order++ }
    /<rect/ && /#d01c1c/ && order { strips[order] += $6 }
    function is(a, b) { return a - b < 1 && b - a < 1 }
    END { exit !(is(strips[1], 12e3 / 14) && is(strips[2], 1e3) && is(strips[3], 11e3 / 14) && is(strips[4], 10e3 / 14)) }
' "$dir/step.svg" || bad "the chains are not as long as the steps"
# fifo: b2 1 s, g2 g1 g0 5 s, f0 f1 f2 6 s
[ "$(awk '/class=.order/ { order++ } /<rect/ && /#d01c1c/ && order == 1' "$dir/step.svg" | wc -l)" = 7 ] ||
    bad "the chain of fifo has not 7 parts"
# preempt: b2 b1 b0, g0 interrupts g2 on the network, f0 f1 f2; the network's lane is the lowest
[ "$(awk -F"'" '/class=.order/ { order++ } /<rect/ && /#d01c1c/ && order == 4 { print $4 }' "$dir/step.svg" | sort -n |
    uniq -c | awk '{ print $1 }' | tr '\n' ' ')" = "6 1 " ] || bad "the chain of preempt is not that of g0"

refused() {
    "$perf" sched "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq 2 ] || bad "'$*' ends with $status, not 2"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || bad "'$*' is not refused with one line"
    [ ! -s "$dir/out" ] || bad "'$*' writes to stdout"
}
refused --simulate
refused --simulate --profile "$dir/step.json"
refused --simulate --gbit 1
refused --simulate --profile "$dir/step.json" --gbit 0
refused --simulate --profile "$dir/step.json" --gbit 1 --latency -1
refused --simulate --profile "$dir/step.json" --gbit 1 --bucket 0
refused --simulate --profile "$dir/step.json" --gbit 1 -n 2
refused --simulate --profile "$dir/step.json" --gbit 1 --sizes 4
refused --profile "$dir/step.json" --gbit 1
refused
refused -n 2
refused --profile "$dir/step.json" -n 0
refused --profile "$dir/step.json" --iterations 0
refused --profile "$dir/step.json" --transport tcp
refused --profile "$dir/step.json" --sizes 4
refused --profile "$dir/step.json" --check
"$perf" allreduce --simulate >"$dir/out" 2>"$dir/err" && bad "allreduce --simulate passes"

"$perf" sched --help >"$dir/out" || bad "--help fails"
grep -q '^Usage: tryst-perf sched' "$dir/out" || bad "--help does not contain the usage"

fails() { # <text> <options…>
    text=$1
    shift
    "$perf" sched --simulate --gbit 1 "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq 1 ] || bad "'$*' ends with $status, not 1"
    grep -q "$text" "$dir/err" || bad "'$*' is not refused with '$text'"
    [ "$(wc -l <"$dir/err")" -eq 1 ] || bad "'$*' is not refused with one line"
}
fails "$dir/none.json" --profile "$dir/none.json"
echo '{"tryst_profile": 1, "nodes": [{"name": "a", "seconds": 1, "after": ["a"]}]}' >"$dir/cycle.json"
fails "cycle.json:1:" --profile "$dir/cycle.json"
fails "too large for a number" --profile "$dir/step.json" --gbit 1e-320
fails "$dir/no/x.svg" --profile "$dir/step.json" --draw "$dir/no/x.svg"
fails "$dir/no/json" --profile "$dir/step.json" --json "$dir/no/json"
exit $fail
