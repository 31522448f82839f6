#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install into the build folder, for the tests that check the installed files.
set -eu
rm -rf "$INSTALL"
"$CMAKE" --install "$BUILD" --prefix "$INSTALL" >/dev/null
for file in "include/tryst/tryst.h" "$LIBDIR/libtryst.so" "$LIBDIR/libtryst.a" \
    "$LIBDIR/libtryst_topology.so" "$LIBDIR/libtryst_topology.a" "$LIBDIR/tryst/tryst_topology.so" \
    "$LIBDIR/pkgconfig/tryst.pc" "$LIBDIR/pkgconfig/tryst-topology.pc" "$LIBDIR/cmake/tryst/tryst-config.cmake"; do
    [ -e "$INSTALL/$file" ] || { echo "install: no $file"; exit 1; }
done
