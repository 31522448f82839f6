#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Instructions per 8-byte message from a rank to itself (loopback.c), by valgrind's callgrind.
# Usage: loopback.sh <perf_loopback>
set -eu
command -v valgrind >/dev/null || { echo "loopback: skipped, no valgrind"; exit 77; }

instructions() { # <messages>
    valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$1" 2>&1 |
        sed -n 's/.*Collected : //p'
}
program=$1
few=$(instructions 2000)
many=$(instructions 22000)
echo "$(((many - few) / 20000)) instructions per message"
