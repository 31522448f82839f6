#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A consumer builds and runs with the installed files only: by find_package, shared and
# static, by pkg-config, and by dlopen.
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

"$CMAKE" -S "$SOURCE/tests/build/consumer" -B "$dir/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_PREFIX_PATH="$INSTALL" >"$dir/log" ||
    { cat "$dir/log"; exit 1; }
"$CMAKE" --build "$dir/build" >"$dir/log" || { cat "$dir/log"; exit 1; }
expect "find_package, shared" "$dir/build/consumer_shared"
expect "find_package, static" "$dir/build/consumer_static"
expect "find_package, topology" "$dir/build/consumer_topology"
expect "find_package, static topology" "$dir/build/consumer_topology_static"
for static in consumer_static consumer_topology_static; do
    "$READELF" -d "$dir/build/$static" | grep 'NEEDED.*libtryst' &&
        { echo "consumer: $static loads a library of Tryst"; exit 1; }
done
"$dir/build/consumer_dlopen" "$lib/libtryst.so"
if [ "$PIPELINE" = ON ]; then
    expect "find_package, pipeline" "$dir/build/consumer_pipeline"
    expect "find_package, static pipeline" "$dir/build/consumer_pipeline_static"
fi

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
