#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The public headers still have everything in the frozen headers of this version
# (tests/api/abi): each field with its offset and size, each value, each declaration. Only
# structs with struct_size may have grown. FROZEN and INCLUDE select other folders, for
# the planted faults.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
include=${INCLUDE:-$SOURCE/include}
number() { sed -n "s/^#define TRYST_VERSION_$1 //p" "$include/tryst/tryst.h"; }
version=$(number MAJOR).$(number MINOR)
frozen=${FROZEN:-$SOURCE/tests/api/abi/$version}
[ -e "$frozen/tryst/tryst.h" ] || {
    echo "abi: version $version has no frozen headers: run tests/api/abi/freeze.sh"
    exit 1
}

# Print FIELD(struct, field), SIZE(struct) or LEAST(struct), VALUE(name), from headers
# without comments.
layout() {
    awk '
    function names(text, struct,    i, n, part, name) {
        gsub(/[ \t\n]+/, " ", text)
        n = split(text, part, ";")
        for (i = 1; i <= n; i++) {
            if (part[i] ~ /^ *$/) continue
            if (match(part[i], /\(\*[a-z_0-9]+\)/)) {
                field(struct, substr(part[i], RSTART + 2, RLENGTH - 3))
                continue
            }
            gsub(/\[[^]]*\]/, "", part[i])
            m = split(part[i], one, ",")
            for (j = 1; j <= m; j++) {
                name = one[j]
                sub(/ +$/, "", name)
                sub(/.*[ *]/, "", name)
                field(struct, name)
            }
        }
    }
    function field(struct, name) { printf "FIELD(%s, %s)\n", struct, name }
    kind == "" && /^(typedef )?struct [a-z_0-9]+ \{/ {
        kind = "struct"; struct = $0; body = ""
        sub(/ \{.*/, "", struct); sub(/.*struct /, "", struct)
        next
    }
    kind == "" && /^(typedef )?enum .*\{/ && !/\}/ { kind = "enum"; next }
    kind == "" && /^enum .*\{.*\}/ {
        line = $0; sub(/^[^{]*\{/, "", line); sub(/\}.*/, "", line)
        n = split(line, part, ",")
        for (i = 1; i <= n; i++) { sub(/=.*/, "", part[i]); gsub(/ /, "", part[i]); printf "VALUE(%s)\n", part[i] }
        next
    }
    /^\}/ {
        if (kind == "struct") {
            names(body, struct)
            printf "%s(%s)\n", body ~ /size_t struct_size;/ ? "LEAST" : "SIZE", struct
        }
        kind = ""
        next
    }
    kind == "struct" { body = body " " $0; next }
    kind == "enum" && /^ +TRYST_[A-Z_0-9]+( |,|$)/ { name = $1; sub(/,.*/, "", name); printf "VALUE(%s)\n", name; next }
    /^ +X\(TRYST_/ { name = $1; sub(/X\(/, "", name); sub(/,.*/, "", name); printf "VALUE(%s)\n", name; next }
    /^#define TRYST_[A-Z_0-9]+ +(UINT64|\(?[0-9])/ && !/VERSION/ { printf "VALUE(%s)\n", $2 }
    ' "$@"
}

program() { # prints the same facts from either set of headers
    cat <<'C'
#include <stddef.h>
#include <stdio.h>
C
    for header in "$frozen"/tryst/*.h; do echo "#include <tryst/${header##*/}>"; done
    cat <<'C'
#define FIELD(type, name)                                                          \
    printf("%s.%s is %zu bytes at %zu\n", #type, #name, sizeof(((struct type *)0)->name), \
           offsetof(struct type, name));
#define SIZE(type) printf("%s is %zu bytes\n", #type, sizeof(struct type));
#define LEAST(type) printf("%s is %zu bytes or longer\n", #type, sizeof(struct type));
#define VALUE(name) printf("%s is %llu\n", #name, (unsigned long long)(name));
int main(void)
{
C
    cat "$dir/layout"
    echo "return 0; }"
}

# Print the declarations of functions, one a line, independent of clang-format's line
# breaks.
declarations() {
    sed 's|/\*.*\*/||' "$@" | awk '/^TRYST_API/ { text = "" ; on = 1 } on { text = text " " $0 }
        on && /;/ { gsub(/[ \t]+/, " ", text); gsub(/\( /, "(", text); print text; on = 0 }' | sort
}

layout "$frozen"/tryst/*.h | sort -u >"$dir/layout"
found() { grep -c "$1" "$dir/layout" || true; }
if [ "$(found FIELD)" -lt 250 ] || [ "$(found VALUE)" -lt 100 ] || [ "$(found LEAST)" -lt 30 ]; then
    echo "abi: too little in $frozen: $(found FIELD) fields, $(found VALUE) values, $(found LEAST) structs that grow"
    exit 1
fi
program >"$dir/layout.c"
"$CC" -std=c11 -I"$frozen" -o "$dir/then" "$dir/layout.c" || { echo "abi: the frozen headers do not compile"; exit 1; }
"$CC" -std=c11 -I"$include" -o "$dir/now" "$dir/layout.c" || {
    echo "abi: the headers lack facts that programs of $version use (see above)"
    exit 1
}
"$dir/then" | sort >"$dir/then.txt"
"$dir/now" | sort >"$dir/now.txt"
comm -23 "$dir/then.txt" "$dir/now.txt" >"$dir/changed"
while read -r line; do
    name=${line%% *}
    now=$(grep "^$name is " "$dir/now.txt")
    case $line in
    *longer)
        size=${line#* is } size=${size%% *} grown=${now#* is } grown=${grown%% *}
        [ "$grown" -lt "$size" ] || continue
        ;;
    esac
    echo "abi: $line in programs of $version; here $now"
    fail=1
done <"$dir/changed"

declarations "$frozen"/tryst/*.h >"$dir/then.decl"
declarations "$include"/tryst/*.h >"$dir/now.decl"
[ "$(wc -l <"$dir/then.decl")" -ge 100 ] || { echo "abi: found no declarations"; exit 1; }
comm -23 "$dir/then.decl" "$dir/now.decl" >"$dir/gone"
if [ -s "$dir/gone" ]; then
    echo "abi: declarations of $version that are gone or changed:"
    cat "$dir/gone"
    fail=1
fi
[ $fail = 0 ] || echo "abi: the same version must keep these; append, or raise the version and run tests/api/abi/freeze.sh"
exit $fail
