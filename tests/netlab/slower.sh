# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by tests that measure time in a lab.

# slower <most> [format]: print how many times longer this machine takes than a quiet one,
# 1 to <most>: processes that want to run, now or on average in the last minute, whichever
# is more, for each processor (as support/patience.h).
slower() {
    awk -v cpus="$(nproc)" -v most="$1" -v format="${2:-%.2f}\n" '{
        split($4, running, "/")
        times = (running[1] > $1 ? running[1] : $1) / cpus
        times = times < 1 ? 1 : times
        printf format, times < most ? times : most
    }' /proc/loadavg
}
