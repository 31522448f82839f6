#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# writers.sh reports a member that three folders assign, in each form of an assignment, and no other one.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/rendezvous/op" "$dir/rendezvous/peer" "$dir/collectives" "$dir/context" "$dir/commsched"
cat >"$dir/rendezvous/op/a.c" <<'END'
peer->rdv->reap = true;
rdv->two = 1; /* op->said = 1; */
END
cat >"$dir/rendezvous/peer/b.c" <<'END'
if (rdv->reap == 1 && rdv->read <= 2) rdv->two++;
op->said = 2;
    rdv->reap |= true;
END
cat >"$dir/collectives/c.c" <<'END'
/* A comment of two lines: rdv->two = 3,
 * and op->said = 3. */
++op->rdv->reap;
op->said -= 1;
END
if sh "$SOURCE/tests/build/writers.sh" "$dir" >"$dir/said"; then
    echo "planted: writers.sh accepts a member with writers in three folders"
    exit 1
fi
grep -q '^writers: rdv->reap is assigned in 3 folders: collectives rendezvous/op rendezvous/peer$' "$dir/said" &&
    [ "$(wc -l <"$dir/said")" -eq 1 ] && exit 0
echo "planted: writers.sh reports:"
cat "$dir/said"
exit 1
