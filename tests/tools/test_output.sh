#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every tool with a standard output that is full, and with one that is closed: it ends
# with its failure status and one line with the reason.
# Usage: test_output.sh <tryst-info> <tryst-perf> <tryst-run> <tryst-topo> <live_rank>
# [<pp_bench>]
set -eu
info=$1 perf=$2 run=$3 topo=$4 rank=$5 bench=${6:-}
dir=$(mktemp -d)
hung=
trap '[ -z "$hung" ] || kill "$hung"; rm -rf "$dir"' EXIT
fail=0

bad() { echo "output: $*"; fail=1; }

# ended <status> <what> <how>: check the exit status and the error text
ended() {
    [ "$status" -eq "$1" ] || bad "$2 ends with $status, not $1, where standard output is $3: $(cat "$dir/err")"
    [ "$(grep -c 'cannot write standard output: ' "$dir/err")" -eq 1 ] ||
        bad "$2 does not say once that standard output is $3: $(cat "$dir/err")"
}

refused() { # <status> <tool> <options…>
    wanted=$1
    shift
    what="$(basename "$1") $(echo "$*" | cut -d ' ' -f 2-)"
    timeout 80 "$@" >/dev/full 2>"$dir/err" && status=0 || status=$?
    ended "$wanted" "$what" full
    timeout 80 "$@" >&- 2>"$dir/err" && status=0 || status=$?
    ended "$wanted" "$what" closed
}

# --version of each: two lines, and the same failure
for tool in "$info" "$perf" "$run" "$topo" ${bench:+"$bench"}; do
    "$tool" --version >"$dir/version" || bad "--version of $tool ends with $?"
    head -n 1 "$dir/version" | grep -qxE "$(basename "$tool") [0-9]+\.[0-9]+\.[0-9]+" ||
        bad "--version of $tool begins with: $(head -n 1 "$dir/version")"
    sed -n 2p "$dir/version" | grep -qE '^commit ([0-9a-f]+|unknown); modules: self shm' ||
        bad "--version of $tool goes on with: $(sed 1d "$dir/version")"
done
refused 1 "$perf" --version
refused 125 "$run" --version

refused 1 "$info"
for option in --check --config --markdown --status --help; do
    refused 1 "$info" $option
done
refused 1 "$perf" --help
for test in pingpong bandwidth; do
    refused 1 "$perf" $test --transport shm --sizes 8 --iters 2
done
refused 1 "$perf" pingpong --transport shm --sizes 8 --iters 2 --json -
refused 125 "$run" --help
refused 125 "$run" -n 2 echo word
# a line that is longer than any buffer
refused 125 "$run" -n 1 sh -c 'head -c 100000 /dev/zero | tr "\0" x; echo'
refused 2 "$topo"
refused 2 "$topo" --format json
cat >"$dir/two.json" <<'END'
{"ranks": ["a", "b"], "links": [{"a": "a", "b": "b", "gbit_per_s": 1}]}
END
"$topo" plan --input "$dir/two.json" --json "$dir/plan"
refused 2 "$topo" plan --input "$dir/two.json"
refused 2 "$topo" plan --input "$dir/two.json" --json -
refused 2 "$topo" verify "$dir/plan" --input "$dir/two.json"
refused 2 "$topo" explain --input "$dir/two.json" --from 0 --to 1
for word in '' plan verify explain; do
    # shellcheck disable=SC2086 # no word is none
    refused 2 "$topo" $word --help
done
if [ -n "$bench" ]; then
    small='--model sleep:0,0 --layers 2 --steps 1 --microbatches 1'
    refused 1 "$bench" --help
    for transport in self shm; do
        # shellcheck disable=SC2086
        refused 1 "$bench" -n 2 $small --transport $transport
        # shellcheck disable=SC2086
        refused 1 "$bench" -n 2 $small --transport $transport --json -
    done
fi
TRYST_TRACE=1 "$run" -n 2 "$rank" "$dir" traced >"$dir/log" 2>&1 || bad "no trace: $(cat "$dir/log")"
refused 1 "$info" --merge-traces "$dir/trace.0" "$dir/trace.1"
"$run" -n 2 "$rank" "$dir" never >"$dir/log" 2>&1 &
hung=$!
until [ -s "$dir/rank.0" ]; do sleep 0.05; done
refused 1 "$info" --live "$(cat "$dir/rank.0")"
refused 1 "$info" --live --json "$(cat "$dir/rank.0")"
refused 1 "$info" --live --job "$(cat "$dir/rank.0")"
exit $fail
