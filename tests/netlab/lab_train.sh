#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Run a training (pp_bench) with one rank per host, started through the environment as by
# hand. The result must equal the replay's bit by bit, and the interfaces' counters must
# account for the bytes that pp_bench reports as sent.
# usage: lab_train.sh <netlab.sh> <pp_bench> <transport> <lab>
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
"$NETLAB" ranks "$2" --transport "$3" --check --hidden 128 --steps 4 --json "$dir/json" \
    --save-weights "$dir/weights"
"$NETLAB" bytes >"$dir/after"
# In training a rank sends to its neighbours in the pipeline, in equal parts. The weights,
# which rank 0 gathers for the comparison and the file, are added.
sed -n 's/.*"bytes_sent": \([0-9]*\).*/\1/p' "$dir/json" |
    awk -v ranks="$(wc -l </run/netlab/ranks)" '
        { rank = NR - 1
          for (to = rank - 1; to <= rank + 1; to += 2)
              if (to >= 0 && to < ranks)
                  print rank, to, $1 / (rank > 0 && rank < ranks - 1 ? 2 : 1) }
        END { exit NR != ranks }' >"$dir/ranks"
name_interfaces "$dir/ranks" >"$dir/payload"
account "$dir/before" "$dir/after" "$dir/payload" "$(stat -c %s "$dir/weights")"
