#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Debian packages: they build from a copy of the sources, lintian has no error and no warning; on a fresh Debian 12 they
# install, their programs run, and they are removed with nothing left.
set -eu
# shellcheck source=tests/build/chroot.sh disable=SC1091
. "$SOURCE/tests/build/chroot.sh"
chroot_need "$0" dpkg-buildpackage dh lintian
dir=$(mktemp -d)
trap 'exit 1' HUP INT TERM
trap 'chroot_remove "$dir/root"; rm -rf "$dir"' EXIT

sources_copy "$dir/tryst"
cd "$dir/tryst"
PATH=/usr/sbin:/usr/bin:/sbin:/bin # the system's python3
lacks=$(dpkg-checkbuilddeps 2>&1) || { echo "skipped: $lacks"; exit 77; }
dpkg-buildpackage -b -uc -us >"$dir/log" 2>&1 || { tail -n 60 "$dir/log"; exit 1; }
lintian --allow-root --fail-on error,warning "$dir"/tryst_*.changes
for package in libtryst0.1 libtryst-dev tryst-tools python3-tryst; do
    [ -s "$(echo "$dir/${package}"_*.deb)" ] || { echo "debian: no package $package"; exit 1; }
done
dpkg-deb -c "$dir"/tryst-tools_*.deb | grep '/man1/tryst-run\.1\.gz' >/dev/null || { echo "debian: tryst-tools has no manual"; exit 1; }

chroot_make "$dir/root"
inside() { chroot_run "$dir/root" "$@"; }
mkdir "$dir/root/root/packages"
cp "$dir"/*.deb "$dir/root/root/packages"
inside apt-get -q update
inside sh -c 'apt-get -q install -y --no-install-recommends /root/packages/*.deb'
inside tryst-run -n 2 tryst-perf pingpong -s 8,1M -i 100
inside tryst-run -n 2 tryst-bench --steps 3
inside tryst-run -n 2 python3 -c '
import tryst
with tryst.open() as group:
    total = group.allreduce(__import__("numpy").ones(4, "f4")).wait()
    assert list(total) == [group.size] * 4, total'
# shellcheck disable=SC2016 # for the shell there
inside sh -c 'dpkg --purge $(dpkg-query -W -f "\${Package}\n" | grep tryst)'
left=$(tryst_left "$dir/root")
[ -z "$left" ] || { echo "debian: the packages leave:"; echo "$left"; exit 1; }
echo "debian: the packages build, install, run and are removed; lintian has nothing to say"
