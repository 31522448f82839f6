#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts whose interfaces are those of real machines, not of a lab: the ranks must meet over the network that joins
# the hosts, without TRYST_NET, and within a bounded time.
# How: two network namespaces behind a third one, which is the switch or the router between them. Each host has its own
# /sys (ip netns exec), since UCX finds interfaces there. All namespaces end with this process.
# usage: lab_hosts.sh <netlab_reach> <kinds> <transports> <ranks>    (words separated by commas; "all" is every kind)
# Prints one line for each run: kind, transport, ranks a host, how the hosts were joined, seconds from the start of
# group's first exchange to its end, the most processor seconds of a rank.
set -uo pipefail
if [ "${1:-}" != --within ]; then
    for tool in ip unshare mount python3; do
        command -v $tool >/dev/null || { echo "skipped: no $tool here"; exit 77; }
    done
    exec "$(dirname "$(readlink -f "$0")")/../support/own_mounts.sh" --net --uts --ipc --pid --fork \
        --kill-child=KILL -- bash "$(readlink -f "$0")" --within "$@"
fi
program=$2 kinds=$3 transports=$4 counts=$5
every=plain4,plain6,both,one6,one4,routed4,routed6,docker,bridge,cable,wires,dead,dead0,tunnel,vip,alias,lo4,lo6,link4,link6,twins1,twins2,pods,clones
[ "$kinds" != all ] || kinds=$every

mount -t tmpfs none /run && mkdir /run/netns
dir=$(mktemp -d)
held=()
trap 'kill "${held[@]}" 2>/dev/null; rm -rf "$dir"' EXIT
ip link set lo up

# --- hosts ------------------------------------------------------------------------------

# port <host> <interface> [<bridge>]: an interface whose other end is here, <host><interface>, in <bridge> if one is named.
port() {
    ip link add "$1$2" type veth peer name "$2" netns "$1"
    ip link set "$1$2" up
    ip -n "$1" link set "$2" up
    [ -z "${3:-}" ] || ip link set "$1$2" master "$3"
}

bridge() { # <name>
    ip link add "$1" type bridge
    ip link set "$1" up
}

address() { # <host> <interface> <address…>
    local one
    for one in "${@:3}"; do ip -n "$1" address add "$one" dev "$2" nodad 2>/dev/null || ip -n "$1" address add "$one" dev "$2"; done
}

# stub <host> <interface> <address>: a bridge with a carrier that leads nowhere, as container managers make it.
stub() {
    ip -n "$1" link add "$2" type bridge
    ip -n "$1" link add v0 type veth peer name v1
    ip -n "$1" link set v0 master "$2"
    for one in v0 v1 "$2"; do ip -n "$1" link set "$one" up; done
    address "$1" "$2" "$3"
}

# tunnel <host> <address>: a tun device that is up and swallows all packets.
tunnel() {
    ip netns exec "$1" python3 -c '
import fcntl, os, struct, time
fd = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", b"tun0", 0x1001))
time.sleep(600)' &
    held+=($!)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        ip -n "$1" link set tun0 up 2>/dev/null && break
        sleep 0.1
    done
    address "$1" tun0 "$2"
}

forward() { # this namespace routes
    echo 1 >/proc/sys/net/ipv4/ip_forward
    echo 1 >/proc/sys/net/ipv6/conf/all/forwarding
}

switched() { # eth0 of both hosts at one switch
    bridge sw0
    port a eth0 sw0
    port b eth0 sw0
}

routed() { # eth0 of both hosts at a router, with addresses of two subnets and default routes
    forward
    port a eth0
    port b eth0
    ip address add 10.9.1.0/31 dev aeth0
    ip address add 10.9.2.0/31 dev beth0
    address a eth0 10.9.1.1/31
    address b eth0 10.9.2.1/31
    ip -n a route add default via 10.9.1.0
    ip -n b route add default via 10.9.2.0
}

# Rank 0's address, as the others reach it; set by each kind.
at=10.9.1.1

