# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the lab tests: check that the interfaces' byte counters account for a run's
# payload.

# name_interfaces <payload>: convert lines "rank rank bytes" to lines "host host bytes
# interface" on stdout. The interface is that of the hosts' common network; where they
# have several of these, as select_pair_number (transports/select.c) distributes the pairs of
# ranks. It is "any" where a host has two interfaces in one network, between which only
# its routes decide.
name_interfaces() {
    awk '
        FILENAME == ARGV[1] { name[ranks++] = $1; next }
        FILENAME == ARGV[2] {
            if (($1, $2, $4) in seen) {
                doubled[$1] = 1
                next
            }
            seen[$1, $2, $4] = 1
            if ($4 == family || !family) {
                family = $4
                net[$1, ++nets[$1]] = $2 # in the order of the interfaces
            }
            next
        }
        {
            a = name[$1]; b = name[$2]; common = 0
            for (i = 1; i <= nets[a]; i++)
                for (j = 1; j <= nets[b]; j++)
                    if (net[a, i] == net[b, j])
                        shared[common++] = i - 1
            low = $1 < $2 ? $1 : $2
            apart = $1 + $2 - 2 * low
            turn = low + apart * (apart - 1) / 2
            print a, b, $3, common && !doubled[a] ? "eth" shared[turn % common] : "any"
        }' /run/netlab/ranks /run/netlab/addresses "$1"
}

# account <before> <after> <payload> [<more>]: compare files of `netlab.sh bytes` from
# before and after a run with a file of name_interfaces. Each interface must have sent the
# payload between the hosts that it connects, and hardly more: 12 % for headers and
# protocol, 2 MB for all that is not payload (connecting, control, small operations), and
# <more> bytes. Where the interface is "any", the host's interfaces must have done so
# together.
account() {
    awk -v more="${4:-0}" '
        function judge(what, sent, wanted) {
            bad = sent < wanted || sent > wanted * 1.12 + 2e6 + more
            printf "%-20s sent %11.0f for %11.0f of payload%s\n", what, sent, wanted,
                   bad ? "  WRONG" : ""
            if (bad) wrong = 1
        }
        FILENAME == ARGV[1] { before[$1, $2] = $5; next }
        FILENAME == ARGV[2] {
            n++; host[n] = $1; nic[n] = $2; to[n] = $3
            sent[n] = $5 - before[$1, $2]
            all[$1] += sent[n]
            next
        }
        { owed[$1, $4] += $3; if ($4 == "any") loose[$1] = 1 }
        END {
            for (i = 1; i <= n; i++)
                if (host[i] in loose)
                    printf "%-20s sent %11.0f\n", host[i] " " nic[i] " to " to[i], sent[i]
                else
                    judge(host[i] " " nic[i] " to " to[i], sent[i], owed[host[i], nic[i]])
            for (one in loose) judge(one, all[one], owed[one, "any"])
            exit wrong
        }' "$1" "$2" "$3"
}
