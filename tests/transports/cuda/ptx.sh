#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ptxas accepts both kernels for each chip that the build targets.
set -eu
[ -x "$PTXAS" ] || { echo "no ptxas: $PTXAS"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
"$PRINT_PTX" >"$dir/wait.ptx"
for chip in sm_80 sm_90 sm_100; do
    "$PTXAS" --warning-as-error -arch=$chip -o "$dir/wait.cubin" "$dir/wait.ptx" ||
        { echo "ptx: ptxas refuses a kernel for $chip"; exit 1; }
done
