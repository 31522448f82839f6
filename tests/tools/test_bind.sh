#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# TRYST_BIND: the progress thread reports its processor, which is one of the processors
# that the process may use; with a single processor there is no choice; without the
# setting there is no report.
# Usage: test_bind.sh <tryst-perf>
set -eu
perf=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
bad() { echo "TRYST_BIND: $*"; cat "$dir/err"; fail=1; }
export TRYST_PROGRESS_THREAD=1 TRYST_LOG_LEVEL=info

# run <command…>: two ranks that exchange a few messages
run() {
    "$@" "$perf" pingpong -n 2 --transport shm --sizes 8 --iters 10 >"$dir/out" 2>"$dir/err" || bad "'$*' fails"
}

run env TRYST_BIND=auto
[ "$(grep -c 'the progress thread is \(on processors [0-9]\|left where it is: \)' "$dir/err")" -eq 2 ] ||
    bad "two ranks do not say where their threads are"
run env TRYST_BIND=none
grep -q 'the progress thread is' "$dir/err" && bad "none moves it"
run env
grep -q 'the progress thread is' "$dir/err" && bad "it moves unasked"
if command -v taskset >/dev/null; then
    first=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*\([0-9]*\).*/\1/p' /proc/self/status)
    run env TRYST_BIND=auto taskset -c "$first"
    [ "$(grep -c 'left where it is: fewer than two' "$dir/err")" -eq 2 ] || bad "one processor is a choice"
fi
exit $fail
