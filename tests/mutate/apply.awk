# SPDX-License-Identifier: Apache-2.0
# Print a file with the lines of `old` replaced by those of `new`. The exit status is 1, with a reason on stderr, unless
# the file has the lines of `old` exactly once.
# usage: awk -v old=FILE -v new=FILE -f apply.awk SOURCE
BEGIN {
    while ((getline line <old) > 0) from[++from_count] = line
    while ((getline line <new) > 0) to[++to_count] = line
}
{ text[NR] = $0 }
function is_match(at,  i) {
    for (i = 1; i <= from_count; i++)
        if (at + i - 1 > NR || text[at + i - 1] != from[i]) return 0
    return 1
}
END {
    for (at = 1; at <= NR; at++)
        if (is_match(at)) {
            place = at
            places++
        }
    if (places != 1) {
        print "the file has the old lines " places + 0 " times, not once" >"/dev/stderr"
        exit 1
    }
    for (at = 1; at <= NR; at++) {
        if (at == place) for (i = 1; i <= to_count; i++) print to[i]
        if (at < place || at >= place + from_count) print text[at]
    }
}
