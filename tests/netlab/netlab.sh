#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A network of hosts on one machine: namespaces joined by veths and bridges, with rates.
#
# One idea: the whole lab exists in namespaces that only its own processes hold (a pid
# namespace among them), so the kernel cleans up. When the command ends, or this script is
# killed, also by SIGKILL, the last process ends, and with it every namespace, veth,
# bridge, file in /dev/shm and stray rank. Nothing is visible outside of these namespaces.
#
# This is a shell script because it only calls ip and tc.
#
# A lab is a file of lines (`#` begins a comment):
#
#   family 4|6|both            addresses of the hosts (both)
#   host h0 h1 …               the ranks run on them in this order,
#   ranks N                    N on each (1)
#   switch s0 …
#   link A B RATE [net=NAME]   RATE: 400mbit both ways, 400mbit/100mbit from A to B / from B to A, or
#                              - for none (no spaces)
#
# A host's links are its eth0, eth1, … in the order of their lines. Switches that are
# connected by links (trunks) are one network; a link between two hosts is a separate
# network; net=NAME puts a host's link to a switch into another subnet of the same wires.
# Hosts with two links into one network get a routing table for each, as such hosts need.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin # tc, which is not on an ordinary user's PATH

usage() {
    cat >&2 <<END
usage: netlab.sh FILE COMMAND…           build the lab, run COMMAND in it, take it down
from the environment:
       NETLAB_QUEUE=3ms|256k             the queue of each port, in time or in bytes (3ms)
       NETLAB_TCP=reno|bbr|cubic         the congestion control of all hosts (reno)
within COMMAND, \$NETLAB being this script:
       \$NETLAB on HOST COMMAND…         run it on that host (a process of the same id)
       \$NETLAB ranks COMMAND…           run it as each rank; the ranks find each other
       \$NETLAB bytes                    lines "host interface neighbour received sent"
       \$NETLAB address HOST [FROM]      how FROM reaches HOST; without it, all of its addresses
END
    exit 2
}

say() { echo "netlab: $*" >&2; }
die() { say "$*"; exit 1; }

# Bursts of 64 KiB would split a trunk unevenly between flows, so the bucket holds one
# such packet and a quarter of a millisecond of the line. By default short queues and
# reno: with longer queues, or with bbr, two flows take many seconds to find their halves
# of a trunk.
gso_bytes=32768
queue=${NETLAB_QUEUE:-3ms}
tcp=${NETLAB_TCP:-reno}
port=4711

# --- outside ----------------------------------------------------------------------------

# Exit 77 is "skipped" for ctest.
missing() {
    local tool
    for tool in ip tc unshare setpriv mount; do
        command -v $tool >/dev/null || { echo "no $tool here (iproute2, util-linux)"; return; }
    done
    "${own_mounts[@]}" sh -ec 'mount -t tmpfs none /run && ip netns add probe &&
        ip link add name p0 type veth peer name p1 netns probe && tc qdisc add dev p0 root tbf rate 1mbit \
        burst 4000 latency 1ms' 2>&1 | head -n 1 || true
}

outside() {
    local why child
    own_mounts=("$(dirname "$(readlink -f "$0")")/../support/own_mounts.sh"
        --net --uts --ipc --pid --fork --kill-child=KILL --)
    why=$(missing)
    if [ -n "$why" ]; then
        echo "skipped: no network namespaces to build a lab of: $why"
        exit 77
    fi
    # In the background, so that a signal is handled at once. The end of this process ends
    # unshare, which ends process 1 of the lab, which ends all others.
    setpriv --pdeathsig KILL "${own_mounts[@]}" bash "$0" --inside "$@" <&0 &
    child=$!
    trap 'kill -KILL $child; exit 143' TERM INT HUP
    wait $child
}

# --- building ---------------------------------------------------------------------------

declare -A kind=() host_number=() nics=() net_of_switch=() net_number=() nic_net=()
hosts=() ranks_each=1
links_a=() links_b=() links_rate=() links_net=()
family=both

read_line() { # <words of a line…>
    local name
    case $1 in
    family) family=$2 ;;
    ranks) ranks_each=$2 ;;
    host | switch)
        for name in "${@:2}"; do
            [ -z "${kind[$name]:-}" ] || die "$name is there twice"
            kind[$name]=$1
            if [ "$1" = host ]; then
                host_number[$name]=${#hosts[@]}
                nics[$name]=0
                hosts+=("$name")
            else
                net_of_switch[$name]=$name
            fi
        done
        ;;
    link)
        if [ $# -lt 4 ] || [ -z "${kind[$2]:-}" ] || [ -z "${kind[$3]:-}" ]; then
            die "'$*': wanted: link A B RATE [net=NAME], A and B named before"
        fi
        links_a+=("$2") links_b+=("$3") links_rate+=("$4") links_net+=("${5:-}")
        ;;
    *) die "what is '$*'?" ;;
    esac
}

