#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-perf sched over networks of namespaces of this machine: steps of known models
# under each policy, beside the optimum. networks.sh has the networks, profiles.py the
# models.
#
# usage: sched_lab.sh <netlab.sh> <tryst-perf> [ucx|ofi] [network…]   (star8 racks8)
#   SCHED_LAB_MODELS   (vgg16 resnet50 gpt2 bert-large); also ddp, and files of profiles.
#                      MODEL@BYTES/SECONDS: scaled to these bytes of gradients, with this
#                      computation (vgg16@33.6e6/0.7)
#   SCHED_LAB_SECONDS  computation of a step (profiles.py's default)
#   SCHED_LAB_STEPS    measured steps of each policy (5); two more come before
#   SCHED_LAB_SLOWER   divide the rates of all links by this, in the network and in the
#                      graph (1): for a busy machine
#   SCHED_LAB_BUCKET   bytes of a bucket (25M)
#   SCHED_LAB_OUT      keep the figures in this folder, as <network>-<model>.json, and a
#                      picture of the last steps
#   SCHED_LAB_GLOO     a Python with torch: time PyTorch's DDP over Gloo, too
#                      (ddp_torch.py), with the same buckets, in MiB
#   SCHED_LAB_TRYST    the folder that contains tryst_torch, for that Python
#                      (build/release/torch/package): time DDP over tryst as well
#   SCHED_LAB_KINDS    what to time, and the MiB of the buckets; with SCHED_LAB_TRYST
#                      (gloo:25,gloo:4,tryst:25,tryst:4,hook:1,cross:1)
# A step of bert-large moves 1.3 GB a rank: 8 ranks need 11 GB of memory, and 47 s for
# each step at 400 Mbit/s.
set -euo pipefail
if [ "$1" = --within ]; then
    shift
    exec "${NETLAB:?}" ranks "$@"
fi
netlab=$1 perf=$2 transport=${3:-ucx}
unset TRYST_TORCH_VENV # the library warns of settings that it does not have
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
    local bytes seconds=${SCHED_LAB_SECONDS:-}
    if [ -f "$1" ]; then
        cp "$1" "$dir/profile.json"
        return
    fi
    case $1 in
    *@*/*) bytes=${1#*@} seconds=${1#*/} ;;
    esac
    python3 "$here/profiles.py" "${1%@*}" ${bytes:+--bytes "${bytes%/*}"} ${seconds:+--seconds "$seconds"} \
        >"$dir/profile.json"
}

ddp() { # PyTorch's DDP, in the lab of $dir/lab
    local kinds=gloo:${bucket%M}
    [ -n "${SCHED_LAB_GLOO:-}" ] || return 0
    [ -z "${SCHED_LAB_TRYST:-}" ] || kinds=${SCHED_LAB_KINDS:-gloo:25,gloo:4,tryst:25,tryst:4,hook:1,cross:1}
    TRYST_TRANSPORT=$transport TRYST_TOPOLOGY=$dir/graph.json \
        PYTHONPATH=${SCHED_LAB_TRYST:+$(cd "$SCHED_LAB_TRYST" && pwd):}${PYTHONPATH:-} \
        "$netlab" "$dir/lab" "$0" --within "$SCHED_LAB_GLOO" "$here/ddp_torch.py" --profile "$dir/profile.json" \
        --kinds "$kinds" --steps "$steps" --figures "$dir/figures"
}

run() { # <network> <model>: in the lab of $dir/lab
    local status=0 name=${2//\//,}
    [ ! -f "$2" ] || name=$(basename "$2" .json)
    name=$1-$name
    TRYST_TOPOLOGY=$dir/graph.json "$netlab" "$dir/lab" "$0" --within "$perf" sched --transport "$transport" \
        --profile "$dir/profile.json" --iterations "$steps" --warmup 2 --bucket "$bucket" --json "$dir/figures" \
        --draw "$dir/steps.svg" >"$dir/out" 2>&1 || status=$?
    [ $status -ne 77 ] || exit 77 # skipped: no network namespaces
    echo "$1, $2, load $(cut -d' ' -f1 /proc/loadavg):"
    cat "$dir/out"
    [ $status -eq 0 ] || return $status
    [ -z "${SCHED_LAB_OUT:-}" ] || {
        cp "$dir/figures" "$SCHED_LAB_OUT/$name.json"
        cp "$dir/steps.svg" "$SCHED_LAB_OUT/$name.svg"
    }
    ddp
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
