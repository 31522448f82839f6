#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tryst-topo and files: each saved machine in every format, dumped and loaded back; and
# damaged files of every kind that it reads: one line that names the file and, if known,
# the line, and exit status 2.
# Usage: test_topo_files.sh <tryst-topo> <folder of machines>
set -eu
topo=$1
machines=$2
dir=$(mktemp -d)
trap 'chmod -R u+rwx "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
fail=0
bad() { echo "tryst-topo: $*"; fail=1; }

# ---- valid files -----------------------------------------------------------------------

there_and_back() { # <input>
    "$topo" --input "$1" --format json -o one.json || bad "$1 has no dump"
    "$topo" --input one.json --format json -o two.json || bad "the dump of $1 does not load"
    cmp -s one.json two.json || bad "the dump of $1 comes back as another"
}
# shows <input>: all formats, none of them empty
shows() {
    for format in text json dot svg; do
        "$topo" --input "$1" --format $format -o shown || bad "$1 as $format ends with $?"
        [ -s shown ] || bad "$1 as $format is empty"
    done
    there_and_back "$1"
}

if "$topo" >shown 2>err; then
    [ -s shown ] || bad "without an argument it prints nothing"
    [ ! -s err ] || bad "without an argument it prints $(cat err)"
    "$topo" --format json -o this.json || bad "this machine has no dump"
    there_and_back this.json
else
    grep -q 'hwloc' err || bad "without an argument it prints $(cat err)"
fi

kinds='cluster.json dump.json'
for file in "$machines"/*.xml; do
    "$topo" --input "$file" >shown 2>err && status=0 || status=$?
    [ "$status" -eq 0 ] || { grep -qE 'libxml2|libhwloc' err || bad "$file: $(cat err)"; continue; }
    shows "$file"
    case $file in
    */dgx-h100.xml) cp "$file" nccl.xml; kinds="$kinds nccl.xml" ;;
    */two-sockets.xml) cp "$file" hwloc.xml ;;
    esac
done
shows 'node:2 gpu:4 nvlink:450GB nic:2x50GB numa:2'

# ---- invalid files ---------------------------------------------------------------------

# refused <pattern> <file>: by --input
refused() {
    pattern=$1
    "$topo" --input "$2" >out 2>err && status=0 || status=$?
    [ "$status" -eq 2 ] || bad "$2 (wanted: $pattern) ends with $status, not 2"
    grep -q -- "$pattern" err || bad "$2: the error is '$(cat err)', not '$pattern'"
    [ "$(wc -l <err)" -eq 1 ] || bad "$2 (expected: $pattern): $(wc -l <err) lines of error"
    [ ! -s out ] || bad "$2 (wanted: $pattern) prints to standard output"
}

cat >cluster.json <<'END'
{"ranks": ["h0","h1"], "nodes": ["sw0"],
 "links": [{"a":"h0","b":"sw0","gbit_per_s":0.8},
           {"a":"h1","b":"sw0","gbit_per_s":0.8}]}
END
"$topo" --input cluster.json --format json -o dump.json

for kind in $kinds; do
    bytes=$(wc -c <"$kind")
    for part in 2 3 5 7; do
        head -c $((bytes / part)) "$kind" >"cut-$kind"
        refused "^tryst-topo: cut-$kind:[0-9]*:[0-9]*: " "cut-$kind"
    done
    # in the middle of the file, where no byte above 127 may be alone
    { head -c $((bytes / 2)) "$kind"; printf '\377\376'; tail -c +$((bytes / 2 + 1)) "$kind"; } >"utf8-$kind"
    refused "^tryst-topo: utf8-$kind:[0-9]*:[0-9]*: " "utf8-$kind"
    { cat "$kind"; echo '}>'; } >"more-$kind"
    refused "^tryst-topo: more-$kind:[0-9]*:[0-9]*: " "more-$kind"
done

# changed <kind> <sed> <pattern>
changed() {
    sed "$2" "$1" >changed.file
    cmp -s "$1" changed.file && bad "$2 changes nothing in $1"
    refused "^tryst-topo: changed.file:$3" changed.file
}
# listed <kind> <sed> <pattern>: the file is read, and the text has the pattern
listed() {
    sed "$2" "$1" >changed.file
    cmp -s "$1" changed.file && bad "$2 changes nothing in $1"
    "$topo" --input changed.file >out 2>err || bad "$2 in $1 ends with $?: $(cat err)"
    grep -q -- "$3" out || bad "$2 in $1: the output is '$(cat out)', not '$3'"
    [ ! -s err ] || bad "$2 in $1 prints $(cat err)"
}
changed cluster.json 's/0\.8/"fast"/' '2:[0-9]*: "gbit_per_s" must be a number'
changed cluster.json 's/0\.8/1e300/' '2:[0-9]*: "gbit_per_s" is 1e+300'
changed cluster.json 's/0\.8/1e999/' '2:[0-9]*: invalid JSON'
changed cluster.json 's/"h1"\]/"h0"]/' '1:[0-9]*: the node name "h0" is used twice'
changed cluster.json 's/\["h0","h1"\]/{"h0":1}/' '1:[0-9]*: "ranks" must be a list'
changed dump.json 's/"tryst_graph": 1/"tryst_graph": 2/' '1:[0-9]*: "tryst_graph" must be 1'
changed dump.json 's/"h1"/"h0"/' '[0-9]*:[0-9]*: the node name "h0" is used twice'
changed dump.json 's/"bytes_per_s": \[[0-9]*/"bytes_per_s": [-3/' '[0-9]*:[0-9]*: '
changed dump.json 's/"bytes_per_s": \[[0-9]*/"bytes_per_s": [1e999/' '[0-9]*:[0-9]*: '
changed dump.json 's/"bytes_per_s": \[[0-9]*/"bytes_per_s": ["much"/' '[0-9]*:[0-9]*: '
changed dump.json 's/"kind": "rank"/"kind": 7/' '3:[0-9]*: '
cat >circle.json <<'END'
{"tryst_graph": 1,
 "nodes": [{"name": "a", "kind": "machine", "parent": "b"},
           {"name": "b", "kind": "package", "parent": "a"}],
 "links": []}
