#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Structs of the public headers grow by one rule (tryst/sized.h): struct_size is the first
# member of each struct that is not listed here, only sized.h compares struct_size, and a
# test calls with each struct shorter and longer.
set -eu
fail=0
headers=$SOURCE/include/tryst
tests="$SOURCE/tests/api/test_sized.c $SOURCE/tests/pipeline/test_sized_stage.c"

# Without struct_size: elements of arrays, pairs that are passed by value, and a base that
# the caller's struct contains.
fixed="tryst_view tryst_layers tryst_stage tryst_action tryst_program_peak tryst_action_costs tryst_sim_rank
tryst_sim_event tryst_span tryst_place_pair tryst_probe_flow
tryst_program_read"

# Print the name and the first member of each struct.
members=$(cat "$headers"/[a-km-z]*.h | awk '
    /^(typedef )?struct [a-z_]+ \{/ { name = $0; sub(/ \{.*/, "", name); sub(/.*struct /, "", name); next }
    name != "" && /;/ { print name, $1, $2; name = "" }')
[ "$(echo "$members" | wc -l)" -ge 40 ] || { echo "sized: found too few structs"; exit 1; }

for name in $(echo "$members" | cut -d' ' -f1); do
    first=$(echo "$members" | sed -n "s/^$name //p")
    case " $(echo "$fixed" | tr '\n' ' ') " in
    *" $name "*) continue ;;
    esac
    [ "$first" = "size_t struct_size;" ] || {
        echo "sized: $name does not begin with struct_size: it can never grow"
        fail=1
    }
    # shellcheck disable=SC2086 # a list of files
    uses=$(cat $tests | grep -c "\b$name\b" || true)
    [ "$uses" -gt 0 ] || {
        echo "sized: no row of tests/api/test_sized.c or tests/pipeline/test_sized_stage.c has $name"
        fail=1
    }
done

# Modules are built with the library, so struct_size of their tables is compared for
# equality.
comparison='struct_size *([!=]=|[<>])|([!=<>]=|[^-]>|<) *[a-z_.>-]*struct_size'
cd "$SOURCE"
compared=$(grep -rnE "$comparison" --include='*.c' --include='*.h' core topology transports rendezvous \
    commsched collectives context pipeline tools include |
    grep -vE '^(include/tryst/sized\.h|transports/module_load\.c|pipeline/device/device_module\.c):') || true
[ -z "$compared" ] || {
    echo "sized: only tryst/sized.h compares a struct_size:"
    echo "$compared"
    fail=1
}
exit $fail
