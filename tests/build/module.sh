#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One module file works with the shared library, the static one, and a library that was
# loaded RTLD_LOCAL; a module that was built for other headers is refused with a reason.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
here=$SOURCE/tests/build/module
fail=0

module() { # <folder> <abi id>
    mkdir -p "$1"
    "$CC" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -shared -fPIC -fvisibility=hidden \
        -I"$SOURCE/include" -I"$BUILD/publish/core" -I"$BUILD/publish/transports_memory" -I"$BUILD/publish/transports" \
        -DTRYST_MODULE_ABI_ID="\"$2\"" -Wl,-z,defs -Wl,--version-script="$SOURCE/cmake/module.map" \
        -o "$1/tryst_ucx.so" "$here/abi_module.c"
}

host() { # <name> <options…>
    name=$1
    shift
    "$CC" -D_GNU_SOURCE -Wall -Wextra -Werror -I"$SOURCE/include" -o "$dir/$name" "$here/host.c" "$@"
}

# expect <what> <beginning of the answer> <command…>
expect() {
    what=$1 wanted=$2
    shift 2
    said=$("$@" 2>"$dir/stderr") || { echo "module: $what: exit $?"; cat "$dir/stderr"; fail=1; }
    case $said in
    "$wanted"*) ;;
    *) echo "module: $what prints '$said', not '$wanted…'"; cat "$dir/stderr"; fail=1 ;;
    esac
    # The line reaches the library's log through the host table.
    case $wanted in
    available*) grep -q "abi-test: a line from the module" "$dir/stderr" ||
        { echo "module: $what did not log the module's line"; fail=1; } ;;
    esac
}

# Each time beside its library, in a copy of the folder without other modules.
for kind in good other; do
    mkdir -p "$dir/$kind"
    cp "$BUILD/lib/libtryst.so.$VERSION" "$dir/$kind/libtryst.so.$SOVERSION"
    ln -s "libtryst.so.$SOVERSION" "$dir/$kind/libtryst.so"
done
module "$dir/good/tryst" "$ABI_ID"
module "$dir/other/tryst" "0.0.0-0000000000000000"

host shared -L"$dir/good" -ltryst
# shellcheck disable=SC2046 # a list of options
host static "$BUILD/lib/libtryst.a" $(pkg-config --libs libsodium) -ldl -lm -pthread
host loading -DHOST_DLOPEN -ldl

answer="available: abi-test: all calls answered"
expect "shared" "$answer" env LD_LIBRARY_PATH="$dir/good" "$dir/shared"
expect "static" "$answer" env TRYST_MODULE_PATH="$dir/good/tryst" "$dir/static"
expect "dlopen(RTLD_LOCAL)" "$answer" "$dir/loading" "$dir/good/libtryst.so"
expect "a module for another ABI" "refused: built for ABI 0.0.0" \
    env LD_LIBRARY_PATH="$dir/other" "$dir/shared"
exit $fail
