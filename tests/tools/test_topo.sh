#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-topo: plans with known answers, checked plans and changed ones, routes, groups,
# and errors for invalid input.
# Usage: test_topo.sh <tryst-topo>
set -eu
topo=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail=0

bad() { echo "tryst-topo: $*"; fail=1; }

cat >slow.json <<'END'
{"ranks": ["h0","h1","h2","h3"], "nodes": ["sw0"], "links": [
  {"a":"h0","b":"sw0","gbit_per_s":0.8,"latency_us":20}, {"a":"h1","b":"sw0","gbit_per_s":0.8},
  {"a":"h2","b":"sw0","gbit_per_s":0.4,"latency_us":20}, {"a":"h3","b":"sw0","gbit_per_s":0.2}]}
END
cat >equal.json <<'END'
{"ranks": ["h0","h1","h2","h3"], "nodes": ["sw0"], "links": [
  {"a":"h0","b":"sw0","gbit_per_s":1}, {"a":"h1","b":"sw0","gbit_per_s":1},
  {"a":"h2","b":"sw0","gbit_per_s":1}, {"a":"h3","b":"sw0","gbit_per_s":1}]}
END
cat >racks.json <<'END'
{"ranks": ["a0","b0","a1","b1"], "nodes": ["ra","rb"], "links": [
  {"a":"a0","b":"ra","gbit_per_s":0.8}, {"a":"a1","b":"ra","gbit_per_s":0.8},
  {"a":"b0","b":"rb","gbit_per_s":0.8}, {"a":"b1","b":"rb","gbit_per_s":0.8},
  {"a":"ra","b":"rb","gbit_per_s":0.4}]}
END

