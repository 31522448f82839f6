#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples build against the installed files, by CMake and by pkg-config, and the commands in examples/README.md print
# what its table promises.
# shellcheck disable=SC2016,SC2153 # backquotes of Markdown; SOURCE is from the environment
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
page=$SOURCE/examples/README.md
export PATH="$INSTALL/bin:$PATH" CMAKE_PREFIX_PATH="$INSTALL" CC CFLAGS="-O1 -Werror"
export PKG_CONFIG_PATH="$INSTALL/$LIBDIR/pkgconfig${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}"

# block <name>: print the fenced lines behind the marker of that name
block() {
    awk -v mark="<!-- test: $1 -->" '$0 == mark { armed = 1; next }
         armed && /^```/ { if (inside) exit; inside = 1; next }
         inside' "$page"
}

# run_block <name> <lines>: the page's commands, as a user types them beside the sources
run_block() {
    block "$1" >"$dir/commands"
    [ "$(wc -l <"$dir/commands")" -eq "$2" ] || { echo "examples: not $2 commands of $1 in $page"; exit 1; }
    (cd "$dir" && timeout 100 sh -eu ./commands) >"$dir/out" 2>&1 ||
        { echo "examples: the commands of $1 fail:"; cat "$dir/out"; exit 1; }
}

ln -s "$SOURCE/examples" "$dir/examples"
run_block examples 3
grep -q '^\[0\] ring: 4 ranks' "$dir/out" || { echo "examples: ring prints nothing"; cat "$dir/out"; exit 1; }
run_block examples_cc 1
(cd "$dir" && LD_LIBRARY_PATH=$INSTALL/$LIBDIR timeout 20 ./ring >"$dir/out") ||
    { echo "examples: a ring of one rank fails"; exit 1; }

# Each source has a row, and each row's command prints the row's line, with a rank before it.
sed -nE 's/^\| \[([a-z_]+)\.c\]\([a-z_]+\.c\) \| .* \| `([^`]*)` \| `([^`]*)` \|$/\1|\2|\3/p' "$page" >"$dir/rows"
for source in "$SOURCE"/examples/*.c; do
    name=$(basename "$source" .c)
    row=$(grep "^$name|" "$dir/rows") || { echo "examples: $page has no row for $name.c"; exit 1; }
    if [ "$PIPELINE" != ON ] && [ "$name" = stage ]; then
        echo "left out: stage.c (this build has no libtryst_pipeline)"
        continue
    fi
    command=${row#*|}
    line=${command#*|}
    command=${command%%|*}
    # shellcheck disable=SC2086 # a command of several words
    (cd "$dir/build/examples" && timeout 60 $command) >"$dir/out" 2>&1 ||
        { echo "examples: '$command' ends with $?"; cat "$dir/out"; exit 1; }
    if [ "$(sed 's/^\[[0-9]*\] //' "$dir/out")" != "$line" ]; then
        echo "examples: '$command' prints"
        cat "$dir/out"
        echo "and not '$line'"
        exit 1
    fi
    shown=$(sed -n '/^ \* Prints:  /,$p' "$source" | sed 's/^ \*  *//; s/^Prints:  //; s/ *\*\/$//; /^#/,$d' | paste -sd ' ' -)
    [ "$shown" = "$line" ] || { echo "examples: $name.c states that it prints '$shown', not '$line'"; exit 1; }
done
