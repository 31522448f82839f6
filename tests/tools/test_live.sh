#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-info --live on ranks that hang: the verdict, and the report on one rank.
# Usage: test_live.sh <tryst-run> <tryst-info> <live_rank> <how> [hangs.md]
set -eu
run=$1 info=$2 rank=$3 how=$4
dir=$(mktemp -d)
job=
pids=
pid_0="" pid_1="" pid_2=""

cleanup() {
    for pid in $pids; do kill -KILL "$pid" 2>/dev/null || true; done
    if [ -n "$job" ]; then
        kill -TERM "$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 1' INT TERM HUP

fail() {
    echo "live: $how: $*"
    for file in out err job; do [ ! -s "$dir/$file" ] || sed "s/^/    $file: /" "$dir/$file"; done
    exit 1
}

ranks() { # <count>: start them, and wait until each is about to hang
    TRYST_TRANSPORT=${TRYST_TRANSPORT:-shm} $run -n "$1" --grace 1s "$rank" "$dir" "$how" \
        >"$dir/job" 2>&1 &
    job=$!
    hung "$1"
}
hung() { # <count>
    number=0
    while [ $number -lt "$1" ]; do
        turns=0
        while [ ! -s "$dir/rank.$number" ]; do
            turns=$((turns + 1))
            [ $turns -lt 600 ] || fail "rank $number does not come"
            sleep 0.05
        done
        read -r pid <"$dir/rank.$number"
        eval "pid_$number=$pid"
        pids="$pids $pid"
        number=$((number + 1))
    done
}
# A line, or the last one, matches sooner or later (a rank hangs soon after it has
# announced it).
line() { # <pattern> <options…>
    pattern=$1
    shift
    turns=0
    until "$info" --live "$@" >"$dir/out" 2>"$dir/err" && sed -n "${lines:-p}" "$dir/out" | grep -Eq "$pattern"; do
        turns=$((turns + 1))
        [ $turns -lt 100 ] || fail "no line, or not the last, is '$pattern'"
        sleep 0.1
    done
}
sentence() { # <pattern> <options…>
    lines="\$p"
    line "$@"
    lines=p
}
says() { # <pattern>: a line in the output of the last call
    grep -Eq -- "$1" "$dir/out" || fail "it does not say '$1'"
}
refused() { # <pattern> <options…>
    pattern=$1
    shift
    "$info" --live "$@" >"$dir/out" 2>"$dir/err" && fail "'$*' is not refused"
    grep -Eq "$pattern" "$dir/err" || fail "'$*' does not say '$pattern'"
}
waited='has waited [0-9.]+ s for rank'

case $how in
never)
    ranks 2
    sentence "^rank 1 $waited 0 to send act;0:0 of step 1, which has not sent it: rank 0 \(pid $pid_0\) has been outside the library for [0-9.]+ s, asleep in the kernel.*; its newest step is 1" \
        --job "$pid_1"
    # any rank leads to its job, and so does the name of the program
    sentence "^rank 1 $waited 0 to send act;0:0" --job "$pid_0"
    sentence "" "$pid_0"
    says '^rank 0 of 2: live_rank, pid '
    says '^    1 other rank not used so far$' # without the rank itself
    says 'receive from rank 1: /job:worker/replica:0/task:1/device:CPU:0;[0-9a-f]{16};/job:worker/replica:0/task:0/device:CPU:0;late;0:0 \(step 1, number 0, 8 bytes\)'
    sentence '' live_rank
    says '^rank 1 of 2: live_rank, pid '
    says '; the thread sleeps on this operation'
    says '    rank 0: alive, linked, endpoint opening over shm' # it never progressed to answer
    ;;
collective)
    ranks 3
    # through the other rank, where only that one is a neighbour of rank 2
    sentence "^rank [01] $waited [012] in gradient of step 1, which has (joined it and itself $waited 2 in gradient of step 1, which has )?not joined it: rank 2 \\(pid $pid_2\\) has been outside the library" \
        --job "$pid_2"
    "$info" --live "$pid_0" >"$dir/out" 2>"$dir/err"
    "$info" --live "$pid_1" >>"$dir/out" 2>>"$dir/err"
    says '  collective: gradient \(step 1, 256 bytes\); waits for the part of rank 2; the thread sleeps on this operation'
    ;;
