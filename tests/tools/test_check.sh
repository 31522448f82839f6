#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-info --check: each item that it checks is made wrong, by environment, limits, or a
# namespace with a machine that lacks something; the output must report the item, give a
# fix, and the exit status must be that of the worst item.
# Usage: test_check.sh <tryst-info> <libtryst.so> <launch.md>
# shellcheck disable=SC2016,SC2317 # single quotes are for other shells; `on` is called by name
set -u
info=$1 library=$2 page=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
for name in $(compgen -e | grep -E '^(TRYST|SLURM|PMIX?|OMPI|MPI)_|^(MASTER_(ADDR|PORT)|(LOCAL_)?(RANK|WORLD_SIZE))$'); do
    unset "$name"
done
bad() { echo "check: $*"; cat "$dir/out"; fail=1; }

# Return the exit status that the levels of the last output require.
worst() {
    grep -q '^FAIL ' "$dir/out" && { echo 4; return; }
    grep -q '^warn ' "$dir/out" && { echo 3; return; }
    echo 0
}

# says <level> <name> <pattern of the text> [<pattern of the fix>] -- <command>
says() {
    local level=$1 name=$2 text=$3 fix=$4 status line
    shift 5
    "$@" >"$dir/out" 2>"$dir/err"
    status=$?
    line=$(grep -E "^(ok|warn|FAIL) +$name " "$dir/out")
    [ "$status" -eq "$(worst)" ] || bad "'$*' ends with $status, the worst is $(worst)"
    [[ $line =~ ^$level\ .*$text ]] || bad "'$name' is not '$level' with '$text': $line"
    [ -z "$fix" ] ||
        grep -A 1 -E "^$level +$name " "$dir/out" | grep -qE -e "-> .*$fix" ||
        bad "'$name' names no fix like '$fix'"
}
none='' # no fix is expected

# The page of launching has this command, and a machine on which tests run passes the check.
[ "$(sed -n '/^<!-- test: check -->/,/^```$/s/^tryst-info \([^ ]*\).*/\1/p' "$page")" = --check ] ||
    { : >"$dir/out"; bad "$page has no tryst-info --check"; }
says ok 'launcher' 'alone' "$none" -- "$info" --check
for name in launcher token 'locked memory' /dev/shm 'ptrace scope' descriptors interfaces ports \
    'transport self' 'transport shm' 'transport ucx' 'transport ofi'; do
    grep -qE "^(ok|warn|FAIL) +$name " "$dir/out" || bad "no line about $name"
done

# --- by modules that are missing or invalid ---
mkdir -p "$dir/lib/tryst"
for name in "$(dirname "$library")"/libtryst.so*; do
    cp "$(readlink -f "$library")" "$dir/lib/$(basename "$name")"
done
export LD_LIBRARY_PATH=$dir/lib TRYST_MODULE_PATH=$dir/lib/tryst # not the modules of an installed Tryst
says warn 'transport ucx' 'no tryst_ucx.so' 'libucx-dev' -- "$info" --check
says warn 'other machines' 'neither' 'libfabric-dev' -- "$info" --check
says FAIL 'transport ofi' 'TRYST_TRANSPORT requires' 'libfabric-dev' -- env TRYST_TRANSPORT=ofi "$info" --check
echo junk >"$dir/lib/tryst/tryst_ucx.so"
says warn 'transport ucx' 'file too short' "$none" -- "$info" --check
rm "$dir/lib/tryst/tryst_ucx.so"
says warn topology 'no tryst_topology.so' 'several hosts' -- "$info" --check
cp "$(dirname "$library")/tryst/tryst_topology.so" "$dir/lib/tryst"

# --- by environment ---
says FAIL settings 'TRYST_WINDOW_BYTES' 'tryst-info -c' -- env TRYST_WINDOW_BYTES=many "$info" --check
says FAIL launcher 'but not RANK' 'launchers' -- env WORLD_SIZE=2 MASTER_ADDR=h "$info" --check
says ok launcher 'hydra: PMI_RANK=1, 3 ranks' "$none" -- \
    env PMI_RANK=1 PMI_SIZE=3 TRYST_BOOTSTRAP=h:1 "$info" --check
