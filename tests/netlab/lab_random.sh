#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run the random test (tests/api/test_random.c) with each rank on a separate host. The
# interfaces' counters must account for the bytes that the test reports as received.
# usage: lab_random.sh <netlab.sh> <api_random> <transport> <lab>
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
if [ "$1" != --within ]; then
    exec "$1" "$4" "$0" --within "$2" "$3"
fi
# shellcheck source=tests/netlab/account.sh
. "$here/account.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$NETLAB" bytes >"$dir/before"
"$2" "$3" | tee "$dir/said"
"$NETLAB" bytes >"$dir/after"
sed -n 's/^payload //p' "$dir/said" >"$dir/ranks"
[ -s "$dir/ranks" ] || { echo "the test did not report its bytes"; exit 1; }
name_interfaces "$dir/ranks" >"$dir/payload"
account "$dir/before" "$dir/after" "$dir/payload"
