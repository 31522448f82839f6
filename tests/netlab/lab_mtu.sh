#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts and their switches have an MTU of 9000, and the trunk between the switches
# carries 1500 and drops the rest without a report. The bootstrap and the links work, and the texts of both ranks
# (log, outcome, tryst-info --live) name the packets that are lost. No text may call a
# rank dead or stopped.
# How: both (directions), or one (from h0 to h1).
# usage: lab_mtu.sh <netlab.sh> <netlab_reach> <tryst-info> <transport> <how> <lab>
set -euo pipefail
[ "$1" = --within ] || exec "$1" "$6" "$0" --within "$2" "$3" "$4" "$5"
program=$2 info=$3 how=$5
export TRYST_TRANSPORT=$4 TRYST_STALL_WARN=3s TRYST_BOOTSTRAP_TIMEOUT=20s TRYST_PEER_TIMEOUT=5s
export TRYST_TOKEN=0123456789abcdef0123456789abcdef
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*"; head -n 40 "$dir"/*; exit 1; }

# Packets as the wire sees them: without segmentation offload. With it the switches let
# them pass, as they do for h1 where one direction is to work.
for host in h0 h1; do
    ip -n $host link set eth0 mtu 9000
    ip -n switches link set p${host#h}b mtu 9000
    [ "$host$how" = h1one ] || ip -n $host link set eth0 gso_max_segs 1
done
lost0='packets of 9000 bytes from rank 0 to rank 1 (MTU of its eth0: 9000)'
lost1='packets of 9000 bytes from rank 1 to rank 0 (MTU of its eth0: 9000)'

pids=()
for rank in 0 1; do
    TRYST_RANK=$rank TRYST_SIZE=2 TRYST_HOST_ID=h$rank TRYST_BOOTSTRAP=10.88.1.1:4711 \
        timeout 60 "$NETLAB" on h$rank "$program" 262144 13 >"$dir/out.$rank" 2>"$dir/err.$rank" &
    pids+=($!)
done
for ((i = 0; i < 100; i++)); do
    grep -qs 'are lost on the way' "$dir/err.0" && break
    sleep 0.1
done
sleep 0.6 # a tick, which writes the live page
"$info" --live netlab_reach >"$dir/live" 2>&1 || true
wait "${pids[@]}" || true
! grep -qwE 'died|dead|stopped|debugger' "$dir"/out.* "$dir"/err.* || fail "a rank is called dead or stopped"
grep -qF "$lost0" "$dir/err.0" || fail "the log of rank 0"
grep -qE '^rank 0: TRYST_E_(DEADLINE|PEER) ' "$dir/out.1" || fail "the outcome of rank 1"
grep -qF "$lost0" "$dir/out.1" || fail "the reason of rank 1"
grep -qF 'those of 1280 arrive' "$dir/out.1" || fail "the sizes"
grep -qF '9000 bytes from rank 0 to rank 1' "$dir/live" || fail "--live"
if [ "$how" = both ]; then
    grep -qF "$lost1" "$dir/out.0" || fail "the reason of rank 0"
fi
cat "$dir"/out.*