END
refused '^tryst-topo: circle.json:2:[0-9]*: ' circle.json
if [ -e nccl.xml ]; then
    changed nccl.xml 's/version="1"/version="9"/' '3: <system> needs version'
    listed nccl.xml 's/dev="1"/dev="0"/' 'gpu0#2'
    listed nccl.xml 's/dev="0"/dev="99999999999999999999"/' '<gpu> in line [0-9]*: dev="9*" is not'
    listed nccl.xml 's/dev="0"/dev="first"/' '<gpu> in line [0-9]*: dev="first" is not'
fi
# hwloc must not print by itself, neither about a file that it rejects nor about a file that
# it repairs.
if [ -e hwloc.xml ]; then
    changed hwloc.xml 's/cpuset="0x[0-9a-f]*/cpuset="zz/' '1: hwloc rejects this XML'
    changed hwloc.xml 's/<object type="[A-Z][a-z]*"/<object/' '1: hwloc rejects this XML'
    head -c 4000 hwloc.xml >cut-hwloc.xml
    refused '^tryst-topo: cut-hwloc.xml:1: hwloc rejects this XML' cut-hwloc.xml
    # two cores in the wrong order
    listed hwloc.xml '/"Core" os_index="0"/,/<\/object>/{H;d};/"Core" os_index="1"/,/<\/object>/{/<\/object>/G}' '1 machine'
fi

: >empty
refused '^tryst-topo: empty:1:1: the topology is empty' empty
printf ' \n\t\n' >blank
refused '^tryst-topo: blank:1:1: the topology is empty' blank
refused '^tryst-topo: /dev/null:1:1: the topology is empty' /dev/null
printf '\000\001\002\377' >bytes
refused '^tryst-topo: bytes:1:1: ' bytes
echo '["h0", "h1"]' >list
refused '^tryst-topo: list:1:1: a cluster must be an object' list
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "[" }' >deep
refused '^tryst-topo: deep:1:[0-9]*: ' deep
mkdir folder
refused '^tryst-topo: cannot read folder: Is a directory' folder
refused '^tryst-topo: cannot open missing: No such file' missing
refused '^tryst-topo: cannot open no/such/file: No such file' no/such/file
refused "^tryst-topo: cannot open ''" ''
cp cluster.json locked
chmod 0 locked
if ! cat locked >/dev/null 2>&1; then # root can read everything
    refused '^tryst-topo: cannot open locked: Permission denied' locked
fi

# ---- invalid plans ---------------------------------------------------------------------

"$topo" plan --input cluster.json --json plan.json
unheld() { # <pattern>: of the plan changed.plan, exit status 1
    "$topo" verify changed.plan --input cluster.json >out 2>err && status=0 || status=$?
    [ "$status" -eq 1 ] || bad "a plan (wanted: $1) ends with $status, not 1"
    grep -q -- "^tryst-topo: changed.plan:$1" err || bad "a plan: the error is '$(cat err)', not '$1'"
    [ "$(wc -l <err)" -eq 1 ] || bad "a plan (expected: $1): more than one line of error"
}
head -c 200 plan.json >changed.plan
unheld '[0-9]*:[0-9]*: invalid JSON'
: >changed.plan
unheld '[0-9]*:[0-9]*: invalid JSON'
echo '[]' >changed.plan
unheld ' a plan must be an object'
sed 's/"share": 1/"share": "all"/' plan.json >changed.plan
unheld ' tree 0: "share" must be a number'
sed 's/"root": 0/"root": 99999999999999999999/' plan.json >changed.plan
unheld '[0-9]*:[0-9]*: invalid JSON: this integer needs'
sed 's/"broadcast_parent": \[-1, 0\]/"broadcast_parent": [-1, 1]/' plan.json >changed.plan
unheld ' tree 0: "broadcast_parent" has a cycle'
sed 's/"op"/"\xff"/' plan.json >changed.plan
unheld '1:[0-9]*: invalid JSON: this is not UTF-8'
"$topo" verify folder --input cluster.json 2>err && bad "a folder is a plan that holds"
grep -q '^tryst-topo: cannot read folder' err || bad "a folder as a plan: the error is $(cat err)"
exit $fail
