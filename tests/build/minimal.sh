#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# With nothing but libc, libsodium, jansson and xxHash (as headers), cmake and make, everything
# that does not need more still builds, configure says what was left out, and the library runs.
# (By make: it is what cmake takes where nobody says more, and all other builds are ninja's.)
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

# pkg-config finds two packages here and no other one.
mkdir "$dir/pc"
for package in libsodium jansson; do
    ln -s "$(pkg-config --variable=pcfiledir $package)/$package.pc" "$dir/pc/"
done
export PKG_CONFIG_LIBDIR="$dir/pc"
unset PKG_CONFIG_PATH

# (Not optimised: what the optimiser says of our sources it said in this build already.)
"$CMAKE" -S "$SOURCE" -B "$dir/build" -G "Unix Makefiles" -DCMAKE_BUILD_TYPE=None -DTRYST_WERROR=ON \
    -DCMAKE_C_COMPILER="$CC" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON >"$dir/log" 2>&1 ||
    { cat "$dir/log"; exit 1; }
for what in ucx ofi cuda pmix hwloc libxml2 pipeline tests; do
    grep -qE "^ +$what +left out: .*not found" "$dir/log" ||
        { echo "minimal: configure does not say that $what was left out"; fail=1; }
done
"$CMAKE" --build "$dir/build" -j 2 >"$dir/build.log" 2>&1 || { tail -n 40 "$dir/build.log"; exit 1; }

[ ! -e "$dir/build/lib/libtryst_pipeline.so" ] || { echo "minimal: a pipeline?"; fail=1; }
"$CC" -I"$SOURCE/include" -o "$dir/main" "$SOURCE/tests/build/consumer/main.c" \
    -L"$dir/build/lib" -ltryst
[ "$(LD_LIBRARY_PATH=$dir/build/lib "$dir/main")" = "$VERSION" ] || fail=1
# Without hwloc the machine comes from /sys alone.
if ! "$dir/build/bin/tryst-topo" >"$dir/topo" 2>&1 || ! grep -q '^1 machine' "$dir/topo"; then
    echo "minimal: tryst-topo does not see this machine"
    cat "$dir/topo"
    fail=1
fi
[ $fail -eq 0 ] || cat "$dir/log"
exit $fail
