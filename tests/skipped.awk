# SPDX-License-Identifier: Apache-2.0
# What a run of ctest skipped, one a line, each with its reason: the words of the test itself. Reads the file
# of ctest --output-junit. "(in part)" is a test that passed and left something out.

function plain(text) { # of XML
    gsub(/&lt;/, "<", text)
    gsub(/&gt;/, ">", text)
    gsub(/&quot;/, "\"", text)
    gsub(/&apos;/, "'", text)
    gsub(/&amp;/, "\\&", text)
    return text
}

function tell(name, why) {
    sub(/^.*skipped[:,] /, "", why)
    sub(/^left out: /, "", why)
    print name ": " plain(why)
}

/<testcase / {
    match($0, /name="[^"]*"/)
    name = substr($0, RSTART + 6, RLENGTH - 7)
    passed = /status="run"/
    skipped = 0
    why = said = ""
    parts = 0
}

/<skipped message="SKIP_RETURN_CODE/ { skipped = 1 }

{
    line = $0
    output = output || sub(/^.*<system-out>/, "", line)
    ended = sub(/<\/system-out>.*$/, "", line)
    if (output && line ~ /[^ \t]/) {
        said = line
        if (line ~ /(^|[^a-z])(skipped[:,] |left out: )/) {
            why = line
            if (passed && line ~ /^(skipped|left out): / && !((name, line) in told)) {
                told[name, line] = 1
                tell(name " (in part)", line)
            }
        }
    }
    if (ended)
        output = 0
}

/<\/testcase>/ && skipped { tell(name, why ? why : said ? said : "no word of why") }
