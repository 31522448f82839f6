#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One dialect of C in the whole tree: lines within 90 columns; an include guard is TRYST_ and the header's path; structures
# and enumerations by their tags outside the public headers; no const of a scalar local; in headers a declaration's comment
# opens with two asterisks, in sources none does.
# $1: another tree (dialect_planted.sh).
set -eu
cd "${1:-$SOURCE}"
here=$SOURCE/tests/build
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
sh "$here/sources.sh" | grep -v '^tests/api/abi/' >"$dir/files"
[ -s "$dir/files" ] || { echo "dialect: no source found"; exit 1; }
failed=0
LC_ALL=C.UTF-8 xargs grep -nHE '^.{91}' <"$dir/files" >"$dir/long" || true
sed 's/\(:[0-9]*\):.*/\1: longer than 90 columns/; s/^/dialect: /' "$dir/long"
[ ! -s "$dir/long" ] || failed=1
xargs awk -f "$here/dialect.awk" <"$dir/files" || failed=1
exit $failed
