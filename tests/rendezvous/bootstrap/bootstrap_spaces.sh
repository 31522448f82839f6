#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Real processes come together on a host whose names are the test's: in namespaces with
# another /etc/hosts, and with a host name of 64 characters, Linux's limit. Also two jobs
# with one address and one token.
# usage: bootstrap_spaces.sh BOOTSTRAP_RANK
set -u
if [ "${SPACES:-}" != inside ]; then
    SPACES=inside exec "$(dirname "$0")/../../support/own_mounts.sh" --uts -- "$0" "$@"
fi
rank=$1
dir=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
fail() {
    echo "bootstrap_spaces: $*"
    tail -n 20 "$dir"/*.out
    exit 1
}
for name in $(compgen -e | grep -E '^(TRYST|SLURM|PMIX?|OMPI|MPI)_|^TORCHELASTIC|^(MASTER_(ADDR|PORT)|(LOCAL_)?(RANK|WORLD_SIZE))$'); do
    unset "$name"
done
export TRYST_TOKEN=0123456789abcdef0123456789abcdef TRYST_SIZE=2 TRYST_BOOTSTRAP_TIMEOUT=20s
printf '127.0.0.1 localhost\n' >"$dir/hosts"
mount --bind "$dir/hosts" /etc/hosts || { echo "skipped: cannot mount here"; exit 77; }

port=$((10000 + $$ % 10000))
begin() { # <name of the rank> <variables…>: start a rank
    local name=$1
    shift
    env "$@" TRYST_BOOTSTRAP="$at" timeout 60 "$rank" >"$dir/$name.out" 2>&1 &
    pids[$name]=$!
}
ends() { # <name> <status>
    local status=0
    wait "${pids[$1]}" || status=$?
    [ $status = "$2" ] || fail "$1 ends with $status, not $2"
}
says() { # <name> <pattern>
    grep -qE -- "$2" "$dir/$1.out" || fail "$1 does not say '$2'"
}
declare -A pids

# The name service has the name, or its new address, a second after the ranks start.
for before in '' '192.0.2.1 worker-0.example'; do
    at=worker-0.example:$((port++))
    printf '127.0.0.1 localhost\n%s\n' "$before" >"$dir/hosts"
    begin zero TRYST_RANK=0
    begin one TRYST_RANK=1
    sleep 1
    printf '127.0.0.1 localhost worker-0.example\n' >"$dir/hosts"
    ends zero 0
    ends one 0
done

# Both names in a sentence are whole.
name=$(printf 'h%.0s' {1..62})
hostname "${name}01" 2>/dev/null || { echo "skipped: cannot set a host name here"; exit 77; }
at=127.0.0.1:$((port++))
begin zero TRYST_RANK=0
begin one TRYST_RANK=1 TRYST_SIZE=3
ends zero 1
ends one 1
says zero "rank 1 \(pid [0-9]+ on ${name}01, 127.0.0.1:[0-9]+\) belongs to a job of 3 ranks"
says one "on ${name}01"

# A rank of another job is refused, and the right one comes late.
at=127.0.0.1:$((port++))
begin zero TRYST_RANK=0 SLURM_JOB_ID=101
begin stranger TRYST_RANK=1 SLURM_JOB_ID=102
ends stranger 1
says stranger 'another job: SLURM_JOB_ID=101 there, SLURM_JOB_ID=102 at this rank 1; .* TRYST_BOOTSTRAP'
begin one TRYST_RANK=1 SLURM_JOB_ID=101
ends zero 0
ends one 0

# The port above MASTER_PORT has a listener.
at=127.0.0.1:$((port + 1))
begin other TRYST_RANK=0 TRYST_JOB=b
until grep -qi "$(printf ':%04X 00000000:0000 0A' $((port + 1)))" /proc/net/tcp; do sleep 0.02; done
at=
torch=(-u TRYST_SIZE WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" TRYST_BOOTSTRAP_TIMEOUT=1s)
begin zero "${torch[@]}" RANK=0
begin one "${torch[@]}" RANK=1
ends zero 1
ends one 1
says zero 'the port is in use \(another job\?\); choose another one in TRYST_PORT \(now: MASTER_PORT\+1\)'
says one 'another job: TRYST_JOB=b there, no identity at this rank 1; .* TRYST_PORT \(now: MASTER_PORT\+1\)'
kill "${pids[other]}"
