#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# words.sh counts words in comments and messages alone, and refuses a folder above its limit or without one.
set -eu
here=$SOURCE/tests/build
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/core"
cat >"$dir/core/a.c" <<'C'
/* SPDX-License-Identifier: Apache-2.0 told */
int told = '"'; /* a peer who
 * waits, whole, "nobody" */ const char *owed = "who"; // it stands
const char *text = "rank 3 says \"no\"; nobody";
int who(int told) { return told / owed[0]; }
C
fail=0

# check <limit> <accepted: yes or no> <text that it prints>
check() {
    printf 'word who|nobody\nword says|stands|told|owed\nlimit core %s\n' "$1" >"$dir/list"
    accepted=yes
    SOURCE="$dir" LIST="$dir/list" sh "$here/words.sh" >"$dir/said" 2>&1 || accepted=no
    [ "$accepted" = "$2" ] && { [ -z "$3" ] || grep -qF "$3" "$dir/said"; } && return 0
    echo "planted: limit $1: accepted: $accepted, wanted $2 and '$3'; words.sh printed:"
    cat "$dir/said"
    fail=1
}

check 5 yes ""
check 4 no "core: 5 words of the list, 4 are allowed"
check 6 yes "core: 5 words of the list, below its limit of 6"
mkdir "$dir/more"
printf 'word who\nlimit more 0\nlimit core 9\n' >"$dir/list"
SOURCE="$dir" LIST="$dir/list" sh "$here/words.sh" >"$dir/said" 2>&1 &&
    { echo "planted: words.sh accepts a limit of a folder without sources"; fail=1; }
SOURCE="$dir" LIST="$dir/list" sh "$here/words.sh" core >"$dir/said"
grep -qF 'core/a.c:2: ' "$dir/said" || { echo "planted: words.sh lists no line of core"; fail=1; }
exit $fail
