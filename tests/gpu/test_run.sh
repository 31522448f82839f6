#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Test run.sh without a GPU: its command line, and its table over stand-ins for every
# program that it calls. Usage: test_run.sh <folder of tests/gpu>
set -u
here=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail=0

bad() { echo "run.sh: $*"; fail=1; }

# stand_in <file>: make a program with stdin as its body.
stand_in() {
    mkdir -p "$(dirname "$1")"
    { echo '#!/bin/bash'; cat; } >"$1"
    chmod +x "$1"
}

mkdir -p "$dir/tests/gpu" "$dir/build/gpu/bin/tests"
cp "$here/run.sh" "$here/torch_gpt.py" "$dir/tests/gpu/"
run=$dir/tests/gpu/run.sh
bin=$dir/build/gpu/bin

# --- the command line -------------------------------------------------------------------

"$run" --help >"$dir/out" || bad "--help fails"
grep -q 'usage: tests/gpu/run.sh' "$dir/out" || bad "--help says nothing"
"$run" sideways >/dev/null 2>&1 && status=0 || status=$?
[ "$status" -eq 2 ] || bad "an unknown part ends with $status, not 2"
if ! command -v nvidia-smi >/dev/null; then
    "$run" >"$dir/out" 2>&1 && status=0 || status=$?
    [ "$status" -eq 77 ] || bad "without a driver it ends with $status, not 77"
    grep -q 'no [a-z-]* here' "$dir/out" || bad "it does not say what is missing"
fi

# --- the table --------------------------------------------------------------------------

path=$dir/path
stand_in "$path/nvidia-smi" <<'E2'
case $* in *compute_cap*) echo 9.0 ;; *) echo "580.1, Stand-in GPU" ;; esac
E2
for tool in cmake ninja gcc g++ nvcc; do echo 'echo "stand-in, release 13.0"' | stand_in "$path/$tool"; done
stand_in "$path/ctest" <<'E2'
echo '1/2 Test #1: gpu_a .... Passed 0.1 sec'
echo '2/2 Test #2: gpu_b ....***Skipped 0.1 sec'
E2
stand_in "$path/python3" <<'E2'
case $* in *--compile*) echo "torch_gpt: not run: no compiler" >&2; exit 77 ;; esac
echo '{"tokens_per_s": 1100.0, "step_s": 1.0}'
E2
stand_in "$path/compute-sanitizer" <<'E2'
case $* in *racecheck*) echo "Device not supported"; exit 1 ;; esac
E2
stand_in "$bin/tests/gpu_copy" <<'E2'
case $LD_LIBRARY_PATH,${TRYST_MODULE_PATH:-} in */build/gpu/lib:/old,) ;; *) echo "an installed Tryst"; exit 1 ;; esac
echo '{"device_to_device": 1000.0, "host_to_device": 50.0, "device_to_host": 40.0}'
E2
stand_in "$bin/tests/gpu_kernels" <<'E2'
echo 'bench norm_forward 2.5 TB/s 3.3 TB/s'
E2
stand_in "$bin/tryst-perf" <<'E2'
echo '{"results": [{"bytes": 67108864, "bytes_per_s": 9.5e+11}]}'
E2
stand_in "$bin/pp_bench" <<'E2'
while [ $# -gt 1 ]; do [ "$1" = --json ] && json=$2; [ "$1" = -n ] && ranks=$2; shift; done
{
    echo "{\"tokens_per_s\": $((1200 - 150 * ranks)).0, \"exposed_communication_s\": 0.0${ranks},"
    for s in 900 800 700 $((ranks > 1 ? 128 : 64)) 1 $((ranks > 1 ? 256 : 65)); do echo "  \"seconds\": $s"; done
} >"$json"
E2

export LD_LIBRARY_PATH=/old TRYST_MODULE_PATH=/old # of an installed Tryst
PATH=$path:$PATH "$run" --torch >"$dir/out" 2>"$dir/err" && status=0 || status=$?
[ -s "$dir/err" ] && bad "it complains: $(cat "$dir/err")"
[ "$status" -eq 1 ] || bad "with a row that is short it ends with $status, not 1"
expect() { grep -qF -- "$1" "$dir/build/gpu-results/table.md" || bad "no row '$1'"; }
expect 'Stand-in GPU'
expect '| build, sm_90, warnings are errors |'
expect '| device tests | 1 passed | 0 failed, 1 skipped | ok |'
expect '| copy of 64 MiB, device to device | 1000.0 GB/s |  | the limit |'
expect '| two processes by key, cuda:cuda, 64 MiB | 950.0 GB/s | 1000.0 GB/s copied | ok: 0.950, wanted 0.9 |'
expect '| kernel norm_forward | 2.5 TB/s | 3.3 TB/s | ratio 0.758 |'
expect '|   beside PyTorch, eager | 1024 tokens/s | 1100.0 tokens/s | short: 0.931, wanted 1.0 |'
expect '|   beside PyTorch, compile |  |  | not run: torch_gpt: not run: no compiler |'
expect '| 1f1b on 4 ranks of one GPU, --check | 600.0 tokens/s | bitwise | ok |'
expect '| four ranks on one GPU beside one, 1f1b | 512 tokens/s | 1024 tokens/s | ratio 0.500 |'
expect '| two processes by key, host:cuda, slices of 4M | 950.0 GB/s |  |  |'
expect '| compute-sanitizer memcheck on every kernel | 0 errors |  | ok |'
expect '| compute-sanitizer racecheck |  |  | not run: this machine refuses it: Device not supported |'
grep -q ' 1 rows failed or fell short;' "$dir/out" || bad "the count of rows that fell short is wrong"

tar tzf "$dir/build/gpu-results/logs.tgz" | grep -q table.md || bad "no archive of the logs"

# Without --torch nothing is compared; a run that does not end is asked where it is.
echo 'exec sleep 60' | stand_in "$bin/pp_bench"
PATH=$path:$PATH TRYST_GPU_TRAIN_S=1 timeout 60 "$run" train >"$dir/out" 2>&1
grep -q PyTorch "$dir/build/gpu-results/table.md" && bad "it compares with PyTorch unasked"
expect '| GPT-2-small shape, bf16, one rank |  |  | failed: its time was over (1 s) |'

# A part that fails becomes a row, and the others still run.
echo 'echo "no such kernel"; exit 3' | stand_in "$bin/tests/gpu_kernels"
PATH=$path:$PATH "$run" kernels copies >"$dir/out" 2>&1
expect '| kernels |  |  | failed: no such kernel |'
expect 'cuda:cuda, 64 MiB'

# New warnings become a row too, and the build without -Werror is used.
stand_in "$path/cmake" <<'E2'
case $* in *TRYST_WERROR=ON*) echo "x.c:1:2: error: a new | warning [-Werror=new]"; echo more; exit 1 ;; esac
E2
PATH=$path:$PATH "$run" build copies >"$dir/out" 2>&1
expect '|  | failed: with warnings as errors: x.c:1:2: error: a new / warning [-Werror=new] |'
expect 'cuda:cuda, 64 MiB'
printf 'echo "CMake Error at CMakeLists.txt:4:"\necho "  CMake 3.24 or higher is required."\nexit 1\n' |
    stand_in "$path/cmake"
PATH=$path:$PATH "$run" build copies >"$dir/out" 2>&1
expect 'CMake 3.24 or higher is required. |'
grep -q 'cuda:cuda' "$dir/build/gpu-results/table.md" && bad "it goes on where nothing was built"

[ "$fail" -eq 0 ] && echo "run.sh: all well"
exit $fail