# near <a> <b>: within 1e-6
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= 1e-6 * b) }'; }
# field <name> <file>: print the first number of that name
field() { sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2" | head -n 1; }

# plan <cluster> <time> <options…>: the plan takes that long, has its quality, and is
# verified
plan() {
    cluster=$1
    time=$2
    shift 2
    "$topo" plan --input "$cluster" --json - "$@" >plan.json 2>err || bad "plan $cluster $* ends with $?"
    [ ! -s err ] || bad "plan $cluster $* prints $(cat err)"
    near "$(field time_s_per_gbit plan.json)" "$time" ||
        bad "plan $cluster $*: $(field time_s_per_gbit plan.json), not $time"
    near "$(field lower_bound_s_per_gbit plan.json)" "$time" ||
        bad "plan $cluster $*: bound $(field lower_bound_s_per_gbit plan.json), not $time"
    "$topo" verify plan.json --input "$cluster" >out || bad "verify of plan $cluster $* ends with $?"
}

plan slow.json 5
cp plan.json slow.plan
plan equal.json 1.5
plan racks.json 2.5
plan slow.json 5 --op broadcast --root h0
plan slow.json 5 --op reduce --root 3
plan equal.json 0.75 --op allgather
grep -q '"trees": \[$' plan.json || bad "all-gather has no list for each root"
[ "$(grep -c '^  \[{' plan.json)" -eq 4 ] || bad "all-gather has not four lists of trees"
plan equal.json 0.75 --op reduce_scatter
plan slow.json 2.5 --ranks h0,h1,h2
grep -q '"ranks": \[0, 1, 2\]' plan.json || bad "a group's plan does not name its ranks"
plan slow.json 1.25 --ranks 0-1
plan slow.json 5 --op reduce --ranks h3,h1 --root h1
grep -q '"root": 1,' plan.json || bad "the root of a group is not its place there"

# the same again, and into a file; with nothing else on stdout
"$topo" plan --input slow.json --json again.json >out
[ ! -s out ] || bad "--json FILE prints"
cmp -s slow.plan again.json || bad "the same plan differs"
"$topo" plan --input - --json - <slow.json | cmp -s - slow.plan || bad "standard input gives another plan"

# a changed plan
for change in 's/"share": 1/"share": 0.9/' 's/"price": 0.5/"price": 0.4/' 's/"load": 1,/"load": 2,/' \
    's/"lower_bound_s_per_gbit": 5/"lower_bound_s_per_gbit": 5.1/' 's/"gap": 0/"gap": 0.1/'; do
    sed "$change" slow.plan >changed.json
    cmp -s slow.plan changed.json && bad "$change changes nothing"
    "$topo" verify changed.json --input slow.json >out 2>err && status=0 || status=$?
    [ "$status" -eq 1 ] || bad "verify after $change ends with $status"
    grep -q '^tryst-topo: changed.json: ' err || bad "verify after $change says $(cat err)"
done
sed 's/"bandwidth_gbit_per_s": 0.2/"bandwidth_gbit_per_s": 0.3/' slow.plan >changed.json
"$topo" verify changed.json --input slow.json 2>err && bad "a changed bandwidth holds"
grep -q ' must be 0.2 Gbit/s .*, not 0.3$' err || bad "rounding errors are printed: $(cat err)"
"$topo" verify slow.plan --input equal.json 2>err && bad "a plan holds for another cluster"

says() { # <pattern> <options…>
    pattern=$1
    shift
    "$topo" "$@" >out 2>err || bad "'$*' ends with $?: $(cat err)"
    grep -q -- "$pattern" out || bad "'$*' does not say '$pattern'"
}
says 'lower bound  5 s per Gbit' plan --input slow.json
says '^2 links$' explain --input slow.json --from h0 --to h2
says 'bottleneck: sw0 -> h2, 0.4 Gbit/s' explain --input slow.json --from h0 --to 2
says '1 MiB: 21.01 ms predicted, 40 us of it latency' explain --input slow.json --from h0 --to h2 --size 1M
says '^Usage: tryst-topo ' --help
says 'What 1 Gbit is' plan --help
says 'Usage: tryst-topo verify' verify --help
says 'Usage: tryst-topo explain' explain -h
says '^b0      NET 0.4   X' --input racks.json
grep -q 'LOC 0' out && bad "ranks of two racks have no wire between them"
says '"tryst_graph"' --input slow.json --format json
cp out dump.json
plan dump.json 5

{
    printf '{"ranks":["a","b","c","d","e","f","g","h"],"nodes":["s"],"links":['
    for rank in a b c d e f g; do printf '{"a":"%s","b":"s","gbit_per_s":1,"latency_us":10},' $rank; done
    printf '{"a":"h","b":"s","gbit_per_s":1,"latency_us":10}]}'
} >eight.json

# the trees by size: a table, a valid document, and an invalid one after any change
says '^  by size$' plan --input eight.json
grep -q '^    64 MiB .* ms *[0-9.]* ms *[0-9.]*$' out || bad "no row for 64 MiB: $(cat out)"
says '^  digest       [0-9a-f]\{16\}$' plan --input eight.json
grep -c '^    [0-9]* [KM]iB ' out | grep -qx 6 || bad "not six sizes: $(cat out)"
"$topo" plan --input eight.json --op allgather >out
grep -q 'by size' out && bad "an all-gather has trees by size"
"$topo" plan --input eight.json --sum-gbit 50 --json sized.json
grep -q '"size_sum_gb_per_s": 6.25' sized.json || bad "the given rate of sums is not in the document"
"$topo" verify sized.json --input eight.json >out || bad "trees by size at a given rate do not hold"

# one unit: Gbit/s and us in the tree, in the matrix, in routes, and as the file has them
echo '{"ranks": ["a", "b"], "nodes": ["s"], "links": [{"a": "a", "b": "s", "gbit_per_s": 0.4, "latency_us": 20},
    {"a": "b", "b": "s", "gbit_per_s": 10, "latency_us": 2.5}]}' >units.json
says '<-> s  link 0.4 Gbit/s (imported), 20 us (imported)' --input units.json
says '^Gbit/s  a  *b$' --input units.json
says '^us  *a  *b$' --input units.json
says '^a  *X  *22.5$' --input units.json
says '  a -> s: 0.4 Gbit/s, 20 us' explain --input units.json --from a --to b
! "$topo" --help | grep -q 'GB/s' || bad "--help has GB/s"
! "$topo" plan --help | grep -q 'GB/s' || bad "plan --help has GB/s"
# one prediction: the bound of 1 MiB is the lower bound of the plan, for as many Gbit
"$topo" plan --input eight.json | awk '/^  lower bound/ { bound = $3 } $1 == 1 && $2 == "MiB" { is = $9 * ($10 == "ms" ? 1e-3 : $10 == "us" ? 1e-6 : 1) }
    END { r = is / (bound * 8 * 1048576 / 1e9); exit !(r > 0.999 && r < 1.001) }' || bad "two bounds of one plan differ"
