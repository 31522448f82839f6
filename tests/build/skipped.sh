#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The list at the end of ./run test (tests/skipped.awk): of planted tests, those that
# skip, each with its reason, and those that leave parts out; neither those that fail nor
# those that cannot be run.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/CMakeLists.txt" <<'PLANTED'
cmake_minimum_required(VERSION 3.24)
project(planted NONE)
enable_testing()
function(planted name command)
    add_test(NAME ${name} COMMAND sh -c "${command}")
    set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()
planted(skips "echo first; echo 'skipped: no <tool> & no \"key\"'; exit 77")
planted(last_line "echo first; echo the tool is missing; exit 77")
planted(silent "exit 77")
planted(in_part "echo 'left out: namespaces'; echo 'skipped: no IPv6'; echo 'none was skipped'")
planted(passes "echo all")
planted(fails "echo 'skipped: no reason'; exit 1")
add_test(NAME absent COMMAND ./absent)
PLANTED
cat >"$dir/wanted" <<'WANTED'
in_part (in part): namespaces
in_part (in part): no IPv6
last_line: the tool is missing
silent: no word of why
skips: no <tool> & no "key"
WANTED
cd "$dir"
"$CMAKE" -S . -B build -G Ninja >log || { cat log; exit 1; }
"${CMAKE%cmake}ctest" --test-dir build --output-junit "$dir/tests.xml" --test-output-size-passed 65536 \
    >log 2>&1 || true
awk -f "$SOURCE/tests/skipped.awk" tests.xml | LC_ALL=C sort >got
diff wanted got || { cat tests.xml; exit 1; }
