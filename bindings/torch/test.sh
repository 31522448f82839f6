#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of tryst_torch, and the virtual environment that they run in.
# usage: bindings/torch/test.sh venv                make the environment TRYST_TORCH_VENV: fetches 2.4 GB from PyPI
#        bindings/torch/test.sh libraries           add accelerate, Lightning and others to it: fetches 30 MB
#        bindings/torch/test.sh check               succeed if there is a PyTorch 2
#        bindings/torch/test.sh build BUILD         compile the package against the build tree BUILD, into BUILD/torch
#        bindings/torch/test.sh device BUILD        compile the test device, over the fake CUDA driver of BUILD
#        bindings/torch/test.sh symbols BUILD       what is compiled needs no library of CUDA, and no PyTorch with CUDA
#        bindings/torch/test.sh run BUILD TEST RANKS OPTION…   run tests/test_TEST.py
#        bindings/torch/test.sh example BUILD NAME ARGUMENT…   run examples/NAME.py with 2 processes
#        bindings/torch/test.sh lab BUILD           DDP on two hosts that are network namespaces (tests/perf/sched_lab.sh)
#        bindings/torch/test.sh install BUILD tree|prefix   pip install, from the build tree or an installed library
#        bindings/torch/test.sh pytorch BUILD short|all   PyTorch's own tests of a backend (tests/pytorch)
#        bindings/torch/test.sh pytorch BUILD source CHECKOUT OPTION…   test files of a PyTorch checkout
#        bindings/torch/test.sh all BUILD           build, then run all tests
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

# Libraries that train with PyTorch. They require torch, for which pip would fetch all CUDA packages that it names, so
# what else they require is fetched by itself.
libraries='accelerate lightning pytorch-lightning pytorch-ignite torchmetrics transformers'
required='fsspec[http] huggingface-hub lightning-utilities packaging psutil pyyaml regex requests safetensors tokenizers tqdm'

libraries() {
    # shellcheck disable=SC2086 # lists of words
    "$python" -m pip install $required
    # shellcheck disable=SC2086
    "$python" -m pip install --no-deps $libraries
}

# need_torch <expression of torch's version>: an import takes seconds, so what runs a test reads the package's metadata.
imported='__import__("torch").__version__'
installed='__import__("importlib.metadata").metadata.version("torch")'
need_torch() {
    found=$("$python" -c "print($1)" 2>&1) || found="no torch (${found##*
})"
    case $found in
    [2-9].*) return 0 ;;
    esac
    echo "skipped: no PyTorch 2 for $python: $found; TRYST_TORCH_VENV=FOLDER bindings/torch/test.sh venv makes one"
    exit 77
}

# A copy of this folder in BUILD: the sources stay as they are. setup.cfg puts what is compiled into a folder that
# `build` and `install` share.
copy() {
    mkdir -p "$1/torch/$2"
    cp -RLu "$here/." "$1/torch/$2"
    printf '[build]\nbuild_base = ../objects\n' >"$1/torch/$2/setup.cfg"
    PATH=$(dirname "$(command -v "$python")"):$PATH # ninja lies beside python
}

# The package, compiled in BUILD.
build() {
    copy "$1" source
    cd "$1/torch/source"
    TRYST_BUILD=$1 "$python" setup.py -q build --build-lib ../package
}

# A device of PyTorch without a GPU (tests/device), into BUILD/torch/device.
device() {
    [ -f "$1/lib/test_cuda/libfake_cuda.so" ] || { echo "skipped: $1 has no fake CUDA driver"; exit 77; }
    copy "$1" source
    cd "$1/torch/source/tests/device"
    TRYST_BUILD=$1 "$python" setup.py -q build --build-base "$1/torch/device_objects" --build-lib "$1/torch/device"
}

install() {
    copy "$1" source
    "$python" "$here/tests/test_install.py" "$1" "$1/torch/source" "$2"
}

