#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-perf sched over networks of namespaces of this machine: steps of known models
# under each policy, beside the optimum. networks.sh has the networks, profiles.py the
# models.
#
# usage: sched_lab.sh <netlab.sh> <tryst-perf> [ucx|ofi] [network…]   (star8 racks8)
#   SCHED_LAB_MODELS   (vgg16 resnet50 gpt2 bert-large); also ddp, and files of profiles
#   SCHED_LAB_SECONDS  computation of a step (profiles.py's default)
#   SCHED_LAB_STEPS    measured steps of each policy (5); two more come before
#   SCHED_LAB_SLOWER   divide the rates of all links by this, in the network and in the
#                      graph (1): for a busy machine
#   SCHED_LAB_BUCKET   bytes of a bucket (25M)
#   SCHED_LAB_OUT      keep the figures in this folder, as <network>-<model>.json, and a
#                      picture of the last steps
#   SCHED_LAB_GLOO     a Python with torch: time PyTorch's DDP over Gloo, too
#                      (ddp_gloo.py), with the same buckets, in MiB
# A step of bert-large moves 1.3 GB a rank: 8 ranks need 11 GB of memory, and 47 s for
# each step at 400 Mbit/s.
set -euo pipefail
if [ "$1" = --within ]; then
    shift
    exec "${NETLAB:?}" ranks "$@"
fi
netlab=$1 perf=$2 transport=${3:-ucx}
networks=("${@:4}")
[ ${#networks[@]} -gt 0 ] || networks=(star8 racks8)
read -r -a models <<<"${SCHED_LAB_MODELS:-vgg16 resnet50 gpt2 bert-large}"
steps=${SCHED_LAB_STEPS:-5} slower=${SCHED_LAB_SLOWER:-1} bucket=${SCHED_LAB_BUCKET:-25M}
here=$(dirname "$0")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=tests/perf/networks.sh
. "$here/networks.sh"

profile() { # <model or file>: write it to $dir/profile.json
    if [ -f "$1" ]; then
        cp "$1" "$dir/profile.json"
    else
        python3 "$here/profiles.py" "$1" ${SCHED_LAB_SECONDS:+--seconds "$SCHED_LAB_SECONDS"} >"$dir/profile.json"
    fi
}

run() { # <network> <model>: in the lab of $dir/lab
    local status=0
    TRYST_TOPOLOGY=$dir/graph.json "$netlab" "$dir/lab" "$0" --within "$perf" sched --transport "$transport" \
        --profile "$dir/profile.json" --iterations "$steps" --warmup 2 --bucket "$bucket" --json "$dir/figures" \
        --draw "$dir/steps.svg" >"$dir/out" 2>&1 || status=$?
    [ $status -ne 77 ] || exit 77 # skipped: no network namespaces
    echo "$1, $2, load $(cut -d' ' -f1 /proc/loadavg):"
    cat "$dir/out"
    [ $status -eq 0 ] || return $status
    [ -z "${SCHED_LAB_OUT:-}" ] || {
        cp "$dir/figures" "$SCHED_LAB_OUT/$1-$(basename "$2" .json).json"
        cp "$dir/steps.svg" "$SCHED_LAB_OUT/$1-$(basename "$2" .json).svg"
    }
    [ -z "${SCHED_LAB_GLOO:-}" ] || "$netlab" "$dir/lab" "$0" --within "$SCHED_LAB_GLOO" "$here/ddp_gloo.py" \
        --profile "$dir/profile.json" --bucket-mb "${bucket%M}" --steps "$steps"
}

status=0
for name in "${networks[@]}"; do
    network "$name" | awk -v slower="$slower" \
        '$1 == "link" { $4 = $4 / slower "mbit" } { print }' >"$dir/lab"
    graph 1 <"$dir/lab" >"$dir/graph.json"
    for model in "${models[@]}"; do
        profile "$model"
        run "$name" "$model" || status=1
    done
done
exit $status