"$topo" plan --input eight.json --json sized.json
"$topo" verify sized.json --input eight.json >out || bad "trees by size do not hold"
for change in 's/"bytes_max": 16384/"bytes_max": 16385/' 's/"slice_bytes": [0-9]*/"slice_bytes": 65537/' \
    's/"digest": "[0-9a-f]/"digest": "x/' \
    's/"size_trees"/"size_tree"/' 's/"size_sum_gb_per_s": null/"size_sum_gb_per_s": 8/' \
    's/{"tree": 0, "share": 1}/{"tree": 0, "share": 0.5}/' 's/{"tree": 0,/{"tree": 1,/'; do
    sed "$change" sized.json >changed.json
    cmp -s sized.json changed.json && bad "$change changes nothing"
    "$topo" verify changed.json --input eight.json 2>err && bad "a plan after $change holds"
    grep -q '^tryst-topo: changed.json: ' err || bad "verify after $change says $(cat err)"
done

# the cost of simplifying; depth that costs nothing is gone
says '    solved       1 tree, depth 2, 5 s per Gbit, filling' plan --input slow.json --op broadcast
says '    shallower    1 tree, depth 1, 5 s per Gbit (+0 %), filling 0 us' plan --input slow.json --op broadcast

refused() { # <pattern> <options…>: exit status 2, one line on stderr, nothing on stdout
    pattern=$1
    shift
    "$topo" "$@" >out 2>err && status=0 || status=$?
    [ "$status" -eq 2 ] || bad "'$*' ends with $status, not 2"
    grep -q -- "$pattern" err || bad "'$*' prints $(cat err), not '$pattern'"
    [ "$(wc -l <err)" -eq 1 ] || bad "'$*' prints more than a line"
    [ ! -s out ] || bad "'$*' prints to standard output"
}
echo '{"ranks":["a","b"],"links":[{"a":"a","b":"c","gbit_per_s":1}]}' >name.json
echo '{"ranks":["a","b"],"links":[]}' >cut.json
printf '{"ranks":\n ["a",]}' >syntax.json
refused 'name.json:1:42: "c" is neither in' plan --input name.json --json -
refused 'cut.json: the ranks are not connected: no route from {a} to {b}' plan --input cut.json
refused 'syntax.json:2:' plan --input syntax.json
refused 'cannot open missing.json' plan --input missing.json
refused 'must be allreduce, broadcast' plan --input slow.json --op allsum
refused "has no rank 'h9'" plan --input slow.json --op broadcast --root h9
refused "has no rank '4'" plan --input slow.json --ranks 0,4
refused 'goes with --op' plan --input slow.json --root h1
refused 'not among --ranks' plan --input slow.json --op reduce --ranks 0,1 --root h2
refused 'twice' plan --input slow.json --ranks 0,0
refused 'trees-max' plan --input slow.json --trees-max many
refused 'must be bytes' explain --input slow.json --from h0 --to h1 --size much
refused 'unexpected word' plan --input slow.json extra
refused 'is not allowed here' plan --input slow.json --from h0
refused 'no-such' plan --no-such
refused 'unknown command .planet' planet
refused 'verify needs' verify --input slow.json
refused 'cannot read missing.plan' verify missing.plan --input slow.json
refused 'needs --from' explain --input slow.json --to h1
refused 'to itself' explain --input slow.json --from h1 --to 1
refused 'sum-gbit' plan --input slow.json --sum-gbit 0
refused 'size' explain --input slow.json --from h1 --to h2 --size 1X
refused 'no route' explain --input cut.json --from a --to b
refused 'unknown format' --input slow.json --format cuneiform
refused 'cannot write no.such' plan --input slow.json --json no/such/folder.json
exit $fail
