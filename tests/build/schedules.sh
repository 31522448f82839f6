#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A schedule's name occurs in its generator, in tests and in documents alone: checker, simulator, engine, replay
# and tools know none, so a new schedule is one generator. Comments and the texts of pp_bench's help do not count;
# TRYST_SCHEDULE_DEFAULT is the one name in a public header.
set -eu
cd "$SOURCE"
names=$(sed -nE 's/^ *\.name = "([^"]+)",/\1/p' pipeline/schedules/*.c)
[ "$(echo "$names" | wc -l)" -ge 13 ] || { echo "schedules: found too few names"; exit 1; }
pattern=$(echo "$names" | paste -sd '|')
long=$(wc -l pipeline/schedules/*.c | awk '$2 != "total" && $2 !~ /(options|schedules)\.c$/ && $1 > 150 { print $2 }')
[ -z "$long" ] || { echo "schedules: longer than 150 lines: $long"; exit 1; }
# shellcheck disable=SC2016 # awk's own
found=$(find pipeline tools include commsched collectives context core rendezvous transports topology -name '*.[ch]' \
    ! -path 'pipeline/schedules/*' -print0 | xargs -0 awk -v pattern="\"($pattern)[\":]" '
    FNR == 1 { inside = 0 }
    {
        line = $0
        gsub(/\/\*([^*]|\*[^\/])*\*\//, "", line)
        if (inside) { if (!sub(/^.*\*\//, "", line)) next; inside = 0 }
        if (sub(/\/\*.*$/, "", line)) inside = 1
        sub(/^#define TRYST_SCHEDULE_DEFAULT .*/, "", line)
        if (line ~ pattern) print FILENAME ":" FNR ": " $0
    }')
[ -z "$found" ] || {
    echo "schedules: names of schedules outside of their generators:"
    echo "$found"
    exit 1
}
