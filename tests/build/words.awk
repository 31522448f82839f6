# SPDX-License-Identifier: Apache-2.0
# Count words of a list in comments and messages (string literals with a blank), and compare with the limit of each folder.
# usage: awk -v list=<words.list> -v files=<file of paths> [-v show=<folder>] -f words.awk
# words.list: `word <regular expression>`, a line each, and `limit <folder> <count>`.

function hits(text, count, rest) {
    rest = tolower(text)
    while (match(rest, pattern)) {
        count++
        rest = " " substr(rest, RSTART + RLENGTH - 1)
    }
    return count + 0
}

function add(text, found) {
    found = hits(" " text " ")
    if (!found) return
    count[folder] += found
    if (show == folder) printf "%s:%d: %s\n", FILENAME, FNR, text
}

# Return the position of the first comment or literal in `text`, 0: none.
function first(text, at, c) {
    for (at = 1; at <= length(text); at++) {
        c = substr(text, at, 1)
        if (c == "\"" || c == "'" || (c == "/" && substr(text, at + 1, 1) ~ /[\/*]/)) return at
    }
    return 0
}

# Count what the rest of a line holds outside of a block comment; return what follows the next one, which is open.
function code(text, at, c, literal) {
    while (text ~ /["'\/]/ && (at = first(text))) {
        c = substr(text, at, 2)
        text = substr(text, at)
        if (c == "/*") { inside = 1; return substr(text, 3) }
        if (c == "//") { add(substr(text, 3)); return "" }
        if (text ~ /^'/) {
            if (!match(text, /^'([^'\\]|\\.)*'/)) return ""
        } else {
            if (!match(text, /^"([^"\\]|\\.)*"/)) return ""
        }
        literal = substr(text, 1, RLENGTH) # add() matches, too
        text = substr(text, RLENGTH + 1)
        if (literal ~ /^".* .*"$/) add(literal)
    }
    return ""
}

BEGIN {
    while ((getline line <list) > 0) {
        split(line, field, " ")
        if (field[1] == "word") { sub(/^word +/, "", line); words = words (words == "" ? "" : "|") line }
        if (field[1] == "limit") limit[field[2]] = field[3]
    }
    if (words == "") { print "words: no word in " list; exit failed = 1 }
    while ((getline line <files) > 0) ARGV[ARGC++] = line
    pattern = "[^a-z_](" words ")[^a-z_]"
}
FNR == 1 {
    inside = 0
    folder = FILENAME
    sub(/\/.*/, "", folder)
    seen[folder] = 1
}
/SPDX/ { next }
{
    text = $0
    while (text != "") {
        if (!inside) { text = code(text); continue }
        at = index(text, "*/")
        add(at ? substr(text, 1, at - 1) : text)
        if (!at) break
        inside = 0
        text = substr(text, at + 2)
    }
}
END {
    if (failed || show != "") exit failed
    for (folder in seen) {
        if (!(folder in limit)) { print "words: " folder " has no limit in " list; failed = 1 }
        else if (count[folder] + 0 > limit[folder]) {
            printf "words: %s: %d words of the list, %d are allowed: tests/build/words.sh %s lists them\n", folder,
                count[folder], limit[folder], folder
            failed = 1
        } else if (count[folder] + 0 < limit[folder])
            printf "words: %s: %d words of the list, below its limit of %d: lower that\n", folder, count[folder], limit[folder]
    }
    for (folder in limit)
        if (!(folder in seen)) { print "words: " folder " has a limit and no source"; failed = 1 }
    exit failed
}
