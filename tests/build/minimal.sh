#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With only libc, libsodium and xxHash (as headers), cmake and make, everything
# that needs no other package builds, configure lists the omissions, and the library runs.
# (Built by make, cmake's default; all other builds use ninja.)
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

# Here pkg-config finds one package and no other.
mkdir "$dir/pc"
ln -s "$(pkg-config --variable=pcfiledir libsodium)/libsodium.pc" "$dir/pc/"
export PKG_CONFIG_LIBDIR="$dir/pc"
unset PKG_CONFIG_PATH

# (Not optimised: the optimiser's warnings about the sources appeared in this build
# already.)
"$CMAKE" -S "$SOURCE" -B "$dir/build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=None -DTRYST_WERROR=ON \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON >"$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
for what in ucx ofi cuda pmix hwloc libxml2 pipeline tests; do
    grep -qE "^ +$what +left out: .*not found" "$dir/log" ||
        { echo "minimal: configure does not report that $what was left out"; fail=1; }
done
"$CMAKE" --build "$dir/build" -j 2 >"$dir/build.log" 2>&1 || { tail -n 40 "$dir/build.log"; exit 1; }

[ ! -e "$dir/build/lib/libtryst_pipeline.so" ] || { echo "minimal: a pipeline?"; fail=1; }
"$CC" -I"$SOURCE/include" -o "$dir/main" "$SOURCE/tests/build/consumer/main.c" \
    -L"$dir/build/lib" -ltryst
[ "$(LD_LIBRARY_PATH=$dir/build/lib "$dir/main")" = "$VERSION" ] || fail=1
# Without hwloc, tryst-topo names the missing package.
if "$dir/build/bin/tryst-topo" >"$dir/topo" 2>&1 || ! grep -q 'build with libhwloc-dev' "$dir/topo"; then
    echo "minimal: tryst-topo does not report that hwloc is missing"
    cat "$dir/topo"
    fail=1
fi
[ $fail -eq 0 ] || cat "$dir/log"
exit $fail
