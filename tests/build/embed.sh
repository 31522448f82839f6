#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A project that contains Tryst's sources, by add_subdirectory and by FetchContent: it
# links tryst::tryst, builds and runs, and its flags, build type and cache stay unchanged;
# flags that the user of Tryst alone sets stay unchanged, too.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
complain() { echo "embed: $*"; fail=1; }
unset CFLAGS

configure() { # <folder> <arguments…>
    folder=$1
    shift
    "$CMAKE" -B "$dir/$folder" -G Ninja -DCMAKE_C_COMPILER="$CC" -DTRYST="$SOURCE" -DPIPELINE="$PIPELINE" \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
}
cached() { sed -n "s/^$2:[A-Z]*=//p" "$dir/$1/CMakeCache.txt"; }
compiled() { # <folder> <source>: print the compile command
    grep -E "\"command\": .* -c [^ ]*/$2\"" "$dir/$1/compile_commands.json"
}
has() { # <folder> <source> <flag> <flags that must be absent>
    command=$(compiled "$1" "$2") || { complain "$1 does not compile $2"; return; }
    case " $command " in *" $3 "*) ;; *) complain "$2 is compiled without $3: $command" ;; esac
    for flag in $4; do
        case " $command " in *" $flag "*) complain "$2 is compiled with $flag: $command" ;; esac
    done
}

# Not optimised, to compile quickly. The second build reuses everything but the program.
for how in subdirectory fetch; do
    configure embedder -S "$SOURCE/tests/build/embed" -DHOW=$how \
        -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O0 -DOF_THE_PARENT"
    has embedder core/log/log.c -DOF_THE_PARENT "-g -Og"
    has embedder tests/build/consumer/main.c -DOF_THE_PARENT "-g -Og -UNDEBUG"
    compiled embedder 'tests/.*/test_[a-z_]*.c' >/dev/null && complain "by $how, Tryst's tests are built"
    "$CMAKE" --build "$dir/embedder" --target embedder -j 2 >"$dir/log" 2>&1 ||
        { tail -n 40 "$dir/log"; exit 1; }
    [ "$("$dir/embedder/embedder")" = "$VERSION" ] || complain "by $how, the program does not run"
    rm "$dir/embedder/embedder"
done

# No build type: Tryst sets none for the project. Asserts stay enabled unless the
# project's release disables them.
configure typeless -S "$SOURCE/tests/build/embed" -DTRYST_TOOLS=OFF
[ -z "$(cached typeless CMAKE_BUILD_TYPE)" ] ||
    complain "CMAKE_BUILD_TYPE of the project becomes $(cached typeless CMAKE_BUILD_TYPE)"
has typeless core/log/log.c -UNDEBUG "-O2 -g"
configure release -S "$SOURCE/tests/build/embed" -DTRYST_TOOLS=OFF -DCMAKE_BUILD_TYPE=Release
has release core/log/log.c "-O3 -DNDEBUG" "-O2 -g"
compiled release core/log/log.c | grep -q -- '-DNDEBUG.* -UNDEBUG' || complain "a release has no asserts"

# Tryst alone: its default flags apply unless the user sets others.
alone() { configure "$@" -S "$SOURCE" -DTRYST_TESTS=OFF -DTRYST_TOOLS=OFF; }
alone plain
has plain core/log/log.c "-O2 -g" "-O3 -DNDEBUG"
alone given -DCMAKE_C_FLAGS_RELEASE="-O1 -DGIVEN"
has given core/log/log.c "-O1 -DGIVEN" "-O2 -g"
exit $fail
