#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each installed program has a manual page, which renders without a warning, names every option and command that its table
# has, and has the same bytes on any day; and a completion for each shell.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
bad() { echo "man_pages: $*"; fail=1; }
man=$INSTALL/share/man
[ -e "$BUILD/share/man/man1/tryst-run.1" ] || { echo "skipped: help2man is not installed"; exit 77; }

# listed <program> <command or "">: each option of the table is in the page
listed() {
    "$1" ${2:+"$2"} --options | awk -F '\t' '$1 == "option" { count = split($2, names, " "); for (i = 1; i <= count; i++) print names[i] }' \
        >"$dir/options"
    [ -s "$dir/options" ] || bad "${1##*/} $2 has no table of options"
    while read -r option; do
        grep -qE -e "(^|[^-A-Za-z])$option(\$|[^-A-Za-z])" "$dir/text" || bad "the page of ${1##*/} has no $option${2:+ of $2}"
    done <"$dir/options"
}

cd "$man" # a page that is another name leads to it from there
for program in "$INSTALL"/bin/*; do
    name=${program##*/}
    [ -s "$man/man1/$name.1" ] || { bad "$name has no page"; continue; }
    for file in bash-completion/completions/"$name" "zsh/site-functions/_$name"; do
        [ -s "$INSTALL/share/$file" ] || bad "$name has no share/$file"
    done
    grep -q '^\.so ' "man1/$name.1" && { [ -s "$(sed 's/^\.so //' "man1/$name.1")" ] || bad "$name.1 leads nowhere"; continue; }
    grep -q '^\.TH [A-Z_-]* "1" "" ' "man1/$name.1" || bad "$name.1 has a date"
    if command -v man >/dev/null; then
        MANWIDTH=80 man --warnings -l "man1/$name.1" >/dev/null 2>"$dir/warnings" || bad "man cannot show $name.1"
        [ ! -s "$dir/warnings" ] || bad "$name.1: $(cat "$dir/warnings")"
    fi
    sed 's/\\f.//g; s/\\//g' "man1/$name.1" >"$dir/text"
    listed "$program" ''
    "$program" --options | sed -n 's/^command\t//p' >"$dir/commands"
    while read -r command; do
        grep -qE -e "(^|[^-A-Za-z])${command%% *}(\$|[^-A-Za-z])" "$dir/text" || bad "the page of $name has no command $command"
        listed "$program" "$command"
    done <"$dir/commands"
done
if [ -e "$INSTALL/bin/tryst-bench" ]; then # one program with two names, each in its own texts
    for name in tryst-bench pp_bench; do
        "$INSTALL/bin/$name" --help | grep -q "^Usage: $name " || bad "--help of $name does not begin with its name"
        "$INSTALL/bin/$name" schedules --no 2>&1 | grep -q "^$name schedules: " || bad "$name reports an error by another name"
    done
fi
exit $fail