read_lab() { # <file>
    local words number=0
    while read -r -a words || [ ${#words[@]} -gt 0 ]; do
        number=$((number + 1))
        [ ${#words[@]} -gt 0 ] || continue
        read_line "${words[@]}" || die "line $number of $1"
    done < <(sed 's/#.*//' "$1")
    [ ${#hosts[@]} -gt 0 ] || die "$1 has no host"
}

# Give all switches that trunks connect the name of one of them as their network.
join_switches() {
    local i from to name
    for i in "${!links_a[@]}"; do
        [ "${kind[${links_a[i]}]}${kind[${links_b[i]}]}" = switchswitch ] || continue
        from=${net_of_switch[${links_a[i]}]} to=${net_of_switch[${links_b[i]}]}
        for name in "${!net_of_switch[@]}"; do
            [ "${net_of_switch[$name]}" != "$from" ] || net_of_switch[$name]=$to
        done
    done
}

# Print the network of link <i>.
link_net() {
    local a=${links_a[$1]} b=${links_b[$1]} net
    case ${kind[$a]}${kind[$b]} in
    hosthost) net=$a-$b-$1 ;;
    hostswitch) net=${net_of_switch[$b]} ;;
    *) net=${net_of_switch[$a]} ;;
    esac
    echo "$net${links_net[$1]}"
}

shape() { # <namespace> <interface> <rate>
    local bits
    [ "$3" != - ] || return 0
    case $3 in
    *gbit) bits=${3%gbit}000000000 ;;
    *mbit) bits=${3%mbit}000000 ;;
    *kbit) bits=${3%kbit}000 ;;
    *) die "a rate is 100kbit, 400mbit, 1gbit or -, not '$3'" ;;
    esac
    local bound=latency
    [[ $queue = *s ]] || bound=limit
    tc -n "$1" qdisc replace dev "$2" root tbf rate "$3" \
        burst $((gso_bytes + 200 + bits / 8 / 4000)) $bound "$queue"
}