hosts() { # <kind>
    local h n
    at=10.9.1.1
    ip netns add a
    ip netns add b
    for h in a b; do
        ip -n $h link set lo up
        ip netns exec $h sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad; echo 0 >/proc/sys/net/ipv6/conf/all/accept_dad'
    done
    case $1 in
    plain4) switched && address a eth0 10.9.1.1/24 && address b eth0 10.9.1.2/24 ;;
    plain6) switched && address a eth0 fd09::1/64 && address b eth0 fd09::2/64 && at="[fd09::1]" ;;
    both) switched && address a eth0 10.9.1.1/24 fd09::1/64 && address b eth0 10.9.1.2/24 fd09::2/64 ;;
    one6) switched && address a eth0 10.9.1.1/24 fd09::1/64 && address b eth0 fd09::2/64 && at="[fd09::1]" ;;
    one4) switched && address a eth0 10.9.1.1/24 fd09::1/64 && address b eth0 10.9.1.2/24 ;;
    routed4) routed ;;
    routed6)
        routed
        ip address add fd09:1::/127 dev aeth0
        ip address add fd09:2::/127 dev beth0
        address a eth0 fd09:1::1/127
        address b eth0 fd09:2::1/127
        ip -n a route add default via fd09:1::
        ip -n b route add default via fd09:2::
        for h in a b; do ip -n $h address del "$(ip -n $h -4 -o address show dev eth0 | awk '{ print $4 }')" dev eth0; done
        at="[fd09:1::1]"
        ;;
    docker) hosts_plain && for h in a b; do stub $h docker0 172.17.0.1/16; done ;;
    bridge) hosts_plain && for h in a b; do stub $h engine0 10.4.0.1/24; done ;;
    cable) # usb0 leads to each machine's own controller; the same address everywhere
        routed
        for h in a b; do port $h usb0 && address $h usb0 169.254.3.1/24; done
        ;;
    wires) # the same, with two addresses
        routed
        n=0
        for h in a b; do n=$((n + 1)) && port $h usb0 && address $h usb0 169.254.3.$n/24; done
        ;;
    dead) # a second network, whose switch forwards nothing
        hosts_plain
        n=0
        for h in a b; do n=$((n + 1)) && port $h eth1 && address $h eth1 10.1.0.$n/24; done
        ;;
    dead0) # the first interface, with the default route, is that network
        n=0
        for h in a b; do
            n=$((n + 1)) && port $h eth0 && address $h eth0 10.1.0.$n/24
            ip -n $h route add default via 10.1.0.254
        done
        bridge sw0
        port a eth1 sw0 && address a eth1 10.9.1.1/24
        port b eth1 sw0 && address b eth1 10.9.1.2/24
        ;;
    tunnel) # one VPN, whose server forwards nothing between its clients
        routed
        tunnel a 10.8.0.1/24
        tunnel b 10.8.0.2/24
        ;;
    vip) hosts_plain && for h in a b; do address $h lo 10.9.1.100/32; done ;;
    alias) switched && address a eth0 10.9.1.1/24 10.7.0.1/24 && address b eth0 10.9.1.2/24 10.7.0.2/24 ;;
    lo4) # routed hosts: the address is on lo
        forward
        n=0
        for h in a b; do
            n=$((n + 1))
            port $h eth0
            ip address add 169.254.1.1/32 dev ${h}eth0
            ip -n $h address add 169.254.$n.2/16 dev eth0 scope link
            address $h lo 10.9.$n.1/32
            ip route add 10.9.$n.1/32 dev ${h}eth0
            ip -n $h route add default via 169.254.1.1 dev eth0 onlink src 10.9.$n.1
            echo 1 >/proc/sys/net/ipv4/conf/${h}eth0/proxy_arp
            ip netns exec $h sh -c 'echo 0 >/proc/sys/net/ipv4/conf/all/arp_announce'
        done
        ;;
    lo6)
        forward
        n=0
        for h in a b; do
            n=$((n + 1))
            port $h eth0
            ip address add fe80::1/64 dev ${h}eth0 nodad
            address $h eth0 fe80::2/64
            address $h lo fd09:$n::1/128
            ip route add fd09:$n::1/128 via fe80::2 dev ${h}eth0
            ip -n $h route add default via fe80::1 dev eth0
        done
        at="[fd09:1::1]"
        ;;
    link4) switched && address a eth0 169.254.7.1/16 && address b eth0 169.254.7.2/16 && at=169.254.7.1 ;;
    link6) switched && address a eth0 fe80::7:1/64 && address b eth0 fe80::7:2/64 && at="[fe80::7:1%eth0]" ;;
    twins1 | twins2) # two interfaces in one subnet
        bridge sw0
        n=0
        for h in a b; do
            n=$((n + 1))
            port $h eth0 sw0 && address $h eth0 10.9.1.$n/24
            port $h eth1 sw0 && address $h eth1 10.9.1.1$n/24
            ip netns exec $h sh -c "for one in all default eth0 eth1; do echo ${1#twins} >/proc/sys/net/ipv4/conf/\$one/rp_filter; done"
        done
        ;;
    pods) # eth0 in one subnet, beside an overlay's /32 and a bridge of pods
        hosts_plain
        n=0
        for h in a b; do
            n=$((n + 1))
            port $h flannel.1 && address $h flannel.1 10.244.$n.0/32
            stub $h cni0 10.244.$n.1/24
        done
        ;;
    clones) hosts_plain ;; # machines of one image, whose boots have one id (REACH_CLONE, reach.c)
    *) echo "what is '$1'?" >&2 && exit 2 ;;
    esac
}

