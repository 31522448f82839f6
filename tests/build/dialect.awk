# SPDX-License-Identifier: Apache-2.0
# The rules of dialect.sh that concern one file at a time.

# These differ by design: a table of macros that is included many times, and a type that stands for a number.
BEGIN {
    no_guard["core/reduce/reduce_loops.h"] = 1
    scalar_type["pipeline/device/bf16.h"] = 1
    scalar = "(size_t|ssize_t|u?int[0-9]+_t|bool|char|short|int|long|unsigned|float|double|real|enum [a-z_0-9]+)"
}

function fault(text) {
    printf "dialect: %s:%d: %s\n", FILENAME, FNR, text
    failed = 1
}

function guard_of(path) {
    sub(/^include\/tryst\//, "", path)
    path = toupper(path)
    gsub(/[^A-Z0-9]/, "_", path)
    return "TRYST_" path
}

FNR == 1 {
    header = FILENAME ~ /\.h$/
    public = FILENAME ~ /^include\//
    guard = ""
    comment = ""
}

header && guard == "" && /^#ifndef/ && !no_guard[FILENAME] {
    guard = $2
    if (guard != guard_of(FILENAME)) fault("include guard " guard " where " guard_of(FILENAME) " is the rule")
}

!public && !scalar_type[FILENAME] && /^ *typedef (struct|enum|union) [a-z_0-9]+( \{|;| [a-z_0-9]+;)/ {
    fault("typedef of a structure or an enumeration: use its tag")
}

FILENAME ~ /\.[ch]$/ && $0 ~ "^ +(for \\()?const " scalar " [a-z_0-9]+( =|;)" {
    fault("const of a scalar local")
}

!header && /^ *\/\*\*( |$)/ { fault("a comment in a source file opens with one asterisk") }

# A comment at the left edge of a header, and the line after its end: a declaration follows directly, else a blank line does.
header && comment == "ended" {
    if ($0 !~ /^$/ && $0 !~ /^#/ && $0 !~ /^ *\/\*/ && $0 !~ /^TRYST_(BEGIN|END)_DECLS/)
        fault("the comment above is a declaration's: it opens with two asterisks")
    comment = ""
}
header && /^\/\* / && !/clang-format/ && FNR > 1 { comment = "open" }
header && comment == "open" && /\*\/ *$/ { comment = "ended" }

END { exit failed }
