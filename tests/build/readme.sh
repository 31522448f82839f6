#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The examples of README.md and docs/priorities.md compile against the installed files, and run. Each example is
# the fenced block that follows its line in its page:
#
#   <!-- test: embed -->
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# example <page> <name> <lines, at least> <lines, at most>: compile it as $dir/<name>
example() {
    page=$1
    shift
    awk -v mark="<!-- test: $1 -->" '$0 == mark { armed = 1; next }
         armed && /^```/ { if (inside) exit; inside = 1; next }
         inside' "$SOURCE/$page" >"$dir/$1.c"
    lines=$(wc -l <"$dir/$1.c")
    [ "$lines" -ge "$2" ] || { echo "readme: no example after the marker of $1"; exit 1; }
    [ "$lines" -le "$3" ] || { echo "readme: the example $1 has $lines lines, at most $3"; exit 1; }
    "$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$INSTALL/include" -o "$dir/$1" \
        "$dir/$1.c" -L"$INSTALL/$LIBDIR" -ltryst -Wl,-rpath,"$INSTALL/$LIBDIR"
}

example README.md embed 10 60
example docs/priorities.md allreduce 10 40
cd "$dir"
timeout 120 ./embed

# A failure to start is one line that names the cause.
TRYST_WINDOW_BYTES=many timeout 120 ./embed 2>err && { echo "readme: an invalid setting is accepted"; exit 1; }
if [ "$(wc -l <err)" -ne 1 ] || ! grep -q TRYST_WINDOW_BYTES err; then
    echo "readme: not one line about the invalid setting: $(cat err)"
    exit 1
fi

# Layer 1 averages 1, 2, 3 and 4.
timeout 120 "$INSTALL/bin/tryst-run" -n 4 ./allreduce >out
if [ "$(grep -c 'rank [0-3]: success, 2.5$' out)" -ne 4 ]; then
    echo "readme: the output of the all-reduce is wrong:"
    cat out
    exit 1
fi