hosts_plain() {
    switched && address a eth0 10.9.1.1/24 && address b eth0 10.9.1.2/24
}

hosts_gone() {
    kill "${held[@]}" 2>/dev/null
    held=()
    ip netns del a
    ip netns del b
    for one in $(ip -o link show | awk -F'[:@ ]+' '$2 != "lo" { print $2 }'); do ip link del "$one" 2>/dev/null; done
}

# --- runs -------------------------------------------------------------------------------

# The interface over which the hosts are joined.
wanted() { # <kind>
    case $1 in
    dead0) echo eth1 ;;
    twins*) echo 'eth[01]' ;;
    lo4 | lo6) echo lo ;;
    *) echo eth0 ;;
    esac
}

failed=0
run() { # <kind> <transport> <ranks a host>
    local h i rank=0 pids=() good=yes reached line
    rm -f "$dir"/*
    hosts "$1"
    unset REACH_CLONE
    [ "$1" != clones ] || export REACH_CLONE=1
    for h in a b; do
        for ((i = 0; i < $3; i++)); do
            TRYST_RANK=$rank TRYST_SIZE=$((2 * $3)) TRYST_BOOTSTRAP=$at:4711 TRYST_TRANSPORT=$2 \
                TRYST_TOKEN=0123456789abcdef0123456789abcdef TRYST_BOOTSTRAP_TIMEOUT=20s TRYST_LOG_LEVEL=info \
                timeout 60 ip netns exec $h "$program" >"$dir/out.$rank" 2>"$dir/err.$rank" &
            pids+=("$!")
            rank=$((rank + 1))
        done
    done
    wait "${pids[@]}"
    for ((i = 0; i < rank; i++)); do
        [ "$(grep -c ': TRYST_OK$' "$dir/out.$i")" -eq $((rank - 1)) ] || good=no
    done
    # between the hosts, as the first rank reports it: "ucx on eth0"
    reached=$(sed -n "s/.*reached rank $3 on [^ ]* over \([a-z]*\( on [^ :]*\)*\):.*/\1/p" "$dir/err.0" | head -n 1)
    [[ "${reached#* on }" =~ ^$(wanted "$1")$ ]] || [ "$good" = no ] || good="the wrong interface"
    [ "$2" = auto ] || [[ "$reached" = "$2"* ]] || [ "$good" = no ] || good="the wrong transport"
    line=$(cat "$dir"/out.* | awk '$1 == "first" { if ($2 > s) s = $2; if ($4 > c) c = $4 } END { printf "%5.2f s %5.2f s", s, c }')
    printf '%-8s %-4s %d  %-14s %s  %s\n' "$1" "$2" "$3" "${reached:--}" "$line" "$good"
    if [ "$good" != yes ]; then
        # UCX takes the first address of an interface, and has no setting for another one
        if [ "$2" = ucx ] && [[ "$1" = lo4 || "$1" = link6 ]] && grep -q 'UCX takes the first address of lo\|UCX cannot connect on eth0' "$dir"/out.0; then
            printf '%-8s %-4s %s\n' "" "" "(as documented: transports/ucx/README.md)"
        else
            failed=1
            grep -h -v TRYST_OK "$dir"/out.* | head -n 8
            grep -h -i 'warn\|error\|cannot\|info' "$dir"/err.* | head -n 12
        fi
    fi
    hosts_gone
}

printf '%-8s %-4s %s  %-14s %-16s %s\n' hosts over n reached "first    processor" good
for kind in ${kinds//,/ }; do
    for transport in ${transports//,/ }; do
        for count in ${counts//,/ }; do
            run "$kind" "$transport" "$count"
        done
    done
done
exit $failed
