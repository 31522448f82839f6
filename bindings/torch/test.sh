#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of tryst_torch, and the virtual environment that they run in.
# usage: bindings/torch/test.sh venv                make the environment TRYST_TORCH_VENV: fetches 2.4 GB from PyPI
#        bindings/torch/test.sh check               succeed if there is a PyTorch 2
#        bindings/torch/test.sh build BUILD         compile the package against the build tree BUILD, into BUILD/torch
#        bindings/torch/test.sh run BUILD TEST RANKS   run tests/test_TEST.py
#        bindings/torch/test.sh all BUILD           build, then run all
# From the environment: TRYST_TORCH_VENV (a virtual environment with PyTorch 2; unset: the python3 of the PATH).
# Exit 77, with the reason: no PyTorch 2 here.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${TRYST_TORCH_VENV:+$TRYST_TORCH_VENV/bin/}python3

# PyPI's wheel of torch for Linux x86_64 needs libraries of CUDA to load, also where only the CPU is used. These are
# the ones; triton and the others that it names (1.2 GB on disk) are not loaded.
torch='torch==2.15.0'
plain='filelock typing-extensions>=4.13 setuptools>=77.0.3 sympy>=1.13.3 networkx jinja2 fsspec numpy ninja'
cuda='nvidia-cuda-runtime==13.2.* nvidia-cuda-cupti==13.2.* nvidia-cuda-nvrtc==13.2.* nvidia-cusparse==12.7.*
nvidia-cufft==12.2.* nvidia-cufile==1.17.* nvidia-cublas==13.4.* nvidia-nvjitlink>=13.2,<14
nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 nvidia-cudnn-cu13==9.26.0.51 nvidia-nvshmem-cu13==3.7.2'

venv() {
    [ -n "${TRYST_TORCH_VENV:-}" ] || { echo "test.sh: set TRYST_TORCH_VENV to a folder to make" >&2; exit 2; }
    python3 -m venv "$TRYST_TORCH_VENV"
    # Patterns of versions are for pip, not for the shell.
    set -f
    # shellcheck disable=SC2086 # lists of words
    "$python" -m pip install $plain
    # shellcheck disable=SC2086
    "$python" -m pip install --no-deps $torch $cuda
    "$python" -c 'import torch; print("torch", torch.__version__)'
}

need_torch() {
    found=$("$python" -c 'import torch; print(torch.__version__)' 2>&1) || found="no torch (${found##*
})"
    case $found in
    [2-9].*) return 0 ;;
    esac
    echo "skipped: no PyTorch 2 for $python: $found; TRYST_TORCH_VENV=FOLDER bindings/torch/test.sh venv makes one"
    exit 77
}

# The package, compiled in BUILD: the sources stay as they are.
build() {
    mkdir -p "$1/torch/source"
    cp -Ru "$here/." "$1/torch/source"
    cd "$1/torch/source"
    TRYST_BUILD=$1 PATH=$(dirname "$(command -v "$python")"):$PATH "$python" setup.py -q build --build-base ../objects \
        --build-lib ../package
}

run() {
    export PYTHONPATH="$1/torch/package${PYTHONPATH:+:$PYTHONPATH}"
    [ -d "$1/torch/package/tryst_torch" ] || { echo "skipped: tryst_torch is not built in $1"; exit 77; }
    "$python" "$here/tests/test_$2.py" "$3"
}

all() {
    build "$1"
    for name in operations messages futures groups failures dump extras lost killed exit ddp; do
        for ranks in 2 4; do
            (run "$1" $name $ranks)
        done
    done
}

word=${1:-help}
[ $# -lt 2 ] || folder=$(cd "$2" && pwd)
case $word in
venv) venv ;;
check) need_torch ;;
build | all)
    need_torch
    $word "$folder"
    ;;
run)
    need_torch
    run "$folder" "$3" "$4"
    ;;
*)
    sed -n 's/^# usage: /usage: /p; s/^#        bindings/       bindings/p' "$0"
    exit 2
    ;;
esac
