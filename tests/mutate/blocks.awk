# SPDX-License-Identifier: Apache-2.0
# Split a list of mutations into files for mutate.sh: <dir>/<number>.why, .file, .old, .new and .tests, one set for each
# block, and <dir>/count. A malformed block is reported with its line, and the exit status is 1.
# usage: awk -v dir=DIR -v name=LIST -f blocks.awk LIST
function complain(text) {
    print name ":" FNR ": " text
    failed = 1
}
function block_end(  i) {
    if (field == "") return
    for (i = 1; i <= 5; i++) {
        if (!(order[i] in text)) complain("the block above has no \"" order[i] ":\"")
        else if (text[order[i]] == "" && order[i] != "new") complain("\"" order[i] ":\" of the block above is empty")
    }
    if (text["old"] == text["new"]) complain("the block above changes nothing")
    count++
    for (i = 1; i <= 5; i++) {
        printf "%s", text[order[i]] >(dir "/" count "." order[i])
        close(dir "/" count "." order[i])
    }
    field = ""
    split("", text)
}
BEGIN {
    split("why file old new tests", order, " ")
    for (i in order) place[order[i]] = i
}
/^$/ { block_end(); next }
/^#/ && field == "" { next }
/^(why|file|old|new|tests):/ {
    next_field = substr($0, 1, index($0, ":") - 1)
    if (place[next_field] != (field == "" ? 1 : place[field] + 1))
        complain("\"" next_field ":\" is not expected here; the order is why, file, old, new, tests")
    field = next_field
    rest = substr($0, length(field) + 2)
    if (field == "old" || field == "new") {
        if (rest !~ /^[ \t]*$/) complain("the lines of \"" field ":\" begin below it")
        text[field] = ""
    } else {
        sub(/^[ \t]+/, "", rest)
        text[field] = rest (rest == "" ? "" : "\n")
    }
    next
}
field == "" { complain("a line outside of a block: " $0); next }
{ text[field] = text[field] $0 "\n" }
END {
    block_end()
    print count + 0 >(dir "/count")
    exit failed + 0
}