several | several_middle | several_all)
    # several collectives are pending: the rank is found by whichever of them names it
    ranks 3
    sentence "^rank [01] $waited [012] in gradient[0-8] of step 1, which has (joined it and itself $waited 2 in gradient[0-8] of step 1, which has )?not joined it: rank 2 \\(pid $pid_2\\) has been outside the library" \
        --job "$pid_0"
    ;;
time)
    # The ranks' clock is 100,000 s ahead of this process's.
    unshare -T --monotonic 100000 true 2>/dev/null || { echo "skipped: no right to a time namespace"; exit 77; }
    run_outside=$run
    run="unshare -T --monotonic 100000 $run"
    how=never
    ranks 2
    run=$run_outside
    sentence "^rank 1 has waited [0-9]?[0-9][.][0-9] s for rank 0 to send act;0:0 of step 1, which has not sent it: rank 0 \\(pid $pid_0\\) has been outside the library for [0-9]?[0-9][.][0-9] s" \
        --job "$pid_1"
    # the other way round: this process's clock is ahead
    unshare -T --monotonic 100000 "$info" --live --job "$pid_1" >"$dir/out" 2>"$dir/err"
    says "^rank 1 has waited [0-9]?[0-9][.][0-9] s for rank 0 to send act;0:0 of step 1"
    ;;
behind)
    ranks 2
    sentence "^rank 1 $waited 0 to send act;0:0 of step 2, which has not opened step 2 yet: rank 0 \(pid $pid_0\) has been outside the library for [0-9.]+ s, .*; its newest step is 1" \
        --job "$pid_0"
    ;;
stopped)
    ranks 2
    sentence "^rank 1 $waited 0 to send act;0:0 of step 1, which has not sent it: rank 0 \(pid $pid_0\) is stopped \(by a signal, about [0-9.]+ s ago; kill -CONT $pid_0 lets it continue\), its newest step is 1" \
        --job "$pid_1"
    sentence '' "$pid_0" # its page can be read
    says '^rank 0 of 2'
    # the waiting rank is stopped as well: what it waited for is still reported
    kill -STOP "$pid_1"
    line 'it is stopped' "$pid_1"
    says 'act;0:0 .*; the thread sleeps on this operation'
    kill -CONT "$pid_0" "$pid_1"
    ;;
mutual)
    ranks 2
    sentence "^ranks (0 and 1|1 and 0) wait for each other: rank . $waited . to send (up|down);0:0 of step 1, and rank . $waited . to send (up|down);0:0 of step 1; none of them has done it" \
        --job "$pid_0"
    line '^  it waits inside the library, its newest step is 1' "$pid_0" # also where a transport cannot sleep
    says '; the thread sleeps on this operation'
    ;;
circle)
    ranks 3
    sentence "^3 ranks wait for each other in a circle: rank . $waited . to send round;0:0 of step 1, and rank . $waited . to send round;0:0 of step 1, and rank . $waited . to send round;0:0 of step 1; none of them has done it" \
        --job "$pid_2"
    ;;
armed)
    ranks 2
    sentence "^rank 1 $waited 0 to send act;0:0 of step 1, which has not sent it: rank 0 \(pid $pid_0\) has been outside" --job "$pid_1"
    line '^  it sleeps in its event loop \(tryst_arm\)' "$pid_1"
    ;;
thread)
    TRYST_PROGRESS_THREAD=1
    export TRYST_PROGRESS_THREAD
    ranks 2
    sentence "^rank 0 $waited 1 to send act;0:0 of step 1, which has not sent it: rank 1 \(pid $pid_1\) sleeps inside the library, ready for any event, and its first thread is asleep in the kernel.*; its newest step is 1" \
        --job "$pid_0"
    ;;
met)
    TRYST_FAULT=rank=0,drop_after=1
    export TRYST_FAULT
    ranks 2
    sentence "^rank (0 $waited 1 to receive|1 $waited 0 to send) second;0:0 of step 1; both sides have posted it \(rank . [0-9.]+ s ago\), but 1 frame from rank 0 to rank 1 has not been read there; rank . \(pid [0-9]+\) waits inside the library" \
        --job "$pid_1"
    ;;
callback)
    ranks 2
    sentence "^rank 1 $waited 0 to send act;0:0 of step 1, which has not sent it: rank 0 \(pid $pid_0\) is inside the library and has given no sign of life for [0-9.]+ s, asleep in the kernel.*; its newest step is 1" \
        --job "$pid_1"
    ;;
