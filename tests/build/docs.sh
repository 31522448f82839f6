#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The design page matches the code: each file, function, type and setting that
# docs/design.md names is in the sources, and each comment that cites the page names one
# of its sections:
#
#   docs/design.md, "Life of a small tensor"
#
# The guides name public calls, values and settings. The page of the collectives names existing files, and links between
# pages lead to files and sections. $1: another tree (docs_planted.sh).
# shellcheck disable=SC2016,SC2086 # backquotes of Markdown; $folders is several words
set -eu
cd "${1:-$SOURCE}"
page=docs/design.md
folders='include core topology transports commsched rendezvous collectives context pipeline tools bindings tests cmake examples'
fail=0
say() { echo "docs: $1" >&2; fail=1; }
named() { grep -oE '`'"$1"'`' "$page" | tr -d '`' | sort -u; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

find -L $folders -type f >"$dir/files"
named '[a-z_/]+\.(c|h|md|cmake|pml)' >"$dir/names"
[ "$(wc -l <"$dir/names")" -ge 10 ] || say "$page names hardly a file"
while read -r name; do
    grep -qE "(^|/)$name\$" "$dir/files" || say "$page names $name, which is not there"
done <"$dir/names"

grep -RhoE '\<[a-zA-Z][a-zA-Z0-9_]*_[a-zA-Z0-9_]*\>' --include='*.[ch]' $folders | sort -u >"$dir/words"
sed -nE 's/^\| `(TRYST_[A-Z_]+)`.*/\1/p' docs/settings.md >>"$dir/words" # settings: build_settings
named '(struct )?[a-zA-Z]+(_[a-zA-Z]+)+' | sed 's/^struct //' >"$dir/names"
while read -r name; do
    grep -qx "$name" "$dir/words" || say "$page names $name, which no source does"
done <"$dir/names"

# Names of the public interface in the guides: calls, types and values in the headers, settings in their page.
{
    grep -RhoE '\<(tryst|TRYST)_[a-zA-Z0-9_]+' include
    sed -nE 's/^\| `(TRYST_[A-Z_]+)`.*/\1/p' docs/settings.md
} | sort -u >"$dir/public"
guides='README.md examples/README.md'
for name in docs/*.md; do
    [ "$name" = "$page" ] || guides="$guides $name"
done
grep -oE '\<(tryst|TRYST)_[a-zA-Z0-9_]+(\.so)?' $guides | grep -vE ':(tryst_torch|TRYST_0$)|\.so$' | sort -u >"$dir/names"
[ "$(wc -l <"$dir/names")" -ge 100 ] || say "the guides name hardly a call"
awk -F: 'NR == FNR { public[$1]; next } !($2 in public)' "$dir/public" "$dir/names" >"$dir/wrong"
while IFS=: read -r guide name; do
    say "$guide names $name, which is in no public header and no setting"
done <"$dir/wrong"

sed -n 's/^##* //p' "$page" >"$dir/sections"
grep -RnoE 'docs/design\.md, "[^"]*"' --include='*.[ch]' --include='*.pml' --include='*.md' \
    --include='CMakeLists.txt' CMakeLists.txt $folders >"$dir/cited" || true
while IFS= read -r line; do
    section=${line#*\"}
    grep -qxF "${section%\"}" "$dir/sections" ||
        say "${line%%:docs*} cites \"${section%\"}\", no section of $page"
done <"$dir/cited"

# The picture of a slice that climbs and descends names the file of each step.
room=collectives
grep -oE '[a-z_/]+\.[ch]\>' "$room/README.md" | sort -u >"$dir/names"
[ "$(wc -l <"$dir/names")" -ge 10 ] || say "$room/README.md names hardly a file"
while read -r name; do
    [ -e "$room/$name" ] || [ -e "$name" ] || say "$room/README.md names $name, which is not there"
done <"$dir/names"

# Print the anchors of a page's sections, as GitHub makes them.
anchors() { # <page>
    sed -n '/^```/,/^```/d; s/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'
}
find ./*.md docs $folders -name '*.md' >"$dir/pages"
while read -r page; do
    sed '/^```/,/^```/d' "$page" | grep -oE '\]\([^)]*\)' | sed 's/^](//; s/)$//' | grep -vE '^https?:' >"$dir/links" || true
    while read -r link; do
        target=${link%%#*}
        [ -z "$target" ] && target=$page || target=$(dirname "$page")/$target
        if [ ! -e "$target" ]; then
            say "$page links to $link, which is not there"
        elif [ "$link" != "${link#*#}" ] && ! anchors "$target" | grep -qxF "${link#*#}"; then
            say "$page links to $link, and there is no such section"
        fi
    done <"$dir/links"
done <"$dir/pages"
exit $fail
