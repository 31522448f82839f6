#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run an MPI program of MPICH on every host of a lab (tests/netlab/netlab.sh), one rank
# each; coll_lab.sh runs this script.
#
# One idea: each host gets one address for MPI, and the route to each other host is the
# link that joins the two. Hosts without a switch have an address on each link, of which
# UCX uses any, whether or not a peer reaches it.
#
# usage: netlab.sh LAB mpich_lab.sh PROGRAM…
#        mpich_lab.sh -x HOST COMMAND…       as Hydra calls ssh: run COMMAND on that host
set -euo pipefail
device=mpi0

if [ "${1:-}" = -x ]; then
    exec "${NETLAB:?}" on "$2" sh -c "exec ${*:3}"
fi

mapfile -t hosts < <(cut -d' ' -f1 /run/netlab/ranks)

# Give each host 10.99.0.<its rank + 1> and a route to each other host.
addresses_add() {
    local i j via
    for i in "${!hosts[@]}"; do
        ip -n "${hosts[i]}" link add $device type veth peer name ${device}peer
        ip -n "${hosts[i]}" link set ${device}peer up
        ip -n "${hosts[i]}" link set $device up
        ip -n "${hosts[i]}" address add "10.99.0.$((i + 1))/32" dev $device
        for j in "${!hosts[@]}"; do
            [ "$i" -ne "$j" ] || continue
            via=$("$NETLAB" address "${hosts[j]}" "${hosts[i]}") # IPv4 comes first
            ip -n "${hosts[i]}" route add "10.99.0.$((j + 1))" via "$via" src "10.99.0.$((i + 1))"
        done
    done
}

addresses_add
# TCP alone: these hosts are one machine, and UCX would use its shared memory.
export UCX_TLS=tcp,self UCX_NET_DEVICES=$device
# Eager messages take half the time of rendezvous here (perf/RESULTS.md).
export UCX_RNDV_THRESH=${UCX_RNDV_THRESH:-inf}
exec "$NETLAB" on "${hosts[0]}" mpiexec.hydra -launcher ssh -launcher-exec "$(readlink -f "$0")" -iface $device \
    -hosts "$(IFS=, && echo "${hosts[*]}")" -n ${#hosts[@]} "$@"
