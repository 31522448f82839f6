#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The README's embedding example compiles against what is installed, and runs. It is the fenced
# block that follows this line in README.md:
#
#   <!-- test: embed -->
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

awk '/^<!-- test: embed -->$/ { armed = 1; next }
     armed && /^```/ { if (inside) exit; inside = 1; next }
     inside' "$SOURCE/README.md" >"$dir/embed.c"
[ "$(wc -l <"$dir/embed.c")" -ge 10 ] || { echo "readme: no example after the marker"; exit 1; }

"$CC" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$INSTALL/include" -o "$dir/embed" \
    "$dir/embed.c" -L"$INSTALL/$LIBDIR" -ltryst -Wl,-rpath,"$INSTALL/$LIBDIR"
cd "$dir"
timeout 120 ./embed

# One line says what stops it.
TRYST_WINDOW_BYTES=many timeout 120 ./embed 2>err && { echo "readme: a bad setting is taken"; exit 1; }
if [ "$(wc -l <err)" -ne 1 ] || ! grep -q TRYST_WINDOW_BYTES err; then
    echo "readme: of a bad setting it says: $(cat err)"
    exit 1
fi