chain)
    ranks 3
    sentence "^rank 2 $waited 1 to send second;0:0 of step 1, which has not sent it and itself $waited 0 to send first;0:0 of step 1, which has not sent it: rank 0 \(pid $pid_0\) has been outside the library for [0-9.]+ s, asleep in the kernel( call read)?" \
        --job "$pid_0"
    ;;
worker)
    # Any process of the job leads to the job: the launcher, a shell above, a process that a rank forked.
    ranks 2
    hung 3
    for pid in "$job" "$$" "$pid_0" "$pid_1" "$pid_2"; do
        sentence "^rank 1 $waited 0 to send act;0:0" --job "$pid"
    done
    line '^rank 0 of 2: live_rank, pid ' "$job"
    says '^rank 1 of 2: live_rank, pid '
    # For a process outside of all jobs the error says where ranks are.
    sleep 60 &
    pids="$pids $!"
    refused "process $! \((sleep|sh)\) has no Tryst group open: .*; on this host rank . of .* is process [0-9]+ \(" --job $!
    sh -c 'sleep 5 & wait' >/dev/null 2>&1 &
    pids="$pids $!"
    until grep -q "^[0-9]* (.*) [A-Z] $! " /proc/[0-9]*/stat 2>/dev/null; do sleep 0.05; done
    refused "process $! \(sh\) has no Tryst group open, nor has any of the 1 below it" --job $!
    ;;
busy | serving)
    # A running job is never reported as deadlocked, however often it is sampled.
    ranks 2
    looks=
    number=0
    while [ $number -lt 24 ]; do
        "$info" --live --job "$pid_1" >"$dir/look.$number" 2>&1 &
        looks="$looks $!"
        number=$((number + 1))
        [ $((number % 4)) -ne 0 ] || sleep 0.2
    done
    for look in $looks; do
        wait "$look" || fail "a look failed"
    done
    cat "$dir"/look.* | grep -Eh '^the job runs|waits? for|has waited [0-9.]+ s for rank . to' | grep -v '^ ' >"$dir/out" || true
    ! grep -Eq 'wait for each other|in a circle|waits for itself|has waited 0\.' "$dir/out" ||
        fail "a job that runs is called deadlocked"
    grep -Eq '^the job runs: no rank of this host has waited for another throughout the last [0-9.]+ s\.$' "$dir/out" ||
        fail "no line reports that the job runs"
    ;;
stuck_serving)
    ranks 2
    sentence "^ranks (0 and 1|1 and 0) wait for each other: rank . $waited . to send (up|down);0:0 of step 1, and rank . $waited . to send (up|down);0:0 of step 1; none of them has done it; rank . serves its operations in a loop, so it may also be computing; rank . serves" \
        --job "$pid_0"
    ;;
small | large)
    ranks 2
    sentence "^rank 0 $waited 1 to receive grad;0:0 of step 1, which has not posted that receive: rank 1 \(pid $pid_1\) was in the library just now \(.*\), its newest step is 1" \
        --job "$pid_0"
    ;;
second)
    ranks 2
    sentence "^rank 0 $waited 1 to send act;0:0 of step 1, which has not sent it: rank 1 \(pid $pid_1\) has been outside the library" \
        --job "$pid_0"
    line 'send to rank 0: [^ ]*;act;0:0 \(step 1, number 0, ' "$pid_1"
    ;;
full)
    ranks 2
    line 'send to rank 1: [^ ]*;first;0:0 .*waits for the consumer to take bytes that are in flight: its window is full' "$pid_0"
    says 'send to rank 1: [^ ]*;second;0:0 .*waits for its turn, behind another send: [^ ]*;first;0:0'
    says '    rank 1: .* in flight [1-9][0-9]* of [1-9][0-9]*, slices of [1-9]'
    # Rank 0 has posted this send, which rank 1 cannot see.
    line 'receive from rank 0: [^ ]*;second;0:0 .*waits for the send: none of its bytes have come' "$pid_1"
    "$info" --live --json "$pid_0" >"$dir/out"
    says '"behind": "[^"]*;first;0:0"'
    says '"window_bytes": [1-9]'
    ;;
killed)
    ranks 2
    sentence "^rank 1 $waited 0 " --job "$pid_1"
    # without its launcher no process ends the other rank: the death is reported all the
    # same
    kill -STOP "$pid_1"
    kill -KILL "$pid_0"
    sentence "^no rank of this host waits for another: rank 1 \(pid $pid_1\) is stopped" --job "$pid_1"
    refused 'has ended|has no Tryst group open' "$pid_0"
    kill -CONT "$pid_1"
    ;;
