#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# layers.awk reports faults: ninja builds a small tree in which relative includes go to
# forbidden places, and each of them must be reported; a tree without them must pass.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/build"
fail=0

put() { # <file> <header to include>…
    mkdir -p "$dir/$(dirname "$1")"
    file=$dir/$1
    shift
    for header in "$@"; do echo "#include \"$header\""; done >"$file"
    echo "typedef int unit;" >>"$file"
}

# check <description> <yes or no> <source> [folder]: does layers.awk accept this source?
# The compiler gets the source's path as seen from `folder` (default: the build folder).
check() {
    # shellcheck disable=SC2016 # ninja expands them
    printf 'rule cc\n  command = %s -I%s -I%s -I%s -MD -MF $out.d -c $in -o $out\n  depfile = $out.d\n  deps = gcc\nbuild x.o: cc %s\n' \
        "$CC" "$dir/include" "$dir/build/publish/core" "$dir/build/publish/rendezvous_bootstrap" "${4:-$dir}/$3" >"$dir/build/build.ninja"
    rm -f "$dir/build/.ninja_deps" "$dir/build/.ninja_log" "$dir/build/x.o"
    "$NINJA" -C "$dir/build" >"$dir/said" || { cat "$dir/said"; exit 1; }
    "$NINJA" -C "$dir/build" -t deps | grep -v '^ninja: ' >"$dir/deps"
    if awk -v source="$dir" -v build="$dir/build" -f "$SOURCE/tests/build/layers.awk" \
        "$dir/deps" >"$dir/said"; then
        said=yes
    else
        said=no
    fi
    [ "$said" = "$2" ] && return 0
    echo "planted: $1: accepted: $said; expected: $2"
    cat "$dir/said" "$dir/deps"
    fail=1
}

put include/tryst/tryst.h
put core/log.h
put tools/live/live.h
put pipeline/host/host.h
put topology/graph.h
put transports/transport.h
put transports/shm/ring.h
put rendezvous/table.h
put rendezvous/bootstrap/roster.h
put commsched/sched/slice.h
put collectives/op.h ../transports/transport.h
mkdir -p "$dir/build/publish/core"
ln -s "$dir/core" "$dir/build/publish/core/core"
mkdir -p "$dir/build/publish/rendezvous_bootstrap/rendezvous"
ln -s "$dir/rendezvous/bootstrap" "$dir/build/publish/rendezvous_bootstrap/rendezvous/bootstrap"

put core/good.c tryst/tryst.h core/log.h log.h
check "its own layer and the public headers" yes core/good.c
put core/os/up.c ../log/log.h
put core/log/log.h
check "a part of core around the include paths" no core/os/up.c
put core/up.c ../transports/transport.h
check "upward" no core/up.c
check "upward, by a path from the build folder" no core/up.c ..
check "its own layer, by such a path" yes core/good.c ..
put rendezvous/down.c ../transports/transport.h core/log.h
check "one down" yes rendezvous/down.c
put rendezvous/sub.c rendezvous/bootstrap/roster.h
check "what a sub-layer publishes" yes rendezvous/sub.c
put rendezvous/sub.c bootstrap/roster.h
check "what a sub-layer does not publish" no rendezvous/sub.c
put rendezvous/bootstrap/up.c ../table.h
check "a sub-layer of the layer above it" no rendezvous/bootstrap/up.c
put rendezvous/bootstrap/down.c ../../transports/transport.h core/log.h
check "a sub-layer of what is below it" yes rendezvous/bootstrap/down.c
put transports/up.c rendezvous/bootstrap/roster.h
check "a layer of a sub-layer above it" no transports/up.c
put collectives/skip.c ../transports/transport.h
check "skipping a layer" no collectives/skip.c
put collectives/deep.c op.h
check "skipping a layer through a header" no collectives/deep.c
put commsched/sched/up.c ../../collectives/op.h
check "a layer of one above it" no commsched/sched/up.c
put context/context.c ../transports/transport.h ../rendezvous/table.h ../core/log.h
check "context sees all" yes context/context.c
put transports/ucx/ucx.c ../shm/ring.h
check "a backend of another backend" no transports/ucx/ucx.c
put transports/ucx/ucx.c ../transport.h
check "a backend of its layer" yes transports/ucx/ucx.c
put transports/pair/pair.h
put transports/shm/shm.c ../pair/pair.h ring.h
check "a backend of what it shares" yes transports/shm/shm.c
put transports/memory/memory.h
put transports/link/link.c ../memory/memory.h
check "a sub-layer of the one beside it" no transports/link/link.c
put transports/memory/memory.c ../transport.h
check "a sub-layer of the layer that it is in" no transports/memory/memory.c
put transports/ucx/ucx.c ../pair/pair.h
check "a backend of what others share" no transports/ucx/ucx.c
put rendezvous/shm.c ../transports/shm/ring.h
check "a private header of a backend" no rendezvous/shm.c
put tools/info/info.c ../../core/log.h
check "a tool of core" no tools/info/info.c
put tools/topo/topo.c ../live/live.h
check "a tool of another one" no tools/topo/topo.c
put tools/info/info.c ../live/live.h
check "a tool of what a part does not publish" no tools/info/info.c
put pipeline/engine/engine.c ../../rendezvous/table.h
check "the pipeline of a layer" no pipeline/engine/engine.c
put pipeline/engine/up.c ../host/host.h
check "a folder of the pipeline of a later one" no pipeline/engine/up.c
put tests/core/test_log.c ../../core/log.h
check "a unit test of its layer" yes tests/core/test_log.c
put tests/core/test_up.c ../../topology/graph.h
check "a unit test of a layer above" no tests/core/test_up.c
put elsewhere/x.c
check "a source outside of the layers" no elsewhere/x.c
exit $fail
