#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The libraries export only tryst_*, the static ones as the shared ones, so that no
# internal name can collide with a name of a host program; modules export only their
# entry. The soname and the version node of all symbols contain the major version, and
# below 1.0 the minor version too. libtryst needs neither BLAS nor a fabric. dlclose does
# not unload the shared libraries.
set -eu
fail=0
complain() { echo "symbols: $*"; fail=1; }

# Print the names that are defined and global, without @@VERSION.
exported() { # <nm flags> <file>
    "$NM" "$1" --defined-only "$2" | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort
}

check_library() { # <name> <exported names must be more than>
    shared=$BUILD/lib/lib$1.so
    static=$BUILD/lib/lib$1.a
    names=$(exported -D "$shared")
    static_names=$(exported -g "$static")
    [ "$(echo "$names" | wc -l)" -ge "$2" ] || complain "$shared exports next to nothing: $names"
    foreign=$(printf '%s\n%s\n' "$names" "$static_names" | grep -v '^tryst_') &&
        complain "lib$1 exports more than tryst_*:" "$foreign"
    [ "$names" = "$static_names" ] || complain "lib$1.so and lib$1.a export different names"

    soname=$("$READELF" -d "$shared" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    [ "$soname" = "lib$1.so.$abi" ] || complain "soname is '$soname', not lib$1.so.$abi"
    [ "$(readlink "$BUILD/lib/$soname")" = "lib$1.so.$VERSION" ] ||
        complain "$soname is not a link to lib$1.so.$VERSION"
    "$READELF" -d "$shared" | grep -q NODELETE ||
        complain "$shared can be unloaded while one of its threads runs (-z nodelete)"
    nodeless=$("$NM" -D --defined-only "$shared" |
        awk -v node="@@TRYST_$abi" '$2 != "A" && substr($3, length($3) - length(node) + 1) != node')
    [ -z "$nodeless" ] || complain "$shared: not in version node TRYST_$abi:" "$nodeless"
}

case $VERSION in
0.*) abi=${VERSION%.*} ;;
*) abi=${VERSION%%.*} ;;
esac

check_library tryst 2
check_library tryst_topology 20
[ "$PIPELINE" != ON ] || check_library tryst_pipeline 1

# A function in both would have two texts of tryst_last_error.
twice=$(for name in tryst tryst_topology; do exported -D "$BUILD/lib/lib$name.so"; done | sort | uniq -d)
[ -z "$twice" ] || complain "libtryst and libtryst_topology both export:" "$twice"
for name in tryst_topo_load tryst_plan_open tryst_plan_verify; do
    exported -D "$BUILD/lib/libtryst_topology.so" | grep -qx $name || complain "libtryst_topology lacks $name"
done

needed=$("$READELF" -d "$BUILD/lib/libtryst.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
foreign=$(echo "$needed" | grep -vE '^(libc|libm|libsodium|ld-linux-x86-64|ld-linux-aarch64)\.so') &&
    complain "libtryst.so needs more than libc and libsodium:" "$foreign"

for module in "$BUILD"/lib/tryst/*.so; do
    [ -e "$module" ] || continue
    names=$(exported -D "$module")
    case $module in
    */tryst_stage_*) entry=tryst_stage_module_v1 ;;
    *) entry=tryst_module_v1 ;;
    esac
    [ "$names" = "$entry" ] || complain "$module exports:" "$names"
    "$READELF" -d "$module" | grep 'NEEDED.*libtryst' && complain "$module links libtryst"
done
exit $fail
