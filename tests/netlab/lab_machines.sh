#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two ranks on each of two hosts, neighbours in rank on different hosts, without
# TRYST_TOPOLOGY: each all-reduce must be correct, and its bytes must cross the network
# once in each direction. (Trees for equal links cross it twice.)
# usage: lab_machines.sh <netlab.sh> <tryst-perf> <transport> <lab>
set -euo pipefail
if [ "$1" != --within ]; then
    exec "$1" "$4" "$0" --within "$2" "$3"
fi
program=$2 transport=$3
bytes=$((4 << 20)) iters=4 warmup=1
at=$("$NETLAB" address h0 h1):4711
TRYST_TOKEN=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
export TRYST_TOKEN
unset TRYST_TOPOLOGY

pids=()
for rank in 0 1 2 3; do
    TRYST_RANK=$rank TRYST_SIZE=4 TRYST_BOOTSTRAP=$at TRYST_HOST_ID=h$((rank % 2)) \
        timeout 60 "$NETLAB" on h$((rank % 2)) "$program" allreduce --transport "$transport" \
        --sizes $bytes --iters $iters --warmup $warmup --check &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid"; done

"$NETLAB" bytes | awk -v all=$((bytes * (iters + warmup))) '
    $1 == "h0" {
        printf "h0 received %.2f and sent %.2f of the reduced bytes\n", $4 / all, $5 / all
        if ($4 < all || $5 < all || $4 + $5 > 2.6 * all) bad = 1
        found = 1
    }
    END { exit bad || !found }'
