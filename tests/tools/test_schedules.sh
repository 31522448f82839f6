#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every schedule, run by pp_bench with 4 processes and --check, as a user would; the list of schedules and a trace.
#
# usage: test_schedules.sh <pp_bench> <transport> [delayed|stopped]
#   delayed  while a schedule runs, its ranks are stopped in turn for 20 ms, again and again
#   stopped  one rank is stopped for 2 s
set -euo pipefail
bench=$1 transport=$2 disturb=${3:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$*" >&2
    exit 1
}

# Stop ranks of pp_bench (process $1) while it runs.
disturb() {
    local ranks rank begun=$SECONDS
    sleep 0.3
    mapfile -t ranks < <(pgrep -P "$1")
    [ ${#ranks[@]} -gt 0 ] || return 0
    if [ "$disturb" = stopped ]; then
        kill -STOP "${ranks[1]}" 2>/dev/null || return 0
        touch "$dir/disturbed"
        sleep 2
        kill -CONT "${ranks[1]}" 2>/dev/null || true
        return 0
    fi
    while kill -0 "$1" 2>/dev/null && [ $((SECONDS - begun)) -lt 20 ]; do
        for rank in "${ranks[@]}"; do
            kill -STOP "$rank" 2>/dev/null || return 0
            touch "$dir/disturbed"
            sleep 0.02
            kill -CONT "$rank" 2>/dev/null || return 0
            sleep 0.02
        done
    done
}

steps=4
[ -z "$disturb" ] || steps=150
run() { # <schedule> [option…]
    local schedule=$1 pid status=0
    shift
    "$bench" -n 4 --transport "$transport" --model mlp --hidden 16 --schedule "$schedule" --steps "$steps" --check "$@" \
        >"$dir/out" 2>&1 &
    pid=$!
    [ -z "$disturb" ] || disturb "$pid"
    wait "$pid" || status=$?
    [ $status -eq 0 ] || fail "$schedule $*: exit status $status: $(cat "$dir/out")"
    grep -q "bitwise equal to the replay's" "$dir/out" || fail "$schedule: no word of the check: $(cat "$dir/out")"
    sed -nE 's/.*weights ([0-9a-f]+)$/\1/p' "$dir/out" >"$dir/digest"
}

if [ "$disturb" = stopped ]; then
    run pipedream
    [ -e "$dir/disturbed" ] || fail "pp_bench ended before a rank was stopped"
    exit 0
fi

# Synchronous schedules of one order of sums have one digest.
digest=
for schedule in 1f1b gpipe naive dapple-b interleaved interleaved:v=2,group=8 1f1b:recompute=always \
    interleaved:recompute=except_last zb-h1 zb-h1:v=2 zb-h2 zb-v dualpipev v-half v-min zb-v:recompute=always \
    hanayo hanayo:waves=1,recompute=always; do
    [ -z "$disturb" ] || [ "$schedule" = interleaved ] || [ "$schedule" = zb-v ] || continue
    run "$schedule"
    [ -z "$digest" ] || [ "$digest" = "$(cat "$dir/digest")" ] || fail "$schedule: other weights than 1f1b"
    digest=$(cat "$dir/digest")
done
if [ -n "$disturb" ]; then
    run pipedream-2bw
    run xpipe
    run dualpipe
    [ -e "$dir/disturbed" ] || fail "pp_bench ended before a rank was delayed"
    exit 0
fi
digest=
for schedule in torchgpipe bfs bfs:v=1; do
    run "$schedule"
    [ -z "$digest" ] || [ "$digest" = "$(cat "$dir/digest")" ] || fail "$schedule: other weights than torchgpipe"
    digest=$(cat "$dir/digest")
done
# Two copies of the model: the sums of two directions.
for schedule in chimera chimera:recompute=always dualpipe; do
    run "$schedule"
    grep -q 'gradients of 2 replicas' "$dir/out" || fail "$schedule: no word of its replicas: $(cat "$dir/out")"
done
run chimera --dp 2
grep -q 'gradients of 4 replicas' "$dir/out" || fail "chimera --dp 2: no word of its replicas: $(cat "$dir/out")"
# A loop, and the flat program of the same updates.
for schedule in pipedream pipedream:every=4 pipedream-vsync pipedream-vsync:inflight=2 pipedream-2bw pipemare \
    pipemare:every=2,rate=10 xpipe pipedream:recompute=always; do
    run "$schedule"
done
run spectrain --optimizer sgd
run pipemare:sync=2,every=4
run xpipe:sync=1
run pipedream:updates=8

"$bench" schedules >"$dir/list"
for schedule in naive gpipe torchgpipe 1f1b dapple-b interleaved bfs zb-h1 zb-h2 zb-v dualpipev v-half v-min pipedream \
    pipedream-vsync pipedream-2bw pipemare xpipe spectrain hanayo chimera dualpipe; do
    grep -qx "$schedule" "$dir/list" || fail "pp_bench schedules does not list $schedule"
done
"$bench" schedules --trace pipedream:every=2 -n 3 --microbatches 4 >"$dir/trace"
grep -qx 'stage 0: 2 versions, 0 slots, delay 1' "$dir/trace" || fail "$(cat "$dir/trace")"
# micro-batch 7: F and B at stage 0 read max(0, (7 - 2) / 2) = 2, at stage 2 7 / 2 = 3
grep -Eqx ' *7 +2\+1 +2\+1 +3\+0 +3\+0 +3\+0 +3\+0' "$dir/trace" || fail "$(cat "$dir/trace")"
"$bench" schedules --trace nothing >"$dir/out" 2>&1 && fail "--trace nothing was not refused"
grep -q 'unknown schedule "nothing"; known are naive' "$dir/out" || fail "$(cat "$dir/out")"

# What pp_bench cannot run is refused before a rank starts.
refused() { # <words> <option…>
    local words=$1 status=0
    shift
    timeout 30 "$bench" --transport "$transport" --model mlp --hidden 16 --steps 4 "$@" >"$dir/out" 2>&1 || status=$?
    [ $status -eq 2 ] || fail "$*: exit status $status: $(cat "$dir/out")"
    grep -qF -- "$words" "$dir/out" || fail "$*: no \"$words\" in: $(cat "$dir/out")"
}
refused 'is a loop, and replicas run programs that drain in each step; add the option updates=N' --dp 2 -n 4 \
    --schedule pipedream
printf '0F0,BODY,0B0,0UPDATE,0F1v1,EPILOGUE,0B0,0UPDATE\n,BODY,1F0,1B0,1UPDATE,EPILOGUE,1F0,1B0,1UPDATE\n' >"$dir/loop.csv"
refused 'give a file without the marks' --dp 2 -n 4 --schedule "$dir/loop.csv"
refused 'two micro-batches for each rank are the least: give 8' -n 4 --schedule dualpipev --microbatches 7
refused 'zb-h2 has no option "v"' -n 4 --schedule zb-h2:v=2
refused '"every" must divide the micro-batches of a step' -n 4 --schedule pipedream:every=3
! grep -q 'or a FILE.csv' "$dir/out" || fail "a file instead of an option: $(cat "$dir/out")"
refused 'sync is for schedules with one stage on each rank' -n 4 --schedule hanayo:sync=2
refused 'sync is for schedules with one stage on each rank' -n 4 --schedule chimera:sync=2
refused '5 is odd' -n 5 --schedule chimera --microbatches 10
refused 'a multiple of the 4 ranks' -n 4 --schedule chimera --microbatches 6
refused '3 is odd' -n 3 --schedule dualpipe
refused '9 is odd' -n 4 --schedule dualpipe --microbatches 9
refused 'at least 2 x 4 ranks, and are 6' -n 4 --schedule dualpipe --microbatches 6
refused 'waves=0: the value must be a whole number of 1 or more' -n 4 --schedule hanayo:waves=0
refused '16 stages need at least 16 layers, but the model has 8' -n 4 --schedule hanayo:waves=2
# A loop's file whose first rank does nothing.
printf '\n0F0,BODY,0F1,0B0,0B1,0UPDATE,0F2v1,EPILOGUE,0F1,0B0,0B1,0UPDATE\n%s\n' \
    ,BODY,1F0,1B0,1F1,1B1,1UPDATE,EPILOGUE,1F0,1B0,1F1,1B1,1UPDATE >"$dir/idle.csv"
"$bench" --transport "$transport" --model mlp --hidden 16 --steps 4 --schedule "$dir/idle.csv" --check >"$dir/out" 2>&1 ||
    fail "$(cat "$dir/out")"
