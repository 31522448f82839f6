#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-perf sched over ranks: policies, figures, JSON, the bound, one rank, ranks of a
# launcher, failures; and that urgency wins where it halves the step.
# Usage: test_perf_sched_ranks.sh <tryst-perf> <tryst-run> <topology of four ranks with
# 400 Mbit/s each> <transport>
set -eu
perf=$1
run=$2
star=$3
transport=$4
unset TRYST_TOPOLOGY
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

bad() { echo "tryst-perf sched: $*"; cat "$dir/err" 2>/dev/null; fail=1; }

# field <name>: print its values in the last JSON, one a line
field() { grep -o "\"$1\": [^,}]*" "$dir/json" | sed 's/[^:]*: //'; }

# measure <ranks> <profile> <options…>: run it, and check what all runs have in common:
# the actions, one after the other, take $least seconds
measure() {
    ranks=$1 profile=$2
    shift 2
    timeout 60 "$perf" sched -n "$ranks" --profile "$profile" --transport "$transport" --json "$dir/json" "$@" \
        >"$dir/out" 2>"$dir/err" || bad "-n $ranks '$*' failed"
    # on a busy machine the library may warn that something took long
    ! grep -v '^tryst: .* warn: ' "$dir/err" || bad "-n $ranks '$*' writes to stderr"
    if command -v python3 >/dev/null; then
        python3 -m json.tool "$dir/json" >/dev/null 2>"$dir/err" || bad "-n $ranks '$*' writes no JSON"
    fi
    [ "$(field policy | tr '\n' ' ')" = '"fifo" "buckets" "priority" "ours" ' ] || bad "not the four policies"
    [ "$(field ranks)" = "$ranks" ] || bad "not $ranks ranks"
    field step_seconds | grep -v null | awk -v least="$least" '!($1 >= least - 1e-6) { exit 1 }' ||
        bad "a step is shorter than its actions, $least s: $(field step_seconds)"
    { field optimum_seconds; field step_seconds; field gap_order; } | awk '
        { v[NR] = $1 }
        END { for (i = 2; i <= 5; i++)
                  if (v[i] != "null" && (d = v[i] / v[1] - 1 - v[i + 4]) * d > 1e-12) exit 1 }' ||
        bad "a gap is not step / optimum - 1"
}

cat >"$dir/small.json" <<'END'
{"tryst_profile": 1, "nodes": [
 {"name": "b1", "seconds": 0.01}, {"name": "g1", "bytes": 300001, "after": ["b1"]},
 {"name": "b0", "seconds": 0.01, "after": ["b1"]}, {"name": "g0", "bytes": 70000, "after": ["b0"]},
 {"name": "none", "bytes": 0, "after": ["b0"]},
 {"name": "f0", "seconds": 0.005, "after": ["b0", "g0", "none"]}, {"name": "f1", "seconds": 0.005, "after": ["f0", "g1"]}]}
END
least=0.03
for ranks in 2 4; do
    measure $ranks "$dir/small.json" --iterations 3 --warmup 1
    [ "$(field steps)" = 3 ] || bad "not 3 steps"
    [ "$(field operations_bytes)" = 370001 ] || bad "not as many bytes"
    [ "$(field gap_certificate | sort -u)" = null ] || bad "a bound without a topology"
    field bytes_per_s | awk '!($1 > 0) { exit 1 }' || bad "no rate"
    grep -q "^# $ranks ranks on 1 host over $transport$" "$dir/out" || bad "the table has no setup"
    [ "$(grep -c '^ *\(fifo\|buckets\|priority\|ours\) ' "$dir/out")" = 4 ] || bad "the table has not four policies"
done

# The picture: a measured step of each policy, and the best order in virtual time.
measure 2 "$dir/small.json" --iterations 2 --warmup 1 --draw "$dir/steps.svg"
[ "$(grep "class='order'" "$dir/steps.svg" | sed 's/.*>\(.*\)<.*/\1/' | tr '\n' ' ')" = "fifo buckets priority ours preempt " ] ||
    bad "the picture has not these rows"

# The optimum, and the times in virtual time, are those at the rate and latency of the run.
gbit=$(field bytes_per_s | awk '{ printf "%.12g", $1 * 8e-9 }')
latency=$(field latency_seconds | awk '{ printf "%.12g", $1 * 1e6 }')
{ field optimum_seconds; field possible_gain; field simulated_seconds; } >"$dir/measured"
"$perf" sched --simulate --profile "$dir/small.json" --gbit "$gbit" --latency "$latency" --json "$dir/json" >"$dir/out"
{ field optimum_seconds; field possible_gain; field step_seconds; } | paste "$dir/measured" - |
    awk '{ d = $1 - $2 } d * d > 1e-14 { exit 1 } END { exit NR != 6 }' || bad "not the optimum at the measured rate"

