#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No program or library, in the build tree or installed, has an empty or a relative
# element in its RUNPATH (or RPATH): for such an element the loader searches the current
# directory. A planted one is found.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Print "<file>: <runpath>" for each file below these folders with an invalid runpath;
# write the name of each checked file to $dir/count.
faults() {
    find "$@" -type f \( -perm -u+x -o -name '*.so*' \) >"$dir/files"
    : >"$dir/count"
    while read -r file; do
        "$READELF" -d "$file" >"$dir/dynamic" 2>/dev/null || continue # a script
        echo "$file" >>"$dir/count"
        sed -nE 's/.*\((RPATH|RUNPATH)\).*\[(.*)\].*/:\2:/p' "$dir/dynamic" |
            grep -E '::|:[^/$:]' | sed "s|^|$file: |"
    done <"$dir/files" || true
}

mkdir "$dir/planted"
echo 'int main(void) { return 0; }' >"$dir/main.c"
"$CC" -o "$dir/planted/program" "$dir/main.c" -Wl,--enable-new-dtags,-rpath,/lib:
"$CC" -o "$dir/planted/relative" "$dir/main.c" -Wl,--enable-new-dtags,-rpath,/lib:lib
# shellcheck disable=SC2016 # $ORIGIN is for the loader, not for the shell
"$CC" -o "$dir/planted/right" "$dir/main.c" -Wl,--enable-new-dtags,-rpath,'$ORIGIN/../lib:/lib'
[ "$(faults "$dir/planted" | wc -l)" -eq 2 ] ||
    { echo "rpath: of three planted programs with two faults, found:"; faults "$dir/planted"; exit 1; }

found=$(faults "$BUILD/bin" "$BUILD/lib")
[ "$(wc -l <"$dir/count")" -ge 10 ] || { echo "rpath: the build tree has next to no programs"; exit 1; }
found=$found$(faults "$INSTALL")
[ "$(wc -l <"$dir/count")" -ge 5 ] || { echo "rpath: next to no program is installed"; exit 1; }
[ -z "$found" ] || { echo "rpath: the loader would search the current directory for:"; echo "$found"; exit 1; }

# Installed, a program runs whatever the current directory holds.
cd "$dir"
env -u LD_LIBRARY_PATH "$INSTALL/bin/tryst-info" >/dev/null
