#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that are read whole: a directory, an endless device and an endless pipe are
# refused in one line that names the limit, in bounded memory.
# Usage: test_endless.sh <tryst-topo> <tryst-info> [<pp_bench>]
set -eu
topo=$1 info=$2 bench=${3:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail=0
# shellcheck disable=SC3045 # dash and bash have it
ulimit -v 4194304 # KiB: more than any limit, less than a machine has

bad() { echo "endless: $*"; fail=1; }

refused() { # <pattern> <tool> <options…>: status 2 and one line
    pattern=$1
    shift
    timeout 80 "$@" >out 2>err && status=0 || status=$?
    what="$(basename "$1") $(echo "$*" | cut -d ' ' -f 2-)"
    [ "$status" -eq 2 ] || bad "'$what' ends with $status, not 2"
    grep -q -- "$pattern" err || bad "'$what' prints $(cat err), not '$pattern'"
    [ "$(wc -l <err)" -eq 1 ] || bad "'$what' prints more than a line"
}

endless() { # <line> <pattern> <tool> <options…>: a pipe that repeats the line
    line=$1
    shift
    rm -f pipe
    mkfifo pipe
    yes "$line" >pipe 2>/dev/null &
    writer=$!
    refused "$@"
    wait $writer || true # SIGPIPE
}

echo '{"ranks": ["a", "b"], "links": [{"a": "a", "b": "b", "gbit_per_s": 1}]}' >two.json
for word in '' plan; do
    # shellcheck disable=SC2086 # no word is none
    refused 'Is a directory' "$topo" $word --input "$dir"
done
refused 'cannot read /dev/zero: larger than 1 GiB' "$topo" --input /dev/zero
refused 'Is a directory' "$topo" verify "$dir" --input two.json
refused 'cannot read .dev.zero: it is larger than 1 GiB' "$topo" verify /dev/zero --input two.json
timeout 80 "$info" --merge-traces /dev/zero >out 2>err && bad "/dev/zero is a trace"
grep -q 'not a trace' err || bad "for /dev/zero as a trace the error is $(cat err)"
if [ -n "$bench" ]; then
    refused 'Is a directory' "$bench" -n 2 --schedule "$dir"
    refused '/dev/zero: it holds a zero byte' "$bench" -n 2 --schedule /dev/zero
    endless 0F0,0B0 'pipe: it is larger than 64 MiB' "$bench" -n 2 --schedule ./pipe
    endless '' 'pipe: it is larger than 64 MiB' "$bench" -n 2 --schedule ./pipe
    refused 'data must be a regular file' "$bench" -n 2 --data /dev/zero
    refused 'data must be a regular file' "$bench" -n 2 --data "$dir"
fi
exit $fail
