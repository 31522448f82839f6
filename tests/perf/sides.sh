#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Print the instructions per 8-byte message at the sender and at the receiver, 256
# outstanding, by valgrind's callgrind: two runs of different lengths give the cost of one
# message, once with each side measured. The other side runs without valgrind, some fifty
# times as fast; the measured side still idles for a varying time, so the least of five
# runs counts. The code of tryst-perf (and the sorting of its figures) is excluded; `ours`
# is the library and its modules, without the fabric's libraries and libc.
# usage: sides.sh <folder of tryst-run and tryst-perf> [path …]   (shm, ucx-shm, ucx-tcp; all)
#
# TRYST_SIDES_MOST: exit status 1 where a side takes more than that.
set -eu
bin=$1
shift
command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed (package valgrind)"; exit 77; }
[ $# -gt 0 ] || set -- shm ucx-shm ucx-tcp
# Otherwise the other side falls asleep between two messages, and a receiver that does so
# announces its receives.
export TRYST_SPIN=1s
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# instructions <rank> <messages>: "all ours" of that rank
instructions() {
    rm -f "$dir"/out.*
    # shellcheck disable=SC2016 # expanded by each rank
    timeout 300 "$bin/tryst-run" -n 2 sh -c '
        if [ "$TRYST_RANK" = "$1" ]; then
            exec valgrind --tool=callgrind --callgrind-out-file="$2/out" "$3/tryst-perf" \
                bandwidth --transport "$4" --sizes 8 --window 256 --warmup 1000 --iters "$5" --json -
        fi
        exec "$3/tryst-perf" bandwidth --transport "$4" --sizes 8 --window 256 --warmup 1000 --iters "$5" --json -
    ' sides "$1" "$dir" "$bin" "$transport" "$2" >"$dir/log" 2>&1 || { cat "$dir/log" >&2; return 1; }
    awk '
        # A name is given once, with its number: (3) /path/libucp.so
        function named(kind, text,   at) {
            at = index(text, ")")
            if (length(text) > at) name[kind substr(text, 1, at)] = substr(text, at + 2)
            return name[kind substr(text, 1, at)]
        }
        /^ob=/ { object = named("object", substr($0, 4)); next }
        /^cob=/ { named("object", substr($0, 5)); next }
        /^fn=/ { function_name = named("function", substr($0, 4)); next }
        /^cfn=/ { named("function", substr($0, 5)); next }
        /^calls=/ { skip = 1; next }
        /^[-+*0-9]/ {
            if (!skip && object !~ /tryst-perf$/ && function_name !~ /^msort|^qsort/) {
                all += $2
                if (object ~ /tryst[^\/]*\.so/) own += $2
            }
            skip = 0
        }
        END { print all, own }' "$dir/out"
}

for path in "$@"; do
    transport=${path%%-*}
    case $path in
    ucx-shm) export UCX_TLS=sm,self ;;
    ucx-tcp) export UCX_TLS=tcp ;;
    *) unset UCX_TLS ;;
    esac
    for rank in 0 1; do
        side=sender
        [ "$rank" = 0 ] || side=receiver
        for _ in 1 2 3 4 5; do
            few=$(instructions "$rank" 5000)
            many=$(instructions "$rank" 25000)
            echo "$few $many"
        done | awk '{ print ($3 - $1) / 20000, ($4 - $2) / 20000 }' | sort -n |
            awk -v what="$path, $side" -v most="${TRYST_SIDES_MOST:-0}" 'NR == 1 {
                printf "%-20s %d instructions per message, %d of them ours\n", what, $1, $2
                if (most && $1 > most) { print "sides: more than " most; exit 1 } }'
    done
done
