#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Write the manual page of a program, from what its --help prints, by help2man: the page of the program, then of each of its
# commands a section. Without a date, so that each build gives the same bytes.
# usage: man_page.sh HELP2MAN VERSION PROGRAM TEXT SEE COMMAND…    to standard output
# TEXT is the line under NAME, SEE the other pages, by blanks.
set -eu
help2man=$1 version=$2 program=$3 text=$4 see=$5
shift 5
name=$(basename "$program")

# part <help2man's options…>
part() {
    "$help2man" --no-info --version-string="$version" --source="Tryst $version" "$@" "$program"
}

# Lines of JSON are not filled; help2man has taken numbers in them for options.
lines_keep() {
    awk '
        function end() { if (kept) print ".fi"; kept = 0 }
        { json = /^([{[]|"[^"]*": *[[{])/ }
        held && !json { end(); print ".IP" }
        held && json { if (!kept) print ".IP\n.nf"; kept = 1 }
        { held = 0 }
        /^\.IP$/ { held = 1; next }
        /^\./ { end() }
        kept { gsub(/\\f[BIPR]/, "") }
        { print }
        END { end() }'
}

{
    part --name="$text" | sed 's/^\(\.TH [^ ]* "1"\) "[^"]*"/\1 ""/'
    for command; do
        # below its title the usage, and the rest without a section of its own
        part --help-option="$command --help" | awk -v title="$(echo "$command" | tr '[:lower:]' '[:upper:]')" '
            /^\.SH / { body = $2 != "NAME"; if ($2 == "SYNOPSIS") print ".SH " title; else if (body) print ".PP"; next }
            body'
    done
    echo '.SH "SEE ALSO"'
    for page in $see; do
        [ "$page" = "$name" ] || echo ".BR $page (1)"
    done | sed '$!s/$/,/; s/-/\\-/g'
} | lines_keep
