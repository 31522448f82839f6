#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dialect.sh accepts a header and a source as the project writes them, and reports each deviation with file and line.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/core"
fail=0

good_header() {
    cat <<'C'
/* SPDX-License-Identifier: Apache-2.0 */
/* The idea. */
#ifndef TRYST_CORE_A_H
#define TRYST_CORE_A_H

/* A part of the header: */

/** A pair. */
struct pair {
    int first; /**< in bytes */
};

#endif
C
}

good_source() {
    cat <<'C'
/* Return one more. */
static int more(const int *of)
{
    int sum = *of + 1;
    return sum;
}
C
}

# check <file> <line> <text that names the rule>: dialect.sh reports this line alone
check() {
    if sh "$SOURCE/tests/build/dialect.sh" "$dir" >"$dir/said" 2>&1; then
        echo "planted: dialect.sh accepts: $3"
        fail=1
    fi
    { grep -q "^dialect: core/$1:$2: .*$3" "$dir/said" && [ "$(wc -l <"$dir/said")" -eq 1 ]; } ||
        { echo "planted: wanted core/$1:$2: $3; dialect.sh reports:"; cat "$dir/said"; fail=1; }
}

good_header >"$dir/core/a.h"
good_source >"$dir/core/a.c"
sh "$SOURCE/tests/build/dialect.sh" "$dir" || { echo "planted: dialect.sh refuses what is right"; fail=1; }

good_header | sed 's/TRYST_CORE_A_H/CORE_A_H/' >"$dir/core/a.h"
check a.h 3 "include guard CORE_A_H where TRYST_CORE_A_H"
good_header | sed 's/^struct pair/typedef struct pair/; s/^};/} pair;/' >"$dir/core/a.h"
check a.h 9 "typedef"
good_header | sed 's/\*\* A pair/* A pair/' >"$dir/core/a.h"
check a.h 9 "two asterisks"
good_header >"$dir/core/a.h"
good_source | sed 's/    int sum/    const int sum/' >"$dir/core/a.c"
check a.c 4 "const of a scalar local"
good_source | sed 's/^\/\* Return/\/** Return/' >"$dir/core/a.c"
check a.c 1 "one asterisk"
good_source | sed 's/one more/one more, which is the value at the address that the caller gives plus one, with no check/' >"$dir/core/a.c"
check a.c 1 "longer than 90 columns"
exit $fail