says FAIL token 'no job token' 'TRYST_TOKEN' -- \
    env PMI_RANK=1 PMI_SIZE=3 TRYST_BOOTSTRAP=h:1 "$info" --check
says ok token 'rank 0 will create one \(PMI\)' "$none" -- env PMI_RANK=1 PMI_SIZE=3 PMI_FD=9 "$info" --check
says FAIL token 'has 5 characters' 'same token' -- env TRYST_TOKEN=short "$info" --check
says ok token 'TRYST_TOKEN' "$none" -- env TRYST_TOKEN=0123456789abcdef "$info" --check
! grep -q 0123456789abcdef "$dir/out" || bad "the token is shown"
says warn token 'TRYST_INSECURE' 'unset TRYST_INSECURE' -- env TRYST_INSECURE=1 "$info" --check
echo 0123456789abcdef >"$dir/token"
chmod 0644 "$dir/token"
says FAIL token 'chmod 600' "$none" -- env TRYST_TOKEN_FILE="$dir/token" "$info" --check
chmod 0600 "$dir/token"
says ok token "$dir/token" "$none" -- env TRYST_TOKEN_FILE="$dir/token" "$info" --check
says FAIL ports 'not a range' '30000-30099' -- env TRYST_PORT_RANGE=9-1 "$info" --check
says FAIL context 'TRYST_PORT_RANGE' "$none" -- env TRYST_PORT_RANGE=9-1 "$info" --check
says warn ports '2 of them' 'widen' -- env TRYST_PORT_RANGE=30000-30001 "$info" --check
says FAIL interfaces 'nope0' 'TRYST_NET' -- env TRYST_NET=nope0 "$info" --check
says warn interfaces 'loopback alone' 'TRYST_NET' -- env TRYST_NET=lo "$info" --check

topology=$(dirname "$0")/star.json
says ok topology 'unset' "$none" -- "$info" --check
says ok topology 'star.json: 4 ranks' "$none" -- env TRYST_TOPOLOGY="$topology" "$info" --check
says FAIL topology '4 ranks, and the job has 3' 'in their order' -- env TRYST_TOPOLOGY="$topology" \
    PMI_RANK=1 PMI_SIZE=3 TRYST_BOOTSTRAP=h:1 "$info" --check
says FAIL topology 'cannot read TRYST_TOPOLOGY: .*nope.json' 'message' -- env TRYST_TOPOLOGY="$dir/nope.json" "$info" --check
echo '{"ranks": ["a"' >"$dir/cut.json"
says FAIL topology 'cannot read TRYST_TOPOLOGY: .*cut.json' 'message' -- env TRYST_TOPOLOGY="$dir/cut.json" "$info" --check
echo '{"ranks": ["a", "b"], "links": []}' >"$dir/apart.json"
says FAIL topology '2 ranks; ' 'connect' -- env TRYST_TOPOLOGY="$dir/apart.json" "$info" --check
says FAIL topology 'standard input' 'message' -- env TRYST_TOPOLOGY=- "$info" --check

# --- between two hosts: what is wrong with the words; tests/netlab/lab_check.sh has the rest ---
refuses() { # <status> <pattern> <words>…
    local want=$1 pattern=$2 status=0
    shift 2
    "$info" --check "$@" >"$dir/out" 2>&1 || status=$?
    [ $status -eq "$want" ] || bad "--check $* ends with $status"
    grep -qE "$pattern" "$dir/out" || bad "--check $* does not say '$pattern'"
}
refuses 2 'not HOST or HOST:PORT' h:0
refuses 2 'not HOST or HOST:PORT' '[::1]:x'
refuses 2 'unexpected word' a b
refuses 1 'cannot reach 127.0.0.1 port 9: Connection refused.*--check listen' 127.0.0.1:9

