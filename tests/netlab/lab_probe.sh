#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tryst-topo --probe across a lab: the fitted graph must have the capacities of the lab's
# links, less TCP's and IP's headers, to 10 %, and its shared trunk or its mesh.
# usage: lab_probe.sh <netlab.sh> <tryst-topo> <transport> <lab>
set -euo pipefail
if [ "$1" != --within ]; then
    lab=$(basename "$4" .lab)
    exec "$1" "$4" "$0" --within "$2" "$3" "$lab"
fi
topo=$2 transport=$3 lab=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

"$NETLAB" ranks "$topo" --probe --transport "$transport" --probe-cache "$dir/cache.json" --format json \
    -o "$dir/graph.json" 2>&1 | tee "$dir/said"
grep -q 'flows match the graph' "$dir/said"
cmp "$dir/graph.json" "$dir/cache.json"

# The expected links: "from to Mbit/s"; `-` for a switch of any name.
case $lab in
star) wanted='h0 - 400
- h0 400
h1 - 400
- h1 400
h2 - 400
- h2 400
h3 - 400
- h3 400' ;;
racks) wanted='h0 - 400
- h0 400
h1 - 400
- h1 400
h2 - 400
- h2 400
h3 - 400
- h3 400
- - 200
- - 120' ;;
mesh) wanted='h0 h1 400
h1 h0 400
h1 h2 400
h2 h1 400
h2 h3 400
h3 h2 400
h3 h0 100
h0 h3 100
h0 h2 100
h2 h0 100
h1 h3 100
h3 h1 100' ;;
esac
sed -n 's/.*"from": "\([^"]*\)", "to": "\([^"]*\)".*"bytes_per_s": \[\([-+0-9.e]*\).*/\1 \2 \3/p' "$dir/graph.json" |
    sed 's/\bnet[0-9]*\b/-/g' | sort >"$dir/links"
echo "$wanted" | sort >"$dir/wanted"
[ "$(wc -l <"$dir/links")" -eq "$(wc -l <"$dir/wanted")" ] || {
    echo "found $(wc -l <"$dir/links") links, not $(wc -l <"$dir/wanted"):"
    cat "$dir/links"
    exit 1
}
# Links of the same ends are sorted by rate in both files.
sort -k1,2 -k3,3g "$dir/links" >"$dir/a"
sort -k1,2 -k3,3g "$dir/wanted" >"$dir/b"
paste -d' ' "$dir/a" "$dir/b" | awk '
    { rate = $6 * 125000 * 0.954
      printf "%s -> %s: %.1f MB/s, configured %.1f (%+.1f %%)\n", $1, $2, $3 * 1e-6, rate * 1e-6, ($3 / rate - 1) * 100
      if ($1 != $4 || $2 != $5 || $3 < 0.9 * rate || $3 > 1.1 * rate) failed = 1 }
    END { exit failed }'

# Every pair must be measured only once.
"$NETLAB" ranks "$topo" --probe --transport "$transport" --probe-cache "$dir/cache.json" --format json \
    -o "$dir/again.json" 2>&1 | grep -q 'the graph is from the cache'
cmp "$dir/graph.json" "$dir/again.json"
