#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares tryst-perf with ucx_perftest on this machine: 8-byte latency, and bandwidth at 1 MiB and
# 16 MiB; shm against UCX's shared memory, ucx against the same UCX transports with error handling
# (-e). Alternating pairs with equal outstanding sends; prints the median and spread of the ratios.
#
# Usage: compare.sh <tryst-perf> [pairs (11)] [shm|ucx …]
# Latency is time per time (wanted: at most 2), bandwidth rate per rate (wanted: at least 0.95). The
# exit status says whether it could be measured, not how it came out; TRYST_COMPARE_STRICT=1 makes it
# 1 where something falls short.
set -eu
perf=$1
pairs=${2:-11}
shift
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- shm ucx
window=32
command -v ucx_perftest >/dev/null 2>&1 || { echo "skipped: ucx_perftest is not installed (ucx-utils)"; exit 77; }
# tryst-perf binds its ranks to the first two processors that it may use: so do we.
bind=$(awk '/^Cpus_allowed_list/ {
    n = split($2, part, ",")
    for (i = 1; i <= n && count < 2; i++) {
        split(part[i], ends, "-")
        last = ends[2] == "" ? ends[1] : ends[2]
        for (cpu = ends[1]; cpu <= last && count < 2; cpu++) { printf "%s ", cpu; count++ }
    }
}' /proc/self/status)
server_cpu=${bind%% *} client_cpu=${bind#* }
client_cpu=${client_cpu%% *}
dir=$(mktemp -d)
server=
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT
short=0

# ours <shm|ucx> <pingpong|bandwidth> <bytes> <iterations>: seconds one way, or bytes per second
ours() {
    timeout 120 "$perf" "$2" --transport "$1" --sizes "$3" --iters "$4" --window $window --json - |
        sed -n "s/.*\"$field\": \([-+0-9.e]*\).*/\1/p"
}

# theirs <shm|ucx> <tag_lat|tag_bw> <bytes> <iterations>: the same from ucx_perftest. A port of
# somebody else's is tried with another one.
theirs() {
    more=''
    case $1 in
    shm) set -- "$@" UCX_TLS=sm,self ;;
    # With -e UCX leaves its shared memory out unless told so; our module tells it.
    ucx) more=-e; set -- "$@" UCX_POSIX_ERROR_HANDLING=y UCX_SYSV_ERROR_HANDLING=y ;;
    esac
    test=$2 bytes=$3 iterations=$4
    shift 4
    for port in 1 2 3 4 5; do
        port=$((20000 + ($$ * 7 + port * 997 + tries) % 10000))
        tries=$((tries + 1))
        # shellcheck disable=SC2086 # an option or none
        env "$@" timeout 120 taskset -c "$server_cpu" \
            ucx_perftest $more -p $port >"$dir/server" 2>&1 &
        server=$!
        sleep 0.5
        # shellcheck disable=SC2086
        env "$@" timeout 120 taskset -c "${client_cpu:-$server_cpu}" \
            ucx_perftest $more -p $port 127.0.0.1 -t "$test" -s "$bytes" \
            -n "$iterations" -w $((iterations / 10)) -O $window -f -v >"$dir/client" 2>"$dir/errors" && status=0 || status=$?
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
        server=
        [ "$status" -ne 0 ] || break
    done
    [ "$status" -eq 0 ] || { cat "$dir/errors" >&2; return 1; }
    # iterations, median latency (us), average and overall latency, average and overall MB/s (2^20)
    case $test in
    tag_lat) tail -n 1 "$dir/client" | awk -F, '{ print $2 * 1e-6 }' ;;
    tag_bw) tail -n 1 "$dir/client" | awk -F, '{ print $6 * 1048576 }' ;;
    esac
}
tries=0

# compare <shm|ucx> <pingpong|bandwidth> <bytes> <iterations>
compare() {
    case $2 in
    pingpong) field=seconds test=tag_lat ;;
    bandwidth) field=bytes_per_s test=tag_bw ;;
    esac
    : >"$dir/ratios"
    pair=0
    while [ $pair -lt "$pairs" ]; do
        theirs "$1" "$test" "$3" "$4" >"$dir/theirs"
        read -r their <"$dir/theirs"
        our=$(ours "$1" "$2" "$3" "$4")
        echo "$our $their" | awk '{ printf "%.4f %g %g\n", $1 / $2, $1, $2 }' >>"$dir/ratios"
        pair=$((pair + 1))
    done
    sort -n "$dir/ratios" | awk -v name="$1 $2 $3" -v kind="$2" '
        { ratio[NR] = $1; our[NR] = $2; their[NR] = $3 }
        END {
            at = int((NR + 1) / 2)
            good = kind == "pingpong" ? ratio[at] <= 2 : ratio[at] >= 0.95
            scale = kind == "pingpong" ? 1e6 : 1e-6
            printf "%-24s n %d  median ratio %.3f  spread %.3f..%.3f  there %.4g, ucx_perftest %.4g %s  %s\n",
                name, NR, ratio[at], ratio[1], ratio[NR], our[at] * scale, their[at] * scale,
                kind == "pingpong" ? "us" : "MB/s", good ? "reached" : "short"
            exit good ? 0 : 1
        }' || short=1
}

ucx_info -v 2>/dev/null | head -n 1 || true
echo "$(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
for transport in "$@"; do
    compare "$transport" pingpong 8 20000
    compare "$transport" bandwidth 1048576 2000
    compare "$transport" bandwidth 16777216 200
done
[ -z "${TRYST_COMPARE_STRICT:-}" ] || exit $short
