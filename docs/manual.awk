# SPDX-License-Identifier: Apache-2.0
# Doxygen's input filter for the manual (docs/Doxyfile.in): awk -f manual.awk FILE prints a header or a page in the form that
# Doxygen reads.
#
#   headers   "Owns:", "Returns:" and so on of a comment become paragraphs with a title; lines that are aligned in columns
#             stay so
#   pages     links to sections get names that are unique in the manual; links to files outside of it become plain text

BEGIN { label = "^ [*]  (Owns|Thread|Blocks|Returns|Errors|Owns, Thread, Returns, ends|Thread, Returns, ends):" }
FNR == 1 {
    page = FILENAME
    sub(/.*\//, "", page)
    is_page = sub(/\.md$/, "", page)
    if ($0 == "# Examples")
        page = "examples" # not the README of the repository
}
is_page { print page_line($0); next }

# --- headers: comments, paragraph by paragraph ---

/^\/\*\*/ { inside = 1; count = 0 }
!inside { print; next }
{ line[++count] = $0 }
/\*\/ *$/ {
    inside = 0
    comment_print()
}

# A blank line or a label begins a paragraph.
function comment_print(i, first, ends) {
    ends = count > 1 && sub(/ *\*\/ *$/, "", line[count])
    if (line[count] == "")
        count--
    print line[1]
    first = 2
    for (i = 3; i <= count + 1; i++)
        if (i > count || line[i] ~ /^ \* *$/ || line[i] ~ label) {
            paragraph_print(first, i - 1)
            first = i
        }
    if (ends)
        print " */"
}

function paragraph_print(first, last, i, name, columns) {
    if (line[first] ~ /^ \* *$/)
        print line[first++]
    if (line[first] ~ label) {
        name = substr(line[first], 5)
        print " *  @par " substr(name, 1, index(name, ":") - 1)
        match(line[first], label " *")
        line[first] = " *" substr("                               ", 1, RLENGTH - 2) substr(line[first], RLENGTH + 1)
    }
    for (i = first; i <= last; i++)
        columns = columns || line[i] ~ /^ \* *[^ ].*[^ ]  +[^ ]/
    if (columns)
        print " *  <pre>"
    for (i = first; i <= last; i++)
        print columns ? escaped(line[i]) : name == "" ? line[i] : unindented(line[i])
    if (columns)
        print " *  </pre>"
}

function unindented(text) {
    sub(/^ \* */, " *  ", text)
    return text
}

function escaped(text) {
    gsub(/&/, "\\&amp;", text)
    gsub(/</, "\\&lt;", text)
    gsub(/>/, "\\&gt;", text)
    gsub(/`/, "", text) # no Markdown within <pre>
    return text
}

# --- pages ---

function page_line(text, head, link, parts) {
    if (text ~ /^```/)
        is_code = !is_code
    if (is_code || text ~ /^```/)
        return text
    if (text ~ /^# /)
        return text " {#" (page == "README" ? "mainpage" : "page-" page) "}"
    if (text ~ /^##+ /)
        return text " {#" page "-" anchor(text) "}"
    head = ""
    while (match(text, /\[[^][]*\]\([^)]*\)/)) {
        head = head substr(text, 1, RSTART - 1)
        link = substr(text, RSTART, RLENGTH)
        text = substr(text, RSTART + RLENGTH)
        head = head link_text(link)
    }
    return calls_linked(head text)
}

# Let the name of a call lead to its manual.
function calls_linked(text, head, name) {
    while (match(text, /`tryst_[a-z0-9_]+`/)) {
        name = substr(text, RSTART + 1, RLENGTH - 2)
        head = head substr(text, 1, RSTART - 1) "[" name "](@ref " name ")"
        text = substr(text, RSTART + RLENGTH)
    }
    return head text
}

# Return the anchor that GitHub gives a heading.
function anchor(text) {
    sub(/^#+ */, "", text)
    text = tolower(text)
    gsub(/[^a-z0-9 _-]/, "", text)
    gsub(/ /, "-", text)
    return text
}

function link_text(link, words, target, section, of) {
    words = substr(link, 2, index(link, "](") - 2)
    target = substr(link, index(link, "](") + 2)
    sub(/\)$/, "", target)
    if (target ~ /^https?:/)
        return link
    section = target ~ /#/ ? substr(target, index(target, "#") + 1) : ""
    sub(/#.*/, "", target)
    of = target
    sub(/.*\//, "", of)
    if (target == "")
        of = page
    else if (target ~ /examples\/README\.md$/ && target !~ /bindings/)
        of = "examples"
    else if (!sub(/\.md$/, "", of) || target ~ /(bindings|tests|pipeline|commsched)\// || of == "CONTRIBUTING")
        return words
    return "[" words "](@ref " (section == "" ? "page-" of : of "-" section) ")"
}
