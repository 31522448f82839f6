#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A full /dev/shm: Tryst's shm works, because its memory has no name there; a fabric that
# needs /dev/shm works without it or ends soon with an error text. Run in a new mount
# namespace.
# Usage: test_full_shm.sh <tryst-perf> <transport>
set -eu
perf=$1
transport=$2
if [ "${FULL_SHM:-}" != inside ]; then
    FULL_SHM=inside exec "$(dirname "$0")/../support/own_mounts.sh" -- "$0" "$@"
fi
# The room that is left there: none, or enough for the first objects of a fabric but not
# for the rest.
for left in 0 4; do
    mount -t tmpfs -o size=$((left * 1024 + 16))k full /dev/shm
    head -c 16384 /dev/zero >/dev/shm/full
    if [ "$left" = 0 ] && touch /dev/shm/more && head -c 4096 /dev/zero >/dev/shm/more; then
        echo "/dev/shm is not full" && exit 1
    fi 2>/dev/null
    status=0
    out=$(timeout 160 "$perf" bandwidth -n 2 --transport "$transport" --sizes 8,3M --iters 20 2>&1) || status=$?
    if [ "$status" -ne 0 ]; then
        echo "$out"
        [ "$transport" != shm ] || { echo "shm needs /dev/shm"; exit 1; }
        [ "$status" -ne 124 ] || { echo "$transport hangs"; exit 1; }
        echo "$out" | grep -q 'rank' || { echo "$transport: the error does not name the rank that is not reached"; exit 1; }
        echo "$out" | grep -q '/dev/shm full' || { echo "$transport does not say why"; exit 1; }
    fi
    umount /dev/shm
done