gather)
    ranks 2
    sentence '^1 of 2 ranks have waited up to [0-9.]+ s in tryst_group_open; not on this host: rank 1\.$' --job "$pid_0"
    refused 'has no Tryst group open: it has not called tryst_group_open yet' "$pid_1"
    ;;
json)
    how=mutual
    ranks 2
    sentence '^}$' --job --json "$pid_0"
    command -v python3 >/dev/null || { echo "skipped: no python3 to read JSON"; exit 77; }
    python3 - "$dir/out" "$pid_0" <<'PYTHON' || fail "the JSON is not as it should be"
import json, sys
job = json.load(open(sys.argv[1]))
first, second = job["ranks"]
assert [first["rank"], second["rank"]] == [0, 1] and first["size"] == 2
assert first["pid"] == int(sys.argv[2])
assert len(first["peers"]) == 2 and first["peers"][1]["life"] == "alive"
operation, = second["operations"]
assert operation["kind"] == "receive" and operation["peer"] == 0 and operation["step"] == 1
assert operation["key"].endswith(";down;0:0") and operation["bytes"] == 8
assert operation["age_s"] >= 0 and not operation["torn"]
assert isinstance(job["sentence"], str) and job["sentence"].endswith(".")
PYTHON
    ;;
pages)
    for what in torn layout damaged unsealed copy young; do
        rm -f "$dir/rank.0"
        "$rank" "$dir" "page:$what" &
        hung 1
        case $what in
        torn)
            sentence '' "$pid_0"
            says 'one line of it may be wrong'
            says 'receive from rank 1: who \(step 0'
            says 'the process ended while it wrote this line, which may be wrong'
            ! grep -q "$(printf '\033')" "$dir/out" || fail "it lets escape codes through"
            sentence '' --json "$pid_0"
            sentence 'no rank of this host' --job "$pid_0"
            ;;
        layout) refused 'has layout 3 \(library 9\.8\.7\), this tryst-info reads 2: use the tryst-info of that library' "$pid_0" ;;
        damaged | unsealed) refused 'its live page is damaged' "$pid_0" ;;
        copy) refused 'has no Tryst group open' "$pid_0" ;;
        young) refused 'is not ready yet; try again' "$pid_0" ;;
        esac
    done
    refused 'no process 2147483647: it has ended, or runs in a container' 2147483647
    sleep 60 &
    pids="$pids $!"
    refused "process $! \(.*\) has no Tryst group open" $!
    refused "no process called 'no-such-program' has a Tryst group open" no-such-program
    # A user's own ranks may be below any process of another user, so another user asks.
    other='setpriv --reuid 65534 --regid 65534 --clear-groups'
    if $other "$info" --help >/dev/null 2>&1; then
        # shellcheck disable=SC2086 # a list of words
        if $other "$info" --live $$ >"$dir/out" 2>"$dir/err"; then fail "a process of another user is not refused"; fi
        grep -Eq "process $$ belongs to user 0: run tryst-info as that user, or as root" "$dir/err" ||
            fail "the refusal does not name the user"
    else
        echo "left out: a process of another user: only root can become one, and $info must be open to it"
    fi
    ;;
page)
    # The commands of docs/hangs.md, on a job that does.
    page=$5
    how=never
    ranks 2
    sentence "^rank 1 $waited 0 " --job "$pid_1"
    awk '/^<!-- test: hang -->$/ { armed = 1; next }
         armed && /^```/ { if (inside) exit; inside = 1; next }
         inside' "$page" | sed "s/4711/$pid_0/" >"$dir/commands"
    [ "$(grep -c '^tryst-info --live' "$dir/commands")" -ge 3 ] || fail "the page has no commands after its marker"
    PATH=$(dirname "$info"):$PATH sh -e "$dir/commands" >"$dir/out" 2>"$dir/err" || fail "the page's commands end with $?"
    says "^rank 1 $waited 0 to send"
    says '^rank 0 of 2'
    says '"sentence": "rank 1 '
    # "any process of the job"
    sed "s/4711/$job/; s/$pid_0/$job/" "$dir/commands" >"$dir/commands.job"
    PATH=$(dirname "$info"):$PATH sh -e "$dir/commands.job" >"$dir/out" 2>"$dir/err" || fail "the page's commands on the launcher end with $?"
    says "^rank 1 $waited 0 to send"
    ;;
*) fail "how is that?" ;;
esac
