#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Collect the packages that building Tryst needs besides a compiler, for a machine without
# access to a package registry: Debian's libsodium, xxHash, OpenBLAS, cmocka and pkgconf,
# unpacked into .gpu-bundle/ (which git ignores), without their static libraries.
# This needs no root and installs nothing here. tests/gpu/run.sh builds with the bundle on
# the other machine.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage="usage: tests/gpu/bundle.sh   fill .gpu-bundle/ for tests/gpu/run.sh on another x86-64 machine"
bundle=.gpu-bundle
limit_mib=60
packages="libsodium23 libsodium-dev libxxhash-dev libopenblas0-pthread \
libopenblas-pthread-dev libgfortran5 libquadmath0 libcmocka0 libcmocka-dev pkgconf-bin libpkgconf3"

say() { echo "bundle: $*" >&2; }
die() { say "$*"; exit 1; }

[ $# -eq 0 ] || { echo "$usage"; [ "$1" = --help ] && exit 0 || exit 2; }
for tool in apt-get dpkg; do
    command -v $tool >/dev/null || die "no $tool here: run this on Debian or Ubuntu"
done
[ "$(dpkg --print-architecture)" = amd64 ] || die "the bundle is for x86-64; run it on such a machine"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say "fetching $(echo "$packages" | wc -w) packages"
# shellcheck disable=SC2086 # a list of words
(cd "$work" && apt-get -q download $packages >"$work/log" 2>&1) || {
    cat "$work/log" >&2
    die "apt-get could not fetch them; 'apt-get update' first where the lists are old"
}
for package in "$work"/*.deb; do
    dpkg -x "$package" "$work/root"
done

# Keep only the files of each package that compiling and running need. Debian's
# alternatives point to OpenBLAS in a separate folder; without them it moves to the
# library folder.
lib=$work/root/usr/lib/x86_64-linux-gnu
mkdir -p "$lib/pkgconfig"
mv "$lib"/openblas-pthread/libopenblas* "$lib/"
mv "$lib"/openblas-pthread/pkgconfig/openblas.pc "$lib/pkgconfig/"
cp "$work"/root/usr/include/x86_64-linux-gnu/openblas-pthread/*.h "$work/root/usr/include/"
# The .pc files name /usr; make them name the folder of the bundle.
sed -i 's,/openblas-pthread,,; s,/usr/include/x86_64-linux-gnu,/usr/include,' "$lib/pkgconfig/openblas.pc"
# shellcheck disable=SC2016 # pkgconf's variable
sed -i 's,/usr\>,${pcfiledir}/../../..,g' "$lib"/pkgconfig/*.pc
find "$work/root" -name '*.a' -delete
rm -rf "$lib/openblas-pthread" "$work/root/usr/include/x86_64-linux-gnu/openblas-pthread" \
    "$work/root/usr/share" "$work/root/etc"
ln -sf pkgconf "$work/root/usr/bin/pkg-config"

mib=$(du -sm "$work/root" | cut -f1)
[ "$mib" -le $limit_mib ] || die "$mib MiB is more than the $limit_mib that may travel"
rm -rf $bundle
mkdir $bundle
cp -a "$work/root/usr/." $bundle/
(cd "$work" && printf '%s\n' *.deb | sed 's,_amd64.deb,,') >$bundle/packages.txt
say "$bundle: $mib MiB, $(wc -l <$bundle/packages.txt) packages (packages.txt names their versions)"
