#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The commands of docs/your-network.md run, with the installed tools, and report what the page states. Each set of commands
# is the fenced block that follows its line in the page:
#
#   <!-- test: network_plan -->
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
page=${SOURCE:?}/docs/your-network.md
export PATH="$INSTALL/bin:$PATH" XDG_CACHE_HOME="$dir/cache" TRYST_TRANSPORT=shm
fail=0

# block <name>: print the fenced lines behind the marker of that name
block() {
    awk -v mark="<!-- test: $1 -->" '$0 == mark { armed = 1; next }
         armed && /^```/ { if (inside) exit; inside = 1; next }
         inside' "$page"
}

# commands <name> <statuses that are fine> <patterns of the output…>: run a block, all its lines in one shell
commands() {
    name=$1 fine=$2
    shift 2
    block "$name" | sed 's/-n 4 \(.*\) --probe-seconds 20/-n 2 \1 --probe-seconds 1/' >"$dir/commands"
    [ -s "$dir/commands" ] || { echo "guides: no commands after the marker of $name"; exit 1; }
    status=0
    (cd "$dir" && timeout 60 sh -e ./commands) >"$dir/out" 2>&1 || status=$?
    case " $fine " in
    *" $status "*) ;;
    *) echo "guides: the commands of $name end with $status:"; cat "$dir/out"; fail=1 ;;
    esac
    for pattern; do
        grep -q "$pattern" "$dir/out" || { echo "guides: $name does not print '$pattern':"; cat "$dir/out"; fail=1; }
    done
}

commands network_check '0 3' '^[a-z]* *interfaces'
block network_file >"$dir/network.json"
commands network_probe 0 'flows match the graph' 'link .* (measured)'
commands network_plan 0 'NET 10.0' 'lower bound' 'gap 0 %' 'by size' 'bottleneck: rack1 -> h3'
grep -q '<svg' "$dir/network.svg" || { echo "guides: network_plan draws nothing"; fail=1; }
cmp -s "$dir/network.svg" "$SOURCE/docs/two-racks.svg" || { echo "guides: docs/two-racks.svg is not what network_plan draws"; fail=1; }
block network_host >"$dir/host.json"
tryst-topo plan --input "$dir/host.json" >"$dir/out" 2>&1 || true
grep -q '^allreduce of 3 ranks' "$dir/out" || { echo "guides: no plan for network_host:"; cat "$dir/out"; fail=1; }
commands network_run 0 'trees planned for TRYST_TOPOLOGY=network.json' 'ratio' 'moving  no grant  no data    held'
exit $fail
