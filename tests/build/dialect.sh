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
folders=
for folder in core include topology transports rendezvous commsched pipeline tools tests; do
    [ ! -d $folder ] || folders="$folders $folder"
done

# shellcheck disable=SC2086 # a list of folders
find -L $folders -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cc' \) |
    grep -v '^tests/api/abi/' | LC_ALL=C sort >"$dir/files"
[ -s "$dir/files" ] || { echo "dialect: no source found"; exit 1; }
failed=0
LC_ALL=C.UTF-8 xargs grep -nHE '^.{91}' <"$dir/files" >"$dir/long" || true
sed 's/\(:[0-9]*\):.*/\1: longer than 90 columns/; s/^/dialect: /' "$dir/long"
[ ! -s "$dir/long" ] || failed=1
xargs awk -f "$here/dialect.awk" <"$dir/files" || failed=1
exit $failed
