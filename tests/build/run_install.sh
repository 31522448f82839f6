#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# README's commands under Install, in a copy of the sources: install below a prefix, compile the example, run it on
# four ranks, uninstall.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/sources"
git -C "$SOURCE" ls-files -z --cached --others --exclude-standard | (cd "$SOURCE" && tar --null -c -T -) |
    tar -x -C "$dir/sources"
cd "$dir/sources"
./run install "$dir/prefix"
grep -m 1 '^cc examples/ring.c ' README.md >"$dir/compile"
export PATH="$dir/prefix/bin:$PATH" PKG_CONFIG_PATH="$dir/prefix/$LIBDIR/pkgconfig" LD_LIBRARY_PATH="$dir/prefix/$LIBDIR"
sh -e "$dir/compile"
tryst-run -n 4 ./ring
./run uninstall
[ ! -e "$dir/prefix" ] || { echo "run_install: left: $(find "$dir/prefix")"; exit 1; }
