#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# features.sh reports wrong lines, a folder without a row, a row without a folder, an empty cell and a path that is gone.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/docs" "$dir/core/os" "$dir/core/new" "$dir/context"
seq 100 >"$dir/core/os/a.c"
seq 100 >"$dir/core/new/a.c"
seq 100 >"$dir/context/a.h"
cat >"$dir/docs/features.md" <<'END'
| folder | feature | lines | used by | measured |
|---|---|---|---|---|
| `core/os` | clocks | 116 | all | `tests/gone.sh` |
| `context` | opens | 115 | | no |
| `core/old` | gone | 10 | none | no |
END
if sh "$SOURCE/tests/build/features.sh" "$dir" >"$dir/said"; then
    echo "planted: features.sh accepts them"
    exit 1
fi
for what in 'core/os has 100 lines' 'core/new has no row' 'a row for core/old' 'context: a cell is empty' 'tests/gone.sh'; do
    grep -q "$what" "$dir/said" || { echo "planted: features.sh does not report: $what"; cat "$dir/said"; exit 1; }
done
[ "$(wc -l <"$dir/said")" -eq 5 ] || { echo "planted: features.sh reports more"; cat "$dir/said"; exit 1; }