# --- by limits ---
says FAIL descriptors '40; a process alone may need 64: the rest is enough for 0 peers' 'hard limit' -- sh -c 'ulimit -n 40; exec "$0" --check' "$info"
says warn descriptors '80; a process alone may need 64: the rest is enough for 1 peer' 'ulimit -n' -- sh -c 'ulimit -Sn 80; exec "$0" --check' "$info"
says ok descriptors '; 1 peer may need 76' "$none" -- \
    env TRYST_RANK=0 TRYST_SIZE=2 TRYST_BOOTSTRAP=h:1 sh -c 'ulimit -Sn 80; exec "$0" --check' "$info"
says warn descriptors '9 peers|, 4000 peers|3999 peers' "$none" -- sh -c \
    'ulimit -Sn 256; PMI_RANK=1 PMI_SIZE=4000 TRYST_BOOTSTRAP=h:1 exec "$0" --check' "$info"

# --- by a machine that lacks something ---
spaces=("$(dirname "$0")/../support/own_mounts.sh" --net --)
if [ -n "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ]; then
    echo "left out: namespaces, which a sanitizer does not go well with"
elif ! command -v setpriv >/dev/null || ! command -v ip >/dev/null ||
    ! "${spaces[@]}" mount -t tmpfs none /mnt >/dev/null 2>&1; then
    echo "left out: namespaces, which are not to be had here"
else
    on() { # <shell commands> <capability to be without>: in namespaces of its own
        "${spaces[@]}" sh -ec "$1"'; exec setpriv --bounding-set -'"$2"' "$0" --check' "$info"
    }
    says warn /dev/shm '1 MiB' 'shm-size' -- on 'mount -t tmpfs -o size=1m none /dev/shm' sys_boot
    says warn /dev/shm 'not usable' 'mount -t tmpfs' -- on 'mount -t tmpfs -o ro none /dev/shm' sys_boot
    says FAIL interfaces 'none is up' 'ip link' -- on : sys_boot
    says warn interfaces 'loopback alone' 'ip link' -- on 'ip link set lo up' sys_boot
    rdma='mount -t tmpfs none /sys/class; mkdir /sys/class/infiniband'
    says FAIL 'locked memory' '64 KiB, and this host' 'memlock' -- on "$rdma; ulimit -l 64" ipc_lock
    if (ulimit -l unlimited) 2>/dev/null; then # else the hard limit is lower, and cannot be raised
        says warn 'locked memory' '100000 KiB' 'unlimited' -- on "$rdma; ulimit -l 100000" ipc_lock
        says ok 'locked memory' 'unlimited' "$none" -- on "$rdma; ulimit -l unlimited" ipc_lock
    fi
    says ok 'locked memory' 'no RDMA' "$none" -- on 'ulimit -l 64' ipc_lock
    yama='mount -t tmpfs none /proc/sys/kernel; mkdir /proc/sys/kernel/yama
        echo 1 >/proc/sys/kernel/yama/ptrace_scope'
    says warn 'ptrace scope' 'ptrace_scope 1' 'sysctl -w' -- on "$yama" sys_ptrace
    says ok 'ptrace scope' 'ptrace_scope 1' "$none" -- on "$yama" sys_boot
    if [ -e "$(dirname "$library")/tryst/tryst_ucx.so" ]; then
        modules=$(realpath "$(dirname "$library")/tryst")
        lo='ip link set lo up; ip address add'
        ports() { # <address> [settings]
            on "$lo $1/32 dev lo; export TRYST_MODULE_PATH='$modules' $2" sys_boot
        }
        says warn 'transport ucx' 'public address 8.8.8.8 of lo' 'TRYST_TRANSPORT=ofi' -- ports 8.8.8.8 ''
        says warn 'transport ucx' 'public address' 'firewall' -- ports 8.8.8.8 TRYST_TRANSPORT=ucx
        says ok 'transport ucx' 'available' "$none" -- ports 8.8.8.8 TRYST_TRANSPORT=ofi
        says ok 'transport ucx' 'available' "$none" -- ports 10.8.8.8 ''
    fi
fi
exit $fail