# The same sources and objects serve PyTorch's builds with and without CUDA.
symbols() {
    set -- "$1/lib/libtryst.so" "$1"/torch/package/tryst_torch/_C*.so
    [ -f "$2" ] || { echo "skipped: tryst_torch is not built"; exit 77; }
    for file; do
        if { nm -D --undefined-only "$file" && readelf -d "$file" | grep NEEDED; } | grep -E 'cuda|[ _]cu[A-Z]'; then
            echo "$file needs CUDA (above)"
            exit 1
        fi
    done
}

run() {
    export PYTHONPATH="$1/torch/package${PYTHONPATH:+:$PYTHONPATH}"
    [ -d "$1/torch/package/tryst_torch" ] || { echo "skipped: tryst_torch is not built in $1"; exit 77; }
    if [ "$2" = device ]; then
        export PYTHONPATH="$1/torch/device:$PYTHONPATH" TRYST_CUDA_DRIVER="$1/lib/test_cuda/libfake_cuda.so"
    fi
    export OMP_NUM_THREADS=1 # ranks.py forks: libraries may start no threads at their import
    test=$here/tests/test_$2.py
    shift 2
    "$python" "$test" "$@"
}

example() {
    script=$here/examples/$2.py
    PYTHONPATH="$1/torch/package${PYTHONPATH:+:$PYTHONPATH}"
    export PYTHONPATH OMP_NUM_THREADS=1
    shift 2
    "$python" -m torch.distributed.run --standalone --nproc-per-node=2 "$script" "$@"
}

lab() {
    tests=$here/../../tests
    SCHED_LAB_GLOO=$(command -v "$python") SCHED_LAB_TRYST=$1/torch/package SCHED_LAB_STEPS=1 SCHED_LAB_MODELS=ddp \
        SCHED_LAB_KINDS=gloo,tryst,hook:1,cross:1 \
        "$tests/perf/sched_lab.sh" "$tests/netlab/netlab.sh" "$1/bin/tryst-perf" ucx pair
}

# Short: tests that each take another path through the binding; all: the table of tests/pytorch/RESULTS.md.
short='test_all_reduce_sum test_all_gather_complex test_all_gather_coalesced_complex test_all_reduce_coalesced_max
test_batch_isend_irecv_gloo_tags test_barrier_timeout_full_group test_destroy_group
test_DistributedDataParallelCPU test_gather_object test_get_future test_isend_torch_profiler test_monitored_barrier_gloo
test_new_subgroups_with_group_param test_scatter_complex test_sparse_all_reduce_sum'

pytorch() {
    export PYTHONPATH="$1/torch/package${PYTHONPATH:+:$PYTHONPATH}"
    # shellcheck disable=SC2086 # a list of words
    case $2 in
    short) "$python" "$here/tests/pytorch/run.py" 4 $short ;;
    all) "$python" "$here/tests/pytorch/table.py" ;;
    source)
        shift 2
        export OMP_NUM_THREADS=1 # the tests are forks, and PyTorch's pool of threads does not survive a fork
        "$python" "$here/tests/pytorch/checkout_table.py" "$@"
        ;;
    *) return 2 ;;
    esac
}

all() {
    build "$1"
    for name in operations device modes messages futures groups jobs gloo failures dump extras lost killed exit ddp fsdp \
        pipelining dtensor flat random hangs late cross_barrier periods; do
        for ranks in 2 4; do
            (run "$1" $name $ranks) || [ $? -eq 77 ]
        done
    done
}

word=${1:-help}
[ $# -lt 2 ] || folder=$(cd "$2" && pwd)
case $word in
venv | libraries) $word ;;
check) need_torch "$imported" ;;
build | device | all)
    need_torch "$imported"
    $word "$folder"
    ;;
run | example | lab | install | pytorch | symbols)
    need_torch "$installed"
    unset TRYST_TORCH_VENV # the library warns of settings that it does not have
    shift 2
    $word "$folder" "$@"
    ;;
*)
    sed -n 's/^# usage: /usage: /p; s/^#        bindings/       bindings/p' "$0"
    exit 2
    ;;
esac
