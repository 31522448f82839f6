#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# State is beside its writer: no member of the protocol's structs (the engine, an operation, a peer, a WANT, a step's scope)
# is assigned by the files of three folders or more. Assignments are found in the text, by the names that pointers to these
# structs have everywhere; `--list` prints each member with its folders.
# $1: another tree (writers_planted.sh), or --list.
# shellcheck disable=SC2016 # an awk program
set -eu
list=no
[ "${1:-}" != --list ] || { list=yes; shift; }
least=${1:+1}
cd "${1:-$SOURCE}"
# rendezvous/numbers has sends and receives of its own.
find rendezvous collectives context commsched -name '*.[ch]' ! -path 'rendezvous/numbers/*' | LC_ALL=C sort |
    xargs awk -v list=$list -v least="${least:-100}" '
    BEGIN {
        split("rdv op peer peer_in peer_out want scope send recv", names, " ")
        for (i in names) is[names[i]] = names[i]
        is["in"] = "peer_in"
        is["out"] = "peer_out"
        is["send"] = is["recv"] = "op"
    }
    function note(path, part, n, i, holder, member) {
        sub(/^(\+\+|--)/, "", path)
        sub(/[ ]*(=|\+\+|--|[-+|&^*]=|<<=|>>=).*$/, "", path)
        gsub(/\[[^]]*\]/, "", path)
        gsub(/->/, ".", path)
        n = split(path, part, ".")
        for (i = n - 1; i && !(part[i] in is); i--) ;
        if (!i) return
        holder = is[part[i]]
        member = part[i + 1]
        for (i += 2; i <= n; i++) member = member "." part[i]
        member = holder "->" member
        folder = FILENAME
        sub(/\/[^\/]*$/, "", folder)
        if (index(" " folders[member] " ", " " folder " ")) return
        folders[member] = folders[member] (member in count ? " " : "") folder
        count[member]++
    }
    FNR == 1 { comment = 0 }
    {
        line = $0
        while (1) { # without comments
            if (comment) {
                if (!(at = index(line, "*/"))) { line = ""; break }
                line = substr(line, at + 2)
                comment = 0
            }
            if (!(at = index(line, "/*"))) break
            head = substr(line, 1, at - 1)
            tail = substr(line, at + 2)
            if (at = index(tail, "*/")) line = head substr(tail, at + 2)
            else { comment = 1; rest = head; break }
        }
        if (comment) { line = rest; rest = "" }
        gsub(/peer_in\([^()]*\)/, "peer_in", line) # a channel (protocol/channel.h)
        gsub(/peer_out\([^()]*\)/, "peer_out", line)
        while (match(line, /(\+\+|--)?[a-z_]+((->|\.)[a-z_]+(\[[^]]*\])?)+[ ]*(=[^=]|=$|\+\+|--|[-+|&^*]=)/) ||
               match(line, /(\+\+|--)[a-z_]+((->|\.)[a-z_]+(\[[^]]*\])?)+/)) {
            note(substr(line, RSTART, RLENGTH))
            line = substr(line, RSTART + RLENGTH)
        }
    }
    END {
        for (member in count) {
            if (list == "yes") print member ": " folders[member]
            members++
            if (count[member] < 3) continue
            print "writers: " member " is assigned in " count[member] " folders: " folders[member]
            failed = 1
        }
        if (members < least) {
            print "writers: only " members + 0 " members are assigned; the names have changed"
            failed = 1
        }
        exit failed
    }'
