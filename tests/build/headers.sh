#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each installed header compiles alone, as C11 and as C++17, with -Wpedantic.
set -eu
cxx=${CXX:-c++}
count=0
fail=0
command -v "$cxx" >/dev/null || { echo "skipped: no C++ compiler ($cxx)"; exit 77; }

alone() { # <header> <compiler and options…>
    header=$1
    shift
    "$@" -Wall -Wextra -Wpedantic -Werror -I"$INSTALL/include" -fsyntax-only "$header" || fail=1
}

for header in "$INSTALL"/include/tryst/*.h; do
    count=$((count + 1))
    alone "$header" "$CC" -std=c11 -x c
    alone "$header" "$cxx" -std=c++17 -x c++
done
[ $count -ge 4 ] || { echo "headers: only $count installed"; fail=1; }
exit $fail
