#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Real processes join under tryst-run; then the same with rank 3, then with rank 0 killed
# on the way.
# usage: bootstrap_run.sh TRYST_RUN BOOTSTRAP_RANK
set -eu
run=$1 rank=$2
unset TRYST_RANK TRYST_SIZE TRYST_BOOTSTRAP TRYST_TOKEN

for ranks in 2 8 32; do
    timeout 120 "$run" -n $ranks "$rank" || { echo "$ranks ranks did not come together"; exit 1; }
done

for victim in 3 0; do
    status=0
    output=$(timeout 120 "$run" -n 4 "$rank" $victim 2>&1) || status=$?
    echo "$output"
    [ $status = 137 ] || { echo "status $status, expected 137"; exit 1; }
    echo "$output" | grep -q "tryst-run: rank $victim (pid .* was killed by signal 9"
    # All survivors named the victim, else one of them would have failed by itself.
    if echo "$output" | grep -q "tryst-run: then rank"; then exit 1; fi
done
