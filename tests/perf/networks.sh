# SPDX-License-Identifier: Apache-2.0
# The networks of coll_lab.sh and sched_lab.sh, which source this file.
#
# One idea: each network is one list of links, from which both the lab and the graph of
# the plan are made.
# shellcheck shell=bash

star() { # <rate in Mbit/s>…: hosts at one switch
    local i=0 rate
    echo "host $(seq -s ' ' -f h%g 0 $(($# - 1)))"
    echo "switch s0"
    for rate; do
        echo "link h$i s0 ${rate}mbit"
        i=$((i + 1))
    done
}

racks() { # <hosts> <rate of a host in Mbit/s>: neighbouring ranks are in different racks, behind a trunk of 400
    local i
    echo "host $(seq -s ' ' -f h%g 0 $(($1 - 1)))"
    echo "switch s0 s1"
    for ((i = 0; i < $1; i++)); do echo "link h$i s$((i % 2)) ${2}mbit"; done
    echo "link s0 s1 400mbit"
}

shared() { # <ranks of a host> <rate in Mbit/s>…: hosts with several ranks at one switch
    echo "ranks $1"
    star "${@:2}"
}

network() { # <name>: print the lines of a lab
    case $1 in
    pair) star 400 400 ;;
    star) star 400 400 400 400 ;;
    uneven) star 800 800 400 200 ;;
    eight) star 400 200 400 200 400 200 400 200 ;;
    star8) star 400 400 400 400 400 400 400 400 ;;
    racks) racks 4 400 ;;
    racks8) racks 8 400 ;;
    trunk) racks 4 800 ;; # each host is faster than the trunk
    shared) shared 4 400 400 ;;
    shared_fast) shared 4 2000 2000 ;;
    mesh)
        printf '%s\n' "host h0 h1 h2 h3" "link h0 h1 800mbit" "link h1 h2 800mbit" "link h2 h3 800mbit" \
            "link h0 h2 200mbit" "link h1 h3 200mbit" "link h0 h3 200mbit"
        ;;
    *)
        echo "not a network: '$1'; choose of pair, star, star8, uneven, racks, trunk, racks8, mesh, eight, shared, shared_fast" >&2
        return 2
        ;;
    esac
}

# Print the lab on stdin as a cluster's JSON, all rates times <factor>. Several ranks of a host are nodes of their
# own, behind links of 40 Gbit/s.
graph() { # <factor>
    awk -v factor="$1" '
        function name_all(   text, i) {
            for (i = 2; i <= NF; i++) text = text (i > 2 ? "," : "") "\"" $i "\""
            return text
        }
        function link(a, b, gbit_per_s, us) {
            links = links (links ? ",\n  " : "") sprintf("{\"a\":\"%s\",\"b\":\"%s\",\"gbit_per_s\":%.6g,\"latency_us\":%d}",
                                                         a, b, gbit_per_s, us)
        }
        function ranks_of(host,   i, text) {
            for (i = 0; i < each; i++) {
                text = text (i ? "," : "") "\"" host "." i "\""
                link(host "." i, host, 40, 1)
            }
            return text
        }
        BEGIN { each = 1 }
        $1 == "ranks" { each = $2 }
        $1 == "host" && each == 1 { ranks = name_all() }
        $1 == "host" && each > 1 {
            hosts = name_all() ","
            for (n = 2; n <= NF; n++) ranks = ranks (n > 2 ? "," : "") ranks_of($n)
        }
        $1 == "switch" { nodes = hosts name_all() }
        $1 == "link" { link($2, $3, $4 / 1000 * factor, 50) }
        END { printf "{\"ranks\":[%s],\n \"nodes\":[%s],\n \"links\":[%s]}\n", ranks, nodes, links }'
}
