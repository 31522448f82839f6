#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run a Slurm of one node for one command: munged, slurmctld and slurmd with a separate
# configuration, key, ports and folder. All run as this user, and end when the command has
# ended or this script is killed. Another Slurm on this machine is neither read nor
# changed.
# usage: slurm.sh COMMAND…
#        The command runs with SLURM_CONF set. Exit status 77: Slurm is not installed.
set -u

skip() { echo "skipped: $*"; exit 77; }
for tool in munged mungekey slurmctld slurmd srun sinfo setpriv; do
    PATH=$PATH:/usr/sbin command -v $tool >/dev/null ||
        skip "no $tool here (apt-get install slurmctld slurmd slurm-client munge)"
done
PATH=$PATH:/usr/sbin

dir=$(mktemp -d)
children=()
down() {
    trap - EXIT
    local pid
    # stop the last one first: slurmd ends its steps, and both others need munged
    for ((i = ${#children[@]} - 1; i >= 0; i--)); do
        pid=${children[i]}
        kill -TERM "$pid" 2>/dev/null
        for _ in $(seq 50); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$pid" 2>/dev/null
    done
    rm -rf "$dir"
}
trap down EXIT
trap 'exit 143' TERM INT HUP

# Start a daemon in the background; it dies with this script.
start() { # <name> <command…>
    local name=$1
    shift
    setpriv --pdeathsig KILL "$@" >"$dir/$name.out" 2>&1 &
    children+=($!)
}

# port: print a port without a listener, outside the range that the kernel assigns.
port() {
    local first range
    read -r first range </proc/sys/net/ipv4/ip_local_port_range
    while :; do
        range=$((10000 + RANDOM % 20000))
        [ "$range" -lt "$first" ] || continue
        grep -qi ":$(printf %04X $range) " /proc/net/tcp || { echo $range; return; }
    done
}

fail() {
    echo "slurm: $*"
    tail -n 20 "$dir"/*.log "$dir"/*.out
    exit 1
}

chmod 0755 "$dir"
mkdir -m 0755 "$dir/munge" "$dir/state" "$dir/spool"
mungekey --create --keyfile="$dir/munge/key"
start munged munged --foreground --force --key-file="$dir/munge/key" \
    --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" --log-file="$dir/munged.log" \
    --seed-file="$dir/munge/seed"
host=$(hostname -s)
user=$(id -un)
cat >"$dir/slurm.conf" <<END
ClusterName=tryst
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(port)
SlurmdPort=$(port)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
CryptoType=crypto/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/linear
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmdTimeout=300
InactiveLimit=0
KillWait=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
END
export SLURM_CONF=$dir/slurm.conf
for _ in $(seq 100); do
    [ -S "$dir/munge/socket" ] && break
    sleep 0.1
done
[ -S "$dir/munge/socket" ] || fail "munged does not start"
start slurmctld slurmctld -D
start slurmd slurmd -D -N "$host"
for _ in $(seq 200); do
    sinfo -h -o %T 2>/dev/null | grep -q '^idle' && break
    sleep 0.1
done
sinfo -h -o %T 2>/dev/null | grep -q '^idle' || fail "the node does not become idle"
"$@"
