#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Collectives of device tensors beside those of host tensors, over two hosts of 400 Mbit/s, with a driver that needs
# no GPU and copies at a given rate. Both kinds take turns; the figures are medians of the rounds, with the least and
# the most.
#
#   allreduce  the median time of five all-reduces of 64 MiB; copies at 100 MB/s each way
#   preempt    the 99th percentile of an all-reduce of 64 KiB under one of 256 MiB; copies at 400 MB/s each way
#
# usage: coll_device.sh <netlab.sh> <tryst-perf> <libfake_cuda.so> allreduce|preempt [rounds (5)]
#   COLL_DEVICE_MBPS   another rate of the copies
set -euo pipefail
if [ "$1" != --within ]; then
    lab=$(dirname "$1")/labs/pair.lab
    exec "$1" "$lab" "$0" --within "${@:2}"
fi
perf=$2 kind=$4 rounds=${5:-5}
export TRYST_CUDA_DRIVER=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
case $kind in
allreduce) options=(allreduce --sizes 64M --iters 5 --warmup 1) mbps=100 key=seconds ;;
preempt) options=(preempt --op allreduce --sizes 64K --background 256M --iters 100) mbps=400 key=seconds_p99 ;;
*) echo "coll_device: allreduce or preempt, not $kind" >&2; exit 2 ;;
esac
export FAKE_CUDA_COPY_MBPS=${COLL_DEVICE_MBPS:-$mbps}

run() { # <plain|cuda>: print the figure in ms
    timeout 100 "${NETLAB:?}" ranks "$perf" "${options[@]}" --transport ucx --memory "$1" --json "$dir/json" >&2
    sed -nE "s/.*\"$key\": *([0-9.e+-]+).*/\1/p" "$dir/json" | awk '{ print $1 * 1000; exit }'
}

figure() { # <name> <file>
    sort -n "$2" | awk -v name="$1" '{ v[NR] = $1 } END { printf "%s: %.4g  (%.4g to %.4g)\n", name, v[int((NR + 1) / 2)], v[1], v[NR] }'
}

for _ in $(seq "$rounds"); do
    for memory in plain cuda; do
        run "$memory" | tee -a "$dir/$memory" >&2
    done
    echo "$(tail -n 1 "$dir/cuda") $(tail -n 1 "$dir/plain")" >>"$dir/both"
done
awk '{ print $1 / $2 }' "$dir/both" >"$dir/ratio"
awk '{ print $1 - $2 }' "$dir/both" >"$dir/more"
echo "$kind, copies at $FAKE_CUDA_COPY_MBPS MB/s, $rounds rounds, $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
figure "host tensors, ms" "$dir/plain"
figure "device tensors, ms" "$dir/cuda"
figure "ratio" "$dir/ratio"
figure "difference, ms" "$dir/more"
