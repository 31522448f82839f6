#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of the package tryst, and the virtual environment that they run in.
# usage: bindings/python/test.sh venv                make the environment TRYST_PYTHON_VENV: fetches 25 MB from PyPI
#        bindings/python/test.sh check               succeed if there are NumPy and cffi
#        bindings/python/test.sh build BUILD         make the package for the build tree BUILD, in BUILD/python/package
#        bindings/python/test.sh run BUILD RANKS TEST ARGUMENT…    run tests/TEST.py on ranks that tryst-run starts
#        bindings/python/test.sh alone BUILD TEST ARGUMENT…        run tests/TEST.py as one process
# From the environment: TRYST_PYTHON_VENV (a virtual environment; unset: the python3 of the PATH, or the system's, whichever
# has NumPy and cffi). Exit 77, with the reason: none has.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${TRYST_PYTHON_VENV:+$TRYST_PYTHON_VENV/bin/}python3
requirements='import cffi, numpy, setuptools'

venv() {
    [ -n "${TRYST_PYTHON_VENV:-}" ] || { echo "test.sh: set TRYST_PYTHON_VENV to a folder to make" >&2; exit 2; }
    python3 -m venv "$TRYST_PYTHON_VENV"
    "$python" -m pip install 'cffi>=1.15' 'numpy>=1.22' 'setuptools>=64' wheel
}

check() {
    lacks=$("$python" -c "$requirements" 2>&1) && return 0
    if [ -z "${TRYST_PYTHON_VENV:-}" ] && /usr/bin/python3 -c "$requirements" 2>/dev/null; then
        python=/usr/bin/python3
        return 0
    fi
    echo "skipped: $python lacks what the tests need (${lacks##*
}); TRYST_PYTHON_VENV=FOLDER bindings/python/test.sh venv makes an environment"
    exit 77
}

# The package, from a copy of this folder: the sources stay as they are.
build() {
    rm -rf "$1/python"
    mkdir -p "$1/python/source"
    cp -RLu "$here/." "$1/python/source"
    cd "$1/python/source"
    "$python" -W ignore setup.py -q build --build-lib ../package
}

# The variables of a test: the package, and the library of the build tree.
environment() {
    [ -d "$1/python/package/tryst" ] || { echo "skipped: the package is not built in $1"; exit 77; }
    export PYTHONPATH="$1/python/package" TRYST_LIBRARY="$1/lib/libtryst.so"
    export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
}

run() {
    environment "$1"
    launcher=$1/bin/tryst-run ranks=$2 test=$here/tests/$3.py
    shift 3
    "$launcher" -n "$ranks" "$python" "$test" "$@"
}

alone() {
    environment "$1"
    build=$1 test=$here/tests/$2.py
    shift 2
    "$python" "$test" "$build" "$@"
}

word=${1:-help}
[ $# -lt 2 ] || folder=$(cd "$2" && pwd)
case $word in
venv) venv ;;
check) check ;;
build | run | alone)
    check
    unset TRYST_PYTHON_VENV # the library warns of settings that it does not have
    shift 2
    $word "$folder" "$@"
    ;;
*)
    sed -n 's/^# usage: /usage: /p; s/^#        bindings/       bindings/p' "$0"
    exit 2
    ;;
esac
