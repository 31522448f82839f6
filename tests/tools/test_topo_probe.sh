#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-topo --probe among local ranks: a graph that loads back and can be used for a
# plan, its cache, refusals. tests/netlab/lab_probe.sh checks the accuracy of the figures.
# Usage: test_topo_probe.sh <tryst-topo>
set -eu
topo=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
bad() { echo "tryst-topo --probe: $*"; cat "$dir/err"; fail=1; }
export XDG_CACHE_HOME="$dir/cache" TRYST_TRANSPORT=shm

"$topo" --probe -n 3 --probe-seconds 2 --format json -o "$dir/graph.json" 2>"$dir/err" || bad "it fails"
grep -q 'flows match the graph' "$dir/err" || bad "the output does not report how well the graph fits"
"$topo" --input "$dir/graph.json" --format json >"$dir/again.json" 2>"$dir/err" || bad "its graph does not load"
cmp "$dir/graph.json" "$dir/again.json" || bad "its graph is another one when loaded"
"$topo" --input "$dir/graph.json" >"$dir/out" 2>"$dir/err" || bad "its graph is not shown"
grep -q ' NET [0-9]' "$dir/out" || bad "its ranks are not joined by a network"
grep -q ' LOC [0-9]' "$dir/out" && bad "its ranks have no wire between them"
"$topo" plan --input "$dir/graph.json" --json - >"$dir/plan.json" 2>"$dir/err" || bad "there is no plan on its graph"
"$topo" verify "$dir/plan.json" --input "$dir/graph.json" >"$dir/out" 2>"$dir/err" || bad "that plan does not hold"

[ "$(find "$dir/cache/tryst" -name 'probe-*.json' | wc -l)" -eq 1 ] || bad "no cache is written"
"$topo" --probe -n 3 --format json >"$dir/cached.json" 2>"$dir/err" || bad "it fails with a cache"
grep -q 'the graph is from the cache' "$dir/err" || bad "the output does not report that the graph is from the cache"
cmp "$dir/graph.json" "$dir/cached.json" || bad "the cache is not used"
"$topo" --probe -n 2 --probe-seconds 1 --format json >"$dir/two.json" 2>"$dir/err" || bad "two ranks fail"
grep -q 'the graph is from the cache' "$dir/err" && bad "the cache of three ranks is taken for two"
echo '{' >"$dir/broken"
"$topo" --probe -n 2 --probe-seconds 1 --probe-cache "$dir/broken" --format json >"$dir/out" 2>"$dir/err" ||
    bad "a broken cache stops it"
grep -q 'measuring again' "$dir/err" || bad "the output does not report a broken cache"
cmp -s "$dir/out" "$dir/broken" || bad "a broken cache is not mended"
"$topo" --probe -n 2 --probe-seconds 1 --probe-cache none --probe-again >"$dir/out" 2>"$dir/err" || bad "none fails"

# A rank dies while others measure: they end, and name the round and the two ranks between
# which it stopped.
"$topo" --probe -n 3 --probe-cache none >"$dir/out" 2>"$dir/err" &
job=$!
for _ in $(seq 300); do
    grep -q 'measuring 3 ranks' "$dir/err" && break
    sleep 0.1
done
# By cat: an awk that reads the file of a process which has just ended stops reading.
victim=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v job="$job" '$4 == job { print $1 }' | tail -n 1)
kill -9 "$victim" || bad "there is no rank to kill"
wait "$job" && bad "a probe of which a rank dies ends well"
grep -q 'round [0-9]* of [0-9]*, from rank [012] to rank [012]: ' "$dir/err" ||
    bad "a failed probe does not name round and pair"

# refused <words> <arguments…>
refused() {
    words=$1
    shift
    "$topo" "$@" >"$dir/out" 2>"$dir/err" && status=0 || status=$?
    [ "$status" -eq 2 ] || bad "'$*' ends with $status, not 2"
    grep -q -e "$words" "$dir/err" || bad "'$*': the error does not contain '$words'"
    [ ! -s "$dir/out" ] || bad "'$*' writes to stdout"
}
refused 'tryst-run' --probe
refused 'or with -n 2' --probe -n 1
refused 'whole number' --probe -n two
refused 'above 0' --probe -n 2 --probe-seconds 0
refused 'do not fit into' --probe -n 3 --probe-cache none --probe-seconds 0.1
refused 'go with --probe' -n 2
refused 'one of them' --probe -n 2 --input "$dir/graph.json"
exit $fail
