#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual (target `manual`) builds without a warning. It has a page for each guide and each public header, and what the
# filter (docs/manual.awk) makes: titled paragraphs, columns, links to sections and calls. A planted fault is a warning.
set -eu
command -v doxygen >/dev/null || { echo "skipped: no doxygen here (apt-get install doxygen)"; exit 77; }
[ -e "$BUILD/manual/Doxyfile" ] || { echo "skipped: doxygen was not there when this build was configured"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$SOURCE"
html=$dir/html
fail=0
complain() { echo "manual: $*"; fail=1; }

# build <folder of the sources>: as the target does; fail on warnings, which are in $dir/warnings
build() {
    rm -rf "$html"
    sed "s|^OUTPUT_DIRECTORY .*|OUTPUT_DIRECTORY = $dir|" "$BUILD/manual/Doxyfile" >"$dir/Doxyfile"
    (cd "$1" && doxygen "$dir/Doxyfile" >"$dir/out" 2>"$dir/warnings")
    [ ! -s "$dir/warnings" ]
}
# page <page> <patterns…>
page() {
    file=$html/$1
    shift
    [ -e "$file" ] || { complain "no ${file##*/}"; return; }
    for pattern; do
        grep -q -e "$pattern" "$file" || complain "${file##*/} has no '$pattern'"
    done
}

build "$SOURCE" || { complain "warnings:"; cat "$dir/warnings"; }
for guide in docs/*.md; do
    [ "$guide" = docs/features.md ] || page "page-$(basename "$guide" .md).html" 'class="title">.*[a-z]'
done
for header in include/tryst/*.h; do
    name=$(basename "$header" .h)
    page "${name}_8h.html" "$name.h"
done
page tryst_8h.html '<dt>Returns</dt>' '<dt>Owns</dt>' '<pre' 'tryst_recv()'
page index.html 'href="page-design.html#design-words"' 'href="page-examples.html"'
page page-from-mpi-nccl.html 'href="tryst_8h.html#[a-z0-9]*"[^>]*>tryst_recv<'

mkdir -p "$dir/tree/include"
cp -R include/tryst "$dir/tree/include/"
cp -R docs examples README.md "$dir/tree/"
echo '[gone](hangs.md#gone-section)' >>"$dir/tree/docs/launch.md"
sed 's/^\/\*\* Release a prepared key\./\/** \\gone_command/' include/tryst/key.h >"$dir/tree/include/tryst/key.h"
if build "$dir/tree"; then complain "planted faults are no warnings"; fi
for what in hangs-gone-section gone_command; do
    grep -q $what "$dir/warnings" || complain "no warning about $what"
done
exit $fail
