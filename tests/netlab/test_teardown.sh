#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# No part of a lab may outlive it, however it ends: by itself, by a failure, by SIGTERM,
# by SIGKILL.
# usage: test_teardown.sh <netlab.sh>
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
netlab=$1
star=$here/labs/star.lab
mark=7000$$ # a unique time to sleep; also marks this test's labs in the environment
interfaces=$(ls /sys/class/net)
pid= # the running lab
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true' EXIT

fail() { echo "FAILED: $*"; exit 1; }

# Print the processes of this test's labs (not of other tests' labs).
left() {
    { grep -lszx "TEARDOWN=$mark" /proc/[0-9]*/environ || true; } | cut -d / -f 3
}
lab() { env TEARDOWN=$mark "$netlab" "$star" "$@"; }

# True if all four ranks sleep.
runs() {
    local file command seconds count=0
    for file in /proc/[0-9]*/cmdline; do
        { read -rd '' command && read -rd '' seconds; } 2>/dev/null <"$file" || continue
        [ "$command $seconds" != "sleep $mark" ] || count=$((count + 1))
    done
    [ $count -eq 4 ]
}

gone() { # <how it ended>
    local _
    for _ in {1..50}; do
        [ -n "$(left)" ] || break
        sleep 0.1
    done
    [ -z "$(left)" ] || fail "after $1: processes $(left | tr '\n' ' ')"
    [ "$(ls /sys/class/net)" = "$interfaces" ] || fail "after $1: other interfaces than before"
    echo "after $1: nothing is left"
}

status=0
lab true || status=$?
[ $status -ne 77 ] || exit 77
[ $status -eq 0 ] || fail "true in a lab ended with $status"
gone "its end"
lab sh -c 'touch /dev/shm/netlab_left; sleep 7000 & exit 3' && fail "no failure" || status=$?
[ $status -eq 3 ] || fail "exit 3 in a lab ended with $status"
[ ! -e /dev/shm/netlab_left ] || fail "a file in /dev/shm"
gone "a failure"
for signal in TERM KILL; do
    # shellcheck disable=SC2016 # expands in the lab
    env TEARDOWN=$mark "$netlab" "$star" sh -c '"$NETLAB" ranks sleep "$0"' $mark >/dev/null 2>&1 &
    pid=$!
    started=0
    for _ in {1..200}; do
        ! runs || { started=1 && break; }
        sleep 0.1
    done
    [ $started -eq 1 ] || fail "the lab did not start"
    kill -$signal $pid
    wait $pid 2>/dev/null && fail "SIG$signal did not end it"
    pid=
    gone "SIG$signal"
done
