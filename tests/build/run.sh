#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# ./run: which packages a word installs, where it goes on without them, and what it builds.
# A copy runs beside a planted build tree, with stubs for the package manager and cmake; the
# targets that bench builds are those of the real tree.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0
tree=$dir/build/release
mkdir -p "$dir/bin" "$dir/tests" "$tree/bin"
cp "$SOURCE/run" "$dir/run"
cp "$SOURCE/tests/skipped.awk" "$dir/tests/"
: >"$tree/build.ninja"
cat >"$tree/CTestTestfile.cmake" <<'PLANTED'
add_test(along sh -c :)
add_test(long_one sh -c :)
add_test(with_slurm sh -c :)
set_tests_properties(along PROPERTIES LABELS fast)
set_tests_properties(long_one PROPERTIES LABELS long)
set_tests_properties(with_slurm PROPERTIES LABELS "long;slurm")
PLANTED

# The programs that ./run finds: no sudo, user STUB_UID, without the packages STUB_ABSENT.
for tool in awk cat dirname grep mkdir nproc rm rmdir sed sh sort; do
    ln -s "$(command -v $tool)" "$dir/bin/$tool"
done
ln -s "${CMAKE%cmake}ctest" "$dir/bin/ctest"
stub() { # <name> <text>
    printf '#!/bin/sh\n%s\n' "$2" >"$dir/bin/$1"
    chmod +x "$dir/bin/$1"
}
# shellcheck disable=SC2016 # for the stubs' shells
{
    stub id 'echo "$STUB_UID"'
    stub dpkg-query 'for name; do :; done
        case " $STUB_ABSENT " in *" $name "*) exit 1 ;; esac; printf installed'
    stub apt-get 'echo "apt-get $*"'
    stub cmake 'echo "cmake $*"'
    stub env 'shift; exec "$@"' # DEBIAN_FRONTEND
}
# shellcheck disable=SC2016 # for the shell of the stub
printf '#!/bin/sh\necho "bench: $LD_LIBRARY_PATH"\n' >"$tree/bin/pp_bench"
chmod +x "$tree/bin/pp_bench"

# expect <status> <pattern of the output> <pattern that it lacks> <uid> <missing> <word> [arguments…]
expect() {
    status=0 wanted=$1 pattern=$2 without=$3 by=$4 lacks=$5
    shift 5
    PRESET='' JOBS='' TRYST_SKIP_DEPS='' PATH=$dir/bin LD_LIBRARY_PATH=/old STUB_UID=$by STUB_ABSENT=$lacks \
        sh "$dir/run" "$@" >"$dir/out" 2>&1 || status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -qE -e "$pattern" "$dir/out" || grep -qE -e "$without" "$dir/out"; then
        echo "run: '$*' as user $by without '$lacks' ends with $status, not $wanted, or lacks '$pattern', or has '$without':"
        cat "$dir/out"
        fail=1
    fi
}
slurm='slurmctld slurmd slurm-client munge'
expect 0 'along .*Passed' 'apt-get|long_one' 0 "$slurm" test
expect 0 'along .*Passed' 'apt-get' 0 "$slurm" test -LE long
expect 0 'along .*Passed' 'apt-get' 0 "$slurm" test -R along
expect 0 'long_one .*Passed' 'apt-get' 0 "$slurm" test -L long -R long_one
expect 0 "apt-get .*install .* $slurm\$" '^$ ^' 0 "$slurm" test -L long
expect 0 "as root: apt-get install $slurm" '^apt-get' 1000 "$slurm" test -R slurm
expect 0 'along .*Passed' '^apt-get' 1000 'spin valgrind' test
expect 1 'as root: apt-get install libucx-dev' '^cmake|apt-get .*spin$' 1000 'libucx-dev' test
expect 1 'as root: apt-get install libucx-dev' '^cmake' 1000 'libucx-dev' bench
expect 0 'cmake --build build/release -j [0-9]+$' 'target' 0 '' build
expect 0 'cmake --build build/release -j [0-9]+ --target' 'apt-get' 0 '' bench
expect 0 "^bench: $tree/lib:/old\$" 'apt-get' 0 '' bench

# bench builds pp_bench and the modules, and nothing of the tests.
targets=$(sed -n 's/.* --target //p' "$dir/out")
# shellcheck disable=SC2086 # a list of words
"$NINJA" -C "$BUILD" -t commands $targets | grep -oE -e ' -o [^ ]+' | sed 's/^ -o //' >"$dir/built"
if ! grep -qx 'bin/pp_bench' "$dir/built" || grep -E '^(bin/)?tests/' "$dir/built"; then
    echo "run: bench builds '$targets': without pp_bench, or the tests above"
    fail=1
fi
for module in "$BUILD"/lib/tryst/*.so; do
    grep -qx "lib/tryst/${module##*/}" "$dir/built" || { echo "run: bench does not build $module"; fail=1; }
done

# install builds no tests, and uninstall removes what cmake has listed and nothing else.
expect 0 'installed below /.*/prefix' 'apt-get' 0 '' install prefix
grep -q -- "-DTRYST_TESTS=OFF -DCMAKE_INSTALL_PREFIX=$dir/prefix" "$dir/build/install/configure.log" ||
    { echo "run: install does not configure for its prefix without tests"; fail=1; }
mkdir -p "$dir/prefix/lib/tryst" "$dir/prefix/include"
touch "$dir/prefix/lib/tryst/own" "$dir/prefix/include/own" "$dir/prefix/include/foreign"
printf '%s\n%s' "$dir/prefix/lib/tryst/own" "$dir/prefix/include/own" >"$dir/build/install/install_manifest.txt"
expect 1 "installed below $dir/prefix already" 'cmake' 0 '' install other
expect 0 'removed 2 files' 'failed' 0 '' uninstall
[ "$(cd "$dir" && find prefix | sort | tr '\n' ' ')" = "prefix prefix/include prefix/include/foreign " ] ||
    { echo "run: uninstall leaves $(find "$dir/prefix")"; fail=1; }
expect 1 'nothing to remove' 'removed' 0 '' uninstall
exit $fail
