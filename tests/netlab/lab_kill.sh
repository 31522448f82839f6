#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Kill a random rank by SIGKILL at a random moment of a training (pp_bench), each rank on
# a separate host. Every survivor must end by itself, soon, and name the dead rank;
# afterwards nothing of the lab may be left. TRYST_TEST_KILLS sets the number of kills
# (3), TRYST_TEST_SEED replays.
# usage: lab_kill.sh <netlab.sh> <pp_bench> <transport> <lab>
set -euo pipefail
survive_ms=5000   # the most that a survivor may take, once the ranks have joined
bootstrap_ms=8000 # added while the ranks still join; also the time-out of joining
start_ms=20000    # until four processes run, on a machine with other work

fail() { echo "FAILED: $*"; exit 1; }

# shellcheck source=tests/netlab/slower.sh
. "${0%/*}/slower.sh"

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# --- outside: check that nothing is left ------------------------------------------------

if [ "$1" != --within ]; then
    export NETLAB_MARK=kill$$
    interfaces=$(ls /sys/class/net)
    status=0
    "$1" "$4" "$0" --within "$2" "$3" || status=$?
    for _ in {1..50}; do
        left=$(grep -lszx "NETLAB_MARK=$NETLAB_MARK" /proc/[0-9]*/environ |
            grep -vxE "/proc/($$|self|thread-self)/environ" || true)
        [ -n "$left" ] || break
        sleep 0.1
    done
    for one in $left; do # grep and its shell had the mark too, and have ended
        [ ! -e "$one" ] || fail "left of the lab: $one $(tr '\0' ' ' <"${one%environ}cmdline")"
    done
    [ "$(ls /sys/class/net)" = "$interfaces" ] || fail "other interfaces than before"
    exit $status
fi

# --- within -----------------------------------------------------------------------------

pp_bench=$2 transport=$3
RANDOM=${TRYST_TEST_SEED:=$((SRANDOM % 32768))}
echo "seed $TRYST_TEST_SEED (TRYST_TEST_SEED replays it)"
size=$(wc -l </run/netlab/ranks)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TRYST_BOOTSTRAP_TIMEOUT=${bootstrap_ms}ms

# Print lines "rank pid" of the running ranks: the lab has its own pid namespace.
running() {
    local pid
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        [ "$(tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | head -n 1)" = "$pp_bench" ] || continue # netlab.sh
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | sed -n "s/^TRYST_RANK=\(.*\)/\1 $pid/p"
    done
}

# Print the relevant lines of rank $1: the first 20.
said() { echo "rank $1 printed:"; head -n 20 "$dir/err.$1"; }

kill_one() {
    local begin victim pid together limit took rank
    rm -f "$dir"/err.*
    # shellcheck disable=SC2016 # expands there
    "$NETLAB" ranks bash -c 'exec "${@:2}" 2>"$1/err.$TRYST_RANK"' bash "$dir" "$pp_bench" \
        --transport "$transport" --model gpt --layers "$size" --hidden 32 --seq 16 \
        --steps 1000000 >"$dir/out" 2>"$dir/ranks" &
    begin=$(now_ms)
    while [ "$(running | wc -l)" -ne "$size" ]; do
        [ $(($(now_ms) - begin)) -lt $((start_ms * $(slower 10 %d))) ] || fail "the ranks did not start: $(running) $(cat "$dir"/ranks "$dir"/err.*)"
        sleep 0.01
    done
    if [ $((RANDOM % 2)) -eq 1 ]; then # else kill while the ranks join, or soon after
        until grep -qs '^step' "$dir/out"; do
            [ $(($(now_ms) - begin)) -lt $((start_ms * $(slower 10 %d))) ] || fail "no step within $((start_ms * $(slower 10 %d))) ms: $(cat "$dir"/err.*)"
            sleep 0.01
        done
    fi
    sleep "$(printf '0.%03d' $((RANDOM % 1000)))"
    victim=$((RANDOM % size))
    pid=$(running | sed -n "s/^$victim //p")
    [ -n "$pid" ] || { for ((rank = 0; rank < size; rank++)); do said $rank; done; fail "rank $victim is gone already"; }
    together=$(grep -c '^step' "$dir/out" || true)
    trained=$((trained + (together > 0)))
    begin=$(now_ms)
    kill -KILL "$pid"
    wait $! && fail "the run succeeded without rank $victim"
    took=$(($(now_ms) - begin))
    limit=$survive_ms
    [ "$together" -gt 0 ] || limit=$((limit + bootstrap_ms))
    limit=$((limit * $(slower 10 %d)))
    for ((rank = 0; rank < size; rank++)); do
        [ $rank -ne $victim ] || continue
        grep -q "pp_bench: .*rank $victim\b" "$dir/err.$rank" || {
            said $rank
            fail "rank $rank does not name rank $victim"
        }
    done
    [ $took -le $limit ] || {
        for ((rank = 0; rank < size; rank++)); do said $rank; done
        fail "the survivors of rank $victim took $took ms"
    }
    killed=$((killed + 1))
    echo "rank $victim killed, $([ "$together" -gt 0 ] && echo training || echo joining): all ended within $took ms"
    [ "$together" -eq 0 ] || [ $took -le $worst ] || worst=$took
    [ "$together" -gt 0 ] || [ $took -le $worst_before ] || worst_before=$took
}

worst=0 worst_before=0 trained=0 killed=0
kills=${TRYST_TEST_KILLS:-3}
for ((n = 0; n < kills; n++)); do
    kill_one
done
[ $killed -eq "$kills" ] || fail "$killed of $kills ranks were killed" # bash continues after an error in $(())
echo "$transport: $killed killed, $trained of them training: all ended within $worst ms; within $worst_before ms where the ranks still joined"
