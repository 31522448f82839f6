#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# TRYST_PORT_RANGE must hold for every TCP socket that a rank listens on, Tryst's and the
# fabric's, on each host of a lab (where no other process listens).
# usage: lab_ports.sh <netlab.sh> <pp_bench> <transport> <lab>
set -euo pipefail
case $1 in
--within) # not on a host yet
    TRYST_PORT_RANGE=30000-30009 "$NETLAB" ranks "$0" --on "$2" "$3"
    exit
    ;;
--on) ;;
*) exec "$1" "$4" "$0" --within "$2" "$3" ;;
esac

# List the ports that this host's sockets listen on, in hexadecimal.
listening() {
    awk 'FNR > 1 && $4 == "0A" { sub(/.*:/, "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6
}

"$2" --transport "$3" --steps 2 >/dev/null &
bench=$!
seen=
while kill -0 $bench 2>/dev/null; do
    seen="$seen $(listening | tr '\n' ' ')"
    sleep 0.05
done
wait $bench
wrong=0 ours=0
for port in $(tr " " "\n" <<<"$seen" | sort -u); do
    number=$((16#$port))
    if [ $number -ge 30000 ] && [ $number -le 30009 ]; then
        ours=$((ours + 1))
    elif [ "${TRYST_BOOTSTRAP##*:}" -ne $number ]; then
        echo "rank $TRYST_RANK listened on port $number"
        wrong=1
    fi
done
echo "rank $TRYST_RANK: $ours ports of the range"
[ $wrong -eq 0 ] && [ $ours -ge 2 ] # at least one port of the links and one of the fabric
