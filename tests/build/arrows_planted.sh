#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# arrows.sh reports faults: small folders are compiled as make does it, with one fault
# after the other. arrows.sh must report each fault and nothing else, and accept the fault
# if the list has it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
tree=$dir/tree
arrows=$SOURCE/tests/build/arrows.sh
fail=0

put() { # <file> <line>…: write it; compile it if it is a source
    mkdir -p "$tree/${1%/*}" "$dir/build/${1%/*}"
    file=$1
    shift
    printf '%s\n' "$@" >"$tree/$file"
    case $file in
    *.c) (cd "$dir/build" && "$CC" -I"$tree" -MD -c "$tree/$file" -o "$file.o" -MF "$file.o.d") ;;
    esac
}

remove() { # <file>
    rm -f "$tree/$1" "$dir/build/$1.o" "$dir/build/$1.o.d"
}

# check <description> <line of the list, or ""> <the only complaint, or "" for none>
check() {
    printf '# a list\n%s\n' "$2" >"$dir/list"
    said=yes
    env SOURCE="$tree" BUILD="$dir/build" LIST="$dir/list" \
        sh "$arrows" --check >"$dir/said" 2>&1 || said=no
    complaints=$(grep -c '^arrows: ' "$dir/said") || true
    if [ -z "$3" ]; then
        [ $said = no ] || return 0
    elif [ $said = no ] && [ "$complaints" = 1 ] && grep -qF "arrows: $3" "$dir/said"; then
        return 0
    fi
    echo "arrows_planted: $1: expected '$3', but the output is:"
    cat "$dir/said"
    fail=1
}

# Two folders, and one inside the upper one but below it in the order; tests/ is not part
# of the product.
put ./CMakeLists.txt 'add_subdirectory(low)' 'add_subdirectory(high)' 'add_subdirectory(tests)'
put low/CMakeLists.txt 'layer(low SOURCES low.c) # ../high/high.c'
put low/low.h 'int low_start(void);' 'int low_stop(void);'
put low/low.c '#include "low.h"' 'int low_start(void) { return 0; }' \
    'int low_stop(void) { return 0; }'
put high/CMakeLists.txt 'add_subdirectory(inner)' 'layer(high SOURCES high.c)'
put high/high.h 'int high_start(void);'
put high/inner/CMakeLists.txt 'layer(inner SOURCES inner.c)'
put high/inner/inner.h 'int inner_start(void);'
put high/inner/inner.c '#include "inner.h"' 'int inner_start(void) { return 0; }'
put high/high.c '#include "high/high.h"' '#include "inner/inner.h"' '#include "low/low.h"' \
    'int high_start(void) { return inner_start() + low_start(); }'
check "a clean tree" "" ""
check "a line for nothing" "up low->high 1" "up low->high: not so any more"

put low/low.c '#include "../high/high.h"' '#include "low.h"' \
    'int low_start(void) { return 0; }' 'int low_stop(void) { return high_start(); }'
check "an include that goes up" "" "up low->high 1: includes that go up"
check "the same, listed" "up low->high 1" ""
check "better than listed" "up low->high 2" "up low->high 1: better than 2"
put low/low.c '#define HIGH "high/high.h"' '#include HIGH' '#include "low.h"' \
    'int low_start(void) { return 0; }' 'int low_stop(void) { return high_start(); }'
check "an include behind a macro" "" \
    "low/low.c: the compiler read high/high.h, where no #include leads"

put low/low.c '#include "low.h"' 'int low_start(void) { return 0; }'
put low/stop.c '#include "low.h"' 'int low_stop(void) { return 0; }'
check "a header of two files" "" "shared low/low.h 2: a header that declares functions of more"
check "the same, listed" "shared low/low.h 2" ""
rm "$dir"/build/low/stop.c.o*
check "the same, one of them not compiled here" "shared low/low.h 2" ""
put low/more.c '#include "low.h"' 'int low_more(void) { return low_stop(); }'
put low/low.h 'int low_start(void);' 'int low_stop(void);' 'int low_more(void);'
check "worse than listed" "shared low/low.h 2" "shared low/low.h 3: a header that declares"
remove low/more.c
remove low/stop.c
put low/low.h 'int low_start(void);'

put high/inner/inner.c '#include "inner.h"' '#include "../high.h"' \
    'int inner_start(void) { return 0; }'
check "a folder of a folder that goes up" "" "up high/inner->high 1: includes that go up"
put high/inner/inner.c '#include "inner.h"' 'int inner_start(void) { return 0; }'

n=2
while [ $n -lt 25 ]; do
    n=$((n + 1))
    put low/more$n.h '#define MORE'
done
check "25 files in a folder" "" ""
put low/more26.h '#define MORE'
check "26 files in a folder" "" "files low 26: more than 25 files in one folder"
check "the same, listed" "files low 26" ""
rm "$tree"/low/more*.h

put aside/aside.h 'int aside;'
put tests/CMakeLists.txt 'test(aside SOURCES ../aside/aside.h)'
put ./CMakeLists.txt 'add_subdirectory(low)' 'add_subdirectory(high)' 'add_subdirectory(tests)' \
    'add_subdirectory(aside)'
check "a folder without a place" "" "aside: no CMakeLists.txt names a file of it"
rm -r "$tree/aside" "$dir/build"
mkdir "$dir/build"
put ./CMakeLists.txt 'add_subdirectory(low)' 'add_subdirectory(high)'
check "no build" "" "the build has no source of ours"
exit $fail
