#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A consumer builds and runs with the installed files only: by find_package, shared and
# static, by pkg-config, and by dlopen; and by find_package with the build tree.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
lib=$INSTALL/$LIBDIR

expect() { # <what> <command…>
    what=$1
    shift
    said=$("$@") || { echo "consumer: $what failed"; exit 1; }
    [ "$said" = "$VERSION" ] || { echo "consumer: $what prints '$said', not $VERSION"; exit 1; }
}

# consumers_build <folder> <where Tryst is>
consumers_build() {
    "$CMAKE" -S "$SOURCE/tests/build/consumer" -B "$dir/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER="$CC" "$2" >"$dir/log" || { cat "$dir/log"; exit 1; }
    "$CMAKE" --build "$dir/$1" >"$dir/log" || { cat "$dir/log"; exit 1; }
    for program in shared static topology topology_static pipeline pipeline_static; do
        [ "$PIPELINE" = ON ] || case $program in pipeline*) continue ;; esac
        expect "find_package, $1, $program" "$dir/$1/consumer_$program"
    done
}
consumers_build build "-DCMAKE_PREFIX_PATH=$INSTALL"
consumers_build tree "-Dtryst_DIR=$BUILD"
"$READELF" -d "$dir/tree/consumer_shared" | grep -qF "[$BUILD/lib" || { echo "consumer: not the build tree's library"; exit 1; }
for static in consumer_static consumer_topology_static; do
    "$READELF" -d "$dir/build/$static" | grep 'NEEDED.*libtryst' &&
        { echo "consumer: $static loads a library of Tryst"; exit 1; }
done
"$dir/build/consumer_dlopen" "$lib/libtryst.so"

PKG_CONFIG_PATH=$lib/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # lists of options
"$CC" -o "$dir/by_pc" "$SOURCE/tests/build/consumer/main.c" $(pkg-config --cflags --libs tryst)
expect "pkg-config" env LD_LIBRARY_PATH="$lib" "$dir/by_pc"
# shellcheck disable=SC2046
"$CC" -o "$dir/topology_by_pc" "$SOURCE/tests/build/consumer/topology.c" \
    $(pkg-config --cflags --libs tryst-topology)
expect "pkg-config, topology" env LD_LIBRARY_PATH="$lib" "$dir/topology_by_pc"
if [ "$PIPELINE" = ON ]; then
    # shellcheck disable=SC2046
    "$CC" -o "$dir/pipeline_by_pc" "$SOURCE/tests/build/consumer/pipeline.c" \
        $(pkg-config --cflags --libs tryst-pipeline)
    expect "pkg-config, pipeline" env LD_LIBRARY_PATH="$lib" "$dir/pipeline_by_pc"
fi
[ "$(pkg-config --modversion tryst)" = "$VERSION" ]