# Give a host's interface its address in <net>; `bytes` and `address` read the files
# later.
number_nic() { # <host> <interface> <net> <neighbour>
    local host=$1 nic=$2 net=$3 last=$((host_number[$1] + 1)) first table address
    [ -n "${net_number[$net]:-}" ] || net_number[$net]=$((${#net_number[@]} + 1))
    first=${nic_net[$host $net]:-}
    nic_net[$host $net]=${first:-$nic}
    [ -z "$first" ] || last=$((last + 100)) # the second interface in this network
    table=$((100 + ${nic#eth}))
    echo "$host $nic $4" >>/run/netlab/nics
    if [ "$family" != 6 ]; then
        address=10.88.${net_number[$net]}.$last
        ip -n "$host" address add "$address/24" dev "$nic"
        ip -n "$host" route add "10.88.${net_number[$net]}.0/24" dev "$nic" src "$address" table $table
        ip -n "$host" rule add from "$address" lookup $table
        echo "$host $net $address 4" >>/run/netlab/addresses
    fi
    if [ "$family" != 4 ]; then
        address=fd88:0:0:${net_number[$net]}::$last
        ip -n "$host" address add "$address/64" dev "$nic" nodad
        ip -n "$host" -6 route add "fd88:0:0:${net_number[$net]}::/64" dev "$nic" table $table
        ip -n "$host" -6 rule add from "$address" lookup $table
        echo "$host $net [$address] 6" >>/run/netlab/addresses
    fi
}

settings() { # <namespace> <file under /proc/sys/net>=<value>…
    # shellcheck disable=SC2016 # expands there
    ip netns exec "$1" sh -ec 'for one; do echo "${one#*=}" >"/proc/sys/net/${one%%=*}"; done' sh "${@:2}"
}

make_host() { # <host>
    ip netns add "$1"
    # With two interfaces in one network, each answers ARP only for its own address.
    settings "$1" ipv4/conf/all/arp_ignore=1 ipv4/conf/all/arp_announce=2 \
        ipv4/conf/all/rp_filter=0 ipv4/conf/default/rp_filter=0 \
        ipv4/tcp_congestion_control="$tcp" \
        ipv6/conf/default/disable_ipv6="$([ "$family" = 4 ] && echo 1 || echo 0)"
    ip -n "$1" link set lo up
}

# Print one end of a link: namespace and interface. A switch's ends have the link's
# number.
end_of() { # <name> <link> <a|b>
    if [ "${kind[$1]}" = switch ]; then
        echo "switches p$2$3"
    else
        echo "$1 eth${nics[$1]}"
    fi
}

finish_end() { # <name> <namespace> <interface> <rate out of it> <net> <neighbour>
    ip -n "$2" link set dev "$3" gso_max_size $gso_bytes up
    shape "$2" "$3" "$4"
    if [ "${kind[$1]}" = switch ]; then
        ip -n "$2" link set dev "$3" master "$1"
    else
        number_nic "$1" "$3" "$5" "$6"
    fi
}

make_link() { # <number>
    local a=${links_a[$1]} b=${links_b[$1]} rate=${links_rate[$1]} net
    local a_space a_nic b_space b_nic
    net=$(link_net "$1")
    read -r a_space a_nic < <(end_of "$a" "$1" a)
    [ "${kind[$a]}" = switch ] || nics[$a]=$((nics[$a] + 1))
    read -r b_space b_nic < <(end_of "$b" "$1" b)
    [ "${kind[$b]}" = switch ] || nics[$b]=$((nics[$b] + 1))
    ip link add name "$a_nic" netns "$a_space" type veth peer name "$b_nic" netns "$b_space"
    finish_end "$a" "$a_space" "$a_nic" "${rate%/*}" "$net" "$b"
    finish_end "$b" "$b_space" "$b_nic" "${rate#*/}" "$net" "$a"
}

build() { # <file>
    local name i
    mount -t tmpfs netlab /run
    mount -t tmpfs netlab /dev/shm
    mkdir /run/netlab
    read_lab "$1"
    join_switches
    ip netns add switches
    settings switches ipv6/conf/default/disable_ipv6=1
    for name in "${hosts[@]}"; do make_host "$name"; done
    for name in "${!net_of_switch[@]}"; do
        ip -n switches link add name "$name" type bridge mcast_snooping 0
        ip -n switches link set dev "$name" up
    done
    for i in "${!links_a[@]}"; do make_link "$i"; done
    list_ranks >/run/netlab/ranks
}

inside() { # <file> <command…>
    local status=0 file=$1 command
    shift
    trap 'exit 143' TERM INT HUP # process 1 has no default actions
    build "$file"
    NETLAB=$(readlink -f "$0")
    export NETLAB
    "$@" <&0 &
    command=$!
    wait $command || status=$?
    exit $status
}

# --- within the command -----------------------------------------------------------------

on() { # <host> <command…>
    local host=$1
    shift
    # shellcheck disable=SC2016 # expands there
    exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec "$@"' "$host" "$@"
}

bytes() {
    local host nic neighbour
    while read -r host nic neighbour; do
        ip -n "$host" -s link show dev "$nic" | awk -v is="$host $nic $neighbour" '
            get { n[get] = $1; get = "" }
            $1 == "RX:" || $1 == "TX:" { get = $1 }
            END { print is, n["RX:"], n["TX:"] }'
    done </run/netlab/nics
}

address() { # <host> [<from>]
    awk -v host="$1" -v from="${2:-$1}" '
        $1 == host { nets[++n] = $2; addresses[n] = $3 }
        $1 == from { mine[$2] = 1 }
        END { for (i = 1; i <= n; i++) if (nets[i] in mine) { print addresses[i]; found = 1
                  if (host != from) exit }
              exit !found }' /run/netlab/addresses
}

# Print a line "host where" for each rank; where is its value of TRYST_BOOTSTRAP. Rank 0 serves
# at one address if all others use the same one, else at all of its addresses. The other ranks of its host
# use the one that the second host uses.
list_ranks() {
    local host at i all=() line
    for host in "${hosts[@]:1}"; do
        at=$(address "${hosts[0]}" "$host") || at=-
        all+=("$host $at:$port")
    done
    at=$(printf '%s\n' "${all[@]#* }" | sort -u)
    case $at in
    *$'\n'*'['*) at="[::]:$port" ;;
    *$'\n'*) at=0.0.0.0:$port ;;
    esac
    echo "${hosts[0]} $at"
    for line in "${hosts[0]} ${all[0]#* }" "${all[@]}"; do
        for ((i = 0; i < ranks_each; i++)); do echo "$line"; done
    done | tail -n +2
}

ranks() { # <command…>
    local host at rank=0 size status=0 one pids=()
    size=$(wc -l </run/netlab/ranks)
    TRYST_TOKEN=$(od -An -tx1 -N16 /dev/urandom | tr -d ' \n')
    while read -r host at <&3; do
        [ "$at" != "-:$port" ] || die "$host has no link into a network of rank 0's host"
        # All hosts share the machine's shared memory: distinct names keep fabrics from
        # using it.
        env TRYST_RANK="$rank" TRYST_SIZE="$size" TRYST_BOOTSTRAP="$at" \
            TRYST_TOKEN="$TRYST_TOKEN" TRYST_HOST_ID="$host" bash "$0" on "$host" "$@" 3<&- &
        pids+=($!)
        rank=$((rank + 1))
    done 3</run/netlab/ranks
    while [ "$rank" -gt 0 ]; do
        rank=$((rank - 1)) one=0
        wait -n || one=$?
        [ "$one" -eq 0 ] || [ "$status" -ne 0 ] || { # the first failure; the others have 10 s
            status=$one
            (sleep 10 && kill -KILL "${pids[@]}") >/dev/null 2>&1 &
        }
    done
    # Of two children that end at the same moment bash 5.2 forgets one at times: then the last
    # "wait -n" is a 127 that nobody ended with. By its id it still knows how each ended.
    [ "$status" -ne 127 ] || {
        status=0
        for one in "${pids[@]}"; do wait "$one" || status=$?; done
    }
    return $status
}

[ $# -gt 0 ] || usage
case $1 in
--inside | on | ranks | bytes | address) "${1#--}" "${@:2}" ;;
-*) usage ;;
*)
    [ $# -ge 2 ] || usage
    [ -r "$1" ] || die "no file $1"
    outside "$@"
    ;;
esac
