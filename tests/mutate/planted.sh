#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mutate.sh over a project of one library and two tests: a mutation that a test sees is found; one that no test sees
# survives; blocks that do not apply or do not build, and tests that fail by themselves, are errors.
set -eu
here=$SOURCE/tests/mutate
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/src" "$dir/src/tests" "$dir/src/tests/mutate"
fail=0
cat >"$dir/src/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.24)
project(planted LANGUAGES C)
enable_testing()
add_library(sum STATIC sum.c)
foreach(name sum low broken spare)
    add_executable(t_${name} t_${name}.c)
    target_link_libraries(t_${name} sum)
    add_test(NAME ${name} COMMAND t_${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 3600)
endforeach()
TEXT
cat >"$dir/src/sum.c" <<'TEXT'
int sum(int a, int b);
int sum(int a, int b)
{
    if (a < 0)
        return 0;
    while (b-- > 0)
        a++;
    return a;
}
TEXT
echo 'int sum(int, int); int main(void) { return sum(2, 3) != 5; }' >"$dir/src/t_sum.c"
echo 'int sum(int, int); int main(void) { return sum(-1, 0) != 0; }' >"$dir/src/t_low.c"
echo 'int main(void) { return 1; }' >"$dir/src/t_broken.c"
echo 'this does not compile, and no block needs it' >"$dir/src/t_spare.c"

# block <old> <new> <tests>: append a block.
block() {
    printf 'why: %s\nfile: sum.c\nold:\n%b\nnew:\n%btests: %s\n\n' "$1" "$1" "${2:+$2\n}" "$3" >>"$list"
}

# check <description> <exit status 0 or 1> <text that is printed> <option…>
check() {
    what=$1 wanted=$2 text=$3
    shift 3
    status=0
    SOURCE="$dir/src" sh "$here/mutate.sh" --limit 2 "$@" >"$dir/said" 2>&1 || status=1
    [ "$status" = "$wanted" ] && grep -qE -- "$text" "$dir/said" && return 0
    echo "planted: $what: status $status, wanted $wanted and '$text'; mutate.sh printed:"
    cat "$dir/said"
    fail=1
}

list=$dir/src/tests/mutate/a.list
printf '# The first list\n\n' >"$list"
block '        a++;' '        a--;' sum
block '    while (b-- > 0)' '    while (b-- > -1)' sum
block '    if (a < 0)\n        return 0;' '' low
echo 3 >"$dir/src/tests/mutate/score"
check "all are found" 0 '^score: 3 of 3$'
check "a chosen block" 0 '^score: 1 of 1$' --only 'b-- >'
check "a number" 0 '^found  *a.list:3' --only 3
check "no such block" 1 'no such block' --only 9
check "all apply" 0 '^3 of 3 blocks apply$' --check
echo 4 >"$dir/src/tests/mutate/score"
check "the score may not fall" 1 'the score may only rise'
check "fewer blocks than the score" 1 'fewer blocks' --check

list=$dir/bad.list
block '    if (a < 0)' '    if (a < -1)' sum                        # 1
block '        return 1;' '        return 2;' sum                   # 2
block '    return a;' '    return c;' sum                           # 3
block '        a++;' '        a += 2;' broken                       # 4
block '        a++;' '        a += 2;' 'sum none'                   # 5
block '    while (b-- > 0)' '    while (sum(b--, 0) || 1)' 'l.w sum' # 6
block '        a++;' '        b++;' sum                             # 7
check "bad blocks" 1 '^score: 1 of 7$' --list "$list"
for line in '^SURVIVED  *bad.list:1:.*sum passes' '^does not apply  *bad.list:2:.*0 times' \
    '^does not build  *bad.list:3:' '^says nothing  *bad.list:4:.*broken does not pass' \
    '^says nothing  *bad.list:5:.*named none' '^SURVIVED  *bad.list:6:.*l.w passes' \
    '^found  *bad.list:7:.*sum by its time limit'; do
    grep -qE -- "$line" "$dir/said" || { echo "planted: no line '$line' in:"; cat "$dir/said"; fail=1; }
done
check "blocks that do not apply" 1 '^6 of 7 blocks apply$' --check --list "$list"
cmp -s "$dir/src/sum.c" "$dir/src/build/mutate/tree/sum.c" || { echo "planted: the copy stays mutated"; fail=1; }

list=$dir/malformed.list
printf 'why: no tests\nfile: sum.c\nold:\n        a++;\nnew:\n' >"$list"
check "a malformed block" 1 'has no "tests:"' --check --list "$list"
exit $fail
