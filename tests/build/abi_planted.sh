#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# abi.sh finds each kind of change that breaks a built program, and accepts the changes
# that are allowed.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

plant() { # <yes: breaks, no: may change> <header> <sed script>
    rm -rf "$dir/tryst"
    cp -r "$SOURCE/include/tryst" "$dir/tryst"
    sed "$3" "$SOURCE/include/tryst/$2" >"$dir/tryst/$2"
    cmp -s "$SOURCE/include/tryst/$2" "$dir/tryst/$2" && { echo "abi_planted: nothing changed by: $3"; fail=1; }
    seen=no
    INCLUDE=$dir sh "$SOURCE/tests/build/abi.sh" >"$dir/said" 2>&1 || seen=yes
    [ "$seen" = "$1" ] && return 0
    echo "abi_planted: $2, $3: seen: $seen"
    cat "$dir/said"
    fail=1
}

plant yes types.h 's/    int32_t origin_rank;.*/    int64_t origin_rank;/'
plant yes types.h '/    const char \*key;/d'
plant yes tryst.h 's/^    uint64_t bytes_sent;.*/    uint64_t first; uint64_t bytes_sent;/'
plant yes tryst.h 's/^#define TRYST_OP_DEAD 2u/#define TRYST_OP_DEAD 8u/'
plant yes status.h 's/TRYST_E_DEADLINE,      105/TRYST_E_DEADLINE,      135/'
plant yes topo.h 's/TRYST_PLAN_REDUCE = 2/TRYST_PLAN_REDUCE = 7/'
plant yes pool.h 's/tryst_pool_trim(tryst_pool \*pool)/tryst_pool_trim(tryst_pool *pool, int how)/'
plant yes stage.h 's/^    int32_t first;/    int32_t first, middle;/'
plant no types.h 's/^    const char \*text; .*/    const char *text; int32_t later;/'
plant no tryst.h 's/^TRYST_API void tryst_wake/TRYST_API void tryst_later(void);\n&/'
plant no topo.h 's/    TRYST_PLAN_REDUCE_SCATTER = 4/    TRYST_PLAN_REDUCE_SCATTER = 4, TRYST_PLAN_LATER = 5/'
plant yes tryst.h 's/^#define TRYST_VERSION_MINOR .*/#define TRYST_VERSION_MINOR 99/'
exit $fail
