#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-info --check listen on h0 and --check HOST on h1. How: plain; mtu (the hosts and
# switches have 9000, the trunk 1500); docker (one address on both hosts); oneway (what h0
# dials is dropped at h1).
# usage: lab_check.sh <netlab.sh> <tryst-info> <how> <lab>
set -euo pipefail
[ "$1" = --within ] || exec "$1" "$4" "$0" --within "$2" "$3"
info=$2 how=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*"; head -n 60 "$dir"/*; exit 1; }
for host in h0 h1; do
    case $how in
    mtu)
        ip -n $host link set eth0 mtu 9000 gso_max_segs 1
        ip -n switches link set p${host#h}b mtu 9000 ;;
    docker)
        ip -n $host link add docker0 type bridge
        ip -n $host link add vc0 type veth peer name vc1
        ip -n $host link set vc0 master docker0
        for nic in vc0 vc1 docker0; do ip -n $host link set $nic up; done
        ip -n $host address add 172.17.0.1/16 dev docker0 ;;
    esac
done
if [ "$how" = oneway ]; then # before the rule for local addresses
    ip -n h1 rule add pref 5 iif eth0 ipproto tcp dport 4712 blackhole
    ip -n h1 rule add pref 8 lookup local
    ip -n h1 rule del pref 0
fi
unset TRYST_TRANSPORT
timeout 100 "$NETLAB" on h0 "$info" --check listen >"$dir/h0" 2>&1 & pid=$!
for ((i = 0; i < 100; i++)); do grep -qs 'waiting' "$dir/h0" && break; sleep 0.1; done
status=0 status0=0
timeout 90 "$NETLAB" on h1 "$info" --check 10.88.1.1 >"$dir/h1" 2>&1 || status=$?
wait $pid || status0=$?
row='out +eth0 +eth0 +10.88.1.2 -> 10.88.1.1 +[0-9]+ us +'
back='in +eth0 +eth0 +10.88.1.1 -> 10.88.1.2 +'
case $how in
plain | docker)
    [ $status$status0 = 00 ] || fail "statuses $status $status0"
    grep -qE "$row"'1500$' "$dir/h1" || fail "no path out"
    grep -qE "$back"'[0-9]+ us +1500$' "$dir/h1" || fail "no path in"
    grep -qE 'job: would use (ucx|ofi) ' "$dir/h1" || fail "no transport" ;;
mtu)
    [ $status$status0 = 44 ] || fail "statuses $status $status0"
    grep -qE "$row"'1500 \(LOST: 2044\)$' "$dir/h1" || fail "no loss out"
    grep -qE "$back"'[0-9]+ us +1500 \(LOST: 2044\)$' "$dir/h1" || fail "no loss in"
    grep -q 'set its MTU to 1500' "$dir/h1" || fail "no fix" ;;
oneway)
    grep -qE "$row" "$dir/h1" || fail "no path out"
    [ $status$status0 = 33 ] || fail "statuses $status $status0"
    grep -q 'in one direction only' "$dir/h1" || fail "no sentence"
    grep -qE "$back"'no: ' "$dir/h1" || fail "the direction in connects" ;;
esac
[ "$how" != docker ] || grep -qE '172.17.0.1 -> 172.17.0.1 +no: reaches this host itself' "$dir/h1" ||
    fail "docker0 counts as a path"
cat "$dir/h1"
