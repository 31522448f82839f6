#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that join through the bootstrap but cannot reach each other otherwise. No rank may
# be reported as dead, the status must be TRYST_E_UNREACHABLE, and the text must name
# address, port, errno, transport and what to check, in the operation's error and in the
# log.
# How: prohibited, unreachable and silent (routing rules in place of a firewall, with the
# same errnos), icmp (the host answers by ICMP), linklocal (only IPv6 link-local
# addresses) and loopback (TRYST_NET=lo).
# usage: lab_reach.sh <netlab.sh> <netlab_reach> <how> <lab>
set -euo pipefail
[ "$1" = --within ] || exec "$1" "$4" "$0" --within "$2" "$3"
program=$2 how=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
port=4711
export TRYST_TOKEN=0123456789abcdef0123456789abcdef
export TRYST_CONNECT_TIMEOUT=4s TRYST_BOOTSTRAP_TIMEOUT=30s

fail() { echo "FAILED: $*"; head -n 40 "$dir"/*; exit 1; }

# Apply <type> to all TCP that leaves the host, except the bootstrap's.
rules_out() { # <host> <type>
    ip -n "$1" rule add pref 10 ipproto tcp dport $port lookup main
    ip -n "$1" rule add pref 11 ipproto tcp sport $port lookup main
    ip -n "$1" rule add pref 12 ipproto tcp to 10.88.0.0/16 "$2"
}

# Apply <type> to all TCP that comes in, except the bootstrap's: before the rule for local
# addresses.
rules_in() { # <host> <type>
    ip -n "$1" rule add pref 5 iif eth0 ipproto tcp dport $port lookup local
    ip -n "$1" rule add pref 6 iif eth0 ipproto tcp sport $port lookup local
    ip -n "$1" rule add pref 7 iif eth0 ipproto tcp "$2"
    ip -n "$1" rule add pref 8 lookup local
    ip -n "$1" rule del pref 0
}

errno="" at=10.88
bootstrap=("10.88.1.1:$port" "10.88.1.1:$port")
for host in h0 h1; do
    case $how in
    prohibited) rules_out $host prohibit && errno="Permission denied" ;;
    unreachable) rules_out $host unreachable && errno="Network is unreachable" ;;
    silent) rules_in $host blackhole && errno="no answer within TRYST_CONNECT_TIMEOUT" ;;
    icmp)
        ip netns exec $host sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
        rules_in $host prohibit && errno="No route to host"
        ;;
    linklocal)
        for nic in eth0 eth1; do
            ip -n $host address flush dev $nic
            ip -n $host address add "fe80::${nic#eth}:$((${host#h} + 1))/64" dev $nic nodad
        done
        bootstrap=("[fe80::0:1%eth0]:$port" "[fe80::0:1%eth0]:$port")
        ;;
    loopback) export TRYST_NET=lo && errno="the peer announced only loopback" ;;
    esac
done

for rank in 0 1; do
    TRYST_RANK=$rank TRYST_SIZE=2 TRYST_HOST_ID=h$rank TRYST_BOOTSTRAP=${bootstrap[rank]} \
        timeout 60 "$NETLAB" on h$rank "$program" >"$dir/out.$rank" 2>"$dir/err.$rank" &
done
wait
for rank in 0 1; do [ -s "$dir/out.$rank" ] || fail "rank $rank has no outcome"; done
! grep -qw died "$dir"/* || fail "a rank is reported as dead"
if [ "$how" = linklocal ] && grep -qx 'rank 1: TRYST_OK' "$dir/out.0"; then
    grep -qx 'rank 0: TRYST_OK' "$dir/out.1" || fail "only one rank reaches the other"
    cat "$dir"/out.*
    exit
fi
for file in out err; do
    for rank in 0 1; do
        for what in "$errno" TRYST_NET TRYST_PORT_RANGE firewall; do
            grep -qF "$what" "$dir/$file.$rank" || fail "rank $rank, std$file: no $what"
        done
        [ "$how" = linklocal ] || [ "$how" = loopback ] ||
            grep -qE "TCP link to ${at}[.0-9]*:[0-9]+ for (shm|ucx|ofi)" "$dir/$file.$rank" ||
            fail "rank $rank, std$file: no address"
    done
done
grep -q "^rank 1: TRYST_E_UNREACHABLE " "$dir/out.0" || fail "rank 0"
grep -q "^rank 0: TRYST_E_UNREACHABLE " "$dir/out.1" || fail "rank 1"
cat "$dir"/out.*
