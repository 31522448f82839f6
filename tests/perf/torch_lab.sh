#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs a program of torch.distributed on the hosts of a network of namespaces, one rank on each, with the variables that
# torchrun sets. networks.sh has the networks.
#
# usage: torch_lab.sh <netlab.sh> <network> <python> <program> [argument…]
#   TORCH_LAB_TRYST   the folder that contains tryst_torch (build/release/torch/package)
set -euo pipefail
if [ "$1" = --rank ]; then
    shift
    export RANK=$TRYST_RANK WORLD_SIZE=$TRYST_SIZE LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
    export MASTER_ADDR=${TRYST_BOOTSTRAP%:*} MASTER_PORT=${TRYST_BOOTSTRAP##*:} GLOO_SOCKET_IFNAME=eth0
    unset TRYST_RANK TRYST_SIZE TRYST_BOOTSTRAP TRYST_TOKEN
    exec "$@"
fi
if [ "$1" = --within ]; then
    shift
    exec "${NETLAB:?}" ranks "$0" --rank "$@"
fi
netlab=$1 name=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=tests/perf/networks.sh
. "$(dirname "$0")/networks.sh"
network "$name" >"$dir/lab"
graph 1 <"$dir/lab" >"$dir/graph.json"
unset TRYST_TORCH_VENV # the library warns of settings that it does not have
TRYST_TRANSPORT=ucx TRYST_TOPOLOGY=$dir/graph.json \
    PYTHONPATH=${TORCH_LAB_TRYST:+$(cd "$TORCH_LAB_TRYST" && pwd):}${PYTHONPATH:-} \
    "$netlab" "$dir/lab" "$0" --within "${@:3}"
