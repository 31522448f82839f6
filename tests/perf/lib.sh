# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Shared by compare.sh and table.sh: one figure of Tryst, or of the raw fabric, by *path*:
#
#   shm      shm                              ucx_perftest over UCX's shared memory
#   ucx-shm  ucx, UCX_TLS=sm,self             ucx_perftest -e over UCX's shared memory
#   ucx-tcp  ucx, UCX_TLS=tcp                 ucx_perftest -e over UCX's TCP
#   ofi-tcp  ofi, its default: net            raw_fi net
#   ofi-rxm  ofi, FI_PROVIDER=tcp             raw_fi tcp;ofi_rxm
#   ofi-shm  ofi, FI_PROVIDER=shm             raw_fi shm
#
# The script that sources this file sets $perf (tryst-perf), and $raw_fi for the last
# three.
perf=${perf:?} raw_fi=${raw_fi:-}
window=32 # outstanding transfers in `bandwidth`, on both sides
deep=${TRYST_TABLE_DEEP:-256} # outstanding 8-byte messages to one peer in `rate`
tries=0
server=
dir=$(mktemp -d)
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$dir"
}
trap cleanup EXIT

# tryst-perf binds its ranks to the first two processors that it may use; the others get
# the same.
cpus=$(awk '/^Cpus_allowed_list/ {
    n = split($2, part, ",")
    for (i = 1; i <= n && count < 2; i++) {
        split(part[i], ends, "-")
        last = ends[2] == "" ? ends[1] : ends[2]
        for (cpu = ends[1]; cpu <= last && count < 2; cpu++) { printf "%s ", cpu; count++ }
    }
}' /proc/self/status)
server_cpu=${cpus%% *} client_cpu=${cpus#* }
client_cpu=${client_cpu%% *}
client_cpu=${client_cpu:-$server_cpu}

# ours <path> <pingpong|bandwidth|rate> <bytes> <iterations>: seconds one way, or bytes per second
ours() {
    path=$1 kind=$2 bytes=$3 iterations=$4
    set -- --transport "${path%%-*}" --sizes "$bytes" --iters "$iterations" --json -
    field=bytes_per_s
    case $kind in
    pingpong) field=seconds ;;
    bandwidth) set -- "$@" --window "$window" ;;
    rate) kind=bandwidth; set -- "$@" --window "$deep" ;;
    esac
    case $path in
    ucx-shm) set -- UCX_TLS=sm,self "$perf" "$kind" "$@" ;;
    ucx-tcp) set -- UCX_TLS=tcp "$perf" "$kind" "$@" ;;
    ofi-rxm) set -- FI_PROVIDER=tcp "$perf" "$kind" "$@" ;;
    ofi-shm) set -- FI_PROVIDER=shm "$perf" "$kind" "$@" ;;
    *) set -- "$perf" "$kind" "$@" ;;
    esac
    timeout 120 env "$@" | sed -n "s/.*\"$field\": \([-+0-9.e]*\).*/\1/p"
}

# theirs <path> <pingpong|bandwidth|rate> <bytes> <iterations>: the same for the raw
# fabric
theirs() {
    case $1 in
    ofi-tcp) raw_figure net "$2" "$3" "$4" ;;
    ofi-rxm) raw_figure 'tcp;ofi_rxm' "$2" "$3" "$4" ;;
    ofi-shm) raw_figure shm "$2" "$3" "$4" ;;
    *) perftest_figure "$@" ;;
    esac
}

raw_figure() {
    timeout 120 "$raw_fi" "$1" "$2" "$3" "$4" "$window" "$server_cpu" "$client_cpu"
}

# If another program has the port, try another one. `rate` is plain ucx_perftest -t
# tag_bw.
perftest_figure() {
    path=$1 kind=$2 bytes=$3 iterations=$4
    more='' test=tag_bw
    case $kind in
    pingpong) test=tag_lat ;;
    bandwidth) more="-O $window" ;;
    esac
    [ "$path" = shm ] || [ "$kind" = rate ] || more="$more -e"
    # With -e UCX leaves its shared memory out unless it is enabled; Tryst's module
    # enables it.
    set -- UCX_POSIX_ERROR_HANDLING=y UCX_SYSV_ERROR_HANDLING=y
    case $path in
    shm) set -- UCX_TLS=sm,self ;;
    ucx-shm) set -- "$@" UCX_TLS=sm,self ;;
    ucx-tcp) set -- UCX_TLS=tcp ;;
    esac
    for try in 1 2 3 4 5; do
        port=$((20000 + ($$ * 7 + try * 997 + tries) % 10000))
        tries=$((tries + 1))
        # shellcheck disable=SC2086 # options or none
        env "$@" timeout 120 taskset -c "$server_cpu" \
            ucx_perftest $more -p $port >"$dir/server" 2>&1 &
        server=$!
        sleep 0.4
        # shellcheck disable=SC2086
        env "$@" timeout 120 taskset -c "$client_cpu" \
            ucx_perftest $more -p $port 127.0.0.1 -t "$test" -s "$bytes" \
            -n "$iterations" -w $((iterations / 10)) -f -v >"$dir/client" 2>"$dir/errors" && status=0 || status=$?
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

# pairs_measure <count> <path> <kind> <bytes> <iterations>: write lines "ratio ours
# theirs" of alternating pairs, sorted, to $dir/ratios. The ratio is ours by theirs.
# Status 1: one of them cannot be measured.
pairs_measure() {
    pairs_left=$1
    shift
    : >"$dir/unsorted"
    while [ "$pairs_left" -gt 0 ]; do
        theirs "$@" >"$dir/theirs" || return 1
        read -r their <"$dir/theirs" || return 1
        our=$(ours "$@")
        [ -n "$our" ] || return 1
        echo "$our $their" | awk '{ printf "%.4f %g %g\n", $1 / $2, $1, $2 }' >>"$dir/unsorted"
        pairs_left=$((pairs_left - 1))
    done
    sort -n "$dir/unsorted" >"$dir/ratios"
}

host_print() {
    awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo
    echo "$(uname -sr), $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg)"
    sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release
    "$perf" bandwidth --transport shm --sizes 8 --iters 10 --json - |
        sed -n 's/.*"version": "\([^"]*\)".*/Tryst \1/p'
    ucx_info -v 2>/dev/null | head -n 1 || true
    fi_info --version 2>/dev/null | sed -n 's/^libfabric: /libfabric /p' || true
}