# The bound of the star: 2 (n - 1) / n of the bytes at 50 MB/s, so 33.33 MB/s.
export TRYST_TOPOLOGY="$star"
measure 4 "$dir/small.json" --iterations 1 --warmup 0
field step_seconds >"$dir/steps"
field gap_certificate >"$dir/gaps"
field certificate_seconds >"$dir/certificate"
unset TRYST_TOPOLOGY
"$perf" sched --simulate --profile "$dir/small.json" --gbit 0.26666666667 --json "$dir/json" >"$dir/out"
{ cat "$dir/certificate"; field optimum_seconds; cat "$dir/steps" "$dir/gaps"; } | awk '
    { v[NR] = $1 }
    function is(a, b) { return (a - b) * (a - b) < 1e-12 }
    END { if (!is(v[1], v[2])) exit 1
          for (i = 3; i <= 6; i++) if (!is(v[i] / v[1] - 1, v[i + 4])) exit 1 }' || bad "the bound is not that of the star"

# One rank, whose operations take no time; actions that overlap; an operation after
# another one, so no buckets. (Other load may delay a policy, but hardly all three: one
# after the other the actions take 0.1 s.)
cat >"$dir/lanes.json" <<'END'
{"tryst_profile": 1, "nodes": [
 {"name": "load", "seconds": 0.04}, {"name": "b", "seconds": 0.02}, {"name": "g", "bytes": 4096, "after": ["b"]},
 {"name": "h", "bytes": 4096, "after": ["g"]}, {"name": "f", "seconds": 0.03, "after": ["h"]},
 {"name": "end", "seconds": 0.01, "after": ["f", "load"]}]}
END
least=0.06
measure 1 "$dir/lanes.json" --iterations 3
[ "$(field step_seconds | sed -n 2p)" = null ] || bad "buckets of operations that follow one another"
field step_seconds | grep -v null | sort -g | awk 'NR == 1 { exit !($1 < 0.09) }' || bad "actions do not overlap: $(field step_seconds | tr '\n' ' ')"
echo '{"tryst_profile": 1, "nodes": [{"name": "a", "seconds": 0.01}]}' >"$dir/one.json"
least=0.01
measure 2 "$dir/one.json" --iterations 2
[ "$(field bytes_per_s)" = null ] || bad "a rate without bytes"

# Four large gradients that are needed last are ready before a small one that is needed
# first, and the forward pass takes as long as the large ones at the rate of the run before.
# Fifo takes about twice as long as the optimum. (A single large one leaves gaps that the
# small one uses, even in fifo's order.) Other load on this machine disturbs a run, so one
# good run of five is enough.
large=4000000
least=0
seconds=0.05
faster=no
for _ in 1 2 3 4 5; do
    cat >"$dir/planted.json" <<END
{"tryst_profile": 1, "nodes": [
 {"name": "b1", "seconds": 0.001},
 {"name": "g1", "bytes": $large, "after": ["b1"]}, {"name": "g2", "bytes": $large, "after": ["b1"]},
 {"name": "g3", "bytes": $large, "after": ["b1"]}, {"name": "g4", "bytes": $large, "after": ["b1"]},
 {"name": "b0", "seconds": 0.001, "after": ["b1"]}, {"name": "g0", "bytes": 100000, "after": ["b0"]},
 {"name": "f0", "seconds": $seconds, "after": ["b0", "g0"]}, {"name": "f1", "seconds": 0.001, "after": ["f0", "g1", "g2", "g3", "g4"]}]}
END
    measure 2 "$dir/planted.json" --iterations 5
    seconds=$(field bytes_per_s | awk -v large=$large '{ print 4 * large / $1 }')
    field step_seconds | tr '\n' ' ' >>"$dir/tries"
    field step_seconds | tr '\n' ' ' | awk '{ exit !($4 < 0.9 * $1) }' && faster=yes && break
done
[ $faster = yes ] || bad "urgency is no faster than fifo where it should take half of its time: $(cat "$dir/tries")"

# Ranks of a launcher; JSON alone on stdout.
timeout 60 "$run" -n 2 "$perf" sched --profile "$dir/small.json" --transport "$transport" -i 1 -w 0 --json - \
    >"$dir/lines" 2>"$dir/err" || bad "under tryst-run it failed"
sed 's/^\[0\] //' "$dir/lines" >"$dir/json"
[ "$(head -c 1 "$dir/json")" = '{' ] || bad "--json - writes more than JSON"
[ "$(field ranks)" = 2 ] || bad "under tryst-run there are not 2 ranks"

fails() { # <text> <options…>
    text=$1
    shift
    timeout 60 "$perf" sched --transport "$transport" "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq 1 ] || bad "'$*' ends with $status, not 1"
    grep -q "$text" "$dir/err" || bad "'$*' is not refused with '$text'"
    [ ! -s "$dir/out" ] || bad "'$*' writes to stdout"
}
fails "$dir/none.json" --profile "$dir/none.json" -n 2
echo '{"tryst_profile": 1, "nodes": [{"name": "a", "bytes": 4000000000000000}]}' >"$dir/huge.json"
# ASan ends a program that asks for too much; this lets malloc fail instead.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:allocator_may_return_null=1"
fails 'cannot allocate the gradients' --profile "$dir/huge.json" -n 2
exit $fail
